"""The static embedding model: texts to vectors, from files of this package.

The model is `wordllama`'s table of 32,000 subword tokens with 256 dimensions; a text's vector is the mean of its tokens'. The files
are made when the package is built (`hatch_build.py`). Nothing is ever downloaded. A process reads only what its texts need: the rows of
their tokens from the mapped table, and the tokens from a mapped block (`token_table`).

Guarantees: equal texts have equal vectors, in whatever batch they are embedded; a text without words has a vector of zeros.
Non-guarantees: only the first `WORDS` words of a text count. The model knows English best.
"""

from __future__ import annotations

from functools import cache
from struct import pack, unpack_from

from simsimd import wsum  # never with `out=`: it returns a None that it does not own

from smp_memory.index.embeddings import (
    ANCHORS,
    MODELS,
    QUESTION_WORDS,
    STATIC_ROWS,
    STATIC_TOKENS,
    ModelUnavailable,
    map_file,
)
from smp_memory.index.token_table import ABSENT, TokenTable
from smp_memory.index.vectors import to_signed_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

MODEL = "wordllama/l2_supercat_256/2"  # the last number: our use of it. Vectors of another name are computed again
DIMENSIONS = 256
WORDS = 100  # a memory's subject is at its beginning; more words improved no result
_MAX_WORD = 32  # characters; the time to tokenize a word grows with their square
_MEMO_WORDS = 200_000
_FIRST_BYTE = 3  # the token of the byte 0: unknown characters are encoded as bytes
_BEGINNING = "▁"  # the model's mark for the beginning of a word
_ROW = f"<f{DIMENSIONS}b"  # a factor, and signed bytes
_ROW_BYTES = 4 + DIMENSIONS


@cache
def static_model() -> StaticModel:
    """The model of the package, one for all stores of a process. Loads nothing yet."""
    return StaticModel(MODELS)


class StaticModel:
    """The model in the files of a folder."""

    batch = 8  # a model that was just loaded needs milliseconds for each text with new words
    load_ms = 0.0
    weight = 0.5
    question_words = QUESTION_WORDS
    anchors = ANCHORS

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tokens: TokenTable | None = None
        self._table: Any = None
        self._rows: dict[int, Any] = {}
        self._memo: dict[str, list[int]] = {}

    def identity(self) -> tuple[str, int, bytes]:
        return MODEL, DIMENSIONS, b""

    def embed(self, texts: Sequence[str]) -> bytes:
        """The vectors of these texts, one after the other."""
        try:
            if self._tokens is None:
                self._load()
            return b"".join([to_signed_bytes(self._sum(self._numbers_of(text))) for text in texts])
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelUnavailable(f"The files of the static model cannot be used: {error}") from error

    def _load(self) -> None:
        self._table = map_file(self._folder, STATIC_ROWS)
        tokens = TokenTable(map_file(self._folder, STATIC_TOKENS))
        if len(self._table) != tokens.count * _ROW_BYTES:
            raise ValueError(f"{STATIC_ROWS} has another length")
        self._tokens = tokens

    def _sum(self, numbers: Sequence[int]) -> Sequence[float]:
        """The sum of token vectors, which has the direction of their mean."""
        rows, total = self._rows, None
        for number in numbers:
            row = rows.get(number) or self._row(number)
            total = row if total is None else wsum(total, row, alpha=1, beta=1)
        return memoryview(total).tolist() if total is not None else [0.0] * DIMENSIONS

    def _row(self, number: int) -> Any:
        factor, *numbers = unpack_from(_ROW, self._table, number * _ROW_BYTES)
        values = [factor * each for each in numbers]
        row = self._rows[number] = memoryview(pack(f"{DIMENSIONS}f", *values)).cast("f")
        return row

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
        assert self._tokens is not None
        number_of, absent = self._tokens.number, ABSENT
        parts = [_BEGINNING, *word]
        while len(parts) > 1:
            best, place = absent, 0
            for at in range(len(parts) - 1):
                number = number_of(parts[at] + parts[at + 1])
                if number < best:
                    best, place = number, at
            if best == absent:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        for part in parts:
            number = number_of(part)
            if number != absent:
                yield number
            else:
                yield from (_FIRST_BYTE + byte for byte in part.encode(errors="replace"))


def _split_long(word: str) -> Iterator[str]:
    """Split a long word without spaces; of a very long one only the beginning counts."""
    for start in range(0, min(len(word), WORDS * _MAX_WORD), _MAX_WORD):
        yield word[start : start + _MAX_WORD]
