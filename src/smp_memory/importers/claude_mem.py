"""Read the database of claude-mem: its observations, session summaries and prompts, of all versions of its schema.

    observation  decision                                      a decision, with its narrative as rationale
                 bugfix                                        a finding that is resolved
                 security_alert                                an open finding
                 discovery, feature, refactor, change, others  a learning
    session summary                                            a summary: request, investigated, learned, completed, next steps
    prompt                                                     a turn of the user

Each session of claude-mem becomes the session of the conversation that it observed, also if hooks or an import of its transcript
recorded that one.

Guarantees: those of `foreign_sqlite`: nothing of claude-mem's is touched. Every row becomes a memory or is reported; the "line" of a memory is the
id of its row. Columns that SMP does not know are ignored, and columns that a version does not have are empty.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.importers.foreign_sqlite import opened, rows, tables
from smp_memory.importers.registry import Found, found_files
from smp_memory.importers.source import ImportFile, IngestedMemory, IngestedSession, Source
from smp_memory.importers.values import as_list, as_text, as_time, tags_of
from smp_memory.integrations.hooks.session_state import name_of_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import Connection

    from smp_memory.importers.registry import ImportOptions, Places

    Row = dict[str, Any]

FILE = "claude-mem.db"
_TYPES = {"decision": "decision", "bugfix": "finding", "security_alert": "finding"}
_HOSTS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli", "cursor": "cursor"}
_PROMPTS, _OBSERVATIONS, _SUMMARIES = "user_prompts", "observations", "session_summaries"
_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def found(places: Places) -> list[Found]:
    return found_files(_database(places), "claude-mem", [_database(places)])


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    file = path or _database(options.places)
    if os.path.isdir(file):
        file = os.path.join(file, FILE)
    if not os.path.isfile(file):
        raise UserError(f"There is no database of claude-mem: {file}.", path=file)
    return [ImportFile(file, os.path.basename(file), read_database, "database")]


def _database(places: Places) -> str:
    return os.path.join(places.path("CLAUDE_MEM_DATA_DIR", ".claude-mem"), FILE)


def read_database(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    with opened(source) as database:
        if database is None:
            return
        if tables(database) & {_OBSERVATIONS, _SUMMARIES, _PROMPTS}:
            yield from _conversations(source, database)
        else:
            source.cannot_read(1, "not a database of claude-mem: no observations, session_summaries or user_prompts")


def _conversations(source: Source, database: Connection) -> Iterator[IngestedSession | IngestedMemory]:
    """The sessions in the order in which they began, each with its memories by time."""
    sessions = _Sessions()
    for row in rows(database, "sdk_sessions", source):
        sessions.place(row)
    found: dict[int, list[IngestedMemory]] = {}
    for table, read in ((_PROMPTS, _prompt), (_OBSERVATIONS, _observation), (_SUMMARIES, _summary)):
        for number, row in enumerate(rows(database, table, source), 1):
            row["id"] = row["id"] if type(row.get("id")) is int and row["id"] > 0 else number
            memory = read(row)
            if memory is None:
                source.cannot_read(row["id"], f"{table}: row {row['id']} has no text")
            else:
                found.setdefault(sessions.place(row), []).append(memory)
    for place, memories in sorted(found.items()):
        memories.sort(key=lambda each: each.when or "")
        yield _session(sessions.heads[place], memories[0].when)
        yield from memories


class _Sessions:
    """The rows of sessions; a row that was deleted is replaced by the first one that names the session."""

    def __init__(self) -> None:
        self.heads: list[Row] = []
        self._by_name: dict[str, int] = {}

    def place(self, row: Row) -> int:
        """The place of the session that a row names; two rows with one of their ids in common name the same."""
        names = _names(row)
        place = next((self._by_name[name] for name in names if name in self._by_name), len(self.heads))
        if place == len(self.heads):
            self.heads.append(row)
        for name in names:
            self._by_name.setdefault(name, place)
        return place


def _names(row: Row) -> list[str]:
    """The ids of the conversation and of claude-mem's own session, in the columns of all versions."""
    columns = ("content_session_id", "claude_session_id", "memory_session_id", "sdk_session_id", "session_id")
    return [text for name in columns if (text := as_text(row.get(name)))] or ["unknown"]


def _session(head: Row, first: str | None) -> IngestedSession:
    conversation = _names(head)[0]
    host = _HOSTS.get(as_text(head.get("platform_source")).split("-")[0] or "claude", "claude-code")
    began = _time(head, "started_at") or first
    title = as_text(head.get("custom_title")) or as_text(head.get("user_prompt")).partition("\n")[0][:120]
    return IngestedSession(
        name_of_conversation(host, conversation, began[:10] if began else "undated"),
        title,
        as_text(head.get("project")),
        began,
        agents=(host,),
        host=host,
        host_session=conversation,
    )


def _prompt(row: Row) -> IngestedMemory | None:
    text = as_text(row.get("prompt_text"))
    fields = {"role": "user", "author": "user", "content": text}
    return IngestedMemory("conversation", fields, row["id"], _key(_PROMPTS, row), _time(row)) if text else None


def _observation(row: Row) -> IngestedMemory | None:
    kind = as_text(row.get("type")).lower()
    title, subtitle, narrative = (as_text(row.get(name)) for name in ("title", "subtitle", "narrative"))
    facts = as_list(row.get("facts"))
    text = title or subtitle or narrative or as_text(row.get("text")) or "; ".join(facts)
    if not text:
        return None
    details = "\n".join(
        dict.fromkeys(
            part for part in (subtitle, narrative or as_text(row.get("text")), *facts) if part and part != text
        )
    )
    fields: Row = {
        "author": "claude-mem",
        "topic": as_text(row.get("project")) or None,
        "tags": tags_of(as_list(row.get("concepts"))),
        "references": [name for name in _files(row) if "." in name] or None,
    }
    type = _TYPES.get(kind, "learning")
    if type == "decision":
        fields |= {"decision": text, "rationale": details or None}
    elif type == "finding":
        status = "resolved" if kind == "bugfix" else "open"
        fields |= {"finding": text, "evidence": details or None, "category": kind, "status": status}
    else:
        fields |= {"learning": f"{text}\n{details}" if details else text, "category": kind or "observation"}
    return IngestedMemory(type, fields, row["id"], _key(_OBSERVATIONS, row), _time(row))


def _files(row: Row) -> list[str]:
    return list(dict.fromkeys([*as_list(row.get("files_modified")), *as_list(row.get("files_read"))]))


def _summary(row: Row) -> IngestedMemory | None:
    parts = [(name.replace("_", " ").capitalize(), as_text(row.get(name))) for name in _PARTS]
    text = "\n".join(f"{name}: {part}" for name, part in parts if part)
    fields = {"author": "claude-mem", "summary": text, "topic": as_text(row.get("project")) or None}
    return IngestedMemory("summary", fields, row["id"], _key(_SUMMARIES, row), _time(row)) if text else None


def _key(table: str, row: Row) -> str:
    """By table, row and time: a new database may use the numbers of rows again."""
    return f"claude-mem {table} {row['id']} {_time(row)}"


def _time(row: Row, name: str = "created_at") -> str | None:
    return as_time(row.get(f"{name}_epoch")) or as_time(row.get(name))
