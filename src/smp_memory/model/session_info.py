"""A session apart from its memories: its metadata, and its head as a store lists it."""

from __future__ import annotations

from smp_memory.errors import InvalidRecord, SizeLimitExceeded
from smp_memory.model.record import copied
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Any

FORMAT = 1
DEFAULT_SESSION = "default"  # where `Memory.remember` stores what names no session
GLOBAL_SESSION = "global"  # the session with the memories for all sessions, see `smp_memory.global_memory`
TITLE_CHARACTERS = 120
GLOBAL_SETTINGS = {"lifecycle": {"auto_archive": False}, "retention": {"enabled": False}}  # it has these from the start
LIVE, ARCHIVED, DELETED, PURGED = "live", "archived", "deleted", "purged"  # states of a session in a store


class SessionInfo:
    """Participants, project, creation time, context and settings of a session, and the counters that rewrites must keep."""

    __slots__ = (
        "agents", "config", "context", "created_text", "figures", "format", "generation", "id", "incomplete", "is_assumed",
        "numbers", "other", "path", "project", "seq", "status", "tags", "uid", "user",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        created: str,
        *,
        user: str | None = None,
        agents: list[str] | None = None,
        project: str | None = None,
        tags: list[str] | None = None,
        context: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        status: str = "active",
        generation: int = 0,
        numbers: dict[str, int] | None = None,
        seq: int = 0,
        format: int = FORMAT,
        uid: str = "",
        incomplete: list[str] | None = None,
        other: dict[str, Any] | None = None,
    ) -> None:
        self.id = id
        self.is_assumed = False  # True: the session's files hold no metadata
        self.path = ""  # where it was read, for people
        self.created_text = created
        self.user = user
        self.agents = agents or []
        self.project = project
        self.tags = tags or []
        self.context = context or {}
        self.config = config or {}
        self.status = status
        self.generation = generation  # incremented by every rewrite
        self.numbers = numbers or {}  # the largest numbers ever given out, as of the last rewrite
        self.seq = seq
        self.format = format
        self.uid = uid  # random; distinguishes sessions of one name that two clones of a store created
        # Transactions of which entries were missing when something was written after them.
        self.incomplete = incomplete or []
        self.figures: dict[str, Any] = {}  # counts, sizes and times in the form of the layout, as of a time
        self.other = other or {}  # unknown fields, written by hand or by another tool

    @property
    def created(self) -> Any:
        return to_moment(self.created_text)

    @property
    def title(self) -> str:
        """What a person or the host calls it; empty if nobody named it (`lifecycle.session_titles` then takes the first prompt)."""
        title = self.context.get("title")
        return title[:TITLE_CHARACTERS] if isinstance(title, str) else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "created": self.created_text,
            "user": self.user,
            "agents": list(self.agents),
            "project": self.project,
            "tags": list(self.tags),
            "context": copied(self.context),
            "config": copied(self.config),
            "status": self.status,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionInfo) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"SessionInfo({self.id}, {self.project or 'no project'}, user {self.user}, agents {self.agents})"


class SessionFigures:
    """Figures of a session for its metadata, at a time."""

    __slots__ = ("agents", "as_of", "bytes", "counts", "last_accessed", "quota_bytes", "updated")

    def __init__(
        self, counts: dict[str, int], agents: dict[str, dict[str, Any]], updated: str | None, last_accessed: str | None
    ) -> None:
        self.counts = counts  # memories by type
        self.agents = agents  # by name: message_count, last_active
        self.updated = updated
        self.last_accessed = last_accessed
        self.bytes = self.quota_bytes = 0
        self.as_of = ""


