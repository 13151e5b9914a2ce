"""Read the files in which the designs keep what holds in all sessions. They are read in place and never written.

    global/cross-session-preferences.yaml  global/learned-patterns.yaml  global/user-profile.yaml    (002, 003)
    shared/user-preferences.json  shared/agent-knowledge.json                                        (001)

The designs name these files and do not say what is in them, so any of these forms is read: a list of entries or of texts, an object of
entries by name, an object of values by name, each also below one key. A file that cannot be read is named in the log.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.model import ids
from smp_memory.model.design_fields import translate_fields
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.record import CLASSES
from smp_memory.model.times import parse, to_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.store.file_store import FileStore

PROFILE = "user-profile"
FILES = {
    "global/cross-session-preferences.yaml": "preference",
    "global/user-profile.yaml": "preference",
    "global/learned-patterns.yaml": "learning",
    "shared/user-preferences.json": "preference",
    "shared/agent-knowledge.json": "learning",
}
FOLDERS = ("global", "shared")


def shared_records(store: FileStore, type: str, session: str) -> list[Record]:
    """The memories of this type in the files that are there."""
    found: list[Record] = []
    for name, kind in FILES.items():
        path = os.path.join(store.root, *name.split("/"))
        if kind == type and store.disk.exists(path):
            try:
                found += _records(store, path, name, kind, session)
            except (OSError, SMPError, ValueError, TypeError, RecursionError) as error:
                _report(path, error)
    return found


def all_shared(store: FileStore, session: str = "") -> list[Record]:
    """All memories in these files, as those of a session; nothing is looked for if neither folder is there."""
    if not any(store.disk.is_folder(os.path.join(store.root, name)) for name in FOLDERS):
        return []
    return [record for type in dict.fromkeys(FILES.values()) for record in shared_records(store, type, session)]


def unreadable(store: FileStore) -> Iterator[tuple[str, str]]:
    """The files that cannot be read, and why."""
    for name, kind in FILES.items():
        path = os.path.join(store.root, *name.split("/"))
        try:
            if store.disk.exists(path):
                _records(store, path, name, kind, "")
        except (OSError, SMPError, ValueError, TypeError, RecursionError) as error:
            yield name, str(error)


def _records(store: FileStore, path: str, name: str, type: str, session: str) -> list[Record]:
    stem, _, ending = os.path.basename(name).partition(".")
    data = store.disk.read(path)
    stat = store.disk.stat(path)
    written = to_text(datetime.fromtimestamp(stat.st_mtime if stat is not None else 0, UTC))
    content = json.loads(data.decode("utf-8-sig")) if ending == "json" else _yaml(data)
    records: list[Record] = []
    for number, fields in enumerate(_entries(content, type), 1):
        given = dict(fields)
        said = given.pop("id", None)
        id = said if isinstance(said, str) and ids.is_valid(said) else f"{stem}-{number}"
        at = given.pop("created", None)
        if stem == PROFILE:
            given["category"] = PROFILE
        entry = Entry(PUT, type, id, _time(at, written), given, seq=number, state="unsigned", file=name)
        records.append(CLASSES[type](session, entry, given, entry, 1, None))
    return records


def _yaml(data: bytes) -> Any:
    from smp_memory.files.yaml_list import load_mapping

    return load_mapping(data)


def _entries(content: Any, type: str) -> Iterator[dict[str, Any]]:
    """The entries of a file, in SMP's names."""
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


def _time(said: Any, otherwise: str) -> str:
    try:
        return parse(said, "created") if said is not None else otherwise
    except InvalidRecord:
        return otherwise


def _report(path: str, error: Exception) -> None:
    import logging  # rare, and slow to load

    logging.getLogger("smp_memory").warning("%s cannot be read and is left out: %s", path, error)
