"""Which memories say the same? Near-duplicates within a session, and word-for-word copies within and across sessions.

    alike       findings or preferences of one session that say the same (`lifecycle.consolidation`)
    copied      decisions, learnings or artifacts of one session with the same text
    twice       turns with one author, time and text: a transcript was taken in twice
    everywhere  findings, decisions or learnings with one text in several sessions

What was promoted to all sessions (`promoted_from`) is a copy on purpose. All are notes: nothing is wrong with saying something twice, but what is found then is found twice, too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from smp.health.check import Check
from smp.health.report import NOTE, WARNING, Finding, counted, named, several
from smp.lifecycle.consolidation import find_duplicates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject
    from smp.model.record import Record

_MOST = 10
_COPIED = ("decision", "learning", "artifact")
_EVERYWHERE = ("finding", "decision", "learning")
_SHORTEST = 20  # characters; `Yes.` may well be said in many sessions


class Repeats(Check):
    name = "duplicates"
    title = "nothing is stored twice"
    is_heavy = True

    def __init__(self) -> None:
        self._checked = 0
        self._texts: dict[bytes, list[str]] = {}  # of a text that was seen: `session/ID`

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        records = session.records
        self._checked += len(records)
        self.said = counted(self._checked, "memory", "memories")
        found = [self._alike(session.id, [record.id for record in group.records]) for group in find_duplicates(records)]
        yield from several(found, _MOST, f"{{}} more groups of memories of {session.id} say the same.")
        yield from self._copies(session.id, records)
        for record in records:
            if record.type in _EVERYWHERE and len(record.text) >= _SHORTEST and "promoted_from" not in record.given:
                self._texts.setdefault(_digest(record.type, record.text), []).append(record.ref)

    def _alike(self, session: str, ids: list[str]) -> Finding:
        message = f"{named(ids)} say the same."
        advice = f"smp duplicates --session {session} shows them, with --merge the first stands for all."
        return Finding(self.name, NOTE, message, advice, session, tuple(ids))

    def _copies(self, session: str, records: list[Record]) -> Iterator[Finding]:
        groups: dict[tuple[Any, ...], list[str]] = {}
        for record in records:
            if record.type == "conversation":
                key: tuple[Any, ...] = (record.type, str(record.author), record.created, _digest("", record.text))
                groups.setdefault(key, []).append(record.id)
            elif record.type in _COPIED and len(record.text) >= _SHORTEST:
                groups.setdefault((record.type, _digest("", record.text)), []).append(record.id)
        turns = [ids for key, ids in groups.items() if len(ids) > 1 and key[0] == "conversation"]
        others = [ids for key, ids in groups.items() if len(ids) > 1 and key[0] != "conversation"]
        if turns:
            ids = tuple(id for those in turns for id in those[1:])
            message = f"{len(ids):,} turns are there twice, with the same author, time and text: {named(ids)}."
            advice = f"A transcript was taken in twice. smp delete --session {session} and these ids hides the copies."
            yield Finding(self.name, WARNING, message, advice, session, ids)
        found = [
            Finding(
                self.name,
                NOTE,
                f"{named(ids)} have the same text, word for word.",
                f"smp delete --session {session} {' '.join(ids[1:6])} hides the copies.",
                session,
                tuple(ids),
            )
            for ids in others
        ]
        yield from several(found, _MOST, f"{{}} more groups of memories of {session} have one text.")

    def store(self, subject: Subject) -> Iterator[Finding]:
        found = []
        for refs in self._texts.values():
            sessions = {ref.partition("/")[0] for ref in refs}
            if len(sessions) > 1:
                message = f"The same text stands in {len(sessions):,} sessions: {named(refs)}."
                found.append(
                    Finding(
                        self.name, NOTE, message, "Keep it where it belongs, smp delete the others.", None, tuple(refs)
                    )
                )
        found.sort(key=lambda finding: -len(finding.ids))
        yield from several(found, _MOST, "{} more texts stand in several sessions.")


def _digest(type: str, text: str) -> bytes:
    """Case and white space do not count."""
    return blake2b(f"{type} {' '.join(text.casefold().split())}".encode(errors="replace"), digest_size=16).digest()
