"""Addresses of stores: their syntax, passwords in them, the backend of a scheme, the user's state of a store that is not a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import smp_memory
from smp_memory.discovery import absolute, discovery, is_named
from smp_memory.errors import InvalidFormat
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import STORE_FILE, forget_removed_stores, open_user_state
from smp_memory.model.ids import scheme_of, without_password
from smp_memory.store.opening import user_state

ADDRESS = "postgresql://ada:hunter2@db.example:5432/shop?sslmode=require&password=hunter2"
SHOWN = "postgresql://ada@db.example:5432/shop?sslmode=require"


@pytest.mark.parametrize("folder", ["", ".", "/srv/memory", "c://memory", "C:\\memory", "a b://x", "://x", "memory:/x"])
def test_folder_has_no_scheme(folder: str) -> None:
    assert scheme_of(folder) == ""
    assert without_password(folder) == folder
    assert absolute(folder) == os.path.abspath(folder)


def test_address_has_a_scheme_and_stays_as_it_is() -> None:
    assert (scheme_of(ADDRESS), scheme_of("sqlite-test:///x"), scheme_of("postgresql+ssl://x")) == (
        "postgresql",
        "sqlite-test",
        "postgresql+ssl",
    )
    assert absolute(ADDRESS) == ADDRESS


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (ADDRESS, SHOWN),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("postgresql://ada:p@ss:word@host", "postgresql://ada@host"),
        ("postgresql:///db?host=/run&PASSWORD=x", "postgresql:///db?host=/run"),
        ("postgresql:///db?password=x", "postgresql:///db"),
    ],
)
def test_password_is_left_out_of_what_is_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_environment_names_a_store_by_its_address(tmp_path: Path) -> None:
    found = discovery(str(tmp_path), {"SMP_ROOT": ADDRESS})
    assert (found.root, found.is_ours) == (ADDRESS, True)
    assert is_named(SHOWN, {"SMP_ROOT": ADDRESS})
    assert not is_named("postgresql://db.example/other", {"SMP_ROOT": ADDRESS})
    assert not is_named(str(tmp_path), {"SMP_ROOT": ADDRESS})


def test_backend_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[smp_memory.backends]\nbroken-test = no_such_module:open_store\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        InvalidFormat, match="broken-test:// addresses cannot be loaded: No module named 'no_such_module'"
    ):
        smp_memory.open("broken-test://x")
    with pytest.raises(InvalidFormat, match="there is no backend for nosuch:// addresses"):
        smp_memory.open("nosuch://x")


def test_state_of_an_address_is_kept_and_holds_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    state = user_state(ADDRESS)
    assert not state.is_trusted(ADDRESS)
    state.trust(ADDRESS)
    state.write("access.log", b"x")
    again = open_user_state(SHOWN, Disk(RealSystem()))
    assert again.folder == state.folder
    assert again.is_trusted()
    record = Path(state.path(STORE_FILE))
    assert "hunter2" not in record.read_text() + record.parent.name
    os.utime(record, (time.time() - 1e9,) * 2)
    forget_removed_stores(again.disk, os.path.dirname(state.folder))
    assert again.has("access.log")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]  # nothing is taken for a folder
