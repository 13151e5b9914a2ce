"""Maintenance tasks (see design 003): when each ran last, which are due, and running them.

| task | period | effect |
|---|---|---|
| quota | every run | compacts sessions that are nearly full |
| decay | 6 hours | counts the accesses since the last run in the index |
| index | daily | checks the index and rebuilds it if it is damaged |
| vectors | every run | makes the embeddings that queries left out |
| archive | daily | archives sessions that were not used for `lifecycle.archive_days` |
| access | daily | writes the access log into the session files |
| tidy | daily | in the `markdown` layout, folds changes into the entries that they change |
| retention | daily | if `retention.enabled`: moves memories past their retention to the trash |
| purge | weekly | removes what was deleted `lifecycle.purge_days` ago, announced a day before |

Guarantees: no task that changes files by the calendar runs after the clock jumped (`smp_memory.lifecycle.clock_trust`); the report says
so. A task that fails does not keep the others from running. With `dry_run` the report says what would be done; nothing is changed.
The times of the last runs are in `.smp/maintenance.json`; if it is lost, `smp maintain` runs every task, and opening the
store begins all periods again.
"""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.config.schema import REMOVE, WRITE
from smp_memory.errors import InvalidRecord, SessionNotFound, SMPError, StorageCorrupt
from smp_memory.lifecycle import clock_state
from smp_memory.lifecycle.clock_trust import distrust
from smp_memory.lifecycle.compaction import compact
from smp_memory.lifecycle.deletion import delete, purge
from smp_memory.lifecycle.open_session import is_in_use, open_session
from smp_memory.lifecycle.purge import purge_archives
from smp_memory.lifecycle.quota import Thresholds, compaction_target
from smp_memory.lifecycle.retention import due as retention_due
from smp_memory.lifecycle.retention import upcoming
from smp_memory.lifecycle.session_states import due_to_archive, lifecycle_times, state_marks
from smp_memory.lifecycle.sessions import archive_session, purge_record
from smp_memory.lifecycle.transitions import PURGED, announces_purge, due_transition
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.entry import BY_MAINTENANCE
from smp_memory.model.session_info import DELETED, names_of
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.observe.telemetry import ObservedOperation, observe, observes
from smp_memory.search.records import records as records_of
from smp_memory.write.operations import Batch, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.config.settings import Config
    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.lifecycle.open_session import OpenSession
    from smp_memory.model.session_info import SessionHead
    from smp_memory.scope import Scope
    from smp_memory.store.port import Store
    from smp_memory.write.operations import Operation

    Access = tuple[str, int, str]  # id, count, time of the last one

FILE = "maintenance.json"
EVERY = {
    "quota": timedelta(0),
    "decay": timedelta(hours=6),
    "index": timedelta(days=1),
    "vectors": timedelta(0),
    "archive": timedelta(days=1),
    "access": timedelta(days=1),
    "tidy": timedelta(days=1),
    "retention": timedelta(days=1),
    "purge": timedelta(days=7),
}
BY_CALENDAR = ("archive", "retention", "purge")  # not while the clock cannot be trusted
CHEAP = ("decay", "archive", "purge")  # tasks that opening a store may run
_NOTICE_PERIOD = timedelta(days=7)  # how long before a deletion by retention it is announced
_CHEAP_SECONDS = 1.0  # time limit of the cheap tasks
_MAINTAIN = ObservedOperation(
    "maintain", component="maintenance", figures=lambda report, *_, **__: {"tasks": len(report.tasks)}
)
_TASKS = {name: ObservedOperation(f"maintain.{name}", component="maintenance") for name in EVERY}


class Task(NamedTuple):
    """The result of one task."""

    name: str
    ran: bool
    did: list[str]  # one line for each thing done, or that would be done
    next: datetime  # when it is due again
    seconds: float = 0.0
    problem: str | None = None
    complete: bool = True  # False: time ran out, or a session was in use; it stays due

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "next": to_text(self.next), "seconds": round(self.seconds, 3)}


