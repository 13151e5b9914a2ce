"""Reading memories: list, show, history."""

from __future__ import annotations

from smp_memory.cli.arguments import count
from smp_memory.cli.render import fields, paint, plural, table, text_lines, time_text, value_text
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory


# -- list


def list_arguments(parser: Parser) -> None:
    parser.add_argument("type", metavar="TYPE", nargs="?", help="only this type: turn, decision, finding, …")
    parser.add_argument("--tag", action="append", default=[], dest="tags", metavar="TAG", help="only with this tag or one below it; repeat for: all of them")  # fmt: skip
    parser.add_argument("--last", type=count, metavar="N", help="only the newest N")
    parser.add_argument("--deleted", action="store_true", help="the deleted ones instead")


def run_list(call: Call) -> None:
    """List the memories of a session, oldest first.

    Examples:
      smp list
      smp list findings --tag security
      smp list turns --last 20
      smp list --deleted
    """
    session = call.session()
    records = _chosen(session, call.options)
    data = [record.to_dict() for record in records] if call.options.json else None
    call.answer(data, _memory_table(call, session, records))


def _chosen(session: SessionMemory, options: Any) -> list[Record]:
    if not options.tags and not options.deleted:
        return session.records(options.type, last=options.last)
    found = session.records(options.type, include_deleted=options.deleted)
    wanted = [record for record in found if record.deleted == options.deleted and _has_tags(record, options.tags)]
    return wanted[-options.last :] if options.last else wanted


def _has_tags(record: Record, tags: list[str]) -> bool:
    return all(any(f"{own}.".startswith(tag + ".") for own in record.tags) for tag in tags)


def _memory_table(call: Call, session: SessionMemory, records: list[Record]) -> Iterator[str]:
    if not records:
        options = call.options
        asked = options.type or options.tags or options.deleted
        yield f"No such memory in session {session.id}." if asked else f"Session {session.id} is empty."
        return
    heads, rows = ["id", "created (UTC)", "author", "state", "text"], [_row(record) for record in records]
    if not any(row[3] for row in rows):
        heads, rows = heads[:3] + heads[4:], [row[:3] + row[4:] for row in rows]
    yield from table(heads, rows, call.screen.width)


def _row(record: Record) -> list[str]:
    author, created = value_text(record.author or ""), time_text(to_text(record.created))
    return [paint("cyan", record.id), created, author, state_of(record), gist(record)]


def gist(record: Record) -> str:
    """What a memory says, in a text."""
    name, content = name_and_content(record)
    return (f"{value_text(name)}: " if name else "") + value_text("" if content is None else content)


def state_of(record: Record) -> str:
    data = record.given
    is_always_said = KINDS[record.type].is_open_until_closed
    words = [data.get("severity"), record.status if is_always_said else data.get("status")]
    words += ["pinned"] if record.pinned else []
    words += ["edited by hand"] if record.edited else []
    words += ["typed in by hand"] if record.typed_by_hand else []
    return ", ".join(str(word) for word in words if word)


# -- show


def show_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="DEC-0001, or session/DEC-0001 for one of another session")
    parser.add_argument("--deleted", action="store_true", help="also if it is deleted")


def run_show(call: Call) -> None:
    """Show one memory with all its fields.

    Examples:
      smp show DEC-0001
      smp show checkout-review/FIND-0003 --json
    """
    record = call.record(call.options.id, include_deleted=call.options.deleted)
    call.answer(record.to_dict(), _shown(call, record))
    if record.edited:
        _tell_of_overlaid(call, record)


def _tell_of_overlaid(call: Call, record: Record) -> None:
    """Name hand edits of this memory that have no effect."""
    from smp_memory.model.hand_edits import problems_of

    history = call.memory.store.session(record.session).view(
        lambda session_history: session_history.histories.get(record.id)
    )
    for problem in problems_of(history) if history is not None and not call.options.json else ():
        call.screen.line(paint("yellow", problem.message))


_IN_THE_TITLE = (
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


def _shown(call: Call, record: Record) -> Iterator[str]:
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
    pairs = [(name, _field_text(name, value)) for name, value in data.items() if name not in _IN_THE_TITLE]
    yield from fields([pair for pair in pairs if pair[1]], call.screen.width)


def _field_text(name: str, value: Any) -> str:
    """A field for people: lists of words with commas, relations with arrows, dictionaries a line per name."""
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
    parser.add_argument("id", metavar="ID", help="DEC-0001, or session/DEC-0001 for one of another session")


def run_history(call: Call) -> None:
    """Show who changed what in a memory, from what to what, and when.

    Examples:
      smp history DEC-0001
    """
    session, memory_id = call.place(call.options.id)
    history = call.history(session, memory_id)
    steps = history.steps() if history is not None else session.history(memory_id)  # which says why not
    call.answer(steps, story(memory_id, steps))


_VERBS = {"put": "added", "change": "changed", "delete": "deleted", "restore": "restored"}


def story(memory_id: str, steps: list[dict[str, Any]]) -> Iterator[str]:
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
            yield from _difference(name, change, first=step["op"] == "put")


def _difference(name: str, change: dict[str, Any], first: bool) -> Iterator[str]:
    lines = [
        (style, mark, line)
        for style, mark, value in (("red", "-", change["from"]), ("green", "+", change["to"]))
        if value is not None
        for line in text_lines(_field_text(name, value) if isinstance(value, dict) else value_text(value))
    ]
    if first and len(lines) == 1:
        yield f"  {paint('dim', name + ':')} {lines[0][2]}"
        return
    yield f"  {paint('dim', name + ':')}"
    yield from (paint(style, f"    {mark} {line}") for style, mark, line in lines)
