"""How full are the sessions, and how long will they last? Quota and forecast, from the files alone.

Are archives whole, and what in the trash will go soon? Sessions that are put away, and memories that are deleted.

Guarantees: every byte of every archive is read and compared with its manifest, nothing is unpacked.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp_memory.errors import SMPError
from smp_memory.files.archive_reader import read_archive
from smp_memory.health.report import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted, named, several
from smp_memory.model.times import to_moment
from smp_memory.policies.quota import OK, Thresholds, days_to_quota, growth_per_day, level_of
from smp_memory.policies.quota import WARNING as FILLING
from smp_memory.policies.session_states import PURGED, announces_purge, due_transition
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import foreign_files
from smp_memory.store.clock_state import evidence
from smp_memory.store.session_states import marks_of, times_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject


_SOON_DAYS = 14
_SHORTEST_SPAN = timedelta(days=1)  # how a session begins says little about how it goes on
_MIB = 1 << 20


class QuotaCheck(Check):
    name = "quota"
    title = "sessions have room"

    def __init__(self) -> None:
        self._fullest = 0.0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        config = session.config
        used, quota = sum(session.files.sizes().values()), config.quota_bytes
        share = used / quota
        self._fullest = max(self._fullest, share)
        self.said = f"the fullest has {self._fullest:.0%} of its quota"
        level = level_of(used, quota, Thresholds.of(config.section("storage")))
        samples = _samples(session, used)
        is_telling = bool(samples) and session.subject.now - samples[0][0] > _SHORTEST_SPAN
        rate = growth_per_day(samples, session.subject.now, used) if is_telling else None
        days = days_to_quota(used, quota, rate)
        grows = f", and grows by {(rate or 0) / _MIB:.2f} MiB a day" if rate else ""
        forecast = f": full in {days:.1f} days" if days else ""
        figures = f"{used / _MIB:.1f} of {quota / _MIB:.1f} MiB, {share:.0%}{grows}{forecast}"
        details = ({"bytes": used, "quota_bytes": quota, "utilization": round(share, 4), "days_to_quota": days},)
        advice = f"smp compact --session {session.id} --dry-run shows what could go; storage.max_session_size_mb gives more room."
        if level != OK:
            severity = WARNING if level == FILLING else PROBLEM
            later = "" if config["compaction.enabled"] else " Compaction by itself is off (compaction.enabled)."
            message = (
                f"{session.id} is nearly full: {figures}.{later}" if share < 1 else f"{session.id} is full: {figures}."
            )
            yield HealthIssue(self.name, severity, message, advice, session.id, details=details)
        elif days is not None and days < _SOON_DAYS:
            message = f"{session.id} will be full soon: {figures}."
            yield HealthIssue(self.name, NOTE, message, advice, session.id, details=details)


def _samples(session: SessionSubject, total: int) -> list[tuple[datetime, int]]:
    """How large it was, hour by hour, told from the times and sizes of its entries."""
    written: dict[str, int] = {}
    for state in session.reader.states.values():
        for entry in state.entries:
            if entry.part:
                continue  # counted with the entry that it is folded into
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


_MOST = 10


class ArchivesCheck(Check):
    name = "archives"
    title = "archives are whole"
    is_heavy = True

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        for each in foreign_files(subject.disk, subject.root):
            yield HealthIssue(self.name, NOTE, each.message, each.advice, each.session, path=each.path)
        shelf = ArchiveIndex(subject.store)
        archives = [(away.session, away.path, bool(away.said)) for away in shelf.archived()]
        for away in shelf.deleted():
            path = shelf.packed_in(away.path)
            if subject.disk.exists(path):
                archives.append((away.session, path, True))
        self.said = counted(len(archives), "archive")
        for session, path, has_summary in archives:
            try:
                read_archive(subject.disk, path)
            except (SMPError, OSError) as error:
                if not subject.disk.exists(path):
                    continue  # it was brought back meanwhile
                message = f"The archive of {session} is damaged: {getattr(error, 'message', error)}"
                advice = (
                    "Bring the file back from a backup before the session is needed; do not delete what is left of it."
                )
                yield HealthIssue(self.name, PROBLEM, message, advice, session, path=path)
                continue
            if not has_summary:
                message = f"The archive of {session} is whole, but the summary beside it is missing or cannot be read."
                yield HealthIssue(self.name, NOTE, message, "Nothing needs to be done.", session, path=path)


class TrashCheck(Check):
    name = "trash"
    title = "nothing waits to be purged"

    def __init__(self) -> None:
        self._deleted = 0
        self._due: list[HealthIssue] = []

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        kept = times_of(session.subject.store).purge
        due = []
        for id, history in session.session_history.histories.items():
            if history.deletion is None:
                continue
            self._deleted += 1
            try:
                if to_moment(history.deletion.at) + kept <= session.subject.now:
                    due.append(id)
            except (ValueError, OverflowError):
                continue
        if due:
            deleted = counted(len(due), "deleted memory", "deleted memories")
            has = "has" if len(due) == 1 else "have"
            message = f"{deleted} of {session.id} {has} been in the trash for {kept.days} days: {named(due)}."
            advice = "smp deleted shows them, smp restore brings them back; smp purge --all takes them out for good."
            self._due.append(HealthIssue(self.name, NOTE, message, advice, session.id, tuple(due)))
        yield from ()

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        away = ArchiveIndex(subject.store).deleted()
        self.said = (
            f"{counted(self._deleted, 'deleted memory', 'deleted memories')}, {counted(len(away), 'deleted session')}"
        )
        times, seen = times_of(subject.store), evidence(subject.store)
        for each in away:
            if each.is_foreign:
                continue
            marks = marks_of(each, subject.now)
            step = due_transition(None, subject.now, marks, times, seen)
            is_due = step is not None and step.state == PURGED
            if is_due or announces_purge(None, subject.now, marks, times, seen):
                message = f"The deleted session {each.session} will be purged by the next maintenance{'' if is_due else ' but one'}."
                advice = f"smp session undelete {each.session} brings it back."
                self._due.append(HealthIssue(self.name, NOTE, message, advice, each.session, path=each.path))
        yield from several(self._due, _MOST, "{} more sessions have something in the trash that is due.")
