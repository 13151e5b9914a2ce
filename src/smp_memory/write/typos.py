"""Warnings about field names and values that are probably typing errors. The write is stored as given.

Guarantees: pure. A name that any type of memory knows, and a name that is not close to a known one, gives no warning.
The result for a set of names is cached.
"""

from __future__ import annotations

from functools import lru_cache

from smp_memory.model.types import KINDS, RELATIONS, ROLES, SEVERITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from smp_memory.model.types import Kind

_CLOSED: dict[str, tuple[tuple[str, ...], str]] = {  # known values, and the effect of an unknown one
    "severity": (SEVERITIES, "it is sorted behind the known ones"),
    "visibility": (("shared", "private", "public", "all", "team"), "it counts as private"),
    "author_kind": (("user", "agent", "system", "tool"), "filters by kind do not find it"),
}
_WORDS = frozenset(
    ("status", "resolution", "role", "relations")
)  # any word is allowed; one close to a known one is probably a mistake
_CHECKED = _WORDS.union(_CLOSED)
_COMMON = frozenset(["id", "created", "session", "user", "project", "agents", "context", "type", "text", "data"])
_SESSION_NAMES = ("id", "user", "agents", "project", "tags", "author", "config", "created")
_SHORT, _LONG = 5, 7  # below: only plural and singular; from _LONG on two edits count as near


def warnings(kind: Kind, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Warnings about the fields of a memory, each in a sentence."""
    found = _name_warnings(kind, tuple(data))
    if _CHECKED.isdisjoint(data) and not found:
        return found
    if not all(data[name] in known for name, (known, _) in _CLOSED.items() if name in data):
        found = (*found, *(text for name in _CLOSED if (text := _value_warning(name, data.get(name)))))
    return found if _WORDS.isdisjoint(data) else (*found, *filter(None, _word_warnings(kind, data)))


def _word_warnings(kind: Kind, data: Mapping[str, Any]) -> Iterable[str]:
    resolution = data.get("resolution")
    status = data.get("status") or (resolution.get("status") if isinstance(resolution, dict) else None)
    if kind.is_open_until_closed and isinstance(status, str):
        yield _open_warning(kind, status)
    elif kind.statuses:
        yield _word_warning("status", status, kind.statuses)
    if kind.is_turn:
        yield _word_warning("role", data.get("role"), ROLES, short=3)
    relations = data.get("relations")
    for each in relations if isinstance(relations, list) else ():
        yield _word_warning("relation", each.get("kind") if isinstance(each, dict) else None, RELATIONS)


def _open_warning(kind: Kind, status: str) -> str:
    """An unknown status leaves a finding open, which its writer may not expect."""
    if status.strip().lower() in kind.statuses:
        return ""
    near = nearest(status, kind.statuses, short=3)
    meant = f"Did you mean {near!r}?" if near else f"A {kind.noun} is closed by: {', '.join(kind.closed)}."
    return f"status: {status[:80]!r} is stored but not known, so the {kind.noun} counts as open. {meant}"


def _word_warning(name: str, value: Any, known: tuple[str, ...], short: int = _SHORT) -> str:
    """A word that is close to a known one."""
    if not isinstance(value, str) or value.strip().lower() in known:
        return ""
    near = nearest(value, known, short)
    return f"{name}: {value[:80]!r} is stored but not known. Did you mean {near!r}?" if near else ""


@lru_cache(maxsize=500)
def _name_warnings(kind: Kind, names: tuple[str, ...]) -> tuple[str, ...]:
    """Warnings about field names."""
    fields = [*kind.rank, *(alias for alias in kind.aliases if alias not in kind.rank)]
    known = _COMMON.union(*({*each.rank, *each.aliases} for each in KINDS.values()))
    return tuple(
        f"{name!r} is stored as a field of its own. Did you mean {near!r}?"
        for name in names
        if name not in known and (near := nearest(name, fields)) is not None
    )


def session_warnings(names: Iterable[str]) -> tuple[str, ...]:
    """Warnings about the arguments of a new session."""
    return tuple(
        f"{name!r} is kept in the session's context. Did you mean {near!r}?"
        for name in names
        if (near := nearest(name, _SESSION_NAMES, short=3)) is not None
    )


def _value_warning(name: str, value: Any) -> str:
    known, effect = _CLOSED[name]
    if value is None or (isinstance(value, str) and _normalised(name, value) in known):
        return ""
    near = nearest(value, known) if isinstance(value, str) else None
    meant = f"Did you mean {near!r}?" if near else f"Known are: {', '.join(known)}."
    return f"{name}: {str(value)[:80]!r} is stored but not known, so {effect}. {meant}"


def _normalised(name: str, value: str) -> str:
    return value.strip().lower() if name == "severity" else value


def nearest(name: str, known: Iterable[str], short: int = _SHORT) -> str | None:
    """The known name that is close enough to be the intended one, or None."""
    plain = _plain(name)
    for each in known:
        other = _plain(each)
        if plain == other or plain + "s" == other or other + "s" == plain:
            return each
    edits = 2 if len(plain) >= _LONG else 1
    if len(plain) < short:
        return None
    near = [(count, each) for each in known if (count := _edits(plain, _plain(each), edits)) <= edits]
    return min(near, default=(0, None), key=lambda pair: pair[0])[1]


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _edits(text: str, other: str, limit: int) -> int:
    """The edit distance with transpositions, at most `limit + 1`."""
    if abs(len(text) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(text, 1):
        earlier, before, row = before, row, [i]
        for j, expected in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != expected))
            if i > 1 and j > 1 and letter == other[j - 2] and text[i - 2] == expected:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return min(row[-1], limit + 1)
