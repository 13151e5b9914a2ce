"""What is known of one file of a session, and provisional ids and times of its incomplete entries.

A person adds `- decision: Sessions last 8 hours` to decisions.yaml and saves. The entry is a memory at once. Until SMP writes to that
file (`smp_memory.files.incomplete_entries`), its id and time are provisional and a pure function of the files:
- id: the next free number of its type, in the order of the files and lines; numbers that were given out before count as taken
  (`WriterState.numbers`, the session's metadata). An agent state is named after its agent, an artifact in a file of its own after the file.
- time: when the file was last modified, in seconds.
"""

from __future__ import annotations

from smp_memory.model import ids
from smp_memory.model.entry import PUT
from smp_memory.model.reports import Problem
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry

_NS = 1_000_000_000


class FileState:
    """What is known of one file."""

    __slots__ = (
        "end",
        "entries",
        "epoch",
        "identity",
        "incomplete",
        "line",
        "metadata_lines",
        "problems",
        "recorded_epoch",
        "unterminated",
    )

    def __init__(self) -> None:
        self.identity: list[int] = []
        self.epoch: int | None = None
        self.recorded_epoch: int | None = (
            None  # in the writer state when it was read, even if that recorded another identity
        )
        self.end = 0  # where the last complete entry ends
        self.line = 1
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.incomplete: list[Entry] = []  # of `entries`, those without an id or a time in the file
        self.metadata_lines: list[
            dict[str, Any]
        ] = []  # the session's metadata, in layouts that keep it among the entries
        self.unterminated = False  # the last line is complete but has no line end


def assign_times(state: FileState) -> None:
    """Set the provisional time of each incomplete entry of a file that was just read."""
    from datetime import UTC, datetime

    from smp_memory.model.times import to_text

    modified = to_text(datetime.fromtimestamp(max(state.identity[2] // _NS, 0), UTC))
    for entry in state.incomplete:
        if "time" in entry.lacks:
            entry.at = modified


def assign_ids(states: dict[str, FileState], layout: Layout, given_out: Callable[[], dict[str, int]]) -> None:
    """Set the provisional id of each incomplete entry of a session. `given_out` returns the largest numbers ever given out."""
    incomplete = [(name, entry) for name in sorted(states) for entry in states[name].incomplete if "id" in entry.lacks]
    if not incomplete:
        return
    numbers = given_out()
    taken = set()
    for state in states.values():
        for entry in state.entries:
            if entry.op == PUT and "id" not in entry.lacks:
                taken.add(entry.id)
                prefix, number = ids.parts_of(entry.id)
                numbers[prefix] = max(numbers.get(prefix, 0), number)
    for name, entry in incomplete:
        entry.id = _id_from_name(layout, name, entry, taken) or _next_id(entry, numbers)
        taken.add(entry.id)


def _id_from_name(layout: Layout, name: str, entry: Entry, taken: set[str]) -> str:
    agent = entry.data.get("agent")
    is_state = KINDS[entry.type].is_named_by_agent
    if is_state and isinstance(agent, str) and ids.is_valid(ids.STATE_PREFIX + agent, ids.LIMIT + 8):
        return ids.STATE_PREFIX + agent
    stem = layout.id_in_name(name)
    return stem if stem and stem not in taken and ids.is_valid(stem) else ""


def _next_id(entry: Entry, numbers: dict[str, int]) -> str:
    prefix = KINDS[entry.type].prefix
    numbers[prefix] = numbers.get(prefix, 0) + 1
    return ids.numbered(prefix, numbers[prefix])


def incomplete_problem(entry: Entry) -> Problem:
    what = " and no ".join(entry.lacks)
    message = (
        f"{entry.id} was typed in by hand and has no {what} in the file yet; the next write or `smp repair` adds it."
    )
    return Problem(entry.file, entry.line, "typed", message, "note", entry.id)
