"""A party: several agents that share a session, merge their findings and decide together.

    party = session.party(["architect", "veritas", "developer"])
    party.say("architect", "I would take PostgreSQL.")
    party.add_finding("veritas", "Login has no rate limit", severity="high")
    party.decide("Use PostgreSQL", {"architect": "ACID", "veritas": "fine, if we test backups"}, by="architect")
    party["veritas"].update_state({"reviewing": "login"})            # for veritas alone

Guarantees: a finding is stored before it is compared, so none is lost, even if several agents find the same at the same moment. Open
near-duplicate findings are merged into one that names all who found it (`discoverers`) and keeps every wording (`merged_from`);
if concurrent merges keep failing, they are related instead. A decision keeps what each agent said (`inputs`), who agreed
and who did not. Turns, decisions, findings and preferences are for all; states and private memories are their agent's.
Non-guarantees: similarity is that of words, see `smp_memory.lifecycle.consolidation`.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from smp_memory.agents.agent_memory import agent_in
from smp_memory.errors import Conflict, InvalidRecord, MemoryNotFound
from smp_memory.lifecycle.consolidation import find_duplicates
from smp_memory.model.times import to_text
from smp_memory.text.tokenizer import without_signs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.context.builder import Context
    from smp_memory.memory import Memory
    from smp_memory.model.record import Decision, Finding, Record, Turn
    from smp_memory.session import SessionMemory

PROPOSED, ACTIVE = "proposed", "active"
_MOST_ATTEMPTS = 20
_MOST_SIMILAR = 20  # findings that are compared with a new one


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
        """The names of the members."""
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
        """Add a turn to the conversation of the party."""
        return self[agent].add_turn(agent, content, **fields)

    def context(self, agent: str, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into this agent's prompt now."""
        return self[agent].context(task, topic, **options)

    # -- findings

    def add_finding(self, agent: str, finding: str, **fields: Any) -> Finding:
        """Add a finding of an agent; if it is merged with a near-duplicate, the merged finding is returned."""
        member = self[agent]
        fields.setdefault("discoverers", [agent])
        return merge_similar_findings(member, member.add_finding(finding, **fields))

    # -- decisions

    def propose(self, agent: str, decision: str, said: str | None = None, **fields: Any) -> Decision:
        """Propose a decision; others comment on it, then one agent concludes it."""
        inputs = [self._input(agent, said, None)] if said else []
        fields = {"status": PROPOSED, "inputs": inputs, "agents_involved": [agent], **fields}
        return self[agent].add_decision(decision, **fields)

    def comment(self, agent: str, decision: Any, said: str, *, agrees: bool | None = None) -> Decision:
        """Add an agent's comment to a proposed decision. Concurrent comments are all kept."""

        def add_comment(record: Record) -> dict[str, Any]:
            given = record.given
            changes: dict[str, Any] = {
                "inputs": [*_as_list(given.get("inputs")), self._input(agent, said, agrees)],
                "agents_involved": _with(given.get("agents_involved"), agent),
            }
            if agrees is not None:
                for field, applies in (("agreed_by", agrees), ("disagreed_by", not agrees)):
                    changes[field] = _with(given.get(field), agent) if applies else _without(given.get(field), agent)
            return changes

        return self._update_decision(agent, decision, add_comment)

    def conclude(self, agent: str, decision: Any, *, status: str = ACTIVE, **fields: Any) -> Decision:
        """Accept a decision, or reject it with `status="rejected"`; its inputs are kept."""
        return self._update_decision(
            agent, decision, lambda record: {"status": status, "concluded_by": agent, **fields}
        )

    def decide(
        self, decision: str, inputs: Mapping[str, str], *, by: str, disagreed: Iterable[str] = (), **fields: Any
    ) -> Decision:
        """Add a decision with the input of each agent and the agents that disagreed."""
        against = list(disagreed)
        for agent in (*inputs, *against, by):
            self[agent]  # raises for an agent that is not in the party
        involved = list(dict.fromkeys([by, *inputs, *against]))
        given = {
            "inputs": [self._input(agent, text, agent not in against) for agent, text in inputs.items()],
            "agents_involved": involved,
            "agreed_by": [agent for agent in involved if agent not in against],
            **({"disagreed_by": against} if against else {}),
            **fields,
        }
        return self[by].add_decision(decision, **given)

    def _input(self, agent: str, said: str | None, agrees: bool | None) -> dict[str, Any]:
        self[agent]  # raises for an agent that is not in the party
        fields: dict[str, Any] = {"agent": agent, "said": said, "at": to_text(self.session.memory.now())}
        return fields if agrees is None else {**fields, "agrees": agrees}

    def _update_decision(self, agent: str, decision: Any, change: Any) -> Decision:
        """Change the current revision of a decision; on a conflict read it again and retry."""
        member = self[agent]
        name = getattr(decision, "id", decision)
        for attempt in range(_MOST_ATTEMPTS):
            record = member.get(name)
            if record.type != "decision":
                raise InvalidRecord(f"{name}: is a {record.type}, not a decision.", field="id", id=name)
            try:
                changed: Decision = member.update(name, record.revision, **change(record))
                return changed
            except Conflict:
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
                _back_off(attempt)
        raise AssertionError("the last attempt returns or raises")

    def __repr__(self) -> str:
        return f"Party({', '.join(self._members)} in {self.session.id})"


def merge_similar_findings(member: AgentMemory, new: Finding) -> Finding:
    """Merge a new finding with its near-duplicates in the session; returns the merged finding, or the new one."""
    session, name = member._session, new.id
    others: list[Record] = []
    for attempt in range(_MOST_ATTEMPTS):
        current = member.find(name)
        if current is None or current.deleted:
            return _find_merged(member, new)
        hits = member.query(
            without_signs(current.text), types="finding", sessions=[session.id], limit=_MOST_SIMILAR, track_access=False
        )
        similar = [record for hit in hits if (record := member.find(hit.record.id)) is not None and record.id != name]
        groups = find_duplicates([current, *similar])
        group = next((each for each in groups if name in [record.id for record in each.records]), None)
        if group is None:
            return current  # type: ignore[return-value]
        others = [record for record in group.records if record.id != name]
        try:
            return session.merge(group, by=member.agent)  # type: ignore[return-value]
        except (Conflict, MemoryNotFound):  # another process merges at the same time
            _back_off(attempt)
    for record in others:
        session.relate(name, record.id, "relates_to", by=member.agent)
    return member.get(name)  # type: ignore[return-value]


def _back_off(attempt: int) -> None:
    """Wait for a random time, longer with every attempt, so that competing writers do not collide again."""
    time.sleep(random.uniform(0, 0.001 * (attempt + 1)))  # noqa: S311 - no secret


def _find_merged(member: AgentMemory, finding: Finding) -> Finding:
    """The finding that another process merged this one into, else this one."""
    for record in member.records("finding"):
        merged = _as_list(record.given.get("merged_from"))
        if any(isinstance(source, dict) and source.get("id") == finding.id for source in merged):
            return record  # type: ignore[return-value]
    return finding


def _with(names: Any, name: str) -> list[Any]:
    return list(dict.fromkeys([*_as_list(names), name]))


def _without(names: Any, name: str) -> list[Any] | None:
    return [each for each in _as_list(names) if each != name] or None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
