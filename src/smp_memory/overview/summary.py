"""Extractive summary of memories: figures, key decisions, open findings, preferences, agent states and topics.

    key decisions    those in force: not rejected or reversed
    open findings    those not resolved, the most severe first
    preferences      the newest of each key
    agent states     the newest of each agent
    topics           those of greatest weight

Memories that another one of them supersedes, or that do not hold at the given time, are counted but not listed.
Each list has at most `MAX_ITEMS` entries; `totals` has the full numbers. Decisions and findings are chosen by
priority if a function for it is given, else by importance; of equals the newer one comes first.

Guarantees: nothing is invented; nothing raises, whatever the fields hold. As text, each memory is one line that
begins with a dash and its id; long texts are shortened, and nothing in a memory can begin another line.
"""

from __future__ import annotations

import json

from smp_memory.model.statuses import successions
from smp_memory.model.times import EPOCH, is_valid, to_text, validity
from smp_memory.model.types import KINDS, SEVERITY_LEVELS, names_where
from smp_memory.overview.activity import agents_of
from smp_memory.overview.topics import (
    brief,
    header,
    overview_items,
    plural,
    refs_by_type,
    small,
    text_of,
    topics_of,
    word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.overview.topics import OverviewItem, Priority


MAX_ITEMS = 10
UNRATED = "unrated"
_MAX_SEVERITY = 40


class SessionSummary:
    """The summary. `str(summary)` is a page of text; iteration yields its lines."""

    def __init__(
        self,
        items: list[OverviewItem],
        info: SessionInfo | None,
        priority: Priority | None,
        most: int,
        across: bool,
        at: int | None = None,
    ) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        current = _current(items, at)
        best = _by_worth(current, priority)
        newest = [each.record for each in reversed(current)]
        chosen = {
            "decisions": _active_decisions(best),
            **{
                f"open_{KINDS[name].plural}": sorted(_open_of(best, name), key=_severity_rank)
                for name in names_where("is_open_until_closed")
            },
            "preferences": _first_of_each(newest, "preference", _preference_key),
            "agent_states": _first_of_each(sorted(newest, key=_last_change, reverse=True), "agent_state", _state_key),
        }
        self.info = info
        self.sessions = sorted({each.record.session for each in items} | ({info.id} if info else set()))
        self.across_sessions = across
        self.first: datetime | None = items[0].created if items else None
        self.last: datetime | None = max((each.updated for each in items), default=None)
        self.counts = {type: len(refs) for type, refs in refs_by_type(items).items()}
        self.totals = {name: len(records) for name, records in chosen.items()}
        self.users, self.agents = _participants(items, info)
        self.topics = list(topics_of(items, priority))[:most]
        shown = {name: records[:most] for name, records in chosen.items()}
        self.decisions, self.findings = shown["decisions"], shown["open_findings"]
        self.preferences, self.states = shown["preferences"], shown["agent_states"]
        self.open = {name: records for name, records in shown.items() if name.startswith("open_")}  # of each type
        self._header = header(items)

    def ref(self, record: Record) -> str:
        return record.ref if self.across_sessions else record.id

    @property
    def open_findings(self) -> dict[str, list[Record]]:
        """The open findings by severity, the most severe first."""
        return _by_severity(self.findings)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in summary_lines(self))

    def __str__(self) -> str:
        return self.text

    def __iter__(self) -> Iterator[str]:
        return iter(self.text.split("\n")[:-1])

    def to_dict(self) -> dict[str, Any]:
        return {
            "session_summary": {
                **self._header,
                "sessions": list(self.sessions),
                "project": self.info.project if self.info else None,
                "status": self.info.status if self.info else None,
                "period": {"first": text_of(self.first), "last": text_of(self.last)},
                "memories": sum(self.counts.values()),
                "by_type": {plural(type): count for type, count in self.counts.items()},
                "totals": dict(self.totals),
                "participants": {"users": list(self.users), "agents": list(self.agents)},
                "topics": [
                    {"topic": topic.name, "weight": round(topic.weight, 2), "mentions": topic.mentions}
                    for topic in self.topics
                ],
                "key_decisions": [self._decision(record) for record in self.decisions],
                **{
                    name: {
                        severity: [self._finding(record) for record in found]
                        for severity, found in _by_severity(records).items()
                    }
                    for name, records in self.open.items()
                },
                "preferences": [self._preference(record) for record in self.preferences],
                "agent_states": [self._state(record) for record in self.states],
                "text": self.text,
            }
        }

    def _decision(self, record: Record) -> dict[str, Any]:
        why = word(getattr(record, "rationale", None))
        return {
            "id": self.ref(record),
            "decision": brief(record.text),
            **({"rationale": brief(why)} if why else {}),
            KINDS[record.type].author_name: word(record.author) or "user",
            "timestamp": text_of(record.created),
        }

    def _finding(self, record: Record) -> dict[str, Any]:
        return {
            "id": self.ref(record),
            record.type: brief(record.text),
            KINDS[record.type].author_name: word(record.author) or "user",
            "timestamp": text_of(record.created),
        }

    def _preference(self, record: Record) -> dict[str, Any]:
        fields = ((name, getattr(record, name, None)) for name in KINDS[record.type].parts)
        return {"id": self.ref(record), **{name: small(value) for name, value in fields if value is not None}}

    def _state(self, record: Record) -> dict[str, Any]:
        return {
            "id": self.ref(record),
            "agent": _state_key(record),
            "updated": text_of(record.updated),
            "state": small(getattr(record, "state", None)),
        }

    def __repr__(self) -> str:
        return f"SessionSummary({', '.join(self.sessions)}: {sum(self.counts.values())} memories)"


