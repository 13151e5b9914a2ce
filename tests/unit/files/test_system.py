"""RealSystem and MemorySystem keep the same contract."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import RealSystem, System

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX semantics")


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[System, str]:
    """A system, and an empty folder on it."""
    if request.param == "real":
        return RealSystem(), str(tmp_path)
    system = MemorySystem()
    system.mkdir("/top")
    return system, "/top"


def put(system: System, path: str, data: bytes) -> None:
    fd = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    system.write(fd, data)
    system.close(fd)


def get(system: System, path: str) -> bytes:
    fd = system.open(path, os.O_RDONLY)
    try:
        return system.pread(fd, 1 << 20, 0)
    finally:
        system.close(fd)


def code(call: Callable[[], object]) -> int:
    with pytest.raises(OSError) as caught:
        call()
    return caught.value.errno or 0


def test_create_append_read(place: tuple[System, str]) -> None:
    system, top = place
    path = f"{top}/a"
    fd = system.open(path, APPEND)
    assert system.write(fd, b"one\n") == 4
    assert system.write(fd, memoryview(b"two\n")) == 4
    assert system.write(fd, b"") == 0
    system.sync(fd)
    system.sync_dir(top)
    system.close(fd)
    other = system.open(path, APPEND)
    system.write(other, bytearray(b"three\n"))
    system.close(other)
    assert get(system, path) == b"one\ntwo\nthree\n"
    reader = system.open(path, os.O_RDONLY)
    assert system.pread(reader, 4, 4) == b"two\n"
    assert system.pread(reader, 100, 8) == b"three\n"
    assert system.pread(reader, 4, 100) == b""
    system.close(reader)


def test_modes(place: tuple[System, str]) -> None:
    system, top = place
    put(system, f"{top}/a", b"x")
    system.mkdir(f"{top}/d")
    file, folder = system.lstat(f"{top}/a"), system.lstat(f"{top}/d")
    assert stat.S_ISREG(file.st_mode)
    assert stat.S_ISDIR(folder.st_mode)
    assert file.st_nlink == 1
    assert file.st_size == 1
    if os.name != "nt":
        assert stat.S_IMODE(file.st_mode) == 0o600
        assert stat.S_IMODE(folder.st_mode) == 0o700
        assert file.st_uid == os.getuid()
        system.chmod(f"{top}/a", 0o640)
        assert stat.S_IMODE(system.lstat(f"{top}/a").st_mode) == 0o640


def test_exclusive_truncate_readonly(place: tuple[System, str]) -> None:
    system, top = place
    path = f"{top}/a"
    put(system, path, b"long")
    assert code(lambda: system.open(path, NEW)) == errno.EEXIST
    put(system, path, b"s")
    assert get(system, path) == b"s"
    reader = system.open(path, os.O_RDONLY)
    assert code(lambda: system.write(reader, b"x")) == errno.EBADF
    assert code(lambda: system.pwrite(reader, b"x", 0)) == errno.EBADF
    assert code(lambda: system.ftruncate(reader, 0)) in (errno.EINVAL, errno.EBADF, errno.EACCES)
    system.close(reader)
    writer = system.open(path, os.O_WRONLY)
    assert code(lambda: system.pread(writer, 1, 0)) == errno.EBADF
    system.close(writer)
    for stale in (lambda: system.close(writer), lambda: system.pread(writer, 1, 0), lambda: system.fstat(writer)):
        assert code(stale) == errno.EBADF


def test_position_pwrite_ftruncate(place: tuple[System, str]) -> None:
    system, top = place
    fd = system.open(f"{top}/a", NEW)
    system.write(fd, b"abc")
    system.write(fd, b"def")
    assert system.pwrite(fd, b"XY", 1) == 2
    system.write(fd, b"!")  # pwrite does not move the position
    assert system.pread(fd, 99, 0) == b"aXYdef!"
    assert system.pwrite(fd, b"end", 9) == 3
    assert system.pread(fd, 99, 0) == b"aXYdef!\0\0end"
    system.ftruncate(fd, 2)
    system.ftruncate(fd, 4)
    assert system.pread(fd, 99, 0) == b"aX\0\0"
    assert system.fstat(fd).st_size == 4
    assert code(lambda: system.ftruncate(fd, -1)) == errno.EINVAL
    system.close(fd)


def test_replace_files(place: tuple[System, str]) -> None:
    system, top = place
    put(system, f"{top}/new", b"new")
    put(system, f"{top}/old", b"old")
    system.mkdir(f"{top}/d")
    number = system.lstat(f"{top}/new").st_ino
    system.replace(f"{top}/new", f"{top}/old")
    assert get(system, f"{top}/old") == b"new"
    assert system.lstat(f"{top}/old").st_ino == number
    system.replace(f"{top}/old", f"{top}/d/moved")
    assert system.listdir(top) == ["d"]
    assert system.listdir(f"{top}/d") == ["moved"]
    assert code(lambda: system.replace(f"{top}/none", f"{top}/x")) == errno.ENOENT
    assert code(lambda: system.replace(f"{top}/d/moved", f"{top}/none/x")) == errno.ENOENT


@posix
def test_open_descriptor_survives_unlink(place: tuple[System, str]) -> None:
    system, top = place
    put(system, f"{top}/a", b"old")
    put(system, f"{top}/b", b"new")
    fd = system.open(f"{top}/a", os.O_RDWR)
    system.replace(f"{top}/b", f"{top}/a")
    assert system.fstat(fd).st_nlink == 0
    system.write(fd, b"!")
    assert system.pread(fd, 9, 0) == b"!ld"
    assert get(system, f"{top}/a") == b"new"
    system.close(fd)


@posix
def test_replace_folders(place: tuple[System, str]) -> None:
    system, top = place
    for name in ("full", "empty", "other"):
        system.mkdir(f"{top}/{name}")
    put(system, f"{top}/full/a", b"a")
    put(system, f"{top}/file", b"")
    assert code(lambda: system.replace(f"{top}/empty", f"{top}/full")) in (errno.ENOTEMPTY, errno.EEXIST)
    assert code(lambda: system.replace(f"{top}/full", f"{top}/file")) == errno.ENOTDIR
    assert code(lambda: system.replace(f"{top}/file", f"{top}/empty")) == errno.EISDIR
    assert code(lambda: system.replace(f"{top}/full", f"{top}/full/in")) == errno.EINVAL
    system.replace(f"{top}/full", f"{top}/empty")
    system.replace(f"{top}/empty", f"{top}/fresh")
    assert sorted(system.listdir(top)) == ["file", "fresh", "other"]
    assert get(system, f"{top}/fresh/a") == b"a"


def test_link_unlink(place: tuple[System, str]) -> None:
    system, top = place
    put(system, f"{top}/a", b"1")
    system.link(f"{top}/a", f"{top}/b")
    assert system.lstat(f"{top}/a").st_nlink == 2
    assert system.lstat(f"{top}/a").st_ino == system.lstat(f"{top}/b").st_ino
    with pytest.raises(FileExistsError):
        system.link(f"{top}/a", f"{top}/b")
    with pytest.raises(FileNotFoundError):
        system.link(f"{top}/none", f"{top}/c")
    system.replace(f"{top}/a", f"{top}/b")  # two names of one file: POSIX does nothing
    put(system, f"{top}/b", b"22")
    system.unlink(f"{top}/b")
    with pytest.raises(FileNotFoundError):
        system.unlink(f"{top}/b")
    if os.name != "nt":
        assert get(system, f"{top}/a") == b"22"
        assert system.lstat(f"{top}/a").st_nlink == 1


def test_folders(place: tuple[System, str]) -> None:
    system, top = place
    system.mkdir(f"{top}/d")
    system.mkdir(f"{top}/d/e")
    put(system, f"{top}/d/f", b"")
    assert sorted(system.listdir(f"{top}/d")) == ["e", "f"]
    assert code(lambda: system.mkdir(f"{top}/d")) == errno.EEXIST
    assert code(lambda: system.mkdir(f"{top}/x/y")) == errno.ENOENT
    assert code(lambda: system.rmdir(f"{top}/d")) == errno.ENOTEMPTY
    system.rmdir(f"{top}/d/e")
    for missing in (system.lstat, system.listdir, system.unlink, system.rmdir, system.sync_dir):
        if not (os.name == "nt" and missing == system.sync_dir):
            assert code(lambda call=missing: call(f"{top}/d/e")) == errno.ENOENT  # type: ignore[misc]
    assert code(lambda: system.open(f"{top}/none", os.O_RDONLY)) == errno.ENOENT
    assert code(lambda: system.open(f"{top}/none/a", APPEND)) == errno.ENOENT
    assert code(lambda: system.lstat("")) == errno.ENOENT
    assert code(lambda: system.open(f"{top}/{'n' * 256}", APPEND)) == errno.ENAMETOOLONG
    with pytest.raises(ValueError):
        system.lstat(f"{top}/a\0b")


@posix
def test_file_is_not_a_folder(place: tuple[System, str]) -> None:
    system, top = place
    put(system, f"{top}/f", b"")
    system.mkdir(f"{top}/d")
    for call in (
        lambda: system.listdir(f"{top}/f"),
        lambda: system.rmdir(f"{top}/f"),
        lambda: system.lstat(f"{top}/f/x"),
        lambda: system.open(f"{top}/f/x", APPEND),
        lambda: system.sync_dir(f"{top}/f"),
        lambda: system.open(f"{top}/f", os.O_RDONLY | os.O_DIRECTORY),
    ):
        assert code(call) == errno.ENOTDIR
    assert code(lambda: system.open(f"{top}/d", APPEND)) == errno.EISDIR
    assert code(lambda: system.unlink(f"{top}/d")) in (errno.EISDIR, errno.EPERM)
    fd = system.open(f"{top}/d", os.O_RDONLY)
    assert stat.S_ISDIR(system.fstat(fd).st_mode)
    assert code(lambda: system.pread(fd, 1, 0)) == errno.EISDIR
    system.sync(fd)
    system.close(fd)


def test_locks_exclude_each_other_and_close_releases(place: tuple[System, str]) -> None:
    system, top = place
    one, two = (system.open(f"{top}/.lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.lock(one)
    assert not system.lock(two)
    assert not system.lock(two)
    system.unlock(two)  # not its own: nothing happens
    assert not system.lock(two)
    system.unlock(one)
    system.unlock(one)
    assert system.lock(two)
    assert not system.lock(one)
    system.close(two)
    assert system.lock(one)
    system.close(one)
    three = system.open(f"{top}/.lock", os.O_RDWR)
    assert system.lock(three)
    system.close(three)


def test_every_change_in_memory_gives_new_stamps() -> None:
    system, top = MemorySystem(now_ns=lambda: 0), "/top"  # a clock that stands still
    system.mkdir(top)
    fd = system.open(f"{top}/a", NEW)
    seen = [system.fstat(fd)]
    for change in (
        lambda: system.write(fd, b"1"),
        lambda: system.pwrite(fd, b"2", 0),
        lambda: system.ftruncate(fd, 0),
        lambda: system.write(fd, b"1"),
    ):
        change()
        seen.append(system.fstat(fd))
    assert len({each.st_mtime_ns for each in seen}) == len(seen)
    times = [each.st_ctime_ns for each in seen]
    assert times == sorted(times)
    system.link(f"{top}/a", f"{top}/b")
    system.replace(f"{top}/b", f"{top}/c")
    assert system.fstat(fd).st_ctime_ns > times[-1]
    assert system.fstat(fd).st_mtime_ns == seen[-1].st_mtime_ns
    before = system.lstat(top).st_mtime_ns
    system.unlink(f"{top}/c")
    assert system.lstat(top).st_mtime_ns > before


def test_stamps_change_on_the_real_disk(tmp_path: Path) -> None:
    system, path = RealSystem(), f"{tmp_path}/a"
    put(system, path, b"1")
    os.utime(path, ns=(1, 1))
    put(system, path, b"2")
    assert system.lstat(path).st_mtime_ns > 1


def test_boot_id_and_yield(place: tuple[System, str]) -> None:
    system, _ = place
    assert system.boot_id()
    assert system.boot_id() == system.boot_id()
    system.yield_cpu()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_processes_of_one_boot_agree() -> None:
    show = "from smp_memory.files.system import RealSystem; print(RealSystem().boot_id())"
    other = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == RealSystem().boot_id()
    assert MemorySystem().boot_id() != MemorySystem().boot_id()


@posix
def test_planted_link_or_pipe_is_rejected_without_blocking(tmp_path: Path) -> None:
    system = RealSystem()
    (tmp_path / "victim").write_bytes(b"v")
    (tmp_path / "link").symlink_to("victim")
    os.mkfifo(tmp_path / "pipe")
    assert code(lambda: system.open(f"{tmp_path}/link", APPEND)) in (errno.ELOOP, errno.EMLINK)
    assert stat.S_ISLNK(system.lstat(f"{tmp_path}/link").st_mode)
    fd = system.open(f"{tmp_path}/pipe", os.O_RDONLY)
    assert not stat.S_ISREG(system.fstat(fd).st_mode)
    assert not os.get_inheritable(fd)
    system.close(fd)


def test_the_system_imports_little() -> None:
    """The first line of each hook's start-up time."""
    show = (
        "import os, stat, sys; sys.path.insert(0, sys.argv[1]); import smp_memory.files; before = set(sys.modules);"
        "import smp_memory.files.system; print(*sorted(set(sys.modules) - before))"
    )
    source = Path(sys.modules[RealSystem.__module__].__file__ or "").parents[2]
    arguments = [sys.executable, "-S", "-E", "-c", show, str(source)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    allowed = {"__future__", "errno", "fcntl", "msvcrt", "smp_memory.files.system"}
    assert set(run.stdout.split()) <= allowed


def test_memory_numbers_are_never_used_twice() -> None:
    system = MemorySystem()
    seen = set()
    for _ in range(5):
        put(system, "/a", b"")
        seen.add(system.lstat("/a").st_ino)
        system.unlink("/a")
    assert len(seen) == 5
    fd = system.open("/a", APPEND)
    system.close(fd)
    assert system.open("/a", APPEND) != fd


def test_memory_system_rejects_calls_on_which_systems_differ() -> None:
    system = MemorySystem()
    fd = system.open("/a", APPEND)
    assert code(lambda: system.pwrite(fd, b"x", 0)) == errno.EINVAL


def test_memory_copy_is_independent() -> None:
    system = MemorySystem(boot="b", now_ns=lambda: 7)
    put(system, "/a", b"1")
    system.link("/a", "/b")
    assert system.lock(system.open("/a", os.O_RDONLY))
    twin = MemorySystem(disk=system)
    put(twin, "/a", b"2")
    assert (get(system, "/a"), get(twin, "/b"), twin.boot_id()) == (b"1", b"2", "b")
    assert twin.lock(twin.open("/a", os.O_RDONLY))


def test_memory_paths_are_normalised() -> None:
    system = MemorySystem()
    system.mkdir("/d")
    put(system, "/d/./../d//a", b"1")
    assert get(system, "d/a") == b"1"
    assert code(lambda: system.rmdir("/")) == errno.EBUSY
    assert code(lambda: system.mkdir("/")) == errno.EEXIST


def test_memory_appends_of_threads_do_not_mix() -> None:
    system = MemorySystem()
    fd = system.open("/a", APPEND)

    def work(mark: bytes) -> None:
        for _ in range(200):
            system.write(fd, mark * 9 + b"\n")

    threads = [threading.Thread(target=work, args=(mark,)) for mark in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = get(system, "/a").splitlines()
    assert len(lines) == 800
    assert {len(set(line)) for line in lines} == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="errors are those of Linux")
@pytest.mark.parametrize("seed", range(20))
def test_memory_behaves_like_linux(tmp_path: Path, seed: int) -> None:
    """The same 300 random calls on both: same results, same errors, same tree."""
    chance = random.Random(seed)
    memory, real = MemorySystem(), RealSystem()
    top = str(tmp_path)
    for part in [str(each) for each in [*reversed(tmp_path.parents), tmp_path]][1:]:
        memory.mkdir(part)
    open_files: list[tuple[int, int, int]] = []

    def both(call: str, *arguments: object) -> tuple[object, object]:
        return outcome(memory, call, *arguments), outcome(real, call, *arguments)

    def path() -> str:
        return "/".join([top, *chance.choices("abc", k=chance.randint(1, 2))])

    for _ in range(300):
        call = chance.choice(["open", "close", "write", "pwrite", "pread", "ftruncate", "lock", "names", "names"])
        if call == "open":
            flags = chance.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
            for extra in (os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND):
                flags |= extra if chance.random() < 0.3 else 0
            if flags & os.O_EXCL and not flags & os.O_CREAT:
                continue  # undefined
            ours, theirs = both("open", path(), flags)
            assert isinstance(ours, int) == isinstance(theirs, int), flags
            if isinstance(ours, int) and isinstance(theirs, int):
                open_files.append((ours, theirs, flags))
        elif call == "names":
            name = chance.choice(["mkdir", "mkdir", "rmdir", "unlink", "replace", "link", "listdir", "lstat"])
            ours, theirs = both(name, *[path() for _ in range(2 if name in ("replace", "link") else 1)])
            assert ours == theirs, name
        elif open_files:
            chosen = chance.choice(open_files)
            if call == "pwrite" and chosen[2] & os.O_APPEND:
                continue
            number = chance.randint(0, 9)
            values: dict[str, list[object]] = {
                "write": [b"x" * number],
                "pwrite": [b"y" * number, number],
                "pread": [9, number],
                "ftruncate": [number],
            }
            more = values.get(call, [])
            assert outcome(memory, call, chosen[0], *more) == outcome(real, call, chosen[1], *more), (call, chosen[2])
            assert outcome(memory, "fstat", chosen[0]) == outcome(real, "fstat", chosen[1])
            if call == "close":
                open_files.remove(chosen)
    for _, theirs, _ in open_files:
        real.close(theirs)
    assert tree(memory, top) == tree(real, top)


def outcome(system: System, call: str, *arguments: object) -> object:
    try:
        found = getattr(system, call)(*arguments)
    except OSError as error:
        return type(error), error.errno
    if call in ("lstat", "fstat"):
        file = stat.S_ISREG(found.st_mode)
        return found.st_mode, found.st_uid, file and (found.st_size, found.st_nlink)
    return sorted(found) if call == "listdir" else found


def tree(system: System, path: str) -> object:
    if stat.S_ISDIR(system.lstat(path).st_mode):
        return {name: tree(system, f"{path}/{name}") for name in system.listdir(path)}
    return get(system, path)
