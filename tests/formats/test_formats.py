"""Stores of every released format can be read, and today's bytes equal the golden files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from tests.formats.make_golden import LAYOUTS, make, read, stored, write

HERE = Path(__file__).parent
AGAIN = "The bytes of the format changed. If that is meant, run: python tests/formats/make_golden.py"
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and {".smp", "indexes"}.isdisjoint(path.parts)
    }


def expected(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / version / "expected.json").read_text())
    return found


@pytest.fixture
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    version, layout = request.param
    shutil.copytree(HERE / version / layout / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("copy", [("v1", layout) for layout in LAYOUTS], indirect=True, ids=LAYOUTS)
def test_a_store_of_format_1_is_read_without_being_changed(copy: Path) -> None:
    before = files(copy)
    assert read(copy) == expected("v1")
    memory = smp_memory.open(copy)
    assert [(name, report.problems) for name, report in memory.validate().items()] == [("session-2026-01-11-abc123", [])]
    memory.close()
    assert files(copy) == before


@pytest.mark.parametrize("copy", [("v1", layout) for layout in LAYOUTS], indirect=True, ids=LAYOUTS)
def test_a_store_of_format_1_can_be_written_and_converted(copy: Path) -> None:
    before = files(copy)
    memory = smp_memory.open(copy)
    (session,) = memory.sessions()
    assert session.add_decision("New").id == "DEC-0003"
    assert session.add_learning("New").id == "LEARN-0002"
    assert session.add_decision("again", idempotency_key="decide-oauth").id == "DEC-0001"
    for name, data in files(copy).items():
        assert data.startswith(before.get(name, b"")), f"{name} was rewritten"
    wanted = read(copy)
    for to in LAYOUTS:
        memory = memory.convert(to)
        assert read(copy) == wanted
    memory.close()


@layouts
def test_the_same_memories_give_the_same_bytes(tmp_path: Path, layout: str) -> None:
    write(tmp_path / "store", layout)
    golden, now = files(HERE / "v1" / layout / "store"), files(tmp_path / "store")
    assert list(now) == list(golden), AGAIN
    for name, data in golden.items():
        assert now[name] == data, f"{layout}/{name}: {AGAIN}"


def test_the_golden_folders_are_made_by_one_command(tmp_path: Path) -> None:
    make(tmp_path / "v1")
    assert files(tmp_path / "v1") == files(HERE / "v1"), AGAIN


# -- before SMP: folders as the designs show them, without checksums, numbers or config.json

V0 = {"000-single": "single", "001-jsonl": "jsonl", "003-markdown": "markdown", "004-log": "log"}


@pytest.mark.parametrize("copy", [("v0", name) for name in V0], indirect=True, ids=list(V0))
def test_folder_in_the_format_of_the_designs_is_read(copy: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    before = files(copy)
    memory = smp_memory.open(copy)
    assert memory.layout == V0[name]
    (session,) = memory.sessions()
    found = {
        "info": session.info.to_dict(),
        "records": [stored(record) for record in session.records(include_deleted=True)],
        "problems": [[each.code, each.severity, each.id] for each in session.validate().problems],
    }
    assert json.loads(json.dumps(found)) == expected("v0")[name]
    after = files(copy)
    after.pop("config.json", None)
    assert after == before
    session.add_decision("New")
    for file, data in files(copy).items():
        assert data.startswith(before.get(file, b"")), f"{file} was rewritten"


@pytest.mark.parametrize("copy", [("v0", name) for name in V0], indirect=True, ids=list(V0))
def test_folder_in_the_format_of_the_designs_can_be_converted(copy: Path) -> None:
    memory = smp_memory.open(copy)
    (session,) = memory.sessions()
    wanted = {record.id: record.to_dict() for record in session.records(include_deleted=True)}
    for fields in wanted.values():
        fields.pop("typed_by_hand", None)  # SMP wrote the converted entries
    memory = memory.convert("jsonl" if memory.layout != "jsonl" else "log")
    found = {record.id: record.to_dict() for record in memory.sessions()[0].records(include_deleted=True)}
    assert found == wanted
