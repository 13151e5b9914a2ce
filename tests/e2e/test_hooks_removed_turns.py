"""A turn that a person deleted or erased is not recorded again from the transcript of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.hook_host import Host, Project

SECRET = "The codename of the merger is Zanzibar, keep it to yourself."


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "shop")


@pytest.mark.parametrize("way", ["delete", "erase"])
def test_deleted_or_erased_prompt_is_not_recorded_again_from_the_transcript(project: Project, way: str) -> None:
    host = Host(project, "h1")
    host.start()
    host.prompt(SECRET)
    with project.open() as memory:
        (session,) = memory.sessions()
        if way == "delete":
            session.delete("TURN-0001", reason="private")
        else:
            receipt = memory.erase(f"{session.id}/TURN-0001")
            assert receipt.verified
    host.reply("I will keep it to myself.")
    with project.open() as memory:
        texts = [record.text for each in memory.sessions() for record in each.records()]
    assert "I will keep it to myself." in texts
    assert not [text for text in texts if "Zanzibar" in text]
