"""Names and values of the `**Key:** value` lines of a Markdown block, as text and back."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

TITLE_LIMIT = 100
SPECIAL_LINES = frozenset(("extra", "encoding", "body"))
TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)Z")
_TITLE = re.compile(r"[A-Za-z][A-Za-z0-9 _-]*")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
# Classes by what they exclude: a class of wide ranges takes `re` ten milliseconds to compile, at every start.
HIGH = "\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff"
_NOT_IN_LINE = re.compile(f"[\x00-\x1f{HIGH}]")
_JSON_WORDS = frozenset(("true", "false", "null"))
_JSON_FIRST = '[{"-0123456789'
_WORD = re.compile(r"[^\W\d][\w.:/@+-]*")
_LIST_OF_WORDS = re.compile(rf"\[{_WORD.pattern}(?:, {_WORD.pattern})*\]")


@functools.lru_cache(maxsize=1024)
def title_of(key: str) -> str | None:
    """`memory_refs` -> `Memory-Refs`; None for a name that cannot be converted back, or that is a special line."""
    if len(key) > TITLE_LIMIT or not _SNAKE_CASE.fullmatch(key) or key in SPECIAL_LINES:
        return None
    return "-".join([word.capitalize() for word in key.split("_")])


@functools.lru_cache(maxsize=1024)
def key_of(starred_title: str) -> str:
    """`**Memory-Refs` -> `memory_refs`; empty if it is not such a line."""
    title = starred_title[2:]
    if not starred_title.startswith("**") or not _TITLE.fullmatch(title):
        return ""
    return title.lower().replace("-", "_").replace(" ", "_")


def value_text(value: Any) -> str:
    if isinstance(value, str) and _is_plain(value):
        return value
    if type(value) is int:
        return int.__repr__(value)
    if isinstance(value, list) and value and _are_words(value):
        return f"[{', '.join(value)}]"
    return to_json(value)


def _is_plain(text: str) -> bool:
    if not text or text in _JSON_WORDS or text != text.strip() or _NOT_IN_LINE.search(text):
        return False
    return text[0] not in _JSON_FIRST or TIME.fullmatch(text) is not None


def _are_words(values: list[Any]) -> bool:
    for value in values:
        if not isinstance(value, str) or value in _JSON_WORDS or not _WORD.fullmatch(value):
            return False
    return True


def to_json(value: Any) -> str:
    return _NOT_IN_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", _encoder.encode(value))


def value_of(text: str) -> Any:
    """The value of a text: JSON, a list of words, or the text itself."""
    if text and text[0] not in _JSON_FIRST and text not in _JSON_WORDS:
        return text
    if text.startswith("[") and _LIST_OF_WORDS.fullmatch(text):
        words = text[1:-1].split(", ")
        if _JSON_WORDS.isdisjoint(words):
            return words
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        words = [word.strip() for word in text[1:-1].split(",")]
        if all(words):
            return words
    return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_decoder = json.JSONDecoder(parse_constant=_refuse)
