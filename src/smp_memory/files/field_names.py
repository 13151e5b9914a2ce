"""The names under which a layout writes the fields of an entry. Each of the original designs has its own.

Guarantees: `decode(encode(entry))` gives an equal entry, whatever its fields are called: a field whose name the layout reserves is
written inside `extra`. On reading, the names of every design are understood, so that files written by hand or by an older tool are
read too.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord
from smp_memory.model import ids
from smp_memory.model.design_fields import translate_fields
from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry
from smp_memory.model.times import parse
from smp_memory.model.types import COMMON_ALIASES, KINDS, PerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.codec import Fields

UID_LIMIT = 32
LARGEST_NUMBER = 10**12  # of an entry; a larger one is damage
_ENTRY_FIELDS = frozenset(
    ["id", "seq", "tx", "type", "session_id", "uid", "uids", "schema", "revision", "updated", "updated_by", "changes"]
)
_RESERVED = _ENTRY_FIELDS | {"deleted", "deleted_by", "restored", "restored_by", "reason", "checksum", "extra"}
_TIME_KEYS = (("deleted", DELETE), ("restored", RESTORE))
_TOMBSTONE = {"id", "reason", "session_id", "seq", "schema", "deleted", "deleted_by", "by", "timestamp", "ts"}


class _Names(dict[str, str]):
    """Names in the file by SMP's names; a name that the layout does not rename maps to itself."""

    def __missing__(self, name: str) -> str:
        return name


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
        self.folds = folds  # whether changes can be folded into their entry, see `smp_memory.files.folded_entries`
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
        self._needs_renaming = PerKind(lambda kind: all_reserved[kind.name] - to_file[kind.name].keys())
        self._file_names = PerKind(lambda kind: _Names({**{name: name for name in kind.rank}, **to_file[kind.name]}))

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
            self._add_named(fields, entry.type, entry.data)
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
            word = "deleted" if entry.op == DELETE else "restored"
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

    def _add_named(self, fields: Fields, kind: str, data: dict[str, Any]) -> None:
        outside, inner = self.outside, fields
        if self.nest:
            inner = fields[self.nest] = {}
        if self._needs_renaming[kind].isdisjoint(data):
            file_names = self._file_names[kind]
            inner.update(zip(map(file_names.__getitem__, data), data.values(), strict=True))
            if outside:
                fields.update({file_names[name]: inner.pop(file_names[name]) for name in data if name in outside})
            return
        reserved = self._reserved[kind]
        nested = {name: value for name, value in data.items() if name not in outside}
        self._add_renamed(inner, kind, nested, reserved - {self.nest})
        self._add_renamed(fields, kind, {name: value for name, value in data.items() if name in outside}, reserved)

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
        """The entry in these fields. Raises InvalidRecord that names what is wrong with a hand-written one.

        A new memory that a person wrote may have no id and no time: `Entry.lacks` names what is missing, and the reader assigns it.
        """
        trusted = state == "signed"
        kind_name = kind_hint or str(fields.get("type", ""))
        if kind_name not in KINDS:
            if not _is_bare_deletion(fields):
                raise InvalidRecord(f"type: {kind_name!r} is not a type of memory.", field="type")
            kind_name = "conversation"  # tombstones of designs 000 and 004 have no type; the memory itself has it
            fields = {"deleted": True, **fields}
        memory_id = fields.get("id")
        seq, uid = fields.get("seq"), fields.get("uid", "")
        op, at, by, data = self._parts(fields, kind_name)
        lacks: tuple[str, ...] = ()
        if not trusted:
            if op == PUT:
                lacks = tuple(name for name, value in (("id", memory_id), ("time", at)) if value is None or value == "")
                if lacks and state != "unsigned":  # SMP wrote it with both, so it is damaged, not a new memory
                    raise InvalidRecord(
                        f"{lacks[0]}: missing in an entry with a checksum. Write it again, or remove the checksum if the "
                        "entry is new.",
                        field=lacks[0],
                    )
            memory_id = "" if "id" in lacks else ids.check(memory_id, "id", ids.LIMIT + 8)
            at = "" if "time" in lacks else parse(at, self.time)
            _check_written_by_hand(kind_name, op, data)
        entry = Entry(
            op,
            kind_name,
            str(memory_id),
            at,
            data,
            seq=seq if type(seq) is int and seq <= LARGEST_NUMBER else last_seq,
            tx=str(fields["tx"]) if "tx" in fields else "",
            by=by,
            uid=uid if type(uid) is str and len(uid) <= UID_LIMIT else "",
            revision=_integer(fields["revision"]) if "revision" in fields else 0,
            schema=_integer(fields.get("schema")),
            state=state,
            file=file,
            line=line,
        )
        if lacks:
            entry.lacks = lacks
        if "uids" in fields and isinstance(fields["uids"], dict):
            entry.uids = {id: _uid(uid) for id, uid in fields["uids"].items()}
        return entry

    def _parts(self, fields: Fields, kind: str) -> tuple[str, Any, Any, dict[str, Any]]:
        if "changes" in fields and isinstance(fields["changes"], dict):
            return CHANGE, fields.get("updated"), fields.get("updated_by"), self._renamed(fields["changes"], kind)
        for word, op in _TIME_KEYS if "deleted" in fields or "restored" in fields else ():
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


def _uid(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= UID_LIMIT else ""


def _integer(value: object) -> int:
    return value if type(value) is int else 0


def _check_written_by_hand(kind: str, op: str, data: dict[str, Any]) -> None:
    """Normalise a hand-written entry to what the engine relies on, and reject one without its required field."""
    if op == PUT:
        found = translate_fields(KINDS[kind], data)
        if found is not data:
            data.clear()
            data.update(found)
    if op == PUT and not any(data.get(name) not in (None, "") for group in KINDS[kind].required for name in group):
        raise InvalidRecord(f"{KINDS[kind].text}: required for a {kind}.", field=KINDS[kind].text)
    tags = data.get("tags")
    if isinstance(tags, str):
        data["tags"] = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if isinstance(data.get("access"), int):
        data["access"] = {"count": data["access"], "last": None}
    if isinstance(data.get("references"), str):
        data["references"] = [data["references"]]
    if "relations" in data:
        data["relations"] = _relations(data["relations"])


def _relations(value: Any) -> list[Any]:
    """`[{kind: resolves, target: FIND-0001}]` from any accepted form: a list of ids, or `{resolves: FIND-0001}`."""
    if isinstance(value, dict) and "target" not in value:
        value = [{"kind": kind, "target": target} for kind, target in value.items()]
    relations = []
    for item in value if isinstance(value, list) else [value]:
        fields = item if isinstance(item, dict) else {"target": item}
        kind = fields.get("kind", fields.get("relationship", "relates_to"))
        target = fields.get("target")
        for each in target if isinstance(target, list) else [target]:
            if not isinstance(kind, str) or not isinstance(each, str):
                raise InvalidRecord("relations: each needs a kind and a target, such as DEC-0001.", field="relations")
            relations.append({"kind": kind, "target": each})
    return relations
