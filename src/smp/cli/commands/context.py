"""What belongs into an agent's prompt now: context."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def context_arguments(parser: Parser) -> None:
    from smp.cli.arguments import count

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
    from smp.cli.hits import not_searched

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
