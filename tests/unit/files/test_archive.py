"""Pack and unpack archives: round trips, power losses and hostile archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.errors import FormatTooNew, InvalidFormat, SessionExists, SMPError, StorageCorrupt
from smp_memory.files.archive import check, pack, pack_files, read_archive, unpack
from smp_memory.files.archive_format import ArchiveLimits, find_collision, unsafe_reason
from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import RealSystem
from smp_memory.testing import CrashingSystem, FaultySystem, PowerLoss

FILES = {
    "manifest.json": b'{"session_id":"s"}\n',
    "conversation.jsonl": b'{"id":"TURN-0001"}\n' * 50,
    "artifacts/ART-0001.md": "# Größe 数\n".encode(),
    ".smp/quarantine/torn": b"\0\1\2",
    "empty.jsonl": b"",
}
SUMMARY = {"session": "s", "decisions": ["Use OAuth"]}
LIMITS = ArchiveLimits(files=20, file_bytes=1_000_000, total_bytes=2_000_000, ratio=50, ratio_from_bytes=500_000)
ARCHIVE = "/store/archive/s.tar.gz"
TARGET = "/store/sessions/s"


# -- a disk with a session on it


def memory_disk() -> Disk:
    disk = Disk(MemorySystem())
    for folder in ("/store", "/store/archive", "/store/sessions"):
        disk.make_folder(folder)
    return disk


def put_session(disk: Disk, folder: str, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = os.path.join(folder, *name.split("/"))
        disk.make_folder(os.path.dirname(path))
        disk.write_new(path, data)


def tree(disk: Disk, folder: str, prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            found |= tree(disk, path, f"{prefix}{name}/")
        else:
            found[prefix + name] = disk.read(path)
    return found


# -- archives made by hand

Member = tuple[bytes, bytes]  # header and content
END = b"\0" * 1024


def listed(path: str, data: bytes, **changes: Any) -> dict[str, Any]:
    return {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **changes}


def member(name: str, data: bytes = b"") -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict"), data


def raw_tar(members: list[Member], end: bytes = END) -> bytes:
    return b"".join(header + data + bytes(-len(data) % 512) for header, data in members) + end


def manifest_of(content: list[tuple[str, bytes]], /, **changes: Any) -> Member:
    body = {"smp_archive": 1, "files": [listed(*file) for file in content], "summary": listed("", b"{}"), **changes}
    return member("manifest.json", json.dumps(body).encode())


def made(
    content: list[tuple[str, bytes]] | None = None,
    /,
    *,
    extra: list[Member] | None = None,
    change: Callable[[bytes], bytes] | None = None,
    is_signed: bool = True,
    end: bytes = END,
    **manifest: Any,
) -> bytes:
    """An archive as SMP would write it, except for what is changed. `change` alters the header of the last file."""
    content = [("a.jsonl", b"first\n"), ("b.jsonl", b"second\n")] if content is None else content
    members = [manifest_of(content, **manifest), member("summary.json", b"{}")]
    members += [member("session/" + path, data) for path, data in content] + (extra or [])
    if change is not None:
        header = change(members[-1][0])
        members[-1] = (signed(header) if is_signed else header, members[-1][1])
    return gzip.compress(raw_tar(members, end), mtime=0)


def signed(header: bytes) -> bytes:
    """The header with a checksum that is right."""
    blank = header[:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


def with_field(start: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda header: header[:start] + value + header[start + len(value) :]


def named(name: bytes) -> Callable[[bytes], bytes]:
    return with_field(0, name.ljust(100, b"\0"))


def of_type(kind: bytes, link: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda header: with_field(157, link.ljust(100, b"\0"))(with_field(156, kind)(header))


def by_tarfile(format: int, **info: Any) -> bytes:
    """An archive by Python's own module: a manifest as it should be, and one member with these attributes."""
    manifest = manifest_of([("a.jsonl", b"first\n")])[1]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
        for name, data in (("manifest.json", manifest), ("summary.json", b"{}"), ("session/a.jsonl", b"first\n")):
            each = tarfile.TarInfo(name)
            if name == "session/a.jsonl":
                for attribute, value in info.items():
                    setattr(each, attribute, value)
            each.size = len(data) if each.isreg() else 0
            tar.addfile(each, io.BytesIO(data) if each.isreg() else None)
    return gzip.compress(buffer.getvalue(), mtime=0)


