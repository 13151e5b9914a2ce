"""Fields of an entry as text, in the formats that people read: the machine line, and `**Key:** value` lines of Markdown.

The *machine line* holds the fields that only SMP needs, as one short text:

    seq=7 uid=khmedagg refs=FIND-0002:gjhkcdab us=123456
    seq=3 uid=khmedagg / seq=9 us=004211 / seq=14

| token | field | |
|---|---|---|
| `seq` | `seq` | number of the entry in its session |
| `tx` | `tx` | transaction that it belongs to |
| `uid` | `uid` | identity of the memory |
| `refs` | `uids` | identities of the memories that it refers to |
| `us` | fraction of the entry's time in microseconds; the time itself is a field of the entry, in whole seconds |
| `schema` | `schema` | left out if it is 1, `-` if there is none |
| `hand` | `hand` | in a folded entry: this step was `edited` or `unsigned` (written by hand) before it was folded |

The parts after a `/` belong to the steps of `history`, one after the other.

Guarantees: `join_machine_line(*split_machine_line(fields))` gives equal fields for any JSON value. A value that does not fit into a token stays an
ordinary field. Reading is lenient: an invalid token is skipped, because a person may have changed it; the signature
after the text shows that.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from smp_memory.files.codec import signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Fields

_TIMES = ("timestamp", "updated", "deleted", "restored", "at")  # the first one that exists is the entry's time
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_REFERENCE = re.compile(r"[A-Za-z0-9_./-]{1,200}")
_TRANSACTION = re.compile(r"[0-9]{1,15}-[0-9]{1,15}(?:/[0-9]{1,15})?")
_NUMBER_LIMIT = 10**15
_STATES = ("edited", "unsigned")
_SEPARATOR = " / "
_SUM_BYTES = len("sha256:0123456789abcdef")
_SUM_AT_END = re.compile(rb"sha256:[0-9a-f]{16}\Z")


def split_machine_line(fields: Fields) -> tuple[Fields, str]:
    """The fields that people read, and the machine line of the others."""
    visible = dict(fields)
    text = _extract_tokens(visible)
    steps = fields.get("history")
    if type(steps) is list and steps and all(type(step) is dict and _is_number(step.get("seq")) for step in steps):
        visible["history"] = steps = [dict(step) for step in steps]
        text = _SEPARATOR.join([text, *map(_extract_tokens, steps)])
    return visible, text


def join_machine_line(fields: Fields, text: str) -> Fields:
    """Add the fields of a machine line to `fields`, which is changed and returned."""
    if " / " not in text:
        _apply_tokens(fields, text)
        return fields
    first, *others = f" {text}".split(_SEPARATOR)
    _apply_tokens(fields, first)
    steps = fields.get("history")
    if others and type(steps) is list and len(steps) == len(others):
        for step, part in zip(steps, others, strict=True):
            if type(step) is dict:
                _apply_tokens(step, part)
    return fields


def mixed_entries(mark: re.Match[bytes] | None, machine: str) -> str:
    """The error if the first line of an entry has another number than its machine line; empty if there is none."""
    if mark is None:
        return ""
    number = next((word[4:] for word in machine.split() if word.startswith("seq=")), "")
    if number in ("", mark[1].decode()):
        return ""
    return (
        f"its first line has the number {mark[1].decode()}, its last line {number}: lines of two entries were mixed, as a text merge "
        "does. Take the entry from one side"
    )


def highest_seq(fields: Fields | None) -> int:
    """The largest sequence number of an entry and the steps that are folded into it."""
    if not fields:
        return 0
    if "history" not in fields:
        seq = fields.get("seq")
        return seq if type(seq) is int else 0
    steps = fields["history"]
    parts = [fields, *(step for step in steps if type(step) is dict)] if type(steps) is list else [fields]
    return max([seq for part in parts if type(seq := part.get("seq")) is int], default=0)


def _extract_tokens(fields: Fields) -> str:
    """Remove SMP's fields from one entry or step; returns their text."""
    tokens = []
    seq = fields.get("seq")
    is_numbered = _is_number(seq)
    if is_numbered:
        tokens.append(f"seq={fields.pop('seq')}")
    for name, fits in (("tx", _TRANSACTION), ("uid", _WORD)):
        value = fields.get(name)
        if type(value) is str and fits.fullmatch(value):
            tokens.append(f"{name}={fields.pop(name)}")
    if "uids" in fields and _are_references(fields["uids"]):
        tokens.append("refs=" + ",".join([f"{id}:{uid}" for id, uid in fields.pop("uids").items()]))
    fraction = _extract_fraction(fields)
    if fraction:
        tokens.append(f"us={fraction}")
    if is_numbered:
        schema = fields.get("schema")
        if not _is_number(schema):
            tokens.append("schema=-")
        elif fields.pop("schema") != 1:
            tokens.append(f"schema={schema}")
    if fields.get("hand") in _STATES:
        tokens.append(f"hand={fields.pop('hand')}")
    return " ".join(tokens)


