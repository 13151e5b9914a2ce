"""Archives and deletion records that another program wrote in the forms of the designs, with values of our own."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import StorageCorrupt

MARKDOWN = {
    "metadata.yaml": 'session:\n  id: "old"\n  created_at: "2026-02-03T09:00:00Z"\n  status: "archived"\n',
    "decisions.yaml": 'decisions:\n  - id: "DEC-001"\n    timestamp: "2026-02-03T09:00:00Z"\n    made_by: "architect"\n'
    '    decision: "Keep totals in cents"\n',
}
JSONL = {
    "manifest.json": json.dumps({"session_id": "old", "created_at": "2026-02-03T09:00:00Z"}),
    "decisions.jsonl": json.dumps(
        {"id": "DEC-001", "timestamp": "2026-02-03T09:00:00Z", "decision": "Keep totals in cents"}
    )
    + "\n",
}
FORMATS = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}
ARCHIVES = {"markdown": "archived/old/archive.tar.gz", "jsonl": "archive/old.tar.gz"}
SUMMARIES = {
    "markdown": ("archived/old/summary.yaml", 'archived_at: "2026-03-01T00:00:00Z"\nreason: "done"\n'),
    "jsonl": ("archive/old.manifest.json", '{"archived_at": "2026-03-01T00:00:00Z", "reason": "done"}'),
}
BASES = ["", "./", "old/", "./old/", "sessions/old/"]


def packed(files: dict[str, str], base: str = "old/", kind: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=kind) as tar:
        if base:
            folder = tarfile.TarInfo(base.rstrip("/"))
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        for name, text in files.items():
            member = tarfile.TarInfo(base + name)
            member.size, member.mtime = len(text.encode()), 1.5  # type: ignore[assignment]
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def planted(root: Path, layout: str, data: bytes, name: str = "") -> Path:
    smp_memory.open(root, layout=layout).close()
    path = root / (name or ARCHIVES[layout])
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("layout", ARCHIVES)
def test_archive_of_another_program_is_listed_searched_and_restored(
    tmp_path: Path, layout: str, base: str, kind: str
) -> None:
    files = {"markdown": MARKDOWN, "jsonl": JSONL}[layout]
    path = planted(tmp_path, layout, packed(files, base, FORMATS[kind]))
    summary, text = SUMMARIES[layout]
    (tmp_path / summary).write_text(text)
    with smp_memory.open(tmp_path) as memory:
        [away] = memory.archived_sessions()
        assert (away.session, away.reason, away.when and away.when.isoformat()) == (
            "old",
            "done",
            "2026-03-01T00:00:00+00:00",
        )
        assert memory.query("cents", include_archived=True).ids == ["DEC-001"]
        assert memory.doctor().of("archives") == []
        memory.restore_session("old")
        assert memory.session("old").get("DEC-001").decision == "Keep totals in cents"
        assert not path.exists()
    [kept] = [each for each in path.parent.iterdir() if ".kept-" in each.name]
    assert kept.read_text() == text  # what the other program said of it is nowhere else


@pytest.mark.parametrize("layout", ["single", "log", "jsonl"])
def test_archive_of_another_layout_is_converted_when_it_is_restored(tmp_path: Path, layout: str) -> None:
    planted(tmp_path, layout, packed(MARKDOWN), ARCHIVES["markdown"])
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("old").get("DEC-001").decision == "Keep totals in cents"


def test_memory_is_erased_from_an_archive_of_another_program(tmp_path: Path) -> None:
    path = planted(tmp_path, "markdown", packed(MARKDOWN))
    (tmp_path / "archived/old/summary.yaml").write_text('reason: "Keep totals in cents"\n')
    with smp_memory.open(tmp_path) as memory:
        assert memory.erase("old/DEC-001").verified
        assert b"cents" not in (tmp_path / "archived/old/summary.yaml").read_bytes()
        assert [away.session for away in memory.archived_sessions()] == ["old"]
        assert memory.session("old").records() == []
    assert not path.exists()


def with_member(member: tarfile.TarInfo, text: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in MARKDOWN.items():
            plain = tarfile.TarInfo("old/" + name)
            plain.size = len(content.encode())
            tar.addfile(plain, io.BytesIO(content.encode()))
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


REFUSED = {
    "two sessions": packed({"a/metadata.yaml": "session:\n", "b/metadata.yaml": "session:\n"}),
    "heads of two layouts": packed({**MARKDOWN, **JSONL}),
    "no head": packed({"decisions.yaml": MARKDOWN["decisions.yaml"]}),
    "not a tar": b"packed",
    "empty": packed({}),
    "parent": with_member(special("old/../../../escaped", tarfile.REGTYPE), "x"),
    "absolute": with_member(special("/tmp/escaped-from-archive", tarfile.REGTYPE), "x"),
    "outside the session": with_member(special("other/file", tarfile.REGTYPE), "x"),
    "symlink": with_member(special("old/link", tarfile.SYMTYPE, "/etc/passwd")),
    "hard link": with_member(special("old/link", tarfile.LNKTYPE, "/etc/passwd")),
    "device": with_member(special("old/null", tarfile.CHRTYPE)),
    "pipe": with_member(special("old/pipe", tarfile.FIFOTYPE)),
    "same name": with_member(special("old/METADATA.yaml", tarfile.REGTYPE), "x"),
    "plan of SMP": with_member(special("old/.smp/journal.json", tarfile.REGTYPE), "{}"),
    "cut off": packed(MARKDOWN)[:-30],
    "followed by something": packed(MARKDOWN) + b"more",
}


@pytest.mark.parametrize("case", REFUSED)
def test_ambiguous_archive_is_rejected_and_kept(tmp_path: Path, case: str) -> None:
    root = tmp_path / "store"
    path = planted(root, "markdown", REFUSED[case])
    with smp_memory.open(root) as memory:
        with pytest.raises(StorageCorrupt, match=r"archive\.tar\.gz cannot be unpacked"):
            memory.session("old")
        assert [finding.session for finding in memory.doctor().of("archives")] == ["old"]
        assert memory.sessions() == []
        memory.maintain()
    assert path.read_bytes() == REFUSED[case]
    assert [each.name for each in tmp_path.iterdir()] == ["store"]
    assert not Path("/tmp/escaped-from-archive").exists()


RECORD = (
    'deletion:\n  session_id: "old"\n  deleted_at: "2025-03-01T00:00:00Z"\n  deleted_by: "user-9"\n  reason: "tidy"\n'
)


def test_session_that_another_program_deleted_is_listed_and_undeleted(tmp_path: Path) -> None:
    planted(tmp_path, "markdown", packed(MARKDOWN), "deleted/old/backup.tar.gz")
    (tmp_path / "deleted/old/deletion-record.yaml").write_text(RECORD)
    with smp_memory.open(tmp_path) as memory:
        assert [(away.session, away.reason) for away in memory.deleted_sessions()] == [("old", "tidy")]
        memory.maintain()
        memory.maintain()
        assert (tmp_path / "deleted/old/backup.tar.gz").exists()
        memory.undelete_session("old")
        assert memory.session("old").get("DEC-001").decision == "Keep totals in cents"
        assert memory.deleted_sessions() == []
    assert (tmp_path / "deleted/old/deletion-record.yaml").read_text() == RECORD


def test_record_of_single_memories_does_not_make_the_session_deleted(tmp_path: Path) -> None:
    planted(tmp_path, "markdown", packed(MARKDOWN), "deleted/old/backup.tar.gz")
    items = '  deleted_items:\n    - type: "decision"\n      id: "DEC-005"\n'
    (tmp_path / "deleted/old/deletion-record.yaml").write_text(RECORD + items)
    with smp_memory.open(tmp_path) as memory:
        assert memory.deleted_sessions() == []
        assert "DEC-005" in memory.doctor().of("archives")[0].message
        memory.create_session("old").add_decision("New")
        memory.delete_session("old")
        memory.undelete_session("old")
    assert (tmp_path / "deleted/old/deletion-record.yaml").read_text() == RECORD + items
    assert (tmp_path / "deleted/old/backup.tar.gz").exists()


def test_summary_without_an_archive_is_reported(tmp_path: Path) -> None:
    path = planted(tmp_path, "markdown", b"summary:\n  outcome: Totals agreed\n", "archived/old/summary.yaml")
    with smp_memory.open(tmp_path) as memory:
        with pytest.raises(smp_memory.errors.SessionNotFound, match=r"summary\.yaml.*not there"):
            memory.session("old")
        assert "only a summary" in memory.doctor().of("archives")[0].message
    assert path.exists()
