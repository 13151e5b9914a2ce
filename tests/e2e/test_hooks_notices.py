"""Hooks report to the conversation what was redacted in what they recorded, and how full the session is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.hook_host import Host, Project

MAIL = "ada@example.com"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "shop")


def test_redaction_notice_is_delivered_once_at_the_next_prompt(project: Project) -> None:
    host = Host(project)
    host.start()
    host.prompt(f"Please write to {MAIL} that the shop is open")
    host.reply("Done.")
    injected = host.prompt("Which tests of the checkout are still slow?")
    assert "removed before saving: email" in injected
    assert "privacy.redaction.off email" in injected
    assert MAIL not in injected
    host.reply("None.")
    host.prompt(f"Write to {MAIL} once more about the checkout")
    host.reply("Done.")
    assert "redaction" not in host.prompt("Which builds of the checkout are broken?")


def test_no_notice_without_a_redaction(project: Project) -> None:
    host = Host(project)
    host.start()
    host.prompt("Please open the shop")
    host.reply("Done.")
    assert "redaction" not in host.prompt("Which tests of the checkout are slow?")
