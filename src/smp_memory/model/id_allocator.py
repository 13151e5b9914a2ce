"""Which numbers are taken, and what stands in the books? What a batch is resolved against, under the lock."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.history import Fold, RecordHistory


class IdAllocator:
    """The numbers given out in a session and, once loaded, its memories. Copies are cheap: a refused batch leaves no gap."""

    __slots__ = ("fold", "numbers", "seq")

    def __init__(self, seq: int, numbers: dict[str, int], fold: Fold | None = None) -> None:
        self.seq = seq
        self.numbers = numbers
        self.fold = fold

    def copy(self) -> IdAllocator:
        return IdAllocator(self.seq, dict(self.numbers), self.fold)

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

    def trail(self, memory_id: str) -> RecordHistory | None:
        return self.fold.trails.get(memory_id) if self.fold else None

    def idempotent(self, key: str) -> str | None:
        return self.fold.idempotent.get(key) if self.fold else None

    def preference(self, key: str) -> str | None:
        """The preference that has this key now."""
        if self.fold is None or key not in self.fold.preferences:
            return None
        trails = self.fold.trails
        last = self.fold.preferences[key]
        if last in trails and trails[last].has_key(key):
            return last
        return next(
            (name for name in reversed(trails) if trails[name].has_key(key)), None
        )  # it lost it, or was deleted
