"""State of host sessions and log of failures: small, and without any text of the conversation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from smp_memory.errors import InvalidRecord
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import UserState, open_user_state
from smp_memory.integrations.hooks import session_state
from smp_memory.integrations.hooks.session_state import LOG, LOG_BYTES, log_failure


def user_state(root: Path) -> UserState:
    return open_user_state(str(root), Disk(RealSystem(str(root))))


def locked_states(root: Path) -> session_state.SessionStates:
    return session_state.SessionStates(user_state(root), 1.0)


def test_saved_state_is_read_back_unchanged(tmp_path: Path) -> None:
    with locked_states(tmp_path) as states:
        state = states.load("host-1")
        assert state.is_new
        state.client, state.session, state.offset, state.injected = "codex", "codex-1", 42, ["a/DEC-0001"]
        state.add_pending("user", "Hello  there", "k1")
        states.save(state)
    again = session_state.read_state(user_state(tmp_path), "host-1")
    assert not again.is_new
    assert again.to_dict() == state.to_dict()
    assert "Hello" not in json.dumps(state.to_dict())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"offset": "x", "given": [1, null], "ahead": {"a": 1}}']
)
def test_damaged_state_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    folder = Path(user_state(tmp_path).path(session_state.FOLDER))
    folder.mkdir(parents=True)
    (folder / session_state.file_name("host-1")).write_bytes(content)
    state = session_state.read_state(user_state(tmp_path), "host-1")
    assert (state.session, state.offset, state.injected, state.take_pending("user", "x")) == ("", -1, [], "")


def test_pending_turn_is_matched_once_with_the_transcript() -> None:
    state = session_state.HookSession()
    state.add_pending("user", "continue", "k1")
    state.add_pending("user", "continue", "k2")
    state.add_pending("assistant", "It is\n done.", "k3")
    assert [state.take_pending("user", " continue ") for _ in range(3)] == ["k1", "k2", ""]
    assert state.take_pending("user", "It is done.") == ""
    assert state.take_pending("assistant", "It is done.") == "k3"


def test_pending_prompt_matches_when_the_host_appended_text() -> None:
    state = session_state.HookSession()
    prompt = "Look at the login of the shop and tell me what is wrong with it"
    state.add_pending("user", prompt, "k1")
    assert state.take_pending("user", prompt + "\n\n[Pasted text #1]") == "k1"


def test_old_states_are_removed(tmp_path: Path) -> None:
    with locked_states(tmp_path) as states:
        for name in ("old", "new", "own"):
            state = states.load(name)
            state.client = "codex"
            states.save(state)
        old = user_state(tmp_path).path(session_state.FOLDER, session_state.file_name("old"))
        os.utime(old, (1, 1))
        assert [state.host_session for state in states.load_others(states.load("own"))] == ["new"]
    assert not os.path.exists(old)


def test_failures_are_logged_without_their_messages(tmp_path: Path) -> None:
    secret = "the customer said hunter2"
    log_failure(str(tmp_path), "codex", "Stop", InvalidRecord(f"content: {secret}", field="content"))
    log_failure(str(tmp_path), "codex", "Stop", OSError(28, "No space left on device", secret))
    try:
        raise ValueError(secret)
    except ValueError as error:
        log_failure(str(tmp_path), "codex", "Stop", error)
    text = Path(user_state(tmp_path).path(LOG)).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert secret not in text
    assert [set(line) for line in lines] == [{"at", "client", "event", "error"}] * 3
    assert lines[0]["error"] == "InvalidRecord E_SCHEMA_INVALID"
    assert lines[1]["error"] == "OSError: No space left on device"
    assert lines[2]["error"].startswith("ValueError in test_session_state.py:")


def test_log_of_failures_stays_within_its_limit(tmp_path: Path) -> None:
    path = Path(user_state(tmp_path).path(LOG))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'{"at": "before"}\n' * (LOG_BYTES // 17))
    for number in range(30):
        log_failure(str(tmp_path), "codex", f"Stop{number}", ValueError())
    assert path.stat().st_size <= LOG_BYTES
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["event"] for line in lines[-30:]] == [f"Stop{number}" for number in range(30)]


def test_failure_that_cannot_be_logged_raises_nothing(tmp_path: Path) -> None:
    folder = Path(user_state(tmp_path).folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")
    log_failure(str(tmp_path), "codex", "Stop", ValueError())
    assert folder.read_text() == "in the way"


@pytest.mark.parametrize("name", ["x\nDo as I say.", "../../etc", "", 5, "a b"])
def test_invalid_session_id_in_a_state_is_ignored(tmp_path: Path, name: object) -> None:
    with locked_states(tmp_path) as states:
        states.save(states.load("host-1"))
    folder = Path(user_state(tmp_path).path(session_state.FOLDER))
    (folder / session_state.WITHOUT_MEMORIES).write_text(json.dumps({"session": name, "turns": 9}))
    (folder / session_state.file_name("host-1")).write_text(json.dumps({"client": "codex", "session": name}))
    assert session_state.session_without_memories(user_state(tmp_path)) is None
    assert session_state.read_state(user_state(tmp_path), "host-1").session == ""
