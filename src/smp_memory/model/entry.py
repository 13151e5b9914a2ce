"""An entry: one appended item of a session's files. Records are the state that entries add up to.

    put      a new memory with its fields            revision 1
    change   new values of some fields (None removes) revision 2, 3, …; a change of `access` or `id` alone makes no revision
    delete   hides the memory, with a reason
    restore  shows it again

A readable id such as `DEC-0007` can be given out by two clones of a store. `uid` is random and distinguishes their memories.

`seq` numbers the entries of a session in the order in which they were written, over all its files. Entries of one
transaction carry the range of their numbers and how many files it touched, `12-14/2`; it takes effect only when complete.

`check_fields` applies the rules for values: what every record may hold, whoever wrote its entry and whatever its checksum. It runs on each
entry that is read (`smp_memory.files.entry_fields`) and on the memories in shared files of the designs. Values that a person may type
in another form become the form that the rest of the code relies on:

    author, topic, role, …                    text; a number or a word such as `true` becomes text
    tags, aliases, approved_by, …             a list of texts; a single value becomes a list
    relations                                 a list of {kind, target}
    access                                    {count, last}: a count from 0, and a time or null; a wrong one becomes 0 or null
    key, trust                                text or another scalar
    visibility                                text; anything else is `private`

Fields without a rule (also status, severity, references, valid_until) keep any JSON value; their readers accept every one. Of all
values the numbers are finite and have at most `INTEGER_BITS_LIMIT` bits, and lists and objects are nested `DEPTH_LIMIT` levels deep
at most, so that every layout and every export can hold them.

Guarantees: pure; anything else raises `InvalidRecord`, which names the field. Fields of the expected types are not copied.
"""

from __future__ import annotations

from math import isfinite

from smp_memory.errors import InvalidRecord
from smp_memory.model.times import to_moment
from smp_memory.model.types import PerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PUT, CHANGE, DELETE, RESTORE = "put", "change", "delete", "restore"
MAINTENANCE_FIELDS = frozenset(["access", "id"])  # counts of uses, and the id of a renamed memory
_TRANSACTION_LIMIT = 1_000_000  # entries
BY_MAINTENANCE = "smp"  # author of deletions by retention, which do not count as a use of the memory


class Entry:
    __slots__ = (
        "at", "by", "data", "file", "id", "lacks", "line", "op", "part", "place", "revision", "schema", "seq",
        "state", "tx", "type", "uid", "uids",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        type: str,
        id: str,
        at: str,
        data: dict[str, Any],
        seq: int = 0,
        *,
        tx: str = "",
        by: str | None = None,
        uid: str = "",
        revision: int = 0,
        schema: int = 1,
        state: str = "signed",
        file: str = "",
        line: int = 0,
    ) -> None:
        self.op = op
        self.type = type
        self.id = id
        self.at = at  # put: created; change, delete, restore: when it happened
        self.by = by  # change, delete, restore: who did it; a put's author is a field
        self.data = data
        self.seq = seq
        self.tx = tx
        self.uid = uid  # of the memory: put gives it, all other entries of the memory repeat it; "": the id is enough
        self.uids: dict[str, str] | None = None  # of the memories that the fields refer to, by their ids
        self.revision = revision
        self.schema = schema
        self.state = state
        self.file = file
        self.line = line
        # "id", "time": missing in the file because it was typed by hand, see `smp_memory.files.file_state`
        self.lacks: tuple[str, ...] = ()
        self.place = (0, 0)  # its byte range in the file: start, end
        self.part: int | None = None  # its position in a folded entry, see `smp_memory.files.entry_fields`

    @property
    def key(self) -> tuple[int, str, str, str, str]:
        """Identifies the entry within its session, also among entries of another clone with the same number.

        Left out where unreliable: the number of an entry typed by hand, and the time of a put, which may have been edited.
        """
        number = self.seq if self.state != "unsigned" else 0
        return number, self.id, self.op, self.uid, "" if self.op == PUT else self.at

    @property
    def bare_key(self) -> tuple[int, str, str, str]:
        """`key` from the visible part of an entry: without the uid and the fraction of the time, which only the machine line has."""
        return self.seq, self.id, self.op, "" if self.op == PUT else self.at[:19]

    def copy(self) -> Entry:
        """A copy that may be changed; it shares the dictionary of fields."""
        twin = Entry(self.op, self.type, self.id, self.at, self.data, self.seq, tx=self.tx, by=self.by)
        twin.revision, twin.schema, twin.state = self.revision, self.schema, self.state
        twin.file, twin.line, twin.place, twin.part = self.file, self.line, self.place, self.part
        twin.uid, twin.uids, twin.lacks = self.uid, self.uids, self.lacks
        return twin

    def __repr__(self) -> str:
        return f"Entry({self.op} {self.id} seq={self.seq} tx={self.tx!r} at={self.at} by={self.by} {self.data!r})"


def transaction_mark(first: int, count: int, files: int) -> str:
    return f"{first}-{first + count - 1}" + (f"/{files}" if files > 1 else "")


def transaction_range(mark: str) -> tuple[int, int, int] | None:
    """First number, last number and count of files; None if the mark is malformed."""
    numbers, _, files = mark.partition("/")
    first, _, last = numbers.partition("-")
    try:
        limits = int(first), int(last), int(files or 1)
    except ValueError:
        return None
    return limits if 0 < limits[0] <= limits[1] < limits[0] + _TRANSACTION_LIMIT else None


def is_maintenance(entry: Entry) -> bool:
    """Whether an entry only counts uses or renames the memory. Such entries change no content and make no revision."""
    return entry.op == CHANGE and len(entry.data) == 1 and not MAINTENANCE_FIELDS.isdisjoint(entry.data)


