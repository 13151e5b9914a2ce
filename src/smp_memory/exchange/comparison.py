"""Compare two copies of a session entry by entry: what one lacks, what was erased, what contradicts. Pure.

An entry is known by its *line*: all of it in JSON with sorted names, whatever the backend and the layout that hold it, but for its number,
which a copy may not have free. Equal lines are the same entry, so nothing is sent twice. An entry that only the copy has contradicts the writing side, unless the audit log there says that the
memory was erased, purged or redacted after the entry was written: then what the copy has of the memory is to be replaced.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.history import after
from smp_memory.model.ids import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from smp_memory.model.entry import Entry

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
