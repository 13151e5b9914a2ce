"""Which stored texts hold secrets? The redactor over everything that stands in a session's files, history included.

Redaction happens at write; a secret may be there all the same: written while it was off, typed into a file by hand,
imported by another tool, or of a kind that an older SMP did not know.

Guarantees: what is told are ids, fields and kinds, never what stands there.
Non-guarantees: archived and deleted sessions are not opened; what cannot be read as a memory is not judged.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp.errors import SMPError
from smp.files.journal import QUARANTINE
from smp.health.check import Check
from smp.health.report import PROBLEM, WARNING, Finding, counted, several
from smp.health.subject import head_path
from smp.redacting import redactor_always
from smp.store.cold_memories import decoded, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp.health.subject import SessionSubject
    from smp.privacy.redact import Redactor, Removal

_MOST = 10
_PEOPLE = ("user_id", "agent_ids", "config")  # of a head: a mail address is a name there


class Exposed(Check):
    name = "secrets"
    title = "no secrets in what is stored"
    is_heavy = True

    def __init__(self) -> None:
        self._entries = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        redactor = redactor_always(session.config)
        is_on = session.config["privacy.redaction.enabled"]
        severity = PROBLEM if is_on else WARNING
        advice = f"smp redact --session {session.id} --preview, then without --preview. Then change the secret itself."
        if not is_on:
            advice += " Redaction is off here (privacy.redaction.enabled)."
        found = [
            Finding(self.name, severity, message, advice, session.id, ids, path, line, None, details)
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
        known: dict[str, tuple[list[Removal], str, int]] = {}
        for name, state in session.reader.states.items():
            self._entries += len(state.entries)
            for entry in state.entries:
                removals = redact(entry.data)[1]
                if removals:
                    path = os.path.join(session.reader.folder, name)
                    known.setdefault(entry.id, ([], path, entry.line))[0].extend(removals)
        for id, (removals, path, line) in known.items():
            trail = session.fold.trails.get(id)
            in_history = trail is not None and not redact(trail.data())[1]
            where = f"{id}, in its history" if in_history else id
            yield f"{where}: {_told(removals)}.", (id,), path, line, _details(id, removals)


def _in_head(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    info = session.info
    heads = [head for state in session.reader.states.values() for head in state.heads[:-1]]  # a log keeps earlier ones
    given = [{name: value for name, value in head.items() if name not in _PEOPLE} for head in heads]
    if info is not None:
        given.append({"project": info.project, "tags": info.tags, "context": info.context, "other": info.other})
    removals = [removal for fields in given for removal in redactor.redact_fields(fields)[1]]
    if removals:
        yield f"The head of the session: {_told(removals)}.", (), head_path(session), 0, _details("", removals)


def _in_cold(session: SessionSubject, redactor: Redactor) -> Iterator[Any]:
    segment = segment_of(session.files)
    found: dict[str, list[Removal]] = {}
    try:
        for each in segment.entries():
            entry = decoded(each, session.subject.layout_name)
            removals = redactor.redact_fields(entry.data)[1] if entry is not None else []
            if removals:
                found.setdefault(each.row.id, []).extend(removals)
    except SMPError:
        return  # it was rewritten meanwhile, or is damaged: its own check says so
    for id, removals in found.items():
        yield f"{id}, in the cold segment: {_told(removals)}.", (id,), segment.path, 0, _details(id, removals)


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
            yield f"What was set aside: {_told(removals)}.", (), path, 0, _details("", removals)


def _told(removals: Iterable[Removal]) -> str:
    """Kinds and fields: `github_token in finding, email in evidence[0]`."""
    places = dict.fromkeys(
        f"{removal.kind} in {removal.field}" if removal.field else removal.kind for removal in removals
    )
    return ", ".join(places)


def _details(id: str, removals: Iterable[Removal]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": id or None, "field": removal.field, "kind": removal.kind} for removal in removals)
