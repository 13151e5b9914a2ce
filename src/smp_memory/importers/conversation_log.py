"""Read conversation logs in Markdown, and the lists beside them, as the original design of SMP writes them.

    # Conversation History
    **Session:** session-2026-01-11-abc123
    **Started:** 2026-01-11 14:30:00 UTC
    **Participants:** user-123, bmad-master, veritas

    ## Turn 1 - 2026-01-11 14:30:00
    **Speaker:** user
    **Memory-Refs:** [DEC-001]

    Let's review the authentication requirements.

    **Memory Stored:**
    - Finding: Missing MFA requirement [FIND-001]

Each log is a session, each turn a turn of it. Beside a log, `decisions.yaml`, `findings.yaml`, `preferences.yaml` and others of that kind are read
into the same session, with their ids, and so are the states in `agent-states`. An entry below "Memory Stored" whose id is in none of these files is a memory of its own.

Guarantees: a turn without a speaker or a time is kept and reported; text before the first turn that is not a known field is reported. A
heading inside of a code block begins a turn only if a speaker follows. Files of the store itself are refused, because they are in it already.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from smp_memory.errors import UserError
from smp_memory.files.ownership import plain_bytes
from smp_memory.files.yaml_text import load_value
from smp_memory.importers.source import ImportFile, IngestedMemory, IngestedSession, Source
from smp_memory.importers.values import as_text, as_time, session_id, tags_of
from smp_memory.model.types import KINDS, PREFIXES, STEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places

_TURN = re.compile(r"##\s+Turn\s+(\d{1,9})\b\s*(?:[-–—:]\s*(.*))?$", re.IGNORECASE)
_FIELD = re.compile(r"\*\*([A-Za-z][\w -]{0,40}):\*\*\s*(.*)$")
_FENCE = re.compile(r"\s*(```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->")
_STORED = re.compile(r"[-*]\s+(.*?)\s*\[([A-Z]{2,6}-[\w-]+)\]\s*$")
_STORED_HEAD = re.compile(r"\*\*Memory Stored:\*\*\s*$", re.IGNORECASE)
_LABEL = re.compile(r"(?:decision|finding|preference|learning|pattern)\s*:\s*", re.IGNORECASE)
_ROLES = {"user": "user", "human": "user", "system": "system", "tool": "tool"}
_NOT_KEPT = frozenset(("decay", "timestamp", "access"))
_BEGINNING_BYTES = 8192
_MAX_FILES = 100_000


def found(places: Places) -> list[Found]:
    return []  # logs have no usual place


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    start = path or options.places.project
    store = os.path.realpath(options.store) if options.store else None
    if store and (os.path.realpath(start) + os.sep).startswith(store + os.sep):
        raise UserError(f"{start} is part of this store; it needs no import.", path=start)
    logs = [start] if os.path.isfile(start) else _logs(start, store)
    if not logs:
        raise UserError(f"{start} has no conversation log: no Markdown file with a heading '## Turn 1'.", path=start)
    root = os.path.dirname(start) if os.path.isfile(start) else start
    return [file for log in logs for file in _log_files(log, root)]


def _logs(start: str, store: str | None) -> list[str]:
    logs: list[str] = []
    count = 0
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(
            name
            for name in folders
            if name not in ("node_modules", ".git")
            and not os.path.islink(os.path.join(folder, name))
            and os.path.realpath(os.path.join(folder, name)) != store
        )
        count += len(names)
        if count > _MAX_FILES:
            raise UserError(f"{start} has more than {_MAX_FILES:,} files; give a smaller folder.", path=start)
        paths = [os.path.join(folder, name) for name in sorted(names) if name.endswith(".md")]
        logs += [path for path in paths if _is_log(path)]
    return logs


def _is_log(path: str) -> bool:
    return not os.path.islink(path) and any(_TURN.match(line) for line in _beginning(path).splitlines())


def _beginning(path: str) -> str:
    try:
        return plain_bytes(path, _BEGINNING_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _log_files(log: str, root: str) -> list[ImportFile]:
    """A log and the lists beside it; the lists first, so that turns refer to memories that exist."""
    folder = os.path.dirname(log)
    session = _session(_beginning(log), os.path.basename(folder) or "conversation")
    lists = [path for name in _list_names() if os.path.isfile(path := os.path.join(folder, name))]
    listed = frozenset(id for path in lists for id in _ids(path))
    result = []
    for path in lists:
        type = STEMS[os.path.basename(path).removesuffix(".yaml")]
        result.append(ImportFile(path, _name(path, root), partial(read_list, session=session, type=type), type))
    for path in _states(folder):
        result.append(ImportFile(path, _name(path, root), partial(read_state, session=session), "agent state"))
    reader = partial(read_log, session=session, listed=listed)
    return [*result, ImportFile(log, _name(log, root), reader, "conversation")]


def _list_names() -> list[str]:
    return [f"{kind.file}.yaml" for kind in KINDS.values() if not kind.is_turn and not kind.has_own_files]


def _states(folder: str) -> list[str]:
    inner = os.path.join(folder, KINDS["agent_state"].file)
    _, _, names = next(os.walk(inner), (inner, [], []))
    return [os.path.join(inner, name) for name in sorted(names) if name.endswith(".yaml")]


def _ids(path: str) -> list[str]:
    return re.findall(r"^\s*-?\s*id:\s*[\"']?([\w-]+)", _beginning(path), re.MULTILINE)


def _name(path: str, root: str) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


# -- the log


def _session(beginning: str, folder: str) -> IngestedSession:
    fields: dict[str, str] = {}
    for line in beginning.splitlines():
        if _TURN.match(line):
            break
        if matched := _FIELD.match(line):
            fields[matched[1].lower()] = matched[2].strip()
    people = [name.strip() for name in fields.get("participants", "").split(",") if name.strip()]
    agents = tuple(session_id(name) for name in people if _role(name) != "user")
    user = next((name for name in people if _role(name) == "user"), None)
    return IngestedSession(
        session_id(fields.get("session") or folder),
        created=as_time(fields.get("started", "")),
        user=user,
        agents=agents,
    )


def read_log(source: Source, session: IngestedSession, listed: frozenset[str] = frozenset()) -> Iterator[Any]:
    """The turns of a log. `listed` has the ids that the lists beside it give."""
    yield session
    for number, time, line, lines in _turns(source):
        fields, begin = _fields(lines)
        text = "\n".join(lines[begin:]).strip().removesuffix("---").strip()
        when = as_time(time)
        speaker = fields.get("speaker", "")
        if not text:
            source.cannot_read(line, f"turn {number} has no text")
            continue
        if not speaker:
            source.cannot_read(line, f"turn {number} has no speaker; imported without one")
        if time and when is None:
            source.cannot_read(line, f"turn {number}: {time[:40]!r} is not a time; imported with the time of the file")
        references = re.findall(r"[\w-]+", fields.get("memory-refs", ""))
        turn = {
            "content": text,
            "author": speaker or None,
            "role": _role(speaker) if speaker else None,
            "kind": fields.get("type") or None,
            "references": references or None,
        }
        yield IngestedMemory("conversation", turn, line, f"turn {number} {text}", when)
        yield from _stored(lines[begin:], line + 1 + begin, speaker, when, listed)


def _turns(source: Source) -> Iterator[tuple[int, str, int, list[str]]]:
    """Number, time, line and lines of each turn."""
    current: tuple[int, str, int, list[str]] | None = None
    in_code = False
    for line, text in enumerate(source.lines, 1):
        bare = _COMMENT.sub("", text).rstrip()
        matched = _TURN.match(bare)
        follows = source.lines[line] if line < len(source.lines) else ""
        if matched and (not in_code or _FIELD.match(follows)):
            if current:
                yield current
            current, in_code = (int(matched[1]), (matched[2] or "").strip(), line, []), False
            continue
        if _FENCE.match(text):
            in_code = not in_code
        if current:
            current[3].append(bare if not in_code else text)
        elif bare.strip() and bare.strip() != "---" and not bare.startswith("# ") and not _FIELD.match(bare):
            source.cannot_read(line, "text before the first turn")
    if current:
        yield current
    elif source.text.strip():
        source.cannot_read(1, "no turn: no heading '## Turn 1 - TIME'")


def _fields(lines: list[str]) -> tuple[dict[str, str], int]:
    """The fields at the beginning of a turn, and the number of their lines."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        matched = _FIELD.match(line)
        if matched is None or not matched[2].strip():
            return found, number
        found[matched[1].strip().lower().replace(" ", "-")] = matched[2].strip()
    return found, len(lines)


