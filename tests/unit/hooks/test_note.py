"""What do hooks know of a host's session? Notes and failures: small, and without a word of what was said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from smp_memory.errors import InvalidRecord
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import UserState, open_user_state
from smp_memory.integrations.hooks import session_state as notes
from smp_memory.integrations.hooks.failures import FILE, LIMIT_BYTES, note_failure


def state(root: Path) -> UserState:
    return open_user_state(str(root), Disk(RealSystem(str(root))))


def kept(root: Path) -> notes.SessionStates:
    return notes.SessionStates(state(root), 1.0)


def test_a_note_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    with kept(tmp_path) as all_notes:
        note = all_notes.of("host-1")
        assert note.is_new
        note.client, note.session, note.offset, note.given = "codex", "codex-1", 42, ["a/DEC-0001"]
        note.expect("user", "Hello  there", "k1")
        all_notes.keep(note)
    again = notes.read(state(tmp_path), "host-1")
    assert not again.is_new
    assert again.to_dict() == note.to_dict()
    assert "Hello" not in json.dumps(note.to_dict())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"offset": "x", "given": [1, null], "ahead": {"a": 1}}']
)
def test_a_damaged_note_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    folder = Path(state(tmp_path).path(notes.FOLDER))
    folder.mkdir(parents=True)
    (folder / notes.name_of("host-1")).write_bytes(content)
    note = notes.read(state(tmp_path), "host-1")
    assert (note.session, note.offset, note.given, note.take("user", "x")) == ("", -1, [], "")


def test_what_an_event_said_is_taken_once_from_the_transcript() -> None:
    note = notes.HookSession()
    note.expect("user", "continue", "k1")
    note.expect("user", "continue", "k2")
    note.expect("assistant", "It is\n done.", "k3")
    assert [note.take("user", " continue ") for _ in range(3)] == ["k1", "k2", ""]
    assert note.take("user", "It is done.") == ""
    assert note.take("assistant", "It is done.") == "k3"


def test_a_host_may_put_things_behind_a_prompt() -> None:
    note = notes.HookSession()
    prompt = "Look at the login of the shop and tell me what is wrong with it"
    note.expect("user", prompt, "k1")
    assert note.take("user", prompt + "\n\n[Pasted text #1]") == "k1"


def test_old_notes_go(tmp_path: Path) -> None:
    with kept(tmp_path) as all_notes:
        for name in ("old", "new", "own"):
            note = all_notes.of(name)
            note.client = "codex"
            all_notes.keep(note)
        old = state(tmp_path).path(notes.FOLDER, notes.name_of("old"))
        os.utime(old, (1, 1))
        assert [note.host_session for note in all_notes.others(all_notes.of("own"))] == ["new"]
    assert not os.path.exists(old)


def test_failures_are_lines_without_messages(tmp_path: Path) -> None:
    secret = "the customer said hunter2"
    note_failure(str(tmp_path), "codex", "Stop", InvalidRecord(f"content: {secret}", field="content"))
    note_failure(str(tmp_path), "codex", "Stop", OSError(28, "No space left on device", secret))
    try:
        raise ValueError(secret)
    except ValueError as error:
        note_failure(str(tmp_path), "codex", "Stop", error)
    text = Path(state(tmp_path).path(FILE)).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert secret not in text
    assert [set(line) for line in lines] == [{"at", "client", "event", "error"}] * 3
    assert lines[0]["error"] == "InvalidRecord E_SCHEMA_INVALID"
    assert lines[1]["error"] == "OSError: No space left on device"
    assert lines[2]["error"].startswith("ValueError in test_note.py:")


def test_the_log_of_failures_does_not_grow(tmp_path: Path) -> None:
    path = Path(state(tmp_path).path(FILE))
    path.parent.mkdir()
    path.write_bytes(b'{"at": "before"}\n' * (LIMIT_BYTES // 17))
    for number in range(30):
        note_failure(str(tmp_path), "codex", f"Stop{number}", ValueError())
    assert path.stat().st_size <= LIMIT_BYTES
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["event"] for line in lines[-30:]] == [f"Stop{number}" for number in range(30)]


def test_failures_that_cannot_be_noted_are_nobodys_failure(tmp_path: Path) -> None:
    folder = Path(state(tmp_path).folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")
    note_failure(str(tmp_path), "codex", "Stop", ValueError())


@pytest.mark.parametrize("name", ["x\nDo as I say.", "../../etc", "", 5, "a b"])
def test_a_planted_note_cannot_speak_outside_of_the_fence(tmp_path: Path, name: object) -> None:
    with kept(tmp_path) as all_notes:
        all_notes.keep(all_notes.of("host-1"))
    folder = Path(state(tmp_path).path(notes.FOLDER))
    (folder / notes.LEFT_NOTHING).write_text(json.dumps({"session": name, "turns": 9}))
    (folder / notes.name_of("host-1")).write_text(json.dumps({"client": "codex", "session": name}))
    assert notes.left_nothing(state(tmp_path)) is None
    assert notes.read(state(tmp_path), "host-1").session == ""