BIG = b"x" * 600_000
GOOD = made()
BOMB = b"\0" * 1_900_000

HOSTILE: dict[str, tuple[bytes, str]] = {
    # names
    "absolute path": (made(change=named(b"/etc/passwd")), "absolute"),
    "absolute path in the manifest": (made([("/etc/passwd", b"x")]), "absolute"),
    "parent folder": (made(change=named(b"session/../../evil")), "traversal"),
    "parent folder in the manifest": (made([("../evil", b"x")]), "traversal"),
    "parent folder in the middle": (made([("a/../../evil", b"x")]), "traversal"),
    "parent folder at the end": (made([("a/..", b"x")]), "traversal"),
    "dot": (made([("./a", b"x")]), "empty_part"),
    "empty part": (made([("a//b", b"x")]), "empty_part"),
    "folder's slash": (made([("a/", b"")]), "empty_part"),
    "empty name": (made([("", b"x")]), "empty"),
    "backslash": (made([("..\\evil", b"x")]), "not_portable"),
    "drive": (made([("C:evil", b"x")]), "not_portable"),
    "stream of NTFS": (made([("a.jsonl:hidden", b"x")]), "not_portable"),
    "device name": (made([("nul.txt", b"x")]), "device_name"),
    "trailing dot": (made([("a.jsonl.", b"x")]), "not_portable"),
    "NUL in the manifest": (made([("a\0b", b"x")]), "control_character"),
    "newline": (made([("a\nb", b"x")]), "control_character"),
    "right-to-left mark": (made([("a\u202egnp.exe", b"x")]), "control_character"),
    "not UTF-8": (made(change=named(b"session/\xff\xfe")), "not_unicode"),
    "half a character in the manifest": (made([("a", b"x")], files=[listed("\ud800", b"x")]), "not_unicode"),
    "not normalised": (made([("u\u0308.md", b"x")]), "not_normalised"),
    "very long name": (made([("a", b"x")], files=[listed("n" * 101, b"x")]), "too_long"),
    "very long path": (made([("a", b"x")], files=[listed("/".join(["n" * 60] * 5), b"x")]), "too_long"),
    "deeply nested": (made([("/".join("abcdefghij"), b"x")]), "too_deep"),
    "the lock": (made([(".smp/lock", b"x")]), "reserved"),
    "a plan to be carried out": (made([(".smp/journal.json", b"{}")]), "reserved"),
    "a plan in other letters": (made([(".SMP/Journal.JSON", b"{}")]), "reserved"),
    # twice
    "duplicate": (made([("a", b"x"), ("a", b"y")]), "collision"),
    "differs in case": (made([("Notes.md", b"x"), ("notes.md", b"y")]), "collision"),
    "differs in width": (made([("ﬁle", b"x"), ("file", b"y")]), "collision"),
    "folders differ in case": (made([("A/x", b"x"), ("a/y", b"y")]), "collision"),
    "file where a folder must be": (made([("a", b"x"), ("a/b", b"y")]), "collision"),
    "folder where a file must be": (made([("a/b", b"x"), ("A", b"y")]), "collision"),
    # kinds
    "symbolic link": (made(change=of_type(b"2", b"/etc")), "link"),
    "hard link": (made(change=of_type(b"1", b"/etc/passwd")), "link"),
    "character device": (made(change=of_type(b"3")), "device"),
    "block device": (made(change=of_type(b"4")), "device"),
    "folder": (made(change=of_type(b"5")), "bad_size"),
    "pipe": (made(change=of_type(b"6")), "device"),
    "contiguous file": (made(change=of_type(b"7")), "unknown_type"),
    "sparse file": (made(change=of_type(b"S")), "unknown_type"),
    "unknown type": (made(change=of_type(b"Z")), "unknown_type"),
    "tarfile: symbolic link": (by_tarfile(tarfile.USTAR_FORMAT, type=tarfile.SYMTYPE, linkname="/etc"), "link"),
    "tarfile: device": (by_tarfile(tarfile.USTAR_FORMAT, type=tarfile.CHRTYPE, devmajor=1), "device"),
    "tarfile: pipe": (by_tarfile(tarfile.USTAR_FORMAT, type=tarfile.FIFOTYPE), "device"),
    "PAX path": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"path": "/etc/evil"}), "absolute"),
    "PAX path to a parent": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"path": "session/../../evil"}), "traversal"),
    "PAX link": (by_tarfile(tarfile.PAX_FORMAT, type=tarfile.SYMTYPE, linkname="/" + "e" * 200), "link"),
    "PAX size": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"size": "1000"}), "not_listed"),
    "PAX size below zero": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"size": "-512"}), "bad_size"),
    "PAX size that is astronomic": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"size": "9" * 60}), "not_listed"),
    "PAX sparse map": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"GNU.sparse.map": "0,6", "GNU.sparse.size": "1000000"}), "unknown_type"),
    "PAX sparse, version 1.0": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1000000"}), "damaged"),
    "PAX header of 200 KB": (by_tarfile(tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 200_000}), "too_large"),
    "PAX header without a file": (made(extra=[member("x", b"30 path=../../../../etc/evil\n\n")], change=of_type(b"x")), "damaged"),
    "global PAX header without a file": (made(extra=[member("x", b"16 size=1000000\n")], change=of_type(b"g")), "damaged"),
    "GNU long name": (by_tarfile(tarfile.GNU_FORMAT, name="session/../" + "e" * 120), "traversal"),
    "GNU long name of 200 KB": (by_tarfile(tarfile.GNU_FORMAT, name="session/" + "a" * 200_000), "too_large"),
    "GNU long link": (by_tarfile(tarfile.GNU_FORMAT, type=tarfile.LNKTYPE, linkname="e" * 200), "link"),
    "GNU long link without a file": (made(extra=[member("x", b"../../evil\0")], change=of_type(b"K")), "damaged"),
    # sizes
    "negative size": (made(change=with_field(124, b"-0000000001\0")), "bad_size"),
    "other size in base 256": (made(change=with_field(124, b"\x80" + b"\0" * 10 + b"\x08")), "not_listed"),
    "astronomic size in base 256": (made(change=with_field(124, b"\x80" + b"\x7f" * 11)), "not_listed"),
    "negative size in base 256": (made(change=with_field(124, b"\xff" * 12)), "bad_size"),
    "no size": (made(change=with_field(124, b"\0" * 12)), "not_listed"),
    "size too large": (made(change=with_field(124, b"77777777777\0")), "not_listed"),
    "size too small": (made(change=with_field(124, b"00000000001\0")), "not_listed"),
    "huge file in the manifest": (made(files=[listed("a.jsonl", b"", bytes=1 << 60)]), "too_large"),
    "huge total in the manifest": (made(files=[listed(f"{n}", b"", bytes=900_000) for n in range(3)]), "too_large"),
    "negative size in the manifest": (made(files=[listed("a.jsonl", b"", bytes=-1)]), "bad_manifest"),
    "true for a size": (made(files=[listed("a.jsonl", b"", bytes=True)]), "bad_manifest"),
    "too many files": (made([(f"{n}", b"") for n in range(21)]), "too_many"),
    "huge manifest": (gzip.compress(raw_tar([member("manifest.json", b" " * 50_000)])), "too_large"),
    "gzip bomb in a file": (made([("a", b"\0" * 900_000), ("b", b"\0" * 900_000)]), "ratio"),
    "gzip bomb after the end": (made(end=END + BOMB), "trailing"),
    "gzip bomb that is no tar": (gzip.compress(BOMB), "trailing"),
    "endless padding": (made(end=END + b"\0" * 20_000), "trailing"),
    # contents
    "wrong checksum": (made(files=[listed("a.jsonl", b"other\n"), listed("b.jsonl", b"second\n")]), "checksum"),
    "not listed": (made(extra=[member("session/c.jsonl", b"third")]), "not_listed"),
    "listed but missing": (made(files=[listed("a.jsonl", b"first\n"), listed("b.jsonl", b"second\n"), listed("c", b"")]), "missing"),
    "other order": (made(files=[listed("b.jsonl", b"second\n"), listed("a.jsonl", b"first\n")]), "not_listed"),
    "outside the session's part": (made(change=named(b"b.jsonl")), "not_listed"),
    "a second manifest": (made(extra=[manifest_of([])]), "not_listed"),
    "no manifest": (gzip.compress(raw_tar([member("session/a", b"x")])), "no_manifest"),
    "empty archive": (gzip.compress(END), "no_manifest"),
    "manifest is no JSON": (gzip.compress(raw_tar([member("manifest.json", b"{")])), "bad_manifest"),
    "manifest is a list": (gzip.compress(raw_tar([member("manifest.json", b"[]")])), "bad_manifest"),
    "manifest nested deeply": (gzip.compress(raw_tar([member("manifest.json", b"[" * 9_000)])), "bad_manifest"),
    "manifest without files": (made(files=None), "bad_manifest"),
    "manifest with a number for a name": (made(files=[{"path": 7, "bytes": 1, "sha256": ""}]), "bad_manifest"),
    "manifest without a version": (made(smp_archive=None), "bad_manifest"),
    "summary is no JSON": (gzip.compress(raw_tar([manifest_of([], summary=listed("", b"[]")), member("summary.json", b"[]")])), "bad_manifest"),
    # bytes
    "not gzip": (b"PK\x03\x04" + b"x" * 600, "damaged"),
    "empty file": (b"", "truncated"),
    "plain tar": (gzip.decompress(GOOD), "damaged"),
    "truncated gzip": (GOOD[:-20], "truncated"),
    "gzip without its last byte": (GOOD[:-1], "truncated"),
    "garbage behind the gzip": (GOOD + b"garbage", "trailing"),
    "a second gzip behind it": (GOOD + GOOD, "trailing"),
    "zeros behind the gzip": (GOOD + b"\0" * 512, "trailing"),
    "wrong CRC": (GOOD[:-8] + bytes([GOOD[-8] ^ 1]) + GOOD[-7:], "damaged"),
    "wrong length": (GOOD[:-4] + bytes([GOOD[-4] ^ 1]) + GOOD[-3:], "damaged"),
    "truncated tar": (gzip.compress(gzip.decompress(GOOD)[:-1024]), "truncated"),
    "tar cut inside a file": (gzip.compress(gzip.decompress(GOOD)[: -1024 - 510]), "damaged"),
    "one empty block in the middle": (made(end=END[:512] + member("session/c")[0] + END), "trailing"),
    "garbage behind the tar": (made(end=END + b"x" * 512), "trailing"),
    "header with a wrong checksum": (gzip.compress(gzip.decompress(GOOD).replace(b"session/a", b"session/A")), "trailing"),
    "last header with a wrong checksum": (made([("a", b"x"), ("b", b"")], change=lambda header: b"X" + header[1:], is_signed=False), "trailing"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_rejected_with_its_reason_and_writes_nothing(name: str, tmp_path: Path) -> None:
    data, reason = HOSTILE[name]
    disk = Disk(RealSystem())
    (tmp_path / "in").mkdir()
    (tmp_path / "s.tar.gz").write_bytes(data)
    with pytest.raises(StorageCorrupt) as refused:
        unpack(disk, str(tmp_path / "s.tar.gz"), str(tmp_path / "in" / "s"), LIMITS)
    assert refused.value.details["reason"] == reason
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "s.tar.gz"]


