"""Commands that remove memories or secrets: delete, restore, trash, erase, redact; and their log: audit."""

from __future__ import annotations

from smp_memory.cli.arguments import ID_HELP, add_filters, positive_int, query_from
from smp_memory.cli.hit_output import display_text
from smp_memory.cli.render import fields, paint, plural, size_text, table, time_text, truncate
from smp_memory.errors import StorageCorrupt, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.model.deletions import Deletion, Purged, Receipt, Restoration, Trashed
    from smp_memory.model.record import Record

_MAX_IDS = 20  # in a message
_IDS_AND_FILTERS = "Give ids or filters, not both. See: smp {} --help"


def _selection_arguments(parser: Parser) -> None:
    """Ids, or the filters of `smp query`."""
    parser.add_argument("ids", metavar="ID", nargs="*", help=ID_HELP)
    parser.add_argument("--text", metavar="WORDS", help="only memories that contain all of these words")
    parser.add_argument("--reason", metavar="TEXT", help="why; it is stored with the deletion")
    parser.add_argument("--preview", action="store_true", help="only show which memories match")
    parser.add_argument("--echoes", action="store_true", help="also turns that say the same as these memories")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    add_filters(parser)


def _filters(call: Invocation) -> dict[str, Any]:
    filters = query_from(call)
    for name in ("include_deleted", "offset"):
        filters.pop(name, None)
    if call.options.text:
        filters["text"] = call.options.text
    return filters


def _refs(call: Invocation) -> list[str]:
    return [f"{session.id}/{memory_id}" for session, memory_id in map(call.resolve, call.options.ids)]


def _is_confirmed(call: Invocation, question: str) -> bool:
    """Whether a person confirms it; scripts are not asked."""
    return bool(call.options.yes) or not call.is_interactive or call.confirm(question)


def _takes_echoes(call: Invocation, verb: str, echoes: list[str]) -> bool:
    """Whether turns that say the same are taken along: --echoes, or a person confirms it."""
    if call.options.echoes or not echoes:
        return bool(call.options.echoes)
    if call.options.yes or not call.is_interactive:
        return False
    for line in _echo_texts(call, echoes):
        call.notify(line)
    return bool(call.confirm(f"{verb.capitalize()} these turns, too?"))


def _echo_texts(call: Invocation, echoes: list[str]) -> Iterator[str]:
    """The first turns that say the same, with the beginning of their text."""
    yield f"{plural(len(echoes), 'turn')} {'says' if len(echoes) == 1 else 'say'} the same:"
    for ref in echoes[:_MAX_IDS]:
        session, _, id = ref.rpartition("/")
        record = call.memory.session(session).find(id)
        yield f"  {ref}  {truncate(' '.join(record.text.split()), 60) if record is not None else ''}".rstrip()
    if len(echoes) > _MAX_IDS:
        yield f"  and {len(echoes) - _MAX_IDS} more"


def _names(refs: list[str]) -> str:
    return ", ".join(refs[:_MAX_IDS]) + (", …" if len(refs) > _MAX_IDS else "")


def _echo_lines(echoes: list[str], done: str, *, preview: bool = True) -> Iterator[str]:
    """What says the same and stays."""
    if echoes:
        hint = "; --echoes includes them" if preview or done == "restored" else ""
        yield f"Not {done}: {plural(len(echoes), 'turn')} that {'says' if len(echoes) == 1 else 'say'} the same ({_names(echoes)}){hint}."


def _record_table(call: Invocation, records: list[Record], verb: str) -> Iterator[str]:
    if not records:
        yield "No memory matches."
        return
    rows = [
        [record.ref if call.options.all else record.id, time_text(record.to_dict()["created"]), display_text(record)]
        for record in records
    ]
    yield from table(("id", "created (UTC)", "memory"), rows, call.screen.width)
    yield f"{plural(len(records), 'memory')} {verb}"


# -- delete and restore


delete_arguments = _selection_arguments


def run_delete(call: Invocation) -> None:
    """Hide memories at once. `smp restore` restores them; `smp trash` lists them, and when they will be purged.

    Give ids, or filters as for `smp query`. The memories of a session are deleted together; if an id does not exist, none
    is. --preview shows which memories match and changes nothing. Turns that say the same as a deleted memory are no
    longer recalled; --echoes deletes them, too.

    Examples:
      smp delete TURN-0004 --reason "contains a password"
      smp delete DEC-0002 DEC-0003
      smp delete --topic billing --time "last week" --preview
      smp delete --agent intern --all --reason "asked to" --yes
    """
    _run_by_selection(call, "delete", "would be deleted.", "deleted", "is deleted.")


restore_arguments = _selection_arguments


def run_restore(call: Invocation) -> None:
    """Restore deleted memories, and memories that compaction moved to the cold segment.

    Examples:
      smp trash
      smp restore TURN-0004
      smp restore --topic billing
    """
    _run_by_selection(call, "restore", "would be restored.", "restored", "is restored.")


