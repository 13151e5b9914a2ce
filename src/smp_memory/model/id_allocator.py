"""Which numbers are taken, and what stands in the books? What a batch is resolved against, under the lock."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.history import RecordHistory, SessionHistory


class IdAllocator:
    """The numbers given out in a session and, once loaded, its memories. Copies are cheap: a refused batch leaves no gap."""

    __slots__ = ("numbers", "seq", "session_history")

    def __init__(self, seq: int, numbers: dict[str, int], session_history: SessionHistory | None = None) -> None:
        self.seq = seq
        self.numbers = numbers
        self.session_history = session_history

    def copy(self) -> IdAllocator:
        return IdAllocator(self.seq, dict(self.numbers), self.session_history)

    def raise_to(self, seq: int, numbers: dict[str, int]) -> None:
        """Numbers only grow: whoever knows of a larger one is right."""
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
        """The preference that has this key now."""
        if self.session_history is None or key not in self.session_history.preferences:
            return None
        histories = self.session_history.histories
        last = self.session_history.preferences[key]
        if last in histories and histories[last].has_key(key):
            return last
        return next(
            (name for name in reversed(histories) if histories[name].has_key(key)), None
        )  # it lost it, or was deleted
