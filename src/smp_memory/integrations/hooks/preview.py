"""Preview of what a hook would inject at an event, and what it would leave out and why.

    preview = preview_hook(memory, "prompt", prompt="Which database do we use for orders?")

The text comes from `smp_memory.integrations.hooks.recall`, which fills a trace; see `smp_memory.context.preview`.

Guarantees: nothing is written, no lock is taken, nothing counts as used or as injected. For a conversation that SMP knows (`session`) the text is that
of its next event of this kind, but for the nonce of the fence. Non-guarantees: the name of the session of a new conversation, which the notice at its
start contains, depends on the host's id of the conversation and differs here. Settings are those with which the store was opened.
"""

from __future__ import annotations

import os

from smp_memory.context.budget import count_tokens
from smp_memory.context.preview import LIMIT, OwnerSearch, check_floor, complete, preview_of
from smp_memory.context.trace import ContextTrace
from smp_memory.errors import InvalidQuery
from smp_memory.integrations.hooks import session_state
from smp_memory.integrations.hooks.entry_point import UNTRUSTED
from smp_memory.integrations.hooks.events import CLAUDE, HookEvent
from smp_memory.integrations.hooks.reader import Reader, visible_sessions
from smp_memory.integrations.hooks.recall import recall_in_state
from smp_memory.integrations.hooks.session_state import HookSession
from smp_memory.model.previews import Preview
from smp_memory.model.session_info import ARCHIVED
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.reader import HookRecall
    from smp_memory.memory import Memory

_EVENTS = {"start": "SessionStart", "prompt": "UserPromptSubmit", "agent": "SubagentStart"}
_NEW_CONVERSATION = "preview"  # the host's id of a conversation that does not exist


def preview_hook(
    memory: Memory,
    kind: str,
    *,
    prompt: str = "",
    agent: str | None = None,
    task: str | None = None,
    session: str | None = None,
    source: str = "startup",
    min_relevance: float | None = None,
    max_tokens: int | None = None,
    cwd: str | None = None,
    limit: int = LIMIT,
) -> Preview:
    """What hooks would inject now.

    kind     start: a session of a host begins; prompt: a person submits a prompt; agent: the host starts an agent for a task.
    session  the SMP session of the conversation; None: a new conversation.
    source   of a start: startup, resume, clear or compact.
    min_relevance, max_tokens  instead of the settings `recall.min_relevance` and `hooks.prompt_tokens` or `hooks.start_tokens`.
    cwd      the folder in which the host works; it tells the project if the store is for several.
    limit    how many matches are looked at, and how many memories are listed as left out.
    """
    if kind not in _EVENTS:
        raise InvalidQuery(f"kind: {kind!r} is not one of {', '.join(_EVENTS)}.", field="kind")
    check_floor(min_relevance)
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 0):
        raise InvalidQuery(f"max_tokens: must be a whole number from 0, not {max_tokens!r}.", field="max_tokens")
    event = _event(kind, prompt, agent, task, source, cwd)
    reader = Reader(memory.root, os.environ, store=memory.store, clock=memory.scope.clock)
    reader.trace, reader.min_relevance, reader.max_tokens = ContextTrace(), min_relevance, max_tokens
    if not (os.environ.get("SMP_ROOT") or memory.is_trusted):
        return _untrusted(kind, reader)
    state = _state(reader, session)
    name = state.session or session_state.new_session_name(event)
    return _preview(kind, reader, state, recall_in_state(reader, event, name, state), limit)


def _event(kind: str, prompt: str, agent: str | None, task: str | None, source: str, cwd: str | None) -> HookEvent:
    fields: dict[str, Any] = {"session_id": _NEW_CONVERSATION, "cwd": cwd or "", "agent_type": agent or ""}
    if kind == "start":
        fields["source"] = source
    elif kind == "prompt":
        fields["prompt"] = prompt
    else:
        fields |= {"prompt": prompt, "task": task or ""}
    return HookEvent(CLAUDE, _EVENTS[kind], fields)


def _state(reader: Reader, session: str | None) -> HookSession:
    """What hooks know about the conversation with this SMP session; an empty state if they know nothing."""
    if session is None:
        return HookSession()
    return session_state.find_state(reader.store.state, session) or HookSession({"session": session})


def _untrusted(kind: str, reader: Reader) -> Preview:
    preview = Preview(kind, 0, reader.floor())
    preview.text = UNTRUSTED if kind == "start" else ""
    preview.tokens = count_tokens(preview.text)
    preview.nothing_because = "the store is not trusted; `smp trust` trusts it"
    return preview


def _preview(kind: str, reader: Reader, state: HookSession, recall: HookRecall, limit: int) -> Preview:
    trace, now, visible = reader.trace, reader.scope.now(), visible_sessions(reader, state)
    assert trace is not None
    owner = Scope(reader.store, None, reader.config, reader.scope.clock)
    if recall.context is not None:
        preview = preview_of(owner, kind, recall.context, trace, visible, now, turns=0, limit=limit, text=recall.text)
        preview.max_tokens = trace.max_tokens
        return preview
    preview = Preview(kind, trace.max_tokens, reader.floor())
    preview.text, preview.tokens = recall.text, count_tokens(recall.text)
    preview.archived_not_searched = sum(each.has_memories for each in reader.store.sessions(ARCHIVED))
    preview.warnings, preview.problems = trace.warnings, trace.problems
    complete(preview, recall.items, trace, OwnerSearch(owner, Viewer(None), visible, now, limit), {}, None)
    return preview
