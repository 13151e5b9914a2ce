"""Which stores hooks may use: trust."""

from __future__ import annotations

import os

from smp.cli.render import paint
from smp.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call


def trust_arguments(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--revoke", action="store_true", help="take trust back, and remove what was derived from the store"
    )
    what.add_argument("--list", action="store_true", help="list the stores that you trust")


def run_trust(call: Call) -> None:
    """Trust the store of this project: hooks recall from it and record to it from now on, for you on this machine.

    A store that you made with `smp init`, or named by its path (--root, SMP_ROOT, smp.open(folder)), is trusted already.
    One that came with a cloned repository is not: its memories were written by somebody else, and an agent would act on
    them. Look at it first (smp list, smp query, an editor). Trust belongs to the store in its place: after it was moved, or another
    one was put there, say it again.

    Examples:
      smp trust
      smp trust --list
      smp trust --revoke
    """
    if call.options.list:
        stores = _trusted()
        call.answer(stores, _listed(stores))
        return
    call.tells_of_trust = False
    memory = call.memory
    before = memory.is_trusted
    if call.options.revoke:
        memory.distrust()
    else:
        memory.trust()
        if not memory.store.state.on_disk:
            raise UserError(
                "There is no place to note that you trust this store: your home folder is not yours or cannot be written. "
                "Name one with SMP_STATE_DIR."
            )
    facts = {"root": memory.root, "trusted": not call.options.revoke, "changed": before == call.options.revoke}
    call.answer(facts, _said(facts))


def _trusted() -> list[dict[str, Any]]:
    from smp.files.user_state import trusted_stores

    return [{"root": root, "exists": os.path.isdir(root)} for root in trusted_stores()]


def _listed(stores: list[dict[str, Any]]) -> Iterator[str]:
    if not stores:
        yield "You trust no store yet."
    for each in stores:
        yield each["root"] + ("" if each["exists"] else paint("dim", "  (not there any more)"))


def _said(facts: dict[str, Any]) -> Iterator[str]:
    now = "trusted" if facts["trusted"] else "not trusted any more"
    yield f"{paint('green', '✓')} {facts['root']} is {now}" + ("." if facts["changed"] else ", as before.")
    if facts["trusted"] and facts["changed"]:
        yield "Hooks recall from it and record to it from now on."
