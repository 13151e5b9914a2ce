"""The lines that a store needs in `.gitattributes` and `.gitignore`, in a marked block for each store. Pure.

Guarantees: putting a block in twice changes nothing; taking it out leaves what was there before; nothing else in the file is
changed. Line ends are those of the file.
"""

from __future__ import annotations

import re

_ATTRIBUTES = ("jsonl", "json", "yaml", "md")
_IGNORED = (".smp/", "*.smp-new", "indexes/topics.yaml", "indexes/timeline.yaml", "indexes/agents.yaml")
_GLOB = re.compile(r"([\[\]*?\\])")
_NEEDS_QUOTES = re.compile(r'[\s"#!]')


def attribute_lines(root: str) -> list[str]:
    """The rules of `.gitattributes` for a store below the work tree."""
    lines = [f"{_pattern(root, f'*.{ending}')} text eol=lf merge=smp" for ending in _ATTRIBUTES]
    return [*lines, f"{_pattern(root, '*.gz')} binary"]


def ignore_lines(root: str) -> list[str]:
    """The rules of `.gitignore`: private folders, unfinished files, overviews that are made from the memories."""
    return [f"{_below(root)}/**/{name}" for name in _IGNORED]


def _below(root: str) -> str:
    escaped = _GLOB.sub(r"\\\1", root)
    return f"/{escaped}" if root else ""


def _pattern(root: str, name: str) -> str:
    pattern = f"{_below(root)}/**/{name}"
    if not _NEEDS_QUOTES.search(pattern):
        return pattern
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def with_block(text: str, root: str, lines: list[str]) -> str:
    """The text of a file with the block of this store, in its place or at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    begin, close = _marks(root)
    block = end.join([begin, *lines, close]) + end
    found = _find(text, root)
    if found is not None:
        return text[: found[0]] + block + text[found[1] :]
    if text and not text.endswith("\n"):
        text += end
    return text + block


def without_block(text: str, root: str) -> str:
    found = _find(text, root)
    return text if found is None else text[: found[0]] + text[found[1] :]


def _marks(root: str) -> tuple[str, str]:
    shown = root.replace("\n", " ") or "."
    return f"# >>> smp {shown} (these lines are written by: smp git setup)", f"# <<< smp {shown}"


def _find(text: str, root: str) -> tuple[int, int] | None:
    begin, close = (re.escape(mark) for mark in _marks(root))
    found = re.search(rf"^{begin}\r?\n(?:[^\n]*\n)*?{close}[ \t]*(?:\r?\n|\Z)", text, re.MULTILINE)
    return found.span() if found else None
