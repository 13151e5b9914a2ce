"""Give agents what they need. The ways to hand out memory, shared by a session and a store.

    memory.context("architect", task="choose a database")    what belongs into its prompt now
    session.agent("architect")                               the session as this agent may see it
    session.party(["architect", "veritas"])                  several agents at one table
    memory.global_memory                                     what holds in all sessions

The work is done in `smp_memory.context` and `smp_memory.agent_memory`, which is loaded when it is used.
"""

from __future__ import annotations

from smp_memory.import_lock import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import Any

    from smp_memory.agent_memory import AgentMemory
    from smp_memory.context.builder import Context
    from smp_memory.global_memory import GlobalMemory
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.party import Party
    from smp_memory.session import SessionMemory


class ContextMethods:
    """What a store hands to agents."""

    def context(
        self,
        agent: str | None = None,
        task: str | None = None,
        topic: str | None = None,
        *,
        session: str | SessionMemory | None = None,
        max_tokens: int = 1500,
        counter: Callable[[str], int] | None = None,
        turns: int = 20,
        at: datetime | str | None = None,
        track_access: bool = True,
    ) -> Context:
        """What an agent should have in its prompt now, best first, within so many tokens; see `smp_memory.context.builder`."""
        memory, own = self._recalled()
        with loading:
            from smp_memory.context.builder import context

        return context(
            memory,
            agent,
            task,
            topic,
            session=own if session is None else session,
            max_tokens=max_tokens,
            counter=counter,
            turns=turns,
            at=at,
            track_access=track_access,
        )

    def _recalled(self) -> tuple[Memory, SessionMemory | None]:
        """The store, and the session if it is one."""
        raise NotImplementedError


class StoreContextMethods(ContextMethods):
    """What only a store has: agents in any session, and what holds in all of them."""

    def agent(self, name: str, session: str | SessionMemory | None = None) -> AgentMemory:
        """A session as one agent may see it; without a session: the one that was written last."""
        with loading:
            from smp_memory.agent_memory import agent_in

        return agent_in(self._recalled()[0], name, session)

    @property
    def global_memory(self) -> GlobalMemory:
        """Preferences, learned patterns and the user's profile, for all sessions."""
        with loading:
            from smp_memory.global_memory import GlobalMemory

        return GlobalMemory(self._recalled()[0])

    def _recalled(self) -> tuple[Any, None]:
        return self, None


class SessionContextMethods(ContextMethods):
    """What only a session has: its agents."""

    def get_context(self, limit: int = 20) -> list[Record]:
        """The memories with the highest priority, so many of them. `context` gives text for a prompt instead."""
        session: Any = self
        found: list[Record] = session.query(sort="priority", limit=limit).records
        return found

    def agent(self, name: str) -> AgentMemory:
        """This session as one agent may see it; what it writes is attributed to it."""
        with loading:
            from smp_memory.agent_memory import agent_in

        memory, session = self._recalled()
        return agent_in(memory, name, session)

    def party(self, agents: Iterable[str]) -> Party:
        """Several agents at one table: what they find is merged, what they decide keeps who said what."""
        with loading:
            from smp_memory.party import Party

        memory, session = self._recalled()
        return Party(memory, session, agents)

    def _recalled(self) -> tuple[Memory, Any]:
        return self._memory, self

    _memory: Memory
