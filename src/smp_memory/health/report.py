"""What was found, how bad is it, and what comes next? The values that a look over a store ends in.

    ok        nothing to say
    note      fine; a person may want to know
    warning   a person should do something
    problem   a memory cannot be read, or could be lost, or is seen by those who must not

Guarantees: plain values; `to_dict` gives JSON. `fix` names the safe fix (`smp_memory.health.doctor`) if there is one, `advice` is a
command or a sentence that says what to do otherwise. Nothing here ever holds the text of a memory.

What is a check? Something that looks at each session, then at the store, and says what it found.

A check is made anew for each look, may keep figures from session to session, and may raise: that becomes a finding of its
own, and all others still run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject


OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"
SEVERITIES = (OK, NOTE, WARNING, PROBLEM)
_NAMED = 5  # ids that a sentence names before it says how many more there are


class HealthIssue(NamedTuple):
    """One thing that a look has found."""

    check: str
    severity: str
    message: str  # what is there, and what it means
    advice: str = ""  # what to do next
    session: str | None = None
    ids: tuple[str, ...] = ()  # of memories
    path: str | None = None
    line: int = 0
    fix: str | None = None  # the safe fix that takes care of it
    details: tuple[dict[str, Any], ...] = ()  # the same for machines, item by item

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "ids": list(self.ids), "line": self.line or None, "details": list(self.details)}


class CheckResult(NamedTuple):
    """One check: what it looked at, and how it came out."""

    name: str
    title: str
    severity: str
    said: str  # what was looked at, in figures
    findings: list[HealthIssue]
    skipped: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        known = self._asdict()
        del known["findings"]
        return {**known, "seconds": round(self.seconds, 3), "findings": len(self.findings)}


class FixResult(NamedTuple):
    """One safe fix that was asked for: what it did, or why it could not."""

    name: str
    ok: bool
    did: list[str]

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class HealthReport(NamedTuple):
    """How a store is."""

    root: str
    layout: str
    sessions: int
    memories: int
    checks: list[CheckResult]
    fixed: list[FixResult]  # what was done before this look
    seconds: float = 0.0

    @property
    def findings(self) -> list[HealthIssue]:
        """All of them, the gravest first."""
        every = [finding for check in self.checks for finding in check.findings]
        return sorted(every, key=lambda finding: -SEVERITIES.index(finding.severity))

    @property
    def severity(self) -> str:
        """Of the gravest finding."""
        return worst(finding.severity for check in self.checks for finding in check.findings)

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything: there are notes at most."""
        return self.severity in (OK, NOTE)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def fixes(self) -> list[str]:
        """The safe fixes that would help."""
        return list(dict.fromkeys(finding.fix for finding in self.findings if finding.fix))

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def of(self, check: str) -> list[HealthIssue]:
        """The findings of one check."""
        return [finding for each in self.checks if each.name == check for finding in each.findings]

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
            "findings": [finding.to_dict() for finding in self.findings],
            "fixes": self.fixes,
            "fixed": [fixed.to_dict() for fixed in self.fixed],
            "seconds": round(self.seconds, 3),
        }


def worst(severities: Iterable[str]) -> str:
    return max(severities, key=SEVERITIES.index, default=OK)


def named(ids: Iterable[str]) -> str:
    """Some ids in a sentence: `DEC-0001, DEC-0002 and 7 more`."""
    known = list(ids)
    more = len(known) - _NAMED
    return ", ".join(known[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, one: str, many: str = "") -> str:
    """`1 memory`, `2,000 memories`."""
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def several(findings: list[HealthIssue], most: int, rest: str) -> Iterator[HealthIssue]:
    """The first so many, and one for all others, whose sentence is `rest` with their number in the place of `{}`."""
    yield from findings[:most]
    others = findings[most:]
    if len(others) == 1:
        yield others[0]
    elif others:
        yield others[0]._replace(
            severity=worst(finding.severity for finding in others),
            message=rest.format(f"{len(others):,}"),
            ids=tuple(id for finding in others for id in finding.ids),
            line=0,
            details=tuple(detail for finding in others for detail in finding.details or (_plain(finding),)),
        )


def _plain(finding: HealthIssue) -> dict[str, Any]:
    return {"message": finding.message, "path": finding.path, "line": finding.line or None, "ids": list(finding.ids)}


class Check:
    name = ""
    title = ""
    is_heavy = False  # left out of a quick look
    said = ""  # what was looked at, in figures; set by the check

    def session(self, session: SessionSubject) -> Iterable[HealthIssue]:
        """What is wrong with one session."""
        return ()

    def store(self, subject: HealthSubject) -> Iterable[HealthIssue]:
        """What is wrong with the store, or shows only when all sessions were seen."""
        return ()
