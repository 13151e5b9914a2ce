"""The wall clock is wrong, jumps, and the machine reboots: nothing irreversible happens before a day has really passed."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.lifecycle import clock_state
from smp_memory.lifecycle.clock_trust import distrust
from smp_memory.testing import MachineClock
from tests.user_state import state_folder

HOUR, DAY = 3600, 86400
TEN_YEARS = 3653


class Machine:
    """A store with a session in use, a deleted session and a deleted memory, on a machine with its own clocks."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.clock = MachineClock(datetime.now(UTC))  # the files have the times of the real clock
        self.config = {"durability": "os", **config}
        self.root = folder / "store"
        self.memory = smp_memory.open(self.root, clock=self.clock, config=self.config)
        session = self.memory.create_session("used")
        session.add_turn("user", "hello")
        session.add_decision("kept")
        session.delete(session.add_decision("deleted").id)
        self.memory.create_session("gone").add_decision("one")
        self.memory.delete_session("gone")
        self.memory.maintain()

    def look(self) -> Any:
        return self.memory.maintain(only=["archive", "retention", "purge"])

    def state(self) -> dict[str, Any]:
        archived = [away.session for away in self.memory.archived_sessions()]
        deleted = [away.session for away in self.memory.deleted_sessions()]
        memories = self.memory.session("used").records(include_deleted=True) if "used" not in archived else []
        return {"archived": archived, "deleted": deleted, "memories": [(each.id, each.deleted) for each in memories]}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, retention={"enabled": True})


def test_jump_of_ten_years_is_not_trusted_at_the_second_check(machine: Machine) -> None:
    before = machine.state()
    machine.clock.jump(days=TEN_YEARS)
    for _ in range(50):
        assert "clock moved on" in machine.look().refused
        machine.clock.advance(20 * 60)
        assert machine.state() == before


def test_jumps_back_and_forth_destroy_nothing_within_a_day(machine: Machine) -> None:
    before = machine.state()
    for years in (10, -10, 10, 1, -11, 20, -5):
        machine.clock.jump(days=365 * years)
        for _ in range(5):
            machine.look()
            machine.clock.advance(30 * 60)
    assert machine.state() == before


def test_many_small_jumps_count_as_one(machine: Machine) -> None:
    before = machine.state()
    for _ in range(100):
        machine.clock.jump(23 * HOUR)
        machine.clock.advance(60)
        machine.look()
    assert machine.state() == before


@pytest.mark.parametrize("seed", range(8))
def test_nothing_irreversible_happens_within_a_simulated_day(tmp_path: Path, seed: int) -> None:
    """Whatever jumps and reboots come together: what was not announced for a real day is there."""
    chance = random.Random(seed)
    machine = Machine(tmp_path, retention={"enabled": True}, lifecycle={"auto_archive": False})
    left = float(DAY - 2)
    while left > 0:
        step = min(left, chance.choice((10, 60, 30 * 60, 3 * HOUR)))
        left -= step
        if chance.random() < 0.4:
            machine.clock.reboot(step)
        else:
            machine.clock.advance(step)
        if chance.random() < 0.6:
            machine.clock.jump(days=chance.choice((0.9, 6.9, 30, 365, TEN_YEARS, -6.9, -TEN_YEARS)))
        for _ in range(chance.randint(1, 3)):
            machine.look()
        state = machine.state()
        assert state["deleted"] == ["gone"]
        assert [id for id, _ in state["memories"]] == ["TURN-0001", "DEC-0001", "DEC-0002"]


def test_purge_by_hand_needs_a_real_day_too(machine: Machine) -> None:
    session = machine.memory.session("used")
    session.purge(older_than=0)
    for _ in range(20):
        machine.clock.jump(23 * HOUR)
        assert session.purge(older_than=0).ids == []
        machine.clock.reboot(60)
        machine.clock.jump(days=6)
        assert session.purge(older_than=0).ids == []


def test_a_year_of_daily_checks_archives_and_purges(machine: Machine) -> None:
    for _ in range(60):
        machine.clock.advance(days=1)
        assert machine.look().refused == ""
    assert machine.state()["archived"] == ["used"]
    assert machine.state()["deleted"] == []
    for _ in range(300):
        machine.clock.advance(days=1)
        assert machine.look().refused == ""


def test_new_time_is_trusted_after_a_day_of_real_time(machine: Machine) -> None:
    machine.clock.jump(days=400)
    machine.look()
    for _ in range(3):
        machine.clock.advance(8 * HOUR - 1)
        assert machine.look().refused
    machine.clock.advance(10)
    assert machine.look().refused == ""
    assert machine.state()["archived"] == ["used"]
    assert machine.state()["deleted"] == ["gone"]  # announced now
    machine.clock.advance(days=1)
    machine.look()
    assert machine.state()["deleted"] == []


def test_corrected_clock_is_trusted_at_once(machine: Machine) -> None:
    machine.clock.jump(days=TEN_YEARS)
    assert machine.look().refused
    machine.clock.jump(days=-TEN_YEARS)
    machine.clock.advance(60)
    assert machine.look().refused == ""


def test_time_kept_over_reboots_is_trusted_in_the_end(machine: Machine) -> None:
    """A machine that was off for a month, and is switched off every evening."""
    machine.clock.reboot(60)
    machine.clock.jump(days=30)
    days = 0
    while machine.look().refused:
        machine.clock.advance(6 * HOUR)
        machine.look()
        machine.clock.jump(18 * HOUR - 60)
        machine.clock.reboot(60)
        days += 1
        assert days < 10
    assert days >= 3


def test_state_of_an_older_version_is_read(machine: Machine) -> None:
    path = state_folder(machine.root) / "clock.json"
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({name: noted[name] for name in ("seen", "boot", "uptime_seconds")}))
    machine.clock.advance(HOUR)
    known = clock_state.evidence(machine.memory.store, machine.clock)
    assert known.elapsed == timedelta(hours=1)
    assert distrust(machine.clock(), known) == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seen": 1}', '{"seen":"2026-01-01T12:00:00Z","boot":1,"uptime_seconds":"x"}',
                                  '{"seen":"2026-01-01T12:00:00Z","boot":"b","uptime_seconds":1e999}'])  # fmt: skip
def test_damaged_state_is_no_evidence_and_destroys_nothing(machine: Machine, text: str) -> None:
    path = state_folder(machine.root) / "clock.json"
    machine.clock.advance(days=40)
    machine.look()
    path.write_text(text)
    machine.clock.jump(days=2)
    machine.look()
    assert machine.state()["deleted"] == ["gone"]


def test_announcement_without_the_passed_time_is_repeated(machine: Machine) -> None:
    """It does not say how much time had passed, so a day cannot be counted from it."""
    session = machine.memory.session("used")
    assert session.purge(older_than=0).announced == ["used/DEC-0002"]
    path = Path(machine.memory.store.state.path("purges", "used.json"))
    noted = json.loads(path.read_text())
    noted["announced"] = {name: fields[:2] for name, fields in noted["announced"].items()}
    path.write_text(json.dumps(noted))
    machine.clock.advance(days=1)
    assert session.purge(older_than=0).announced == ["used/DEC-0002"]
    machine.clock.advance(days=1)
    assert session.purge(older_than=0).ids == ["used/DEC-0002"]
