"""Commands for agents: context, digest, promote, macp, workflow check, memlog init, append and set, mcp."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.arguments import Parser, parse_assignment, positive_int
from smp_memory.cli.hit_output import display_text
from smp_memory.cli.render import one_line, paint, safe
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.invocation import Invocation
    from smp_memory.global_memory import GlobalMemory
    from smp_memory.integrations.bmad.workflow import Workflow
    from smp_memory.model.previews import Preview


def context_arguments(parser: Parser) -> None:
    parser.default_session = "the one with the last turn"
    parser.add_argument("--agent", metavar="NAME", help="the agent: its own state is included, that of others is not")
    parser.add_argument("--task", metavar="TEXT", help="what the agent is about to do, in your own words")
    parser.add_argument("--topic", metavar="TOPIC", help="only memories with this topic")
    parser.add_argument("--tag", dest="tags", action="append", metavar="TAG", help="only memories with this tag; repeat: any of them may match")  # fmt: skip
    parser.add_argument("--project", metavar="NAME", help="leave out sessions of other projects (default: the project of the session)")  # fmt: skip
    parser.add_argument("--user", metavar="NAME", help="leave out sessions of other users (default: the user of the session)")  # fmt: skip
    parser.add_argument("--max-tokens", type=positive_int, default=1500, metavar="N", help="the token budget (default: 1500)")  # fmt: skip
    parser.add_argument("--turns", type=positive_int, default=20, metavar="N", help="the largest number of last turns (default: 20)")  # fmt: skip
    parser.add_argument("--explain", action="store_true", help="list instead which memories are included and which are left out, and why")  # fmt: skip


def run_context(call: Invocation) -> None:
    """Print the memories for an agent's prompt, within the token budget: what matches the task first, as a query ranks it.

    Preferences and standing instructions, open critical findings, the agent's state and the last turns have small shares of the budget. Without a
    task it is a digest for the start of a session. Each memory has its date and id, and everything is fenced as recalled data. The fence keeps the output from being stored again as new memories.

    Examples:
      smp context --agent architect --task "choose a database for orders"
      smp context --agent veritas --topic login --max-tokens 800
      smp context --tag billing --project shop
      smp context --session shop --json
      smp context --agent architect --task "choose a database" --explain
    """
    from smp_memory.cli.hit_output import archived_not_searched

    options = call.options
    if options.explain:
        return _explain_context(call)
    context = call.memory.context(**_context_options(call))
    if not context and not options.json:
        call.notify(" ".join([*context.notes, "Nothing to recall yet."]))
    if context.archived_not_searched and not options.json:
        note = archived_not_searched(context.archived_not_searched)
        call.notify(f"{note} `smp query --include-archived` searches them.")
    call.answer(context.to_dict() if options.json else None, context.text.splitlines())


def _context_options(call: Invocation) -> dict[str, Any]:
    names = ("agent", "task", "topic", "tags", "project", "user", "max_tokens", "turns")
    return {"session": call.session_name, **{name: getattr(call.options, name) for name in names}}


def _explain_context(call: Invocation) -> None:
    preview = call.memory.preview(**_context_options(call))
    call.answer(preview.to_dict(), _preview_lines(preview))


def _preview_lines(preview: Preview) -> Iterator[str]:
    from smp_memory.context.trace import relevance_text

    for note in (*preview.notes, *preview.warnings):
        yield safe(one_line(note))
    yield paint("bold", f"Included: {len(preview.included)}, {preview.tokens:,} of {preview.max_tokens:,} tokens")
    for item in preview.included:
        relevance = ", relevance " + relevance_text(item.relevance, preview.min_relevance) if item.relevance is not None else ""  # fmt: skip
        yield f"  {safe(one_line(item.line[2:]))}"
        yield paint("dim", f"    {safe(one_line(item.why))}{relevance}, {item.tokens} tokens")
    if preview.nothing_because:
        yield f"  Nothing: {safe(one_line(preview.nothing_because))}."
    yield paint("bold", f"Left out: {preview.left_out_count}")
    for item in preview.left_out:
        yield f"  {paint('cyan', item.ref)}  {safe(one_line(display_text(item.record)))}"
        yield paint("dim", f"    {item.reason}: {safe(one_line(item.detail))}")
    if preview.left_out_count > len(preview.left_out):
        yield f"  … and {preview.left_out_count - len(preview.left_out):,} more"


def digest_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--output", metavar="FILE", help="the file to write (default: in a BMAD project, memory/MEMORY.md in its output folder); - prints it")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite a file that `smp digest` did not write")


def run_digest(call: Invocation) -> None:
    """Write a summary of the memories to a Markdown file for people and agents: active decisions, open findings,
    preferences, learnings, the last sessions, each with id and date.

    The file is generated from the store and replaced as a whole if anything changed. It is fenced as recalled data, so that
    an agent that reads it does not store it again. `smp maintain` updates it.

    Examples:
      smp digest
      smp digest --output docs/MEMORY.md
    """
    from smp_memory.context.digest import digest_text, write_digest

    options = call.options
    if options.output == "-":
        text = digest_text(call.memory.scope)
        return call.answer({"text": text}, text.splitlines())
    path = os.path.abspath(options.output) if options.output else _default_digest_path(call)
    changed = write_digest(call.memory.scope, path, force=options.force)
    line = f"{paint('green', '✓')} {path}" + ("" if changed else " is up to date")
    call.answer({"path": path, "changed": changed}, [line])


def _default_digest_path(call: Invocation) -> str:
    from smp_memory.integrations.bmad.project import find_project

    project = find_project(os.getcwd()) or find_project(call.memory.store.root)
    if project is None:
        raise UserError("--output: required outside of a BMAD project: smp digest --output MEMORY.md", field="output")
    return project.digest_path()


def promote_arguments(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="the memories to promote: ID, or session/ID")
    parser.add_argument("--undo", action="store_true", help="undo the last promotion of these (their global ids)")
    parser.add_argument("--profile", metavar="KEY=VALUE", help="set a fact about the user for all sessions")


def run_promote(call: Invocation) -> None:
    """Make preferences, learnings, decisions or findings of a session apply to all sessions.

    They are copied to the session `global` with a reference to their origin; `smp context` uses them in every session.
    Without an id it lists what applies to all sessions.

    Examples:
      smp promote LEARN-0003 shop/PREF-0001
      smp promote --profile role="platform engineer"
      smp promote
      smp promote --undo LEARN-0001
    """
    global_memory, options = call.memory.global_memory, call.options
    records: list[Any] = []
    if options.profile:
        records.append(global_memory.set_profile(*_profile_entry(options.profile), author=call.author))
    for reference in options.ids:
        if options.undo:
            records.append(global_memory.undo(reference.rpartition("/")[2], by=call.author))
        else:
            records.append(global_memory.promote(call.record(reference), by=call.author))
    if records:
        call.answer([record.to_dict() for record in records], map(_record_line, records))
    else:
        call.answer(_global_data(global_memory), _global_lines(global_memory))


def _profile_entry(text: str) -> tuple[str, Any]:
    from argparse import ArgumentTypeError

    try:
        return parse_assignment(text)
    except ArgumentTypeError as error:
        raise UserError(f"--profile: {error}.") from None


def _record_line(record: Any) -> str:
    state = paint("dim", " (removed)") if record.deleted else ""
    return f"{paint('cyan', record.ref)}  {one_line(display_text(record))}{state}"


def _global_data(global_memory: GlobalMemory) -> dict[str, Any]:
    return {
        "preferences": [record.to_dict() for record in global_memory.preferences()],
        "patterns": [record.to_dict() for record in global_memory.patterns()],
        "profile": global_memory.profile(),
    }


def _global_lines(global_memory: GlobalMemory) -> Iterator[str]:
    profile, preferences, patterns = global_memory.profile(), global_memory.preferences(), global_memory.patterns()
    if not (profile or preferences or patterns):
        yield "No memory applies to all sessions yet. Promote one: smp promote LEARN-0001"
    for title, lines in (
        ("User profile", [f"{key} = {value}" for key, value in profile.items()]),
        ("Preferences", [_record_line(record) for record in preferences]),
        ("Learned patterns", [_record_line(record) for record in patterns]),
    ):
        if lines:
            yield paint("bold", title)
            yield from (f"  {line}" for line in lines)


def macp_arguments(parser: Parser) -> None:
    pass


def run_macp(call: Invocation) -> None:
    """Answer messages of the Multi-Agent Collaboration Protocol: JSON in, one line of JSON out for each answer.

    The input is one message, or one on each line. REQUEST_CONTEXT and UPDATE_CONTEXT are answered, responses are stored,
    other messages are returned with the shared context. An invalid message is answered with an ERROR and its reason.

    Examples:
      smp macp < message.json
      agent-bus | smp macp --root .bmad/memory
    """
    from smp_memory.integrations.bmad.macp import ContextManager

    manager = ContextManager(call.memory)
    for message in _messages():
        for answer in manager.answer(message):
            call.screen.json(answer, on_one_line=True)
        call.screen.flush()


def _messages() -> Iterator[Any]:
    """Each line of the input, if the first line is a complete document; else the whole input."""
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


def run_workflow_check(call: Invocation) -> None:
    """Check the memory_requirements of a workflow and print them in full. No store is needed.

    Errors are reported with file and line.

    Examples:
      smp workflow check deep-verify/workflow-v6.md
      smp workflow check workflow.yaml --json
    """
    from smp_memory.integrations.bmad.workflow import Workflow

    workflow = Workflow.load(call.options.file)
    call.answer(workflow.to_dict(), _workflow_lines(workflow))


def _workflow_lines(workflow: Workflow) -> Iterator[str]:
    yield f"{paint('bold', workflow.name)}  {workflow.path}"
    if not workflow.is_restricted:
        yield "The workflow has no memory_requirements: no memories are loaded for it, and it may write any type."
        return
    for title, declared in (("reads", workflow.read_access), ("may write", workflow.write_access)):
        yield f"{title}: " + (", ".join(f"{each.text} (line {each.line})" for each in declared) or "nothing")
    for hint in workflow.hints:
        yield f"hint: {hint}"
    for usage in workflow.usages:
        yield f"{usage.phase}: {usage.type or 'read'} {usage.query!r}" + (
            f", to {usage.purpose}" if usage.purpose else ""
        )


# -- memlog, BMAD's working memory: the options and the output of BMAD's own script


def _memlog_target(parser: Parser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--workspace", metavar="DIR", help="the run folder; its memlog is DIR/.memlog.md")
    target.add_argument("--path", metavar="FILE", help="the memlog itself")


def _memlog_path(call: Invocation) -> str:
    from pathlib import Path  # writes paths as BMAD's script does

    from smp_memory.integrations.bmad.memlog import NAME

    return str(Path(call.options.path) if call.options.path else Path(call.options.workspace) / NAME)


def _print_memlog(path: str, entries: int) -> None:
    import json

    sys.stdout.write(json.dumps({"ok": True, "memlog": path, "entries": entries}) + "\n")


def memlog_init_arguments(parser: Parser) -> None:
    _memlog_target(parser)
    parser.add_argument(
        "--field", action="append", metavar="KEY=VALUE", help="a field of its front matter; repeat for more"
    )


def run_memlog_init(call: Invocation) -> None:
    """Create a memlog: BMAD's working memory of a piece of work. An existing one is not overwritten.

    Examples:
      smp memlog init --workspace _bmad-output/specs/spec-login --field topic="Login"
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    fields = []
    for pair in call.options.field or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--field: expected key=value, not {pair!r}.", field="field")
        fields.append((name, value))
    path = _memlog_path(call)
    _print_memlog(path, Memlog(path).init(fields))


