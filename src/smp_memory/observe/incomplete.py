"""Report entries and sessions that are missing from an answer.

Unreadable entries: every read of a session and every answer of the index passes the errors it met to `report`. They are
logged once per process, with file, line and code and without content.

Sessions that another process archives or deletes during an operation over all sessions are left out (`each_existing`).
Guarantees: the operation does not fail; a log record names the session and the reason, never content. A session that was
requested by name is not left out but raises an error.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import MemoryNotFound, SessionArchived, SessionNotFound, SMPError
from smp_memory.model.reports import Problem
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from smp_memory.files.user_state import UserState
    from smp_memory.model.candidates import LeftOut
    from smp_memory.store.port import SessionStore

    Name = TypeVar("Name")
    Found = TypeVar("Found")


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,160}")  # of a file; any other could hold instructions to an agent
ARCHIVE_CODE = "archive_unreadable"
NOT_INDEXED = "not_indexed"  # sessions that the index on this computer does not have yet
OFFLINE = "offline"  # the answer is as of a time, because the server was not asked
UNREADABLE, SETTINGS = "entries_unreadable", "settings_unusable"  # the log events

_logged: set[tuple[str, int, str]] = set()
_reported: dict[tuple[str, int, str], Problem] = {}
caller_reports = (
    False  # the command line prints what `take_reported` returns; logging's last-resort handler would print it again
)


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def report(problems: list[Problem]) -> list[Problem]:
    """Log problems that this process has not logged yet; returns all of them."""
    fresh = []
    for problem in problems:
        key = (problem.path, problem.line, problem.code)
        _reported.setdefault(key, problem)
        if key not in _logged:
            _logged.add(key)
            fresh.append(problem)
    if fresh:
        telemetry.CORRUPTION.add((UNREADABLE,), len(fresh))
        _log(fresh)
    return problems


def report_settings(notices: list[str], session: str | None = None) -> None:
    """Log settings that cannot be used or do not count (`Config.notices`), each once per process; the command line prints them itself."""
    for text in notices:
        if (text, 0, SETTINGS) not in _logged:
            _logged.add((text, 0, SETTINGS))
            telemetry.emit("settings", telemetry.WARNING, SETTINGS, text, session, shown=not caller_reports)


def take_reported() -> list[Problem]:
    """The problems reported since the last call."""
    found = list(_reported.values())
    _reported.clear()
    return found


def _log(problems: list[Problem]) -> None:
    import logging  # rare, and slow to load

    logger = logging.getLogger("smp_memory")
    if problems[0].code in (NOT_INDEXED, OFFLINE):
        if not caller_reports or logger.hasHandlers():
            logger.warning(problems[0].message, extra={"smp_event": problems[0].code, "smp_figures": {}})
        return
    if not caller_reports or logger.hasHandlers():
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        is_archive = problems[0].code == ARCHIVE_CODE
        logger.warning(
            "An %s cannot be read and is missing from answers: %s:%d (%s)%s. %s",
            "archive" if is_archive else "entry",
            problems[0].path,
            problems[0].line,
            problems[0].code,
            more,
            _advice(problems[0]),
            extra={"smp_event": UNREADABLE, "smp_figures": {"entries": len(problems), "path": problems[0].path}},
        )


def describe(problems: list[Problem], *, to_agent: bool = False) -> str:
    """One line about problems: where the first one is, and what to do. `to_agent`: without any text from the files."""
    first = problems[0]
    path = (
        first.path
        if not to_agent or _PLAIN_NAME.fullmatch(os.path.basename(first.path))
        else os.path.dirname(first.path)
    )
    where = f"{path}:{first.line}" if first.line else path
    reason = first.code if to_agent else " ".join(first.message.split()).rstrip(".")
    count = "1 entry cannot be read and is" if len(problems) == 1 else f"{len(problems)} entries cannot be read and are"
    every = "" if len(problems) == 1 else " All of them: `smp validate`."
    if first.code in (NOT_INDEXED, OFFLINE):
        return first.message
    if first.code == ARCHIVE_CODE:
        others = f" {len(problems) - 1} more cannot be read." if len(problems) > 1 else ""
        return f"An archive cannot be read, only its summary was searched: {where}: {reason}. {_advice(first)}{others}"
    return f"{count} left out of answers: {where}: {reason}. {_advice(first)}{every}"


def _advice(problem: Problem) -> str:
    if problem.code == ARCHIVE_CODE:
        return f"`smp session restore {problem.archived}` tries to restore the session; if the file is damaged, restore it from a backup."
    if problem.code == "cold_damaged" and problem.archived is None:
        return "It is in the cold segment. `smp list --archived` lists what can be read there; restore the rest from a backup."
    if problem.code == "too_large":
        return "Move it, or a part of it, away."
    if problem.code == "incomplete_transaction":
        return "Pull or copy the rest of the session: then it is shown. If that is lost, `smp repair` moves it to quarantine."
    if problem.archived is None:
        return "Correct the line, or quarantine it with `smp repair`."
    return f"It is kept in the archive as it is. To correct it, restore the session first: `smp session restore {problem.archived}`."


def located_in_archive(problems: list[Problem], session: str, folder: str, archive: str) -> list[Problem]:
    """Problems of files in `folder`, with paths in the archive that the files came from."""
    return [
        Problem(
            f"{archive}:{os.path.relpath(each.path, folder)}",
            *(each.line, each.code, each.message, each.severity, each.id, session),
        )
        for each in problems
    ]


def archive_problem(path: str, session: str, error: Exception) -> Problem:
    """The problem of an archive that cannot be read at all."""
    return Problem(path, 0, ARCHIVE_CODE, str(error).removeprefix(f"{path} "), "error", None, session)


def with_unreadable(error: MemoryNotFound, problems: list[Problem]) -> MemoryNotFound:
    """The error for a missing id, extended by the session's unreadable entries, one of which may be the memory. No text from the files."""
    if not problems or "unreadable" in error.details:
        return error
    locations = [f"{each.path}:{each.line}" for each in problems]
    message = f"{error.message} It may be an entry that cannot be read. {describe(problems, to_agent=True)}"
    return MemoryNotFound(message, **error.details, unreadable=locations)


