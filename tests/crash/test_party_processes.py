"""Agents in separate processes report equal findings at once: they become one memory or two that are linked; none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import smp_memory

SOURCE = Path(__file__).parents[2] / "src"
FINDINGS = (
    "The login page has no rate limit", "Invoices of closed accounts are sent again", "The nightly export forgets accents",
    "Passwords are written to the log", "The search index is never cleaned", "Two clients share one session cookie",
)  # fmt: skip
AGENT = """\
import json, sys, smp_memory
root, name = sys.argv[1:]
party = smp_memory.open(root).session("s1").party([name])
print("ready", flush=True)
sys.stdin.readline()
for finding in json.loads(sys.stdin.readline()):
    stands = party.add_finding(name, finding, severity="high")
    print(json.dumps([finding, stands.id]), flush=True)
    party.comment(name, "DEC-0001", f"{name} on: {finding}", agrees=True)
"""


def test_concurrent_equal_findings_are_merged_or_linked(tmp_path: Path) -> None:
    root = tmp_path / "store"
    names = ["architect", "developer", "veritas"]
    with smp_memory.open(root) as memory:
        memory.create_session("s1", agents=names).add_decision("Fix what we find", author="architect")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", AGENT, str(root), name],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n" + json.dumps(FINDINGS) + "\n")
            child.stdin.flush()
        told = [child.communicate(timeout=100)[0] for child in children]
        assert [child.returncode for child in children] == [0, 0, 0]
    finally:
        for child in children:
            child.kill()
            child.wait()
    with smp_memory.open(root) as memory:
        session = memory.session("s1")
        standing = session.records("finding")
        for finding in FINDINGS:
            same = [record for record in standing if record.finding == finding]
            found_by = {name for record in same for name in record.discoverers}
            assert found_by == set(names), finding  # nobody's discovery is lost
            linked = {relation["target"] for record in same for relation in record.relations}
            assert len(same) == 1 or all(record.id in linked for record in same[1:])
        every = {record.id for record in session.records("finding", include_deleted=True)}
        assert len(every) == len(FINDINGS) * len(names)
        for text in told:
            for line in text.splitlines():
                assert session.find(json.loads(line)[1]) is not None
        assert len(session.get("DEC-0001").inputs) == len(FINDINGS) * len(names)
        assert session.validate().ok
