"""The file format of exports: sessions with their whole history in one file.

A file is a header and *items*, each with `id` and `seq` first: the metadata of a session (`type: session`), then its entries in
the order of writing, then the next session. All formats contain the same items:

    jsonl     one JSON object per line, each with its checksum
    json      one document, {"smp_export": 1, "memories": [ … ]}
    yaml      one list under `memories:`
    markdown  a heading per item, its text below it

Guarantees: `read(format, write(format, sessions))` gives equal sessions: metadata, entries, numbers. The metadata item
states the number of entries that follow and which session of how many it is, so that a truncated file is never taken for a
smaller one. Unreadable content is an `InvalidFormat` with the line. YAML is read without tags, anchors and code.
Non-guarantees: that the entries are consistent; `smp_memory.exchange.api` checks that.
"""

from __future__ import annotations

import json

from smp_memory.errors import FormatTooNew, InvalidFormat, InvalidRecord
from smp_memory.files.codec import EDITED, SIGNED, UNSIGNED, JsonLines, to_json
from smp_memory.files.entry_fields import FieldNames
from smp_memory.model import ids
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.times import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

    from smp_memory.files.codec import Codec, Fields
    from smp_memory.model.entry import Entry

FORMATS = ("json", "jsonl", "yaml", "markdown")
ENDINGS = {"json": "json", "jsonl": "jsonl", "yaml": "yaml", "yml": "yaml", "md": "markdown", "markdown": "markdown"}
VERSION = 1
_LARGEST_SEQ = 10**15
_SESSION_TYPE = "session"
_JSON_START, _JSON_END = b'{"smp_export":1,"memories":[', b"\n]}\n"
_PLAIN = FieldNames(time="created", names={}, writes_type=True, writes_session=True)
_READABLE = FieldNames(
    time="created",
    names={},
    text="text",
    writes_type=True,
    writes_session=True,
)
_KNOWN_FIELDS = frozenset(
    ("id", "type", "seq", "session_id", "created_at", "user_id", "agent_ids", "agents", "participants", "status", "metadata", "context", "config", "smp", "checksum")
)  # fmt: skip


class Exported:
    """One session in an export."""

    __slots__ = ("cold", "edited", "entries", "info", "line", "orphans")

    def __init__(self, info: SessionInfo, entries: list[Entry], line: int = 0) -> None:
        self.info = info
        self.entries = entries
        self.line = line
        self.edited = 0  # the number of items that were edited after the export
        # of a session that was read from a store
        self.cold: dict[str, tuple[str, str]] = {}  # when and why these memories were moved to cold storage
        self.orphans: list[str] = []  # memories of which there are changes, but no beginning; they are not in `entries`


# -- writing


def write(format: str, sessions: Iterable[Exported], count: int) -> Iterator[bytes]:
    """Yield the bytes of an export of `count` sessions."""
    names = _field_names(format)
    yield _HEADERS[format]
    encode = _encoder(format)
    for number, session in enumerate(sessions, 1):
        yield encode(_session_fields(session, number, count))
        for entry in session.entries:
            yield encode(names.encode(entry, session.info.id))
    if format == "json":
        yield _JSON_END


def _field_names(format: str) -> FieldNames:
    return _READABLE if format == "markdown" else _PLAIN


def codec_of(format: str) -> Codec:
    if format == "jsonl":
        return JsonLines()
    if format == "yaml":
        from smp_memory.files.yaml_list import YamlList

        return YamlList("memories")
    from smp_memory.files.markdown_blocks import MarkdownBlocks

    return MarkdownBlocks(label="Memory", id_prefix="", time_key="created", body_key="text")


_HEADERS = {
    "json": _JSON_START,
    "jsonl": b"",
    "yaml": b"# Memories. SMP format 1; `smp import` takes this file in.\nmemories:\n",
    "markdown": b"# Memories\n<!-- SMP format 1. Times are UTC. `smp import` takes this file in. -->\n\n---\n",
}


