"""The base of all health checks: issues and reports as values, a store under examination, and the class `Check`.

    ok        no issue
    note      nothing is wrong; a person may want to know
    warning   a person should do something
    problem   a memory cannot be read, could be lost, or is visible to those who must not see it

A backend whose storage can be damaged in ways of its own derives from the examinations and adds checks and fixes (`store.file_checks`), or
its store has a property `checks` (`store.postgres.postgres_store`). This module is below the store; the checks of every store and the registry
(`smp_memory.health.doctor`) are above it.

Guarantees: `to_dict` gives JSON. `fix` names a safe fix (`FIXES`) if there is one, `advice` is a command or a sentence that says what to do
otherwise. No issue holds the text of a memory. Each session is read once, for all checks.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.model.history import COLD as COLD_SEGMENT
from smp_memory.model.session_info import names_of
from smp_memory.privacy.settings import session_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from smp_memory.config.settings import Config
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Report
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import SessionStore, Store

    Fix = Callable[
        [Any, list["HealthIssue"], Callable[[], Any]], Iterator[str]
    ]  # the examination, what to fix, opens the store


OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"
SEVERITIES = (OK, NOTE, WARNING, PROBLEM)
ENTRY, METADATA, COLD, QUARANTINE = "entry", "metadata", "cold", "quarantine"
FIXES = {  # in the order in which they are applied
    "permissions": "Set files to 0600 and folders to 0700",
    "recovery": "Clean up after the crash",
    "index": "Rebuild the index",
    "access": "Write the access log into the files",
    "maintenance": "Run the overdue tasks that remove nothing",
}
NOTHING_TO_DO = "Nothing needs to be done"  # how the advice of an issue begins that is folded away
_NAMED = 5  # ids that a sentence names before it says how many more there are


# -- values


class HealthIssue(NamedTuple):
    """One thing that a check found."""

    check: str
    severity: str
    message: str  # what is wrong, and what it means
    advice: str = ""  # what to do next
    session: str | None = None
    ids: tuple[str, ...] = ()  # of memories
    path: str | None = None
    line: int = 0
    fix: str | None = None  # the safe fix that resolves it
    details: tuple[dict[str, Any], ...] = ()  # the same for machines, item by item

    @property
    def needs_nothing(self) -> bool:
        """Whether it is a note about which nothing needs to be done: lists fold it away."""
        return self.severity == NOTE and self.advice.startswith(NOTHING_TO_DO)

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "ids": list(self.ids), "line": self.line or None, "details": list(self.details)}


class StoredContent(NamedTuple):
    """One place in a session that holds text: an entry, the metadata, an entry in the cold segment, a file in quarantine."""

    where: str  # one of `ENTRY`, `METADATA`, `COLD`, `QUARANTINE`
    id: str  # of the memory; empty for metadata and quarantine
    path: str
    line: int
    data: dict[str, Any] | str


class CheckResult(NamedTuple):
    """The outcome of one check."""

    name: str
    title: str  # the result in a few words: "all memories can be read", "2 memories cannot be read"
    severity: str
    said: str  # what was checked, in figures
    findings: list[HealthIssue]
    skipped: bool = False
    seconds: float = 0.0
    not_checked: str = ""  # what the quick check left out of it

    @property
    def shown(self) -> list[HealthIssue]:
        """The issues that are not folded away."""
        return [issue for issue in self.findings if not issue.needs_nothing]

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "seconds": round(self.seconds, 3), "findings": len(self.findings)}


class FixResult(NamedTuple):
    """The outcome of one safe fix: what it did, or why it failed."""

    name: str
    ok: bool
    did: list[str]

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class HealthReport(NamedTuple):
    """The results of all checks of a store."""

    root: str
    layout: str
    sessions: int
    memories: int
    checks: list[CheckResult]
    fixed: list[FixResult]  # fixes applied before these checks
    seconds: float = 0.0

    @property
    def findings(self) -> list[HealthIssue]:
        """The issues of all checks, the gravest first."""
        issues = [issue for check in self.checks for issue in check.findings]
        return sorted(issues, key=lambda issue: -SEVERITIES.index(issue.severity))

    @property
    def severity(self) -> str:
        """The severity of the gravest issue."""
        return worst(issue.severity for check in self.checks for issue in check.findings)

    @property
    def ok(self) -> bool:
        """Whether no action is needed: there are notes at most."""
        return self.severity in (OK, NOTE)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def fixes(self) -> list[str]:
        """Names of the safe fixes that would resolve an issue."""
        return list(dict.fromkeys(issue.fix for issue in self.findings if issue.fix))

    @property
    def folded(self) -> list[HealthIssue]:
        """The notes about which nothing needs to be done."""
        return [issue for issue in self.findings if issue.needs_nothing]

    def count(self, severity: str) -> int:
        return sum(issue.severity == severity for issue in self.findings)

    def of(self, check: str) -> list[HealthIssue]:
        """The issues of one check."""
        return [issue for each in self.checks if each.name == check for issue in each.findings]

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "severity": self.severity,
            "root": self.root,
            "layout": self.layout,
            "sessions": self.sessions,
            "memories": self.memories,
            "counts": {severity: self.count(severity) for severity in SEVERITIES[1:]},
            "checks": [check.to_dict() for check in self.checks],
            "findings": [issue.to_dict() for issue in self.findings],
            "fixes": self.fixes,
            "fixed": [fixed.to_dict() for fixed in self.fixed],
            "seconds": round(self.seconds, 3),
        }


def worst(severities: Iterable[str]) -> str:
    return max(severities, key=SEVERITIES.index, default=OK)


def named(ids: Iterable[str]) -> str:
    """The first ids in a sentence: `DEC-0001, DEC-0002 and 7 more`."""
    every = list(ids)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, one: str, many: str = "") -> str:
    """`1 memory`, `2,000 memories`."""
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def limited(issues: list[HealthIssue], limit: int, rest: str) -> Iterator[HealthIssue]:
    """The first `limit` issues, and one for all others: its message is `rest` with their number in place of `{}`."""
    yield from issues[:limit]
    others = issues[limit:]
    if len(others) == 1:
        yield others[0]
    elif others:
        yield others[0]._replace(
            severity=worst(issue.severity for issue in others),
            message=rest.format(f"{len(others):,}"),
            ids=tuple(id for issue in others for id in issue.ids),
            line=0,
            details=tuple(detail for issue in others for detail in issue.details or (_as_detail(issue),)),
        )


def _as_detail(issue: HealthIssue) -> dict[str, Any]:
    return {"message": issue.message, "path": issue.path, "line": issue.line or None, "ids": list(issue.ids)}


# -- what is examined


class Examination:
    """An opened store under examination; whatever would write to it raises, or is a bug."""

    is_in_folder = False  # in a folder of this machine, so that git, other stores and the user's state concern it
    is_too_new = False  # of a newer format: nothing else of it is read
    checks: tuple[type[Check], ...] = ()  # of the backend's own storage
    fixes: Mapping[str, Fix] = {}  # of the backend's own storage

    def __init__(self, store: Store, now: datetime, *, quick: bool = False, is_owner: bool = False) -> None:
        """`is_owner`: the store was opened for this examination and is closed with it."""
        self.store = store
        self._is_owner = is_owner
        self.root = store.root
        self.config: Config = store.config  # settings that are invalid count as not set
        self.layout_name = store.layout_name
        self.state = store.state
        self.now = now
        self.quick = quick
        self.checks = (*self.checks, *getattr(store, "checks", ()))

    def session_ids(self) -> list[str]:
        return names_of(self.store.sessions())

    def has(self, session: str) -> bool:
        """Whether the session is still live; another process may archive or delete it during the checks."""
        return bool(self.store.sessions(id=session))

    def session(self, name: str) -> SessionExamination:
        return SessionExamination(self, name)

    def close(self) -> None:
        if self._is_owner:
            self.store.close()


class SessionExamination:
    """A session under examination."""

    def __init__(self, subject: Examination, name: str) -> None:
        self.subject = subject
        self.id = name
        self.files: SessionStore = subject.store.session(name)
        self._history = self._read_history()

    def _read_history(self) -> SessionHistory:
        return self.files.history()

    @property
    def session_history(self) -> SessionHistory:
        return self._history

    @cached_property
    def records(self) -> list[Record]:
        """The memories that are not deleted, in the order of writing."""
        histories = self.session_history.histories.values()
        found = (history.record(self.id) for history in histories if history.deletion is None)
        return [record for record in found if record is not None]

    @cached_property
    def info(self) -> SessionInfo | None:
        """The session metadata; None if it cannot be read. Reading YAML takes tens of milliseconds."""
        try:
            return self.files.info()
        except (SMPError, OSError):
            return None

    @cached_property
    def config(self) -> Config:
        """The settings of this session; its own ones are left out if they are invalid."""
        return session_settings(self.subject.config, self.info) if self.info is not None else self.subject.config

    def validate(self) -> Report:
        return self.files.validate()

    def cold_ids(self) -> set[str]:
        return set(self.files.history(segment=COLD_SEGMENT).histories)

    def entries(self) -> Iterator[Entry]:
        """Every entry that was read."""
        for history in self.session_history.histories.values():
            yield from history.entries

    def newest_contents(self, most: int) -> tuple[list[StoredContent], int]:
        """The entries of memories edited by hand and of those written last, and how many memories were left out."""
        histories = list(self.session_history.histories.values())
        if len(histories) > most:
            histories.sort(key=lambda each: (each.entries[-1].state != "signed", each.entries[-1].at), reverse=True)
        entries = (entry for history in histories[:most] for entry in history.entries)
        found = [StoredContent(ENTRY, entry.id, entry.file, entry.line, entry.data) for entry in entries]
        return found, max(len(histories) - most, 0)

    def contents(self) -> Iterator[StoredContent]:
        """Every place that holds text: entries, metadata, the cold segment."""
        yield from (StoredContent(ENTRY, entry.id, entry.file, entry.line, entry.data) for entry in self.entries())
        if self.info is not None:
            yield StoredContent(METADATA, "", self.files.location, 0, metadata_texts(self.info))
        for history in self.files.history(segment=COLD_SEGMENT).histories.values():
            yield StoredContent(COLD, history.first.id, history.first.file, 0, history.data())


def metadata_texts(info: SessionInfo) -> dict[str, Any]:
    """The fields of a session's metadata that may hold a secret."""
    return {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}


