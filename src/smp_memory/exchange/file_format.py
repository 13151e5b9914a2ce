"""What are the bytes of an export? Sessions with their whole history, in one file that any store can take in.

A file is a header and *items*, each with `id` and `seq` first: the head of a session (`type: session`), then its entries
in the order in which they were written; then the next session. All formats hold the same items:

    jsonl     one JSON object per line, each with its checksum
    json      one document, {"smp_export": 1, "memories": [ … ]}
    yaml      one list under `memories:`
    markdown  a heading per item, its text below it

Guarantees: `read(format, write(format, sessions))` gives equal sessions: heads, entries, numbers. A head says how many
entries follow and which part of the whole it is, so that a file that was cut off is never taken for a smaller one. What
cannot be read is an `InvalidFormat` with the line. YAML is read without tags, anchors and code.
Non-guarantees: whether the entries make sense together; `smp_memory.exchange.api` looks at that.
"""

from __future__ import annotations

import json

from smp_memory.errors import FormatTooNew, InvalidFormat, InvalidRecord
from smp_memory.files.codec import EDITED, SIGNED, UNSIGNED
from smp_memory.files.field_names import FieldNames
from smp_memory.files.json_lines import JsonLines, to_json
from smp_memory.model import ids
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.times import parse
from smp_memory.model.types import KINDS

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
_HEAD_TYPE = "session"
_JSON_START, _JSON_END = b'{"smp_export":1,"memories":[', b"\n]}\n"
_PLAIN = FieldNames(time="created", names={}, writes_type=True, writes_session=True)
_READABLE = FieldNames(
    time="created",
    names={kind.name: {kind.text: "text"} for kind in KINDS.values()},
    writes_type=True,
    writes_session=True,
)
_NOT_OTHER = frozenset(
    ("id", "type", "seq", "session_id", "created_at", "user_id", "agent_ids", "agents", "participants", "status", "metadata", "context", "config", "smp", "checksum")
)  # fmt: skip


class Exported:
    """One session in an export."""

    __slots__ = ("edited", "entries", "info", "line")

    def __init__(self, info: SessionInfo, entries: list[Entry], line: int = 0) -> None:
        self.info = info
        self.entries = entries
        self.line = line
        self.edited = 0  # items that somebody changed after they were written


# -- writing


def write(format: str, sessions: Iterable[Exported], count: int) -> Iterator[bytes]:
    """The bytes of an export of so many sessions, piece by piece."""
    dialect = _dialect(format)
    yield _HEADERS[format]
    encode = _encoder(format)
    for number, session in enumerate(sessions, 1):
        yield encode(_head_fields(session, number, count))
        for entry in session.entries:
            yield encode(dialect.encode(entry, session.info.id))
    if format == "json":
        yield _JSON_END


def _dialect(format: str) -> FieldNames:
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


