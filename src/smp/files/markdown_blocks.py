"""What are the bytes? A Markdown file of blocks under headings, such as conversation.md.

    # Conversation
    <!-- SMP format 1. Times are UTC. You may edit, add or remove turns; a turn ends before the next "## Turn" line. -->

    ---

    ## Turn 1 - 2026-01-11 14:30:00
    **Id:** TURN-0001
    **Seq:** 1
    **Speaker:** user
    **Memory-Refs:** [DEC-0001, FIND-0002]

    Let's review the authentication requirements.

    <!-- end TURN-0001 sha256:0123456789abcdef -->

    ---

An entry is a blank line, the heading, `**Key:** value` lines (`memory_refs` <-> `Memory-Refs`; `Id` first and `Seq`
second where given), a blank line, the body, a blank line, the end comment, a blank line and `---`. The end comment
signs the bytes from the heading up to itself. The heading's time is the entry's own unless a word (changed, deleted,
restored) stands before it. Three lines are ours and no fields; fields of those names, with names that are not
snake_case, or of the body's name but without text go into Extra:
    **Extra:** {"odd key": 1}       all such fields, as JSON
    **Encoding:** json              the body is one JSON string, because it holds CR, controls or odd line breaks
    **Body:** none                  there is no body (`text`: there is one, but not a single field)

Values: text stands plain unless it could be read as something else, lists of words as `[a, b]`, all else as JSON.
Body: as it is, but a line that looks like structure (after any number of backslashes) has one backslash more:
`## Turn `, `<!-- end `, `---` alone, and git's conflict markers.

Guarantees: those of `codec`, for fields with `id` and `seq`: cut at any byte, such an entry is TORN or leaves no trace.
A hand-written block needs no more than its heading; its id follows from the number there. An entry of ours that lost
its end comment is EDITED, and TORN only at the end of a file. If no more than two bytes of the end comment were changed
it is EDITED also there: it was once complete.
Non-guarantees: without `id` and `seq` a cut entry cannot be told from a hand-written one.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from smp.files.codec import DAMAGED, EDITED, SIGNED, TORN, UNSIGNED, Fields, Piece, signature
from smp.files.yaml_list import is_cut_after, nearly_equal, read_both_sides

_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)Z")
_SHOWN_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}(:[0-9]{2}(?:\.[0-9]{1,6})?)?)(?: ?UTC|Z)?")
_NUMBERED_ID = re.compile(r"[A-Za-z]+-0*([0-9]+)")
_SIMPLE_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NO_ID, _NO_TIME = "?", "undated"

_META_LINE = re.compile(r"\*\*([A-Za-z][A-Za-z0-9 _-]*):\*\*[ \t]*(.*)")
_END = re.compile(rb"<!-- end (\S+) (sha256:[0-9a-f]{16}) -->[ \t]*\r?(?:\n|\Z)")
_RULE = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
_ENTRY_TAIL = b"\n---\n"

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_OWN_LINES = frozenset(("extra", "encoding", "body"))
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"  # but TAB and LF
_UNSAFE_IN_BODY = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINE = re.compile(f"[{_UNSAFE}\t\n]")
_JSON_WORDS = frozenset(("true", "false", "null"))
_JSON_FIRST = '[{"-0123456789'
_WORD = re.compile(r"[^\W\d][\w.:/@+-]*")


class MarkdownBlocks:
    """Codec of a Markdown file whose entries stand under headings `## {label} {number} - {time}`."""

    def __init__(
        self, label: str, id_prefix: str, time_key: str = "timestamp", body_key: str = "content"
    ) -> None:
        self._label = label
        self._id_prefix = id_prefix
        self._time_key = time_key
        self._body_key = body_key
        self._heading_start = f"## {label} ".encode()
        name = re.escape(label)
        self._heading = re.compile(
            rf"## {name} (?:([0-9]+)|(\S+)(?=.* - ))( changed| deleted| restored)?(?: - (.*?))?[ \t]*\r?(?:\n|\Z)"
        )
        structural = rf"\\*(?:## {name} |<!-- end |---[ \t]*$|([<|>])\1{{6}}(?: |$)|={{7}}[ \t]*$)"
        self._to_escape = re.compile(f"^(?={structural})", re.MULTILINE)
        self._escaped = re.compile(rf"^\\(?={structural})", re.MULTILINE)

    def header(self, title: str) -> bytes:
        title, word = " ".join(title.split()), self._label.lower()
        return (
            f"# {title}\n<!-- SMP format 1. Times are UTC. You may edit, add or remove {word}s; "
            f'a {word} ends before the next "## {self._label}" line. -->\n\n---\n'
        ).encode()

    # --------------------------------------------------------------------------------------------------- writing
    def encode(self, fields: Fields) -> bytes:
        lines = [self._heading_line(fields)]
        extra: Fields = {}
        body = fields.get(self._body_key)
        for key, value in _in_order(fields).items():
            title = _title(key)
            if key == self._body_key:
                if not isinstance(value, str):
                    extra[key] = value
            elif title is None:
                extra[key] = value
            elif key != self._time_key or not _is_time(value):
                lines.append(f"**{title}:** {_value_text(value)}")
        if extra:
            lines.append(f"**Extra:** {_json(extra)}")
        block = "\n".join(lines + self._body_lines(body, len(lines) > 1)).encode()
        return b"\n%b%b\n---\n" % (block, _end_comment(fields.get("id"), block))

    def _heading_line(self, fields: Fields) -> str:
        number = _shown_id(fields.get("id"))
        for key, word in ((self._time_key, ""), ("deleted", " deleted"), ("restored", " restored"), ("updated", " changed")):
            if key in fields:
                time = fields[key]
                shown = f"{time[:10]} {time[11:-1]}" if _is_time(time) else _NO_TIME
                return f"## {self._label} {number}{word} - {shown}"
        return f"## {self._label} {number} - {_NO_TIME}"

    def _body_lines(self, body: Any, has_fields: bool) -> list[str]:
        """Everything between the fields and the end comment; the last line is empty, so that a newline ends it."""
        if not isinstance(body, str):
            return ["**Body:** none", "", ""]
        lines = [] if has_fields else ["**Body:** text"]
        if _UNSAFE_IN_BODY.search(body):
            return [*lines, "**Encoding:** json", "", _json(body), "", ""]
        return [*lines, "", self._to_escape.sub(r"\\", body), "", ""]

    # --------------------------------------------------------------------------------------------------- reading
    def decode(self, data: bytes, offset: int = 0, line: int = 1) -> list[Piece]:
        return read_both_sides(data, offset, line, self._read, lone_divider=False)

    def boundary(self, data: bytes) -> int:
        at = data.find(b"\n" + self._heading_start)
        while at >= 0 and not self._is_heading(data, at + 1):
            at = data.find(b"\n" + self._heading_start, at + 1)
        return at + 1 if at >= 0 else -1

    def _read(self, data: bytes, at_file_start: bool) -> list[Piece]:
        limit = self._cut_heading(data)
        starts = self._heading_positions(data, limit)
        rule = _RULE.search(data, 0, starts[0] if starts else limit) if at_file_start else None
        done = rule.end() if rule else (starts[0] if starts else limit) if at_file_start else 0
        pieces: list[Piece] = []
        for start, stop in zip(starts, [*starts[1:], limit], strict=True):
            pieces.extend(_stray(data, done, start))
            pieces.append(self._block(data, start, stop, is_last=stop == limit))
            done = pieces[-1].end if pieces[-1].state in (SIGNED, EDITED) else stop
        pieces.extend(_stray(data, done, limit))
        if limit < len(data):
            start = pieces.pop().start if pieces and pieces[-1].state == TORN else limit
            pieces.append(Piece(start, len(data), 0, TORN, None, "the write of this entry was cut off"))
        return pieces

    def _cut_heading(self, data: bytes) -> int:
        """Where the last line starts if it is an unfinished heading, else the end of the data."""
        start = data.rfind(b"\n") + 1
        last = data[start : start + len(self._heading_start)]
        return start if last and self._heading_start.startswith(last) else len(data)

    def _heading_positions(self, data: bytes, limit: int) -> list[int]:
        mark = b"\n" + self._heading_start
        positions = [0] if self._is_heading(data, 0) and limit else []
        at = data.find(mark, 0, limit)
        while at >= 0:
            if self._is_heading(data, at + 1):
                positions.append(at + 1)
            at = data.find(mark, at + 1, limit)
        return positions

    def _is_heading(self, data: bytes, at: int) -> bool:
        if not data.startswith(self._heading_start, at):
            return False
        end = data.find(b"\n", at)
        line = data[at : end if end >= 0 else len(data)]
        return self._heading.fullmatch(line.decode(errors="replace")) is not None

    def _block(self, data: bytes, start: int, stop: int, is_last: bool) -> Piece:
        end = _find_end(data, start, stop)
        if end is not None:
            raw = data[start : end.start()]
            piece = self._entry(raw, start, end.end(), True)
            if signature(raw) != end[2].decode() or _named(piece) != end[1]:
                _mark_edited(piece, "changed since it was signed")
            return piece
        raw = data[start:stop]
        closed = self._body_before_damaged_end(raw)
        if closed is not None:
            piece = self._entry(closed, start, start + len(raw.rstrip()), True)
            _mark_edited(piece, "its end comment is damaged")
            return piece
        rest = raw.replace(b"\r\n", b"\n").partition(b"\n")[2]
        ours = rest.startswith(b"**Id:** ") and rest.partition(b"\n")[2].startswith(b"**Seq:**")
        if is_last and (ours or is_cut_after(rest, b"**Id:** ", b"**Seq:**")):
            return Piece(start, stop, 0, TORN, None, "the write of this entry was cut off")
        piece = self._entry(raw, start, start + len(raw.rstrip()), False)
        if piece.state == SIGNED:
            piece.state, piece.message = (EDITED, "its end comment is gone") if ours else (UNSIGNED, "")
        return piece

    def _body_before_damaged_end(self, raw: bytes) -> bytes | None:
        raw = raw.rstrip(b"\n") + b"\n"
        raw = raw.removesuffix(_ENTRY_TAIL)
        named = re.search(rb"^\*\*Id:\*\* ([A-Za-z0-9_.-]{1,100})$", raw[:1000], re.MULTILINE)
        identity = named[1].decode() if named else None
        length = len(_end_comment(identity, b"")) + 1
        body = raw[:-length] + b"\n"
        return body if nearly_equal(raw[-length:], b"\n" + _end_comment(identity, body)) else None

    def _entry(self, raw: bytes, start: int, end: int, is_closed: bool) -> Piece:
        """The fields of a block, as if it were signed; the caller knows whether it is."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return Piece(start, end, 0, DAMAGED, None, "not valid UTF-8")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        heading, _, rest = text.partition("\n")
        fields = self._heading_fields(heading)
        lines, body = _split_meta(rest)
        for title, value in lines:
            _take_field(fields, title, value)
        marks = {title: value for title, value in lines if title in ("Body", "Encoding")}
        body = _without_frame(body, is_closed)
        if body or marks.get("Body") != "none":
            fields[self._body_key] = self._body_text(body, marks.get("Encoding") == "json")
        return Piece(start, end, 0, SIGNED, fields)

    def _heading_fields(self, heading: str) -> Fields:
        """Id and time as the heading gives them; lines below it overrule them."""
        found = self._heading.match(heading)
        if found is None:
            return {}
        number, name, word, shown = found.groups()
        fields: Fields = {}
        if name != _NO_ID:
            fields["id"] = f"{self._id_prefix}-{number:0>4}" if number else name
        if shown and not word and shown != _NO_TIME:
            time = _SHOWN_TIME.fullmatch(shown)
            fields[self._time_key] = f"{time[1]}T{time[2]}{'' if time[3] else ':00'}Z" if time else shown
        return fields

    def _body_text(self, body: str, is_json: bool) -> str:
        if is_json:
            decoded = _value(body)
            return decoded if isinstance(decoded, str) else body
        return self._escaped.sub("", body) if "\\" in body else body


