"""`smp analytics` as a person or a script uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.analytics.report import PARTS
from smp_memory.cli.commands.analytics import PARTS as COMMAND_PARTS
from smp_memory.cli.render import sparkline
from tests.e2e.terminal import Terminal

HOSTILE = "\x1b[31mred\x07 \u202e"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    with smp_memory.open(tmp_path / ".bmad" / "memory") as memory:
        shop = memory.create_session("shop", user="ada")
        shop.add_decision(f"Use OAuth {HOSTILE}", author="architect", topic="auth")
        shop.add_finding("Login has no rate limit, see DEC-0001", author="bob", tags=["auth.login"], topic=f"x{HOSTILE}")  # fmt: skip
        shop.add_turn("user", "How do customers log in?")
        shop.get("DEC-0001")
        memory.create_session("billing").add_decision("Invoices monthly")
    return Terminal(capsys)


def test_command_and_report_have_the_same_parts() -> None:
    assert COMMAND_PARTS == PARTS


def test_all_parts_are_shown_and_the_scope_is_said(cli: Terminal) -> None:
    out = cli.ok("analytics")
    assert out.startswith("All 2 sessions of ")
    for title in ("Usage", "Topics, the last 12 weeks", "Impact of decisions", "Forecast", "Decay rates from use"):
        assert f"\n{title}" in out
    assert "1 of 4 memories were used (25%), 1 time in all" in out
    assert "1 followed" in out
    assert "not enough evidence: 0 memories used once, not pinned and older than a day; 30 are needed" in out


def test_session_narrows_the_statistics(cli: Terminal) -> None:
    out = cli.ok("analytics", "usage", "--session", "billing")
    assert out.startswith("Session billing of ")
    assert "0 of 1 memory" in out
    assert "shop" not in out.partition("\n")[2]


@pytest.mark.parametrize("part", PARTS)
def test_one_part_can_be_chosen_as_json(cli: Terminal, part: str) -> None:
    data = cli.json("analytics", part)
    assert set(data) == {"at", "sessions", part}
    assert data["sessions"] is None
    assert cli.ok("analytics", part).count("\n") >= 2


def test_text_of_memories_cannot_control_the_terminal(cli: Terminal) -> None:
    for part in PARTS:
        out = cli.ok("analytics", part)
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\u202e" not in out


def test_showing_statistics_is_no_use(cli: Terminal) -> None:
    first = cli.json("analytics", "usage")["usage"]["uses"]
    assert cli.json("analytics", "usage")["usage"]["uses"] == first == 1


@pytest.mark.parametrize(
    "words",
    [("--per", "year"), ("--limit", "0"), ("--threshold", "7"), ("nonsense",), ("--time", "when pigs fly"), ("--periods", "1")],
)  # fmt: skip
def test_wrong_options_are_refused_without_output(cli: Terminal, words: tuple[str, ...]) -> None:
    code, out, err = cli("analytics", *words)
    assert code != 0
    assert out == ""
    assert err


def test_unknown_session_is_refused(cli: Terminal) -> None:
    assert "nope" in cli.fails(8, "analytics", "--session", "nope")


def test_empty_store_says_how_to_begin(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    smp_memory.open(tmp_path / ".bmad" / "memory").close()
    out = Terminal(capsys).ok("analytics")
    assert "There are no memories yet." in out
    assert "There are no decisions yet." in out


def test_range_of_time_without_memories_is_not_an_empty_store(cli: Terminal) -> None:
    out = cli.ok("analytics", "--time", "2020-01")
    assert "; memories created 2020-01 (the forecast uses all)" in out
    assert "No memory was created in this time." in out
    assert "No decision was made in this time." in out
    assert "No memory of this time has a topic or a tag." in out
    assert " yet" not in out


def test_one_session_is_named_once_and_ids_are_short(cli: Terminal) -> None:
    out = cli.ok("analytics", "--session", "billing")
    assert "Session billing of " in out
    assert "\nDEC-0001  Invoices monthly" in out
    assert "billing/DEC-0001" not in out
    assert "0 of 1 memory was used" in out
    assert "0 of 1 memory has faded" in out


def test_all_removes_the_restriction_to_a_session(cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_SESSION", "billing")
    assert cli.ok("analytics", "usage").startswith("Session billing of ")
    assert cli.ok("analytics", "usage", "--all").startswith("All 2 sessions of ")


def test_sparkline_has_a_bar_for_each_number() -> None:
    assert sparkline([0, 1, 4, 8]) == "▁▂▅█"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
