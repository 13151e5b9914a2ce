"""The guard of speed: which rows it names, and which growth of counted calls it refuses."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def figures(ratio: float, spread: float = 0.01) -> dict[str, float]:
    return {"ratio": ratio, "least": ratio - spread, "greatest": ratio + spread, "microseconds": 100.0}


def test_rows_that_lost_more_than_five_per_cent_are_named(modules: Any) -> None:
    guard = modules("guard")
    now = {"kept": figures(1.04), "lost": figures(1.10), "unsteady": figures(1.10, 0.2), "new": figures(9.0)}
    before = {"kept": figures(1.0), "lost": figures(1.0), "unsteady": figures(1.0, 0.2)}
    text, lost = guard.table(now, before, "0.1.0")
    assert lost == ["lost", "unsteady"]
    marks = {line.split()[0]: line.partition("  lost")[1:] for line in text.splitlines()}
    assert marks["lost"] == ("  lost", "")
    assert marks["unsteady"] == ("  lost", ", within the spread")
    assert marks["kept"] == marks["new"] == ("", "")


def test_a_row_that_misses_its_promise_says_so(modules: Any) -> None:
    guard = modules("guard")
    row = next(iter(guard.WANTED))
    assert f"wanted: {guard.WANTED[row]:g}" in guard.table({row: figures(99.0)}, {}, "none")[0]
    assert "wanted" not in guard.table({row: figures(0.5)}, {}, "none")[0]


def test_the_summary_of_rounds_has_the_middle_ratio_and_the_spread(modules: Any) -> None:
    found = modules("guard").summary([(10.0, 10.0), (30.0, 10.0), (20.0, 10.0)])
    assert found == {"ratio": 2.0, "least": 1.0, "greatest": 3.0, "microseconds": 20.0}


def test_more_calls_than_the_file_allows_fail_until_it_is_renewed(
    modules: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted, kept = modules("counted_calls"), tmp_path / "counted.json"
    kept.write_text(json.dumps({"add": 100, "query": 100}))
    monkeypatch.setattr(counted, "FILE", str(kept))
    monkeypatch.setattr(counted, "measure", lambda: ({"add": 109, "query": 112}, {"smp list": 1.0}))
    assert counted.main([]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if "more than 10 %" in line] == ["query"]
    assert counted.main(["--renew"]) == 0
    assert counted.main([]) == 0


def test_calls_of_python_and_of_built_in_functions_are_counted(modules: Any) -> None:
    counted = modules("counted_calls").counted

    def nothing() -> None: ...

    def built_in() -> int:
        return len("a")

    def both() -> int:
        return built_in()

    assert counted(built_in) - counted(nothing) == 1
    assert counted(both) - counted(nothing) == 2


ONLY_FOR_WRITERS = {
    "smp_memory.session", "smp_memory.write.operations", "smp_memory.write.validation", "smp_memory.files.writer",
    "smp_memory.files.lock", "smp_memory.store.file_session", "smp_memory.store.session_indexer",
    "smp_memory.index.documents", "smp_memory.privacy.redaction",
}  # fmt: skip
HEAVY = {
    "dataclasses",
    "inspect",
    "logging",
    "numpy",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "typing",
    "yaml",
}


def test_new_processes_that_read_load_nothing_for_writers(modules: Any) -> None:
    import_times = modules("import_times")
    found = import_times.measure(rounds=1)
    assert set(found) == {"hook", "query", "context", "list"}
    wrong = {name: sorted((ONLY_FOR_WRITERS | HEAVY).intersection(each.milliseconds)) for name, each in found.items()}
    assert wrong == {name: [] for name in found}
    assert "smp_memory.integrations.hooks.prompt_recall" in found["hook"].ours  # it did answer
    assert all(
        f"{name:8} {len(each.ours):4} modules of SMP" in import_times.table(found) for name, each in found.items()
    )
