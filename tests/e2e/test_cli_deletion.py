"""Commands that delete: delete, deleted, restore, purge, erase."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal


class Lister(Terminal):
    def ids(self) -> list[str]:
        return [record["id"] for record in self.json("list")]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lister:
    for name in list(os.environ):
        if name.startswith("SMP_") and name != "SMP_STATE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    cli = Lister(capsys)
    cli.ok("init")
    cli.ok("session", "new", "shop", "--user", "ada")
    cli.ok("add", "decision", "Bill in euros", "--topic", "billing")
    cli.ok("add", "decision", "Bill monthly, says the platypus orchestra", "--topic", "billing")
    cli.ok("add", "finding", "No rate limit", "--severity", "high")
    return cli


def test_delete_by_criteria(cli: Lister) -> None:
    out = cli.ok("delete", "--topic", "billing", "--preview")
    assert "Bill in euros" in out
    assert "2 memories would be deleted" in out
    assert len(cli.ids()) == 3
    told = cli.json("delete", "--topic", "billing", "--reason", "asked to")
    assert (told["count"], told["ids"]) == (2, ["shop/DEC-0001", "shop/DEC-0002"])
    assert told["deletions"][0]["reason"] == "asked to"
    assert cli.ids() == ["FIND-0001"]
    assert "asked to" in cli.ok("trash")
    assert [each["id"] for each in cli.json("trash", "--all")] == ["DEC-0001", "DEC-0002"]
    assert "No memory matches" in cli.ok("delete", "--topic", "billing")
    assert "2 memories restored" in cli.ok("restore", "--topic", "billing")
    assert cli.ok("trash") == "The trash of session shop is empty.\n"
    assert "1 memory deleted" in cli.ok("delete", "--all", "--text", "rate limit", "--where", "severity=high")


def test_delete_without_ids_or_filters_is_rejected(cli: Lister) -> None:
    code, _, err = cli("delete")
    assert code
    assert "Name the memories" in err
    code, _, err = cli("delete", "DEC-0001", "--topic", "x")
    assert code
    assert "not both" in err


def test_confirmation_is_requested_on_a_terminal(cli: Lister, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = io.StringIO("n\ny\nno\n")
    monkeypatch.setattr("smp_memory.cli.invocation.Invocation.is_interactive", True)
    monkeypatch.setattr("sys.stdin", answers)
    code, _, err = cli("delete", "--topic", "billing")
    assert (code, err) == (0, "Nothing was changed.\n")
    assert len(cli.ids()) == 3
    assert "2 memories deleted" in cli.ok("delete", "--topic", "billing")
    code, _, err = cli("erase", "DEC-0001")
    assert (code, err) == (0, "Nothing was changed.\n")


WRITTEN = "The HTTP timeout of the payment client is 30 seconds."


def add_echo(cli: Lister) -> None:
    cli.ok("add", "turn", "--role", "user", f"ok. {WRITTEN}")
    cli.ok("add", "decision", WRITTEN)


def test_turns_that_say_the_same_are_shown_and_taken_along(cli: Lister) -> None:
    add_echo(cli)
    assert "said in 1 turn" in cli.ok("query", "payment client timeout")
    assert "repeats DEC-0003" in cli.ok("query", "payment client timeout", "--type", "conversation")
    assert "← repeats" in cli.ok("related", "DEC-0003", "--kind", "repeats")
    assert "Not deleted: 1 turn that says the same (shop/TURN-0001); --echoes" in cli.ok(
        "delete", "DEC-0003", "--preview"
    )
    code, _, err = cli("delete", "DEC-0003")
    assert (code, err) == (0, "Not deleted: 1 turn that says the same (shop/TURN-0001).\n")
    assert "repeats DEC-0003 (deleted)" in cli.ok("query", "payment client timeout")
    cli.ok("restore", "DEC-0003")
    cli.ok("delete", "DEC-0003", "--echoes")
    assert cli.ids() == ["DEC-0001", "DEC-0002", "FIND-0001"]
    cli.ok("restore", "DEC-0003", "--echoes")
    assert "said again in  shop/TURN-0001" in cli.ok("erase", "DEC-0003", "--yes", "--preview") + cli.ok(
        "erase", "DEC-0003", "--yes"
    )
    assert "TURN-0001" in cli.ids()


def test_a_person_is_asked_whether_turns_that_say_the_same_are_taken_along(
    cli: Lister, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_echo(cli)
    monkeypatch.setattr("smp_memory.cli.invocation.Invocation.is_interactive", True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\ny\ny\n"))
    cli("delete", "DEC-0003")
    assert "TURN-0001" in cli.ids()
    cli.ok("restore", "DEC-0003")
    cli("erase", "DEC-0003")
    assert cli.ids() == ["DEC-0001", "DEC-0002", "FIND-0001"]


def test_purge(cli: Lister) -> None:
    cli.ok("delete", "DEC-0001")
    told = cli.json("trash", "--empty", "--older-than", "0")
    assert (told["count"], told["announced"], told["waiting"]) == (0, ["shop/DEC-0001"], 1)
    assert "0 memories purged, 0 announced, 1 in the trash." in cli.ok("trash", "--empty", "--all")


def test_erase(cli: Lister, tmp_path: Path) -> None:
    code, _, err = cli("erase", "DEC-0002")
    assert code
    assert "--yes" in err
    assert cli.json("erase", "--text", "platypus", "--preview")["ids"] == ["shop/DEC-0002"]
    cli.ok("query", "platypus")
    out = cli.ok("erase", "DEC-0002", "--yes", "--reason", "asked to")
    for expected in ("1 memory erased: shop/DEC-0002", "decisions.jsonl", "verified", "not reached"):
        assert expected in out
    assert "platypus" not in out
    assert cli.ids() == ["DEC-0001", "FIND-0001"]
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            assert b"platypus" not in Path(folder, name).read_bytes(), name
    receipt = cli.json("erase", "FIND-0001", "--yes")
    assert (receipt["count"], receipt["verified"]) == (1, True)


@pytest.mark.parametrize(
    "how", [["shop/DEC-0002"], ["DEC-0002", "--session", "shop"], ["--text", "platypus", "--session", "shop"]]
)
def test_erase_leaves_an_archived_session_archived(cli: Lister, how: list[str]) -> None:
    cli.ok("session", "new", "other")
    cli.ok("session", "archive", "shop")
    receipt = cli.json("erase", *how, "--yes")
    assert receipt["ids"] == ["shop/DEC-0002"]
    assert receipt["verified"]
    assert "archive/shop.tar.gz" in receipt["rewritten"]
    assert {each["id"]: each["state"] for each in cli.json("session", "list", "--all")}["shop"] == "archived"