def test_archive_that_becomes_hostile_after_its_check_leaves_no_session() -> None:
    def changed(disk: Disk, path: str, limits: ArchiveLimits, writer: Any) -> Any:
        contents = read_archive(disk, path, limits, writer)
        if writer is None:
            disk.remove(path)
            disk.write_new(path, HOSTILE["wrong checksum"][0])
        return contents

    disk = memory_disk()
    disk.write_new(ARCHIVE, GOOD)
    with pytest.raises(StorageCorrupt):
        unpack(disk, ARCHIVE, TARGET, LIMITS, read=changed)
    assert disk.names("/store/sessions") == []


HARMLESS = {  # the names, sizes and checksums are those of the manifest
    "NUL behind the name": made(change=named(b"session/b.jsonl\0/../evil")),
    "plain file with a link name": made(change=of_type(b"0", b"/etc/passwd")),
    "type of old tar": made(change=of_type(b"\0")),
    "size in base 256": made(change=with_field(124, b"\x80" + b"\0" * 10 + b"\x07")),
    "garbage in the padding of a file": gzip.compress(gzip.decompress(GOOD).replace(b"first\n\0", b"first\nX")),
    "something in the header's unused part": made(change=with_field(505, b"evil")),
    "other magic": made(change=with_field(257, b"ustaR\x0000")),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_odd_archive_that_agrees_with_its_manifest_gives_the_listed_files(name: str) -> None:
    disk = memory_disk()
    disk.write_new(ARCHIVE, HARMLESS[name])
    unpack(disk, ARCHIVE, TARGET, LIMITS)
    assert tree(disk, TARGET) == {"a.jsonl": b"first\n", "b.jsonl": b"second\n"}


def test_archive_that_the_hostile_ones_derive_from_is_valid() -> None:
    disk = memory_disk()
    disk.write_new(ARCHIVE, GOOD)
    unpack(disk, ARCHIVE, TARGET, LIMITS)
    assert tree(disk, TARGET) == {"a.jsonl": b"first\n", "b.jsonl": b"second\n"}


def test_archive_of_another_tar_with_a_matching_manifest_is_accepted() -> None:
    disk = memory_disk()
    disk.write_new(ARCHIVE, by_tarfile(tarfile.USTAR_FORMAT, uid=1000, mode=0o4777, mtime=1_700_000_000, uname="root"))
    unpack(disk, ARCHIVE, TARGET, LIMITS)
    assert tree(disk, TARGET) == {"a.jsonl": b"first\n"}


def test_newer_format_raises_format_too_new() -> None:
    disk = memory_disk()
    disk.write_new(ARCHIVE, made(smp_archive=2))
    with pytest.raises(FormatTooNew):
        unpack(disk, ARCHIVE, TARGET)


def test_archive_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real.tar.gz").write_bytes(GOOD)
    (tmp_path / "link.tar.gz").symlink_to(tmp_path / "real.tar.gz")
    with pytest.raises((OSError, SMPError)):
        unpack(Disk(RealSystem()), str(tmp_path / "link.tar.gz"), str(tmp_path / "s"))
    assert not (tmp_path / "s").exists()


@given(some.integers(0, len(GOOD) * 8 - 1))
def test_flipped_bit_is_detected_or_harmless(bit: int) -> None:
    data = bytearray(GOOD)
    data[bit // 8] ^= 1 << bit % 8
    disk = memory_disk()
    disk.write_new(ARCHIVE, bytes(data))
    try:
        unpack(disk, ARCHIVE, TARGET, LIMITS)
    except SMPError:
        assert disk.names("/store/sessions") == []
    else:
        assert tree(disk, TARGET) == {"a.jsonl": b"first\n", "b.jsonl": b"second\n"}


GOOD_TAR, FOREIGN_TAR = (
    gzip.decompress(GOOD),
    raw_tar([member("s/manifest.json", b"{}"), member("s/a.jsonl", b"first\n")]),
)


@given(some.sampled_from([GOOD_TAR, FOREIGN_TAR]), some.lists(some.tuples(some.integers(0, 5_000), some.binary(min_size=1, max_size=12)), min_size=1, max_size=3), some.booleans())  # fmt: skip
def test_any_change_of_the_tar_is_rejected_or_gives_safe_files(
    tar: bytes, changes: list[tuple[int, bytes]], is_signed: bool
) -> None:
    data = bytearray(tar)
    for position, change in changes:
        data[position % len(tar) : position % len(tar) + len(change)] = change
    if is_signed:
        for start in range(0, len(data) - 1024, 512):
            if data[start + 257 : start + 262] == b"ustar":
                data[start : start + 512] = signed(bytes(data[start : start + 512]))
    disk = memory_disk()
    disk.write_new(ARCHIVE, gzip.compress(bytes(data), mtime=0))
    try:
        unpack(disk, ARCHIVE, TARGET, LIMITS, read_archive)
    except SMPError:
        assert disk.names("/store/sessions") == []
    else:
        assert not [path for path in tree(disk, TARGET) if unsafe_reason(path)]
    assert disk.names("/store") == ["archive", "sessions"]


@given(some.integers(0, len(GOOD) - 1))
def test_truncation_is_detected(length: int) -> None:
    disk = memory_disk()
    disk.write_new(ARCHIVE, GOOD[:length])
    with pytest.raises(StorageCorrupt):
        check(disk, ARCHIVE, LIMITS)


def test_decompression_bomb_is_stopped() -> None:
    """A gigabyte of zeros in a megabyte: no more comes out than the limits allow."""
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join([engine.compress(b"\0" * (1 << 20)) for _ in range(64)]) + engine.flush()
    disk = memory_disk()
    disk.write_new(ARCHIVE, data)
    with pytest.raises(StorageCorrupt):
        unpack(disk, ARCHIVE, TARGET, LIMITS)


# -- there and back


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_round_trip_gives_the_same_files(kind: str, tmp_path: Path) -> None:
    disk = Disk(MemorySystem() if kind == "memory" else RealSystem())
    root = "/r" if kind == "memory" else str(tmp_path)
    put_session(disk, f"{root}/s", FILES)
    contents = pack(disk, f"{root}/s", f"{root}/s.tar.gz", SUMMARY)
    assert contents.summary == SUMMARY
    assert {file.path for file in contents.files} == set(FILES)
    assert sum(file.size_bytes for file in contents.files) == sum(map(len, FILES.values()))
    disk.remove_tree(f"{root}/s")
    assert unpack(disk, f"{root}/s.tar.gz", f"{root}/s").files == contents.files
    assert tree(disk, f"{root}/s") == FILES
    if kind == "real":
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "s").rglob("*") if path.is_file()} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "s").rglob("*") if path.is_dir()} == {0o700}


