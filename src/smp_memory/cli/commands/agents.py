"""What belongs into an agent's prompt now: context.

What is remembered, on a page: digest.

What holds in all sessions: promote.

Messages of agents, answered out of the store: macp.

What a workflow says about memory: workflow check.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.commands.read import gist
from smp_memory.cli.render import one_line, paint
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.global_memory import GlobalMemory
    from smp_memory.integrations.workflows.workflow import Workflow


def context_arguments(parser: Parser) -> None:
    from smp_memory.cli.arguments import count

    parser.without_session = "the one that was spoken in last"
    parser.add_argument(
        "--agent", metavar="NAME", help="whose prompt it is: its own state is recalled, others' are not"
    )
    parser.add_argument("--task", metavar="TEXT", help="what it is about to do, in words as they come")
    parser.add_argument("--topic", metavar="TOPIC", help="what it is about")
    parser.add_argument("--max-tokens", type=count, default=1500, metavar="N", help="how much room there is (default: 1500)")  # fmt: skip
    parser.add_argument("--turns", type=count, default=20, metavar="N", help="how many last turns at most (default: 20)")  # fmt: skip


def run_context(call: Call) -> None:
    """Print what an agent should have in its prompt now: its state, preferences, open findings, decisions, last turns.

    Best first, within the budget, each with its date and id, fenced as recalled data. Without a task it is a digest for the
    start of a session. What is printed is never stored again as a new memory.

    Examples:
      smp context --agent architect --task "choose a database for orders"
      smp context --agent veritas --topic login --max-tokens 800
      smp context --session shop --json
    """
    from smp_memory.cli.hit_output import not_searched

    options = call.options
    context = call.memory.context(
        options.agent,
        options.task,
        options.topic,
        session=call.session_name,
        max_tokens=options.max_tokens,
        turns=options.turns,
    )
    if not context and not options.json:
        call.remark("Nothing to recall yet.")
    if context.archived_not_searched and not options.json:
        call.remark(f"{not_searched(context.archived_not_searched)} `smp query --include-archived` searches them.")
    call.answer(context.to_dict() if options.json else None, context.text.splitlines())


def digest_arguments(parser: Parser) -> None:
    parser.add_argument("--output", metavar="FILE", help="where to (default: in a BMAD project, memory/MEMORY.md in its output folder); - prints it")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write over a file that `smp digest` did not make")


def run_digest(call: Call) -> None:
    """Write what is remembered into a Markdown file that people and agents see: decisions that hold, open findings,
    preferences, learnings, the last sessions, each with id and date.

    The file is made from the store and replaced as a whole, if anything changed. It is fenced as recalled data, so that an
    agent that reads it does not store it again. `smp maintain` renews it.

    Examples:
      smp digest
      smp digest --output docs/MEMORY.md
    """
    from smp_memory.context.digest import digest_text, write_digest

    options = call.options
    if options.output == "-":
        text = digest_text(call.memory)
        return call.answer({"text": text}, text.splitlines())
    path = os.path.abspath(options.output) if options.output else _usual_place(call)
    changed = write_digest(call.memory, path, force=options.force)
    told = f"{paint('green', '✓')} {path}" + ("" if changed else ": nothing has changed")
    call.answer({"path": path, "changed": changed}, [told])


def _usual_place(call: Call) -> str:
    from smp_memory.integrations.bmad.project import find_project

    project = find_project(os.getcwd()) or find_project(call.memory.store.root)
    if project is None:
        raise UserError("This is no BMAD project, so say where to: smp digest --output MEMORY.md", field="output")
    return project.digest_path()


def promote_arguments(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="what is promoted: ID, or session/ID")
    parser.add_argument("--undo", action="store_true", help="take back the last promotion of these (their global ids)")
    parser.add_argument("--profile", metavar="KEY=VALUE", help="note something about the user that holds everywhere")


def run_promote(call: Call) -> None:
    """Let preferences, learnings, decisions or findings of a session hold in all sessions.

    They are copied into the session `global`, with where they come from; `smp context` uses them in every session. Without
    an id it shows what holds in all sessions.

    Examples:
      smp promote LEARN-0003 shop/PREF-0001
      smp promote --profile role="platform engineer"
      smp promote
      smp promote --undo LEARN-0001
    """
    everywhere, options = call.memory.global_memory, call.options
    done: list[Any] = []
    if options.profile:
        from smp_memory.cli.arguments import assignment

        done.append(everywhere.set_profile(*_read(assignment, options.profile), author=call.author))
    for reference in options.ids:
        if options.undo:
            done.append(everywhere.undo(reference.rpartition("/")[2], by=call.author))
        else:
            done.append(everywhere.promote(call.record(reference), by=call.author))
    if done:
        call.answer([record.to_dict() for record in done], (_line(record) for record in done))
    else:
        call.answer(_all(everywhere), _shown(everywhere))


def _read(assignment: Any, text: str) -> tuple[str, Any]:
    from argparse import ArgumentTypeError

    from smp_memory.errors import UserError

    try:
        name, value = assignment(text)
        return name, value
    except ArgumentTypeError as error:
        raise UserError(f"--profile: {error}.") from None


def _line(record: Any) -> str:
    state = paint("dim", " (taken out)") if record.deleted else ""
    return f"{paint('cyan', record.ref)}  {one_line(gist(record))}{state}"


def _all(everywhere: GlobalMemory) -> dict[str, Any]:
    return {
        "preferences": [record.to_dict() for record in everywhere.preferences()],
        "patterns": [record.to_dict() for record in everywhere.patterns()],
        "profile": everywhere.profile(),
    }


def _shown(everywhere: GlobalMemory) -> Iterator[str]:
    profile, preferences, patterns = everywhere.profile(), everywhere.preferences(), everywhere.patterns()
    if not (profile or preferences or patterns):
        yield "Nothing holds in all sessions yet. Promote something: smp promote LEARN-0001"
    for title, lines in (
        ("User profile", [f"{key} = {value}" for key, value in profile.items()]),
        ("Preferences", [_line(record) for record in preferences]),
        ("Learned patterns", [_line(record) for record in patterns]),
    ):
        if lines:
            yield paint("bold", title)
            yield from (f"  {line}" for line in lines)


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
    from smp_memory.integrations.macp.manager import ContextManager

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


def workflow_check_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="a workflow: YAML, or Markdown with front matter or a YAML block")


def run_workflow_check(call: Call) -> None:
    """Check the memory_requirements of a workflow and show what they mean. No store is needed.

    A mistake is reported with file and line.

    Examples:
      smp workflow check deep-verify/workflow-v6.md
      smp workflow check workflow.yaml --json
    """
    from smp_memory.integrations.workflows.workflow import Workflow

    workflow = Workflow.load(call.options.file)
    call.answer(workflow.to_dict(), _lines(workflow))


def _lines(workflow: Workflow) -> Iterator[str]:
    yield f"{paint('bold', workflow.name)}  {workflow.path}"
    if not workflow.is_restricted:
        yield "It has no memory_requirements: nothing is loaded for it, and it may write anything."
        return
    for title, declared in (("reads", workflow.read_access), ("may write", workflow.write_access)):
        yield f"{title}: " + (", ".join(f"{each.text} (line {each.line})" for each in declared) or "nothing")
    for hint in workflow.hints:
        yield f"hint: {hint}"
    for usage in workflow.usages:
        yield f"{usage.phase}: {usage.type or 'read'} {usage.query!r}" + (
            f", to {usage.purpose}" if usage.purpose else ""
        )
