"""Messages of agents, answered out of the store: macp."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def macp_arguments(parser: Parser) -> None:
    pass


def run_macp(call: Call) -> None:
    """Answer messages of the Multi-Agent Collaboration Protocol: JSON in, one line of JSON out for each answer.

    One message, or one on each line. REQUEST_CONTEXT and UPDATE_CONTEXT are answered, responses are stored, other messages
    come back with the shared context. A message that is wrong is answered by an ERROR that says why.

    Examples:
      smp macp < message.json
      agent-bus | smp macp --root .bmad/memory
    """
    from smp.agents.macp import ContextManager

    manager = ContextManager(call.memory)
    for message in _messages():
        for answer in manager.answer(message):
            call.screen.json(answer, on_one_line=True)
        call.screen.flush()


def _messages() -> Iterator[Any]:
    """Each line, if the first one is a whole document; else all of it is one."""
    import json

    stream = getattr(sys.stdin, "buffer", sys.stdin)
    for line in stream:
        if not line.strip():
            continue
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            yield line + stream.read()
            return
        yield line
        break
    yield from (line for line in stream if line.strip())