def test_archive_is_readable_by_tarfile(tmp_path: Path) -> None:
    disk = Disk(RealSystem())
    put_session(disk, str(tmp_path / "s"), FILES)
    pack(disk, str(tmp_path / "s"), str(tmp_path / "s.tar.gz"), SUMMARY)
    with tarfile.open(tmp_path / "s.tar.gz") as tar:
        assert {name.removeprefix("session/") for name in tar.getnames()[2:]} == set(FILES)
        content = tar.extractfile("session/conversation.jsonl")
        assert content is not None
        assert content.read() == FILES["conversation.jsonl"]


def test_packing_is_deterministic(tmp_path: Path) -> None:
    archives = []
    for number, names in enumerate((list(FILES), list(reversed(FILES)))):
        disk = Disk(RealSystem())
        put_session(disk, str(tmp_path / str(number)), {name: FILES[name] for name in names})
        pack(disk, str(tmp_path / str(number)), str(tmp_path / f"{number}.tar.gz"), SUMMARY)
        archives.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert archives[0] == archives[1]


def test_locks_and_unfinished_files_are_not_packed() -> None:
    disk = memory_disk()
    put_session(disk, "/s", {"a": b"x", ".smp/lock": b"holder", ".smp/queue": b"", "b.smp-new": b"half"})
    pack(disk, "/s", ARCHIVE, {})
    unpack(disk, ARCHIVE, TARGET)
    assert tree(disk, TARGET) == {"a": b"x"}


