"""The context manager of MACP, over a store.

    manager = ContextManager(memory)
    for message in manager.answer(text_or_dictionary):      the answer, then events for all
        send(message)

    REQUEST_CONTEXT     RESPONSE with the shared context as the asking agent may see it, and the same as text for a prompt
    UPDATE_CONTEXT      its updates are stored in one transaction; SESSION_CONTEXT_UPDATED, FINDING_DISCOVERED for all,
                        about memories that everybody may see
    SUMMARIZE_CONTEXT   RESPONSE with a summary of the session
    any RESPONSE        its `agent_state`, decisions, findings and learnings are stored (`update_on_response`)
    any other message   is returned with `payload.shared_context`: what all may see (`inject_on_message`)

The path of an update says which memory it becomes:

    conversation_history                      a turn                {"content": "…", "speaker": "veritas"}
    working_memory.key_decisions              a decision            {"decision": "…", "agreed_by": […]}
    working_memory.open_questions             an open finding of the category `question`
    agent_contexts.<self>.findings            a finding; also .decisions, .learnings
    agent_contexts.<self>[.any.path]          the agent's own state
    decisions, findings, learnings, preferences    the same, without a path

Guarantees: input never raises: a message that is invalid or not allowed, such as an update of another agent's context, is answered
by an ERROR that gives the reason, and nothing was written. The same message again is answered again and writes nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.agents.agent_memory import agent_in
from smp_memory.agents.party import merge_similar_findings
from smp_memory.context.builder import MAX_TOKENS, MOST_TURNS
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import NotAllowed, SMPError
from smp_memory.integrations.bmad.macp_messages import (
    ERROR,
    EVENT,
    EVERYBODY,
    MANAGER,
    REQUEST,
    RESPONSE,
    BadMessage,
    Message,
    MessageWriter,
    read,
)
from smp_memory.model.record import copied
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_text
from smp_memory.privacy.visibility import Viewer

if TYPE_CHECKING:
    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

REQUEST_CONTEXT, UPDATE_CONTEXT, SUMMARIZE_CONTEXT = "REQUEST_CONTEXT", "UPDATE_CONTEXT", "SUMMARIZE_CONTEXT"
_TURNS = 20
_MOST = 50
_MOST_TOKENS = 1_000_000


class ContextManager:
    """Answers messages of agents from a store, and stores their updates."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def answer(self, given: Any) -> list[dict[str, Any]]:
        """The messages to send in answer to this one: text, bytes or a dictionary."""
        message: Message | None = None
        writer = self._writer()
        try:
            message = read(given)
            return self._handle(message, writer)
        except BadMessage as error:
            problem = {"code": "E_INVALID_FORMAT", "field": error.field, "message": str(error)}
            return [writer.write(message, ERROR, "PROCESSING_FAILED", {"error": problem, "reason": str(error)})]
        except SMPError as error:
            intent = "AUTHORIZATION_DENIED" if isinstance(error, NotAllowed) else "PROCESSING_FAILED"
            field = error.details.get("field")
            problem = {"code": error.code, "field": str(field or ""), "message": error.message}
            return [writer.write(message, ERROR, intent, {"error": problem, "reason": error.message})]

    def _writer(self) -> MessageWriter:
        from uuid import uuid4

        return MessageWriter(to_text(self._memory.now()), lambda: str(uuid4()))

    def _handle(self, message: Message, writer: MessageWriter) -> list[dict[str, Any]]:
        session = self._memory.session(message.session)
        if message.type in (ERROR, "ACK"):
            return []
        if message.type in (RESPONSE, EVENT) and message.source == MANAGER:
            return []
        member = agent_in(self._memory, message.source, session)
        if message.intent == REQUEST_CONTEXT:
            content = self._select_parts(self._shared_context(member, message.content), message.refs)
            return [writer.write(message, RESPONSE, "PROVIDE_INPUT", content)]
        if message.intent == SUMMARIZE_CONTEXT:
            return [writer.write(message, RESPONSE, "PROVIDE_INPUT", {"summary": str(member.summarize())})]
        updates = Updates(message.source)
        if message.intent == UPDATE_CONTEXT:
            updates.add_updates(message.content.get("updates"))
        elif message.type == RESPONSE:
            updates.add_new_memories(message.content)
        else:
            return [self._inject_context(message)]
        return self._store_updates(message, writer, member, updates)

    # -- inject_on_message

    def _inject_context(self, message: Message) -> dict[str, Any]:
        """The message with the shared context for its receiver. The sender sees it, too, so it holds only what all may see."""
        member = agent_in(self._memory, message.source, message.session)
        shared = self._shared_context(member, message.content, for_all=True)
        wire = dict(message.wire)
        wire["payload"] = {**message.wire["payload"], "shared_context": shared}
        return wire

    def _shared_context(self, member: AgentMemory, content: dict[str, Any], *, for_all: bool = False) -> dict[str, Any]:
        """The shared context, as this agent may see it, or as all may."""
        viewer = Viewer(None if for_all else member.agent)
        info = member.info
        topic = content.get("topic") if isinstance(content.get("topic"), str) else None
        max_tokens, turns = _number(content, "max_tokens", MAX_TOKENS), _number(content, "turns", _TURNS)
        decisions = [record for record in self._relevant(member, "decision", topic) if viewer.sees(record)]
        findings = [record for record in self._relevant(member, "finding", topic) if viewer.sees(record)]
        state = None if for_all else member.state
        context = self._memory.context(
            viewer.agent, _task(content), topic, session=member.id, max_tokens=max_tokens, turns=turns
        )
        return {
            "session_id": member.id,
            "created_at": info.to_dict()["created"],
            "last_updated": to_text(self._memory.now()),
            "project": {"name": info.project, **info.context},
            "conversation_history": [
                _turn(record) for record in member.conversation_context(turns) if viewer.sees(record)
            ],
            "agent_contexts": {member.agent: state.state} if state is not None else {},
            "working_memory": {
                "key_decisions": [_decision(record) for record in decisions],
                "open_questions": [_question(record) for record in findings if record.category == QUESTION],
            },
            "active_findings": [_finding(record) for record in findings if record.category != QUESTION],
            "user_preferences": [
                {"key": record.key, "value": record.value, "preference": record.preference, "id": record.ref}
                for record in member.user_preferences()
                if viewer.sees(record)
            ],
            "text": context.text,
        }  # fmt: skip

    def _relevant(self, member: AgentMemory, type: str, topic: str | None) -> list[Any]:
        """Unsettled records about the topic or, without one, the newest of the session."""
        if topic:
            records = member.relevant_decisions(topic) if type == "decision" else member.relevant_findings(topic)
            visible = VisibleSessions(self._memory.store, member.id)
            records = [record for record in records if visible.allows(record.session)]
        else:
            records = member.records(type)[-_MOST:]
        return [record for record in records if not is_settled(record)]

    @staticmethod
    def _select_parts(shared: dict[str, Any], refs: list[str]) -> dict[str, Any]:
        """Only the parts that were asked for, such as `working_memory.key_decisions`."""
        if not refs:
            return shared
        chosen: dict[str, Any] = {"session_id": shared["session_id"]}
        for ref in refs:
            value: Any = shared
            for part in ref.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is None:
                known = ", ".join(shared)
                raise BadMessage("payload.context_refs", f"{ref[:80]!r} is not a part of the context; it has {known}.")
            chosen[ref] = value
        return chosen

    # -- update_on_response

    def _store_updates(
        self, message: Message, writer: MessageWriter, member: AgentMemory, updates: Updates
    ) -> list[dict[str, Any]]:
        if not updates.adds and not updates.states:
            return []
        known = {record.id for record in member.records("finding")}
        records = updates.write(member, message.message_id)
        new = [record for record in records if record.type == "finding" and record.id not in known]
        merged = {record.id: merge_similar_findings(member, record) for record in new}  # type: ignore[arg-type]
        written = [merged.get(record.id, record) for record in records]
        changed = {"paths": updates.paths, "ids": [record.id for record in written], "by": message.source}
        everybody = Viewer(None)
        public = [number for number, record in enumerate(written) if everybody.sees(record)]
        answers = []
        if public:
            ids = [written[number].id for number in public]
            content = {"paths": updates.paths_of(public), "ids": ids, "by": message.source}
            answers.append(writer.write(message, EVENT, "SESSION_CONTEXT_UPDATED", content, target=EVERYBODY))
        for record in new:
            if everybody.sees(merged[record.id]):
                content = {**_finding(merged[record.id]), "discovered_by": message.source}
                answers.append(writer.write(message, EVENT, "FINDING_DISCOVERED", content, target=EVERYBODY))
        if message.type == REQUEST:
            answers.insert(0, writer.write(message, RESPONSE, "TASK_COMPLETE", {"status": "stored", **changed}))
        return answers


