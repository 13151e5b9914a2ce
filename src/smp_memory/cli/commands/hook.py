"""The command that coding agents call; people only read its help."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call


def hook_arguments(parser: Parser) -> None:
    from smp_memory.integrations.hooks.events import CLIENTS

    parser.add_argument("--client", choices=("auto", *CLIENTS), default="auto", help="which host calls (default: auto)")
    parser.add_argument("--wait", action="store_true", help="end when all is recorded, not before")


def run_hook(call: Call) -> None:
    """Recall and record, for the hooks of a coding agent: an event as JSON on standard input, an answer on standard output.

    `smp install` writes this command into the settings of a host. At the start of a session and at each prompt it tells what
    is known and was not told yet; prompts, answers and what is about to be compacted go into the project's store. Without a
    store it does nothing. The exit code is always 0: a host never fails because of its memory. What went wrong is in
    `.smp/hooks.log` below the store, and `smp doctor` shows it.

    Examples:
      echo '{"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": "."}' | smp hook
      smp hook --client codex < event.json
    """
    from smp_memory.integrations.hooks.entry import main

    if call.root:
        os.environ["SMP_ROOT"] = call.root
    main(["--client", call.options.client, *(["--wait"] if call.options.wait else [])])
