"""A write reports what was redacted and how full its session is."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory

PLACES = ["jsonl", ":memory:"]
MAIL, PHONE = "ada@example.com", "+1 415 555 0132"


def opened(place: str, tmp_path: Path, **config: Any) -> smp_memory.Memory:
    if place == ":memory:":
        return smp_memory.open(":memory:", config=config)
    return smp_memory.open(tmp_path / "store", layout=place, config=config)


def smp_command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", "--root", str(root), *words], capture_output=True, text=True, check=False
    )


# -- redaction


@pytest.mark.parametrize("place", PLACES)
def test_record_reports_redacted_kinds_and_never_the_secret(place: str, tmp_path: Path) -> None:
    session = opened(place, tmp_path).create_session("s1")
    record = session.add_finding(f"Mail {MAIL} or eve@example.com, phone {PHONE}")
    assert record.redacted == {"email": 2, "phone": 1}
    assert MAIL not in repr(record.redacted)
    assert session.get(record.id).redacted == {}
    assert session.update(record.id, evidence=MAIL).redacted == {"email": 1}
    assert session.resolve(record.id, f"asked {MAIL}").redacted == {"email": 1}
    many = session.add_many([("finding", f"Mail {MAIL}"), ("finding", "nothing")])
    assert [each.redacted for each in many] == [{"email": 1}, {}]
    with session.transaction() as transaction:
        made = transaction.add_decision(f"Mail {MAIL}")
    assert made.redacted == {"email": 1}


@pytest.mark.parametrize("place", PLACES)
def test_session_reports_what_was_redacted_in_its_metadata(place: str, tmp_path: Path) -> None:
    memory = opened(place, tmp_path)
    assert memory.create_session("s1", contact=MAIL).redacted == {"email": 1}
    assert memory.create_session("s2").redacted == {}


def test_one_setting_keeps_addresses_and_telephone_numbers(tmp_path: Path) -> None:
    memory = opened("jsonl", tmp_path, privacy={"redaction": {"off": ["email", "phone"]}})
    record = memory.create_session("s1").add_finding(f"Mail {MAIL}, phone {PHONE}")
    assert (MAIL in record.finding, PHONE in record.finding, record.redacted) == (True, True, {})


def test_command_line_reports_what_was_redacted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    smp_memory.open(root).create_session("s1")
    told = smp_command(root, "add", "finding", f"Mail {MAIL}")
    assert "email" in told.stderr
    assert "privacy.redaction.off email" in told.stderr
    assert MAIL not in told.stderr + told.stdout
    told = smp_command(root, "add", "finding", f"Mail {MAIL}", "--json")
    assert json.loads(told.stdout)["redacted"] == {"email": 1}


# -- the quota


def filled(session: Any, percent: float, quota: int) -> Any:
    record = None
    while session.stats()["bytes"] < quota * percent / 100:
        record = session.add_artifact("a", "x " * 5000)
    return record


QUOTA = 1 << 20
SMALL = {"storage": {"max_session_size_mb": 1}, "compaction": {"enabled": False}}


@pytest.mark.parametrize("place", PLACES)
def test_writes_warn_at_80_and_95_percent_of_the_quota(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(place, tmp_path, **SMALL).create_session("s1")
    assert filled(session, 70, QUOTA).warnings == ()
    filled(session, 81, QUOTA)
    with caplog.at_level(logging.WARNING, "smp_memory"):
        (at_80,) = session.add_learning("short").warnings
        session.add_learning("short")
        assert "80 %" in at_80
        filled(session, 96, QUOTA)
        (at_95,) = session.add_learning("short").warnings
        assert "95 %" in at_95
        assert "storage.max_session_size_mb" in at_95
        with session.transaction() as transaction:
            made = transaction.add_learning("short")
        assert "95 %" in made.warnings[0]
        assert "95 %" in session.add_many([("learning", "short")])[0].warnings[0]
    logged = [record.getMessage() for record in caplog.records if "quota" in record.getMessage()]
    assert ["80 %" in logged[0], "95 %" in logged[1], len(logged)] == [True, True, 2]


def test_command_line_reports_how_full_the_session_is(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        for name, value in (("storage.max_session_size_mb", 1), ("compaction.enabled", False)):
            memory.set_config(name, value)
    with smp_memory.open(root) as memory:
        filled(memory.create_session("s1"), 81, QUOTA)
    told = smp_command(root, "add", "finding", "x")
    assert "80 %" in told.stderr
    assert "80 %" in json.loads(smp_command(root, "add", "finding", "x", "--json").stdout)["warnings"][0]