def is_revision(entry: Entry) -> bool:
    """Whether an entry makes a revision: the put, or a change of content."""
    return entry.op == PUT or (entry.op == CHANGE and not is_maintenance(entry))


# -- rules for the values of fields

DEPTH_LIMIT = 28  # every layout has room for them: what is around a field takes up to four levels more
INTEGER_BITS_LIMIT = 2000  # 600 digits; Python itself refuses to write and read much longer ones
LARGEST_NUMBER = 10**12  # of an entry, a revision or a count; a larger one is damage
_SCALARS = (str, bool, int, float)
_TEXT = frozenset((str,))


def check_fields(kind: str, data: dict[str, Any]) -> None:
    """Bring the values of a memory's fields into the expected form, in place. Raises InvalidRecord for one that has none.

    A field that only other types have is the caller's own and keeps any value.
    """
    for name, value in data.items():
        found = type(value)
        if (
            (found is not str or name in _NOT_TEXT)
            and value is not None
            and (found is not list or name not in _LISTS or not _TEXT.issuperset(map(type, value)))
        ):
            data[name] = _RULES_OF[kind].get(name, check_json)(name, value)


def set_type(entry: Entry, type: str) -> str:
    """Give an entry the type of its memory, which a typed deletion lacks. Returns what is wrong with its values for that type."""
    try:
        check_fields(type, entry.data)
    except InvalidRecord as error:
        return error.message
    entry.type = type
    return ""


def text(field: str, value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) in (int, float):
        check_json(field, value)
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    raise InvalidRecord(f"{field}: must be text, not {_kind(value)}.", field=field)


def texts(field: str, value: Any) -> list[str]:
    """A list of texts; a single value becomes one, and an object the list of its names."""
    if type(value) is list and _TEXT.issuperset(map(type, value)):
        return value
    items = value if type(value) in (list, dict) else [value]
    return [text(field, item) for item in items if item is not None]


def _tags(field: str, value: Any) -> list[str]:
    return [tag.strip() for tag in value.split(",") if tag.strip()] if type(value) is str else texts(field, value)


def _names(field: str, value: Any) -> str | list[str]:
    return value if type(value) is str else texts(field, value)


def _scalar(field: str, value: Any) -> Any:
    if type(value) not in _SCALARS:
        raise InvalidRecord(f"{field}: must be text or a number, not {_kind(value)}.", field=field)
    return check_json(field, value)


def _visibility(field: str, value: Any) -> str:
    """A value that is no text shows the memory to its author only."""
    return value if type(value) is str else "private"


def _access(field: str, value: Any) -> dict[str, Any]:
    """How often and when last a memory was used. A wrong count or time counts as none: it must not cost the memory."""
    found = value if type(value) is dict else {"count": value}
    count, last = found.get("count"), found.get("last")
    known = type(count) is int and 0 <= count <= LARGEST_NUMBER
    check_json(field, found)
    return {**found, "count": count if known else 0, "last": last if is_time(last) else None}


def relations(field: str, value: Any) -> list[dict[str, str]]:
    """`[{kind: resolves, target: FIND-0001}]` from any accepted form: a list of ids, or `{resolves: FIND-0001}`."""
    if isinstance(value, dict) and "target" not in value:
        value = [{"kind": kind, "target": target} for kind, target in value.items()]
    found = []
    for item in value if isinstance(value, list) else [value]:
        fields = item if isinstance(item, dict) else {"target": item}
        kind = fields.get("kind", fields.get("relationship", "relates_to"))
        target = fields.get("target")
        for each in target if isinstance(target, list) else [target]:
            if not isinstance(kind, str) or not isinstance(each, str):
                raise InvalidRecord(f"{field}: each needs a kind and a target, such as DEC-0001.", field=field)
            found.append({"kind": kind, "target": each})
    return found


def is_time(value: object) -> bool:
    try:
        return type(value) is str and to_moment(value) is not None
    except (ValueError, OverflowError):
        return False


def check_json(field: str, value: Any, depth: int = 0) -> Any:
    """Return a JSON value that every layout can hold, or raise InvalidRecord."""
    kind = type(value)
    if kind is int and value.bit_length() > INTEGER_BITS_LIMIT:
        raise InvalidRecord(f"{field}: a number of more than 600 digits cannot be stored.", field=field)
    if kind is float and not isfinite(value):
        raise InvalidRecord(f"{field}: {value} cannot be stored as a number.", field=field)
    if kind is dict or kind is list:
        if depth >= DEPTH_LIMIT:
            raise InvalidRecord(f"{field}: nested deeper than {DEPTH_LIMIT} levels.", field=field, limit=DEPTH_LIMIT)
        for item in value.values() if kind is dict else value:
            if type(item) is not str:
                check_json(field, item, depth + 1)
    return value


def _kind(value: object) -> str:
    return "a list" if type(value) is list else "an object" if type(value) is dict else type(value).__name__


_TEXTS = ("author", "author_kind", "topic", "role", "agent", "rationale", "idempotency_key")
RULES: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_TEXTS, text),
    "tags": _tags,
    "aliases": texts,
    "approved_by": _names,
    "agreed_by": _names,
    "agents_involved": _names,
    "relations": relations,
    "access": _access,
    "key": _scalar,
    "trust": _scalar,
    "visibility": _visibility,
}
_RULES_OF = PerKind(lambda kind: {name: rule for name, rule in RULES.items() if name in kind.rank or name == "author"})
_NOT_TEXT = frozenset(("tags", "aliases", "relations", "access"))  # a text is not the form of these
_LISTS = frozenset(name for name, rule in RULES.items() if rule in (_tags, texts, _names))
