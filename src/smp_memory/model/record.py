"""Records: read-only views of memories with the fields of their type as attributes.

Every record has: id, session, type, created, updated, author, author_kind, turn_ref, topic, aliases, tags, valid_from,
valid_until, confidence, importance, pinned, muted, references, relations, access, visibility, trust, revision, schema, seq, edited, typed_by_hand,
deleted.
The fields of its type and any field SMP does not know are attributes too; `to_dict()` gives them all as plain JSON
values under the same names. Values are copies: changing them changes nothing in the store.
"""

from __future__ import annotations

from smp_memory.model.times import to_moment
from smp_memory.model.types import CONFIDENCE_WORDS, KINDS, SCHEMA, PerKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from typing import Any

    from smp_memory.model.entry import Entry
    from smp_memory.model.reports import Problem
    from smp_memory.model.types import Kind


_CONTAINERS = (list, dict)


class Field:
    """Attribute for a field of a memory. A missing field reads as its default, and one that a person typed in another form as a list or object of it."""

    __slots__ = ("container", "default", "name")

    def __init__(self, default: Any = None) -> None:
        self.default = default
        self.container = type(default) if type(default) in _CONTAINERS else None
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Record | None, owner: type) -> Any:
        if record is None:
            return self
        value = record._data.get(self.name)
        if value is None:
            value = self.default
        if self.container is not None and type(value) is not self.container:
            return [value] if self.container is list else copied(self.default)
        return copied(value) if type(value) in _CONTAINERS else value


def field(default: Any = None) -> Any:
    """An attribute for a field, whose type is that of its annotation: `severity: str | None = field()`."""
    return Field(default)


def copied(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


def same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal in value and type: 1, 1.0 and True differ."""
    if type(value) is not type(other):
        return False
    if type(value) is dict:
        return len(value) == len(other) and all(key in other and same(item, other[key]) for key, item in value.items())
    if type(value) is list:
        return len(value) == len(other) and all(map(same, value, other))
    return bool(value == other)


class Record:
    """One memory, now or as of a requested time. Read-only; its fields are attributes, also those that SMP does not know.

    Besides the common fields and those of the type: `id`, `session`, `ref` (`session/ID`), `type`, `seq` (order of writing), `revision`,
    `updated_by`, `deletion` (the entry that deleted it), `edited` (a person edited it in the file), `typed_by_hand` (a person or another
    program typed it into the file).
    """

    __slots__ = (
        "_created", "_data", "_notices", "_updated", "deletion", "edited", "id", "revision", "seq", "session", "type",
        "typed_by_hand", "updated_by",
    )  # fmt: skip

    def __init__(
        self, session: str, first: Entry, data: dict[str, Any], last: Entry, revision: int, deletion: Entry | None
    ) -> None:
        self.session = session
        self.id = first.id
        self.type = first.type
        self.seq = first.seq
        self.revision = revision
        self._created = first.at
        self._updated = last.at
        self.updated_by = last.by
        self.edited = first.state == "edited" or last.state == "edited"
        self.typed_by_hand = first.state == "unsigned"  # by a person or another program, not written by SMP
        self.deletion = deletion
        self._data = data
        self._notices: tuple[tuple[str, ...], dict[str, int]] | None = None

    author: str | None = field()
    turn_ref: str | int | None = field()
    topic: str | None = field()
    confidence: float | str | None = field()
    importance: float | None = field()
    pinned: bool = field(False)
    muted: bool = field(False)
    aliases: list[str] = field([])
    tags: list[str] = field([])
    valid_from: str | None = field()
    valid_until: str | None = field()
    references: list[Any] = field([])
    relations: list[Any] = field([])
    access: dict[str, Any] = field({"count": 0, "last": None})
    visibility: str = field("shared")
    trust: str | float | None = field()
    idempotency_key: str | None = field()

    @property
    def created(self) -> datetime:
        """When it was written."""
        return to_moment(self._created)

    @property
    def updated(self) -> datetime:
        """When it was changed last."""
        return to_moment(self._updated)

    @property
    def author_kind(self) -> str:
        """`user`, `agent`, `system` or `tool`: as given, else derived from the role of a turn or from the author."""
        given = self._data.get("author_kind")
        return given or ("user" if self._data.get("role") == "user" or self.author in (None, "user") else "agent")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the write that returned this record. Not a stored field."""
        return self._notices[0] if self._notices is not None else ()

    @property
    def redacted(self) -> dict[str, int]:
        """Redactions by the write that returned this record: counts by kind of secret. Not a stored field."""
        return dict(self._notices[1]) if self._notices is not None else {}

    def _add_notices(self, warnings: tuple[str, ...] = (), redacted: dict[str, int] | None = None) -> None:
        self._notices = ((*self.warnings, *warnings), {**self.redacted, **(redacted or {})})

    @property
    def schema(self) -> int:
        """The version of its fields."""
        return SCHEMA

    @property
    def deleted(self) -> bool:
        """Whether it is in the trash."""
        return self.deletion is not None

    @property
    def ref(self) -> str:
        """The name of this memory across sessions: `session-id/ID`."""
        return f"{self.session}/{self.id}"

    @property
    def text(self) -> str:
        """The main text of the memory, for lists and digests."""
        return text_in(KINDS[self.type], self._data)

    @property
    def confidence_value(self) -> float | None:
        """Confidence as a number; words count as 1.0 (explicit) down to 0.3 (uncertain)."""
        value = self.confidence
        return CONFIDENCE_WORDS.get(value) if isinstance(value, str) else value

    @property
    def given(self) -> dict[str, Any]:
        """The fields as given by the caller, without those that SMP adds. Shared: do not change it."""
        return self._data

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values, in a stable order."""
        known = self._fields()
        if self.typed_by_hand:
            known["typed_by_hand"] = True
        known.setdefault("text", self.text)
        return known

    def _fields(self) -> dict[str, Any]:
        known: dict[str, Any] = {
            "id": self.id,
            "session": self.session,
            "type": self.type,
            "created": self._created,
            "updated": self._updated,
            "revision": self.revision,
            "author_kind": self.author_kind,
        }
        for key, value in self._data.items():
            known[key] = copied(value)
        known.setdefault("tags", [])
        known.setdefault("pinned", False)
        if self.deletion is not None:
            known["deleted"] = {
                "at": self.deletion.at,
                "by": self.deletion.by,
                "reason": self.deletion.data.get("reason"),
            }
        return known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return copied(self._data[name])
        except KeyError:
            raise AttributeError(f"{self.id} has no field {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default if the memory has none of this name."""
        return self.to_dict().get(name, default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.session, self.id, self.revision))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id} r{self.revision}: {self.text[:60]!r})"

    def _repr_html_(self) -> str:

        return html_table(("field", "value"), self.to_dict().items())


