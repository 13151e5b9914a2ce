"""Turn the updates of a message into writes of one agent: paths of the shared context become memories. Pure but for `write`.

    conversation_history                      a turn                {"content": "…", "speaker": "veritas"}
    working_memory.key_decisions              a decision            {"decision": "…", "agreed_by": […]}
    working_memory.open_questions             an open finding of the category `question`
    agent_contexts.<self>.findings            a finding; also .decisions, .learnings
    agent_contexts.<self>[.any.path]          the agent's own state
    decisions, findings, learnings, preferences    the same, without a path

Guarantees: an invalid update is a `BadMessage` before anything is written; one of another agent's context
is `NotAllowed`. All updates of a message are one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import NotAllowed
from smp_memory.integrations.macp.messages import BadMessage
from smp_memory.model.record import copied

if TYPE_CHECKING:
    from smp_memory.agent_memory import AgentMemory
    from smp_memory.model.record import Record

QUESTION = "question"
_SEGMENTS = {
    "conversation_history": "conversation",
    "conversation": "conversation",
    "turns": "conversation",
    "key_decisions": "decision",
    "decisions": "decision",
    "open_questions": QUESTION,
    "findings": "finding",
    "learnings": "learning",
    "learned_patterns": "learning",
    "preferences": "preference",
    "user_preferences": "preference",
}
_TEXTS = {"conversation": "content", "decision": "decision", QUESTION: "finding", "finding": "finding", "learning": "learning"}  # fmt: skip
_IGNORED_FIELDS = {"speaker": None, "turn_id": None, "timestamp": None, "id": None, "made_by": None, "raised_by": None,
            "discovered_by": None, "author": None, "agent_id": None, "by": None}  # fmt: skip
_OPERATIONS = ("append", "set", "merge", "replace", "update", "add")


class Updates:
    """The writes of one message."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.adds: list[tuple[str, dict[str, Any]]] = []
        self.states: list[tuple[list[str], str, Any]] = []  # path inside the state, operation, value
        self.paths: list[str] = []
        self._add_paths: list[str] = []  # as long as `adds`

    def add_updates(self, updates: Any) -> None:
        """Add the `updates` of UPDATE_CONTEXT."""
        if not isinstance(updates, list) or not updates:
            raise BadMessage("content.updates", "must be a list of {path, operation, value}, and not empty.")
        for number, update in enumerate(updates):
            location = f"content.updates[{number}]"
            if not isinstance(update, dict) or not isinstance(update.get("path"), str) or "value" not in update:
                raise BadMessage(location, "must have a path, an operation and a value.")
            operation = str(update.get("operation", "append")).lower()
            if operation not in _OPERATIONS:
                raise BadMessage(f"{location}.operation", f"{operation[:40]!r} is not one of {', '.join(_OPERATIONS)}.")
            self._add_update(location, update["path"], operation, update["value"])

    def add_new_memories(self, content: dict[str, Any]) -> None:
        """Add the memories of a response: `agent_state`, and lists of decisions, findings, learnings, preferences."""
        memories = content.get("new_memories")
        given = {**content, **(memories if isinstance(memories, dict) else {})}
        for name in ("decisions", "findings", "learnings", "preferences", "open_questions"):
            if isinstance(given.get(name), list):
                self.paths.append(name)
                for number, value in enumerate(given[name]):
                    self._add(f"content.{name}[{number}]", _SEGMENTS[name], value)
        state = given.get("agent_state")
        if state is not None:
            self.states.append(([], "merge" if isinstance(state, dict) else "set", state))
            self.paths.append(f"agent_contexts.{self.agent}")

    def _add_update(self, location: str, path: str, operation: str, value: Any) -> None:
        segments = [part for part in path.split(".") if part]
        if not segments:
            raise BadMessage(f"{location}.path", "is empty.")
        self.paths.append(path)
        if segments[0] in ("agent_contexts", "agent_states"):
            self._add_own_update(location, segments[1:], operation, value)
        elif segments[0] == "working_memory" and len(segments) == 2 and segments[1] in _SEGMENTS:
            self._add(location, _SEGMENTS[segments[1]], value)
        elif len(segments) == 1 and segments[0] in _SEGMENTS:
            self._add(location, _SEGMENTS[segments[0]], value)
        else:
            raise BadMessage(
                f"{location}.path",
                f"{path[:80]!r} is not a part of the context that can be written: conversation_history, "
                "working_memory.key_decisions, working_memory.open_questions, agent_contexts.<agent>, "
                "decisions, findings, learnings, preferences.",
            )

    def _add_own_update(self, location: str, segments: list[str], operation: str, value: Any) -> None:
        if not segments:
            raise BadMessage(f"{location}.path", "name the agent: agent_contexts.<agent>.")
        if segments[0] != self.agent:
            raise NotAllowed(
                f"{location}.path: agent {self.agent!r} cannot write the context of {segments[0]!r}.",
                agent=self.agent,
                field="path",
            )
        if len(segments) == 2 and segments[1] in _SEGMENTS and operation in ("append", "add"):
            self._add(location, _SEGMENTS[segments[1]], value)
        else:
            self.states.append((segments[1:], operation, value))

    def _add(self, location: str, kind: str, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._add(location, kind, item)
            return
        if isinstance(value, str):
            value = {_TEXTS.get(kind, "preference"): value}
        if not isinstance(value, dict):
            raise BadMessage(f"{location}.value", f"must be an object or text, not {type(value).__name__}.")
        fields = {name: item for name, item in value.items() if name not in _IGNORED_FIELDS and name != "type"}
        if kind == "conversation":
            fields = {"content": value.get("content", value.get("message")), "role": self.agent}
            if value.get("speaker") in ("user", "system", "tool"):
                fields["role"] = value["speaker"]
        elif kind == QUESTION:
            fields = {**fields, "finding": value.get("question", value.get("finding")), "category": QUESTION}
            fields.pop("question", None)
        self.adds.append(("finding" if kind == QUESTION else kind, fields))
        self._add_paths.append(self.paths[-1])

    def paths_of(self, positions: list[int]) -> list[str]:
        """The paths of some of the records that `write` returned. The agent's state, the last one, has all other paths."""
        adds = {self._add_paths[number] for number in positions if number < len(self.adds)}
        with_state = any(number >= len(self.adds) for number in positions)
        new = set(self._add_paths)
        return [path for path in self.paths if path in adds or (with_state and path not in new)]

    # -- writing

    def write(self, member: AgentMemory, key: str) -> list[Record]:
        """Store all writes in one transaction. A repeated message writes nothing again."""
        written: list[Any] = []
        with member.transaction() as transaction:
            for number, (kind, fields) in enumerate(self.adds):
                written.append(transaction.add(kind, {**fields, "idempotency_key": _key(self.agent, key, number)}))
            if self.states:
                before = member.state
                state = copied(before.state) if before is not None else {}
                for path, operation, value in self.states:
                    state = _apply(state, path, operation, value)
                written.append(transaction.update_state(state))
        return [operation.record for operation in written]


def _key(agent: str, message: str, number: int) -> str:
    """The idempotency key of one update. Agents choose the ids of their messages, and two may choose the same."""
    from hashlib import sha256

    return "macp " + sha256(f"{len(agent)} {agent} {message} {number}".encode("utf-8", "surrogatepass")).hexdigest()


def _apply(state: Any, path: list[str], operation: str, value: Any) -> Any:
    """A state with a value set, appended or merged at a path."""
    if path:
        inner = dict(state) if isinstance(state, dict) else {}
        inner[path[0]] = _apply(inner.get(path[0]), path[1:], operation, value)
        return inner
    if operation in ("append", "add"):
        return [*(state if isinstance(state, list) else [] if state in (None, {}) else [state]), value]
    if operation in ("merge", "update") and isinstance(state, dict) and isinstance(value, dict):
        return {**state, **value}
    return value
