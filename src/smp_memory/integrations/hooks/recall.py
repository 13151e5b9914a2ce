"""Memories to inject at the start of a session, at a prompt and for an agent that the host starts.

At the start it is what `context` gives: where the last session stopped, what was decided, what is open. For a prompt it is
what is relevant enough (`recall.min_relevance`), most relevant first and within the budget.

Guarantees: all of it is fenced (`smp_memory.privacy.fence`), and nothing comes from other users' sessions
(`smp_memory.context.visible_sessions`). What was injected into this conversation already is left out, unless the conversation was
cleared or compacted since, and so are turns of the conversation itself. Reads only: no maintenance is run, nothing counts as
used, no lock is taken.
"""

from __future__ import annotations

import os
from functools import partial

from smp_memory import search
from smp_memory.config.settings import RECORD
from smp_memory.discovery import folder_of_store
from smp_memory.integrations.hooks import session_state
from smp_memory.integrations.hooks.events import AGENT_START, PROMPT, START
from smp_memory.model.ids import is_valid
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import Clock
from smp_memory.model.types import KINDS
from smp_memory.observe import incomplete
from smp_memory.privacy.fence import strip
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.store.opening import open_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.context.budget import ContextItem
    from smp_memory.context.builder import Context
    from smp_memory.context.trace import ContextTrace
    from smp_memory.context.visible_sessions import VisibleSessions
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.session_state import HookSession
    from smp_memory.model.candidates import Hit
    from smp_memory.store.port import Store

_CANDIDATES, _MOST = 20, 8  # hits that are judged at a prompt, and memories that are injected, at most
_MIN_WORDS = 2
_MODEL_MS = 150  # a larger embedding model is used if it can be loaded in this time
_TOO_FEW_WORDS = f"the prompt has fewer than {_MIN_WORDS} content words"
_MOST_MATCHES = 200  # hits that are read at a prompt, at most: some may have been injected before
_STOP_WORDS = (  # words of prompts that carry no content
    " yes yeah yep no nope not ok okay sure fine good great nice perfect cool thanks thank you please hello hey hi there go "
    "ahead on and do it that this again continue proceed next more now just keep going try let lets us we the a "
)
_MOST_WORDS, _MOST_CHARACTERS = 48, 4000
_NOTICE_TOKENS = 60
_START_TURNS = 8  # of the last session, at the start


class Reader:
    """A read-only scope of a store. A `Memory` loads twice as much, and maintains the store when it is opened."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        *,
        defers_file_checks: bool = False,
        store: Store | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`store`: one that is open already, and its clock, for previews."""
        self.root = root
        self.project = ""  # of the folder in which the host works, if the store is for several projects
        if store is None:
            incomplete.caller_reports = True  # in the notice at the start of a session; a hook prints nothing else
            store = open_read_only(
                root,
                environ,
                {"track_access": False, "search.model_ms": _MODEL_MS},
                defers_file_checks=defers_file_checks,
            )
            if store.files is not None and store.files.sessions_with_deletion_records():
                _hide_recorded_deletions(root)
        self.store = store
        self.scope = Scope(store, None, store.config, clock or Clock(), viewer=Viewer(None))
        self.trace: ContextTrace | None = None  # gets what is considered and left out; None: nobody asks
        self.min_relevance: float | None = None  # instead of `recall.min_relevance`
        self.max_tokens: int | None = None  # instead of the budget in the settings

    @property
    def config(self) -> Config:
        return self.scope.config

    def budget(self, setting: str) -> int:
        """The tokens that an event may take, by the settings or as a preview says."""
        tokens = int(self.config[setting]) if self.max_tokens is None else self.max_tokens
        if self.trace is not None:
            self.trace.max_tokens = tokens
            if not tokens:
                self.nothing_because(f"{setting} is 0" if self.max_tokens is None else "the budget is 0 tokens")
        return tokens

    def floor(self) -> float:
        return float(self.config["recall.min_relevance"]) if self.min_relevance is None else self.min_relevance

    def nothing_because(self, reason: str) -> None:
        if self.trace is not None:
            self.trace.nothing_because = reason

    def use_config_of(self, session: str) -> None:
        """Use the settings of a session, if it exists and has some."""
        if self.has(session):
            self.scope.config = self.store.session(session).config

    def has(self, session: str) -> bool:
        return bool(session and self.store.sessions(id=session))


class HookRecall:
    """The text to inject, the memories in it, and the notices in it about what was recorded."""

    def __init__(self, text: str = "", refs: list[str] | None = None, context: Context | None = None) -> None:
        self.text = text
        self.refs = refs or []
        self.notices: list[str] = []
        self.context = context  # that the text is made of; at a prompt there is none
        self.items: list[ContextItem] = context.items if context is not None else []

    def with_notices(self, texts: list[str]) -> HookRecall:
        self.notices = texts
        self.text = "\n\n".join(part for part in (self.text, *texts) if part)
        return self


