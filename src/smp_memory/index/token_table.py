"""The tokens of an embedding model as one block of bytes that answers a lookup without being parsed.

Parsing a model's own list of 30,000 tokens takes a new process longer than everything else that a question needs. So the list is
converted when the package is built (`hatch_build.py`); a process maps the file and reads a few pages of it.

    8 bytes                          `_MAGIC` with the version of the form
    4 bytes                          the number of tokens
    4 bytes × _SLOTS                 a hash table: the number of a token + 1, or 0
    4 bytes × (tokens + 1)           where each token begins in the text
    the rest                         the text of all tokens, UTF-8

Numbers are little-endian. Guarantees: a block of another version or length is not used.
"""

from __future__ import annotations

import sys
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ABSENT = 1 << 30  # as the number of a token that does not exist: larger than all others
_MAGIC = b"SMPTOK 2"
_HEAD_BYTES = len(_MAGIC) + 4
_SLOTS = 1 << 16  # a power of two, at least twice the number of tokens
_MEMO_PIECES = 200_000


class TokenTable:
    """Numbers of tokens by text."""

    def __init__(self, block: memoryview) -> None:
        """Raises ValueError if the block is not a whole table of tokens."""
        self.count = int.from_bytes(block[_HEAD_BYTES - 4 : _HEAD_BYTES], "little")
        starts_at = _HEAD_BYTES + 4 * _SLOTS
        text_at = starts_at + 4 * (self.count + 1)
        if block[: len(_MAGIC)] != _MAGIC or len(block) < text_at:
            raise ValueError("no table of tokens, or one of another version")
        self._slots = _numbers(block[_HEAD_BYTES:starts_at])
        self._starts = _numbers(block[starts_at:text_at])
        self._text = block[text_at:]
        if self._starts[self.count] != len(self._text):
            raise ValueError("a table of tokens of another length")
        self._memo: dict[str, int] = {}

    def number(self, piece: str) -> int:
        """The number of a token; `ABSENT` if there is none with this text."""
        found = self._memo.get(piece)
        if found is None:
            if len(self._memo) >= _MEMO_PIECES:
                self._memo = {}
            found = self._memo[piece] = self._find(piece.encode(errors="surrogatepass"))
        return found

    def _find(self, piece: bytes) -> int:
        slots, starts, slot = self._slots, self._starts, crc32(piece)
        while number := slots[slot % _SLOTS]:
            if self._text[starts[number - 1] : starts[number]] == piece:
                return number - 1
            slot += 1
        return ABSENT


def make_block(tokens: Mapping[str, int]) -> bytes:
    """The block for these tokens, which are numbered from 0 without a gap."""
    texts = [token.encode() for token in sorted(tokens, key=tokens.__getitem__)]
    if sorted(tokens.values()) != list(range(len(tokens))) or len(texts) * 2 > _SLOTS:
        raise ValueError("the tokens are not numbered as expected")
    slots, starts = [0] * _SLOTS, [0]
    for number, text in enumerate(texts, 1):
        slot = crc32(text)
        while slots[slot % _SLOTS]:
            slot += 1
        slots[slot % _SLOTS] = number
        starts.append(starts[-1] + len(text))
    return b"".join([_MAGIC, len(texts).to_bytes(4, "little"), _bytes(slots), _bytes(starts), *texts])


def _numbers(data: memoryview) -> Sequence[int]:
    if sys.byteorder == "little":
        return data.cast("I")
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def _bytes(numbers: Sequence[int]) -> bytes:
    return b"".join([number.to_bytes(4, "little") for number in numbers])
