"""What is remembered, on a page: digest."""

from __future__ import annotations

import os

from smp.cli.render import paint
from smp.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.cli.arguments import Parser
    from smp.cli.call import Call


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
    from smp.digest import digest_text, write_digest

    options = call.options
    if options.output == "-":
        text = digest_text(call.memory)
        return call.answer({"text": text}, text.splitlines())
    path = os.path.abspath(options.output) if options.output else _usual_place(call)
    changed = write_digest(call.memory, path, force=options.force)
    told = f"{paint('green', '✓')} {path}" + ("" if changed else ": nothing has changed")
    call.answer({"path": path, "changed": changed}, [told])


def _usual_place(call: Call) -> str:
    from smp.bmad.project import find_project

    project = find_project(os.getcwd()) or find_project(call.memory.store.root)
    if project is None:
        raise UserError("This is no BMAD project, so say where to: smp digest --output MEMORY.md", field="output")
    return project.digest_path()
