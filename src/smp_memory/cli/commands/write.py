"""Commands that write: add, edit, resolve, relate, pin, unpin, mute, unmute.

What a person typed in the editor is never lost. If it cannot be used, it stays in its file and the message names the command
that continues with it.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.arguments import ID_HELP, parse_assignment, parse_json_or_text, positive_int
from smp_memory.cli.invocation import update_fields
from smp_memory.cli.render import paint
from smp_memory.cli.terminal import run_editor
from smp_memory.errors import InvalidFormat, InvalidRecord, SMPError, UserError
from smp_memory.model.history import overlaid_in
from smp_memory.model.record import Field, Record
from smp_memory.model.types import KINDS, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction


def _common_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="what to remember; - reads it from standard input")
    add("--tag", action="append", dest="tags", metavar="TAG", help="a tag such as security.login; repeat for more")
    add("--topic", help="the topic, in a word or two")
    add(
        "--alias",
        action="append",
        dest="aliases",
        metavar="NAME",
        help="another name for what it is about; repeat for more",
    )
    add("--valid-from", metavar="WHEN", help="the first day or time at which it is valid: 2026-02-01")
    add("--valid-until", metavar="WHEN", help="the last day, or the time, until which it is valid")
    add("--importance", type=parse_json_or_text, metavar="N", help="from 0 to 1")
    add(
        "--confidence",
        type=parse_json_or_text,
        metavar="N",
        help="from 0 to 1, or a word: explicit, high, medium, inferred, low, uncertain",
    )
    add("--pin", action="store_true", help="exempt it from decay")
    add("--created", metavar="TIME", help="the time of the memory (default: now): 2026-01-31T14:30:00Z")
    add("--id", help="your own id (default: the next number)")
    add("--idempotency-key", metavar="KEY", help="a repeated command with the same key adds nothing")  # fmt: skip
    add("--field", action="append", default=[], type=parse_assignment, dest="fields", metavar="NAME=VALUE", help="any other field; the value is JSON if it is valid JSON, else text; repeat for more")  # fmt: skip


_COMMON = (
    "tags",
    "topic",
    "aliases",
    "valid_from",
    "valid_until",
    "importance",
    "confidence",
    "created",
    "id",
    "idempotency_key",
)


def _add(call: Invocation, type_name: str, **given: Any) -> None:
    """Add a memory from the common options and the fields of the command."""
    options = call.options
    given |= {name: getattr(options, name) for name in _COMMON}
    given |= {
        "pinned": options.pin or None,
        "author": options.author,
        kind_of(type_name).text_field({**given, **dict(options.fields)}): _content(call, type_name),
    }
    data = dict(options.fields) | {name: value for name, value in given.items() if value is not None}
    record = call.session(create=True).add(type_name, data)
    call.answer_written(record, f"{paint('bold', record.id)} stored in session {record.session}")


def _content(call: Invocation, type_name: str) -> Any:
    text = call.options.text
    if text == "-":
        call.stop_waiting()
        text = _read_standard_input(keep_end=kind_of(type_name).keeps_line_end)
    if kind_of(type_name).is_named_by_agent:
        value = parse_json_or_text(text)
        return value if isinstance(value, (dict, list)) else text
    return text


def _read_standard_input(keep_end: bool) -> str:
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
    for option, settings in _FIELD_OPTIONS.items():
        parser.add_argument(option, **settings)


# Options for fields that some types have; a memory of another type takes them as further fields, as with `--field`.
_FIELD_OPTIONS: dict[str, dict[str, Any]] = {
    "--rationale": {"metavar": "TEXT", "help": "for a decision: the reason"},
    "--alternative": {
        "action": "append",
        "dest": "alternatives_considered",
        "metavar": "TEXT",
        "help": "for a decision: what else was considered; repeat for more",
    },
    "--impact": {"metavar": "TEXT", "help": "for a decision: the consequences"},
    "--severity": {"metavar": "WORD", "help": "for a finding: critical, high, medium, low or info"},
    "--category": {"metavar": "WORD", "help": "for a finding: its kind, such as security"},
    "--key": {"metavar": "WORD", "help": "for a preference: what it is about; the same key again changes its value"},
    "--role": {"help": "for a turn: user, assistant, system, tool or an agent's name"},
}


def run_add(call: Invocation) -> None:
    """Add a memory of any type to a session, and print its id when it is safely stored.

    TEXT is the text of a turn, a decision, a finding and so on. For an artifact it is the content; for a preference with a
    key, the value (the same key again changes it); for an agent_state, the state (JSON or text; its agent is the author).
    All other fields are options. A trailing line end from standard input is dropped, except for an artifact. To give a
    field a text that looks like JSON, quote it: --field 'n="7"'

    Examples:
      smp add decision "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --alternative "Own passwords" --tag auth
      smp add finding "Login has no rate limit" --severity high --category security --tag security.login
      smp add turn "How do we log in?" --role user
      smp add preference concise --key response_style
      smp add preference "Answer in German" --session global
      smp add agent_state '{"task": "review", "done": 3}' --author veritas
      git diff | smp add artifact - --field name=change.diff --idempotency-key change-42
    """
    options, kind = call.options, kind_of(call.options.type)
    given = {name: getattr(options, name) for name in _FIELDS}
    if options.key and not kind.is_named_by_key:
        raise UserError("--key belongs to a preference. For a command that may be repeated, use --idempotency-key.")
    if kind.is_turn:
        given["role"] = options.role or dict(options.fields).get("role") or ("assistant" if call.author else "user")
    if kind.is_named_by_agent:
        given["agent"] = dict(options.fields).get("agent") or call.author
    _add(call, kind.name, **given)


_FIELDS = tuple(settings.get("dest", option[2:]) for option, settings in _FIELD_OPTIONS.items())


# -- edit


def edit_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("changes", metavar="FIELD=VALUE", nargs="*", type=parse_assignment, help="the new value, JSON if it is valid JSON, else text; null removes a field")  # fmt: skip
    parser.add_argument(
        "--expect-revision", type=positive_int, metavar="N", help="only if it is still at this revision"
    )
    parser.add_argument(
        "--from", dest="file", metavar="FILE", help="take the fields from a file, as your editor left it"
    )
    parser.add_argument("--adopt", action="store_true", help="store values that were edited in the file but are overridden by a later change")  # fmt: skip


def run_edit(call: Invocation) -> None:
    """Change fields of a memory; the old values stay in its history.

    Without FIELD=VALUE your editor ($VISUAL or $EDITOR) opens with all fields that can be changed, as YAML: change
    them, save, and quit. A field that you delete is removed. If the text is invalid it is kept in a file that the
    message names.

    Examples:
      smp edit DEC-0001
      smp edit DEC-0001 rationale="Simpler for clients" importance=0.9 tags=auth,security
      smp edit DEC-0001 impact=null --expect-revision 3
      smp edit DEC-0001 --adopt
    """
    session, memory_id = call.resolve(call.options.id)
    options = call.options
    before = session.get(memory_id)
    if options.adopt:
        if options.changes or options.file:
            raise UserError("--adopt cannot be used with FIELD=VALUE or --from. See: smp edit --help")
        changes = _overlaid_edits(call, session, memory_id)
        after = update_fields(session, memory_id, changes, options.expect_revision) if changes else before
        call.answer(after.to_dict(), [_edited(before, after)])
        return
    if options.changes and options.file:
        raise UserError("Give FIELD=VALUE or --from, not both. See: smp edit --help")
    if options.changes:
        after = update_fields(session, memory_id, dict(options.changes), options.expect_revision)
    else:
        after = edit_in_editor(session, before, options.file, options.expect_revision)
    call.answer_written(after, _edited(before, after))


def _overlaid_edits(call: Invocation, session: SessionMemory, memory_id: str) -> dict[str, Any]:
    """The values that a person edited in the file and that a later change overrides."""
    history = call.memory.store.session(session.id).history([memory_id]).histories.get(memory_id)
    return {each.field: each.value for each in overlaid_in(history)} if history is not None else {}


def _edited(before: Record, after: Record) -> str:
    if before.revision == after.revision:
        return f"{paint('bold', after.id)}: nothing changed."
    return f"{paint('bold', after.id)} changed, revision {after.revision}. The old values: smp history {after.id}"


# -- resolve


def resolve_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="FIND-0001, or session/FIND-0001 if several sessions have this id")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what was done about it")
    parser.add_argument(
        "--status", default="resolved", metavar="WORD", help="the new status (default: resolved), such as rejected"
    )


def run_resolve(call: Invocation) -> None:
    """Close a finding or a decision, with a note on what was done about it.

    Examples:
      smp resolve FIND-0001 "Rate limit of 5 a minute added" --author ada
      smp resolve FIND-0002 --status accepted
    """
    session, memory_id = call.resolve(call.options.id)
    record = session.resolve(memory_id, call.options.text, status=call.options.status)
    call.answer_written(record, f"{paint('bold', record.id)} is {record.status}.")


# -- relate


def relate_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=ID_HELP)
    parser.add_argument("target", metavar="TARGET", help="the memory it relates to, ID or session/ID")
    parser.add_argument("--kind", default="relates_to", metavar="WORD", help="how: resolves, led_to, influenced, supersedes, contradicts, derived_from, … (default: relates_to)")  # fmt: skip
    parser.add_argument("--remove", action="store_true", help="remove the relation instead of adding it")


def run_relate(call: Invocation) -> None:
    """Relate one memory to another, or remove a relation.

    Examples:
      smp relate DEC-0002 FIND-0001 --kind resolves
      smp relate DEC-0002 FIND-0001 --kind resolves --remove
      smp relate DEC-0002 other-session/DEC-0007 --kind supersedes
    """
    session, source = call.resolve(call.options.source)
    target = call.options.target.removeprefix(session.id + "/")
    relation = f"{paint('bold', source)} {call.options.kind} {paint('bold', target)}"
    if not call.options.remove:
        record, said = session.relate(source, target, call.options.kind), relation
    else:
        before = session.find(source)
        record = session.unrelate(source, target, call.options.kind)
        is_removed = before is None or record.revision > before.revision
        said = f"Removed: {relation}" if is_removed else f"There is no such relation: {relation}"
    call.answer(record.to_dict(), [said])


# -- pin, unpin, mute, unmute


def _ids_argument(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help=ID_HELP)


def _apply_to_all(call: Invocation, act: Callable[[Transaction, str], Any], result: str) -> None:
    """Apply one change to several memories, in one transaction for each session."""
    pending: list[Any] = []
    for session, ids in call.resolve_by_session(call.options.ids):
        with session.transaction() as transaction:
            pending += [act(transaction, memory_id) for memory_id in ids]
    records = [each.record for each in pending]
    call.answer(
        [record.to_dict() for record in records], (f"{paint('bold', record.id)} {result}" for record in records)
    )


pin_arguments = _ids_argument


def run_pin(call: Invocation) -> None:
    """Exempt memories from decay.

    Examples:
      smp pin DEC-0001 FIND-0003
    """
    _apply_to_all(call, lambda transaction, memory_id: transaction.pin(memory_id), "is pinned.")


unpin_arguments = _ids_argument


def run_unpin(call: Invocation) -> None:
    """Let memories decay again.

    Examples:
      smp unpin DEC-0001
    """
    _apply_to_all(call, lambda transaction, memory_id: transaction.unpin(memory_id), "is not pinned any more.")


mute_arguments = _ids_argument


def run_mute(call: Invocation) -> None:
    """Turn memories off for recall: hooks, contexts and digests do not tell them to agents. Searches still find them.

    `smp list --where muted=true` lists them.

    Examples:
      smp mute DEC-0001
    """
    _apply_to_all(call, lambda transaction, memory_id: transaction.mute(memory_id), "is turned off for recall.")


unmute_arguments = _ids_argument


def run_unmute(call: Invocation) -> None:
    """Turn memories on for recall again.

    Examples:
      smp unmute DEC-0001
    """
    _apply_to_all(call, lambda transaction, memory_id: transaction.unmute(memory_id), "is turned on for recall.")


# -- the editor

_FIXED = (
    "id",
    "session",
    "type",
    "created",
    "updated",
    "revision",
    "author_kind",
    "access",
    "idempotency_key",
    "deleted",
)


def edit_in_editor(session: SessionMemory, record: Record, file: str | None, expected_revision: int | None) -> Record:
    """Update a memory with the fields that the user edited, in the editor or in a file kept from an earlier attempt."""
    from smp_memory.files.yaml_text import load_mapping

    before = _editable_fields(record)
    path = file or _write_draft(record, before)
    if file is None:
        expected_revision = expected_revision or record.revision  # another process may change it meanwhile
        run_editor(path, "or give FIELD=VALUE. See: smp edit --help")
    try:
        changes = _differences(before, load_mapping(_read(path)))
        after = update_fields(session, record.id, changes, expected_revision) if changes else record
    except ValueError as error:
        raise InvalidFormat(f"{path} is not valid YAML: {error}. {_how_to_continue(record, path)}", path=path) from None
    except SMPError as error:
        message = f"{error.message} {_how_to_continue(record, path)}"
        raise type(error)(message, **{**error.details, "kept": path}) from None
    if file is None:
        os.unlink(path)
    return after


def _editable_fields(record: Record) -> dict[str, Any]:
    if KINDS[record.type].is_turn:
        raise InvalidRecord(f"{record.id}: a turn of a conversation cannot be changed, only deleted.", field="id")
    return {name: value for name, value in record.to_dict().items() if name not in _FIXED}


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The changed fields; removed ones are None. An empty text changes nothing."""
    if not after:
        return {}
    removed = {name: None for name in before if name not in after}
    return removed | {name: value for name, value in after.items() if before.get(name) != value}


def _write_draft(record: Record, fields: dict[str, Any]) -> str:
    """Write the fields as YAML to a new file that only its owner may read."""
    import tempfile

    from smp_memory.files.yaml_text import emit_mapping

    more = [name for name, field in vars(type(record)).items() if isinstance(field, Field) and name not in fields]
    comment = f"# {record.id}, {record.type} in session {record.session}, revision {record.revision}. Lines like this are ignored.\n"
    comment += "# Delete a field to remove it. An empty file changes nothing.\n"
    comment += f"# Further fields: {', '.join(more)}.\n" if more else ""
    descriptor, path = tempfile.mkstemp(prefix=f"smp-{record.id}-", suffix=".yaml")
    with os.fdopen(descriptor, "wb") as file:
        file.write((comment + "\n" + emit_mapping(fields)).encode())
    return path


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.", path=path) from None


def _how_to_continue(record: Record, path: str) -> str:
    return f"Nothing was changed. Your text is kept; correct it and run: smp edit {record.ref} --from {path}"
