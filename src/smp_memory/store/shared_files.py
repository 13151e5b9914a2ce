"""The designs' files for all sessions: read what other programs and people wrote there, and show SMP's own memories there.

    global/cross-session-preferences.yaml  global/learned-patterns.yaml  global/user-profile.yaml    (designs 002, 003)
    shared/user-preferences.json  shared/agent-knowledge.json                                        (design 001)

Reading. The designs name these files and do not define their content. Any JSON or YAML is read: a mapping with the text of a memory
is that memory with all its fields. Elsewhere each value is a memory of its own, named by the keys above it (`communication.style`); a
list of values below a key is one preference, or one learning for each value. In agent-knowledge.json the first key above a list or a
mapping is the author. A key around the whole file such as `preferences` is not part of a name. The files of other programs are never
changed in what they hold. A file that cannot be read is named in the log and by `smp doctor`.

Design 004 keeps preferences of one session in its metadata (`preferences` in `metadata.json`); they are read in the same way.

Writing. The memories for all sessions are those of the session `global`, which is the truth. In the layouts whose designs have such files,
the key `smp` of these files shows them:

    smp:
      note: …
      checksum: sha256:…
      preferences: […]

`render` writes that key under the lock of the session after each change of the session, and replaces the file atomically; all other
text stays, in YAML byte for byte. The key is never read as memories.
Guarantees: a key `smp` that somebody edited is copied to quarantine before it is written anew. A write to the session never fails because of
these files; what could not be written is logged, and written by the next change or maintenance.
Non-guarantees: a crash between a write and `render` leaves the key as it was before. A file in a form to which no key can be added is
left as it is and reported.
"""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime

from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.files.codec import signature
from smp_memory.files.disk import identity
from smp_memory.files.journal import write_to_quarantine
from smp_memory.model import ids
from smp_memory.model.design_fields import translate_fields
from smp_memory.model.entry import PUT, Entry, check_fields
from smp_memory.model.history import RecordHistory
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import parse, to_text
from smp_memory.model.types import KINDS
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import Histories

PROFILE = "user-profile"
KNOWLEDGE = "agent-knowledge"
OWN_KEY = "smp"
SHARED_FILES = {
    "global/cross-session-preferences.yaml": "preference",
    "global/user-profile.yaml": "preference",
    "global/learned-patterns.yaml": "learning",
    "shared/user-preferences.json": "preference",
    "shared/agent-knowledge.json": "learning",
}
SHARED_FOLDERS = ("global", "shared")
_NOTE = "Made by SMP from the memories of the session global. Change them there; what is changed here is not read."
_SHOWN = {  # by layout and type of memory: the file, and the key below `smp`
    "jsonl": {"preference": "shared/user-preferences.json", "learning": "shared/agent-knowledge.json"},
    "markdown": {"preference": "global/cross-session-preferences.yaml", "learning": "global/learned-patterns.yaml"},
}
_PROFILE_FILE = "global/user-profile.yaml"
_KEYS = {"preference": "preferences", "learning": "patterns"}
_AROUND = re.compile(r"(?:^|_)(?:preferences|profile|patterns|knowledge|learnings|entries|items|memories|agents)$")
_TEXTS = {"learning": ("content", "knowledge", "insight", "description", "text", "value"), "preference": ("content",)}
_AUTHORS = ("agent", "agent_name", "learned_by")
_UNCHECKED_SECONDS = 2.0
_UNREADABLE = (OSError, SMPError, ValueError, TypeError, RecursionError)
_SECTION = re.compile(rb"^(?:smp|- smp):[^\n]*(?:\n|\Z)(?:[ ][^\n]*(?:\n|\Z)|[ ]*\n(?=[ ]))*", re.MULTILINE)


# -- reading


def unindexed_memories(store: FileStore, sessions: list[str] | None) -> Histories:
    """Memories of these sessions, or of all, that are in no entries, by session and id; read again only when a file changed."""
    found: dict[str, Mapping[str, RecordHistory]] = {}
    if sessions is None or GLOBAL_SESSION in sessions:
        found[GLOBAL_SESSION] = shared_memories(store)
    if store.layout.name == "log":
        found.update(_all_preferences(store) if sessions is None else session_preferences(store, sessions))
    return {name: memories for name, memories in found.items() if memories}


def _all_preferences(store: FileStore) -> dict[str, Mapping[str, RecordHistory]]:
    """The same for all sessions. Metadata that another program changed in place is read again after some seconds."""
    folder = store.disk.stat(os.path.join(store.root, store.layout.sessions))
    changed = folder.st_mtime_ns if folder is not None else 0
    if store.preferences[:1] != (changed,) or time.monotonic() > store.preferences[1]:
        found = dict(session_preferences(store, store.layout.names(store.disk, store.root)))
        store.preferences = (changed, time.monotonic() + _UNCHECKED_SECONDS, found)
    return store.preferences[2]


