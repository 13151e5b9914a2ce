"""Memories to inject at the start of a session, at a prompt and for an agent that the host starts; and the request to write some down.

At the start it is what `context` gives: where the last session stopped, what was decided, what is open. For a prompt see
`smp_memory.integrations.hooks.prompt_recall`.

Text that a hook gives when the agent stops makes it go on. So the agent is asked to write down what a conversation decided or found at
the next prompt, or at the start after a compaction: if turns propose a memory and nothing was written down since, once for each stretch of
the conversation (`HookSession`).

Guarantees: all of it is fenced (`smp_memory.privacy.fence`), and nothing comes from other users' sessions
(`smp_memory.context.visible_sessions`). What was told in this conversation already is left out, unless it was changed, or the conversation
was cleared or compacted since. Reads only: no maintenance is run, nothing counts as used, no lock is taken.
"""

from __future__ import annotations

from smp_memory import search
from smp_memory.config.settings import RECORD
from smp_memory.discovery import folder_of_store, project_name
from smp_memory.integrations.hooks import session_state
from smp_memory.integrations.hooks.events import AGENT_START, PROMPT, START
from smp_memory.integrations.hooks.prompt_recall import MOST_CHARACTERS, recall_for_prompt
from smp_memory.integrations.hooks.reader import HookRecall, Reader, visible_sessions
from smp_memory.model.candidates import REPEATED, CandidateRequest
from smp_memory.model.ids import is_valid
from smp_memory.observe import incomplete
from smp_memory.privacy.fence import fence, strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from smp_memory.context.builder import Context
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.session_state import HookSession

_NOTICE_TOKENS = 60
_START_TURNS = 8  # of the last session, at the start
_MOST_PROPOSALS, _PROPOSAL_WORDS, _PROPOSAL_CHARACTERS = 3, 12, 120  # in a request to write something down


def recall_for_event(reader: Reader, event: HookEvent, session: str) -> HookRecall:
    """The text to inject at this event; `session` is the SMP session of this conversation, which need not exist yet."""
    return recall_in_state(reader, event, session, session_state.read_state(reader.store.state, event.session))


def recall_in_state(reader: Reader, event: HookEvent, session: str, state: HookSession) -> HookRecall:
    """The same, given what is known about the host's session."""
    reader.project = "" if folder_of_store(reader.root) else project_name(event.cwd or reader.root)
    reader.use_config_of(state.session)
    is_agent = event.kind == AGENT_START
    for setting in ("hooks.recall", "hooks.recall_agents") if is_agent else ("hooks.recall",):
        if not reader.config[setting]:
            reader.nothing_because(f"{setting} is off")
            return HookRecall()
    if event.kind not in (START, PROMPT):
        return _for_agent(reader, event, state) if is_agent else HookRecall()
    recall = (_at_start if event.kind == START else recall_for_prompt)(reader, event, state, session)
    return recall.with_notices(state.notices).with_request(_request_to_record(reader, event, state))


# -- the start of a session


def _at_start(reader: Reader, event: HookEvent, state: HookSession, session: str) -> HookRecall:
    budget = reader.budget("hooks.start_tokens")
    if not budget:
        return HookRecall()
    is_resumed = event.source == "resume"  # the conversation with its injected memories is in the host's context again
    tokens = max(budget - _NOTICE_TOKENS, 0)
    told = state.told_refs() if is_resumed else set()
    context = _context(reader, state, tokens, turns=0 if is_resumed else _START_TURNS, exclude=told)
    notices = (
        []
        if is_resumed
        else [_recording_notice(session) if reader.config["hooks.record"] and reader.config.allows(RECORD) else ""]
    )
    if context.problems and not is_resumed:
        notices.append(_unreadable_notice(context))
    if not is_resumed:
        notices += [f"SMP: {text}" for text in reader.config.notices(to_agent=True)]
    if event.source in ("", "startup", "clear"):
        notices.append(_without_memories_notice(reader))
    return HookRecall("\n\n".join(part for part in (context.text, *notices) if part), context.items, context)


