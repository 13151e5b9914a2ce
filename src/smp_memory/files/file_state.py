"""What is known of one file of a session: its entries, provisional ids and times of incomplete ones, and hints about damaged ones.

A person adds `- decision: Sessions last 8 hours` to decisions.yaml and saves. The entry is a memory at once. Until SMP writes to that
file (`smp_memory.files.reconciliation`), its id and time are provisional and a pure function of the files:
- id: the next free number of its type, in the order of the files and lines; numbers that were given out before count as taken
  (`WriterState.numbers`, the session's metadata). An agent state is named after its agent, an artifact in a file of its own after the file.
- time: when the file was last modified, in seconds.

Hints name lines, columns and fields of common mistakes in JSON and YAML; they quote no value.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from smp_memory.errors import StorageCorrupt
from smp_memory.files.disk import FILE_LIMIT_BYTES
from smp_memory.model import ids
from smp_memory.model.design_fields import relationship_in
from smp_memory.model.entry import PUT, transaction_range
from smp_memory.model.reports import Problem
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory

_NS = 1_000_000_000
SESSION_LIMIT_BYTES = 2 * FILE_LIMIT_BYTES  # of all files of a session


class FileState:
    """What is known of one file."""

    __slots__ = (
        "end", "entries", "epoch", "identity", "incomplete", "line", "metadata_lines", "problems", "recorded_epoch",
        "relationships", "unterminated",
    )  # fmt: skip

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
        self.relationships: list[tuple[str, dict[str, str]]] = []  # items of design 003 that relate two memories
        self.unterminated = False  # the last line is complete but has no line end

    def add_rejected(self, fields: dict[str, Any], problem: Problem) -> None:
        """Add an item that is no entry: a relationship, or a problem."""
        relationship = relationship_in(fields)
        if relationship is not None:
            self.relationships.append(relationship)
        else:
            self.problems.append(problem)


def assign_times(state: FileState) -> None:
    """Set the provisional time of each incomplete entry of a file that was just read."""
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


def with_relationships(states: dict[str, FileState]) -> list[Entry]:
    """The entries of all files; a new memory that is the source of relationships has them among its relations."""
    related: dict[str, list[dict[str, str]]] = {}
    for state in states.values():
        for source, relation in state.relationships:
            related.setdefault(source, []).append(relation)
    return [
        _related(entry, related[entry.id]) if entry.op == PUT and entry.id in related else entry
        for state in states.values()
        for entry in state.entries
    ]


def _related(entry: Entry, relations: list[dict[str, str]]) -> Entry:
    found = entry.copy()
    known = found.data.get("relations", [])
    found.data = {**found.data, "relations": [*known, *(each for each in relations if each not in known)]}
    return found


def incomplete_problem(entry: Entry) -> Problem:
    what = " and no ".join(entry.lacks)
    message = (
        f"{entry.id} was typed in by hand and has no {what} in the file yet; the next write or `smp repair` adds it."
    )
    return Problem(entry.file, entry.line, "typed", message, "note", entry.id)


# -- sessions that are too large


def beyond_limit(sizes: dict[str, int]) -> set[str]:
    """The largest files, so many that the rest can be read. Files beyond the limit of a file are not read anyway."""
    sizes = {name: size for name, size in sizes.items() if size <= FILE_LIMIT_BYTES}
    total, found = sum(sizes.values()), set()
    for name in sorted(sizes, key=lambda name: -sizes[name]) if total > SESSION_LIMIT_BYTES else ():
        if total > SESSION_LIMIT_BYTES:
            found.add(name)
            total -= sizes[name]
    return found


def session_too_large(folder: str, session: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"The files of session {session} hold more than {SESSION_LIMIT_BYTES >> 20} MiB, the most that SMP reads of a session, so the "
        "largest are not read. Move a part of them away.",
        path=folder,
        session=session,
        limit=SESSION_LIMIT_BYTES,
    )


# -- incomplete transactions


def never_complete(
    states: dict[str, FileState], session_history: SessionHistory, known: set[str], stored_until: int
) -> dict[str, int]:
    """Marks of transactions over several files that were never complete, with how many entries are missing.

    Their last entry is written last. Without it a transaction counts only if there is evidence that it was complete once and
    somebody removed the entry: the lock file (`stored_until`) or a later entry has a larger number. `known` are transactions whose
    entries were already hidden when that later entry was written. Damage hides nothing.
    """
    if any(problem.severity == "error" for state in states.values() for problem in state.problems):
        return {}
    found = {}
    for mark in session_history.unfinished():
        limits, present = transaction_range(mark), session_history.numbers_of(mark)
        if limits is None or limits[2] < 2 or limits[1] in present:
            continue
        if mark in known or max(session_history.seq, stored_until + 1) <= limits[1]:
            found[mark] = limits[1] - limits[0] + 1 - len(present)
    return found


def hidden_problems(states: dict[str, FileState], hidden: dict[str, int]) -> list[Problem]:
    """One problem for each entry of these transactions."""
    problems = []
    for entry in [entry for state in states.values() for entry in state.entries if entry.tx in hidden]:
        missing = "one entry is" if hidden[entry.tx] == 1 else f"{hidden[entry.tx]} entries are"
        message = f"{entry.id} is not shown: it belongs to a transaction of which {missing} missing. It is shown when the rest arrives."
        problems.append(Problem(entry.file, entry.line, "incomplete_transaction", message, "error", entry.id))
    return problems


# -- hints about damaged entries

_FIELD = re.compile(r"( *)(?:- +)?([\w-]+):(?: (.*))?$")
_LINE_IN_ENTRY = re.compile(r"in line (\d+) of the entry")
_LIMIT_BYTES = 1 << 16  # longer entries get no hint


def with_hint(text: bytes, line: int, reason: str) -> str:
    """The reason why an entry is damaged, with a hint if the mistake is a common one; `line` is where the entry starts."""
    if len(text) > _LIMIT_BYTES:
        return reason
    try:
        entry = text.decode()
    except UnicodeDecodeError:
        return reason
    hint = _json_hint(entry.strip()) if entry.lstrip().startswith("{") else _yaml_hint(entry, line, reason)
    found = _LINE_IN_ENTRY.search(reason)
    if found:
        reason = reason.replace(found[0], f"in line {line + int(found[1]) - 1}")
    return f"{reason}: {hint}" if hint else reason


def _json_hint(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at, message = error.pos, error.msg
    except (ValueError, RecursionError):
        return ""
    else:
        return ""
    before, rest = text[:at].rstrip(), text[at:]
    if message.startswith("Extra data"):
        return (
            "remove the comma at the end of the line"
            if rest.strip() == ","
            else f"one entry on each line; begin a new line at column {at + 1}"
        )
    if message.startswith("Illegal trailing comma") or (before.endswith(",") and rest[:1] in ("}", "]")):
        return "remove the comma before the closing bracket"
    if message.startswith("Expecting ','"):
        return f"write a comma before column {at + 1}" if rest.strip() else "close the entry with }"
    if message.startswith("Expecting property name"):
        return "write names and texts in double quotes" if rest.strip() else "close the entry with }"
    if message.startswith("Expecting ':'"):
        return f"write a colon before column {at + 1}"
    if message.startswith("Unterminated string"):
        return f'close the text that begins at column {at + 1} with "'
    return f"write a value at column {at + 1}; put texts in double quotes"


def _yaml_hint(text: str, line: int, reason: str) -> str:
    lines = text.splitlines()
    first = re.match(r" *- *", lines[0]) if lines else None
    if first is None:
        return "begin an entry with `  - ` and indent its other fields by 4 spaces" if "stray" in reason else ""
    column = first.end() if lines[0].strip() != "-" else len(first[0]) + 1
    above = ""
    for number, each in enumerate(lines):
        field = _FIELD.match(each)
        if field is None:
            if each.strip() and not above and ":" not in each:
                return "write each field as `name: value`, with a colon and a space"
            continue
        indent, name, value = column if number == 0 else len(field[1]), field[2], field[3] or ""
        nested = indent > column and above.endswith((":", "|", ">", "|-", ">-"))
        if indent != column and not nested and number and not _is_inside(lines, number, column):
            return f"indent {name!r} in line {line + number} by {column} spaces, like the fields above it"
        hint = _value_hint(name, value, line + number)
        if hint:
            return hint
        if indent == column:
            above = each.rstrip()
    return ""


def _is_inside(lines: list[str], number: int, column: int) -> bool:
    """Whether a deeper line belongs to a field above that has no value of its own on its line."""
    for each in reversed(lines[:number]):
        found = _FIELD.match(each)
        if found and (len(found[1]) <= column or each is lines[0]):
            return (found[3] or "").strip() in ("", "|", ">", "|-", ">-")
    return False


def _value_hint(name: str, value: str, line: int) -> str:
    value = value.strip()
    sign = value[:1]
    if sign in ("'", '"'):
        closed = len(value) > 1 and value.endswith(sign)
        return "" if closed else f"close the quote in line {line}: {name}: {sign}…{sign}"
    if sign in ("[", "{"):
        end = "]" if sign == "[" else "}"
        return "" if value.endswith(end) else f"close the bracket in line {line}: {name}: {sign}…{end}"
    if ": " in value or value.endswith(":") or (sign and sign in "&*!%@`"):
        return f'put the text in line {line} in quotes: {name}: "…"'
    return ""