# ------------------------------------------------------------------------------------------------------ one block
def _in_order(fields: Fields) -> Fields:
    """`id` and `seq` first: the mark by which a cut entry is known as ours."""
    first: Fields = {key: fields[key] for key in ("id", "seq") if key in fields}
    return first | fields


def _shown_id(identity: Any) -> str:
    if not isinstance(identity, str) or not _SIMPLE_ID.fullmatch(identity):
        return _NO_ID
    numbered = _NUMBERED_ID.fullmatch(identity)
    return numbered[1] if numbered else identity


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def _end_comment(identity: Any, block: bytes) -> bytes:
    name = identity if isinstance(identity, str) and _SIMPLE_ID.fullmatch(identity) else _NO_ID
    return b"<!-- end %b %b -->\n" % (name.encode(), signature(block).encode())


def _named(piece: Piece) -> bytes:
    identity = piece.fields.get("id") if piece.fields else None
    return identity.encode() if isinstance(identity, str) and _SIMPLE_ID.fullmatch(identity) else _NO_ID.encode()


def _mark_edited(piece: Piece, message: str) -> None:
    if piece.state == SIGNED:
        piece.state, piece.message = EDITED, message


def _find_end(data: bytes, start: int, stop: int) -> re.Match[bytes] | None:
    at = data.find(b"\n<!-- end ", start, stop)
    while at >= 0:
        found = _END.match(data, at + 1)
        if found:
            return found
        at = data.find(b"\n<!-- end ", at + 1, stop)
    return None


