"""Look after one session: its state, its size, what may go to the cold segment and come back, what says the same.

Compaction runs by itself when a write crosses a bound: after that write was acknowledged, in a thread of its own, at
most once a minute over all processes, and never so that the write fails. A write that finds no room at all waits for
one compaction.
"""

from __future__ import annotations

import time

from smp_memory import event_log
from smp_memory.errors import MemoryNotFound, SessionArchived, SizeLimitExceeded, SMPError
from smp_memory.lifecycle.deletion import SessionDeletionMethods
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS
from smp_memory.write.operations import Batch, id_of
from smp_memory.write.quota import near_quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.decay.policies import Policy
    from smp_memory.memory import Memory
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import Fold
    from smp_memory.model.id_allocator import IdAllocator
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind
    from smp_memory.policies.compaction_plan import CompactionPlan
    from smp_memory.policies.consolidation import Duplicates
    from smp_memory.policies.quota import SizeReport
    from smp_memory.policies.session_states import Transition
    from smp_memory.policies.turn_summaries import Summariser
    from smp_memory.store.access_counts import AccessFlush
    from smp_memory.store.cold_storage import ColdMemory
    from smp_memory.store.compaction import MovedEntries
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.session_states import SessionState
    from smp_memory.store.tidy import TidyReport
    from smp_memory.write.operations import Operation

GENTLE, FORCED = "gentle", "forced"


class CompactionReport:
    """What goes, or went, to the cold segment, and why; what stays, and why."""

    def __init__(self, session: str, name: str, plan: CompactionPlan, done: MovedEntries | None) -> None:
        self.session = session
        self.target = name
        self.plan = plan
        self.done = done  # None: it was only asked what would happen

    @property
    def freed_bytes(self) -> int:
        """What the session's files lost, or would."""
        return self.done.freed_bytes if self.done is not None else self.plan.freed_bytes

    @property
    def removed(self) -> list[str]:
        """Ids of the memories that went, or would."""
        return self.done.removed if self.done is not None else [removal.id for removal in self.plan.removed]

    def to_dict(self) -> dict[str, Any]:
        found = {"session": self.session, "target": self.target, "dry_run": self.done is None, **self.plan.to_dict()}
        if self.done is not None:
            found["done"] = self.done._asdict()
        return found

    def __bool__(self) -> bool:
        return bool(self.removed) or bool(self.plan.histories)

    def __repr__(self) -> str:
        return f"CompactionReport({self.session}, {len(self.removed)} memories, {self.freed_bytes} bytes)"


