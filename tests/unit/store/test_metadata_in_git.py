"""Metadata of sessions in a git work tree that has no rules for merging."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SMPError


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_metadata_of_a_session_can_be_changed_without_gitattributes(tmp_path: Path, layout: str) -> None:
    """The missing file was taken for a missing session: `No session a in …`."""
    (tmp_path / ".git").mkdir()
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        session = memory.session("a", create=True)
        session.add_turn("user", "We decided to use OAuth 2.0 for the sign-in.")
        assert session.change_info(project="shop").project == "shop"
        session.set_config("hooks.recall", False)
        session.drop_proposals("TURN-0001")
        os.mkfifo(tmp_path / ".gitattributes")  # must not be opened
        assert session.change_info(project="other").project == "other"


def test_a_missing_file_is_not_reported_as_a_missing_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.session("a", create=True)

        def fail(info: object) -> None:
            raise FileNotFoundError(2, "No such file", "elsewhere")

        with pytest.raises((SMPError, OSError)) as caught:
            session.opened.storage.update_info(fail)
        assert "No session" not in str(caught.value)
