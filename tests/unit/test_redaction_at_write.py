"""Secrets never reach a file, whichever way they are written, and stored ones can be redacted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidConfig
from smp_memory.files.layouts import NAMES
from smp_memory.testing import CrashingSystem, FrozenClock, PowerLoss

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # made up
MAIL = "grace.hopper@example.org"
PASSWORD = "Tr0ub4dor&3x"
SECRETS = (TOKEN, MAIL, PASSWORD)
OFF = {"privacy": {"redaction": {"enabled": False}}}
EVERYWHERE = pytest.mark.parametrize("layout", NAMES)


def opened(root: Path, layout: str | None = None, config: dict[str, Any] | None = None) -> smp_memory.Memory:
    return smp_memory.open(root / "store", layout=layout, config=config, clock=FrozenClock())


def holding(root: Path, *needles: str) -> list[str]:
    """The files with one of the texts in them, also inside compressed ones."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            data = Path(folder, name).read_bytes()
            start = data.find(b"\x1f\x8b\x08")
            while start >= 0:
                machine = zlib.decompressobj(31)
                try:
                    data += machine.decompress(data[start:])
                    start = data.find(b"\x1f\x8b\x08", start + 1)
                except zlib.error:
                    start = data.find(b"\x1f\x8b\x08", start + 1)
            if any(needle.encode() in data for needle in needles):
                found.append(os.path.join(folder, name))
    return found


def write_everywhere(memory: smp_memory.Memory) -> smp_memory.SessionMemory:
    """Every way to write, with a secret in each."""
    session = memory.create_session("s", project=f"about {MAIL}", note=f"token {TOKEN}", deep={"password": PASSWORD})
    session.add_turn("user", f"My key is {TOKEN}", author="ada")
    session.add("decision", {"decision": f"Ask {MAIL}", "tags": ["ops"], "own": {"list": [f"password={PASSWORD}"]}})
    session.add_many([("finding", f"{MAIL} is down"), ("learning", {"learning": f"use {TOKEN}"})])
    session.add_preference("contact", f"mail {MAIL}")
    session.add_preference("contact", f"mail {MAIL} or {TOKEN}")
    session.update_agent_state("veritas", {"password": PASSWORD, "seen": [MAIL]})
    session.update_agent_state("veritas", {"password": PASSWORD, "seen": [TOKEN]})
    session.add_artifact("env", f"DB_PASSWORD={PASSWORD}\nMAIL={MAIL}\n")
    with session.transaction() as tx:
        made = tx.add_decision(f"In a transaction: {TOKEN}")
        tx.update(made, rationale=f"as {MAIL} said")
    session.update("DEC-0001", rationale=f"see {TOKEN}", extra={MAIL: "x", "password": PASSWORD})
    session.resolve("FIND-0001", f"told {MAIL}", by="ada")
    session.change_info(context={"phase": f"mail {MAIL}"})
    session.delete("LEARN-0001", f"{MAIL} asked for it")
    return session