def shared_memories(store: FileStore) -> Mapping[str, RecordHistory]:
    """The memories in the existing files, as memories of the session `global`, by id. The same object until a file changes."""
    stats = [store.disk.stat(os.path.join(store.root, *name.split("/"))) for name in SHARED_FILES]
    version = [identity(state) if state is not None else None for state in stats]
    known = store.known_unindexed.get("")
    if known is None or known[0] != version:
        known = store.known_unindexed[""] = (version, _read_shared(store))
    return known[1]


def session_preferences(store: FileStore, sessions: list[str]) -> Iterator[tuple[str, Mapping[str, RecordHistory]]]:
    """The preferences in the metadata of sessions (design 004), by session and id."""
    files = [f"{name}{os.sep}{store.layout.info_file}" for name in sessions]
    base = os.path.join(store.root, store.layout.sessions)
    for name, found in zip(sessions, store.disk.system.lstat_below(base, files), strict=True):
        if found is None:
            continue
        version, known = (found.st_ino, found.st_size, found.st_mtime_ns), store.known_unindexed.get(name)
        if known is None or known[0] != version:
            known = store.known_unindexed[name] = (version, _in_metadata(store, name))
        if known[1]:
            yield name, known[1]


def _in_metadata(store: FileStore, session: str) -> dict[str, RecordHistory]:
    try:
        info = store.session(session).info()
    except SMPError:
        return {}  # not a session, or `validate` names it
    given = info.other.get("preferences")
    if not isinstance(given, dict):
        return {}
    found: dict[str, RecordHistory] = {}
    path = os.path.join(store.layout.folder(store.root, session), store.layout.info_file)
    for number, fields in enumerate(_SharedReader("preference", names_authors=False).read(given, ()), 1):
        author = {"author": info.user} if info.user else {}
        data = {**author, "author_kind": "user", **fields}
        entry = Entry(PUT, "preference", f"metadata-{number}", info.created_text, data, number, state="unsigned")
        entry.file = path
        found[entry.id] = RecordHistory(entry)
    return found


def _read_shared(store: FileStore) -> dict[str, RecordHistory]:
    found: dict[str, RecordHistory] = {}
    for name in SHARED_FILES:
        try:
            for entry in _entries_of(store, name):
                id, number = entry.id, 1
                while entry.id in found:
                    number += 1
                    entry.id = f"{id}-{number}"
                found[entry.id] = RecordHistory(entry)
        except _UNREADABLE as error:
            _report(os.path.join(store.root, *name.split("/")), error)
    return found


def unreadable_shared(store: FileStore) -> Iterator[tuple[str, str]]:
    """The files that cannot be read, and why."""
    for name in SHARED_FILES:
        try:
            _entries_of(store, name)
        except _UNREADABLE as error:
            yield name, str(error)


