"""Can every memory be read? What `validate` says of each session, with what to do about it.

References are told by `smp.health.references`, what was set aside by `smp.health.remains`, cold segments under the name of
their own check. Many findings of one kind become one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from smp.health.check import Check
from smp.health.report import NOTE, PROBLEM, WARNING, Finding, counted, named
from smp.health.subject import CONFIGURATION, head_path
from smp.model.session_info import FORMAT
from smp.store.check import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject
    from smp.model.report import Problem, Report

_ELSEWHERE = ("dangling_reference", "deleted_reference", "quarantine", "settings", "other_layout")
_COLD = "cold_damaged"
_SEVERITY = {"error": PROBLEM, "warning": WARNING, "note": NOTE}
_REPAIR = "smp repair --session {} --dry-run shows what can be put right; without --dry-run it does so."
_ADVICE = {
    "edited": "Nothing needs to be done; smp repair --session {} signs it as it stands.",
    "unsigned": "Nothing needs to be done; smp repair --session {} signs it as it stands.",
    "newer_schema": "Use the newer SMP that wrote it.",
    "orphan": "Bring the memory back from git or a backup, if it was taken out by mistake.",
    "revision_gap": "smp history shows what is there; bring the missing step back from git or a backup.",
    "duplicate_id": "Nothing needs to be done; the next write makes the new id permanent.",
    "conflicting_change": "smp history shows both values; smp edit writes the right one.",
    "conflicting_put": "Keep one of the two lines in the file.",
    "same_preference": "Delete the one that you do not want.",
    "not_a_file": "Put a plain file in its place.",
    "missing_entries": "Bring them back from git or a backup, if they are not meant to be gone.",
    "missing_after_change": "Append what is in this file to the one it came from, or delete it.",
    _COLD: "Bring the file back from a backup; smp archived --session {} lists what can still be read.",
}
_RECOVERED = ("torn", "unfinished")  # the next write puts it right, or the fix
_LOOKS, _PAUSE_SECONDS = 5, 0.05
_SEVERALLY = {PROBLEM: 10, WARNING: 5, NOTE: 1}  # so many of one kind are told one by one


class Contents(Check):
    name = "contents"
    title = "memories can be read"

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        report = _settled(session)
        self._checked += report.checked
        self.said = counted(self._checked, "memory", "memories")
        by_kind: dict[tuple[str, str], list[Problem]] = {}
        for problem in report.problems:
            if problem.code not in _ELSEWHERE:
                by_kind.setdefault((problem.severity, problem.code), []).append(problem)
        for (severity, code), problems in by_kind.items():
            yield from _told(session.id, _SEVERITY[severity], code, problems)


def _settled(session: SessionSubject) -> Report:
    """What is wrong and stays so: a write that is under way looks like one that was cut off."""
    report = validate(session.files, session.reader)
    for _ in range(_LOOKS):
        passing = [str(problem) for problem in report.problems if problem.code in _RECOVERED]
        if not passing:
            break
        time.sleep(_PAUSE_SECONDS)
        before, report = passing, validate(session.files, session.reader)
        if [str(problem) for problem in report.problems if problem.code in _RECOVERED] == before:
            break
    return report


def _told(session: str, severity: str, code: str, problems: list[Problem]) -> Iterator[Finding]:
    check = Cold.name if code == _COLD else Contents.name
    advice = _ADVICE.get(code, _REPAIR).format(session)
    fix = None
    if code in _RECOVERED:
        advice, fix = "The next write to the session does it, or: smp doctor --fix", "recovery"
    alone = _SEVERALLY[severity] if len(problems) > _SEVERALLY[severity] + 1 else len(problems)
    for problem in problems[:alone]:
        own = (problem.id,) if problem.id else ()
        yield Finding(check, severity, problem.message, advice, session, own, problem.path, problem.line, fix)
    rest = problems[alone:]
    if rest:
        ids = tuple(problem.id for problem in rest if problem.id)
        what = f"{len(rest):,} more of this kind ({code})" + (f": {named(ids)}" if ids else "") + "."
        details = tuple(problem.to_dict() for problem in rest)
        yield Finding(check, severity, what, advice, session, ids, rest[0].path, rest[0].line, fix, details)


class Cold(Check):
    """Its findings come with those of the other files."""

    name = "cold"
    title = "cold segments are whole"


class Configuration(Check):
    name = CONFIGURATION
    title = "settings can be used"

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        wrong = session.wrong_settings()
        if wrong is not None:
            yield wrong

    def store(self, subject: Subject) -> Iterator[Finding]:
        yield from subject.wrong
        if subject.stored is None and not subject.wrong and subject.session_ids():
            message = (
                "There is no config.json; the layout was told from the files. The next process that opens it makes one."
            )
            yield Finding(self.name, NOTE, message, path=subject.config_path)


class Format(Check):
    name = "format"
    title = "format is up to date"

    def __init__(self) -> None:
        self._older: list[str] = []

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        info, layout = session.info, session.subject.store.layout
        has_head = not layout.info_file or session.subject.disk.exists(head_path(session))
        if info is not None and (info.format < FORMAT or not has_head):
            self._older.append(session.id)
        yield from ()

    def store(self, subject: Subject) -> Iterator[Finding]:
        self.said = f"format {FORMAT}"
        self._older = [name for name in self._older if name in subject.session_ids()]  # others were put away meanwhile
        if self._older:
            count = len(self._older)
            yield Finding(
                self.name,
                NOTE,
                f"{count:,} {'session was' if count == 1 else 'sessions were'} made by hand or by an older SMP: "
                f"{named(self._older)}. All of it is read; their heads get format {FORMAT} when they are next changed.",
                details=tuple({"session": name} for name in self._older),
            )
