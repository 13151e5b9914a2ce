"""Compaction of one session and its cold segment; its size; near-duplicates. Functions of an open session.

Compaction runs by itself when a write crosses a threshold (`lifecycle.background_compaction`). A write that finds no room
at all waits for one compaction.

Size of a session, its breakdown and growth, and the priorities of its memories; for planning and for people.

Guarantees: nothing is written. Growth is computed from the times of the session's own memories, so no samples are stored.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from smp_memory.config.settings import REMOVE
from smp_memory.errors import (
    CompactionFailed,
    Corrupt,
    DurabilityUnknown,
    InvalidRecord,
    MemoryNotFound,
    SizeLimitExceeded,
    SMPError,
    StorageError,
    from_os_error,
)
from smp_memory.lifecycle import consolidation, quota
from smp_memory.lifecycle.compaction_plan import estimate_gain, plan
from smp_memory.lifecycle.consolidation import THRESHOLD, Duplicates, merged
from smp_memory.lifecycle.quota import SizeReport, Thresholds
from smp_memory.lifecycle.retention import PreservationRules, WeighedMemory
from smp_memory.model.candidates import LATEST, CandidateRequest
from smp_memory.model.decay import inputs_of
from smp_memory.model.history import COLD, PausedCollection
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from smp_memory.model.storage_reports import MovedEntries, TidyReport
from smp_memory.model.times import EPOCH, to_microseconds, to_text
from smp_memory.model.types import KINDS
from smp_memory.observe import telemetry
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.observe.telemetry import observed
from smp_memory.scope import admit
from smp_memory.write.operations import Batch, Delete, Update, id_of
from smp_memory.write.path import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.lifecycle.compaction_plan import CompactionPlan, Summariser
    from smp_memory.lifecycle.open_session import OpenSession
    from smp_memory.model.decay import Policy
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator
    from smp_memory.model.record import Record
    from smp_memory.store.port import SessionStore, Store
    from smp_memory.write.operations import Operation

    Figures = dict[str, tuple[float, float, datetime | None]]  # priority, priority without floor, last access


GENTLE, FORCED = "gentle", "forced"


class CompactionReport:
    """The memories that a compaction moves, or moved, to the cold segment, those it keeps, and the reasons."""

    def __init__(self, session: str, name: str, plan: CompactionPlan, done: MovedEntries | None) -> None:
        self.session = session
        self.target = name
        self.plan = plan
        self.done = done  # None: a dry run

    @property
    def freed_bytes(self) -> int:
        """Bytes by which the session's files shrank, or would shrink."""
        return self.done.freed_bytes if self.done is not None else self.plan.freed_bytes

    @property
    def removed(self) -> list[str]:
        """Ids of the memories that were moved, or would be."""
        return self.done.removed if self.done is not None else [removal.id for removal in self.plan.removed]

    def to_dict(self) -> dict[str, Any]:
        data = {"session": self.session, "target": self.target, "dry_run": self.done is None, **self.plan.to_dict()}
        if self.done is not None:
            data["done"] = self.done._asdict()
        return data

    def __bool__(self) -> bool:
        return bool(self.removed) or bool(self.plan.histories)

    def __repr__(self) -> str:
        return f"CompactionReport({self.session}, {len(self.removed)} memories, {self.freed_bytes} bytes)"


def size_report(session: OpenSession) -> SizeReport:
    """The size of the session by type, its quota, when it will be full, and what compaction could free."""
    return report(session.store, session.storage, session.config, session.scope.policy(), session.now())


# -- compaction


