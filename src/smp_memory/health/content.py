"""Can every memory be read? What `validate` says of each session, with what to do about it.

References are told by `smp_memory.health.consistency`, what was set aside by `smp_memory.health.storage`, cold segments under the name of
their own check. Many findings of one kind become one.

Which stored texts hold secrets? The redactor over everything that stands in a session's files, history included.

Redaction happens at write; a secret may be there all the same: written while it was off, typed into a file by hand,
imported by another tool, or of a kind that an older SMP did not know.

Guarantees: what is told are ids, fields and kinds, never what stands there.
Non-guarantees: archived and deleted sessions are not opened; what cannot be read as a memory is not judged.

Which memories were only recalled? Texts that carry the fence of a recall and were stored again as if they were new.

A prompt that holds memories comes back in a transcript or in an answer. Stored again it is found again, and again: one
mistake becomes hundreds. The fence (`smp_memory.privacy.fence`) marks what was recalled.

Non-guarantees: what was recalled and retold in other words has no fence; `smp duplicates` may find it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError
from smp_memory.files.journal import QUARANTINE
from smp_memory.health.report import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted, named, several
from smp_memory.health.subject import CONFIGURATION, head_path
from smp_memory.model.session_info import FORMAT
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import MARK, find, is_only_recalled
from smp_memory.privacy.settings import redactor_even_if_off
from smp_memory.store.cold_storage import decoded, segment_of
from smp_memory.store.verification import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject
    from smp_memory.model.reports import Problem, Report
    from smp_memory.privacy.redaction import RedactedSpan, Redactor


_ELSEWHERE = ("dangling_reference", "deleted_reference", "quarantine", "settings", "other_layout")
_COLD = "cold_damaged"
_SEVERITY = {"error": PROBLEM, "warning": WARNING, "note": NOTE}
_REPAIR = "smp repair --session {} --dry-run shows what can be put right; without --dry-run it does so."
_ADVICE = {
    "edited": "Nothing needs to be done; smp repair --session {} signs it as it stands.",
    "typed": "Nothing needs to be done; the next write adds what is missing, or: smp repair --session {}",
    "unsigned": "Nothing needs to be done; only later edits by hand cannot be told from what was written.",
    "newer_schema": "Use the newer SMP that wrote it.",
    "orphan": "Bring the memory back from git or a backup, if it was taken out by mistake.",
    "revision_gap": "smp history shows what is there; bring the missing step back from git or a backup.",
    "duplicate_id": "Nothing needs to be done; the next write makes the new id permanent.",
    "conflicting_change": "smp history shows both values; smp edit writes the right one.",
    "conflicting_put": "Keep one of the two lines in the file.",
    "head_conflict": "Correct the file as told, or: smp repair --session {}",
    "same_preference": "Delete the one that you do not want.",
    "not_a_file": "Put a plain file in its place.",
    "missing_entries": "Bring them back from git or a backup, if they are not meant to be gone.",
    "missing_after_change": "Append what is in this file to the one it came from, or delete it.",
    _COLD: "Bring the file back from a backup; smp archived --session {} lists what can still be read.",
}
_RECOVERED = ("torn", "unfinished")  # the next write puts it right, or the fix
_LOOKS, _PAUSE_SECONDS = 5, 0.05
_SEVERALLY = {PROBLEM: 10, WARNING: 5, NOTE: 1}  # so many of one kind are told one by one


class ReadableEntries(Check):
    name = "contents"
    title = "memories can be read"

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
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


def _told(session: str, severity: str, code: str, problems: list[Problem]) -> Iterator[HealthIssue]:
    check = ColdSegmentCheck.name if code == _COLD else ReadableEntries.name
    advice = _ADVICE.get(code, _REPAIR).format(session)
    fix = None
    if code in _RECOVERED:
        advice, fix = "The next write to the session does it, or: smp doctor --fix", "recovery"
    if code == "unsigned" and len(problems) > 1:
        yield _without_checksum(session, problems, advice)
        return
    alone = _SEVERALLY[severity] if len(problems) > _SEVERALLY[severity] + 1 else len(problems)
    for problem in problems[:alone]:
        own = (problem.id,) if problem.id else ()
        yield HealthIssue(check, severity, problem.message, advice, session, own, problem.path, problem.line, fix)
    rest = problems[alone:]
    if rest:
        ids = tuple(problem.id for problem in rest if problem.id)
        what = f"{len(rest):,} more of this kind ({code})" + (f": {named(ids)}" if ids else "") + "."
        details = tuple(problem.to_dict() for problem in rest)
        yield HealthIssue(check, severity, what, advice, session, ids, rest[0].path, rest[0].line, fix, details)


def _without_checksum(session: str, problems: list[Problem], advice: str) -> HealthIssue:
    """All of a session in one: a store of another program has nothing else."""
    ids = tuple(problem.id for problem in problems if problem.id)
    message = f"{len(problems):,} entries have no checksum: a person or another program wrote them. They are read like all others: {named(ids)}."
    details = tuple(problem.to_dict() for problem in problems)
    first = problems[0]
    return HealthIssue(ReadableEntries.name, NOTE, message, advice, session, ids, first.path, first.line, None, details)


class ColdSegmentCheck(Check):
    """Its findings come with those of the other files."""

    name = "cold"
    title = "cold segments are whole"


class ConfigurationCheck(Check):
    name = CONFIGURATION
    title = "settings can be used"

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        wrong = session.wrong_settings()
        if wrong is not None:
            yield wrong

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from subject.wrong
        if subject.stored is None and not subject.wrong and subject.session_ids():
            message = (
                "There is no config.json; the layout was told from the files. The next process that opens it makes one."
            )
            yield HealthIssue(self.name, NOTE, message, path=subject.config_path)


class FormatCheck(Check):
    name = "format"
    title = "format is up to date"

    def __init__(self) -> None:
        self._older: list[str] = []

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        info, layout = session.info, session.subject.store.layout
        has_head = not layout.info_file or session.subject.disk.exists(head_path(session))
        if info is not None and (info.format < FORMAT or not has_head):
            self._older.append(session.id)
        yield from ()

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        self.said = f"format {FORMAT}"
        self._older = [name for name in self._older if name in subject.session_ids()]  # others were put away meanwhile
        if self._older:
            count = len(self._older)
            yield HealthIssue(
                self.name,
                NOTE,
                f"{count:,} {'session was' if count == 1 else 'sessions were'} made by hand, by another program or by an older SMP: "
                f"{named(self._older)}. All of it is read; their heads get format {FORMAT} when they are next changed.",
                details=tuple({"session": name} for name in self._older),
            )


_MOST = 10
_PEOPLE = ("user_id", "agent_ids", "config")  # of a head: a mail address is a name there


class SecretsCheck(Check):
    name = "secrets"
    title = "no secrets in what is stored"
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
        self.said = counted(self._entries, "entry", "entries")
        yield from several(found, _MOST, f"{{}} more places in {session.id} hold what looks like a secret.")

    def _places(self, session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
        yield from self._in_entries(session, redactor)
        yield from _in_head(session, redactor)
        yield from _in_cold(session, redactor)
        yield from _in_quarantine(session, redactor)

    def _in_entries(self, session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
        redact = redactor.redact_fields
        known: dict[str, tuple[list[RedactedSpan], str, int]] = {}
        for name, state in session.reader.states.items():
            self._entries += len(state.entries)
            for entry in state.entries:
                removals = redact(entry.data)[1]
                if removals:
                    path = os.path.join(session.reader.folder, name)
                    known.setdefault(entry.id, ([], path, entry.line))[0].extend(removals)
        for id, (removals, path, line) in known.items():
            history = session.session_history.histories.get(id)
            in_history = history is not None and not redact(history.data())[1]
            where = f"{id}, in its history" if in_history else id
            yield f"{where}: {_told_exposed(removals)}.", (id,), path, line, _details(id, removals)


def _in_head(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    info = session.info
    heads = [head for state in session.reader.states.values() for head in state.heads[:-1]]  # a log keeps earlier ones
    given = [{name: value for name, value in head.items() if name not in _PEOPLE} for head in heads]
    if info is not None:
        given.append({"project": info.project, "tags": info.tags, "context": info.context, "other": info.other})
    removals = [removal for fields in given for removal in redactor.redact_fields(fields)[1]]
    if removals:
        yield f"The head of the session: {_told_exposed(removals)}.", (), head_path(session), 0, _details("", removals)


def _in_cold(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    segment = segment_of(session.files)
    found: dict[str, list[RedactedSpan]] = {}
    try:
        for each in segment.entries():
            entry = decoded(each, session.subject.layout_name)
            removals = redactor.redact_fields(entry.data)[1] if entry is not None else []
            if removals:
                found.setdefault(each.row.id, []).extend(removals)
    except SMPError:
        return  # it was rewritten meanwhile, or is damaged: its own check says so
    for id, removals in found.items():
        yield f"{id}, in the cold segment: {_told_exposed(removals)}.", (id,), segment.path, 0, _details(id, removals)


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
            yield f"What was set aside: {_told_exposed(removals)}.", (), path, 0, _details("", removals)


def _told_exposed(removals: Iterable[RedactedSpan]) -> str:
    """Kinds and fields: `github_token in finding, email in evidence[0]`."""
    places = dict.fromkeys(
        f"{removal.kind} in {removal.field}" if removal.field else removal.kind for removal in removals
    )
    return ", ".join(places)


def _details(id: str, removals: Iterable[RedactedSpan]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": id or None, "field": removal.field, "kind": removal.kind} for removal in removals)


_MOST_recalled = 10


class RecalledText(Check):
    name = "recalled"
    title = "no recalled text stored again"

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        found = []
        for history in session.session_history.histories.values():
            fields = [name for name, value in _texts("", history.data()) if MARK in value and find(value)]
            if fields and history.deletion is None:
                found.append(self._finding(session.id, history.first, fields, history.data()))
        self._checked += len(session.session_history.histories)
        self.said = counted(self._checked, "memory", "memories")
        yield from several(found, _MOST_recalled, f"{{}} more memories of {session.id} hold recalled text.")

    def _finding(self, session: str, first: Any, fields: list[str], data: dict[str, Any]) -> HealthIssue:
        only = all(is_only_recalled(value) for name, value in _texts("", data) if name in fields)
        message = f"{first.id} holds recalled text in {', '.join(fields)}" + (
            ", and nothing else there." if only else "."
        )
        take_out = f"smp delete {session}/{first.id} --reason recalled"
        advice = take_out if only or KINDS[first.type].is_turn else f"smp edit {session}/{first.id}, or {take_out}"
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