def recall_for_event(reader: Reader, event: HookEvent, session: str) -> HookRecall:
    """The text to inject at this event; `session` is the SMP session of this conversation, which need not exist yet."""
    return recall_in_state(reader, event, session, session_state.read_state(reader.store.state, event.session))


def recall_in_state(reader: Reader, event: HookEvent, session: str, state: HookSession) -> HookRecall:
    """The same, given what is known about the host's session."""
    reader.project = "" if folder_of_store(reader.root) else os.path.basename(os.path.abspath(event.cwd or reader.root))
    reader.use_config_of(state.session)
    is_agent = event.kind == AGENT_START
    for setting in ("hooks.recall", "hooks.recall_agents") if is_agent else ("hooks.recall",):
        if not reader.config[setting]:
            reader.nothing_because(f"{setting} is off")
            return HookRecall()
    if event.kind == START:
        return _at_start(reader, event, state, session).with_notices(state.notices)
    if event.kind == PROMPT:
        return _for_prompt(reader, event, state, session).with_notices(state.notices)
    return _for_agent(reader, event, state) if is_agent else HookRecall()


# -- the start of a session


def _at_start(reader: Reader, event: HookEvent, state: HookSession, session: str) -> HookRecall:
    budget = reader.budget("hooks.start_tokens")
    if not budget:
        return HookRecall()
    is_resumed = event.source == "resume"  # the conversation with its injected memories is in the host's context again
    tokens = max(budget - _NOTICE_TOKENS, 0)
    injected = set(state.injected) if is_resumed else set()
    context = _context(reader, state, tokens, turns=0 if is_resumed else _START_TURNS, exclude=injected)
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
    return HookRecall("\n\n".join(part for part in (context.text, *notices) if part), context.ids, context)


def _recording_notice(session: str) -> str:
    return (
        f"SMP records this conversation as session {session}. Write down what is decided, found or learned, and name the session, "
        f'because others may be at work: smp add decision "…" --session {session} (also smp add finding, smp add learning; over MCP: session).'
    )


def _unreadable_notice(context: Context) -> str:
    return f"SMP: {incomplete.describe(context.problems, to_agent=True)}"


def _without_memories_notice(reader: Reader) -> str:
    last = session_state.session_without_memories(reader.store.state)
    if last is None:
        return ""
    return (
        f"The last session ({last['session']}, {last['turns']} turns) left no decision, finding or learning. "
        "If something in it should last, write it down."
    )


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


def visible_sessions(reader: Reader, state: HookSession) -> VisibleSessions:
    """The sessions that may be recalled from. A session that hooks create has no user."""
    from smp_memory.context.visible_sessions import VisibleSessions

    session = state.session if reader.has(state.session) else None
    return VisibleSessions(reader.store, session, project=reader.project)


def _within_budget(items: list[ContextItem], tokens: int) -> HookRecall:
    """The text of the best items that fit a budget, and these items."""
    from smp_memory.context.budget import count_tokens, fit_to_budget

    if not items or tokens <= 0:
        return HookRecall()
    text, chosen = fit_to_budget(sorted(items, key=lambda item: -item.score), "", tokens, count_tokens)
    recall = HookRecall(text, [item.record.ref for item in chosen])
    recall.items = chosen
    return recall


# -- a prompt


def _for_prompt(reader: Reader, event: HookEvent, state: HookSession, session: str) -> HookRecall:
    budget = reader.budget("hooks.prompt_tokens")
    words = query_words(event.prompt)
    if not budget or not words or not event.is_from_a_person:
        if budget:
            reader.nothing_because(_TOO_FEW_WORDS if not words else "the prompt was not written by a person")
        return HookRecall()
    from smp_memory.context.budget import QuestionWords, context_item, section_of

    looked_for = QuestionWords(words)
    hits = _relevant_hits(reader, words, state, session)
    items = [
        context_item(hit.record, section_of(hit.record.type), hit.relevance, "matches the prompt", looked_for)
        for hit in hits
    ]
    if reader.trace is not None:
        reader.trace.words, reader.trace.floor = words, reader.floor()
        for hit, item in zip(hits, items, strict=True):
            reader.trace.offer_hit(hit, item)
    return _within_budget(items, budget)


