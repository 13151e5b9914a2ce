"""A plan that somebody put into a store takes nothing away that is nowhere else; one that SMP wrote is carried out by anybody."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.codec import signature
from smp_memory.files.layouts import NAMES, layout_named

layouts = pytest.mark.parametrize("layout", NAMES)
ID = "s1"


def filled(root: Path, layout: str) -> smp_memory.Memory:
    memory = smp_memory.open(root, layout=layout)
    session = memory.create_session(ID, user="ada", project="shop")
    session.add_decision("Use OAuth", tags=["auth"])
    session.add_decision("Never pushed")
    session.add_finding("No rate limit", severity="high")
    session.add_turn("user", "hello")
    session.update("DEC-0001", rationale="Standard")
    session.add_decision("In the trash")
    session.delete("DEC-0003")
    session.add_turn("user", "old words", created="2025-01-01T00:00:00Z")
    session.update_agent_state("a", {"step": 1})
    session.compact(1 << 40)
    return memory


def seen(root: Path) -> Any:
    """All that a person sees of the session, its trash and its cold segment."""
    session = smp_memory.open(root).session(ID)
    return (
        session.info.to_dict(),
        [(record.to_dict(), session.history(record.id)) for record in session.records(include_deleted=True)],
        sorted((each.id, each.bytes) for each in session.archived()),
    )


def place(root: Path, layout: str, *, of_store: bool) -> tuple[Path, Path]:
    """The folder of a plan, and the file that holds it."""
    made = layout_named(layout)
    if of_store:
        return root, root / ".smp/journal.json"
    return Path(made.folder(str(root), ID)), Path(made.private(str(root), ID), "journal.json")


def plant(path: Path, **steps: Any) -> None:
    """Put a plan into a store, as a clone would bring it: without locks."""
    for lock in [*path.parent.glob("lock"), *path.parent.parent.rglob("lock")]:
        lock.unlink(missing_ok=True)
    body = json.dumps({"appends": [], "moves": [], "removes": [], **steps}, separators=(",", ":"), ensure_ascii=False)
    path.write_text(f'{body[:-1]},"checksum":"{signature(body.encode())}"}}\n')


def session_files(root: Path, layout: str) -> list[Path]:
    """Every file that holds something of the session, without locks."""
    folder, plan = place(root, layout, of_store=False)
    found = [
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "queue", "id", "changes")
    ]
    if layout == "single":
        found = [folder / f"{ID}.jsonl", *(path for path in found if path.is_relative_to(plan.parent))]
    return sorted(path for path in set(found) if path.name not in ("lock", "queue"))


def after_a_write(root: Path) -> Any:
    """What is seen after the next writer has recovered, without what it wrote."""
    session = smp_memory.open(root).session(ID)
    new = session.add_learning("after").id
    found = seen(root)
    return found[0], [each for each in found[1] if each[0]["id"] != new], found[2]


@layouts
@pytest.mark.parametrize("kind", ["removes", "replaces by nothing", "replaces by half", "and a missing source"])
@pytest.mark.parametrize("of_store", [False, True])
def test_planted_plan_takes_nothing_away(tmp_path: Path, layout: str, kind: str, of_store: bool) -> None:
    filled(tmp_path / "store", layout).close()
    before = seen(tmp_path / "store")
    for number in range(len(session_files(tmp_path / "store", layout))):
        root = tmp_path / f"store-{number}"
        shutil.copytree(tmp_path / "store", root)
        target = session_files(root, layout)[number]
        folder, path = place(root, layout, of_store=of_store)
        name = os.path.relpath(target, folder)
        source = root / ".smp/converting" / name if of_store else Path(f"{target}.smp-new")
        source.parent.mkdir(parents=True, exist_ok=True)
        data = target.read_bytes()
        if kind == "removes":
            plant(path, removes=[name])
        else:
            source.write_bytes(data[: len(data) // 2] if "half" in kind else b"")
            move = [os.path.relpath(source, folder), name]
            gone = [[f"{move[0]}-gone", name]] if "missing" in kind else []
            plant(path, moves=[*gone, move])
        assert seen(root) == before, name
        assert after_a_write(root) == before, name
        assert not path.exists()


@layouts
def test_planted_plan_changes_no_text(tmp_path: Path, layout: str) -> None:
    """An entry with the same id and another text does not replace one."""
    filled(tmp_path, layout).close()
    before = seen(tmp_path)
    folder, path = place(tmp_path, layout, of_store=False)
    moves = []
    for target in session_files(tmp_path, layout):
        if b"Never pushed" in target.read_bytes():
            Path(f"{target}.smp-new").write_bytes(target.read_bytes().replace(b"Never pushed", b"Push always."))
            moves.append([os.path.relpath(f"{target}.smp-new", folder), os.path.relpath(target, folder)])
    assert moves
    plant(path, moves=moves)
    assert seen(tmp_path) == before
    assert after_a_write(tmp_path) == before


@layouts
@pytest.mark.parametrize(
    "steps",
    [
        {"removes": ["../../outside"]},
        {"removes": ["."]},
        {"removes": [".smp"]},
        {"removes": ["notes.txt"]},
        {"removes": [5]},
        {"moves": [["a.smp-new", "/etc/passwd"]]},
        {"moves": [["notes.txt.smp-new", "notes.txt"]]},
        {"moves": [["", "b"]]},
        {"appends": [["notes.txt", 0, "x"]]},
        {"appends": [["FILE", -1, "x"]]},
        {"appends": [["FILE", True, "x"]]},
        {"appends": [["FILE", 0, "no entry"]]},
        {"appends": [["FILE", 0, '{"id":"DEC-0009","timestamp":"2026-01-01T00:00:00Z"}\n']]},
    ],
    ids=str,
)
@pytest.mark.parametrize("of_store", [False, True])
def test_plan_that_smp_does_not_write_is_set_aside(
    tmp_path: Path, layout: str, steps: dict[str, Any], of_store: bool
) -> None:
    filled(tmp_path, layout).close()
    folder, path = place(tmp_path, layout, of_store=of_store)
    (folder / "notes.txt").write_text("of another program")
    before = seen(tmp_path)
    file = os.path.relpath(session_files(tmp_path, layout)[0], folder)
    plant(path, **json.loads(json.dumps(steps).replace("FILE", file)))
    assert seen(tmp_path) == before
    assert after_a_write(tmp_path) == before
    assert (folder / "notes.txt").read_text() == "of another program"
    if not of_store:
        assert [each.name.partition(".")[0] for each in path.parent.glob("quarantine/unfinished-*")]


@pytest.mark.parametrize("kind", ["folder", "link", "too large"])
def test_journal_that_is_no_plain_file_does_not_stop_reading(tmp_path: Path, kind: str) -> None:
    filled(tmp_path, "jsonl").close()
    before = seen(tmp_path)
    path = place(tmp_path, "jsonl", of_store=False)[1]
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        with path.open("wb") as file:
            file.truncate((256 << 20) + 1)
    assert seen(tmp_path) == before
    assert after_a_write(tmp_path) == before


@layouts
def test_own_plan_is_carried_out_after_the_store_was_moved_or_copied(tmp_path: Path, layout: str) -> None:
    memory = filled(tmp_path / "one", layout)
    memory.close()
    folder, path = place(tmp_path / "one", layout, of_store=False)
    target = next(each for each in session_files(tmp_path / "one", layout) if b"Never pushed" in each.read_bytes())
    with smp_memory.open(tmp_path / "other", layout=layout) as other:
        filled_other = other.create_session(ID)
        filled_other.add_decision("Appended by a plan")
    added = next(each for each in session_files(tmp_path / "other", layout) if b"by a plan" in each.read_bytes())
    text = added.read_text()
    start = text.index("  - ") if layout == "markdown" else 0
    lines = [line for line in text[start:].splitlines(keepends=True) if '"type":"session"' not in line]
    data = "".join(lines).replace("DEC-0001", "DEC-0077")
    plant(path, appends=[[os.path.relpath(target, folder), target.stat().st_size, data]])
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "one").rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        texts = [record.text for record in smp_memory.open(tmp_path / name).session(ID).records("decision")]
        assert "Appended by a plan" in texts, "readers see it already"
        after_a_write(tmp_path / name)
        assert not list((tmp_path / name).rglob("journal.json"))
        texts = [record.text for record in smp_memory.open(tmp_path / name).session(ID).records("decision")]
        assert texts.count("Appended by a plan") == 1


def test_announcement_of_a_purge_counts_only_if_it_is_in_the_state_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = smp_memory.open(tmp_path / "store").create_session(ID)
    session.add_decision("Deleted by mistake")
    session.delete("DEC-0001")
    assert session.purge(older_than=0).announced == [f"{ID}/DEC-0001"]
    assert session.purge(older_than=0).announced == []
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "of another user"))
    session = smp_memory.open(tmp_path / "store").session(ID)
    assert session.purge(older_than=0).announced == [f"{ID}/DEC-0001"], "announced anew, a day to go"
    assert session.deleted()
