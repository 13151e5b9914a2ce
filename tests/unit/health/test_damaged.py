"""Whatever the files contain, the checks end in a report, reveal no secret and modify nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from smp_memory.files.layouts import NAMES
from smp_memory.files.system import RealSystem
from smp_memory.store import file_examination
from tests.crash.scenarios import depth
from tests.unit.health.sample_store import TOKEN, checked, every_check, made, unchanged

every_layout = pytest.mark.parametrize("layout", NAMES)


def shortened(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])


def scribbled(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(1 + len(data) // 100):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)


def with_zeros(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    start = chance.randrange(len(data) + 1)
    path.write_bytes(data[:start] + bytes(50) + data[start + 50 :])


def other_json(path: Path, chance: random.Random) -> None:
    path.write_text(
        chance.choice(["[]", "null", "7", '"text"', '{"tasks": 7}', "[" * 50_000, '{"a": 1e999}', "\ufeff{}\n"])
    )


def other_types(path: Path, chance: random.Random) -> None:
    """Values of JSON or YAML become others of another type."""
    text = path.read_bytes().decode(errors="replace")
    for old, new in (('"', ""), (":", ": ["), ("{", '{"id": 7, '), ("0", "-1e9")):
        if chance.random() < 0.4:
            text = text.replace(old, new, chance.randrange(1, 9))
    path.write_text(text)


def noise(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(chance.randrange(2000)))


def gone(path: Path, chance: random.Random) -> None:
    path.unlink()


def a_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def a_link_to_nothing(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def a_pipe(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def forbidden(path: Path, chance: random.Random) -> None:
    os.chmod(path, 0)


DAMAGES = [shortened, scribbled, with_zeros, other_json, other_types, noise, gone, a_folder, a_link_to_nothing, a_pipe, forbidden]  # fmt: skip


@every_layout
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_doctor_handles_any_damaged_file(
    tmp_path: Path, layout: str, damage: Callable[[Path, random.Random], None]
) -> None:
    chance = random.Random(f"{layout} {damage.__name__}")
    with made(tmp_path, layout) as memory:
        memory.maintain()
        root = Path(memory.root)
    whole, store = tmp_path / "whole", tmp_path / "again"
    shutil.copytree(root, whole)
    paths = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    for path in chance.sample(paths, min(len(paths), depth(5, len(paths)))):
        shutil.copytree(whole, store)
        damage(store / path, chance)
        report = checked(store)
        assert report.layout in NAMES, path
        assert {finding.check for finding in report.findings} <= {kind.name for kind in every_check()}
        shutil.rmtree(store)


@every_layout
def test_doctor_handles_all_files_damaged_and_modifies_nothing(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout) as memory:
        root = Path(memory.root)
    for seed in range(depth(3, 50)):
        chance, store = random.Random(seed), tmp_path / f"again{seed}"
        shutil.copytree(root, store)
        for path in sorted(path for path in store.rglob("*") if path.is_file()):
            chance.choice([shortened, scribbled, with_zeros, other_json, other_types, noise])(path, chance)
        with unchanged(store):
            checked(store)


def test_failing_check_becomes_an_issue_and_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(tmp_path) as memory:
        memory.session("review").add_finding("The login form has no rate limit at all")

        def broken(*_: object) -> None:
            raise ValueError(f"unexpected {TOKEN}")

        monkeypatch.setattr(file_examination, "validate", broken)
        report = memory.doctor()
    assert [(finding.check, finding.severity) for finding in report.findings] == [
        ("contents", "problem"),
        ("duplicates", "note"),
    ]
    assert report.findings[0].session == "review"
    assert TOKEN not in json.dumps(report.to_dict())


@every_layout
def test_no_secret_is_reported_whatever_is_damaged(tmp_path: Path, layout: str) -> None:
    """Messages quote what is wrong; the secret may be part of it."""
    with made(tmp_path, layout, privacy={"redaction": {"enabled": False}}) as memory:
        session = memory.session("review")
        session.change_info(project=f"shop {TOKEN}", context={"note": TOKEN})
        session.add_decision(f"Use {TOKEN}", tags=["auth"], references=[TOKEN])
        session.add_finding(f"password = {TOKEN}", severity="high")
        root = Path(memory.root)
    for seed in range(depth(4, 100)):
        chance, store = random.Random(seed), tmp_path / f"again{seed}"
        shutil.copytree(root, store)
        (store / "config.json").write_text(f'{{"layout": "{layout}", "format": 1, "durability": "{TOKEN}"}}')
        for path in sorted(path for path in store.rglob("*") if path.is_file() and path.name != "config.json"):
            if chance.random() < 0.5:
                other_types(path, chance)
        assert TOKEN not in json.dumps(checked(store).to_dict())


def test_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(tmp_path) as memory:
        root = memory.root
    listed = RealSystem.listdir

    def refused(system: RealSystem, path: str) -> list[str]:
        if path.endswith("sessions"):
            raise PermissionError(13, "Permission denied", path)
        return listed(system, path)

    monkeypatch.setattr(RealSystem, "listdir", refused)
    report = checked(root)
    assert {"contents", "permissions"} <= {finding.check for finding in report.findings}
    assert not report.ok
