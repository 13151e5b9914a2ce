"""Titles of sessions: whose words they are, when they go, and who may see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, SizeLimitExceeded
from smp_memory.index.echoes import packed_text
from smp_memory.lifecycle.session_titles import SessionNames, session_title
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.security.test_client_store import limited
from tests.unit.web.inspector_client import port_calls
from tests.user_state import state_folder

SECRET = "Rewrite the zanzibar importer"
KEY = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with smp_memory.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    return memory.create_session("claude-code-2026-11-17-5f0c1a7e", project="shop")


def title(session: SessionMemory) -> str:
    """The title in a list, which is the one of the session alone."""
    found = SessionNames(session.memory.store).title(session.id)
    assert found == session_title(session.memory.store, session.id)
    return found


def test_title_is_the_first_prompt_on_one_line_unless_somebody_named_the_session(session: SessionMemory) -> None:
    assert title(session) == ""
    session.add_turn("assistant", "Ready.")
    session.add_turn("user", f"  {SECRET}\n\nand   its tests ")
    assert title(session) == f"{SECRET} and its tests"
    session.change_info(title="Importer")
    assert title(session) == "Importer"
    session.change_info(title=None)
    assert title(session) == f"{SECRET} and its tests"
    assert "title" not in session.info.context


def test_long_prompt_is_cut_between_words(session: SessionMemory) -> None:
    session.add_turn("user", "word " * 100)
    assert len(title(session)) <= 80
    assert title(session).endswith("word…")


@pytest.mark.parametrize("removal", ["delete", "erase"])
def test_title_goes_with_its_prompt(session: SessionMemory, removal: str, tmp_path: Path) -> None:
    turn = session.add_turn("user", SECRET)
    assert title(session) == SECRET
    assert _files_with(packed_text(SECRET), tmp_path)
    getattr(session, removal)(turn.id, reason="secret")
    assert "zanzibar" not in title(session)
    session.add_turn("user", "Next question")
    assert title(session) == "Next question"
    if removal == "erase":
        session.memory.close()
        assert _files_with(b"zanzibar", tmp_path) == _files_with(packed_text(SECRET), tmp_path) == []


def _files_with(data: bytes, folder: Path) -> list[Path]:
    """The files of the store and of the user's state of it that contain these bytes."""
    files = [*folder.rglob("*"), *state_folder(folder / "store").rglob("*")]
    return [path for path in files if path.is_file() and data in path.read_bytes()]


def test_private_prompt_makes_no_title(session: SessionMemory) -> None:
    session.add_turn("user", SECRET, visibility="private")
    assert title(session) == ""


def test_redacted_prompt_makes_a_redacted_title(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", config={"privacy.redaction.enabled": False}) as memory:
        memory.create_session("s").add_turn("user", f"Use {KEY} for the upload")
        assert KEY in session_title(memory.store, "s")
    with smp_memory.open(tmp_path / "store") as memory:
        memory.session("s").redact()
        assert KEY not in session_title(memory.store, "s")
        assert "for the upload" in session_title(memory.store, "s")


def test_stored_title_is_redacted(session: SessionMemory) -> None:
    session.change_info(title=f"Key {KEY}")
    assert title(session) == "Key [REDACTED:aws_access_key]"
    assert session.redacted == {"aws_access_key": 1}


@pytest.mark.parametrize("wrong", ["two\nlines", 7])
def test_title_that_is_no_line_of_text_is_rejected(session: SessionMemory, wrong: object) -> None:
    session.change_info(title="Before")
    with pytest.raises(InvalidRecord, match="title: must be one line"):
        session.change_info(title=wrong)
    with pytest.raises(InvalidRecord, match="title: must be one line"):
        session.memory.create_session("other", title=wrong)
    with pytest.raises(SizeLimitExceeded, match="title: longer than 120"):
        session.change_info(title="x" * 121)
    assert title(session) == "Before"


def test_titles_of_many_sessions_take_one_call_of_the_index(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        memory.create_session(f"s{number}").add_turn("user", f"Question {number}")
    memory.query(limit=1)
    calls = port_calls(memory, monkeypatch)
    names = SessionNames(memory.store)
    assert [names.title(f"s{number}") for number in range(30)] == [f"Question {number}" for number in range(30)]
    assert calls == ["activity"]


def test_client_learns_the_titles_of_its_sessions_alone(memory: Memory, session: SessionMemory) -> None:
    session.add_turn("user", "Sign in")
    other = memory.create_session("bank-1", project="bank", title="The zanzibar account")
    other.add_turn("user", SECRET)
    names = SessionNames(limited(memory, "shop").store)
    assert set(names.activity) == {session.id}
    assert names.title(session.id) == "Sign in"
    assert names.title("bank-1") == ""


def test_anonymised_export_replaces_names_in_a_title(memory: Memory) -> None:
    session = memory.create_session("s", user="Grace Hopper", title="Review with Grace Hopper")
    session.add_turn("user", "Hello")
    text = session.export(format="json", anonymise=smp_memory.Placeholders())
    assert "Hopper" not in text
    assert "Review with User-1" in text


def test_half_a_character_in_a_prompt_is_replaced(memory: Memory, session: SessionMemory) -> None:
    session.add_turn("user", "Ready")
    path = next(path for path in Path(session.folder).iterdir() if b"Ready" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"Ready", b"Re\\ud83d"))
    assert title(session) in ("Re?", "")


def test_query_does_not_change_when_a_session_was_written(memory: Memory, session: SessionMemory) -> None:
    session.add_turn("user", "Hello login")
    before = SessionNames(memory.store).activity[session.id].written
    assert memory.query("login")
    assert SessionNames(memory.store).activity[session.id].written == before
