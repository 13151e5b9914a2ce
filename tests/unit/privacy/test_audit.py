"""The audit log: actions without content, and detection of changed or removed lines."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import RealSystem
from smp_memory.privacy.audit import FILE, LAST, Audit, AuditFile

AT = "2026-01-31T14:30:05Z"


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(AuditFile(Disk(RealSystem()), str(tmp_path / ".smp")))


def lines(audit: Audit) -> list[bytes]:
    return Path(audit.path).read_bytes().splitlines(keepends=True)


def put(audit: Audit, content: list[bytes]) -> None:
    Path(audit.path).write_bytes(b"".join(content))


def test_line_contains_only_the_given_fields(audit: Audit) -> None:
    assert audit.note("delete", at=AT, session="s", ids=["DEC-0001"], by="ada", reason="wrong")
    assert audit.entries() == [
        {"at": AT, "action": "delete", "session": "s", "count": 1, "ids": ["DEC-0001"], "by": "ada", "reason": "wrong"}
    ]
    assert audit.problems() == []


def test_files_are_private(audit: Audit) -> None:
    audit.note("purge", at=AT)
    for name in (FILE, LAST):
        assert stat.S_IMODE(os.stat(os.path.join(os.path.dirname(audit.path), name)).st_mode) == 0o600


def test_counts_kinds_and_facts(audit: Audit) -> None:
    audit.note("export", at=AT, count=7, kinds={"email": 2}, format="jsonl", anonymised=True)
    assert audit.entries()[0] == {
        "at": AT, "action": "export", "count": 7, "kinds": {"email": 2}, "format": "jsonl", "anonymised": True
    }  # fmt: skip


def test_reason_is_redacted(audit: Audit) -> None:
    audit.note("erase", at=AT, reason="she asked from ada@example.org\nto do so")
    assert audit.entries()[0]["reason"] == "she asked from [REDACTED:email]\nto do so"
    assert len(lines(audit)) == 1


def test_invalid_unicode_and_quotes_do_not_damage_the_log(audit: Audit) -> None:
    assert audit.note("delete", at=AT, reason="\ud800 half a character", by='"}\n,"checksum":"')
    assert audit.note("delete", at=AT)
    assert audit.problems() == []
    assert len(audit.entries()) == 2


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_removed_line_is_detected(audit: Audit, gone: int) -> None:
    for number in range(3):
        audit.note("delete", at=AT, count=number)
    kept = lines(audit)
    del kept[gone]
    put(audit, kept)
    assert audit.problems()
    audit.note("delete", at=AT)  # what comes later does not hide it
    assert audit.problems()


def test_changed_line_is_detected(audit: Audit) -> None:
    for number in range(3):
        audit.note("delete", at=AT, count=number)
    found = lines(audit)
    found[1] = found[1].replace(b'"count":1', b'"count":7')
    put(audit, found)
    assert [problem.split(": ", 1)[0].rpartition(":")[2] for problem in audit.problems()] == ["2"]


def test_removal_of_all_lines_is_detected(audit: Audit) -> None:
    audit.note("delete", at=AT)
    put(audit, [])
    assert "missing" in audit.problems()[0]
    audit.note("delete", at=AT)
    assert audit.problems()


def test_torn_line_affects_no_other_line(audit: Audit) -> None:
    for number in range(2):
        audit.note("delete", at=AT, count=number)
    put(audit, [*lines(audit), b'{"at":"2026'])
    audit.note("restore", at=AT)
    assert [entry["action"] for entry in audit.entries()] == ["delete", "delete", "restore"]
    assert audit.problems() == []  # nobody took anything out


def test_crash_before_audit_last_was_written_is_not_a_problem(audit: Audit) -> None:
    audit.note("delete", at=AT)
    last = Path(os.path.dirname(audit.path), LAST).read_bytes()
    audit.note("delete", at=AT)
    Path(os.path.dirname(audit.path), LAST).write_bytes(last)
    audit.note("delete", at=AT)
    assert audit.problems() == []


def test_concurrent_threads_write_one_chain(audit: Audit) -> None:
    def write() -> None:
        mine = Audit(AuditFile(Disk(RealSystem()), os.path.dirname(audit.path)))
        for _ in range(20):
            assert mine.note("delete", at=AT, sync=False)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(audit.entries()) == 80
    assert audit.problems() == []


def test_failure_is_reported_and_not_raised(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    os.mkdir(os.path.dirname(audit.path))
    os.mkdir(audit.path)
    assert audit.note("delete", at=AT) is False
    assert audit.failure is not None
    assert "delete was done" in audit.failure
    assert "delete was done" in caplog.text


def test_log_works_on_a_memory_system() -> None:
    audit = Audit(AuditFile(Disk(MemorySystem()), "/memory/.smp"))
    assert audit.note("delete", at=AT)
    assert audit.note("delete", at=AT)
    assert audit.problems() == []
    assert json.dumps(audit.entries())


def test_line_cut_by_power_loss_does_not_damage_the_next(audit: Audit) -> None:
    audit.note("delete", at=AT, session="s", ids=["DEC-0001"], sync=False)
    put(audit, [lines(audit)[0][:40]])
    assert audit.note("erase", at=AT, session="s", ids=["DEC-0001"])
    assert [entry["action"] for entry in audit.entries()] == ["erase"]
    assert audit.problems()  # that something is missing is seen, then and later
    assert audit.note("purge", at=AT, session="s")
    assert [entry["action"] for entry in audit.entries()] == ["erase", "purge"]
