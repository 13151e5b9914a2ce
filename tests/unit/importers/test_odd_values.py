"""No value in any field of a transcript or an export raises, and the conversation beside it is imported."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.importers import import_from
from tests import host_transcripts as hosts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.sampled_from(
        ["user", "assistant", "message", "response_item", "text", "2026-13-99T99:99:99Z", "9999-12-31T23:59:59+14:00", "\ud800", "x" * 300]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id", "role", "content", "$set", "messages"]) | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
GOOD = "A conversation that is whole"


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside of a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in pairs:
        yield (*path, name)
        yield from paths_in(inner, (*path, name))


def planted(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """A copy with another value at a path."""
    copied = inner = copy.deepcopy(value)
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = odd
    return copied


def write_claude(folder: Path, lines: Any, good: str) -> Path:
    hosts.write_lines(folder / f"{hosts.CLAUDE_SESSION}.jsonl", lines)
    hosts.write_lines(folder / f"0{hosts.CLAUDE_SESSION[1:]}.jsonl", [hosts.claude_line("user", "g", None, good)])
    return folder


def write_codex(folder: Path, lines: Any, good: str) -> Path:
    hosts.write_lines(folder / hosts.CODEX_NAME, lines)
    hosts.write_lines(folder / "rollout-good.jsonl", [hosts.codex_item("user", good, "2026-02-01T09:00:00Z")])
    return folder


def write_gemini(folder: Path, lines: Any, good: str) -> Path:
    hosts.write_lines(folder / "session-a.jsonl", lines)
    (folder / "session-b.json").write_text(json.dumps(lines[0] if lines else {}))
    hosts.write_lines(folder / "session-g.jsonl", [hosts.gemini_meta() | {"sessionId": "g"}, hosts.gemini_message("g", "user", good)])  # fmt: skip
    return folder


def write_cursor(folder: Path, rows: Any, good: str) -> Path:
    own = {"composerId": "g", "conversation": [{"bubbleId": "g", "type": 1, "text": good}]}
    return hosts.cursor_database(folder / "state.vscdb", {**rows, "composerData:g": own})


def write_agent(folder: Path, lines: Any, good: str) -> Path:
    hosts.write_lines(folder / "agent-transcripts/a.jsonl", lines)
    hosts.write_lines(folder / "agent-transcripts/g.jsonl", [{"role": "user", "message": {"content": good}}])
    return folder


def write_gpt(folder: Path, conversations: Any, good: str) -> Path:
    own = hosts.gpt_conversation("g")
    own["mapping"] = {"g": {"parent": None, "message": hosts.gpt_message("g", "user", good)}}
    (folder / "conversations.json").write_text(json.dumps([*conversations, own | {"current_node": "g"}]))
    return folder


def write_ai(folder: Path, conversations: Any, good: str) -> Path:
    own = hosts.ai_conversation("g") | {"chat_messages": [hosts.ai_message("g", "human", good)]}
    (folder / "conversations.json").write_text(json.dumps([*conversations, own]))
    return folder


FORMS = {
    "claude-code": (write_claude, hosts.claude_lines()),
    "codex": (write_codex, hosts.codex_lines()),
    "gemini": (write_gemini, hosts.gemini_lines()),
    "cursor": (write_cursor, hosts.cursor_rows()),
    "cursor agent": (write_agent, hosts.cursor_transcript_lines()),
    "chatgpt": (write_gpt, [hosts.gpt_conversation()]),
    "claude-ai": (write_ai, [hosts.ai_conversation()]),
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_field(form: str, data: st.DataObject) -> None:
    write, value = FORMS[form]
    for _ in range(data.draw(st.integers(1, 3))):
        value = planted(value, data.draw(st.sampled_from(list(paths_in(value)))), data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder, smp_memory.open(":memory:") as memory:
        path = write(Path(folder), value, GOOD)
        report = import_from(memory, form.split(maxsplit=1)[0], path)
        kept = [record.text for session in memory.sessions() for record in session.records("turn")]
        assert GOOD in kept
        assert import_from(memory, report.importer, path).count == 0
