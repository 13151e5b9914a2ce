"""What stands in a memlog, byte for byte? The format of BMAD's working memory, read and written. Pure.

    ---
    topic: Onboarding
    updated: 2026-06-07T14:22
    ---

    - (idea by user) let people try it with sample data first
    - (decision) one account to begin with

Guarantees: for the same file, the same call and the same minute, the text is what BMAD's own script writes: the front
matter in its order with `updated` last, one line for each entry, always at the end. A text without front matter is
refused, as there; the message names the line.
"""

from __future__ import annotations

from smp.errors import InvalidFormat

NAME = ".memlog.md"
_FENCE = "---"


def split(text: str, path: str = NAME) -> tuple[dict[str, str], str]:
    """The front matter, in its order, and all that follows it."""
    lines = text.splitlines()
    if not lines or lines[0] != _FENCE:
        raise InvalidFormat(f"{path}:1: a memlog begins with a line ---, and this does not. It was not changed.", path=path, line=1)  # fmt: skip
    end = next((number for number, line in enumerate(lines[1:], 1) if line == _FENCE), None)
    if end is None:
        raise InvalidFormat(f"{path}:1: the front matter has no end (a second line ---). It was not changed.", path=path, line=1)  # fmt: skip
    meta = {}
    for line in lines[1:end]:
        name, colon, value = line.partition(":")
        if colon:
            meta[name.strip()] = value.strip()
    return meta, "\n".join(lines[end + 1 :]).lstrip("\n")


def joined(meta: dict[str, str], body: str) -> str:
    """The whole text. Line breaks in a value become spaces: a value cannot end the front matter."""
    head = "\n".join(f"{name}: {' '.join(value.splitlines())}" for name, value in meta.items())
    return f"{_FENCE}\n{head}\n{_FENCE}\n\n" + body.rstrip("\n") + "\n"


def begun(fields: list[tuple[str, str]], minute: str) -> str:
    """A new memlog."""
    return joined(_stamped({name.strip(): value.strip() for name, value in fields}, minute), "")


def appended(text: str, said: str, kind: str | None, by: str | None, minute: str, path: str = NAME) -> str:
    """With one entry more, on one line."""
    meta, body = split(text, path)
    label = kind or ""
    if by:
        label = f"{label} by {by}".strip()
    entry = f"- {f'({label}) ' if label else ''}{' '.join(said.split())}"
    return joined(_stamped(meta, minute), body.rstrip("\n") + "\n" + entry if body.strip() else entry)


def with_field(text: str, name: str, value: str, minute: str, path: str = NAME) -> str:
    """With a field of the front matter set or replaced; it keeps its place."""
    meta, body = split(text, path)
    meta[name] = value
    return joined(_stamped(meta, minute), body)


def entries(body: str) -> int:
    return sum(line.startswith("- ") for line in body.splitlines())


def _stamped(meta: dict[str, str], minute: str) -> dict[str, str]:
    meta.pop("updated", None)
    meta["updated"] = minute
    return meta
