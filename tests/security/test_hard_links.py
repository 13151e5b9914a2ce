"""A file with a second name is never written: the other name may lie outside of the store."""

from __future__ import annotations

import os
import random
import shutil
from functools import cache
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.archive_format import JOURNAL
from smp_memory.files.layouts import NAMES, layout_named
from tests.crash.scenarios import depth
from tests.store_operations import OPERATIONS, SESSION, files_below, filled_store
from tests.user_state import state_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hard links")
layouts = pytest.mark.parametrize("layout", NAMES)
_PRECIOUS = b"precious\n" * 100


def run_all(root: Path) -> list[str]:
    """Call every operation, each on the store as the one before left it; returns the names of those that succeeded."""
    done = []
    for name, operation in OPERATIONS.items():
        try:
            with smp_memory.open(root) as memory:
                if name in ("convert", "close"):
                    operation(memory, None)
                else:
                    operation(memory, memory.session(SESSION))
                done.append(name)
        except SMPError:
            continue
    return done


@cache
def names_of_files(layout: str, parent: Path) -> tuple[set[str], set[str]]:
    """The files of a store, and those of the user's state, that exist at any time between two operations."""
    root = parent / "observed"
    found: tuple[set[str], set[str]] = (set(), set())
    filled_store(root, layout).close()
    for operation in OPERATIONS.values():
        try:
            with smp_memory.open(root) as memory:
                operation(memory, memory.session(SESSION))
        except SMPError:
            pass
        for names, folder in zip(found, (root, state_folder(root)), strict=True):
            names.update(path.relative_to(folder).as_posix() for path in files_below(folder))
    found[1].difference_update([name for name in found[1] if name.startswith("index/")])  # with random names
    return found


def _plant(path: Path, outside: Path) -> None:
    """Give the file a second name outside, or give an outside file this name if there is no such file."""
    if not path.exists():
        outside.write_bytes(_PRECIOUS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(outside)
    else:
        outside.hardlink_to(path)


@layouts
def test_file_with_a_second_name_is_never_written(
    layout: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    of_store, of_state = names_of_files(layout, tmp_path_factory.mktemp("observed"))
    root, written = tmp_path / "store", []
    filled_store(root, layout).close()
    state = state_folder(root)
    of_state |= {path.relative_to(state).as_posix() for path in files_below(state)}
    of_store.add(layout_named(layout).private("", SESSION) + f"/{JOURNAL}")
    of_store.add(os.path.join(layout_named(layout).folder("", SESSION), layout_named(layout).cold_file(SESSION)))
    paths = sorted([*(root / name for name in of_store), *(state / name for name in of_state)])
    shutil.copytree(root, tmp_path / "kept")
    shutil.copytree(state, tmp_path / "kept state")
    for number, path in enumerate(random.Random(layout).sample(paths, min(depth(10, 1000), len(paths)))):
        for folder, kept in ((root, "kept"), (state, "kept state")):
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / kept, folder)
        outside = tmp_path / f"outside{number}"
        _plant(path, outside)
        before = outside.read_bytes()
        run_all(root)
        if outside.read_bytes() != before:
            written.append(path.name)
    assert written == []


@layouts
def test_store_with_a_linked_change_table_is_written_as_always(layout: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    filled_store(root, layout).close()
    outside = tmp_path / "outside"
    _plant(root / ".smp" / "changes", outside)
    before = outside.read_bytes()
    with smp_memory.open(root) as memory, smp_memory.open(root) as other:
        other.query("tapir")
        memory.session(SESSION).add_decision("a tapir")
        assert [hit.record.decision for hit in other.query("tapir")] == ["a tapir"]
    assert outside.read_bytes() == before
