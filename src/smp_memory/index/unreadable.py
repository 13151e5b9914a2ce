"""Unreadable entries of each session, kept in the table `meta` of the index.

A query that finds the index up to date does not read the session, and still has to say what is missing in its answer.
"""

from __future__ import annotations

import json

from smp_memory.index.rows import PROBLEMS
from smp_memory.model.reports import Problem
from smp_memory.observe import incomplete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.index.index import Index
    from smp_memory.index.rows import Rows

_MAX_PROBLEMS = 100  # of one session


def save_problems(index: Index, session: str, problems: Iterable[Problem], *, grown: bool) -> None:
    """Save a session's errors in the index; `grown`: add those in appended entries to the saved ones."""
    kept = [problem.to_dict() for problem in incomplete.errors(problems)]
    if grown:
        if not kept:
            return
        kept = json.loads(index.rows.meta(PROBLEMS + session, "[]")) + kept
    if kept:
        index.rows.set_meta(PROBLEMS + session, json.dumps(kept[:_MAX_PROBLEMS]))
    else:
        index.rows.do("DELETE FROM meta WHERE key = ?", (PROBLEMS + session,))


def load_problems(rows: Rows, sessions: Iterable[str] | None) -> dict[str, list[Problem]]:
    """The errors saved in the index, by session (None: of all sessions)."""
    found = rows.all("SELECT key, value FROM meta WHERE key BETWEEN ? AND ?", (PROBLEMS, PROBLEMS + "\x7f"))
    if not found:
        return {}
    selected = None if sessions is None else set(sessions)
    return {
        key[len(PROBLEMS) :]: [_problem(**each) for each in json.loads(value)]
        for key, value in found
        if selected is None or key[len(PROBLEMS) :] in selected
    }


def _problem(
    path: str, line: int, code: str, severity: str, id: str | None, message: str, archived: str | None = None
) -> Problem:
    return Problem(path, line, code, message, severity, id, archived)