def _stray(data: bytes, start: int, end: int) -> list[Piece]:
    """What is neither blank nor a rule between blocks. Rules may be cut short: `-` and `--` are such."""
    text = data[start:end].strip(b" \t\r\n-")
    if not text:
        return []
    first = data.rfind(b"\n", start, data.find(text, start)) + 1 or start
    return [Piece(max(first, start), start + len(data[start:end].rstrip()), 0, DAMAGED, None, "stray text, not part of an entry")]


def _split_meta(rest: str) -> tuple[list[tuple[str, str]], str]:
    """The `**Key:** value` lines right below a heading, and the text after the blank line that ends them."""
    if rest.startswith("\n"):
        rest = rest[1:]
        if not _META_LINE.match(rest):
            return [], rest
    meta, blank, body = rest.partition("\n\n")
    lines: list[tuple[str, str]] = []
    texts = meta.split("\n")
    for text in texts:
        found = _META_LINE.fullmatch(text)
        if found is None:
            remaining = "\n".join(texts[len(lines) :])
            return lines, remaining + blank + body if remaining.strip() else remaining[1:] + body
        lines.append((found[1], found[2].rstrip(" \t")))
    return lines, body


def _without_frame(body: str, is_closed: bool) -> str:
    """The body without the blank line and newline that `encode` puts after it, or without what people put there."""
    if is_closed:
        return body[:-2] if body.endswith("\n\n") else body.removesuffix("\n")
    body = body.strip("\n").rstrip()
    head, newline, last = body.rpartition("\n")
    return head.rstrip() if last == "---" and (newline or not head) else body


