"""Make the golden folders anew: `python tests/formats/make_golden.py`.

tests/formats/v1/{layout}/store is a store as SMP writes it today, with a frozen clock and given ids, without the
private folders `.smp` (locks and notes differ from run to run); tests/formats/v1/expected.json is what must be read
from each of them, for ever. Run it only when the format changes on purpose before a release; after a release a new
format gets a folder of its own.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "src"))

import smp_memory  # noqa: E402
from smp_memory.testing import FrozenClock, fixed_uids  # noqa: E402

LAYOUTS = ("jsonl", "markdown", "single", "log")
VERSION = "v1"


def stored(record: smp_memory.Record) -> dict[str, Any]:
    """The fields of a record without its text, which is computed."""
    fields = record.to_dict()
    if "text" not in record.given:
        del fields["text"]
    return fields


def write(root: Path, layout: str) -> None:
    """A session with everything in it that a format must keep."""
    with fixed_uids():
        _write(root, layout)


def _write(root: Path, layout: str) -> None:
    clock = FrozenClock(datetime(2026, 1, 11, 14, 30, tzinfo=UTC))
    memory = smp_memory.open(root, layout=layout, clock=clock, config={"durability": "os"})
    session = memory.create_session(
        "session-2026-01-11-abc123",
        user="user-123",
        agents=["bmad-master", "veritas"],
        project="E-Commerce Platform",
        tags=["oauth", "security.authentication"],
        phase="requirements",
        limits={"turns": 100, "note": "two\nlines\n"},
    )
    session.add_turn("user", "Let's review the authentication requirements.")
    clock.advance(5)
    session.add_turn(
        "assistant",
        "Three concerns:\n\n1. **CRITICAL:** no MFA\n---\n## Turn 9 - 2026-01-11 14:30:00\n\n    code  \n",
        author="veritas",
        memory_refs=["FIND-0001"],
        tags=["security"],
        kind="message",
    )
    session.add_turn("tool", 'CRLF\r\nand \0 and \u2028 and "quotes" and \U0001f600', tokens=15)
    clock.advance(0.25)
    session.add_decision(
        "Use OAuth 2.0 with JWT: yes, \"really\"",
        rationale="Industry standard\n- good libraries\n- SSO later\n",
        alternatives=[{"option": "Session cookies", "rejected_because": "not for APIs"}, {"option": "none"}],
        author="architect",
        agreed_by=["bmad-master", "veritas"],
        confidence="high",
        reversible=False,
        tags=["architecture", "日本語"],
        turn_ref=2,
        idempotency_key="decide-oauth",
    )
    session.add_finding(
        "No MFA requirement specified", severity="critical", category="missing_requirement", author="veritas",
        location={"artifact": "/docs/requirements.md", "line_numbers": [45, 60]}, importance=0.9,
    )  # fmt: skip
    session.add_preference("response_style", "concise", category="communication", confidence=0.9, learned_from=["s0"])
    session.add_preference(preference="no", applies_to={"projects": ["*"], "n": 1, "x": 1.0, "t": True, "s": "1", "none": None})
    session.update_agent_state("veritas", {"task": "verify", "methods": ["#51 Liar's Trap", "- dash"], "open": 3})
    session.add_artifact("report.md", "# Report\n\n<!-- end ART-0001 sha256:0123456789abcdef -->\nbody\n", path="docs/report.md")
    session.add_learning("Check for MFA in all auth sections", pinned=True)
    session.add("summary", summary="Authentication was reviewed.", covers=["TURN-0001", "TURN-0002"])
    session.add_decision("Own id and odd fields", id="my_decision-1", seq=7, extra={"deep": [1, [2, {"a": None}]]}, **{"Odd Key": "x", "by": "y", "author": "z"})
    clock.advance(60)
    session.update("DEC-0001", by="bob", rationale="Because.", reversible=None, impact="high")
    session.resolve("FIND-0001", "MFA added: required for admins", by="user-123", verification="commit abc123")
    session.add_preference("response_style", "verbose", author="user-123")
    session.update_agent_state("veritas", {"task": "done"})
    session.relate("DEC-0001", "FIND-0001", "resolves", by="architect")
    session.relate("TURN-0001", "other-session/DEC-0007", "derived_from")
    session.pin("TURN-0002")
    clock.advance(60)
    with session.transaction() as tx:
        tx.add_turn("user", "Delete the learning.")
        tx.delete("LEARN-0001", "outdated: 012", by="user-123")
        tx.relate(tx.add_decision("In a transaction"), "DEC-0001", "supersedes")
    session.delete("ART-0001")
    session.restore("ART-0001", "still needed", by="bob")
    session.delete("my_decision-1")
    memory.close()


def read(root: Path) -> dict[str, Any]:
    """All that a store says, as JSON."""
    memory = smp_memory.open(root)
    found = {
        session.id: {
            "info": session.info.to_dict(),
            "records": [
                {**stored(record), "history": session.history(record.id)} for record in session.records(include_deleted=True)
            ],
        }
        for session in memory.sessions()
    }
    memory.close()
    return json.loads(json.dumps(found))


def make(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    found = []
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place) / "store"
            write(root, layout)
            found.append(read(root))
            shutil.copytree(root, target / layout / "store", ignore=shutil.ignore_patterns(".smp", "indexes"))
    assert all(each == found[0] for each in found), "the layouts do not agree"
    (target / "expected.json").write_text(json.dumps(found[0], ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    make(HERE / VERSION)
    sys.stdout.write(f"made {HERE / VERSION}\n")