@observed("compact", memories=lambda report: len(report.removed), freed_bytes=lambda report: report.freed_bytes)
def compact(
    session: OpenSession,
    target: str | int | None = None,
    *,
    dry_run: bool = False,
    summariser: Summariser | None = None,
) -> CompactionReport:
    """Move memories of low priority, old turns and settled findings to the cold segment beside the session."""
    if not dry_run:
        session.config.require(REMOVE)
    now, began = session.now(), time.monotonic()
    try:
        name, bytes_to_free = _target_bytes(session, target)
        with PausedCollection():
            planned, revisions = _plan(session, bytes_to_free, now, summariser)
            done = None if dry_run else _move_entries(session, planned, revisions)
    except DurabilityUnknown:
        raise  # the memories may be moved already
    except (Corrupt, StorageError, OSError) as error:
        raise _failure(session, error) from error
    if done is not None and (done.removed or done.histories):
        session.store.audit.note(
            "compact", at=to_text(now), by=session.author, session=session.id, count=len(done.removed), target=name
        )
        telemetry.emit(
            "compaction",
            telemetry.INFO,
            "session_compacted",
            f"Session {session.id} was compacted: {len(done.removed):,} memories went to the cold segment.",
            session.id,
            entries_before=len(revisions),
            entries_after=len(revisions) - len(done.removed) + len(done.summaries),
            size_reduction_mb=round(done.freed_bytes / (1 << 20), 3),
            duration_ms=round((time.monotonic() - began) * 1000),
        )
    return CompactionReport(session.id, name, planned, done)


def _failure(session: OpenSession, error: Exception) -> CompactionFailed:
    cause = error if isinstance(error, SMPError) else from_os_error(error, session.storage.location, "compacting")  # type: ignore[arg-type]
    return CompactionFailed(
        f"Session {session.id} could not be compacted; no memory is lost. {cause.message} [{cause.code}]",
        **{**cause.details, "session": session.id, "cause": cause.code, "recoverable": cause.recoverable},
    )


def _plan(
    session: OpenSession, bytes_to_free: int, now: datetime, summariser: Summariser | None
) -> tuple[CompactionPlan, dict[str, int]]:
    """The plan, and the current revision of each memory. The memories and their sizes are released on return."""
    memories = weighed_memories(session.store, session.storage, session.scope.policy(), now)
    rules = PreservationRules.of(session.config.section("compaction"))
    planned = plan(memories, bytes_to_free, now, rules, summariser)
    return planned, {weighed.record.id: weighed.record.revision for weighed in memories}


def _target_bytes(session: OpenSession, target: str | int | None) -> tuple[str, int]:
    if isinstance(target, int) and not isinstance(target, bool):
        return f"{target} bytes", target
    name = target or GENTLE
    if name not in (GENTLE, FORCED):
        raise InvalidRecord(f"target: {target!r} is not gentle, forced or a number of bytes.", field="target")
    share = session.config[f"storage.{name}_percent"] / 100
    return str(name), round(share * sum(session.storage.sizes().values()))


def _move_entries(session: OpenSession, planned: CompactionPlan, revisions: dict[str, int]) -> MovedEntries:
    if not planned:
        return MovedEntries([], [], [], 0, 0)
    text = f"Session {session.id} is being compacted."
    telemetry.emit("compaction", telemetry.INFO, "compaction_started", text, session.id, entries_before=len(revisions))
    at, writer = to_text(session.now()), Writer(session, session.commit_one, session.author)

    def summaries(allocator: IdAllocator, moved: set[str]) -> list[Entry]:
        """Summaries of turns that are really moved; a turn that was changed meanwhile stays."""
        covered = [each for each in planned.summaries if moved.issuperset(each.covers)]
        operations: list[Operation] = [writer.addition(KINDS["summary"], each.fields()) for each in covered]
        return Batch(session.id, operations, at, False, "compacting").resolve(allocator) if operations else []

    moves = {each.id: ColdMove(revisions[each.id], each.why) for each in planned.removed}
    moves |= {each.id: ColdMove(revisions[each.id], each.why, only_history=True) for each in planned.histories}
    done = session.storage.rewrite(RewritePlan("compacting", at, to_cold=moves, added=summaries))
    return MovedEntries(list(done.moved), list(done.histories), list(done.added), done.freed_bytes, done.cold_bytes)


