"""Concurrent and interrupted conversions lose nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch, LockTimeout, SMPError, StorageFull, StorageReadOnly
from smp_memory.files.journal import Journal
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import Data, RealSystem
from smp_memory.memory import open_memory
from tests.interrupted_system import interruptions

pytestmark = pytest.mark.crash
TEXTS = ["one", "two"]


class Died(BaseException):
    """The process is gone."""


def stores(path: Path, layout: str) -> tuple[smp_memory.Memory, smp_memory.Memory]:
    """Two stores in one folder, as in two processes."""
    first = smp_memory.open(path / "store", layout=layout)
    for name in ("r", "s"):
        for text in TEXTS:
            first.create_session(name).add_decision(text) if text == "one" else first.session(name).add_decision(text)
    return first, smp_memory.open(path / "store")


def texts(path: Path) -> dict[str, list[str]]:
    with smp_memory.open(path / "store") as memory:
        return {session.id: [record.text for record in session.records()] for session in memory.sessions()}


def others(layout: str) -> list[str]:
    return [name for name in NAMES if name != layout]


def dying(monkeypatch: pytest.MonkeyPatch, method: str) -> Callable[[smp_memory.Memory, str], None]:
    """A conversion whose process dies as it comes to this step of its plan."""

    def convert(memory: smp_memory.Memory, to: str) -> None:
        with monkeypatch.context() as patch:

            def die(*_: object) -> None:
                patch.setattr("smp_memory.store.convert._discard", die)  # the dead do not tidy up
                raise Died

            patch.setattr(Journal, method, die)
            with pytest.raises(Died):
                memory.convert(to)
        assert '"converting": true' in Path(memory.root, "config.json").read_text()

    return convert


@pytest.mark.parametrize("layout", NAMES)
def test_store_converted_by_another_process_is_not_converted_again(tmp_path: Path, layout: str) -> None:
    """It wrote a config.json of its own layout in which no session was to be seen any more."""
    for to in others(layout):
        first, second = stores(tmp_path / to, layout)
        first.convert(to).close()
        for wanted in NAMES:
            with pytest.raises(LayoutMismatch, match=f"converted to the layout {to}"):
                second.convert(wanted)
        assert texts(tmp_path / to) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_interrupted_conversion_is_completed_before_the_next_one(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one took away the files that the committed plan was about to put in the place of the old ones."""
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "apply")(first, others(layout)[0])
    with monkeypatch.context() as patch:
        patch.setattr("smp_memory.store.convert._stage_session", lambda *_: (_ for _ in ()).throw(Died))
        patch.setattr("smp_memory.store.convert._set_flag", lambda *_: None)
        with pytest.raises((Died, LayoutMismatch)):
            second.convert(others(layout)[1])
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_interrupted_conversion_does_not_block_writes_of_an_open_store(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write was told to try again in a moment, until somebody opened the store anew."""
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "commit")(first, others(layout)[0])
    second.session("s").add_decision("three")
    second.archive_session("r")
    assert texts(tmp_path) == {"s": [*TEXTS, "three"]}


@pytest.mark.parametrize("layout", NAMES)
def test_interrupted_conversion_with_a_committed_plan_is_finished_by_the_next_write(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "apply")(first, others(layout)[0])
    with pytest.raises(LayoutMismatch):
        second.session("s").add_decision("three")
    with pytest.raises(LayoutMismatch):
        second.archive_session("r")
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_session_created_during_a_conversion_is_there_or_not_acknowledged(layout: str) -> None:
    """The conversion began between the look at config.json and the moment in which the session got its name."""
    base = MemorySystem()
    with open_memory("/store", layout=layout, system=base) as memory:
        for name in ("r", "s"):
            memory.create_session(name).add_decision("one")
    patience, refused = {"concurrency": {"lock_timeout_ms": 1}}, 0
    for system in interruptions(base):
        converting, creating = (open_memory("/store", system=system, config=patience) for _ in range(2))
        system.happens = lambda converting=converting: converting.convert(others(layout)[0])
        must = {"r": ["one"], "s": ["one"]}
        try:
            creating.create_session("t")
            must["t"] = []
        except SMPError:  # mostly LayoutMismatch; StorageCorrupt if the folder goes between two looks at it
            refused += 1
        system.happens = None
        with open_memory("/store", system=system) as memory:
            found = {session.id: [record.text for record in session.records()] for session in memory.sessions()}
        assert must.items() <= found.items(), system.at
    assert refused


@pytest.mark.parametrize("layout", NAMES)
def test_store_opens_without_the_private_folder_of_an_interrupted_conversion(tmp_path: Path, layout: str) -> None:
    """A copy that was made meanwhile, or a person, left `.smp` out: then `converting` was an unknown setting for ever."""
    first, second = stores(tmp_path, layout)
    first.close()
    config = tmp_path / "store/config.json"
    config.write_text(config.read_text().replace("{", '{"converting": true,', 1))
    second.session("s").change_info(project="shop")  # one that is open
    assert "converting" not in config.read_text()
    config.write_text(config.read_text().replace("{", '{"converting": true,', 1))
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}
    assert "converting" not in config.read_text()


class SmallDisk(RealSystem):
    """A disk with room for so many bytes below a folder."""

    def __init__(self, root: Path, room: int) -> None:
        self._root, self.room = root, room

    def write(self, fd: int, data: Data, /) -> int:  # type: ignore[override]
        used = sum(path.stat().st_size for path in self._root.rglob("*") if path.is_file())
        if used + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(fd, data)


@pytest.mark.parametrize("layout", NAMES)
def test_conversion_on_a_full_disk_leaves_a_store_that_opens(tmp_path: Path, layout: str) -> None:
    """Its own files filled the disk, and only then was there an attempt to write the config.json without its mark."""
    stores(tmp_path, layout)
    root = tmp_path / "store"
    system = SmallDisk(root, 1 << 30)
    with smp_memory.open(root, system=system) as memory:
        memory.session("s").add_artifact("long", "x" * 5000)
        used = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        for room in range(used, used + 7000, 500):
            system.room = room
            try:
                memory.convert(others(layout)[0])
            except StorageFull:
                pass
            else:
                break
            assert {
                session.id: len(session.records()) for session in smp_memory.open(root, system=system).sessions()
            } == {
                "r": 2,
                "s": 3,
            }
        assert room > used


@pytest.mark.parametrize("layout", NAMES)
def test_interrupted_conversion_on_a_read_only_disk_can_be_read(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = stores(tmp_path, layout)
    dying(monkeypatch, "commit")(first, others(layout)[0])
    root = tmp_path / "store"
    monkeypatch.setattr(
        "smp_memory.store.convert._set_flag", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "no"))
    )
    memory = smp_memory.open(root)
    assert {session.id: [record.text for record in session.records()] for session in memory.sessions()} == {
        "r": TEXTS,
        "s": TEXTS,
    }
    with pytest.raises((StorageReadOnly, LockTimeout)):
        memory.session("s").add_decision("three")
