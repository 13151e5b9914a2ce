"""Changing memories: edit, resolve, relate, pin."""

from __future__ import annotations

from smp.cli.arguments import assignment, count
from smp.cli.render import paint
from smp.errors import InvalidRecord, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call
    from smp.model.record import Record
    from smp.session import SessionMemory, Transaction

_ID_HELP = "DEC-0001, or session/DEC-0001 for one of another session"


# -- edit


def edit_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    parser.add_argument("changes", metavar="FIELD=VALUE", nargs="*", type=assignment, help="the new value, JSON if it can be read as such, else text; null removes a field")  # fmt: skip
    parser.add_argument("--expect-revision", type=count, metavar="N", help="only if it is still at this revision")
    parser.add_argument(
        "--from", dest="file", metavar="FILE", help="take the fields from a file, as your editor left it"
    )
    parser.add_argument("--adopt", action="store_true", help="make values that were edited in the file, and that a later change overlays, the newest")  # fmt: skip


def run_edit(call: Call) -> None:
    """Change fields of a memory; the old values stay in its history.

    Without FIELD=VALUE your editor ($VISUAL or $EDITOR) opens with all fields that can be changed, as YAML: change
    them, save, and leave. A field that you take out is removed. If the text cannot be used it is kept in a file, and
    the message says where.

    Examples:
      smp edit DEC-0001
      smp edit DEC-0001 rationale="Simpler for clients" importance=0.9 tags=auth,security
      smp edit DEC-0001 impact=null --expect-revision 3
      smp edit DEC-0001 --adopt
    """
    session, memory_id = call.place(call.options.id)
    options = call.options
    before = session.get(memory_id)
    if options.adopt:
        if options.changes or options.file:
            raise UserError("--adopt takes the values from the file; give no others. See: smp edit --help")
        changes = _overlaid(call, session, memory_id)
        after = change(session, memory_id, changes, options.expect_revision) if changes else before
        call.answer(after.to_dict(), [_edited(before, after)])
        return
    if options.changes and options.file:
        raise UserError("Give FIELD=VALUE or --from, not both. See: smp edit --help")
    if options.changes:
        after = change(session, memory_id, dict(options.changes), options.expect_revision)
    else:
        from smp.cli.editor import edit_in_editor

        after = edit_in_editor(session, before, options.file, options.expect_revision)
    call.written(after, _edited(before, after))


def _overlaid(call: Call, session: SessionMemory, memory_id: str) -> dict[str, Any]:
    """The values that a person edited in the file and that a later change overlays."""
    from smp.model.overlaid import overlaid_in

    trail = call.memory.store.session(session.id).view(lambda fold: fold.trails.get(memory_id))
    return {each.field: each.value for each in overlaid_in(trail)} if trail is not None else {}


def change(session: SessionMemory, memory_id: str, changes: dict[str, Any], expected_revision: int | None) -> Record:
    """Change fields, whatever they are called."""
    if "by" in changes:  # another name of the author, but not to `update`
        changes["author"] = changes.pop("by")
    fixed = next((name for name in ("id", "self", "expected_revision") if name in changes), None)
    if fixed:
        raise InvalidRecord(f"{fixed}: cannot be changed.", field=fixed)
    record: Record = session.update(memory_id, expected_revision, **changes)
    return record


def _edited(before: Record, after: Record) -> str:
    if before.revision == after.revision:
        return f"{paint('bold', after.id)}: nothing changed."
    return f"{paint('bold', after.id)} changed, revision {after.revision}. The old values: smp history {after.id}"


# -- resolve


def resolve_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="FIND-0001, or session/FIND-0001 for one of another session")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what was done about it")
    parser.add_argument("--by", metavar="NAME", help="who resolved it (default: the author)")
    parser.add_argument(
        "--status", default="resolved", metavar="WORD", help="another word than resolved, such as rejected"
    )


def run_resolve(call: Call) -> None:
    """Close a finding or a decision, and say what was done about it.

    Examples:
      smp resolve FIND-0001 "Rate limit of 5 a minute added" --by ada
      smp resolve FIND-0002 --status accepted
    """
    session, memory_id = call.place(call.options.id)
    record = session.resolve(memory_id, call.options.text, by=call.options.by, status=call.options.status)
    call.written(record, f"{paint('bold', record.id)} is {record.status}.")


# -- relate


def relate_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=_ID_HELP)
    parser.add_argument("target", metavar="TARGET", help="the memory it relates to, ID or session/ID")
    parser.add_argument("--kind", default="relates_to", metavar="WORD", help="how: resolves, led_to, influenced, supersedes, contradicts, derived_from, … (default: relates_to)")  # fmt: skip


def run_relate(call: Call) -> None:
    """Relate one memory to another.

    Examples:
      smp relate DEC-0002 FIND-0001 --kind resolves
      smp relate DEC-0002 other-session/DEC-0007 --kind supersedes
    """
    session, source = call.place(call.options.source)
    target = call.options.target.removeprefix(session.id + "/")
    record = session.relate(source, target, call.options.kind)
    call.answer(record.to_dict(), [f"{paint('bold', source)} {call.options.kind} {paint('bold', target)}"])


# -- several at once


def _ids_argument(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help=_ID_HELP)


def _do_together(call: Call, act: Callable[[Transaction, str], Any], told: str) -> None:
    """Do the same to several memories: all of a session's, or none."""
    by_session: dict[str, tuple[SessionMemory, list[str]]] = {}
    for session, memory_id in map(call.place, call.options.ids):
        by_session.setdefault(session.id, (session, []))[1].append(memory_id)
    wishes: list[Any] = []
    for session, ids in by_session.values():
        with session.transaction() as transaction:
            wishes += [act(transaction, memory_id) for memory_id in dict.fromkeys(ids)]
    records = [wish.record for wish in wishes]
    call.answer([record.to_dict() for record in records], (f"{paint('bold', record.id)} {told}" for record in records))


def pin_arguments(parser: Parser) -> None:
    _ids_argument(parser)


def run_pin(call: Call) -> None:
    """Keep memories from fading.

    Examples:
      smp pin DEC-0001 FIND-0003
    """
    _do_together(call, lambda transaction, memory_id: transaction.pin(memory_id), "is pinned.")


def unpin_arguments(parser: Parser) -> None:
    _ids_argument(parser)


def run_unpin(call: Call) -> None:
    """Let memories fade again.

    Examples:
      smp unpin DEC-0001
    """
    _do_together(call, lambda transaction, memory_id: transaction.unpin(memory_id), "is not pinned any more.")