def make_room(session: OpenSession, error: SizeLimitExceeded) -> None:
    """Compact a full session so that a write fits, or raise with what keeps it full."""
    used, new, limit = (int(getattr(error, name)) for name in ("used", "size", "limit"))
    needed = used + new - limit
    report = compact(session, max(needed, _target_bytes(session, FORCED)[1])) if new <= limit else None
    if report is None or report.freed_bytes < needed:
        why = _reasons_kept(report) if report is not None else "it is larger than the quota"
        raise SizeLimitExceeded(
            f"{error.message} Compaction could not make room: {why}. Unpin, resolve or delete what is not needed.",
            **error.details,
        ) from error


# -- the cold segment


def cold_ids_among(session: OpenSession, ids: list[str]) -> list[str]:
    """The ids among these whose memories are in the cold segment."""
    cold = session.storage.history(ids, segment=COLD).histories
    return [id for id in ids if id in cold]


def restore_cold(session: OpenSession, ids: list[Any]) -> list[Record]:
    """Move memories back from the cold segment, with their ids and histories, all or none."""
    names = [id_of(id) for id in ids]
    store, quota = session.store, session.config.quota_bytes
    plan = RewritePlan(
        "restoring from the cold segment",
        from_cold=names,
        admit=lambda used, new: admit(session.id, used, new, quota),
    )
    session.storage.rewrite(plan)
    store.audit.note("restore_archived", at=to_text(session.now()), by=session.author, session=session.id, ids=names)
    histories = session.storage.history(names).histories
    return [record for name in names if (record := histories[name].record(session.id)) is not None]


def cold_records(session: OpenSession, ids: list[str]) -> list[Record]:
    """Records of memories in the cold segment, without moving them."""
    histories = session.storage.history(ids, segment=COLD).histories
    return [record for id in ids if (record := histories[id].record(session.id)) is not None]


def missing_memory(session: OpenSession, id: str) -> MemoryNotFound:
    """The error for an id that is not in the session; it says so if the memory was compacted."""
    cold = session.storage.history([id], segment=COLD).histories.get(id)
    if cold is None:
        return memory_not_found(session.storage, id)
    path = cold.first.file
    return MemoryNotFound(
        f"{id} was compacted: it is in the cold segment {path}. `smp restore {id}`, or restore({id!r}), brings it back.",
        id=id,
        session=session.id,
        path=path,
    )


def tidy(session: OpenSession, *, dry_run: bool = False) -> TidyReport:
    """Fold changes into the entries that they change, if the session is in files that people read."""
    files = session.storage.files
    return TidyReport(session.id, [], False) if files is None else files.tidy(dry_run=dry_run)


# -- near-duplicates


def find_duplicates(records: Iterable[Record], threshold: Any) -> list[Duplicates]:
    """Groups of near-duplicate findings and preferences. `threshold` is the least similarity, None: the default."""
    limit = THRESHOLD if threshold is None else threshold
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1:
        raise InvalidRecord(f"threshold: must be a number from 0 to 1, not {repr(limit)[:60]}.", field="threshold")
    return consolidation.find_duplicates(records, limit)


def merge_duplicates(session: OpenSession, group: Duplicates, by: str | None) -> Record:
    """Merge near-duplicates into the first memory of the group, in one transaction; the others go to the trash."""
    if not isinstance(group, Duplicates):
        raise InvalidRecord(f"group: give a group that duplicates() found, not {repr(group)[:60]}.", field="group")
    merge, author, limit = merged(group), by or session.author, session.content_limit
    operations: list[Operation] = [Update(merge.keep, merge.changes, author, merge.revisions[merge.keep], limit)]
    for id, reason in merge.remove:
        operations += [Update(id, {}, author, merge.revisions[id], limit), Delete(id, author, reason)]
    session.commit_unaudited(operations, "merging", True)
    record = operations[0].record
    assert record is not None
    return record


def _reasons_kept(report: CompactionReport) -> str:
    reasons = report.plan.to_dict()["kept"]
    counts = [f"{figures['memories']:,} {why}" for why, figures in reasons.items()][:3]
    return "of its memories stay " + ", ".join(counts) if counts else "no memory may be moved"


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
    return quota.size_report(
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
