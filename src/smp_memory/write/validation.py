"""Validate the input of callers once, at the boundary; all code behind it relies on the result.

Guarantees: the results are JSON values with text that is valid UTF-8, in a stable order, under SMP's own names;
fields SMP does not know are kept as they are. Otherwise `InvalidRecord` names the field, and nothing was changed.

Names and values that are probably typing errors give warnings, and are stored as given. A name that any type of memory knows, and
one that is not close to a known name, gives none. The warnings for a set of names are cached.
"""

from __future__ import annotations

from datetime import date, datetime
from functools import lru_cache
from math import isfinite

from smp_memory.errors import InvalidRecord, SizeLimitExceeded
from smp_memory.model import ids
from smp_memory.model.design_fields import translate_fields, unwrap_fields
from smp_memory.model.entry import DEPTH_LIMIT, INTEGER_BITS_LIMIT, RULES
from smp_memory.model.session_info import with_checked_title
from smp_memory.model.times import VALID_FROM, VALID_UNTIL, check_validity, day_or_time, parse
from smp_memory.model.types import CONFIDENCE_WORDS, KINDS, RELATIONS, ROLES, SEVERITIES, Kind, PerKind, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Check = Callable[[str, Any], Any]
    Planned = tuple[str, str, Check]  # the caller's name of a field, SMP's name, the check of its value

_NO_CONTENT = ("id", "created")
_UNCOUNTED, _UNCOUNTED_BYTES = ("author", "author_kind", "role", "kind"), 1024  # who said it does not count as content
METADATA_LIMIT_BYTES = 256 << 10  # of the context of a session
GIVEN_BY_SMP = frozenset(["session", "session_id", "type", "revision", "schema", "checksum", "updated", "updated_by"])


class Draft:
    """A memory that is not stored yet."""

    __slots__ = ("created", "data", "id", "kind")

    def __init__(self, kind: Kind, id: str | None, created: str | None, data: dict[str, Any]) -> None:
        self.kind = kind
        self.id = id
        self.created = created
        self.data = data


def draft(kind: Kind, given: Mapping[str, Any], content_limit_bytes: int) -> Draft:
    """Validate the fields of a new memory."""
    if "data" in given or "content" in given:
        given = unwrap_fields(kind, given)
    given = translate_fields(kind, given)
    data = fields(kind, given, content_limit_bytes)
    memory_id = ids.check(data.pop("id"), "id") if "id" in data else None
    created = data.pop("created") if "created" in data else None
    check_required(kind, data)
    if VALID_UNTIL in data:
        check_validity(data)
    return Draft(kind, memory_id, created, data)


def check_required(kind: Kind, data: Mapping[str, Any]) -> None:
    """Raise if a required field, or each of a group of alternatives, is missing."""
    for group in kind.required:
        if not data.get(group[0]) and not any(data.get(name) not in (None, "") for name in group):
            names = " or ".join(group)
            raise InvalidRecord(f"{names}: a {kind.name} needs it, and it must not be empty.", field=group[0])


def fields(kind: Kind, given: Mapping[str, Any], limit_bytes: int) -> dict[str, Any]:
    """Validated fields under SMP's names, in order of writing; None counts as not given."""
    given = {name: value for name, value in given.items() if value is not None}
    if "type" in given:
        _check_type(kind, given["type"])
    data = {target: check(target, given[name]) for name, target, check in plan(kind, tuple(given))}
    _check_size(kind, data, limit_bytes)
    return data


def _check_type(kind: Kind, given: Any) -> None:
    """Raise if a `type` among the fields differs from the type of the memory."""
    try:
        is_same = kind_of(given) is kind
    except InvalidRecord:
        is_same = False
    if not is_same:
        raise InvalidRecord(
            f"type: this memory is a {kind.name}, but its data has the type {quoted(given)}. Leave the field out, or give it another name.",
            field="type",
        )


