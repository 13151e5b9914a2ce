"""Carry a session from one store to another through the ports: create it there as a whole, or append the entries that are missing.

Guarantees: entries keep their times, revisions and uids, and their numbers unless another entry has the number there; memories in cold storage stay there with when and why. A session is
created completely or not at all. Entries that are there already are not appended again, also if two processes send at once. What was written is
read back and compared.
Non-guarantees: nothing here removes or replaces an entry; who may write is decided by the caller.

`compare` compares two copies of a session entry by entry: what one lacks, what was erased, what contradicts. An entry is known by its *line*: all of it in JSON with sorted names, whatever the backend and the layout that hold it, but for its number,
which a copy may not have free. Equal lines are the same entry, so nothing is sent twice. An entry that only the copy has contradicts the writing side, unless the audit log there says that the
memory was erased, purged or redacted after the entry was written: then what the copy has of the memory is to be replaced.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.exchange.export import entries_of, exported_session
from smp_memory.model.entry import PUT
from smp_memory.model.history import COLD, after
from smp_memory.model.ids import check, parts_of, sha256_hex
from smp_memory.model.rewrite_plan import RewritePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from smp_memory.errors import SMPError
    from smp_memory.exchange.file_format import Exported
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator
    from smp_memory.store.port import Admit, SessionStore, Store


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_CHECKSUM_CHARACTERS = 16


class MemoryConflict(NamedTuple):
    """A memory whose entries differ in the two copies. Both stay as they are."""

    id: str
    revision: int | None  # on the writing side; None: the memory is not there
    copy_revision: int

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class Difference(NamedTuple):
    """What a copy lacks or has besides the writing side."""

    erased: list[str]  # memories to be erased in the copy, before anything is sent
    missing: list[Entry]  # entries that the copy then lacks, in the order of writing
    conflicts: list[MemoryConflict]


def line_of(entry: Entry) -> str:
    """The entry as text that is the same in every backend. Marks of transactions are left out: all of them are complete."""
    return _encode(
        [
            *(entry.id, entry.op, entry.type, entry.at, entry.by, entry.revision),
            *(entry.uid, entry.uids or None, entry.schema, entry.data),
        ]
    )


def lines_of(entries: Iterable[Entry]) -> list[str]:
    return [line_of(entry) for entry in entries]


def checksum_of(entry: Entry) -> str:
    return "sha256:" + sha256_hex(line_of(entry).encode("utf-8", "surrogatepass"))[:_CHECKSUM_CHARACTERS]


def compare(entries: list[Entry], copied: list[Entry], erasures: Mapping[str, str]) -> Difference:
    """Compare the entries of the writing side with those of a copy; `erasures`: when content of memories was removed there, by id."""
    foreign: dict[str, list[Entry]] = {}
    for entry in without(copied, entries):
        foreign.setdefault(entry.id, []).append(entry)
    erased = {
        id
        for id, found in foreign.items()
        if id in erasures and not any(after(each.at, erasures[id]) for each in found)
    }
    missing = without(entries, [entry for entry in copied if entry.id not in erased])
    revisions, copied_revisions = _revisions(entries), _revisions(copied)
    conflicts = [MemoryConflict(id, revisions.get(id), copied_revisions[id]) for id in foreign if id not in erased]
    return Difference([id for id in foreign if id in erased], missing, conflicts)


def without(entries: Iterable[Entry], others: Iterable[Entry]) -> list[Entry]:
    """The entries that are not among others. Of equal ones, such as two deletions at one time, as many are left as there are more."""
    known, left = Counter(lines_of(others)), []
    for entry in entries:
        line = line_of(entry)
        if known[line]:
            known[line] -= 1
        else:
            left.append(entry)
    return left


def _revisions(entries: list[Entry]) -> dict[str, int]:
    """The revision of each memory."""
    found: dict[str, int] = {}
    for entry in entries:
        found[entry.id] = max(found.get(entry.id, 1), entry.revision)
    return found


def erasures_in(audit: Iterable[Mapping[str, Any]], session: str) -> dict[str, str]:
    """When content of memories of a session was last removed for good, by id, as an audit log says."""
    found: dict[str, str] = {}
    for line in audit:
        is_removal = line.get("action") in ("erase", "purge") or (line.get("action") == "redact" and line.get("stored"))
        if is_removal and line.get("session") == session:
            found.update(dict.fromkeys(line.get("ids", ()), str(line.get("at", ""))))
    return found


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
