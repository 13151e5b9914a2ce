"""Checks of memories against each other and the clock: references, duplicates, stale memories.

References: relations, references and turns, within and across sessions.

    missing   the target does not exist, in a cold segment either: purged, erased or never written   warning
    deleted   the target or its session is in the trash and can still be restored                    note

Targets in archived sessions are assumed to exist: the archive is not opened for this. Targets that are no ids of SMP
(`docs/plan.md`, an address) lead elsewhere and are not checked, nor is what a memory was merged from.

Duplicates: near-duplicates within a session, and word-for-word copies within and across sessions. Notes, because a
duplicate is no fault, but queries return it twice; turns that were imported twice are a warning.

    similar       findings or preferences of one session that say the same (`smp_memory.lifecycle.consolidation`)
    copies        decisions, learnings or artifacts of one session with the same text
    repeated      turns with the same author, time and text: a transcript was imported twice
    across        findings, decisions or learnings with the same text in several sessions, unless they were promoted to
                  all sessions (`promoted_from`)

Stale memories, by four rules; the issue names its rule. All are notes: age is no fault.

    open         an open finding or a pending decision, not pinned, that was not changed for `health.stale_days`
    superseded   a decision that another one supersedes and that still counts as active
    faded        memories with a priority below `compaction.faded_below`: compaction takes these first; pinned ones never fade
    future       memories with a time in the future: the clock was wrong, or they were imported
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.health.examination import NOTE, NOTHING_TO_DO, WARNING, Check, HealthIssue, limited, named
from smp_memory.lifecycle.consolidation import find_duplicates
from smp_memory.model import ids
from smp_memory.model.content_checks import is_numbered_id
from smp_memory.model.decay import DecayInputs, policy_of
from smp_memory.model.session_info import ARCHIVED, DELETED
from smp_memory.model.statuses import is_active_decision, is_unresolved, superseded_ids
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.examination import Examination, SessionExamination
    from smp_memory.model.decay import Policy
    from smp_memory.model.record import Record


_MAX_ISSUES = 10
_LISTS = ("references", "learned_from")  # not `covers` of a summary: what it covers may be removed
_POINTING = frozenset(["relations", "turn_ref", *_LISTS])


class _Reference(NamedTuple):
    session: str
    id: str
    file: str
    line: int
    field: str
    target_session: str
    target: str


class ReferencesCheck(Check):
    name = "references"
    title = "all references lead to memories"
    failed = "some references lead to no memory"

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, bool]] = {}  # session -> id -> whether it is deleted
        self._unresolved: list[_Reference] = []

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        known = self._ids[session.id] = _ids_of(session)
        count = 0
        for history in session.session_history.histories.values():
            data = history.data()
            if history.deletion is not None or _POINTING.isdisjoint(data):
                continue
            origins = _origins(data)
            for field, target in _targets(data):
                count += 1
                if target in origins:
                    continue
                other, slash, id = target.rpartition("/")
                if slash and other != session.id:
                    is_fine = not ids.is_valid(other) or not ids.is_valid(id)  # a path, an address
                else:
                    is_fine = known.get(id) is False or (id not in known and not is_numbered_id(id))
                if is_fine:
                    continue
                first = history.first
                self._unresolved.append(
                    _Reference(session.id, first.id, first.file, first.line, field, other or session.id, id)
                )
        self.add_checked(count, "reference", "references")
        yield from ()

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        found: dict[str, list[HealthIssue]] = {}
        for reference in self._unresolved:
            issue = self._resolve(subject, reference)
            if issue is not None:
                found.setdefault(reference.session, []).append(issue)
        for session, issues in found.items():
            rest = f"{{}} more references in {session} lead to deleted or missing memories."
            yield from limited(issues, _MAX_ISSUES, rest)

    def _resolve(self, subject: Examination, reference: _Reference) -> HealthIssue | None:
        """The issue for a reference; None if its target exists."""
        other, target = reference.target_session, reference.target
        if other not in self._ids:
            self._ids[other] = _ids_elsewhere(subject, other)
        is_same_session = other == reference.session
        deleted = self._is_deleted(reference)
        if deleted is None and not is_same_session:  # it may have been written since that session was read
            self._ids[other] = _ids_elsewhere(subject, other)
            deleted = self._is_deleted(reference)
        if deleted is False:
            return None
        name = target if is_same_session else f"{other}/{target}"
        if deleted:
            is_session = target not in self._ids[other]
            what = f"{reference.id} refers to {name}, {'whose session' if is_session else 'which'} is deleted."
            restore = f"smp session restore {other}" if is_session else f"smp restore {other}/{target}"
            return self._issue(
                reference, NOTE, what, f"{restore} restores it; otherwise nothing needs to be done.", name
            )
        what = f"{reference.id} refers to {name}, which does not exist ({reference.field}): purged, erased or never written."
        edit = f"smp edit {reference.session}/{reference.id}" if target else ""
        return self._issue(reference, WARNING, what, f"Restore it from a backup, or remove the reference: {edit}", name)

    def _is_deleted(self, reference: _Reference) -> bool | None:
        """Whether the target is deleted; None if it does not exist."""
        known = self._ids[reference.target_session]
        return known.get(reference.target, known.get("*"))

    def _issue(self, reference: _Reference, severity: str, what: str, advice: str, name: str) -> HealthIssue:
        details: tuple[dict[str, Any], ...] = ({"id": reference.id, "field": reference.field, "target": name},)
        source = (reference.session, (reference.id,), reference.file, reference.line)
        return HealthIssue(self.name, severity, what, advice, *source, None, details)


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
    """The memories that this one was merged or promoted from: it contains what they said, so they may be deleted."""
    found: set[str] = set()
    for item in (*_listed(data.get("merged_from")), *_listed(data.get("promoted_from"))):
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            found.update((item["id"], f"{item.get('session')}/{item['id']}"))
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids_of(session: SessionExamination) -> dict[str, bool]:
    """Each id of a session, and whether it is deleted; memories in the cold segment are not."""
    found = dict.fromkeys(session.cold_ids(), False)
    found.update({id: history.deletion is not None for id, history in session.session_history.histories.items()})
    return found


def _ids_elsewhere(subject: Examination, name: str) -> dict[str, bool]:
    """The same for a session that is not under examination; `*` stands for all ids of an archived or deleted session."""
    store = subject.store
    try:
        if subject.has(name):
            return _ids_of(subject.session(name))
        if any(each.has_memories for each in store.sessions(ARCHIVED, id=name)):
            return {"*": False}
        return {"*": True} if store.sessions(DELETED, id=name) else {}
    except (SMPError, OSError):
        return {"*": False}  # in doubt it exists


_SHORTEST = 20  # characters; a text like `Yes.` is no duplicate


class DuplicatesCheck(Check):
    name = "duplicates"
    title = "no duplicate memories"
    failed = "some memories are duplicates"
    is_heavy = True

    def __init__(self) -> None:
        self._texts: dict[bytes, list[str]] = {}  # digest of a text -> its memories as `session/ID`

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        records = session.records
        self.add_checked(len(records))
        groups = find_duplicates(records)
        found = [self._similar(session.id, [record.id for record in group.records]) for group in groups]
        yield from limited(found, _MAX_ISSUES, f"{{}} more groups of memories of {session.id} say the same.")
        yield from self._copies(session.id, records)
        for record in records:
            kind = KINDS[record.type]
            is_compared = kind.is_written_down and not kind.is_named_by_key and "promoted_from" not in record.given
            if is_compared and len(record.text) >= _SHORTEST:
                self._texts.setdefault(_digest(record.type, record.text), []).append(record.ref)

    def _similar(self, session: str, ids: list[str]) -> HealthIssue:
        message = f"{named(ids)} say the same."
        advice = f"smp duplicates --session {session} shows them; --merge merges them into the first."
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
            message = f"{len(ids):,} turns are stored twice, with the same author, time and text: {named(ids)}."
            advice = f"A transcript was imported twice. smp delete --session {session} and these ids hides the copies."
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
        yield from limited(found, _MAX_ISSUES, f"{{}} more groups of memories of {session} have the same text.")

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        found = []
        for refs in self._texts.values():
            sessions = {ref.partition("/")[0] for ref in refs}
            if len(sessions) > 1:
                message = f"The same text is stored in {len(sessions):,} sessions: {named(refs)}."
                found.append(
                    HealthIssue(
                        self.name, NOTE, message, "Keep it where it belongs, smp delete the others.", None, tuple(refs)
                    )
                )
        found.sort(key=lambda issue: -len(issue.ids))
        yield from limited(found, _MAX_ISSUES, "{} more texts are stored in several sessions.")


def _digest(type: str, text: str) -> bytes:
    """A digest that ignores case and white space."""
    return blake2b(f"{type} {' '.join(text.casefold().split())}".encode(errors="replace"), digest_size=16).digest()


_DAY = timedelta(days=1)


class StalenessCheck(Check):
    name = "stale"
    title = "no memory is stale"
    failed = "some memories are stale"

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        records, config, now = session.records, session.config, session.subject.now
        self.add_checked(len(records))
        days = config["health.stale_days"]
        limit = timedelta(days=days)
        old = (now - limit + _DAY).isoformat()  # the text of a time is compared first, because parsing it takes longer
        unchanged = [
            each
            for each in records
            if each._updated < old and is_unresolved(each) and not each.pinned and _age(each, now) > limit
        ]
        if days and unchanged:
            oldest = max(_age(each, now) for each in unchanged)
            yield self._issue(
                session.id,
                "open",
                unchanged,
                f"{_are(unchanged, 'open memory', 'open memories')} unchanged for more than {days:g} days, "
                f"the longest for {oldest.days:,}: {_named(unchanged)} (rule: health.stale_days).",
                f"smp resolve {session.id}/{unchanged[0].id} closes one, smp pin exempts it from this rule.",
            )
        superseded = superseded_ids(records)
        active = [each for each in records if each.id in superseded and is_active_decision(each)]
        if active:
            yield self._issue(
                session.id,
                "superseded",
                active,
                f"{_are(active, 'decision', 'decisions')} superseded by another one and still active: {_named(active)}.",
                f"smp resolve {session.id}/{active[0].id} --status superseded",
            )
        tomorrow = (now + _DAY).isoformat()
        future = [each for each in records if each._updated > tomorrow and _age(each, now) < -_DAY]
        if future:
            message = f"{_are(future, 'memory', 'memories')} dated in the future: {_named(future)}."
            advice = "The clock was wrong when they were written, or they were imported that way."
            yield self._issue(session.id, "future", future, message, advice)
        yield from self._faded(session, records)

    def _faded(self, session: SessionExamination, records: list[Record]) -> Iterator[HealthIssue]:
        config, now = session.config, session.subject.now
        policy = self._policy(config.decay)
        below, moment = config["compaction.faded_below"], to_microseconds(now)
        recent = (now - _DAY).isoformat()
        faded = [
            each for each in records if each._updated < recent and policy.priority(DecayInputs.of(each), moment) < below
        ]
        if faded:
            message = f"{len(faded):,} of {len(records):,} memories have faded below {below:g} (rule: compaction.faded_below)."
            advice = f"{NOTHING_TO_DO}; smp compact --session {session.id} --dry-run shows what can be moved out."
            yield self._issue(session.id, "faded", faded, message, advice)

    def _policy(self, decay: dict[str, Any]) -> Policy:
        key = repr(decay)
        if key not in self._policies:
            self._policies[key] = policy_of(decay)
        return self._policies[key]

    def _issue(self, session: str, rule: str, records: list[Record], message: str, advice: str) -> HealthIssue:
        ids = tuple(record.id for record in records)
        return HealthIssue(self.name, NOTE, message, advice, session, ids, details=({"rule": rule, "count": len(ids)},))


def _age(record: Record, now: Any) -> timedelta:
    """The time since the last write; a time that cannot be parsed counts as now."""
    try:
        age: timedelta = now - max(record.created, record.updated)
    except (ValueError, OverflowError):
        return timedelta(0)
    return age


def _are(records: list[Record], one: str, many: str) -> str:
    return f"1 {one} is" if len(records) == 1 else f"{len(records):,} {many} are"


def _named(records: list[Record]) -> str:
    return named(record.id for record in records)
