"""Secrets in what is stored, and what was done to memories: redact, audit.

Which stores hooks may use: trust.
"""

from __future__ import annotations

import os

from smp_memory.cli.arguments import count
from smp_memory.cli.render import paint, plural, table, time_text
from smp_memory.errors import StorageCorrupt, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call


_KNOWN = ("at", "action", "session", "count", "ids", "kinds", "by", "reason")
_SHOWN_IDS = 5


# -- redact


def redact_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--preview", action="store_true", help="only say which memories have secrets, and of which kind"
    )
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the audit log")


def run_redact(call: Call) -> None:
    """Take secrets out of what is already stored: files and histories are written anew without them.

    What is written now loses its secrets before it is stored; this is for what was written before, or by hand. It
    cannot be undone. Only ids and kinds are shown, never content. Archived sessions, git and backups are not reached.

    Examples:
      smp redact --preview
      smp redact --all --reason "keys were rotated"
    """
    options = call.options
    source = call.memory if options.all else call.session()
    found = source.redact(preview=options.preview, reason=options.reason)
    call.answer([each.to_dict() for each in found], _redacted([each.to_dict() for each in found], options.preview))
    call.remark_redacted("reason", next((each.reason for each in found if each.reason), None))


def _redacted(found: list[dict[str, Any]], preview: bool) -> Iterator[str]:
    if not any(each["kinds"] for each in found):
        yield "No secrets were found."
    for each in found:
        if each["kinds"]:
            done = "would be taken out of" if preview else "were taken out of"
            yield f"{paint('bold', each['session'])}: {_kinds(each['kinds'])} {done} {plural(each['count'], 'memory')}"
        for memory_id, kinds in each["memories"].items():
            yield f"  {memory_id}  {_kinds(kinds)}"
        for what, kinds in (("the session's head", each["head"]), ("what was set aside", each["set_aside"])):
            if kinds:
                yield f"  {what}  {_kinds(kinds)}"
        for problem in each["pending"]:
            yield f"  {paint('yellow', 'not looked at')}: {problem}"


def _kinds(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


# -- audit


def audit_arguments(parser: Parser) -> None:
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="the last N entries (default: 50)")
    parser.add_argument("--action", metavar="WORD", help="only these: delete, restore, purge, erase, redact, export, …")


def run_audit(call: Call) -> int:
    """Show what was deleted, restored, purged, erased, redacted, exported, imported or anonymised: when, by whom, why.

    The log has ids, kinds and counts, no content. Each line has a checksum over itself and the line before; if lines were
    changed or taken out, this says so and ends with the exit code 41.

    Examples:
      smp audit
      smp audit --action export --json
      smp audit --session checkout-review
    """
    options, audit = call.options, call.memory.store.audit
    entries = [entry for entry in audit.entries() if options.action in (None, entry.get("action"))]
    if call.session_name is not None:
        entries = [entry for entry in entries if entry.get("session") == call.session_name]
    problems = audit.problems()
    data = {"entries": entries[-options.limit :], "problems": problems}
    call.answer(data, _audit_lines(call, data))
    return StorageCorrupt.exit_code if problems else 0


def _audit_lines(call: Call, data: dict[str, Any]) -> Iterator[str]:
    if not data["entries"]:
        yield "Nothing was noted yet."
    else:
        cells = [_cells(entry) for entry in data["entries"]]
        yield from table(("when (UTC)", "what", "session", ">count", "by", "details"), cells, call.screen.width)
    for problem in data["problems"]:
        yield f"{paint('red', '✗')} {problem}"


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    ids = [str(each) for each in entry.get("ids") or []]
    more = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    details = [", ".join(ids[:_SHOWN_IDS]) + more] if ids else []
    if entry.get("kinds"):
        details.append(_kinds(entry["kinds"]))
    details += [f"{name} {value}" for name, value in entry.items() if name not in _KNOWN]
    if entry.get("reason"):
        details.append(f"“{entry['reason']}”")
    known = (str(entry.get(name, "")) for name in ("action", "session", "count", "by"))
    return (time_text(str(entry.get("at", ""))), *known, "; ".join(details))


def trust_arguments(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--revoke", action="store_true", help="take trust back, and remove what was derived from the store"
    )
    what.add_argument("--list", action="store_true", help="list the stores that you trust")


def run_trust(call: Call) -> None:
    """Trust the store of this project: hooks recall from it and record to it from now on, for you on this machine.

    A store that you made with `smp init`, or named by its path (--root, SMP_ROOT, smp_memory.open(folder)), is trusted already.
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
    from smp_memory.files.user_state import trusted_stores

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
