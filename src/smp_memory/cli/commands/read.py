"""Commands that read memories: list, show, history."""

from __future__ import annotations

from smp_memory.cli.arguments import ID_HELP, positive_int
from smp_memory.cli.render import fields, paint, plural, table, text_lines, time_text, value_text
from smp_memory.model.history import overlaid_problems
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text, validity_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory


# -- list


def list_arguments(parser: Parser) -> None:
    parser.add_argument("type", metavar="TYPE", nargs="?", help="only this type: turn, decision, finding, …")
    parser.add_argument("--tag", action="append", default=[], dest="tags", metavar="TAG", help="only with this tag or one below it; repeat for: all of them")  # fmt: skip
    parser.add_argument("--last", type=positive_int, metavar="N", help="only the newest N")
    parser.add_argument("--deleted", action="store_true", help="only deleted memories")


def run_list(call: Invocation) -> None:
    """List the memories of a session, oldest first.

    Examples:
      smp list
      smp list findings --tag security
      smp list turns --last 20
      smp list --deleted
    """
    session = call.session()
    records = _select_records(session, call.options)
    data = [record.to_dict() for record in records] if call.options.json else None
    call.answer(data, _memory_table(call, session, records))


def _select_records(session: SessionMemory, options: Any) -> list[Record]:
    if not options.tags and not options.deleted:
        return session.records(options.type, last=options.last)
    every = session.records(options.type, include_deleted=options.deleted)
    selected = [record for record in every if record.deleted == options.deleted and _has_tags(record, options.tags)]
    return selected[-options.last :] if options.last else selected


def _has_tags(record: Record, tags: list[str]) -> bool:
    """Whether it has all tags, itself or by a tag below it: `security.login` is below `security`."""
    return all(any(f"{each}.".startswith(tag + ".") for each in _tags(record)) for tag in tags)


def _tags(record: Record) -> list[object]:
    """The tags of a record, in which a person may have typed anything."""
    return record.tags if isinstance(record.tags, list) else [record.tags]


def _memory_table(call: Invocation, session: SessionMemory, records: list[Record]) -> Iterator[str]:
    if not records:
        options = call.options
        is_filtered = options.type or options.tags or options.deleted
        yield f"No memory of session {session.id} matches." if is_filtered else f"Session {session.id} is empty."
        return
    headers, rows = ["id", "created (UTC)", "author", "state", "text"], [_row(record) for record in records]
    if not any(row[3] for row in rows):
        headers, rows = headers[:3] + headers[4:], [row[:3] + row[4:] for row in rows]
    yield from table(headers, rows, call.screen.width)


def _row(record: Record) -> list[str]:
    author, created = value_text(record.author or ""), time_text(to_text(record.created))
    return [paint("cyan", record.id), created, author, status_text(record), display_text(record)]


def display_text(record: Record) -> str:
    """The content of a memory as one text; of a preference with its key, of an agent's state the state."""
    name, content = name_and_content(record)
    return (f"{value_text(name)}: " if name else "") + value_text("" if content is None else content)


def status_text(record: Record) -> str:
    """Severity, status, the time in which it holds, pin and hand edits, as far as there are any."""
    data = record.given
    is_always_said = KINDS[record.type].is_open_until_closed
    words = [data.get("severity"), record.status if is_always_said else data.get("status")]
    words += [validity_text(data)]
    words += ["pinned"] if record.pinned else []
    words += ["edited by hand"] if record.edited else []
    words += ["typed in by hand"] if record.typed_by_hand else []
    return ", ".join(str(word) for word in words if word)


# -- show


def show_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--deleted", action="store_true", help="show it also if it is deleted")


def run_show(call: Invocation) -> None:
    """Show one memory with all its fields.

    Examples:
      smp show DEC-0001
      smp show checkout-review/FIND-0003 --json
    """
    record = call.record(call.options.id, include_deleted=call.options.deleted)
    call.answer(record.to_dict(), _record_lines(call, record))
    if record.edited:
        _warn_of_overlaid_edits(call, record)


