"""The child process that tokenizes ahead: its terms are used only for the same bytes, and it is never needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.partial_reader import IncrementReader
from smp_memory.files.system import RealSystem
from smp_memory.store import parallel_tokenizer
from smp_memory.store.parallel_tokenizer import ParallelTokenizer, TokenizedSession

pytestmark = pytest.mark.skipif(os.name != "posix" or (os.cpu_count() or 1) < 2, reason="it helps nobody here")

SESSIONS, EACH = 4, 25


@pytest.fixture(params=("jsonl", "markdown"))
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with smp_memory.open(tmp_path / "store", layout=request.param, config={"durability": "os"}) as memory:
        for number in range(SESSIONS):
            session = memory.create_session(f"s{number}")
            session.add_many(
                [
                    (
                        "decision",
                        {
                            "decision": f"Größe of auth_service.py 北京 {number}x{n}",
                            "tags": ["a.b"],
                            "author": f"ann{n % 3}",
                        },
                    )
                    for n in range(EACH)
                ]
            )
            session.update("DEC-0003", rationale="changed afterwards")
            session.delete("DEC-0004")
    return tmp_path / "store"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """However small the store, there is help, and it is waited for; which processes were started."""
    monkeypatch.setattr(parallel_tokenizer, "MIN_BYTES", 0)
    monkeypatch.setattr(parallel_tokenizer, "_LATE", 1e9)
    found: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(*args: Any, **how: Any) -> subprocess.Popen[bytes]:
        found.append(start(*args, **how))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    return found


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each session whose words came, whether they were used."""
    found: list[bool] = []
    judge = TokenizedSession.are_of

    def noted(self: TokenizedSession, reader: IncrementReader) -> bool:
        found.append(judge(self, reader))
        return found[-1]

    monkeypatch.setattr(TokenizedSession, "are_of", noted)
    return found


def state(root: Path) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """Rows, digests of the words, and an answer, of an index made anew."""
    with smp_memory.open(root) as memory:
        assert memory.reindex() >= SESSIONS * EACH
        index = memory.store.indexer.feed.caught_up(None)
        digests = {f"{doc}": digest for doc, digest in index.rows.all("SELECT doc, digest FROM memory")}
        return index.snapshot(), digests, sorted(hit.record.ref for hit in memory.query("größe", limit=1000))


def alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    with monkeypatch.context() as patch:
        patch.setattr(parallel_tokenizer, "_started", lambda *_: None)
        return state(root)


def all_ended(started: list[subprocess.Popen[bytes]]) -> bool:
    return all(process.returncode is not None for process in started)


def test_index_is_the_same_with_and_without_the_child_process(
    root: Path, started: list[subprocess.Popen[bytes]], used: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    helped = state(root)
    assert len(started) == 1
    assert used == [True] * (SESSIONS - 1)  # the first one was done here meanwhile
    assert all_ended(started)
    assert helped == alone(root, monkeypatch)
    assert len(helped[2]) == SESSIONS * (EACH - 1)


def test_small_build_starts_no_child_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(parallel_tokenizer, "_started", never)
    state(root)


@pytest.mark.parametrize("before", [True, False])
def test_build_completes_when_the_child_process_is_killed(
    root: Path, started: list[subprocess.Popen[bytes]], used: list[bool], monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    ask = ParallelTokenizer.request

    def ask_the_dying(self: ParallelTokenizer, session: str) -> None:
        for now in (True, False):
            if now is before:
                ask(self, session)
            elif session == "s2":
                started[0].kill()
                started[0].wait()

    monkeypatch.setattr(ParallelTokenizer, "request", ask_the_dying)
    helped = state(root)
    assert used in ([True], [True, True])  # s1; s2 if its answer was in the pipe already
    assert all_ended(started)
    assert helped == alone(root, monkeypatch)


def test_late_answer_is_not_waited_for(
    root: Path, started: list[subprocess.Popen[bytes]], used: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_tokenizer, "_LATE", 0)
    monkeypatch.setattr(parallel_tokenizer, "_CODE", "import time; time.sleep(1000)")
    helped = state(root)
    assert (len(started), used) == (1, [])
    assert all_ended(started)
    assert helped == alone(root, monkeypatch)


@pytest.mark.parametrize(
    "script", [None, "exit 3", "echo nonsense that is long enough", "printf '\\0\\0\\0\\0\\0\\0\\0\\2{}'", "cat"]
)
def test_build_completes_when_the_child_process_fails_or_answers_nonsense(
    root: Path,
    started: list[subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str | None,
) -> None:
    other = tmp_path / "python-liar"
    if script is not None:
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o700)
    monkeypatch.setattr(parallel_tokenizer, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(sys, "executable", str(other))
    helped = state(root)
    assert len(started) == (script is not None)
    assert all_ended(started)
    assert helped == alone(root, monkeypatch)


@pytest.mark.parametrize("executable", ["", "/usr/bin/some-program"])
def test_program_that_embeds_python_is_not_started_again(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    state(root)
    assert started == []


def test_terms_of_another_state_are_not_used(
    root: Path, started: list[subprocess.Popen[bytes]], used: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    take: Callable[[ParallelTokenizer, str], TokenizedSession | None] = ParallelTokenizer.take

    def take_then_write(self: ParallelTokenizer, session: str) -> TokenizedSession | None:
        words = take(self, session)
        if session == "s2":
            with smp_memory.open(root) as other:
                other.session("s2").add_decision("Größe that came between")
        return words

    monkeypatch.setattr(ParallelTokenizer, "take", take_then_write)
    with smp_memory.open(root) as memory:
        memory.reindex()
        assert used == [True, False, True]
        assert "between" in memory.query("between")[0].record.decision
        assert len(memory.query("größe", limit=1000)) == SESSIONS * (EACH - 1) + 1


def test_child_process_ends_when_the_build_fails(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(name: str, _: int) -> None:
        if name == "s2":
            raise KeyboardInterrupt

    with smp_memory.open(root) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.reindex(stopped)
        assert len(started) == 1
        assert all_ended(started)
        assert len(memory.query("größe", limit=1000)) == SESSIONS * (EACH - 1)


def test_answer_for_a_missing_or_too_large_session(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(root) as memory:
        layout = memory.store.layout.name

    def answer(session: str) -> Any:
        return parallel_tokenizer._answer(IncrementReader(Disk(RealSystem()), layout_named(layout), str(root), session))

    assert answer("none") == ({}, [])
    assert len(answer("s0")[1]) == EACH
    monkeypatch.setattr(parallel_tokenizer, "_MAX_SESSION_BYTES", 100)
    assert answer("s0") is None
