"""Folded entries: a memory and its changes as one entry, as the `markdown` layout keeps them after `smp tidy`.

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

The fields of the entry are the current ones. `history` lists its changes, oldest first: a change with the values of its fields before
it (`null`: there was none), a deletion (`deleted`) or a restoration (`restored`).

Guarantees: `unfold_entry(fold_entries(entries))` gives equal entries, or `fold_entries` returns None. A change of a field's value by
hand changes the entry that set the field; all entries of the memory then count as edited.
Non-guarantees: the order of fields; a transaction mark (a rewrite removes it from all entries of the transaction).
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

_TIME_KEYS = {DELETE: "deleted", RESTORE: "restored"}


def fold_entries(names: FieldNames, entries: list[Entry], session: str) -> Fields | None:
    """The fields of one entry that replaces these entries of one memory, oldest first; None if they cannot be folded."""
    if not names.folds or len(entries) < 2 or not _is_one_memory(entries):
        return None
    first = entries[0].copy()
    first.tx = ""
    first.data = values = dict(first.data)
    steps = []
    for entry in entries[1:]:
        step: Fields = {}
        if entry.op == CHANGE:
            step.update(revision=entry.revision, at=entry.at)
        else:
            step[_TIME_KEYS[entry.op]] = entry.at
        if entry.by is not None:
            step["by"] = entry.by
        if entry.op == CHANGE:
            step["before"] = names.encode_fields(entry.type, {name: values.get(name) for name in entry.data})
            _apply(values, entry.data)
        elif "reason" in entry.data:
            step["reason"] = entry.data["reason"]
        steps.append(step | _machine_fields(entry))
    fields = names.encode(first, session)
    fields["history"] = steps
    if entries[0].state != SIGNED:
        fields["hand"] = entries[0].state
    unfolded = unfold_entry(names, fields, entries[0].type, SIGNED, "", 0, 0)
    return fields if len(unfolded) == len(entries) and all(map(_is_equal, unfolded, entries)) else None


def _is_one_memory(entries: list[Entry]) -> bool:
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


def decode_entries(
    names: FieldNames, fields: Fields, kind: str | None, state: str, file: str, line: int, last_seq: int
) -> list[Entry]:
    """The entries in the fields of one piece. Raises InvalidRecord for an invalid hand-written one."""
    if names.folds and state != UNSIGNED and _is_folded(fields):
        return unfold_entry(names, fields, kind, state, file, line, last_seq)
    return [names.decode(fields, kind, state, file, line, last_seq)]


def _is_folded(fields: Fields) -> bool:
    steps = fields.get("history")
    return isinstance(steps, list) and bool(steps) and "changes" not in fields and all(map(_is_step, steps))


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and ("before" in step or any(word in step for word in _TIME_KEYS.values()))


def unfold_entry(
    names: FieldNames, fields: Fields, kind: str | None, state: str, file: str, line: int, last_seq: int
) -> list[Entry]:
    """The entries of a folded one, oldest first."""
    steps = fields["history"]
    current = {name: value for name, value in fields.items() if name not in ("history", "hand")}
    first = names.decode(current, kind, state, file, line, last_seq)
    _restore_state(first, fields)
    first.data = values = dict(first.data)
    later: list[Entry] = []
    for step in reversed(steps):
        entry = _step(step, first, values, names, state)
        later.append(entry)
    entries = [first, *reversed(later)]
    for part, entry in enumerate(entries):
        entry.part = part
        if part and not entry.seq:  # a person changed the machine line
            entry.seq = entries[part - 1].seq
    return entries


def _step(step: Fields, first: Entry, values: dict[str, Any], names: FieldNames, state: str) -> Entry:
    """One step as an entry; `values` becomes what it was before the step."""
    op = next((op for op, word in _TIME_KEYS.items() if word in step), CHANGE)
    at = step.get(_TIME_KEYS.get(op, "at"))
    data: dict[str, Any] = {}
    if op == CHANGE:
        if not isinstance(step["before"], dict):
            raise InvalidRecord("history: `before` must be a mapping of the fields before the change.", field="history")
        before = names.decode_fields(first.type, step["before"])
        data = {name: values.get(name) for name in before}
        _apply(values, before)
    elif "reason" in step:
        data = {"reason": step["reason"]}
    moment = str(at) if state == SIGNED else parse(at, "history")
    entry = Entry(op, first.type, first.id, moment, data, _integer(step, "seq"))
    entry.by, entry.uid = step.get("by"), first.uid
    entry.revision, entry.schema = _integer(step, "revision"), _integer(step, "schema")
    if isinstance(step.get("uids"), dict):
        entry.uids = {str(id): str(uid) for id, uid in step["uids"].items()}
    entry.state, entry.file, entry.line = state, first.file, first.line
    _restore_state(entry, step)
    return entry


def _restore_state(entry: Entry, fields: Fields) -> None:
    if fields.get("hand") == UNSIGNED or entry.state == SIGNED:
        entry.state = str(fields.get("hand", entry.state))


def _integer(fields: Fields, name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int else 0
