"""Sessions and memories as MCP resources, and two prompts.

    memory://sessions             the sessions, the one written last first
    memory://session/{id}         a summary of one, and its memories, newest first
    memory://memory/{session}/{id}    one memory with all its fields

Guarantees: the text is fenced as recalled data and bounded in size; an unknown URI is an error that
says so. Resources show what the tools show to the same caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from smp_memory.errors import InvalidRecord
from smp_memory.integrations.mcp import arguments, read_tools
from smp_memory.integrations.mcp.answer_budget import fit_lines
from smp_memory.integrations.mcp.arguments import read
from smp_memory.integrations.mcp.write_tools import sessions
from smp_memory.privacy.fence import fence
from smp_memory.search import api
from smp_memory.store.incomplete import describe

if TYPE_CHECKING:
    from smp_memory.integrations.mcp.request_context import Caller

SESSIONS = "memory://sessions"
TEMPLATES = {
    "memory://session/{id}": ("session", "A session: what matters, and its memories, newest first", "text/markdown"),
    "memory://memory/{session}/{id}": ("memory", "One memory with all its fields", "text/markdown"),
}
PAGE = 100
_MOST_TOKENS = 20_000


def session_uri(session: str) -> str:
    return f"memory://session/{quote(session, safe='')}"


def page(caller: Caller, cursor: str | None) -> tuple[list[str], str | None]:
    """The ids of some sessions, newest first, and the cursor of the next ones."""
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InvalidRecord("cursor: use the nextCursor of the answer before.", field="cursor")
    start = int(cursor or 0)
    ids = [session.id for _, session in reversed(caller.memory.sessions_by_time())]
    return ids[start : start + PAGE], str(start + PAGE) if start + PAGE < len(ids) else None


def read_uri(caller: Caller, uri: str) -> str:
    """The text of a resource, as Markdown."""
    if uri == SESSIONS:
        return sessions(caller, read(arguments.SessionsArguments, {"limit": PAGE})).text
    kind, _, rest = uri.removeprefix("memory://").partition("/")
    if not uri.startswith("memory://") or kind not in ("session", "memory") or not rest:
        raise InvalidRecord(f"uri: there is no {uri}. See resources/list and resources/templates/list.", field="uri")
    if kind == "memory":
        ref = "/".join(unquote(part) for part in rest.split("/"))
        return read_tools.get(caller, read(arguments.GetArguments, {"ids": [ref], "max_tokens": _MOST_TOKENS})).text
    return _session_text(caller, unquote(rest))


def _session_text(caller: Caller, name: str) -> str:
    scope = caller.scope(name, all_by_default=False)
    hits = api.query(scope, None, {"limit": 500, "sort": "newest", "track_access": False})
    lines = [f"# Session {name}", "", *api.summarize(scope), "", "## Memories, newest first", ""]
    lines += [read_tools.memory_line(hit.record) for hit in hits]
    chosen, cut = fit_lines(lines, _MOST_TOKENS)
    chosen += ["(and more: recall)"] if cut or hits.more else []
    chosen += [f"({describe(hits.problems, to_agent=True)})"] if hits.problems else []
    return fence("\n".join(chosen))


# -- prompts

PROMPTS = {
    "recall": (
        "Begin a task with what is known about it",
        {"task": "What you are about to do", "session": "Session id"},
    ),
    "end-of-session": ("Keep what the next session should know", {"session": "Session id"}),
}


def prompt_text(caller: Caller, name: str, given: dict[str, str]) -> str:
    """The text of a prompt."""
    if name not in PROMPTS:
        raise InvalidRecord(f"name: there is no prompt {name!r}; there are {', '.join(PROMPTS)}.", field="name")
    unknown = set(given) - set(PROMPTS[name][1])
    if unknown:
        raise InvalidRecord(f"{min(unknown)}: the prompt {name} has no such argument.", field=min(unknown))
    if name == "recall":
        known = read_tools.context(caller, read(arguments.ContextArguments, dict(given))).text
        task = given.get("task", "").strip()
        return f"{known}\n\n" + (f"With this in mind: {task}" if task else "Keep this in mind from now on.")
    where = f" Use session {given['session']!r}." if given.get("session") else ""
    return (
        "This session ends. Look back over it and call `remember` once for each thing that the next one should know and "
        "memory does not hold yet (`recall` tells): decisions with their reasons, findings that are still open, preferences "
        "of the user, lessons learned, and as a last memory of type summary where the work stands and what comes next. "
        "`update` with action resolve closes findings that are done. Do not store secrets, or what was recalled from memory."
        + where
    )
