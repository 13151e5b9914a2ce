"""Uses of memories count at once, once, and add neither a revision nor a line of history."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import Conflict, InvalidRecord
from smp_memory.model.candidates import CandidateRequest
from smp_memory.search import overviews
from smp_memory.testing import MachineClock

PLACES = ["jsonl", ":memory:"]


class Place:
    """A store in one layout, or in RAM, with a clock that moves only when told."""

    def __init__(self, folder: Path, name: str) -> None:
        self.clock = MachineClock()
        self.where: Any = ":memory:" if name == ":memory:" else folder / "store"
        self.in_ram = name == ":memory:"
        self.memory = smp_memory.open(self.where, layout=None if self.in_ram else name, clock=self.clock)
        self.session = self.memory.create_session("s1")

    def again(self) -> Any:
        """The session as another process sees it; a store in RAM is only seen by its own."""
        if self.in_ram:
            return self.session
        self.memory.close()
        self.memory = smp_memory.open(self.where, clock=self.clock)
        self.session = self.memory.session("s1")
        return self.session

    def passes(self, seconds: float = 61, *, days: float = 0) -> None:
        self.clock.advance(seconds, days=days)

    def count(self, id: str) -> int:
        return self.memory.store.indexer.candidates(CandidateRequest(refs=[f"s1/{id}"])).matches[0].access_count


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def test_a_use_raises_the_priority_at_once(place: Place) -> None:
    session = place.session
    for text in ("Postgres", "Redis"):
        session.add_decision(f"Use {text}")
    place.passes(days=20)
    before = session.priority("DEC-0001")
    assert session.priority("DEC-0002") == before
    for _ in range(3):
        session.get("DEC-0002")
        place.passes()
    assert session.priority("DEC-0002") > before + 0.05
    assert place.again().priority("DEC-0002") > before + 0.05
    asked: dict[str, Any] = {"types": "decision", "track_access": False}
    assert place.session.query(sort="priority", **asked).ids == ["DEC-0002", "DEC-0001"]
    assert place.session.query(min_priority=before + 0.05, **asked).ids == ["DEC-0002"]
    assert place.session.query(where={"access.count": {"greater": 2}}, **asked).ids == ["DEC-0002"]


def test_overviews_rank_by_uses_that_are_not_in_the_files_yet(place: Place) -> None:
    for text in ("Postgres", "Redis"):
        place.session.add_decision(f"Use {text}", topic=text.lower())
    place.passes(days=20)
    for _ in range(5):
        place.session.get("DEC-0001")
        place.passes()
    priority = overviews._priority_of(place.again().scope)
    first, second = place.session.records("decision")
    assert priority(first) == pytest.approx(place.session.priority("DEC-0001"))
    assert priority(first) > priority(second) + 0.05


def test_a_use_in_a_process_that_ends_counts_in_the_next(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("s1")
        session.add_decision("Use Postgres", created=datetime.now(UTC) - timedelta(days=10))
        before = session.priority("DEC-0001")
    read = "import smp_memory, sys; smp_memory.open(sys.argv[1]).session('s1').get('DEC-0001')"
    subprocess.run([sys.executable, "-c", read, str(tmp_path)], check=True)
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").priority("DEC-0001") > before


def test_each_use_counts_once_in_the_log_the_index_and_the_files(place: Place) -> None:
    place.session.add_decision("Use Postgres")
    for _ in range(4):
        place.session.get("DEC-0001")
        place.passes()
    counts = [place.count("DEC-0001")]
    place.memory.store.indexer.count_accesses()
    counts.append(place.count("DEC-0001"))
    place.memory.maintain(only=["access"])
    counts.append(place.count("DEC-0001"))
    place.memory.store.indexer.rebuild()
    counts.append(place.count("DEC-0001"))
    place.again()
    counts.append(place.count("DEC-0001"))
    assert counts == [4] * 5
    place.session.get("DEC-0001")
    assert place.count("DEC-0001") == 5
    assert place.again().find("DEC-0001").access["count"] == 4  # as the files say until maintenance


def used_and_folded(place: Place, *ids: str) -> None:
    for id in ids:
        place.session.get(id)
    place.passes(days=1)
    assert place.memory.maintain(only=["access"]).did == [
        f"s1: wrote the uses of {len(ids)} memor{'ies' if ids[1:] else 'y'}"
    ]


def test_flushing_uses_adds_no_revision_and_no_history(place: Place) -> None:
    session = place.session
    session.add_decision("Use Postgres", rationale="one")
    session.add_turn("user", "Hello")
    session.update("DEC-0001", rationale="two")
    before = {id: (session.find(id).revision, session.history(id)) for id in ("DEC-0001", "TURN-0001")}
    updated = session.find("DEC-0001").updated
    for _ in range(2):
        used_and_folded(place, "DEC-0001", "TURN-0001")
        session = place.again()
        assert {id: (session.find(id).revision, session.history(id)) for id in before} == before
        assert session.find("DEC-0001").updated == updated
    assert session.find("DEC-0001").access["count"] == 2
    assert session.validate().problems == []
    assert session.update("DEC-0001", 2, rationale="three").revision == 3
    for stale in (1, 2, 4):
        with pytest.raises(Conflict):
            session.update("DEC-0001", stale, rationale="four")
    for wrong in (True, "3"):
        with pytest.raises(InvalidRecord, match="expected_revision"):
            session.update("DEC-0001", wrong, rationale="four")
    used_and_folded(place, "DEC-0001")
    session = place.again()
    assert session.update("DEC-0001", 3, rationale="four").revision == 4
    assert [step["revision"] for step in session.history("DEC-0001")] == [1, 2, 3, 4]
    assert session.history("DEC-0001")[-1]["changes"] == {"rationale": {"from": "three", "to": "four"}}
    assert place.again().validate().problems == []


def test_an_agent_sees_no_history_of_uses(place: Place) -> None:
    place.session.add_decision("Use Postgres", author="dev")
    used_and_folded(place, "DEC-0001")
    agent = place.again().agent("dev")
    assert [step["op"] for step in agent.history("DEC-0001")] == ["put"]
    assert agent.get("DEC-0001").revision == 1


def test_export_and_import_keep_revisions_and_uses(place: Place) -> None:
    place.session.add_decision("Use Postgres", rationale="one")
    used_and_folded(place, "DEC-0001")
    place.session.update("DEC-0001", rationale="two")
    before = place.session.find("DEC-0001").to_dict(), place.session.history("DEC-0001")
    text = place.session.export(format="jsonl")
    [other] = place.memory.import_(text, session="s2")
    after = other.find("DEC-0001").to_dict(), other.history("DEC-0001")
    assert after[1] == before[1]
    assert (after[0]["revision"], after[0]["access"]) == (before[0]["revision"], before[0]["access"])
    assert other.validate().problems == []


def test_compacted_states_of_an_agent_keep_revisions_uses_and_times(place: Place) -> None:
    session = place.session
    for number in range(4):
        session.update_agent_state("dev", {"step": number, "notes": "words " * 20})
        place.passes(days=1)
        if number in (1, 3):
            used_and_folded(place, "STATE-dev")
    before = session.find("STATE-dev").to_dict(), session.history("STATE-dev")
    place.passes(days=5)
    assert session.compact(1 << 30).plan.histories
    compacted = place.again().find("STATE-dev").to_dict()
    for name in ("state", "updated", "access"):
        assert compacted[name] == before[0][name]
    assert compacted["revision"] == 2
    place.session.restore_archived("STATE-dev")
    assert (place.session.find("STATE-dev").to_dict(), place.session.history("STATE-dev")) == before
    assert place.again().validate().problems == []
