"""The embedding model, and queries by meaning."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import smp_memory
from smp_memory.index import embeddings
from tests.user_state import state_folder

if TYPE_CHECKING:
    from pathlib import Path

numpy: Any = pytest.importorskip("numpy", reason="smp-memory[semantic] is not installed: no numpy")
IS_HERE = embeddings.available()  # before a fixture hides it
pytestmark = pytest.mark.skipif(not IS_HERE, reason="smp-memory[semantic] is not installed: no wordllama")


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "available", lambda: True)


def cosine(one: str, other: str) -> float:
    a, b = embeddings.embed([one, other]).astype(float)
    return float(a @ b / (numpy.linalg.norm(a) * numpy.linalg.norm(b)))


def test_texts_of_equal_meaning_have_near_vectors() -> None:
    assert cosine("users cannot log in", "sign-in fails for customers") > cosine(
        "users cannot log in", "cats like fish"
    )
    assert cosine("a text", "a text") == pytest.approx(1)


def test_vector_of_a_text_does_not_depend_on_the_batch() -> None:
    texts = ["one", "", "two words", "日本語のテスト", "🙂", "x" * 100_000, "\ud800 alone", " \n "]
    together = embeddings.embed(texts * 40)
    for place, text in enumerate(texts):
        assert (together[place] == embeddings.embed([text])[0]).all()
    assert not together[1].any()
    assert together[3].any()
    assert together.shape == (320, embeddings.DIMENSIONS)
    assert embeddings.embed([]).shape == (0, embeddings.DIMENSIONS)


def test_only_the_first_words_count() -> None:
    text = "word " * embeddings.WORDS
    assert (embeddings.embed([text])[0] == embeddings.embed([text + "another end"])[0]).all()


def test_tokens_equal_those_of_the_models_own_tokenizer() -> None:
    tokenizers: Any = pytest.importorskip("tokenizers")
    own = tokenizers.Tokenizer.from_file(f"{embeddings._folder()}/{embeddings._TOKENS}")
    text = "Where did Caroline's auth_service.py go? naïve 你好世界 🙂 3.14159 getUserName() -- ÄÖÜ ﬁ สวัสดี"
    for word in text.split():
        assert embeddings._model()._numbers_of(word) == own.encode(word, add_special_tokens=False).ids


@pytest.mark.usefixtures("with_model")
def test_embeddings_are_used_only_when_sorting_by_relevance(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        memory.create_session("shop").add_finding("Users cannot sign in")
        assert memory.query("login failed for customers")
        assert not memory.query("login failed for customers", sort="newest")
        assert not memory.query("login failed for customers", mode="weighted")


def test_model_files_of_another_form_are_unavailable(tmp_path: Path) -> None:
    with pytest.raises(embeddings.ModelUnavailable):
        embeddings._Model(str(tmp_path))


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
        monkeypatch.setattr(embeddings, "embed", lambda texts: (_ for _ in ()).throw(embeddings.ModelUnavailable("no")))
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


def test_numpy_is_not_loaded_without_a_query(tmp_path: Path) -> None:
    story = (
        "import smp_memory, sys; m = smp_memory.open(sys.argv[1]); s = m.create_session('a'); s.add_finding('it is slow');"
        "assert m.query('slow'); assert m.query(types='finding'); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", story, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
