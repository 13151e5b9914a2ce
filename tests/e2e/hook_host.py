"""A coding agent as its hooks see it: events of four hosts with their fields, and transcripts in their formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import smp_memory
from smp_memory.integrations.hooks import session_state
from tests.user_state import state_folder, user_state

ENVIRONMENT = {
    **{
        name: value
        for name, value in os.environ.items()
        if name == "SMP_STATE_DIR" or not name.startswith(("SMP_", "GEMINI_", "CURSOR_", "CODEX_", "CLAUDE", "PYTHON"))
    },
    "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",  # as installed: compiled once
    "PYTHONPATH": str(Path(smp_memory.__file__).parent.parent),
}
HOOK = [sys.executable, "-c", "import sys; from smp_memory.cli.main import main; sys.exit(main())", "hook"]
WAIT_SECONDS = 30


def until(condition: Callable[[], Any]) -> Any:
    """Wait for something to become true; what it became."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


class Project:
    """A folder with a store, and hooks that are called in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".bmad" / "memory"
        self.may_fail = False  # whether failures may be noted in this test
        smp_memory.open(self.root).close()

    def open(self) -> smp_memory.Memory:
        return smp_memory.open(self.root)

    def decide(self, text: str, session: str = "earlier", **fields: Any) -> None:
        with self.open() as memory:
            known = [each.id for each in memory.sessions()]
            into = memory.session(session) if session in known else memory.create_session(session)
            into.add_decision(text, **fields)

    def call(self, payload: Any, *words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return subprocess.run(
            [*HOOK, *words],
            input=raw,
            capture_output=True,
            cwd=self.folder,
            env={**ENVIRONMENT, **environ},
            timeout=60,
            check=False,
        )

    def start(self, payload: Any, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*HOOK, *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=self.folder, env=ENVIRONMENT
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(payload).encode())
        process.stdin.close()
        return process

    def sessions(self) -> list[str]:
        with self.open() as memory:
            return [session.id for session in memory.sessions() if session.id != "earlier"]

    def turns(self) -> list[tuple[str, str]]:
        """What was recorded, of all host's sessions."""
        with self.open() as memory:
            found = [record for session in memory.sessions() if session.id != "earlier" for record in session.records()]
        return [(record.get("role") or record.type, record.text) for record in found]

    @property
    def failures(self) -> list[dict[str, str]]:
        path = state_folder(self.root) / "hooks.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def state(self, host_session: str) -> session_state.HookSession:
        return session_state.read_state(user_state(self.root), host_session)


