"""Eight processes write one session and are killed again and again: nothing acknowledged is lost, nothing is half-written."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from tests.crash.processes import Worker
from tests.crash.scenarios import LAYOUTS, depth

pytestmark = pytest.mark.crash

WRITERS = 8
KILLS = depth(10, 24)


def storm(root: Path, layout: str, kills: int, seed: str) -> tuple[list[Worker], Worker]:
    """Let eight write and one watch; kill a writer now and then and start another in its place."""
    chance = random.Random(seed)
    with smp_memory.open(root, layout=layout) as memory:
        memory.create_session("shared")
    watcher = Worker("watch", root, "shared", "watcher")
    watcher.wait_for("watching")
    ended: list[Worker] = []
    writers = [Worker("storm", root, "shared", f"w{number}") for number in range(WRITERS)]
    try:
        for number in range(kills):
            place = chance.randrange(WRITERS)
            writers[place].wait_for("done")  # it has begun
            time.sleep(chance.uniform(0, 0.03))
            writers[place].kill()
            ended.append(writers[place])
            writers[place] = Worker("storm", root, "shared", f"w{place}", number + 1)
    finally:
        for worker in writers:
            worker.kill()
        ended += writers
        watcher.stop()
    return ended, watcher


def check_storm(root: Path, ended: list[Worker], watcher: Worker) -> int:
    """How many acknowledged writes were checked."""
    assert not watcher.heard("wrong"), watcher.heard("wrong")
    assert watcher.heard("looks"), watcher.said
    assert watcher.heard("looks")[0] > 0
    errors = [what for worker in ended for what in worker.said if "error" in what]
    assert not errors, errors[:3]
    with smp_memory.open(root, config={"concurrency": {"lock_timeout_ms": 2000}}) as memory:
        session = memory.session("shared")
        last = session.add_decision("the next writer goes on")
        records = {record.id: record for record in session.records() if record.id != last.id}
        report = session.validate()
        assert report.ok, report
        assert not [problem for problem in report.problems if problem.code not in ("quarantine", "torn")], report
    topics: dict[str, list[Any]] = {}
    for record in records.values():
        topics.setdefault(record.topic, []).append(record)
    said = [what for worker in ended for what in worker.said]
    sizes = {"add": 1, "several": 3, "one": 3, "update": 1}
    tried = {
        what["key"]: sizes[what["trying"]] if what["trying"] != "update" else 1
        for what in said
        if "key" in what and "trying" in what
    }
    done = [what for what in said if "done" in what and "key" in what]
    ids = [name for what in done for name in what["ids"]]
    assert len(ids) == len(set(ids)), [name for name, count in Counter(ids).items() if count > 1]
    for what in done:
        assert sorted(record.id for record in topics.get(what["key"], [])) == sorted(what["ids"]), what
    for topic, found in topics.items():
        assert len(found) == tried[topic], (topic, found)
    for what in said:
        if what.get("done") == "update":
            record = records[what["id"]]
            assert record.revision >= what["revision"], (what, record)
            assert record.impact >= what["value"], (what, record)
    return len(done)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kill_storm(layout: str, tmp_path: Path) -> None:
    ended, watcher = storm(tmp_path / "store", layout, KILLS, f"storm {layout}")
    assert len(ended) == KILLS + WRITERS
    assert check_storm(tmp_path / "store", ended, watcher) > KILLS
