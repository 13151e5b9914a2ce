"""Size of a session, its breakdown and growth, and the priorities of its memories; for planning and for people.

Guarantees: nothing is written. Growth is computed from the times of the session's own memories, so no samples are stored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from smp_memory.lifecycle.compaction_plan import estimate_gain
from smp_memory.lifecycle.quota import SizeReport, Thresholds, size_report
from smp_memory.lifecycle.retention import PreservationRules, WeighedMemory
from smp_memory.model.candidates import LATEST, CandidateRequest
from smp_memory.model.decay import inputs_of
from smp_memory.model.history import COLD
from smp_memory.model.times import EPOCH, to_microseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.config.settings import Config
    from smp_memory.model.decay import Policy
    from smp_memory.model.entry import Entry
    from smp_memory.store.port import SessionStore, Store

    Figures = dict[str, tuple[float, float, datetime | None]]  # priority, priority without floor, last access

_STEP = timedelta(hours=1)  # resolution of the growth samples


def figures(store: Store, session: str, policy: Policy, now: datetime) -> Figures:
    """Priority and last access of each memory, by id; from the index, without reading the session."""
    moment = to_microseconds(now)
    asked = CandidateRequest(sessions=[session], include_deleted=True, fetch=[LATEST] if policy.is_joint else ())
    found: Figures = {}
    for each in store.indexer.candidates(asked).matches:
        inputs, used = inputs_of(each), each.last_access
        last = EPOCH + timedelta(microseconds=used) if used is not None else None
        found[each.id] = policy.priority(inputs, moment), policy.without_floor(inputs, moment), last
    return found


def weighed_memories(store: Store, session: SessionStore, policy: Policy, now: datetime) -> list[WeighedMemory]:
    """All memories with the figures that planning needs; one without figures counts as new."""
    known = figures(store, session.session, policy, now)

    found = []
    for id, history in session.history().histories.items():
        record = history.record(session.session)
        if record is not None:
            priority, faded, last = known.get(id, (1.0, 1.0, None))
            earlier_bytes = _size(history.superseded()) if len(history.entries) > 2 else 0
            found.append(WeighedMemory(record, _size(history.entries), priority, last, earlier_bytes, faded))
    return found


def _size(entries: list[Entry]) -> int:
    size = 0
    for _, start, end in {(entry.file, *entry.place) for entry in entries}:  # folded entries share a position
        size += end - start
    return size


def report(store: Store, session: SessionStore, config: Config, policy: Policy, now: datetime) -> SizeReport:
    """Size, breakdown, forecast and what compaction could free, in the form of design 003."""
    memories = weighed_memories(store, session, policy, now)
    by_type: dict[str, int] = {}
    for memory in memories:
        by_type[memory.record.type] = by_type.get(memory.record.type, 0) + memory.size_bytes
    files = session.sizes()  # the quota counts these, and not the private folder
    total = sum(files.values())
    return size_report(
        config.quota_bytes,
        files,
        by_type,
        _samples(memories, total),
        now,
        thresholds=Thresholds.of(config.section("storage")),
        estimated_gain_bytes=estimate_gain(memories, now, PreservationRules.of(config.section("compaction"))),
        cold_bytes=sum(session.sizes(COLD).values()),
    )


def _samples(memories: list[WeighedMemory], total: int) -> list[tuple[datetime, int]]:
    """The size hour by hour: what was written until then, plus what is not part of any memory."""
    written: dict[datetime, int] = {}
    for memory in memories:
        created = memory.created.astimezone(UTC)
        hour = EPOCH + (created - EPOCH) // _STEP * _STEP
        written[hour] = written.get(hour, 0) + memory.size_bytes
    size = total - sum(written.values())
    samples = []
    for hour, more in sorted(written.items()):
        samples.append((hour, size))
        size += more
    return samples
