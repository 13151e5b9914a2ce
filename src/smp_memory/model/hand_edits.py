"""Detect hand edits without effect: edited fields of an entry that a later change overwrites."""

from __future__ import annotations

from smp_memory.model.entry import is_revision
from smp_memory.model.record import same
from smp_memory.model.reports import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory


class OverlaidEdit:
    """A hand-edited value that differs from the current value of the memory."""

    __slots__ = ("edited", "field", "later", "revision", "value")

    def __init__(self, field: str, value: Any, edited: Entry, later: Entry, revision: int) -> None:
        self.field = field
        self.value = value
        self.edited = edited
        self.later = later  # the change that overwrites it
        self.revision = revision  # of that change


def overlaid_in(history: RecordHistory) -> list[OverlaidEdit]:
    """Fields of hand-edited entries whose value differs from the current one. Which fields were edited is not known."""
    entries = [entry for entry in history.entries if is_revision(entry)]
    if all(entry.state != "edited" for entry in entries[:-1]):
        return []
    now = history.data()
    found: dict[str, OverlaidEdit] = {}
    for number, entry in enumerate(entries[:-1]):
        for field, value in entry.data.items() if entry.state == "edited" else ():
            later = [(n, each) for n, each in enumerate(entries[number + 1 :], number + 2) if field in each.data]
            if any(_is_folded_into(each, entry) for _, each in later):
                continue
            if later and field != "access" and not same(now.get(field), value):
                revision, change = later[-1]
                found[field] = OverlaidEdit(field, value, entry, change, revision)
    return list(found.values())


def _is_folded_into(entry: Entry, other: Entry) -> bool:
    """Whether two entries are parts of one folded entry, which shows only the later value."""
    return entry.part is not None and other.part is not None and (entry.file, entry.place) == (other.file, other.place)


def problems_of(history: RecordHistory) -> list[Problem]:
    return [_problem(each) for each in overlaid_in(history)]


def _problem(found: OverlaidEdit) -> Problem:
    edited, later = found.edited, found.later
    where = f"line {later.line}" if later.file == edited.file else f"{later.file}:{later.line}"
    message = (
        f"{edited.id}: `{found.field}` in line {edited.line}, which was edited by hand, is overwritten by revision {found.revision} at {where}. "
        f"To make the edited value the current one: smp edit --adopt {edited.id}"
    )
    return Problem(edited.file, edited.line, "overlaid", message, "warning", edited.id)
