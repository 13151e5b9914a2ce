"""Transcript lines, in the hosts' formats, are parsed into turns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from smp_memory.integrations.hooks import transcripts
from smp_memory.integrations.hooks.transcripts import read_lines, transcript_size
from smp_memory.privacy.fence import fence


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": message, "timestamp": "2026-01-31T10:00:00.000Z", **more}  # fmt: skip


def assistant(uuid: str, parent: str | None, *texts: str, id: str = "", **more: Any) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "hm"}]
    content += [{"type": "text", "text": text} for text in texts] + [{"type": "tool_use", "id": "t", "name": "Edit", "input": {}}]  # fmt: skip
    message = {"id": id or f"msg-{uuid}", "role": "assistant", "content": content}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def result(uuid: str, parent: str) -> dict[str, Any]:
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}], toolUseResult={})


def said(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in transcripts.claude_turns(enumerate(lines))]


def test_prompts_and_final_replies_are_turns() -> None:
    lines = [
        user("u1", None, "Use OAuth"),
        assistant("a1", "u1", "Let me look."),
        result("r1", "a1"),
        assistant("a2", "r1", "Done: OAuth 2.0."),
        user("u2", "a2", [{"type": "text", "text": "And the tests?"}, {"type": "image", "source": {}}]),
        assistant("a3", "u2", "All pass."),
    ]
    assert said(lines) == [
        ("user", "Use OAuth"),
        ("assistant", "Done: OAuth 2.0."),
        ("user", "And the tests?"),
        ("assistant", "All pass."),
    ]
    turns = transcripts.claude_turns(enumerate(lines))
    assert [turn.key for turn in turns] == ["u1", "a2", "u2", "a3"]
    assert turns[0].at == "2026-01-31T10:00:00.000Z"


def test_message_split_over_several_lines_is_one_turn() -> None:
    lines = [user("u1", None, "Go"), assistant("a1", "u1", "First.", id="m"), assistant("a2", "a1", "Second.", id="m")]
    assert said(lines)[1] == ("assistant", "First.\n\nSecond.")


def test_edited_prompt_removes_its_earlier_version_with_its_descendants() -> None:
    lines = [
        user("u1", None, "Hello"),
        assistant("a1", "u1", "Hi."),
        user("u2", "a1", "Wrong question"),
        assistant("a2", "u2", "Wrong answer"),
        user("u3", "a1", "Right question"),
        assistant("a3", "u3", "Right answer"),
    ]
    assert [text for _, text in said(lines)] == ["Hello", "Hi.", "Right question", "Right answer"]


def test_lines_that_are_no_conversation_are_left_out() -> None:
    lines = [
        user("m", None, "Told by the host", isMeta=True),
        user("s", None, "To another agent", isSidechain=True),
        assistant("t", None, "Of a team", teamName="x"),
        user("c", None, "<command-name>/clear</command-name>"),
        user("o", None, "<local-command-stdout>x</local-command-stdout>"),
        user("r", None, "<system-reminder>do this</system-reminder>"),
        user("i", None, "[Request interrupted by user]"),
        user("f", None, fence("recalled before")),
        {"type": "summary", "summary": "A title", "leafUuid": "x"},
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None},
        {"type": "user", "uuid": "bad", "message": "not an object"},
        user("u", None, f"Real {fence('recalled')} question <system-reminder>x</system-reminder>"),
    ]
    assert said(lines) == [("user", "Real  question")]


def test_prompt_key_equals_that_of_its_event() -> None:
    lines = [user("u1", None, "One", promptId="p1"), user("u2", "u1", "Two", promptId="p1"), user("u3", "u2", "Three", promptId="p2")]  # fmt: skip
    assert [turn.key for turn in transcripts.claude_turns(enumerate(lines))] == ["prompt:p1", "u2", "prompt:p2"]


def test_compaction_summary_is_kept_as_a_summary() -> None:
    lines = [user("u1", None, "We use OAuth.", isCompactSummary=True), user("u2", "u1", "Go on")]
    assert said(lines) == [("summary", "We use OAuth."), ("user", "Go on")]


def item(role: str, text: str, at: str = "2026-01-31T10:00:00.000Z", **more: Any) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}
    return {"timestamp": at, "type": "response_item", "payload": payload}


def test_codex_rollout_is_parsed_into_turns() -> None:
    lines = [
        {"timestamp": "x", "type": "session_meta", "payload": {"id": "019a", "cwd": "/w"}},
        item("user", "<environment_context>linux</environment_context>"),
        item("user", "# AGENTS.md instructions for /w"),
        item("developer", "be good"),
        item("user", "Use OAuth"),
        {"timestamp": "x", "type": "event_msg", "payload": {"type": "user_message", "message": "Use OAuth"}},
        item("assistant", "Looking.", phase="commentary"),
        {"timestamp": "x", "type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}"}},
        item("assistant", "Done", at="2026-01-31T10:01:00.000Z", phase="final_answer"),
        {"timestamp": "x", "type": "compacted", "payload": {"message": "They use OAuth.", "replacement_history": []}},
        {"timestamp": "x", "type": "world_state", "payload": None},
    ]  # fmt: skip
    turns = transcripts.codex_turns(enumerate(lines))
    assert [(turn.role, turn.text) for turn in turns] == [
        ("user", "Use OAuth"),
        ("assistant", "Done"),
        ("summary", "They use OAuth."),
    ]
    assert turns[1].at == "2026-01-31T10:01:00.000Z"
    assert len({turn.key for turn in turns}) == 3


def test_same_text_at_another_time_is_another_turn() -> None:
    lines = [item("user", "yes", at="1"), item("user", "yes", at="2"), item("user", "yes", at="2")]
    turns = transcripts.codex_turns(enumerate(lines))
    assert [turn.key for turn in turns].count(turns[0].key) == 1
    assert turns[1].key == turns[2].key


def test_reading_continues_at_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first, second = (json.dumps(user(name, None, name)).encode() + b"\n" for name in ("u1", "u2"))
    path.write_bytes(first + b"not json\n" + second[:20])
    lines, offset = read_lines(str(path), 0)
    assert [line["uuid"] for line in lines] == ["u1"]
    path.write_bytes(first + b"not json\n" + second)
    lines, offset = read_lines(str(path), offset)
    assert [line["uuid"] for line in lines] == ["u2"]
    assert read_lines(str(path), offset) == ([], offset)


def test_truncated_file_is_read_from_its_start_and_missing_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(user("u1", None, "x")) + "\n")
    lines, _ = read_lines(str(path), 10_000)
    assert len(lines) == 1
    assert read_lines(str(tmp_path / "gone.jsonl"), 7) == ([], 7)
    (tmp_path / "t.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    assert read_lines(str(tmp_path / "t.jsonl.zst"), 0) == ([], 0)


ODD = [None, 5, True, [], ["x"], {}, {"a": 1}, [{"type": ["text"], "text": "x"}], [{"type": "text", "text": 5}]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_line_with_unexpected_types_is_skipped_alone(odd: Any) -> None:
    ours = [user("u1", "p", "Use OAuth"), user("u2", "p", "Use OAuth 2"), assistant("a1", "u2", "Done.")]
    for line in (user("x", "u1", "odd"), assistant("y", "u1", "odd")):
        planted = [{**line, name: odd} for name in (*line, "isMeta", "promptId", "isCompactSummary")]
        planted += [{**line, "message": {**line["message"], name: odd}} for name in line["message"]]
        for each in planted:
            assert ("assistant", "Done.") in said([each, *ours])
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Use OAuth"}]}
    fine = {"type": "response_item", "timestamp": "2026-01-31T10:00:00Z", "payload": message}
    planted = [{**fine, name: odd} for name in fine]
    planted += [{**fine, "payload": {**message, name: odd}} for name in message]
    for each in planted:
        assert transcripts.codex_turns(enumerate([each, fine]))[-1].text == "Use OAuth"


def test_pipe_as_transcript_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("t.jsonl", "folder.jsonl", "nul\0.jsonl", "none.jsonl"):
        assert transcript_size(str(tmp_path / name)) == -1
        assert read_lines(str(tmp_path / name), 0) == ([], 0)
