"""Sessions without metadata, as design 000 writes them, and metadata that does not say when the session began."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory

TURN = '{"id":"m1","type":"conversation","ts":"2026-02-03T08:00:00Z","data":{"role":"user","content":"Which port?"}}\n'
MESSAGE = '{"id":"msg-1","timestamp":"2026-02-03T08:00:00Z","agent_id":"ada","role":"user","content":"Which port?"}\n'
LATER = '{"id":"dec-1","timestamp":"2026-02-04T08:00:00Z","made_by":"ada","decision":"Port 80"}\n'
ENTRY = '{"id":"mem_1","timestamp":"2026-02-03T08:00:00Z","type":"conversation","content":{"role":"user","message":"Which?"}}\n'
DECISION = '  - id: "DEC-001"\n    timestamp: "2026-02-03T08:00:00Z"\n    decision: "Port 80"\n'
SHAPES = {
    "000": {"s1.jsonl": TURN},
    "001": {"sessions/s1/decisions.jsonl": LATER, "sessions/s1/conversation.jsonl": MESSAGE},
    "001, a head without a time": {
        "sessions/s1/manifest.json": '{"session_id": "s1"}',
        "sessions/s1/conversation.jsonl": MESSAGE,
    },
    "003": {"active/s1/decisions.yaml": f"decisions:\n{DECISION}"},
    "004": {"sessions/s1/memory.jsonl": ENTRY},
}


@pytest.fixture(params=SHAPES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name, text in SHAPES[request.param].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_session_without_a_head_began_with_its_first_memory(root: Path) -> None:
    with smp_memory.open(root) as memory:
        assert memory.session("s1").info.to_dict()["created"] == "2026-02-03T08:00:00Z"


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_converting_and_archiving_write_when_a_session_without_a_head_began(root: Path, layout: str) -> None:
    with smp_memory.open(root) as memory:
        memory.convert(layout)
    with smp_memory.open(root) as memory:
        memory.archive_session("s1")
        assert memory.session("s1").info.to_dict()["created"] == "2026-02-03T08:00:00Z"


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_an_archive_of_a_session_without_a_head_is_restored_in_another_layout(root: Path, layout: str) -> None:
    with smp_memory.open(root) as memory:
        wanted = [(record.id, record.text) for record in memory.session("s1").records()]
        memory.archive_session("s1")
        memory.convert(layout)
    with smp_memory.open(root) as memory:
        session = memory.session("s1")
        assert [(record.id, record.text) for record in session.records()] == wanted
        assert session.info.to_dict()["created"] == "2026-02-03T08:00:00Z"
        assert session.validate().ok


def test_statistics_count_entries_without_numbers_of_smp(tmp_path: Path) -> None:
    marker = '{"id":"m1","deleted":true,"ts":"2026-02-03T09:00:00Z"}\n'
    (tmp_path / "s1.jsonl").write_text(TURN + TURN.replace("m1", "m2") + marker)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert (session.stats().memories, session.stats().deleted, session.stats().entries) == (1, 1, 3)
        session.add_decision("Port 80")
        assert session.stats().entries == 4
