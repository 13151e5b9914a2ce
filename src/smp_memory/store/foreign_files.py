"""Files in a store's folder that SMP does not write: sessions in another layout, and the designs' files for all sessions.

Sessions in another layout than the store's are not read; `smp convert` imports them. They exist after a git merge of a clone
that converted the store with one that added sessions in the old layout, and where programs of designs 000 and 003 wrote into
one `.bmad/sessions`. `unread_sessions` recognises them by name, and `{session}.jsonl` in the root by a metadata line or by a
first line in the form of design 000; it reads no memories.

The designs keep in some files what applies to all sessions. They are read in place and never written:

    global/cross-session-preferences.yaml  global/learned-patterns.yaml  global/user-profile.yaml    (designs 002, 003)
    shared/user-preferences.json  shared/agent-knowledge.json                                        (design 001)

The designs name these files and do not define their content, so any of these forms is read: a list of entries or of texts, an object of
entries by name, an object of values by name, each also below one key. A file that cannot be read is named in the log.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime

from smp_memory.errors import InvalidRecord, SessionCorrupt, SMPError
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.reader import SessionReader
from smp_memory.model import ids
from smp_memory.model.clone_merge import in_order
from smp_memory.model.design_fields import translate_fields
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.field_rules import check_fields
from smp_memory.model.record import CLASSES
from smp_memory.model.times import parse, to_text
from smp_memory.model.types import KINDS
from smp_memory.store.session_metadata import read_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import UnreadSession
    from smp_memory.store.file_store import FileStore


_METADATA = b'"type":"session"'
_MEMBERS = [re.compile(rb'[{,]\s*"' + name + rb'"\s*:') for name in (b"id", b"type", b"ts")]  # of an entry of 000
_FIRST_BYTES = 4096
_FOLDERS = {"jsonl": "sessions", "log": "sessions", "markdown": "active", "single": ""}


def unread_sessions(
    disk: Disk, root: str, current: Layout, session: str | None = None, opened: list[str] | None = None
) -> list[UnreadSession]:
    """Session files in other layouts; of one session, if it is named.

    With `opened`, a layout that shares the folder of the current one is searched in these sessions only, to save time.
    """
    found = []
    for name in NAMES:
        if name == current.name or not disk.exists(os.path.join(root, _FOLDERS[name])):
            continue  # before the layout's module is loaded
        layout = layout_named(name)
        is_shared = opened is not None and layout.sessions == current.sessions
        names = [session] if session is not None else opened if is_shared else _sessions(disk, root, layout)
        for each in names or ():
            folder = layout.folder(root, each)
            files = _files(disk, folder, layout, each)
            if files and folder == current.folder(root, each):
                files = [
                    file for file in files if not current.is_session_file(file, each) and file != current.info_file
                ]
            if files == [layout.info_file] and current.exists(disk, root, each):
                continue  # metadata of a session whose memories are all in the current layout
            if files:
                from smp_memory.model.storage_reports import UnreadSession  # rare; every command looks for such files

                found.append(UnreadSession(name, each, folder, files, os.path.join(folder, files[0])))
    return found


def _sessions(disk: Disk, root: str, layout: Layout) -> list[str]:
    if not layout.sessions and not any(name.endswith(".jsonl") for name in disk.names(root)):
        return []
    return layout.session_ids(disk, root)


def _files(disk: Disk, folder: str, layout: Layout, session: str) -> list[str]:
    files = layout.files(disk, folder, session)
    if layout.info_file:
        return files + [name for name in [layout.info_file] if disk.exists(os.path.join(folder, name))]
    return [file for file in files if _is_session(disk.read(os.path.join(folder, file), 0, _FIRST_BYTES))]


def _is_session(data: bytes) -> bool:
    first = data.partition(b"\n")[0]
    return _METADATA in data or all(member.search(first) for member in _MEMBERS)


def describe_unread(store: FileStore) -> str:
    """One line about unread sessions; empty if there are none. In a folder that two layouts share, only opened sessions are checked."""
    found = unread_sessions(store.disk, store.root, store.layout, opened=store.opened_session_ids())
    if not found:
        return ""
    from smp_memory.model.storage_reports import unread_advice

    more = f" {len(found) - 1} more: `smp validate --all`." if len(found) > 1 else ""
    return f"{found[0].text(store.layout.name)}{more} {unread_advice(store.layout.name)}"


# -- importing


class ForeignSession:
    """The entries and metadata of a session in other layouts."""

    def __init__(self, disk: Disk, root: str, found: list[UnreadSession]) -> None:
        self.entries: list[Entry] = []
        self.infos: list[SessionInfo] = []
        for each in found:
            layout = layout_named(each.layout)
            reader = SessionReader(disk, layout, root, each.session)
            reader.catch_up()
            broken = next((problem for problem in reader.problems() if problem.severity == "error"), None)
            if broken is not None:
                raise SessionCorrupt(
                    f"{broken}. Correct it first; nothing was imported.", session=each.session, path=broken.path
                )
            self.entries += in_order(entry for state in reader.states.values() for entry in state.entries)
            if not layout.info_file or layout.info_file in each.files:
                self.infos.append(read_info(disk, layout, reader))

    def new(self, known: list[Entry]) -> list[Entry]:
        """The entries that the session does not have yet, renumbered to follow those that it has."""
        keys = {entry.key for entry in known}
        last = max((entry.seq for entry in known), default=0)
        added = []
        for entry in self.entries:
            if entry.key not in keys:
                keys.add(entry.key)
                entry.tx = ""  # all transactions are complete here
                entry.seq = last = max(entry.seq, last + 1)
                added.append(entry)
        return added


def append_entries(old: dict[str, bytes], entries: list[Entry], layout: Layout, session: str) -> dict[str, bytes]:
    """The files of a session with entries appended."""
    parts = {name: [data] for name, data in old.items()}
    for entry in entries:
        name, data = layout.encode(entry, session)
        if name not in parts:
            parts[name] = [layout.codec_of(name).header(layout.title_of(name, session))]
        elif parts[name][-1] and not parts[name][-1].endswith(b"\n"):
            parts[name].append(b"\n")
        parts[name].append(data)
    return {name: b"".join(part) for name, part in parts.items()}


# -- files of the designs for all sessions


PROFILE = "user-profile"
SHARED_FILES = {
    "global/cross-session-preferences.yaml": "preference",
    "global/user-profile.yaml": "preference",
    "global/learned-patterns.yaml": "learning",
    "shared/user-preferences.json": "preference",
    "shared/agent-knowledge.json": "learning",
}
SHARED_FOLDERS = ("global", "shared")


def shared_records(store: FileStore, type: str, session: str) -> list[Record]:
    """The memories of this type in the existing files."""
    found: list[Record] = []
    for name, kind in SHARED_FILES.items():
        path = os.path.join(store.root, *name.split("/"))
        if kind == type and store.disk.exists(path):
            try:
                found += _records(store, path, name, kind, session)
            except (OSError, SMPError, ValueError, TypeError, RecursionError) as error:
                _report(path, error)
    return found


def all_shared(store: FileStore, session: str = "") -> list[Record]:
    """All memories in these files, as memories of `session`; empty if neither folder exists."""
    if not any(store.disk.is_folder(os.path.join(store.root, name)) for name in SHARED_FOLDERS):
        return []
    return [record for type in dict.fromkeys(SHARED_FILES.values()) for record in shared_records(store, type, session)]


def unreadable_shared(store: FileStore) -> Iterator[tuple[str, str]]:
    """The files that cannot be read, and why."""
    for name, kind in SHARED_FILES.items():
        path = os.path.join(store.root, *name.split("/"))
        try:
            if store.disk.exists(path):
                _records(store, path, name, kind, "")
        except (OSError, SMPError, ValueError, TypeError, RecursionError) as error:
            yield name, str(error)


def _records(store: FileStore, path: str, name: str, type: str, session: str) -> list[Record]:
    stem, _, ending = os.path.basename(name).partition(".")
    data = store.disk.read_small(path)
    stat = store.disk.stat(path)
    written = to_text(datetime.fromtimestamp(stat.st_mtime if stat is not None else 0, UTC))
    content = json.loads(data.decode("utf-8-sig")) if ending == "json" else _yaml(data)
    records: list[Record] = []
    for number, fields in enumerate(_entries(content, type), 1):
        given = dict(fields)
        given_id = given.pop("id", None)
        id = given_id if isinstance(given_id, str) and ids.is_valid(given_id) else f"{stem}-{number}"
        at = given.pop("created", None)
        if stem == PROFILE:
            given["category"] = PROFILE
        check_fields(type, given)
        entry = Entry(PUT, type, id, _time(at, written), given, seq=number, state="unsigned", file=name)
        records.append(CLASSES[type](session, entry, given, entry, 1, None))
    return records


def _yaml(data: bytes) -> Any:
    from smp_memory.files.yaml_text import load_mapping

    return load_mapping(data)


def _entries(content: Any, type: str) -> Iterator[dict[str, Any]]:
    """The entries of a file, with SMP's field names."""
    while isinstance(content, dict) and len(content) == 1 and isinstance(next(iter(content.values())), (dict, list)):
        content = next(iter(content.values()))
    kind = KINDS[type]
    named: Any = content.items() if isinstance(content, dict) else ((None, item) for item in content or ())
    if isinstance(content, dict) and any(kind.aliases.get(name, name) in kind.rank for name in content):
        named = ((None, content),)
    for name, item in named:
        if isinstance(item, dict):
            fields = {kind.aliases.get(each, each): value for each, value in translate_fields(kind, item).items()}
            if name is not None and type == "preference":
                fields.setdefault("key", name)
        elif type == "preference" and name is not None:
            fields = {"key": name, "value": item}
        else:
            fields = {kind.text: item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)}
            if name is not None:
                fields["topic"] = name
        yield fields


def _time(value: Any, default: str) -> str:
    try:
        return parse(value, "created") if value is not None else default
    except InvalidRecord:
        return default


def _report(path: str, error: Exception) -> None:
    import logging  # rare, and slow to load

    logging.getLogger("smp_memory").warning("%s cannot be read and is left out: %s", path, error)
