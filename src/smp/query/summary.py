"""What matters in all this? A summary taken from the memories themselves: figures, and the few that count most.

    key decisions    those that stand: not superseded, rejected or taken back
    open findings    those not resolved, the gravest first
    preferences      the newest of each key
    agent states     the newest of each agent
    topics           the weightiest

Each list has at most so many entries; `totals` says how many there are. Decisions and findings are chosen by priority if
a way to tell is handed in, else by importance; of equals the newer one comes first. Texts are cut to a line.
Guarantees: nothing is made up; nothing raises, whatever the fields hold; no memory can begin a line of the text.
"""

from __future__ import annotations

from smp.model.types import CLOSED_STATUSES, OVERTURNED_STATUSES
from smp.query.agents import agents_of
from smp.query.seen import all_seen, head, plural, refs_by_type, text_of, word
from smp.query.short_form import brief, small
from smp.query.topics import topics_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from smp.model.record import Record
    from smp.model.report import Problem
    from smp.model.session_info import SessionInfo
    from smp.query.seen import Priority, Seen

MOST = 10
UNRATED = "unrated"
_LONGEST_SEVERITY = 40
_SEVERITIES = {"critical": 0, "high": 1, "important": 1, "medium": 2, "low": 3, "minor": 3, "info": 4}


class SessionSummary:
    """What matters. `str(summary)` is a text of a page, going through it gives that text's lines."""

    def __init__(
        self, seen: list[Seen], info: SessionInfo | None, priority: Priority | None, most: int, across: bool
    ) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        best = _best_first(seen, priority)
        newest = [each.record for each in reversed(seen)]
        chosen = {
            "decisions": _standing(best),
            "open_findings": sorted(filter(_is_open, best), key=_gravity),
            "preferences": _newest(newest, "preference", _preference_key),
            "agent_states": _newest(sorted(newest, key=_last_change, reverse=True), "agent_state", _state_key),
        }
        self.info = info
        self.sessions = sorted({each.record.session for each in seen} | ({info.id} if info else set()))
        self.across_sessions = across
        self.first: datetime | None = seen[0].created if seen else None
        self.last: datetime | None = max((each.updated for each in seen), default=None)
        self.counts = {type: len(refs) for type, refs in refs_by_type(seen).items()}
        self.totals = {name: len(records) for name, records in chosen.items()}
        self.users, self.agents = _participants(seen, info)
        self.topics = list(topics_of(seen, priority))[:most]
        self.decisions, self.findings, self.preferences, self.states = (found[:most] for found in chosen.values())
        self._head = head(seen)

    def ref(self, record: Record) -> str:
        return record.ref if self.across_sessions else record.id

    @property
    def open_findings(self) -> dict[str, list[Record]]:
        """The open findings by severity, the gravest first."""
        found: dict[str, list[Record]] = {}
        for record in self.findings:
            found.setdefault(severity_of(record), []).append(record)
        return found

    @property
    def text(self) -> str:
        from smp.query.summary_text import summary_lines

        return "".join(f"{line}\n" for line in summary_lines(self))

    def __str__(self) -> str:
        return self.text

    def __iter__(self) -> Iterator[str]:
        return iter(self.text.split("\n")[:-1])

    def to_dict(self) -> dict[str, Any]:
        return {
            "session_summary": {
                **self._head,
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
                "open_findings": {
                    severity: [self._finding(record) for record in records]
                    for severity, records in self.open_findings.items()
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
            "made_by": word(record.author) or "user",
            "timestamp": text_of(record.created),
        }

    def _finding(self, record: Record) -> dict[str, Any]:
        return {
            "id": self.ref(record),
            "finding": brief(record.text),
            "discovered_by": word(record.author) or "user",
            "timestamp": text_of(record.created),
        }

    def _preference(self, record: Record) -> dict[str, Any]:
        fields = ((name, getattr(record, name, None)) for name in ("key", "value", "preference"))
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
    most: int = MOST,
    across_sessions: bool | None = None,
    users: Mapping[str, str] | None = None,
) -> SessionSummary:
    """What matters in these memories; `info` is the head of their session, if they are of one."""
    if users is None and info is not None and info.user:
        users = {info.id: info.user}
    seen = all_seen(records, across_sessions, users)
    across = any(each.ref != each.record.id for each in seen) if across_sessions is None else across_sessions
    return SessionSummary(seen, info, priority, most, across)


# -- who and which


def _participants(seen: list[Seen], info: SessionInfo | None) -> tuple[list[str], list[str]]:
    """Users and agents: those named in the head of the session first, then those who wrote, the busiest first."""
    users = [info.user] if info and word(info.user) else []
    named = [name for name in info.agents if word(name)] if info else []
    for agent in agents_of(seen):
        (users if agent.kind == "user" and agent.name not in named else named).append(agent.name)
    return list(dict.fromkeys(filter(None, users))), [name for name in dict.fromkeys(named) if name not in users]


def _best_first(seen: list[Seen], priority: Priority | None) -> list[Record]:
    """Decisions and findings, those that are worth most first, of equals the newest."""
    asked = [each for each in reversed(seen) if each.type in ("decision", "finding")]
    return [each.record for each in sorted(asked, key=lambda each: -each.worth(priority))]


def _standing(records: list[Record]) -> list[Record]:
    replaced = {target for record in records for target in _replaced_by(record)}
    decisions = [record for record in records if record.type == "decision"]
    return [record for record in decisions if _status(record) not in OVERTURNED_STATUSES and record.ref not in replaced]


def _replaced_by(record: Record) -> Iterator[str]:
    """The memories that this one takes the place of, as `session/ID`."""
    relations = record.relations
    for relation in relations if isinstance(relations, list) else ():
        if isinstance(relation, dict) and relation.get("kind") == "supersedes" and word(relation.get("target")):
            target = relation["target"]
            yield target if "/" in target else f"{record.session}/{target}"


def _is_open(record: Record) -> bool:
    return record.type == "finding" and _status(record) not in CLOSED_STATUSES


def _status(record: Record) -> str:
    return word(getattr(record, "status", None)).strip().lower()


def severity_of(record: Record) -> str:
    return brief(word(getattr(record, "severity", None)).lower(), _LONGEST_SEVERITY) or UNRATED


def _gravity(record: Record) -> tuple[int, str]:
    severity = severity_of(record)
    return _SEVERITIES.get(severity, len(_SEVERITIES)), severity


def _newest(records: list[Record], type: str, key: Callable[[Record], str]) -> list[Record]:
    """The first of each key."""
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
