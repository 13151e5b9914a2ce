"""The events of six hosts in one vocabulary, and the document that answers an event in the host's format. Pure.

| kind | Claude Code, Codex, VS Code, Copilot CLI | Gemini CLI | Cursor |
|---|---|---|---|
| start | SessionStart | SessionStart | sessionStart |
| prompt | UserPromptSubmit | BeforeAgent | beforeSubmitPrompt |
| reply | Stop | AfterAgent | afterAgentResponse, stop |
| agent-start, agent-reply | SubagentStart, SubagentStop | | subagentStop |
| compact, compacted | PreCompact, PostCompact | PreCompress | preCompact |
| end | SessionEnd | SessionEnd | sessionEnd |

Guarantees: input that is not such an event gives None, never an error. Fields of the wrong type count as missing. An answer has
only keys of the host's schema; Codex rejects any other. Without a text to inject nothing is printed, except where a host
waits for an answer before it continues.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


CLAUDE, CODEX, GEMINI, CURSOR = "claude-code", "codex", "gemini", "cursor"
VSCODE, COPILOT = "vscode", "copilot"  # they read the same files with hooks
CLIENTS = (CLAUDE, CODEX, GEMINI, CURSOR, VSCODE, COPILOT)
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
ANSWERED = (START, PROMPT, AGENT_START)  # the others are only recorded
_EDITOR_BLOCKS = (
    ("<ide_opened_file>", "</ide_opened_file>"),
    ("<ide_selection>", "</ide_selection>"),
)  # of Claude Code
_HOST_BLOCKS = (("<system-reminder>", "</system-reminder>"), ("<hook_context>", "</hook_context>"), *_EDITOR_BLOCKS)
_EDITOR_CHARACTERS = 1000  # of an editor's block, in which the path is looked for
_GEMINI_EVENTS = frozenset(("BeforeAgent", "AfterAgent", "PreCompress"))
_GEMINI_VARIABLES = ("GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR", "GEMINI_CWD")
_CLAUDE_SESSION = (
    "CLAUDE_CODE_SESSION_ID"  # set for each hook; other hosts that run inside of Claude Code have another session
)
_VSCODE_NAMES = {"hookEventName": "hook_event_name", "sessionId": "session_id"}  # as its documentation spells them
_COPILOT_VARIABLE = "COPILOT_HOOK_DIR"  # set by the command line, not by VS Code
_VSCODE_FOLDER = "/github.copilot-chat/"  # in the path of its transcripts
_PERSON_SOURCES = (
    "",
    "user",
    "sdk",
)  # sources of prompts that a person wrote; the others are wake-up calls of the host


class HookEvent:
    """One event, with the same fields for every host. Missing fields are empty."""

    __slots__ = (
        "agent",
        "agent_id",
        "client",
        "cwd",
        "description",
        "files",
        "is_client_certain",
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

    def __init__(self, client: str, name: str, payload: Mapping[str, Any], is_client_certain: bool = True) -> None:
        def text(*names: str) -> str:
            for each in names:
                value = payload.get(each)
                if isinstance(value, str) and value:
                    return replace_surrogates(value)
            return ""

        self.client = client
        self.is_client_certain = is_client_certain  # if not, the client of earlier events of this session holds
        self.name = name
        self.kind = KINDS[name]
        self.session = text("session_id", "conversation_id")  # the host's own id
        self.cwd = text("cwd") or _first(payload.get("workspace_roots"))
        self.transcript = text("transcript_path")
        source = text("source", "trigger")
        self.source = "startup" if source == "new" else source  # VS Code's word
        prompt = text("prompt")
        self.prompt = strip_host_blocks(prompt)
        self.files = open_files(prompt)
        self.description = text(
            "description", "task", "task_description"
        )  # of the work of an agent that the host starts
        self.reply = text("last_assistant_message", "prompt_response", "text")
        self.summary = text("compact_summary")
        self.agent = text("agent_type", "subagent_type")
        self.agent_id = text("agent_id", "subagent_id")
        self.turn = text("prompt_id", "turn_id", "generation_id")
        if not self.turn and client == GEMINI:
            self.turn = text("timestamp")  # Gemini has no id for a turn, but one timestamp per event

    @property
    def is_from_a_person(self) -> bool:
        """Whether a prompt was written by a person, and is not a wake-up call of the host."""
        return self.kind != PROMPT or self.client == GEMINI or self.source in _PERSON_SOURCES


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def strip_host_blocks(text: str) -> str:
    """A prompt without the blocks that the host put into it: reminders, and earlier hook output, which comes back escaped."""
    for begin, end in _HOST_BLOCKS:
        if begin in text:
            text = _remove_between(text, begin, end)
    return text


def open_files(prompt: str) -> list[str]:
    """The paths in the blocks by which an editor tells what is open or selected: "The user opened the file /a/b.py in the IDE." """
    found: list[str] = []
    for begin, end in _EDITOR_BLOCKS:
        if begin in prompt:
            block = prompt.partition(begin)[2].partition(end)[0][:_EDITOR_CHARACTERS]
            words = (word.rstrip(".,;:") for word in block.split())
            found += [word for word in words if "." in word and ("/" in word or "\\" in word)][:1]
    return found


def _remove_between(text: str, begin: str, end: str) -> str:
    """Remove all blocks between two marks, in linear time."""
    kept, done = [], 0
    while (start := text.find(begin, done)) >= 0 and (stop := text.find(end, start)) >= 0:
        kept.append(text[done:start])
        done = stop + len(end)
    return "".join(kept) + text[done:]


def read(raw: bytes, client: str, environ: Mapping[str, str]) -> HookEvent | None:
    """Parse the event that a host wrote to standard input; None if it is not an event that SMP handles."""
    import json

    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(payload, dict):
        return None
    payload |= {ours: payload[name] for name, ours in _VSCODE_NAMES.items() if name in payload}
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or name not in KINDS:
        return None
    host = client if client in CLIENTS else detect_client(payload, environ)
    if host == VSCODE and environ.get(_COPILOT_VARIABLE):
        host = COPILOT
    event = HookEvent(host or CLAUDE, name, payload, is_client_certain=bool(host))  # many other hosts copy Claude Code
    return event if event.session else None


def detect_client(payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The host that sent the payload; empty if nothing tells."""
    name, transcript, session = (payload.get(each) for each in ("hook_event_name", "transcript_path", "session_id"))
    path = transcript.replace("\\", "/") if isinstance(transcript, str) else ""
    if environ.get("CURSOR_VERSION") or "cursor_version" in payload or "conversation_id" in payload:
        return CURSOR
    if isinstance(name, str) and name[:1].islower():
        return CURSOR
    if name in _GEMINI_EVENTS or any(environ.get(each) for each in _GEMINI_VARIABLES):
        return GEMINI
    if "turn_id" in payload or path.rpartition("/")[2].startswith("rollout-"):
        return CODEX
    if session and (environ.get(_CLAUDE_SESSION) == session or _is_claude_transcript(path, session)):
        return CLAUDE
    is_copilot = "timestamp" in payload and environ.get(_COPILOT_VARIABLE)
    return VSCODE if is_copilot or "hookEventName" in payload or _VSCODE_FOLDER in path.lower() else ""


