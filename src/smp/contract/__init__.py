"""Does a store keep its promises? The contract that every layout and every backend must pass, to be run by pytest.

    class TestMine(StoreContract):
        def open_store(self, **options):                     # the same store each time within one test
            return smp.open(self.folder, layout="mine", **options)

Guarantees: it needs no pytest fixture and no network, moves time only by its own clock, and closes what it opened.
Non-guarantees: crashes, many processes and files that people edited are other tests' business.
"""

from __future__ import annotations

from smp.contract.changing import ChangingContract
from smp.contract.content import ContentContract
from smp.contract.finding import FindingContract
from smp.contract.forgetting import ForgettingContract
from smp.contract.keeping import KeepingContract
from smp.contract.reading import ReadingContract
from smp.contract.sessions import SessionsContract
from smp.contract.writing import WritingContract

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