class Check:
    """A check of a store. `session` runs for each session, then `store` runs once.

    An instance serves one run and may keep figures from session to session. It may raise: the exception becomes an issue
    of this check, and all other checks still run.
    """

    name = ""
    title = ""  # the statement if nothing is wrong
    failed = ""  # the statement if something is wrong
    fails_from = NOTE  # issues of a lower severity leave `title` true
    is_heavy = False  # skipped by --quick
    summary = ""  # what was checked, in figures; set while the check runs
    not_checked = ""  # what the quick check left out; set while the check runs
    _checked = 0

    def session(self, session: Any) -> Iterable[HealthIssue]:
        """Issues of one session, a `SessionExamination` or the backend's own."""
        return ()

    def store(self, subject: Any) -> Iterable[HealthIssue]:
        """Issues of the store, an `Examination`, and those that are known only after all sessions were checked."""
        return ()

    def add_checked(self, number: int, one: str = "memory", many: str = "memories") -> None:
        """Count what was checked, for the summary."""
        self._checked += number
        self.summary = f"{counted(self._checked, one, many)} checked"

    def statement(self, issues: list[HealthIssue]) -> str:
        """The result in a few words."""
        severity = worst(issue.severity for issue in issues)
        return self.failed if SEVERITIES.index(severity) >= SEVERITIES.index(self.fails_from) else self.title
