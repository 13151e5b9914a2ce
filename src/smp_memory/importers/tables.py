"""Read any JSON lines or CSV with a map from SMP's fields to the columns of the file.

    smp import --from csv chats.csv --map content=text,created=ts,role=speaker,session=thread

`content` is the text of a memory; `type` its type, `created` its time, `session` the session that it belongs to. Without a map, columns are
recognised by usual names (text, message, timestamp, speaker, thread, …). A row with a role is a turn, any other a learning, unless `type` says
otherwise. In JSON lines, `message.text` names a field inside of another. Columns without a place in the map are kept below `columns`.

Guarantees: a row that cannot be read or has no content is reported with its line and costs only itself; a column of the map that the file does
not have is reported. Rows are streamed; up to `_BUFFERED` are held to bring those of one session together. Two equal rows are two memories.
"""

from __future__ import annotations

import csv
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, UserError
from smp_memory.importers.source import ImportFile, IngestedMemory, IngestedSession, Source
from smp_memory.importers.values import as_text, as_time, session_id, tags_of
from smp_memory.model.ids import sha256_hex
from smp_memory.model.types import KINDS, ROLES, kind_of
from smp_memory.write.content_blocks import turn_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from smp_memory.importers.registry import Found, ImportOptions, Places

    Row = tuple[int, dict[str, Any]]

USUAL = {  # the columns that are recognised without a map, the first that exists
    "content": ("content", "text", "message", "body", "memory", "note", "value"),
    "created": ("created", "created_at", "timestamp", "ts", "time", "date", "datetime"),
    "role": ("role", "speaker", "sender", "from"),
    "author": ("author", "agent", "name"),
    "type": ("type", "kind"),
    "session": ("session", "session_id", "thread", "thread_id", "conversation", "conversation_id", "chat_id"),
    "topic": ("topic", "subject"),
    "tags": ("tags", "labels"),
}
FIELDS = (*USUAL, "category", "status", "severity", "rationale", "confidence", "title", "project", "user")
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "function": "tool",
}
_PLAIN = ("topic", "category", "status", "severity", "rationale", "author")
_BUFFERED = 50_000  # rows
_MOST_REPORTS = 100
_MOST_CHARACTERS = 16 << 20  # of a cell


def found(places: Places) -> list[Found]:
    return []  # a table may be anywhere


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    if path is None or not os.path.isfile(path):
        raise UserError(f"{path or 'PATH'} is not a file.", path=path)
    given = parse_map(options.settings.get("map", ""))
    ending = os.path.splitext(path)[1].lower()
    read = read_csv if ending in (".csv", ".tsv", ".txt") else read_json if ending == ".json" else read_jsonl
    return [ImportFile(path, os.path.basename(path), partial(read, given=given), "table")]


def parse_map(text: str) -> dict[str, str]:
    """`content=text,created=ts` as columns by field; a wrong field is an error that names all."""
    found: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column:
            raise UserError(f"--map: {pair!r} is not FIELD=COLUMN, such as content=text.", field="map")
        if field not in FIELDS:
            raise UserError(f"--map: {field} is not a field. Use: {', '.join(FIELDS)}.", field="map")
        if field in found:
            raise UserError(f"--map: {field} is given twice.", field="map")
        found[field] = column
    return found


# -- rows


def read_jsonl(source: Source, given: Mapping[str, str]) -> Iterator[IngestedSession | IngestedMemory]:
    return _memories(source, source.json_lines(), given)


def read_json(source: Source, given: Mapping[str, str]) -> Iterator[IngestedSession | IngestedMemory]:
    """A list of objects, or an object with one list of objects, in one file."""
    value = source.json_value()
    if isinstance(value, dict):
        value = next((each for each in value.values() if isinstance(each, list)), [value])
    rows = value if isinstance(value, list) else []
    if not rows and not source.unread:
        source.cannot_read(1, "no list of objects")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            source.cannot_read(number, f"item {number}: not an object")
    listed = ((number, row) for number, row in enumerate(rows, 1) if isinstance(row, dict))
    return _memories(source, listed, given)


