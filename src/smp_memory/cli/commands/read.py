"""Commands that show memories and their changes: list, show, history, undo."""

from __future__ import annotations

from smp_memory.cli.arguments import ID_HELP, add_filters, positive_int, query_from
from smp_memory.cli.hit_output import display_text, status_text
from smp_memory.cli.render import (
    age_text,
    fields,
    one_line,
    paint,
    plural,
    short_age,
    table,
    text_lines,
    time_text,
    truncate,
    value_text,
    wrap,
)
from smp_memory.model.entry import CHANGE
from smp_memory.model.history import overlaid_problems
from smp_memory.model.session_info import short_names
from smp_memory.model.times import to_moment, to_text
from smp_memory.model.types import kind_of
from smp_memory.search.query import LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.lifecycle.undo import LastChange
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import ColdMemory


# -- list


def list_arguments(parser: Parser) -> None:
    parser.add_argument("type", metavar="TYPE", nargs="?", help="only this type: turn, decision, finding, …")
    parser.add_argument("--last", type=positive_int, metavar="N", help=f"the newest N (default: {NEWEST}; with --json: everything)")  # fmt: skip
    parser.add_argument("--all-memories", action="store_true", help="everything, not only the newest")
    parser.add_argument("--archived", action="store_true", help="the memories that compaction moved to cold segments")
    add_filters(parser)


def run_list(call: Invocation) -> None:
    """List memories, the newest last: the newest 50 of all sessions, or of the one named by --session.

    On a terminal, sessions are shown by their short names; commands accept ids in that form, too.

    Examples:
      smp list
      smp list findings --tag security --where status=open
      smp list decisions --since "last month" --agent architect
      smp list turns --last 20 --session checkout-review
      smp list --all-memories
      smp list --archived
    """
    options = call.options
    if options.archived:
        _list_cold(call)
        return
    if options.type:
        options.types = [*(options.types or ()), kind_of(options.type).name]
    records, total = _select_records(call)
    data = [record.to_dict() for record in records] if options.json else None
    call.answer(data, _memory_table(call, records, total), newest_last=True)


NEWEST = 50  # memories that are listed unless more are asked for


def _select_records(call: Invocation) -> tuple[list[Record], int | None]:
    """The memories to list, oldest first, and the number of all that match; None if it was not counted."""
    options, filters = call.options, query_from(call)
    has_one_type = filters.keys() <= {"types"} and len(options.types or ()) < 2
    type = options.types[0] if options.types else None
    if options.last and call.has_one_session and has_one_type:
        records = call.read_sessions[0].records(type, last=options.last)  # reads the ends of files, no index
        return records, len(records) if len(records) < options.last else None
    wanted = options.last or (None if options.json or options.all_memories else NEWEST)
    if has_one_type and (wanted is None or wanted > _MOST_BY_INDEX):
        return _every_record(call, type, wanted)
    filters.setdefault("include_expired", True)
    hits = call.scope.query(
        **{**filters, "sort": "newest", "limit": min(wanted or LIMIT, LIMIT), "count_by": "type", "track_access": False}
    )
    return [hit.record for hit in reversed(hits)], sum(hits.counts["type"].values())


def _every_record(call: Invocation, type: str | None, wanted: int | None) -> tuple[list[Record], int]:
    sessions = call.read_sessions
    found = [record for session in sessions for record in session.records(type)]
    if len(sessions) > 1:
        found.sort(key=lambda record: record.created)
    return found[-wanted:] if wanted else found, len(found)


_MOST_BY_INDEX = 1000  # above it, reading the files is as fast


def _memory_table(call: Invocation, records: list[Record], total: int | None) -> Iterator[str]:
    if not records:
        is_filtered = bool(query_from(call))
        if not call.memory.store.sessions(limit=1):
            yield call.no_session_message()
        elif is_filtered:
            yield f"No memory matches in {call.scope_text}."
        else:
            yield f"There is no memory in {call.scope_text} yet. Add one: smp add finding TEXT"
        return
    yield from _wide_table(call, records) if call.screen.width is None else _text_first_table(call, records)
    yield from (paint("dim", line) for line in wrap(_list_footer(call, len(records), total), call.screen.width))


def _wide_table(call: Invocation, records: list[Record]) -> Iterator[str]:
    """For a pipe or a file: ids in full, whole texts."""
    short_ids = call.has_one_session
    headers, rows = ["id", "created (UTC)", "author", "state", "text"], [_row(record, short_ids) for record in records]
    if not any(row[3] for row in rows):
        headers, rows = headers[:3] + headers[4:], [row[:3] + row[4:] for row in rows]
    yield from table(headers, rows, None)


