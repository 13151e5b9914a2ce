"""Run every way into a store in one process, as a user in a cloned repository would; errors are fine, damage is not.

python entry_points.py NAME...      the working folder is the clone
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import SMPError

COMMANDS = [
    "",
    "__complete bash show ''",
    "__complete zsh session restore ''",
    "stats",
    "list --all-memories",
    "trash",
    "list --all",
    "query anything --all",
    "query anything --all --include-archived",
    "context architect --task anything",
    "session list",
    "topics --all",
    "timeline --all",
    "summary --all",
    "deleted",
    "archived",
    "validate",
    "doctor",
    "audit",
    "export --all --file out.jsonl",
    "note 'something was noticed' --session review",
    "decide 'something was decided' --session review",
    "edit DEC-0001 --set status=done --session review",
    "delete DEC-0002 --session review",
    "erase FIND-0001 --session review --yes",
    "redact --all",
    "compact --session review",
    "maintain",
    "repair --session review",
    "reindex",
    "digest",
    "session archive review",
    "session restore review",
    "session new second",
    "session delete second",
    "session undelete second",
    "convert --to markdown",
    "convert --to single",
    "doctor --fix",
    "trust",
    "query anything --all",
]


def run_commands() -> None:
    for command in COMMANDS:
        words = __import__("shlex").split(command)
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            try:
                main(words)
            except SystemExit:
                pass
        assert "Internal error:" not in said.getvalue(), (command, said.getvalue()[-500:])


def run_library() -> None:
    named = os.path.join(os.getcwd(), ".bmad", "memory")
    for where in (None, *([] if os.path.islink(named) else [named])):  # whoever names a link means the folder behind it
        try:
            with smp_memory.open(where) as memory:
                for act in (
                    memory.sessions,
                    memory.validate,
                    memory.maintain,
                    lambda: memory.query("anything"),
                    lambda: memory.context("architect", task="anything"),
                    lambda: memory.session("review").records(),
                    lambda: memory.session("review").add_decision("x"),
                    lambda: memory.create_session("third").add_many([("finding", "y")] * 3),
                ):
                    with contextlib.suppress(SMPError):
                        act()
        except SMPError:
            pass


def run_hooks(transcript: str, hooks: HookProcesses) -> list[str]:
    """What the hooks of a coding agent print for one conversation."""
    event = {"session_id": "abc", "cwd": os.getcwd(), "transcript_path": transcript}
    said = []
    for name, more in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "which database did we decide on?"}),
        ("Stop", {}),
        ("SessionEnd", {}),
    ):
        said.append(hooks.call(json.dumps({**event, "hook_event_name": name, **more}).encode()))
    return said


class HookProcesses:
    """Runs `smp hook` in a new process for each event: a fork of one in which its modules are loaded and nothing has run yet.

    Starting Python for each of the eight events took most of the time of these tests.
    """

    def __init__(self) -> None:
        from smp_memory.integrations.hooks import entry_point, recall, record

        assert all(map(callable, (entry_point.main, recall.recall_for_event, record.record)))
        (request, self._ask), (self._answer, reply) = os.pipe(), os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._ask)
            os.close(self._answer)
            with os.fdopen(request, "rb") as events, os.fdopen(reply, "wb", 0) as answers:
                for event in events:
                    answers.write(json.dumps(self._handled(event)).encode() + b"\n")
            os._exit(0)
        os.close(request)
        os.close(reply)
        self._answers = os.fdopen(self._answer, "rb")

    def call(self, event: bytes) -> str:
        """What the hook prints."""
        os.write(self._ask, event + b"\n")
        status, said = json.loads(self._answers.readline())
        assert status == 0, said
        return str(said)

    def close(self) -> None:
        os.close(self._ask)
        os.waitpid(self._process, 0)

    def _handled(self, event: bytes) -> tuple[int, str]:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
            given.write(event)
            given.seek(0)
            child = os.fork()
            if child == 0:
                os.dup2(given.fileno(), 0)
                os.dup2(said.fileno(), 1)
                main(["hook", "--client", "claude-code", "--wait"])
                os._exit(1)  # it ends the process itself
            status = os.waitpid(child, 0)[1]
            said.seek(0)
            return status, said.read().decode()


if __name__ == "__main__":
    hooks = HookProcesses()
    for name in sys.argv[2:]:
        if name == "hooks":
            sys.stdout.write(json.dumps(run_hooks(sys.argv[1], hooks)) + "\n")
        elif name == "commands":
            run_commands()
        else:
            run_library()
    hooks.close()
