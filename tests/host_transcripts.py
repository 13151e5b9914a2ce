"""Transcripts and exports of other tools, fabricated after the formats that they write."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

CLAUDE_SESSION = "5f0c1a7e-1111-4222-8333-444455556666"
CODEX_SESSION = "019a2b3c-1111-7222-8333-444455556666"
GEMINI_SESSION = "7d2f0a11-1111-4222-8333-444455556666"
CURSOR_SESSION = "c0ffee00-1111-4222-8333-444455556666"
GPT_SESSION = "67890abc-1111-4222-8333-444455556666"
AI_SESSION = "a1a1a1a1-1111-4222-8333-444455556666"

Lines = list[dict[str, Any]]


def write_lines(path: Path, lines: Lines, end: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + end)
    return path


# -- Claude Code


def claude_line(
    type: str, uuid: str, parent: str | None, content: Any, at: str = "2026-01-31T10:00:00.000Z", **more: Any
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": type, "content": content}
    if type == "assistant":
        message = {"id": f"msg_{uuid}", "model": "claude-x", "stop_reason": "end_turn", **message}
    facts = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/w/shop", "version": "2.1.325"}
    return {**facts, "sessionId": CLAUDE_SESSION, "gitBranch": "main", "type": type, "message": message, "uuid": uuid, "timestamp": at, **more}  # fmt: skip


def claude_lines() -> Lines:
    """Two prompts, a tool call between them, an edited prompt, a compaction, a title."""
    text = [{"type": "text", "text": "I look at auth.py."}]
    call = [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/w/shop/auth.py"}}]
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x" * 500}]
    think = [{"type": "thinking", "thinking": "secret thoughts"}]
    done = [{"type": "text", "text": "Decided: OAuth 2.0 for the API."}]
    return [
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        claude_line("user", "u0", None, "<command-name>/clear</command-name>", isMeta=True),
        claude_line("user", "u1", None, "Which login do we use for the API?", promptId="p1"),
        claude_line("assistant", "a1", "u1", [*think, *text, *call], "2026-01-31T10:00:05.000Z"),
        claude_line("user", "t1", "a1", result, "2026-01-31T10:00:06.000Z", toolUseResult={"file": "x"}),
        claude_line("assistant", "a2", "t1", done, "2026-01-31T10:00:09.000Z"),
        claude_line("user", "u2", "a2", "Thanks, now write test", "2026-01-31T10:01:00.000Z", promptId="p2"),
        claude_line("user", "u3", "a2", "Thanks, now write tests", "2026-01-31T10:02:00.000Z", promptId="p3"),
        claude_line("assistant", "a3", "u3", [{"type": "text", "text": "Tests are written."}], "2026-01-31T10:02:30.000Z"),
        claude_line("user", "c1", "a3", "They chose OAuth 2.0.", "2026-01-31T10:03:00.000Z", isCompactSummary=True),
        {"type": "summary", "summary": "Login of the shop", "leafUuid": "a3"},
    ]  # fmt: skip


CLAUDE_TEXTS = [
    "Which login do we use for the API?",
    "Decided: OAuth 2.0 for the API.",
    "Thanks, now write tests",
    "Tests are written.",
]


def claude_home(home: Path) -> Path:
    """The transcript of one conversation, with that of a subagent in both places where versions put it."""
    project = home / ".claude/projects/-w-shop"
    path = write_lines(project / f"{CLAUDE_SESSION}.jsonl", claude_lines())
    agent = [{**line, "isSidechain": True} for line in claude_lines()]
    write_lines(project / "agent-1234.jsonl", agent)
    write_lines(project / CLAUDE_SESSION / "subagents/agent-99.jsonl", agent)
    return path


# -- Codex


def codex_item(role: str, text: str, at: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"timestamp": at, "type": "response_item", "payload": payload}


def codex_lines() -> Lines:
    at = "2026-02-01T09:00:0{}.000Z".format
    meta = {"id": CODEX_SESSION, "session_id": CODEX_SESSION, "timestamp": at(0), "cwd": "/w/shop", "originator": "codex_cli_rs", "cli_version": "0.150.0", "source": "cli", "git": {"branch": "dev"}}  # fmt: skip
    return [
        {"timestamp": at(0), "type": "session_meta", "payload": meta},
        codex_item("user", "<environment_context>\n<cwd>/w/shop</cwd>", at(0)),
        {"timestamp": at(1), "type": "turn_context", "payload": {"cwd": "/w/shop"}},
        codex_item("user", "Which cache do we use?", at(1)),
        {"timestamp": at(1), "type": "event_msg", "payload": {"type": "user_message", "message": "Which cache do we use?"}},
        codex_item("assistant", "I look.", at(2)),
        {"timestamp": at(3), "type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}},
        {"timestamp": at(4), "type": "response_item", "payload": {"type": "function_call_output", "call_id": "c1", "output": "redis"}},
        codex_item("assistant", "We decided on Redis.", at(5)),
        {"timestamp": at(6), "type": "compacted", "payload": {"message": "They use Redis.", "replacement_history": []}},
    ]  # fmt: skip


CODEX_TEXTS = ["Which cache do we use?", "We decided on Redis."]
CODEX_NAME = f"rollout-2026-02-01T09-00-00-{CODEX_SESSION}.jsonl"


def codex_home(home: Path) -> Path:
    return write_lines(home / ".codex/sessions/2026/02/01" / CODEX_NAME, codex_lines())


# -- Gemini CLI


def gemini_message(id: str, type: str, content: Any, second: int = 0) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2026-02-02T08:00:{second:02}.000Z", "type": type, "content": content}


def gemini_meta() -> dict[str, Any]:
    return {"sessionId": GEMINI_SESSION, "projectHash": "ab12", "startTime": "2026-02-02T08:00:00.000Z", "lastUpdated": "2026-02-02T08:00:00.000Z", "kind": "main"}  # fmt: skip


def gemini_lines() -> Lines:
    return [
        gemini_meta(),
        gemini_message("g1", "user", [{"text": "Which queue do we use?"}]),
        gemini_message("g2", "gemini", "", 1) | {"toolCalls": [{"name": "read_file"}]},
        gemini_message("g2", "gemini", [{"text": "think", "thought": True}, {"text": "We use RabbitMQ."}], 2),
        gemini_message("g3", "info", "Update available", 3),
        gemini_message("g4", "user", "Write it dwon", 4),
        gemini_message("g5", "gemini", "Written dwon.", 5),
        {"$rewindTo": "g4"},
        gemini_message("g6", "user", "Write it down", 6),
        gemini_message("g7", "gemini", [{"text": "Written down."}], 7),
        {"$set": {"summary": "The queue of the shop", "lastUpdated": "2026-02-02T08:00:08.000Z"}},
    ]


GEMINI_TEXTS = ["Which queue do we use?", "We use RabbitMQ.", "Write it down", "Written down."]


def gemini_legacy() -> dict[str, Any]:
    messages = [gemini_message("g1", "user", "Which queue do we use?"), gemini_message("g2", "gemini", "We use RabbitMQ.", 2)]  # fmt: skip
    return {**gemini_meta(), "summary": "The queue of the shop", "messages": messages}


def gemini_home(home: Path) -> Path:
    folder = home / ".gemini/tmp/shop"
    path = write_lines(folder / "chats/session-2026-02-02T08-00-7d2f0a11.jsonl", gemini_lines())
    (folder / ".project_root").write_text("/w/shop\n")
    return path


# -- Cursor


def cursor_rows() -> dict[str, Any]:
    bubbles = {
        "b1": {"type": 1, "text": "Which search do we use?", "workspaceUris": ["file:///w/shop"]},
        "b2": {"type": 2, "text": "", "toolFormerData": {"name": "read_file"}},
        "b3": {"type": 2, "text": "We use tantivy.", "createdAt": "2026-02-03T07:00:05.000Z"},
    }
    headers = [{"bubbleId": id, "type": bubble["type"]} for id, bubble in bubbles.items()]
    composer = {"composerId": CURSOR_SESSION, "name": "Search of the shop", "createdAt": 1770102000000, "fullConversationHeadersOnly": headers}  # fmt: skip
    old = {"composerId": "0ld", "createdAt": 1770102000000, "conversation": [{"bubbleId": "x1", "type": 1, "text": "An old question"}]}  # fmt: skip
    rows = {f"bubbleId:{CURSOR_SESSION}:{id}": bubble for id, bubble in bubbles.items()}
    return {f"composerData:{CURSOR_SESSION}": composer, "composerData:0ld": old, "composerData:empty": {}, **rows}


CURSOR_TEXTS = ["Which search do we use?", "We use tantivy."]


def cursor_database(path: Path, rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        pairs = [(key, value if isinstance(value, bytes) else json.dumps(value)) for key, value in rows.items()]
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", pairs)
    connection.close()
    return path


def cursor_transcript_lines() -> Lines:
    ask = "<attached_files>\nx\n</attached_files>\n<user_query>\nWhich search do we use?\n</user_query>"
    return [
        {"role": "user", "message": {"content": [{"type": "text", "text": ask}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "Looking."}, {"type": "tool_use", "name": "Read"}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "We use tantivy."}]}},
    ]  # fmt: skip


def cursor_home(home: Path) -> Path:
    return cursor_database(home / ".config/Cursor/User/globalStorage/state.vscdb", cursor_rows())


def cursor_transcript(home: Path) -> Path:
    folder = home / ".cursor/projects/w-shop/agent-transcripts" / CURSOR_SESSION
    return write_lines(folder / f"{CURSOR_SESSION}.jsonl", cursor_transcript_lines())


# -- exports of chats


def gpt_message(id: str, role: str, text: Any, at: float | None = 1770000000.5, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"id": id, "author": {"role": role, "name": None}, "create_time": at, "content": content, "status": "finished_successfully", "weight": 1.0, "recipient": "all", "metadata": {}, **more}  # fmt: skip


def gpt_conversation(id: str = GPT_SESSION) -> dict[str, Any]:
    """A system message, a prompt with an image, a call of a tool, two branches, of which the second is the current one."""
    image = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "x"}, "Which paint for the shop?"]}  # fmt: skip
    messages: list[tuple[str, str | None, Any]] = [
        ("root", None, None),
        ("s", "root", gpt_message("s", "system", "", weight=0)),
        ("q", "s", gpt_message("q", "user", "", content=image)),
        ("t", "q", gpt_message("t", "assistant", "search(paint)", recipient="browser")),
        ("tt", "t", gpt_message("tt", "tool", "results")),
        ("a", "tt", gpt_message("a", "assistant", "Take red.", None)),
        ("b", "tt", gpt_message("b", "assistant", "Take blue.", 1770000009.0)),
    ]
    mapping = {name: {"id": name, "parent": parent, "children": [], "message": message} for name, parent, message in messages}  # fmt: skip
    return {"title": "Paint of the shop", "create_time": 1770000000.0, "update_time": 1770000010.0, "mapping": mapping, "current_node": "b", "conversation_id": id, "id": id, "default_model_slug": "gpt-x"}  # fmt: skip


GPT_TEXTS = ["Which paint for the shop?", "Take blue."]


def ai_message(uuid: str, sender: str, text: str, second: int = 0) -> dict[str, Any]:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return {"uuid": uuid, "text": text, "content": content, "sender": sender, "created_at": f"2026-02-04T06:00:{second:02}.000000Z", "attachments": [], "files": []}  # fmt: skip


def ai_conversation(uuid: str = AI_SESSION) -> dict[str, Any]:
    messages = [ai_message("m1", "human", "Which floor for the shop?"), ai_message("m2", "assistant", "Take oak.", 5)]
    return {"uuid": uuid, "name": "Floor of the shop", "created_at": "2026-02-04T06:00:00.000000Z", "updated_at": "2026-02-04T06:00:05.000000Z", "account": {"uuid": "x"}, "chat_messages": messages}  # fmt: skip


AI_TEXTS = ["Which floor for the shop?", "Take oak."]


def zipped(path: Path, members: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    return path


def downloads(home: Path) -> None:
    zipped(home / "Downloads/chatgpt.zip", {"conversations.json": [gpt_conversation()], "user.json": {}})
    zipped(home / "Downloads/claude.zip", {"conversations.json": [ai_conversation()], "users.json": []})
    zipped(home / "Downloads/other.zip", {"readme.json": {}})


def whole_home(home: Path) -> Path:
    """A home folder with conversations of all tools."""
    claude_home(home)
    codex_home(home)
    gemini_home(home)
    cursor_home(home)
    cursor_transcript(home)
    downloads(home)
    return home
