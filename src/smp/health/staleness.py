"""Which memories may not hold any more? By four rules, each told by its name.

    open         a finding that is open, or a decision that waits, and nobody touched for `health.stale_days`
    superseded   a decision that another one supersedes, and that still counts as active
    faded        memories less present than `compaction.faded_below`: what compaction takes first
    future       written at a time that has not come yet: the clock was wrong, or an import

All are notes: age is no fault. Pinned memories are exempt from `open` and never fade.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp.decay.facts import Facts
from smp.decay.policies import policy_of
from smp.health.check import Check
from smp.health.report import NOTE, Finding, counted, named
from smp.lifecycle.standing import is_active_decision, is_waiting, superseded_ids
from smp.model.time import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.decay.policies import Policy
    from smp.health.subject import SessionSubject
    from smp.model.record import Record

_DAY = timedelta(days=1)


class Staleness(Check):
    name = "stale"
    title = "memories are fresh"

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        records, config, now = session.records, session.config, session.subject.now
        self._checked += len(records)
        self.said = counted(self._checked, "memory", "memories")
        days = config["health.stale_days"]
        limit = timedelta(days=days)
        untouched = [each for each in records if is_waiting(each) and not each.pinned and _age(each, now) > limit]
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

    def _faded(self, session: SessionSubject, records: list[Record]) -> Iterator[Finding]:
        config, now = session.config, session.subject.now
        policy = self._policy(config.decay)
        below, moment = config["compaction.faded_below"], (now - EPOCH) // timedelta(microseconds=1)
        recent = (now - _DAY).isoformat()
        faded = [each for each in records if each._updated < recent and policy.priority(Facts.of(each), moment) < below]
        if faded:
            message = f"{len(faded):,} of {len(records):,} memories have faded below {below:g} (rule: compaction.faded_below)."
            advice = f"Nothing needs to be done; smp compact --session {session.id} --dry-run shows what could go."
            yield self._finding(session.id, "faded", faded, message, advice)

    def _policy(self, decay: dict[str, Any]) -> Policy:
        key = repr(decay)
        if key not in self._policies:
            self._policies[key] = policy_of(decay)
        return self._policies[key]

    def _finding(self, session: str, rule: str, records: list[Record], message: str, advice: str) -> Finding:
        ids = tuple(record.id for record in records)
        return Finding(self.name, NOTE, message, advice, session, ids, details=({"rule": rule, "count": len(ids)},))


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
