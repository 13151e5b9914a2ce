"""Run every way into a store in one process, as a user in a cloned repository would; errors are fine, damage is not.

python entry_points.py NAME...      the working folder is the clone
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

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


def run_hooks(transcript: str) -> list[str]:
    """What the hooks of a coding agent print for one conversation."""
    event = {"session_id": "abc", "cwd": os.getcwd(), "transcript_path": transcript}
    said = []
    for name, more in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "which database did we decide on?"}),
        ("Stop", {}),
        ("SessionEnd", {}),
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "smp_memory", "hook", "--client", "claude-code", "--wait"],
            input=json.dumps({**event, "hook_event_name": name, **more}).encode(),
            capture_output=True,
            check=True,
        )
        said.append(ran.stdout.decode())
    return said


if __name__ == "__main__":
    for name in sys.argv[2:]:
        if name == "hooks":
            sys.stdout.write(json.dumps(run_hooks(sys.argv[1])) + "\n")
        elif name == "commands":
            run_commands()
        else:
            run_library()