def _run_by_selection(call: Invocation, verb: str, would: str, done: str, each: str) -> None:
    """Delete or restore by ids or filters. `would`, `done` and `each` are the ends of the messages."""
    options, filters = call.options, _filters(call)
    if options.ids and not filters:
        _run_by_ids(call, verb, would, done, each)
        return
    if options.ids:
        raise UserError(_IDS_AND_FILTERS.format(verb))
    scope = call.target
    act: Callable[..., Any] = getattr(scope, verb)
    matches = act(**filters, preview=True, echoes=options.echoes)
    if options.preview or not matches.count:
        call.answer(
            matches.to_dict(), [*_record_table(call, matches.records, would), *_echo_lines(_left(matches), done)]
        )
        return
    if not _is_confirmed(call, f"{verb.capitalize()} {plural(matches.count, 'memory')}?"):
        call.notify("Nothing was changed.")
        return
    result = act(**filters, reason=options.reason, echoes=_takes_echoes(call, verb, matches.echoes))
    call.answer(
        result.to_dict(),
        [
            f"{plural(result.count, 'memory')} {done}: {_names(result.ids)}",
            *_echo_lines(_left(result), done, preview=False),
        ],
    )
    call.notify_redacted("reason", result.redacted)


def _left(result: Deletion | Restoration) -> list[str]:
    """The echoes that are not among the memories of a result."""
    taken = {record.ref for record in result.records}
    return [ref for ref in result.echoes if ref not in taken]


def _run_by_ids(call: Invocation, verb: str, would: str, done: str, each: str) -> None:
    """All memories of a session, or none if an id does not exist."""
    options = call.options
    if options.preview:
        result = getattr(call.memory, verb)(_refs(call), preview=True, echoes=options.echoes)
        call.answer(result.to_dict(), [*_record_table(call, result.records, would), *_echo_lines(_left(result), done)])
        return
    records: list[Record] = []
    redacted: dict[str, int] = {}
    left: list[str] = []
    for session, ids in call.resolve_by_session(options.ids):
        takes = options.echoes
        if not takes and call.is_interactive and not options.yes:
            takes = _takes_echoes(call, verb, getattr(session, verb)(ids, preview=True).echoes)
        result = getattr(session, verb)(ids, options.reason, echoes=takes)
        records, redacted = records + result.records, redacted or result.redacted
        left += _left(result)
    more = {"redacted": redacted} if redacted else {}
    call.answer(
        [{**record.to_dict(), **more} for record in records],
        (f"{paint('bold', record.id)} {each}" for record in records),
    )
    for line in _echo_lines(left, done, preview=False):
        call.notify(line)
    call.notify_redacted("reason", redacted)


# -- the trash


