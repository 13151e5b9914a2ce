"""Hints for mistakes in hand-written entries: the report names file, line and the correction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from smp_memory.files.file_state import with_hint
from tests.conformance.layout_files import blocks, decisions_file, filled, opened, texts

SLIPS = [
    ("markdown", "  - decision: Last: 8 hours\n    made_by: a\n", 'in quotes: decision: "…"'),
    ("markdown", "  - decision: Last 8\n      made_by: a\n", "indent 'made_by' in line {next} by 4 spaces"),
    ("markdown", "  - decision: Last 8\n   made_by: a\n", "indent 'made_by' in line {next} by 4 spaces"),
    ("markdown", "  - decision: Last 8\n  made_by: a\n", "indent 'made_by' in line {next} by 4 spaces"),
    ("markdown", "  - decision: X\n    tags: [a, b\n    made_by: a\n", "close the bracket in line {next}: tags: […]"),
    ("markdown", '  - decision: "X\n    made_by: a\n', 'close the quote in line {line}: decision: "…"'),
    ("markdown", "  - decision 8 hours\n", "with a colon and a space"),
    ("markdown", "decision: eight\nmade_by: b\n", "begin an entry with `  - `"),
    ("jsonl", '{"decision": "X" "made_by": "a"}\n', "write a comma before column 18"),
    ("jsonl", '{"decision": "X", "made_by": "a",}\n', "remove the comma before the closing bracket"),
    ("jsonl", '{"decision": "X", "made_by": "a"\n', "close the entry with }}"),
    ("jsonl", "{'decision': 'X'}\n", "in double quotes"),
    ("jsonl", '{"decision": "X"},\n', "remove the comma at the end of the line"),
    ("jsonl", '{"decision" "X"}\n', "write a colon before column 13"),
    ("jsonl", '{"decision": "X}\n', "close the text that begins at column 14"),
]


def damaged(root: Path, layout: str, slip: str) -> tuple[Path, int]:
    filled(root, layout)
    path = decisions_file(root, layout)
    parts = blocks(layout, path.read_text())
    before = parts[0] + parts[1] + ("\n" if layout == "markdown" else "")
    path.write_text(before + slip + "".join(parts[2:]))
    return path, before.count("\n") + 1


@pytest.mark.parametrize(("layout", "slip", "told"), SLIPS, ids=lambda value: repr(value)[:40])
def test_mistake_damages_one_entry_and_the_report_says_how_to_correct_it(
    tmp_path: Path, layout: str, slip: str, told: str
) -> None:
    path, line = damaged(tmp_path, layout, slip)
    session = opened(tmp_path)
    assert texts(session) == ["Use OAuth", "Use Postgres", "Use Python"]
    (problem,) = [each for each in session.validate().problems if each.severity == "error"]
    assert (problem.path, problem.line) == (str(path), line)
    assert told.format(line=line, next=line + 1) in problem.message


def test_validate_suggests_to_correct_the_line_before_repair(tmp_path: Path) -> None:
    path, line = damaged(tmp_path, "jsonl", '{"decision": "X" "made_by": "a"}\n')
    words = [sys.executable, "-m", "smp_memory", "validate", "--root", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 41
    assert f"{path}:{line}" in done.stdout
    assert 0 < done.stdout.index("Correct the line") < done.stdout.index("smp repair")


def test_hint_quotes_no_value() -> None:
    for text in (
        b"  - decision: secret: word\n",
        b'  - decision: "secret word\n',
        b'{"decision": "secret word" "a": 1}',
    ):
        assert "secret" not in with_hint(text, 1, "damaged")


def test_long_entries_and_invalid_utf8_get_no_hint() -> None:
    assert with_hint(b"\xff\xfe", 1, "not valid UTF-8") == "not valid UTF-8"
    assert with_hint(b"  - a: b\n" * 20_000, 1, "damaged") == "damaged"
