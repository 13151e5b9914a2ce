"""How full are the sessions, and how long will they last? Quota and forecast, from the files alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp.health.check import Check
from smp.health.report import NOTE, PROBLEM, WARNING, Finding
from smp.lifecycle.quota import OK, Thresholds, days_to_quota, growth_per_day, level_of
from smp.lifecycle.quota import WARNING as FILLING
from smp.model.time import to_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject

_SOON_DAYS = 14
_SHORTEST_SPAN = timedelta(days=1)  # how a session begins says little about how it goes on
_MIB = 1 << 20


class Room(Check):
    name = "quota"
    title = "sessions have room"

    def __init__(self) -> None:
        self._fullest = 0.0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
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
            yield Finding(self.name, severity, message, advice, session.id, details=details)
        elif days is not None and days < _SOON_DAYS:
            message = f"{session.id} will be full soon: {figures}."
            yield Finding(self.name, NOTE, message, advice, session.id, details=details)


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
