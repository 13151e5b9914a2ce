"""Merge the memory.jsonl of the reference MCP memory server into the knowledge graph.

What is imported stays a graph: entities, observations and relations in the session `knowledge-graph`, which `smp mcp --compat memory` serves.

Guarantees: those of `graph_file`; a dry run counts what would be added and writes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.registry import Found, found_files, json_settings
from smp_memory.importers.source import UnreadLine
from smp_memory.importers.target import IN_TRASH
from smp_memory.integrations.mcp.graph import SESSION, KnowledgeGraph
from smp_memory.integrations.mcp.graph_file import audit, parse, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.import_run import ImportRun
    from smp_memory.importers.registry import Places

_VARIABLE = "MEMORY_FILE_PATH"
_SINGULAR = {"entities": "entity", "observations": "observation", "relations": "relation"}


def found(places: Places) -> list[Found]:
    """The files that settings of agents name for the server; its usual place is inside of its package."""
    desktop = {
        "darwin": ("Library", "Application Support", "Claude"),
        "win32": ("AppData", "Roaming", "Claude"),
    }.get(places.platform, (".config", "Claude"))
    settings = [
        os.path.join(places.home, *desktop, "claude_desktop_config.json"),
        os.path.join(places.home, ".claude.json"),
        os.path.join(places.home, ".cursor", "mcp.json"),
        os.path.join(places.project, ".mcp.json"),
        os.path.join(places.project, ".cursor", "mcp.json"),
        os.path.join(places.project, ".vscode", "mcp.json"),
    ]
    named = [places.environ.get(_VARIABLE), *(path for file in settings for path in _named_in(json_settings(file)))]
    paths = dict.fromkeys(path for path in named if isinstance(path, str) and os.path.isabs(path))
    return [offer for path in paths for offer in found_files(path, "MCP memory server", [path])]


def merge(run: ImportRun, path: str | None, session: str | None) -> None:
    """Add what the file has and the graph lacks."""
    if path is None or not os.path.isfile(path):
        raise UserError(f"{path} is not a file; give the memory.jsonl of the server.", path=path)
    memory, report, name = run.memory, run.report, session or SESSION
    if name in run.deleted:
        report.left_out.append(f"{name}: {IN_TRASH}")
        return
    data = read_file(path)
    graph, problems = parse(data, memory.config.content_limit_bytes)
    knowledge = KnowledgeGraph(memory, name, run.author)
    counts = knowledge.merge(graph, dry_run=True)
    if sum(counts.values()) and not report.dry_run:
        run.before_write()
        report.new_sessions += [] if memory.store.sessions(id=name) else [name]
        counts = knowledge.merge(graph)
        audit(memory, "import", run.author, name, sum(counts.values()))
    file, texts = os.path.basename(path), sum(len(each["observations"]) for each in graph["entities"])
    items = len(graph["entities"]) + len(graph["relations"]) + texts
    report.added = {_SINGULAR[kind]: count for kind, count in counts.items() if count}
    report.sessions = {name: report.count} if report.count else {}
    report.known, report.bytes, report.files = items - report.count, len(data), {file: items}
    report.unread += [UnreadLine(file, line, why) for line, why in problems]


def _named_in(value: Any) -> Iterator[Any]:
    """The values of the variable, anywhere in settings."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield from ([each[_VARIABLE]] if _VARIABLE in each else [])
            left += each.values()
        elif isinstance(each, list):
            left += each
