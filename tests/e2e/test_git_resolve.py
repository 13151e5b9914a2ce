"""`smp git resolve` in clones of real git: what it shows, what it keeps, and what it never loses or brings back."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from tests.e2e.git_clones import Clone, environment, make_origin
from tests.e2e.terminal import Screenplay, Terminal

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

Enter = Callable[[Clone], Terminal]


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Enter:
    """`smp` for the store of a clone."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "SMP_"))]:
        monkeypatch.delenv(name)
    for name, value in {**environment(tmp_path), "SMP_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)

    def entered(clone: Clone) -> Terminal:
        monkeypatch.setenv("SMP_ROOT", str(clone.root))
        return Terminal(capsys)

    return entered


def in_conflict(folder: Path, layout: str = "jsonl", without_driver: str = "") -> tuple[Clone, str]:
    """Two clones give one severity different values and one id to two decisions; what git said when the first one merged."""
    origin = make_origin(folder / "origin", layout)
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.update("FIND-0001", severity="low"), lambda s: s.add_decision("A decides"))
    b.write(
        lambda s: s.update("FIND-0001", severity="critical"),
        lambda s: s.add_decision("B decides"),
        lambda s: s.relate("FIND-0001", "DEC-0002", kind="addresses"),
    )
    if without_driver == "none":
        a.git("config", "--remove-section", "merge.smp")
    elif without_driver:
        a.git("config", "merge.smp.driver", f"{without_driver} git merge-driver %O %A %B %P")
    told = a.pull(b, fails=True)
    a.now = b.now
    return a, told


def is_marked(clone: Clone) -> bool:
    return any(b"<<<<<<<" in data or b">>>>>>>" in data for data in clone.files().values())


def changes_of(clone: Clone) -> list[str]:
    steps = [step["changes"].get("severity") for step in clone.opened().history("FIND-0001")[1:]]
    return [step["to"] for step in steps if step]


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("without_driver", ["", "none", "/does/not/exist/smp"])
def test_either_side_is_kept_and_the_other_stays_in_the_history(
    layout: str, without_driver: str, tmp_path: Path, enter: Enter
) -> None:
    """Also after git merged as text, and after it took one side because the program of its driver was gone."""
    a, _ = in_conflict(tmp_path, layout, without_driver)
    smp = enter(a)
    code, out, _ = smp("git", "resolve", "--all", "--take", "ours")
    assert code == 0
    assert "kept ours, severity: low" in out
    assert "not theirs, severity: critical" in out
    assert "smp edit s1/FIND-0001 severity=critical" in out
    assert "git add store && git commit" in out
    assert not is_marked(a)
    assert changes_of(a) == ["low", "critical", "low"]
    assert a.opened().get("FIND-0001").severity == "low"
    assert {"A decides", "B decides"} <= set(a.texts())
    [relation] = a.opened().get("FIND-0001").relations
    assert a.opened().get(relation["target"]).text == "B decides"
    assert a.problems() == []
    a.commit("merged")


def test_merge_names_the_next_step_and_the_memory_that_has_another_id_now(tmp_path: Path) -> None:
    _, told = in_conflict(tmp_path)
    assert "smp git resolve" in told
    assert "DEC-0002 of theirs is now DEC-0003" in told


def test_renumbered_id_is_the_one_that_the_store_shows(tmp_path: Path) -> None:
    """Also where a memory with a higher number was erased, so that its number is not in the files."""
    origin = make_origin(tmp_path / "origin", "jsonl")
    origin.write(lambda s: s.add_decision("gone"), lambda s: s.add_decision("gone, too"))
    origin.write(lambda s: s.erase(["DEC-0002", "DEC-0003"]))
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    for clone, text in ((a, "A decides"), (b, "B decides")):
        clone.write(lambda s, text=text: s.add_decision(text))
    assert "DEC-0004 of theirs is now DEC-0005" in a.pull(b)
    assert a.opened().get("DEC-0005").text == "B decides"


