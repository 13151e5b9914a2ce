"""Commands for sessions: session new, list, show, title, archive, delete, restore, erase; stats."""

from __future__ import annotations

from smp_memory.cli.arguments import add_scope, parse_assignment
from smp_memory.cli.render import (
    bar,
    bars,
    fields,
    one_line,
    paint,
    plural,
    short_age,
    size_text,
    table,
    time_text,
    value_text,
)
from smp_memory.errors import SMPError, UserError
from smp_memory.lifecycle.session_titles import SessionNames, session_title
from smp_memory.model.ids import scheme_of
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, short_names
from smp_memory.model.times import to_moment, to_text
from smp_memory.privacy.settings import clean_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.session import SessionMemory

_NAMES_WITH_OPTION = ("id", "user", "agents", "project", "tags", "author", "config", "created", "self")


# -- session new


def session_new_arguments(parser: Parser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="its name: letters, digits, _ and - (default: date and a few random letters)",
    )
    parser.add_argument("--user", help="the person it is with")
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        dest="agents",
        metavar="NAME",
        help="an agent that takes part; repeat for more",
    )
    parser.add_argument("--project", help="the project it is about")
    parser.add_argument("--tag", action="append", default=[], dest="tags", metavar="TAG", help="a tag; repeat for more")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=parse_assignment,
        metavar="KEY=VALUE",
        help="any other metadata; repeat for more",
    )


def run_session_new(call: Invocation) -> None:
    """Start a session, which holds the memories of one piece of work.

    Commands without --session use it, until another session is written.

    Examples:
      smp session new
      smp session new checkout-review --user ada --agent architect --agent veritas --project shop --set phase=review
    """
    options = call.options
    context = dict(options.set)
    reserved = next((name for name in _NAMES_WITH_OPTION if name in context), None)
    if reserved:
        raise UserError(f"--set cannot set {reserved}. See: smp session new --help", field=reserved)
    session = call.memory.create_session(
        options.id, user=options.user, agents=options.agents, project=options.project, tags=options.tags, **context
    )
    call.memory.scope.note_session_use(session.id)  # what was written to others before does not count
    more = {"redacted": session.redacted} if session.redacted else {}
    call.answer({**_metadata(session), **more}, [f"Started session {paint('bold', session.id)} in {session.folder}"])
    call.notify_redacted(session.id, session.redacted)


def _metadata(session: SessionMemory) -> dict[str, Any]:
    return {**session.info.to_dict(), "folder": session.folder}


# -- session list


def session_list_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--all", action="store_true", help="also archived and deleted sessions")


def run_session_list(call: Invocation) -> None:
    """List the sessions of the store with title, short id and age, the one written last at the end.

    Other commands take the short id, too. State and next automatic change are shown where they differ.

    Examples:
      smp session list
      smp session list --all
      smp session list --json
    """
    sessions = call.memory.sessions_by_time()
    states = {each.session: each.to_dict() for each in call.memory.session_states()}
    counts = call.memory.query(count_by="session", limit=1, include_expired=True, track_access=False).counts["session"]
    names = SessionNames(call.memory.store)
    rows = [
        {**_summary(session, counts, written), **states.get(session.id, {}), "title": names.title(session.id)}
        for written, session in sessions
    ]
    if call.options.all:
        others = (each for each in call.memory.session_states(include_archived=True) if each.archived is not None)
        rows += [{**each.archived.to_dict(), **each.to_dict()} for each in others if each.archived is not None]
    call.answer(rows, _session_table(call, rows))


def _summary(session: SessionMemory, counts: dict[str, int], last: datetime) -> dict[str, Any]:
    """The data of a session in the list. Memories are counted by the index; their files are not read."""
    try:
        info: dict[str, Any] = session.info.to_dict()
    except SMPError as error:  # damaged metadata; the memories, and the other sessions, are still usable
        info = {"project": None, "user": None, "agents": [], "tags": [], "problem": error.message}
    written = to_text(last)
    size = sum(session.memory.store.session(session.id).sizes().values())
    figures = {"id": session.id, "memories": counts.get(session.id, 0), "bytes": size, "written": written}
    return {**info, **figures, "folder": session.folder}


