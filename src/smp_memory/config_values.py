"""Value types of settings: validation, and parsing of environment variables.

To add a kind, write a class with the three parts of `ValueCheck`. `allowed` completes "Allowed: …" in an error.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not loaded at run time: `import smp_memory` must be fast
if TYPE_CHECKING:
    from typing import Any, Protocol

    class ValueCheck(Protocol):
        """What values a setting may have."""

        allowed: str

        def accepts(self, value: Any) -> bool: ...

        def parse(self, text: str) -> Any:
            """Parse the text of an environment variable; raises ValueError."""


class ChoiceOf:
    """One of several words."""

    __slots__ = ("allowed", "words")

    def __init__(self, *words: str) -> None:
        self.words = words
        self.allowed = "one of " + ", ".join(words)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def parse(self, text: str) -> Any:
        return text


class Whole:
    """An integer in a closed range."""

    __slots__ = ("allowed", "high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.allowed = f"a whole number from {low} to {high}" if low < high else f"only {low}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def parse(self, text: str) -> Any:
        return int(_plain(text))


class Positive:
    """A number above 0, fractions allowed."""

    __slots__ = ("allowed", "high")

    def __init__(self, high: float) -> None:
        self.high = high
        self.allowed = f"a number above 0, at most {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= self.high

    def parse(self, text: str) -> Any:
        number = float(_plain(text))
        return int(number) if number.is_integer() else number


class Between:
    """A number in a closed range, fractions allowed."""

    __slots__ = ("allowed", "high", "low")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high
        self.allowed = f"a number from {low} to {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def parse(self, text: str) -> Any:
        return float(_plain(text))


_SWITCH_WORDS = {
    "true": True,
    "1": True,
    "on": True,
    "yes": True,
    "false": False,
    "0": False,
    "off": False,
    "no": False,
}


class Switch:
    """A boolean. In the environment also 1 or 0, on or off, yes or no, case-insensitive."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> Any:
        return _SWITCH_WORDS.get(text.strip().lower(), text)


class NameList:
    """A list of names without commas."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "a list of names; in the environment with commas between them"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(name, str) and name.strip() for name in value)

    def parse(self, text: str) -> Any:
        return _json(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]


class FunctionName:
    """A Python function by its name, `module:function`; an argument may be the function itself. None: no function."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "module:function; as an argument also the function itself"

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, str):
            return value is None or callable(value)
        module, _, function = value.partition(":")
        return all(part.isidentifier() for part in [*module.split("."), *function.split(".")])

    def parse(self, text: str) -> Any:
        return text.strip()


class Replacement:
    """The text that replaces a secret; `{kind}` in it is the kind of secret."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "1 to 64 characters on one line, such as [REDACTED] or [REDACTED:{kind}]"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= 64 and value.isprintable()

    def parse(self, text: str) -> Any:
        return text


class Patterns:
    """Kinds of secrets with regular expressions; `smp_memory.privacy.custom_patterns` checks that they are safe to run."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = 'a list of {"type": …, "regex": …}; in the environment as JSON'

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list) and all(_is_pattern(item) for item in value)

    def parse(self, text: str) -> Any:
        return _json(text)


def _is_pattern(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and set(item) == {"type", "regex"}
        and all(isinstance(each, str) for each in item.values())
    )


def _json(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(text[:80]) from None


def _plain(text: str) -> str:
    """Reject what Python accepts and JSON does not: `1_000` and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text
