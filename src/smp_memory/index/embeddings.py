"""The embedding model: texts to vectors, from files of a package, the extra `smp-memory[semantic]`.

The model is `wordllama`'s table of 32,000 subword tokens with 256 dimensions; a text's vector is the mean of its
tokens'. Only the package's files are used, not its code: that would load five other packages and look for its
tokenizer where it is not. Nothing is ever downloaded.

Guarantees: without the extra only this module is loaded. Equal texts have equal vectors, in whatever batch they are
embedded; a text without words has a vector of zeros.
Non-guarantees: only the first `WORDS` words of a text count. The model knows English best.
"""

from __future__ import annotations

import os
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

MODEL = "wordllama/l2_supercat_256/1"  # the last number: our use of it. Vectors of another name are computed again
DIMENSIONS = 256
QUESTION_WORDS = frozenset(  # as terms; they make questions similar that ask for different things
    """what when where who whom whose which whi how did do doe is are was were will would can could should has have had
    the a an of to in on for with at by from about mani much kind type""".split()  # noqa: SIM905
)
WORDS = 100  # a memory's subject is at its beginning; more words improved no result
_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_WORD = 32  # characters; the time to tokenize a word grows with their square
_AT_ONCE = 128  # texts
_MEMO_WORDS = 200_000
_FIRST_BYTE = 3  # the token of the byte 0: unknown characters are encoded as bytes
_BEGINNING = "▁"  # the model's mark for the beginning of a word
_NONE = 1 << 30


class ModelUnavailable(Exception):
    """The package is installed, but its files are not as expected."""


@cache
def available() -> bool:
    """Whether the extra is installed. Loads nothing of it."""
    if _find_spec("numpy") is None:
        return False
    folder = _folder()
    return folder is not None and all(os.path.isfile(os.path.join(folder, name)) for name in (_WEIGHTS, _TOKENS))


def _folder() -> str | None:
    found = _find_spec(_PACKAGE)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return places[0] if places else None


def _find_spec(package: str) -> Any:
    """Like `importlib.util.find_spec`, which takes 2 ms to load."""
    if package in sys.modules:
        return sys.modules[package].__spec__
    return next((found for searcher in sys.meta_path if (found := searcher.find_spec(package, None)) is not None), None)


def embed(texts: Sequence[str]) -> Any:
    """A vector for each text: an array of signed bytes, of which only the direction is meaningful."""
    import numpy

    model = _model()
    found = numpy.zeros((len(texts), DIMENSIONS), numpy.int8)
    for start in range(0, len(texts), _AT_ONCE):
        sums = model.sums(texts[start : start + _AT_ONCE])
        largest = numpy.abs(sums).max(axis=1, keepdims=True)
        found[start : start + _AT_ONCE] = numpy.rint(sums * (127 / numpy.maximum(largest, 1e-9)))
    return found


@cache
def _model() -> _Model:
    return _Model(_folder() or "")


class _Model:
    def __init__(self, folder: str) -> None:
        try:
            self._table = _table(os.path.join(folder, _WEIGHTS))
            self._tokens = _tokens(os.path.join(folder, _TOKENS))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelUnavailable(f"The files of {_PACKAGE} cannot be used: {error}") from error
        self._memo: dict[str, list[int]] = {}
        self._converted: Any = None
        self._is_converted: Any = None

    def sums(self, texts: Sequence[str]) -> Any:
        """The sum of each text's token vectors, which has the direction of their mean."""
        import numpy

        numbers = [self._numbers_of(text) for text in texts]
        self._convert(numpy.array([number for each in numbers for number in each], numpy.int64))
        sums = numpy.zeros((len(texts), DIMENSIONS), numpy.float32)
        for place, each in enumerate(numbers):
            if each:
                sums[place] = self._converted[each].sum(axis=0)
        return sums

    def _convert(self, numbers: Any) -> None:
        """Convert tokens from half floats, which are slow to compute with, when they are first used."""
        import numpy

        if self._converted is None:
            self._converted = numpy.empty(self._table.shape, numpy.float32)
            self._is_converted = numpy.zeros(len(self._table), bool)
        new = numpy.unique(numbers[~self._is_converted[numbers]])
        self._converted[new] = self._table[new]
        self._is_converted[new] = True

    def _numbers_of(self, text: str) -> list[int]:
        memo = self._memo
        if len(memo) >= _MEMO_WORDS:
            memo = self._memo = {}
        numbers: list[int] = []
        for word in text.split(None, WORDS)[:WORDS]:
            found = memo.get(word)
            if found is None:
                found = [number for part in _split_long(word) for number in self._tokenize(part)]
                if len(word) <= _MAX_WORD:
                    memo[word] = found
            numbers += found
        return numbers

    def _tokenize(self, word: str) -> Iterator[int]:
        """The token numbers of a word: byte-pair merges, the pair with the lowest number first."""
        tokens = self._tokens
        parts = [_BEGINNING, *word]
        while len(parts) > 1:
            best, place = _NONE, 0
            for at in range(len(parts) - 1):
                number = tokens.get(parts[at] + parts[at + 1], _NONE)
                if number < best:
                    best, place = number, at
            if best == _NONE:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        for part in parts:
            if part in tokens:
                yield tokens[part]
            else:
                yield from (_FIRST_BYTE + byte for byte in part.encode(errors="replace"))


def _split_long(word: str) -> Iterator[str]:
    """Split a long word without spaces; of a very long one only the beginning counts."""
    for start in range(0, min(len(word), WORDS * _MAX_WORD), _MAX_WORD):
        yield word[start : start + _MAX_WORD]


def _table(path: str) -> Any:
    """The vectors of all tokens, memory-mapped; the file's header gives their form."""
    import json

    import numpy

    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        about = json.loads(file.read(min(length, 100_000)))["embedding.weight"]
    if about["dtype"] != "F16" or about["shape"][1] != DIMENSIONS:
        raise ValueError(f"{path} has another form")
    place = 8 + length + int(about["data_offsets"][0])
    return numpy.memmap(path, numpy.float16, "r", place, tuple(about["shape"]))


def _tokens(path: str) -> dict[str, int]:
    """The number of each token. The rest of the file, which is longer, repeats what their order says."""
    import json

    with open(path, encoding="utf-8") as file:
        text = file.read()
    start = text.index("{", text.index('"vocab"'))
    found: dict[str, int] = json.JSONDecoder().raw_decode(text, start)[0]
    return found