class SessionUpkeepMethods(SessionDeletionMethods):
    """What a session does about its own size and age."""

    id: str
    config: Config
    _files: FileSession
    _memory: Memory
    _content_limit: int

    if TYPE_CHECKING:

        def _policy(self) -> Policy: ...

        def _now(self) -> datetime: ...

        def _addition(self, kind: Kind, given: dict[str, Any]) -> Operation: ...

    def set_config(self, name: str, value: Any) -> None:
        """Change a setting of this session, checked first; None takes it out. It holds for whoever opens the store next."""
        from smp_memory.config_file import set_session_config

        set_session_config(self._files, self._memory.config, name, value)

    # -- state and size

    @property
    def standing(self) -> SessionState:
        """The session's state and what happens to it next, in one look."""
        from smp_memory.store.session_states import session_states

        return session_states(self._files.store, self._now(), [self.id])[0]

    @property
    def state(self) -> str:
        """created, active, idle or decaying; an archived or deleted session cannot be open."""
        return self.standing.state

    @property
    def next_step(self) -> Transition:
        """What happens to it next by itself, when and why."""
        return self.standing.next

    def size_report(self) -> SizeReport:
        """How full it is, what takes the room, when it will be full, and what compaction could free."""
        from smp_memory.store.session_size import report

        return report(self._files, self.config, self._policy(), self._now())

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        """Fold changes into the entries that they change, so that the files of the `markdown` layout show what holds.

        Memories, histories and `as_of` stay as they are. In other layouts there is nothing to fold.
        """
        from smp_memory.store.tidy import tidy_session

        return tidy_session(self._files, dry_run=dry_run)

    # -- compaction

    def compact(
        self,
        target: str | int | None = None,
        *,
        dry_run: bool = False,
        summariser: Summariser | None = None,
    ) -> CompactionReport:
        """Move what has faded, old turns and settled findings to the cold segment beside the session.

        `target` is `gentle` (default), `forced`, or how many bytes to free. Nothing is destroyed: `archived()` lists what
        went, `restore(id)` brings it back, and `query(…, include_archived=True)` finds it.
        """
        from smp_memory.store.rewrite import without_collecting

        now, began = self._now(), time.monotonic()
        name, wanted = self._target(target)
        with without_collecting():
            planned, seen = self._planned(wanted, now, summariser)
            done = None if dry_run else self._carry_out(planned, seen)
        if done is not None and (done.removed or done.histories):
            self._files.store.audit.note(
                "compact", at=to_text(now), by=self._author, session=self.id, count=len(done.removed), target=name
            )
            event_log.emit(
                "compaction",
                event_log.INFO,
                "session_compacted",
                f"Session {self.id} was compacted: {len(done.removed):,} memories went to the cold segment.",
                self.id,
                memories=len(done.removed),
                freed_bytes=done.freed_bytes,
                duration_ms=round((time.monotonic() - began) * 1000),
            )
        return CompactionReport(self.id, name, planned, done)

    def _planned(
        self, wanted: int, now: datetime, summariser: Summariser | None
    ) -> tuple[CompactionPlan, dict[str, int]]:
        """What should go, and the revision that each memory has now. All that was weighed is let go of at once."""
        from smp_memory.policies.compaction_plan import plan
        from smp_memory.policies.retention import PreservationRules
        from smp_memory.store.session_size import weighed_memories

        memories = weighed_memories(self._files, self._policy(), now)
        planned = plan(memories, wanted, now, PreservationRules.of(self.config.section("compaction")), summariser)
        return planned, {weighed.record.id: weighed.record.revision for weighed in memories}

    def _target(self, target: str | int | None) -> tuple[str, int]:
        if isinstance(target, int) and not isinstance(target, bool):
            return f"{target} bytes", target
        name = target or GENTLE
        if name not in (GENTLE, FORCED):
            from smp_memory.errors import InvalidRecord

            raise InvalidRecord(f"target: {target!r} is not gentle, forced or a number of bytes.", field="target")
        share = self.config[f"storage.{name}_percent"] / 100
        return str(name), round(share * sum(self._files.sizes().values()))

    def _carry_out(self, planned: CompactionPlan, seen: dict[str, int]) -> MovedEntries:
        from smp_memory.store.compaction import MovedEntries, move

        if not planned:
            return MovedEntries([], [], [], 0, 0)
        at = to_text(self._now())

        def summaries(ledger: IdAllocator, gone: set[str]) -> list[Entry]:
            """Those of turns that do go; a turn that somebody changed meanwhile stays."""
            wanted = [each for each in planned.summaries if gone.issuperset(each.covers)]
            wishes: list[Operation] = [self._addition(KINDS["summary"], each.fields()) for each in wanted]
            return Batch(self.id, wishes, at, False, "compacting").resolve(ledger) if wishes else []

        return move(self._files, planned, seen, summaries, at)

    # -- the cold segment

    def archived(self) -> list[ColdMemory]:
        """The memories in the cold segment: id, type, when they were written and moved, and why."""
        from smp_memory.store.cold_storage import cold_memories

        return cold_memories(self._files)

    def _restore_one(self, id: str, reason: str | None, by: str | None) -> Any:
        """Bring back a deleted memory, or one that compaction took out."""
        if self._is_cold(id):
            return self.restore_archived(id)
        return super()._restore_one(id, reason, by)

    def _bring_back(self, names: list[str], preview: bool) -> list[Record]:
        """Bring memories back from the cold segment, all or none, or say what would come."""
        if preview:
            from smp_memory.store.cold_storage import cold_fold

            trails = cold_fold(self._files).trails
            return [record for name in names if (record := trails[name].record(self.id)) is not None]
        self.restore_archived(*names)
        found: list[Record] = self._files.view(lambda fold: [fold.trails[name].record(self.id) for name in names])
        return found

    def restore_archived(self, *ids: Any) -> Record | None:
        """Bring memories back from the cold segment, with their ids and histories; the last one is returned."""
        from smp_memory.store.compaction import bring_back

        names = [id_of(id) for id in ids]
        store, quota = self._files.store, self.config.quota_bytes
        bring_back(self._files, names, lambda used, new: store.admit(self.id, used, new, quota))
        store.audit.note("restore_archived", at=to_text(self._now()), by=self._author, session=self.id, ids=names)
        return self._files.view(lambda fold: fold.trails[names[-1]].record(self.id)) if names else None

    def _is_cold(self, id: str) -> bool:
        return bool(self._cold_among([id]))

    def _cold_among(self, names: list[str]) -> list[str]:
        """Which of these memories are in the cold segment."""
        from smp_memory.store.cold_storage import HISTORY, cold_rows, present_path

        if not self._files.store.disk.exists(present_path(self._files)):
            return []
        cold = {row.id for row in cold_rows(self._files) if HISTORY not in row.about}
        return [name for name in names if name in cold]

    def _missing(self, id: str) -> MemoryNotFound:
        """Why there is no such memory, and how to get it if there is a way."""
        if self._is_cold(id):
            from smp_memory.store.cold_storage import cold_path

            path = cold_path(self._files)
            return MemoryNotFound(
                f"{id} was compacted: it is in the cold segment {path}. `smp restore {id}`, or restore({id!r}), brings it back.",
                id=id,
                session=self.id,
                path=path,
            )
        return self._files.no_memory(id)

    # -- by itself

    def _stored(self, wishes: list[Operation], doing: str, atomic: bool) -> None:
        """Store wishes; if there is no room, make some and try once more."""
        try:
            self._files.commit(self._batch(wishes, doing, atomic))
        except SessionArchived:  # another process has packed it away since it was opened
            self._memory.restore_session(self.id, by=self._author)
            self._files.commit(self._batch(wishes, doing, atomic))
        except SizeLimitExceeded as error:
            if "used" not in error.details or not self.config["compaction.enabled"]:
                raise  # one memory alone is too large, or nothing may be done about it
            self._make_room(error)
            self._files.commit(self._batch(wishes, doing, atomic))
        if any(wish.dated for wish in wishes):
            self._note_dated(wishes)
        for wish in wishes:
            if (wish.warnings or wish.removals) and wish.record is not None:
                from smp_memory.privacy.settings import counted

                wish.record._add_notices(wish.warnings, counted(wish.removals))
        if self._files.writer.size_bytes >= self._files.warning_bytes:
            self._warn_of_quota(wishes)
            if self._files.writer.size_bytes >= self._files.filling_bytes:
                self._compact_later()

    def _warn_of_quota(self, wishes: list[Operation]) -> None:
        """Say with a write how full the session is; the log is told once of each threshold."""
        files, storage = self._files, self.config.section("storage")
        percents = (storage["warning_percent"], storage["critical_percent"])
        reached, text = near_quota(self.id, files.writer.size_bytes, self.config.quota_bytes, percents)
        for wish in wishes:
            if reached and wish.record is not None:
                wish.record._add_notices((text,))
                wish.warnings = (*wish.warnings, text)
        if reached > files.warned_percent:
            used, quota = files.writer.size_bytes, self.config.quota_bytes
            event_log.emit(
                "quota", event_log.WARNING, "quota_near", text, self.id, percent=reached, bytes=used, quota_bytes=quota
            )
        files.warned_percent = reached

    def _note_dated(self, wishes: list[Operation]) -> None:
        """Note that the session was used now if the entries carry earlier times, as those of an import do."""
        from smp_memory.store.session_states import IMPORTED_BEFORE, note_session_use

        now = self._now()
        limit = to_text(now - IMPORTED_BEFORE)
        if any(wish.dated and wish.dated < limit for wish in wishes):
            note_session_use(self._files.store, self.id, now)

    def _batch(self, wishes: list[Operation], doing: str, atomic: bool) -> Batch:
        batch = Batch(self.id, wishes, self._memory._now_text(), atomic, doing)
        if batch.needs_trails:
            batch.cold = self._cold_with_key
        return batch

    def _cold_with_key(self, key: str) -> Record | None:
        from smp_memory.store.cold_storage import with_key

        return with_key(self._files, key)

    def _make_room(self, error: SizeLimitExceeded) -> None:
        used, new, limit = (int(getattr(error, name)) for name in ("used", "size", "limit"))
        needed = used + new - limit
        report = self.compact(max(needed, self._target(FORCED)[1])) if new <= limit else None
        if report is None or report.freed_bytes < needed:
            why = _why_kept(report) if report is not None else "it is larger than the quota"
            raise SizeLimitExceeded(
                f"{error.message} Compaction could not make room: {why}. Unpin, resolve or delete what is not needed.",
                **error.details,
            ) from error

    def _compact_later(self) -> None:
        now = time.monotonic()
        if now - self._files.compacted_at < self._files.compaction_pause_seconds:
            return
        from smp_memory.store.compaction import SHORT_SECONDS, seconds_left

        left = seconds_left(self._files, self._now())
        self._files.compacted_at, self._files.compaction_pause_seconds = now, left or SHORT_SECONDS
        if left:  # another process has just done it
            return
        import threading

        worker = threading.Thread(target=self._compact_quietly, name=f"smp-compact-{self.id}", daemon=True)
        self._files.store.start(worker)

    def _compact_quietly(self) -> None:
        """What goes wrong here is reported, and tried again later; the write that led here is stored."""
        from smp_memory.policies.quota import Thresholds, compaction_target
        from smp_memory.store.compaction import ended, pause

        freed = False
        try:
            used = sum(self._files.sizes().values())
            target = compaction_target(used, self.config.quota_bytes, Thresholds.of(self.config.section("storage")))
            if target is None:
                return
            pause(self._files, self._now())
            freed = bool(self.compact(target[1]))
        except (SMPError, OSError) as error:
            text = f"Session {self.id} could not be compacted: {error}"
            event_log.emit("compaction", event_log.WARNING, "compaction_failed", text, self.id)
        self._files.compaction_pause_seconds = ended(self._files, self._now(), freed)

    def _fold_accesses(self, used: Iterable[AccessFlush]) -> int:
        """Write into the files how often memories were used; how many were written. A change of this is no change."""
        from smp_memory.write.operations import Update

        def said(fold: Fold) -> dict[str, Any]:
            return {id: trail.data().get("access") for id, trail in fold.trails.items() if trail.deletion is None}

        before = self._files.view(said)
        wishes: list[Operation] = [
            Update(each.id, {"access": access}, None, None, self._content_limit, may_touch_turns=True)
            for each in used
            if each.id in before and before[each.id] != (access := {"count": each.times, "last": each.last})
        ]
        if wishes:
            batch = Batch(self.id, wishes, to_text(self._now()), False, "noting what was used")
            batch.quiet = True
            self._files.commit(batch)
        return len(wishes)

    # -- what says the same

    def duplicates(self, *, threshold: float | None = None) -> list[Duplicates]:
        """Findings and preferences that say the same, in groups; nothing is changed."""
        from smp_memory.policies.consolidation import THRESHOLD, find_duplicates

        records = self._files.view(
            lambda fold: [trail.record(self.id) for trail in fold.trails.values() if trail.deletion is None]
        )
        return find_duplicates(records, THRESHOLD if threshold is None else threshold)

    def merge(self, group: Duplicates, *, by: str | None = None) -> Record:
        """Let the first memory of a group stand for all, in one transaction; the others go to the trash.

        It lists what it took in (`merged_from`). Restoring the others and changing it back undoes the merge; if one of
        them has changed since `duplicates()`, it is a Conflict and nothing happens.
        """
        from smp_memory.policies.consolidation import merged
        from smp_memory.write.operations import Delete, Update

        merge, author = merged(group), by or self._author
        wishes: list[Operation] = [
            Update(merge.keep, merge.changes, author, merge.revisions[merge.keep], self._content_limit)
        ]
        for id, reason in merge.remove:
            wishes += [Update(id, {}, author, merge.revisions[id], self._content_limit), Delete(id, author, reason)]
        self._stored(wishes, "merging", atomic=True)
        record = wishes[0].record
        assert record is not None
        return record


def _why_kept(report: CompactionReport) -> str:
    reasons = report.plan.to_dict()["kept"]
    told = [f"{figures['memories']:,} {why}" for why, figures in reasons.items()][:3]
    return "of its memories stay " + ", ".join(told) if told else "nothing may go"
