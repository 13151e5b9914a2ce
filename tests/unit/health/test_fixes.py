"""Safe fixes resolve their issues, and the memories are the same before and after."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord
from smp_memory.files.journal import Journal
from smp_memory.files.layouts import NAMES
from tests.unit.health.sample_store import QUICKLY, TOKEN, aged, checked, digest, in_days, made, memories
from tests.user_state import state_folder

every_layout = pytest.mark.parametrize("layout", NAMES)


class Killed(BaseException):
    """Stands for the end of a process."""


@every_layout
def test_permissions(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        before = memories(memory)
        for path in (Path(memory.root), *Path(memory.root).rglob("*")):
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
        aged(*Path(state_folder(memory.root), "index").rglob("*"))
        contents = {path: found[3] for path, found in digest(memory.root).items()}
        report = memory.doctor(fix=True)
        assert [fixed.name for fixed in report.fixed] == ["permissions"]
        assert report.findings == []
        assert {path: found[3] for path, found in digest(memory.root).items()} == contents
        modes = {path: found[0] & 0o777 for path, found in digest(memory.root).items()}
        assert set(modes.values()) == {0o600, 0o700}
        assert memories(memory) == before


def test_permissions_are_not_set_through_links(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        elsewhere, twin = tmp_path / "elsewhere.jsonl", tmp_path / "twin.jsonl"
        for path in (elsewhere, twin):
            path.write_text("")
            os.chmod(path, 0o644)
        Path(memory.session("review").folder, "summaries.jsonl").symlink_to(elsewhere)
        os.link(twin, Path(memory.session("review").folder, "preferences.jsonl.bak"))
        os.chmod(memory.root, 0o755)
        memory.doctor(fix=True)
        assert [path.stat().st_mode & 0o777 for path in (elsewhere, twin)] == [0o644, 0o644]
        assert os.stat(memory.root).st_mode & 0o777 == 0o700


@every_layout
def test_recovery_removes_leftovers_of_a_crash(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(tmp_path, layout) as memory:
        session = memory.session("review")
        files = memory.store.session("review")
        name = memory.store.layout.files(memory.store.disk, files.reader.folder, "review")[0]
        left = Path(files.reader.folder, f"{name}.smp-new")
        left.touch(0o600)
        waiting = Path(memory.root, ".smp/other-0a1b2c3d.smp-new")
        waiting.mkdir(mode=0o700)
        aged(left, waiting)
        before = memories(memory)
        assert {finding.fix for finding in memory.doctor().findings} == {"recovery"}
        report = memory.doctor(fix=["recovery"])
        assert report.findings == []
        assert [fixed.ok for fixed in report.fixed] == [True]
        assert not left.exists()
        assert not waiting.exists()
        assert memories(memory) == before
        assert session.add_learning("Writing still works").id == "LEARN-0002"


def test_recovery_carries_out_a_committed_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    with made(tmp_path) as memory, monkeypatch.context() as patch:
        patch.setattr(Journal, "apply", killed)
        with pytest.raises(Killed), memory.session("review").transaction() as tx:
            tx.add_decision("Committed, but not carried out")
            tx.add_finding("Likewise, in another file")
        memory.store.close()  # `Memory.close` would renew figures, and carry the plan out before
    plan = Path(memory.root, "sessions/review/.smp/journal.json")
    aged(plan)
    assert [finding.fix for finding in checked(memory.root).of("leftovers")] == ["recovery"]
    with smp_memory.open(memory.root, config=QUICKLY) as memory:
        before = memories(memory)
        assert "review/DEC-0002" in before
        assert memory.doctor(fix=True).ok
        assert not plan.exists()
        assert memories(memory) == before


def test_recovery_quarantines_a_torn_end(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        path = Path(memory.session("review").folder, "findings.jsonl")
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"id":"FIND-0002","finding":"half of')
        before = memories(memory)
        report = memory.doctor(fix=True)
        assert [finding.check for finding in report.findings] == ["leftovers"]  # what was set aside is for a person
        assert path.read_bytes() == whole
        assert memories(memory) == before


def test_recovery_of_a_whole_store(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        before = memories(memory)
    config = Path(memory.root, "config.json")
    config.write_text(config.read_text().replace("{", '{"converting": true,', 1))
    Path(memory.root, ".smp/converting").mkdir(mode=0o700)
    aged(config)
    report = checked(memory.root, fix=True)
    assert report.findings == []
    with smp_memory.open(memory.root) as memory:
        assert memories(memory) == before


def test_index_fix_rebuilds_the_index(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        before = memories(memory)
        memory.store.indexer.close()
        path = next(state_folder(memory.root).glob("index/index-*/rows.sqlite"))
        database = sqlite3.connect(path)
        with database:
            database.execute("UPDATE memory SET deleted = 1")
        database.close()
        report = memory.doctor(fix=True)
        assert report.findings == []
        assert [(fixed.name, fixed.ok) for fixed in report.fixed] == [("index", True)]
        assert memories(memory) == before
        assert memory.query("OAuth").ids == ["DEC-0001"]


def test_access_fix_flushes_the_access_log(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        Path(state_folder(memory.root), "access.log").write_text("1768138200 review/DEC-0001\n" * 50_000)
        report = memory.doctor(fix=True)
        assert [fixed.name for fixed in report.fixed] == ["access"]
        assert report.findings == []
        assert memory.get("review/DEC-0001").access["count"] >= 50_000


def test_maintenance_fix_removes_no_memory(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        memory.session("review").delete("TURN-0001")
        memory.maintain()
        before = memories(memory)
    report = checked(memory.root, now=in_days(40), fix=["maintenance"])
    assert [(fixed.name, fixed.ok) for fixed in report.fixed] == [("maintenance", True)]
    with smp_memory.open(memory.root) as memory:
        assert memories(memory) == before
        assert [away.session for away in memory.deleted_sessions()] == ["wrong"]


def test_unsafe_repairs_are_only_advised(tmp_path: Path) -> None:
    with made(tmp_path, privacy={"redaction": {"enabled": False}}) as memory:
        session = memory.session("review")
        session.add_finding(f"The key is {TOKEN}")
        session.add_finding("The login form has no rate limit at all")
        session.relate("DEC-0001", "nowhere/DEC-0001")
        path = Path(session.folder, "learnings.jsonl")
        path.write_text("{\n" + path.read_text())
    before = digest(memory.root)
    report = checked(memory.root, fix=True)
    assert digest(memory.root) == before
    assert report.fixed == []
    assert {finding.check for finding in report.findings} == {"secrets", "duplicates", "references", "contents"}
    assert all(finding.advice and finding.fix is None for finding in report.findings)


def test_only_requested_fixes_are_applied(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        os.chmod(memory.root, 0o755)
        assert memory.doctor(fix=["index"]).fixed == []
        assert os.stat(memory.root).st_mode & 0o777 == 0o755
        with pytest.raises(InvalidRecord, match="erase"):
            memory.doctor(fix=["erase"])


def test_failing_fix_is_reported_and_others_run(tmp_path: Path) -> None:
    with made(tmp_path) as memory:
        pass
    os.chmod(memory.root, 0o755)
    Path(state_folder(memory.root), "index/gone-0a1b2c3d").mkdir(mode=0o700)
    aged(Path(state_folder(memory.root), "index/gone-0a1b2c3d"))
    config = Path(memory.root, "config.json")
    config.unlink()
    config.mkdir()
    report = checked(memory.root, fix=True)
    assert [(fixed.name, fixed.ok) for fixed in report.fixed] == [("permissions", True), ("index", False)]
    assert "config.json" in report.fixed[1].did[0]
    assert [finding.check for finding in report.findings] == ["configuration", "leftovers"]