def _take_field(fields: Fields, title: str, text: str) -> None:
    key = _key(title)
    value = _value(text)
    if key == "extra" and isinstance(value, dict):
        fields.update(value)
    elif (key, text) not in (("body", "none"), ("body", "text"), ("encoding", "json")):
        fields[key] = value


# ---------------------------------------------------------------------------------------------- names and values
@functools.lru_cache(maxsize=1024)
def _title(key: str) -> str | None:
    """`memory_refs` -> `Memory-Refs`; None for a name that would not come back, or that is one of our own lines."""
    if len(key) > 100 or not _SNAKE_CASE.fullmatch(key) or key in _OWN_LINES:
        return None
    return "-".join([word.capitalize() for word in key.split("_")])


@functools.lru_cache(maxsize=1024)
def _key(title: str) -> str:
    return title.lower().replace("-", "_").replace(" ", "_")


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        if value and value not in _JSON_WORDS and value == value.strip() and not _UNSAFE_IN_LINE.search(value):
            if value[0] not in _JSON_FIRST or _TIME.fullmatch(value):
                return value
    elif isinstance(value, list) and value:
        if all([isinstance(word, str) and _WORD.fullmatch(word) and word not in _JSON_WORDS for word in value]):
            return f"[{', '.join(value)}]"
    return _json(value)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE_IN_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _value(text: str) -> Any:
    """What a value's text means; what is not JSON, nor a list of words, is the text itself."""
    if text and text[0] not in _JSON_FIRST and text not in _JSON_WORDS:
        return text
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        words = [word.strip() for word in text[1:-1].split(",")]
        if all(words):
            return words
    return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