def trash_arguments(parser: Parser) -> None:
    parser.default_session = "all of them; with --empty the one written last"
    parser.add_argument("--empty", action="store_true", help="remove for good what has been in the trash long enough")
    parser.add_argument("--older-than", type=float, metavar="DAYS", help="with --empty: what has been in the trash for this many days (default: the setting lifecycle.purge_days)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def run_trash(call: Invocation) -> None:
    """Show the trash: who deleted what, when and why, and when it may be removed for good.

    --empty removes for good the memories of a session that have been in the trash long enough. It needs two calls at
    least a day apart: the first announces what is due, a later one removes it. If the clock has jumped, nothing is
    removed. To remove a memory at once: smp erase.

    Examples:
      smp trash
      smp trash --session checkout-review --json
      smp trash --empty --all --older-than 7
    """
    options = call.options
    if options.empty:
        result = call.target.purge(older_than=options.older_than, by=call.author)
        call.answer(result.to_dict(), _purge_lines(result))
        return
    if options.older_than is not None:
        raise UserError("--older-than requires --empty. See: smp trash --help")
    trashed = call.scope.deleted()
    call.answer([each.to_dict() for each in trashed], _trash_table(call, trashed))


def _trash_table(call: Invocation, trashed: list[Trashed]) -> Iterator[str]:
    short_ids, rows = call.has_one_session, []
    for each in trashed:
        data = each.to_dict()
        due = time_text(data["purged_from"]) if data["purged_from"] else "never automatically"
        name = each.id if short_ids else each.record.ref
        deleted = time_text(data["deleted_at"])
        rows.append([name, deleted, each.by or "", each.reason or "", due, display_text(each.record)])
    if rows:
        headers = ("id", "deleted (UTC)", "by", "why", "removable from", "memory")
        yield from table(headers, rows, call.screen.width)
        yield paint(
            "dim", f"{plural(len(rows), 'memory')} in the trash of {call.scope_text}. To restore one: smp restore ID"
        )
    else:
        yield f"The trash of {call.scope_text} is empty."
    sessions = len(call.memory.deleted_sessions())
    if sessions and call.scope is call.memory:
        yield f"{plural(sessions, 'deleted session')}: smp session list --all"


# -- emptying the trash


def _purge_lines(result: Purged) -> Iterator[str]:
    if result.refused:
        yield f"Nothing was purged: {result.refused}."
        return
    yield f"{plural(result.count, 'memory')} purged, {len(result.announced)} announced, {result.waiting} in the trash."
    if result.announced:
        yield f"A purge at least a day from now removes: {', '.join(result.announced[:_MAX_IDS])}"


# -- erase


erase_arguments = _selection_arguments


def run_erase(call: Invocation) -> int:
    """Remove the bytes of memories from every file that SMP owns, at once and for good, and print a receipt.

    This includes history, trash, cold segment, index and quarantine, and archived or deleted sessions: name these by
    --session or session/ID; they stay archived or deleted. It cannot be undone: a person is asked, a script needs --yes.
    Turns that say the same stay, and the receipt names them; --echoes erases them, too.
    Exit code 1: something is left or pending; the receipt lists it.

    Examples:
      smp erase TURN-0004 --reason "a password" --yes
      smp erase --text "Ada Lovelace" --all --preview
    """
    options, filters = call.options, _filters(call)
    if options.ids and filters:
        raise UserError(_IDS_AND_FILTERS.format("erase"))
    scope, selection = _erase_selection(call, filters)
    matches: Receipt = scope.erase(**selection, preview=True, echoes=options.echoes)
    if options.preview or not matches.count:
        line = f"{plural(matches.count, 'memory')} would be erased: {', '.join(matches.ids)}"
        lines = [line, *_echo_lines(matches.staying_echoes, "erased")]
        call.answer(matches.to_dict(), lines if matches.count else ["No memory matches; nothing was erased."])
        return 0
    if not options.yes and not call.is_interactive:
        raise UserError(f"This erases {plural(matches.count, 'memory')} for good. Add --yes to confirm.")
    if not _is_confirmed(call, f"Erase {plural(matches.count, 'memory')} for good? This cannot be undone."):
        call.notify("Nothing was changed.")
        return 0
    takes = _takes_echoes(call, "erase", matches.staying_echoes)
    receipt: Receipt = scope.erase(**selection, reason=options.reason, by=call.author, echoes=takes)
    call.answer(receipt.to_dict(), _receipt_lines(call, receipt))
    call.notify_redacted("reason", receipt.redacted)
    return 0 if receipt.complete else 1


def _erase_selection(call: Invocation, filters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The scope and the arguments of `erase`. An archived session must not be opened, because that would restore it."""
    name = call.session_name
    if call.options.ids:
        refs = (each if "/" in each else f"{name or call.session().id}/{each}" for each in call.options.ids)
        return call.memory, {"id": list(refs)}
    if name is not None and filters and not call.options.all:
        return call.memory, {**filters, "sessions": [name]}
    return call.target, filters


def _receipt_lines(call: Invocation, receipt: Receipt) -> Iterator[str]:
    yield paint("bold", f"{plural(receipt.count, 'memory')} erased: {', '.join(receipt.ids)}")
    searched = f"{receipt.searched_files} files, {size_text(receipt.searched_bytes)}"
    pairs = [
        ("rewritten", ", ".join(receipt.rewritten) or "nothing"),
        ("removed", ", ".join(receipt.removed) or "nothing"),
        ("verified", f"{'yes' if receipt.verified else 'no'}; searched {searched}"),
        ("same text in", ", ".join(receipt.elsewhere) or "nothing"),
        ("said again in", ", ".join(receipt.staying_echoes) or "nothing"),
        ("left in", ", ".join(receipt.left) or "nothing"),
        ("pending", "; ".join(receipt.pending) or "nothing"),
        ("not reached", "; ".join(receipt.beyond_reach)),
    ]
    yield from fields(pairs, call.screen.width)


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
    cannot be undone. Only ids and kinds are shown, never content. It does not reach archived sessions, git or backups.

    Examples:
      smp redact --preview
      smp redact --all --reason "keys were rotated"
    """
    options = call.options
    reports = call.target.redact(preview=options.preview, reason=options.reason)
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

_COLUMNS = ("at", "action", "session", "count", "ids", "kinds", "by", "reason")  # all other fields go into the details
_MAX_LOGGED_IDS = 5


def audit_arguments(parser: Parser) -> None:
    parser.add_argument("--limit", type=positive_int, metavar="N", default=50, help="the last N entries (default: 50)")
    parser.add_argument("--action", metavar="WORD", help="only these: delete, restore, purge, erase, redact, export, …")


def run_audit(call: Invocation) -> int:
    """Show what was deleted, restored, purged, erased, redacted, exported, imported or anonymised: when, by whom, why.

    It also lists what clients of a shared server read and wrote (--action read, --action write). The log contains ids, kinds and counts, no content. Each line has a checksum over itself and the line before; if lines
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
    more = f" and {len(ids) - _MAX_LOGGED_IDS} more" if len(ids) > _MAX_LOGGED_IDS else ""
    details = [", ".join(ids[:_MAX_LOGGED_IDS]) + more] if ids else []
    if entry.get("kinds"):
        details.append(_kinds(entry["kinds"]))
    details += [f"{name} {value}" for name, value in entry.items() if name not in _COLUMNS]
    if entry.get("reason"):
        details.append(f"“{entry['reason']}”")
    cells = (str(entry.get(name, "")) for name in ("action", "session", "count", "by"))
    return (time_text(str(entry.get("at", ""))), *cells, "; ".join(details))
