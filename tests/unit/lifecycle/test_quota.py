"""Size of a session: thresholds, breakdown and forecast (design 003)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.lifecycle.quota import (
    Thresholds,
    compaction_target,
    days_to_quota,
    growth_per_day,
    is_counted,
    level_of,
    size_report,
)
from tests.unit.lifecycle.records import NOW, ago

MB = 1 << 20
QUOTA = 10 * MB


@pytest.mark.parametrize(
    ("share", "level"),
    [(0, "ok"), (0.799, "ok"), (0.8, "warning"), (0.949, "warning"), (0.95, "critical"), (0.999, "critical"), (1, "full"), (2, "full")],
)  # fmt: skip
def test_quota_level_changes_at_80_95_and_100_percent(share: float, level: str) -> None:
    assert level_of(round(share * 1000), 1000) == level


@pytest.mark.parametrize(
    ("size", "target"), [(500, None), (800, ("gentle", 80)), (949, ("gentle", 95)), (950, ("forced", 190)), (1000, ("forced", 200))]
)  # fmt: skip
def test_compaction_frees_a_tenth_at_80_percent_and_a_fifth_at_95(size: int, target: tuple[str, int] | None) -> None:
    assert compaction_target(size, 1000) == target


def test_thresholds_come_from_the_settings() -> None:
    assert Thresholds.of({}) == Thresholds()
    assert Thresholds.of({"warning_percent": 50, "forced_percent": 30}) == Thresholds(0.5, 0.95, 0.1, 0.3)
    assert level_of(60, 100, Thresholds(0.5)) == "warning"


def test_size_report_lists_components_and_largest_files() -> None:
    files = {
        "conversation.md": 600,
        "decisions.yaml": 200,
        "indexes/topics.yaml": 100,
        "metadata.yaml": 100,
        ".smp/lock": 9,
    }
    report = size_report(2000, files, {"conversation": 550, "decision": 190}, cold_bytes=77, estimated_gain_bytes=300)
    shown = report.to_dict()
    assert shown["total_bytes"] == 1000
    assert shown["utilization"] == 0.5
    assert shown["level"] == "ok"
    assert shown["components"] == {
        "conversation": 550, "decisions": 190, "findings": 0, "preferences": 0, "agent_states": 0, "artifacts": 0,
        "learnings": 0, "summaries": 0, "indexes": 100, "other": 160,
    }  # fmt: skip
    assert sum(shown["components"].values()) == shown["total_bytes"]
    assert shown["largest_files"][0] == {"path": "conversation.md", "size_bytes": 600, "percentage": 60.0}
    assert shown["estimated_compaction_gain_bytes"] == 300
    assert shown["cold_bytes"] == 77
    assert shown["predicted_days_to_quota"] is None


def test_an_empty_session_has_figures_too() -> None:
    shown = size_report(QUOTA, {}, {}).to_dict()
    assert shown["total_bytes"] == 0
    assert shown["largest_files"] == []


@pytest.mark.parametrize("path", [".smp/lock", ".smp/queue", "lock", "a.jsonl.smp-new"])
def test_locks_and_temporary_files_do_not_count(path: str) -> None:
    assert not is_counted(path)


@pytest.mark.parametrize("path", ["conversation.jsonl", "padlock", "artifacts/lock.md", ".smp/quarantine/x"])
def test_all_other_files_count(path: str) -> None:
    assert is_counted(path)


def test_the_largest_files_are_few_and_in_order() -> None:
    report = size_report(QUOTA, {f"f{number:02d}": number for number in range(30)}, {})
    assert [file.path for file in report.largest_files] == [f"f{number:02d}" for number in range(29, 19, -1)]


# -- the forecast


def samples(*points: tuple[float, int]) -> list[tuple[datetime, int]]:
    return [(ago(days), size) for days, size in points]


def test_steady_growth_is_extrapolated() -> None:
    rate = growth_per_day(samples((4, 1 * MB), (3, 2 * MB), (2, 3 * MB), (1, 4 * MB)), NOW, 5 * MB)
    assert rate == pytest.approx(MB)
    assert days_to_quota(5 * MB, QUOTA, rate) == pytest.approx(5)


def test_compaction_does_not_hide_growth() -> None:
    rate = growth_per_day(samples((4, 6 * MB), (3, 7 * MB), (2.999, 5 * MB), (2, 6 * MB), (1, 7 * MB)), NOW, 8 * MB)
    assert rate == pytest.approx(MB, rel=0.02)


def test_recent_growth_counts_more() -> None:
    slow_then_fast = growth_per_day(samples((30, 0), (7, 1 * MB)), NOW, 8 * MB)
    fast_then_slow = growth_per_day(samples((30, 0), (23, 7 * MB)), NOW, 8 * MB)
    assert slow_then_fast is not None
    assert fast_then_slow is not None
    assert slow_then_fast > 2 * fast_then_slow


def test_odd_samples_do_not_raise() -> None:
    assert growth_per_day([], None, 0) is None
    assert growth_per_day([], NOW, 5) is None
    assert growth_per_day([(NOW, 5)], NOW, 5) is None
    assert growth_per_day(samples((0.01, 5)), NOW, 500) is None
    assert growth_per_day(samples((-5, 9), (1, 5), (3, 1), (1, 5)), NOW, 5) is not None
    assert growth_per_day(samples((3, 5), (1, 5)), NOW, 5) == 0


def test_days_to_quota() -> None:
    assert days_to_quota(QUOTA, QUOTA, 5) == 0
    assert days_to_quota(QUOTA + 1, QUOTA, None) == 0
    assert days_to_quota(0, QUOTA, 0) is None
    assert days_to_quota(0, QUOTA, 0.001) is None


@given(
    some.lists(some.tuples(some.floats(-10, 100), some.integers(0, 20 * MB)), max_size=20), some.integers(0, 20 * MB)
)
def test_a_forecast_is_never_negative(points: list[tuple[float, int]], size: int) -> None:
    rate = growth_per_day(samples(*points), NOW, size)
    assert rate is None or rate >= 0
    days = days_to_quota(size, QUOTA, rate)
    assert days is None or 0 <= days <= 36_500
    assert timedelta(days=days or 0) >= timedelta(0)
