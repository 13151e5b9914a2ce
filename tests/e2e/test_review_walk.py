"""`smp review` at a pseudo-terminal: single keys, undo, editing, interruption; in a pipe it lists."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import smp_memory
from tests.e2e.terminal import Screenplay, Terminal

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are those of Unix")

POSTGRES = "We decided to use Postgres for the orders."
LOCK = "The root cause was a stale lock file of the old process."
KEYS = "[q]uit"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose turns propose four memories."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        memory.create_session("orders").add_turn("user", POSTGRES)
        session = memory.create_session("shop", title="Cache of the shop")
        session.add_turn("user", "I read all of it. Let's go with Redis for the cache. Please never push to main.")
        session.add_turn("assistant", f"Two tests failed.\n\n{LOCK}\n\nAll 88 tests pass now.")
    return tmp_path


def walk(project: Path, **environment: str) -> Screenplay:
    values = {"COLUMNS": "80", "LINES": "24", "EDITOR": "", "VISUAL": "", "NO_COLOR": "1", **environment}
    return Screenplay([sys.executable, "-m", "smp_memory", "review"], project, values)


def stored(project: Path) -> dict[str, str]:
    """What was written down, and the proposals that are still open."""
    with smp_memory.open(project / ".bmad/memory") as memory:
        written = {
            each.ref: each.text
            for session in memory.sessions()
            for each in session.records()
            if each.type != "conversation"
        }
        return written | {f"{each.ref} {each.type}": "open" for each in memory.proposals()}


ALL_OPEN = {
    "shop/TURN-0002 finding": "open",
    "shop/TURN-0001 decision": "open",
    "shop/TURN-0001 preference": "open",
    "orders/TURN-0001 decision": "open",
}


def test_walk_keeps_drops_and_skips_by_single_keys(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("kdsk")
        shown = terminal.until_the_end()
    assert terminal.exit_code == 0
    for expected in (
        "1 of 4  finding  shop/TURN-0002",
        "assistant, ",
        "Cache of the shop",
        "    Two tests failed.",
        f"  > {LOCK}",
        "    All 88 tests pass now.",
        "4 of 4  decision  orders/TURN-0001",
        "2 kept, 1 dropped, 1 skipped, 0 left.",
        "  shop/FIND-0001  finding: The root cause was",
    ):
        assert expected in shown, expected
    assert "\x1b[" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert stored(project) == {
        "shop/FIND-0001": LOCK,
        "orders/DEC-0001": POSTGRES,
        "shop/TURN-0001 preference": "open",
    }


def test_undo_takes_back_one_choice_after_the_other(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("kdsuuuuq")
        shown = terminal.until_the_end()
    assert "Undone: TURN-0001 is not dropped." in shown
    assert "Undone: TURN-0002 is not kept." in shown
    assert "There is nothing to undo." in shown
    assert "0 kept, 0 dropped, 0 skipped, 4 left." in shown
    assert stored(project) == ALL_OPEN


def test_undone_proposal_can_be_kept_again(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("kukq")
        terminal.until_the_end()
    assert LOCK in stored(project).values()


def test_type_is_changed_before_it_is_kept(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("tlkq")
        terminal.until_the_end()
    assert stored(project)["shop/LEARN-0001"] == LOCK
    assert "shop/TURN-0002 finding" not in stored(project)


def test_text_is_edited_on_the_line(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("e")
        terminal.wait_for("Text: ")
        terminal.type("\x15A killed process leaves its lock file.\n")
        terminal.wait_for("stored in session shop")
        terminal.type("q")
        terminal.until_the_end()
    assert stored(project)["shop/FIND-0001"] == "A killed process leaves its lock file."
    with smp_memory.open(project / ".bmad/memory") as memory:
        assert memory.session("shop").get("FIND-0001").confidence is None


def test_text_is_edited_in_the_editor(project: Path) -> None:
    editor = project / "editor.sh"
    editor.write_text('#!/bin/sh\necho "A killed process leaves its lock file." > "$1"\n')
    editor.chmod(0o700)
    with walk(project, EDITOR=str(editor)) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("eq")
        terminal.until_the_end()
    assert stored(project)["shop/FIND-0001"] == "A killed process leaves its lock file."


def test_editor_that_fails_writes_nothing_and_the_walk_goes_on(project: Path) -> None:
    with walk(project, EDITOR="false") as terminal:
        terminal.wait_for(KEYS)
        terminal.type("eq")
        shown = terminal.until_the_end()
    assert "The editor false failed (exit code 1); nothing was changed." in shown
    assert terminal.exit_code == 0
    assert stored(project) == ALL_OPEN


def test_empty_text_writes_nothing(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("e")
        terminal.wait_for("Text: ")
        terminal.type("\x15\n")
        terminal.wait_for("the text is empty")
        terminal.type("q")
        terminal.until_the_end()
    assert stored(project) == ALL_OPEN


def test_interrupt_leaves_what_was_chosen(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("k")
        terminal.wait_for("2 of 4")
        terminal.wait_for("decision: [k]eep")
        terminal.type("\x03")
        shown = terminal.until_the_end()
    assert "1 kept, 0 dropped, 0 skipped, 3 left." in shown
    assert terminal.exit_code == 130
    assert stored(project) == {
        "shop/FIND-0001": LOCK,
        **{name: each for name, each in ALL_OPEN.items() if "FIND" not in name and "TURN-0002" not in name},
    }


def test_other_keys_and_the_end_of_input_change_nothing(project: Path) -> None:
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("x\x1b[Aéß?\x04")
        terminal.until_the_end()
    assert terminal.exit_code == 0
    assert stored(project) == ALL_OPEN


def test_proposal_that_a_kept_memory_answers_is_passed_over(project: Path) -> None:
    with smp_memory.open(project / ".bmad/memory") as memory:
        memory.session("shop").add_turn("user", LOCK.replace("The root cause", "OK, so the root cause"))
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("k")
        terminal.wait_for("shop/TURN-0002: closed, FIND-0001 says about the same.")
        terminal.wait_for("3 of 5")
        terminal.type("uq")
        shown = terminal.until_the_end()
    assert "Undone: TURN-0003 is not kept." in shown


def test_walk_looks_for_more_when_the_first_ones_are_done(project: Path) -> None:
    with Screenplay(
        [sys.executable, "-m", "smp_memory", "review", "--limit", "2"], project, {"COLUMNS": "80", "NO_COLOR": "1"}
    ) as terminal:
        terminal.wait_for("1 of 2+")
        terminal.type("sssdq")
        shown = terminal.until_the_end()
    assert "3 of 4" in shown
    assert "0 kept, 1 dropped, 3 skipped, 0 left." in shown


def test_hostile_turn_cannot_control_the_terminal(project: Path) -> None:
    with smp_memory.open(project / ".bmad/memory") as memory:
        memory.create_session("evil", title="a\x1b[2Jb").add_turn(
            "user", "Decided: \x1b[31m we use \u202e Redis for all."
        )
    with walk(project) as terminal:
        terminal.wait_for(KEYS)
        terminal.type("kq")
        shown = terminal.until_the_end()
    assert "\\x1b[31m" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[2J" not in shown


# -- without a terminal


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_list_says_that_there_are_more(project: Path, cli: Terminal) -> None:
    out = cli.ok("review", "--limit", "2")
    assert "There are more than 2; --limit N lists more of them." in out
    assert len(cli.json("review", "--limit", "2")) == 2
    assert "more than" not in cli.ok("review", "--limit", "4")


def test_one_of_several_proposals_of_a_turn_is_dropped(project: Path, cli: Terminal) -> None:
    cli.ok("review", "drop", "shop/TURN-0001", "--type", "preference")
    assert "shop/TURN-0001 preference" not in stored(project)
    assert "shop/TURN-0001 decision" in stored(project)
    assert "proposes no learning" in cli.fails(3, "review", "drop", "shop/TURN-0001", "--type", "learning")


def test_session_for_which_proposals_are_off_is_named_in_the_count(project: Path, cli: Terminal) -> None:
    cli.ok("config", "--session", "shop", "set", "proposals.enabled", "false")
    assert [each["ref"] for each in cli.json("review")] == ["orders/TURN-0001"]
    assert "1 session proposes nothing: proposals.enabled is off." in cli.ok("review")
    cli.ok("config", "set", "proposals.enabled", "false")
    assert cli.json("review") == []
    assert "2 sessions propose nothing" in cli.ok("review")
