"""Checks of sessions as a whole: quota and growth, archives, trash.

quota     how full a session is, and in how many days it will be full at its present growth, from the files alone
archives  every byte of every archive is read and compared with its manifest; nothing is unpacked
trash     deleted memories and sessions that the next purge will remove
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp_memory.errors import SMPError
from smp_memory.files.archive_reader import read_archive
from smp_memory.health.report import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted, limited, named
from smp_memory.model.times import to_moment
from smp_memory.policies.quota import OK, Thresholds, days_to_quota, growth_per_day, level_of
from smp_memory.policies.quota import WARNING as FILLING
from smp_memory.policies.session_states import PURGED, announces_purge, due_transition
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import foreign_files
from smp_memory.store.clock_state import evidence
from smp_memory.store.session_states import lifecycle_times, state_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject


_SOON_DAYS = 14
_SHORTEST_SPAN = timedelta(days=1)  # the first hours of a session are no basis for a forecast
_MIB = 1 << 20


class QuotaCheck(Check):
    name = "quota"
    title = "all sessions are within their quota"
    failed = "some sessions are full or soon will be"

    def __init__(self) -> None:
        self._fullest = 0.0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        config = session.config
        used, quota = sum(session.files.sizes().values()), config.quota_bytes
        share = used / quota
        self._fullest = max(self._fullest, share)
        self.summary = f"the fullest has {self._fullest:.0%} of its quota"
        level = level_of(used, quota, Thresholds.of(config.section("storage")))
        samples = _samples(session, used)
        is_long_enough = bool(samples) and session.subject.now - samples[0][0] > _SHORTEST_SPAN
        rate = growth_per_day(samples, session.subject.now, used) if is_long_enough else None
        days = days_to_quota(used, quota, rate)
        growth = f", and grows by {(rate or 0) / _MIB:.2f} MiB a day" if rate else ""
        forecast = f": full in {days:.1f} days" if days else ""
        figures = f"{used / _MIB:.1f} of {quota / _MIB:.1f} MiB, {share:.0%}{growth}{forecast}"
        details = ({"bytes": used, "quota_bytes": quota, "utilization": round(share, 4), "days_to_quota": days},)
        advice = f"smp compact --session {session.id} --dry-run shows what can be moved out; storage.max_session_size_mb raises the quota."
        if level != OK:
            severity = WARNING if level == FILLING else PROBLEM
            off = "" if config["compaction.enabled"] else " Automatic compaction is off (compaction.enabled)."
            message = (
                f"{session.id} is nearly full: {figures}.{off}" if share < 1 else f"{session.id} is full: {figures}."
            )
            yield HealthIssue(self.name, severity, message, advice, session.id, details=details)
        elif days is not None and days < _SOON_DAYS:
            message = f"{session.id} will be full soon: {figures}."
            yield HealthIssue(self.name, NOTE, message, advice, session.id, details=details)


def _samples(session: SessionSubject, total: int) -> list[tuple[datetime, int]]:
    """The size of a session hour by hour, derived from the times and sizes of its entries."""
    written: dict[str, int] = {}
    for state in session.reader.states.values():
        for entry in state.entries:
            if entry.part:
                continue  # counted with the entry that contains it
            hour = entry.at[:13]
            written[hour] = written.get(hour, 0) + entry.place[1] - entry.place[0]
    size = total - sum(written.values())
    samples: list[tuple[datetime, int]] = []
    for hour, more in sorted(written.items()):
        try:
            when = to_moment(f"{hour}:00:00Z")
        except (ValueError, OverflowError):
            continue
        samples.append((when - timedelta(hours=1), size))
        size += more
        samples.append((when, size))
    return samples


_MAX_ISSUES = 10


class ArchivesCheck(Check):
    name = "archives"
    title = "all archives are intact"
    failed = "some archives are damaged"
    fails_from = PROBLEM
    is_heavy = True

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        for each in foreign_files(subject.disk, subject.root):
            yield HealthIssue(self.name, NOTE, each.message, each.advice, each.session, path=each.path)
        index = ArchiveIndex(subject.store)
        archives = [(archived.session, archived.path, bool(archived.metadata)) for archived in index.archived()]
        for deleted in index.deleted():
            path = index.trash_archive_path(deleted.path)
            if subject.disk.exists(path):
                archives.append((deleted.session, path, True))
        self.summary = f"{counted(len(archives), 'archive')} checked"
        for session, path, has_summary in archives:
            try:
                read_archive(subject.disk, path)
            except (SMPError, OSError) as error:
                if not subject.disk.exists(path):
                    continue  # it was restored meanwhile
                message = f"The archive of {session} is damaged: {getattr(error, 'message', error)}"
                advice = (
                    "Restore the file from a backup before the session is needed; do not delete what is left of it."
                )
                yield HealthIssue(self.name, PROBLEM, message, advice, session, path=path)
                continue
            if not has_summary:
                message = f"The archive of {session} is intact, but the summary beside it is missing or cannot be read."
                yield HealthIssue(self.name, NOTE, message, "Nothing needs to be done.", session, path=path)


class TrashCheck(Check):
    name = "trash"
    title = "nothing is due for purging"
    failed = "deleted memories are due for purging"

    def __init__(self) -> None:
        self._deleted = 0
        self._due: list[HealthIssue] = []

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        retention = lifecycle_times(session.subject.store).purge
        due = []
        for id, history in session.session_history.histories.items():
            if history.deletion is None:
                continue
            self._deleted += 1
            try:
                if to_moment(history.deletion.at) + retention <= session.subject.now:
                    due.append(id)
            except (ValueError, OverflowError):
                continue
        if due:
            deleted = counted(len(due), "deleted memory", "deleted memories")
            has = "has" if len(due) == 1 else "have"
            message = f"{deleted} of {session.id} {has} been in the trash for {retention.days} days: {named(due)}."
            advice = "smp deleted lists them, smp restore restores them; smp purge --all removes them for good."
            self._due.append(HealthIssue(self.name, NOTE, message, advice, session.id, tuple(due)))
        yield from ()

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        sessions = ArchiveIndex(subject.store).deleted()
        memories = counted(self._deleted, "deleted memory", "deleted memories")
        self.summary = f"{memories}, {counted(len(sessions), 'deleted session')}"
        times, clock_evidence = lifecycle_times(subject.store), evidence(subject.store)
        for each in sessions:
            if each.is_foreign:
                continue
            marks = state_marks(each, subject.now)
            step = due_transition(None, subject.now, marks, times, clock_evidence)
            is_due = step is not None and step.state == PURGED
            if is_due or announces_purge(None, subject.now, marks, times, clock_evidence):
                message = f"The deleted session {each.session} will be purged by the next maintenance{'' if is_due else ' but one'}."
                advice = f"smp session undelete {each.session} restores it."
                self._due.append(HealthIssue(self.name, NOTE, message, advice, each.session, path=each.path))
        yield from limited(
            self._due, _MAX_ISSUES, "{} more sessions have something in the trash that is due for purging."
        )
