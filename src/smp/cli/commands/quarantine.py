"""Looking at what was set aside, and putting it back."""

from __future__ import annotations

from smp.cli.render import paint, plural, size_text, table
from smp.errors import UserError
from smp.model.time import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call
    from smp.store.quarantine import SetAside


def quarantine_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a file in the list, or a part of its name that no other has"
    )
    parser.add_argument("--put-back", action="store_true", help="append its entries to their session again")


def run_quarantine(call: Call) -> None:
    """List what was set aside in all sessions; with NAME show one file; with --put-back put it back into its session.

    What a crash left unfinished, what `repair` could not read and what another program took out of a file is kept there. If an
    entry cannot be read, correct the file that the list names and put it back.

    Examples:
      smp quarantine
      smp quarantine decisions.jsonl.repair.20260131T143000Z
      smp quarantine decisions.jsonl.repair.20260131T143000Z --put-back
    """
    from smp.store.quarantine import put_back, set_aside

    options = call.options
    items = set_aside(call.memory.store)
    if options.session:
        items = [item for item in items if item.session == options.session]
    if not options.name:
        if options.put_back:
            raise UserError("Say which one: smp quarantine NAME --put-back")
        call.answer([item.to_dict() for item in items], _list(call, items))
        return
    item = _meant(items, options.name)
    if options.put_back:
        found = put_back(item, to_text(call.memory.now()))
        call.answer({**item.to_dict(), "ids": found}, [f"Put back into session {item.session}: {', '.join(found)}"])
        return
    text = item.data.decode(errors="replace")
    call.answer({**item.to_dict(), "text": text}, _shown(item, text))


def _meant(items: list[SetAside], name: str) -> SetAside:
    found = [item for item in items if item.name == name] or [item for item in items if name in item.name]
    if len(found) != 1:
        many = "nothing" if not found else plural(len(found), "file")
        raise UserError(f"{name}: {many} in quarantine has this name. See: smp quarantine")
    return found[0]


def _list(call: Call, items: list[SetAside]) -> Iterator[str]:
    if not items:
        yield "Nothing was set aside."
        return
    rows = [_row(item.to_dict()) for item in items]
    yield from table(["session", "name", "why", "size"], rows, call.screen.width)


def _row(item: dict[str, Any]) -> list[str]:
    return [item["session"], paint("cyan", item["name"]), item["why"], size_text(item["bytes"])]


def _shown(item: SetAside, text: str) -> Iterator[str]:
    yield paint("dim", f"{item.path}: {item.why}")
    yield from text.splitlines()
