"""Carry a session from one store to another through the ports: create it there as a whole, or append the entries that are missing.

Guarantees: entries keep their times, revisions and uids, and their numbers unless another entry has the number there; memories in cold storage stay there with when and why. A session is
created completely or not at all. Entries that are there already are not appended again, also if two processes send at once. What was written is
read back and compared.
Non-guarantees: nothing here removes or replaces an entry; who may write is decided by the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import StorageCorrupt
from smp_memory.exchange.comparison import line_of, lines_of, without
from smp_memory.exchange.export import entries_of, exported_session
from smp_memory.model.entry import PUT
from smp_memory.model.history import COLD
from smp_memory.model.ids import check, parts_of, sha256_hex
from smp_memory.model.rewrite_plan import RewritePlan

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.errors import SMPError
    from smp_memory.exchange.file_format import Exported
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator
    from smp_memory.store.port import Admit, SessionStore, Store

UNLIMITED_BYTES = 1 << 62  # the quota of a session that is moved as it is


def read_session(storage: SessionStore) -> Exported:
    """All of a session, ready to be created elsewhere. Raises SessionCorrupt if something of it cannot be read."""
    carried = exported_session(storage)
    info = carried.info
    check(info.id, "session")  # it becomes the name of files
    if not info.uid:  # files of a person or of another program; the same at every call
        first = line_of(carried.entries[0]) if carried.entries else ""
        info.uid = sha256_hex(f"{info.id} {info.created_text} {first}".encode("utf-8", "surrogatepass"))[:16]
    info.generation = max(info.generation, 1)  # so that the metadata keeps the counters
    info.incomplete, info.figures = [], {}  # of the files that it was read from
    return carried


def create_copy(store: Store, carried: Exported, quota_bytes: int, written: datetime | None = None) -> None:
    """Create the session in a store and compare it with what was to be written."""
    storage = store.create(carried.info, carried.entries, quota_bytes, cold=carried.cold, written=written)
    check_equal(carried, read_session(storage), store.root)


def check_equal(carried: Exported, found: Exported, address: str) -> None:
    """Raise StorageCorrupt if a copy is not equal: entries, cold memories, metadata, and numbers that must not be given out again."""
    info, twin = carried.info, found.info
    if (
        lines_of(carried.entries) != lines_of(found.entries)
        or [entry.seq for entry in carried.entries] != [entry.seq for entry in found.entries]
        or (carried.cold, info.uid, info.to_dict()) != (found.cold, twin.uid, twin.to_dict())
        or info.seq > twin.seq
        or any(number > twin.numbers.get(prefix, 0) for prefix, number in info.numbers.items())
    ):
        raise StorageCorrupt(
            f"Session {info.id} did not read back equal from {address}.", session=info.id, path=address
        )


def append_entries(storage: SessionStore, missing: list[Entry], now: str) -> None:
    """Append entries to a session; memories that they change are moved back from its cold segment first."""
    ids = {entry.id for entry in missing if entry.op != PUT}
    cold = [id for id in storage.history(ids, segment=COLD).histories if id in ids] if ids else []
    if cold:
        storage.rewrite(RewritePlan("copying entries", now, from_cold=cold))
    if missing:
        storage.commit(SentEntries(missing))


class SentEntries:
    """A batch of entries that have their numbers and ids already."""

    operation_name = "copying entries"
    atomic = False
    needs_histories = True
    is_maintenance = True

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.read_version = -1
        self.error: SMPError | None = None

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        histories = allocator.session_history.histories if allocator.session_history else {}
        numbers = {entry.seq for each in histories.values() for entry in each.entries}
        new = [entry.copy() for entry in without(self.entries, entries_of(histories))]
        for entry in new:
            if entry.seq in numbers:
                entry.seq = allocator.next_seq()
            prefix, number = parts_of(entry.id)
            allocator.raise_to(entry.seq, {prefix: number} if number else {})
        return new

    def check_room(self, admit: Admit, used_bytes: int, new_bytes: int) -> None:
        admit(used_bytes, new_bytes)
