"""JSON values and messages of frameworks as the fields of memories, and back.

A message comes back equal, except for secrets: they are redacted. Three forms:

    text and `exact`     most messages: the text is searched, the rest of the message stands beside it
    `opaque`             as one JSON text, already redacted: messages with images and other data in base64, which redaction could damage by
                         chance; with recalled memories, which are not stored again as text; with text that is not valid Unicode; nested
                         too deeply for a field
    parts                the same for a message that is larger than a memory may be: the JSON text in pieces, each a memory of its own,
                         which is deleted, restored and erased with the turn
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from smp_memory.errors import InvalidRecord
from smp_memory.lifecycle.message_parts import part_ids, parts_of
from smp_memory.model.entry import DEPTH_LIMIT, INTEGER_BITS_LIMIT
from smp_memory.model.ids import LIMIT, sha256_hex
from smp_memory.privacy.fence import MARK, strip, with_placeholders
from smp_memory.write.content_blocks import is_message, turn_fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction

_TEXT_FIELDS = ("text", "content", "memory", "data")  # the text of a value, in this order
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
PART_BYTES = 768 << 10  # of a JSON text; a memory may have 1 MiB with all its fields
_FIELDS_BYTES = PART_BYTES // 4  # a message of more characters may need more bytes than a memory has
_SHORT_CHARACTERS = 64 << 10  # of the readable text of a message that is stored as JSON
_BLOB_CHARACTERS = 512  # of a text in base64, from which on it counts as data: no key is that long
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="
_ESCAPED_MARK = MARK.replace("-", "\\u002d")  # the same in JSON
_SPARE_LEVELS = 2  # `exact`, and an object in it


# -- values


def slug_of(text: str) -> str:
    words = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower()).split("-")
    return "-".join(filter(None, words))


def split(value: Any) -> tuple[str, dict[str, Any]]:
    """The readable text of a JSON value, and the fields that hold the rest of it. What SMP recalled is not stored again."""
    value = with_placeholders(value)
    for field in _TEXT_FIELDS if isinstance(value, dict) else ():
        text = value.get(field)
        if isinstance(text, str) and text.strip():
            rest = {**value, field: None}
            return text, {"exact": rest if len(rest) > 1 else None, "text_field": field}
    if isinstance(value, str) and value.strip():
        return value, {"exact": None, "text_field": None}
    return _json(value), {"exact": {"value": value}, "text_field": None}


def _json(value: Any) -> str:
    is_text = isinstance(value, str) and value.strip()
    return value if is_text else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def joined(text: str, record: Record) -> Any:
    """The value that `split` divided."""
    exact, field = record.get("exact"), record.get("text_field")
    if field is not None:
        return {**(exact or {}), field: text}
    return exact["value"] if exact is not None else text


# -- messages


class MessageTurn:
    """A message on its way into a session: the fields of its turn, and the message if they do not hold all of it."""

    def __init__(self, fields: dict[str, Any], message: Any = None) -> None:
        self.fields = fields
        self.message = message

    def add_to(self, tx: Transaction, session: SessionMemory) -> None:
        for kind, fields in self.memories(session):
            tx.add(kind, fields)

    def memories(self, session: SessionMemory) -> Iterator[tuple[str, dict[str, Any]]]:
        """The memories to write: parts, then the turn."""
        if self.message is None:
            yield "turn", self.fields
            return
        pieces = json_of(self.message, session.opened.redactor)
        if len(pieces) == 1:
            yield "turn", {**self.fields, "opaque": pieces[0]}
            return
        ids = [f"part-{os.urandom(16).hex()}" for _ in pieces]
        for number, (id, piece) in enumerate(zip(ids, pieces, strict=True), 1):
            name = f"part {number} of {len(ids)} of a message"
            yield (
                "artifact",
                {"id": id, "name": name, "visibility": "private", "opaque": piece, **self._part_key(number)},
            )
        yield "turn", {**self.fields, "opaque": {"parts": ids}}

    def _part_key(self, number: int) -> dict[str, str]:
        """The idempotency key of a part: a message that is known already leaves no parts behind."""
        key = self.fields.get("idempotency_key")
        return {} if key is None else {"idempotency_key": f"part-{number}-{sha256_hex(str(key).encode())}"}


def turn_of(message: Any, **fields: Any) -> MessageTurn:
    """The turn for a message. Given fields, such as the role and the content, replace those that are made from the message."""
    role, text, rest = _said(message)
    if "content" in fields:
        rest = {"exact": {"value": message}}
    data = {"role": _ROLES.get(role, role) or "user", "content": text, **fields}
    if fits_fields(message):
        return MessageTurn({name: value for name, value in {**data, **rest}.items() if value is not None})
    return MessageTurn({**data, "content": _short(data["content"])}, message)


def _said(message: Any) -> tuple[str, str, dict[str, Any]]:
    """Role and readable text of a message, and the fields for the rest of it."""
    if not isinstance(message, dict):
        return "", _json(message), {"exact": {"value": message}}
    text, rest = split(message)
    fields = message
    if rest["text_field"] is None and is_message(message):
        try:
            fields = turn_fields(message)
            text = fields["content"].strip() or text
        except InvalidRecord:  # blocks of another form: the JSON text is readable enough
            fields = message
    return slug_of(str(fields.get("role") or fields.get("type") or ""))[:LIMIT], text, rest


def text_of_parts(session: SessionMemory, record: Record) -> str | None:
    """The JSON text of a large message; None if a part is missing.

    A message that another process deletes after its turn was read is still whole: its parts are in the trash.
    """
    parts = parts_of(session.opened.storage, record)
    pieces = [part.get("opaque") for part in parts]
    if len(parts) < len(part_ids(record)) or not all(isinstance(piece, str) for piece in pieces):
        return None
    if any(part.deleted for part in parts):
        turn = session.find(record.id)
        if turn is not None and not turn.deleted:  # somebody deleted the part alone
            return None
    return "".join(pieces)


# -- JSON text


def fits_fields(message: Any) -> bool:
    """Whether a message can be stored as fields: no data in base64, not too large or too deep, valid text."""
    size = 0
    for value, depth in _values(message, 0):
        if depth + _SPARE_LEVELS > DEPTH_LIMIT or (type(value) is int and value.bit_length() > INTEGER_BITS_LIMIT):
            return False
        if type(value) is str:
            size += len(value)
            if size > _FIELDS_BYTES or MARK in value or is_blob(value) or not _is_unicode(value):
                return False
    return True


def _values(value: Any, depth: int) -> Iterator[tuple[Any, int]]:
    """A JSON value, all keys and values in it, each with its depth."""
    yield value, depth
    if isinstance(value, dict):
        for name, each in value.items():
            yield name, depth + 1
            yield from _values(each, depth + 1)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _values(each, depth + 1)


def is_blob(text: str) -> bool:
    """Whether a text is data in base64, such as an image, a `data:` address or a signature."""
    if len(text) < _BLOB_CHARACTERS or not text.isascii():
        return False
    head, comma, data = text.partition(";base64,")
    data = data if comma and head.startswith("data:") else text
    return not data.encode().translate(None, _BASE64)


def _is_unicode(text: str) -> bool:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:  # a lone surrogate, in tool output that was cut
        return False
    return True


def json_of(message: Any, redactor: Redactor | None) -> list[str]:
    """A message without its secrets as JSON text, in pieces that fit a memory."""
    if redactor is not None:
        sent = without_blobs(message)
        cleaned, _ = redactor.redact_fields({"exact": sent})
        message = _merged(message, sent, cleaned["exact"])
    text = json.dumps(message, separators=(",", ":")).replace(MARK, _ESCAPED_MARK)
    return [text[at : at + PART_BYTES] for at in range(0, len(text), PART_BYTES)]


def without_blobs(value: Any) -> Any:
    """A copy without data in base64, and with valid text."""
    if isinstance(value, dict):
        return {valid(name): without_blobs(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_blobs(each) for each in value]
    return valid("" if is_blob(value) else value) if isinstance(value, str) else value


def valid(text: str) -> str:
    """A text with a question mark for each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _merged(original: Any, sent: Any, cleaned: Any) -> Any:
    """The original, with those values that redaction changed."""
    if isinstance(original, dict) and isinstance(cleaned, dict) and len(original) == len(cleaned):
        pairs = zip(original.items(), sent.values(), cleaned.items(), strict=True)
        return {
            name if valid(name) == clean else clean: _merged(value, before, after)
            for (name, value), before, (clean, after) in pairs
        }
    if isinstance(original, (list, tuple)) and isinstance(cleaned, list) and len(original) == len(cleaned):
        return [_merged(*each) for each in zip(original, sent, cleaned, strict=True)]
    return original if cleaned == sent else cleaned


def _short(text: str) -> str:
    """The readable text of a message that is stored as JSON."""
    text = strip(text).strip() or "[recalled from memory]"
    if len(text) > _SHORT_CHARACTERS:
        text = f"{text[:_SHORT_CHARACTERS]}… ({len(text):,} characters)"
    return valid(text)
