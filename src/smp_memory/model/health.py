"""Values of health checks: issues, results per check and fix, the report; and `Check`, the base class of all checks.

    ok        no issue
    note      nothing is wrong; a person may want to know
    warning   a person should do something
    problem   a memory cannot be read, could be lost, or is visible to those who must not see it

Guarantees: plain values; `to_dict` gives JSON. `fix` names the safe fix (`smp_memory.health.doctor`) if there is one,
`advice` is a command or a sentence that says what to do otherwise. Nothing here ever holds the text of a memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"
SEVERITIES = (OK, NOTE, WARNING, PROBLEM)
ENTRY, METADATA, COLD, QUARANTINE = "entry", "metadata", "cold", "quarantine"
_NAMED = 5  # ids that a sentence names before it says how many more there are


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
    _checked = 0

    def session(self, session: Any) -> Iterable[HealthIssue]:
        """Issues of one session, a `SessionExamination` (`smp_memory.store.port`)."""
        return ()

    def store(self, subject: Any) -> Iterable[HealthIssue]:
        """Issues of the store, a `StoreExamination`, and those that are known only after all sessions were checked."""
        return ()

    def add_checked(self, number: int, one: str = "memory", many: str = "memories") -> None:
        """Count what was checked, for the summary."""
        self._checked += number
        self.summary = f"{counted(self._checked, one, many)} checked"

    def statement(self, issues: list[HealthIssue]) -> str:
        """The result in a few words."""
        severity = worst(issue.severity for issue in issues)
        return self.failed if SEVERITIES.index(severity) >= SEVERITIES.index(self.fails_from) else self.title