def read_csv(source: Source, given: Mapping[str, str]) -> Iterator[IngestedSession | IngestedMemory]:
    return _memories(source, _csv_rows(source), given)


def _csv_rows(source: Source) -> Iterator[Row]:
    lines = _TextLines(source)
    header = next(lines, "")
    separator = max(",;\t|", key=header.count)
    names, why = _next_cells(csv.reader([header], delimiter=separator))
    if names is None or not any(name.strip() for name in names):
        source.cannot_read(1, f"no header with the names of columns{why and ': '}{why}")
        return
    reader = csv.reader(lines, delimiter=separator)
    while True:
        line = lines.begin_row()
        cells, why = _next_cells(reader)
        if why:
            source.cannot_read(line, f"not a row: {why}")
            lines.end_row()
        if cells is None:
            return
        if len(cells) > len(names):
            source.cannot_read(line, f"{len(cells)} cells, but {len(names)} columns; the others were left out")
        if any(cell.strip() for cell in cells):
            yield line, dict(zip((name.strip() for name in names), cells, strict=False))


def _next_cells(reader: Iterator[list[str]]) -> tuple[list[str] | None, str]:
    """The next row, None at the end; and why it cannot be read. The limit of a cell holds for the whole process, so it is put back."""
    before = csv.field_size_limit(_MOST_CHARACTERS)
    try:
        return next(reader, None), ""
    except csv.Error as error:
        return [], str(error)
    finally:
        csv.field_size_limit(before)


class _TextLines:
    """The lines of a table, and whether a quoted cell goes on behind the last one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines = source.raw_lines()
        self._number = 0
        self._is_quoted = self._is_reported = False

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        self._number, line = next(self._lines)
        text = line.decode("utf-8-sig" if self._number == 1 else "utf-8", "replace")
        if "\ufffd" in text and not self._is_reported and b"\xef\xbf\xbd" not in line:
            self._is_reported = True
            self._source.cannot_read(self._number, "not UTF-8; unreadable characters are replaced, here and below")
        self._is_quoted ^= text.count('"') % 2 == 1
        return text

    def begin_row(self) -> int:
        """The number of the line on which the next row begins."""
        self._is_quoted = False
        return self._number + 1

    def end_row(self) -> None:
        """Skip the rest of a row that was not read to its end."""
        while self._is_quoted and next(self, None) is not None:
            pass


# -- memories


class _Columns:
    """Which column has which field, and the fields that were looked for in vain."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self.missing = set(given)

    def take(self, row: dict[str, Any], field: str) -> tuple[Any, str]:
        """The value of a field and the column that had it."""
        names = (self._given[field],) if field in self._given else USUAL.get(field, ())
        for name in names:
            value = row.get(name) if name in row else _inside(row, name)
            if value is not None and value != "":
                self.missing.discard(field)
                return value, name
            if name in row:
                self.missing.discard(field)
        return None, ""

    def column(self, field: str) -> str:
        return self._given[field]


def _inside(row: Any, name: str) -> Any:
    for part in name.split(".") if "." in name else ():
        row = row.get(part) if isinstance(row, dict) else None
    return row if "." in name else None


def _memories(
    source: Source, rows: Iterable[Row], given: Mapping[str, str]
) -> Iterator[IngestedSession | IngestedMemory]:
    columns = _Columns(given)
    counts: dict[str, int] = {}
    buffered: dict[str, list[Any]] = {}
    held = reports = total = 0
    for line, row in rows:
        total += 1
        session, memory, problem = _memory(row, line, columns, counts)
        if problem:
            reports += 1
            if reports <= _MOST_REPORTS:
                source.cannot_read(line, problem)
        if memory is not None:
            buffered.setdefault(session.id, [session]).append(memory)
            held += 1
        if held >= _BUFFERED:
            yield from _released(buffered)
            held = 0
    yield from _released(buffered)
    if reports > _MOST_REPORTS:
        source.cannot_read(1, f"{reports - _MOST_REPORTS:,} more rows could not be read")
    for field in sorted(columns.missing) if total else ():
        source.cannot_read(1, f"no row has the column {columns.column(field)} ({field} in --map)")


