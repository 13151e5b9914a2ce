"""Values of other tools as SMP writes them: times, tags, session ids, readable text. Pure; whatever is given, nothing raises."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from smp_memory.model.ids import LIMIT, is_valid, is_word, sha256_hex
from smp_memory.model.times import to_moment, to_text

_MILLISECONDS, _MICROSECONDS = 1e11, 1e14  # numbers from here on are no seconds
_LARGEST = 1e18  # numbers from here on are no time
_DIGEST_DIGITS = 8
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_FORMS = (
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
)


def as_time(value: Any) -> str | None:
    """A time as ISO 8601: from a text in ISO 8601, or from seconds, milli- or microseconds since 1970; None if it is none."""
    if isinstance(value, str):
        text = value.strip().removesuffix(" UTC")
        if not _NUMBER.fullmatch(text):
            return _from_text(text)
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST:
        return None
    seconds = value / 1e6 if value >= _MICROSECONDS else value / 1e3 if value >= _MILLISECONDS else value
    try:
        return to_text(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _from_text(text: str) -> str | None:
    try:
        return to_text(to_moment(text))
    except (ValueError, OverflowError):
        pass
    for form in _FORMS:
        try:
            return to_text(datetime.strptime(text, form).replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            continue
    return None


def tags_of(values: Any) -> list[str]:
    """Tags from a list or a text with commas: levels are separated by dots, other characters become `-`."""
    given = values.split(",") if isinstance(values, str) else values if isinstance(values, list | tuple) else []
    cleaned = (tag_of(each) for each in given if isinstance(each, str | int))
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def tag_of(value: Any) -> str:
    """One tag; empty if nothing is left of it."""
    text = re.sub(r"[\s]+", "-", str(value).strip().lstrip("#").replace("/", "."))
    text = "".join(char if char.isalnum() or char in "_-." else "-" for char in text)[:LIMIT]
    text = ".".join(part.strip("-") for part in text.split(".") if part.strip("-"))
    return text if is_word(text) else ""


def session_id(name: str, *, prefix: str = "") -> str:
    """A valid id of a session: the name itself, else its letters and digits with a digest of it."""
    whole = f"{prefix}{name}"
    if is_valid(whole):
        return whole
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", whole).strip("-_")[: LIMIT - _DIGEST_DIGITS - 1].rstrip("-")
    digest = sha256_hex(whole.encode("utf-8", "surrogatepass"))[:_DIGEST_DIGITS]
    return f"{slug}-{digest}" if slug else f"session-{digest}"


def as_text(value: Any) -> str:
    """A value as readable text: a text as it is, anything else as JSON; empty for nothing."""
    if isinstance(value, str):
        return value.strip()
    if not value and not isinstance(value, bool | int | float):
        return ""
    try:
        if isinstance(value, bool | int | float):
            return str(value)  # an int of thousands of digits raises ValueError
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def as_list(value: Any) -> list[str]:
    """The texts of a list, which may be written as JSON; one text alone is a list of one."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass
    given = value if isinstance(value, list) else [value]
    return [text for each in given if (text := as_text(each))]
