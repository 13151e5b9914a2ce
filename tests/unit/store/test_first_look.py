"""A change is checked against what stands there under the lock, although its reader looked before the lock was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import smp_memory
from smp_memory.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def after_the_first_look(session: Any, meanwhile: Callable[[], Any]) -> list[int]:
    """Let something happen between the look and the lock. Returns a list that grows with every look."""
    reader, looks = session._files.reader, []
    real = reader.catch_up

    def catch_up() -> Any:
        session_history = real()
        looks.append(len(looks))
        if len(looks) == 1:
            meanwhile()
        return session_history

    reader.catch_up = catch_up
    return looks


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_another_process_was_quicker_after_the_first_look(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory, smp_memory.open(tmp_path) as other:
        session = memory.create_session("s")
        record = session.add_decision("Use OAuth")
        after_the_first_look(session, lambda: other.session("s").update(record.id, status="rejected"))
        with pytest.raises(Conflict):
            session.update(record.id, expected_revision=1, status="approved")
        assert session.get(record.id).status == "rejected"


def test_the_same_process_was_quicker_after_the_first_look(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("s")
        record = session.add_decision("Use OAuth")
        after_the_first_look(session, lambda: session.update(record.id, status="rejected"))
        with pytest.raises(Conflict):
            session.update(record.id, expected_revision=1, status="approved")


def test_one_look_is_enough_if_nobody_wrote(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("s")
        record = session.add_decision("Use OAuth")
        looks = after_the_first_look(session, lambda: None)
        session.update(record.id, expected_revision=1, status="approved")
        assert looks == [0]
