"""How does a summary read? A page of plain text: what it is, who took part, what was decided, found and wished.

Guarantees: every memory has one line, which begins with a dash and its id; nothing in a memory can begin another.
"""

from __future__ import annotations

import json

from smp.model.time import to_text
from smp.query.seen import plural, word
from smp.query.short_form import brief, small
from smp.query.summary import severity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import Any

    from smp.model.record import Record
    from smp.query.summary import SessionSummary

_NAMES = {"agent_state": "agent state", "conversation": "turn"}
_LONGEST_REASON = 120
_MOST_SESSIONS = 3


def summary_lines(summary: SessionSummary) -> Iterator[str]:
    yield f"{_title(summary)}: {_counts(summary)}{_period(summary.first, summary.last)}."
    people = [*(f"{brief(name)} (user)" for name in summary.users), *map(brief, summary.agents)]
    if people:
        yield f"Took part: {', '.join(people)}."
    if summary.topics:
        named = ", ".join(f"{brief(topic.name)} ({topic.mentions})" for topic in summary.topics)
        yield f"Most discussed: {named}."
    yield from _chapter(summary, "Key decisions", "decisions", summary.decisions, _decision)
    yield from _chapter(summary, "Open findings", "open_findings", summary.findings, _finding)
    yield from _chapter(summary, "Preferences", "preferences", summary.preferences, _preference)
    yield from _chapter(summary, "Where the agents stand", "agent_states", summary.states, _state)


def _title(summary: SessionSummary) -> str:
    shown, more = summary.sessions[:_MOST_SESSIONS], len(summary.sessions) - _MOST_SESSIONS
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    if len(summary.sessions) != 1:
        return f"{len(summary.sessions)} sessions ({names})" if names else "No session"
    project = word(summary.info.project) if summary.info else ""
    return f"Session {names}" + (f" (project {brief(project)})" if project else "")


def _counts(summary: SessionSummary) -> str:
    parts = [counted(count, type) for type, count in summary.counts.items()]
    return ", ".join(parts) or "no memories"


def counted(count: int, type: str) -> str:
    """`1 turn`, `2 agent states`."""
    if count == 1:
        return f"1 {_NAMES.get(type, type)}"
    return f"{count:,} {plural(type).replace('_', ' ')}"


def _period(first: datetime | None, last: datetime | None) -> str:
    """` on 2026-01-31` or ` from 2026-01-30 to 2026-01-31`, UTC."""
    if first is None or last is None:
        return ""
    begin, end = _day(first), _day(last)
    return f" on {begin}" if begin == end else f" from {begin} to {end}"


def _day(moment: datetime) -> str:
    return to_text(moment)[:10]


def _chapter(
    summary: SessionSummary, title: str, name: str, records: list[Record], line: Callable[[Record], str]
) -> Iterator[str]:
    if not records:
        return
    total = summary.totals[name]
    yield ""
    yield title + (f" ({len(records)} of {total:,})" if total > len(records) else "")
    for record in records:
        yield f"- {summary.ref(record)} {line(record)}"


def _decision(record: Record) -> str:
    why = word(getattr(record, "rationale", None))
    return f"{brief(record.text)}{_signed(record)}" + (f" Why: {brief(why, _LONGEST_REASON)}" if why else "")


def _finding(record: Record) -> str:
    return f"{brief(severity_of(record))}: {brief(record.text)}{_signed(record)}"


def _signed(record: Record) -> str:
    return f" ({brief(word(record.author) or 'user')}, {_day(record.created)})"


def _preference(record: Record) -> str:
    key, value, said = (getattr(record, name, None) for name in ("key", "value", "preference"))
    parts = [_shown(part) for part in (key, value, said) if part is not None]
    return ": ".join(parts)


def _state(record: Record) -> str:
    return f"{_shown(getattr(record, 'state', None))} ({_day(record.updated)})"


def _shown(value: Any) -> str:
    short = small(value)
    return brief(short if isinstance(short, str) else json.dumps(short, ensure_ascii=False))
