"""Each check reports the fault that was planted for it, and a healthy store has no issues."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES
from smp_memory.files.lock import SessionLock
from smp_memory.files.system import RealSystem
from smp_memory.health import content
from smp_memory.health.examination import HealthReport
from smp_memory.privacy.fence import fence
from tests.unit.health.sample_store import (
    QUICKLY,
    TOKEN,
    aged,
    checked,
    every_check,
    fill,
    in_days,
    made,
    only,
    unchanged,
)
from tests.user_state import state_folder

every_layout = pytest.mark.parametrize("layout", NAMES)


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with made(tmp_path) as memory:
        yield memory


def file_of(memory: smp_memory.Memory, name: str, session: str = "review") -> Path:
    return Path(memory.session(session).folder) / name


# -- a store that is well


@every_layout
def test_healthy_store_has_no_issues_and_is_not_modified(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        with unchanged(memory.root):
            report = memory.doctor()
        assert report.findings == []
        assert (report.ok, report.severity, report.sessions, report.memories) == (True, "ok", 1, 8)
        assert [check.name for check in report.checks] == [kind.name for kind in every_check()]
        assert "8 memories compared, 1 of 1 session" in [check.said for check in report.checks]
    with unchanged(memory.root):
        assert checked(memory.root).findings == []


def test_in_memory_store_can_be_checked() -> None:
    with smp_memory.open(":memory:") as memory:
        fill(memory)
        assert memory.doctor().findings == []
        assert memory.doctor(fix=True).fixed == []


def test_empty_store_is_healthy(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory, unchanged(memory.root):
        assert memory.doctor().findings == []


def test_checks_do_not_count_as_access(memory: smp_memory.Memory) -> None:
    memory.store.access.flush()
    before = memory.store.access.size_bytes()
    memory.doctor()
    memory.store.access.flush()
    assert memory.store.access.size_bytes() == before


def test_report_is_json_serialisable(memory: smp_memory.Memory) -> None:
    memory.session("review").add_finding(f"The token is {TOKEN}")
    os.chmod(file_of(memory, "findings.jsonl"), 0o644)
    told = json.loads(json.dumps(memory.doctor().to_dict()))
    assert told["ok"] is False
    assert told["fixes"] == ["permissions"]
    assert {"check", "severity", "session", "ids", "path", "line", "message", "advice", "fix"} <= set(
        told["findings"][0]
    )


# -- memories


def test_unreadable_entry_is_reported_with_file_and_line(memory: smp_memory.Memory) -> None:
    path = file_of(memory, "decisions.jsonl")
    path.write_text('{"id": broken\n' + path.read_text())
    finding = only(memory.doctor(), "contents")
    assert (finding.severity, finding.session, finding.path, finding.line) == ("problem", "review", str(path), 1)
    assert "smp repair --session review" in finding.advice


def title_of(report: HealthReport, check: str) -> str:
    return next(result.title for result in report.checks if result.name == check)


def test_title_states_how_many_memories_cannot_be_read(memory: smp_memory.Memory) -> None:
    assert title_of(memory.doctor(), "contents") == "all memories can be read"
    path = file_of(memory, "decisions.jsonl")
    path.write_text('{"id": broken\n' + path.read_text())
    assert title_of(memory.doctor(), "contents") == "1 memory cannot be read"
    path.write_text('{"id": broken\n' * 30 + path.read_text())  # more than are reported one by one
    assert title_of(memory.doctor(), "contents") == "31 memories cannot be read"


def test_title_states_that_session_metadata_cannot_be_read(memory: smp_memory.Memory) -> None:
    file_of(memory, "manifest.json").write_text("{ broken")
    assert title_of(memory.doctor(), "contents") == "1 file cannot be read"


def test_title_of_notes_does_not_claim_that_memories_cannot_be_read(memory: smp_memory.Memory) -> None:
    path = file_of(memory, "findings.jsonl")
    path.write_text(path.read_text().replace("rate limit", "limit"))
    report = memory.doctor()
    assert only(report, "contents").severity == "note"
    assert title_of(report, "contents") == "all memories can be read"


def test_title_of_a_check_that_raised_states_that_it_is_incomplete(
    memory: smp_memory.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("not expected")

    monkeypatch.setattr("smp_memory.health.content.RecalledText.session", fail)
    report = memory.doctor()
    assert only(report, "recalled").severity == "problem"
    assert title_of(report, "recalled") == "recalled could not be checked completely"
    assert title_of(report, "references") == "all references lead to memories"


def test_every_check_has_a_title_for_both_results() -> None:
    for check in every_check():
        assert check.title
        assert check.failed
        assert check.title != check.failed


def test_many_hand_edits_become_one_note(memory: smp_memory.Memory) -> None:
    session = memory.session("review")
    session.add_many([("learning", f"Something learned on day {day} of the year") for day in range(30)])
    path = file_of(memory, "learnings.jsonl")
    path.write_text(path.read_text().replace("Something", "Anything"))
    first, rest = memory.doctor().of("contents")
    assert (first.severity, rest.severity, len(rest.ids)) == ("note", "note", 29)
    assert memory.doctor().ok


def test_torn_end_is_reported(memory: smp_memory.Memory) -> None:
    with file_of(memory, "findings.jsonl").open("ab") as file:
        file.write(b'{"id":"FIND-0002","finding":"half of')
    finding = only(memory.doctor(), "contents")
    assert (finding.severity, finding.fix) == ("warning", "recovery")


def test_unreadable_session_metadata_is_reported(memory: smp_memory.Memory) -> None:
    file_of(memory, "manifest.json").write_text("{nothing")
    assert only(memory.doctor(), "contents").severity == "problem"


def test_entries_of_another_program_without_checksums_are_one_note(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(
        '{"session_id": "s1", "created_at": "2026-01-01T10:00:00Z", "status": "active"}'
    )
    lines = [
        f'{{"id": "DEC-{n:04}", "timestamp": "2026-01-01T10:00:00Z", "decision": "Use {n}", "made_by": "a"}}\n'
        for n in range(1, 31)
    ]
    (folder / "decisions.jsonl").write_text("".join(lines))
    (found,) = checked(tmp_path).of("contents")
    assert (found.severity, len(found.ids), found.line) == ("note", 30, 1)
    assert found.message.startswith("30 entries have no checksum: a person or another program wrote them.")
    assert found.advice.startswith("Nothing needs to be done")
    assert "repair" not in found.advice  # which leaves such entries as they are
    with smp_memory.open(tmp_path) as memory:
        before = (folder / "decisions.jsonl").read_bytes()
        assert memory.session("s1").repair().actions == []
        assert (folder / "decisions.jsonl").read_bytes() == before
        assert {problem.code for problem in memory.session("s1").validate().problems} == {"unsigned"}


def test_handwritten_session_is_reported_as_older_format(memory: smp_memory.Memory) -> None:
    folder = Path(memory.root, "sessions", "typed")
    folder.mkdir(mode=0o700)
    (folder / "decisions.jsonl").touch(0o600)
    (folder / "decisions.jsonl").write_text(
        '{"id": "DEC-0001", "decision": "Typed by hand", "timestamp": "2026-01-01T00:00:00Z"}\n'
    )
    report = memory.doctor()
    assert [(finding.check, finding.severity) for finding in report.findings] == [
        ("format", "note"),
        ("contents", "note"),
    ]
    assert report.of("format")[0].details == ({"session": "typed"},)


def test_duplicates(memory: smp_memory.Memory) -> None:
    session = memory.session("review")
    session.add_finding("The login form has no rate limit at all", author="ada")
    finding = only(memory.doctor(), "duplicates")
    assert (finding.severity, finding.ids, finding.session) == ("note", ("FIND-0001", "FIND-0002"), "review")
    assert "smp duplicates --session review" in finding.advice


def test_transcript_imported_twice_is_reported(memory: smp_memory.Memory) -> None:
    session, at = memory.session("review"), "2026-01-31T10:00:00Z"
    for _ in range(2):
        session.add_many([("turn", {"role": "user", "content": f"Line {line}", "created": at}) for line in range(3)])
    report = memory.doctor()
    [finding] = report.of("duplicates")
    assert (finding.severity, finding.ids) == ("warning", ("TURN-0006", "TURN-0007", "TURN-0008"))


def test_copies_within_and_across_sessions_are_reported(memory: smp_memory.Memory) -> None:
    session, other = memory.session("review"), memory.create_session("other")
    session.add_decision("use  oauth 2.0 for all customers")
    other.add_learning("Reviews find more before lunch")
    within, across = memory.doctor().of("duplicates")
    assert within.ids == ("DEC-0001", "DEC-0002")
    assert across.ids == ("other/LEARN-0001", "review/LEARN-0001")


def test_four_rules_for_stale_memories(memory: smp_memory.Memory) -> None:
    session = memory.session("review")
    session.add_decision(
        "Use passkeys for all customers instead", relations=[{"kind": "supersedes", "target": "DEC-0001"}]
    )
    session.add_finding("Written in the year 2099", created="2099-01-01T00:00:00Z", status="resolved")
    report = checked(memory.root, now=in_days(100))
    by_rule = {finding.details[0]["rule"]: finding for finding in report.of("stale")}
    assert by_rule["open"].ids == ("FIND-0001",)
    assert "health.stale_days" in by_rule["open"].message
    assert by_rule["superseded"].ids == ("DEC-0001",)
    assert by_rule["future"].ids == ("FIND-0002",)
    assert "TURN-0001" in by_rule["faded"].ids
    assert {finding.severity for finding in report.of("stale")} == {"note"}
    session.pin("FIND-0001")
    assert "open" not in [finding.details[0]["rule"] for finding in checked(memory.root, now=in_days(100)).of("stale")]


def test_stale_days_is_configurable(memory: smp_memory.Memory) -> None:
    memory.set_config("health.stale_days", 1000)
    rules = [finding.details[0]["rule"] for finding in checked(memory.root, now=in_days(100)).of("stale")]
    assert rules == ["faded"]


def test_references_to_missing_memories_are_reported(memory: smp_memory.Memory) -> None:
    session, other = memory.session("review"), memory.create_session("other")
    session.add_decision("Rests on much that is gone", references=["TURN-0404", "docs/plan.md", "https://x.example/a"])
    session.relate("DEC-0002", "FIND-0001", "led_to")
    for target in ("other/DEC-0001", "nowhere/DEC-0001", "done/DEC-0001", "wrong/DEC-0001", "other/FIND-0001"):
        session.relate("DEC-0002", target)
    other.add_finding("Something that is there in the other one")
    session.delete("FIND-0001")
    found = {finding.details[0]["target"]: finding.severity for finding in memory.doctor().of("references")}
    assert found == {
        "TURN-0404": "warning",  # never written
        "FIND-0001": "note",  # in the trash
        "other/DEC-0001": "warning",
        "nowhere/DEC-0001": "warning",
        "wrong/DEC-0001": "note",  # its session is in the trash
    }
    assert len(memory.doctor(sessions=["review"]).of("references")) == 6  # DEC-0001 resolves FIND-0001


def test_references_to_compacted_memories_are_valid(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", config=QUICKLY) as memory:
        session = memory.create_session("old")
        for number in range(30):
            session.add_turn("user", f"Something old {number} " * 20, created="2025-01-01T00:00:00Z")
        session.add_decision("Rests on something old", references=["TURN-0003"])
        session.update("DEC-0001", status="resolved")
        assert "TURN-0003" in session.compact(100_000).removed
        assert memory.doctor().of("references") == []


# -- privacy


def test_stored_secrets_are_reported_without_content(tmp_path: Path) -> None:
    off = {"privacy": {"redaction": {"enabled": False}}}
    with made(tmp_path, "jsonl", **off) as memory:
        session = memory.session("review")
        session.add_finding("Somebody logs in", evidence=[f"export GITHUB_TOKEN={TOKEN}"])
        session.add_decision(f"The key is {TOKEN} for now")
        session.update("DEC-0002", decision="The key is in the vault")
        session.change_info(context={"note": f"see {TOKEN}"})
    report = checked(memory.root)
    found = report.of("secrets")
    assert {finding.severity for finding in found} == {"problem"}
    assert len(found) == 3
    by_id = {finding.ids[0] if finding.ids else "": finding for finding in found}
    assert by_id["FIND-0002"].details[0] == {"id": "FIND-0002", "field": "evidence[0]", "kind": "github_token"}
    assert "in its history" in by_id["DEC-0002"].message
    assert "metadata" in by_id[""].message
    assert TOKEN not in json.dumps(report.to_dict())
    assert "smp redact --session review" in by_id["FIND-0002"].advice
    with smp_memory.open(memory.root, config=off) as memory:
        assert {finding.severity for finding in memory.doctor().of("secrets")} == {"warning"}
    with smp_memory.open(memory.root) as memory:
        memory.redact()
        assert memory.doctor().of("secrets") == []


def test_secret_typed_into_a_file_is_reported(memory: smp_memory.Memory) -> None:
    path = file_of(memory, "findings.jsonl")
    path.write_text(path.read_text().replace("no rate limit", f"the key {TOKEN}"))
    [finding] = memory.doctor().of("secrets")
    assert (finding.ids, finding.path, finding.line) == (("FIND-0001",), str(path), 1)


def test_entries_count_as_checked_for_secrets_if_the_quarantine_cannot_be_read(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s")
        session.add_decision("one")
        session.add_decision("two")
        quarantine = Path(session.folder, ".smp", "quarantine")
        quarantine.symlink_to(tmp_path)
        [check] = [check for check in memory.doctor().checks if check.name == "secrets"]
    assert check.title == "secrets could not be checked completely"
    assert check.said == "2 entries checked"


def test_secrets_in_quarantine_and_cold_segment_are_reported(tmp_path: Path) -> None:
    with smp_memory.open(
        tmp_path / "store", config={**QUICKLY, "privacy": {"redaction": {"enabled": False}}}
    ) as memory:
        session = memory.create_session("old")
        for number in range(30):
            session.add_turn(
                "user",
                f"Old line {number} {TOKEN if number == 3 else TOKEN[::-1]} " * 20,
                created="2025-01-01T00:00:00Z",
            )
        session.compact(100_000)
        with (Path(session.folder) / "conversation.jsonl").open("ab") as file:
            file.write(f'{{"id": "TURN-0099", "content": "{TOKEN}'.encode())
        session.add_turn("user", "The next one sets it aside")
        told = [finding.message for finding in memory.doctor().of("secrets")]
    assert any("cold segment" in message for message in told)
    assert any("quarantine" in message for message in told)


def test_recalled_text_stored_again_is_reported(memory: smp_memory.Memory) -> None:
    session = memory.session("review")
    files = memory.store.session("review")
    fenced = fence("DEC-0001 Use OAuth 2.0")
    path = file_of(memory, "learnings.jsonl")
    line = json.loads(path.read_text().splitlines()[0])
    for number, text in ((2, fenced), (3, f"I looked it up. {fenced} So we use OAuth.")):
        line.update(id=f"LEARN-000{number}", learning=text, seq=90 + number)
        line.pop("checksum", None)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
    assert "LEARN-0003" in files.history().histories
    only_recalled, partly = memory.doctor().of("recalled")
    assert (only_recalled.severity, only_recalled.ids, only_recalled.line) == ("warning", ("LEARN-0002",), 2)
    assert "only recalled text" in only_recalled.message
    assert partly.details == ({"id": "LEARN-0003", "field": "learning"},)
    assert "smp edit" in partly.advice
    session.delete(["LEARN-0002", "LEARN-0003"], "recalled")
    assert memory.doctor().of("recalled") == []


@pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")
def test_permissions_owners_and_links_are_reported(memory: smp_memory.Memory, tmp_path: Path) -> None:
    os.chmod(file_of(memory, "findings.jsonl"), 0o644)
    os.chmod(file_of(memory, ""), 0o755)
    files, folders = memory.doctor().of("permissions")
    assert (files.severity, files.fix, files.path) == ("warning", "permissions", str(file_of(memory, "findings.jsonl")))
    assert (folders.severity, folders.details) == ("note", ({"path": str(file_of(memory, "")), "mode": "0755"},))
    elsewhere = tmp_path / "elsewhere.jsonl"
    file_of(memory, "learnings.jsonl").rename(elsewhere)
    file_of(memory, "learnings.jsonl").symlink_to(elsewhere)
    assert any("is a link" in finding.message for finding in memory.doctor().of("permissions"))


def test_foreign_files_in_the_store_folder_are_not_checked(memory: smp_memory.Memory) -> None:
    Path(memory.root, "README.md").write_text("ours")
    os.chmod(Path(memory.root, "README.md"), 0o644)
    assert memory.doctor().findings == []


# -- room, index, locks


def test_nearly_full_session_is_reported(tmp_path: Path) -> None:
    settings = {**QUICKLY, "storage": {"max_session_size_mb": 0.05}, "compaction": {"enabled": False}}
    with smp_memory.open(tmp_path / "store", config=settings) as memory:
        session = memory.create_session("full")
        while session.stats().utilisation < 0.81:
            session.add_turn("user", f"{session.stats().memories} " + "word " * 100)
        finding = only(memory.doctor(), "quota")
        assert (finding.severity, finding.session) == ("warning", "full")
        while session.stats().utilisation < 0.96:
            session.add_turn("user", f"{session.stats().memories} " + "word " * 50)
        finding = only(memory.doctor(), "quota")
        assert finding.severity == "problem"
        assert "compaction.enabled" in finding.message


def test_session_that_will_be_full_soon_is_reported(tmp_path: Path) -> None:
    settings = {**QUICKLY, "storage": {"max_session_size_mb": 0.08}, "track_access": False}
    with smp_memory.open(tmp_path / "store", config=settings) as memory:
        session = memory.create_session("growing")
        for days in range(10, 0, -1):
            session.add_turn("user", f"{days} " + "word " * 800, created=datetime.now(UTC) - timedelta(days=days))
        [finding] = memory.doctor().of("quota")
        assert finding.severity == "note"
        assert 5 < finding.details[0]["days_to_quota"] < 14


def rows_of(memory: smp_memory.Memory) -> sqlite3.Connection:
    memory.store.indexer.close()
    return sqlite3.connect(next(state_folder(memory.root).glob("index/index-*/rows.sqlite")))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory SET deleted = 1 WHERE id = 'DEC-0001'",
        "UPDATE memory SET digest = digest + 1 WHERE id = 'DEC-0001'",
        "UPDATE memory SET places = '1:0:7' WHERE id = 'DEC-0001'",
        "UPDATE memory SET updated = 7 WHERE id = 'DEC-0001'",
        "DELETE FROM memory WHERE id = 'DEC-0001'",
        "UPDATE memory SET created = 7 WHERE id = 'DEC-0001'",
    ],
)
def test_index_that_differs_from_the_files_is_reported(memory: smp_memory.Memory, change: str) -> None:
    with rows_of(memory) as database:
        database.executescript(change)
    database.close()
    finding = only(memory.doctor(), "index")
    assert (finding.severity, finding.fix, finding.ids) == ("warning", "index", ("DEC-0001",))


def test_index_of_another_version_is_reported(memory: smp_memory.Memory) -> None:
    with rows_of(memory) as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    finding = only(memory.doctor(), "index")
    assert (finding.severity, finding.fix) == ("note", "index")


def test_damaged_index_rows_are_reported(memory: smp_memory.Memory) -> None:
    rows_of(memory).close()
    path = next(state_folder(memory.root).glob("index/index-*/rows.sqlite"))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x55" * len(data[4096:])
    path.write_bytes(data)
    assert {finding.severity for finding in memory.doctor().of("index")} == {"warning"}
    path.write_bytes(b"this is no database" * 100)
    assert only(memory.doctor(), "index").fix == "index"


def test_damaged_index_words_are_reported(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", config=QUICKLY) as memory:
        session = memory.create_session("long")
        session.add_many([("turn", {"role": "user", "content": f"Line number {line}"}) for line in range(1600)])
        memory.query("line")
        session.delete(["TURN-0001", "TURN-0002"])
        session.add_many([("turn", {"role": "user", "content": f"Later line {line}"}) for line in range(1600)])
        memory.query("line")  # now tantivy has deletions, too
        assert memory.doctor().findings == []
        path = next(path for path in state_folder(memory.root).glob("index/index-*/text-*/*.term"))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert "text index is damaged" in only(memory.doctor(), "index").message
        path.unlink()
        path.with_suffix(".store").unlink()
        for left in path.parent.glob(f"{path.stem}.*"):
            left.unlink()
        assert "missing" in only(memory.doctor(), "index").message


def test_index_is_undamaged_after_erasing(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", config=QUICKLY) as memory:
        for name in ("one", "two"):
            turns = [("turn", {"role": "user", "content": f"Line number {line} of {name}"}) for line in range(1600)]
            memory.create_session(name).add_many(turns)
            memory.query("line")
        memory.session("one").erase("TURN-0007")
        assert memory.doctor().findings == []
        memory.query("line")
        assert memory.doctor().findings == []


def test_promoted_memories_are_no_duplicates(memory: smp_memory.Memory) -> None:
    memory.global_memory.promote("review/LEARN-0001", by="ada")
    memory.global_memory.set_profile("role", "platform engineer")
    assert memory.doctor().findings == []


def test_missing_or_outdated_index_is_no_issue(memory: smp_memory.Memory) -> None:
    memory.session("review").add_learning("Something that the index does not know yet")
    with unchanged(memory.root):
        assert memory.doctor().findings == []
    memory.store.indexer.close()
    for path in sorted(Path(state_folder(memory.root), "index").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with unchanged(memory.root):
        assert memory.doctor().findings == []


def test_lock_held_for_long_is_reported(memory: smp_memory.Memory) -> None:
    lock = SessionLock(Disk(RealSystem()), str(file_of(memory, ".smp")), "session review", "review")
    lock.acquire(1)
    lock.sign("importing a large file")
    try:
        assert memory.doctor().findings == []  # a moment is no fault
        finding = only(checked(memory.root, now=in_days(0.1)), "locks")
        assert (finding.severity, finding.session) == ("note", "review")
        assert f"process {os.getpid()}" in finding.message
        assert "importing a large file" in finding.message
        queue = os.open(file_of(memory, ".smp/queue"), os.O_RDWR)
        assert RealSystem().lock(queue)
        assert only(checked(memory.root, now=in_days(0.1)), "locks").severity == "warning"
        os.close(queue)
    finally:
        lock.release()
    assert checked(memory.root, now=in_days(0.1)).findings == []
    lock.close()


def test_lock_whose_holder_has_ended_is_reported(memory: smp_memory.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = SessionLock(Disk(RealSystem()), str(file_of(memory, ".smp")), "session review", "review")
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: 2**22 + 1)  # larger than any process number of Linux
        lock.acquire(1)
        lock.sign("writing")
    finding = only(memory.doctor(), "locks")
    lock.close()
    assert finding.severity == "warning"
    assert "has ended" in finding.message


# -- leftovers, archives, upkeep


def test_leftovers_of_crashes_are_reported(memory: smp_memory.Memory) -> None:
    left = [
        file_of(memory, "decisions.jsonl.smp-new"),
        Path(memory.root, ".smp/other-0a1b2c3d.smp-new"),
        Path(memory.root, "archive/other.tar.gz.smp-new"),
    ]
    for path in left:
        path.touch(0o600)
    assert memory.doctor().findings == []  # somebody may be at work
    aged(*left)
    own, stores = memory.doctor().of("leftovers")
    assert (own.session, own.fix, own.severity) == ("review", "recovery", "note")
    assert {detail["path"] for detail in stores.details} == {str(path) for path in left[1:]}


def test_quarantine_is_reported_without_a_fix(memory: smp_memory.Memory) -> None:
    with file_of(memory, "findings.jsonl").open("ab") as file:
        file.write(b'{"id":"FIND-0002","finding":"half of')
    memory.session("review").add_finding("Whole, and sets the other one aside")
    finding = only(memory.doctor(), "leftovers")
    assert (finding.severity, finding.fix, finding.session) == ("note", None, "review")
    assert "quarantine" in str(finding.path)


def test_interrupted_conversion_is_reported(memory: smp_memory.Memory) -> None:
    config = Path(memory.root, "config.json")
    stored = json.loads(config.read_text())
    config.write_text(json.dumps({**stored, "converting": True}))
    Path(memory.root, ".smp/converting").mkdir(mode=0o700)
    aged(config)
    finding = only(checked(memory.root), "leftovers")
    assert (finding.severity, finding.fix) == ("warning", "recovery")
    assert "conversion" in finding.message


def test_interrupted_erasure_is_reported(memory: smp_memory.Memory) -> None:
    path = Path(state_folder(memory.root), "erasing.json")
    path.touch(0o600)
    path.write_text('{"ids": {"review": []}}\n')
    aged(path)
    assert only(checked(memory.root), "leftovers").fix == "recovery"


def test_archive_beside_its_active_session_is_reported(memory: smp_memory.Memory) -> None:
    archive = Path(memory.root, "archive/done.tar.gz").read_bytes()
    memory.restore_session("done")
    Path(memory.root, "archive/done.tar.gz").touch(0o600)
    Path(memory.root, "archive/done.tar.gz").write_bytes(archive)
    assert memory.doctor().findings == []  # it may be on its way
    aged(Path(memory.root, "archive/done.tar.gz"))
    finding = only(memory.doctor(), "leftovers")
    assert (finding.session, finding.fix) == ("done", "recovery")


def test_unused_index_is_reported(memory: smp_memory.Memory) -> None:
    old = Path(state_folder(memory.root), "index/gone-0a1b2c3d")
    old.mkdir(mode=0o700)
    aged(old)
    assert only(memory.doctor(), "leftovers").fix == "index"


def test_session_file_removed_by_hand_is_reported(tmp_path: Path) -> None:
    with made(tmp_path, "single") as memory:
        memory.create_session("other").add_decision("Something that somebody removes")
        Path(memory.root, "other.jsonl").unlink()
        finding = only(memory.doctor(), "leftovers")
        assert "other" in finding.message
        assert finding.fix is None


def test_damaged_archive_is_reported(memory: smp_memory.Memory) -> None:
    path = Path(memory.root, "archive/done.tar.gz")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(byte ^ 0xFF for byte in data[middle : middle + 16])  # one bit may mean nothing
    path.write_bytes(data)
    finding = only(memory.doctor(), "archives")
    assert (finding.severity, finding.session, finding.path) == ("problem", "done", str(path))


def test_damaged_cold_segment_is_reported(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", config=QUICKLY) as memory:
        session = memory.create_session("old")
        for number in range(30):
            session.add_turn("user", f"Something old {number} " * 20, created="2025-01-01T00:00:00Z")
        session.compact(100_000)
        path = Path(session.folder, "cold.jsonl.gz")
        data = bytearray(path.read_bytes())
        data[60] ^= 0x10
        path.write_bytes(data)
        found = memory.doctor().of("cold")
        assert found
        assert {finding.severity for finding in found} == {"problem"}


def test_trash_due_for_purging_is_reported(memory: smp_memory.Memory) -> None:
    memory.session("review").delete("TURN-0001")
    assert memory.doctor().of("trash") == []
    told = checked(memory.root, now=in_days(31)).of("trash")
    assert [(finding.session, finding.severity) for finding in told] == [("review", "note"), ("wrong", "note")]
    assert told[0].ids == ("TURN-0001",)


def test_clock_jump_is_reported(memory: smp_memory.Memory) -> None:
    memory.maintain(only=["quota"])
    assert memory.doctor().of("clock") == []
    ahead, back = checked(memory.root, now=in_days(400)), checked(memory.root, now=in_days(-3))
    assert ahead.of("clock")[0].severity == back.of("clock")[0].severity == "warning"


def test_overdue_maintenance_is_reported(memory: smp_memory.Memory) -> None:
    memory.maintain()
    assert memory.doctor().of("maintenance") == []
    [finding] = checked(memory.root, now=in_days(20)).of("maintenance")
    assert (finding.severity, finding.fix) == ("note", "maintenance")
    path = Path(state_folder(memory.root), "access.log")
    path.write_text("1768138200 review/DEC-0001\n" * 50_000)
    assert memory.doctor().of("maintenance")[0].fix == "access"


def test_changed_audit_log_is_reported(memory: smp_memory.Memory) -> None:
    path = Path(memory.root, ".smp/audit.jsonl")
    path.write_text(path.read_text().replace("archive_session", "nothing"))
    assert only(memory.doctor(), "audit").severity == "warning"


def test_recorded_session_without_memories_is_reported(memory: smp_memory.Memory) -> None:
    path = Path(state_folder(memory.root), "hooks/left-nothing")
    path.parent.mkdir(mode=0o700, parents=True)
    path.touch(0o600)
    path.write_text('{"session": "codex-2026-01-31-5f0c1a7e", "turns": 12, "at": "2026-01-31T14:00:00Z"}')
    finding = only(checked(memory.root), "hooks")
    assert (finding.severity, finding.session) == ("note", "codex-2026-01-31-5f0c1a7e")
    assert "12 turns" in finding.message
    for hostile in ('{"session": "x\\nDo this", "turns": 1}', '{"session": "x", "turns": "many"}', "[", "[]", "\0"):
        path.write_text(hostile)
        assert checked(memory.root).of("hooks") == []


def test_hook_failures_are_reported(memory: smp_memory.Memory) -> None:
    path = Path(state_folder(memory.root), "hooks.log")
    path.touch(0o600)
    at = datetime.now(UTC).isoformat()
    failures = [{"at": at, "client": "agent", "event": f"stop{n}", "error": f"no: {TOKEN}"} for n in range(5)]
    path.write_text("".join(json.dumps(failure) + "\n" for failure in failures) + "torn {")
    report = memory.doctor()
    finding = only(report, "hooks")
    assert finding.severity == "warning"
    assert "5 failures" in finding.message
    assert [detail["event"] for detail in finding.details] == ["stop2", "stop3", "stop4"]
    assert TOKEN not in json.dumps(report.to_dict())
    assert checked(memory.root, now=in_days(8)).of("hooks")[0].severity == "note"


# -- settings


def test_all_unknown_settings_are_reported(memory: smp_memory.Memory) -> None:
    path = Path(memory.root, "config.json")
    stored = {**json.loads(path.read_text()), "durabilty": "os", "decay": {"polcy": "smp"}, "track_access": "perhaps"}
    path.write_text(json.dumps(stored))
    report = checked(memory.root)
    assert {finding.check for finding in report.findings} == {"configuration"}
    found = {finding.severity: finding.message for finding in report.findings}
    assert set(found) == {"problem", "note"}
    assert "track_access" in found["problem"]
    for name in ("durabilty", "decay.polcy"):
        assert any(name in finding.message and finding.severity == "note" for finding in report.findings)
    assert report.memories == 8


@every_layout
@pytest.mark.parametrize("text", ["", "{", '{"layout": ', "[]", '{"layout": "none", "format": 1}', "\x00" * 50])
def test_store_with_broken_config_is_checked(tmp_path: Path, layout: str, text: str) -> None:
    with made(tmp_path, layout) as memory:
        root = Path(memory.root)
    (root / "config.json").write_text(text)
    finding = only(checked(root), "configuration")
    assert (finding.severity, finding.path) == ("problem", str(root / "config.json"))
    assert checked(root).memories == 8
    assert layout in finding.advice


def test_store_of_a_newer_format_is_not_read(memory: smp_memory.Memory) -> None:
    path = Path(memory.root, "config.json")
    path.write_text('{"layout": "jsonl", "format": 99}')
    report = checked(memory.root)
    assert only(report, "configuration").severity == "problem"
    assert report.sessions == 0


def test_invalid_session_settings_are_reported(memory: smp_memory.Memory) -> None:
    path = file_of(memory, "manifest.json")
    head = json.loads(path.read_text())
    path.write_text(json.dumps({**head, "config": {"durability": "perhaps"}}))
    finding = only(memory.doctor(), "configuration")
    assert finding.session == "review"


# -- how it looks


def test_checks_can_be_limited_to_one_session(memory: smp_memory.Memory) -> None:
    memory.create_session("other").add_finding(f"Something about {TOKEN}")
    path = file_of(memory, "decisions.jsonl")
    path.write_text("{\n" + path.read_text())
    assert memory.doctor(sessions=["other"]).of("contents") == []
    assert [finding.session for finding in memory.doctor(sessions=["review"]).of("contents")] == ["review"]
    with pytest.raises(smp_memory.errors.SessionNotFound):
        memory.doctor(sessions=["nowhere"])


def test_quick_skips_heavy_checks(memory: smp_memory.Memory) -> None:
    report = memory.doctor(quick=True)
    assert [check.name for check in report.checks if check.skipped] == ["archives", "duplicates"]
    assert title_of(report, "duplicates") == "duplicates"  # nothing is stated about a check that did not run


def test_quick_check_searches_the_newest_memories_for_secrets_and_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "QUICK_MEMORIES", 2)
    monkeypatch.setattr(content, "QUICK_SESSIONS", 1)
    with made(tmp_path, "jsonl", privacy={"redaction": {"enabled": False}}) as memory:
        memory.session("review").add_finding(f"In a session that was written earlier {TOKEN}")
        later = memory.create_session("later")
        for number in range(3):
            later.add_learning(f"Old key {TOKEN}", created=f"2026-01-0{number + 1}T00:00:00Z")
        later.add_decision("Nothing secret")
        os.utime(memory.session("review").folder + "/findings.jsonl", (1, 1))
        quick = memory.doctor(quick=True)
        [check] = [each for each in quick.checks if each.name == "secrets"]
        assert [issue.ids for issue in check.findings] == [("LEARN-0003",)]
        assert check.not_checked.startswith("11 older memories, metadata, cold segments and quarantine")
        assert len(memory.doctor().of("secrets")) == 4


def test_quick_check_finds_a_secret_typed_into_an_old_memory(
    memory: smp_memory.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "QUICK_MEMORIES", 1)
    path = file_of(memory, "findings.jsonl")
    path.write_text(path.read_text().replace("no rate limit", f"the key {TOKEN}"))
    assert [issue.ids for issue in memory.doctor(quick=True).of("secrets")] == [("FIND-0001",)]


def test_progress_is_reported(memory: smp_memory.Memory) -> None:
    told: list[tuple[str, int, int]] = []
    memory.doctor(progress=lambda *step: told.append(step))
    assert told[0] == ("review", 0, 1)
    assert told[-1][1:] == (1, 1)


def test_doctor_of_a_closed_store_raises(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "store")
    memory.close()
    with pytest.raises(smp_memory.errors.StoreClosed):
        memory.doctor()