class SessionHead:
    """A session without its memories, as `Store.sessions` lists it.

    What costs a look at every session (`LAZY`) is found out by the backend when it is first asked for.
    """

    session: str  # its id
    state: str  # LIVE, ARCHIVED or DELETED
    path: str  # where an archived or deleted session is, for people; unique in the store
    has_memories: bool  # False: another program left only a summary of it
    redacted: dict[str, int] | None  # what redaction removed from the reason that was just given
    version: object  # of a live session: changes when its metadata does, None: the metadata is one of its entries
    #                  of an archived one: changes when its content does, None: it is gone
    written: datetime  # when a live session was last written, by the storage and not by its memories; not changed by maintenance
    bytes: int
    when: datetime | None  # when it was archived or deleted
    reason: str | None
    metadata: dict[str, Any]  # the summary or the deletion record
    archived: dict[str, Any] | None  # of a deleted session that was archived: the summary that it had as such

    LAZY = ("path", "version", "written", "bytes", "when", "reason", "metadata", "archived")
    __slots__ = ("_read", "has_memories", "redacted", "session", "state", *LAZY)

    def __init__(
        self,
        session: str,
        state: str,
        path: str | None = "",
        read: Callable[[SessionHead, str], object] | None = None,
        *,
        has_memories: bool = True,
        **known: Any,
    ) -> None:
        """`read` gives the value of a field of `LAZY`, or fills in several; `known` are those that need no reading."""
        self.session, self.state, self.has_memories = session, state, has_memories
        if path is not None:
            self.path = path
        self.redacted, self._read = None, read
        for name, value in known.items():
            setattr(self, name, value)

    if not TYPE_CHECKING:  # so that mypy knows the fields

        def __getattr__(self, name: str) -> Any:
            if name not in self.LAZY or self._read is None:
                raise AttributeError(name)
            value = self._read(self, name)
            setattr(self, name, value)
            return value

    @property
    def is_foreign(self) -> bool:
        """Whether another program deleted it. SMP does not purge it automatically, and keeps its record."""
        return self.state == DELETED and bool(self.metadata) and "state" not in self.metadata

    def to_dict(self) -> dict[str, Any]:
        """As `smp session list` shows it."""
        when = self.when.isoformat().replace("+00:00", "Z") if self.when else None
        data = {"id": self.session, "state": self.state, "since": when, "reason": self.reason, "bytes": self.bytes}
        return {**data, "redacted": self.redacted} if self.redacted else data


def names_of(heads: Iterable[SessionHead]) -> list[str]:
    """The ids of these sessions."""
    return [head.session for head in heads]


_DIGESTS = 8, 6  # characters of the digest at the end of the names that hooks, and that SMP itself, give sessions


def short_session_name(session: str) -> str:
    """The digest at the end of a session's name: `5f0c1a7e` of `claude-code-2026-01-31-5f0c1a7e`; else, in a name that a person gave, the name."""
    before, _, digest = session.rpartition("-")
    if not before or not is_short_name(digest) or (len(digest) < _DIGESTS[0] and not _ends_in_day(before)):
        return session
    return digest


def is_short_name(name: str) -> bool:
    """Whether a name has the form of such a digest."""
    return len(name) in _DIGESTS and _HEX.issuperset(name)


def _ends_in_day(name: str) -> bool:
    year, month, day = name[-10:-6], name[-5:-3], name[-2:]
    return name[-10:] == f"{year}-{month}-{day}" and f"{year}{month}{day}".isdigit()


def short_names(sessions: Iterable[str]) -> dict[str, str]:
    """For each session the short name by which it can be told from the others, else its whole name."""
    by_short: dict[str, list[str]] = {}
    for name in set(sessions):
        by_short.setdefault(short_session_name(name), []).append(name)
    return {name: short if len(same) == 1 else name for short, same in by_short.items() for name in same}


def full_session_name(name: str, heads: Iterable[SessionHead]) -> str:
    """The name of the session that is meant: this one, or the only one with this short name; the given name if there is none."""
    names = names_of(heads)
    if name in names or not is_short_name(name):
        return name
    found = [each for each in names if short_session_name(each) == name]
    return found[0] if len(found) == 1 else name


_HEX = frozenset("0123456789abcdef")


def with_checked_title(context: dict[str, Any]) -> dict[str, Any]:
    """The context of a session with its title, if it has one, checked: one line of text."""
    title = context.get("title")
    if title is None:
        return context
    if not isinstance(title, str) or len(title.splitlines()) > 1:
        raise InvalidRecord("title: must be one line of text.", field="title")
    if len(title) > TITLE_CHARACTERS:
        raise SizeLimitExceeded(
            f"title: longer than {TITLE_CHARACTERS} characters.", field="title", limit=TITLE_CHARACTERS
        )
    return {**context, "title": title.strip()}


def with_title(context: Mapping[str, Any], title: object) -> dict[str, Any]:
    """The context with another title; None removes it."""
    rest = {name: value for name, value in context.items() if name != "title"}
    return {**rest, "title": title} if title else rest
