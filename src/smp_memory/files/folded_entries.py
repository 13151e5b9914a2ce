"""Folded entries: a memory and the changes of it as one entry, as the `markdown` layout keeps them after `smp tidy`.

    - id: DEC-0001 #3
      timestamp: 2026-01-11T14:30:05Z
      decision: Sessions last 8 hours
      history:
        - revision: 2
          at: 2026-01-12T09:00:00Z
          by: ada
          before:
            decision: Sessions last 12 hours
      smp: seq=3 uid=khmedagg / seq=9 sha256:0123456789abcdef

The fields of the entry are those that hold. `history` lists what happened to it, oldest first: a change with the values
of its fields before it (`null`: there was none), a deletion (`deleted`) or a restoration (`restored`).

Guarantees: `unfolded(folded(entries))` gives equal entries, or `folded` returns None. A change of a field's value by hand
changes the entry that set the field; all entries of the memory then count as edited.
Non-guarantees: the order of fields; a mark of a transaction (a rewrite takes it off all its parts).
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord
from smp_memory.files.codec import SIGNED, UNSIGNED
from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry
from smp_memory.model.record import same
from smp_memory.model.times import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.codec import Fields
    from smp_memory.files.field_names import FieldNames

_ENDS = {DELETE: "deleted", RESTORE: "restored"}


def folded(dialect: FieldNames, entries: list[Entry], session: str) -> Fields | None:
    """The fields of one entry that stands for these of one memory, oldest first; None if they cannot be folded."""
    if not dialect.folds or len(entries) < 2 or not _belong_together(entries):
        return None
    first = entries[0].copy()
    first.tx = ""
    first.data = now = dict(first.data)
    steps = []
    for entry in entries[1:]:
        step: Fields = {}
        if entry.op == CHANGE:
            step.update(revision=entry.revision, at=entry.at)
        else:
            step[_ENDS[entry.op]] = entry.at
        if entry.by is not None:
            step["by"] = entry.by
        if entry.op == CHANGE:
            step["before"] = dialect.encode_fields(entry.type, {name: now.get(name) for name in entry.data})
            _apply(now, entry.data)
        elif "reason" in entry.data:
            step["reason"] = entry.data["reason"]
        steps.append(step | _machine_fields(entry))
    fields = dialect.encode(first, session)
    fields["history"] = steps
    if entries[0].state != SIGNED:
        fields["hand"] = entries[0].state
    again = unfolded(dialect, fields, entries[0].type, SIGNED, "", 0, 0)
    return fields if len(again) == len(entries) and all(map(_is_equal, again, entries)) else None


def _belong_together(entries: list[Entry]) -> bool:
    first, *others = entries
    return first.op == PUT and all(
        entry.op != PUT and entry.id == first.id and entry.uid == first.uid and entry.type == first.type
        for entry in others
    )


def _machine_fields(entry: Entry) -> Fields:
    fields: Fields = {"seq": entry.seq, "schema": entry.schema}
    if entry.uids:
        fields["uids"] = entry.uids
    if entry.state != SIGNED:
        fields["hand"] = entry.state
    return fields


def _apply(data: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            data.pop(name, None)
        else:
            data[name] = value


def _is_equal(entry: Entry, other: Entry) -> bool:
    return (
        (entry.op, entry.id, entry.at, entry.by, entry.seq, entry.uid, entry.uids or None)
        == (other.op, other.id, other.at, other.by, other.seq, other.uid, other.uids or None)
        and (entry.revision, entry.schema, entry.state) == (other.revision, other.schema, other.state)
        and same(entry.data, other.data)
    )


# -- reading


def entries_of(
    dialect: FieldNames, fields: Fields, kind: str | None, state: str, file: str, line: int, last_seq: int
) -> list[Entry]:
    """The entries in the fields of one piece. Raises InvalidRecord for what a person got wrong."""
    if dialect.folds and state != UNSIGNED and _is_folded(fields):
        return unfolded(dialect, fields, kind, state, file, line, last_seq)
    return [dialect.decode(fields, kind, state, file, line, last_seq)]


def _is_folded(fields: Fields) -> bool:
    steps = fields.get("history")
    return isinstance(steps, list) and bool(steps) and "changes" not in fields and all(map(_is_step, steps))


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and ("before" in step or any(word in step for word in _ENDS.values()))


def unfolded(
    dialect: FieldNames, fields: Fields, kind: str | None, state: str, file: str, line: int, last_seq: int
) -> list[Entry]:
    """The entries that were folded, oldest first."""
    steps = fields["history"]
    shown = {name: value for name, value in fields.items() if name not in ("history", "hand")}
    first = dialect.decode(shown, kind, state, file, line, last_seq)
    _note_hand(first, fields)
    first.data = now = dict(first.data)
    found: list[Entry] = []
    for step in reversed(steps):
        entry = _step(step, first, now, dialect, state)
        found.append(entry)
    entries = [first, *reversed(found)]
    for part, entry in enumerate(entries):
        entry.part = part
        if part and not entry.seq:  # a person took the machine line apart
            entry.seq = entries[part - 1].seq
    return entries


def _step(step: Fields, first: Entry, now: dict[str, Any], dialect: FieldNames, state: str) -> Entry:
    """One step as an entry; `now` becomes what it was before it."""
    op = next((op for op, word in _ENDS.items() if word in step), CHANGE)
    at = step.get(_ENDS.get(op, "at"))
    data: dict[str, Any] = {}
    if op == CHANGE:
        if not isinstance(step["before"], dict):
            raise InvalidRecord("history: `before` must hold the fields as they were.", field="history")
        before = dialect.decode_fields(first.type, step["before"])
        data = {name: now.get(name) for name in before}
        _apply(now, before)
    elif "reason" in step:
        data = {"reason": step["reason"]}
    moment = str(at) if state == SIGNED else parse(at, "history")
    entry = Entry(op, first.type, first.id, moment, data, _integer(step, "seq"))
    entry.by, entry.uid = step.get("by"), first.uid
    entry.revision, entry.schema = _integer(step, "revision"), _integer(step, "schema")
    if isinstance(step.get("uids"), dict):
        entry.uids = {str(id): str(uid) for id, uid in step["uids"].items()}
    entry.state, entry.file, entry.line = state, first.file, first.line
    _note_hand(entry, step)
    return entry


def _note_hand(entry: Entry, fields: Fields) -> None:
    if fields.get("hand") == UNSIGNED or entry.state == SIGNED:
        entry.state = str(fields.get("hand", entry.state))


def _integer(fields: Fields, name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int else 0
