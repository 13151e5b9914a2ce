"""Base class and assertions of the contract tests: one store, one clock, context managers for expected errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.model.types import KINDS
from smp_memory.testing.clocks import FrozenClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory


# For every type: the required fields, and the ids of the first two memories.
MINIMAL: dict[str, tuple[dict[str, Any], str, str]] = {
    "conversation": ({"role": "user", "content": "Hello"}, "TURN-0001", "TURN-0002"),
    "decision": ({"decision": "Use OAuth"}, "DEC-0001", "DEC-0002"),
    "finding": ({"finding": "No MFA"}, "FIND-0001", "FIND-0002"),
    "preference": ({"preference": "Short answers"}, "PREF-0001", "PREF-0002"),
    "artifact": ({"name": "report.md", "content": "# Report"}, "ART-0001", "ART-0002"),
    "learning": ({"learning": "Ask first"}, "LEARN-0001", "LEARN-0002"),
    "summary": ({"summary": "All went well"}, "SUM-0001", "SUM-0002"),
}

COMMON: dict[str, Any] = {
    "author": "veritas",
    "author_kind": "agent",
    "turn_ref": 3,
    "topic": "sign-in",
    "aliases": ["SSO", "the login page"],
    "valid_from": "2026-01-01",
    "valid_until": "2030-12-31T12:00:00Z",
    "tags": ["auth", "security.authentication", "日本語", "v2_x-1"],
    "confidence": "high",
    "importance": 0.75,
    "pinned": True,
    "references": ["DEC-0001", "other/TURN-0002"],
    "visibility": "private",
    "trust": 0.5,
    "idempotency_key": "key 1",
}

assert set(MINIMAL) | {"agent_state"} == set(KINDS), "add the new type to MINIMAL"


class ContractFixture:
    """Base class of the contract: opens the store under test and closes it after each test."""

    def open_store(self, **options: Any) -> Memory:
        """Open the store of this test: the same one however often it is called. Options are those of `smp_memory.open`."""
        raise NotImplementedError("a subclass must open the store")

    def setup_method(self) -> None:
        self.clock = FrozenClock()
        self._opened: list[Memory] = []

    def teardown_method(self) -> None:
        for memory in self._opened:
            memory.close()

    def store(self, **options: Any) -> Memory:
        """The store in a new object, as another process would open it."""
        memory = self.open_store(**{"clock": self.clock, **options})
        self._opened.append(memory)
        return memory

    def new_session(self, id: str = "s1", **options: Any) -> SessionMemory:
        return self.store(**options).create_session(id, user="ada", agents=["architect"], project="shop")

    def reopen(self, session: SessionMemory) -> SessionMemory:
        """The same session through a new store object."""
        return self.store().session(session.id)


def dump(session: SessionMemory) -> list[dict[str, Any]]:
    """All memories of a session with their histories, deleted ones included."""
    return [
        {**record.to_dict(), "history": session.history(record.id)} for record in session.records(include_deleted=True)
    ]


@contextmanager
def raises(kind: type[SMPError], **details: Any) -> Iterator[list[SMPError]]:
    """The block must raise exactly this error with these attributes; yields a list that then contains the error."""
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


@contextmanager
def raises_invalid(*fields: str) -> Iterator[None]:
    """The block must raise InvalidRecord for one of these fields, or for any field if none is given."""
    try:
        yield
    except InvalidRecord as error:
        assert not fields or error.field in fields, f"the error names {error.field}"
    else:
        raise AssertionError("InvalidRecord was not raised")


@contextmanager
def raises_any(*kinds: type[SMPError]) -> Iterator[None]:
    """The block must raise exactly one of these errors."""
    try:
        yield
    except SMPError as error:
        assert type(error) in kinds, f"{type(error).__name__} was raised instead of one of {kinds}"
    else:
        raise AssertionError(f"none of {kinds} was raised")


def is_same(found: Any, expected: Any) -> bool:
    """Whether two values are equal in value and type at every level: 1, 1.0, True and "1" are all different."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return list(found) == list(expected) and all(is_same(found[key], expected[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    return bool(found == expected)
