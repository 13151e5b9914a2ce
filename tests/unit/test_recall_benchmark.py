"""The recall benchmark: its generated projects are consistent, its split is clean, and its figures count what they say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall_projects", monkeypatch)


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall_measures", monkeypatch)


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall_sets", monkeypatch)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall", monkeypatch)


# -- generated projects


def test_projects_are_the_same_in_every_run(generator: Any) -> None:
    assert list(generator.projects(most=4)) == list(generator.projects(most=4))


def test_labels_name_memories_of_their_project(generator: Any) -> None:
    for part in (generator.DEVELOPMENT, generator.HELD_OUT):
        for project in generator.projects(part):
            numbers = {memory.number for memory in project.memories}
            assert len(numbers) == len(project.memories)
            for prompt in project.prompts:
                assert prompt.gold | prompt.stale | prompt.siblings | prompt.neutral <= numbers
                assert bool(prompt.gold) == (prompt.kind in generator.NEED), prompt
                assert not prompt.gold & (prompt.stale | prompt.siblings | prompt.neutral), prompt
                assert "{" not in prompt.text


def test_memories_have_no_open_slots_and_known_times(generator: Any) -> None:
    for project in generator.projects():
        for memory in project.memories:
            assert "{" not in memory.text, memory
            assert generator.FIRST_DAY <= memory.when < generator.ASKED_AT
            assert memory.supersedes is None or memory.when > project_memory(project, memory.supersedes).when


def project_memory(project: Any, number: int) -> Any:
    return next(memory for memory in project.memories if memory.number == number)


def test_parts_share_no_domain_style_name_or_text(generator: Any) -> None:
    development, held_out = (list(generator.projects(part)) for part in (generator.DEVELOPMENT, generator.HELD_OUT))
    for each in ("domain", "style", "name"):
        assert {getattr(project, each) for project in development}.isdisjoint(
            getattr(project, each) for project in held_out
        )
    for texts in (
        lambda project: {memory.text for memory in project.memories},
        lambda project: {prompt.text for prompt in project.prompts},
    ):
        known = set().union(*map(texts, development))
        assert known.isdisjoint(set().union(*map(texts, held_out)))


def test_every_kind_of_prompt_and_memory_occurs_in_both_parts(generator: Any) -> None:
    for part in (generator.DEVELOPMENT, generator.HELD_OUT):
        projects = list(generator.projects(part))
        kinds = {prompt.kind for project in projects for prompt in project.prompts}
        assert kinds == {*generator.NEED, *generator.NONE, *generator.HISTORY}
        types = {memory.type for project in projects for memory in project.memories}
        assert types == {"decision", "finding", "learning", "preference", "artifact", "conversation"}
        assert any(memory.supersedes is not None for project in projects for memory in project.memories)
        assert any(memory.resolution for project in projects for memory in project.memories)


def test_noise_is_about_other_domains(generator: Any) -> None:
    texts = [str(fields) for _, fields in generator.noise(200, "payments")]
    assert len(set(texts)) == 200
    assert not any("acquirer" in text or "merchant" in text for text in texts)


# -- figures


def answer(
    measures: Any, sets: Any, kind: str, injected: list[str], gold: set[str] = frozenset(), **labels: Any
) -> Any:  # type: ignore[assignment]
    hits = [(ref, 0.9 - 0.1 * place) for place, ref in enumerate(injected)]
    return measures.Answer(sets.Case("?", kind, "", set(gold), **labels), injected, 10 * len(injected), hits)


def test_injection_counts_false_injections_misses_and_precision(measures: Any, sets: Any) -> None:
    answers = [
        answer(measures, sets, "direct", ["s/1", "s/2"], {"s/1"}),
        answer(measures, sets, "paraphrase", [], {"s/1"}),
        answer(measures, sets, "coding", ["s/3"]),
        answer(measures, sets, "coding", ["s/4"], neutral={"s/4"}),
        answer(measures, sets, "general", []),
        answer(measures, sets, "expired", ["s/5"], stale={"s/5"}),
    ]
    found = measures.hook_figures(answers)
    assert found["false injection"] == pytest.approx(1 / 3)
    assert found["abstention"] == pytest.approx(2 / 3)
    assert (found["false injection, unrelated"], found["false injection, near"]) == (pytest.approx(1 / 3), None)
    assert found["miss"] == 0.5
    assert (found["miss, names or words shared"], found["miss, in other words"]) == (0.0, 1.0)
    assert found["precision"] == pytest.approx(1 / 3)
    assert found["precision where needed"] == 0.5
    assert (found["tokens, needed"], found["tokens, not needed"]) == (10, pytest.approx(20 / 3))


def test_curve_injects_only_hits_at_or_above_the_floor(measures: Any, sets: Any) -> None:
    answers = [
        answer(measures, sets, "direct", ["s/1", "s/2"], {"s/2"}),
        answer(measures, sets, "general", ["s/1"]),
    ]
    low, high = measures.curve(answers, (0.75, 0.85)).values()
    assert (low["miss"], low["false injection"], low["precision"]) == (0.0, 1.0, pytest.approx(1 / 3))
    assert (high["miss"], high["false injection"], high["precision"]) == (1.0, 1.0, 0.0)


def test_supersession_counts_old_memories_above_new_ones(measures: Any, sets: Any) -> None:
    answers = [
        answer(measures, sets, "superseded", ["s/old", "s/new"], {"s/new"}, stale={"s/old"}),
        answer(measures, sets, "superseded", ["s/new", "s/old"], {"s/new"}, stale={"s/old"}),
        answer(measures, sets, "superseded", ["s/new"], {"s/new"}, stale={"s/old"}),
        answer(measures, sets, "superseded", ["s/old"], {"s/new"}, stale={"s/old"}),
        answer(measures, sets, "expired", ["s/old"], stale={"s/old"}),
    ]
    found = measures.supersession(answers)
    assert (found["query: old above new"], found["hook: old injected"], found["hook: old without new"]) == (
        0.5,
        0.75,
        0.25,
    )
    assert (found["hook: expired injected"], found["hook: resolved injected"]) == (1.0, None)


def test_query_figures_count_ranks(measures: Any, sets: Any) -> None:
    answers = [
        answer(measures, sets, "direct", ["s/1", "s/2"], {"s/2", "s/9"}),
        answer(measures, sets, "direct", ["s/1"], {"s/1"}),
        answer(measures, sets, "general", ["s/1"]),
    ]
    found = measures.query_figures(answers)
    assert found == {"prompts": 2, "any@1": 0.5, "any@5": 1.0, "any@10": 1.0, "all@10": 0.5, "mrr": 0.75}


# -- the command


@pytest.fixture
def quick(command: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    assert command.main(["--quick", "--json", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md")]) == 0
    assert "| floor |" in (tmp_path / "a.md").read_text(encoding="utf-8")
    return json.loads((tmp_path / "a.json").read_text(encoding="utf-8")), capsys.readouterr().out


def test_quick_run_measures_every_table(quick: tuple[dict[str, Any], str]) -> None:
    figures, printed = quick
    assert list(figures) == ["development projects, by words alone"]
    tables = figures["development projects, by words alone"]
    assert all(tables.values())
    for name in ("hook", "hook by kind", "query", "superseded", "names", "context", "digest", "floor"):
        assert f"\n{name} " in printed
    assert tables["query"]["direct"]["any@5"] > 0.8
    assert tables["context"]["800 new"]["tokens"] <= 800
    hook = tables["hook"][""]
    assert 0 <= hook["false injection"] <= 1
    assert hook["miss, names or words shared"] < hook["miss, in other words"]
    assert tables["floor"]["0.50"]["false injection"] <= tables["floor"]["0.20"]["false injection"]


def test_held_out_part_is_named_in_the_output(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--quick", "--projects", "1", "--held-out"]) == 0
    printed = capsys.readouterr()
    assert "held-out projects" in printed.out
    assert "HELD-OUT" in printed.err


def test_absent_data_is_said_and_skipped(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("retrieval.data_folder", lambda given: None)
    assert command.main(["--set", "locomo", "--data", str(tmp_path)]) == 0
    assert "locomo is not measured: no data" in capsys.readouterr().err


def test_conversations_ask_for_their_own_turns_and_not_for_others(command: Any, sets: Any, tmp_path: Path) -> None:
    speakers = ("Ada", "Ben")
    conversations = [
        {
            "turns": [
                {
                    "id": f"{place}:{turn}",
                    "session": "one",
                    "speaker": speakers[turn % 2],
                    "text": text,
                    "at": "2026-01-05T10:00:00",
                }
                for turn, text in enumerate((f"My boat is called {boat}.", "I like it."))
            ],
            "questions": [
                {"text": f"What is the boat {boat}?", "kind": kind, "evidence": [f"{place}:0"], "sessions": ["one"]}
                for kind in ("single-hop", "adversarial")
            ],
        }
        for place, boat in enumerate(("Kestrel", "Puffin"))
    ]
    pool = {"sessions": [{"id": "p", "at": "2026-01-05T10:00:00", "turns": [{"role": "user", "text": "I paint.", "n": 0}]}], "questions": []}  # fmt: skip
    (tmp_path / "locomo-dev.json").write_text(json.dumps(conversations), encoding="utf-8")
    (tmp_path / "longmemeval-pool-dev.json").write_text(json.dumps(pool), encoding="utf-8")
    first = next(sets.locomo(str(tmp_path), None))
    answers, _ = command.ask(first, "off", ())
    asked = {each.case.kind: each for each in answers}
    assert asked[sets.ASKED].case.gold == {"one/TURN-0001"} == asked[sets.ADVERSARIAL].case.siblings
    assert asked[sets.ASKED].hits[0][0] == "one/TURN-0001"
    assert asked[sets.OTHER].case.text == "What is the boat Puffin?"


def test_fit_of_relevance_recovers_the_coefficients_of_made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = module("relevance_fit", monkeypatch)
    expected = [-1.0, 2.0, -0.5]
    samples = []
    for number in range(4000):
        features = [1.0, (number % 40) / 10 - 2, (number % 7) - 3.0]
        chance = fitting.probability(expected, features)
        samples.append(fitting.Sample(0, "", features, int((number * 0.6180339887) % 1 < chance)))
    assert fitting.fit(samples) == pytest.approx(expected, abs=0.2)


def test_calibration_counts_what_answers_by_tenth_of_relevance(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = module("relevance_fit", monkeypatch)
    samples = [fitting.Sample(0, "", [1.0], label) for label in (1, 0, None, 1)]
    found = fitting.calibration([(fitting.Prompts("a", [], samples), [0.91, 0.95, 0.99, 1.0])])
    assert found == [(0.9, 3, pytest.approx(2 / 3))]