def _head_fields(session: Exported, number: int, count: int) -> Fields:
    info = session.info
    given: Fields = {
        "id": info.id,
        "seq": 0,
        "type": _HEAD_TYPE,
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
    """Which format it is, by how it begins."""
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
    """The sessions in an export; `name` is what it is called in errors."""
    dialect = _dialect(format)
    sessions: list[Exported] = []
    wanted: list[tuple[int, Any]] = []  # how many sessions and entries the last head announced
    for fields, state, line in _items(format, data, name):
        try:
            if fields.get("type") == _HEAD_TYPE:
                _check_count(sessions, wanted)
                wanted.append(_announced(fields, len(sessions) + 1))
                sessions.append(Exported(_info(fields), [], line))
            elif not sessions:
                raise InvalidRecord("an export begins with the head of a session, which has the type session.")
            else:
                session = sessions[-1]
                last = session.entries[-1].seq if session.entries else 0
                session.entries.append(_complete(dialect.decode(fields, None, UNSIGNED, name, line, last + 1)))
                _check_follows(last, session.entries[-1].seq)
            sessions[-1].edited += state == EDITED
        except InvalidRecord as error:
            _refuse(name, line, error.message)
    _check_whole(sessions, wanted, name, data)
    return sessions


def _complete(entry: Entry) -> Entry:
    if entry.lacks:
        raise InvalidRecord(f"{entry.lacks[0]}: missing; each entry of an export has one.", field=entry.lacks[0])
    return entry


def _check_follows(last: int, seq: int) -> None:
    if not last < seq < _LARGEST_SEQ:
        raise InvalidRecord(
            f"seq: {seq} does not follow {last}; an entry stands twice or in the wrong place.", field="seq"
        )


def _items(format: str, data: bytes, name: str) -> Iterator[tuple[Fields, str, int]]:
    if format == "json":
        yield from _json_items(data, name)
        return
    for piece in codec_of(format).decode(data):
        if piece.fields is None:
            _refuse(name, piece.line, f"{piece.message}.")
        yield piece.fields, piece.state, piece.line


def _json_items(data: bytes, name: str) -> Iterator[tuple[Fields, str, int]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(name, data.count(b"\n", 0, error.start) + 1, "not valid UTF-8.")
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    try:
        document = decoder.decode(text)
    except json.JSONDecodeError as error:
        _refuse(name, error.lineno, f"not valid JSON: {error.msg}.")
    except (ValueError, RecursionError) as error:
        _refuse(name, 1, f"not valid JSON: {str(error)[:80]}.")
    items = document.get("memories") if isinstance(document, dict) else None
    if not isinstance(items, list):
        _refuse(name, 1, 'expected {"smp_export": 1, "memories": [ … ]}.')
    lines = _lines_of_items(text, len(items))
    for item, line in zip(items, lines, strict=True):
        if not isinstance(item, dict):
            _refuse(name, line, "expected an object with the fields of a memory.")
        yield item, SIGNED, line


def _lines_of_items(text: str, count: int) -> list[int]:
    """Where each item of the list begins, however the document is laid out."""
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
        except (ValueError, RecursionError):  # "memories" stood in another place first
            return [1] * count
    return lines


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return fields


# -- heads


def _announced(fields: Fields, number: int) -> tuple[int, Any]:
    version = fields.get("smp_export")
    if type(version) is int and version > VERSION:
        raise FormatTooNew(
            f"This export has format {version}; this SMP knows {VERSION}. Install a newer one.",
            format=version,
            limit=VERSION,
        )
    if version != VERSION:
        raise InvalidRecord("smp_export: this head does not say that it is part of an export.", field="smp_export")
    part = fields.get("part")
    if not isinstance(part, list) or len(part) != 2 or part[0] != number or type(part[1]) is not int:
        raise InvalidRecord(f"part: expected session {number}, found {repr(part)[:80]}; one is missing.", field="part")
    return part[1], fields.get("entries", 0)


def _check_count(sessions: list[Exported], wanted: list[tuple[int, Any]]) -> None:
    if sessions and len(sessions[-1].entries) != wanted[-1][1]:
        found = len(sessions[-1].entries)
        raise InvalidRecord(
            f"session {sessions[-1].info.id} should have {repr(wanted[-1][1])[:20]} entries, {found} are here.",
            field="entries",
        )


def _check_whole(sessions: list[Exported], wanted: list[tuple[int, Any]], name: str, data: bytes) -> None:
    last = data.count(b"\n") + 1
    if not sessions:
        _refuse(name, last, "there is no session in it.")
    try:
        _check_count(sessions, wanted)
    except InvalidRecord as error:
        _refuse(name, last, f"{error.message} The file was cut off, or entries were taken out.")
    if wanted[-1][0] != len(sessions):
        _refuse(name, last, f"{wanted[-1][0]} sessions are announced, {len(sessions)} are here. The file was cut off.")


def _info(fields: Fields) -> SessionInfo:
    numbers = _taken(fields, "numbers", dict, {})
    other = {key: value for key, value in _taken(fields, "other", dict, {}).items() if key not in _NOT_OTHER}
    return SessionInfo(
        ids.check(fields.get("id"), "id"),
        parse(fields.get("created"), "created"),
        user=_taken(fields, "user", str, None),
        agents=_texts(fields, "agents"),
        project=_taken(fields, "project", str, None),
        tags=_texts(fields, "tags"),
        context=_taken(fields, "context", dict, {}),
        config=_taken(fields, "config", dict, {}),
        status=_taken(fields, "status", str, "active"),
        numbers={key: number for key, number in numbers.items() if type(number) is int and 0 <= number < 10**9},
        seq=min(max(_taken(fields, "last_seq", int, 0), 0), 10**15),
        other=other,
    )


def _taken(fields: Fields, name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRecord(f"{name}: expected {kind.__name__}, found {repr(value)[:80]}.", field=name)
    return value


def _texts(fields: Fields, name: str) -> list[str]:
    found = _taken(fields, name, list, [])
    if not all(isinstance(each, str) for each in found):
        raise InvalidRecord(f"{name}: expected a list of texts.", field=name)
    return list(found)


def _refuse(name: str, line: int, why: str) -> NoReturn:
    raise InvalidFormat(f"{name}:{line}: {why} Nothing was imported.", path=name, line=line)
