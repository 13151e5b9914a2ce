"""Overview files of a session in the layout `markdown`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import yaml

import smp_memory
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.layouts.layout import OVERVIEW_FILES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import RealSystem
from smp_memory.overview.activity import agents, timeline
from smp_memory.overview.topics import topics
from smp_memory.store.tidy import NOTICE, to_yaml, write_overviews
from smp_memory.testing import FaultySystem


def told(system: MemorySystem) -> smp_memory.SessionMemory:
    session = smp_memory.open(":memory:", layout="markdown", system=system).create_session("s", user="ada")
    session.add_turn("user", "How do customers log in?")
    session.add_decision("Use OAuth 2.0", author="architect", tags=["auth", "security.login"])
    return session


def write(system: MemorySystem, session: smp_memory.SessionMemory) -> list[str]:
    return write_overviews(Disk(system), session.folder, session.records())


def content(system: MemorySystem, session: smp_memory.SessionMemory, name: str) -> str:
    return Disk(system).read(os.path.join(session.folder, "indexes", name)).decode()


def test_files_hold_the_overviews_and_a_notice() -> None:
    session = told(system := MemorySystem())
    assert write(system, session) == ["topics.yaml", "timeline.yaml", "agents.yaml"]
    assert Disk(system).names(os.path.join(session.folder, "indexes")) == [".gitignore", *sorted(OVERVIEW_FILES)]
    for name, overview in zip(OVERVIEW_FILES, (topics, timeline, agents), strict=True):
        text = content(system, session, name)
        assert text == NOTICE + to_yaml(overview(session.records()))
        assert text.splitlines()[0].startswith("# Made by SMP")
        assert list(yaml.safe_load(text)) == list(overview([]).to_dict())


def test_file_is_written_only_when_its_text_changed() -> None:
    session = told(system := MemorySystem())
    write(system, session)
    assert write(system, session) == []
    session.add_finding("No rate limit", author="veritas")
    assert write(system, session) == list(OVERVIEW_FILES)


def test_edits_are_overwritten_and_missing_files_created() -> None:
    session = told(system := MemorySystem())
    write(system, session)
    disk, folder = Disk(system), os.path.join(session.folder, "indexes")
    before = content(system, session, "topics.yaml")
    disk.replace(os.path.join(folder, "topics.yaml"), b"mine: [")
    disk.remove(os.path.join(folder, "agents.yaml"))
    assert write(system, session) == ["topics.yaml", "agents.yaml"]
    assert content(system, session, "topics.yaml") == before


def test_readers_validation_and_conversion_ignore_the_files() -> None:
    session = told(system := MemorySystem())
    before = session.records()
    write(system, session)
    Disk(system).replace(os.path.join(session.folder, "indexes", "topics.yaml"), b"- id: DEC-0009\n  broken: [\n")
    with smp_memory.open(":memory:", system=system) as memory:
        again = memory.session("s")
        assert again.records() == before
        assert [problem.code for problem in again.validate().problems] == []
        assert again.repair().actions == []
        memory.convert("jsonl")
    for layout in ("markdown", "log"):
        with smp_memory.open(":memory:", system=system) as memory:
            assert [each.id for each in memory.sessions()] == ["s"]
            assert memory.session("s").records() == before
            memory.convert(layout)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("sticky", [True, False])
def test_failing_disk_call_raises_nothing(error: int, sticky: bool) -> None:
    fail_at = 0
    while True:
        system = FaultySystem(error=error, sticky=sticky)
        session = told(system)
        records = session.records()
        fail_at += 1
        system.fail_at = system.calls + fail_at
        changed = write(system, session)
        if system.calls < system.fail_at:
            assert changed == list(OVERVIEW_FILES)
            break
        system.heal()
        for name in changed:
            assert content(system, session, name).startswith(NOTICE)
        write(system, session)
        assert write(system, session) == []
        assert not [
            name for name in Disk(system).names(os.path.join(session.folder, "indexes")) if name.endswith(TEMPORARY)
        ]
        assert session.records() == records
    assert fail_at > 10


def test_file_in_place_of_the_folder_raises_nothing() -> None:
    session = told(system := MemorySystem())
    disk = Disk(system)
    disk.remove_tree(os.path.join(session.folder, "indexes"))
    disk.write_new(os.path.join(session.folder, "indexes"), b"a note")
    assert write(system, session) == []
    disk.remove(os.path.join(session.folder, "indexes"))
    disk.make_folder(os.path.join(session.folder, "indexes", "topics.yaml"))
    assert write(system, session) == []


def test_folder_of_a_removed_session_is_not_recreated() -> None:
    session = told(system := MemorySystem())
    records, disk = session.records(), Disk(system)
    disk.remove_tree(session.folder)
    assert write_overviews(disk, session.folder, records) == []
    assert not disk.exists(session.folder)


def test_symlink_is_replaced_not_followed(tmp_path: Path) -> None:
    memory = smp_memory.open(str(tmp_path / "store"), layout="markdown")
    session = memory.create_session("s")
    session.add_decision("Use OAuth 2.0", tags=["auth"])
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = Path(session.folder) / "indexes"
    (folder / "topics.yaml").unlink()
    (folder / "topics.yaml").symlink_to(victim)
    assert write_overviews(Disk(RealSystem()), session.folder, session.records()) == list(OVERVIEW_FILES)
    assert victim.read_text() == "precious"
    assert not (folder / "topics.yaml").is_symlink()
    assert (folder / "agents.yaml").stat().st_mode & 0o777 == 0o600


def test_any_mapping_is_encoded_as_yaml() -> None:
    assert to_yaml({}) == "{}\n"
    assert to_yaml({"a": [1, {"b": "yes"}]}) == 'a:\n  - 1\n  - b: "yes"\n'