def _text_first_table(call: Invocation, records: list[Record]) -> Iterator[str]:
    """For people: what a memory says, then its id and age; who wrote it and its state where there is room."""
    now, names = call.memory.now(), short_names(record.session for record in records)
    rows = [
        (
            display_text(record),
            paint("cyan", record.id if call.has_one_session else f"{names[record.session]}/{record.id}"),
            short_age((now - record.created).total_seconds()),
            status_text(record),
            value_text(record.author or ""),
        )
        for record in records
    ]
    yield from table(("text", "id", ">age", "state", "author"), rows, call.screen.width, ("author", "state"), wide=0)


def _list_footer(call: Invocation, shown: int, total: int | None) -> str:
    if total is None:
        return f"The newest {shown:,} in {call.scope_text}, newest last"
    if shown == total:
        return f"{plural(total, 'memory')} in {call.scope_text}, newest last"
    return f"{shown:,} of {plural(total, 'memory')} in {call.scope_text}, newest last. More: --last N, --all-memories"


def _row(record: Record, short_ids: bool) -> list[str]:
    author, created = value_text(record.author or ""), time_text(to_text(record.created))
    name = record.id if short_ids else record.ref
    return [paint("cyan", name), created, author, status_text(record), display_text(record)]


def _list_cold(call: Invocation) -> None:
    """List the memories that compaction moved to the cold segments of the scope."""
    archived = [(session.id, each) for session in call.read_sessions for each in session.archived()]
    if call.options.type:
        name = kind_of(call.options.type).name
        archived = [pair for pair in archived if pair[1].type == name]
    data = [{"session": session, **each.to_dict()} for session, each in archived]
    call.answer(data, _cold_table(call, archived))


def _cold_table(call: Invocation, archived: list[tuple[str, ColdMemory]]) -> Iterator[str]:
    if not archived:
        yield f"There is no memory in the cold segments of {call.scope_text}."
        return
    short_ids = call.has_one_session
    rows = [
        (
            paint("cyan", each.id if short_ids else f"{session}/{each.id}"),
            each.type,
            time_text(each.created),
            time_text(each.moved),
            each.why,
        )
        for session, each in archived
    ]
    yield from table(("id", "type", "written (UTC)", "moved (UTC)", "why"), rows, call.screen.width)
    yield paint("dim", f"{plural(len(archived), 'memory')} in the cold segments of {call.scope_text}. To restore one: smp restore ID")  # fmt: skip


# -- show


def show_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--deleted", action="store_true", help="show it even if it is deleted")


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
    history = call.memory.store.session(record.session).history([record.id]).histories.get(record.id)
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
    "muted",
    "deleted",
    "typed_by_hand",
)


def _record_lines(call: Invocation, record: Record) -> Iterator[str]:
    data = record.to_dict()
    words = ["pinned"] * bool(record.pinned) + ["not told to agents"] * bool(record.muted)
    marks = "".join("  " + paint("yellow", word) for word in words)
    yield f"{paint('bold', record.id)}  {record.type} in session {record.session}{marks}"
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


# -- undo


def undo_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show the last change")


def run_undo(call: Invocation) -> int | None:
    """Take back your last change: a memory that you added, changed, deleted or restored, or several that you deleted together.

    The change is shown first; a script needs --yes. With --author it is the last change of that author. Undoing is a change, too:
    run it again to undo it. Sessions and settings are not changed.

    Examples:
      smp undo
      smp undo --author architect --yes
    """
    options = call.options
    change = call.memory.last_change(call.author)
    if change is None:
        who = call.author or "you"
        call.answer({"undone": None}, [f"There is no change by {who} that could be undone."])
        return None
    is_asked = call.screen.is_terminal and not options.json and not options.yes and not options.dry_run
    lines = list(_undo_lines(call, change))
    if is_asked:
        for line in lines:
            call.screen.line(line)
    is_done = not options.dry_run and (options.yes or (is_asked and call.confirm("Undo it?")))
    if is_done:
        call.memory.undo(change, by=call.author)
    end = (
        "Undone."
        if is_done
        else "Nothing was changed." + ("" if is_asked or options.dry_run else " Add --yes to undo it.")
    )
    call.answer({"undone": is_done, "change": change.to_dict()}, [*([] if is_asked else lines), end])
    return None if is_done or options.dry_run else 1


def _undo_lines(call: Invocation, change: LastChange) -> Iterator[str]:
    age = age_text((call.memory.now() - to_moment(change.at)).total_seconds())
    yield f"Last change, {age}{f' by {change.by}' if change.by else ''}, in session {change.session}:"
    done = change.to_dict()["done"]
    for step in change.steps[:_SHOWN_STEPS]:
        record = step.record
        yield f"  {done} {paint('cyan', record.id)}  {truncate(one_line(record.text), 60)}"
        for field, values in step.changes.items() if change.op == CHANGE else ():
            before, after = (truncate(one_line(value_text(values[side])), 40) for side in ("from", "to"))
            yield f"    {field}: {before} → {after}"
    if len(change.steps) > _SHOWN_STEPS:
        yield f"  … and {len(change.steps) - _SHOWN_STEPS:,} more"


_SHOWN_STEPS = 10
