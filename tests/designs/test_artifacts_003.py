"""Design 003 keeps a generated document as it is in `artifacts/{id}.md`, without a heading of SMP."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import smp_memory

DOCUMENT = "# Harbour report\n\nThe crack report.\n\n---\n\n## Artifact list\n\n- pier two\n"
LAYOUTS = ["markdown", "jsonl", "single", "log"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    session = tmp_path / ".bmad" / "sessions" / "active" / "s1"
    (session / "artifacts").mkdir(parents=True)
    (session / "metadata.yaml").write_text('session:\n  id: "s1"\n  created_at: "2026-02-03T09:00:00Z"\n')
    (session / "artifacts" / "report-7.md").write_text(DOCUMENT)
    return session


def opened(folder: Path) -> smp_memory.Memory:
    return smp_memory.open(folder.parent.parent)


def test_a_plain_document_in_artifacts_is_an_artifact_named_after_its_file(folder: Path) -> None:
    with opened(folder) as memory:
        session = memory.session("s1")
        [artifact] = session.records("artifact")
        assert (artifact.id, artifact.content, artifact.typed_by_hand) == ("report-7", DOCUMENT, True)
        assert [hit.id for hit in session.query("crack")] == ["report-7"]
        assert session.validate().ok
        assert (folder / "artifacts" / "report-7.md").read_text() == DOCUMENT


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_converting_keeps_a_plain_document_in_artifacts(folder: Path, layout: str) -> None:
    with opened(folder) as memory:
        memory.convert(layout)
    with opened(folder) as memory:
        assert memory.session("s1").get("report-7").content == DOCUMENT
        memory.convert("markdown")
    with opened(folder) as memory:
        assert memory.session("s1").get("report-7").content == DOCUMENT
        assert memory.session("s1").validate().ok


def test_writing_repairing_and_maintaining_keep_a_plain_document(folder: Path) -> None:
    with opened(folder) as memory:
        session = memory.session("s1")
        session.add_decision("Dredge the north basin")
        assert session.get("report-7").content == DOCUMENT
        memory.maintain()
        assert session.get("report-7").content == DOCUMENT
        session.repair()
        assert session.get("report-7").content == DOCUMENT
        assert session.validate().ok


def test_a_plain_document_can_be_changed_deleted_and_restored(folder: Path) -> None:
    with opened(folder) as memory:
        session = memory.session("s1")
        session.update("report-7", name="Harbour")
        assert (session.get("report-7").name, session.get("report-7").content) == ("Harbour", DOCUMENT)
        session.delete("report-7")
        assert session.records("artifact") == []
        session.restore("report-7")
        assert session.get("report-7").content == DOCUMENT
        assert session.validate().ok


def test_a_new_artifact_does_not_take_the_name_of_a_plain_document(folder: Path) -> None:
    os.rename(folder / "artifacts" / "report-7.md", folder / "artifacts" / "ART-0001.md")
    with opened(folder) as memory:
        session = memory.session("s1")
        added = session.add_artifact("plan.md", "# Plan")
        assert added.id == "ART-0002"
        assert session.get("ART-0001").content == DOCUMENT


def test_a_plain_document_that_another_program_writes_anew_is_read_anew(folder: Path) -> None:
    with opened(folder) as memory:
        session = memory.session("s1")
        assert session.get("report-7").content == DOCUMENT
        (folder / "artifacts" / "report-7.md").write_text(DOCUMENT + "- pier three\n")
        assert session.get("report-7").content == DOCUMENT + "- pier three\n"


def test_an_empty_document_in_artifacts_is_no_artifact(folder: Path) -> None:
    (folder / "artifacts" / "report-7.md").write_text("\n")
    with opened(folder) as memory:
        assert memory.session("s1").records() == []
        assert memory.session("s1").validate().ok
