"""Messages of the Multi-Agent Collaboration Protocol: two variants, read as one, and written in the variant of the question.

    A   header{message_id, correlation_id, session_id}  routing{source_agent, target_agent}  classification{type}
        payload{intent, content, context_refs}
    B   header{message_id, conversation_id}  routing{source, destination, pattern}  payload{type, content}
        tracing{baggage{session_id}}

Guarantees: any input is accepted; what is not a message is a `BadMessage` that names the wrong part. An answer is in
the variant of the question. Nothing here touches a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.model import ids

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = "A", "B"
VERSION = "1.0"
MANAGER = "_context_manager"
EVERYBODY = "*"
REQUEST, RESPONSE, EVENT, ERROR = "REQUEST", "RESPONSE", "EVENT", "ERROR"
TYPES = (REQUEST, RESPONSE, "BROADCAST", EVENT, "ACK", ERROR)
# Types of variant B and the intents of variant A that they stand for.
_INTENTS = {
    "CONTEXT_REQUEST": "REQUEST_CONTEXT",
    "GET_CONTEXT": "REQUEST_CONTEXT",
    "CONTEXT_UPDATE": "UPDATE_CONTEXT",
    "CONTEXT_SUMMARY": "SUMMARIZE_CONTEXT",
}
LIMIT_BYTES = 4 << 20


class BadMessage(Exception):
    """The input is not a message: the wrong part, and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Message:
    """A message of either variant."""

    __slots__ = ("content", "intent", "message_id", "refs", "session", "source", "target", "tracing", "type", "variant", "wire")  # fmt: skip

    def __init__(self, wire: dict[str, Any]) -> None:
        self.wire = wire
        header, routing, payload = (_part(wire, name) for name in ("header", "routing", "payload"))
        classification = _part(wire, "classification", needed=False)
        tracing = _part(wire, "tracing", needed=False)
        self.tracing = tracing
        self.variant = B if "conversation_id" in header or "source" in routing else A
        self.message_id = _text(header, "header", "message_id")
        if self.variant == A:
            self.session = _text(header, "header", "session_id")
            self.source = _text(routing, "routing", "source_agent")
            self.target = _text(routing, "routing", "target_agent", EVERYBODY)
            self.type = _text(classification, "classification", "type", REQUEST).upper()
            self.intent = _text(payload, "payload", "intent").upper()
        else:
            baggage = _part(tracing, "baggage", needed=False)
            self.session = str(baggage.get("session_id") or _text(header, "header", "conversation_id"))
            self.source = _text(routing, "routing", "source")
            self.target = _text(routing, "routing", "destination", EVERYBODY)
            payload_type = _text(payload, "payload", "type").upper()
            if payload_type in TYPES:
                self.type = payload_type
            else:
                self.type = _text(classification, "classification", "type", REQUEST).upper()
            self.intent = str(payload.get("intent") or payload_type).upper()
        self.intent = _INTENTS.get(self.intent, self.intent)
        if self.type not in TYPES:
            raise BadMessage("classification.type", f"{self.type[:40]!r} is not one of {', '.join(TYPES)}.")
        for field, name in (("session_id", self.session), ("source", self.source)):
            if not ids.is_valid(name, ids.LIMIT - len(ids.STATE_PREFIX) if field == "source" else ids.LIMIT):
                raise BadMessage(field, f"{name[:80]!r} is not an id: letters, digits, _ and - only.")
        content = payload.get("content")
        self.content: dict[str, Any] = content if isinstance(content, dict) else {"text": content} if content else {}
        refs = payload.get("context_refs")
        self.refs = [ref for ref in refs if isinstance(ref, str)] if isinstance(refs, list) else []


def read(given: Any) -> Message:
    """Read a message from a dictionary, JSON text or its bytes; also inside `{"message": …}`."""
    import json

    try:
        if isinstance(given, (str, bytes, bytearray)):
            if len(given) > LIMIT_BYTES:
                raise BadMessage("message", f"larger than {LIMIT_BYTES:,} bytes.")
            given = json.loads(given)
        json.dumps(
            given, ensure_ascii=False, allow_nan=False
        ).encode()  # fails for lone surrogates, which cannot be stored
    except (ValueError, TypeError, RecursionError) as error:
        raise BadMessage("message", f"not JSON: {error}") from None
    if isinstance(given, dict) and isinstance(given.get("message"), dict):
        given = given["message"]
    if not isinstance(given, dict):
        raise BadMessage("message", "must be an object with header, routing and payload.")
    return Message(given)


def _part(wire: dict[str, Any], name: str, *, needed: bool = True) -> dict[str, Any]:
    part = wire.get(name)
    if part is None and not needed:
        return {}
    if not isinstance(part, dict):
        raise BadMessage(name, "is missing." if part is None else "must be an object.")
    return part


def _text(part: dict[str, Any], part_name: str, name: str, default: str | None = None) -> str:
    value = part.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        raise BadMessage(f"{part_name}.{name}", "is missing." if value is None else "must be text, and not empty.")
    return value


# -- answering


class MessageWriter:
    """Writes messages in the variant of the one they answer; ids and time are passed in."""

    def __init__(self, now: str, new_id: Callable[[], str]) -> None:
        self._now = now
        self._new_id = new_id

    def write(
        self, to: Message | None, type: str, intent: str, content: dict[str, Any], *, target: str | None = None
    ) -> dict[str, Any]:
        """An answer to a message; without one, because it could not be read, in variant A."""
        session = to.session if to is not None else None
        receiver = target or (to.source if to is not None else EVERYBODY)
        answered = to.message_id if to is not None else None
        if to is not None and to.variant == B:
            return {
                "header": {
                    "message_id": f"msg-{self._new_id()}",
                    "conversation_id": to.wire["header"].get("conversation_id", session),
                    "correlation_id": answered,
                    "timestamp": self._now,
                    "version": VERSION,
                },
                "routing": {"source": MANAGER, "destination": receiver, "pattern": "direct" if target is None else "broadcast"},
                "payload": {"type": type.lower(), "intent": intent, "content": content},
                **({"tracing": to.tracing} if to.tracing else {}),
            }  # fmt: skip
        return {
            "header": {
                "message_id": self._new_id(),
                "correlation_id": answered,
                "session_id": session,
                "timestamp": self._now,
                "version": VERSION,
            },
            "routing": {"source_agent": MANAGER, "target_agent": receiver, "reply_to": answered},
            "classification": {
                "type": type,
                "pattern": "FIRE_AND_FORGET" if type == EVENT else "SYNC",
                "priority": "NORMAL",
            },
            "payload": {"intent": intent, "content": content, "context_refs": []},
        }
