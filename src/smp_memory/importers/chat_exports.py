"""Files of exports of chats from the web: `conversations.json` or `conversations-NNN.json`, unpacked or in the zip archive.

Exports of several services have files of one name; a field that all conversations of a service have (`marker`) tells them apart.

Read a JSON array of objects item by item, without holding the whole of it.

Guarantees: one item is held at a time. An item that is damaged is noted as unread, and reading goes on at the next object with the field
`marker`; a file that ends in the middle of an item loses only that one. An object alone counts as an array of one.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.conversations import files_below, some
from smp_memory.importers.registry import Found, size_of
from smp_memory.importers.source import HALF_WRITTEN, LINE_BYTES, ImportFile, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Places
    from smp_memory.importers.source import Reader


_NAME = re.compile(r"conversations(?:-\d+)?\.json")
_HEAD_BYTES = 1 << 16
_MARKERS = {"mapping": "chatgpt", "chat_messages": "claude-ai"}  # of conversations, and the importers that read them
_MOST_ARCHIVES = 200  # of a folder that is scanned


def found_exports(places: Places, marker: str, title: str) -> list[Found]:
    """The exports of one service in the folder of downloads."""
    folder = os.path.join(places.home, "Downloads")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [os.path.join(folder, name) for name in names if name.endswith(".zip") or _NAME.fullmatch(name)]
    paths += [os.path.join(folder, name) for name in names if _has_export(os.path.join(folder, name))]
    offers = []
    for path in paths[:_MOST_ARCHIVES]:
        parts = [each for each in _parts(path) if _marker_of(*each) == marker]
        if parts:
            size = size_of(path) if path.endswith(".zip") else sum(size_of(whole) for whole, _, _ in parts)
            offers.append(Found(path, title, len(parts), size))
    return offers


def export_files(path: str, marker: str, reader: Reader) -> list[ImportFile]:
    """The files with conversations at a path. Raises UserError if they are of another service."""
    parts = _parts(path)
    others = {_marker_of(*each) for each in parts} - {marker, ""}
    if others and marker not in {_marker_of(*each) for each in parts}:
        name = _MARKERS[others.pop()]
        raise UserError(f"{path} is an export of another service. Import it with: smp import --from {name}", path=path)
    listed = [ImportFile(whole, name, reader, "conversations", member=member) for whole, name, member in parts]
    return some(listed, path, "conversations.json, also not in a zip archive")


def _has_export(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "conversations.json"))


def _parts(path: str) -> list[tuple[str, str, str]]:
    """The files with conversations: path, name and, in an archive, the name of the member."""
    if path.endswith(".zip") and os.path.isfile(path):
        return [(path, f"{os.path.basename(path)}/{member}", member) for member in _members(path)]
    found = files_below(path, lambda name, folder: _NAME.fullmatch(name) is not None)
    return [(whole, name, "") for whole, name in found]


def _members(path: str) -> list[str]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(name for name in archive.namelist() if _NAME.fullmatch(name.rpartition("/")[2]))
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        return []


def _marker_of(path: str, name: str, member: str) -> str:
    """The field by which the beginning of a file is recognised; empty if there is none."""
    head = b"".join(Source(path, name, member).chunks(_HEAD_BYTES))
    places = {head.find(f'"{marker}"'.encode()): marker for marker in _MARKERS}
    first = min((place for place in places if place >= 0), default=-1)
    return places[first] if first >= 0 else ""


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
