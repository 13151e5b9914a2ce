"""A stand-in for the command line of the Claude Agent SDK: answers each prompt, and mirrors its transcript as that program does.

It says what it knows of earlier prompts from the transcript that the SDK restored from its session store.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from claude_agent_sdk import project_key_for_directory


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def option(name: str) -> str | None:
    """The value of an option, which may stand behind an equals sign."""
    words = [word for given in sys.argv for word in given.split("=", 1)]
    return words[words.index(name) + 1] if name in words else None


def main() -> None:
    if "-v" in sys.argv or "--version" in sys.argv:
        sys.stdout.write("9.9.9 (Claude Code)\n")
        return
    session = option("--resume") or option("--session-id") or str(uuid.uuid4())
    projects = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects"
    known = [path.read_text(encoding="utf-8") for path in projects.glob(f"*/{session}.jsonl")]
    earlier = [json.loads(line) for text in known for line in text.splitlines()]
    prompts = [entry["message"]["content"] for entry in earlier if entry["type"] == "user"]
    place = projects / project_key_for_directory(None)
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            send(type="control_response", response={"subtype": "success", "request_id": message["request_id"], "response": {}})  # fmt: skip
        elif message["type"] == "user":
            said = {
                "role": "assistant",
                "model": "scripted",
                "content": [{"type": "text", "text": f"Before: {prompts}"}],
            }
            entries = [
                {"type": role, "uuid": str(uuid.uuid4()), "sessionId": session, "message": content}
                for role, content in (("user", message["message"]), ("assistant", said))
            ]
            send(type="transcript_mirror", filePath=str(place / f"{session}.jsonl"), entries=entries)
            send(type="assistant", message=said, session_id=session, uuid=entries[1]["uuid"], parent_tool_use_id=None)
            send(type="result", subtype="success", duration_ms=1, duration_api_ms=1, is_error=False, num_turns=1, session_id=session, result="done")  # fmt: skip


main()
