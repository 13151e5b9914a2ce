"""Which memories mean the same? Texts become vectors, by a model whose files are in a package: the extra `smp-memory[semantic]`.

The model is `wordllama`'s table of 32,000 pieces of words, 256 numbers each; a text's vector is the mean of its pieces.
Only the package's files are used, not its code: that would load five other packages and look for its tokenizer where it
is not. Nothing is downloaded, ever.

Guarantees: without the extra nothing here is loaded but this module. Equal texts have equal vectors, whatever they are
embedded with; a text without words has a vector of zeros.
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

MODEL = "wordllama/l2_supercat_256/1"  # the last number: how it is used here. Other vectors are made anew
DIMENSIONS = 256
QUESTION_WORDS = frozenset(  # as terms; they make questions alike, not what is asked for
    """what when where who whom whose which whi how did do doe is are was were will would can could should has have had
    the a an of to in on for with at by from about mani much kind type""".split()  # noqa: SIM905
)
WORDS = 100  # what a memory is about stands at its beginning; more words made no answer better
_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_PIECES = "tokenizers/l2_supercat_tokenizer_config.json"
_LONGEST_PIECE = 32  # characters; the time to cut one into pieces of the model grows with their square
_AT_ONCE = 128  # texts
_MEMO_WORDS = 200_000
_FIRST_BYTE = 3  # the model's number of the byte 0: characters that it does not know are spelt
_BEGINNING = "▁"  # how the model writes that a word begins
_NONE = 1 << 30


class ModelUnavailable(Exception):
    """The package is there, but its files are not what they should be."""


@cache
def available() -> bool:
    """Whether the extra is installed. Loads nothing of it."""
    if _found("numpy") is None:
        return False
    folder = _folder()
    return folder is not None and all(os.path.isfile(os.path.join(folder, name)) for name in (_WEIGHTS, _PIECES))


def _folder() -> str | None:
    found = _found(_PACKAGE)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return places[0] if places else None


def _found(package: str) -> Any:
    """As `importlib.util.find_spec` does, which takes 2 ms to load."""
    if package in sys.modules:
        return sys.modules[package].__spec__
    return next((found for finder in sys.meta_path if (found := finder.find_spec(package, None)) is not None), None)


def embed(texts: Sequence[str]) -> Any:
    """A vector for each text: an array of signed bytes, of which only the direction means something."""
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
            self._pieces = _pieces(os.path.join(folder, _PIECES))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelUnavailable(f"The files of {_PACKAGE} cannot be used: {error}") from error
        self._memo: dict[str, list[int]] = {}
        self._converted: Any = None
        self._is_converted: Any = None

    def sums(self, texts: Sequence[str]) -> Any:
        """For each text the sum of its pieces: it has the direction of their mean."""
        import numpy

        numbers = [self._numbers_of(text) for text in texts]
        self._convert(numpy.array([number for each in numbers for number in each], numpy.int64))
        sums = numpy.zeros((len(texts), DIMENSIONS), numpy.float32)
        for place, each in enumerate(numbers):
            if each:
                sums[place] = self._converted[each].sum(axis=0)
        return sums

    def _convert(self, numbers: Any) -> None:
        """Half floats are slow to reckon with: a piece is converted when it is first met."""
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
                found = [number for part in _short(word) for number in self._cut(part)]
                if len(word) <= _LONGEST_PIECE:
                    memo[word] = found
            numbers += found
        return numbers

    def _cut(self, word: str) -> Iterator[int]:
        """The numbers of a word's pieces: again and again the two neighbours are joined that the model knows best."""
        pieces = self._pieces
        parts = [_BEGINNING, *word]
        while len(parts) > 1:
            best, place = _NONE, 0
            for at in range(len(parts) - 1):
                number = pieces.get(parts[at] + parts[at + 1], _NONE)
                if number < best:
                    best, place = number, at
            if best == _NONE:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        for part in parts:
            if part in pieces:
                yield pieces[part]
            else:
                yield from (_FIRST_BYTE + byte for byte in part.encode(errors="replace"))


def _short(word: str) -> Iterator[str]:
    """What has no spaces is cut, and of very much of it only the beginning counts."""
    for start in range(0, min(len(word), WORDS * _LONGEST_PIECE), _LONGEST_PIECE):
        yield word[start : start + _LONGEST_PIECE]


def _table(path: str) -> Any:
    """The numbers of all pieces, mapped: only what is used is read. The file tells its form at its beginning."""
    import json

    import numpy

    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        about = json.loads(file.read(min(length, 100_000)))["embedding.weight"]
    if about["dtype"] != "F16" or about["shape"][1] != DIMENSIONS:
        raise ValueError(f"{path} has another form")
    place = 8 + length + int(about["data_offsets"][0])
    return numpy.memmap(path, numpy.float16, "r", place, tuple(about["shape"]))


def _pieces(path: str) -> dict[str, int]:
    """Number of each piece. The rest of the file, which is longer, says again what their order says."""
    import json

    with open(path, encoding="utf-8") as file:
        text = file.read()
    start = text.index("{", text.index('"vocab"'))
    found: dict[str, int] = json.JSONDecoder().raw_decode(text, start)[0]
    return found
