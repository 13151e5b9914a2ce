"""Import and export a graph as memory.jsonl, the file of the reference memory server.

    {"type":"entity","name":"Ada","entityType":"person","observations":["likes tea"]}
    {"type":"relation","from":"Ada","to":"Acme","relationType":"works at"}

Guarantees: reading never fails because of a line; an invalid one is reported with its number and the reason, and
the file is not changed. A file that is written appears when it is complete, readable for its owner alone, and holds what the
reference server would write. Importing the same file twice adds nothing twice.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidFormat, UserError, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.mcp.graph import SESSION, KnowledgeGraph
from smp_memory.model.times import to_text

if TYPE_CHECKING:
    from smp_memory.memory import Memory

LIMIT_BYTES = 512 << 20  # of a file
_ENTITY = ("name", "entityType")
_RELATION = ("from", "to", "relationType")


def import_once(graph: KnowledgeGraph, path: str) -> tuple[dict[str, int], list[tuple[int, str]]] | None:
    """Add what a memory.jsonl has and the graph lacks, for a server that is started repeatedly.

    Returns the counts and the invalid lines; None if there is no file or it was imported before.
    """
    name = os.path.abspath(path)
    if name in graph.sources() or not os.path.exists(name):
        return None
    imported, problems = parse(read_file(name), graph.content_limit_bytes)
    return graph.merge(imported, name), problems


def export_file(
    memory: Memory, path: str, session: str | None = None, author: str | None = None, *, force: bool = False
) -> str:
    """Write the graph into a file; returns its path."""
    target, disk = os.path.abspath(path), Disk(RealSystem())
    if disk.exists(target) and not force:
        raise UserError(f"{path} already exists. --force overwrites it.", path=path)
    data = export_text(memory, session, author).encode()
    try:
        disk.replace(target, data)
    except OSError as error:
        raise from_os_error(error, target, "writing an export") from error
    return target


def export_text(memory: Memory, session: str | None = None, author: str | None = None) -> str:
    """The graph as the lines of a file."""
    graph = KnowledgeGraph(memory, session).read()
    count = len(graph["entities"]) + len(graph["relations"])
    audit(memory, "export", author, session or SESSION, count)
    return graph_lines(graph)


def audit(memory: Memory, action: str, by: str | None, session: str, count: int) -> None:
    """Add a line to the audit log, as every export and import does."""
    memory.store.audit.note(action, at=to_text(memory.now()), by=by, session=session, count=count, format="mcp-memory")


def graph_lines(graph: dict[str, list[dict[str, Any]]]) -> str:
    """The lines of a file, as the reference server writes them."""
    items = [{"type": "entity", **entity} for entity in graph["entities"]]
    items += [{"type": "relation", **relation} for relation in graph["relations"]]
    return "\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items)


def parse(data: bytes, limit_bytes: int | None = None) -> tuple[dict[str, list[dict[str, Any]]], list[tuple[int, str]]]:
    """The graph in a file, and its invalid lines with reasons. What exceeds the size of a memory is left out and reported."""
    graph: dict[str, list[dict[str, Any]]] = {"entities": [], "relations": []}
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            problems.append((number, "not valid JSON"))
            continue
        problem = _problem(item, limit_bytes)
        if problem:
            problems.append((number, problem))
        elif item["type"] == "entity":
            texts = [text for text in item["observations"] if _fits(limit_bytes, item["name"], text=text)]
            if len(texts) < len(item["observations"]):
                problems.append((number, "an observation is larger than a memory may be, and was left out"))
            graph["entities"].append({"name": item["name"], "entityType": item["entityType"], "observations": texts})
        else:
            graph["relations"].append({name: item[name] for name in _RELATION})
    return graph, problems


def _fits(limit_bytes: int | None, *names: str, text: str = "") -> bool:
    """Whether a memory can hold this: it contains names up to three times and a text twice, with a few words around."""
    size = sum(3 * len(name.encode()) for name in names) + 2 * len(text.encode())
    return limit_bytes is None or size + 500 <= limit_bytes


def _problem(item: Any, limit_bytes: int | None) -> str | None:
    if not isinstance(item, dict) or item.get("type") not in ("entity", "relation"):
        return "neither an entity nor a relation"
    for name in _ENTITY if item["type"] == "entity" else _RELATION:
        if not isinstance(item.get(name), str) or not _is_text(item[name]):
            return f"{name} is missing or no text"
    if not _fits(limit_bytes, *(item[name] for name in (_ENTITY if item["type"] == "entity" else _RELATION))):
        return "larger than a memory may be"
    texts = item.get("observations") if item["type"] == "entity" else []
    if not isinstance(texts, list) or not all(isinstance(text, str) and _is_text(text) for text in texts):
        return "observations is missing or no list of texts"
    return None


def _is_text(text: str) -> bool:
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def read_file(path: str) -> bytes:
    disk, target = Disk(RealSystem()), os.path.realpath(path)
    try:
        status = disk.stat(target)
        if status is not None and status.st_size > LIMIT_BYTES:
            raise InvalidFormat(f"{path}: larger than {LIMIT_BYTES:,} bytes. Split it by lines.", path=path)
        return disk.read(target)
    except FileNotFoundError:
        raise InvalidFormat(f"There is no file {path}.", path=path) from None
    except OSError as error:
        raise from_os_error(error, path, "reading a memory.jsonl") from error
