"""The page Agent view: exactly what an agent is told now, each memory with its reason, and what was left out and why.

The text comes from the functions that hooks and the MCP server call (`smp_memory.context.preview`, `smp_memory.integrations.hooks.preview`);
looking at it counts as no use. The budget and the floor of relevance can be moved; nothing is stored by that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.discovery import folder_of_store
from smp_memory.errors import SMPError
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.web.parts import TextPiece, ago, counted, sentence, size_text, words_of
from smp_memory.integrations.web.renderer import page
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.previews import Preview

KINDS_OF_CALL = (
    ("prompt", "a prompt (hook)"),
    ("start", "a session starts (hook)"),
    ("agent", "a subagent starts (hook)"),
    ("context", "the agent asks (MCP, Python)"),
)
_SHARE_TITLES = {
    "matches": "matches the task",
    "pointers": "pointed at",
    "written": "matches written down",
    "turns": "last turns",
    "wishes": "preferences",
    "critical": "critical findings",
    "state": "the agent's state",
    "frame": "marks and headings",
}
_SHOWN_LEFT_OUT = 12
_CONSIDERED = 80  # matches that are looked at, and memories that are listed as left out
_SOON_DAYS = 365  # a session that is full only later is not worth a word
_REASON_KINDS = {"superseded": "warn", "outdated": "warn", "expired": "warn", "hidden": "crit"}
_FENCE = re.compile(r"^</?smp-recalled.*$|^#+ .*$", re.MULTILINE)


class AgentRequest(NamedTuple):
    """What the form asks for."""

    kind: str
    agent: str
    task: str
    session: str
    folder: str
    max_tokens: int
    floor: float


def agent_page(request: PageRequest) -> Response:
    asked = _asked(request)
    shown = _preview(request, asked)
    has_folder = asked.kind != "context" and not folder_of_store(request.memory.root)
    return page(
        request,
        "agent.html",
        "Agent view",
        "agent",
        asked=asked,
        shown=shown,
        calls=KINDS_OF_CALL,
        has_folder=has_folder,
        floor_setting=_floor_setting(asked.kind),
        store_floor=request.memory.config[_floor_setting(asked.kind)],
        told=[each for each in shown.included if each.lane != "pointers"],
        pointed=[each for each in shown.included if each.lane == "pointers"],
        names=request.inspector.store_names(),
        shares=_shares(shown),
        session=_session(request, asked) if asked.session else None,
        words=words_of(asked.task) if asked.task else frozenset(),
        nothing=_nothing(asked, shown),
        text=_fenced(shown.text),
        left_out=sorted(shown.left_out, key=lambda each: -(each.relevance or 0.0)),
        most_left_out=_SHOWN_LEFT_OUT,
        reason_kinds=_REASON_KINDS,
    )


def _asked(request: PageRequest) -> AgentRequest:
    config = request.memory.config
    kind = request.get("kind") or ("context" if request.get("agent") else "prompt")
    kind = kind if kind in dict(KINDS_OF_CALL) else "prompt"
    budgets = {"context": 1500, "start": config["hooks.start_tokens"]}
    tokens = int(request.number("tokens", budgets.get(kind, config["hooks.prompt_tokens"]), 0, 8000))
    floor = request.number("floor", config[_floor_setting(kind)], 0.0, 1.0)
    agent, task, session, folder = (request.get(name) for name in ("agent", "task", "session", "folder"))
    return AgentRequest(kind, agent, task, session, folder, tokens, floor)


def _floor_setting(kind: str) -> str:
    """The setting with the floor for what is told: of a context it is the lower one, because somebody asks for it."""
    return "recall.min_relevance" if kind == "prompt" else "recall.min_pointer"


def _preview(request: PageRequest, asked: AgentRequest) -> Preview:
    session = asked.session if request.memory.store.sessions(id=asked.session) else None
    if asked.kind == "context":
        return request.memory.preview(
            asked.agent or None,
            asked.task or None,
            session=session,
            max_tokens=asked.max_tokens,
            min_relevance=asked.floor,
            limit=_CONSIDERED,
        )
    return preview_hook(
        request.memory,
        asked.kind,
        prompt=asked.task,
        agent=asked.agent or None,
        task=asked.task or None,
        session=session,
        min_relevance=asked.floor,
        max_tokens=asked.max_tokens,
        cwd=asked.folder or None,
        limit=_CONSIDERED,
    )


def _shares(shown: Preview) -> list[tuple[str, str, float]]:
    """What the budget is spent on: class, title, tokens."""
    known = list(_SHARE_TITLES)
    shares = sorted(shown.shares.items(), key=lambda each: known.index(each[0]) if each[0] in known else 99)
    titles = {name: kind.plural for name, kind in KINDS.items()} | _SHARE_TITLES
    return [(f"share-{name}", titles.get(name, name), value) for name, value in shares if value]


def _session(request: PageRequest, asked: AgentRequest) -> dict[str, Any]:
    """State and size of the session, or the error why there are none."""
    try:
        session = request.memory.opened_session(asked.session)
        standing, size = session.session_state, session.size_report()
        writers = ", ".join(session.info.agents)
    except SMPError as error:
        return {"error": error.message, "is_there": bool(request.memory.store.sessions(id=asked.session))}
    follows = f", {standing.next.state} {ago(standing.next.when, request.now)}" if standing.next.when else ""
    days = size.predicted_days_to_quota
    full = f", full in about {counted(round(days), 'day')}" if days is not None and days < _SOON_DAYS else ""
    rows = [
        ("State", f"{standing.state}{follows}"),
        ("Size", f"{size_text(size.total_bytes)} of {size_text(size.quota_bytes)}{full}"),
        ("Writers", writers),
    ]
    return {"error": "", "rows": rows}


def _nothing(asked: AgentRequest, shown: Preview) -> str:
    if not asked.task and shown.nothing_because.endswith("content words"):
        return "Write a prompt to see what an agent is told at it."
    if shown.nothing_because:
        return sentence(shown.nothing_because).rstrip(".") + "."
    if shown.left_out:
        return f"No memory reaches the floor of {shown.min_relevance:.2f}. What came close is below."
    return "No memory is related to it."


def _fenced(text: str) -> list[TextPiece]:
    """The text that the agent gets, in pieces; the lines of its frame and its headings have a class."""
    pieces: list[TextPiece] = []
    at = 0
    for found in _FENCE.finditer(text):
        kind = "fence" if found[0].startswith("<") else "h"
        pieces += [TextPiece("", text[at : found.start()]), TextPiece(kind, found[0])]
        at = found.end()
    return [*pieces, TextPiece("", text[at:])]