def summarize(
    records: Iterable[Record],
    info: SessionInfo | None = None,
    *,
    priority: Priority | None = None,
    most: int = MAX_ITEMS,
    across_sessions: bool | None = None,
    users: Mapping[str, str] | None = None,
    at: int | None = None,
) -> SessionSummary:
    """The summary of these memories; `info` is the metadata of their session, if they are of one session.

    `at`: in microseconds; memories that do not hold then are counted, but not listed.
    """
    if users is None and info is not None and info.user:
        users = {info.id: info.user}
    items = overview_items(records, across_sessions, users)
    across = any(each.ref != each.record.id for each in items) if across_sessions is None else across_sessions
    return SessionSummary(items, info, priority, most, across, at)


# -- selection


def _participants(items: list[OverviewItem], info: SessionInfo | None) -> tuple[list[str], list[str]]:
    """Users and agents: those in the session's metadata first, then authors, the one with most memories first."""
    users = [info.user] if info and word(info.user) else []
    named = [name for name in info.agents if word(name)] if info else []
    for agent in agents_of(items):
        (users if agent.kind == "user" and agent.name not in named else named).append(agent.name)
    return list(dict.fromkeys(filter(None, users))), [name for name in dict.fromkeys(named) if name not in users]


def _by_worth(items: list[OverviewItem], priority: Priority | None) -> list[Record]:
    """What has a status, such as decisions and findings, by worth; of equals the newest first."""
    chosen = [each for each in reversed(items) if KINDS[each.type].statuses]
    return [each.record for each in sorted(chosen, key=lambda each: -each.worth(priority))]


def _current(items: list[OverviewItem], at: int | None) -> list[OverviewItem]:
    """The items that hold: valid at that time, and not superseded by another of them."""
    records = {(each.record.session, each.record.id): each.record for each in items}
    pairs = {
        (old, new)
        for record in records.values()
        for old, new in successions(record.given, record.session, record.id)
        if new in records and (at is None or not _begins_after(records[new], at))
    }
    replaced = {old for old, new in pairs if (new, old) not in pairs or _age(records, old) < _age(records, new)}
    return [
        each
        for each in items
        if (each.record.session, each.record.id) not in replaced and (at is None or is_valid(each.record.given, at))
    ]


def _begins_after(record: Record, at: int) -> bool:
    start = validity(record.given)[0]
    return start is not None and start > at


def _age(records: dict[tuple[str, str], Record], name: tuple[str, str]) -> tuple[Any, ...]:
    record = records.get(name)
    return (record.created, *name) if record is not None else (EPOCH, *name)


