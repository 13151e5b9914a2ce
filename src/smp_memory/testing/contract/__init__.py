"""Does a store keep its promises? The contract that every layout and every backend must pass, to be run by pytest.

    class TestMine(StoreContract):
        def open_store(self, **options):                     # the same store each time within one test
            return smp_memory.open(self.folder, layout="mine", **options)

Guarantees: it needs no pytest fixture and no network, moves time only by its own clock, and closes what it opened.
Non-guarantees: crashes, many processes and files that people edited are other tests' business.
"""

from __future__ import annotations

from smp_memory.testing.contract.archives import KeepingContract
from smp_memory.testing.contract.changes import ChangingContract
from smp_memory.testing.contract.content import ContentContract
from smp_memory.testing.contract.deletion import ForgettingContract
from smp_memory.testing.contract.reading import ReadingContract
from smp_memory.testing.contract.search import FindingContract
from smp_memory.testing.contract.sessions import SessionsContract
from smp_memory.testing.contract.writing import WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    ChangingContract,
    ContentContract,
    ReadingContract,
    FindingContract,
    ForgettingContract,
    KeepingContract,
    SessionsContract,
):
    """All of it. Derive a class whose name starts with Test and say how a store is opened."""
