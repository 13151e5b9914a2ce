"""Checks of what is stored: settings, format, readability, cold segments, secrets, recalled text.

    contents   The problems that `validate` reports for each session, with advice. References are left to
               `smp_memory.health.consistency`, quarantine to `smp_memory.health.storage`; problems of a cold segment are
               reported under `cold`. Many problems of one kind become one issue.
    secrets    Runs the redactor over all entries of a session, history included. Redaction happens at write; a secret may
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

import os
import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError
from smp_memory.files.journal import QUARANTINE
from smp_memory.health.report import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted, limited, named
from smp_memory.health.subject import CONFIGURATION, metadata_path
from smp_memory.model.session_info import FORMAT
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import MARK, find, is_only_recalled
from smp_memory.privacy.settings import redactor_even_if_off
from smp_memory.store.cold_storage import cold_segment_of, decode_cold_entry
from smp_memory.store.verification import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject
    from smp_memory.model.reports import Problem, Report
    from smp_memory.privacy.redaction import RedactedSpan, Redactor


_REPORTED_ELSEWHERE = ("dangling_reference", "deleted_reference", "quarantine", "settings", "other_layout")
_COLD = "cold_damaged"
_SEVERITY = {"error": PROBLEM, "warning": WARNING, "note": NOTE}
_REPAIR = "smp repair --session {} --dry-run shows what can be repaired; without --dry-run it repairs it."
_ADVICE = {
    "edited": "Nothing needs to be done; smp repair --session {} updates its checksum.",
    "typed": "Nothing needs to be done; the next write adds what is missing, or: smp repair --session {}",
    "unsigned": "Nothing needs to be done. Without a checksum, SMP cannot detect later edits by hand.",
    "newer_schema": "Use the newer SMP that wrote it.",
    "orphan": "Restore the memory from git or a backup, if it was removed by mistake.",
    "revision_gap": "smp history shows the revisions that exist; restore the missing one from git or a backup.",
    "duplicate_id": "Nothing needs to be done; the next write makes the new id permanent.",
    "conflicting_change": "smp history shows both values; smp edit writes the right one.",
    "conflicting_put": "Keep one of the two lines in the file.",
    "head_conflict": "Correct the file as the message says, or: smp repair --session {}",
    "same_preference": "Delete the one that you do not want.",
    "not_a_file": "Put a plain file in its place.",
    "missing_entries": "Restore them from git or a backup, if they were removed by mistake.",
    "missing_after_change": "Append what is in this file to the one it came from, or delete it.",
    _COLD: "Restore the file from a backup; smp archived --session {} lists what can still be read.",
}
_RECOVERABLE = ("torn", "unfinished")  # the next write recovers it, or the fix
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.05
_MAX_SEPARATE = {PROBLEM: 10, WARNING: 5, NOTE: 1}  # issues of one kind before the rest becomes one


class ReadableEntries(Check):
    name = "contents"
    title = "all memories can be read"
    failed = "some entries need attention"
    fails_from = WARNING

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        report = _lasting_problems(session)
        self._checked += report.checked
        self.summary = f"{counted(self._checked, 'memory', 'memories')} checked"
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


def _lasting_problems(session: SessionSubject) -> Report:
    """Validate until the result is stable: a write in progress looks like one that was cut off."""
    report = validate(session.files, session.reader)
    for _ in range(_ATTEMPTS):
        before = _recoverable(report)
        if not before:
            break
        time.sleep(_PAUSE_SECONDS)
        report = validate(session.files, session.reader)
        if _recoverable(report) == before:
            break
    return report


def _recoverable(report: Report) -> list[str]:
    return [str(problem) for problem in report.problems if problem.code in _RECOVERABLE]


def _issues(session: str, severity: str, code: str, problems: list[Problem]) -> Iterator[HealthIssue]:
    check = ColdSegmentCheck.name if code == _COLD else ReadableEntries.name
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


class ConfigurationCheck(Check):
    name = CONFIGURATION
    title = "all settings can be used"
    failed = "some settings cannot be used"
    fails_from = WARNING

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        issue = session.config_issue()
        if issue is not None:
            yield issue

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from subject.config_issues
        if subject.is_too_new:
            self.failed = "the store has a newer format"
        if subject.stored_config is None and not subject.config_issues and subject.session_ids():
            message = "There is no config.json; the layout was detected from the files. Opening the store creates one."
            yield HealthIssue(self.name, NOTE, message, path=subject.config_path)


class FormatCheck(Check):
    name = "format"
    title = "all sessions have the current format"
    failed = "some sessions have an older format"

    def __init__(self) -> None:
        self._older: list[str] = []

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        info, layout = session.info, session.subject.store.layout
        has_metadata = not layout.info_file or session.subject.disk.exists(metadata_path(session))
        if info is not None and (info.format < FORMAT or not has_metadata):
            self._older.append(session.id)
        yield from ()

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        self.summary = f"format {FORMAT}"
        self._older = [
            name for name in self._older if name in subject.session_ids()
        ]  # without those archived meanwhile
        if self._older:
            count = len(self._older)
            yield HealthIssue(
                self.name,
                NOTE,
                f"{count:,} {'session was' if count == 1 else 'sessions were'} written by hand, by another program or by an older SMP: "
                f"{named(self._older)}. All of it can be read; their metadata gets format {FORMAT} with the next change.",
                details=tuple({"session": name} for name in self._older),
            )


_MAX_ISSUES = 10
_PEOPLE = ("user_id", "agent_ids", "config")  # metadata in which a mail address is a name, not a secret


class SecretsCheck(Check):
    name = "secrets"
    title = "no secrets are stored"
    failed = "secrets are stored"
    is_heavy = True

    def __init__(self) -> None:
        self._entries = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        redactor = redactor_even_if_off(session.config)
        is_on = session.config["privacy.redaction.enabled"]
        severity = PROBLEM if is_on else WARNING
        advice = f"smp redact --session {session.id} --preview, then without --preview. Then change the secret itself."
        if not is_on:
            advice += " Redaction is off here (privacy.redaction.enabled)."
        found = [
            HealthIssue(self.name, severity, message, advice, session.id, ids, path, line, None, details)
            for message, ids, path, line, details in self._places(session, redactor)
        ]
        self.summary = f"{counted(self._entries, 'entry', 'entries')} checked"
        yield from limited(found, _MAX_ISSUES, f"{{}} more places in {session.id} contain what looks like a secret.")

    def _places(self, session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
        yield from self._in_entries(session, redactor)
        yield from _in_metadata(session, redactor)
        yield from _in_cold(session, redactor)
        yield from _in_quarantine(session, redactor)

    def _in_entries(self, session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
        redact = redactor.redact_fields
        found: dict[str, tuple[list[RedactedSpan], str, int]] = {}
        for name, state in session.reader.states.items():
            self._entries += len(state.entries)
            for entry in state.entries:
                removals = redact(entry.data)[1]
                if removals:
                    path = os.path.join(session.reader.folder, name)
                    found.setdefault(entry.id, ([], path, entry.line))[0].extend(removals)
        for id, (removals, path, line) in found.items():
            history = session.session_history.histories.get(id)
            in_history = history is not None and not redact(history.data())[1]
            where = f"{id}, in its history" if in_history else id
            yield f"{where}: {_kinds_and_fields(removals)}.", (id,), path, line, _details(id, removals)


def _in_metadata(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    info = session.info
    earlier = [
        head for state in session.reader.states.values() for head in state.metadata_lines[:-1]
    ]  # kept by the log layout
    versions = [{name: value for name, value in head.items() if name not in _PEOPLE} for head in earlier]
    if info is not None:
        versions.append({"project": info.project, "tags": info.tags, "context": info.context, "other": info.other})
    removals = [removal for fields in versions for removal in redactor.redact_fields(fields)[1]]
    if removals:
        message = f"The metadata of the session: {_kinds_and_fields(removals)}."
        yield message, (), metadata_path(session), 0, _details("", removals)


def _in_cold(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    segment = cold_segment_of(session.files)
    found: dict[str, list[RedactedSpan]] = {}
    try:
        for each in segment.entries():
            entry = decode_cold_entry(each, session.subject.layout_name)
            removals = redactor.redact_fields(entry.data)[1] if entry is not None else []
            if removals:
                found.setdefault(each.row.id, []).extend(removals)
    except SMPError:
        return  # it was rewritten meanwhile, or is damaged, which ColdSegmentCheck reports
    for id, removals in found.items():
        yield (
            f"{id}, in the cold segment: {_kinds_and_fields(removals)}.",
            (id,),
            segment.path,
            0,
            _details(id, removals),
        )


def _in_quarantine(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    disk, folder = session.subject.disk, os.path.join(session.reader.private, QUARANTINE)
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        try:
            text = disk.read(path).decode("utf-8", "replace")
        except (OSError, SMPError):
            continue
        removals = redactor.redact(text)[1]
        if removals:
            yield f"A file in quarantine: {_kinds_and_fields(removals)}.", (), path, 0, _details("", removals)


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

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        found = []
        for history in session.session_history.histories.values():
            fields = [name for name, value in _texts("", history.data()) if MARK in value and find(value)]
            if fields and history.deletion is None:
                found.append(self._issue(session.id, history.first, fields, history.data()))
        self._checked += len(session.session_history.histories)
        self.summary = f"{counted(self._checked, 'memory', 'memories')} checked"
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