class Host:
    """One conversation in a host. Each method sends an event, waits until it is recorded, and returns what was injected."""

    client = "claude-code"
    names: ClassVar[dict[str, str]] = {"start": "SessionStart", "prompt": "UserPromptSubmit", "reply": "Stop", "compact": "PreCompact", "end": "SessionEnd"}  # fmt: skip

    def __init__(self, project: Project, session: str = "5f0c1a7e-0001") -> None:
        self.project = project
        self.session = session
        self.transcript = project.folder / f"{session}.jsonl"
        self.count = 0
        self.last = ""

    def base(self, event: str) -> dict[str, Any]:
        return {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.project.folder),
            "hook_event_name": event,
            "permission_mode": "default",
        }

    def payload(self, event: str, **fields: Any) -> dict[str, Any]:
        return {**self.base(self.names.get(event, event)), **fields}

    def send(self, payload: dict[str, Any], *words: str) -> str:
        done = self.project.call(payload, "--wait", *words)
        assert (done.returncode, done.stderr) == (0, b"")
        return self.injected(done.stdout)

    @staticmethod
    def injected(out: bytes) -> str:
        if not out.strip():
            return ""
        said: str = json.loads(out).get("hookSpecificOutput", {}).get("additionalContext", "")
        return said

    # -- what happens in the host

    def start(self, source: str = "startup") -> str:
        return self.send(self.payload("start", source=source, model="m"))

    def prompt(self, text: str, *, write: bool = True) -> str:
        self.count += 1
        said = self.send(self.payload("prompt", prompt=text, **self.turn()))
        if write:
            self.write_prompt(text)
        return said

    def reply(self, text: str, *, write: bool = True) -> str:
        if write:
            self.write_reply(text)
        return self.send(self.reply_payload(text))

    def reply_payload(self, text: str) -> dict[str, Any]:
        return self.payload("reply", stop_hook_active=False, last_assistant_message=text, **self.turn())

    def compact(self) -> str:
        return self.send(self.payload("compact", trigger="auto", custom_instructions=""))

    def end(self) -> str:
        return self.send(self.payload("end", reason="other"))

    def turn(self) -> dict[str, str]:
        return {"prompt_id": f"p{self.count}"}

    # -- what the host writes down

    def write_prompt(self, text: str) -> None:
        self.write("user", {"role": "user", "content": text}, promptId=f"p{self.count}")

    def write_reply(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.write("assistant", {"id": f"msg-{self.count}-{len(text)}", "role": "assistant", "content": content})

    def write(self, kind: str, message: dict[str, Any], **more: Any) -> None:
        parent, self.last = self.last or None, f"{self.session}-{self.count}-{kind}-{time.monotonic_ns()}"
        line = {"parentUuid": parent, "type": kind, "uuid": self.last, "message": message, "isSidechain": False, **more}
        line["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")


class Codex(Host):
    client = "codex"

    def __init__(self, project: Project, session: str = "019a-0001") -> None:
        super().__init__(project, session)
        self.transcript = project.folder / f"rollout-2026-01-31T10-00-00-{session}.jsonl"

    def base(self, event: str) -> dict[str, Any]:
        return {**super().base(event), "model": "m"}

    def turn(self) -> dict[str, str]:
        return {"turn_id": f"t{self.count}"}

    def compact(self) -> str:
        return self.send(self.payload("compact", trigger="auto", **self.turn()))

    def write_prompt(self, text: str) -> None:
        self._line("user", "input_text", text)

    def write_reply(self, text: str) -> None:
        self._line("assistant", "output_text", text)

    def _line(self, role: str, kind: str, text: str) -> None:
        payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        at = f"2026-01-31T10:00:{self.count:02}.000Z"
        with self.transcript.open("a") as file:
            file.write(json.dumps({"timestamp": at, "type": "response_item", "payload": payload}) + "\n")


class Gemini(Host):
    client = "gemini"
    names: ClassVar[dict[str, str]] = {"start": "SessionStart", "prompt": "BeforeAgent", "reply": "AfterAgent", "compact": "PreCompress", "end": "SessionEnd"}  # fmt: skip
    prompted = injected_text = ""

    def base(self, event: str) -> dict[str, Any]:
        given = {**super().base(event), "timestamp": f"2026-01-31T10:00:{self.count:02}.{event}Z"}
        del given["permission_mode"]
        return given

    def start(self, source: str = "startup") -> str:
        self.injected_text = super().start(source)
        return self.injected_text

    def prompt(self, text: str, *, write: bool = True) -> str:
        """What was said at the start comes back in the first prompt, escaped."""
        injected_text, self.injected_text = self.injected_text.replace("<", "&lt;").replace(">", "&gt;"), ""
        self.prompted = f"<hook_context>{injected_text}</hook_context>\n\n{text}" if injected_text else text
        return super().prompt(self.prompted, write=False)

    def reply_payload(self, text: str) -> dict[str, Any]:
        return self.payload("reply", prompt=self.prompted, prompt_response=text, stop_hook_active=False)

    def turn(self) -> dict[str, str]:
        return {}

    def write_reply(self, text: str) -> None:
        pass


class Cursor(Host):
    client = "cursor"
    names: ClassVar[dict[str, str]] = {"start": "sessionStart", "prompt": "beforeSubmitPrompt", "reply": "afterAgentResponse", "compact": "preCompact", "end": "sessionEnd"}  # fmt: skip

    def base(self, event: str) -> dict[str, Any]:
        return {
            "conversation_id": self.session,
            "generation_id": f"g{self.count}",
            "hook_event_name": event,
            "cursor_version": "3.7",
            "workspace_roots": [str(self.project.folder)],
            "transcript_path": None,
        }

    @staticmethod
    def injected(out: bytes) -> str:
        said: str = json.loads(out).get("additional_context", "") if out.strip() else ""
        return said

    def turn(self) -> dict[str, str]:
        return {}

    def reply_payload(self, text: str) -> dict[str, Any]:
        return self.payload("reply", text=text)

    def write_prompt(self, text: str) -> None:
        pass

    def write_reply(self, text: str) -> None:
        pass
