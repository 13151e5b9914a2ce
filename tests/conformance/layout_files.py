"""Paths of files in each layout, and entries as a person would write them there."""

from __future__ import annotations

import re
from pathlib import Path

import smp_memory
from smp_memory.testing import FrozenClock

FOLDERS = {"jsonl": "sessions/s1", "markdown": "active/s1", "single": "", "log": "sessions/s1"}
DECISIONS = {"jsonl": "decisions.jsonl", "markdown": "decisions.yaml", "single": "s1.jsonl", "log": "memory.jsonl"}
TURNS = {"jsonl": "conversation.jsonl", "markdown": "conversation.md", "single": "s1.jsonl", "log": "memory.jsonl"}


def decisions_file(root: Path, layout: str) -> Path:
    return root / FOLDERS[layout] / DECISIONS[layout]


def turns_file(root: Path, layout: str) -> Path:
    return root / FOLDERS[layout] / TURNS[layout]


def filled(root: Path, layout: str) -> smp_memory.SessionMemory:
    """A session with three decisions, in a file where nothing else follows them."""
    memory = smp_memory.open(root, layout=layout, clock=FrozenClock())
    session = memory.create_session("s1", user="ada", project="shop")
    session.add_turn("user", "First words")
    for text in ("Use OAuth", "Use Postgres", "Use Python"):
        session.add_decision(text, author="ada", tags=["x"])
    memory.close()
    return opened(root)


def opened(root: Path) -> smp_memory.SessionMemory:
    return smp_memory.open(root, clock=FrozenClock()).session("s1")


def blocks(layout: str, text: str) -> list[str]:
    """The file's first lines, then one part for each entry of its decisions; joined they give the file."""
    if layout == "markdown":
        return re.split(r"(?=\n  - id: )", text)
    lines = text.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if "Use OAuth" in line)
    return ["".join(lines[:first]), *lines[first:]]


def by_hand(layout: str, id: str, decision: str, **fields: str) -> str:
    """A decision as a person would type it."""
    time = "2026-02-01T10:00:00Z"
    if layout == "markdown":
        more = "".join(f"    {name}: {value}\n" for name, value in fields.items())
        return f"\n  - id: {id}\n    timestamp: {time}\n    decision: {decision}\n{more}"
    more = "".join(f', "{name}": {value}' for name, value in fields.items())
    if layout == "jsonl":
        return f'{{"id": "{id}", "timestamp": "{time}", "decision": "{decision}"{more}}}\n'
    if layout == "single":
        return f'{{"id": "{id}", "type": "decision", "ts": "{time}", "data": {{"decision": "{decision}"{more}}}}}\n'
    return (
        f'{{"id": "{id}", "type": "decision", "timestamp": "{time}", "content": {{"decision": "{decision}"{more}}}}}\n'
    )


def line_of(path: Path, words: str) -> int:
    """The number of the first line that holds these words."""
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    return next(number for number, line in enumerate(lines, 1) if words in line)


def visible(root: Path) -> dict[str, bytes]:
    """The bytes of all files that a person sees."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".smp" not in path.parts
    }


def texts(session: smp_memory.SessionMemory) -> list[str]:
    return [record.decision for record in session.records("decision")]
