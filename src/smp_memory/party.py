"""Several agents at one table: what do they find, and what do they decide together?

    party = session.party(["architect", "veritas", "developer"])
    party.say("architect", "I would take PostgreSQL.")
    party.add_finding("veritas", "Login has no rate limit", severity="high")
    party.decide("Use PostgreSQL", {"architect": "ACID", "veritas": "fine, if we test backups"}, by="architect")
    party["veritas"].update_state({"reviewing": "login"})            # for veritas alone

Guarantees: a finding is stored before it is compared, so none is lost, whoever finds the same at the same moment. Open
findings that say the same become one that names all who found it (`discoverers`) and keeps every wording (`merged_from`);
if others are quicker again and again, they are related instead. A decision keeps who said what (`inputs`), who agreed
and who did not. Turns, decisions, findings and preferences are for all; states and private memories are their agent's.
Non-guarantees: likeness is about words, see `smp_memory.policies.consolidation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.agent_memory import agent_in
from smp_memory.errors import Conflict, InvalidRecord, MemoryNotFound
from smp_memory.model.times import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from smp_memory.agent_memory import AgentMemory
    from smp_memory.context.builder import Context
    from smp_memory.memory import Memory
    from smp_memory.model.record import Decision, Finding, Record, Turn
    from smp_memory.session import SessionMemory

PROPOSED, ACTIVE = "proposed", "active"
_TRIES = 20
_NEAR = 20  # findings that are looked at more closely


class Party:
    """Agents that share a session. Made by `SessionMemory.party`."""

    def __init__(self, memory: Memory, session: SessionMemory, agents: Iterable[str]) -> None:
        if not isinstance(agents, str | list | tuple | set | frozenset):
            raise InvalidRecord("agents: must be a list of names.", field="agents")
        names = [agents] if isinstance(agents, str) else list(agents)
        if not names:
            raise InvalidRecord("agents: a party needs at least one agent.", field="agents")
        self.session = session
        self._members = {name: agent_in(memory, name, session) for name in names}
        known = session.info.agents
        new = [name for name in self._members if name not in known]
        if new:
            session.change_info(agents=[*known, *new])

    @property
    def agents(self) -> list[str]:
        return list(self._members)

    def __getitem__(self, agent: str) -> AgentMemory:
        """The session as this agent may see it."""
        member = self._members.get(agent)
        if member is None:
            raise InvalidRecord(
                f"agent: {agent!r} is not in this party; it has {', '.join(self._members)}.", field="agent"
            )
        return member

    def __iter__(self) -> Iterator[AgentMemory]:
        return iter(self._members.values())

    def say(self, agent: str, content: str, **fields: Any) -> Turn:
        """A turn of the conversation at the table."""
        return self[agent].add_turn(agent, content, **fields)

    def context(self, agent: str, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into this agent's prompt now."""
        return self[agent].context(task, topic, **options)

    # -- findings

    def add_finding(self, agent: str, finding: str, **fields: Any) -> Finding:
        """Add what an agent found; if another open finding says the same, the one that stands for both is returned."""
        member = self[agent]
        fields.setdefault("discoverers", [agent])
        return merged_with_others(member, member.add_finding(finding, **fields))

    # -- decisions

    def propose(self, agent: str, decision: str, said: str | None = None, **fields: Any) -> Decision:
        """Put a decision on the table; others comment on it, then somebody concludes it."""
        inputs = [self._input(agent, said, None)] if said else []
        fields = {"status": PROPOSED, "inputs": inputs, "agents_involved": [agent], **fields}
        return self[agent].add_decision(decision, **fields)

    def comment(self, agent: str, decision: Any, said: str, *, agrees: bool | None = None) -> Decision:
        """What an agent says to a decision on the table. Two who speak at once are both heard."""

        def heard(record: Record) -> dict[str, Any]:
            given = record.given
            changes: dict[str, Any] = {
                "inputs": [*_listed(given.get("inputs")), self._input(agent, said, agrees)],
                "agents_involved": _with(given.get("agents_involved"), agent),
            }
            if agrees is not None:
                for field, said_so in (("agreed_by", agrees), ("disagreed_by", not agrees)):
                    changes[field] = _with(given.get(field), agent) if said_so else _without(given.get(field), agent)
            return changes

        return self._changed(agent, decision, heard)

    def conclude(self, agent: str, decision: Any, *, status: str = ACTIVE, **fields: Any) -> Decision:
        """Let a decision stand, or with `status="rejected"` fall; all inputs stay with it."""
        return self._changed(agent, decision, lambda record: {"status": status, "concluded_by": agent, **fields})

    def decide(
        self, decision: str, inputs: Mapping[str, str], *, by: str, disagreed: Iterable[str] = (), **fields: Any
    ) -> Decision:
        """A decision that was talked through: what each agent said to it, and who did not agree."""
        against = list(disagreed)
        for agent in (*inputs, *against, by):
            self[agent]  # or it is an error
        said = [self._input(agent, text, agent not in against) for agent, text in inputs.items()]
        involved = list(dict.fromkeys([by, *inputs, *against]))
        given = {
            "inputs": said,
            "agents_involved": involved,
            "agreed_by": [agent for agent in involved if agent not in against],
            **({"disagreed_by": against} if against else {}),
            **fields,
        }
        return self[by].add_decision(decision, **given)

    def _input(self, agent: str, said: str | None, agrees: bool | None) -> dict[str, Any]:
        self[agent]
        spoken: dict[str, Any] = {"agent": agent, "said": said, "at": to_text(self.session.memory.now())}
        return spoken if agrees is None else {**spoken, "agrees": agrees}

    def _changed(self, agent: str, decision: Any, change: Any) -> Decision:
        """Change a decision as it stands now; if somebody was quicker, look again."""
        member = self[agent]
        name = getattr(decision, "id", decision)
        for attempt in range(_TRIES):
            record = member.get(name)
            if record.type != "decision":
                raise InvalidRecord(f"{name}: is a {record.type}, not a decision.", field="id", id=name)
            try:
                changed: Decision = member.update(name, record.revision, **change(record))
                return changed
            except Conflict:
                if attempt + 1 == _TRIES:
                    raise
                _step_aside(attempt)
        raise AssertionError("the last attempt returns or raises")

    def __repr__(self) -> str:
        return f"Party({', '.join(self._members)} in {self.session.id})"


