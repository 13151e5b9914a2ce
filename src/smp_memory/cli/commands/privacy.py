"""Commands for privacy: redact, audit, trust."""

from __future__ import annotations

import os

from smp_memory.cli.arguments import positive_int
from smp_memory.cli.render import paint, plural, table, time_text
from smp_memory.errors import StorageCorrupt, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation


_COLUMNS = ("at", "action", "session", "count", "ids", "kinds", "by", "reason")  # all other fields go into the details
_MAX_IDS = 5


# -- redact


def redact_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--preview", action="store_true", help="only show which memories contain secrets, and of which kind"
    )
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the audit log")


def run_redact(call: Invocation) -> None:
    """Remove secrets from what is already stored: files and histories are rewritten without them.

    New memories are redacted before they are stored; this command is for text that was stored before, or typed by hand. It
    cannot be undone. Only ids and kinds are shown, never content. It does not reach archived sessions, git and backups.

    Examples:
      smp redact --preview
      smp redact --all --reason "keys were rotated"
    """
    options = call.options
    source = call.memory if options.all else call.session()
    reports = source.redact(preview=options.preview, reason=options.reason)
    data = [each.to_dict() for each in reports]
    call.answer(data, _redaction_lines(data, options.preview))
    call.notify_redacted("reason", next((each.reason for each in reports if each.reason), None))


def _redaction_lines(reports: list[dict[str, Any]], preview: bool) -> Iterator[str]:
    if not any(each["kinds"] for each in reports):
        yield "No secrets were found."
    for each in reports:
        if each["kinds"]:
            verb = "would be removed from" if preview else "removed from"
            yield f"{paint('bold', each['session'])}: {_kinds(each['kinds'])} {verb} {plural(each['count'], 'memory')}"
        for memory_id, kinds in each["memories"].items():
            yield f"  {memory_id}  {_kinds(kinds)}"
        for what, kinds in (("session metadata", each["head"]), ("quarantine", each["set_aside"])):
            if kinds:
                yield f"  {what}  {_kinds(kinds)}"
        for problem in each["pending"]:
            yield f"  {paint('yellow', 'not checked')}: {problem}"


def _kinds(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


# -- audit


def audit_arguments(parser: Parser) -> None:
    parser.add_argument("--limit", type=positive_int, metavar="N", default=50, help="the last N entries (default: 50)")
    parser.add_argument("--action", metavar="WORD", help="only these: delete, restore, purge, erase, redact, export, …")


def run_audit(call: Invocation) -> int:
    """Show what was deleted, restored, purged, erased, redacted, exported, imported or anonymised: when, by whom, why.

    The log contains ids, kinds and counts, no content. Each line has a checksum over itself and the line before; if lines
    were changed or removed, this is reported and the exit code is 41.

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


def _audit_lines(call: Invocation, data: dict[str, Any]) -> Iterator[str]:
    if not data["entries"]:
        yield "The audit log has no such entry."
    else:
        cells = [_cells(entry) for entry in data["entries"]]
        yield from table(("when (UTC)", "what", "session", ">count", "by", "details"), cells, call.screen.width)
    for problem in data["problems"]:
        yield f"{paint('red', '✗')} {problem}"


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    ids = [str(each) for each in entry.get("ids") or []]
    more = f" and {len(ids) - _MAX_IDS} more" if len(ids) > _MAX_IDS else ""
    details = [", ".join(ids[:_MAX_IDS]) + more] if ids else []
    if entry.get("kinds"):
        details.append(_kinds(entry["kinds"]))
    details += [f"{name} {value}" for name, value in entry.items() if name not in _COLUMNS]
    if entry.get("reason"):
        details.append(f"“{entry['reason']}”")
    cells = (str(entry.get(name, "")) for name in ("action", "session", "count", "by"))
    return (time_text(str(entry.get("at", ""))), *cells, "; ".join(details))


# -- trust


def trust_arguments(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--revoke", action="store_true", help="revoke trust, and remove what was derived from the store")
    what.add_argument("--list", action="store_true", help="list the stores that you trust")


def run_trust(call: Invocation) -> None:
    """Trust the store of this project: hooks recall from it and record to it from now on, for you on this machine.

    A store that you created with `smp init`, or named by its path (--root, SMP_ROOT, smp_memory.open(folder)), is trusted
    already. A store of a cloned repository is not: its memories were written by somebody else, and an agent would act on
    them. Read them first (smp list, smp query, an editor). Trust belongs to a store at its path: after it was moved or
    replaced, trust it again.

    Examples:
      smp trust
      smp trust --list
      smp trust --revoke
    """
    if call.options.list:
        stores = _trusted_stores()
        call.answer(stores, _store_lines(stores))
        return
    call.mentions_trust = False
    memory = call.memory
    before = memory.is_trusted
    if call.options.revoke:
        memory.distrust()
    else:
        memory.trust()
        if not memory.store.state.on_disk:
            raise UserError(
                "Trust cannot be stored: your home folder belongs to another user or is not writable. "
                "Set SMP_STATE_DIR to a folder of your own."
            )
    data = {"root": memory.root, "trusted": not call.options.revoke, "changed": before == call.options.revoke}
    call.answer(data, _trust_lines(data))


def _trusted_stores() -> list[dict[str, Any]]:
    from smp_memory.files.user_state import trusted_stores

    return [{"root": root, "exists": os.path.isdir(root)} for root in trusted_stores()]


def _store_lines(stores: list[dict[str, Any]]) -> Iterator[str]:
    if not stores:
        yield "You trust no store yet."
    for each in stores:
        yield each["root"] + ("" if each["exists"] else paint("dim", "  (does not exist any more)"))


def _trust_lines(data: dict[str, Any]) -> Iterator[str]:
    now = "trusted" if data["trusted"] else "not trusted any more"
    yield f"{paint('green', '✓')} {data['root']} is {now}" + ("." if data["changed"] else ", as before.")
    if data["trusted"] and data["changed"]:
        yield "Hooks recall from it and record to it from now on."
