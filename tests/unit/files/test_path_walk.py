"""RealSystem with a root follows no link below it, with any primitive."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from smp_memory.files.system import RealSystem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links")

Act = Callable[[RealSystem, str], object]
PRIMITIVES: dict[str, Act] = {
    "open to read": lambda system, path: system.close(system.open(path, os.O_RDONLY)),
    "open to write": lambda system, path: system.close(system.open(path, os.O_RDWR)),
    "create": lambda system, path: system.close(system.open(path + "-new", os.O_RDWR | os.O_CREAT)),
    "listdir": lambda system, path: system.listdir(os.path.dirname(path)),
    "sync_dir": lambda system, path: system.sync_dir(os.path.dirname(path)),
    "replace from": lambda system, path: system.replace(path, f"{system.root}/plain"),
    "replace to": lambda system, path: system.replace(f"{system.root}/plain", path),
    "link from": lambda system, path: system.link(path, f"{system.root}/second"),
    "link to": lambda system, path: system.link(f"{system.root}/plain", path + "-second"),
    "unlink": lambda system, path: system.unlink(path),
    "mkdir": lambda system, path: system.mkdir(path + "-folder"),
    "rmdir": lambda system, path: system.rmdir(os.path.join(os.path.dirname(path), "empty")),
    "chmod": lambda system, path: system.chmod(path, 0o777),
    "set_modified": lambda system, path: system.set_modified(path, 1),
}
WAYS = {
    "a link at the first component": "linked/file",
    "a link at the second component": "real/linked/file",
    "a link far down": "real/deeper/linked/file",
    "dots": "real/../../outside/file",
    "dots at once": "../outside/file",
}


@pytest.fixture
def system(tmp_path: Path) -> RealSystem:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "empty").mkdir(parents=True)
    (outside / "file").write_text("gold")
    (root / "real" / "deeper").mkdir(parents=True)
    (root / "plain").write_text("plain")
    for folder in (root, root / "real", root / "real" / "deeper"):
        (folder / "linked").symlink_to(outside)
    return RealSystem(str(root))


def state_of(folder: Path) -> list[tuple[str, int, int, bytes]]:
    found = []
    for path in sorted([folder, *folder.rglob("*")]):
        state = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found.append((str(path), state.st_mode, state.st_mtime_ns, data))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_no_primitive_leaves_the_root(system: RealSystem, tmp_path: Path, primitive: str, way: str) -> None:
    before = state_of(tmp_path / "outside")
    with pytest.raises(OSError, match=r".") as caught:
        PRIMITIVES[primitive](system, f"{system.root}/{WAYS[way]}")
    assert caught.value.errno == errno.ELOOP
    assert state_of(tmp_path / "outside") == before
    assert (tmp_path / "root" / "plain").read_text() == "plain"


@pytest.mark.parametrize("primitive", [name for name in PRIMITIVES if name not in ("mkdir", "listdir", "sync_dir")])
def test_paths_outside_the_root_are_rejected(system: RealSystem, tmp_path: Path, primitive: str) -> None:
    before = state_of(tmp_path / "outside")
    with pytest.raises(OSError, match="outside") as caught:
        PRIMITIVES[primitive](system, f"{tmp_path}/outside/file")
    assert caught.value.errno == errno.ELOOP
    assert state_of(tmp_path / "outside") == before


@pytest.mark.parametrize("primitive", ["open to read", "open to write", "chmod"])
def test_link_at_the_end_is_not_followed(system: RealSystem, tmp_path: Path, primitive: str) -> None:
    for place in ("end", "real/end"):
        path = tmp_path / "root" / place
        path.symlink_to(tmp_path / "outside" / "file")
        before = state_of(tmp_path / "outside")
        with pytest.raises(OSError, match=r"."):
            PRIMITIVES[primitive](system, str(path))
        assert state_of(tmp_path / "outside") == before


def test_times_of_a_link_change_and_not_those_of_its_target(system: RealSystem, tmp_path: Path) -> None:
    (tmp_path / "root/real/end").symlink_to(tmp_path / "outside/file")
    before = (tmp_path / "outside/file").stat().st_mtime_ns
    system.set_modified(str(tmp_path / "root/real/end"), 5)
    assert (tmp_path / "outside/file").stat().st_mtime_ns == before


def test_no_descriptor_is_left_open(system: RealSystem) -> None:
    before = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
    for way in WAYS.values():
        for act in PRIMITIVES.values():
            for path in (f"{system.root}/{way}", f"{system.root}/real/deeper/missing"):
                try:
                    act(system, path)
                except OSError:
                    pass
    assert (len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0) == before


def test_links_above_the_root_are_followed(tmp_path: Path) -> None:
    (tmp_path / "really" / "root" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "really")
    system = RealSystem(f"{tmp_path}/link/root")
    system.close(system.open(f"{tmp_path}/link/root/inner/file", os.O_RDWR | os.O_CREAT))
    assert system.listdir(f"{tmp_path}/link/root/inner") == ["file"]
