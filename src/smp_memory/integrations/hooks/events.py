"""What happened? The events of four hosts in one vocabulary. Pure.

| kind | Claude Code, Codex | Gemini CLI | Cursor |
|---|---|---|---|
| start | SessionStart | SessionStart | sessionStart |
| prompt | UserPromptSubmit | BeforeAgent | beforeSubmitPrompt |
| reply | Stop | AfterAgent | afterAgentResponse, stop |
| agent-start, agent-reply | SubagentStart, SubagentStop | | subagentStop |
| compact, compacted | PreCompact, PostCompact | PreCompress | preCompact |
| end | SessionEnd | SessionEnd | sessionEnd |

Guarantees: anything that is not such an event is None, never an error. Fields of the wrong type count as missing.

How does each host want to be told? What is printed for an event. Pure.

Guarantees: only keys that the host's schema knows; Codex refuses any other. Nothing to say prints nothing, except where a
host waits for a word to go on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


CLAUDE, CODEX, GEMINI, CURSOR = "claude-code", "codex", "gemini", "cursor"
CLIENTS = (CLAUDE, CODEX, GEMINI, CURSOR)
START, PROMPT, REPLY, END = "start", "prompt", "reply", "end"
AGENT_START, AGENT_REPLY, COMPACT, COMPACTED = "agent-start", "agent-reply", "compact", "compacted"

KINDS = {
    "SessionStart": START,
    "UserPromptSubmit": PROMPT,
    "Stop": REPLY,
    "SubagentStart": AGENT_START,
    "SubagentStop": AGENT_REPLY,
    "PreCompact": COMPACT,
    "PostCompact": COMPACTED,
    "SessionEnd": END,
    "BeforeAgent": PROMPT,
    "AfterAgent": REPLY,
    "PreCompress": COMPACT,
    "sessionStart": START,
    "beforeSubmitPrompt": PROMPT,
    "afterAgentResponse": REPLY,
    "stop": REPLY,
    "subagentStop": AGENT_REPLY,
    "preCompact": COMPACT,
    "sessionEnd": END,
}
ANSWERED = (START, PROMPT, AGENT_START)  # the others are recorded, and nothing is said
_HOST_BLOCKS = (("<system-reminder>", "</system-reminder>"), ("<hook_context>", "</hook_context>"))
_OF_GEMINI = frozenset(("BeforeAgent", "AfterAgent", "PreCompress"))
_GEMINI_VARIABLES = ("GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR", "GEMINI_CWD")
_BY_PEOPLE = ("", "user", "sdk")  # who may have written a prompt; the others are the host's own wake-up calls


class HookEvent:
    """One event, whatever the host calls it. What a host does not say is empty."""

    __slots__ = (
        "agent",
        "agent_id",
        "client",
        "cwd",
        "is_sure",
        "kind",
        "name",
        "prompt",
        "reply",
        "session",
        "source",
        "summary",
        "transcript",
        "turn",
    )

    def __init__(self, client: str, name: str, payload: Mapping[str, Any], is_sure: bool = True) -> None:
        def text(*names: str) -> str:
            for each in names:
                value = payload.get(each)
                if isinstance(value, str) and value:
                    return printable(value)
            return ""

        self.client = client
        self.is_sure = is_sure  # which client it is; what is not sure is as it was before in this session
        self.name = name
        self.kind = KINDS[name]
        self.session = text("session_id", "conversation_id")  # the host's own id
        self.cwd = text("cwd") or _first(payload.get("workspace_roots"))
        self.transcript = text("transcript_path")
        self.source = text("source", "trigger")
        self.prompt = without_host_words(text("prompt"))
        self.reply = text("last_assistant_message", "prompt_response", "text")
        self.summary = text("compact_summary")
        self.agent = text("agent_type", "subagent_type")
        self.agent_id = text("agent_id", "subagent_id")
        self.turn = text("prompt_id", "turn_id", "generation_id")
        if not self.turn and client == GEMINI:
            self.turn = text("timestamp")  # one for each event, and all that there is

    @property
    def is_from_a_person(self) -> bool:
        """Whether a prompt was written for the agent, not a wake-up call of the host's own."""
        return self.kind != PROMPT or self.client == GEMINI or self.source in _BY_PEOPLE


def printable(text: str) -> str:
    """A text without halves of characters, which JSON may hold and no file does."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def without_host_words(text: str) -> str:
    """A prompt without what the host put into it: reminders, and what hooks said before, which comes back escaped."""
    for begin, end in _HOST_BLOCKS:
        if begin in text:
            text = _without(text, begin, end)
    return text


def _without(text: str, begin: str, end: str) -> str:
    """Without all that stands between two words; time grows with the length of the text."""
    kept, done = [], 0
    while (start := text.find(begin, done)) >= 0 and (stop := text.find(end, start)) >= 0:
        kept.append(text[done:start])
        done = stop + len(end)
    return "".join(kept) + text[done:]


def read(raw: bytes, client: str, environ: Mapping[str, str]) -> HookEvent | None:
    """The event that a host wrote to standard input; None if it is none that matters here."""
    import json

    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(payload, dict):
        return None
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or name not in KINDS:
        return None
    found = client if client in CLIENTS else client_of(payload, environ)
    event = HookEvent(found or CLAUDE, name, payload, is_sure=bool(found))  # many others speak as Claude Code does
    return event if event.session else None


def client_of(payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Which host is it? Empty if nothing tells."""
    name, transcript = payload.get("hook_event_name"), payload.get("transcript_path")
    if environ.get("CURSOR_VERSION") or "cursor_version" in payload or "conversation_id" in payload:
        return CURSOR
    if isinstance(name, str) and name[:1].islower():
        return CURSOR
    if name in _OF_GEMINI or any(environ.get(each) for each in _GEMINI_VARIABLES):
        return GEMINI
    if "turn_id" in payload or (isinstance(transcript, str) and "rollout-" in transcript):
        return CODEX
    return ""


def may_be_answered(raw: bytes) -> bool:
    """Whether something has to be said, by a look at the bytes alone: reading JSON takes longer than starting a child."""
    return any(name in raw for name in _ANSWERED_NAMES)


_ANSWERED_NAMES = tuple(f'"{name}"'.encode() for name, kind in KINDS.items() if kind in ANSWERED)


def _first(roots: Any) -> str:
    return roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""


def takes_context(event: HookEvent) -> bool:
    """Whether the host can be told something at this event."""
    return event.name != "beforeSubmitPrompt"


def answer(event: HookEvent, context: str) -> bytes:
    """The document for standard output, without a line end; empty: nothing is printed."""
    said = _document(event, context)
    if said is None:
        return b""
    import json

    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")


def _document(event: HookEvent, context: str) -> dict[str, Any] | None:
    if event.client == CURSOR and event.name[0].islower():  # it also runs hooks that were put in for Claude Code
        if event.kind == PROMPT:
            return {"continue": True}
        return {"additional_context": context} if context else None
    if context:
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": context}}
    return {} if event.client == GEMINI else None