def _encoder(format: str) -> Any:
    if format != "json":
        return codec_of(format).encode
    separators = iter([b"\n"])
    return lambda fields: next(separators, b",\n") + to_json(fields).encode()


def _session_fields(session: Exported, number: int, count: int) -> Fields:
    info = session.info
    given: Fields = {
        "id": info.id,
        "seq": 0,
        "type": _SESSION_TYPE,
        "created": info.created_text,
        "smp_export": VERSION,
        "part": [number, count],
        "entries": len(session.entries),
        "user": info.user,
        "agents": list(info.agents),
        "project": info.project,
        "tags": list(info.tags),
        "context": info.context,
        "config": info.config,
        "status": info.status,
        "numbers": dict(info.numbers),
        "last_seq": info.seq,
        "other": info.other,
    }
    return {name: value for name, value in given.items() if value not in (None, [], {})}


# -- reading


def format_of(data: bytes, name: str) -> str:
    """Detect the format by the beginning of the data."""
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return "json" if b'"memories"' in start.partition(b"[")[0] else "jsonl"
    for line in start.splitlines():
        if line.startswith(b"## Memory "):
            return "markdown"
        if line.startswith(b"memories:"):
            return "yaml"
        if line.strip() and not line.startswith((b"#", b"<!--", b"---")):
            break
    raise InvalidFormat(f"{name} is not an export of SMP. Exports are JSON, JSONL, YAML or Markdown.", path=name)


def read(format: str, data: bytes, name: str) -> list[Exported]:
    """The sessions in an export; `name` is the name of the file in errors."""
    names = _field_names(format)
    sessions: list[Exported] = []
    announced: list[tuple[int, Any]] = []  # by session: the counts of sessions and entries that its metadata states
    for fields, state, line in _items(format, data, name):
        try:
            if fields.get("type") == _SESSION_TYPE:
                _check_count(sessions, announced)
                announced.append(_announced_counts(fields, len(sessions) + 1))
                sessions.append(Exported(_info(fields), [], line))
            elif not sessions:
                raise InvalidRecord("an export begins with the metadata of a session, which has the type session.")
            else:
                session = sessions[-1]
                last = session.entries[-1].seq if session.entries else 0
                session.entries.append(
                    _check_entry_complete(names.decode(fields, None, UNSIGNED, name, line, last + 1))
                )
                _check_follows(last, session.entries[-1].seq)
            sessions[-1].edited += state == EDITED
        except InvalidRecord as error:
            _reject(name, line, error.message)
    _check_complete(sessions, announced, name, data)
    return sessions


def _check_entry_complete(entry: Entry) -> Entry:
    if entry.lacks:
        raise InvalidRecord(f"{entry.lacks[0]}: missing; each entry of an export has one.", field=entry.lacks[0])
    return entry


def _check_follows(last: int, seq: int) -> None:
    if not last < seq < _LARGEST_SEQ:
        raise InvalidRecord(
            f"seq: {seq} does not follow {last}; an entry is duplicated or in the wrong place.", field="seq"
        )


def _items(format: str, data: bytes, name: str) -> Iterator[tuple[Fields, str, int]]:
    if format == "json":
        yield from _json_items(data, name)
        return
    for piece in codec_of(format).decode(data):
        if piece.fields is None:
            _reject(name, piece.line, f"{piece.message}.")
        yield piece.fields, piece.state, piece.line


def _json_items(data: bytes, name: str) -> Iterator[tuple[Fields, str, int]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _reject(name, data.count(b"\n", 0, error.start) + 1, "not valid UTF-8.")
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    try:
        document = decoder.decode(text)
    except json.JSONDecodeError as error:
        _reject(name, error.lineno, f"not valid JSON: {error.msg}.")
    except (ValueError, RecursionError) as error:
        _reject(name, 1, f"not valid JSON: {str(error)[:80]}.")
    items = document.get("memories") if isinstance(document, dict) else None
    if not isinstance(items, list):
        _reject(name, 1, 'expected {"smp_export": 1, "memories": [ … ]}.')
    lines = _lines_of_items(text, len(items))
    for item, line in zip(items, lines, strict=True):
        if not isinstance(item, dict):
            _reject(name, line, "expected an object with the fields of a memory.")
        yield item, SIGNED, line


def _lines_of_items(text: str, count: int) -> list[int]:
    """The line of each item of the list, for any layout of the document."""
    decoder = json.JSONDecoder()
    at = text.find("[", text.find('"memories"')) + 1
    line, counted, lines = 1, 0, []
    for _ in range(count):
        while text[at : at + 1] in " \t\r\n,":
            at += 1
        line += text.count("\n", counted, at)
        counted = at
        lines.append(line)
        try:
            at = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError):  # "memories" also occurs earlier in the document
            return [1] * count
    return lines


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("duplicate name in an object")
    return fields


