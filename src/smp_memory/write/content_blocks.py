"""Turns from messages in the formats of Anthropic and OpenAI: content blocks, tool calls, items of a response. Pure.

    session.add_turn("user", [{"type": "text", "text": "What is this?"}, {"type": "image", "source": {…}}])
    session.add_turn({"role": "assistant", "content": None, "tool_calls": [{…}]})
    session.add_turn(response)                          # an object of their client libraries

Text becomes the `content` of the turn. Every other block stands in `parts` as it was given, and in the content as a readable line, such as
`[tool call: Edit {"file_path": "auth.py"}]`. Reasoning is in `parts` alone. Content is searched, parts are not.

Guarantees: a message of text alone becomes the same turn as its text. Text that was recalled from memory is not taken in again. The
bytes of images, documents and audio are not stored: their number and SHA-256 are, and `OMITTED` names the field by which callers can tell.
Non-guarantees: where between texts a part stood is only told by the readable line. Whoever needs a message back as it was stores it
beside the turn, as the adapters do.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord
from smp_memory.model.ids import sha256_hex
from smp_memory.privacy.fence import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

OMITTED = "omitted_bytes"  # beside `sha256`, in place of the bytes of an image or another file
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "summary_text": "text"}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call", "custom_tool_call", "function")
_REASONING = ("thinking", "redacted_thinking", "reasoning")
_ITEM_ROLES = {"function_call": "assistant", "custom_tool_call": "assistant", "reasoning": "assistant"}
_NAMES = {"id": "message_id"}  # the id of a message is not that of the memory
_LEFT_OUT = ("type", "usage", "stop_reason", "stop_sequence", "stop_details", "status", "phase")  # of a message
_OF_ITEMS = ("message_id", "call_id", "name", "arguments", "input", "output", "summary", "encrypted_content")
_MOST_CHARACTERS = 300  # of the readable form of a part; all of it is in `parts`


def is_message(given: Mapping[str, Any]) -> bool:
    """Whether the fields of a turn are those of a message that is more than a text."""
    content = given.get("content")
    return isinstance(content, (list, tuple)) or "tool_calls" in given or _item_type(given) != ""


def turn_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a turn for a message. Raises InvalidRecord if a block is neither text nor an object."""
    fields = {name: value for name, value in given.items() if name not in ("content", "tool_calls")}
    item = _item_type(given)
    if item:
        fields = {_NAMES.get(name, name): value for name, value in fields.items() if name not in _LEFT_OUT}
    if item in ("", "message"):
        blocks = [*_blocks(given.get("content")), *_blocks(given.get("tool_calls"), "tool_calls")]
    else:
        fields = {name: value for name, value in fields.items() if name not in _OF_ITEMS}
        fields.setdefault("role", _ITEM_ROLES.get(item, "tool" if item.endswith("_output") else "assistant"))
        blocks = [{name: value for name, value in given.items() if name != "role"}]
    texts = [text for block in blocks if (text := _readable(block))]
    parts = [_without_bytes(block) for block in blocks if _type_of(block) not in _TEXTS]
    fields["content"] = "\n\n".join(texts) or "\n".join(f"[{_title(block)}]" for block in blocks)
    if parts:
        fields["parts"] = parts
    return fields


def as_mapping(message: Any) -> Any:
    """An object of a client library as a mapping; anything else unchanged."""
    dump = getattr(message, "model_dump", None)
    return dump(mode="json", exclude_none=True) if callable(dump) else message


def omitted_parts(parts: Any) -> int:
    """How many files in the parts of a turn are there without their bytes."""
    if isinstance(parts, dict):
        return (OMITTED in parts) + sum(map(omitted_parts, parts.values()))
    return sum(map(omitted_parts, parts)) if isinstance(parts, list) else 0


def _item_type(given: Mapping[str, Any]) -> str:
    """The type of an item of OpenAI's Responses API; '' for other fields."""
    type = _type_of(given)
    return type if type == "message" or type in _ITEM_ROLES or type.endswith("_call_output") else ""


