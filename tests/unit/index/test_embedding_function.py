"""A function of the user as the embedding model, through the public API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simsimd", reason="simsimd is not installed")

import smp_memory
from smp_memory.errors import InvalidConfig
from smp_memory.index import embeddings
from smp_memory.index.embedding_function import AT_ONCE, MAX_CHARACTERS
from tests.user_state import state_folder

HAS_STATIC = embeddings.available()  # before a fixture hides it
ASKED = "login failed for customers"
FOUND = "Users cannot sign in"
WORDS = ["sign", "login", "cat", "sofa", "index"]
SAME = {"login": "sign", "customers": "users"}


def embed(texts: list[str]) -> list[list[float]]:
    """Counts a few words; two of them mean the same."""
    return [
        [float(SAME.get(word, word) in map(same, text.lower().split())) for word in WORDS] + [0.1] for text in texts
    ]


def same(word: str) -> str:
    return SAME.get(word, word)


def store(folder: Path, function: Any = embed) -> Any:
    memory = smp_memory.open(folder, embed=function)
    if not memory.sessions():
        session = memory.create_session("shop")
        session.add_finding(FOUND)
        session.add_decision("The cat sleeps on the sofa")
    return memory


def texts_of(hits: Any) -> list[str]:
    return [hit.record.text for hit in hits]


def test_function_finds_what_shares_no_word(tmp_path: Path) -> None:
    with store(tmp_path) as memory:
        hits = memory.query(ASKED)
        assert texts_of(hits)[:1] == [FOUND]
        assert hits[0].explain["meaning"] > 0
        assert hits.warnings == []
        assert memory.config["search.embedder"] is embed
    with smp_memory.open(tmp_path, config={"search": {"embedder": embed, "semantic": "off"}}) as memory:
        assert not memory.query(ASKED)


def test_function_works_in_a_store_in_ram() -> None:
    with smp_memory.open(":memory:", embed=embed) as memory:
        memory.create_session("shop").add_finding(FOUND)
        assert texts_of(memory.query(ASKED)) == [FOUND]


def test_function_gets_short_lists_of_texts_that_are_not_blank_or_long(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def recording(texts: list[str]) -> list[list[float]]:
        seen.append(texts)
        return embed(texts)

    with smp_memory.open(tmp_path, embed=recording) as memory:
        session = memory.create_session("shop")
        for number in range(AT_ONCE + 5):
            session.add_finding(f"{number} sign " + "x" * (2 * MAX_CHARACTERS if number == 3 else 1))
        assert memory.query(ASKED)
    assert all(type(texts) is list and 0 < len(texts) <= AT_ONCE for texts in seen)
    assert all(text.strip() and len(text) <= MAX_CHARACTERS for texts in seen for text in texts)


class Array:
    """Looks like an array of numpy."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = rows

    def tolist(self) -> list[list[float]]:
        return self.rows


@pytest.mark.parametrize(
    "given",
    [
        lambda texts: Array(embed(texts)),
        lambda texts: tuple(map(tuple, embed(texts))),
        lambda texts: ([int(10 * n) for n in vector] for vector in embed(texts)),
        lambda texts: [[1e300 * n for n in vector] for vector in embed(texts)],
    ],
    ids=["array", "tuples", "generator of integers", "large numbers"],
)
def test_vectors_may_have_any_form(tmp_path: Path, given: Any) -> None:
    with store(tmp_path, given) as memory:
        hits = memory.query(ASKED)
        assert (texts_of(hits)[:1], hits.warnings) == ([FOUND], [])


def failing(texts: list[str]) -> Any:
    raise RuntimeError(f"no model for {texts}")


