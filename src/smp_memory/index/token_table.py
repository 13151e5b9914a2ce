"""The tokens of the embedding model as one block of bytes that answers a lookup without being parsed.

Parsing the model's own list of 32,000 tokens takes a new process longer than everything else that a question needs. So the list is
converted once, and the block is kept in the user's state folder; a process reads it as it is.

    12 bytes                         `_MAGIC` with the version of the form, CRC-32 of all that follows
    _STAMP_BYTES                     the size and time of the file that it was made from
    4 bytes                          the number of tokens
    4 bytes × _SLOTS                 a hash table: the number of a token + 1, or 0
    4 bytes × (tokens + 1)           where each token begins in the text
    the rest                         the text of all tokens, UTF-8

Numbers are little-endian. Guarantees: a block that is torn, of another version, or made from another file is not used.
"""

from __future__ import annotations

import sys
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ABSENT = 1 << 30  # as the number of a token that does not exist: larger than all others
_MAGIC = b"SMPTOK 1"
_STAMP_BYTES = 16
_HEAD_BYTES = len(_MAGIC) + 4 + _STAMP_BYTES + 4
_SLOTS = 1 << 16  # a power of two, at least twice the number of tokens
_MEMO_PIECES = 200_000


class TokenTable:
    """Numbers of tokens by text."""

    def __init__(self, block: bytes, stamp: bytes) -> None:
        """Raises ValueError if the block is not one that was made with this stamp."""
        checked = len(_MAGIC) + 4
        if (
            len(block) < _HEAD_BYTES
            or block[: len(_MAGIC)] != _MAGIC
            or block[checked : checked + _STAMP_BYTES] != stamp
        ):
            raise ValueError("a token table of another version or of another file")
        if int.from_bytes(block[len(_MAGIC) : checked], "little") != crc32(memoryview(block)[checked:]):
            raise ValueError("a damaged token table")
        self.count = int.from_bytes(block[_HEAD_BYTES - 4 : _HEAD_BYTES], "little")
        starts_at = _HEAD_BYTES + 4 * _SLOTS
        text_at = starts_at + 4 * (self.count + 1)
        parts = memoryview(block)
        self._slots = _numbers(parts[_HEAD_BYTES:starts_at])
        self._starts = _numbers(parts[starts_at:text_at])
        self._text = parts[text_at:]
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


def make_block(tokens: Mapping[str, int], stamp: bytes) -> bytes:
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
    body = b"".join([stamp, len(texts).to_bytes(4, "little"), _bytes(slots), _bytes(starts), *texts])
    return _MAGIC + crc32(body).to_bytes(4, "little") + body


def stamp_of(size: int, modified_ns: int) -> bytes:
    """Identifies a state of the file that a block is made from."""
    return size.to_bytes(8, "little") + modified_ns.to_bytes(8, "little", signed=True)


def _numbers(data: memoryview) -> Sequence[int]:
    if sys.byteorder == "little":
        return data.cast("I")
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def _bytes(numbers: Sequence[int]) -> bytes:
    return b"".join([number.to_bytes(4, "little") for number in numbers])
