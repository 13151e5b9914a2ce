"""The store contract: tests that every layout and every backend must pass, to be run by pytest.

    class TestMine(StoreContract):
        def open_store(self, **options):                     # the same store each time within one test
            return smp_memory.open(self.folder, layout="mine", **options)

Guarantees: it needs no pytest fixture and no network, moves time only by its own clock, and closes what it opened.
Non-guarantees: it does not test crashes, several processes or files edited by hand.
"""

from __future__ import annotations

from smp_memory.testing.contract.archives import ArchivesContract
from smp_memory.testing.contract.changes import ChangesContract
from smp_memory.testing.contract.content import ContentContract
from smp_memory.testing.contract.deletion import DeletionContract
from smp_memory.testing.contract.reading import ReadingContract
from smp_memory.testing.contract.search import SearchContract
from smp_memory.testing.contract.sessions import SessionsContract
from smp_memory.testing.contract.transactions import TransactionsContract
from smp_memory.testing.contract.writing import WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    TransactionsContract,
    ChangesContract,
    ContentContract,
    ReadingContract,
    SearchContract,
    DeletionContract,
    ArchivesContract,
    SessionsContract,
):
    """The whole contract. Derive a class whose name starts with `Test` and implement `open_store`."""