def _session_table(call: Invocation, rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        yield call.no_session_message()
        return
    now, names = call.memory.now(), short_names(row["id"] for row in rows)
    is_wide = call.screen.width is None  # a pipe or a file gets whole ids and times
    columns: dict[str, list[str]] = {
        "title": [
            "(metadata is damaged: smp validate)" if "problem" in row else row.get("title") or "" for row in rows
        ],
        "session": [paint("cyan", row["id"] if is_wide else names[row["id"]]) for row in rows],
        "last write (UTC)" if is_wide else ">age": [
            time_text(at) if is_wide or not at else short_age((now - to_moment(at)).total_seconds())
            for at in (row.get("written") or row.get("since") or "" for row in rows)
        ],
        ">memories": [f"{row['memories']:,}" if "memories" in row else "" for row in rows],
        ">size": [size_text(row["bytes"]) for row in rows],
    }
    more = {
        "project": [row.get("project") or "" for row in rows],
        "state": [row.get("state", "") for row in rows],
        "next": [_next_state(row.get("next")) for row in rows],
    }
    columns |= {name: cells for name, cells in more.items() if len(rows) == 1 or len(set(cells)) > 1}
    yield from table(
        list(columns),
        list(zip(*columns.values(), strict=True)),
        call.screen.width,
        ("size", "next", "state", "project"),
        wide=0,
    )


def _next_state(step: dict[str, Any] | None) -> str:
    """`archived 2026-02-03`; empty if the state does not change automatically."""
    return f"{step['state']} {step['when'][:10]}" if step and step["when"] else ""


# -- session show


def session_show_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="the session (default: as for every command)")


def run_session_show(call: Invocation) -> None:
    """Show the metadata of a session: participants, project, tags, settings, counts, size.

    Examples:
      smp session show
      smp session show checkout-review
    """
    session = call.session(call.options.id)
    figures = session.stats()
    data = {
        "title": session_title(call.memory.store, session.id),
        **_metadata(session),
        "memories": figures.memories,
        "by_type": figures.by_type,
        "bytes": figures.bytes,
    }
    call.answer(data, fields(_metadata_fields(data), call.screen.width))