@pytest.mark.parametrize(
    "given",
    [
        failing,
        lambda texts: None,
        lambda texts: 7,
        lambda texts: "abc",
        lambda texts: [],
        lambda texts: [[] for _ in texts],
        lambda texts: [*embed(texts), [1.0]],
        lambda texts: [[1.0] * (1 + len(text)) for text in texts],
        lambda texts: [[1.0, float("nan")] for _ in texts],
        lambda texts: [[1.0, float("inf")] for _ in texts],
        lambda texts: [["a", "b"] for _ in texts],
        lambda texts: [[None] for _ in texts],
        lambda texts: [[1.0] * 10_000 for _ in texts],
        list,
    ],
)
def test_failing_function_leaves_words_and_is_reported(tmp_path: Path, given: Any) -> None:
    with store(tmp_path, given) as memory:
        hits = memory.query("users cannot sign in any more")
        assert texts_of(hits)[:1] == [FOUND]
        assert len(hits.warnings) == 1
        assert "by words alone" in hits.warnings[0]
        assert FOUND not in hits.warnings[0]  # no content of memories
        assert not memory.query(ASKED)
        assert memory.session("shop").add_finding("and writing goes on").id
    with store(tmp_path) as memory:
        assert texts_of(memory.query(ASKED))[:1] == [FOUND]


def test_function_that_fails_later_leaves_words_and_is_reported(tmp_path: Path) -> None:
    is_broken = False

    def sometimes(texts: list[str]) -> Any:
        return [[float("nan")]] if is_broken else embed(texts)

    with store(tmp_path, sometimes) as memory:
        assert texts_of(memory.query(ASKED))[:1] == [FOUND]
        is_broken = True
        hits = memory.query(ASKED)
        assert len(hits.warnings) == 1
        assert texts_of(memory.query("users cannot sign in"))[:1] == [FOUND]


def test_error_that_ends_the_process_is_not_swallowed(tmp_path: Path) -> None:
    def interrupted(texts: list[str]) -> Any:
        raise KeyboardInterrupt

    with store(tmp_path, interrupted) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.query(ASKED)
        assert texts_of(memory.query("users"))[:1] == [FOUND]


def test_vectors_of_another_model_are_never_compared(tmp_path: Path) -> None:
    def reversed_meaning(texts: list[str]) -> list[list[float]]:
        return [[1 - number for number in vector] for vector in embed(texts)]

    reversed_meaning.__module__, reversed_meaning.__qualname__ = (
        embed.__module__,
        embed.__qualname__,
    )  # under the same name
    wider = lambda texts: [[*vector, 0.0] for vector in embed(texts)]  # noqa: E731
    with store(tmp_path) as memory:
        assert texts_of(memory.query(ASKED))[:1] == [FOUND]
    for function in (reversed_meaning, wider, embed):
        calls: list[int] = []

        def counted(texts: list[str], function: Any = function, calls: list[int] = calls) -> Any:
            calls.append(len(texts))
            return function(texts)

        counted.__module__, counted.__qualname__ = function.__module__, function.__qualname__
        with store(tmp_path, counted) as memory:
            assert memory.query(ASKED).warnings == []
        assert sum(calls) == 4  # the fixed text, both memories and the question
        with store(tmp_path, function) as memory:
            hits = memory.query(ASKED)
            assert function is not embed or texts_of(hits)[:1] == [FOUND]


