"""On what stage do the tests of the contract play? One store, one clock, and how a refusal is checked."""

# ruff: noqa: PT017  (shipped: it must not need pytest)
from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory


class ContractFixture:
    """What every test has at hand."""

    def open_store(self, **options: Any) -> Memory:
        """Open the store of this test: the same one however often it is called. Options are those of `smp_memory.open`."""
        raise NotImplementedError("say how a store is opened")

    def setup_method(self) -> None:
        from smp_memory.testing import FrozenClock

        self.clock = FrozenClock()
        self._opened: list[Memory] = []

    def teardown_method(self) -> None:
        for memory in self._opened:
            memory.close()

    def store(self, **options: Any) -> Memory:
        """The store, opened anew, as another process would."""
        memory = self.open_store(**{"clock": self.clock, **options})
        self._opened.append(memory)
        return memory

    def new_session(self, id: str = "s1", **options: Any) -> SessionMemory:
        return self.store(**options).create_session(id, user="ada", agents=["architect"], project="shop")

    def again(self, session: SessionMemory) -> SessionMemory:
        """The same session through a store opened anew."""
        return self.store().session(session.id)


def dumped(session: SessionMemory) -> list[dict[str, Any]]:
    """All that a session says about its memories, deleted ones and histories too."""
    return [
        {**record.to_dict(), "history": session.history(record.id)} for record in session.records(include_deleted=True)
    ]


@contextmanager
def refused(kind: type[SMPError], **details: Any) -> Iterator[list[SMPError]]:
    """The block must raise exactly this error, with these attributes; it is the only item of the list given."""
    caught: list[SMPError] = []
    try:
        yield caught
    except SMPError as error:
        caught.append(error)
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        for name, value in details.items():
            assert getattr(error, name, None) == value, f"{name} is {getattr(error, name, None)!r}, not {value!r}"
        if "field" in details:
            assert str(details["field"]).partition(".")[0] in str(error), f"the message does not name it: {error}"
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def same(found: Any, wanted: Any) -> bool:
    """Equal in value and in type, all the way down: 1, 1.0, True and "1" are four things."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, dict):
        return list(found) == list(wanted) and all(same(found[key], wanted[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)
