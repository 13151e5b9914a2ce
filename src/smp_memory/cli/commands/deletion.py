"""Forgetting: delete, what is in the trash, restore, purge, erase."""

from __future__ import annotations

import sys

from smp_memory.cli.commands.read import gist
from smp_memory.cli.query_options import add_filters, asked_of
from smp_memory.cli.render import fields, paint, plural, size_text, table, time_text
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.model.deletions import Purged, Receipt, Trashed
    from smp_memory.model.record import Record

_ID_HELP = "DEC-0001, or session/DEC-0001 for one of another session"
_SHOWN = 20  # ids in a sentence


def _which_arguments(parser: Parser) -> None:
    """Ids, or what `smp query` knows."""
    parser.add_argument("ids", metavar="ID", nargs="*", help=_ID_HELP)
    parser.add_argument("--text", metavar="WORDS", help="only those in which all of these words stand")
    parser.add_argument("--reason", metavar="TEXT", help="why; it is kept in the record of it")
    parser.add_argument("--preview", action="store_true", help="only show which ones are meant")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_filters(parser)


def _criteria(call: Call) -> dict[str, Any]:
    asked = asked_of(call)
    for name in ("include_deleted", "offset"):
        asked.pop(name, None)
    if call.options.text:
        asked["text"] = call.options.text
    return asked


def _scope(call: Call) -> Any:
    """The session that is meant, or with --all the whole store."""
    return call.memory if call.options.all else call.session()


def _refs(call: Call) -> list[str]:
    return [f"{session.id}/{memory_id}" for session, memory_id in map(call.place, call.options.ids)]


def _is_person() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _is_sure(call: Call, question: str) -> bool:
    """Ask a person; a script is taken at its word."""
    if call.options.yes or call.options.json or not _is_person():
        return True
    call.screen.line(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _table_of(call: Call, records: list[Record], told: str) -> Iterator[str]:
    if not records:
        yield "No such memory."
        return
    rows = ([record.ref if call.options.all else record.id, time_text(record.to_dict()["created"]), gist(record)] for record in records)  # fmt: skip
    yield from table(("id", "created (UTC)", "memory"), rows, call.screen.width)
    yield f"{plural(len(records), 'memory')} {told}"


# -- delete and restore


def delete_arguments(parser: Parser) -> None:
    _which_arguments(parser)


def run_delete(call: Call) -> None:
    """Hide memories at once. `smp restore` brings them back; `smp deleted` shows them, and when they will be purged.

    Give ids, or say which ones as for `smp query`. All of a session's are deleted together or, if an id is not there,
    not at all. --preview shows which ones are meant and changes nothing.

    Examples:
      smp delete TURN-0004 --reason "contains a password"
      smp delete DEC-0002 DEC-0003
      smp delete --topic billing --time "last week" --preview
      smp delete --agent intern --all --reason "asked to" --yes
    """
    _mark(call, "delete", "would be deleted.", "deleted", "is deleted.")


def restore_arguments(parser: Parser) -> None:
    _which_arguments(parser)


def run_restore(call: Call) -> None:
    """Bring deleted memories back.

    Examples:
      smp deleted
      smp restore TURN-0004
      smp restore --topic billing
    """
    _mark(call, "restore", "would come back.", "brought back", "is back.")


def _mark(call: Call, verb: str, would: str, done: str, each: str) -> None:
    options, criteria = call.options, _criteria(call)
    if options.ids and not criteria:
        _mark_named(call, verb, would, each)
        return
    if options.ids:
        raise UserError(f"Give ids or say which ones are meant, not both. See: smp {verb} --help")
    scope = _scope(call)
    act: Callable[..., Any] = getattr(scope, verb)
    meant = act(**criteria, preview=True)
    if options.preview or not meant.count:
        call.answer(meant.to_dict(), _table_of(call, meant.records, would))
        return
    if not _is_sure(call, f"{verb.capitalize()} {plural(meant.count, 'memory')}?"):
        call.remark("Nothing was changed.")
        return
    result = act(**criteria, reason=options.reason)
    shown = ", ".join(result.ids[:_SHOWN]) + (", …" if result.count > _SHOWN else "")
    call.answer(result.to_dict(), [f"{plural(result.count, 'memory')} {done}: {shown}"])
    call.remark_redacted("reason", result.redacted)


def _mark_named(call: Call, verb: str, would: str, each: str) -> None:
    """By ids: all of a session's, or none."""
    if call.options.preview:
        result = getattr(call.memory, verb)(_refs(call), preview=True)
        call.answer(result.to_dict(), _table_of(call, result.records, would))
        return
    by_session: dict[str, tuple[Any, list[str]]] = {}
    for session, memory_id in map(call.place, call.options.ids):
        by_session.setdefault(session.id, (session, []))[1].append(memory_id)
    records: list[Record] = []
    redacted: dict[str, int] = {}
    for session, ids in by_session.values():
        result = getattr(session, verb)(list(dict.fromkeys(ids)), call.options.reason)
        records, redacted = records + result.records, redacted or result.redacted
    more = {"redacted": redacted} if redacted else {}
    call.answer(
        [{**record.to_dict(), **more} for record in records],
        (f"{paint('bold', record.id)} {each}" for record in records),
    )
    call.remark_redacted("reason", redacted)


# -- the trash


def deleted_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="of all sessions")


