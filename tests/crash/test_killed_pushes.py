"""Processes that push are killed again and again, while another one writes: the copy ends up equal, with every entry once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smp_memory
from smp_memory.exchange.transfer import lines_of, read_session
from tests.backends.naive_store import NAME
from tests.exchange_stores import POSTGRES, Places

pytestmark = pytest.mark.crash
PUSHER = """
import sys, smp_memory
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
register_backend(NAME, open_naive)
print("ready", flush=True)
with smp_memory.open(sys.argv[1]) as memory:
    while True:
        memory.push(sys.argv[2])
"""


@pytest.mark.parametrize("kind", [NAME, "single", POSTGRES])
def test_killed_pushes_lose_nothing_and_send_nothing_twice(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    places, chance = Places(request, tmp_path), random.Random(kind)
    laptop, shared = places.open("jsonl", "laptop"), places.open(kind, "shared")
    sessions = [laptop.create_session(f"s{number}") for number in range(3)]
    command = [sys.executable, "-c", PUSHER, laptop.root, places.address(kind, "shared")]
    for turn in range(6):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        end = time.monotonic() + chance.uniform(0.05, 0.5)
        while time.monotonic() < end:
            session = chance.choice(sessions)
            record = session.add_decision(f"Turn {turn}")
            session.update(record.id, rationale="because")
        process.kill()
        process.communicate()
    assert laptop.push().is_complete  # what the killed processes left in the outbox
    assert laptop.push(places.address(kind, "shared")).is_complete
    for session in sessions:
        mine, theirs = (lines_of(read_session(each.store.session(session.id)).entries) for each in (laptop, shared))
        assert theirs == mine
        assert len(mine) == len(set(mine)) > 0
    for memory in (laptop, shared):
        memory.close()


def test_outbox_is_written_before_anything_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies as it opens the other store."""

    class Died(BaseException):
        pass

    laptop = smp_memory.open(tmp_path / "laptop")
    laptop.create_session("s1").add_decision("First")
    smp_memory.open(tmp_path / "shared").close()

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("smp_memory.memory.open_memory", die)
        with pytest.raises(Died):
            laptop.push(str(tmp_path / "shared"))
    assert [(each.session, each.status) for each in laptop.push().sessions] == [("s1", "sent")]
