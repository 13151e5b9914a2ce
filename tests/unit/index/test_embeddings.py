"""The embedding model, and queries by meaning."""

from __future__ import annotations

import os
import subprocess
import sys
from operator import mul
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.index import embeddings
from tests.user_state import state_folder

IS_HERE = embeddings.available()  # before a fixture hides it
if not IS_HERE:
    pytest.skip("wordllama or simsimd is not installed", allow_module_level=True)

from smp_memory.index import static_model  # noqa: E402
from smp_memory.index.static_model import DIMENSIONS, WORDS, StaticModel  # noqa: E402
from smp_memory.index.token_table import ABSENT, TokenTable, make_block, stamp_of  # noqa: E402


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "available", lambda: True)


def embed(texts: list[str]) -> list[bytes]:
    vectors = static_model.static_model().embed(texts)
    return [vectors[start : start + DIMENSIONS] for start in range(0, len(vectors), DIMENSIONS)]


def cosine(one: str, other: str) -> float:
    a, b = (memoryview(vector).cast("b").tolist() for vector in embed([one, other]))
    return float(sum(map(mul, a, b)) / (sum(map(mul, a, a)) * sum(map(mul, b, b))) ** 0.5)


def test_texts_of_equal_meaning_have_near_vectors() -> None:
    assert cosine("users cannot log in", "sign-in fails for customers") > cosine(
        "users cannot log in", "cats like fish"
    )
    assert cosine("a text", "a text") == pytest.approx(1)


def test_vector_of_a_text_does_not_depend_on_the_batch() -> None:
    texts = ["one", "", "two words", "日本語のテスト", "🙂", "x" * 100_000, "\ud800 alone", " \n "]
    together = embed(texts * 40)
    for place, text in enumerate(texts):
        assert together[place] == embed([text])[0]
    assert not any(together[1])
    assert any(together[3])
    assert len(together) == 320
    assert embed([]) == []


def test_only_the_first_words_count() -> None:
    text = "word " * WORDS
    assert embed([text]) == embed([text + "another end"])


def test_tokens_equal_those_of_the_models_own_tokenizer() -> None:
    tokenizers: Any = pytest.importorskip("tokenizers")
    own = tokenizers.Tokenizer.from_file(f"{embeddings.model_folder()}/{embeddings.TOKENS}")
    text = "Where did Caroline's auth_service.py go? naïve 你好世界 🙂 3.14159 getUserName() -- ÄÖÜ ﬁ สวัสดี"
    embed(["load"])
    for word in text.split():
        numbers = static_model.static_model()._numbers_of(word)
        assert numbers == own.encode(word, add_special_tokens=False).ids


# -- the block of tokens


