"""Public methods refuse arguments of a wrong kind with an error of SMP's own that names the argument."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import UserError
from tests.conformance.test_incomplete_answers import damaged

NAN = float("nan")
CALLS: dict[str, tuple[Callable[[Any, Any, Any], Any], str, tuple[Any, ...]]] = {
    "merge": (lambda memory, session, odd: session.merge(odd), "group", (None, 5, "FIND-0001", [])),
    "duplicates": (
        lambda memory, session, odd: session.duplicates(threshold=odd),
        "threshold",
        (NAN, -1, 2, "0.5", True),
    ),
    "purge": (lambda memory, session, odd: session.purge(older_than=odd), "older_than", (NAN, -1, 1e300)),
    "change_info": (lambda memory, session, odd: session.change_info(context=odd), "context", (None, 5, "text", ["a"])),
    "promote": (lambda memory, session, odd: memory.global_memory.promote(odd), "what", (None, 5, [], {})),
    "party": (lambda memory, session, odd: session.party(odd), "agents", (None, 5, NAN)),
    "watch": (lambda memory, session, odd: list(memory.watch(timeout=0, pause=odd)), "pause", (None, -1, NAN, "1")),
}


@pytest.mark.parametrize(("name", "odd"), [(name, odd) for name, call in CALLS.items() for odd in call[2]])
def test_wrong_argument_is_refused_by_its_name(name: str, odd: Any) -> None:
    call, field, _ = CALLS[name]
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s1")
        session.add_finding("The door is open")
        with pytest.raises(UserError, match=f"^{field}: ") as refused:
            call(memory, session, odd)
        assert refused.value.details["field"] == field
        assert [record.revision for record in session.records()] == [1]


@pytest.mark.parametrize("command", ["topics", "timeline", "agents", "summary"])
def test_overviews_as_json_name_entries_that_cannot_be_read(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, line = damaged(tmp_path, "jsonl")
    assert main([command, "--session", "s1", "--json", "--root", str(tmp_path)]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [(each["path"], each["line"]) for each in problems] == [(str(path), line)]