def _metadata_fields(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if data["title"]:
        yield "title", one_line(data["title"])
    yield "session", paint("bold", data["id"])
    for name in ("project", "user"):
        if data[name]:
            yield name, value_text(data[name])
    for name in ("agents", "tags"):
        if data[name]:
            yield name, ", ".join(map(value_text, data[name]))
    for name, value in {**data["context"], **data["config"]}.items():
        if name != "title":
            yield one_line(name), value_text(value)
    yield "created", time_text(data["created"]) + " UTC"
    from smp_memory.overview.summary import counted

    counts = ", ".join(counted(number, kind) for kind, number in data["by_type"].items())
    yield "memories", f"{data['memories']:,}" + (f" ({counts})" if counts else "")
    yield "size", size_text(data["bytes"])
    yield "place" if scheme_of(data["folder"]) else "folder", data["folder"]


# -- session title


def session_title_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the session")
    parser.add_argument("title", metavar="TITLE", help='one line; "" removes it, then the first prompt is the title')


def run_session_title(call: Invocation) -> None:
    """Give a session a title, which lists show first.

    Without one it has the title of the conversation in the agent's program, if that was imported, else the beginning of its first prompt.

    Examples:
      smp session title checkout-review "Review of the checkout"
      smp session title 5f0c1a7e ""
    """
    session = call.session(call.options.id)
    session.change_info(title=call.options.title.strip() or None)
    title = session_title(call.memory.store, session.id)
    about = f"is now called {paint('bold', one_line(title))}" if title else "has no title"
    call.answer({"id": session.id, "title": title}, [f"Session {session.id} {about}."])
    call.notify_redacted("title", session.redacted)


def _session_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the session")
    parser.add_argument("--reason", metavar="TEXT", help="why; stored with the session and in the audit log")


# -- session archive


session_archive_arguments = _session_arguments


def run_session_archive(call: Invocation) -> None:
    """Archive a session: a compressed file and a summary. Opening the session restores it.

    The archive is read back and compared before the session's files are removed. `smp query --include-archived` still
    searches it.

    Examples:
      smp session archive checkout-review --reason "released"
    """
    archived = call.memory.archive_session(call.full_name(call.options.id, LIVE), call.options.reason, by=call.author)
    call.answer(
        {**archived.to_dict(), "path": archived.path},
        [f"Archived {paint('bold', archived.session)} in {archived.path}, {size_text(archived.bytes)}."],
    )
    call.notify_redacted("reason", archived.redacted)


# -- session delete, restore, erase


def session_delete_arguments(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="the sessions")
    parser.add_argument("--reason", metavar="TEXT", help="why; stored with the session and in the audit log")


def run_session_delete(call: Invocation) -> None:
    """Move whole sessions to the trash; they can be restored for 30 days (lifecycle.purge_days).

    Examples:
      smp session delete checkout-review --reason "no longer needed"
      smp session delete trial-1 trial-2
    """
    rows: list[dict[str, Any]] = []
    lines, deleted = [], None
    for id in dict.fromkeys(call.full_name(each, LIVE, ARCHIVED) for each in call.options.ids):
        try:
            deleted = call.memory.delete_session(id, call.options.reason, by=call.author)
        except SMPError as error:
            if rows:  # say what was done before the one that failed
                call.notify(f"Deleted before the error: {', '.join(row['id'] for row in rows)}")
            raise error
        until, name = str(deleted.metadata.get("recovery_deadline", "")), deleted.session
        rows.append({**deleted.to_dict(), "until": until, "path": deleted.path, "id": name})
        lines.append(
            f"Deleted {paint('bold', name)}. It can be restored until {time_text(until)} UTC: smp session restore {name}"
        )
    call.answer(rows if len(rows) > 1 else rows[0], lines)
    if deleted is not None:
        call.notify_redacted("reason", deleted.redacted)


session_restore_arguments = _session_arguments


def run_session_restore(call: Invocation) -> None:
    """Restore an archived or deleted session. Any command that opens an archived session does the same.

    Of several deleted sessions with the same id, the one deleted last is restored. A session that was archived when it was
    deleted is archived again.

    Examples:
      smp session restore checkout-review
    """
    name, memory = call.full_name(call.options.id, ARCHIVED, DELETED), call.memory
    is_archived = any(each.session == name for each in memory.archived_sessions())
    if is_archived or not any(each.session == name for each in memory.deleted_sessions()):
        state, redacted = "active", None
        memory.restore_session(name, by=call.author)
    else:
        reason, redacted = clean_reason(memory.config, call.options.reason)
        state = memory.undelete_session(name, reason, by=call.author)
    folder = memory.session(name).folder if state == "active" else None
    data = {"id": name, "state": state, "folder": folder, **({"redacted": redacted} if redacted else {})}
    where = f" in {folder}." if folder else "; it is archived, as it was before it was deleted."
    call.answer(data, [f"Restored {paint('bold', name)}{where}"])
    call.notify_redacted("reason", redacted)


def session_erase_arguments(parser: Parser) -> None:
    _session_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="confirm: this cannot be undone")


def run_session_erase(call: Invocation) -> None:
    """Remove a deleted session for good, before its retention ends. This cannot be undone.

    The session must be in the trash: `smp session delete` moves it there.

    Examples:
      smp session erase checkout-review --yes
    """
    if not call.options.yes:
        raise UserError("Erasing a session cannot be undone. Add --yes to confirm. Nothing was changed.")
    purged = call.memory.purge_session(call.full_name(call.options.id, DELETED), call.options.reason, by=call.author)
    call.answer(purged.to_dict(), [f"Erased {paint('bold', purged.session)}."])
    call.notify_redacted("reason", purged.redacted)


# -- stats


stats_arguments = add_scope