def _role(speaker: str) -> str:
    return _ROLES.get(re.split(r"[\W_]", speaker.lower())[0], "assistant")


def _stored(
    lines: list[str], line: int, speaker: str, when: str | None, listed: frozenset[str]
) -> Iterator[IngestedMemory]:
    """The memories that a turn says it stored."""
    is_below = False
    for number, text in enumerate(lines, line):
        matched = _STORED.match(text.strip())
        is_below = bool(_STORED_HEAD.match(text.strip())) or (is_below and (matched is not None or not text.strip()))
        type = PREFIXES.get(matched[2].partition("-")[0]) if matched and is_below else None
        if matched is None or type not in ("decision", "finding", "preference", "learning") or matched[2] in listed:
            continue
        content = _LABEL.sub("", matched[1], count=1)
        fields = {"id": matched[2], "author": speaker or None, type: content}
        yield IngestedMemory(type, fields, number, f"stored {matched[2]}", when)


# -- lists beside it


def read_list(source: Source, session: IngestedSession, type: str) -> Iterator[Any]:
    """The memories of a list such as decisions.yaml; an item that is no YAML costs only itself."""
    yield session
    kind = KINDS[type]
    for line, text in _list_items(source):
        try:
            item = load_value(text.encode("utf-8", "replace"))
        except ValueError as error:
            source.cannot_read(line, f"not YAML: {str(error).rstrip('.')}")
            continue
        item = item[0] if isinstance(item, list) and item else item
        fields = _list_fields(item, type) if isinstance(item, dict) else {}
        if not any(as_text(fields.get(field)) for group in kind.required for field in group):
            source.cannot_read(line, f"a {type} without {kind.text}")
            continue
        key = f"{type} {as_text(item.get('id')) or as_text(fields.get(kind.text))}"
        follows = "status" if type == "finding" else ""
        yield IngestedMemory(type, fields, line, key, as_time(item.get("timestamp")), follows)


