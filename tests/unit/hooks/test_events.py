"""Events of six hosts are parsed into one vocabulary and answered in each host's format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.events import answer, takes_context


def read(payload: Any, client: str = "auto", **environ: str) -> events.HookEvent | None:
    return events.read(json.dumps(payload).encode(), client, environ)


def named(event: str, **fields: Any) -> dict[str, Any]:
    return {"hook_event_name": event, "session_id": "s-1", "cwd": "/w", **fields}


CLAUDE_FIELDS = {
    "session_id": "5d5faac0-3e9a",
    "transcript_path": "/home/ada/.claude/projects/-w-shop/5d5faac0-3e9a.jsonl",
    "cwd": "/w/shop",
}
CODEX_FIELDS = {
    "session_id": "019a-7b",
    "transcript_path": "/home/ada/.codex/sessions/2026/01/31/rollout-2026-01-31T10-00-00-019a-7b.jsonl",
    "cwd": "/w/shop",
    "model": "m",
    "permission_mode": "default",
}
GEMINI_FIELDS = {
    "session_id": "g-1",
    "transcript_path": "/home/ada/.gemini/tmp/shop/chats/session-2026-01-31T10-00-g1.json",
    "cwd": "/w/shop",
    "timestamp": "2026-01-31T10:00:00.000Z",
}
GEMINI_ENVIRONMENT = {"GEMINI_SESSION_ID": "g-1", "GEMINI_PROJECT_DIR": "/w/shop", "CLAUDE_PROJECT_DIR": "/w/shop"}
CURSOR_FIELDS = {
    "conversation_id": "c-1",
    "generation_id": "gen-1",
    "workspace_roots": ["/w/shop"],
    "cursor_version": "3.7",
    "transcript_path": None,
}
VSCODE_FIELDS = {
    "timestamp": "2026-01-31T10:00:00.000Z",
    "cwd": "/w/shop",
    "session_id": "v-1",
    "transcript_path": "/home/ada/.config/Code/User/workspaceStorage/1f/GitHub.copilot-chat/transcripts/v-1.jsonl",
}
COPILOT_FIELDS = {"session_id": "c3d9430c", "timestamp": "2026-01-31T10:00:00.000Z", "cwd": "/w/shop"}
COPILOT_ENVIRONMENT = {"COPILOT_CLI": "1", "COPILOT_HOOK_DIR": "/w/shop/.github/hooks", "CLAUDE_PROJECT_DIR": "/w/shop"}
VSCODE_DOCUMENTED = {"timestamp": "2026-01-31T10:00:00.000Z", "cwd": "/w/shop", "sessionId": "v-1"}

# Host, its event, the event's fields, the environment of the hook.
REAL_EVENTS: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    ("claude-code", "SessionStart", {**CLAUDE_FIELDS, "source": "startup"}, {}),
    ("claude-code", "UserPromptSubmit", {**CLAUDE_FIELDS, "prompt_id": "p", "permission_mode": "default", "prompt": "x"}, {}),
    ("claude-code", "Stop", {**CLAUDE_FIELDS, "stop_hook_active": False, "last_assistant_message": "x", "effort": {"level": "high"}}, {}),
    ("claude-code", "SubagentStart", {**CLAUDE_FIELDS, "agent_id": "a", "agent_type": "dev"}, {}),
    ("claude-code", "SubagentStop", {**CLAUDE_FIELDS, "agent_id": "a", "agent_type": "dev", "agent_transcript_path": "/a.jsonl"}, {}),
    ("claude-code", "PreCompact", {**CLAUDE_FIELDS, "trigger": "auto", "custom_instructions": ""}, {}),
    ("claude-code", "PostCompact", {**CLAUDE_FIELDS, "trigger": "auto", "compact_summary": "x"}, {}),
    ("claude-code", "SessionEnd", {**CLAUDE_FIELDS, "reason": "other"}, {}),
    ("claude-code", "SessionStart", {"session_id": "s-1", "cwd": "/w"}, {"CLAUDE_CODE_SESSION_ID": "s-1"}),
    ("claude-code", "Stop", {**CLAUDE_FIELDS, "transcript_path": "C:\\Users\\ada\\.claude\\projects\\C--w\\5d5faac0-3e9a.jsonl"}, {}),
    ("claude-code", "Stop", {**CLAUDE_FIELDS, "transcript_path": "/c/projects/-w-GitHub-copilot-chat-rollout-1/5d5faac0-3e9a.jsonl"}, {}),
    ("codex", "SessionStart", {**CODEX_FIELDS, "source": "startup"}, {"CLAUDE_CODE_SESSION_ID": "another"}),
    ("codex", "UserPromptSubmit", {**CODEX_FIELDS, "turn_id": "t", "prompt": "x", "transcript_path": None}, {}),
    ("codex", "Stop", {**CODEX_FIELDS, "turn_id": "t", "last_assistant_message": "x", "stop_hook_active": False}, {}),
    ("gemini", "SessionStart", {**GEMINI_FIELDS, "source": "startup"}, GEMINI_ENVIRONMENT),
    ("gemini", "BeforeAgent", {**GEMINI_FIELDS, "prompt": "x"}, {}),
    ("gemini", "AfterAgent", {**GEMINI_FIELDS, "prompt": "x", "prompt_response": "y"}, {}),
    ("gemini", "PreCompress", {**GEMINI_FIELDS, "trigger": "auto"}, {}),
    ("gemini", "SessionEnd", {**GEMINI_FIELDS, "reason": "exit"}, GEMINI_ENVIRONMENT),
    ("cursor", "sessionStart", {**CURSOR_FIELDS, "session_id": "c-1"}, {}),
    ("cursor", "beforeSubmitPrompt", {**CURSOR_FIELDS, "prompt": "x", "attachments": []}, {}),
    ("cursor", "stop", {**CURSOR_FIELDS, "status": "completed"}, {}),
    ("cursor", "SessionStart", {**CLAUDE_FIELDS, "source": "startup"}, {"CURSOR_VERSION": "3.7"}),
    ("vscode", "SessionStart", {**VSCODE_FIELDS, "source": "new"}, {"CLAUDE_CODE_SESSION_ID": "another"}),
    ("vscode", "UserPromptSubmit", {**VSCODE_FIELDS, "prompt": "x"}, {}),
    ("vscode", "Stop", {**VSCODE_FIELDS, "stop_hook_active": False}, {}),
    ("copilot", "SessionStart", {**COPILOT_FIELDS, "source": "new", "initial_prompt": "x"}, COPILOT_ENVIRONMENT),
    ("copilot", "UserPromptSubmit", {**COPILOT_FIELDS, "prompt": "x"}, COPILOT_ENVIRONMENT),
    ("copilot", "Stop", {**COPILOT_FIELDS, "stop_reason": "end_turn", "transcript_path": "/h/.copilot/session-state/c3d9430c/events.jsonl"}, COPILOT_ENVIRONMENT),
    ("vscode", "SessionStart", {**VSCODE_DOCUMENTED, "hookEventName": "SessionStart", "source": "new"}, {}),
]  # fmt: skip


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(("host", "name", "fields", "environ"), REAL_EVENTS)
def test_host_is_recognised_by_its_own_events(
    host: str, name: str, fields: dict[str, Any], environ: dict[str, str], is_named: bool
) -> None:
    payload = fields if "hookEventName" in fields else {**fields, "hook_event_name": name}
    event = read(payload, host if is_named else "auto", **environ)
    assert event is not None
    assert (event.client, event.is_client_certain, event.name) == (host, True, name)
    assert event.session == (fields.get("session_id") or fields.get("conversation_id") or fields["sessionId"])


@pytest.mark.parametrize(
    ("payload", "environ"),
    [
        (named("SessionStart", source="startup"), {}),
        (named("SessionStart", source="startup"), {"GEMINI_API_KEY": "k"}),
        (named("Stop", last_assistant_message="x"), {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "another"}),
        (named("Stop", transcript_path="/home/ada/.qoder/projects/-w/another.jsonl"), {}),
        (named("Stop", transcript_path=["/projects/-w/s-1.jsonl"]), {}),
    ],
)
def test_host_that_copies_claude_code_is_uncertain(payload: Any, environ: dict[str, str]) -> None:
    event = read(payload, **environ)
    assert event is not None
    assert (event.client, event.is_client_certain) == ("claude-code", False)


def test_named_client_is_certain() -> None:
    event = read(named("UserPromptSubmit", turn_id="t1", prompt="x"), "gemini")
    assert event is not None
    assert (event.client, event.is_client_certain) == ("gemini", True)


def test_vscode_takes_memories_at_the_start_only() -> None:
    start, prompt = (read({**VSCODE_FIELDS, "hook_event_name": name, "source": "new"}) for name in ("SessionStart", "UserPromptSubmit"))  # fmt: skip
    assert start is not None
    assert prompt is not None
    assert (takes_context(start), takes_context(prompt), start.source) == (True, False, "startup")


def test_copilot_cli_is_told_apart_although_the_command_names_vscode() -> None:
    """Both run the hooks in `.github/hooks`."""
    event = read(
        {**COPILOT_FIELDS, "hook_event_name": "UserPromptSubmit", "prompt": "x"}, "vscode", **COPILOT_ENVIRONMENT
    )
    assert event is not None
    assert (event.client, takes_context(event)) == ("copilot", True)
    assert json.loads(answer(event, "memories")) == {"additionalContext": "memories"}


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"null", b"[]", b"7", b'"SessionStart"', b"\xff\xfe", b'{"hook_event_name": "PreToolUse", "session_id": "s"}',
     b'{"hook_event_name": "SessionStart"}', b'{"hook_event_name": ["SessionStart"], "session_id": "s"}',
     b'{"hook_event_name": "Stop", "session_id": 7}', b"[" * 100_000],
)  # fmt: skip
def test_invalid_input_gives_no_event(raw: bytes) -> None:
    assert events.read(raw, "auto", {}) is None


def test_fields_of_a_wrong_type_count_as_missing() -> None:
    event = read(named("Stop", last_assistant_message=["x"], transcript_path=None, prompt_id=7, cwd=3))
    assert event is not None
    assert (event.reply, event.transcript, event.turn, event.cwd) == ("", "", "", "")


@pytest.mark.parametrize(
    ("name", "is_answered"),
    [("SessionStart", True), ("UserPromptSubmit", True), ("SubagentStart", True), ("BeforeAgent", True),
     ("beforeSubmitPrompt", True), ("sessionStart", True), ("Stop", False), ("SessionEnd", False), ("stop", False),
     ("AfterAgent", False), ("PreCompact", False), ("PreCompress", False)],
)  # fmt: skip
def test_events_that_need_an_answer_are_recognised_by_their_bytes(name: str, is_answered: bool) -> None:
    raw = json.dumps(named(name)).encode()
    assert events.may_be_answered(raw) is is_answered
    event = events.read(raw, "auto", {})
    assert event is not None
    assert (event.kind in events.ANSWERED) is is_answered


def test_wake_up_calls_of_the_host_are_not_prompts_of_a_person() -> None:
    for source, by_person in (("user", True), ("", True), ("sdk", True), ("schedule_wakeup", False), ("system", False)):
        event = read(named("UserPromptSubmit", prompt="x", source=source))
        assert event is not None
        assert event.is_from_a_person is by_person


KNOWN_KEYS = {"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput"}


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "SubagentStart"])
def test_codex_gets_only_keys_of_its_closed_schema(name: str) -> None:
    event = read(named(name, turn_id="t", prompt="x"), "codex")
    assert event is not None
    said = json.loads(answer(event, "something"))
    assert set(said) <= KNOWN_KEYS
    assert said["hookSpecificOutput"] == {"hookEventName": name, "additionalContext": "something"}
    assert answer(event, "") == b""


def test_gemini_always_gets_json() -> None:
    event = read(named("BeforeAgent", prompt="x"))
    assert event is not None
    assert json.loads(answer(event, "")) == {}
    assert json.loads(answer(event, "so"))["hookSpecificOutput"]["additionalContext"] == "so"


def test_cursor_takes_context_at_the_start_only_and_needs_an_answer_at_each_prompt() -> None:
    start, prompt = read(named("sessionStart")), read(named("beforeSubmitPrompt", prompt="x"))
    assert start is not None
    assert prompt is not None
    assert (takes_context(start), takes_context(prompt)) == (True, False)
    assert json.loads(answer(start, "so")) == {"additional_context": "so"}
    assert answer(start, "") == b""
    assert json.loads(answer(prompt, "")) == {"continue": True}


def test_claude_code_hooks_run_by_cursor_get_answers_in_claude_code_format() -> None:
    event = read(named("UserPromptSubmit", prompt="x"), CURSOR_VERSION="3.7")
    assert event is not None
    assert (event.client, takes_context(event), answer(event, "")) == ("cursor", True, b"")
    assert json.loads(answer(event, "so"))["hookSpecificOutput"]["additionalContext"] == "so"


def test_blocks_of_the_host_are_stripped_from_a_prompt() -> None:
    said = "<hook_context>&lt;smp-recalled&gt; old &lt;/smp-recalled&gt;</hook_context>\n\nReal <system-reminder>x</system-reminder>question"
    event = read(named("BeforeAgent", prompt=said))
    assert event is not None
    assert event.prompt.strip() == "Real question"
    assert events.strip_host_blocks("a <hook_context> that never ends") == "a <hook_context> that never ends"


def test_stripping_many_host_blocks_takes_linear_time() -> None:
    many = "<system-reminder>x</system-reminder>" * 200_000  # one by one, each with a copy of the rest, takes hours
    event = read(named("UserPromptSubmit", prompt=f"a{many}b<hook_context>c</hook_context>d<system-reminder>e"))
    assert event is not None
    assert event.prompt == "abd<system-reminder>e"
