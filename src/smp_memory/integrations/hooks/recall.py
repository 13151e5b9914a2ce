"""Memories to inject at the start of a session, at a prompt and for an agent that the host starts; and the request to write some down.

At the start it is what `context` gives: where the last session stopped, what was decided, what is open. At a prompt a memory is

    told         in full, if its relevance reaches `recall.min_relevance`; at most eight, most relevant first, within the budget
    pointed at   on one short line with its id, if it reaches `recall.min_pointer`, or was written down about a file that is open or was
                 used last; at most three, in at most 60 tokens

Text that a hook gives when the agent stops makes it go on. So the agent is asked to write down what a conversation decided or found at
the next prompt, or at the start after a compaction: if turns propose a memory and nothing was written down since, once for each stretch of
the conversation (`HookSession`).

Guarantees: all of it is fenced (`smp_memory.privacy.fence`), and nothing comes from other users' sessions
(`smp_memory.context.visible_sessions`). What was told in this conversation already is left out, unless it was changed, or the conversation
was cleared or compacted since, and so are turns of the conversation itself. Reads only: no maintenance is run, nothing counts as
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
from smp_memory.model.types import KINDS, names_where
from smp_memory.observe import incomplete
from smp_memory.privacy.fence import fence, strip
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.store.opening import open_read_only
from smp_memory.text.memory_text import text_of

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

_CANDIDATES, _MOST = 30, 5  # hits that are judged at a prompt, and memories that are told, at most
_MOST_MATCHES = 210  # hits that are read at a prompt, at most: some may have been told before
_MODEL_MS = 150  # a larger embedding model is used if it can be loaded in this time
_MOST_POINTERS, _POINTER_TOKENS, _POINTER_CHARACTERS = 3, 60, 48  # of each a few words
_MOST_WORDS, _MOST_CHARACTERS = 48, 4000
_NO_CONTENT = "the prompt has no content words"
_NOTICE_TOKENS = 60
_START_TURNS = 8  # of the last session, at the start
_MOST_PROPOSALS, _PROPOSAL_WORDS = 3, 12  # in a request to write something down


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
        """The relevance from which a memory is told."""
        return float(self.config["recall.min_relevance"]) if self.min_relevance is None else self.min_relevance

    def pointer_floor(self) -> float:
        """The relevance from which a memory is pointed at."""
        return min(float(self.config["recall.min_pointer"]), self.floor())

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

    def __init__(self, text: str = "", items: list[ContextItem] | None = None, context: Context | None = None) -> None:
        self.text = text
        self.notices: list[str] = []
        self.asks_to_record = False
        self.context = context  # that the text is made of; at a prompt there is none
        self.items = items or []

    @property
    def told(self) -> list[str]:
        """The refs of the memories that are told."""
        return [item.ref for item in self.items if not item.is_pointer]

    @property
    def pointed(self) -> list[str]:
        """The refs of the memories that are only pointed at."""
        return [item.ref for item in self.items if item.is_pointer]

    @property
    def marks(self) -> list[str]:
        """What the state of the conversation notes about these memories (`HookSession.injected`)."""
        return [session_state.injection_mark(item.record, is_told=not item.is_pointer) for item in self.items]

    def with_notices(self, texts: list[str]) -> HookRecall:
        self.notices = texts
        self.text = "\n\n".join(part for part in (self.text, *texts) if part)
        return self

    def with_request(self, text: str) -> HookRecall:
        """The same with a request to write something down; empty: none."""
        self.asks_to_record = bool(text)
        self.text = "\n\n".join(part for part in (self.text, text) if part)
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
    if event.kind not in (START, PROMPT):
        return _for_agent(reader, event, state) if is_agent else HookRecall()
    recall = (_at_start if event.kind == START else _for_prompt)(reader, event, state, session)
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
        f"If something in it should last, write it down{_where_to_look(last)}."
    )


def _where_to_look(last: dict[str, Any]) -> str:
    """A pointer to the proposals of a session. Their text is not told: it was said in another conversation."""
    if not isinstance(last.get("proposing"), int) or not last["proposing"]:
        return ""
    return f": smp review --session {last['session']} shows what turns of it propose"


def _request_to_record(reader: Reader, event: HookEvent, state: HookSession) -> str:
    """The request to write down what turns of this conversation propose; empty if there is no reason for it."""
    config = reader.config
    is_wanted = config["hooks.ask_to_record"] and config["hooks.record"] and config["hooks.prompt_tokens"]
    if not is_wanted or state.was_asked or state.turns < session_state.MIN_TURNS or not event.is_from_a_person:
        return ""
    proposals = _proposal_lines(reader, state) if state.proposing else []
    if not proposals:
        return ""
    return (
        "SMP: nothing of this conversation was written down yet. If one of these should last, record it in a sentence that stands alone "
        f'(smp add decision "…" --session {state.session}; also finding, learning, preference; over MCP: remember); else go on.\n'
        + fence("\n".join(proposals))
    )


def _proposal_lines(reader: Reader, state: HookSession) -> list[str]:
    """The newest proposals of this conversation, one on a line, shortened."""
    from smp_memory.model.proposals import proposals_in

    refs = [f"{state.session}/{turn}" for turn in state.proposing]
    turns = reader.scope.index.records(refs, reader.scope.viewer) if reader.has(state.session) else {}
    known = [turns[ref] for ref in refs if ref in turns and not turns[ref].deleted]
    found = [each for turn in known for each in proposals_in(turn.text, turn.given.get("role", ""))]
    return [f"- {type}: {_shortened(text)}" for type, text in found[-_MOST_PROPOSALS:]]


def _shortened(text: str) -> str:
    words = text.split()
    return " ".join(words[:_PROPOSAL_WORDS]) + (" …" if len(words) > _PROPOSAL_WORDS else "")


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


# -- a prompt


def _for_prompt(reader: Reader, event: HookEvent, state: HookSession, session: str) -> HookRecall:
    budget = reader.budget("hooks.prompt_tokens")
    words = query_words(event.prompt)
    files = _named_files([*event.files, *state.files], event.cwd)
    if not budget or not event.is_from_a_person or not (words or files):
        if budget:
            reader.nothing_because(_NO_CONTENT if event.is_from_a_person else "the prompt was not written by a person")
        return HookRecall()
    prompt = _Prompt(reader, state, session)
    told, near = prompt.judge(words) if words else ([], [])
    about_files = prompt.about(files) if files else []
    pointed = list({hit.record.ref: hit for hit in (*about_files, *near) if hit not in told}.values())
    return prompt.injected(told, pointed[:_MOST_POINTERS], words, budget)


class _Prompt:
    """The search for one prompt."""

    def __init__(self, reader: Reader, state: HookSession, session: str) -> None:
        self._reader = reader
        self._trace = reader.trace
        self._injected = set(state.injected)
        self._session = session
        self._visible = visible_sessions(reader, state)
        self._ended: list[Hit] = []  # deleted and settled memories that match

    def judge(self, words: str) -> tuple[list[Hit], list[Hit]]:
        """The hits to tell and those to point at, most relevant first; none that is in the conversation already."""
        least, least_pointer = self._reader.floor(), self._reader.pointer_floor()
        found: list[Hit] = []
        for page in self._pages(words, _recalled_types()):
            new = [hit for hit in page if not self._is_known(hit)]
            relevant = [hit for hit in new if hit.relevance >= least_pointer]
            found += relevant
            if self._trace is not None:
                self._trace_page(page, least_pointer)
            if len(found) >= _MOST + _MOST_POINTERS or len(relevant) < len(new) or not new:
                break
        found = self._without_silenced(sorted(found, key=lambda hit: -hit.relevance))
        told = [hit for hit in found if hit.relevance >= least]
        near = [hit for hit in found if hit.relevance < least and not self._was_pointed_at(hit)]
        if self._trace is not None:
            for hit in told[_MOST:]:
                self._trace.drop_hit(hit, "cut by limit", f"a prompt gets {_MOST} memories at most")
            for hit in near[_MOST_POINTERS:]:
                self._trace.drop_hit(hit, "cut by limit", f"a prompt gets {_MOST_POINTERS} pointers at most")
        return told[:_MOST], near

    def _without_silenced(self, hits: list[Hit]) -> list[Hit]:
        """The same hits without the turns for which a memory that was written down has the last word."""
        written = [(hit.record, hit.relevance) for hit in (*hits, *self._ended)]
        kept = []
        for hit in hits:
            last = search.succession.last_word(hit.record, hit.relevance, written)
            if last is None:
                kept.append(hit)
            elif self._trace is not None:
                self._trace.drop_hit(hit, search.succession.SILENCED, search.succession.describe_silenced(last))
        return kept

    def about(self, files: list[str]) -> list[Hit]:
        """What was written down about one of these files, as far as it names them."""
        names = [file.rpartition("/")[2].casefold() for file in files]
        page = next(self._pages(" ".join(files), names_where("is_written_down")), [])
        texts = [(hit, text_of(hit.record.given).casefold()) for hit in page]
        found = [hit for hit, text in texts if any(name in text for name in names)]
        return [hit for hit in found if not self._is_known(hit) and not self._was_pointed_at(hit)]

    def injected(self, told: list[Hit], pointed: list[Hit], words: str, budget: int) -> HookRecall:
        """The text of the memories that fit the budget."""
        from smp_memory.context.budget import (
            Lane,
            QuestionWords,
            context_item,
            count_tokens,
            fit_lanes,
            pointer_item,
            section_of,
        )

        looked_for = QuestionWords(words)
        items = [
            context_item(hit.record, section_of(hit.record.type), hit.relevance, "matches the prompt", looked_for)
            for hit in told
        ]
        pointers = [pointer_item(hit.record, hit.relevance, looked_for) for hit in pointed]
        if self._trace is not None:
            self._trace.words, self._trace.floor = words, self._reader.pointer_floor()
            for hit, item in zip([*told, *pointed], [*items, *pointers], strict=True):
                self._trace.offer_hit(hit, item)
        if not items and not pointers:
            return HookRecall()
        share = min(_POINTER_TOKENS / budget, 1.0)
        lanes = [Lane(items), Lane(pointers, most=share, rank=1, longest=_POINTER_CHARACTERS)]
        text, chosen = fit_lanes(lanes, "", budget, count_tokens)
        return HookRecall(text, chosen)

    def _trace_page(self, page: list[Hit], least: float) -> None:
        from smp_memory.context.trace import ALREADY_TOLD, BELOW_FLOOR, SAID_HERE

        assert self._trace is not None
        for hit in page:
            if self._is_said_here(hit):
                self._trace.drop_hit(hit, SAID_HERE, f"a turn of {self._session}")
            elif self._is_known(hit):
                self._trace.drop_hit(hit, ALREADY_TOLD, "it is in the conversation already")
            elif hit.relevance < least:
                self._trace.drop_hit(hit, BELOW_FLOOR, f"relevance {hit.relevance:.2f}, the floor is {least:g}")

    def _is_known(self, hit: Hit) -> bool:
        """Whether the memory is in the conversation: it was said there, or told and not changed since."""
        return self._is_said_here(hit) or session_state.injection_mark(hit.record) in self._injected

    def _was_pointed_at(self, hit: Hit) -> bool:
        return session_state.injection_mark(hit.record, is_told=False) in self._injected

    def _is_said_here(self, hit: Hit) -> bool:
        return KINDS[hit.record.type].is_said and hit.record.session == self._session

    def _pages(self, words: str, types: tuple[str, ...]) -> Iterator[list[Hit]]:
        """Pages of matching memories of visible sessions, best first. The next one is read when the caller asks for it."""
        options: dict[str, Any] = {
            "types": list(types),
            "limit": _CANDIDATES,
            "include_deleted": True,
            "track_access": False,
        }
        trace, allows = self._trace, self._visible.allows
        offset = 0
        while offset < _MOST_MATCHES:
            hits = search.path.query(self._reader.scope, words, {**options, "offset": offset})
            if trace is not None:
                trace.warnings, trace.problems = hits.warnings, hits.problems
            if "sessions" not in options and not all(allows(hit.record.session) for hit in hits):
                options["sessions"], offset = self._visible.sessions(), 0
                if not options["sessions"]:
                    return
                continue
            self._ended += [hit for hit in hits if hit.record.deleted or is_settled(hit.record)]
            stored = [hit for hit in hits if not hit.record.deleted]
            yield search.succession.current_hits(stored, allows, partial(_trace_replaced, trace) if trace else None)
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
    """The words of a prompt to search for; empty if none of them has content: "yes, go on"."""
    from smp_memory.text.prompt_cues import is_frame
    from smp_memory.text.tokenizer import parse, without_signs

    text = without_signs(_beginning_and_end(strip(prompt)))
    words = list(dict.fromkeys(text.split()))
    if len(words) > _MOST_WORDS:
        words = words[: _MOST_WORDS // 2] + words[-_MOST_WORDS // 2 :]
    query = " ".join(words)
    parsed = parse(query)
    return query if parsed.characters or not all(map(is_frame, parsed.words)) else ""


def _named_files(paths: list[str], cwd: str) -> list[str]:
    """The names of files as a memory would name them: relative to the folder of the project, if they are in it."""
    base = cwd.replace("\\", "/").rstrip("/") + "/"
    found = (path.replace("\\", "/").removeprefix(base) for path in paths)
    return list(dict.fromkeys(file for file in found if file.rpartition("/")[2]))


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