def read_state(source: Source, session: IngestedSession) -> Iterator[Any]:
    """The state of one agent; it follows its file."""
    yield session
    try:
        value = load_value(source.text.encode("utf-8", "replace"))
    except ValueError as error:
        source.cannot_read(1, f"not YAML: {str(error).rstrip('.')}")
        return
    state = value.get("agent_state", value) if isinstance(value, dict) else None
    if not isinstance(state, dict) or not state:
        if source.text.strip():
            source.cannot_read(1, "no mapping agent_state")
        return
    agent = as_text(state.get("agent_id")) or os.path.basename(source.name).removesuffix(".yaml")
    known = {
        name: each for name, each in state.items() if name not in (*_NOT_KEPT, "agent_id", "session_id", "last_updated")
    }
    fields = {"agent": session_id(agent), "state": known}
    yield IngestedMemory("agent_state", fields, 1, f"state {agent}", as_time(state.get("last_updated")), "state")


def _list_items(source: Source) -> Iterator[tuple[int, str]]:
    """The items of the one list in a YAML file, each with its first line."""
    indent = next(
        (line[: len(line) - len(line.lstrip())] for line in source.lines if line.lstrip().startswith("- ")), None
    )
    if indent is None:
        if any(
            line.strip() and not line.rstrip().endswith((":", "[]", "---")) and not line.startswith("#")
            for line in source.lines
        ):
            source.cannot_read(1, "no list")
        return
    begun: list[str] = []
    first = 0
    for number, line in enumerate([*source.lines, f"{indent}- "], 1):
        if line.startswith(f"{indent}- "):
            if begun:
                yield first, "\n".join(begun)
            begun, first = [line[len(indent) :]], number
        elif begun:
            begun.append(line.removeprefix(indent))


def _list_fields(item: dict[str, Any], type: str) -> dict[str, Any]:
    fields = {name: value for name, value in item.items() if name not in _NOT_KEPT}
    if "tags" in fields:
        fields["tags"] = tags_of(fields["tags"])
    resolution = fields.get("resolution")
    if type == "finding" and "status" not in fields and isinstance(resolution, dict):
        fields["status"] = as_text(resolution.get("status")) or None
    return fields