def _is_claude_transcript(path: str, session: Any) -> bool:
    """Whether a path has the form of Claude Code's transcripts: `projects/<folder>/<session>.jsonl`."""
    parts = path.rsplit("/", 3)
    return len(parts) == 4 and (parts[1], parts[3]) == ("projects", f"{session}.jsonl")


def may_be_answered(raw: bytes) -> bool:
    """Whether the event may need an answer, by a look at the bytes alone: parsing JSON takes longer than forking a child."""
    return any(name in raw for name in _ANSWERED_NAMES)


_ANSWERED_NAMES = tuple(f'"{name}"'.encode() for name, kind in KINDS.items() if kind in ANSWERED)


def _first(roots: Any) -> str:
    return roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""


def takes_context(event: HookEvent) -> bool:
    """Whether the host accepts text for its context at this event."""
    return event.name != "beforeSubmitPrompt" and not (event.client == VSCODE and event.kind == PROMPT)


def answer(event: HookEvent, context: str) -> bytes:
    """The document for standard output, without a line end; empty if nothing is to be printed."""
    document = _document(event, context)
    if document is None:
        return b""
    import json

    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def _document(event: HookEvent, context: str) -> dict[str, Any] | None:
    if event.client == CURSOR and event.name[0].islower():  # Cursor also runs hooks that were installed for Claude Code
        if event.kind == PROMPT:
            return {"continue": True}
        return {"additional_context": context} if context else None
    if context:
        inner = {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": context}}
        return {"additionalContext": context} if event.client == COPILOT else inner
    return {} if event.client == GEMINI else None
