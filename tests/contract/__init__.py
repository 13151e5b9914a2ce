"""The store contract: tests that every backend and every layout must pass, to be run by pytest.

    class TestMine(StoreContract):
        def open_store(self, **options):                     # the same store each time within one test
            return smp_memory.open(self.folder, layout="mine", **options)

Guarantees: it needs no pytest fixture and no network, moves time only by its own clock, and closes what it opened.
Non-guarantees: it does not test crashes, several processes or files edited by hand.
"""

from __future__ import annotations

from tests.contract.changes import ChangesContract
from tests.contract.content import ContentContract
from tests.contract.echoes import EchoesContract
from tests.contract.layouts import LayoutsContract
from tests.contract.lifecycle import ArchivesContract, DeletionContract
from tests.contract.reading import ReadingContract, SearchContract
from tests.contract.sessions import SessionsContract
from tests.contract.transactions import TransactionsContract
from tests.contract.writing import WritingContract

__all__ = ["BackendContract", "StoreContract"]


class BackendContract(
    WritingContract,
    TransactionsContract,
    ChangesContract,
    ContentContract,
    ReadingContract,
    SearchContract,
    EchoesContract,
    DeletionContract,
    ArchivesContract,
    SessionsContract,
):
    """The contract of every backend. Derive a class whose name starts with `Test` and implement `open_store`."""


class StoreContract(BackendContract, LayoutsContract):
    """The contract of a store in files: that of every backend, and that of its layouts."""