def run_deleted(call: Call) -> None:
    """Show the trash: who deleted what, when and why, and from when on a purge may take it.

    Examples:
      smp deleted
      smp deleted --all --json
    """
    found = _scope(call).deleted()
    call.answer([each.to_dict() for each in found], _trash_table(call, found))


def _trash_table(call: Call, found: list[Trashed]) -> Iterator[str]:
    if not found:
        yield "The trash is empty."
        return
    rows = []
    for each in found:
        told = each.to_dict()
        goes = time_text(told["purged_from"]) if told["purged_from"] else "never by itself"
        name = each.record.ref if call.options.all else each.id
        rows.append([name, time_text(told["deleted_at"]), each.by or "", each.reason or "", goes, gist(each.record)])
    yield from table(("id", "deleted (UTC)", "by", "why", "purged from", "memory"), rows, call.screen.width)


# -- for good


def purge_arguments(parser: Parser) -> None:
    parser.add_argument("--older-than", type=float, metavar="DAYS", help="in the trash for so many days (default: the setting lifecycle.purge_days)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="of all sessions")


def run_purge(call: Call) -> None:
    """Take memories out of the files for good that have been in the trash long enough.

    It takes two calls at least a day apart: the first announces what is due, a later one takes it. After a jump of the
    clock nothing happens. To be rid of a memory at once: smp erase.

    Examples:
      smp purge
      smp purge --all --older-than 7
    """
    done = _scope(call).purge(older_than=call.options.older_than, by=call.author)
    call.answer(done.to_dict(), _purge_lines(done))


def _purge_lines(done: Purged) -> Iterator[str]:
    if done.refused:
        yield f"Nothing was purged: {done.refused}."
        return
    yield f"{plural(done.count, 'memory')} purged, {len(done.announced)} announced, {done.waiting} in the trash."
    if done.announced:
        yield f"A purge at least a day from now takes: {', '.join(done.announced[:_SHOWN])}"


def erase_arguments(parser: Parser) -> None:
    _which_arguments(parser)


def run_erase(call: Call) -> int:
    """Take the bytes of memories out of every file that SMP owns, at once and for good, and print a receipt.

    History, trash, cold segment, index and quarantine included, and sessions that are archived or deleted: these are named
    by --session or session/ID, and stay as they are. It cannot be undone: a person is asked, a script says
    --yes. Exit code 1: something is left or pending; the receipt says what.

    Examples:
      smp erase TURN-0004 --reason "a password" --yes
      smp erase --text "Ada Lovelace" --all --preview
    """
    options, criteria = call.options, _criteria(call)
    if options.ids and criteria:
        raise UserError("Give ids or say which ones are meant, not both. See: smp erase --help")
    scope, asked = _meant_for_good(call, criteria)
    meant: Receipt = scope.erase(**asked, preview=True)
    if options.preview or not meant.count:
        told = f"{plural(meant.count, 'memory')} would be erased: {', '.join(meant.ids)}"
        call.answer(meant.to_dict(), [told if meant.count else "Nothing matches; nothing was erased."])
        return 0
    if not options.yes and (options.json or not _is_person()):
        raise UserError(f"This erases {plural(meant.count, 'memory')} for good. Say --yes if that is meant.")
    if not _is_sure(call, f"Erase {plural(meant.count, 'memory')} for good? This cannot be undone."):
        call.remark("Nothing was changed.")
        return 0
    receipt: Receipt = scope.erase(**asked, reason=options.reason, by=call.author)
    call.answer(receipt.to_dict(), _receipt_lines(call, receipt))
    call.remark_redacted("reason", receipt.redacted)
    return 0 if receipt.complete else 1


def _meant_for_good(call: Call, criteria: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Where to erase what. A session that is put away is not opened for it: that would bring it back."""
    name = call.session_name
    if call.options.ids:
        given = (each if "/" in each else f"{name or call.session().id}/{each}" for each in call.options.ids)
        return call.memory, {"id": list(given)}
    if name is not None and criteria and not call.options.all:
        return call.memory, {**criteria, "sessions": [name]}
    return _scope(call), criteria


def _receipt_lines(call: Call, receipt: Receipt) -> Iterator[str]:
    told = receipt.to_dict()
    yield paint("bold", f"{plural(receipt.count, 'memory')} erased: {', '.join(receipt.ids)}")
    searched = f"{receipt.searched_files} files, {size_text(receipt.searched_bytes)}"
    pairs = [
        ("rewritten", ", ".join(receipt.rewritten) or "nothing"),
        ("removed", ", ".join(receipt.removed) or "nothing"),
        ("verified", f"{'yes' if receipt.verified else 'no'}; looked through {searched}"),
        ("also said in", ", ".join(receipt.elsewhere) or "nothing"),
        ("left in", ", ".join(receipt.left) or "nothing"),
        ("pending", "; ".join(receipt.pending) or "nothing"),
        ("beyond reach", "; ".join(told["beyond_reach"])),
    ]
    yield from fields(pairs, call.screen.width)
