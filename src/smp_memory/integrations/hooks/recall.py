"""What should the agent know now that it has not been told? Memories for the start of a session, for a prompt, for an agent.

At the start it is what `context` gives: where the last session stopped, what was decided, what is open. For a prompt it is
what matches its words, if there are enough of them to mean something, best first and within the budget.

Guarantees: all of it is fenced (`smp_memory.privacy.fence`), and of other users' sessions there is nothing (`smp_memory.context.builder`). What was injected into this conversation already is left out, unless
the conversation was cleared or compacted since; and so is what was said in it. Reads only: no maintenance is run, nothing
counts as used, no lock is taken.
"""

from __future__ import annotations

import os

from smp_memory.integrations.hooks import session_state as notes
from smp_memory.integrations.hooks.events import AGENT_START, PROMPT, START
from smp_memory.model.types import KINDS, names_where
from smp_memory.search import api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.context.budget import ContextItem
    from smp_memory.context.builder import Context, SessionReach
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.session_state import HookSession
    from smp_memory.model.hits import Hit

_BELOW_OTHERS = 0.4  # what was written down comes before what was only said
_LIMIT, _SAID_LIMIT, _ENOUGH = 10, 5, 4
_MIN_RELEVANCE, _SAID_MIN_RELEVANCE = 0.15, 0.5  # in a small store few words are rare: little is what there is
_OF_THE_BEST = 0.55  # what fits less than this share of the best is left out
_MIN_WORDS = 2
_PAGE_GROWTH, _LOOKED_AT = 4, 1000  # matches that are read at a prompt, at most: most of them may have been told before
_CHATTER = (  # words that match whatever has them, and mean nothing by themselves
    " yes yeah yep no nope not ok okay sure fine good great nice perfect cool thanks thank you please hello hey hi there go "
    "ahead on and do it that this again continue proceed next more now just keep going try let lets us we the a "
)
_MOST_WORDS, _LOOKED_AT_CHARACTERS = 48, 4000
_REMARK_TOKENS = 60
_TURNS = 8  # of the session before, at the start


class Reader:
    """The scope that hooks recall from. A `Memory` loads twice as much, and maintains the store when it is opened."""

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        import json

        from smp_memory.config import Config
        from smp_memory.files.disk import Disk
        from smp_memory.files.layouts import layout_named
        from smp_memory.files.system import RealSystem
        from smp_memory.privacy.visibility import Viewer
        from smp_memory.scope import Clock, Scope
        from smp_memory.store import incomplete
        from smp_memory.store.file_store import FileStore

        incomplete.caller_tells = True  # in the note at the start of a session; a hook prints nothing else
        path, system = os.path.join(root, "config.json"), RealSystem(root)
        stored = json.loads(Disk(system).read(path).decode("utf-8-sig"))
        config = Config.build(stored, path, environ=environ, arguments={"track_access": False})
        self.root = root
        self.store = FileStore(root, layout_named(config.layout), system, config, _never)
        self.scope = Scope(self.store, None, config, Clock(), viewer=Viewer(None))

    @property
    def config(self) -> Config:
        return self.scope.config

    def use_settings_of(self, session: str) -> None:
        """Let the settings of a session hold, if it is there and has some."""
        if self.has(session):
            self.scope.config = self.store.session(session).usable_config()

    def has(self, session: str) -> bool:
        return bool(session) and self.store.layout.exists(self.store.disk, self.root, session)


def _never(*_: Any) -> None:
    raise AssertionError("a reader does not write")


class HookRecall:
    """What is said, which memories are in it, and which notices about what was recorded."""

    def __init__(self, text: str = "", refs: list[str] | None = None) -> None:
        self.text = text
        self.refs = refs or []
        self.notices: list[str] = []

    def with_notices(self, texts: list[str]) -> HookRecall:
        self.notices = texts
        self.text = "\n\n".join(part for part in (self.text, *texts) if part)
        return self


def recalled(reader: Reader, event: HookEvent, session: str) -> HookRecall:
    """What to tell at this event; `session` is how this conversation is called here, or will be."""
    note = notes.read(reader.store.state, event.session)
    reader.use_settings_of(note.session)
    is_agent = event.kind == AGENT_START
    if not reader.config["hooks.recall"] or (is_agent and not reader.config["hooks.recall_agents"]):
        return HookRecall()
    if event.kind == START:
        return _at_start(reader, event, note, session).with_notices(note.notices)
    if event.kind == PROMPT:
        return _for_prompt(reader, event, note, session).with_notices(note.notices)
    return _for_agent(reader, event, note) if is_agent else HookRecall()


# -- the start of a session


def _at_start(reader: Reader, event: HookEvent, note: HookSession, session: str) -> HookRecall:
    budget = reader.config["hooks.start_tokens"]
    if not budget:
        return HookRecall()
    goes_on = event.source == "resume"  # what was said and injected is there again
    tokens = max(budget - _REMARK_TOKENS, 0)
    found = _context(reader, note, None, tokens, 0 if goes_on else _TURNS)
    text, chosen = found.text, found.ids
    given = set(note.given) if goes_on else set()
    if not given.isdisjoint(chosen):
        text, chosen = _laid_out([_named(item) for item in found.items if item.record.ref not in given], tokens)
    remarks = [] if goes_on else [_how_to_remember(session) if reader.config["hooks.record"] else ""]
    if found.problems and not goes_on:
        remarks.append(_what_cannot_be_read(found))
    if event.source in ("", "startup", "clear"):
        remarks.append(_what_was_left(reader))
    return HookRecall("\n\n".join(part for part in (text, *remarks) if part), chosen)


