"""Checks of what is stored: readability, cold segments, secrets, recalled text.

    contents   The problems that `validate` reports for each session, with advice. References are left to
               `smp_memory.health.consistency`, quarantine to the backend's checks; problems of a cold segment are
               reported under `cold`. Many problems of one kind become one issue.
    secrets    Runs the redactor over all entries of a session, history included; the quick check over those of the newest memories. Redaction happens at write; a secret may
               be stored all the same: written while redaction was off, typed into a file by hand, imported by another
               tool, or of a kind that an older SMP did not recognise.
    recalled   Finds texts with the fence of a recall (`smp_memory.privacy.fence`) that were stored as new memories. A prompt
               that holds memories comes back in a transcript or an answer; stored again it is recalled again, and one
               mistake becomes hundreds.

Guarantees: issues name ids, fields and kinds, never the text.
Non-guarantees: archived and deleted sessions are not opened; what cannot be read as a memory is not searched for secrets.
Recalled text that was retold in other words has no fence; `smp duplicates` may find it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from smp_memory.health.examination import (
    COLD,
    ENTRY,
    METADATA,
    NOTE,
    NOTHING_TO_DO,
    PROBLEM,
    WARNING,
    Check,
    HealthIssue,
    counted,
    limited,
    named,
)
from smp_memory.model.session_info import names_of
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import MARK, find, is_only_recalled
from smp_memory.privacy.settings import redactor_even_if_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.health.examination import SessionExamination, StoredContent
    from smp_memory.model.reports import Problem, Report
    from smp_memory.privacy.redaction import RedactedSpan, Redactor


_REPORTED_ELSEWHERE = ("dangling_reference", "deleted_reference", "quarantine", "settings", "other_layout")
_COLD_DAMAGED = "cold_damaged"
_SEVERITY = {"error": PROBLEM, "warning": WARNING, "note": NOTE}
_REPAIR = "smp repair --session {} --dry-run shows what can be repaired; without --dry-run it repairs it."
_ADVICE = {
    "edited": f"{NOTHING_TO_DO}; smp repair --session {{}} updates its checksum.",
    "typed": f"{NOTHING_TO_DO}; the next write adds what is missing, or: smp repair --session {{}}",
    "unsigned": f"{NOTHING_TO_DO}. Without a checksum, SMP cannot detect later edits by hand.",
    "newer_schema": "Use the newer SMP that wrote it.",
    "orphan": "Restore the memory from git or a backup, if it was removed by mistake.",
    "revision_gap": "smp history shows the revisions that exist; restore the missing one from git or a backup.",
    "duplicate_id": f"{NOTHING_TO_DO}; the next write makes the new id permanent.",
    "conflicting_change": "Choose one on the memory's page in the inspector, or: smp git resolve",
    "conflicting_put": "Keep one of the two lines in the file.",
    "conflict": "smp git resolve shows both sides and keeps one.",
    "head_conflict": "smp git resolve shows both sides and keeps one.",
    "same_preference": "Delete the one that you do not want.",
    "unreadable_validity": "Write a day or a time, or remove the field.",
    "not_a_file": "Put a plain file in its place.",
    "too_large": "If the file is yours, move a part of it into another session; if not, remove it.",
    "missing_entries": "Restore them from git or a backup, if they were removed by mistake.",
    "missing_after_change": "Append what is in this file to the one it came from, or delete it.",
    _COLD_DAMAGED: "Restore the file from a backup; smp list --archived --session {} lists what can still be read.",
}
_CONFLICTS = ("conflicting_change", "conflicting_put", "conflict", "head_conflict")
_RECOVERABLE = ("torn", "unfinished")  # the next write recovers it, or the fix
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.05
_MAX_SEPARATE = {PROBLEM: 10, WARNING: 5, NOTE: 1}  # issues of one kind before the rest becomes one


class ReadableEntries(Check):
    name = "contents"
    title = "all memories can be read"
    failed = "some entries need attention"
    fails_from = WARNING

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        report = _lasting_problems(session)
        self.add_checked(report.checked)
        by_kind: dict[tuple[str, str], list[Problem]] = {}
        for problem in report.problems:
            if problem.code not in _REPORTED_ELSEWHERE:
                by_kind.setdefault((problem.severity, problem.code), []).append(problem)
        for (severity, code), problems in by_kind.items():
            yield from _issues(session.id, _SEVERITY[severity], code, problems)

    def statement(self, issues: list[HealthIssue]) -> str:
        problems = [issue for issue in issues if issue.severity == PROBLEM]
        entries = sum(len(issue.details) or 1 for issue in problems if issue.line)
        files = sum(len(issue.details) or 1 for issue in problems if not issue.line)
        counts = [counted(entries, "memory", "memories")] if entries else []
        counts += [counted(files, "file")] if files else []
        return f"{' and '.join(counts)} cannot be read" if counts else super().statement(issues)


def _lasting_problems(session: SessionExamination) -> Report:
    """Validate until the result is stable: a write in progress looks like one that was cut off."""
    report = session.validate()
    for _ in range(_ATTEMPTS):
        before = _recoverable(report)
        if not before:
            break
        time.sleep(_PAUSE_SECONDS)
        report = session.validate()
        if _recoverable(report) == before:
            break
    return report


def _recoverable(report: Report) -> list[str]:
    return [str(problem) for problem in report.problems if problem.code in _RECOVERABLE]


def _issues(session: str, severity: str, code: str, problems: list[Problem]) -> Iterator[HealthIssue]:
    check = ReadableEntries.name
    if code == _COLD_DAMAGED or code in _CONFLICTS:
        check = ColdSegmentCheck.name if code == _COLD_DAMAGED else ConflictsCheck.name
    advice = _ADVICE.get(code, _REPAIR).format(session)
    fix = None
    if code in _RECOVERABLE:
        advice, fix = "The next write to the session recovers it, or: smp doctor --fix", "recovery"
    if code == "unsigned" and len(problems) > 1:
        yield _without_checksum(session, problems, advice)
        return
    separate = _MAX_SEPARATE[severity] if len(problems) > _MAX_SEPARATE[severity] + 1 else len(problems)
    for problem in problems[:separate]:
        id = (problem.id,) if problem.id else ()
        yield HealthIssue(check, severity, problem.message, advice, session, id, problem.path, problem.line, fix)
    rest = problems[separate:]
    if rest:
        ids = tuple(problem.id for problem in rest if problem.id)
        what = f"{len(rest):,} more of this kind ({code})" + (f": {named(ids)}" if ids else "") + "."
        details = tuple(problem.to_dict() for problem in rest)
        yield HealthIssue(check, severity, what, advice, session, ids, rest[0].path, rest[0].line, fix, details)


def _without_checksum(session: str, problems: list[Problem], advice: str) -> HealthIssue:
    """One issue for all entries of a session: in a store of another program no entry has a checksum."""
    ids = tuple(problem.id for problem in problems if problem.id)
    message = f"{len(problems):,} entries have no checksum: a person or another program wrote them. They are used like all others: {named(ids)}."
    details = tuple(problem.to_dict() for problem in problems)
    first = problems[0]
    return HealthIssue(ReadableEntries.name, NOTE, message, advice, session, ids, first.path, first.line, None, details)


class ColdSegmentCheck(Check):
    """Problems of cold segments; `ReadableEntries` finds them and reports them under this name."""

    name = "cold"
    title = "all cold segments are intact"
    failed = "some cold segments are damaged"


class ConflictsCheck(Check):
    """What merges of clones left to decide; `ReadableEntries` finds it and reports it under this name."""

    name = "conflicts"
    title = "no conflicts of a merge are left"
    failed = "conflicts of a merge wait for a choice"
    fails_from = WARNING


_MAX_ISSUES = 10
QUICK_SESSIONS, QUICK_MEMORIES = (
    50,
    200,
)  # the sessions written last, and the newest memories of each, that a quick check searches


class SecretsCheck(Check):
    name = "secrets"
    title = "no secrets are stored"
    failed = "secrets are stored"

    def __init__(self) -> None:
        self._newest: frozenset[str] | None = None  # of a quick check: the sessions that it searches
        self._left_out = 0  # memories

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        if not session.subject.quick:
            yield from self._found(session, session.contents())
            return
        self.title = "no secrets are in the newest memories"
        if self._newest is None:
            heads = sorted(session.subject.store.sessions(), key=lambda head: head.written, reverse=True)
            self._newest = frozenset(names_of(heads[:QUICK_SESSIONS]))
        contents, left_out = session.newest_contents(QUICK_MEMORIES if session.id in self._newest else 0)
        self._left_out += left_out
        older = f"{counted(self._left_out, 'older memory', 'older memories')}, " if self._left_out else ""
        self.not_checked = f"{older}metadata, cold segments and quarantine were not searched"
        yield from self._found(session, contents)

    def _found(self, session: SessionExamination, contents: Iterable[StoredContent]) -> Iterator[HealthIssue]:
        redactor = redactor_even_if_off(session.config)
        is_on = session.config["privacy.redaction.enabled"]
        severity = PROBLEM if is_on else WARNING
        advice = f"smp redact --session {session.id} --preview, then without --preview. Then change the secret itself."
        if not is_on:
            advice += " Redaction is off here (privacy.redaction.enabled)."
        found = [
            HealthIssue(self.name, severity, message, advice, session.id, ids, place.path, place.line, None, details)
            for message, ids, place, details in self._places(session, contents, redactor)
        ]
        yield from limited(found, _MAX_ISSUES, f"{{}} more places in {session.id} contain what looks like a secret.")

    def _places(
        self, session: SessionExamination, contents: Iterable[StoredContent], redactor: Redactor
    ) -> Iterator[Any]:
        """The places with something to redact, several entries of one memory as one."""
        found: dict[tuple[str, str], tuple[StoredContent, list[RedactedSpan]]] = {}
        entries = 0
        try:
            for place in contents:
                entries += place.where == ENTRY
                text = place.data
                removals = redactor.redact(text)[1] if isinstance(text, str) else redactor.redact_fields(text)[1]
                if removals:
                    found.setdefault((place.where, place.id or place.path), (place, []))[1].extend(removals)
        finally:  # the entries were checked, even if the cold segment or the quarantine cannot be read
            self.add_checked(entries, "entry", "entries")
        for place, removals in found.values():
            ids = (place.id,) if place.id else ()
            what = f"{_place_name(session, place, redactor)}: {_kinds_and_fields(removals)}."
            yield what, ids, place, _details(place.id, removals)


def _place_name(session: SessionExamination, place: StoredContent, redactor: Redactor) -> str:
    if place.where == ENTRY:
        history = session.session_history.histories.get(place.id)
        in_history = history is not None and not redactor.redact_fields(history.data())[1]
        return f"{place.id}, in its history" if in_history else place.id
    if place.where == COLD:
        return f"{place.id}, in the cold segment"
    return "The metadata of the session" if place.where == METADATA else "A file in quarantine"


def _kinds_and_fields(removals: Iterable[RedactedSpan]) -> str:
    """`github_token in finding, email in evidence[0]`."""
    places = dict.fromkeys(
        f"{removal.kind} in {removal.field}" if removal.field else removal.kind for removal in removals
    )
    return ", ".join(places)


def _details(id: str, removals: Iterable[RedactedSpan]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": id or None, "field": removal.field, "kind": removal.kind} for removal in removals)


class RecalledText(Check):
    name = "recalled"
    title = "no recalled text is stored again"
    failed = "recalled text is stored again"

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        found = []
        for history in session.session_history.histories.values():
            data = history.data()
            if history.deletion is None and _has_mark(data):
                fields = [name for name, value in _texts("", data) if MARK in value and find(value)]
                if fields:
                    found.append(self._issue(session.id, history.first, fields, data))
        self.add_checked(len(session.session_history.histories))
        yield from limited(found, _MAX_ISSUES, f"{{}} more memories of {session.id} contain recalled text.")

    def _issue(self, session: str, first: Any, fields: list[str], data: dict[str, Any]) -> HealthIssue:
        is_all = all(is_only_recalled(value) for name, value in _texts("", data) if name in fields)
        what = "only recalled text" if is_all else "recalled text"
        message = f"{first.id} contains {what} in {', '.join(fields)}."
        delete = f"smp delete {session}/{first.id} --reason recalled"
        advice = delete if is_all or KINDS[first.type].is_turn else f"smp edit {session}/{first.id}, or {delete}"
        details = tuple({"id": first.id, "field": name} for name in fields)
        return HealthIssue(
            self.name, WARNING, message, advice, session, (first.id,), first.file, first.line, None, details
        )


def _has_mark(data: dict[str, Any]) -> bool:
    """Whether a text in the fields of a memory has the mark of a fence."""
    return any(MARK in (value if type(value) is str else repr(value)) for value in data.values())


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in the fields of a memory, with the name of its field."""
    if type(value) is str:
        yield name, value
    elif type(value) is dict:
        for key, item in value.items():
            yield from _texts(f"{name}.{key}" if name else key, item)
    elif type(value) is list:
        for place, item in enumerate(value):
            yield from _texts(f"{name}[{place}]", item)
