"""Which memories point to something that is not there? Relations, references and turns, in and across sessions.

    missing   no such memory, not in a cold segment either: it was purged, erased, or never there    warning
    deleted   it is in the trash, or its session is: it can still be brought back                    note

What points to an archived session is taken at its word: the archive is not opened for it. Words that are no ids of SMP
(`docs/plan.md`, an address) are references to elsewhere and not judged, nor is what a memory was merged from.

Which memories say the same? Near-duplicates within a session, and word-for-word copies within and across sessions.

    alike       findings or preferences of one session that say the same (`lifecycle.consolidation`)
    copied      decisions, learnings or artifacts of one session with the same text
    twice       turns with one author, time and text: a transcript was taken in twice
    everywhere  findings, decisions or learnings with one text in several sessions

What was promoted to all sessions (`promoted_from`) is a copy on purpose. All are notes: nothing is wrong with saying something twice, but what is found then is found twice, too.

Which memories may not hold any more? By four rules, each told by its name.

    open         a finding that is open, or a decision that waits, and nobody touched for `health.stale_days`
    superseded   a decision that another one supersedes, and that still counts as active
    faded        memories less present than `compaction.faded_below`: what compaction takes first
    future       written at a time that has not come yet: the clock was wrong, or an import

All are notes: age is no fault. Pinned memories are exempt from `open` and never fade.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.decay.inputs import DecayInputs
from smp_memory.decay.policies import policy_of
from smp_memory.errors import SMPError
from smp_memory.files.reader import SessionReader
from smp_memory.health.report import NOTE, WARNING, Check, HealthIssue, counted, named, several
from smp_memory.model import ids
from smp_memory.model.times import EPOCH
from smp_memory.model.types import KINDS, PREFIXES
from smp_memory.policies.consolidation import find_duplicates
from smp_memory.policies.statuses import is_active_decision, is_unresolved, superseded_ids
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import segment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.decay.policies import Policy
    from smp_memory.health.subject import HealthSubject, SessionSubject
    from smp_memory.model.record import Record


_MOST = 10
_LISTS = ("references", "learned_from")  # what a summary covers may well be gone
_POINTING = frozenset(["relations", "turn_ref", *_LISTS])


class _Pointer(NamedTuple):
    session: str
    id: str
    file: str
    line: int
    field: str
    other: str  # the session of its target
    target: str


class ReferencesCheck(Check):
    name = "references"
    title = "references lead somewhere"

    def __init__(self) -> None:
        self._there: dict[str, dict[str, bool]] = {}  # session -> id -> whether it is deleted
        self._open: list[_Pointer] = []
        self._count = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        there = self._there[session.id] = _ids_of(session)
        for history in session.session_history.histories.values():
            data = history.data()
            if history.deletion is not None or _POINTING.isdisjoint(data):
                continue
            origins = _origins(data)
            for field, target in _targets(data):
                self._count += 1
                if target in origins:
                    continue
                other, slash, id = target.rpartition("/")
                if slash and other != session.id:
                    is_fine = not ids.is_valid(other) or not ids.is_valid(id)  # a path, an address
                else:
                    is_fine = there.get(id) is False or (id not in there and not _looks_like_ours(id))
                if is_fine:
                    continue
                first = history.first
                pointer = _Pointer(session.id, first.id, first.file, first.line, field, other or session.id, id)
                self._open.append(pointer)
        self.said = counted(self._count, "reference")
        yield from ()

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        found: dict[str, list[HealthIssue]] = {}
        for pointer in self._open:
            finding = self._judged(subject, pointer)
            if finding is not None:
                found.setdefault(pointer.session, []).append(finding)
        for session, those in found.items():
            yield from several(those, _MOST, f"{{}} more references in {session} lead to what is deleted or not there.")

    def _judged(self, subject: HealthSubject, pointer: _Pointer) -> HealthIssue | None:
        if pointer.other not in self._there:
            self._there[pointer.other] = _ids_elsewhere(subject, pointer.other)
        there = self._there[pointer.other]
        is_own = pointer.other == pointer.session
        name = pointer.target if is_own else f"{pointer.other}/{pointer.target}"
        deleted = there.get(pointer.target, there.get("*"))
        if deleted is None and not is_own:  # it may have been written since that session was read
            there = self._there[pointer.other] = _ids_elsewhere(subject, pointer.other)
            deleted = there.get(pointer.target, there.get("*"))
        if deleted is False:
            return None
        if deleted:
            is_session = pointer.target not in there
            what = f"{pointer.id} refers to {name}, " + (
                "whose session is deleted." if is_session else "which is deleted."
            )
            back = (
                f"smp session undelete {pointer.other}"
                if is_session
                else f"smp restore {pointer.other}/{pointer.target}"
            )
            return self._finding(
                pointer, NOTE, what, f"{back} brings it back; otherwise nothing needs to be done.", name
            )
        what = f"{pointer.id} refers to {name}, which is not there ({pointer.field}): purged, erased or never written."
        take_out = f"smp edit {pointer.session}/{pointer.id}" if pointer.target else ""
        return self._finding(pointer, WARNING, what, f"Bring it back from a backup, or take it out: {take_out}", name)

    def _finding(self, pointer: _Pointer, severity: str, what: str, advice: str, name: str) -> HealthIssue:
        details: tuple[dict[str, Any], ...] = ({"id": pointer.id, "field": pointer.field, "target": name},)
        at = (pointer.session, (pointer.id,), pointer.file, pointer.line)
        return HealthIssue(self.name, severity, what, advice, *at, None, details)


def _targets(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for relation in _listed(data.get("relations")):
        if isinstance(relation, dict) and isinstance(relation.get("target"), str):
            yield "relations", relation["target"]
    for field in _LISTS:
        for target in _listed(data.get(field)):
            if isinstance(target, str):
                yield field, target
    turn = data.get("turn_ref")
    if isinstance(turn, str):
        yield "turn_ref", turn


def _origins(data: dict[str, Any]) -> set[str]:
    """What a memory was made of by merging or promoting: it keeps what they said, so they may go."""
    found: set[str] = set()
    for item in (*_listed(data.get("merged_from")), *_listed(data.get("promoted_from"))):
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            found.update((item["id"], f"{item.get('session')}/{item['id']}"))
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _looks_like_ours(target: str) -> bool:
    return any(ids.number_of(target, prefix) for prefix in PREFIXES)


def _ids_of(session: SessionSubject) -> dict[str, bool]:
    """Each id, and whether it is deleted; those in the cold segment are there."""
    found = {row.id: False for row in segment_of(session.files).rows()}
    found.update({id: history.deletion is not None for id, history in session.session_history.histories.items()})
    return found


def _ids_elsewhere(subject: HealthSubject, name: str) -> dict[str, bool]:
    """The same for a session that is not looked at; `*` stands for all of one that is put away as a whole."""
    store, shelf = subject.store, ArchiveIndex(subject.store)
    try:
        if shelf.is_live(name):
            session_history = SessionReader(store.disk, store.layout, store.root, name).catch_up()
            found = {row.id: False for row in segment_of(store.session(name)).rows()}
            return found | {id: history.deletion is not None for id, history in session_history.histories.items()}
        if shelf.is_archived(name):
            return {"*": False}
        return {"*": True} if shelf.deleted(name) else {}
    except (SMPError, OSError):
        return {"*": False}  # in doubt it is there


_MOST_repeats = 10
_SHORTEST = 20  # characters; `Yes.` may well be said in many sessions


class DuplicatesCheck(Check):
    name = "duplicates"
    title = "nothing is stored twice"
    is_heavy = True

    def __init__(self) -> None:
        self._checked = 0
        self._texts: dict[bytes, list[str]] = {}  # of a text that was seen: `session/ID`

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        records = session.records
        self._checked += len(records)
        self.said = counted(self._checked, "memory", "memories")
        found = [self._alike(session.id, [record.id for record in group.records]) for group in find_duplicates(records)]
        yield from several(found, _MOST_repeats, f"{{}} more groups of memories of {session.id} say the same.")
        yield from self._copies(session.id, records)
        for record in records:
            kind = KINDS[record.type]
            is_compared = kind.is_written_down and not kind.is_named_by_key and "promoted_from" not in record.given
            if is_compared and len(record.text) >= _SHORTEST:
                self._texts.setdefault(_digest(record.type, record.text), []).append(record.ref)

    def _alike(self, session: str, ids: list[str]) -> HealthIssue:
        message = f"{named(ids)} say the same."
        advice = f"smp duplicates --session {session} shows them, with --merge the first stands for all."
        return HealthIssue(self.name, NOTE, message, advice, session, tuple(ids))

    def _copies(self, session: str, records: list[Record]) -> Iterator[HealthIssue]:
        groups: dict[tuple[Any, ...], list[str]] = {}
        for record in records:
            kind = KINDS[record.type]
            if kind.is_turn:
                key: tuple[Any, ...] = (record.type, str(record.author), record.created, _digest("", record.text))
                groups.setdefault(key, []).append(record.id)
            elif not (kind.is_merged or kind.is_said or kind.is_named_by_agent) and len(record.text) >= _SHORTEST:
                groups.setdefault((record.type, _digest("", record.text)), []).append(record.id)
        turns = [ids for key, ids in groups.items() if len(ids) > 1 and KINDS[key[0]].is_turn]
        others = [ids for key, ids in groups.items() if len(ids) > 1 and not KINDS[key[0]].is_turn]
        if turns:
            ids = tuple(id for those in turns for id in those[1:])
            message = f"{len(ids):,} turns are there twice, with the same author, time and text: {named(ids)}."
            advice = f"A transcript was taken in twice. smp delete --session {session} and these ids hides the copies."
            yield HealthIssue(self.name, WARNING, message, advice, session, ids)
        found = [
            HealthIssue(
                self.name,
                NOTE,
                f"{named(ids)} have the same text, word for word.",
                f"smp delete --session {session} {' '.join(ids[1:6])} hides the copies.",
                session,
                tuple(ids),
            )
            for ids in others
        ]
        yield from several(found, _MOST_repeats, f"{{}} more groups of memories of {session} have one text.")

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        found = []
        for refs in self._texts.values():
            sessions = {ref.partition("/")[0] for ref in refs}
            if len(sessions) > 1:
                message = f"The same text stands in {len(sessions):,} sessions: {named(refs)}."
                found.append(
                    HealthIssue(
                        self.name, NOTE, message, "Keep it where it belongs, smp delete the others.", None, tuple(refs)
                    )
                )
        found.sort(key=lambda finding: -len(finding.ids))
        yield from several(found, _MOST_repeats, "{} more texts stand in several sessions.")


def _digest(type: str, text: str) -> bytes:
    """Case and white space do not count."""
    return blake2b(f"{type} {' '.join(text.casefold().split())}".encode(errors="replace"), digest_size=16).digest()


_DAY = timedelta(days=1)


class StalenessCheck(Check):
    name = "stale"
    title = "memories are fresh"

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        records, config, now = session.records, session.config, session.subject.now
        self._checked += len(records)
        self.said = counted(self._checked, "memory", "memories")
        days = config["health.stale_days"]
        limit = timedelta(days=days)
        untouched = [each for each in records if is_unresolved(each) and not each.pinned and _age(each, now) > limit]
        if days and untouched:
            oldest = max(_age(each, now) for each in untouched)
            yield self._finding(
                session.id,
                "open",
                untouched,
                f"{_are(untouched, 'open memory', 'open memories')} untouched for more than {days:g} days, "
                f"the longest for {oldest.days:,}: {_named(untouched)} (rule: health.stale_days).",
                f"smp resolve {session.id}/{untouched[0].id} closes one, smp pin keeps it from being named here.",
            )
        superseded = superseded_ids(records)
        still = [each for each in records if each.id in superseded and is_active_decision(each)]
        if still:
            yield self._finding(
                session.id,
                "superseded",
                still,
                f"{_are(still, 'decision', 'decisions')} superseded by another one and still active: {_named(still)}.",
                f"smp resolve {session.id}/{still[0].id} --status superseded",
            )
        future = [each for each in records if _is_later(each, now)]
        if future:
            message = f"{_are(future, 'memory', 'memories')} of a time that has not come yet: {_named(future)}."
            advice = "The clock was wrong when they were written, or an import brought them."
            yield self._finding(session.id, "future", future, message, advice)
        yield from self._faded(session, records)

    def _faded(self, session: SessionSubject, records: list[Record]) -> Iterator[HealthIssue]:
        config, now = session.config, session.subject.now
        policy = self._policy(config.decay)
        below, moment = config["compaction.faded_below"], (now - EPOCH) // timedelta(microseconds=1)
        recent = (now - _DAY).isoformat()
        faded = [
            each for each in records if each._updated < recent and policy.priority(DecayInputs.of(each), moment) < below
        ]
        if faded:
            message = f"{len(faded):,} of {len(records):,} memories have faded below {below:g} (rule: compaction.faded_below)."
            advice = f"Nothing needs to be done; smp compact --session {session.id} --dry-run shows what could go."
            yield self._finding(session.id, "faded", faded, message, advice)

    def _policy(self, decay: dict[str, Any]) -> Policy:
        key = repr(decay)
        if key not in self._policies:
            self._policies[key] = policy_of(decay)
        return self._policies[key]

    def _finding(self, session: str, rule: str, records: list[Record], message: str, advice: str) -> HealthIssue:
        ids = tuple(record.id for record in records)
        return HealthIssue(self.name, NOTE, message, advice, session, ids, details=({"rule": rule, "count": len(ids)},))


def _age(record: Record, now: Any) -> timedelta:
    """Since it was last written; a time that a person spoilt counts as now."""
    try:
        age: timedelta = now - max(record.created, record.updated)
    except (ValueError, OverflowError):
        return timedelta(0)
    return age


def _is_later(record: Record, now: Any) -> bool:
    return record._updated > (now + _DAY).isoformat() and _age(record, now) < -_DAY


def _are(records: list[Record], one: str, many: str) -> str:
    return f"1 {one} is" if len(records) == 1 else f"{len(records):,} {many} are"


def _named(records: list[Record]) -> str:
    return named(record.id for record in records)