def test_file_called_lock_outside_the_private_folder_is_packed() -> None:
    disk = memory_disk()
    put_session(disk, "/s", {"notes/lock": b"x"})
    pack(disk, "/s", ARCHIVE, {})
    unpack(disk, ARCHIVE, TARGET)
    assert tree(disk, TARGET) == {"notes/lock": b"x"}


@pytest.mark.parametrize(
    "name", [".smp/journal.json", "a:b", "CON", "n" * 101, "x" * 90 + "/" + "y" * 90 + "/" + "z" * 40]
)
def test_file_that_could_not_be_unpacked_is_not_packed(name: str) -> None:
    disk = memory_disk()
    put_session(disk, "/s", {"a": b"x", name: b"y"})
    with pytest.raises(InvalidFormat):
        pack(disk, "/s", ARCHIVE, {})
    assert disk.names("/store/archive") == []


def test_link_in_the_session_is_not_packed(tmp_path: Path) -> None:
    disk = Disk(RealSystem())
    put_session(disk, str(tmp_path / "s"), {"a": b"x"})
    (tmp_path / "s" / "evil").symlink_to("/etc/passwd")
    with pytest.raises(InvalidFormat, match="neither a file nor a folder"):
        pack(disk, str(tmp_path / "s"), str(tmp_path / "s.tar.gz"), {})


