"""What hooks told agents: the line of an event in the log, and events with the texts as the store has them now.

The log (`smp_memory.model.told_log`) has ids alone. Prompts and memories are read from the live sessions when they are shown.

Guarantees: what was deleted or erased, or is in an archived session, has no text here. A client of a shared server sees nothing: the log is in the state of the
user. Reads only; nothing counts as used.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.events import AGENT_START, PROMPT, START
from smp_memory.integrations.hooks.session_state import log_failure
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.told_log import ToldEvent, ToldMemory, note_told, told_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.reader import HookRecall
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

MOST_SHOWN = 5  # memories of an event, as many as a prompt gets; the start of a session tells more
EVENTS = {PROMPT: "prompt", START: "session start", AGENT_START: "agent start"}


def log_told(
    memory: Memory, config: Config, event: HookEvent, recall: HookRecall, at: str, session: str, turn: str | None
) -> None:
    """Log what was told at an event, unless that or recall is off. Never raises. The caller holds the lock of the session states."""
    if event.is_from_a_person and config["hooks.log_told"] and config["hooks.recall"]:
        try:
            note_told(memory.store.state, _told_event(event, recall, at, session, turn))
        except Exception as error:
            log_failure(memory.root, event.client, event.name, error)


def _told_event(event: HookEvent, recall: HookRecall, at: str, session: str, turn: str | None) -> ToldEvent:
    """With relevance at a prompt only: elsewhere memories are not chosen by it alone."""
    from smp_memory.context.budget import count_tokens

    items = recall.items or (recall.context.items if recall.context is not None else [])

    def memories(are_pointers: bool) -> list[ToldMemory]:
        return [
            ToldMemory(item.ref, item.record.revision, item.score if event.kind == PROMPT else None)
            for item in items
            if item.is_pointer is are_pointers
        ]

    return ToldEvent(
        at, event.client, event.kind, session, turn, memories(False), memories(True), count_tokens(recall.text)
    )


class ShownMemory:
    """A memory that was told or pointed at; `record` is None if it cannot be shown any more."""

    def __init__(self, memory: ToldMemory, is_pointer: bool, records: Mapping[str, Record]) -> None:
        self.ref = memory.ref
        self.relevance = memory.relevance
        self.is_pointer = is_pointer
        self.record = records.get(memory.ref)
        self.is_changed = self.record is not None and self.record.revision != memory.revision  # since it was told


class ShownEvent:
    """An event with the prompt and the memories."""

    def __init__(self, event: ToldEvent, records: Mapping[str, Record]) -> None:
        self.event = event
        self.title = EVENTS.get(event.event, event.event)
        self.prompt = records.get(event.turn_ref or "")
        self.memories = [ShownMemory(each, False, records) for each in event.told]
        self.memories += [ShownMemory(each, True, records) for each in event.pointed]

    @property
    def without_prompt(self) -> str:
        """Why a prompt is not shown; empty if it is, or if there was none."""
        if self.prompt is not None or self.event.event != PROMPT:
            return ""
        return "erased, deleted or archived" if self.event.turn else "not recorded"

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.event.to_dict(),
            "prompt": self.prompt.text if self.prompt is not None else None,
            "told": [_fields(each) for each in self.memories if not each.is_pointer],
            "pointed": [_fields(each) for each in self.memories if each.is_pointer],
        }


def _fields(each: ShownMemory) -> dict[str, Any]:
    text = each.record.text if each.record is not None else None
    return {"ref": each.ref or None, "relevance": each.relevance, "text": text}


def shown_events(
    memory: Memory, *, limit: int | None = None, ref: str | None = None, session: str | None = None
) -> list[ShownEvent]:
    """The newest events first: all, those that told or pointed at a memory, or those of a conversation."""
    events = told_events(memory.store.state, limit=limit, ref=ref, session=session)
    refs = {each.ref for event in events for each in (*event.told, *event.pointed)}
    refs |= {event.turn_ref for event in events if event.turn_ref}
    records = _records(memory, refs - {""})
    return [ShownEvent(event, records) for event in events]


def _records(memory: Memory, refs: set[str]) -> Mapping[str, Record]:
    if not refs:
        return {}
    index = memory.store.indexer
    found = index.records(index.candidates(CandidateRequest(refs=refs)).matches, memory.scope.viewer)
    return {ref: record for ref, record in found.items() if not record.deleted}


def counts_of(events: list[ToldEvent], ref: str) -> tuple[int, int]:
    """How often a memory was told, and how often it was pointed at."""
    told = sum(any(each.ref == ref for each in event.told) for event in events)
    return told, sum(any(each.ref == ref for each in event.pointed) for event in events)
