"""Size of a session against its quota: thresholds, breakdown and forecast, in the shape of design 003.

Guarantees: pure; never raises on odd samples (out of order, duplicate, from the future); the parts add up to the
total, if the given figures do.
The forecast is based on what was written, not on what compaction freed: each rise between two samples counts, a fall
counts as zero, and a rise of a week ago counts half.
Non-guarantees: a forecast is an estimate; it needs two samples at least an hour apart and is None without growth.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Sample = tuple[datetime, int]  # time, and the size of the session in bytes

OK, WARNING, CRITICAL, FULL = "ok", "warning", "critical", "full"
INDEXES, OTHER = "indexes", "other"
MAX_FILES = 10
HALF_LIFE = timedelta(days=7)
MIN_SPAN = timedelta(hours=1)
MAX_DAYS = 36_500.0
_NOT_COUNTED = (".smp-new", "/lock", "/queue")


class Thresholds(NamedTuple):
    """The shares of the quota at which compaction begins, and how much it then aims to free."""

    warning: float = 0.80
    critical: float = 0.95
    gentle: float = 0.10  # of the current size
    forced: float = 0.20

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Thresholds:
        """From the section `storage` of the settings, which is in per cent."""
        names = ("warning_percent", "critical_percent", "gentle_percent", "forced_percent")
        return cls(*(settings[name] / 100 if name in settings else default for name, default in zip(names, cls())))  # noqa: B905


DEFAULT_THRESHOLDS = Thresholds()


class LargeFile(NamedTuple):
    path: str
    size_bytes: int
    percentage: float


class SizeReport(NamedTuple):
    """The figures of one session."""

    total_bytes: int
    quota_bytes: int
    level: str
    components: dict[str, int]
    largest_files: list[LargeFile]
    predicted_days_to_quota: float | None
    bytes_per_day: float | None
    estimated_gain_bytes: int | None
    cold_bytes: int  # beside the session, outside the quota

    @property
    def utilization(self) -> float:
        return self.total_bytes / self.quota_bytes

    def to_dict(self) -> dict[str, Any]:
        return {
            "total_bytes": self.total_bytes,
            "quota_bytes": self.quota_bytes,
            "utilization": round(self.utilization, 4),
            "level": self.level,
            "components": dict(self.components),
            "largest_files": [file._asdict() for file in self.largest_files],
            "predicted_days_to_quota": _rounded(self.predicted_days_to_quota),
            "bytes_per_day": _rounded(self.bytes_per_day),
            "estimated_compaction_gain_bytes": self.estimated_gain_bytes,
            "cold_bytes": self.cold_bytes,
        }


def size_report(
    quota_bytes: int,
    files: Mapping[str, int],
    bytes_by_type: Mapping[str, int],
    samples: Iterable[Sample] = (),
    now: datetime | None = None,
    *,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    estimated_gain_bytes: int | None = None,
    cold_bytes: int = 0,
) -> SizeReport:
    """The figures of a session: `files` has sizes by path, `bytes_by_type` the size of the entries of each type."""
    counted = {path: size for path, size in files.items() if is_counted(path)}
    total = sum(counted.values())
    rate = growth_per_day(samples, now, total)
    return SizeReport(
        total,
        quota_bytes,
        level_of(total, quota_bytes, thresholds),
        breakdown(counted, bytes_by_type),
        largest(counted, total),
        days_to_quota(total, quota_bytes, rate),
        rate,
        estimated_gain_bytes,
        cold_bytes,
    )


def is_counted(path: str) -> bool:
    """Whether a file counts for the quota: locks and temporary files do not (as in design 003)."""
    return not f"/{path}".endswith(_NOT_COUNTED)


def level_of(size_bytes: int, quota_bytes: int, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> str:
    if size_bytes >= quota_bytes:
        return FULL
    if size_bytes >= thresholds.critical * quota_bytes:
        return CRITICAL
    return WARNING if size_bytes >= thresholds.warning * quota_bytes else OK


def compaction_target(
    size_bytes: int, quota_bytes: int, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> tuple[str, int] | None:
    """The compaction that this size requires, `gentle` or `forced`, and the bytes it should free; None if it requires none."""
    level = level_of(size_bytes, quota_bytes, thresholds)
    if level == OK:
        return None
    name = "gentle" if level == WARNING else "forced"
    return name, round(size_bytes * getattr(thresholds, name))


def breakdown(counted: Mapping[str, int], bytes_by_type: Mapping[str, int]) -> dict[str, int]:
    """Bytes by type of memory, of the readable indexes, and of the rest: metadata, headers, writer state."""
    parts = {kind.component: bytes_by_type.get(type, 0) for type, kind in KINDS.items()}
    parts[INDEXES] = sum(size for path, size in counted.items() if "indexes/" in f"/{path}")
    parts[OTHER] = max(0, sum(counted.values()) - sum(parts.values()))
    return parts


def largest(counted: Mapping[str, int], total: int, most: int = MAX_FILES) -> list[LargeFile]:
    found = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [LargeFile(path, size, round(100 * size / total, 1) if total else 0.0) for path, size in found]


def growth_per_day(samples: Iterable[Sample], now: datetime | None, size_bytes: int) -> float | None:
    """The number of bytes written per day; None without enough samples."""
    sizes = dict(sorted(samples))
    if now is not None:
        sizes = {when: size for when, size in sizes.items() if when < now}
        sizes[now] = size_bytes
    times = list(sizes)
    if not times or times[-1] - times[0] < MIN_SPAN:
        return None
    grown = weights = 0.0
    for earlier, later in pairwise(times):
        weight = 0.5 ** ((times[-1] - later) / HALF_LIFE)
        grown += weight * max(0, sizes[later] - sizes[earlier])
        weights += weight * ((later - earlier) / timedelta(days=1))
    return grown / weights if weights else None


def days_to_quota(size_bytes: int, quota_bytes: int, bytes_per_day: float | None) -> float | None:
    """The days until the quota is reached; None if it does not grow, or not within a hundred years."""
    if size_bytes >= quota_bytes:
        return 0.0
    if not bytes_per_day:
        return None
    days = (quota_bytes - size_bytes) / bytes_per_day
    return days if days <= MAX_DAYS else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def near_quota(session: str, used_bytes: int, quota_bytes: int, percents: tuple[int, ...]) -> tuple[int, str]:
    """The highest threshold that a session has reached, and a warning; (0, "") below all thresholds."""
    reached = max((percent for percent in percents if used_bytes * 100 >= quota_bytes * percent), default=0)
    if not reached:
        return 0, ""
    return reached, (
        f"Session {session} has reached {reached} % of its quota of {quota_bytes:,} bytes; when it is full, writes are refused. "
        "Make room with `smp compact`, raise storage.max_session_size_mb, or start a new session."
    )