class Files:
    """Derived files in RAM."""

    def __init__(self, block: bytes | None = None, *, is_full: bool = False) -> None:
        self.block = block
        self.is_full = is_full

    def read(self, name: str) -> bytes:
        if self.block is None:
            raise FileNotFoundError(name)
        return self.block

    def write(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.block = data


def model(files: Files | None) -> StaticModel:
    return StaticModel(embeddings.model_folder() or "", files)


def test_block_of_tokens_is_made_once_and_gives_the_same_vectors() -> None:
    files, texts = Files(), ["how do customers log in", "naïve 你好世界 🙂", "\ud800"]
    first = model(files).embed(texts)
    made = files.block
    assert made is not None
    files.is_full = True  # a second write would fail
    assert model(files).embed(texts) == first == model(None).embed(texts)
    assert files.block is made


def test_damaged_block_of_tokens_is_made_again() -> None:
    good = Files()
    expected = model(good).embed(["how do customers log in"])
    block = good.block or b""
    for bad in (
        b"",
        block[:100],
        block[:-1],
        block + b"x",
        b"X" + block[1:],
        block[:5000] + b"\xff" + block[5001:],
        bytes(len(block)),
    ):
        files = Files(bad)
        assert model(files).embed(["how do customers log in"]) == expected
        assert files.block == block
    assert model(Files(is_full=True)).embed(["how do customers log in"]) == expected


def test_block_of_another_state_of_the_file_is_not_used() -> None:
    block = make_block({"a": 0, "b": 1, "▁a": 2}, stamp_of(5, 6))
    table = TokenTable(block, stamp_of(5, 6))
    assert [table.number(each) for each in ("a", "b", "▁a", "c", "", "\ud800")] == [0, 1, 2, ABSENT, ABSENT, ABSENT]
    for stamp in (stamp_of(5, 7), stamp_of(6, 6)):
        with pytest.raises(ValueError):
            TokenTable(block, stamp)
    with pytest.raises(ValueError):
        make_block({"a": 0, "b": 2}, stamp_of(5, 6))


@pytest.mark.usefixtures("with_model")
def test_block_of_tokens_is_in_the_users_state_and_never_read_from_a_store(tmp_path: Path) -> None:
    static_model.static_model.cache_clear()
    store = tmp_path / "store"
    with smp_memory.open(store) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        assert memory.query("login failed for customers")
    path = Path(os.environ["SMP_STATE_DIR"]) / "derived" / "tokens-wordllama"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [name for name in store.rglob("*") if "token" in name.name]


@pytest.mark.usefixtures("with_model")
def test_embeddings_are_used_only_when_sorting_by_relevance(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        assert memory.query("login failed for customers")
        assert not memory.query("login failed for customers", sort="newest")
        assert not memory.query("login failed for customers", mode="weighted")


def test_model_files_of_another_form_are_unavailable(tmp_path: Path) -> None:
    with pytest.raises(embeddings.ModelUnavailable):
        StaticModel(str(tmp_path)).embed(["a"])


@pytest.mark.parametrize("damage", ["short", "empty", "another form", "no JSON"])
def test_damaged_weights_are_unavailable(tmp_path: Path, damage: str) -> None:
    real = Path(embeddings.model_folder() or "")
    for name in (embeddings.TOKENS, embeddings.WEIGHTS):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes((real / name).read_bytes())
    weights = tmp_path / embeddings.WEIGHTS
    data = weights.read_bytes()
    changed = {
        "short": data[: len(data) // 2],
        "empty": b"",
        "another form": data.replace(b'"F16"', b'"F32"', 1),
        "no JSON": data[:8] + b"x" + data[9:],
    }
    weights.write_bytes(changed[damage])
    with pytest.raises(embeddings.ModelUnavailable):
        StaticModel(str(tmp_path)).embed(["a"])


@pytest.mark.usefixtures("with_model")
def test_query_finds_a_memory_without_any_of_its_words(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("shop")
        session.add_finding("Users cannot sign in after the update")
        session.add_decision("The cat sleeps on the sofa")
        hits = memory.query("login failed for customers")
        assert [hit.record.text for hit in hits][:1] == ["Users cannot sign in after the update"]
        assert hits[0].explain["meaning"] > 0
        assert hits[0].explain["text"] == 0
        assert [hit.id for hit in memory.find_similar("login failed for customers")][:1] == [hits[0].id]
        session.add_finding("Customers report that their login failed")
        assert memory.query("login failed for customers")[0].record.text == "Customers report that their login failed"
        session.delete(hits[0].id)
        assert hits[0].id not in [hit.id for hit in memory.query("login failed for customers")]


@pytest.mark.usefixtures("with_model")
def test_filters_apply_to_matches_by_embedding(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("shop")
        session.add_finding("Users cannot sign in", tags=["auth"])
        session.add_decision("Users cannot sign in", tags=["other"])
        asked = "login failed for customers"
        assert [hit.type for hit in memory.query(asked, types="finding")] == ["finding"]
        assert [hit.type for hit in memory.query(asked, tags="auth")] == ["finding"]
        assert [hit.type for hit in memory.query(asked, not_tags="auth")] == ["decision"]
        assert not memory.query(asked, until="2001")
        assert not memory.query('"login failed" for customers')  # a phrase insists
        assert not memory.query("login failed")  # who gives a word or two wants those


@pytest.mark.usefixtures("with_model")
def test_semantic_search_can_be_switched_off_and_on_again(tmp_path: Path) -> None:
    asked = "login failed for customers"
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        assert len(memory.query(asked)) == 1
    with smp_memory.open(tmp_path, config={"search": {"semantic": "off"}}) as memory:
        assert not memory.query(asked)
        memory.session("shop").add_finding("Nobody is able to log in")
        assert len(memory.query(asked)) == 0
    with smp_memory.open(tmp_path) as memory:
        assert len(memory.query(asked)) == 2


@pytest.mark.usefixtures("with_model")
@pytest.mark.parametrize("damage", ["gone", "short", "empty", "unusable"])
def test_damaged_vectors_are_rebuilt_and_never_fail_a_query(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        assert len(memory.query("login failed for customers")) == 1
    (files,) = state_folder(tmp_path).glob("index/index-*/meaning-*")
    if damage == "unusable":
        monkeypatch.setattr(
            StaticModel, "embed", lambda self, texts: (_ for _ in ()).throw(embeddings.ModelUnavailable("no"))
        )
    for path in files.iterdir():
        if damage == "gone":
            path.unlink()
        elif damage in ("short", "empty"):
            path.write_bytes(path.read_bytes()[:5] if damage == "short" else b"")
    with smp_memory.open(tmp_path) as memory:
        assert len(memory.query("users failed to sign in")) == 1
        assert len(memory.query("login failed for customers")) == (0 if damage == "unusable" else 1)
        memory.session("shop").add_finding("Nobody is able to log in")
        assert len(memory.query("login failed for customers")) == (0 if damage == "unusable" else 2)


def test_model_is_loaded_by_a_query_by_meaning_only_and_never_with_numpy(tmp_path: Path) -> None:
    story = (
        "import smp_memory, sys; m = smp_memory.open(sys.argv[1]); s = m.create_session('a'); s.add_finding('it is slow');"
        "assert m.query('slow'); assert m.query(types='finding');"
        "print([name in sys.modules for name in ('simsimd', 'smp_memory.index.static_model', 'smp_memory.index.vectors')]);"
        "assert m.query('this page is far from fast').warnings == [];"
        "print([name in sys.modules for name in ('simsimd', 'numpy', 'wordllama', 'tokenizers')])"
    )
    done = subprocess.run([sys.executable, "-c", story, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[False, False, False]", "[True, False, False, False]"]


@pytest.mark.usefixtures("with_model")
def test_failing_model_is_reported_with_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticModel, "_load", lambda self: (_ for _ in ()).throw(OSError("no such file")))
    monkeypatch.setattr(static_model, "static_model", lambda derived: StaticModel("", None))
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        hits = memory.query("users cannot sign in any more")
        assert len(hits) == 1
        assert len(hits.warnings) == 1
        assert "words alone" in hits.warnings[0]
        assert memory.query("users").warnings == []
        assert memory.query("users cannot sign in any more").warnings == hits.warnings


@pytest.mark.usefixtures("with_model")
def test_library_that_does_not_load_is_reported_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("smp_memory.index.vectors", "smp_memory.index.static_model", "simsimd"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "simsimd", None)
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        hits = memory.query("users cannot sign in any more")
        assert (len(hits), len(hits.warnings)) == (1, 1)


def test_command_line_finds_by_meaning_out_of_the_box(tmp_path: Path) -> None:
    def smp(*words: str) -> str:
        command = [sys.executable, "-m", "smp_memory", *words, "--root", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    smp("init")
    smp("add", "decision", "Use OAuth 2.0 for sign-in", "--rationale", "Standard")
    smp("add", "finding", "The nightly export fails on Sundays")
    assert "Use OAuth 2.0 for sign-in" in smp("query", "how do customers log in?")
    assert "OAuth" not in smp("query", "customers login")  # two words: those very words
