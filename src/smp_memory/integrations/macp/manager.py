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

Guarantees: input never raises: a message that is invalid or not allowed is answered by
an ERROR that gives the reason, and nothing was written. The same message again is answered again and writes nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.agent_memory import agent_in
from smp_memory.context.builder import MAX_TOKENS, MOST_TURNS
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import NotAllowed, SMPError
from smp_memory.integrations.macp.messages import (
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
from smp_memory.integrations.macp.updates import QUESTION, Updates
from smp_memory.model.times import to_text
from smp_memory.privacy.visibility import Viewer

if TYPE_CHECKING:
    from smp_memory.agent_memory import AgentMemory
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
        from smp_memory.policies.statuses import is_settled

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
        from smp_memory.party import merge_similar_findings

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