def test_missing_folder_is_not_packed() -> None:
    disk = memory_disk()
    with pytest.raises(InvalidFormat, match="not a folder"):
        pack(disk, "/nowhere", ARCHIVE, {})
    assert disk.names("/store/archive") == []


def test_names_that_differ_in_case_are_not_packed() -> None:
    disk = memory_disk()
    put_session(disk, "/s", {"Notes.md": b"x", "notes.md": b"y"})
    with pytest.raises(InvalidFormat, match="differs"):
        pack(disk, "/s", ARCHIVE, {})


def test_long_paths_that_fit_a_header_are_restored() -> None:
    files = {"/".join(["d" * 50, "e" * 60, "f" * 80]): b"x", "artifacts/" + "a" * 64 + ".md": b"y"}
    disk = memory_disk()
    put_session(disk, "/s", files)
    pack(disk, "/s", ARCHIVE, {})
    unpack(disk, ARCHIVE, TARGET)
    assert tree(disk, TARGET) == files


def test_session_above_the_limits_is_not_packed() -> None:
    """It could not be unpacked again; so the original stays."""
    disk = memory_disk()
    put_session(disk, "/s", {"a": b"x" * 1_000_001})
    with pytest.raises(StorageCorrupt):
        pack(disk, "/s", ARCHIVE, {}, LIMITS)
    assert disk.names("/store/archive") == []