def _warn_of_overlaid_edits(call: Invocation, record: Record) -> None:
    """Print the hand edits of this memory that have no effect, because a later change overrides them."""
    history = call.memory.store.session(record.session).view(
        lambda session_history: session_history.histories.get(record.id)
    )
    for problem in overlaid_problems(history) if history is not None and not call.options.json else ():
        call.screen.line(paint("yellow", problem.message))


_TITLE_FIELDS = (
    "id",
    "session",
    "type",
    "revision",
    "created",
    "updated",
    "author",
    "author_kind",
    "pinned",
    "deleted",
    "typed_by_hand",
)


def _record_lines(call: Invocation, record: Record) -> Iterator[str]:
    data = record.to_dict()
    pinned = "  " + paint("yellow", "pinned") if record.pinned else ""
    yield f"{paint('bold', record.id)}  {record.type} in session {record.session}{pinned}"
    by = f" by {record.author}" if record.author else ""
    typed = ", typed in by hand" if record.typed_by_hand else ""
    yield paint("dim", f"added {time_text(data['created'])} UTC{by}{typed}")
    if record.revision > 1:
        who = f" by {record.updated_by}" if record.updated_by else ""
        yield paint("dim", f"changed {time_text(data['updated'])} UTC{who}, revision {record.revision}")
    if record.deleted:
        reason = f": {data['deleted']['reason']}" if data["deleted"]["reason"] else ""
        yield paint("red", f"deleted {time_text(data['deleted']['at'])} UTC{reason}")
    yield ""
    pairs = [(name, _field_text(name, value)) for name, value in data.items() if name not in _TITLE_FIELDS]
    yield from fields([pair for pair in pairs if pair[1]], call.screen.width)


def _field_text(name: str, value: Any) -> str:
    """A field as text: short lists with commas, relations with arrows, dictionaries with one line for each key."""
    if name == "relations" and isinstance(value, list):
        return "\n".join(f"{item.get('kind')} → {item.get('target')}" for item in value if isinstance(item, dict))
    if isinstance(value, dict):
        return "\n".join(f"{key}: {value_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        short = all(isinstance(item, str) and len(item) < 40 and "\n" not in item for item in value)
        return ", ".join(value) if short else "\n".join(f"- {value_text(item)}" for item in value)
    return value_text(value)


# -- history


def history_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def run_history(call: Invocation) -> None:
    """Show the changes of a memory: who changed which field when, with old and new value.

    Examples:
      smp history DEC-0001
    """
    session, memory_id = call.resolve(call.options.id)
    history = call.history(session, memory_id)
    steps = history.steps() if history is not None else session.history(memory_id)  # raises with the reason
    call.answer(steps, history_lines(memory_id, steps))


_VERBS = {"put": "added", "change": "changed", "delete": "deleted", "restore": "restored"}


def history_lines(memory_id: str, steps: list[dict[str, Any]]) -> Iterator[str]:
    changes = sum(step["op"] == "change" for step in steps)
    yield f"{paint('bold', memory_id)}: {plural(changes, 'change')} since it was added"
    for step in steps:
        yield ""
        verb = _VERBS.get(step["op"], step["op"])
        who = f" by {step['by']}" if step["by"] else ""
        revision = f", revision {step['revision']}" if step["op"] in ("put", "change") else ""
        edited = ", edited by hand since" if step.get("edited_by_hand") else ""
        yield f"{paint('cyan', time_text(step['at']) + ' UTC')}  {verb}{who}{revision}{edited}"
        if step.get("reason"):
            yield f"  reason: {step['reason']}"
        for name, change in step.get("changes", {}).items():
            yield from _change_lines(name, change, is_first=step["op"] == "put")


def _change_lines(name: str, change: dict[str, Any], is_first: bool) -> Iterator[str]:
    lines = [
        (style, mark, line)
        for style, mark, value in (("red", "-", change["from"]), ("green", "+", change["to"]))
        if value is not None
        for line in text_lines(_field_text(name, value) if isinstance(value, dict) else value_text(value))
    ]
    if is_first and len(lines) == 1:
        yield f"  {paint('dim', name + ':')} {lines[0][2]}"
        return
    yield f"  {paint('dim', name + ':')}"
    yield from (paint(style, f"    {mark} {line}") for style, mark, line in lines)