def _entries_of(store: FileStore, name: str) -> list[Entry]:
    path = os.path.join(store.root, *name.split("/"))
    found = store.disk.stat(path)
    if found is None:
        return []
    data = store.disk.read_small(path)
    if name.endswith(".yaml") and not _SECTION.sub(b"", data).strip():
        return []  # nothing but SMP's own part: the YAML library need not be loaded
    written, stem = (
        to_text(datetime.fromtimestamp(found.st_mtime_ns // 10**9, UTC)),
        os.path.basename(name).partition(".")[0],
    )
    entries: list[Entry] = []
    content = _without_own(_load(data, name))
    for number, fields in enumerate(_memories(content, SHARED_FILES[name], stem), 1):
        given_id, at = fields.pop("id", None), fields.pop("created", None)
        id = given_id if isinstance(given_id, str) and ids.is_valid(given_id) else f"{stem}-{number}"
        if stem == PROFILE:
            fields["category"] = PROFILE
        _settle(SHARED_FILES[name], fields)
        entry = Entry(PUT, SHARED_FILES[name], id, _time(at, written), fields, seq=number, state="unsigned", file=path)
        entries.append(entry)
    return entries


def _settle(type: str, fields: dict[str, Any]) -> None:
    """Keep a value that its field cannot hold as text: no value of such a file gets lost."""
    for _ in range(len(fields) + 1):
        try:
            check_fields(type, fields)
            return
        except InvalidRecord as error:
            name = str(error.details["field"])
            fields[name] = json.dumps(fields[name], ensure_ascii=False, default=str)


def _load(data: bytes, name: str) -> Any:
    if name.endswith(".json"):
        return json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    from smp_memory.files.yaml_text import load_value

    found = load_value(data)
    return {} if found is None else found


def _without_own(content: Any) -> Any:
    """The content without what SMP wrote there."""
    if isinstance(content, dict):
        return {name: value for name, value in content.items() if name != OWN_KEY}
    if isinstance(content, list):
        return [item for item in content if not (isinstance(item, dict) and set(item) == {OWN_KEY})]
    return content


def _memories(content: Any, type: str, stem: str) -> Iterator[dict[str, Any]]:
    """The fields of each memory in a file, with SMP's names."""
    reader = _SharedReader(type, names_authors=stem == KNOWLEDGE)
    if not isinstance(content, dict) or reader.is_memory(content):
        yield from reader.read(content, ())
        return
    for name, inner in content.items():
        is_around = isinstance(inner, (dict, list)) and _AROUND.search(str(name).replace("-", "_").lower())
        yield from reader.read(inner, () if is_around else (str(name),))


class _SharedReader:
    """Walks through the content of one file."""

    def __init__(self, type: str, *, names_authors: bool) -> None:
        self._kind = KINDS[type]
        self._names_authors = names_authors
        self._required = {name for group in self._kind.required for name in group} | set(_TEXTS.get(type, ()))

    def read(self, value: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and self.is_memory(value):
            yield self._memory(value, path)
        elif isinstance(value, dict):
            for name, inner in value.items():
                yield from self.read(inner, (*path, str(name)))
        elif isinstance(value, list) and (not path or not self._kind.is_named_by_key or self._has_memories(value)):
            for item in value:
                yield self._memory(item, path) if self.is_memory(item) else self._named(path, item)
        elif value is not None:
            yield self._named(path, value)

    def is_memory(self, value: Any) -> bool:
        """Whether a mapping holds the text of a memory."""
        return isinstance(value, dict) and any(
            self._kind.aliases.get(name, name) in self._required and not (isinstance(inner, dict) and name != "value")
            for name, inner in value.items()
        )

    def _has_memories(self, values: list[Any]) -> bool:
        return any(map(self.is_memory, values))

    def _memory(self, item: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        kind = self._kind
        fields: dict[str, Any] = {}
        for name, value in translate_fields(kind, item).items():
            ours = kind.aliases.get(name, name)
            fields[name if ours in item or ours in fields else ours] = value
        if not any(fields.get(name) is not None for name in (kind.text, *kind.parts)):
            name = next((name for name in _TEXTS[kind.name] if fields.get(name) is not None), "")
            if name:
                fields[kind.text] = fields.pop(name)
        if fields.get(kind.text) is not None:
            fields[kind.text] = _as_text(fields[kind.text])
        author = next((fields[name] for name in _AUTHORS if isinstance(fields.get(name), str)), None)
        if author is not None:
            fields.setdefault("author", author)
        return self._placed(fields, path)

    def _named(self, path: tuple[str, ...], value: Any) -> dict[str, Any]:
        """A value without fields of its own: a preference with a key, or a learning with a topic."""
        kind = self._kind
        if kind.is_named_by_key:
            return {"key": ".".join(path), "value": value} if path else {kind.text: _as_text(value)}
        text, inner = _as_text(value), path[1:] if self._names_authors and len(path) > 1 else path
        is_sentence = isinstance(value, str) and " " in value.strip()
        named = text if is_sentence or not inner else f"{'.'.join(inner)}: {text}"
        return self._placed({kind.text: named}, path)

    def _placed(self, fields: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """The fields with what the keys above them say."""
        if not path:
            return fields
        if self._kind.is_named_by_key:
            fields.setdefault("key", ".".join(path))
            return fields
        if self._names_authors and ids.is_valid(path[0]):
            fields.setdefault("author", path[0])
        fields.setdefault("topic", ".".join(path))
        return fields


def _as_text(value: Any) -> str:
    """A value as text that names each leaf by its keys."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_as_text(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def _time(value: Any, default: str) -> str:
    try:
        return parse(value, "created") if value is not None else default
    except InvalidRecord:
        return default


def _report(path: str, error: Exception) -> None:
    import logging  # rare, and slow to load

    logging.getLogger("smp_memory").warning("%s cannot be read and is left out: %s", path, error)


# -- writing


def renew(store: FileStore) -> None:
    """Show the memories for all sessions as they are now. Never fails: what could not be written is logged."""
    try:
        if store.has_session(GLOBAL_SESSION):
            session = store.session(GLOBAL_SESSION)
            session.run_unmarked("showing memories for all sessions", lambda: render(store, session))
        else:
            render(store, None)
    except (SMPError, OSError) as error:
        text = f"The files for all sessions do not show the last change ({error}); `smp maintain` renews them"
        telemetry.emit("storage", telemetry.WARNING, "shared_files_stale", text, GLOBAL_SESSION)


def render(store: FileStore, session: FileSession | None) -> None:
    """Show the memories of the session `global` in these files; without a session, remove what was shown."""
    if store.layout.name not in _SHOWN and not any(
        store.disk.is_folder(os.path.join(store.root, name)) for name in SHARED_FOLDERS
    ):
        return
    parts = _parts(store, session, session.history()) if session is not None else {}
    for name in SHARED_FILES:
        try:
            _show(store, session, name, parts.get(name))
        except _UNREADABLE as error:
            path = os.path.join(store.root, *name.split("/"))
            text = f"{path} does not show the memories for all sessions: {error}"
            telemetry.emit("storage", telemetry.WARNING, "shared_files_stale", text, GLOBAL_SESSION, path=path)


def _parts(store: FileStore, session: FileSession, history: SessionHistory) -> dict[str, dict[str, Any]]:
    """What each file shows, by file."""
    from smp_memory.privacy.visibility import Viewer

    parts: dict[str, dict[str, Any]] = {}
    files = _SHOWN.get(store.layout.name, {})
    for each in history.histories.values():
        record = each.record(session.session) if each.deletion is None and each.first.type in files else None
        if record is None or not Viewer(None).sees(record):
            continue
        if files["preference"] != "shared/user-preferences.json" and record.given.get("category") == PROFILE:
            parts.setdefault(_PROFILE_FILE, {}).setdefault("profile", {})[str(record.key)] = record.given.get("value")
        else:
            part = parts.setdefault(files[record.type], {})
            part.setdefault(_KEYS[record.type], []).append(_item(store, record))
    return {
        name: {"note": _NOTE, "checksum": signature(json.dumps(part, sort_keys=True).encode()), **part}
        for name, part in parts.items()
    }


def _item(store: FileStore, record: Record) -> dict[str, Any]:
    names = store.layout.field_names
    return {"id": record.id, names.time: to_text(record.created), **names.encode_fields(record.type, record.given)}


def _show(store: FileStore, session: FileSession | None, name: str, part: dict[str, Any] | None) -> None:
    disk, path = store.disk, os.path.join(store.root, *name.split("/"))
    old = disk.read(path) if disk.exists(path) else b""
    content = _load(old, name) if old.strip() else {}
    shown = _own_part(content)
    if shown == part:
        return
    if shown is not None and not _is_as_written(shown):
        private = session.reader.private if session is not None else os.path.join(store.root, ".smp")
        write_to_quarantine(disk, private, name, old)
    new = (_json_with if name.endswith(".json") else _yaml_with)(old, content, part)
    if _load(new, name) != _with_own(_without_own(content), part):
        raise ValueError("the file has a form to which the key smp cannot be added; make it a mapping")
    if not new.strip():
        disk.remove(path)
    else:
        disk.make_folder(os.path.dirname(path))
        disk.replace(path, new)


def _own_part(content: Any) -> Any:
    if isinstance(content, list):
        return next((item[OWN_KEY] for item in content if isinstance(item, dict) and set(item) == {OWN_KEY}), None)
    return content.get(OWN_KEY) if isinstance(content, dict) else None


def _is_as_written(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    fields = {name: value for name, value in part.items() if name not in ("note", "checksum")}
    return part.get("checksum") == signature(json.dumps(fields, sort_keys=True).encode())


def _with_own(content: Any, part: dict[str, Any] | None) -> Any:
    if part is None:
        return content
    return [*content, {OWN_KEY: part}] if isinstance(content, list) else {**content, OWN_KEY: part}


def _json_with(old: bytes, content: Any, part: dict[str, Any] | None) -> bytes:
    new = _with_own(_without_own(content), part)
    return (json.dumps(new, ensure_ascii=False, indent=2) + "\n").encode() if new else b""


def _yaml_with(old: bytes, content: Any, part: dict[str, Any] | None) -> bytes:
    from smp_memory.files.yaml_text import emit_mapping

    rest = _SECTION.sub(b"", old)
    rest += b"" if not rest or rest.endswith(b"\n") else b"\n"
    if part is None:
        return rest
    if isinstance(content, list):
        return rest + b"- " + emit_mapping({OWN_KEY: part}, "  ").encode()[2:]
    return rest + emit_mapping({OWN_KEY: part}).encode()