def test_listing_shows_both_sides_within_80_columns_and_changes_nothing(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    before = a.files()
    code, out, _ = enter(a)("git", "resolve")
    assert code == 1
    assert [line for line in out.splitlines() if "severity" in line] == ["    severity: low", "    severity: critical"]
    assert max(map(len, out.splitlines())) <= 80
    assert a.files() == before


def test_value_of_ones_own_settles_a_conflict(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    code, out, _ = enter(a)("git", "resolve", "FIND-0001", "--field", "severity=medium")
    assert code == 0, out
    assert changes_of(a) == ["low", "critical", "medium"]
    assert not is_marked(a)


def test_json_names_sides_values_and_what_is_left(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    smp = enter(a)
    code, out, _ = smp("--json", "git", "resolve")
    assert code == 1
    assert '"critical"' in out
    done = smp.json("git", "resolve", "s1/FIND-0001", "--take", "theirs")
    assert done["open"] == []
    assert done["operation"] == "merge"
    assert [each["kept"] for each in done["resolved"]] == ["theirs"]


@pytest.mark.parametrize(
    "words",
    [
        ("NOPE-1", "--take", "ours"),
        ("FIND-0001", "--take", "current"),
        ("--take", "ours"),
        ("--all",),
        ("--field", "a=b"),
    ],
)
def test_wrong_call_changes_nothing(words: tuple[str, ...], tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    before = a.files()
    assert "smp" in enter(a).fails(2, "git", "resolve", *words)
    assert a.files() == before


def test_text_merge_that_a_person_edited_is_not_merged_again(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path, "jsonl", "none")
    path = next(a.root / name for name, data in a.files().items() if b"severity" in data)
    path.write_bytes(path.read_bytes().replace(b"No rate limit", b"No rate limit at all"))
    code, _, err = enter(a)("git", "resolve", "--all", "--take", "theirs")
    assert code == 0
    assert "findings.jsonl was merged as text" not in err
    finding = a.opened().get("FIND-0001")
    assert (finding.text, finding.severity) == ("No rate limit at all", "critical")


def test_erased_memory_does_not_come_back_in_the_quarantine(tmp_path: Path, enter: Enter) -> None:
    origin = make_origin(tmp_path / "origin", "jsonl")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A finds"), lambda s: s.erase("FIND-0001"))
    b.write(lambda s: s.update("FIND-0001", severity="critical"))
    a.pull(b, fails=True)
    code, out, err = enter(a)("git", "resolve", "FIND-0001", "--take", "ours")
    assert code == 0, err
    assert "kept ours, removed" in out
    assert not any(b"No rate limit" in path.read_bytes() for path in a.root.rglob("*") if path.is_file())


def test_file_that_one_side_deleted_is_left_to_git(tmp_path: Path, enter: Enter) -> None:
    """Git asks no merge driver about it, and staging the file would bring an erased memory back."""
    origin = make_origin(tmp_path / "origin", "jsonl")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.erase("FIND-0001"))
    b.write(lambda s: s.update("FIND-0001", severity="critical"))
    a.pull(b, fails=True)
    code, out, _ = enter(a)("git", "resolve")
    assert code == 1
    assert "findings.jsonl was deleted by ours" in out
    assert "git rm -- store/sessions/s1/findings.jsonl" in out


def test_values_that_are_kept_and_dropped_are_said_within_80_columns(tmp_path: Path, enter: Enter) -> None:
    origin = make_origin(tmp_path / "origin", "jsonl")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    for clone in (a, b):
        long = {name: f"{name} of {clone.folder.name} " * 9 for name in ("description", "category", "impact")}
        clone.write(lambda s, long=long: s.update("FIND-0001", **long))
    a.pull(b, fails=True)
    code, out, _ = enter(a)("git", "resolve", "--all", "--take", "theirs")
    assert code == 0
    assert "To take the other: smp edit s1/FIND-0001" in out
    assert max(len(line) for line in out.splitlines() if str(a.folder) not in line) <= 80


@pytest.mark.parametrize("layout", NAMES)
def test_validate_does_not_miss_the_entries_of_the_side_that_was_not_kept(
    layout: str, tmp_path: Path, enter: Enter
) -> None:
    """Their numbers were the highest of the session; `validate` took them for lost by another program."""
    origin = make_origin(tmp_path / "origin", layout)
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    b.write(lambda s: s.add_finding("B finds"), lambda s: s.erase("FIND-0001"))
    a.write(*(lambda s, word=word: s.update("FIND-0001", severity=word) for word in ("low", "high", "critical") * 3))
    a.pull(b, fails=True)
    assert enter(a)("git", "resolve", "FIND-0001", "--take", "theirs")[0] == 0
    assert a.problems() == []
    assert a.opened().find("FIND-0001") is None


def test_stash_that_left_a_conflict_is_named_until_its_files_are_added(tmp_path: Path, enter: Enter) -> None:
    """Git calls it neither a merge nor anything else, so `smp` alone said nothing."""
    origin = make_origin(tmp_path / "origin", "jsonl")
    a = origin.clone("a", 1)
    a.write(lambda s: s.update("FIND-0001", severity="low"), commit=None)
    a.git("stash")
    a.write(lambda s: s.update("FIND-0001", severity="critical"))
    a.git("stash", "pop", fails=True)
    smp = enter(a)
    if not (a.folder / ".git" / "AUTO_MERGE").exists():
        pytest.skip("this git leaves no trace of the conflict")
    assert "smp git resolve" in smp.ok("status")
    assert "git add store && git status" in smp.ok("git", "resolve", "--all", "--take", "theirs")
    a.git("add", "-A")
    assert "smp git resolve" not in smp.ok("status")
    assert a.opened().get("FIND-0001").severity == "low"


def test_memory_that_was_changed_here_and_erased_there_can_be_kept(tmp_path: Path, enter: Enter) -> None:
    origin = make_origin(tmp_path / "origin", "markdown")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A finds"), lambda s: s.erase("FIND-0001"))
    b.write(lambda s: s.update("FIND-0001", severity="critical"))
    a.pull(b, fails=True)
    assert enter(a)("git", "resolve", "FIND-0001", "--take", "theirs")[0] == 0
    assert a.opened().get("FIND-0001").severity == "critical"
    assert not is_marked(a)


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_metadata_of_either_side_is_kept(layout: str, side: str, tmp_path: Path, enter: Enter) -> None:
    """In a log the lines around the markers are from either side, and were taken for the common version."""
    origin = make_origin(tmp_path / "origin", layout)
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.change_info(project="shop of a"))
    b.write(lambda s: s.change_info(project="shop of b"))
    a.pull(b, fails=True)
    smp = enter(a)
    assert smp("git", "resolve")[0] == 1
    assert smp("git", "resolve", "s1/metadata", "--take", side)[0] == 0
    assert a.opened().info.project == ("shop of a" if side == "ours" else "shop of b")
    assert not is_marked(a)


def test_rebase_names_its_own_next_step(tmp_path: Path, enter: Enter) -> None:
    origin = make_origin(tmp_path / "origin", "jsonl")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.update("FIND-0001", severity="low"))
    b.write(lambda s: s.update("FIND-0001", severity="critical"))
    b.git("pull", "-q", "--rebase", str(a.folder), "master", fails=True)
    smp = enter(b)
    assert "smp git resolve" in smp.ok("status")
    assert "git add store && git rebase --continue" in smp.ok("git", "resolve", "--all", "--take", "theirs")
    b.git("add", "store")
    b.git("rebase", "--continue")
    assert b.opened().get("FIND-0001").severity == "critical"
    assert "smp git resolve" not in smp.ok("status")


def test_aborted_merge_leaves_nothing_to_resolve(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    a.git("merge", "--abort")
    assert "Nothing is left to decide." in enter(a).ok("git", "resolve")
    assert changes_of(a) == ["low"]


def test_status_names_a_missing_driver_without_starting_git(
    tmp_path: Path, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = make_origin(tmp_path / "origin", "jsonl")
    a = origin.clone("a", 1)
    further = Clone(tmp_path / "further")
    a.git("worktree", "add", "-q", str(further.folder))
    monkeypatch.setenv("PATH", "")
    for clone in (a, further):
        assert "merge driver" not in enter(clone).ok("status")
    config = a.folder / ".git" / "config"
    text = config.read_text()
    for clone in (a, further):
        config.write_text(text.replace('[merge "smp"]', '[merge "other"]'))
        assert "smp git setup" in enter(clone).ok("status")
        config.write_text(text.replace(sys.executable, "/does/not/exist/python"))
        assert "/does/not/exist/python" in enter(clone).ok("status")
        config.write_text(text)


def test_terminal_goes_from_conflict_to_conflict(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    enter(a)
    values = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"}
    with Screenplay([sys.executable, "-m", "smp_memory", "git", "resolve"], a.folder, values) as terminal:
        terminal.wait_for("[q]uit: ")
        terminal.type("t")
        shown = terminal.until_the_end()
    assert terminal.exit_code == 0
    for expected in ("1 of 1", "severity: low", "severity: critical", "kept theirs, severity: critical", "git commit"):
        assert expected in shown, expected
    assert max(len(line) for line in shown.splitlines() if str(a.folder) not in line) <= 80
    assert a.opened().get("FIND-0001").severity == "critical"
    assert not is_marked(a)


def test_editor_settles_a_conflict(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    enter(a)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/critical/medium/' \"$1\"\n")
    editor.chmod(0o755)
    values = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1", "VISUAL": "", "EDITOR": str(editor)}
    with Screenplay([sys.executable, "-m", "smp_memory", "git", "resolve"], a.folder, values) as terminal:
        terminal.wait_for("[q]uit: ")
        terminal.type("e")
        assert "severity: medium" in terminal.until_the_end()
    assert changes_of(a) == ["low", "critical", "medium"]
    assert not is_marked(a)


def changed_here_and_erased_there(folder: Path, layout: str) -> Clone:
    """Ours erased a finding that a transaction of theirs changed, beside other memories; both changed one more."""
    origin = make_origin(folder / "origin", layout)
    origin.write(lambda s: s.add_finding("Slow query", severity="low"))
    a, b = origin.clone("a", 1), origin.clone("b", 2)

    def change_together(session: smp_memory.SessionMemory) -> None:
        with session.transaction() as together:
            together.update("FIND-0001", severity="critical")
            together.update("FIND-0002", severity="medium")
            together.update("DEC-0001", rationale="fewer passwords")
            together.add_finding("No audit log")

    a.write(lambda s: s.erase("FIND-0001"), lambda s: s.update("FIND-0002", severity="high"))
    b.write(change_together)
    a.pull(b, fails=True)
    a.now = b.now
    return a


@pytest.mark.parametrize("layout", NAMES)
def test_erased_memory_does_not_come_back_with_a_transaction_that_changed_it(
    layout: str, tmp_path: Path, enter: Enter
) -> None:
    """It was in one hunk with another conflict, was not named, and both sides of the hunk stayed."""
    a = changed_here_and_erased_there(tmp_path, layout)
    code, out, err = enter(a)("git", "resolve", "--all", "--take", "ours")
    assert code == 0, err
    assert "s1/FIND-0001: kept ours, removed" in out
    assert "s1/FIND-0002: kept ours, severity: high" in out
    assert not any(b"No rate limit" in path.read_bytes() for path in a.root.rglob("*") if path.is_file())
    assert a.opened().get("FIND-0002").severity == "high"
    assert not is_marked(a)


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_choice_about_one_memory_keeps_the_others_of_its_transaction(
    layout: str, side: str, tmp_path: Path, enter: Enter
) -> None:
    """The whole side of the hunk went, with a new finding that nobody named."""
    a = changed_here_and_erased_there(tmp_path, layout)
    smp = enter(a)
    assert smp("git", "resolve", "FIND-0001", "--take", side)[0] == 1
    assert "No audit log" in a.texts()
    assert ("No rate limit" in a.texts()) == (side == "theirs")
    assert a.opened().get("DEC-0001").rationale == "fewer passwords"
    assert smp("git", "resolve", "FIND-0002", "--take", side)[0] == 0
    assert a.problems() == []


def test_files_of_a_stranger_end_in_an_error_that_names_them(tmp_path: Path, enter: Enter) -> None:
    """No internal error: fields with the names of arguments, a time that is none, a session whose metadata is gone."""
    a, _ = in_conflict(tmp_path)
    path = a.root / "sessions" / "s1" / "findings.jsonl"
    lines = [re.sub(rb',"checksum":"[^"]*"', b"", line) for line in path.read_bytes().splitlines(keepends=True)]
    path.write_bytes(b"".join(lines).replace(b'"changes":{"severity"', b'"changes":{"self"'))
    assert "self cannot be changed" in enter(a).fails(2, "git", "resolve", "--all", "--take", "ours")
    twin = '{"id":"FIND-0009","seq":90,"timestamp":"nonsense","severity":"low","description":"%s","uid":"aaaaaaab"}\n'
    path.write_text(f"<<<<<<< a\n{twin % 'mine'}=======\n{twin % 'its'}>>>>>>> b\n")
    assert "description: mine" in enter(a)("git", "resolve", "--list")[1]
    (path.parent / "manifest.json").unlink()
    assert "description: mine" in enter(a)("git", "resolve", "--list")[1]


@pytest.mark.parametrize("layout", ["single", "log"])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_side_of_the_metadata_is_not_one_of_the_memories_beside_it(
    layout: str, side: str, tmp_path: Path, enter: Enter
) -> None:
    """Git merged a log as text, and an agent wrote before anybody resolved it: new memories of one side went with its metadata."""
    origin = make_origin(tmp_path / "origin", layout)
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.git("config", "--remove-section", "merge.smp")
    a.write(lambda s: s.add_finding("A finds"), lambda s: s.change_info(project="shop of a"))
    b.write(lambda s: s.add_finding("B finds"), lambda s: s.change_info(project="shop of b"))
    a.pull(b, fails=True)
    a.now = b.now
    a.write(lambda s: s.add_finding("A goes on"), commit=None)
    smp = enter(a)
    if smp("git", "resolve")[0]:
        assert smp("git", "resolve", "--all", "--take", side)[0] == 0
    assert {"A finds", "B finds", "A goes on"} <= set(a.texts())
    assert a.opened().info.project == ("shop of a" if side == "ours" else "shop of b")
    assert not is_marked(a)


def test_conflict_that_is_named_twice_is_settled_once(tmp_path: Path, enter: Enter) -> None:
    a, _ = in_conflict(tmp_path)
    assert enter(a)("git", "resolve", "FIND-0001", "s1/FIND-0001", "--take", "theirs")[0] == 0
    assert changes_of(a) == ["low", "critical", "critical"]