def merged_with_others(member: AgentMemory, new: Finding) -> Finding:
    """The finding that stands for this one and for those that say the same."""
    from smp_memory.index.tokens import without_signs
    from smp_memory.policies.consolidation import find_duplicates

    session, name = member._session, new.id
    others: list[Record] = []
    for attempt in range(_TRIES):
        now = member.find(name)
        if now is None or now.deleted:
            return _stands_for(member, new)
        hits = member.query(
            without_signs(now.text), types="finding", sessions=[session.id], limit=_NEAR, track_access=False
        )
        near = [record for hit in hits if (record := member.find(hit.record.id)) is not None and record.id != name]
        group = next(
            (each for each in find_duplicates([now, *near]) if name in [record.id for record in each.records]), None
        )
        if group is None:
            return now  # type: ignore[return-value]
        others = [record for record in group.records if record.id != name]
        try:
            return session.merge(group, by=member.agent)  # type: ignore[return-value]
        except (Conflict, MemoryNotFound):  # somebody else is merging, too
            _step_aside(attempt)
    for record in others:
        session.relate(name, record.id, "relates_to", by=member.agent)
    return member.get(name)  # type: ignore[return-value]


def _step_aside(attempt: int) -> None:
    """Those who met must not meet again: each waits a while of its own, longer every time."""
    import random
    import time

    time.sleep(random.uniform(0, 0.001 * (attempt + 1)))  # noqa: S311 - no secret


def _stands_for(member: AgentMemory, gone: Finding) -> Finding:
    """What another process merged this finding into; it may have been merged again."""
    for record in member.records("finding"):
        merged = _listed(record.given.get("merged_from"))
        if any(isinstance(trace, dict) and trace.get("id") == gone.id for trace in merged):
            return record  # type: ignore[return-value]
    return gone


def _with(names: Any, name: str) -> list[Any]:
    return list(dict.fromkeys([*_listed(names), name]))


def _without(names: Any, name: str) -> list[Any] | None:
    return [each for each in _listed(names) if each != name] or None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
