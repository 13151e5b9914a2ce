"""Three-way merge of mappings: the metadata of a session, in a file of its own or in a line, and `config.json`.

Field by field: a change of only one side is merged. Lists are united. Of two times the later one is kept, of `created_at` the
earlier one; the `uid` of the session is that of the side that created it first. Of two counters of SMP (numbers given out,
counts) the larger one is kept. Any other field that both sides changed differently is a conflict.
"""

from __future__ import annotations

import json
import re

from smp_memory.files.codec import JsonLines
from smp_memory.files.layouts.layout import DERIVED_FIELDS
from smp_memory.git.entry_files import CannotMerge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OURS, THEIRS = b"<<<<<<< ours\n", b">>>>>>> theirs\n"
DIVIDER = b"=======\n"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z")
_FIGURES = frozenset(["smp", "statistics", "stats", "storage", "numbers"])
_FIGURE = re.compile(r"seq|generation|format|\w+_(?:count|bytes|turns)|total_\w+")
_AGENT_FIGURES = ("message_count", "last_active")
_CREATED = "created_at"
_SHOWN = ("smp",)  # memories for all sessions in the designs' files, see `smp_memory.store.shared_files`
_MISSING: Any = object()
_LINES = JsonLines()


class MergedMetadata:
    """The merged line of a session's metadata."""

    def __init__(self, fields: dict[str, Any], text: bytes, conflicts: list[str]) -> None:
        self.fields = fields
        self.text = text
        self.conflicts = conflicts


def merge_metadata_lines(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> MergedMetadata:
    """Merge the metadata lines of the layout `single`."""
    mine, other, conflicts = merge_mappings(base, ours, theirs)
    lines = _LINES.encode(mine), _LINES.encode(other)
    return MergedMetadata(mine, hunks([lines[0]], [lines[1]]) if conflicts else lines[0], _messages(conflicts))


def merge_mapping_files(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    format: str,
    text_merge: Callable[[bytes, bytes, bytes], bytes | None] | None,
) -> tuple[bytes, list[str]]:
    """Merge two files that hold one mapping each, in JSON or YAML."""
    read = read_json if format == "json" else read_yaml
    fields = read(ours), read(theirs)
    try:
        before = read(base) if base.strip() else {}
    except CannotMerge:
        before = {}  # git's merge of several common ancestors may hold conflict markers
    mine, other, conflicts = merge_mappings(before, *fields)
    if conflicts:
        encoded = [_encode(each, format, ours).splitlines(keepends=True) for each in (mine, other)]
        return hunks(*encoded), _messages(conflicts)
    for data, known in ((ours, fields[0]), (theirs, fields[1])):
        if known == mine:
            return data, []
    text = text_merge(base, ours, theirs) if text_merge is not None and format == "yaml" else None
    if text is not None:  # keeps comments; used only if it has the same fields
        try:
            if read(text) == mine:
                return text, []
        except CannotMerge:
            pass
    return _encode(mine, format, ours), []


def merge_mappings(
    base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], list[tuple[str, ...]]]:
    """The merged fields as ours and as theirs, which differ only in conflicts, and where each conflict is."""
    base, ours, theirs = map(without_figures, (base, ours, theirs))  # they are computed anew
    inner = [side.get("session") if isinstance(side.get("session"), dict) else side for side in (ours, theirs)]
    first = 0 if _creation_key(inner[0]) <= _creation_key(inner[1]) else 1
    merge = _FieldMerge(first)
    mine, other = merge.mapping(base, ours, theirs, ())
    return mine, other, merge.conflicts


def without_figures(fields: dict[str, Any]) -> dict[str, Any]:
    """Metadata without all figures."""
    outer = _without_agent_figures(fields)
    session = outer.get("session")
    if isinstance(session, dict):
        return {**outer, "session": {name: value for name, value in session.items() if name not in DERIVED_FIELDS}}
    return {name: value for name, value in outer.items() if name not in DERIVED_FIELDS}


def _without_agent_figures(fields: dict[str, Any]) -> dict[str, Any]:
    """Metadata of design 003 without the figures of agents, which are computed anew: lists are united item by item."""
    session: Any = fields.get("session")
    participants = session.get("participants") if isinstance(session, dict) else None
    if not isinstance(participants, dict) or not isinstance(participants.get("agents"), list):
        return fields
    agents = [
        {name: value for name, value in each.items() if name not in _AGENT_FIGURES} if isinstance(each, dict) else each
        for each in participants["agents"]
        if not (isinstance(each, dict) and each.get("listed") is False)
    ]
    return {**fields, "session": {**session, "participants": {**participants, "agents": agents}}}


