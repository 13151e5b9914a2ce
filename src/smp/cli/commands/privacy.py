"""Secrets in what is stored, and what was done to memories: redact, audit."""

from __future__ import annotations

from smp.cli.arguments import count
from smp.cli.render import paint, plural, table, time_text
from smp.errors import StorageCorrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call

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
