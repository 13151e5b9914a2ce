"""Write rights of an agent: it writes in its own name only, and changes only what it can see.

`AgentMemory`, its transactions, workflows, MACP and the MCP server all write through the checks of this module.

Guarantees: every write is attributed to the agent. The state of another agent is never changed, not even a shared one. A change of a memory that the agent may not see is refused in the same
words as one of a memory that is not there. Checks come before the write; a refused write has changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp.agents.visibility import FOR_ALL
from smp.errors import DuplicateId, InvalidRecord, MemoryNotFound, NotAllowed
from smp.model.types import KINDS, kind_of
from smp.write.batch import Add, Change, Delete, Relate, Wish
from smp.writing import WritingFor, each_of, given_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smp.agents.visibility import Viewer
    from smp.model.record import AgentState, Record

    Guard = Callable[[str, str], None]  # told the kind, and whose state or which preference; raises if it must not be

_SHARED_KINDS = ("conversation", "preference", "summary")  # never one agent's own
_OWNERS_FIELDS = frozenset(("author", "visibility", "agent"))


class AgentWriting(WritingFor):
    """The ways to write, as one agent."""

    agent: str | None  # None: a caller without a name, which writes without an author
    _viewer: Viewer
    _guard: Guard | None = None

    @property
    def _author(self) -> str | None:  # type: ignore[override]
        return self.agent

    def update_state(self, state: Any, **fields: Any) -> AgentState:
        """Replace what the agent knows about its own work; others do not see it."""
        if self.agent is None:
            raise NotAllowed("agent: a caller without a name has no state of its own.", field="agent")
        return self.update_agent_state(self.agent, state, **fields)

    # -- may it?

    def _check(self, wish: Wish) -> None:
        if isinstance(wish, Add):
            self._check_new(wish)
            return
        if isinstance(wish, (Change, Delete)):
            if wish.by not in (None, self.agent):
                raise NotAllowed(f"by: {self._name} cannot write as {wish.by!r}.", field="by", agent=self.agent)
            kind, owner, name = self._check_target(wish.target)
            if kind == "agent_state" and owner != self.agent:
                raise self._not_its_state(owner)
            if isinstance(wish, Relate):
                self._check_target(wish.other)
            elif isinstance(wish, Change) and isinstance(wish.changes, dict):
                self._check_changes(kind, owner, wish.changes)
            self._ask_guard(kind, name)

    def _check_new(self, wish: Add) -> None:
        kind, data = wish.draft.kind.name, wish.draft.data
        author, role = data.get("author"), data.get("role")
        if kind == "agent_state" and data.get("agent") != self.agent:
            raise self._not_its_state(data.get("agent"))
        if author != self.agent and not (kind == "conversation" and role in ("user", "system", "tool")):
            raise NotAllowed(f"author: {self._name} cannot write as {author!r}.", field="author", agent=self.agent)
        self._check_values(kind, data)
        self._ask_guard(kind, _name_in(kind, data))

    def _check_values(self, kind: str, data: Mapping[str, Any]) -> None:
        """Checks of new values that hold for a new memory and for a change of one."""
        if kind == "preference" and "key" in data and not self._may_set(str(data["key"])):
            raise NotAllowed("key: this preference cannot be set by an agent.", field="key")
        if kind in _SHARED_KINDS and data.get("visibility") not in FOR_ALL:
            raise InvalidRecord(
                f"visibility: a {kind} is for all agents of a session; use a learning or the agent's state for its own notes.",
                field="visibility",
            )

    @property
    def _name(self) -> str:
        return "a caller without a name" if self.agent is None else f"agent {self.agent!r}"

    def _not_its_state(self, owner: Any) -> NotAllowed:
        return NotAllowed(f"agent: {self._name} cannot write the state of {owner!r}.", field="agent", agent=self.agent)

    def _may_set(self, key: str) -> bool:
        """Whether the preference with this key, if there is one, is for all."""
        name = self._session._files.view(lambda fold: fold.preferences.get(key))
        record = self._session.find(name) if name else None
        return record is None or self._viewer.sees(record)

    def _check_target(self, target: Any) -> tuple[str, str, str]:
        """The kind of what is to be changed, whose it is and its name; it must be there for this agent."""
        if isinstance(target, Wish):
            draft = getattr(target, "draft", None)
            return (draft.kind.name, self.agent or "", _name_in(draft.kind.name, draft.data)) if draft else ("", "", "")
        place, slash, id = target.rpartition("/")
        if slash and place != self._session.id:
            return "", "", ""  # in another session; only a relation may point there
        record = self._session.find(id)
        if record is None or not self._viewer.sees(record):
            raise MemoryNotFound(f"No memory {id} in session {self._session.id}.", id=id, session=self._session.id)
        name = _name_in(record.type, record.given)
        return record.type, name if record.type == "agent_state" else str(record.author or ""), name

    def _check_changes(self, kind: str, owner: str, changes: Mapping[str, Any]) -> None:
        aliases = KINDS[kind].aliases if kind else {}
        named = {aliases.get(name, name): value for name, value in changes.items()}
        for field in sorted(_OWNERS_FIELDS.intersection(named)):
            if field != "visibility":
                raise NotAllowed(f"{field}: cannot be changed; it says whose memory this is.", field=field)
            if owner != self.agent:
                raise NotAllowed(f"{field}: only the author of a memory can change who sees it.", field=field)
        self._check_values(kind, named)

    def _ask_guard(self, kind: str, name: str) -> None:
        if self._guard is not None and kind:
            self._guard(kind, name)

    # -- doing it

    def _do(self, wish: Wish, doing: str) -> Any:
        self._check(wish)
        return self._seen(self._session._do(wish, doing))

    def _seen(self, record: Record) -> Record:
        """What a write gives back; a repeated idempotency key must not give away another's memory."""
        if self._viewer.sees(record):
            return record
        raise DuplicateId("idempotency_key: is taken in this session; use another one.", field="idempotency_key")

    def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file; see `SessionMemory.add_many`."""
        wishes: list[Wish] = []
        item: Any
        for item in each_of(items):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                raise InvalidRecord("items: each must be a type and its data, (type, data).", field="items")
            kind = kind_of(item[0])
            wish = self._addition(kind, given_fields(kind, item[1]))
            self._check(wish)
            wishes.append(wish)
        self._session._commit(wishes, f"adding {len(wishes)} memories", atomic=False)
        return [self._seen(wish.record) for wish in wishes if wish.record is not None]


class AgentTransaction(AgentWriting):
    """Writes of one agent that are stored together when the `with` block ends."""

    def __init__(self, writer: AgentWriting) -> None:
        self.agent = writer.agent
        self._session = writer._session
        self._viewer = writer._viewer
        self._guard = writer._guard
        self._inner = writer._session.transaction()

    def _do(self, wish: Wish, doing: str) -> Any:
        self._check(wish)
        return self._inner._do(wish, doing)

    def commit(self) -> None:
        self._inner.commit()

    def rollback(self) -> None:
        self._inner.rollback()

    def __enter__(self) -> AgentTransaction:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._inner.__exit__(kind, error, trace)


def _name_in(kind: str, data: Mapping[str, Any]) -> str:
    """What a workflow may name beside the kind: whose state it is, which preference."""
    field = {"agent_state": "agent", "preference": "key"}.get(kind)
    return str(data.get(field) or "") if field else ""