def test_single_files_can_be_packed() -> None:
    disk = memory_disk()
    disk.write_new("/store/one.jsonl", b"x\n")
    pack_files(disk, {"one.jsonl": "/store/one.jsonl"}, ARCHIVE, {})
    unpack(disk, ARCHIVE, TARGET)
    assert tree(disk, TARGET) == {"one.jsonl": b"x\n"}


def test_existing_target_is_not_overwritten() -> None:
    disk = memory_disk()
    put_session(disk, "/s", {"a": b"x"})
    pack(disk, "/s", ARCHIVE, {})
    with pytest.raises(SessionExists):
        pack(disk, "/s", ARCHIVE, {})
    disk.make_folder(TARGET)
    with pytest.raises(SessionExists):
        unpack(disk, ARCHIVE, TARGET)
    disk.write_new("/s/b", b"y")
    assert len(pack(disk, "/s", ARCHIVE, {}, replace=True).files) == 2


@given(
    some.dictionaries(
        some.text("abcXYZ-_.é数 ", min_size=1, max_size=12).filter(lambda name: not unsafe_reason(name)),
        some.binary(max_size=3000),
        max_size=8,
    )
)
def test_any_files_survive_a_round_trip(files: dict[str, bytes]) -> None:
    disk = memory_disk()
    disk.make_folder("/s")
    put_session(disk, "/s", files)
    if find_collision(sorted(files)):
        with pytest.raises(InvalidFormat):
            pack(disk, "/s", ARCHIVE, {})
        return
    pack(disk, "/s", ARCHIVE, {})
    unpack(disk, ARCHIVE, TARGET)
    assert tree(disk, TARGET) == files


