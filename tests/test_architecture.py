"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
import smp_memory.errors

SOURCE = Path(smp_memory.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
TOUCH_BYTES = {
    "files/disk.py",
    "files/system.py",
    "files/memory_system.py",
    "files/lock.py",
    "files/writer_state.py",
    "files/path_walk.py",
}
TOUCH_BYTES |= {"ownership.py"}  # reads config.json before a store is opened
TOUCH_BYTES |= {"files/change_table.py", "files/access_log.py"}  # hints beside the files
TOUCH_BYTES |= {
    "index/index.py",
    "index/rows.py",
    "index/engine.py",
    "index/scrub.py",
    "index/vectors.py",
}  # what can be thrown away
OS_CALLS = {"open", "write", "pwrite", "replace", "rename", "renames", "unlink", "remove", "rmdir", "mkdir", "makedirs", "truncate", "ftruncate", "fsync", "fdatasync", "link", "symlink", "chmod", "fdopen", "removedirs", "sync"}  # fmt: skip
PATH_CALLS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
LINES = 450
MAY_BE_LONGER = {
    "files/memory_system.py": 490,
    "files/disk.py": 490,
    "memory.py": 650,  # one facade with every method of a store
    "session.py": 580,  # and of a session
    "lifecycle/deletion.py": 500,
    "search/filters.py": 470,
    "privacy/redaction.py": 470,
}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open" and _only_reads(node):
            continue
        if isinstance(called, ast.Name):
            yield node.lineno, called.id
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else "?"
            yield node.lineno, f"{owner}.{called.attr}"


def _only_reads(call: ast.Call) -> bool:
    mode = (
        call.args[1] if len(call.args) > 1 else next((each.value for each in call.keywords if each.arg == "mode"), None)
    )
    return mode is None or (isinstance(mode, ast.Constant) and set(mode.value) <= set("rbt"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_bytes_are_touched_in_few_places_only(path: Path) -> None:
    if name_of(path) in TOUCH_BYTES or name_of(path).startswith(("cli/", "integrations/git/")):
        return
    wrong = [
        (line, call)
        for line, call in calls(path)
        if call in {"open", "io.open", "shutil.rmtree", "shutil.move", "shutil.copy", "shutil.copytree"}
        or (call.startswith("os.") and call[3:] in OS_CALLS)
        or call.rpartition(".")[2] in PATH_CALLS
    ]
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text
    assert text.split("\n")[0].strip()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAY_BE_LONGER.get(name_of(path), LINES)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_path_of_a_machine_stands_in_the_source(path: Path) -> None:
    assert re.findall(r"[\"'](/(?:home|root|Users|work|tmp|var|opt|mnt)\b[^\"']*)", path.read_text()) == []


def test_every_error_is_drawn_in_the_docstring_with_its_code() -> None:
    drawing = smp_memory.errors.__doc__ or ""
    codes: dict[str, str] = {}
    exits: dict[int, str] = {}
    for name, kind in inspect.getmembers(smp_memory.errors, inspect.isclass):
        if not issubclass(kind, smp_memory.errors.SMPError):
            continue
        assert re.search(rf"\b{name}\b", drawing), f"{name} is not drawn"
        own = "code" in vars(kind)
        assert own, f"{name} has no code of its own"
        assert kind.code not in codes, f"{name} and {codes[kind.code]} share a code"
        assert kind.exit_code not in exits, f"{name} and {exits[kind.exit_code]} share an exit code"
        codes[kind.code], exits[kind.exit_code] = name, name
        if not any(
            issubclass(other, kind) and other is not kind
            for other in vars(smp_memory.errors).values()
            if inspect.isclass(other)
        ):
            assert kind.code in drawing, f"{kind.code} is not in the drawing"
        if kind.number:
            assert kind.number in drawing


def test_public_names_can_be_imported() -> None:
    for name in smp_memory.__all__:
        assert getattr(smp_memory, name) is not None
    for module in (
        "smp_memory.testing",
        "smp_memory.config",
        "smp_memory.errors",
        "smp_memory.testing.contract",
        "smp_memory.store.port",
        "smp_memory.files.layouts.layout",
    ):
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", ()):
            assert getattr(found, name) is not None


def test_names_that_say_nothing_are_not_used() -> None:
    words = {"utils", "util", "helpers", "helper", "common", "base", "handler", "service", "misc"}
    assert [name_of(path) for path in MODULES if path.stem in words] == []
