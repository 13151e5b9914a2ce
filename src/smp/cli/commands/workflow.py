"""What a workflow says about memory: workflow check."""

from __future__ import annotations

from smp.cli.render import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.agents.workflow import Workflow
    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def workflow_check_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="a workflow: YAML, or Markdown with front matter or a YAML block")


def run_workflow_check(call: Call) -> None:
    """Check the memory_requirements of a workflow and show what they mean. No store is needed.

    A mistake is reported with file and line.

    Examples:
      smp workflow check deep-verify/workflow-v6.md
      smp workflow check workflow.yaml --json
    """
    from smp.agents.workflow import Workflow

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
