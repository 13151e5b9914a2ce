"""Entries as the fields of a file and back: the names that a layout writes, and folded entries.

Each of the original designs has its own names. On reading, the names of every design are understood, so that files written by hand or by
an older tool are read too. A *folded entry* is a memory and its changes as one, as the `markdown` layout keeps them after `smp tidy`:

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

Its fields are the current ones. `history` lists its changes, oldest first: a change with the values of its fields before it (`null`:
there was none), a deletion (`deleted`) or a restoration (`restored`).

Guarantees: `decode(encode(entry))` gives an equal entry, whatever its fields are called: a field whose name the layout reserves is
written inside `extra`. `unfold_entry(fold_entries(entries))` gives equal entries, or `fold_entries` returns None. A change of a field's
value by hand changes the entry that set the field; all entries of the memory then count as edited.
Non-guarantees: the order of fields; a transaction mark (a rewrite removes it from all entries of the transaction).
"""

from __future__ import annotations

from datetime import datetime

from smp_memory.errors import InvalidRecord
from smp_memory.files.codec import SIGNED, UNSIGNED
from smp_memory.model import ids
from smp_memory.model.design_fields import RELATED, translate_fields, unwrap_fields
from smp_memory.model.entry import CHANGE, DELETE, LARGEST_NUMBER, PUT, RESTORE, Entry, check_fields, text
from smp_memory.model.record import same
from smp_memory.model.times import parse
from smp_memory.model.types import COMMON_ALIASES, KINDS, SCHEMA, PerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.files.codec import Fields
    from smp_memory.model.types import Kind

UID_LIMIT = 32
fromisoformat = datetime.fromisoformat
_ID_LIMIT = ids.LIMIT + 8
_FACTS = frozenset(
    ("created", "type", "session", "updated")
)  # of a record, which a change cannot turn into anything else
_MARK_LIMIT = 40  # characters of the mark of a transaction
_TIME_LENGTHS = (len("2026-01-31T14:30:00Z"), len("2026-01-31T14:30:00.123456Z"))
_ENTRY_FIELDS = frozenset(
    ["id", "seq", "tx", "type", "session_id", "uid", "uids", "schema", "revision", "updated", "updated_by", "changes"]
)
_RESERVED = _ENTRY_FIELDS | {"deleted", "deleted_by", "restored", "restored_by", "reason", "checksum", "extra"}
_WORDS = {DELETE: "deleted", RESTORE: "restored"}
_TOMBSTONE = {"id", "reason", "session_id", "seq", "schema", "deleted", "deleted_by", "by", "timestamp", "ts"}


