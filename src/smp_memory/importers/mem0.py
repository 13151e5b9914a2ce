"""Read memories of mem0: what `get_all` or an export returned as JSON, backups of OpenMemory, and the history database.

    [{"id": …, "memory": "Prefers tea", "created_at": …}]                       a list, or {"results": […]} as get_all returns it
    {"memories": [{"content": "Prefers tea", "state": "active", …}], …}         memories.json of an OpenMemory backup, also in its zip
    history.db                                                                  the newest text of each memory that was not deleted

Each is a learning with its categories as tags and its user, agent and run as fields; below a category of preferences it is a preference. A
memory that mem0 changed is updated when it is imported again.

Guarantees: memories that mem0 calls deleted or archived are left out, and the report says how many. An item that is not understood is reported, the rest is read.
Non-guarantee: the vectors in a local qdrant or faiss folder are not read, because their payload is pickled Python; `files` says how to
export them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.foreign_sqlite import is_database, opened, rows, tables
from smp_memory.importers.registry import Found, found_files
from smp_memory.importers.source import ANYWHERE, ImportFile, IngestedMemory, Source
from smp_memory.importers.values import as_list, as_text, as_time, tags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from sqlite3 import Connection

    from smp_memory.importers.registry import ImportOptions, Places

_HISTORY = "history.db"
_LISTS = ("results", "memories", "data", "items")
_TEXTS = ("memory", "content", "data", "text")
_KEPT = ("user_id", "agent_id", "app_id", "app", "run_id", "actor_id", "role")
_GONE = ("deleted", "archived")
_EXPORT = (
    "mem0 keeps its vectors here, which SMP does not read. Export them first, in Python: "
    "json.dump(Memory().get_all(filters={'user_id': 'YOU'}, top_k=100000), open('mem0.json', 'w'))"
)


def found(places: Places) -> list[Found]:
    file = os.path.join(_folder(places), _HISTORY)
    return found_files(file, "mem0, history of memories", [file])


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    file = path or os.path.join(_folder(options.places), _HISTORY)
    if os.path.isdir(file):
        history = os.path.join(file, _HISTORY)
        if not os.path.isfile(history):
            raise UserError(f"{path} has no {_HISTORY}. {_EXPORT}", path=file)
        file = history
    if not os.path.isfile(file):
        raise UserError(f"There is no {file}. {_EXPORT}", path=file)
    name = os.path.basename(file)
    if is_database(file):
        return [ImportFile(file, name, read_history, "history")]
    if name.endswith(".zip"):
        return [ImportFile(file, name, read_export, "backup", member="memories.json")]
    return [ImportFile(file, name, read_lines if name.endswith(".jsonl") else read_export, "export")]


def _folder(places: Places) -> str:
    return places.path("MEM0_DIR", ".mem0")


def read_export(source: Source) -> Iterator[IngestedMemory]:
    value = source.json_value()
    if source.unread:
        return
    lists = [value.get(name) for name in _LISTS] if isinstance(value, dict) else [value]
    listed = next((each for each in lists if isinstance(each, list)), None)
    if listed is None:
        source.cannot_read(1, "neither a list of memories nor an object with results or memories")
        return
    yield from _items(source, enumerate(listed, 1), _categories(value))


def read_lines(source: Source) -> Iterator[IngestedMemory]:
    yield from _items(source, source.json_lines(), {})


def _items(source: Source, items: Iterable[tuple[int, Any]], categories: dict[str, str]) -> Iterator[IngestedMemory]:
    gone = 0
    for number, item in items:
        if isinstance(item, dict) and as_text(item.get("state")) in _GONE:
            gone += 1
        else:
            yield from _item(source, item, number, categories)
    if gone:
        source.leave_out(f"memories that mem0 calls deleted or archived: {gone:,}")


def _categories(value: Any) -> dict[str, str]:
    """The names of categories by their id, in a backup of OpenMemory."""
    listed = value.get("categories") if isinstance(value, dict) else None
    pairs = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {as_text(each.get("id")): as_text(each.get("name")) for each in pairs}


def _item(source: Source, item: Any, number: int, categories: dict[str, str]) -> Iterator[IngestedMemory]:
    if not isinstance(item, dict):
        source.cannot_read(number, f"item {number}: not an object")
        return
    text = next((found for name in _TEXTS if (found := as_text(item.get(name)))), "")
    if not text:
        source.cannot_read(number, f"item {number}: no text in memory, content, data or text")
        return
    metadata = item.get("metadata") if isinstance(item.get("metadata"), dict) else {}
    given = [
        *as_list(item.get("categories")),
        *(categories.get(each, "") for each in as_list(item.get("category_ids"))),
    ]
    kept = {name: as_text(item.get(name)) for name in _KEPT if as_text(item.get(name))}
    yield _memory(
        text,
        [each for each in given if each],
        kept,
        metadata,
        number,
        as_text(item.get("id")),
        as_time(item.get("created_at")),
    )


def _memory(
    text: str, categories: list[str], kept: dict[str, str], metadata: Any, line: int, id: str, when: str | None
) -> IngestedMemory:
    named = " ".join([*categories, as_text(metadata.get("type")), as_text(metadata.get("category"))]).lower()
    type = "preference" if "preference" in named else "learning"
    fields: dict[str, Any] = {
        type: text,
        "category": categories[0] if categories else None,
        "tags": tags_of(categories),
    }
    fields |= {**kept, "metadata": metadata or None}
    key = f"{ANYWHERE}mem0 {id}" if id else f"{ANYWHERE}mem0 {type} {text}"
    return IngestedMemory(type, fields, line, key, when, type if id else "")


def read_history(source: Source) -> Iterator[IngestedMemory]:
    """The newest text of each memory in the history database."""
    with opened(source) as database:
        if database is None:
            return
        if "history" in tables(database):
            yield from _newest(source, database)
        else:
            source.cannot_read(1, "no table history: not a history database of mem0")


def _newest(source: Source, database: Connection) -> Iterator[IngestedMemory]:
    newest: dict[str, tuple[int, dict[str, Any], str | None]] = {}
    for number, row in enumerate(rows(database, "history", source), 1):
        id = as_text(row.get("memory_id"))
        if not id:
            source.cannot_read(number, f"row {number} of history has no memory_id")
            continue
        began = newest[id][2] if id in newest else as_time(row.get("created_at")) or as_time(row.get("updated_at"))
        newest[id] = (number, row, began)
    for id, (number, row, began) in newest.items():
        if as_text(row.get("event")).upper() == "DELETE" or row.get("is_deleted") in (1, "1", True):
            continue
        text = as_text(row.get("new_memory"))
        if not text:
            source.cannot_read(number, f"row {number} of history has no new_memory")
            continue
        kept = {name: as_text(row.get(name)) for name in ("actor_id", "role") if as_text(row.get(name))}
        yield _memory(text, [], kept, {}, number, id, began)
