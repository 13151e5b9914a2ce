"""Answers that reach into a damaged cold segment say what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.files.layouts import NAMES

pytestmark = pytest.mark.parametrize("layout", NAMES)


def compacted(root: Path, layout: str) -> Path:
    """A store with a session whose old turns are in its cold segment; the segment's path."""
    with smp_memory.open(root, layout=layout, config={"compaction": {"enabled": True}}) as memory:
        session = memory.create_session("s1")
        turns = [
            ("turn", {"role": "user", "content": f"giraffe {number} {number**9}", "created": "2020-01-01T00:00:00Z"})
            for number in range(80)
        ]
        session.add_many(turns)
        assert session.compact("forced").removed
    (found,) = root.rglob("*cold.jsonl.gz")
    return found


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
def test_answers_name_a_damaged_cold_segment(
    tmp_path: Path, layout: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = compacted(tmp_path, layout)
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else whole[:60] + b"\xff" * 20 + whole[80:])
    assert main(["query", "giraffe", "--include-archived", "--json", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    problems = json.loads(printed.out)["problems"]
    assert {(each["path"], each["code"]) for each in problems} == {(str(segment), "cold_damaged")}
    assert printed.err.count(str(segment)) == 1
    if damage == "truncated":
        assert main(["archived", "--root", str(tmp_path)]) == 0
        assert capsys.readouterr().err.count(str(segment)) == 1


def test_undamaged_cold_segment_is_not_reported(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compacted(tmp_path, layout)
    assert main(["query", "giraffe", "--include-archived", "--json", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "problems" not in json.loads(printed.out)
    assert "cannot be read" not in printed.err