# -- session metadata


def _announced_counts(fields: Fields, number: int) -> tuple[int, Any]:
    version = fields.get("smp_export")
    if type(version) is int and version > VERSION:
        raise FormatTooNew(
            f"This export has format {version}; this SMP knows {VERSION}. Install a newer one.",
            format=version,
            limit=VERSION,
        )
    if version != VERSION:
        raise InvalidRecord("smp_export: missing or wrong in the metadata of a session.", field="smp_export")
    part = fields.get("part")
    if not isinstance(part, list) or len(part) != 2 or part[0] != number or type(part[1]) is not int:
        raise InvalidRecord(f"part: expected session {number}, found {repr(part)[:80]}; one is missing.", field="part")
    if "entries" not in fields:  # always written; a file that was cut off may lack it
        raise InvalidRecord("entries: missing in the metadata of a session. The file was truncated.", field="entries")
    return part[1], fields["entries"]


def _check_count(sessions: list[Exported], announced: list[tuple[int, Any]]) -> None:
    if sessions and len(sessions[-1].entries) != announced[-1][1]:
        found = len(sessions[-1].entries)
        raise InvalidRecord(
            f"session {sessions[-1].info.id} should have {repr(announced[-1][1])[:20]} entries, found {found}.",
            field="entries",
        )


def _check_complete(sessions: list[Exported], announced: list[tuple[int, Any]], name: str, data: bytes) -> None:
    last = data.count(b"\n") + 1
    if not sessions:
        _reject(name, last, "it contains no session.")
    try:
        _check_count(sessions, announced)
    except InvalidRecord as error:
        _reject(name, last, f"{error.message} The file was truncated, or entries were removed.")
    if announced[-1][0] != len(sessions):
        _reject(name, last, f"{announced[-1][0]} sessions expected, found {len(sessions)}. The file was truncated.")


def _info(fields: Fields) -> SessionInfo:
    numbers = _typed_value(fields, "numbers", dict, {})
    other = {key: value for key, value in _typed_value(fields, "other", dict, {}).items() if key not in _KNOWN_FIELDS}
    return SessionInfo(
        ids.check(fields.get("id"), "id"),
        parse(fields.get("created"), "created"),
        user=_typed_value(fields, "user", str, None),
        agents=_texts(fields, "agents"),
        project=_typed_value(fields, "project", str, None),
        tags=_texts(fields, "tags"),
        context=_typed_value(fields, "context", dict, {}),
        config=_typed_value(fields, "config", dict, {}),
        status=_typed_value(fields, "status", str, "active"),
        numbers={key: number for key, number in numbers.items() if type(number) is int and 0 <= number < 10**9},
        seq=min(max(_typed_value(fields, "last_seq", int, 0), 0), 10**15),
        other=other,
    )


def _typed_value(fields: Fields, name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRecord(f"{name}: expected {kind.__name__}, found {repr(value)[:80]}.", field=name)
    return value


def _texts(fields: Fields, name: str) -> list[str]:
    found = _typed_value(fields, name, list, [])
    if not all(isinstance(each, str) for each in found):
        raise InvalidRecord(f"{name}: expected a list of texts.", field=name)
    return list(found)


def _reject(name: str, line: int, why: str) -> NoReturn:
    raise InvalidFormat(f"{name}:{line}: {why} Nothing was imported.", path=name, line=line)