# -- crashes


def before_packing() -> MemorySystem:
    disk = memory_disk()
    put_session(disk, "/store/old", FILES)
    return disk.system  # type: ignore[return-value]


def before_unpacking() -> MemorySystem:
    system = before_packing()
    pack_it(Disk(system))
    return system


def pack_it(disk: Disk) -> object:
    return pack(disk, "/store/old", ARCHIVE, SUMMARY)


def unpack_it(disk: Disk) -> object:
    return unpack(disk, ARCHIVE, TARGET)


def crashed(base: MemorySystem, work: Callable[[Disk], object]) -> Iterator[Disk]:
    """The disks after a power loss before each call that changes something."""
    number = 0
    while True:
        number += 1
        system = CrashingSystem(disk=base, crash_at=number)
        try:
            work(Disk(system))
        except PowerLoss:
            yield from (Disk(state) for state in system.crash_states(limit=8, seed=number))
        else:
            system.power_off()
            yield from (Disk(state) for state in system.crash_states(limit=8))
            return


@pytest.mark.crash
def test_power_loss_while_packing_leaves_no_archive_or_a_complete_one() -> None:
    found = set()
    for disk in crashed(before_packing(), pack_it):
        assert tree(disk, "/store/old") == FILES
        found.add(disk.exists(ARCHIVE))
        if not disk.exists(ARCHIVE):
            pack_it(disk)
        assert check(disk, ARCHIVE).summary == SUMMARY
    assert found == {True, False}


@pytest.mark.crash
def test_power_loss_while_unpacking_leaves_no_session_or_a_complete_one() -> None:
    found = set()
    for disk in crashed(before_unpacking(), unpack_it):
        check(disk, ARCHIVE)
        found.add(disk.exists(TARGET))
        if not disk.exists(TARGET):
            unpack_it(disk)
        assert tree(disk, TARGET) == FILES
        assert disk.names("/store/sessions") == ["s"]
    assert found == {True, False}


@pytest.mark.crash
@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_full_disk_changes_nothing(name: str) -> None:
    base, work = {"pack": (before_packing(), pack_it), "unpack": (before_unpacking(), unpack_it)}[name]
    number = 0
    while True:
        number += 1
        system = FaultySystem(disk=base, fail_at=number)
        before = tree(Disk(system), "/store")
        try:
            work(Disk(system))
        except (OSError, SMPError):
            system.heal()
            now = tree(Disk(system), "/store")
            assert {path: data for path, data in now.items() if ".smp-new" not in path} in (before, _done(base, work))
            continue
        assert number > 5
        return


def _done(base: MemorySystem, work: Callable[[Disk], object]) -> dict[str, bytes]:
    disk = Disk(MemorySystem(disk=base))
    work(disk)
    return tree(disk, "/store")
