"""The command hook, which coding agents run. `cli.main` runs it without this module, which provides its help."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation


def hook_arguments(parser: Parser) -> None:
    from smp_memory.integrations.hooks.events import CLIENTS

    parser.add_argument("--client", choices=("auto", *CLIENTS), default="auto", help="the coding agent (default: auto)")
    parser.add_argument("--wait", action="store_true", help="return only when everything is recorded")


def run_hook(call: Invocation) -> None:
    """Recall and record, for the hooks of a coding agent: an event as JSON on standard input, an answer on standard output.

    `smp install` writes this command into the settings of a coding agent. At the start of a session and at each prompt it
    returns relevant memories that were not returned yet; prompts, answers and text that is about to be compacted are stored
    in the project's store. Without a store it does nothing. The exit code is always 0: the agent never fails because of its
    memory. Errors are logged in the user's state of the store, and `smp doctor` reports them.

    Examples:
      echo '{"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": "."}' | smp hook
      smp hook --client codex < event.json
    """
    from smp_memory.integrations.hooks.entry import main

    if call.root:
        os.environ["SMP_ROOT"] = call.root
    main(["--client", call.options.client, *(["--wait"] if call.options.wait else [])])
