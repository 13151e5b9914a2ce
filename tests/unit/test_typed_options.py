"""Wrong names and types of options are errors for a type checker, and wrong names at run time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidQuery

ROOT = Path(__file__).parent.parent.parent
WRONG = {
    'session.query("x", limt=3)': "limt",
    'session.query("x", limit="3")': "limit",
    'session.find_similar("x", typs="decision")': "typs",
    'session.find_related("DEC-0001", depht=2)': "depht",
    'session.delete(topc="x")': "topc",
    'session.erase(topc="x")': "topc",
    'session.context("a", max_token=3)': "max_token",
    'session.export(formt="json")': "formt",
    'session.add_decision("x", rational="y")': "rational",
    'session.add_finding("x", severity=3)': "severity",
    'memory.create_session("x", agents="one")': "agents",
    'session.agent("a").query("x", limt=3)': "limt",
    'memory.recall("x", limt=3)': "limt",
}
WRONG_FIELDS = {  # of records, which a type checker knows
    'a: int = session.add_decision("x").decision': "str",
    'b: str = session.add_finding("x").severity': "None",
    'c: str = session.add_turn("user", [{"type": "text", "text": "x"}]).parts': "list",
    'd: int = session.add_learning("x").tags': "list[str]",
}
RIGHT = """
hits = session.query("x", types=["decision"], limit=3, where={"severity": "high"})
rows = hits.to_dicts()
session.add_decision("x", rationale="y", tags=["a"], importance=0.5)
session.add("decision", {"decision": "x", "own": 1})
session.query({"limt": 3})
"""


def test_type_checker_rejects_wrong_options_and_accepts_right_ones(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    lines = ["import smp_memory", "memory = smp_memory.open(':memory:')", "session = memory.create_session()"]
    first = len(lines) + 1
    wrong = WRONG | WRONG_FIELDS
    lines += [*wrong, RIGHT]
    path = tmp_path / "calls.py"
    path.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = {int(line.split(":")[1]): line for line in done.stdout.splitlines() if ": error:" in line}
    assert set(errors) == set(range(first, first + len(wrong))), done.stdout
    for number, name in enumerate(wrong.values(), first):
        assert name in errors[number]


@pytest.mark.parametrize("call", [each for each in WRONG if "add_" not in each and "create_" not in each])
def test_wrong_option_names_are_rejected_at_run_time(call: str) -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s1")
        session.add_decision("x")
        with pytest.raises((InvalidQuery, TypeError)):
            eval(call, {"session": session, "memory": memory})
