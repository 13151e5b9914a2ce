"""The embedding model, and queries by meaning."""

from __future__ import annotations

import subprocess
import sys
from operator import mul
from pathlib import Path

import pytest

import smp_memory
from smp_memory.index import embeddings
from smp_memory.model.candidates import NEWER, CandidateRequest
from smp_memory.text.memory_text import embedded_text
from smp_memory.text.tokenizer import parse
from tests.user_state import state_folder

IS_HERE = embeddings.available()  # before a fixture hides it
if not IS_HERE:
    pytest.skip("the static model or simsimd is not installed", allow_module_level=True)

from smp_memory.index import static_model  # noqa: E402
from smp_memory.index.static_model import DIMENSIONS, WORDS, StaticModel  # noqa: E402
from smp_memory.index.token_table import ABSENT, TokenTable, make_block  # noqa: E402


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


def test_token_table_finds_every_token_and_nothing_else() -> None:
    table = TokenTable(memoryview(make_block({"a": 0, "b": 1, "▁a": 2})))
    assert [table.number(each) for each in ("a", "b", "▁a", "c", "", "\ud800")] == [0, 1, 2, ABSENT, ABSENT, ABSENT]
    with pytest.raises(ValueError):
        make_block({"a": 0, "b": 2})


@pytest.mark.parametrize("change", ["empty", "short", "long", "another version", "zeros"])
def test_table_of_another_form_is_rejected(change: str) -> None:
    block = make_block({"a": 0, "b": 1})
    changed = {
        "empty": b"",
        "short": block[:-1],
        "long": block + b"x",
        "another version": block.replace(b"SMPTOK", b"SMPTAK", 1),
        "zeros": bytes(len(block)),
    }
    with pytest.raises(ValueError):
        TokenTable(memoryview(changed[change]))


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


@pytest.mark.parametrize("name", [embeddings.STATIC_ROWS, embeddings.STATIC_TOKENS])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_damaged_weights_are_unavailable(tmp_path: Path, name: str, part: int) -> None:
    real = Path(embeddings.MODELS)
    for each in (embeddings.STATIC_ROWS, embeddings.STATIC_TOKENS):
        (tmp_path / each).write_bytes((real / each).read_bytes())
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes((b"", data[: len(data) // 2], data + b"x")[part])
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
@pytest.mark.parametrize("front", [1, 3, 50])
def test_every_candidate_of_the_front_has_its_true_similarity(tmp_path: Path, front: int) -> None:
    asked = "customers cannot login today"  # no question word, which would be left out
    texts = [f"customers {word} today" for word in ("sing", "log", "pay", "sleep")] + ["sign-in is broken for users"]
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("shop")
        for text in texts:
            session.add_finding(text)
        old, new = session.add_decision("customers log in by mail"), session.add_decision("use passkeys instead")
        session.relate(new.id, old.id, "supersedes")
        for text in ("who cannot log in?", "nobody, it is raining"):
            session.add_turn("user", text)
        request = CandidateRequest(
            text=parse(asked),
            words=asked,
            front=front,
            by_meaning=True,
            with_neighbours=True,
            limit=100,
            fetch=(NEWER,),
        )
        found = memory.store.indexer.candidates(request)
        shown = [*found.matches[:front], *found.others, *(each for new in found.newer.values() for each in new)]
        assert len(shown) > 1
        assert len(found.newer) == 1
        records = memory.store.indexer.records(shown)
        for each in shown:
            expected = max(cosine(asked, embedded_text(records[each.ref].given)), 0.0)
            assert each.meaning == pytest.approx(expected, abs=1e-4)
        assert found.meaning_weight == 0.5
        request.by_meaning = False
        assert memory.store.indexer.candidates(request).meaning_weight == 0
        assert {each.meaning for each in memory.store.indexer.candidates(request).matches} == {0.0}


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
    monkeypatch.setattr(static_model, "static_model", lambda: StaticModel(""))
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
