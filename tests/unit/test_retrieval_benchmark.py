"""The retrieval benchmark: its curve over the size of the store, its noise and its chart."""

from __future__ import annotations

import importlib
import json
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def data(tmp_path: Path) -> str:
    turns = [
        {"id": f"D1:{place}", "session": "session_1", "speaker": "Ann", "text": text, "at": "2026-05-08T13:56:00"}
        for place, text in enumerate(["I bought a red canoe.", "The weather was fine.", "My sister plays the oboe."])
    ]
    asked = {"text": "Who plays the oboe?", "kind": "single-hop", "evidence": ["D1:2"], "sessions": ["session_1"]}
    (tmp_path / "locomo-dev.json").write_text(json.dumps([{"turns": turns, "questions": [asked]}] * 2))
    said = [{"n": n, "role": "user", "text": f"We had dinner number {n}. It was good on day {n}!"} for n in range(9)]
    pool = {"sessions": [{"id": "one", "at": "2026-05-08T13:56:00", "turns": said}], "questions": []}
    (tmp_path / "longmemeval-pool-dev.json").write_text(json.dumps(pool))
    return str(tmp_path)


def test_noise_is_the_same_in_every_run_and_has_no_turn_of_the_questions(modules: Any, data: str) -> None:
    sizes = modules("retrieval_sizes")
    turns = list(islice(sizes.noise(data), 50))
    assert turns == list(islice(sizes.noise(data), 50))
    assert len({turn["content"] for turn in turns}) > 20
    assert not any("oboe" in turn["content"] or turn["author"] == "Ann" for turn in turns)


def test_curve_asks_the_same_questions_in_stores_of_each_size(modules: Any, data: str) -> None:
    found = modules("retrieval_sizes").curve(data, [40, 10], "off")
    assert list(found) == [10, 40]
    for figures in found.values():
        assert figures["turn any@1"] == 0.5  # the same turn is in two conversations: one of them comes first
        assert figures["turn any@5"] == figures["session any@5"] == 1.0


def test_page_has_a_table_and_a_chart_of_sizes(modules: Any, data: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = ["--data", data, "--only", "locomo", "--semantic", "off", "--first", "1", "--sizes", "10,20"]
    assert modules("retrieval").main([*words, "--markdown", str(page)]) == 0
    text = page.read_text()
    assert "| 10 |" in text
    assert "| 20 |" in text
    assert "](page.svg)" in text
    assert "--sizes 10,20" in text
    ElementTree.parse(tmp_path / "page.svg")


def test_contexts_are_compared_with_searches(modules: Any, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", data, "--only", "locomo", "--semantic", "off", "--contexts"]
    assert modules("retrieval").main(words) == 0
    row = capsys.readouterr().out.partition("| LoCoMo, contexts |")[2].splitlines()[2].split(" | ")
    assert row[1] == "2"
    assert row[3:] == ["1.000", "1.000", "1.000 |"]


def test_chart_has_every_size_and_line_and_a_dark_style(modules: Any) -> None:
    lines = {
        ("any@5", "words"): {1000: 0.5, 10_000: 0.25},
        ("any@5", "meaning"): {1000: 0.75},
        ("a<b", "words"): {1000: 1.0},
    }
    drawn = modules("quality_chart").chart("Quality & size", lines)
    texts = [each.text for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("text")]
    assert {"Quality & size", "1,000", "10,000", "any@5, words", "any@5, words and meaning", "a<b, words"} <= set(texts)
    assert "prefers-color-scheme: dark" in drawn


def test_chart_of_one_size_is_drawn(modules: Any) -> None:
    ElementTree.fromstring(modules("quality_chart").chart("One", {("any@5", "words"): {1000: 0.5}}))