class MaintenanceReport(NamedTuple):
    tasks: list[Task]
    refused: str  # why the clock is not trusted; empty if it is
    dry_run: bool

    @property
    def did(self) -> list[str]:
        return [line for task in self.tasks for line in task.did]

    @property
    def ok(self) -> bool:
        return not any(task.problem for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        tasks = [task.to_dict() for task in self.tasks]
        return {"tasks": tasks, "refused": self.refused or None, "dry_run": self.dry_run}


@observes(_MAINTAIN)
def maintain(
    scope: Scope,
    now: datetime,
    only: list[str] | None = None,
    *,
    dry_run: bool = False,
    seconds: float | None = None,
) -> MaintenanceReport:
    """Run the tasks that are due; `only` names tasks to run whether they are due or not."""
    unknown = next((name for name in only or () if name not in EVERY), None)
    if unknown is not None:
        raise InvalidRecord(f"only: {unknown!r} is not a task; use one of {', '.join(EVERY)}.", field="only")
    store = scope.store
    store.check_open()
    if not dry_run:
        store.access.flush()  # tasks count accesses; a store as a client sees it refuses here, before anything is done
    evidence = clock_state.evidence(store, scope.clock.source)
    work = _Maintenance(scope, now, evidence, dry_run, time.monotonic() + seconds if seconds is not None else None)
    last = last_runs(store)
    refused = distrust(now, evidence)
    tasks = []
    for name, every in EVERY.items():
        due = name in only if only is not None else _is_due(last.get(name), now, every)
        ran = work.run(name) if due else Task(name, False, [], (last.get(name) or now) + every)
        tasks.append(ran)
        if ran.ran and ran.complete and not ran.problem and not (refused and name in BY_CALENDAR):
            last[name] = now
    if not dry_run:
        _note_runs(store, last)
        clock_state.record(store, now, scope.clock.source)
    return MaintenanceReport(tasks, refused, dry_run)


def run_cheap_tasks(scope: Scope) -> None:
    """Run the cheap tasks that are due, for the opening of a store; it may take a second, and never fails."""
    try:
        last = last_runs(scope.store)
        now = scope.now()
        if not last:  # a new store, or a clone, whose old sessions must not be archived at once
            _note_runs(scope.store, dict.fromkeys(CHEAP, now))
            return
        names = [name for name in CHEAP if _is_due(last.get(name), now, EVERY[name])]
        _note_runs(scope.store, last)  # so that other processes that open it now skip this
        maintain(scope, now, names, seconds=_CHEAP_SECONDS)
    except (SMPError, OSError):
        pass  # `smp maintain` reports it


def _is_due(last: datetime | None, now: datetime, every: timedelta) -> bool:
    return last is None or last > now or now - last >= every


class _Maintenance:
    """One run of the tasks."""

    def __init__(self, scope: Scope, now: datetime, evidence: Evidence, dry_run: bool, deadline: float | None) -> None:
        self._scope = scope
        self._store = scope.store
        self._now = now
        self._evidence = evidence
        self._dry_run = dry_run
        self._deadline = deadline
        self._is_complete = True

    def run(self, name: str) -> Task:
        task: Task = observe(_TASKS[name], self._scope, self._run, name)
        return task

    def _run(self, name: str) -> Task:
        started = time.monotonic()
        did: list[str] = []
        problem = None
        self._is_complete = True
        work: Callable[[], Iterator[str]] = getattr(self, f"_{name}")
        try:
            for line in work():
                did.append(line)
                if self._is_out_of_time():
                    self._is_complete = False
                    break
        except (SMPError, OSError) as error:
            problem = str(error)
        again = self._now + EVERY[name] if self._is_complete else self._now
        return Task(name, True, did, again, time.monotonic() - started, problem, self._is_complete)

    def _is_out_of_time(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _verb(self, past: str, base: str) -> str:
        return f"would {base}" if self._dry_run else past

    # -- the tasks: each yields a line for what it did, or would do

    def _quota(self) -> Iterator[str]:
        for name, config in self._sessions_with_config():
            storage = self._store.session(name)
            used = sum(storage.sizes().values())
            target = compaction_target(used, config.quota_bytes, Thresholds.of(config.section("storage")))
            if target is None or not config["compaction.enabled"]:
                continue
            report = compact(open_session(self._scope, name), target[1], dry_run=self._dry_run)
            if report:
                yield f"{self._verb('compacted', 'compact')} {name}: {_memories(len(report.removed))}, {report.freed_bytes:,} bytes"

    def _sessions_with_config(self) -> Iterator[tuple[str, Config]]:
        """The sessions with their settings. Those with a setting that cannot be used and that removal depends on are skipped."""
        for name in names_of(self._store.sessions()):
            config = self._store.session(name).config
            if config.allows(REMOVE):  # else `smp validate` and `smp doctor` report it
                yield name, config

    def _decay(self) -> Iterator[str]:
        self._store.access.flush()
        self._store.indexer.count_accesses()
        return iter(())

    def _index(self) -> Iterator[str]:
        if not self._store.indexer.is_intact():
            if not self._dry_run:
                self._store.indexer.rebuild()
            yield f"{self._verb('rebuilt', 'rebuild')} the index"
        self._refresh_overviews()

    def _vectors(self) -> Iterator[str]:
        if not self._dry_run:
            self._store.indexer.embed_missing()
        return iter(())

    def _archive(self) -> Iterator[str]:
        for state in due_to_archive(self._store, self._now, self._evidence):
            if self._deadline is not None and is_in_use(self._store, state.session):
                self._is_complete = False  # a caller in this process has just opened it
                continue
            if not self._dry_run:
                archive_session(self._scope, state.session, state.next.why, BY_MAINTENANCE)
            yield f"{self._verb('archived', 'archive')} {state.session} ({state.next.why})"

    def _refresh_overviews(self) -> None:
        """Renew what is made from memories: figures in metadata, overview files, files for all sessions."""
        for name in names_of(self._store.sessions()):
            session = self._store.session(name)
            if session.files is not None and session.config.allows(WRITE) and not self._dry_run:
                session.files.refresh()

    def _access(self) -> Iterator[str]:
        used, end = _logged_accesses(self._store)
        if self._dry_run:
            yield from (f"{name}: would write the uses of {_memories(len(those))}" for name, those in used.items())
            return
        for name, those in used.items():
            if not self._store.session(name).config.allows(WRITE):
                continue
            count = _flush_access_counts(open_session(self._scope, name), those)
            if count:
                yield f"{name}: wrote the uses of {_memories(count)}"
        if end:
            self._store.access.remove_before(end)
            self._store.indexer.count_accesses(from_start=True)
        self._store.session_uses.compact()

    def _tidy(self) -> Iterator[str]:
        for name in names_of(self._store.sessions()):
            files = self._store.session(name).files
            done = files.tidy(dry_run=self._dry_run) if files is not None else None
            if done is None or not done.can_fold:
                return
            if done.ids:
                yield f"{name}: {self._verb('folded', 'fold')} the changes of {_memories(len(done.ids))}"

    def _retention(self) -> Iterator[str]:
        for name, config in self._sessions_with_config():
            if not config["retention.enabled"]:
                continue
            session, days = open_session(self._scope, name), config.section("retention")["days"]
            records = records_of(session.storage)
            expired = retention_due(records, self._now, days, self._evidence)
            soon = upcoming(records, self._now, _NOTICE_PERIOD, days)
            if soon:
                yield f"{name}: {_memories(len(soon))} will go to the trash by {to_text(soon[-1].due)[:10]}"
            by_reason: dict[str, list[str]] = {}
            for each in expired:
                by_reason.setdefault(each.why, []).append(each.id)
            for why, ids in by_reason.items():
                if not self._dry_run:
                    delete(session.scope, ids, why, BY_MAINTENANCE, False, False, {})
                yield f"{name}: {self._verb('moved', 'move')} {_memories(len(ids))} to the trash ({why})"

    def _purge(self) -> Iterator[str]:
        yield from self._purge_sessions()
        if distrust(self._now, self._evidence) or self._dry_run:
            return
        for name in [name for name, known in self._store.indexer.activity().items() if known.has_deleted]:
            config = self._store.session(name).config
            if not config["lifecycle.auto_purge"] or not config.allows(REMOVE):
                continue
            done = purge(open_session(self._scope, name).scope, None, BY_MAINTENANCE, self._now, self._evidence)
            if done.ids:
                yield f"purged {_memories(len(done.ids))} of {name}"
        for name, done in purge_archives(self._store, self._now, self._evidence, BY_MAINTENANCE, automatic=True):
            if done.ids:
                yield f"purged {_memories(len(done.ids))} of the archived session {name}"
            if self._is_out_of_time():
                self._is_complete = False
                return

    def _purge_sessions(self) -> Iterator[str]:
        times, is_allowed = lifecycle_times(self._store), self._store.config.allows(REMOVE)
        for deleted in self._store.sessions(DELETED):
            if deleted.is_foreign or not is_allowed:
                continue
            marks = state_marks(deleted, self._now)
            transition = due_transition(None, self._now, marks, times, self._evidence)
            if transition is not None and transition.state == PURGED:
                if not self._dry_run and not self._purge_session(deleted):
                    continue
                yield f"{self._verb('purged', 'purge')} the session {deleted.session} ({transition.why})"
            elif announces_purge(None, self._now, marks, times, self._evidence):
                if not self._dry_run and not self._announce(deleted):
                    continue
                yield f"will purge the session {deleted.session} in the next run, in a day or later"

    def _purge_session(self, deleted: SessionHead) -> bool:
        """Purge a session; False if another process purged or undeleted it meanwhile."""
        at, session = to_text(self._now), deleted.session

        def audit() -> None:
            self._store.audit.note("purge_session", at=at, by=BY_MAINTENANCE, session=session, count=1)

        try:
            self._store.move(session, DELETED, PURGED, purge_record(at), audit, path=deleted.path)
        except SessionNotFound:
            return False
        return True

    def _announce(self, deleted: SessionHead) -> bool:
        """Record that a purge is due; a check at least a day later may carry it out. False if the session is gone."""

        def record(head: SessionHead, _: object) -> dict[str, Any]:
            fields, passed = {**head.metadata, "purge_announced": to_text(self._now)}, self._evidence.passed
            return fields if passed is None else {**fields, "passed_seconds": round(passed.total_seconds(), 3)}

        try:
            self._store.move(deleted.session, DELETED, DELETED, record, path=deleted.path)
        except SessionNotFound:
            return False
        return True


def _logged_accesses(store: Store) -> tuple[dict[str, list[Access]], int]:
    """The memories in the access log, by session, with their total counts; and the offset up to which the log was read."""
    store.access.flush()
    logged, end = store.access.read(0)
    names: dict[str, set[str]] = {}
    for name, _ in logged:
        session, _, id = name.rpartition("/")
        names.setdefault(session, set()).add(id)
    store.indexer.count_accesses()
    refs = [f"{session}/{id}" for session, ids in names.items() for id in ids]
    found: dict[str, list[Access]] = {}
    for each in sorted(store.indexer.candidates(CandidateRequest(refs=refs)).matches, key=lambda each: each.id):
        if each.last_access is not None:
            found.setdefault(each.session, []).append((each.id, *_as_text((each.access_count, each.last_access))))
    return found, end


def _flush_access_counts(session: OpenSession, used: list[Access]) -> int:
    """Write access counts into a session; returns the number of memories. This creates no revision: `updated` stays."""
    histories = session.storage.history([id for id, _, _ in used]).histories
    before = {id: history.data().get("access") for id, history in histories.items() if history.deletion is None}
    operations: list[Operation] = [
        Update(id, {"access": access}, None, None, session.content_limit, may_touch_turns=True)
        for id, count, last in used
        if id in before and before[id] != (access := {"count": count, "last": last})
    ]
    if operations:
        batch = Batch(session.id, operations, to_text(session.now()), False, "noting what was used")
        batch.is_maintenance = True
        session.storage.commit(batch)
    return len(operations)


def _as_text(access: tuple[int, int]) -> tuple[int, str]:
    return access[0], to_text(EPOCH + timedelta(microseconds=access[1]))


# -- the times of the last runs


def next_runs(store: Store, now: datetime) -> dict[str, datetime]:
    """When each task is due next, by name; one that never ran, or ran in the future, is due now."""
    last = last_runs(store)
    return {name: now if _is_due(last.get(name), now, every) else last[name] + every for name, every in EVERY.items()}


def last_runs(store: Store) -> dict[str, datetime]:
    """When each task last ran to its end; tasks that never did are missing."""
    try:
        noted = json.loads(store.state.read(FILE))["tasks"]
        return {name: to_moment(noted[name]) for name in EVERY if name in noted}
    except (OSError, StorageCorrupt, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _note_runs(store: Store, last: dict[str, datetime]) -> None:
    fields = {"tasks": {name: to_text(when) for name, when in last.items()}}
    try:
        store.state.write(FILE, (json.dumps(fields, indent=2) + "\n").encode())
    except (OSError, SMPError):
        pass  # a read-only disk: every task is due again the next time


def _memories(number: int) -> str:
    return "1 memory" if number == 1 else f"{number:,} memories"
