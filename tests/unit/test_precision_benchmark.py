"""The precision benchmark: scopes and users are kept apart, ended beliefs are not told, and cases are scored as the benchmark does."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def precision(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("precision")


def belief(id: str, content: str, *, scope: str = "code", **fields: Any) -> dict[str, Any]:
    return {
        "_id": id,
        "user_id": "test-user",
        "type": "entity",
        "canonical_name": id.replace("-", "_"),
        "aliases": [],
        "content": content,
        "why_it_matters": "",
        "scope": [scope],
        "confidence": 0.9,
        "pinned": False,
        "resolved_at": None,
        "superseded_by": None,
        "created_at": "2026-09-01T00:00:00Z",
        **fields,
    }


def case(query: str, *only: str, scope: tuple[str, ...] = ("code",), **fields: Any) -> dict[str, Any]:
    wanted = {"relevantBeliefs": {"shouldOnlyInclude": list(only)}}
    return {"caseId": query, "category": "any", "scope": list(scope), "query": query, "expect": wanted, **fields}


BELIEFS = [
    belief("courier", "Parcels to the islands travel with the courier Brisk Gull."),
    belief("gull", "Brisk Gull is the smuggler whom the heroine meets in the harbour.", scope="novel"),
    belief("stranger", "Parcels to the islands travel with the courier Brisk Gull.", user_id="other-user"),
    belief("press-old", "Labels are printed on the Heidelberg press in the cellar.", superseded_by="press"),
    belief("press", "Labels are printed on the Roland press.", pinned=True),
]
ASKED = "What does the courier Brisk Gull carry to the islands?"


def write(folder: Path, *cases: dict[str, Any]) -> str:
    (folder / "beliefs.seed.json").write_text(json.dumps(BELIEFS), encoding="utf-8")
    (folder / "retrieval.cases.json").write_text(json.dumps(cases), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("rule", ["told", "confident", "context"])
def test_answer_has_only_beliefs_of_own_scope_and_user(precision: Any, tmp_path: Path, rule: str) -> None:
    folder = write(tmp_path, case(ASKED, "courier"), case(ASKED, userId="nobody"))
    own, other = precision.measure(folder, rule, "off")
    assert "courier" in own.relevant
    assert not {"gull", "stranger"} & set(own.relevant)
    assert (other.relevant, other.precision, other.failures) == ([], None, [])


def test_superseded_belief_is_not_told_and_pinned_one_is_no_retrieval(precision: Any, tmp_path: Path) -> None:
    (answer,) = precision.measure(
        write(tmp_path, case("Are labels printed on the Heidelberg press in the cellar?")), "told", "off"
    )
    assert (answer.pinned, answer.relevant, answer.failures) == (["press"], [], [])


def test_case_with_two_scopes_is_asked_in_both(precision: Any, tmp_path: Path) -> None:
    question = case("Who or what is Brisk Gull?", "courier", "gull", scope=("code", "novel"))
    (answer,) = precision.measure(write(tmp_path, question), "context", "off")
    assert {"courier", "gull"} <= set(answer.relevant)


def test_scores_are_those_of_the_benchmark(precision: Any) -> None:
    def scored(relevant: list[str], *only: str) -> tuple[Any, Any, list[str]]:
        answer = precision.Answer(case("", *only), ["press"], relevant, [], "")
        return answer.precision, answer.recall, answer.failures

    assert scored(["a", "b"], "a") == (0.5, 1.0, ["not wanted: b"])
    assert scored([], "a") == (0.0, 0.0, ["missing: a"])
    assert scored(["a"]) == (0.0, None, ["not wanted: a"])
    assert scored([]) == (None, None, [])


def test_missing_data_is_said_and_is_no_failure(
    precision: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert precision.main([str(tmp_path)]) == 0
    assert "has no beliefs.seed.json and no retrieval.cases.json" in capsys.readouterr().err
