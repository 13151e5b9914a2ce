"""The systems of smp_memory.testing are as strict as they say, and not stricter."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import System
from smp_memory.testing import CrashingSystem, FaultySystem, FrozenClock, PowerLoss

NEW = os.O_RDWR | os.O_CREAT
APPEND = NEW | os.O_APPEND


def put(system: System, path: str, data: bytes, *, sync: bool = False) -> None:
    fd = system.open(path, APPEND)
    system.write(fd, data)
    if sync:
        system.sync(fd)
    system.close(fd)


def get(system: System, path: str) -> bytes | None:
    """The content, or None if there is no such file."""
    try:
        fd = system.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return system.pread(fd, 1 << 20, 0)
    finally:
        system.close(fd)


def durable(data: bytes = b"old\n") -> CrashingSystem:
    """A system with one durable file."""
    system = CrashingSystem()
    put(system, "/a", data, sync=True)
    system.sync_dir("/")
    return system


def left(system: CrashingSystem, *paths: str, limit: int = 300) -> set[tuple[bytes | None, ...]]:
    """What the paths may hold after a power loss."""
    return {tuple(get(state, path) for path in paths) for state in system.crash_states(limit=limit)}


# Content


def test_synced_bytes_survive_power_loss() -> None:
    system = durable()
    assert left(system, "/a") == {(b"old\n",)}
    assert len(list(system.crash_states())) == 1


def test_unsynced_append_is_lost_kept_cut_or_zero() -> None:
    system = durable()
    put(system, "/a", b"12345678")
    found = {content for (content,) in left(system, "/a")}
    new = {(content or b"")[4:] for content in found}
    assert all((content or b"").startswith(b"old\n") for content in found)
    assert new >= {b"", b"1", b"1234", b"1234567", b"12345678", bytes(8), b"1234" + bytes(4), bytes(4) + b"5678"}


def test_two_unsynced_appends_may_leave_a_hole() -> None:
    system = durable(b"")
    put(system, "/a", b"11")
    put(system, "/a", b"22")
    assert {(b"11",), (b"\0\x0022",), (b"1122",), (b"112",), (b"",)} <= left(system, "/a")


def test_a_second_sync_settles_only_its_own_file() -> None:
    system = durable()
    put(system, "/a", b"a")
    fd = system.open("/b", APPEND)
    system.write(fd, b"b")
    system.sync(fd)
    system.sync_dir("/")
    assert {b for _, b in left(system, "/a", "/b")} == {b"b"}
    assert {a for a, _ in left(system, "/a", "/b")} >= {b"old\n", b"old\na"}


def test_overwrite_is_old_or_new() -> None:
    system = durable(b"abcdef")
    fd = system.open("/a", os.O_RDWR)
    system.pwrite(fd, b"XYZ", 1)
    assert left(system, "/a") == {(b"abcdef",), (b"aXYZef",)}
    system.pwrite(fd, b"!!", 4)
    assert left(system, "/a") == {(b"abcdef",), (b"aXYZef",), (b"abcd!!",), (b"aXYZ!!",)}


def test_truncate_is_old_or_new() -> None:
    system = durable(b"abcdef")
    fd = system.open("/a", os.O_RDWR)
    system.ftruncate(fd, 2)
    assert left(system, "/a") == {(b"abcdef",), (b"ab",)}
    system.pwrite(fd, b"X", 2)
    assert left(system, "/a") >= {(b"abcdef",), (b"ab",), (b"abX",), (b"abXdef",), (b"ab\0",)}
    system.sync(fd)
    assert left(system, "/a") == {(b"abX",)}


def test_opening_with_truncate_is_a_truncate() -> None:
    system = durable()
    system.open("/a", os.O_RDWR | os.O_TRUNC)
    assert left(system, "/a") == {(b"old\n",), (b"",)}


# Names


def test_new_file_without_sync_dir_may_vanish() -> None:
    system = CrashingSystem()
    put(system, "/a", b"1", sync=True)
    assert left(system, "/a") == {(None,), (b"1",)}
    system.sync_dir("/")
    assert left(system, "/a") == {(b"1",)}


def test_name_without_sync_of_the_content() -> None:
    system = CrashingSystem()
    put(system, "/a", b"12")
    system.sync_dir("/")
    assert left(system, "/a") == {(b"",), (b"1",), (b"12",), (b"\0\0",), (b"1\0",), (b"\x002",)}


def replaced(*, sync_content: bool = True, sync_dir: bool = True, unlink: bool = False) -> CrashingSystem:
    system = durable()
    put(system, "/t", b"new\n", sync=sync_content)
    if unlink:
        system.unlink("/a")
    system.replace("/t", "/a")
    if sync_dir:
        system.sync_dir("/")
    return system


def test_replace_done_right_survives() -> None:
    assert left(replaced(), "/a", "/t") == {(b"new\n", None)}


def test_replace_without_sync_dir_may_be_undone() -> None:
    found = left(replaced(sync_dir=False), "/a", "/t")
    assert found == {(b"old\n", None), (b"old\n", b"new\n"), (b"new\n", None)}


def test_replace_of_unsynced_content_may_leave_nothing() -> None:
    assert (b"", None) in left(replaced(sync_content=False), "/a", "/t")


def test_unlink_before_replace_may_lose_both() -> None:
    assert (None, None) in left(replaced(unlink=True, sync_dir=False), "/a", "/t")


def test_link_and_unlink_may_lose_the_file() -> None:
    system = durable()
    system.link("/a", "/b")
    system.unlink("/a")
    assert (None, None) in left(system, "/a", "/b")
    system = durable()
    system.link("/a", "/b")
    system.sync_dir("/")
    system.unlink("/a")
    assert left(system, "/a", "/b") == {(None, b"old\n"), (b"old\n", b"old\n")}
    assert {state.lstat("/b").st_nlink for state in system.crash_states()} == {1, 2}


def test_later_change_of_a_name_needs_the_earlier() -> None:
    """Rotating a log may not lose the old one while the new one has its name."""
    system = durable()
    system.replace("/a", "/a.1")
    put(system, "/a", b"new", sync=True)
    assert (b"new", None) not in left(system, "/a", "/a.1")


def test_rename_between_folders_is_one_step_and_needs_both_synced() -> None:
    system = durable()
    system.mkdir("/d")
    system.sync_dir("/")
    system.replace("/a", "/d/a")
    both = {(b"old\n", None), (None, b"old\n")}
    assert left(system, "/a", "/d/a") == both
    system.sync_dir("/d")
    assert left(system, "/a", "/d/a") == both
    system.sync_dir("/")
    assert left(system, "/a", "/d/a") == {(None, b"old\n")}


def test_synced_unlink_does_not_come_back_through_a_half_synced_rename() -> None:
    system = durable()
    system.mkdir("/d")
    system.sync_dir("/")
    system.replace("/a", "/d/a")
    system.unlink("/d/a")
    system.sync_dir("/d")
    assert left(system, "/a", "/d/a") == {(None, None)}


def test_folder_without_sync_of_its_parent_vanishes_with_its_content() -> None:
    system = CrashingSystem()
    system.mkdir("/d")
    put(system, "/d/a", b"1", sync=True)
    system.sync_dir("/d")
    assert {state.listdir("/") == [] for state in system.crash_states()} == {True, False}
    assert left(system, "/d/a") == {(None,), (b"1",)}
    system.sync_dir("/")
    assert left(system, "/d/a") == {(b"1",)}


def test_removed_folder_may_come_back_but_takes_nothing_along() -> None:
    system = durable()
    system.mkdir("/d")
    system.sync_dir("/")
    put(system, "/d/x", b"1", sync=True)
    system.sync_dir("/d")
    system.replace("/d/x", "/x")
    system.rmdir("/d")
    found = {(get(state, "/d/x"), get(state, "/x"), "d" in state.listdir("/")) for state in system.crash_states()}
    assert found == {(b"1", None, True), (None, b"1", True), (None, b"1", False)}


def test_an_open_folder_can_be_synced() -> None:
    system = CrashingSystem()
    put(system, "/a", b"1", sync=True)
    system.sync(system.open("/", os.O_RDONLY))
    assert left(system, "/a") == {(b"1",)}


# States


def busy(boot: str | None = None) -> CrashingSystem:
    system = CrashingSystem(now_ns=lambda: 0, boot=boot)
    for name in "abcdefgh":
        put(system, f"/{name}", name.encode() * 40)
        system.replace(f"/{name}", f"/{name}{name}")
    return system


def image(state: MemorySystem) -> tuple[object, ...]:
    return state.boot_id(), *((name, get(state, f"/{name}")) for name in sorted(state.listdir("/")))


def test_states_are_deterministic_different_and_bounded() -> None:
    one, two = ([image(state) for state in busy(boot="b").crash_states()] for _ in range(2))
    assert one == two
    assert len(one) == 60
    assert len({each[1:] for each in one}) == 60
    assert len({each[0] for each in one}) == 60
    assert "b" not in {each[0] for each in one}
    other = [image(state) for state in busy(boot="b").crash_states(seed=1)]
    assert other != one
    assert other[:2] == one[:2]
    assert one[0][1:] == ()
    assert len(one[1]) == 9
    assert len(list(busy().crash_states(limit=7))) == 7


def test_a_small_sample_has_every_kind() -> None:
    states = list(busy().crash_states(limit=60))
    contents = [get(state, f"/{name}") or b"" for state in states for name in state.listdir("/")]
    assert any(0 < len(data) < 40 for data in contents)
    assert any(len(data) == 40 and b"\0" in data for data in contents)
    assert {len(state.listdir("/")) for state in states} >= set(range(9))


def test_states_are_of_the_moment_of_the_call() -> None:
    system = durable()
    states = system.crash_states()
    put(system, "/a", b"later")
    assert {get(state, "/a") for state in states} == {b"old\n"}


def test_state_after_power_loss_is_a_working_system() -> None:
    system = durable()
    fd = system.open("/a", os.O_RDONLY)
    assert system.lock(fd)
    put(system, "/a", b"x")
    put(system, "/b", b"y")
    for state in system.crash_states():
        assert state.boot_id() != system.boot_id()
        assert "un-synced" in state.story
        with pytest.raises(OSError):
            state.fstat(fd)
        assert state.lock(state.open("/a", os.O_RDONLY))
        put(state, "/c", b"z")
        numbers = [state.lstat(f"/{name}").st_ino for name in state.listdir("/")]
        assert len(numbers) == len(set(numbers))
        assert state.lstat("/c").st_ino > system.lstat("/b").st_ino


def test_kill_state_sees_all_but_it_is_not_durable() -> None:
    system = durable()
    fd = system.open("/a", APPEND)
    assert system.lock(fd)
    system.write(fd, b"x")
    system.replace("/a", "/b")
    other = system.kill_state()
    assert get(other, "/b") == b"old\nx"
    assert other.boot_id() == system.boot_id()
    assert other.lock(other.open("/b", os.O_RDONLY))
    assert left(other, "/a", "/b") >= {(b"old\n", None), (None, b"old\nx")}
    other.sync(other.open("/b", os.O_RDONLY))
    other.sync_dir("/")
    assert left(other, "/a", "/b") == {(None, b"old\nx")}
    assert (b"old\n", None) in left(system, "/a", "/b")  # the one did not change with the other


# Crashing


def test_crash_comes_before_the_call_and_is_final() -> None:
    system = CrashingSystem(crash_at=3)
    fd = system.open("/a", APPEND)
    system.write(fd, b"1")
    with pytest.raises(PowerLoss, match=r"call 3, sync"):
        system.sync(fd)
    assert system.calls == 3
    assert left(system, "/a") >= {(None,), (b"1",)}
    calls: list[Callable[[], object]] = [
        lambda: system.pread(fd, 1, 0),
        lambda: system.lstat("/a"),
        lambda: system.open("/a", os.O_RDONLY),
        lambda: system.lock(fd),
        lambda: system.write(fd, b"2"),
        system.boot_id,
        system.yield_cpu,
    ]
    for call in calls:
        with pytest.raises(PowerLoss):
            call()
    system.unlock(fd)
    system.close(fd)
    assert not isinstance(PowerLoss(), Exception)
    assert system.calls == 3
    assert get(system.kill_state(), "/a") == b"1"


def test_calls_counts_only_calls_that_change_the_disk() -> None:
    system = CrashingSystem()
    fd = system.open("/a", APPEND)
    other = system.open("/a", os.O_RDWR)
    steps: list[Callable[[], object]] = [
        lambda: system.write(fd, b"1"),
        lambda: system.pwrite(other, b"1", 0),
        lambda: system.ftruncate(other, 0),
        lambda: system.sync(fd),
        lambda: system.sync_dir("/"),
        lambda: system.link("/a", "/b"),
        lambda: system.replace("/a", "/c"),
        lambda: system.unlink("/b"),
        lambda: system.mkdir("/d"),
        lambda: system.rmdir("/d"),
    ]
    for number, step in enumerate(steps, start=2):
        step()
        system.pread(other, 1, 0), system.lstat("/c" if number > 7 else "/a"), system.listdir("/"), system.lock(fd)
        assert system.calls == number


def test_a_recovery_can_crash_too() -> None:
    for state in busy().crash_states(limit=10):
        again = CrashingSystem(disk=state, crash_at=2)
        assert again.boot_id() == state.boot_id()
        assert again.calls == 0
        assert len(list(again.crash_states())) == 1
        with pytest.raises(PowerLoss):
            put(again, "/z", b"z")
        assert {get(each, "/z") for each in again.crash_states()} == {None, b""}


def test_power_off_now() -> None:
    system = durable()
    system.power_off()
    with pytest.raises(PowerLoss):
        system.listdir("/")
    assert left(system, "/a") == {(b"old\n",)}


@pytest.mark.parametrize("bug", ["none", "no sync", "no sync_dir", "unlink first"])
def test_a_whole_sweep_finds_the_seeded_bugs(bug: str) -> None:
    """Write version 1, 2, 3 of a file by replacing it; after a crash there is an acknowledged or a newer one."""

    def run(system: CrashingSystem, acknowledged: list[int]) -> None:
        for version in (1, 2, 3):
            fd = system.open("/t", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            system.write(fd, b"version %d" % version)
            if bug != "no sync":
                system.sync(fd)
            system.close(fd)
            if bug == "unlink first" and version > 1:
                system.unlink("/a")
            system.replace("/t", "/a")
            if bug != "no sync_dir":
                system.sync_dir("/")
            acknowledged.append(version)

    wrong = 0
    for crash_at in range(1, 30):
        acknowledged = [0]
        system = CrashingSystem(crash_at=crash_at)
        with suppress(PowerLoss):
            run(system, acknowledged)
        good = [None, b"version 1", b"version 2", b"version 3"][acknowledged[-1] :]
        wrong += sum(get(state, "/a") not in good for state in system.crash_states())
        if not system.off:
            break
    assert not system.off
    assert bool(wrong) == (bug != "none")


# Faults


def test_fault_once() -> None:
    system = FaultySystem(fail_at=2)
    fd = system.open("/a", APPEND)
    with pytest.raises(OSError) as caught:
        system.write(fd, b"1234")
    assert caught.value.errno == errno.ENOSPC
    assert get(system, "/a") == b""
    assert system.write(fd, b"1234") == 4
    assert system.calls == 3


def test_fault_sticks_until_healed() -> None:
    system = FaultySystem(fail_at=1, error=errno.EROFS, sticky=True)
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            system.mkdir("/d")
    assert system.listdir("/") == []
    system.heal()
    system.mkdir("/d")
    assert system.listdir("/") == ["d"]


@pytest.mark.parametrize("sticky", [True, False])
def test_short_write_then_fault(sticky: bool) -> None:
    system = FaultySystem(fail_at=2, short=True, sticky=sticky)
    fd = system.open("/a", APPEND)
    assert system.write(fd, b"12345678") == 4
    with pytest.raises(OSError):
        system.write(fd, b"5678")
    assert get(system, "/a") == b"1234"
    if sticky:
        with pytest.raises(OSError):
            system.ftruncate(fd, 0)
        system.heal()
    system.ftruncate(fd, 0)
    assert system.write(fd, b"12345678") == 8


def test_short_pwrite_and_nothing_to_shorten() -> None:
    system = FaultySystem(fail_at=2, short=True)
    fd = system.open("/a", NEW)
    assert system.pwrite(fd, b"12345678", 0) == 4
    for data in (b"1", b""):
        system = FaultySystem(fail_at=2, short=True)
        fd = system.open("/a", NEW)
        with pytest.raises(OSError):
            system.write(fd, data)


def test_only_named_calls_fail() -> None:
    system = FaultySystem(fail_at=2, error=errno.EIO, calls={"sync"}, disk=durable())
    fd = system.open("/a", APPEND)
    system.sync(fd)
    system.write(fd, b"1")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        system.sync(fd)
    assert system.calls == 2
    reading = FaultySystem(fail_at=1, error=errno.EIO, calls={"pread"}, disk=system)
    with pytest.raises(OSError):
        get(reading, "/a")
    assert get(reading, "/a") == b"old\n1"


# Clock


def test_frozen_clock() -> None:
    clock = FrozenClock()
    start = clock()
    assert start == clock()
    assert start.tzinfo is UTC
    clock.advance(1.5)
    clock.advance(days=1, seconds=-1)
    assert clock() - start == timedelta(days=1, seconds=0.5)
    clock.set(datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock() == datetime(2030, 1, 1, tzinfo=UTC)
    assert clock().tzinfo is UTC
    assert FrozenClock(clock())() == clock()
    with pytest.raises(ValueError):
        clock.set(clock().replace(tzinfo=None))
