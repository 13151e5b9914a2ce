"""Allocate ids and sequence numbers under the session's lock, and look up the memories that a batch refers to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.history import RecordHistory, SessionHistory


class IdAllocator:
    """The numbers given out in a session and, once loaded, its memories. A rejected batch leaves no gap: it works on a copy."""

    __slots__ = ("numbers", "seq", "session_history")

    def __init__(self, seq: int, numbers: dict[str, int], session_history: SessionHistory | None = None) -> None:
        self.seq = seq
        self.numbers = numbers
        self.session_history = session_history

    def copy(self) -> IdAllocator:
        return IdAllocator(self.seq, dict(self.numbers), self.session_history)

    def raise_to(self, seq: int, numbers: dict[str, int]) -> None:
        """Raise the counters to these values; counters never decrease."""
        self.seq = max(self.seq, seq)
        for prefix, number in numbers.items():
            self.number_used(prefix, number)

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def next_number(self, prefix: str) -> int:
        number = self.numbers.get(prefix, 0) + 1
        self.numbers[prefix] = number
        return number

    def number_used(self, prefix: str, number: int) -> None:
        if number > self.numbers.get(prefix, 0):
            self.numbers[prefix] = number

    def history(self, memory_id: str) -> RecordHistory | None:
        return self.session_history.histories.get(memory_id) if self.session_history else None

    def idempotent(self, key: str) -> str | None:
        return self.session_history.idempotent.get(key) if self.session_history else None

    def preference(self, key: str) -> str | None:
        """The id of the live preference with this key."""
        if self.session_history is None or key not in self.session_history.preferences:
            return None
        histories = self.session_history.histories
        last = self.session_history.preferences[key]
        if last in histories and histories[last].has_key(key):
            return last
        # the latest one was deleted or has another key now
        return next((name for name in reversed(histories) if histories[name].has_key(key)), None)