def _blocks(content: Any, field: str = "content") -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, (list, tuple)):
        raise InvalidRecord(f"{field}: must be text or a list of blocks, not {type(content).__name__}.", field=field)
    found = []
    for number, block in enumerate(content, 1):
        block = as_mapping(block)
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, dict):
            raise InvalidRecord(
                f"{field}: block {number} must be text or an object, not {type(block).__name__}.", field=field
            )
        found.append(block)
    return found


def _title(block: Mapping[str, Any]) -> str:
    type = _type_of(block).removeprefix("input_").removesuffix("_url")
    return (type or "part").replace("_", " ")[:_MOST_CHARACTERS]


def _type_of(block: Mapping[str, Any]) -> str:
    type = block.get("type")
    return type if isinstance(type, str) else ""


def _readable(block: Mapping[str, Any]) -> str:
    """A block as people read it; '' for reasoning."""
    type = _type_of(block)
    if type in _REASONING:
        return ""
    if type in _TEXTS:
        text = block.get(_TEXTS[type])
        return text if isinstance(text, str) else ""
    if type in _CALLS:
        return f"[tool call: {_short(' '.join(_call(block)))}]"
    if type.endswith(("tool_result", "_call_output")):
        said = "error" if block.get("is_error") else "result"
        return f"[tool {said}: {_short(' '.join(_said(block.get('content', block.get('output')))))}]"
    about = _short(", ".join(_about_file(block)))
    return f"[{_title(block)}: {about}]" if about else f"[{_title(block)}]"


def _call(block: Mapping[str, Any]) -> Iterator[str]:
    function = block.get("function")
    inner = function if isinstance(function, dict) else block
    yield str(inner.get("name") or "")
    given = next((inner[name] for name in ("input", "arguments") if inner.get(name) not in (None, "", {})), None)
    if given is not None:
        yield given if isinstance(given, str) else _json(given)


def _said(content: Any) -> Iterator[str]:
    """The texts of the result of a tool."""
    if isinstance(content, str):
        yield strip(content)
    elif isinstance(content, (list, tuple)):
        for each in content:
            yield _readable(each) if isinstance(each, dict) and _type_of(each) else str(each)
    elif content is not None:
        yield _json(content)


_FILE_FIELDS = ("title", "filename", "name", "media_type", "mime_type", "format", "detail", "url", "file_id")


def _about_file(block: Mapping[str, Any]) -> Iterator[str]:
    """What is known about an image or another file: names and addresses as given, else the number of bytes."""
    for value in (block, *(value for value in block.values() if isinstance(value, dict))):
        for name in (*_FILE_FIELDS, *(name for name in ("image_url", "data", "file_data") if name in value)):
            text = value.get(name)
            if not isinstance(text, str) or not text or text == "auto":
                continue
            yield f"{_size(text):,} bytes" if _is_bytes(name, text) and value.get("type") != "text" else text


def _without_bytes(block: Any, is_file: bool = False) -> Any:
    """A copy of a part in which the bytes of files are replaced by their number and digest."""
    if isinstance(block, dict):
        type = _type_of(block)
        is_file = type not in _CALLS and type != "text" if "type" in block else is_file
        return {
            name: _digest(value) if is_file and _is_bytes(name, value) else _without_bytes(value, is_file)
            for name, value in block.items()
        }
    return [_without_bytes(each, is_file) for each in block] if isinstance(block, (list, tuple)) else block


def _is_bytes(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return name in ("data", "file_data") or (value.startswith("data:") and ";base64," in value[:200])


def _size(data: str) -> int:
    """The number of bytes that a text in base64 stands for."""
    text = data.partition(";base64,")[2] or data
    return len(text) * 3 // 4 - text[-2:].count("=")


def _digest(data: str) -> dict[str, Any]:
    from binascii import Error, a2b_base64

    try:
        content = a2b_base64(data.partition(";base64,")[2] or data)
    except (Error, ValueError):  # not in base64
        content = data.encode("utf-8", "surrogatepass")
    return {OMITTED: len(content), "sha256": sha256_hex(content)}


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
