"""Problems of memories that a session's history alone shows: references to missing memories, preferences with one key, unreadable validity.

Every backend reports them in `validate`.
"""

from __future__ import annotations

from smp_memory.model import ids
from smp_memory.model.reports import Problem
from smp_memory.model.times import VALID_FROM, VALID_UNTIL, validity
from smp_memory.model.types import KINDS, PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.history import RecordHistory, SessionHistory


def content_problems(session_history: SessionHistory, compacted: set[str]) -> list[Problem]:
    """The problems of a session's memories; references to `compacted` ones are valid."""
    return [
        *_reference_problems(session_history, compacted),
        *_preference_problems(session_history),
        *_validity_problems(session_history),
    ]


def _reference_problems(session_history: SessionHistory, compacted: set[str]) -> list[Problem]:
    problems = []
    for history in session_history.histories.values():
        data = history.data()
        if "references" not in data and "relations" not in data:
            continue
        references = data.get("references") or []
        relations = data.get("relations") or []
        targets = [item for item in references if isinstance(item, str)] if isinstance(references, list) else []
        targets += [
            item["target"] for item in relations if isinstance(item, dict) and isinstance(item.get("target"), str)
        ]
        uids = {name: uid for entry in history.entries if entry.uids for name, uid in entry.uids.items()}
        for target in targets:
            problem = _reference_problem(history, target, session_history) or _wrong_reference(
                history, target, session_history, uids
            )
            if problem is not None and target not in compacted:
                problems.append(problem)
    return problems


def _reference_problem(history: RecordHistory, target: str, session_history: SessionHistory) -> Problem | None:
    """A reference to a memory that is deleted or missing; it may have been purged or erased."""
    first, other = history.first, session_history.histories.get(target)
    if other is not None:
        if other.deletion is None or history.deletion is not None:
            return None
        message = f"{first.id} refers to {target}, which is deleted."
        return Problem(first.file, first.line, "deleted_reference", message, "note", first.id)
    if "/" in target or not is_numbered_id(target):
        return None
    message = f"{first.id} refers to {target}, which does not exist."
    return Problem(first.file, first.line, "dangling_reference", message, "warning", first.id)


def _wrong_reference(
    history: RecordHistory, target: str, session_history: SessionHistory, uids: dict[str, str]
) -> Problem | None:
    """A reference to a memory that is missing, while its id belongs to one that another clone made."""
    other = session_history.histories.get(target)
    if other is None or not other.first.uid or uids.get(target, other.first.uid) == other.first.uid:
        return None
    first = history.first
    message = f"{first.id} refers to a {target} that does not exist; {target} is a memory that another clone made."
    return Problem(first.file, first.line, "dangling_reference", message, "warning", first.id)


def _preference_problems(session_history: SessionHistory) -> list[Problem]:
    """Preferences with one key, made in two clones: the later one is in force."""
    found: dict[tuple[str, object], list[RecordHistory]] = {}
    for history in session_history.histories.values():
        is_keyed = KINDS[history.first.type].is_named_by_key
        data = history.data()
        if is_keyed and history.deletion is None and data.get("key") is not None:
            owner = data.get("author") if data.get("visibility") is not None else None  # each agent may have its own
            found.setdefault((str(data["key"]), owner), []).append(history)
    problems = []
    for (key, _), histories in found.items():
        newest = session_history.preferences.get(key)
        current = newest if any(history.first.id == newest for history in histories) else histories[-1].first.id
        for first in (history.first for history in histories if len(histories) > 1 and history.first.id != current):
            message = f"{first.id} has the key {key!r} like {current}, which is newer and in force. Delete the one you do not want."
            problems.append(Problem(first.file, first.line, "same_preference", message, "note", first.id))
    return problems


def _validity_problems(session_history: SessionHistory) -> list[Problem]:
    """Bounds of validity, typed by hand, that are neither a day nor a time: the memory holds for ever."""
    problems = []
    for history in session_history.histories.values():
        data, first = history.data(), history.first
        if VALID_FROM not in data and VALID_UNTIL not in data:
            continue
        for name, bound in zip((VALID_FROM, VALID_UNTIL), validity(data), strict=True):
            if data.get(name) is not None and bound is None and history.deletion is None:
                message = f"{first.id}: {name} is neither a day nor a time and is ignored. Write 2026-03-01 or 2026-03-01T14:30:00Z."
                problems.append(Problem(first.file, first.line, "unreadable_validity", message, "warning", first.id))
    return problems


def is_numbered_id(target: str) -> bool:
    """Whether a text has the form of an id that SMP gives out: `DEC-0001`."""
    return any(ids.number_of(target, prefix) for prefix in PREFIXES)