def _active_decisions(records: list[Record]) -> list[Record]:
    decisions = [record for record in records if record.type == "decision"]
    return [record for record in decisions if _status(record) not in KINDS[record.type].closed]


def _open_of(records: list[Record], type: str) -> list[Record]:
    return [record for record in records if record.type == type and _status(record) not in KINDS[type].closed]


def _by_severity(records: list[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(severity_of(record), []).append(record)
    return found


def _status(record: Record) -> str:
    return word(getattr(record, "status", None)).strip().lower()


def severity_of(record: Record) -> str:
    return brief(word(getattr(record, "severity", None)).lower(), _MAX_SEVERITY) or UNRATED


def _severity_rank(record: Record) -> tuple[int, str]:
    severity = severity_of(record)
    return -SEVERITY_LEVELS.get(severity, -1), severity


def _first_of_each(records: list[Record], type: str, key: Callable[[Record], str]) -> list[Record]:
    """The first record of each key."""
    found: dict[str, Record] = {}
    for record in records:
        if record.type == type:
            found.setdefault(key(record), record)
    return list(found.values())


def _last_change(record: Record) -> Any:
    return record.updated


def _preference_key(record: Record) -> str:
    key = getattr(record, "key", None)
    return record.ref if key is None else f"key {key}"


def _state_key(record: Record) -> str:
    return word(getattr(record, "agent", None)) or record.id


# -- text

_MAX_REASON = 120
_MAX_SESSIONS = 3


def summary_lines(summary: SessionSummary) -> Iterator[str]:
    yield f"{_title(summary)}: {_counts(summary)}{_period(summary.first, summary.last)}."
    people = [*(f"{brief(name)} (user)" for name in summary.users), *map(brief, summary.agents)]
    if people:
        yield f"Took part: {', '.join(people)}."
    if summary.topics:
        named = ", ".join(f"{brief(topic.name)} ({topic.mentions})" for topic in summary.topics)
        yield f"Most discussed: {named}."
    yield from _section(summary, "Key decisions", "decisions", summary.decisions, _decision)
    for name in names_where("is_open_until_closed"):
        part = f"open_{KINDS[name].plural}"
        yield from _section(summary, KINDS[name].context_title, part, summary.open[part], _finding)
    yield from _section(summary, "Preferences", "preferences", summary.preferences, _preference)
    yield from _section(summary, "Where the agents stand", "agent_states", summary.states, _state)


def _title(summary: SessionSummary) -> str:
    first, more = summary.sessions[:_MAX_SESSIONS], len(summary.sessions) - _MAX_SESSIONS
    names = ", ".join(first) + (f" and {more} more" if more > 0 else "")
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
        return f"1 {KINDS[type].noun}"
    return f"{count:,} {plural(type).replace('_', ' ')}"


def _period(first: datetime | None, last: datetime | None) -> str:
    """` on 2026-01-31` or ` from 2026-01-30 to 2026-01-31`, UTC."""
    if first is None or last is None:
        return ""
    begin, end = _day(first), _day(last)
    return f" on {begin}" if begin == end else f" from {begin} to {end}"


def _day(moment: datetime) -> str:
    return to_text(moment)[:10]


def _section(
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
    return f"{brief(record.text)}{_author_and_day(record)}" + (f" Why: {brief(why, _MAX_REASON)}" if why else "")


def _finding(record: Record) -> str:
    return f"{brief(severity_of(record))}: {brief(record.text)}{_author_and_day(record)}"


def _author_and_day(record: Record) -> str:
    return f" ({brief(word(record.author) or 'user')}, {_day(record.created)})"


def _preference(record: Record) -> str:
    fields = (getattr(record, name, None) for name in KINDS[record.type].parts)
    return ": ".join(_on_one_line(value) for value in fields if value is not None)


def _state(record: Record) -> str:
    return f"{_on_one_line(getattr(record, 'state', None))} ({_day(record.updated)})"


def _on_one_line(value: Any) -> str:
    short = small(value)
    return brief(short if isinstance(short, str) else json.dumps(short, ensure_ascii=False))