class Hours:
    """A clock that a slow function moves on."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.embedded = 0

    def monotonic(self) -> float:
        return self.seconds

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.seconds += 0.01 * len(texts)
        self.embedded += len(texts)
        return embed(texts)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Hours:
    """A function that takes 10 ms for each text."""
    clock = Hours()
    monkeypatch.setattr("smp_memory.index.stored_feed.time", clock)
    return clock


def filled(folder: Path, slow: Hours, count: int) -> Any:
    memory = store(folder, slow.embed)
    memory.session("shop").add_many([("finding", f"number {number}") for number in range(count)])
    return memory


def test_query_makes_vectors_for_50_ms_and_says_once_that_some_are_missing(tmp_path: Path, slow: Hours) -> None:
    with filled(tmp_path, slow, 300) as memory:
        before = slow.seconds
        hits = memory.query(ASKED)
        assert slow.seconds - before < 0.15  # the first texts, as many as fit then, the fixed text and the question
        assert len(hits.warnings) == 1
        assert "memories are not searched by meaning yet" in hits.warnings[0]
        before = slow.seconds
        assert memory.query(ASKED).warnings == []
        assert slow.seconds - before < 0.12
    with smp_memory.open(tmp_path, embed=slow.embed) as memory:
        assert len(memory.query(ASKED).warnings) == 1


def test_vectors_are_completed_over_several_queries(tmp_path: Path, slow: Hours) -> None:
    with filled(tmp_path, slow, 40) as memory:
        for _ in range(10):
            memory.query(ASKED)
        made = slow.embedded
        memory.query(ASKED)
        assert slow.embedded == made + 1  # the question alone
        assert FOUND in texts_of(memory.query(ASKED, limit=400))


@pytest.mark.parametrize("way", ["maintain", "reindex", "index"])
def test_maintenance_makes_all_vectors(tmp_path: Path, slow: Hours, way: str) -> None:
    with filled(tmp_path, slow, 300) as memory:
        if way == "index":
            assert memory.store.indexer.embed_missing(0.5) > 200
            assert memory.store.indexer.embed_missing() == 0
        else:
            getattr(memory, way)()
        made = slow.embedded
        hits = memory.query(ASKED)
        assert (slow.embedded - made, hits.warnings) == (1, [])
        assert FOUND in texts_of(memory.query(ASKED, limit=400))


def test_new_memories_get_their_vectors_first(tmp_path: Path, slow: Hours) -> None:
    with filled(tmp_path, slow, 300) as memory:
        memory.query(ASKED)
        memory.session("shop").add_finding("the cat is back")
        assert "the cat is back" in texts_of(memory.query("where did the sofa cat go", limit=400))


def test_static_model_answers_until_the_function_has_all_vectors(
    tmp_path: Path, slow: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not HAS_STATIC:
        pytest.skip("the static model is not installed")
    monkeypatch.setattr("smp_memory.index.embeddings.available", lambda: True)
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("shop")
        session.add_many([("finding", f"number {number}") for number in range(150)])
        session.add_finding(FOUND)
        assert FOUND in texts_of(memory.query(ASKED))
    with smp_memory.open(tmp_path, embed=slow.embed) as memory:
        hits = memory.query(ASKED)
        assert FOUND in texts_of(hits)
        assert (hits.warnings, slow.embedded) == ([], 1)  # the fixed text alone
        memory.maintain()
        made = slow.embedded
        assert texts_of(memory.query(ASKED))[:1] == [FOUND]
        assert slow.embedded == made + 1


def test_erasing_a_memory_keeps_the_vectors_of_the_others(tmp_path: Path) -> None:
    asked: list[str] = []

    def recording(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return embed(texts)

    with store(tmp_path, recording) as memory:
        other = memory.create_session("other")
        secret = other.add_finding("the index and the sofa")
        last = memory.create_session("last")
        last.add_finding("login again")
        assert memory.query(ASKED)
        (before,) = state_folder(tmp_path).glob("index/index-*/meaning-*")
        assert memory.erase(secret.ref).verified
        (after,) = state_folder(tmp_path).glob("index/index-*/meaning-*")
        assert before != after
        assert {path.name: path.stat().st_size for path in after.iterdir()} == {"signs": 3, "vectors": 18}
        asked.clear()
        assert {FOUND, "login again"} <= set(texts_of(memory.query(ASKED)))
        assert not {FOUND, "login again"} & set(asked)


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_erasing_a_memory_beside_damaged_vectors(tmp_path: Path, damage: str) -> None:
    with store(tmp_path) as memory:
        secret = memory.create_session("other").add_finding("the index and the sofa")
        assert memory.query(ASKED)
        (path,) = state_folder(tmp_path).glob("index/index-*/meaning-*/vectors")
        path.write_bytes(path.read_bytes()[:7])
        if damage == "gone":
            path.unlink()
        assert memory.erase(secret.ref).verified
        assert FOUND in texts_of(memory.query(ASKED))


# -- the setting


@pytest.mark.parametrize("where", ["config.json", "nested", "session"])
def test_store_cannot_name_code_to_import(tmp_path: Path, where: str) -> None:
    (tmp_path / "planted.py").write_text(
        "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\ndef embed(texts): ...\n"
    )
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("shop").add_finding(FOUND)
        if where == "session":
            with pytest.raises(InvalidConfig, match=r"search\.embedder.*names code to run"):
                memory.create_session("other", config={"search": {"embedder": "planted:embed"}})
            with pytest.raises(InvalidConfig, match=r"search\.embedder.*names code to run"):
                memory.session("shop").set_config("search.embedder", "planted:embed")
        with pytest.raises(InvalidConfig, match=r"search\.embedder.*names code to run"):
            memory.set_config("search.embedder", "planted:embed")
    path = tmp_path / "store" / "config.json"
    settings = json.loads(path.read_text())
    key = {"search.embedder": "planted:embed"} if where == "config.json" else {"search": {"embedder": "planted:embed"}}
    path.write_text(json.dumps({**settings, **key}))
    story = "import sys, smp_memory; smp_memory.open(sys.argv[1]).query('login failed for customers')"
    done = subprocess.run(
        [sys.executable, "-c", story, str(tmp_path / "store")],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert done.returncode == 0
    assert "names code to run" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_function_is_named_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def embed(texts):\n    return [[1.0, float('sign' in t or 'login' in t)] for t in texts]\n"
    )
    story = (
        "import sys, smp_memory; memory = smp_memory.open(sys.argv[1]); memory.create_session('a').add_finding('Users cannot sign in');"
        "print('own' in sys.modules); hits = memory.query('login failed for customers'); print(len(hits), hits.warnings, 'own' in sys.modules)"
    )
    for name, expected in (
        ("own:embed", "False\n1 [] True"),
        ("own:missing", "AttributeError"),
        ("absent:embed", "ModuleNotFoundError"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", story, str(tmp_path / name.replace(":", "-"))],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "SMP_SEARCH_EMBEDDER": name},
        )  # fmt: skip
        assert expected in done.stdout


@pytest.mark.parametrize("value", ["os.system", "a b:c", "a:", ":b", "a:b()", "a:b:c", 7, ["a:b"], {"a": "b"}, ""])
def test_bad_name_of_a_function_is_rejected(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"search\.embedder"):
        smp_memory.open(tmp_path, config={"search.embedder": value})


def test_embed_must_be_callable(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"search\.embedder"):
        smp_memory.open(tmp_path, embed=7)  # type: ignore[arg-type]


# -- several processes

_PROCESSES = """
import os, sys, smp_memory
from tests.unit.index.test_embedding_function import embed
memory = smp_memory.open(sys.argv[1], embed=embed)
memory.query("login failed for customers")
pid = os.fork()
if pid == 0:
    memory.query("login failed for customers")  # with the files that its parent has mapped
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
for number in range(20):
    memory.session("shop").add_finding(f"{sys.argv[2]} {number} the cat again")
    assert memory.query("login failed for customers").warnings == []
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_and_their_children_share_vectors(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding(FOUND)
    command = [sys.executable, "-W", "ignore", "-c", _PROCESSES, str(tmp_path)]
    running = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("a", "b")]
    assert [(each.communicate()[1], each.returncode) for each in running] == [("", 0), ("", 0)]
    with smp_memory.open(tmp_path, embed=embed) as memory:
        assert FOUND in texts_of(memory.query(ASKED, limit=50))
        assert len(memory.query("where the cat was again", limit=50)) >= 40
