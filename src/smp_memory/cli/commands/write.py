"""Adding memories.

Changing memories: edit, resolve, relate, pin.
"""

from __future__ import annotations

import sys

from smp_memory.cli.arguments import assignment, count, json_or_text
from smp_memory.cli.render import paint
from smp_memory.errors import InvalidRecord, UserError
from smp_memory.model.types import KINDS, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction


def _common_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="what to remember; - reads it from standard input")
    add("--tag", action="append", dest="tags", metavar="TAG", help="a tag such as security.login; repeat for more")
    add("--topic", help="what it is about, in a word or two")
    add("--importance", type=json_or_text, metavar="N", help="from 0 to 1")
    add(
        "--confidence",
        type=json_or_text,
        metavar="N",
        help="from 0 to 1, or a word: explicit, high, medium, inferred, low, uncertain",
    )
    add("--pin", action="store_true", help="keep it from fading")
    add("--created", metavar="TIME", help="when it happened, if not now: 2026-01-31T14:30:00Z")
    add("--id", help="an id of your own, if not the next number")
    add("--key", metavar="KEY", dest="idempotency_key", help="repeating a command with the same key adds nothing twice")
    add("--field", action="append", default=[], type=assignment, dest="fields", metavar="NAME=VALUE", help="any other field; JSON if it can be read as such, else text; repeat for more")  # fmt: skip


_COMMON = ("tags", "topic", "importance", "confidence", "created", "id", "idempotency_key")


def _add(call: Call, type_name: str, **given: Any) -> None:
    """Add a memory from the common options and what a command has of its own."""
    options = call.options
    given |= {name: getattr(options, name) for name in _COMMON}
    given |= {
        "pinned": options.pin or None,
        "author": options.author,
        _text_field(call, type_name): _content(call, type_name),
    }
    data = dict(options.fields) | {name: value for name, value in given.items() if value is not None}
    record = call.session(create=True).add(type_name, data)
    call.written(record, f"{paint('bold', record.id)} stored in session {record.session}")


def _text_field(call: Call, type_name: str) -> str:
    """Where a memory of this type has its text: a preference with a key says it as the key's value."""
    return kind_of(type_name).text_field(dict(call.options.fields))


def _content(call: Call, type_name: str) -> Any:
    text = call.options.text
    if text == "-":
        text = _standard_input(keep_end=kind_of(type_name).keeps_line_end)
    if kind_of(type_name).is_named_by_agent:
        value = json_or_text(text)
        return value if isinstance(value, (dict, list)) else text
    return text


def _standard_input(keep_end: bool) -> str:
    try:
        text = sys.stdin.buffer.read().decode() if hasattr(sys.stdin, "buffer") else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"standard input: not valid UTF-8, at byte {error.start}.", field="text") from None
    return text if keep_end else text.removesuffix("\n").removesuffix("\r")


# -- add


def add_arguments(parser: Parser) -> None:
    shown = (f"{name} (or {kind.noun})" if kind.noun in kind.other_names else name for name, kind in KINDS.items())
    parser.add_argument("type", metavar="TYPE", help=", ".join(shown))
    _common_arguments(parser)
    parser.add_argument("--role", help="of a turn: user, assistant, system, tool or an agent's name")


def run_add(call: Call) -> None:
    """Add a memory of any type to a session, and say its id when it is safely stored.

    The text is that of a turn, a decision, a finding and so on; of an artifact the content, of a preference with a key
    its value (the same key again changes it), of an agent_state the state (JSON or text; its agent is the author).
    Everything else goes into options. A final line end from standard input is dropped, except from an artifact. To give
    a field a text that looks like JSON, quote it: --field 'n="7"'

    Examples:
      smp add decision "Use OAuth 2.0" --tag auth --importance 0.9 --author architect
      smp add turn "How do we log in?" --role user
      smp add preference concise --field key=response_style
      smp add agent_state '{"task": "review", "done": 3}' --author veritas
      git diff | smp add artifact - --field name=change.diff --key change-42
    """
    options, kind = call.options, kind_of(call.options.type)
    given: dict[str, Any] = {}
    if kind.is_turn:
        given["role"] = options.role or dict(options.fields).get("role") or ("assistant" if call.author else "user")
    elif options.role:
        given["role"] = options.role
    if kind.is_named_by_agent:
        given["agent"] = dict(options.fields).get("agent") or call.author
    _add(call, kind.name, **given)


# -- decide


def decide_arguments(parser: Parser) -> None:
    _common_arguments(parser)
    parser.add_argument("--rationale", metavar="TEXT", help="why")
    parser.add_argument("--alternative", action="append", dest="alternatives", metavar="TEXT", help="what else was considered; repeat for more")  # fmt: skip
    parser.add_argument("--impact", metavar="TEXT", help="what follows from it")


def run_decide(call: Call) -> None:
    """Add a decision, with its reasons.

    Examples:
      smp decide "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --alternative "Own passwords" --tag auth
      smp decide "Ship on Friday" --impact "Freeze from Wednesday" --author architect
    """
    options = call.options
    _add(
        call,
        "decision",
        rationale=options.rationale,
        alternatives_considered=options.alternatives,
        impact=options.impact,
    )


# -- note


def note_arguments(parser: Parser) -> None:
    _common_arguments(parser)
    parser.add_argument("--severity", metavar="WORD", help="how bad it is: critical, high, medium, low, info")
    parser.add_argument("--category", metavar="WORD", help="of what kind it is, such as security")


def run_note(call: Call) -> None:
    """Add a finding: something that was noticed. `smp resolve` closes it.

    Examples:
      smp note "Login has no rate limit" --severity high --category security --tag security.login
      smp note "Tests take nine minutes" --author veritas
    """
    _add(call, "finding", severity=call.options.severity, category=call.options.category)


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
        from smp_memory.cli.editor import edit_in_editor

        after = edit_in_editor(session, before, options.file, options.expect_revision)
    call.written(after, _edited(before, after))


def _overlaid(call: Call, session: SessionMemory, memory_id: str) -> dict[str, Any]:
    """The values that a person edited in the file and that a later change overlays."""
    from smp_memory.model.hand_edits import overlaid_in

    history = call.memory.store.session(session.id).view(
        lambda session_history: session_history.histories.get(memory_id)
    )
    return {each.field: each.value for each in overlaid_in(history)} if history is not None else {}


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