def run_stats(call: Invocation) -> None:
    """Show how many memories of each type there are and how large the files are; for one session, also how full it is.

    Examples:
      smp stats
      smp stats --session checkout-review --json
    """
    if call.scope is call.memory and not call.has_one_session:
        figures = _store_figures(call)
        call.answer(figures, _store_lines(call, figures))
        return
    session = call.read_sessions[0]
    sizes = session.size_report().to_dict()
    figures = {**session.stats().to_dict(), "size": sizes, "state": session.state}
    call.answer(figures, _figure_lines(figures))


def _store_figures(call: Invocation) -> dict[str, Any]:
    """The figures of all sessions, and those of each."""
    progress, each = call.progress_line(), []
    sessions = call.memory.sessions()
    for number, session in enumerate(sessions, 1):
        progress.show(f"{number:,} of {plural(len(sessions), 'session')} … {session.id}")
        each.append(session.stats().to_dict())
    progress.clear()
    by_type: dict[str, int] = {}
    for figures in each:
        for kind, number in figures["by_type"].items():
            by_type[kind] = by_type.get(kind, 0) + number
    totals = {name: sum(figures[name] for figures in each) for name in ("memories", "deleted", "problems", "bytes")}
    return {"scope": call.scope_data, **totals, "by_type": by_type, "sessions": each}


def _store_lines(call: Invocation, figures: dict[str, Any]) -> Iterator[str]:
    deleted = f", {figures['deleted']:,} deleted" if figures["deleted"] else ""
    unread = f", {plural(figures['problems'], 'entry')} unreadable (smp validate)" if figures["problems"] else ""
    total = f"{plural(figures['memories'], 'memory')}{deleted}{unread}, {size_text(figures['bytes'])}"
    yield f"{paint('bold', call.scope_text.capitalize())}: {total}"
    if figures["by_type"]:
        yield ""
        yield paint("bold", "By type")
        yield from bars(figures["by_type"], "{:,}".format)
    fullest = sorted(figures["sessions"], key=lambda each: -each["bytes"])[:_LARGEST]
    if fullest:
        yield ""
        yield paint("bold", "Largest sessions")
        rows = [
            (
                paint("cyan", each["session"]),
                f"{each['memories']:,}",
                size_text(each["bytes"]),
                f"{each['utilisation']:.0%}",
            )
            for each in fullest
        ]
        yield from table(("session", ">memories", ">size", ">full"), rows, call.screen.width)


_LARGEST = 10


def _figure_lines(figures: dict[str, Any]) -> Iterator[str]:
    deleted = f", {figures['deleted']:,} deleted" if figures["deleted"] else ""
    unread = f", {plural(figures['problems'], 'entry')} unreadable (smp validate)" if figures["problems"] else ""
    yield f"{paint('bold', figures['session'])}: {plural(figures['memories'], 'memory')}{deleted}{unread}"
    if figures["first"]:
        yield paint("dim", f"from {time_text(figures['first'])} to {time_text(figures['last'])} UTC")
    for title, counts, formatted in (
        ("By type", figures["by_type"], "{:,}".format),
        ("By file", figures["files"], size_text),
    ):
        if counts:
            yield ""
            yield paint("bold", title)
            yield from bars(counts, formatted)
    yield ""
    used = f"{size_text(figures['bytes'])} of {size_text(figures['quota_bytes'])}"
    yield f"{paint('bold', 'Quota')}  {bar(figures['utilisation'])}  {used}, {figures['utilisation']:.1%} full"
    yield from _size_forecast(figures["size"])


def _size_forecast(size: dict[str, Any]) -> Iterator[str]:
    """When the session will be full, and what compaction could free."""
    days, gain = size["predicted_days_to_quota"], size["estimated_compaction_gain_bytes"]
    if days is not None:
        yield paint(
            "dim",
            f"      full in about {plural(round(days), 'day')}, at {size_text(round(size['bytes_per_day']))} a day",
        )
    if size["level"] != "ok" or gain:
        gain_text = f"`smp compact` could free about {size_text(gain)}" if gain else "`smp compact` could free nothing"
        yield paint("dim", f"      {size['level']}; {gain_text}")
    if size["cold_bytes"]:
        yield paint("dim", f"      {size_text(size['cold_bytes'])} more in the cold segment: smp list --archived")