def _messages(conflicts: list[tuple[str, ...]]) -> list[str]:
    return [f"Both sides changed {'.'.join(path)}." for path in conflicts]


def _creation_key(metadata: Any) -> tuple[str, str]:
    engine = metadata.get("smp")
    return str(metadata.get(_CREATED, "")), str(engine.get("uid", "")) if isinstance(engine, dict) else ""


class _FieldMerge:
    def __init__(self, first: int) -> None:
        self.first = first  # which side created the session first
        self.conflicts: list[tuple[str, ...]] = []

    def mapping(
        self, base: Any, ours: dict[str, Any], theirs: dict[str, Any], path: tuple[str, ...]
    ) -> tuple[Any, Any]:
        before = base if isinstance(base, dict) else {}
        mine: dict[str, Any] = {}
        other: dict[str, Any] = {}
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            sides = [side.get(name, _MISSING) for side in (before, ours, theirs)]
            values = self._value(sides[0], sides[1], sides[2], (*path, name))
            for target, value in zip((mine, other), values, strict=True):
                if value is not _MISSING:
                    target[name] = value
        return mine, other

    def _value(self, base: Any, ours: Any, theirs: Any, path: tuple[str, ...]) -> tuple[Any, Any]:
        if _same(ours, theirs) or _same(theirs, base):
            return ours, ours
        if _same(ours, base):
            return theirs, theirs
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if path == _SHOWN and "checksum" in ours and "checksum" in theirs:
                return ours, ours  # derived from the session `global`; the next change of it or maintenance renews it
            return self.mapping(base, ours, theirs, path)
        if isinstance(ours, list) and isinstance(theirs, list):
            united = _unite(base if isinstance(base, list) else [], ours, theirs)
            return united, united
        if base in (_MISSING, None) and (ours is None or theirs is None):
            value = theirs if ours is None else ours
            return value, value
        resolved = self._resolve(ours, theirs, path)
        if resolved is not _MISSING:
            return resolved, resolved
        self.conflicts.append(path)
        return ours, theirs

    def _resolve(self, ours: Any, theirs: Any, path: tuple[str, ...]) -> Any:
        if path[-1] == "uid":
            return (ours, theirs)[self.first]
        if isinstance(ours, str) and isinstance(theirs, str) and _TIME.fullmatch(ours) and _TIME.fullmatch(theirs):
            return (min if path[-1] == _CREATED else max)(ours, theirs, key=lambda time: time[:-1])
        is_figure = not _FIGURES.isdisjoint(path) or _FIGURE.fullmatch(path[-1])
        if is_figure and type(ours) in (int, float) and type(theirs) in (int, float):
            return max(ours, theirs)
        return _MISSING


def _same(one: Any, other: Any) -> bool:
    """Equal, and of equal type: true is not 1."""
    if one is _MISSING or other is _MISSING:
        return one is other
    return (
        type(one) is type(other)
        and (one == other)
        and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def _unite(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    """The items of both sides, without those that one of them removed."""
    kept = [item for item in ours if item not in base or item in theirs]
    return kept + [item for item in theirs if item not in base and item not in ours]


def hunks(ours: list[bytes], theirs: list[bytes]) -> bytes:
    """Two versions of the same lines as one text, with conflict markers around what differs."""
    if len(ours) == 1 and len(theirs) == 1:
        return ours[0] if ours == theirs else b"".join((OURS, ours[0], DIVIDER, theirs[0], THEIRS))
    from difflib import SequenceMatcher

    parts: list[bytes] = []
    for what, start, end, other_start, other_end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            parts += ours[start:end]
        else:
            parts += [OURS, *ours[start:end], DIVIDER, *theirs[other_start:other_end], THEIRS]
    return b"".join(parts)


def _encode(fields: dict[str, Any], format: str, like: bytes) -> bytes:
    if format == "json":
        return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()
    from smp_memory.files.yaml_text import emit_mapping

    comments = []
    for line in like.splitlines(keepends=True):
        if not line.startswith(b"#"):
            break
        comments.append(line)
    return b"".join(comments) + emit_mapping(fields).encode()


def read_json(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CannotMerge(f"not JSON: {type(error).__name__}") from None
    if not isinstance(fields, dict):
        raise CannotMerge("not a JSON object")
    return fields


def read_yaml(data: bytes) -> dict[str, Any]:
    from smp_memory.files.yaml_text import load_mapping

    try:
        return load_mapping(data)
    except (ValueError, RecursionError) as error:
        raise CannotMerge(f"not YAML that can be read: {error}") from None
