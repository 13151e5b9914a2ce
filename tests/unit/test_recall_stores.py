"""The labelled stores of the recall benchmark: files are read with clear errors, stores have what the files say, figures count what they say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = """
store small
conversation 2026-03-02 first
u =queue let's take the table for retries
a =queue Done, retries wait in a Postgres table.
decision queue {tags: webhooks, queues} {files: src/retry.py} Webhook retries wait in a Postgres table.
finding flaky {severity: high} The cart test is flaky.
preference tone Short answers, please.
conversation 2026-03-02 second
a =redis =speed Moved to Redis streams, twice as fast.
decision redis {supersedes: queue} {resolves: flaky} Webhook retries moved to Redis streams.
delete tone
prompt direct redis, speed: Which queue handles webhook retries?
prompt file redis [src/retry.py]: Split this module.
prompt stale queue: Do webhook retries wait in a Postgres table?
prompt general: Write a regex for an IPv4 address: short, please.
"""


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall_stores", monkeypatch)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("recall_prompts", monkeypatch)


@pytest.fixture
def small(stores: Any, tmp_path: Path) -> Any:
    return read(stores, tmp_path, SMALL)


def read(stores: Any, folder: Path, text: str) -> Any:
    path = folder / "small.txt"
    path.write_text(text, encoding="utf-8")
    return stores.read(str(path))


# -- reading


def test_every_labelled_store_can_be_read_and_has_prompts_of_every_kind(stores: Any) -> None:
    found = [store for part in stores.PARTS for store in stores.read_part(part)]
    assert len({store.name for store in found}) == len(found) >= 4
    for store in found:
        assert {prompt.kind for prompt in store.prompts} == set(stores.KINDS), store.name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("store small", "conversation 2026-03-02 x", ":2: the first item is"),
        ("2026-03-02 second", "2026-03-01 second", ":9: 2026-03-01 is before"),
        ("{supersedes: queue}", "{supersedes: quue}", ":11: 'quue' is not a written memory"),
        ("{severity: high}", "{sevrity: high}", ":7: {sevrity: …} is unknown"),
        ("delete tone", "remove tone", ":12: 'remove' is not an item"),
        ("direct redis, speed", "direct queue", ":13: queue is stale: wrong for direct"),
        ("stale queue", "stale redis", ":15: redis is current: wrong for stale"),
        ("prompt general:", "prompt general redis:", ":16: a general prompt names no key"),
        ("prompt general:", "prompt generic:", ":16: not `prompt KIND"),
    ],
)
def test_wrong_label_is_an_error_with_file_and_line(
    stores: Any, tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(stores.LabelError) as caught:
        read(stores, tmp_path, SMALL.replace(old, new))
    assert str(caught.value).startswith(str(tmp_path / "small.txt"))
    assert message in str(caught.value)


# -- writing


def test_store_has_turns_memories_and_what_became_of_them(stores: Any, small: Any, tmp_path: Path) -> None:
    written = stores.write(small, str(tmp_path / "store"), {"durability": "os"})
    with written.memory as memory:
        facts, get = written.facts, memory.get
        assert {key for key, fact in facts.items() if fact.is_stale} == {"queue", "flaky", "tone"}
        assert [get(ref).role for ref in facts["queue"].turns] == ["user", "assistant"]
        assert facts["redis"].turns == facts["speed"].turns
        assert not facts["speed"].written
        assert get(facts["queue"].written).references == ["src/retry.py"]
        assert get(facts["queue"].written).tags == ["webhooks", "queues"]
        assert get(facts["flaky"].written).status == "resolved"
        assert {each["kind"] for each in get(facts["redis"].written).relations} == {"supersedes", "resolves"}
        assert [each.record.ref for each in memory.deleted()] == [facts["tone"].written]
        last = max(record.created for session in memory.sessions() for record in session)
        assert (memory.now() - last).days in (13, 14)
        assert len(memory.sessions()) == 2


# -- asking


def answer(command: Any, kind: str, told: list[str] | None = None, **fields: Any) -> Any:
    known = {"pointed": [], "tokens": 10, "is_told": False, "is_pointed": False, "is_stale": False, **fields}
    return command.Answer("store", kind, "text", (), told or [], **known)


def test_answers_are_counted_by_kind(command: Any) -> None:
    answers = [
        answer(command, "direct", ["s/DEC-0001"], is_told=True),
        answer(command, "direct", pointed=["s/DEC-0002"], is_pointed=True),
        answer(command, "stale", ["s/DEC-0003"], is_stale=True),
        answer(command, "general"),
        answer(command, "smalltalk", ["s/DEC-0004"]),
    ]
    rows = command.figures(answers)
    assert (rows["direct"]["told"], rows["direct"]["told or pointed"]) == (0.5, 1.0)
    assert (rows["direct"]["something told"], rows["direct"]["anything"]) == (0.5, 1.0)
    assert rows["stale"]["stale"] == 1.0
    assert rows["stale"]["told"] is None
    assert rows["general"]["anything"] == 0.0
    assert rows["unrelated"]["anything"] == 0.5
    assert "| unrelated    |       2 |" in "\n".join(command.table("small", rows))


def test_calibration_counts_hits_and_the_best_hit_of_each_prompt(command: Any) -> None:
    answers = [
        answer(command, "direct", judged=((0.95, True), (0.91, False), (0.1, False))),
        answer(command, "general", judged=((0.19, False),)),
        answer(command, "stale", judged=((0.95, True),)),
    ]
    lines = list(command.calibration(answers))
    assert lines[2:] == [
        "| hits | 0 | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 2 |",
        "| share that answers | – | 0.00 | – | – | – | – | – | – | – | 0.50 |",
        "| best hits | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| share that answers | – | 0.00 | – | – | – | – | – | – | – | 1.00 |",
    ]


@pytest.mark.parametrize("semantic", ["off", "auto"])
def test_recall_tells_what_is_asked_for_and_is_silent_at_unrelated_prompts(
    command: Any, stores: Any, semantic: str
) -> None:
    everything, nothing = 0.0, 1.0
    measured = command.measure(stores.read_part("development", "pipeline"), semantic, (everything, nothing))

    def is_good(answers: list[Any]) -> tuple[bool, bool]:
        rows = command.figures(answers)
        return rows["direct"]["told"] >= 0.65, rows["unrelated"]["anything"] <= 0.2

    assert is_good(measured.answers) == (True, True), command.figures(measured.answers)
    assert sum(each.is_stale for each in measured.answers) <= 0.05 * len(measured.answers)
    assert is_good(measured.by_floor[everything]) == (True, False)
    assert is_good(measured.by_floor[nothing]) == (False, True)


def test_command_asks_every_prompt_of_a_store(
    command: Any, small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command.recall_stores, "read_part", lambda part, name: [small])
    words = ["--show", "--json", str(tmp_path / "figures.json"), "--chart", str(tmp_path / "floors.svg")]
    monkeypatch.setattr(command, "FLOORS", (0.2, 0.8))
    assert command.main(words) == 0
    found = json.loads((tmp_path / "figures.json").read_text())
    assert [answer["kind"] for answer in found["answers"]] == [prompt.kind for prompt in small.prompts]
    assert found["answers"][0]["rank"] == 1
    assert "Told from a relevance of 0." in capsys.readouterr().out
    assert "floor of relevance" in (tmp_path / "floors.svg").read_text()