def memlog_append_arguments(parser: Parser) -> None:
    _memlog_target(parser)
    parser.add_argument("--text", required=True, help="the text of the entry; it becomes one line")
    parser.add_argument("--type", help="the kind of entry: decision, idea, question, …")
    parser.add_argument("--by", metavar="WHO", help="the author of the entry")


def run_memlog_append(call: Invocation) -> None:
    """Append one entry to a memlog. A replacement of BMAD's memlog.py with the same options, file and output; but when
    several processes append at once, no entry is lost.

    Examples:
      smp memlog append --workspace _bmad-output/specs/spec-login --type decision --text "use OAuth 2.0" --by architect
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    options, path = call.options, _memlog_path(call)
    _print_memlog(path, Memlog(path).append(options.text, options.type, options.by))


def memlog_set_arguments(parser: Parser) -> None:
    _memlog_target(parser)
    parser.add_argument("--key", required=True, help="the name of the field")
    parser.add_argument("--value", required=True, help="its value")


def run_memlog_set(call: Invocation) -> None:
    """Set or replace a field in the front matter of a memlog.

    Examples:
      smp memlog set --workspace _bmad-output/specs/spec-login --key status --value complete
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    path = _memlog_path(call)
    _print_memlog(path, Memlog(path).set(call.options.key, call.options.value))