def _extract_fraction(fields: Fields) -> str:
    """Round the entry's time down to a second; returns the removed microseconds, six digits, or nothing."""
    for name in _TIMES:
        if name in fields:
            value = fields[name]
            if type(value) is str and len(value) == 27 and value[19] == "." and value[26] == "Z":
                fraction = value[20:26]
                if fraction.isascii() and fraction.isdigit():
                    fields[name] = value[:19] + "Z"
                    return fraction
            return ""
    return ""


def _apply_tokens(fields: Fields, text: str) -> None:
    schema: int | None = 1
    for token in text.split():
        name, _, value = token.partition("=")
        if name in ("uid", "tx"):
            fields[name] = value
        elif name == "us":
            _apply_fraction(fields, value)
        elif name == "seq":
            if (seq := _number(value)) is not None:
                fields["seq"] = seq
        elif name == "schema":
            schema = _number(value)
        elif name == "refs":
            references = [item.partition(":") for item in value.split(",")]
            fields["uids"] = {id: uid for id, _, uid in references if id and uid}
        elif name == "hand" and value in _STATES:
            fields["hand"] = value
    if schema is not None and "seq=" in text:
        fields["schema"] = schema


def _apply_fraction(fields: Fields, fraction: str) -> None:
    for name in _TIMES:
        if name in fields:
            value = fields[name]
            if type(value) is str and len(value) == 20 and value[19] == "Z" and len(fraction) == 6:
                fields[name] = f"{value[:19]}.{fraction}Z"
            return


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _NUMBER_LIMIT


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= 15 and text.isascii() and text.isdigit() else None


def _are_references(value: Any) -> bool:
    if type(value) is not dict or not value:
        return False
    return all(
        type(uid) is str and _WORD.fullmatch(uid) and type(id) is str and _REFERENCE.fullmatch(id)
        for id, uid in value.items()
    )


# ------------------------------------------------------------------------------------------------- damaged closings
def split_damaged_closing(raw: bytes, prefix: bytes, suffix: bytes) -> tuple[bytes, str] | None:
    """The bytes before a damaged closing line and the line's text; None for a line that a cut left unfinished.

    `raw` ends with `suffix`, or should. A closing line is `prefix`, the text, the signature and `suffix`. It was complete once if at
    most two bytes outside of the text differ, or if only the text does: a cut never leaves the end of a line.
    """
    stop = len(raw) - _SUM_BYTES - len(suffix)
    last = raw.rfind(b"\n", 0, len(raw) - len(suffix))
    for start in (last + 1, raw.rfind(b"\n", 0, max(last, 0)) + 1, raw.rfind(prefix)):  # a line end may be the damage
        if start > 0 and start + len(prefix) <= stop:
            body, text = raw[: start - 1] + b"\n", raw[start + len(prefix) : stop]
            expected = b"\n" + prefix + text + signature(body + prefix + text).encode() + suffix
            if _nearly_equal(raw[start - 1 :], expected):
                return body, text.decode("utf-8", "replace")
    start = raw.rfind(b"\n" + prefix) + 1
    if start > 0 and raw.endswith(suffix) and _SUM_AT_END.search(raw, start, len(raw) - len(suffix)):
        return raw[:start], raw[start + len(prefix) : stop].decode("utf-8", "replace")
    return None


def split_cut_closing(raw: bytes, prefix: bytes) -> tuple[bytes, str]:
    """The bytes before a closing line that was cut off, and the complete tokens of its text; all of `raw` if there is none."""
    start = raw.rfind(b"\n") + 1
    line = raw[start:]
    if len(line) < 4 or not (line.startswith(prefix) or prefix.startswith(line)):
        return raw, ""
    return raw[:start], line[len(prefix) :].rpartition(b" ")[0].decode("utf-8", "replace")


def _nearly_equal(found: bytes, expected: bytes) -> bool:
    return len(found) == len(expected) and sum(a != b for a, b in zip(found, expected, strict=True)) <= 2


# -- lines of Markdown

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
_UNQUOTED = re.compile(r"[^\W\d][\w.:/@+-]*")
_LIST_OF_WORDS = re.compile(rf"\[{_UNQUOTED.pattern}(?:, {_UNQUOTED.pattern})*\]")


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
        if not isinstance(value, str) or value in _JSON_WORDS or not _UNQUOTED.fullmatch(value):
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
