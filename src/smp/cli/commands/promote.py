"""What holds in all sessions: promote."""

from __future__ import annotations

from smp.cli.commands.reading import gist
from smp.cli.render import one_line, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.agents.global_memory import GlobalMemory
    from smp.cli.arguments import Parser
    from smp.cli.call import Call


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
        from smp.cli.arguments import assignment

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

    from smp.errors import UserError

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
