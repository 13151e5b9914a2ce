"""Plans that change what is stored, on every layout and on two other backends: all of a plan or nothing, and only what did not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import MemoryNotFound, SizeLimitExceeded
from smp_memory.files.layouts import NAMES
from smp_memory.model.history import COLD
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from smp_memory.privacy.redaction import Redactor
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive

AT = "2026-03-01T12:00:00Z"
POSTGRES = "postgresql"
MAIL = "ada@example.org"


@pytest.fixture(params=[*NAMES, NAME, POSTGRES])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> smp_memory.SessionMemory:
    register_backend(NAME, open_naive)
    if request.param == NAME:
        memory = smp_memory.open(f"{NAME}://{tmp_path / 'store.db'}")
    elif request.param == POSTGRES:
        memory = smp_memory.open(request.getfixturevalue("postgres").new_schema_address())
    else:
        memory = smp_memory.open(tmp_path / "store", layout=request.param)
    session = memory.create_session("s1")
    for number in range(1, 5):
        session.add_decision(f"Decision {number}", idempotency_key=f"key {number}")
        session.update(f"DEC-000{number}", rationale=f"because {number}")
    return session


def storage(session: smp_memory.SessionMemory) -> Any:
    return session.memory.store.session(session.id)


def told(session: smp_memory.SessionMemory) -> dict[str, Any]:
    """Everything that is known of each memory, live or cold."""
    found = {**storage(session).history(segment=COLD).histories, **storage(session).history().histories}
    return {id: (history.record(session.id).to_dict(), history.steps()) for id, history in sorted(found.items())}


def to_cold(*ids: str, revision: int = 2) -> RewritePlan:
    return RewritePlan("moving", AT, to_cold={id: ColdMove(revision, "a test") for id in ids})


def test_memories_move_to_the_cold_segment_and_back_unchanged(session: smp_memory.SessionMemory) -> None:
    before, files = told(session), storage(session)
    assert files.version(COLD) is None
    report = files.rewrite(to_cold("DEC-0002", "DEC-0003"))
    assert list(report.moved) == ["DEC-0002", "DEC-0003"]
    assert report.freed_bytes > 0 < report.cold_bytes == sum(files.sizes(COLD).values())
    assert list(files.history().histories) == ["DEC-0001", "DEC-0004"]
    cold = files.history(segment=COLD)
    assert [(each.id, each.moved, each.why) for each in cold.moved] == [(id, AT, "a test") for id in cold.histories]
    assert told(session) == before
    version = files.version(COLD)
    files.rewrite(RewritePlan("restoring", from_cold=["DEC-0003"]))
    assert files.version(COLD) not in (None, version)
    files.rewrite(RewritePlan("restoring", from_cold=["DEC-0002"]))
    assert files.version(COLD) is None
    assert told(session) == before
    assert list(files.history().histories) == [f"DEC-000{number}" for number in range(1, 5)]


def test_memory_that_changed_since_the_plan_stays(session: smp_memory.SessionMemory) -> None:
    plan = to_cold("DEC-0001", "DEC-0002", "DEC-0003")
    session.update("DEC-0001", rationale="other")
    session.delete("DEC-0002")
    before = told(session)
    assert list(storage(session).rewrite(plan).moved) == ["DEC-0003"]
    assert set(storage(session).history().histories) == {"DEC-0001", "DEC-0002", "DEC-0004"}
    assert told(session) == before


def test_memory_restored_since_the_plan_is_not_dropped(session: smp_memory.SessionMemory) -> None:
    session.delete("DEC-0001")
    session.delete("DEC-0002")
    histories = storage(session).history().histories
    plan = RewritePlan("purging", drop={id: histories[id].deletion.at for id in ("DEC-0001", "DEC-0002")})
    session.restore("DEC-0001")
    assert list(storage(session).rewrite(plan).dropped) == ["DEC-0002"]
    assert session.get("DEC-0001").decision == "Decision 1"
    assert session.find("DEC-0002") is None
    assert session.add_decision("New").id == "DEC-0005"


@pytest.mark.parametrize("why", ["unknown", "no room"])
def test_restoration_that_fails_changes_nothing(session: smp_memory.SessionMemory, why: str) -> None:
    files = storage(session)
    files.rewrite(to_cold("DEC-0001", "DEC-0002"))
    before = told(session)

    def admit(used: int, new: int) -> None:
        assert used > 0 < new
        raise SizeLimitExceeded("full", limit=1)

    ids = ["DEC-0001", "DEC-0099"] if why == "unknown" else ["DEC-0001", "DEC-0002"]
    with pytest.raises((MemoryNotFound, SizeLimitExceeded)):
        files.rewrite(RewritePlan("restoring", from_cold=ids, admit=admit if why == "no room" else None))
    assert set(files.history(segment=COLD).histories) == {"DEC-0001", "DEC-0002"}
    assert told(session) == before


def test_one_memory_is_read_by_id_or_key_from_either_segment(session: smp_memory.SessionMemory) -> None:
    files = storage(session)
    files.rewrite(to_cold("DEC-0001", "DEC-0002"))
    assert list(files.history(["DEC-0003", "DEC-0001", "DEC-0099"]).histories) == ["DEC-0003"]
    assert list(files.history(["DEC-0003", "DEC-0001"], segment=COLD).histories) == ["DEC-0001"]
    assert list(files.history(key="key 2", segment=COLD).histories) == ["DEC-0002"]
    assert files.history(key="key 3", segment=COLD).histories == {}
    assert session.add_decision("again", idempotency_key="key 2").id == "DEC-0002"


def test_redaction_reaches_both_segments(session: smp_memory.SessionMemory) -> None:
    """Secrets that were stored while redaction was off."""
    files = storage(session)
    with smp_memory.open(session.memory.root, config={"privacy": {"redaction": {"enabled": False}}}) as memory:
        memory.session("s1").update("DEC-0001", rationale=f"ask {MAIL}")
        memory.session("s1").update("DEC-0002", rationale=f"tell {MAIL}")
        memory.session("s1").update("DEC-0002", rationale="nobody")
        memory.session("s1").change_info(project=f"shop of {MAIL}")
    files.rewrite(to_cold("DEC-0001", revision=3))
    plan = RewritePlan("redacting", redactor=Redactor())
    seen = files.rewrite(plan, dry_run=True).redaction
    assert set(seen.memories) == {"DEC-0001", "DEC-0002"}
    assert MAIL in str(told(session))
    assert files.rewrite(plan).redaction.kinds == seen.kinds
    assert MAIL not in str(told(session))
    assert MAIL not in str(files.info().project)
    assert not files.rewrite(plan).redaction
    assert session.get("DEC-0002").rationale == "nobody"


def test_history_that_was_handed_out_does_not_change(session: smp_memory.SessionMemory) -> None:
    files = storage(session)
    held = files.history()
    before = {id: history.steps() for id, history in held.histories.items()}
    session.update("DEC-0001", rationale="later")
    session.delete("DEC-0002")
    session.add_decision("New")
    now = files.history()
    assert {id: history.steps() for id, history in held.histories.items()} == before
    assert now.histories["DEC-0002"].deletion is not None
    assert now.histories["DEC-0001"].data()["rationale"] == "later"
    assert list(now.histories) == [*before, "DEC-0005"]