def _number(content: dict[str, Any], name: str, default: int) -> int:
    value = content.get(name)
    return min(max(value, 0), MOST_TURNS if name == "turns" else _MOST_TOKENS) if type(value) is int else default


def _task(content: dict[str, Any]) -> str | None:
    """The first text in a message that can serve as the task."""
    for name in ("task", "query", "question", "text", "content", "description", "summary"):
        if isinstance(content.get(name), str) and content[name].strip():
            return str(content[name])
    return None


def _turn(record: Record) -> dict[str, Any]:
    data = record.given
    return {
        "turn_id": record.id,
        "speaker": record.author or data.get("role"),
        "content": data.get("content"),
        "timestamp": to_text(record.created),
        "type": data.get("kind", "message"),
    }


def _decision(record: Record) -> dict[str, Any]:
    data = record.given
    return {
        "id": record.ref,
        "decision": data.get("decision"),
        "rationale": data.get("rationale"),
        "made_by": record.author,
        "agreed_by": data.get("agreed_by", []),
        "timestamp": to_text(record.created),
    }


def _question(record: Record) -> dict[str, Any]:
    return {"id": record.ref, "question": record.text, "raised_by": record.author, "status": "open"}


def _finding(record: Record) -> dict[str, Any]:
    data = record.given
    return {
        "id": record.ref,
        "finding": data.get("finding"),
        "severity": data.get("severity"),
        "discovered_by": record.author,
        "timestamp": to_text(record.created),
    }


# -- the updates of a message as writes of one agent

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
