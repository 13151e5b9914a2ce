"""Events of four hosts are parsed into one vocabulary and answered in each host's format."""

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


@pytest.mark.parametrize(
    ("payload", "environ", "client"),
    [
        (named("SessionStart", source="startup"), {}, "claude-code"),
        (named("UserPromptSubmit", prompt="x", turn_id="t1"), {}, "codex"),
        (named("SessionStart", transcript_path="/h/sessions/rollout-2026-01-31T10-00-00-019a.jsonl"), {}, "codex"),
        (named("BeforeAgent", prompt="x", timestamp="2026-01-31T10:00:00Z"), {}, "gemini"),
        (named("SessionStart", source="startup"), {"GEMINI_PROJECT_DIR": "/w"}, "gemini"),
        (named("SessionStart", source="startup"), {"GEMINI_API_KEY": "k"}, "claude-code"),
        ({"hook_event_name": "stop", "conversation_id": "c1", "workspace_roots": ["/w"]}, {}, "cursor"),
        (named("sessionStart"), {}, "cursor"),
        (named("SessionStart"), {"CURSOR_VERSION": "3.7"}, "cursor"),
    ],
)
def test_client_is_detected_from_payload_and_environment(payload: Any, environ: dict[str, str], client: str) -> None:
    event = read(payload, **environ)
    assert event is not None
    assert event.client == client


def test_named_client_is_certain() -> None:
    event = read(named("UserPromptSubmit", turn_id="t1", prompt="x"), "gemini")
    assert event is not None
    assert (event.client, event.is_client_certain) == ("gemini", True)


def test_undetected_client_is_uncertain() -> None:
    event = read(named("Stop", last_assistant_message="x"))
    assert event is not None
    assert (event.client, event.is_client_certain) == ("claude-code", False)


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
