"""Each event of docs/reference/log-events.md is emitted when it should be; those with tests of their own are not repeated here."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import smp_memory
from smp_memory import index
from smp_memory.errors import SessionArchived, SessionExists, StorageError, StorageReadOnly
from smp_memory.files import reconciliation
from smp_memory.files.disk import Disk
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.system import RealSystem
from smp_memory.lifecycle import background_compaction
from smp_memory.observe import telemetry
from smp_memory.observe.incomplete import each_existing
from smp_memory.observe.json_logging import JsonFormatter
from smp_memory.text import libraries
from tests.session_files import storage_of

MARK = "zebrafish"
BY_MEANING = {"search.semantic": "auto"}
Emitted = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def emitted(caplog: pytest.LogCaptureFixture) -> Emitted:
    """The figures of the events of one name. No line holds the mark."""
    caplog.set_level(logging.DEBUG, "smp_memory")

    def find(event: str) -> list[dict[str, Any]]:
        found = [each for each in caplog.records if getattr(each, "smp_event", "") == event]
        assert all(MARK not in JsonFormatter().format(each) for each in found)
        return [getattr(each, "smp_figures", {}) for each in found]

    return find


def disk(tmp_path: Path) -> Disk:
    return Disk(RealSystem(str(tmp_path)))


def test_session_brought_back(emitted: Emitted) -> None:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_decision(MARK)
        memory.archive_session("s1")
        memory.session("s1")
    assert len(emitted("session_brought_back")) == 1


def test_session_left_out(emitted: Emitted) -> None:
    def gone(_: str) -> None:
        raise SessionArchived("gone")

    assert list(each_existing(["s1"], gone)) == []
    assert emitted("session_left_out") == [{"reason": "archived"}]


def test_quota_near_once_for_each_threshold(emitted: Emitted) -> None:
    small = {"storage": {"max_session_size_mb": 0.01}, "compaction": {"enabled": False}}
    with smp_memory.open(":memory:", config=small) as memory:
        session = memory.create_session("s1")
        while not (found := emitted("quota_near")):
            session.add_decision(MARK * 20)
        session.add_decision(MARK)
    assert found[0]["percent"] == 80
    assert found[0]["bytes"] <= found[0]["quota_bytes"]
    assert [each["percent"] for each in emitted("quota_near")] in ([80], [80, 95])


def test_compaction_failed(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise StorageError("no room")

    monkeypatch.setattr(background_compaction, "compact", fail)
    monkeypatch.setattr(background_compaction, "compaction_target", lambda *_: ("gentle", "gentle"))
    with smp_memory.open(":memory:") as memory:
        background_compaction._compact_in_background(memory.create_session("s1").opened)
    assert len(emitted("compaction_failed")) == 1


def test_reason_redacted(emitted: Emitted) -> None:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_decision("one")
        memory.delete_session("s1")
        memory.undelete_session("s1", f"{MARK} token=ghp_16C7e42F292c6912E7710c838347Ae178B4a")
    (figures,) = emitted("reason_redacted")
    assert sum(figures["kinds"].values()) == 1


def test_settings_unusable_once_per_process(tmp_path: Path, emitted: Emitted) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("s1")
    (tmp_path / "config.json").write_text(f'{{"layout": "jsonl", "format": 1, "decay": "{tmp_path.name}"}}')
    for _ in range(2):
        with smp_memory.open(tmp_path) as memory:
            memory.session("s1").add_decision(MARK)
    assert len(emitted("settings_unusable")) == 1


def test_audit_failed(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(":memory:") as memory:

        def fail(*_: Any, **options: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(memory.store.audit.log, "append", fail)
        session = memory.create_session("s1")
        session.add_decision(MARK)
        session.delete("DEC-0001", MARK)
    assert emitted("audit_failed") == [{"action": "delete"}]


def test_entries_missing(tmp_path: Path, emitted: Emitted) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_decision("first")
        (path,) = [each for each in (tmp_path / "store").rglob("*.jsonl") if b"first" in each.read_bytes()]
        backup = path.read_bytes()
        session.add_decision(MARK)
        other = tmp_path / "edited"
        other.write_bytes(backup)
        os.replace(other, path)
        session.add_decision("third")
    (figures,) = emitted("entries_missing")
    assert (figures["entries"], figures["path"]) == (1, str(path))


def test_not_compared(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s1")
        session.add_decision(MARK)

        def fail(*_: Any) -> None:
            raise StorageError("cannot be read")

        monkeypatch.setattr(storage_of(session).writer, "quarantine_missing", fail)
    assert len(emitted("not_compared")) == 1


def accepting(plan: Plan, is_approved: bool) -> Any:
    return SimpleNamespace(accepted=plan, skipped_sources=[], is_rejected=False)


def test_journal_completed(tmp_path: Path, emitted: Emitted) -> None:
    journal = Journal(disk(tmp_path), str(tmp_path / "journal"), str(tmp_path), accepting)
    (tmp_path / "new").write_bytes(MARK.encode())
    plan = Plan()
    plan.moves.append(("new", "file"))
    journal.commit(plan)
    journal.recover(lambda *_: False)
    assert (tmp_path / "file").read_text() == MARK
    assert emitted("journal_completed") == [{"path": journal.path}]


def test_plan_set_aside(tmp_path: Path, emitted: Emitted) -> None:
    def rejecting(plan: Plan, is_approved: bool) -> Any:
        return SimpleNamespace(accepted=plan, skipped_sources=[], is_rejected=True)

    journal = Journal(disk(tmp_path), str(tmp_path / "journal"), str(tmp_path), rejecting)
    plan = Plan()
    plan.appends.append(("file", 0, MARK.encode()))
    journal.commit(plan)
    journal.recover(lambda *_: False)
    assert not (tmp_path / "file").exists()
    assert emitted("plan_set_aside") == [{"path": journal.path}]


def test_intent_not_stored(tmp_path: Path, emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    session = smp_memory.open(tmp_path / "store").create_session("s1")
    session.add_decision(MARK)
    with smp_memory.open(tmp_path / "store", trust=False) as memory:
        monkeypatch.setattr(type(memory.store.state), "write", _refused)
        assert memory.session("s1").erase(["DEC-0001"]).ids == ["s1/DEC-0001"]
    assert emitted("intent_not_stored") == [{}]


def _refused(*arguments: Any, **options: Any) -> None:
    raise StorageReadOnly("the state folder cannot be written")


def test_leftover(tmp_path: Path, emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(tmp_path / "one") as memory:
        memory.create_session("s1").add_decision(MARK)
        memory.export(tmp_path / "export.jsonl")
    remove = Disk.remove_tree

    def failing(self: Disk, path: str) -> None:
        if ".smp" in path and "one" not in path:
            raise PermissionError(13, "denied", path)
        remove(self, path)

    with smp_memory.open(tmp_path / "two") as memory:
        monkeypatch.setattr(Disk, "remove_tree", failing)
        memory.import_(tmp_path / "export.jsonl")
        assert [record.text for record in memory.session("s1").records()] == [MARK]
    assert len(emitted("leftover")) == 1


def test_changed_file_set_aside(tmp_path: Path, emitted: Emitted) -> None:
    journal = Journal(disk(tmp_path), str(tmp_path / "journal"), str(tmp_path), accepting)
    journal._copy_to_quarantine("decisions.jsonl", MARK.encode())
    assert emitted("changed_file_set_aside") == [{"path": str(tmp_path / "decisions.jsonl")}]


def test_file_renewed(tmp_path: Path, emitted: Emitted) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(MARK.encode())
    reader: Any = SimpleNamespace(disk=disk(tmp_path), session="s1")
    reconciliation.replace_suspect(reader, str(path), 1)
    assert (path.read_text(), emitted("file_renewed")) == (MARK, [{"path": str(path)}])


def test_archive_kept(tmp_path: Path, emitted: Emitted) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        memory.create_session("s1").add_decision(MARK)
        memory.archive_session("s1")
        archive = next(each for each in root.rglob("*.tar.gz"))
        copy = tmp_path / archive.name
        shutil.copy(archive, copy)
        memory.delete_session("s1")
        memory.create_session("s1").add_decision("another")
    shutil.copy(copy, archive)
    with smp_memory.open(root) as memory, pytest.raises(SessionExists):
        memory.restore_session("s1")
    assert len(emitted("archive_kept")) == 1


def test_library_missing_once_in_a_process(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_reported", set())
    for _ in range(2):
        libraries.report_missing("PyStemmer", ImportError("no such module"))
    assert emitted("library_missing") == [{"library": "PyStemmer"}]


def test_model_failed(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    def embed(_: list[str]) -> Any:
        raise ValueError(MARK)

    monkeypatch.setattr(index, "_reported", set())
    with smp_memory.open(":memory:", embed=embed, config=BY_MEANING) as memory:
        memory.create_session("s1").add_decision(MARK)
        memory.query(f"what do we know about {MARK} and its water")
    assert emitted("model_failed") == [{}]


def test_vectors_missing(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    from smp_memory.index import stored_feed

    monkeypatch.setattr(index, "_reported", set())
    monkeypatch.setattr(stored_feed, "_QUERY_SECONDS", -1.0)
    with smp_memory.open(":memory:", embed=lambda texts: [[1.0, 2.0]] * len(texts), config=BY_MEANING) as memory:
        memory.create_session("s1").add_decision(MARK)
        memory.query(f"what do we know about {MARK} and its water")
    assert len(emitted("vectors_missing")) == 1


def test_every_documented_event_is_named_in_a_test() -> None:
    root = Path(telemetry.__file__).parents[3]
    rows = [line for line in (root / "docs" / "reference" / "log-events.md").read_text("utf-8").splitlines() if line.startswith("| `smp_memory")]  # fmt: skip
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[2])}
    tests = "\n".join(path.read_text("utf-8") for path in (root / "tests").rglob("test_*.py"))
    assert len(documented) > 30
    assert [name for name in sorted(documented) if f'"{name}"' not in tests] == []
