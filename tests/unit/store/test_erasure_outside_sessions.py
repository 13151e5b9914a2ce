"""Erasure reaches digests outside of the store and quarantined entries, and its receipt is correct."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.context.digest import write_digest
from smp_memory.errors import MemoryNotFound, StorageError
from smp_memory.files.layouts import NAMES

SECRET = "The launch code of the blue rocket is seven"
LAYOUTS = pytest.mark.parametrize("layout", NAMES)


def store_with_secret(folder: Path, layout: str = "jsonl") -> Any:
    memory = smp_memory.open(folder / "store", layout=layout)
    session = memory.create_session("s")
    session.add_decision(SECRET)
    session.add_decision("Something else entirely")
    return memory


def files_with_secret(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@LAYOUTS
def test_erase_rewrites_recorded_digests(tmp_path: Path, layout: str) -> None:
    """The receipt said `complete` while MEMORY.md still had the text."""
    memory = store_with_secret(tmp_path, layout)
    write_digest(memory.scope, str(tmp_path / "MEMORY.md"))
    assert SECRET in (tmp_path / "MEMORY.md").read_text()
    receipt = memory.session("s").erase("DEC-0001")
    assert files_with_secret(tmp_path) == []
    assert "Something else entirely" in (tmp_path / "MEMORY.md").read_text()
    assert receipt.complete


def test_digest_that_cannot_be_rewritten_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = store_with_secret(tmp_path)
    path = tmp_path / "MEMORY.md"
    write_digest(memory.scope, str(path))

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("no")

    monkeypatch.setattr("smp_memory.context.digest._replace", refuse)
    receipt = memory.erase("s/DEC-0001")
    assert not receipt.verified
    assert not receipt.complete
    assert any(str(path) in line for line in receipt.pending)
    assert receipt.left == [os.path.relpath(path, memory.store.root)]


def test_digest_changed_by_a_person_is_scanned_and_reported(tmp_path: Path) -> None:
    memory = store_with_secret(tmp_path)
    path = tmp_path / "MEMORY.md"
    write_digest(memory.scope, str(path))
    path.write_text("mine now\n" + path.read_text())
    receipt = memory.erase("s/DEC-0001")
    assert not receipt.verified
    assert receipt.left == [os.path.relpath(path, memory.store.root)]


def test_digest_is_rewritten_when_an_interrupted_erasure_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = store_with_secret(tmp_path)
    write_digest(memory.scope, str(tmp_path / "MEMORY.md"))

    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("smp_memory.store.erasure._clean_up", die)
        with pytest.raises(Died):
            memory.erase("s/DEC-0001")
    memory.close()
    smp_memory.open(tmp_path / "store").close()
    assert files_with_secret(tmp_path) == []


def test_intent_file_is_not_reported_as_left(tmp_path: Path) -> None:
    """Ids that a merge made long were found in SMP's own erasing.json."""
    memory = smp_memory.open(tmp_path / "store")
    session = memory.create_session("s")
    session.add("decision", {"id": "the-blue-rocket-launch-code", "decision": "the-blue-rocket-launch-code is a name"})
    receipt = session.erase("the-blue-rocket-launch-code")
    assert receipt.left == []


@LAYOUTS
def test_entries_quarantined_by_repair_can_be_erased(tmp_path: Path, layout: str) -> None:
    memory = store_with_secret(tmp_path, layout)
    path = next(
        path for path in (tmp_path / "store").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    )
    memory.close()
    data = path.read_bytes()
    path.write_bytes(damaged(data))
    memory = smp_memory.open(tmp_path / "store")
    session = memory.session("s")
    session.repair()
    if session.find("DEC-0001") is not None:
        pytest.skip("this layout could read it in spite of the damage")
    assert any("quarantine" in each for each in files_with_secret(tmp_path))
    with pytest.raises(MemoryNotFound):
        session.erase("DEC-0099")
    receipt = session.erase("DEC-0001", reason="asked to")
    assert files_with_secret(tmp_path) == []
    assert receipt.verified
    assert receipt.left == []
    assert any("quarantine" in each for each in receipt.removed)
    assert session.get("DEC-0002").decision == "Something else entirely"
    noted = [json.loads(line) for line in (tmp_path / "store/.smp/audit.jsonl").read_text().splitlines()]
    assert any(each["action"] == "erase" and each["ids"] == ["DEC-0001"] for each in noted)


def damaged(data: bytes) -> bytes:
    """A byte that no codec can read, directly behind the secret."""
    at = data.index(SECRET.encode()) + len(SECRET)
    return data[:at] + b"\xff\xfe" + data[at + 1 :]
