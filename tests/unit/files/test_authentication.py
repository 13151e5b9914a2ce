"""A journal is applied only if this user, or another user of the machine, wrote it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.disk import Disk
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.layouts import NAMES
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import authentication_code, user_key

layouts = pytest.mark.parametrize("layout", NAMES)


def filled(root: Path, layout: str) -> smp_memory.SessionMemory:
    session = smp_memory.open(root, layout=layout).create_session("s1")
    session.add_decision("Kept")
    return session


def pending(root: Path, layout: str, session: str = "s1") -> Journal:
    """A committed plan that nobody has carried out: it puts a file into the session's folder."""
    files = smp_memory.open(root, layout=layout).store.session(session)
    reader = files.reader
    Path(reader.private).mkdir(exist_ok=True)
    new = Path(reader.folder, "added.txt.smp-new")
    plan = Plan()
    plan.moves = [("added.txt.smp-new", "added.txt")]

    def commit() -> None:
        files.writer._set_warning("plan")
        new.write_text("new content")
        reader.journal.commit(plan)

    files.run_locked("testing", commit)
    return reader.journal


def as_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RealSystem, "secret", lambda self: b"another key")


@layouts
def test_own_journal_is_applied_after_the_store_was_moved_or_copied(tmp_path: Path, layout: str) -> None:
    filled(tmp_path / "one", layout)
    pending(tmp_path / "one", layout)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "one").rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        session = smp_memory.open(tmp_path / name).session("s1")
        session.add_decision("More")
        assert Path(session._files.reader.folder, "added.txt").read_text() == "new content"
        assert not session._files.reader.journal.exists()


@layouts
def test_foreign_journal_is_quarantined_with_the_files_that_it_names(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, layout)
    journal = pending(tmp_path, layout)
    as_stranger(monkeypatch)
    session = smp_memory.open(tmp_path).session("s1")
    assert journal.load() is None
    assert [record.text for record in session.records()] == ["Kept"]
    assert journal.exists(), "reading moves nothing"
    session.add_decision("More")
    folder = Path(session._files.reader.folder)
    assert not (folder / "added.txt").exists()
    assert not (folder / "added.txt.smp-new").exists()
    assert not journal.exists()
    aside = sorted(Path(session._files.reader.private, "quarantine").iterdir())
    assert [path.name.partition(".")[0] for path in aside] == ["foreign-added", "foreign-journal"]
    assert aside[0].read_text() == "new content"
    assert [record.text for record in session.records()] == ["Kept", "More"]


def test_journal_of_another_session_is_foreign(tmp_path: Path) -> None:
    filled(tmp_path, "jsonl")
    smp_memory.open(tmp_path).create_session("s2")
    journal = pending(tmp_path, "jsonl", "s2")
    other = smp_memory.open(tmp_path).store.session("s1").reader
    Path(other.private).mkdir(exist_ok=True)
    shutil.copy(journal.path, other.journal.path)
    assert other.journal.load() is None
    assert other.journal.is_foreign
    assert journal.load() is not None


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="gives a file to another user")
def test_journal_of_another_user_counts_if_it_only_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, "jsonl")
    journal = pending(tmp_path, "jsonl")
    as_stranger(monkeypatch)
    os.chown(journal.path, 12345, 12345)
    assert journal.load() is None
    assert journal.is_foreign, "it moves a file"
    plan = Plan()
    plan.appends = [("findings.jsonl", 0, b"{}\n")]
    journal.commit(plan)
    monkeypatch.setattr(RealSystem, "secret", lambda self: b"a third key")
    assert journal.load() is None
    os.chown(journal.path, 12345, 12345)
    found = journal.load()
    assert found is not None
    assert found.appends == plan.appends


@pytest.mark.parametrize(
    "change",
    [
        {"removes": ["../../outside"]},
        {"moves": [["a.smp-new", "/etc/passwd"]]},
        {"appends": [["a", -1, "x"]]},
        {"appends": [["a", True, "x"]]},
        {"removes": [5]},
        {"moves": [["", "b"]]},
    ],
)
def test_signed_plan_with_a_path_outside_the_folder_is_not_applied(tmp_path: Path, change: dict[str, object]) -> None:
    filled(tmp_path, "jsonl")
    journal = pending(tmp_path, "jsonl")
    body = json.dumps({"appends": [], "moves": [], "removes": [], **change}, separators=(",", ":"))
    from smp_memory.files.codec import signature

    mac = authentication_code(RealSystem().secret(), "journal of s1", body.encode())
    Path(journal.path).write_text(f'{body[:-1]},"checksum":"{signature(body.encode())}","mac":"{mac}"}}\n')
    assert journal.load() is None
    assert journal.is_foreign
    smp_memory.open(tmp_path).session("s1").add_decision("More")
    assert not journal.exists()


def test_announcement_of_a_purge_counts_only_if_this_user_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smp_memory.store.trash import read_announcements

    session = smp_memory.open(tmp_path).create_session("s1")
    session.add_decision("Deleted by mistake")
    session.delete("DEC-0001")
    assert session.purge(older_than=0).announced == ["s1/DEC-0001"]
    assert list(read_announcements(session._files.reader)) == ["DEC-0001"]
    path = Path(session._files.reader.private, "purge.json")
    planted = json.loads(path.read_text())
    planted["announced"]["DEC-0001"][1] = "2001-01-01T00:00:00Z"
    path.write_text(json.dumps(planted))
    assert read_announcements(session._files.reader) == {}
    assert session.purge(older_than=0).announced == ["s1/DEC-0001"]
    as_stranger(monkeypatch)
    assert read_announcements(session._files.reader) == {}


def test_authentication_code_is_hmac_sha256() -> None:
    import hashlib
    import hmac

    for key in (b"", b"k" * 32, b"k" * 64):
        expected = hmac.new(key, b"purpose\0body", hashlib.sha256).hexdigest()
        assert authentication_code(key, "purpose", b"body") == expected


def test_key_is_private_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    key = user_key()
    assert len(key) == 32
    assert user_key() == key
    path = tmp_path / "state" / "key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((OSError, SMPError)):
        user_key()
    assert not (tmp_path / "elsewhere").exists()
    assert Disk(RealSystem()).stat(str(tmp_path / "elsewhere")) is None


def test_the_key_follows_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of another state folder would make journals of this user's other processes foreign."""
    first = RealSystem().secret()
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    assert RealSystem().secret() == (tmp_path / "state" / "key").read_bytes() != first
    monkeypatch.undo()
    assert RealSystem().secret() == first
