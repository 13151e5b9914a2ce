"""A rename makes a shown id permanent. It is maintenance: neither a revision nor a step of the history."""

from __future__ import annotations

from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.model.history import SessionHistory


def test_rename_is_neither_a_revision_nor_a_step_of_the_history() -> None:
    first = Entry(PUT, "decision", "DEC-0001", "2026-01-01T00:00:00Z", {"decision": "a"}, 1, uid="aaaaaaaa")
    other = Entry(PUT, "decision", "DEC-0001", "2026-01-02T00:00:00Z", {"decision": "b"}, 1, uid="bbbbbbbb")
    session_history = SessionHistory()
    session_history.add([first, other])
    shown = session_history.histories["DEC-0002"]
    before = shown.revision, shown.steps()
    renames = session_history.renames(1)
    assert len(renames) == 1
    session_history.add(renames)
    settled = session_history.histories["DEC-0002"]
    assert not session_history.names.unsettled
    assert (settled.revision, settled.steps()) == before
    assert settled.revision == 1
    change = Entry(CHANGE, "decision", "DEC-0001", "2026-01-03T00:00:00Z", {"topic": "t"}, 3, uid="bbbbbbbb")
    change.revision = 2
    session_history.add([change])
    assert session_history.histories["DEC-0002"].revision == 2
    assert [problem.code for problem in session_history.problems] == []
