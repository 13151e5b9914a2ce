"""Entries that cannot be read, so that answers can say that they are incomplete.

Every read of a session and every answer of the index passes the errors it met to `met`. They are logged once per process, with
file, line and code and without content. The index keeps the errors of each session in its table `meta`, because a query
that finds the index up to date does not read the files.

Sessions that another process archives or deletes while an operation looks at all of them: left out, and this is said.

Guarantees: an operation over all sessions does not fail because one of them was put away meanwhile; its log record
names the session and the reason, never content. A session that was asked for by name is not left out but an error.
"""

from __future__ import annotations

import json
import os
import re

from smp_memory import event_log
from smp_memory.errors import MemoryNotFound, SessionArchived, SessionNotFound
from smp_memory.model.reports import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from smp_memory.errors import SMPError
    from smp_memory.index.index import Index
    from smp_memory.index.rows import Rows
    from smp_memory.model.hits import LeftOut

    Name = TypeVar("Name")
    Found = TypeVar("Found")


_KEY = "unreadable/"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,160}")  # of a file; any other could hold words that are meant for an agent
ARCHIVE_CODE = "archive_unreadable"
_MOST = 100  # of one session, kept in the index

_logged: set[tuple[str, int, str]] = set()
_met: dict[tuple[str, int, str], Problem] = {}
caller_tells = False  # the command line prints what `take_met` gives; logging's last resort would print it again


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def met(problems: list[Problem]) -> list[Problem]:
    """Log what this process has not logged yet; returns the problems."""
    fresh = []
    for problem in problems:
        key = (problem.path, problem.line, problem.code)
        _met.setdefault(key, problem)
        if key not in _logged:
            _logged.add(key)
            fresh.append(problem)
    if fresh:
        _log(fresh)
    return problems


def take_met() -> list[Problem]:
    """What was met since the last call."""
    found = list(_met.values())
    _met.clear()
    return found


def _log(problems: list[Problem]) -> None:
    import logging  # rare, and slow to load

    logger = logging.getLogger("smp_memory")
    if not caller_tells or logger.hasHandlers():
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
        )


def told(problems: list[Problem], *, to_agent: bool = False) -> str:
    """One line about them: where the first one is, and what to do. What an agent is told has no words from the files."""
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
    if first.code == ARCHIVE_CODE:
        others = f" {len(problems) - 1} more cannot be read." if len(problems) > 1 else ""
        return f"An archive cannot be read, only its summary was searched: {where}: {reason}. {_advice(first)}{others}"
    return f"{count} left out of answers: {where}: {reason}. {_advice(first)}{every}"


def _advice(problem: Problem) -> str:
    if problem.code == ARCHIVE_CODE:
        return f"`smp session restore {problem.archived}` tries to bring the session back; if the file is damaged, take it from a backup."
    if problem.code == "cold_damaged" and problem.archived is None:
        return "It lies in the cold segment. `smp archived` lists what can be read there; take the rest from a backup."
    if problem.archived is None:
        return "Correct the line, or set it aside with `smp repair`."
    return f"It is kept in the archive as it is. To correct it, bring the session back first: `smp session restore {problem.archived}`."


def in_archive(problems: list[Problem], session: str, folder: str, archive: str) -> list[Problem]:
    """The problems of a session's files in `folder`, named by the archive that holds these files."""
    return [
        Problem(
            f"{archive}:{os.path.relpath(each.path, folder)}",
            *(each.line, each.code, each.message, each.severity, each.id, session),
        )
        for each in problems
    ]


def archive(path: str, session: str, error: Exception) -> Problem:
    """An archive of which no entry can be read."""
    return Problem(path, 0, ARCHIVE_CODE, str(error).removeprefix(f"{path} "), "error", None, session)


def explained(error: MemoryNotFound, problems: list[Problem]) -> MemoryNotFound:
    """The error for a missing id with the session's unreadable entries, one of which may be it. No words from the files."""
    if not problems or "unreadable" in error.details:
        return error
    places = [f"{each.path}:{each.line}" for each in problems]
    message = f"{error.message} It may be an entry that cannot be read. {told(problems, to_agent=True)}"
    return MemoryNotFound(message, **error.details, unreadable=places)


# -- in the index


def keep(index: Index, session: str, problems: Iterable[Problem], *, grown: bool) -> None:
    """Note a session's errors in the index; `grown`: those in what was appended, besides the ones noted before."""
    kept = [problem.to_dict() for problem in errors(problems)]
    if grown:
        if not kept:
            return
        kept = json.loads(index.rows.meta(_KEY + session, "[]")) + kept
    if kept:
        index.rows.set_meta(_KEY + session, json.dumps(kept[:_MOST]))
    else:
        index.rows.do("DELETE FROM meta WHERE key = ?", (_KEY + session,))


def kept(rows: Rows, sessions: Iterable[str] | None) -> dict[str, list[Problem]]:
    """The errors that the index knows of, by session; None: of all sessions."""
    found = rows.all("SELECT key, value FROM meta WHERE key BETWEEN ? AND ?", (_KEY, _KEY + "\x7f"))
    if not found:
        return {}
    wanted = None if sessions is None else set(sessions)
    return {
        key[len(_KEY) :]: [_problem(**each) for each in json.loads(value)]
        for key, value in found
        if wanted is None or key[len(_KEY) :] in wanted
    }


def _problem(
    path: str, line: int, code: str, severity: str, id: str | None, message: str, archived: str | None = None
) -> Problem:
    return Problem(path, line, code, message, severity, id, archived)


PUT_AWAY = (SessionArchived, SessionNotFound)


def left_out(session: str, error: SMPError) -> LeftOut:
    """Say that a session was left out."""
    from smp_memory.model.hits import LeftOut

    reason = "archived" if isinstance(error, SessionArchived) else "deleted"
    text = f"Session {session} was left out: it was {reason} meanwhile."
    event_log.emit("session", event_log.WARNING, "session_left_out", text, session, reason=reason)
    return LeftOut(session, reason)


def each_there(names: Iterable[Name], work: Callable[[Name], Found]) -> Iterator[tuple[Name, Found]]:
    """What comes of each session, by its id or with an attribute `id` or `session`; those put away meanwhile are left out."""
    for name in names:
        try:
            found = work(name)
        except PUT_AWAY as error:
            left_out(str(getattr(name, "id", None) or getattr(name, "session", None) or name), error)
            continue
        yield name, found
