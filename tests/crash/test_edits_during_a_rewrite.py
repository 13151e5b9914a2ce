"""A person saves a file between the commit of a plan that replaces it and the rename: the saved text is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.journal import Journal
from smp_memory.session import SessionMemory
from smp_memory.testing import FrozenClock

pytestmark = pytest.mark.crash

LATE = {
    "jsonl": '{"decision": "LATE"}\n',
    "markdown": "\n  - decision: LATE\n",
    "single": '{"type": "decision", "data": {"decision": "LATE"}}\n',
    "log": '{"type": "decision", "content": {"decision": "LATE"}}\n',
}
LAYOUTS = pytest.mark.parametrize("layout", list(LATE))
OPERATIONS: dict[str, Callable[[SessionMemory], Any]] = {
    "write": lambda session: session.add_decision("another"),
    "tidy": lambda session: session.tidy(),
    "repair": lambda session: session.repair(),
    "compact": lambda session: session.compact(1 << 40),
    "erase": lambda session: session.erase("DEC-0001"),
    "redact": lambda session: session.redact(),
}


class Killed(Exception):
    pass


def session_with_typed_entry(folder: Path, layout: str) -> tuple[SessionMemory, Path]:
    clock = FrozenClock()
    memory = smp_memory.open(folder / "store", layout=layout, clock=clock)
    session = memory.create_session("s1", user="ada")
    session.add_decision("Use files")
    session.update("DEC-0001", topic="storage")
    session.resolve(session.add_finding("old", severity="low").id, "done")
    session.add_many([("turn", {"role": "user", "content": "said long ago"})] * 30)
    clock.advance(days=400)
    path = next(
        each
        for each in sorted((folder / "store").rglob("*"))
        if each.suffix in (".jsonl", ".yaml") and "Use files" in each.read_text()
    )
    path.write_text(path.read_text().replace("Use files", "Use plain files"))
    save(path, LATE[layout].replace("LATE", "typed password=hunter2hunter2"))
    return session, path


def save(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def texts(session: SessionMemory) -> list[str]:
    return [record.text for record in session.records("decision")]


def quarantined(folder: Path) -> list[Path]:
    return sorted((folder / "store").rglob("*.missing-after-change.*"))


CASES = [
    (layout, operation, at)
    for layout in LATE
    for operation in OPERATIONS
    for at in (1, 2)  # the plan that completes the typed entry, and that of the operation itself
    if (operation != "write" or at == 1) and (operation != "tidy" or layout == "markdown")
    if operation != "compact" or at == 1 or layout in ("single", "log")  # elsewhere it leaves the decisions alone
]


@pytest.mark.parametrize(("layout", "operation", "at"), CASES)
def test_entry_typed_between_commit_and_rename_stays_in_the_file(
    tmp_path: Path, layout: str, operation: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = session_with_typed_entry(tmp_path, layout)
    commit = Journal.commit
    plans: list[int] = []

    def then_saved(journal: Journal, plan: Any, **options: bool) -> None:
        commit(journal, plan, **options)
        if any(target.endswith(path.name) for _, target in plan.moves):
            plans.append(1)
            if len(plans) == at:
                save(path, LATE[layout])

    monkeypatch.setattr(Journal, "commit", then_saved)
    OPERATIONS[operation](session)
    monkeypatch.undo()
    assert len(plans) > at
    fresh = smp_memory.open(tmp_path / "store").session("s1")
    assert "LATE" in texts(fresh)
    assert quarantined(tmp_path) == []
    assert not list((tmp_path / "store").rglob("journal.json"))
    assert [problem.code for problem in fresh.validate().problems if problem.severity == "error"] == []


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_file_saved_after_the_first_rename_is_set_aside(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = session_with_typed_entry(tmp_path, layout)
    session.add_decision("completes it")
    turns = next(each for each in path.parent.iterdir() if each.is_file() and "said long ago" in each.read_text())
    move = Disk.move
    saved: list[Path] = []

    def then_saved(disk: Disk, source: str, target: str) -> None:
        move(disk, source, target)
        if not saved and target in (str(path), str(turns)):
            saved.append(turns if target == str(path) else path)
            save(saved[0], "LATE\n")

    monkeypatch.setattr(Disk, "move", then_saved)
    turns.write_text(turns.read_text().replace("said long ago", "said password=hunter2hunter2", 1))
    session.redact()
    monkeypatch.undo()
    assert saved
    assert ["LATE" in each.read_text() for each in quarantined(tmp_path)] == [True]
    codes = [problem.code for problem in smp_memory.open(tmp_path / "store").session("s1").validate().problems]
    assert "missing_after_change" in codes


def kill_after_commit(session: smp_memory.SessionMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a memory, and die after the plan was committed, before any file is renamed."""

    def killed(*arguments: Any) -> None:
        raise Killed

    monkeypatch.setattr(Journal, "apply", killed)
    with pytest.raises(Killed):
        session.add_decision("another")
    monkeypatch.undo()


@LAYOUTS
def test_file_saved_after_a_crash_in_a_plan_stays_as_it_was_saved(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = session_with_typed_entry(tmp_path, layout)
    kill_after_commit(session, monkeypatch)
    save(path, LATE[layout])
    fresh = smp_memory.open(tmp_path / "store").session("s1")
    fresh.add_decision("after the crash")
    assert {"LATE", "after the crash"} <= set(texts(fresh))
    assert quarantined(tmp_path) == []


@LAYOUTS
def test_recovery_of_a_plan_sets_nothing_aside_if_no_file_was_changed(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = session_with_typed_entry(tmp_path, layout)
    kill_after_commit(session, monkeypatch)
    fresh = smp_memory.open(tmp_path / "store").session("s1")
    fresh.add_decision("after the crash")
    assert quarantined(tmp_path) == []
    assert len(texts(fresh)) == 3
