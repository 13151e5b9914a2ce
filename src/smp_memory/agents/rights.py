"""Write rights of an agent: it writes in its own name only, and changes only what it can see.

`AgentMemory`, its transactions, workflows, MACP and the MCP server all write through these checks.

Guarantees: every write is attributed to the agent. The state of another agent is never changed, not even a shared one. The error for
a change of a memory that the agent may not see is the same as for one that does not exist, and such a memory occupies neither a preference's
key nor an idempotency key: the agent's own is stored beside it. Checks come before the write; a
refused write has changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, NotAllowed
from smp_memory.model.types import KINDS
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.privacy.visibility import VISIBLE_TO_ALL
from smp_memory.search.records import find
from smp_memory.write.batch_resolver import HIGHEST
from smp_memory.write.operations import Add, Delete, Operation, Relate, Unrelate, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from smp_memory.errors import MemoryNotFound
    from smp_memory.model.record import Record
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.store.port import SessionStore

    Guard = Callable[
        [str, str], None
    ]  # called with the type, and the state's agent or the preference's key; raises if refused

_OWNER_FIELDS = frozenset(("author", "visibility", "agent"))


class AgentRights:
    """The checks of one agent's operations. Operations refer to it, because some checks need the session's lock."""

    def __init__(self, storage: SessionStore, agent: str | None, viewer: Viewer, guard: Guard | None = None) -> None:
        self._storage = storage
        self.agent = agent  # None: a caller without a name, which writes without an author
        self._viewer = viewer
        self._guard = guard

    def check(self, operation: Operation) -> None:
        """Check what can be checked before the lock; the rest is checked under the session's lock."""
        operation.rights = self
        if isinstance(operation, Add):
            self._check_new(operation)
        elif isinstance(operation, (Update, Delete)):
            if operation.by not in (None, self.agent):
                raise NotAllowed(f"by: {self._name} cannot write as {operation.by!r}.", field="by", agent=self.agent)
            record = self._find_visible(operation.target) if isinstance(operation.target, str) else None
            if record is not None:
                self._check_change(operation, record)
            if isinstance(operation, (Relate, Unrelate)) and isinstance(operation.other, str):
                self._find_visible(operation.other)

    def _rank(self, record: Record) -> int:
        """Of memories with the same key: 0 for those that do not exist for the agent, the highest for its own."""
        if not self._viewer.sees(record):
            return 0
        return HIGHEST if record.author == self.agent else 1

    def _check_change(self, operation: Operation, record: Record) -> None:
        """Refuse a change that the agent may not make."""
        if not self._viewer.sees(record):
            raise self._no_memory(record.id)
        kind, name = record.type, _guarded_name(record.type, record.given)
        is_state = KINDS[kind].is_named_by_agent
        owner = name if is_state else str(record.author or "")
        if is_state and owner != self.agent:
            raise self._foreign_state(owner)
        if isinstance(operation, Update) and isinstance(operation.changes, dict):
            self._check_changes(kind, owner, operation.changes)
        self._call_guard(kind, name)

    def _check_target(self, name: str, record: Record | None) -> None:
        """Refuse a relation or reference to a memory that does not exist or is not visible."""
        if record is None or not self._viewer.sees(record):
            raise self._no_memory(name)

    def _no_memory(self, id: str) -> MemoryNotFound:
        return memory_not_found(self._storage, id)

    def _check_new(self, operation: Add) -> None:
        type, data = operation.draft.kind, operation.draft.data
        kind = type.name
        author, role = data.get("author"), data.get("role")
        if type.is_named_by_agent and data.get("agent") != self.agent:
            raise self._foreign_state(data.get("agent"))
        if author != self.agent and not (type.is_turn and role in ("user", "system", "tool")):
            raise NotAllowed(f"author: {self._name} cannot write as {author!r}.", field="author", agent=self.agent)
        self._check_values(kind, data)
        self._call_guard(kind, _guarded_name(kind, data))
        if "relations" in data or "references" in data:
            operation.needs_histories = True

    def _check_values(self, kind: str, data: Mapping[str, Any]) -> None:
        """Check the values of a new memory or of a change."""
        if KINDS[kind].is_shared and data.get("visibility") not in VISIBLE_TO_ALL:
            raise InvalidRecord(
                f"visibility: a {kind} is for all agents of a session; use a learning or the agent's state for its own notes.",
                field="visibility",
            )

    @property
    def _name(self) -> str:
        return "a caller without a name" if self.agent is None else f"agent {self.agent!r}"

    def _foreign_state(self, owner: Any) -> NotAllowed:
        return NotAllowed(f"agent: {self._name} cannot write the state of {owner!r}.", field="agent", agent=self.agent)

    def _find_visible(self, target: str) -> Record | None:
        """The memory of a reference; it must exist and be visible. None: it is in another session, which a relation may name."""
        session, slash, id = target.rpartition("/")
        if slash and session != self._storage.session:
            return None
        record = find(self._storage, id)
        self._check_target(id, record)
        return record

    def _check_changes(self, kind: str, owner: str, changes: Mapping[str, Any]) -> None:
        aliases = KINDS[kind].aliases
        named = {aliases.get(name, name): value for name, value in changes.items()}
        for field in sorted(_OWNER_FIELDS.intersection(named)):
            if field != "visibility":
                raise NotAllowed(f"{field}: cannot be changed; it says whose memory this is.", field=field)
            if owner != self.agent:
                raise NotAllowed(f"{field}: only the author of a memory can change who sees it.", field=field)
        self._check_values(kind, named)

    def _call_guard(self, kind: str, name: str) -> None:
        if self._guard is not None:
            self._guard(kind, name)


def _guarded_name(kind: str, data: Mapping[str, Any]) -> str:
    """The name that a workflow's declaration may contain: the agent of a state, the key of a preference."""
    facts = KINDS[kind]
    field = "agent" if facts.is_named_by_agent else "key" if facts.is_named_by_key else ""
    return str(data.get(field) or "") if field else ""