@EVERYWHERE
def test_no_secret_reaches_a_file(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout) as memory:
        session = write_everywhere(memory)
        assert session.get("TURN-0001").content == "My key is [REDACTED:github_token]"
        assert session.get("DEC-0001").to_dict()["extra"]
        memory.query("token mail password")  # makes the index
        session.query("ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
        session.topics()
        session.validate()
        assert holding(tmp_path, *SECRETS) == []
    assert holding(tmp_path, *SECRETS) == []


def test_returned_record_is_the_stored_one(tmp_path: Path) -> None:
    session = opened(tmp_path).create_session("s")
    record = session.add_decision(f"Ask {MAIL}", author="architect")
    assert record.decision == "Ask [REDACTED:email]"
    assert opened(tmp_path).session("s").get(record.id) == record
    assert session.update(record.id, impact=f"{TOKEN}").impact == "[REDACTED:github_token]"
    assert session.resolve(record.id, {"action_taken": MAIL}).resolution["action_taken"] == "[REDACTED:email]"


@EVERYWHERE
def test_reasons_for_archiving_and_deleting_are_redacted(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout) as memory:
        memory.create_session("a").add_decision("x")
        memory.create_session("b").add_decision("x")
        memory.archive_session("a", f"{MAIL} said so")
        memory.delete_session("b", f"{MAIL} said so")
    assert holding(tmp_path, MAIL) == []


def test_redaction_is_logged_by_kind(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    session = memory.create_session("s", author="ada", note=MAIL)
    session.add_decision(f"Ask {MAIL} and {MAIL} with {TOKEN}")
    session.add_decision("Nothing")
    session.update("DEC-0002", rationale=MAIL)
    notes = [(note["action"], note.get("ids"), note["kinds"]) for note in memory.store.audit.entries()]
    assert notes == [
        ("redact", None, {"email": 1}),
        ("redact", ["DEC-0001"], {"email": 2, "github_token": 1}),
        ("redact", ["DEC-0002"], {"email": 1}),
    ]
    assert memory.store.audit.problems() == []


def test_author_may_be_a_mail_address(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    session = memory.create_session("s", user=MAIL, agents=[MAIL])
    turn = session.add_turn("user", "Hello")
    decision = session.add_decision("Yes", author=MAIL, approved_by=[MAIL], agents_involved=["x"])
    session.update(decision.id, impact="high", by=MAIL)
    resolved = session.resolve(decision.id, "done", by=MAIL)
    assert (session.info.user, session.info.agents, turn.author, decision.author) == (MAIL, [MAIL], MAIL, MAIL)
    assert (decision.approved_by, resolved.resolution["resolved_by"]) == ([MAIL], MAIL)
    assert [step["by"] for step in session.history(decision.id)] == [MAIL] * 3
    assert memory.store.audit.entries() == []


def test_token_as_author_is_redacted(tmp_path: Path) -> None:
    session = opened(tmp_path).create_session("s")
    assert session.add_decision("Yes", author=TOKEN).author == "[REDACTED:github_token]"


# -- settings


def test_redaction_can_be_switched_off(tmp_path: Path) -> None:
    memory = opened(tmp_path, config=OFF)
    session = memory.create_session("s", note=MAIL)
    assert session.add_decision(f"Ask {MAIL}").decision == f"Ask {MAIL}"
    assert session.info.context == {"note": MAIL}
    assert memory.store.audit.entries() == []


def test_one_rule_can_be_switched_off(tmp_path: Path) -> None:
    session = opened(tmp_path, config={"privacy": {"redaction": {"off": ["email"]}}}).create_session("s")
    assert session.add_decision(f"{MAIL} {TOKEN}").decision == f"{MAIL} [REDACTED:github_token]"


def test_session_overrides_redaction_settings(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    own = memory.create_session("own", config={"privacy": {"redaction": {"off": ["email"]}}}, note=MAIL)
    other = memory.create_session("other")
    assert own.add_decision(MAIL).decision == MAIL
    assert own.info.context == {"note": MAIL}
    assert other.add_decision(MAIL).decision == "[REDACTED:email]"
    assert opened(tmp_path).session("own").add_decision(MAIL).decision == MAIL


def test_custom_patterns_are_applied(tmp_path: Path) -> None:
    patterns = [{"type": "employee", "regex": "EMP-[0-9]{6}"}]
    memory = opened(tmp_path, config={"privacy": {"redaction": {"patterns": patterns}}})
    assert memory.create_session("s").add_decision("EMP-123456").decision == "[REDACTED:employee]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("off", ["fone"]),
        ("patterns", [{"type": "x", "regex": "("}]),
        ("patterns", [{"type": "x", "regex": "(a+)+b"}]),
        ("patterns", [{"type": "email", "regex": "a"}]),
    ],
)
def test_wrong_rules_are_reported_when_the_store_is_opened(tmp_path: Path, name: str, value: Any) -> None:
    wrong = {"privacy": {"redaction": {name: value}}}
    with pytest.raises(InvalidConfig) as caught:
        opened(tmp_path, config=wrong)
    assert caught.value.key == f"privacy.redaction.{name}"  # type: ignore[attr-defined]
    memory = opened(tmp_path)
    with pytest.raises(InvalidConfig):
        memory.set_config(f"privacy.redaction.{name}", value)
    with pytest.raises(InvalidConfig):
        memory.create_session("s", config=wrong)
    assert memory.sessions() == []
    opened(tmp_path)


def test_rules_are_not_loaded_without_a_write(tmp_path: Path) -> None:
    opened(tmp_path).create_session("s").add_decision("x")
    code = (
        "import sys, smp_memory; m = smp_memory.open(sys.argv[1]); m.session('s').records(); m.create_session('t', user='ada');"
        "print([name for name in sys.modules if name.startswith(('smp_memory.privacy.redaction', 'smp_memory.privacy.context_rules', 'smp_memory.exchange.export'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(smp_memory.__file__).parent.parent)},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_repeated_idempotent_write_is_the_same_memory(tmp_path: Path) -> None:
    session = opened(tmp_path).create_session("s")
    first = session.add_decision(f"Ask {MAIL}", idempotency_key="k-1")
    assert session.add_decision(f"Ask {MAIL}", idempotency_key="k-1").id == first.id
    session.add_preference("contact", MAIL)
    assert session.add_preference("contact", MAIL).revision == 1


# -- what is already stored


@EVERYWHERE
def test_stored_secrets_are_redacted(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout, OFF) as memory:
        before = write_everywhere(memory)
        memory.query("password")
        shape = [
            (record.id, record.type, record.revision, record.deleted) for record in before.records(include_deleted=True)
        ]
        steps = {record.id: len(before.history(record.id)) for record in before.records(include_deleted=True)}
        assert holding(tmp_path, *SECRETS)
    with opened(tmp_path) as memory:
        session = memory.session("s")
        (seen,) = session.redact(preview=True)
        assert holding(tmp_path, *SECRETS)
        assert not any(secret in json.dumps(seen.to_dict()) for secret in SECRETS)
        (done,) = session.redact(reason="cleaning up")
        assert done.to_dict() == seen.to_dict()
        assert set(done.memories) == {
            "TURN-0001",
            "DEC-0001",
            "FIND-0001",
            "LEARN-0001",
            "PREF-0001",
            "STATE-veritas",
            "ART-0001",
            "DEC-0002",
        }
        assert done.head["email"]
        assert holding(tmp_path, *SECRETS) == []
        after = memory.session("s")
        assert [
            (record.id, record.type, record.revision, record.deleted) for record in after.records(include_deleted=True)
        ] == shape
        assert {record.id: len(after.history(record.id)) for record in after.records(include_deleted=True)} == steps
        assert after.get("TURN-0001").content == "My key is [REDACTED:github_token]"
        assert after.validate().ok
        note = memory.store.audit.entries()[-1]
        assert (note["action"], note["ids"], note["kinds"], note["reason"]) == (
            "redact",
            list(done.memories),
            done.kinds,
            "cleaning up",
        )
        assert session.redact() == []
        assert "TURN-0001" in memory.query("key").ids
        assert after.add_decision("next").id == "DEC-0003"
    assert holding(tmp_path, *SECRETS) == []


@EVERYWHERE
def test_secret_in_metadata_only_is_redacted(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout, OFF) as memory:
        memory.create_session("s", note=f"mail {MAIL}")
    with opened(tmp_path) as memory:
        (done,) = memory.redact()
        assert (done.head, done.memories) == ({"email": 1}, {})
        assert memory.session("s").info.context == {"note": "mail [REDACTED:email]"}
        assert holding(tmp_path, MAIL) == []
        assert memory.session("s").validate().ok


@EVERYWHERE
def test_secret_in_earlier_metadata_is_redacted(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout, OFF) as memory:
        session = memory.create_session("s", note=f"mail {MAIL}", user="grace@example.org")
        session.add_decision("fine")
        session.change_info(context={"note": "nothing"})
    with opened(tmp_path) as memory:
        session = memory.session("s")
        assert bool(session.redact(preview=True)) is (layout == "single")
        session.redact()
        assert holding(tmp_path, MAIL) == []
        assert (session.info.user, session.info.context) == ("grace@example.org", {"note": "nothing"})
        assert session.get("DEC-0001").decision == "fine"
        assert session.redact() == []


def test_quarantined_files_are_redacted_and_unreadable_ones_reported(tmp_path: Path) -> None:
    with opened(tmp_path, "jsonl", OFF) as memory:
        session = memory.create_session("s")
        session.add_decision("fine")
        file = Path(session.folder, "decisions.jsonl")
        file.write_bytes(b"broken " + MAIL.encode() + b"\n" + file.read_bytes())
    with opened(tmp_path) as memory:
        (seen,) = memory.redact(preview=True)
        assert len(seen.pending) == 1
        assert MAIL not in seen.pending[0]
        memory.session("s").repair()
        (done,) = memory.redact()
        assert done.set_aside == {"email": 1}
        assert holding(tmp_path, MAIL) == []


@pytest.mark.parametrize("layout", NAMES)
def test_crash_during_redaction_leaves_every_memory_old_or_new(layout: str) -> None:
    def begun() -> tuple[CrashingSystem, smp_memory.Memory]:
        system = CrashingSystem()
        memory = smp_memory.open(":memory:", layout=layout, clock=FrozenClock(), system=system, config=OFF)
        session = memory.create_session("s", note=MAIL)
        session.add_decision(f"Ask {MAIL}")
        session.update("DEC-0001", rationale=TOKEN)
        session.add_finding(f"Saw {TOKEN}")
        return system, memory

    def shown(memory: smp_memory.Memory) -> str:
        session = memory.session("s")
        return json.dumps([[record.to_dict(), session.history(record.id)] for record in session.records()])

    old = shown(begun()[1])
    memory = begun()[1]
    memory.redact()
    new = shown(memory)
    assert old != new
    calls = 0
    while True:
        calls += 1
        system, memory = begun()
        system.crash_at = system.calls + calls
        try:
            memory.redact()
        except PowerLoss:
            for state in system.crash_states(limit=3, seed=calls):
                again = smp_memory.open(":memory:", clock=FrozenClock(), system=CrashingSystem(disk=state))
                assert shown(again) in (old, new)
                again.redact()
                assert shown(again) == new
                assert again.session("s").info.context == {"note": "[REDACTED:email]"}
        else:
            break
    assert calls > 10


def test_custom_pattern_does_not_rename_a_field() -> None:
    patterns = [{"type": "codename", "regex": "decis[a-z]{1,9}"}]
    memory = smp_memory.open(":memory:", config={"privacy": {"redaction": {"patterns": patterns}}})
    record = memory.create_session("s").add_decision("decision about decisions")
    assert record.decision == "[REDACTED:codename] about [REDACTED:codename]"
