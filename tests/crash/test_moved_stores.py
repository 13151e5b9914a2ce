"""A store or a session that another program moves or removes under a process is not made again in its old place."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import DurabilityUnknown, SessionNotFound, SMPError, StoreNotFound
from smp_memory.files.layouts import NAMES
from tests.crash.scenarios import Wrong
from tests.store_operations import OF_A_SESSION, OPERATIONS, SESSION, filled_store

pytestmark = pytest.mark.crash
layouts = pytest.mark.parametrize("layout", NAMES)
_AFTER_THE_TURN_SECONDS = 0.01  # a writer checks for its lock file again after less
# With nothing to write they raise nothing.
_QUIET = {"query", "close", "sync", "trust", "doctor", "reindex", "maintain"}


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _move(path: Path) -> None:
    path.rename(path.parents[1] / "moved")


@cache
def template(layout: str) -> Path:
    """A store with something for each operation, made once."""
    folder = tempfile.mkdtemp(prefix="smp-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    filled_store(Path(folder, "store"), layout).close()
    return Path(folder, "store")


def opened_copy(root: Path, layout: str) -> smp_memory.Memory:
    shutil.copytree(template(layout), root)
    memory = smp_memory.open(root)
    memory.query("OAuth")
    return memory


def session_path(root: Path) -> Path:
    """Its folder or file; the folder `deleted` holds records of deleted memories."""
    found = (path for path in root.rglob(f"{SESSION}*") if path.stem == SESSION)
    return next(path for path in found if not {".smp", "deleted"} & {*path.parts})


@layouts
@pytest.mark.parametrize("take_away", [_remove, _move])
@pytest.mark.parametrize("name", OPERATIONS)
def test_store_that_was_taken_away_is_not_made_again(
    tmp_path: Path, layout: str, take_away: Callable[[Path], None], name: str
) -> None:
    root = tmp_path / "project" / "store"
    memory = opened_copy(root, layout)
    session = memory.session(SESSION)
    session.add_decision("before")
    take_away(root)
    time.sleep(_AFTER_THE_TURN_SECONDS)
    if name in _QUIET or _does_nothing(name, layout):
        _call_quietly(lambda: OPERATIONS[name](memory, session))
    else:
        with pytest.raises(StoreNotFound, match="moved or removed"):
            OPERATIONS[name](memory, session)
    _call_quietly(memory.close)
    assert not root.exists()
    with pytest.raises(StoreNotFound):
        smp_memory.open(root, create=False)


def _does_nothing(name: str, layout: str) -> bool:
    return name == "tidy" and layout != "markdown"


def _call_quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except SMPError:
        pass


@layouts
@pytest.mark.parametrize("name", OF_A_SESSION)
def test_write_right_after_the_store_was_removed_is_not_acknowledged(tmp_path: Path, layout: str, name: str) -> None:
    root = tmp_path / "project" / "store"
    memory = opened_copy(root, layout)
    session = memory.session(SESSION)
    session.add_decision("before")
    if _does_nothing(name, layout):
        return
    _remove(root)
    with pytest.raises((StoreNotFound, DurabilityUnknown)):
        OF_A_SESSION[name](memory, session)
    memory.close()
    assert not root.exists()


@layouts
@pytest.mark.parametrize("take_away", [_remove, _move])
@pytest.mark.parametrize("pause_seconds", [0.0, _AFTER_THE_TURN_SECONDS])
@pytest.mark.parametrize("name", OF_A_SESSION)
def test_session_that_was_taken_away_is_not_made_again(
    tmp_path: Path, layout: str, take_away: Callable[[Path], None], pause_seconds: float, name: str
) -> None:
    root = tmp_path / "project" / "store"
    memory = opened_copy(root, layout)
    session = memory.session(SESSION)
    session.add_decision("before")
    path = session_path(root)
    take_away(path)
    time.sleep(pause_seconds)
    try:
        OF_A_SESSION[name](memory, session)
    except (SessionNotFound, DurabilityUnknown):
        pass
    else:
        if (pause_seconds or take_away is _remove) and not _does_nothing(name, layout):
            raise Wrong("a write into a session that is not there was acknowledged")
    memory.close()
    assert not path.exists()
    assert SESSION not in {each.id for each in smp_memory.open(root).sessions()}


@layouts
def test_sessions_that_were_not_taken_away_can_be_written(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "project" / "store"
    memory = opened_copy(root, layout)
    other = memory.create_session("other")
    memory.session(SESSION).add_decision("before")
    _remove(session_path(root))
    assert other.add_decision("goes on").id == "DEC-0001"
    assert memory.create_session(SESSION).add_decision("a new one")
