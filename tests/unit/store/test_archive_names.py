"""Archives, summaries and deletion records have the names of their layout, and are found after a conversion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.model.session_info import ARCHIVED
from tests.archive_files import archive_files

FILES = {
    "jsonl": ["archive/s1.manifest.json", "archive/s1.tar.gz"],
    "markdown": ["archived/s1/archive.tar.gz", "archived/s1/summary.yaml"],
    "single": ["archived/s1.json", "archived/s1.tar.gz"],
    "log": ["archived/s1.json", "archived/s1.tar.gz"],
}
RECORDS = {"markdown": "deletion-record.yaml"}
layouts = pytest.mark.parametrize("layout", NAMES)
ways = pytest.mark.parametrize(("before", "after"), [(one, other) for one in NAMES for other in NAMES if one != other])


def made(root: Path, layout: str) -> smp_memory.Memory:
    memory = smp_memory.open(root, layout=layout, config={"durability": "os"})
    session = memory.create_session("s1", user="ada")
    session.add_decision("Keep totals in cents: no rounding", rationale="tab\there, 'quotes' and: colons")
    session.add_finding("The unicorn totals differ", severity="high")
    return memory


def texts(memory: smp_memory.Memory, session: str = "s1") -> list[str]:
    return [record.text for record in memory.session(session).records()]


def loaded(path: Path) -> dict:
    return yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else json.loads(path.read_text())


@layouts
def test_archive_and_summary_have_the_names_of_the_layout(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        memory.archive_session("s1", "done")
        assert [path.relative_to(tmp_path).as_posix() for path in archive_files(tmp_path)] == FILES[layout]
        summary = loaded(next(tmp_path / name for name in FILES[layout] if not name.endswith("gz")))
        archive = next(tmp_path / name for name in FILES[layout] if name.endswith("gz"))
        assert summary["reason"] == "done"
        assert summary["key_decisions"][0]["decision"].startswith("Keep totals in cents")
        assert summary["compressed_size_bytes"] == archive.stat().st_size
        assert summary["original_size_bytes"] > 0
        assert str(summary["archived_at"]).startswith("20")
        [away] = memory.archived_sessions()
        assert (away.reason, away.when is not None) == ("done", True)
        assert len(texts(memory)) == 2
        assert archive_files(tmp_path) == []


@layouts
def test_deletion_record_has_the_name_of_the_layout(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        memory.delete_session("s1", "asked: to #1", by="ada")
        record = loaded(tmp_path / "deleted/s1" / RECORDS.get(layout, "deletion-record.json"))["deletion"]
        assert (record["session_id"], record["deleted_by"], record["reason"]) == ("s1", "ada", "asked: to #1")
        assert record["deleted_items"] == [{"type": "session", "id": "s1"}]
        assert record["backup_location"] == "deleted/s1/session"
        assert str(record["recovery_deadline"]) > str(record["deleted_at"])
        assert memory.deleted_sessions()[0].reason == "asked: to #1"
        assert memory.undelete_session("s1") == "active"
        assert len(texts(memory)) == 2


@ways
def test_archive_is_found_after_a_conversion(tmp_path: Path, before: str, after: str) -> None:
    with made(tmp_path, before) as memory:
        memory.archive_session("s1", "done")
        memory.create_session("other").add_decision("Stays")
    with smp_memory.open(tmp_path) as memory:
        memory.convert(after).close()
    with smp_memory.open(tmp_path) as memory:
        assert [(away.session, away.reason) for away in memory.archived_sessions()] == [("s1", "done")]
        assert len(memory.store.sessions(ARCHIVED)) == 1
        assert memory.query("unicorn", include_archived=True).ids == ["FIND-0001"]
        assert memory.erase("s1/FIND-0001").verified
        assert memory.doctor().of("archives") == []
        memory.delete_session("s1", "old")
        assert archive_files(tmp_path) == []
        assert memory.undelete_session("s1") == "archived"
        assert [path.relative_to(tmp_path).as_posix() for path in archive_files(tmp_path)] == FILES[after]
        assert len(texts(memory)) == 1
        assert len(memory.store.sessions(ARCHIVED)) == 0


@ways
def test_deleted_session_is_found_after_a_conversion(tmp_path: Path, before: str, after: str) -> None:
    with made(tmp_path, before) as memory:
        memory.delete_session("s1", "old")
        memory.create_session("other").add_decision("Stays")
    with smp_memory.open(tmp_path) as memory:
        memory.convert(after).close()
    with smp_memory.open(tmp_path) as memory:
        assert [(away.session, away.reason) for away in memory.deleted_sessions()] == [("s1", "old")]
        assert memory.erase("s1/FIND-0001").verified
        memory.undelete_session("s1")
        assert len(texts(memory)) == 1


def test_second_archive_in_another_form_is_not_lost(tmp_path: Path) -> None:
    with made(tmp_path, "markdown") as memory:
        memory.archive_session("s1")
        shutil.copy(tmp_path / "archived/s1/archive.tar.gz", tmp_path / "archived/s1.tar.gz")
        memory.session("s1").add_decision("Later")
        memory.restore_session("s1")
        assert archive_files(tmp_path) == []  # it held nothing that the session lacks
        memory.archive_session("s1")
        shutil.copy(tmp_path / "archived/s1/archive.tar.gz", tmp_path / "archived/s1.tar.gz")
        memory.restore_session("s1")
        memory.delete_session("s1")
        memory.purge_session("s1")
        memory.create_session("s1").add_decision("Another session of this name")
    made_elsewhere = tmp_path / "elsewhere"
    with made(made_elsewhere, "markdown") as memory:
        memory.archive_session("s1")
    shutil.copy(made_elsewhere / "archived/s1/archive.tar.gz", tmp_path / "archived/s1.tar.gz")
    with smp_memory.open(tmp_path) as memory:
        memory.archive_session("s1")
        assert [path.name.partition(".kept-")[0] for path in archive_files(tmp_path)] == [
            "archive.tar.gz",
            "summary.yaml",
            "s1.tar.gz",
        ]


@layouts
def test_deletion_record_of_another_program_survives_every_step(tmp_path: Path, layout: str) -> None:
    text = 'deletion:\n  session_id: "s1"\n  deleted_items:\n    - type: "decision"\n      id: "DEC-005"\n'
    broken = "deletion: [\n"
    with made(tmp_path, layout) as memory:
        for name, content in (("s1", text), ("s2", broken)):
            (tmp_path / "deleted" / name).mkdir(parents=True)
            (tmp_path / "deleted" / name / "deletion-record.yaml").write_text(content)
        memory.create_session("s2").add_decision("Stays")
        for name in ("s1", "s2"):
            memory.archive_session(name)
            memory.restore_session(name)
            memory.delete_session(name)
            memory.undelete_session(name)
        memory.maintain()
    assert (tmp_path / "deleted/s1/deletion-record.yaml").read_text() == text
    assert (tmp_path / "deleted/s2/deletion-record.yaml").read_text() == broken


@layouts
def test_summary_of_another_program_without_an_archive_is_kept(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        (tmp_path / "archived/s1").mkdir(parents=True)
        (tmp_path / "archived/s1/summary.yaml").write_text("summary:\n  outcome: Totals agreed\n")
        memory.archive_session("s1")
        memory.restore_session("s1")
    [path] = archive_files(tmp_path)
    assert path.read_text() == "summary:\n  outcome: Totals agreed\n"


@layouts
def test_count_of_archived_sessions_follows_every_step(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory, smp_memory.open(tmp_path) as reader:
        counts = []
        for step in ("archive_session", "delete_session", "undelete_session", "restore_session"):
            getattr(memory, step)("s1")
            counts.append(len(reader.store.sessions(ARCHIVED)))
    assert counts == [1, 0, 1, 0]