def _relevant_hits(reader: Reader, words: str, state: HookSession, session: str) -> list[Hit]:
    """The most relevant of the first hits that are relevant enough and not in the conversation already."""
    least, injected = reader.floor(), set(state.injected)
    found: list[Hit] = []
    for page in _pages(reader, words, visible_sessions(reader, state)):
        new = [hit for hit in page if not _is_in_conversation(hit, injected, session) and not is_settled(hit.record)]
        relevant = [hit for hit in new if hit.relevance >= least]
        found += relevant
        if reader.trace is not None:
            _trace_page(reader.trace, page, injected, session, least)
        if len(found) >= _MOST or len(relevant) < len(new) or not new:
            break
    found.sort(key=lambda hit: -hit.relevance)
    if reader.trace is not None:
        for hit in found[_MOST:]:
            reader.trace.drop_hit(hit, "cut by limit", f"a prompt gets {_MOST} memories at most")
    return found[:_MOST]


def _trace_page(trace: ContextTrace, page: list[Hit], injected: set[str], session: str, least: float) -> None:
    from smp_memory.context.trace import ALREADY_TOLD, BELOW_FLOOR, SAID_HERE

    for hit in page:
        if hit.record.ref in injected:
            trace.drop_hit(hit, ALREADY_TOLD, "it is in the conversation already")
        elif _is_in_conversation(hit, injected, session):
            trace.drop_hit(hit, SAID_HERE, f"a turn of {session}")
        elif hit.relevance < least:
            trace.drop_hit(hit, BELOW_FLOOR, f"relevance {hit.relevance:.2f}, the floor is {least:g}")


def _is_in_conversation(hit: Hit, injected: set[str], session: str) -> bool:
    record = hit.record
    return record.ref in injected or (KINDS[record.type].is_said and record.session == session)


def _pages(reader: Reader, words: str, visible: VisibleSessions) -> Iterator[list[Hit]]:
    """Pages of matching memories of visible sessions, best first. The next one is read when the caller asks for it."""
    options: dict[str, Any] = {"types": list(_recalled_types()), "limit": _CANDIDATES, "track_access": False}
    offset = 0
    while offset < _MOST_MATCHES:
        hits = search.path.query(reader.scope, words, {**options, "offset": offset})
        if reader.trace is not None:
            reader.trace.warnings, reader.trace.problems = hits.warnings, hits.problems
        if "sessions" not in options and not all(visible.allows(hit.record.session) for hit in hits):
            options["sessions"], offset = visible.sessions(), 0
            if not options["sessions"]:
                return
            continue
        trace = reader.trace
        yield search.succession.current_hits(hits, visible.allows, partial(_trace_replaced, trace) if trace else None)
        if not hits.more:
            return
        offset += _CANDIDATES


def _trace_replaced(trace: ContextTrace, hit: Hit, reason: str, other: str) -> None:
    from smp_memory.context.trace import describe_replaced

    trace.drop_hit(hit, reason, describe_replaced(reason, other))


def _recalled_types() -> tuple[str, ...]:
    """The types that are injected at a prompt: what was written down or said, and artifacts."""
    return tuple(name for name, kind in KINDS.items() if not kind.is_named_by_agent)


def query_words(prompt: str) -> str:
    """The words of a prompt to search for; empty if it has too few content words."""
    if len(prompt) < 8:
        return ""
    from smp_memory.text.tokenizer import parse, without_signs

    text = without_signs(_beginning_and_end(strip(prompt)))
    words = list(dict.fromkeys(text.split()))
    if len(words) > _MOST_WORDS:
        words = words[: _MOST_WORDS // 2] + words[-_MOST_WORDS // 2 :]
    query = " ".join(words)
    content_words = sum(f" {word.strip('.,;:!?').lower()} " not in _STOP_WORDS for word in words)
    if not query.isascii() and len(words) < _MIN_WORDS:  # a script without spaces
        content_words = _MIN_WORDS
    return query if content_words >= _MIN_WORDS and len(set(parse(query).words)) >= _MIN_WORDS else ""


def _beginning_and_end(prompt: str) -> str:
    """A long prompt without its middle: the question stands before or after what was pasted."""
    if len(prompt) <= _MOST_CHARACTERS:
        return prompt
    half = _MOST_CHARACTERS // 2
    return f"{prompt[:half]} {prompt[-half:]}"


# -- an agent that the host starts


def _for_agent(reader: Reader, event: HookEvent, state: HookSession) -> HookRecall:
    budget = reader.budget("hooks.prompt_tokens")
    if not budget:
        return HookRecall()
    agent = event.agent if is_valid(event.agent or "-") else None
    task = strip(event.description or event.prompt)[:_MOST_CHARACTERS]
    # An agent has a conversation of its own: what it gets does not count as injected into this one, so no refs are returned.
    context = _context(reader, state, budget, turns=0, agent=agent, task=task)
    return HookRecall(context.text, context=context)


def _hide_recorded_deletions(root: str) -> None:
    """Open the store for writing, which hides the memories that another program has deleted. Rare."""
    from smp_memory.memory import open_memory

    open_memory(root, create=False, trust=False).close()