def _released(buffered: dict[str, list[Any]]) -> Iterator[IngestedSession | IngestedMemory]:
    """What is held, session by session."""
    for each in buffered.values():
        yield from each
    buffered.clear()


def _memory(
    row: dict[str, Any], line: int, columns: _Columns, counts: dict[str, int]
) -> tuple[IngestedSession, IngestedMemory | None, str]:
    """The session and the memory of a row, and what is wrong with it."""
    values: dict[str, Any] = {}
    used: set[str] = set()
    for field in FIELDS:
        values[field], name = columns.take(row, field)
        used.add(name)
    session = _session(values)
    text, parts = _content(values["content"])
    if not text:
        return session, None, f"no content; the columns are: {', '.join(map(str, list(row)[:20]))}"
    when = as_time(values["created"])
    problem = ""
    if when is None and values["created"] is not None:
        problem = f"created: {as_text(values['created'])[:40]!r} is not a time; the time of the file is used"
    type, fields = _typed(text, values)
    rest = row
    for name in used:
        rest = _without(rest, [name] if name in row else name.split("."))
    fields |= {"tags": tags_of(values["tags"]), "columns": rest or None, "parts": parts}
    digest = sha256_hex(f"{session.id}\0{type}\0{when}\0{text}".encode("utf-8", "surrogatepass"))[:32]
    counts[digest] = nth = counts.get(digest, 0) + 1
    return session, IngestedMemory(type, fields, line, f"row {digest} {nth}", when), problem


def _without(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A row without the column of this name, inside of others if there are several names, and without empty columns."""
    left = {}
    for name, value in row.items():
        if name != names[0]:
            left[str(name)] = value
        elif len(names) > 1:
            left[str(name)] = _without(value, names[1:]) if isinstance(value, dict) else value
    return {name: value for name, value in left.items() if value not in ("", None, {})}


def _session(values: dict[str, Any]) -> IngestedSession:
    """The session of a row; an empty id is the session of the importer."""
    name = as_text(values["session"])
    title, project, user = (as_text(values[field]) for field in ("title", "project", "user"))
    return IngestedSession(
        session_id(name) if name else "",
        title or (name if session_id(name) != name else ""),
        project,
        user=user or None,
    )


def _typed(text: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type of a memory and its fields: what `type` says, else a turn if there is a role, else a learning."""
    given, role = as_text(values["type"]), as_text(values["role"]).lower()
    fields: dict[str, Any] = {field: as_text(values[field]) or None for field in _PLAIN}
    fields["confidence"] = _confidence(values["confidence"])
    try:
        type = kind_of(given).name if given else "conversation" if role else "learning"
    except InvalidRecord:
        type = "conversation" if role else "learning"
        fields["kind" if type == "conversation" else "category"] = given
    if KINDS[type].is_named_by_agent:
        type = "learning"
    if type == "conversation" and role:
        known = _ROLES.get(role, role)
        fields["role"] = known if known in ROLES else "assistant"
        fields["author"] = fields["author"] or role
    fields[KINDS[type].text] = text
    return type, fields


def _confidence(value: Any) -> Any:
    """A number as a number, also if it is written as text; else the word."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return as_text(value) or None


def _content(value: Any) -> tuple[str, Any]:
    """The text of a value and, of content blocks as message formats have them, their structured parts."""
    if isinstance(value, list):
        try:
            fields = turn_fields({"content": value})
            return as_text(fields.get("content")), fields.get("parts")
        except InvalidRecord:
            pass
    return as_text(value), None