class FieldNames:
    """The names of one layout."""

    def __init__(
        self,
        *,
        time: str,
        names: dict[str, dict[str, str]],
        nest: str = "",
        outside: tuple[str, ...] = (),
        writes_type: bool = False,
        writes_session: bool = False,
        folds: bool = False,
        text: str = "",
    ) -> None:
        """`names`: names in the file by ours, for a type or `*`; `text`: the name of every type's text field."""
        self.time = time
        self.nest = nest  # the name of the inner object that holds a memory's fields, if any
        self.outside = frozenset(outside)  # fields that stay outside of it
        self.writes_type = writes_type
        self.writes_session = writes_session
        self.folds = folds  # whether changes can be folded into their entry
        reserved = _RESERVED | {"smp", "history", "hand"} if folds else _RESERVED
        to_file = self._to_file = PerKind(
            lambda kind: {**names.get("*", {}), **({kind.text: text} if text else {}), **names.get(kind.name, {})}
        )
        self._from_file = PerKind(
            lambda kind: {**{in_file: name for name, in_file in to_file[kind.name].items()}, time: "created"}
        )
        all_reserved = self._reserved = PerKind(
            lambda kind: reserved | kind.aliases.keys() | {time, *to_file[kind.name].values()} | ({nest} - {""})
        )
        self._reserved_in_changes = PerKind(lambda kind: all_reserved[kind.name] - {"id"})
        self._reserved_inside = PerKind(lambda kind: all_reserved[kind.name] - {nest})

    # -- to the file

    def encode(self, entry: Entry, session: str) -> Fields:
        fields: Fields = {"id": entry.id, "seq": entry.seq}
        if self.writes_session:
            fields["session_id"] = session
        if self.writes_type:
            fields["type"] = entry.type
        if entry.tx:
            fields["tx"] = entry.tx
        if entry.op == PUT:
            fields[self.time] = entry.at
            if self.nest:
                self._add_nested(fields, entry.type, entry.data)
            else:
                self._add_renamed(fields, entry.type, entry.data, self._reserved[entry.type])
            if entry.uid:
                fields["uid"] = entry.uid
            if entry.uids:
                fields["uids"] = entry.uids
            fields["schema"] = entry.schema
            return fields
        if entry.op == CHANGE:
            fields["revision"] = entry.revision
            fields["updated"], fields["updated_by"] = entry.at, entry.by
            fields["changes"] = self.encode_fields(entry.type, entry.data)
        else:
            word = _WORDS[entry.op]
            fields[word], fields[word + "_by"] = entry.at, entry.by
            fields.update(entry.data)
        fields["uid"], fields["uids"] = entry.uid or None, entry.uids or None
        fields["schema"] = entry.schema
        return {name: value for name, value in fields.items() if value is not None or name == "changes"}

    def encode_fields(self, kind: str, data: dict[str, Any]) -> Fields:
        """Some fields of a memory under the names of the file."""
        fields: Fields = {}
        self._add_renamed(fields, kind, data, self._reserved_in_changes[kind])
        return fields

    def decode_fields(self, kind: str, fields: Fields) -> dict[str, Any]:
        return self._renamed(fields, kind)

    def _add_nested(self, fields: Fields, kind: str, data: dict[str, Any]) -> None:
        inner = fields[self.nest] = {}
        outside = {name: value for name, value in data.items() if name in self.outside}
        nested = {name: value for name, value in data.items() if name not in outside} if outside else data
        self._add_renamed(inner, kind, nested, self._reserved_inside[kind])
        self._add_renamed(fields, kind, outside, self._reserved[kind])

    def _add_renamed(
        self, fields: Fields, kind: str, data: dict[str, Any], reserved: frozenset[str] | set[str]
    ) -> None:
        renamed = self._to_file[kind]
        extra: Fields = {}
        for name, value in data.items():
            in_file = renamed.get(name)
            if in_file is not None:
                fields[in_file] = value
            elif name in reserved:
                extra[name] = value
            else:
                fields[name] = value
        if extra:
            fields["extra"] = extra

    # -- from the file

    def decode(self, fields: Fields, kind_hint: str | None, state: str, file: str, line: int, last_seq: int) -> Entry:
        """The entry in these fields. Raises InvalidRecord that names what is wrong with it, whatever its checksum.

        A new memory that a person wrote may have no id and no time: `Entry.lacks` names what is missing, and the reader assigns it.
        """
        kind_name = kind_hint or str(fields.get("type", ""))
        if kind_name not in KINDS:
            if not _is_bare_deletion(fields):
                raise InvalidRecord(f"type: {kind_name[:80]!r} is not a type of memory.", field="type")
            kind_name = "conversation"  # tombstones of designs 000 and 004 have no type; the memory itself has it
            fields = {"deleted": True, **fields}
        memory_id, seq, uid, schema = fields.get("id"), fields.get("seq"), fields.get("uid"), fields.get("schema")
        op, at, by, data = self._parts(fields, kind_name)
        lacks: tuple[str, ...] = ()
        if state != SIGNED and op == PUT:
            lacks = tuple(name for name, value in (("id", memory_id), ("time", at)) if value is None or value == "")
            if lacks and state != UNSIGNED:  # SMP wrote it with both, so it is damaged, not a new memory
                raise InvalidRecord(
                    f"{lacks[0]}: missing in an entry with a checksum. Write it again, or remove the checksum if the "
                    "entry is new.",
                    field=lacks[0],
                )
            data = _translated(kind_name, data, memory_id)
        _check(op, kind_name, data)
        entry = Entry(
            op,
            kind_name,
            "" if lacks and "id" in lacks else ids.check(memory_id, "id", _ID_LIMIT),
            "" if lacks and "time" in lacks else _time(at, self.time),
            data,
            seq if type(seq) is int and 0 <= seq <= LARGEST_NUMBER else last_seq,
            uid=_uid(uid) if uid else "",
            schema=SCHEMA if schema == SCHEMA else _integer(schema),
            state=state,
            file=file,
            line=line,
        )
        if lacks:
            entry.lacks = lacks
        if op != PUT:
            entry.by = by if by is None else text("by", by)
            entry.revision = _integer(fields.get("revision"))
        if "tx" in fields:
            entry.tx = _transaction(fields["tx"])
        if "uids" in fields and isinstance(fields["uids"], dict):
            entry.uids = {id: _uid(uid) for id, uid in fields["uids"].items()}
        return entry

    def _parts(self, fields: Fields, kind: str) -> tuple[str, Any, Any, dict[str, Any]]:
        if "changes" in fields and isinstance(fields["changes"], dict):
            return CHANGE, fields.get("updated"), fields.get("updated_by"), self._renamed(fields["changes"], kind)
        for op, word in _WORDS.items() if "deleted" in fields or "restored" in fields else ():
            if fields.get(word):
                at = fields[word] if isinstance(fields[word], str) else self._time_in(fields)
                reason = fields.get("reason")
                return op, at, fields.get(word + "_by"), {} if reason is None else {"reason": reason}
        if self.nest:
            from_file = self._from_file[kind]
            outer = {name: value for name, value in fields.items() if name not in _ENTRY_FIELDS or name in from_file}
            data = self._renamed(self._unnested(outer), kind)
        else:
            data = self._renamed(fields, kind, _ENTRY_FIELDS)
        at = data.pop("created", None)
        return PUT, at, None, data

    def _time_in(self, fields: Fields) -> Any:
        names = (name for name in fields if name == self.time or COMMON_ALIASES.get(name) == "created")
        return next((fields[name] for name in names), None)

    def _unnested(self, fields: Fields) -> Fields:
        inner = fields.get(self.nest)
        if not isinstance(inner, dict):
            return fields
        outer = {name: value for name, value in fields.items() if name != self.nest}
        extras = [part["extra"] for part in (inner, outer) if isinstance(part.get("extra"), dict)]
        merged = {**inner, **outer}
        if extras:
            merged["extra"] = {name: value for extra in extras for name, value in extra.items()}
        return merged

    def _renamed(self, fields: Fields, kind: str, skipped: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The fields under SMP's names: first the names of this layout are replaced, then those of any other design."""
        from_file, aliases = self._from_file[kind], KINDS[kind].aliases
        data: dict[str, Any] = {}
        for name, value in fields.items():
            if name in from_file:
                data[from_file[name]] = value
            elif name in aliases:
                ours = aliases[name]
                data[name if ours in fields or ours in data else ours] = value
            elif name not in skipped:
                data[name] = value
        if "extra" in fields and isinstance(fields["extra"], dict):
            del data["extra"]
            data.update(fields["extra"])
        return data


def _is_bare_deletion(fields: Fields) -> bool:
    """Whether this is a tombstone without a type: `{"id": …, "deleted": true, "ts": …}` or `{"id": …, "timestamp": …, "reason": …}`."""
    return "type" not in fields and bool(fields.get("deleted") or "reason" in fields) and fields.keys() <= _TOMBSTONE


def _check(op: str, kind_name: str, data: dict[str, Any]) -> None:
    """Check the fields of an entry, whatever its checksum; raises InvalidRecord. All code behind it relies on the result."""
    check_fields(kind_name, data)
    if op == PUT:
        kind = KINDS[kind_name]
        if not data.get(kind.text) and not any(
            data.get(name) not in (None, "") for group in kind.required for name in group
        ):
            raise InvalidRecord(f"{kind.text}: required for a {kind.name}.", field=kind.text)
    elif op == CHANGE:
        for name in _FACTS.intersection(data):
            data[name] = _time(data[name], name) if name == "created" else text(name, data[name])
    elif "reason" in data:
        data["reason"] = text("reason", data["reason"])


def _time(value: object, field: str) -> str:
    """The canonical text of a time; SMP writes no other, so that most need no parsing but the check."""
    if type(value) is str and len(value) in _TIME_LENGTHS and value[-1] == "Z":
        try:
            fromisoformat(value)
            return value
        except ValueError:
            pass
    return parse(value, field)


def _transaction(value: object) -> str:
    mark = value if type(value) is str else str(value) if type(value) is int else ""
    return mark if len(mark) <= _MARK_LIMIT else ""


def _uid(value: object) -> str:
    return value if type(value) is str and len(value) <= UID_LIMIT and (value.isalnum() or not value) else ""


def _integer(value: object) -> int:
    return value if type(value) is int and 0 <= value <= LARGEST_NUMBER else 0


def _unwrapped(kind: Kind, data: dict[str, Any]) -> Mapping[str, Any]:
    found = unwrap_fields(kind, data)
    return data if found is data else {kind.aliases.get(name, name): value for name, value in found.items()}


def _translated(kind: str, data: dict[str, Any], id: Any) -> dict[str, Any]:
    """The fields of a new memory that SMP did not write, with those of the designs in SMP's form."""
    given = {**data, "id": id} if RELATED in data else data
    found = dict(translate_fields(KINDS[kind], _unwrapped(KINDS[kind], given)))
    if RELATED in data:
        found.pop("id", None)
    if isinstance(found.get("references"), str):
        found["references"] = [found["references"]]
    return found


# -- folded entries


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
            step[_WORDS[entry.op]] = entry.at
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
    """The entries in the fields of one piece. Raises InvalidRecord for one with a value that SMP cannot use."""
    if names.folds and state != UNSIGNED and _is_folded(fields):
        return unfold_entry(names, fields, kind, state, file, line, last_seq)
    return [names.decode(fields, kind, state, file, line, last_seq)]


def _is_folded(fields: Fields) -> bool:
    steps = fields.get("history")
    return isinstance(steps, list) and bool(steps) and "changes" not in fields and all(map(_is_step, steps))


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and ("before" in step or any(word in step for word in _WORDS.values()))


def unfold_entry(
    names: FieldNames, fields: Fields, kind: str | None, state: str, file: str, line: int, last_seq: int
) -> list[Entry]:
    """The entries of a folded one, oldest first."""
    steps = fields["history"]
    current = {name: value for name, value in fields.items() if name not in ("history", "hand")}
    first = names.decode(current, kind, state, file, line, last_seq)
    _restore_state(first, fields)
    first.data = values = dict(first.data)
    later = [_step(step, first, values, names, state) for step in reversed(steps)]
    entries = [first, *reversed(later)]
    for part, entry in enumerate(entries):
        _check(entry.op, entry.type, entry.data)
        entry.part = part
        if part and not entry.seq:  # a person changed the machine line
            entry.seq = entries[part - 1].seq
    return entries


def _step(step: Fields, first: Entry, values: dict[str, Any], names: FieldNames, state: str) -> Entry:
    """One step as an entry; `values` becomes what it was before the step."""
    op = next((op for op, word in _WORDS.items() if word in step), CHANGE)
    at = step.get(_WORDS.get(op, "at"))
    data: dict[str, Any] = {}
    if op == CHANGE:
        if not isinstance(step["before"], dict):
            raise InvalidRecord("history: `before` must be a mapping of the fields before the change.", field="history")
        before = names.decode_fields(first.type, step["before"])
        data = {name: values.get(name) for name in before}
        _apply(values, before)
    elif "reason" in step:
        data = {"reason": step["reason"]}
    entry = Entry(op, first.type, first.id, _time(at, "history"), data, _integer(step.get("seq")))
    by = step.get("by")
    entry.by, entry.uid = None if by is None else text("by", by), first.uid
    entry.revision, entry.schema = _integer(step.get("revision")), _integer(step.get("schema"))
    if isinstance(step.get("uids"), dict):
        entry.uids = {id: _uid(uid) for id, uid in step["uids"].items()}
    entry.state, entry.file, entry.line = state, first.file, first.line
    _restore_state(entry, step)
    return entry


def _restore_state(entry: Entry, fields: Fields) -> None:
    if fields.get("hand") == UNSIGNED or entry.state == SIGNED:
        entry.state = str(fields.get("hand", entry.state))