def _recording_notice(session: str) -> str:
    return (
        f"SMP records this conversation as session {session}. Write down what is decided, found or learned: "
        f'smp add decision "…" --session {session} (also finding, learning), or remember over MCP with this session.'
    )


def _unreadable_notice(context: Context) -> str:
    return f"SMP: {incomplete.describe(context.problems, to_agent=True)}"


def _without_memories_notice(reader: Reader) -> str:
    last = session_state.session_without_memories(reader.store.state)
    if last is None:
        return ""
    return (
        f"The last session ({last['session']}, {last['turns']} turns) ended without a saved decision, finding or learning. "
        f"If something in it should last, save it{_where_to_look(last)}."
    )


def _where_to_look(last: dict[str, Any]) -> str:
    """A pointer to the proposals of a session. Their text is not told: it was said in another conversation."""
    if not isinstance(last.get("proposing"), int) or not last["proposing"]:
        return ""
    return f": smp review --session {last['session']} lists what its turns propose"


def _request_to_record(reader: Reader, event: HookEvent, state: HookSession) -> str:
    """The request to write down what turns of this conversation propose; empty if there is no reason for it."""
    config = reader.config
    settings = ("proposals.enabled", "hooks.ask_to_record", "hooks.record", "hooks.prompt_tokens")
    is_due = not state.was_asked and state.turns >= session_state.MIN_TURNS and event.is_from_a_person
    if not is_due or not all(config[each] for each in settings):
        return ""
    proposals = _proposal_lines(reader, state) if state.proposing else []
    if not proposals:
        return ""
    return (
        "SMP: no decision, finding or learning of this conversation was saved yet. If one of these should last, save it as a sentence that stands alone "
        f'(smp add decision "…" --session {state.session}; also finding, learning, preference; over MCP: remember); otherwise continue.\n'
        + fence("\n".join(proposals))
    )


def _proposal_lines(reader: Reader, state: HookSession) -> list[str]:
    """The newest proposals of this conversation, one on a line, shortened."""
    from smp_memory.lifecycle.review import open_proposals

    if not reader.has(state.session):
        return []
    storage = reader.store.session(state.session)
    records = search.records.records(storage, include_deleted=True)
    found = [each for each in open_proposals(records, storage.info()) if each.turn in state.proposing]
    asked = CandidateRequest(refs=[each.ref for each in found], fetch=[REPEATED])
    known = {each.ref for each in reader.scope.index.candidates(asked).matches if each.repeats} if found else set()
    found = [each for each in found if each.ref not in known]  # some session has it, or a person removed it there
    return [f"- {each.type}: {_shortened(each.text)}" for each in reversed(found[:_MOST_PROPOSALS])]


def _shortened(text: str) -> str:
    from smp_memory.context.budget import excerpt, one_line

    words = one_line(text).split()
    short = " ".join(words[:_PROPOSAL_WORDS]) + (" …" if len(words) > _PROPOSAL_WORDS else "")
    return excerpt(short, _PROPOSAL_CHARACTERS)


def _context(
    reader: Reader,
    state: HookSession,
    tokens: int,
    *,
    turns: int,
    agent: str | None = None,
    task: str | None = None,
    exclude: Collection[str] = (),
) -> Context:
    from smp_memory.context.builder import context

    return context(
        reader.scope,
        agent,
        task,
        session=state.session if reader.has(state.session) else None,
        max_tokens=tokens,
        turns=turns,
        track_access=False,
        exclude=exclude,
        visible_sessions=visible_sessions(reader, state),
        min_relevance=reader.min_relevance,
        trace=reader.trace,
    )


# -- an agent that the host starts


def _for_agent(reader: Reader, event: HookEvent, state: HookSession) -> HookRecall:
    budget = reader.budget("hooks.prompt_tokens")
    if not budget:
        return HookRecall()
    agent = event.agent if is_valid(event.agent or "-") else None
    task = strip(event.description or event.prompt)[:MOST_CHARACTERS]
    # An agent has a conversation of its own: what it gets does not count as injected into this one, so no refs are returned.
    context = _context(reader, state, budget, turns=0, agent=agent, task=task)
    return HookRecall(context.text, context=context)
