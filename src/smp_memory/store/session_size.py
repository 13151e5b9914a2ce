"""How large is a session, what makes it so, and how present are its memories? Figures for planning and for people.

Guarantees: nothing is written. The growth of a session is told from the times of its own memories, so nothing has to be
kept for it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from smp_memory.files.cold_segment import FILE as COLD
from smp_memory.index.documents import decay_inputs
from smp_memory.index.selection import RowConditions
from smp_memory.model.times import EPOCH
from smp_memory.policies.compaction_plan import estimate_gain
from smp_memory.policies.quota import SizeReport, Thresholds, size_report
from smp_memory.policies.retention import PreservationRules
from smp_memory.store.compaction import weighed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.config import Config
    from smp_memory.decay.policies import Policy
    from smp_memory.policies.retention import WeighedMemory
    from smp_memory.store.compaction import Figures
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.finder import Finder

_STEP = timedelta(hours=1)  # how finely growth is looked at


def figures(session: FileSession, policy: Policy, now: datetime) -> Figures:
    """How present each memory is, and when it was last used, by id; from the index, nothing is read."""
    moment = (now - EPOCH) // timedelta(microseconds=1)

    def look(finder: Finder) -> Figures:
        known = finder.index.rows.session(session.session)
        conditions = RowConditions()
        conditions.sessions = [known.number] if known is not None else []
        conditions.include_deleted = True
        rows = finder.select(conditions, "oldest", -1)
        accesses = finder.accesses([row.doc for row in rows])
        known_facts = ((row, decay_inputs(row, accesses)) for row in rows)
        return {
            row.id: (
                policy.priority(facts, moment),
                policy.without_floor(facts, moment),
                _last(accesses.get(row.doc)),
            )
            for row, facts in known_facts
        }

    return session.store.indexer.answer([session.session], look)


def _last(access: tuple[int, int] | None) -> datetime | None:
    return EPOCH + timedelta(microseconds=access[1]) if access is not None else None


def weighed_memories(session: FileSession, policy: Policy, now: datetime) -> list[WeighedMemory]:
    known = figures(session, policy, now)
    found: list[WeighedMemory] = session.view(lambda session_history: weighed(session_history, session.session, known))
    return found


def report(session: FileSession, config: Config, policy: Policy, now: datetime) -> SizeReport:
    """Size, breakdown, forecast and what compaction could free, as 003 §9.4 shapes them."""
    memories = weighed_memories(session, policy, now)
    by_type: dict[str, int] = {}
    for memory in memories:
        by_type[memory.record.type] = by_type.get(memory.record.type, 0) + memory.size_bytes
    files = _files(session)
    total = sum(files.values())
    return size_report(
        config.quota_bytes,
        files,
        by_type,
        _samples(memories, total),
        now,
        thresholds=Thresholds.of(config.section("storage")),
        estimated_gain_bytes=estimate_gain(memories, now, PreservationRules.of(config.section("compaction"))),
        cold_bytes=_bytes(session, os.path.join(session.reader.private, COLD)),
    )


def _files(session: FileSession) -> dict[str, int]:
    """The files that count for the quota; what SMP keeps beside them for itself does not."""
    return session.sizes()


def _bytes(session: FileSession, path: str) -> int:
    found = session.store.disk.stat(path)
    return found.st_size if found is not None else 0


def _samples(memories: list[WeighedMemory], total: int) -> list[tuple[datetime, int]]:
    """How large it was, hour by hour: what was written until then, and what is not part of any memory."""
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