def revision(field: str, value: Any) -> int | None:
    """Validate an optional revision number. Text here usually means that the arguments are in the wrong order."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidRecord(
        f"{field}: must be a whole number, not {quoted(value)}. New values are given by the names of their fields: "
        'update("DEC-0001", rationale="…").',
        field=field,
    )


@lru_cache(maxsize=500)
def plan(kind: Kind, names: tuple[str, ...]) -> list[Planned]:
    """For each name given by a caller, SMP's name and the check, in the order of writing: the fields of the type first,
    then the common ones, then the caller's. Cached: callers use few sets of names.
    """
    for name in names:
        _key("name of a field", name)
    checks = _CHECKS_OF[kind.name]
    targets: dict[str, str] = {}
    for name in names:
        target = kind.aliases.get(name, name)
        if target in names or target in targets:
            target = name  # if both names are given, the alias is a field of its own
        if name not in GIVEN_BY_SMP:
            targets[target] = name
    order = sorted(targets, key=lambda target: kind.rank.get(target, 99))
    return [(targets[target], target, checks.get(target, plain)) for target in order]


def changes(kind: Kind, given: Mapping[str, Any], content_limit_bytes: int) -> dict[str, Any]:
    """Check what a caller wants to change; None removes a field. Of several of which one must stay, `says_something` tells."""
    for name in given:
        if name in GIVEN_BY_SMP and name != "type":
            raise InvalidRecord(f"{name}: is set by SMP and cannot be changed.", field=name)
    removed = {kind.aliases.get(name, name): None for name, value in given.items() if value is None}
    data = fields(kind, given, content_limit_bytes)
    for name in ("id", "created"):
        if name in data or name in removed:
            raise InvalidRecord(f"{name}: cannot be changed.", field=name)
    for group in kind.required:
        if len(group) == 1 and (group[0] in removed or data.get(group[0], 1) == ""):
            raise InvalidRecord(f"{group[0]}: a {kind.name} needs it, and it must not be empty.", field=group[0])
    return {**removed, **data}


def plain(field: str, value: Any, depth: int = 0) -> Any:
    """Convert a value to an equal JSON value; times become text, tuples and sets become lists."""
    if type(value) is str:
        return utf8(field, value)
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        if value.bit_length() > INTEGER_BITS_LIMIT:
            raise InvalidRecord(f"{field}: a number of more than 600 digits cannot be stored.", field=field)
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise InvalidRecord(f"{field}: {value} cannot be stored as a number.", field=field)
        return value
    if depth >= DEPTH_LIMIT:
        raise InvalidRecord(f"{field}: nested deeper than {DEPTH_LIMIT} levels.", field=field, limit=DEPTH_LIMIT)
    if isinstance(value, dict):
        return {_key(field, key): plain(f"{field}.{key}", item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(field, item, depth + 1) for item in items]
    if isinstance(value, datetime):
        return parse(value, field)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):  # a str of another class, such as an enum
        return utf8(field, str(value.value) if hasattr(value, "value") else str(value))
    raise InvalidRecord(
        f"{field}: cannot store a {type(value).__name__}. Give text, numbers, true/false, lists or dictionaries.",
        field=field,
    )


def utf8(field: str, text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecord(
                f"{field}: not valid text, a lone surrogate at position {error.start}.", field=field
            ) from None
    return text


def _key(field: str, key: object) -> str:
    if not isinstance(key, str):
        raise InvalidRecord(f"{field}: must be text, not {quoted(key)}.", field=field)
    return utf8(field, key)


def _text(field: str, value: Any) -> str:
    if type(value) is not str:
        value = plain(field, value)
        if not isinstance(value, str):
            raise InvalidRecord(f"{field}: must be text, not {type(value).__name__}.", field=field)
    return value if value.isascii() else utf8(field, value)


def quoted(value: object) -> str:
    """The repr of a value for an error message, at most 80 characters."""
    try:
        return repr(value)[:80]
    except ValueError:  # a number of too many digits
        return f"such a {type(value).__name__}"


def optional_text(field: str, value: Any) -> str | None:
    """Validate an optional text, such as an author or a reason."""
    return None if value is None else _text(field, value)


def _unit(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidRecord(f"{field}: must be a number from 0 to 1, not {quoted(value)}.", field=field, limit=1)
    return value


def _confidence(field: str, value: Any) -> float | str:
    if isinstance(value, str) and value.lower() in CONFIDENCE_WORDS:
        return value.lower()
    if isinstance(value, str):
        raise InvalidRecord(
            f"{field}: {value!r} is not one of {', '.join(CONFIDENCE_WORDS)} or a number from 0 to 1.", field=field
        )
    return _unit(field, value)


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidRecord(f"{field}: must be true or false, not {quoted(value)}.", field=field)
    return value


def tag_list(field: str, value: Any) -> list[str]:
    items = value
    if type(value) is not list:
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise InvalidRecord(f"{field}: must be a list of tags, not {quoted(value)}.", field=field)
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
    try:
        return list(dict.fromkeys(map(ids.check_tag, items)))
    except TypeError:  # an unhashable item
        raise InvalidRecord(f"{field}: {quoted(value)} is not a list of tags.", field=field) from None


def _relations(field: str, value: Any) -> list[dict[str, Any]]:
    relations = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, dict):
            kind, target = item.get("kind", item.get("relationship")), item.get("target")
        elif isinstance(item, (list, tuple)) and len(item) == 2:
            kind, target = item
        else:
            raise InvalidRecord(
                f"{field}: {quoted(item)} is not a relation. Give its kind and its target: "
                '{"kind": "resolves", "target": "FIND-0001"}.',
                field=field,
            )
        relations.append({"kind": relation_kind(kind), "target": reference(field, target)})
    return relations


def relation_kind(kind: object) -> str:
    if isinstance(kind, str) and ids.is_word(kind):
        return kind
    raise InvalidRecord(
        f"kind: {quoted(kind)} is not a kind of relation. Use a word such as resolves, supersedes or relates_to: "
        f"1 to {ids.LIMIT} letters and digits with _ - and . between.",
        field="kind",
    )


def reference(field: str, target: object) -> str:
    """An id, or `session/ID` for a memory of another session."""
    if isinstance(target, str) and all(ids.is_valid(part) for part in target.split("/", 1)):
        return target
    raise InvalidRecord(f"{field}: {quoted(target)} is not the id of a memory (ID or session/ID).", field=field)


def _time(field: str, value: Any) -> str:
    return parse(value, field)


def _aliases(field: str, value: Any) -> list[str]:
    """Other names of what a memory is about: one text or several, none empty."""
    given = plain(field, [value] if isinstance(value, str) else value)
    names = [_text(field, each).strip() for each in given] if isinstance(given, list) else []
    if not isinstance(given, list) or not all(names):
        raise InvalidRecord(f"{field}: must be a list of names, none empty, not {quoted(value)}.", field=field)
    return list(dict.fromkeys(names))


def _role(field: str, value: Any) -> str:
    return ids.check(value, field)


def _agent(field: str, value: Any) -> str:
    return ids.check(value, field, ids.LIMIT - len(ids.STATE_PREFIX))


def _idempotency_key(field: str, value: Any) -> str:
    text = _text(field, value)
    if not 0 < len(text) <= 256:
        raise InvalidRecord(f"{field}: must be 1 to 256 characters long.", field=field, limit=256)
    return text


_CHECKS = {
    "tags": tag_list,
    "importance": _unit,
    "confidence": _confidence,
    "pinned": _flag,
    "muted": _flag,
    "relations": _relations,
    "author": _text,
    "topic": _text,
    "role": _role,
    "agent": _agent,
    "rationale": _text,
    "idempotency_key": _idempotency_key,
    "created": _time,
    "aliases": _aliases,
    VALID_FROM: day_or_time,
    VALID_UNTIL: day_or_time,
}

# The checks by type, for its fields and the common ones; a field of another type counts as the caller's own.
_CHECKS_OF = PerKind(lambda kind: {name: _check_of(kind, name) for name in ("id", "created", "author", *kind.rank)})


def _check_of(kind: Kind, name: str) -> Check:
    if name == kind.text and not kind.is_named_by_agent:  # a state may be any value
        return _text
    if name in RULES and name not in _CHECKS:  # what is stored can be read again
        return lambda field, value: RULES[name](field, plain(field, value))
    return _CHECKS.get(name, plain)


def _check_size(kind: Kind, data: dict[str, Any], limit_bytes: int) -> None:
    size, rank = 0, kind.rank
    for name, value in data.items():
        size += len(value) if type(value) is str and value.isascii() else _size_of(value)
        if name not in rank:
            size += len(name)
    if size > limit_bytes:  # counted more than content
        size -= sum(len(name) + _size_of(data[name]) for name in _NO_CONTENT if name in data)
        size -= min(_UNCOUNTED_BYTES, sum(_size_of(data[name]) for name in _UNCOUNTED if name in data))
    if size > limit_bytes:
        raise SizeLimitExceeded(
            f"{kind.text}: this {kind.name} has {size:,} bytes of content; {limit_bytes:,} are allowed per memory "
            "(storage.max_content_kb). Split it, or keep the path of a file instead.",
            field=kind.text,
            size=size,
            limit=limit_bytes,
        )


def _size_of(value: Any) -> int:
    if type(value) is str:
        return len(value) if value.isascii() else len(value.encode())
    size = 8
    if type(value) is dict:
        for key, item in value.items():
            size += len(key) + _size_of(item)
    elif type(value) is list:
        for item in value:
            size += _size_of(item)
    return size


def _mapping(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRecord(f"{field}: must be an object of names and values, not {quoted(value)}.", field=field)
    return dict(value)


def session_fields(
    user: str | None, agents: Any, project: str | None, tags: Any, context: Mapping[str, Any]
) -> dict[str, Any]:
    """Validate the arguments for a new session."""
    names = [agents] if isinstance(agents, str) else agents or ()
    if not isinstance(names, (list, tuple, set, frozenset)):
        raise InvalidRecord(f"agents: must be a list of names, not {quoted(names)}.", field="agents")
    return {
        "user": None if user is None else _text("user", user),
        "agents": [_text("agents", name) for name in names],
        "project": None if project is None else _text("project", project),
        "tags": tag_list("tags", tags or ()),
        "context": _limited("context", with_checked_title(plain("context", _mapping("context", context)))),
    }


def _limited(field: str, value: Any) -> Any:
    """A value of a session's metadata, which are read whole up to a limit."""
    if _size_of(value) > METADATA_LIMIT_BYTES:
        raise SizeLimitExceeded(
            f"{field}: larger than {METADATA_LIMIT_BYTES >> 10} KiB; store it as a memory.",
            field=field,
            limit=METADATA_LIMIT_BYTES,
        )
    return value


# -- probable typing errors

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


def typo_warnings(kind: Kind, data: Mapping[str, Any]) -> tuple[str, ...]:
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