def memory_not_found(storage: SessionStore, id: str) -> MemoryNotFound:
    """The error for an id that is not in a session; it mentions unreadable entries."""
    error = MemoryNotFound(f"{id} does not exist in session {storage.session}.", id=id, session=storage.session)
    return with_unreadable(error, storage.history().unreadable)


# -- sessions that are archived or deleted meanwhile

SESSION_GONE = (SessionArchived, SessionNotFound)


def left_out(session: str, error: SMPError) -> LeftOut:
    """Log that a session was left out."""
    from smp_memory.model.candidates import LeftOut

    reason = "archived" if isinstance(error, SessionArchived) else "deleted"
    text = f"Session {session} was left out: it was {reason} meanwhile."
    telemetry.emit("session", telemetry.WARNING, "session_left_out", text, session, reason=reason)
    return LeftOut(session, reason)


def each_existing(names: Iterable[Name], work: Callable[[Name], Found]) -> Iterator[tuple[Name, Found]]:
    """Call `work` for each session, given by id or as an object with `id` or `session`; skip those that are gone meanwhile."""
    for name in names:
        try:
            found = work(name)
        except SESSION_GONE as error:
            left_out(str(getattr(name, "id", None) or getattr(name, "session", None) or name), error)
            continue
        yield name, found


def report_once(state: UserState, name: str, line: str) -> None:
    """Log a line about a store, unless it was the last one logged under this name in the user's state."""
    try:
        if state.has(name) and state.read(name) == line.encode():
            return
        state.write(name, line.encode())
    except (OSError, SMPError):
        pass  # the user's state cannot be written: it is logged again
    import logging  # rare, and slow to load

    logging.getLogger("smp_memory").warning(line)
