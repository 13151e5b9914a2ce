"""BMAD files are imported once, with file, line and time; lines that are not understood are reported."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.importers.bmad_stories import action_key
from smp_memory.importers.import_run import IngestReport
from smp_memory.importers.ingest import import_from
from smp_memory.importers.markdown_items import items
from smp_memory.integrations.bmad.project import find_project
from smp_memory.memory import Memory
from smp_memory.privacy.fence import fence
from tests.unit.bmad import projects

SESSION = "bmad-import"


@pytest.fixture
def memory() -> Iterator[Memory]:
    with smp_memory.open(":memory:") as opened:
        yield opened


def imported(memory: Memory, root: Path, **options: Any) -> IngestReport:
    project = find_project(str(root))
    assert project is not None
    return import_from(memory, "bmad", root, **options)


def said(memory: Memory, type: str) -> list[str]:
    return [record.text for record in memory.session(SESSION).records(type)]


@pytest.mark.parametrize(
    ("make", "added"),
    [
        (projects.v4, {"finding": 4, "learning": 1}),
        (projects.alpha, {"artifact": 1, "learning": 1}),
        (lambda root: projects.alpha(root, ".bmad"), {"artifact": 1, "learning": 1}),
        (projects.plain, {"preference": 1, "decision": 1, "learning": 1}),
        (projects.skills, {"decision": 1, "preference": 1, "learning": 1, "artifact": 1, "summary": 1}),
        (
            projects.newest,
            {
                "artifact": 2,
                "finding": 9,
                "learning": 8,
                "summary": 2,
                "decision": 3,
                "conversation": 1,
                "preference": 1,
            },
        ),
    ],
)
def test_every_generation_is_imported_once(
    memory: Memory, tmp_path: Path, make: Callable[[Path], Path], added: dict[str, int]
) -> None:
    make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert imported(memory, tmp_path, dry_run=True).added == added
    assert memory.sessions() == []
    done = imported(memory, tmp_path)
    assert done.added == added
    assert done.unread == []
    records = memory.session(SESSION).records()
    again = imported(memory, tmp_path)
    assert (again.added, again.followed) == ({}, 0)
    assert again.known >= len(records)
    assert memory.session(SESSION).records() == records
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    for record in records:
        source = record.given["source"]
        line = (tmp_path / source["file"]).read_text().splitlines()[source["line"] - 1]
        if record.type in ("learning", "preference") or source["file"].endswith(".memlog.md"):
            assert record.text.split("\n")[0] in line


def test_memlog_entries_become_memories(memory: Memory, tmp_path: Path) -> None:
    imported(memory, projects.newest(tmp_path))
    session = memory.session(SESSION)
    decision = next(record for record in session.records("decision") if record.author == "pm")
    assert (decision.decision, decision.topic, decision.memlog_type) == ("use OAuth 2.0", "Login", "decision")
    assert decision.given["source"] == {"tool": "bmad", "file": "_bmad-output/specs/spec-login/.memlog.md", "line": 7}
    assert decision.created == datetime(2026, 3, 1, 10, 30).astimezone(UTC)  # `updated`, in local time
    question = next(
        record for record in session.records("finding") if record.category == "question" and record.topic == "Login"
    )
    assert (question.finding, question.status) == ("who pays for single sign-on?", "open")
    learned = {record.learning: (record.category, record.author) for record in session.records("learning")}
    assert learned["people forget passwords on Mondays"] == ("insight", None)
    assert learned["a magic link"] == ("idea", "user")
    assert learned["keep it short"] == ("note", "coach")
    assert "(see the appendix) not a label" in learned
    assert [turn.content for turn in session.records("turn")] == ["session complete"]


def test_sprint_status_is_followed(memory: Memory, tmp_path: Path) -> None:
    imported(memory, projects.newest(tmp_path))
    session = memory.session(SESSION)
    status = next(record for record in session.records("artifact") if record.name == "Sprint status")
    assert status.content == "epic-1: in-progress\n1-1-login: done\n1-2-cart: backlog"
    actions = {record.finding: record for record in session.records("finding") if record.category == "action item"}
    assert {text: record.status for text, record in actions.items()} == {  # one, though the retrospective has it, too
        "Add error handling to the checklist": "open",
        "Pin the database version": "done",
    }
    assert actions["Pin the database version"].owner == "Dana"

    path = tmp_path / "_bmad-output/implementation-artifacts/sprint-status.yaml"
    path.write_text(
        path.read_text().replace("1-2-cart: backlog", "1-2-cart: done").replace("status: open", "status: done")
    )
    done = imported(memory, tmp_path)
    assert (done.added, done.followed) == ({}, 2)
    assert "1-2-cart: done" in session.get(status.id).content
    assert session.get(actions["Add error handling to the checklist"].id).status == "resolved"
    assert [step["op"] for step in session.history(status.id)] == ["put", "change"]
    assert imported(memory, tmp_path).followed == 0


def test_closed_or_deleted_memories_stay_so(memory: Memory, tmp_path: Path) -> None:
    imported(memory, projects.newest(tmp_path))
    session = memory.session(SESSION)
    for record in session.records("finding"):
        session.resolve(record.id, "done here") if record.status == "open" else session.delete(record.id)
    left = session.records("finding")
    done = imported(memory, tmp_path)
    assert (done.added, done.followed) == ({}, 0)
    assert session.records("finding") == left


def test_identical_entries_are_all_kept_and_new_ones_are_added(memory: Memory, tmp_path: Path) -> None:
    projects.newest(tmp_path)
    log = tmp_path / "_bmad-output/specs/spec-login/.memlog.md"
    log.write_text("---\ntopic: x\n---\n\n- (note) again\n- (note) again\n")
    imported(memory, tmp_path)
    assert said(memory, "learning").count("again") == 2
    log.write_text(log.read_text() + "- (note) again\n- (decision) stop\n")
    assert imported(memory, tmp_path).added == {"learning": 1, "decision": 1}


def test_secret_is_redacted_and_a_mirrored_file_is_not_updated_for_it(memory: Memory, tmp_path: Path) -> None:
    projects.skills(tmp_path)
    (tmp_path / "_bmad/memory/sage/PERSONA.md").write_text("# Persona\n\nMail ada@example.org about it.\n")
    imported(memory, tmp_path)
    assert "ada@example.org" not in str([record.to_dict() for record in memory.session(SESSION).records()])
    assert imported(memory, tmp_path).followed == 0


MALFORMED = {
    "_bmad-output/a/.memlog.md": ("---\ntopic: x\n---\n\n- (note) fine\nprose here\n## heading\n", [6, 7]),
    "_bmad-output/b/.memlog.md": ("# Log\n\n## Decisions\n\n- take tea\n", [1]),
    "_bmad-output/c/.memlog.md": ("---\ntopic: x\n- never closed\n", [1]),
    "_bmad-output/x/sprint-status.yaml": ("development_status:\n  a: b\n   c: [\n", [3]),
    "_bmad-output/y/sprint-status.yaml": ("development_status: 7\naction_items: no\n", [1, 2]),
    "_bmad-output/z/sprint-status.yaml": (
        "action_items:\n  - epic: 1\n    owner: x\n  - action: do\n    status: maybe\n  - text\n",
        [2, 5, 6],
    ),
    "_bmad-output/l/sprint-status.yaml": ("- a\n- b\n", [1]),
    "_bmad-output/epic-2-retro-2026-01-01.md": ("# Retro\n\n<!-- empty -->\n", [1]),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_lines_that_are_not_understood_are_reported(memory: Memory, tmp_path: Path, name: str) -> None:
    content, lines = MALFORMED[name]
    projects.put(projects.newest(tmp_path), {name: content})
    done = imported(memory, tmp_path)
    assert [(each.file, each.line) for each in done.unread] == [(name, line) for line in lines]
    assert all(each.why for each in done.unread)
    assert done.count >= 26  # all else came in


def test_a_memlog_in_another_shape_is_read_as_markdown(memory: Memory, tmp_path: Path) -> None:
    projects.put(projects.newest(tmp_path), {"_bmad-output/b/.memlog.md": "# Log\n\n## Decisions\n\n- take tea\n"})
    imported(memory, tmp_path)
    assert "take tea" in said(memory, "decision")


def test_binary_files_links_and_large_files_are_reported(memory: Memory, tmp_path: Path) -> None:
    projects.newest(tmp_path)
    (tmp_path / "_bmad-output/b").mkdir()
    (tmp_path / "_bmad-output/b/.memlog.md").write_bytes(b"---\n---\n\n- ok\n- \xff\n")
    (tmp_path / "_bmad-output/c.memlog.md").write_bytes(b"---\n---\n" + b"- x\n" * (1 << 20) + b"- y\n")
    os.symlink(tmp_path / "_bmad-output/specs/spec-login/.memlog.md", tmp_path / "_bmad-output/d.memlog.md")
    done = imported(memory, tmp_path)
    assert [(each.file, each.line) for each in done.unread] == [
        ("_bmad-output/b/.memlog.md", 5),
        ("_bmad-output/c.memlog.md", 1),
        ("_bmad-output/d.memlog.md", 1),
    ]


def test_too_long_or_recalled_entry_does_not_stop_the_import(memory: Memory, tmp_path: Path) -> None:
    projects.newest(tmp_path)
    recalled = fence("- old news").replace("\n", " ")
    long = "long " * (memory.config.content_limit_bytes // 5 + 1)
    (tmp_path / "_bmad-output/specs/spec-login/.memlog.md").write_text(
        f"---\ntopic: x\n---\n\n- (decision) one\n- (decision) {long}\n- (decision) {recalled}\n- (decision) two\n"
    )
    done = imported(memory, tmp_path)
    assert [text for text in said(memory, "decision") if text in ("one", "two")] == ["one", "two"]
    assert [(each.file, each.line) for each in done.unread] == [("_bmad-output/specs/spec-login/.memlog.md", 6)]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_time_of_a_line_comes_from_git(memory: Memory, tmp_path: Path) -> None:
    projects.newest(tmp_path)
    log = tmp_path / "_bmad-output/specs/spec-login/.memlog.md"

    def git(*words: str, day: str = "2026-02-01") -> None:
        when = f"{day}T12:00:00+00:00"
        environ = {**os.environ, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "HOME": str(tmp_path)}
        names = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, env=environ, check=True, capture_output=True)

    git("init", "-q")
    log.write_text("---\ntopic: x\nupdated: 2026-03-01T10:30\n---\n\n- (decision) first\n")
    git("add", ".")
    git("commit", "-qm", "one")
    log.write_text(log.read_text() + "- (decision) second\n")
    git("commit", "-qam", "two", day="2026-02-05")
    log.write_text(log.read_text() + "- (decision) third\n")
    os.utime(log, (1_772_000_000, 1_772_000_000))
    imported(memory, tmp_path)
    times = {record.decision: record.created for record in memory.session(SESSION).records("decision")}
    assert times["first"] == datetime(2026, 2, 1, 12, tzinfo=UTC)
    assert times["second"] == datetime(2026, 2, 5, 12, tzinfo=UTC)
    assert times["third"] == datetime.fromtimestamp(1_772_000_000, UTC)  # not committed yet: the file's own time


def test_a_dry_run_leaves_an_archived_session_in_its_archive(tmp_path: Path) -> None:
    root = projects.skills(tmp_path / "shop")
    with smp_memory.open(tmp_path / "store") as memory:
        imported(memory, root)
        memory.archive_session(SESSION)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
        taken = imported(memory, root, dry_run=True)
        assert (taken.count, taken.known) == (0, 5)
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")} == before
        taken = imported(memory, root)
        assert (taken.count, taken.known) == (0, 5)
        assert [session.id for session in memory.sessions()] == [SESSION]


def test_compacted_memory_counts_as_known(tmp_path: Path) -> None:
    root = projects.skills(tmp_path / "shop")
    events = "".join(f"- (event) step {number} of a long morning\n" for number in range(300))
    (root / "long.memlog.md").write_text(f"---\ntopic: x\nupdated: 2024-06-07T14:22\n---\n\n{events}")
    with smp_memory.open(tmp_path / "store") as memory:
        added = imported(memory, root).count
        session = memory.session(SESSION)
        assert session.compact(50_000).freed_bytes > 0
        left = len(session.records())
        taken = imported(memory, root)
        assert (taken.count, taken.known) == (0, added)
        assert len(session.records()) == left


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_filters_of_a_repository_are_not_run(memory: Memory, tmp_path: Path) -> None:
    root = projects.newest(tmp_path / "shop")

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=root, check=True, capture_output=True)  # fmt: skip

    git("init")
    git("add", "-A")
    git("commit", "-m", "all")
    git("config", "filter.planted.clean", f"touch '{tmp_path}/ran'; cat")
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text("* filter=planted\n")
    for path in root.rglob("*.md"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert imported(memory, root).count > 0
    assert not (tmp_path / "ran").exists()


def test_pipe_in_place_of_a_memlog_does_not_block(memory: Memory, tmp_path: Path) -> None:
    root = projects.skills(tmp_path / "shop")
    os.mkfifo(root / "planted.memlog.md")
    taken = imported(memory, root)
    assert [(each.file, each.why) for each in taken.unread] == [("planted.memlog.md", "not a plain file")]
    assert taken.count == 5


def test_long_runs_of_blanks_and_dashes_are_read_in_linear_time() -> None:
    run = " " * 300_000 + "x" + "-" * 300_000  # looked at again from every place, it takes hours
    assert action_key("1", f"Fix it{run} (Owner: Ada)") == action_key("1", f"Fix it{run}")
    assert [item.headings for item in items(f"# A{run} B ##\n\nSaid.")] == [(f"A{run} B",)]
