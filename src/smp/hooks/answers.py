"""How does each host want to be told? What is printed for an event. Pure.

Guarantees: only keys that the host's schema knows; Codex refuses any other. Nothing to say prints nothing, except where a
host waits for a word to go on.
"""

from __future__ import annotations

from smp.hooks.events import CURSOR, GEMINI, PROMPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp.hooks.events import Event


def takes_context(event: Event) -> bool:
    """Whether the host can be told something at this event."""
    return event.name != "beforeSubmitPrompt"


def answer(event: Event, context: str) -> bytes:
    """The document for standard output, without a line end; empty: nothing is printed."""
    said = _document(event, context)
    if said is None:
        return b""
    import json

    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")


def _document(event: Event, context: str) -> dict[str, Any] | None:
    if event.client == CURSOR and event.name[0].islower():  # it also runs hooks that were put in for Claude Code
        if event.kind == PROMPT:
            return {"continue": True}
        return {"additional_context": context} if context else None
    if context:
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": context}}
    return {} if event.client == GEMINI else None
