"""Read a JSON array of objects item by item, without holding the whole of it.

Guarantees: one item is held at a time. An item that is damaged is noted as unread, and reading goes on at the next object with the field
`marker`; a file that ends in the middle of an item loses only that one. An object alone counts as an array of one.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any

from smp_memory.importers.source import HALF_WRITTEN, LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.source import Source

_BETWEEN = re.compile("[ \t\r\n,\ufeff]*")
_KEPT_CHARACTERS = 1 << 20  # of text before the current item
_LONGEST_TOKEN = 32  # characters: a number or a name that the end of the text cuts
_decode = json.JSONDecoder().raw_decode


def items_of(source: Source, marker: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array, each with the line on which it begins."""
    text = _Text(source)
    while text.skip_to_item():
        line, value = text.line, text.next_item()
        if type(value) is dict and marker in value:
            yield line, value
        elif value is not None:
            source.cannot_read(line, f"no object with the field {marker}")
        elif not text.skip_damage(marker):
            return


class _Text:
    """The text that was read, and the position of the current item in it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._chunks = source.chunks()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._at = 0
        self._is_begun = False  # whether the bracket of the array was read
        self.line = 1

    def skip_to_item(self) -> bool:
        """Move to the next item. False: the array has ended."""
        while True:
            at = _end_of_space(self._text, self._at)
            if not self._is_begun and self._text[at : at + 1] == "[":
                self._is_begun = True
                at = _end_of_space(self._text, at + 1)
            self._move(at)
            if at < len(self._text):
                break
            self._drop()
            if not self._read_more():
                return False
        if self._at > _KEPT_CHARACTERS:
            self._drop()
        return self._text[self._at] != "]"

    def next_item(self) -> Any:
        """The item, and move behind it; None if it is damaged or incomplete."""
        value, end = self._decoded(self._at)
        self._move(end)
        return value

    def skip_damage(self, marker: str) -> bool:
        """Move from a damaged item to the next object that has the field. False: there is none."""
        line, begin = self.line, self._at + 1
        while True:
            at = self._text.find("{", begin)
            self._move(at if at >= 0 else len(self._text))
            if at < 0 or at > _KEPT_CHARACTERS:
                self._drop()
            if at < 0:
                begin = 0
                if self._read_more():
                    continue
                self._source.cannot_read(line, HALF_WRITTEN)
                return False
            value, end = self._decoded(self._at)
            if type(value) is dict and marker in value:
                self._source.cannot_read(line, "damaged JSON")
                return True
            begin = max(self._at + 1, end)

    def _decoded(self, at: int) -> tuple[Any, int]:
        """The value at a position and its end; None and the position if it is damaged, incomplete or too large."""
        while True:
            try:
                return _decode(self._text, at)
            except RecursionError:
                return None, at
            except ValueError as error:
                left = len(self._text) - at
                if left > LINE_BYTES or not _is_incomplete(error, self._text):
                    return None, at
                if not self._read_more(min(left, LINE_BYTES + 1 - left)):
                    return None, at

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to

    def _drop(self) -> None:
        """Drop the text before the current position, so that what is skipped is not held."""
        self._text, self._at = self._text[self._at :], 0

    def _read_more(self, at_least: int = 1) -> bool:
        """Read on, at least this many characters if there are so many, so that decoding again and again stays linear."""
        pieces, count = [self._text], 0
        for chunk in self._chunks:
            pieces.append(self._decoder.decode(chunk))
            count += len(pieces[-1])
            if count >= at_least:
                break
        self._text = "".join(pieces)
        return count > 0


def _end_of_space(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _is_incomplete(error: ValueError, text: str) -> bool:
    """Whether more text may complete what could not be decoded."""
    position = getattr(error, "pos", 0)
    return str(error).startswith("Unterminated string") or position + _LONGEST_TOKEN >= len(text)