def _how_to_remember(session: str) -> str:
    return (
        f"SMP records this conversation as session {session}. Write down what is decided, found or learned, and name the session, "
        f'because others may be at work: smp decide "…" --session {session} (also smp note, smp add learning; over MCP: session).'
    )


def _what_cannot_be_read(found: Context) -> str:
    from smp_memory.store.incomplete import told

    return f"SMP: {told(found.problems, to_agent=True)}"


def _what_was_left(reader: Reader) -> str:
    left = notes.left_nothing(reader.store.state)
    if left is None:
        return ""
    return (
        f"The last session ({left['session']}, {left['turns']} turns) left no decision, finding or learning. "
        "If something in it should last, write it down."
    )


def _context(reader: Reader, note: HookSession, agent: str | None, tokens: int, turns: int) -> Context:
    from smp_memory.context.builder import context

    return context(
        reader.scope,
        agent,
        session=note.session if reader.has(note.session) else None,
        max_tokens=tokens,
        turns=turns,
        track_access=False,
        reach=_reach(reader, note),
    )


def _reach(reader: Reader, note: HookSession) -> SessionReach:
    """The sessions that may be recalled from. A session that hooks make has no user."""
    from smp_memory.context.builder import SessionReach

    return SessionReach(reader.store, note.session if reader.has(note.session) else None)


def _named(item: ContextItem) -> ContextItem:
    """The same by its full name."""
    from smp_memory.context.budget import ContextItem
    from smp_memory.context.format import head_of

    return ContextItem(item.record, item.section, item.score, item.why, head_of(item.record, None), item.text)


def _laid_out(items: list[ContextItem], tokens: int) -> tuple[str, list[str]]:
    """Items within a budget, best first."""
    from smp_memory.context.budget import count_tokens, fitted

    if not items or tokens <= 0:
        return "", []
    text, chosen = fitted(sorted(items, key=lambda item: -item.score), "", tokens, count_tokens)
    return text, [item.record.ref for item in chosen]


# -- a prompt


def _for_prompt(reader: Reader, event: HookEvent, note: HookSession, session: str) -> HookRecall:
    budget = reader.config["hooks.prompt_tokens"]
    words = meant_words(event.prompt)
    if not budget or not words or not event.is_from_a_person:
        return HookRecall()
    from smp_memory.context.budget import ContextItem
    from smp_memory.context.format import head_of, said_by

    reach = _reach(reader, note)
    items: list[ContextItem] = []
    for was_said, limit, least in ((False, _LIMIT, _MIN_RELEVANCE), (True, _SAID_LIMIT, _SAID_MIN_RELEVANCE)):
        if len(items) >= _ENOUGH:
            break  # what was written down says it
        types = names_where("is_said" if was_said else "is_written_down")
        for hit in _untold(_matches(reader, words, types, limit, reach), limit, least, set(note.given), session):
            score = hit.relevance - (_BELOW_OTHERS if was_said else 0.0)
            section = "earlier" if was_said else hit.record.type
            items.append(
                ContextItem(
                    hit.record, section, score, "matches the prompt", head_of(hit.record, None), said_by(hit.record)
                )
            )
    return HookRecall(*_laid_out(items, budget))


def _matches(reader: Reader, words: str, types: tuple[str, ...], limit: int, reach: SessionReach) -> Iterator[Hit]:
    """Visible memories within reach that match, best first. The next page is read when the caller wants more."""
    within: list[str] | None = None
    seen: set[str] = set()
    offset, size = 0, limit
    while offset < _LOOKED_AT:
        options: dict[str, Any] = {"types": list(types), "limit": size, "offset": offset, "track_access": False}
        hits = api.query(reader.scope, words, {**options, "sessions": within} if within else options)
        if within is None and not all(reach.allows(hit.record.session) for hit in hits):
            within, offset, size = reach.sessions(), 0, limit
            if not within:
                return
            continue
        for hit in hits:
            if hit.record.ref not in seen:
                seen.add(hit.record.ref)
                yield hit
        if not hits.more:
            return
        offset, size = offset + size, size * _PAGE_GROWTH


def _untold(hits: Iterator[Hit], limit: int, least: float, given: set[str], session: str) -> Iterator[Hit]:
    """The first of these that fit well enough and that the conversation does not have already."""
    from smp_memory.policies.statuses import is_settled

    best, count = 0.0, 0
    for hit in hits:
        record, best = hit.record, best or hit.relevance
        if hit.relevance < max(least, _OF_THE_BEST * best):
            return
        was_said_here = KINDS[record.type].is_said and record.session == session
        if record.ref in given or was_said_here or is_settled(record):
            continue
        yield hit
        count += 1
        if count == limit:
            return


def meant_words(prompt: str) -> str:
    """The words of a prompt that can be asked for; empty if they are too few to mean something."""
    if len(prompt) < 8:
        return ""
    from smp_memory.index.tokens import parse, without_signs
    from smp_memory.privacy.fence import strip

    text = without_signs(strip(prompt[:_LOOKED_AT_CHARACTERS]))
    words = list(dict.fromkeys(text.split()))[:_MOST_WORDS]
    asked = " ".join(words)
    telling = sum(f" {word.strip('.,;:!?').lower()} " not in _CHATTER for word in words)
    return asked if telling >= _MIN_WORDS and len(set(parse(asked).words)) >= _MIN_WORDS else ""


# -- an agent of the host's


def _for_agent(reader: Reader, event: HookEvent, note: HookSession) -> HookRecall:
    budget = reader.config["hooks.prompt_tokens"]
    if not budget:
        return HookRecall()
    from smp_memory.model.ids import is_valid

    agent = event.agent if is_valid(event.agent or "-") else None
    return HookRecall(
        _context(reader, note, agent, budget, 0).text
    )  # an agent's conversation is its own: nothing of it counts as given in this one