class Records(list[Record]):
    """A list of memories; `problems` names entries that could not be read and are missing in it."""

    problems: list[Problem]

    def __init__(self, records: Iterable[Record] = (), problems: list[Problem] | None = None) -> None:
        super().__init__(records)
        self.problems = problems or []

    @classmethod
    def joined(cls, lists: Iterable[Records]) -> Records:
        """The memories and problems of several sessions."""
        found = cls()
        for each in lists:
            found += each
            found.problems += each.problems
        return found

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each memory, as a DataFrame takes them."""
        return [record.to_dict() for record in self]

    def _repr_html_(self) -> str:

        rows = ((each.ref, each.type, each.to_dict()["created"], each.author, each.text) for each in self)
        return html_table(("memory", "type", "created", "author", "text"), rows)


class Status:
    """The status of a memory: from `status` or, as in some designs, `resolution.status`; else the default of its type."""

    __slots__ = ()

    def __get__(self, record: Record | None, owner: type) -> Any:
        if record is None:
            return self
        resolution = record._data.get("resolution")
        inner = resolution.get("status") if isinstance(resolution, dict) else None
        return record._data.get("status") or inner or KINDS[record.type].default_status


def text_in(kind: Kind, data: dict[str, Any]) -> str:
    """The main text of a memory, from its fields."""
    for name in kind.texts:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


class Turn(Record):
    __slots__ = ()
    role: str = field()
    content: str = field("")
    kind: str = field("message")
    parts: list[dict[str, Any]] = field([])


class Decision(Record):
    __slots__ = ()
    decision: str = field()
    rationale: str | None = field()
    alternatives_considered: list[Any] = field([])
    impact: Any = field()
    reversible: bool | str | None = field()
    approved_by: list[str] = field([])
    agreed_by: list[str] = field([])
    agents_involved: list[str] = field([])
    status: str = field(KINDS["decision"].default_status)
    resolution: Any = field()


class Finding(Record):
    __slots__ = ()
    finding: str = field()
    severity: str | None = field()
    category: str | None = field()
    evidence: Any = field()
    recommendation: str | None = field()
    location: Any = field()
    impact: Any = field()
    root_cause: str | None = field()
    status: str = Status()  # type: ignore[assignment]
    resolution: Any = field()


class Preference(Record):
    __slots__ = ()
    key: str | None = field()
    value: Any = field()
    preference: str | None = field()
    category: str | None = field()
    context: Any = field()
    source: str | None = field()
    applies_to: Any = field()
    learned_from: list[str] = field([])


class AgentState(Record):
    __slots__ = ()
    agent: str = field()
    state: Any = field()


class Artifact(Record):
    __slots__ = ()
    name: str | None = field()
    path: str | None = field()
    format: str | None = field()
    content: str | None = field()


class Learning(Record):
    __slots__ = ()
    learning: str = field()
    category: str | None = field()


class Summary(Record):
    __slots__ = ()
    summary: str = field()
    covers: list[Any] = field([])


def record_class(kind: Kind) -> type[Record]:
    """A class for a type that has none here: its fields are attributes, and None where they are missing."""
    attributes: dict[str, Any] = {name: field() for name in kind.fields if name != "author"}
    if kind.statuses:
        attributes["status"] = Status()
    return type(kind.name.title().replace("_", ""), (Record,), {"__slots__": (), **attributes})


def name_and_content(record: Record) -> tuple[Any, Any]:
    """How a memory reads on one line: its name, if it has one of its own as a preference has its key, and what it says."""
    kind, data = KINDS[record.type], record.given
    if kind.is_named_by_agent:
        return None, data.get(kind.text)
    name, text, value = data.get("key") if kind.is_named_by_key else None, record.text, data.get("value")
    if name is None or text != name:
        return name, text or value
    return (None, name) if value is None else (name, value)  # a value that is not a text, such as a number


CLASSES: dict[str, type[Record]] = PerKind(record_class)
CLASSES.update(
    conversation=Turn,
    decision=Decision,
    finding=Finding,
    preference=Preference,
    agent_state=AgentState,
    artifact=Artifact,
    learning=Learning,
    summary=Summary,
)


# -- notebooks

_MAX_CHARACTERS = 300
_MAX_ROWS = 100


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table for notebooks, every value escaped; rows beyond the first 100 are counted in a last row."""
    from html import escape  # only notebooks need it

    def cell(value: Any) -> str:
        text = value if isinstance(value, str) else "" if value is None else str(value)
        return escape(text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…")

    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in listed[:_MAX_ROWS])
    if len(listed) > _MAX_ROWS:
        body += f'<tr><td colspan="{len(columns)}">… and {len(listed) - _MAX_ROWS:,} more</td></tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
