"""Files of exports of chats from the web: `conversations.json` or `conversations-NNN.json`, unpacked or in the zip archive.

Exports of several services have files of one name; a field that all conversations of a service have (`marker`) tells them apart.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from smp_memory.errors import UserError
from smp_memory.importers.conversations import files_below, some
from smp_memory.importers.registry import Found, size_of
from smp_memory.importers.source import ImportFile, Source

if TYPE_CHECKING:
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
