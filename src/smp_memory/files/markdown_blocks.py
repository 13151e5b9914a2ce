"""Codec of a Markdown file of blocks under headings, such as conversation.md.

    # Conversation
    <!-- SMP format 1. Times are UTC. You may edit, add or remove turns; a turn ends before the next "## Turn" line. -->

    ---

    ## Turn 1 - 2026-01-11 14:30:00 <!-- 1 -->
    **Speaker:** user
    **Memory-Refs:** [DEC-0001, FIND-0002]

    Let's review the authentication requirements.

    <!-- end TURN-0001 seq=1 uid=khmedagg sha256:0123456789abcdef -->

    ---

An entry is a blank line, the heading, `**Key:** value` lines (`memory_refs` <-> `Memory-Refs`), a blank line, the body, a
blank line, the end comment, a blank line and `---`. The end comment holds what only SMP needs (the machine line, `text_fields`) and signs
the bytes from the heading up to the signature. The heading gives the id (`**Id:**` follows it only if the id is another
one) and the entry's time, unless a word (changed, deleted, restored) precedes it. The comment after it is the *begin
mark*: the entry's number. It distinguishes an unfinished write from a hand-written block in the same way as in `yaml_list`.
Three lines are special and not fields; fields of those names, with names that are not snake_case, or of the body's name but
without text go into Extra:
    **Extra:** {"odd key": 1}       all such fields, as JSON
    **Encoding:** json              the body is one JSON string, because it holds CR, controls or odd line breaks
    **Body:** none                  there is no body (`text`: there is one, but not a single field)

Values: text is plain unless it could be read as something else, lists of words are `[a, b]`, all else is JSON.
Body: unchanged, but a line that looks like structure (after any number of backslashes) gets one backslash more:
`## Turn `, `<!-- end `, `---` alone, and git's conflict markers.

Guarantees: those of `codec`, for fields with a `seq` that is larger than those before it: cut at any byte, such an entry
is TORN or leaves no trace. A hand-written block needs only its heading; its id follows from the number there. An
entry of SMP that lost its end comment is EDITED, and TORN only at the end of a file. If its end comment was damaged but
once complete, it is EDITED also there.
Non-guarantees: without `seq` a cut entry cannot be distinguished from a hand-written one. A heading in a last line without a line
end counts as cut.
"""

from __future__ import annotations

import json
import re
from typing import Any

from smp_memory.files.codec import (
    DAMAGED,
    EDITED,
    NOT_KNOWN,
    SIGNED,
    TORN,
    UNSIGNED,
    Fields,
    Piece,
    signature,
    was_complete,
    widen_span,
)
from smp_memory.files.conflict_markers import decode_both_sides
from smp_memory.files.text_fields import (
    HIGH,
    SPECIAL_LINES,
    TIME,
    TITLE_LIMIT,
    highest_seq,
    join_machine_line,
    key_of,
    mixed_entries,
    split_cut_closing,
    split_damaged_closing,
    split_machine_line,
    title_of,
    to_json,
    value_of,
    value_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Stored

_HEADING_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}(:[0-9]{2}(?:\.[0-9]{1,6})?)?)( ?UTC|Z)?"
)
_NUMBERED_ID = re.compile(r"[A-Za-z]+-0*([0-9]+)")
_SIMPLE_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NO_ID, _NO_TIME = "?", "undated"
_CHANGES = (("deleted", " deleted"), ("restored", " restored"), ("updated", " changed"))
_CUT_OFF = "the write of this entry was cut off"

_END = re.compile(rb"<!-- end (\S+) ((?:[^\n]* )?)(sha256:[0-9a-f]{16}) -->[ \t]*\r?(?:\n|\Z)")
_BEGIN_MARK = re.compile(rb" <!-- ([0-9]{1,15}) -->[ \t]*\r?\Z")
_AFTER_MARK = re.compile(rb" <!-- [0-9]{1,15} -->[ \t]*([^ \t\r\n][^\n]*)\Z")
_END_START, _END_STOP = b"<!-- end ", b" -->\n"
_RULE = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
ABOUT = b"<!-- SMP format "
_ENTRY_TAIL = b"\n---\n"

_NOT_IN_BODY = re.compile(f"[\x00-\x08\x0b-\x1f{HIGH}]")


class MarkdownBlocks:
    """Codec of a Markdown file whose entries follow headings `## {label} {number} - {time}`."""

    def __init__(self, label: str, id_prefix: str, time_key: str = "timestamp", body_key: str = "content") -> None:
        self._label = label
        self._id_prefix = id_prefix
        self._time_key = time_key
        self._body_key = body_key
        self._heading_start = f"## {label} ".encode()
        name = re.escape(label)
        words = "|".join([word for _, word in _CHANGES])
        self._heading = re.compile(
            rf"## {name}(?: (?:([0-9]+)|(\S+)(?=(?:{words})? - ))({words})?)?(?: - ([^\n]*)|[ \t]*\r?)(?:\n|\Z)".encode()
        )
        structural = rf"\\*(?:## {name}(?: |$)|<!-- end |---[ \t]*$|([<|>])\1{{6}}(?: |$)|={{7}}[ \t]*$)"
        self._to_escape = re.compile(f"^(?={structural})", re.MULTILINE)
        self._escaped = re.compile(rf"^\\(?={structural})", re.MULTILINE)
        self._structural_marks = (f"## {label}", "<!-- end ", "---", "<<<<<<<", "|||||||", ">>>>>>>", "=======")

    def header(self, title: str) -> bytes:
        title, word = " ".join(title.split()), self._label.lower()
        one = f"an {word}" if word[0] in "aeiou" else f"a {word}"
        return (
            f"# {title}\n<!-- SMP format 1. Times are UTC. Add, edit or remove {word}s: {one} is a line "
            f'"## {self._label}", below it the text; SMP adds number and time. -->\n\n---\n'
        ).encode()

    # --------------------------------------------------------------------------------------------------- writing
    def encode(self, fields: Fields) -> bytes:
        visible, machine = split_machine_line(fields)
        number = _heading_id(visible.get("id"))
        mark = f" <!-- {fields['seq']} -->" if "seq" in fields and "seq" not in visible else ""
        lines = [self._heading_line(visible, number) + mark]
        extra: Fields = {}
        body = visible.get(self._body_key)
        for key, value in visible.items():
            title = title_of(key)
            if key == self._body_key:
                if not isinstance(value, str):
                    extra[key] = value
            elif title is None:
                extra[key] = value
            elif key == "id":
                if value is None or value != self._id_in_heading(number):
                    lines.insert(1, f"**Id:** {value_text(value)}")
            elif key != self._time_key or not _is_time(value):
                lines.append(f"**{title}:** {value_text(value)}")
        if extra:
            lines.append(f"**Extra:** {to_json(extra)}")
        block = "\n".join(lines + self._body_lines(body, len(lines) > 1)).encode()
        block += b"<!-- end %b %b" % (_end_name(fields), machine.encode() + b" " if machine else b"")
        return b"\n%b%b -->\n\n---\n" % (block, signature(block).encode())

    def _id_in_heading(self, number: str) -> str | None:
        """The id of an entry whose heading has this number or name."""
        if number == _NO_ID:
            return None
        return f"{self._id_prefix}-{number:0>4}" if number.isascii() and number.isdigit() else number

    def _heading_line(self, fields: Fields, number: str) -> str:
        if self._time_key in fields:
            return f"## {self._label} {number} - {_heading_time(fields[self._time_key])}"
        for key, word in _CHANGES:
            if key in fields:
                return f"## {self._label} {number}{word} - {_heading_time(fields[key])}"
        return f"## {self._label} {number} - {_NO_TIME}"

    def _body_lines(self, body: Any, has_fields: bool) -> list[str]:
        """Everything between the fields and the end comment; the last line is empty, so that a newline ends it."""
        if not isinstance(body, str):
            return ["**Body:** none", "", ""]
        lines = [] if has_fields else ["**Body:** text"]
        if _NOT_IN_BODY.search(body):
            return [*lines, "**Encoding:** json", "", to_json(body), "", ""]
        for mark in self._structural_marks:  # much faster than the pattern, and rare
            if mark in body:
                body = self._to_escape.sub(r"\\", body)
                break
        return [*lines, "", body, "", ""]

    # --------------------------------------------------------------------------------------------------- reading
    def decode(self, data: bytes, offset: int = 0, line: int = 1, stored: Stored = NOT_KNOWN) -> list[Piece]:
        limits = (stored[0], stored[1] - offset)
        return decode_both_sides(
            data, offset, line, lambda text, first: self._read(text, first, limits), lone_divider=False
        )

    def span(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        return widen_span(data, start, end, rule=True)

    def boundary(self, data: bytes) -> int:
        match = self._next_heading(data, 0, len(data))
        return match.start() if match else -1

    def _read(self, data: bytes, at_file_start: bool, stored: Stored) -> list[Piece]:
        limit = self._cut_heading(data)
        headings = self._headings(data, limit)
        done = 0  # the end of the last block
        if at_file_start:
            done = _header_end(data, headings[0].start() if headings else limit)
            if done < 0:
                return [Piece(0, len(data), 0, TORN, None, "the write of the file's first lines was cut off")]
        pieces: list[Piece] = []
        highest = 0  # the largest number so far
        for n, heading in enumerate(headings):
            stop = headings[n + 1].start() if n + 1 < len(headings) else limit
            if done < heading.start():
                pieces.extend(_stray_pieces(data, done, heading.start()))
            pieces.append(_in_unicode(data, self._decode_block(data, heading, stop, stop == limit, highest, stored)))
            highest = max(highest, highest_seq(pieces[-1].fields))
            done = pieces[-1].end
        pieces.extend(_stray_pieces(data, done, limit))
        if limit < len(data):
            start = pieces.pop().start if pieces and pieces[-1].state == TORN else limit
            pieces.append(Piece(start, len(data), 0, TORN, None, _CUT_OFF))
        return pieces

    def _cut_heading(self, data: bytes) -> int:
        """The start of the last line if it is an unfinished heading, else the end of the data."""
        start = data.rfind(b"\n") + 1
        last = data[start : start + len(self._heading_start)]
        return start if last and self._heading_start.startswith(last) else len(data)

    def _headings(self, data: bytes, limit: int) -> list[re.Match[bytes]]:
        match = self._heading.match(data) if limit else None
        headings = [match] if match else []
        match = self._next_heading(data, 0, limit)
        while match:
            headings.append(match)
            match = self._next_heading(data, match.end() - 1, limit)
        return headings

    def _next_heading(self, data: bytes, start: int, limit: int) -> re.Match[bytes] | None:
        mark = b"\n" + self._heading_start.rstrip()
        at = data.find(mark, start, limit)
        while at >= 0:
            match = self._heading.match(data, at + 1)
            if match:
                return match
            at = data.find(mark, at + 1, limit)
        return None

    def _decode_block(
        self, data: bytes, heading: re.Match[bytes], stop: int, is_last: bool, highest: int, stored: Stored
    ) -> Piece:
        start = heading.start()
        end = _find_end(data, start, stop)
        if end is not None:
            signed = signature(data[start : end.start(3)]) == end[3].decode()
            message = "" if signed else "changed since it was signed"
            machine = end[2].decode("utf-8", "replace")
            if not signed and (mixed := mixed_entries(_BEGIN_MARK.search(heading[4] or b""), machine)):
                return Piece(start, end.end(), 0, DAMAGED, None, mixed)
            return self._decode_entry(
                data[start : end.start()], heading, end.end(), SIGNED if signed else EDITED, message, machine
            )
        raw = data[start:stop]
        trimmed = start + len(raw.rstrip())
        closed = _before_damaged_end(raw)
        if closed is not None:
            machine = closed[1].partition(" ")[2]  # behind the name
            return self._decode_entry(closed[0], heading, trimmed, EDITED, "its end comment is damaged", machine)
        mark = _BEGIN_MARK.search(heading[4] or b"")
        seq = int(mark[1]) if mark else 0
        if seq > highest:
            if is_last and not was_complete(seq, start, stored):
                return Piece(start, stop, 0, TORN, None, _CUT_OFF)
            body, text = split_cut_closing(raw, _END_START)
            machine = f"{text.partition(' ')[2]} seq={seq}" if text else f"seq={seq} schema=-"
            return self._decode_entry(
                body, heading, trimmed, EDITED, "its end comment is missing", machine, body != raw
            )
        return self._decode_entry(raw, heading, trimmed, UNSIGNED, is_closed=False)

    def _decode_entry(
        self,
        raw: bytes,
        heading: re.Match[bytes],
        end: int,
        state: str,
        message: str = "",
        machine: str = "",
        is_closed: bool = True,
    ) -> Piece:
        try:
            rest = raw[heading.end() - heading.start() :].decode()
            after_mark = _text_after_mark(heading)
            fields = self._heading_fields(heading)
        except UnicodeDecodeError:
            return Piece(heading.start(), end, 0, DAMAGED, None, "not valid UTF-8")
        if "\r" in rest:
            rest = rest.replace("\r\n", "\n")
        lines, body = _split_metadata(rest)
        if after_mark:  # the heading lost its line end
            more, text = _split_metadata(after_mark)
            lines, body = more + lines, f"{text}\n{body}" if text else body
        special = {}
        for key, text in lines:
            if key in SPECIAL_LINES:
                special[key] = text
            else:
                fields[key] = value_of(text)
        if special:
            _apply_special_lines(fields, special)
        body = _without_frame(body, is_closed)
        if body or special.get("body") != "none":
            fields[self._body_key] = self._body_text(body, special.get("encoding") == "json")
        return Piece(heading.start(), end, 0, state, join_machine_line(fields, machine) if machine else fields, message)

    def _heading_fields(self, heading: re.Match[bytes]) -> Fields:
        """Id and time of the heading; lines below it take precedence."""
        number, name, word, visible = heading.groups()
        fields: Fields = {}
        if number:
            fields["id"] = f"{self._id_prefix}-{number.decode():0>4}"
        elif name and name.decode() != _NO_ID:
            fields["id"] = name.decode()
        text = visible.partition(b" <!-- ")[0].decode().strip() if visible and not word else ""
        if text not in ("", _NO_TIME):
            time = _HEADING_TIME.fullmatch(text)
            fields[self._time_key] = f"{time[1]}T{time[2]}{'' if time[3] else ':00'}Z" if time else text
        return fields

    def _body_text(self, body: str, is_json: bool) -> str:
        if is_json:
            decoded = value_of(body)
            return decoded if isinstance(decoded, str) else body
        return self._escaped.sub("", body) if "\\" in body else body


# ------------------------------------------------------------------------------------------------------ one block
def _heading_id(identity: Any) -> str:
    if not isinstance(identity, str) or not _SIMPLE_ID.fullmatch(identity):
        return _NO_ID
    numbered = _NUMBERED_ID.fullmatch(identity)
    return numbered[1] if numbered else identity


def _heading_time(time: Any) -> str:
    return f"{time[:10]} {time[11:-1]}" if _is_time(time) else _NO_TIME


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def _end_name(fields: Fields) -> bytes:
    identity = fields.get("id")
    return (identity if isinstance(identity, str) and _SIMPLE_ID.fullmatch(identity) else _NO_ID).encode()


def _text_after_mark(heading: re.Match[bytes]) -> str:
    """The text in a heading after the begin mark, where `encode` ends the line."""
    visible = heading[4]
    match = _AFTER_MARK.search(visible) if visible and b" -->" in visible else None
    return match[1].decode().rstrip("\r") if match else ""


def _before_damaged_end(raw: bytes) -> tuple[bytes, str] | None:
    raw = raw.rstrip(b"\n") + b"\n"
    return split_damaged_closing(raw.removesuffix(_ENTRY_TAIL), _END_START, _END_STOP)


def _find_end(data: bytes, start: int, stop: int) -> re.Match[bytes] | None:
    at = data.find(b"\n<!-- end ", start, stop)
    while at >= 0:
        match = _END.match(data, at + 1)
        if match:
            return match
        at = data.find(b"\n<!-- end ", at + 1, stop)
    return None


def _in_unicode(data: bytes, piece: Piece) -> Piece:
    """The piece; damaged if an escape in it is half a surrogate pair, which no file can hold."""
    if piece.fields is None or b"\\u" not in data[piece.start : piece.end]:
        return piece
    try:
        json.dumps(piece.fields, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return Piece(piece.start, piece.end, piece.line, DAMAGED, None, "text that is not valid Unicode")
    return piece


def _header_end(data: bytes, end: int) -> int:
    """The end of the header: after its rule, or at `end` without one; -1 if SMP wrote it and it is cut off."""
    rule = _RULE.search(data, 0, end)
    if rule:
        before = data[: rule.start()]
        return 0 if b"\0" in before or b"\n<!-- end " in before else rule.end()  # 0: an entry that lost its heading
    title, _, rest = data.partition(b"\n")
    about, _, tail = rest.partition(b"\n")
    is_ours = title.startswith(b"#") and (about.startswith(ABOUT) or ABOUT.startswith(about))
    return -1 if end == len(data) and is_ours and not tail.strip(b"\n-") else end


def _stray_pieces(data: bytes, start: int, end: int) -> list[Piece]:
    """A piece for text between blocks that is neither blank nor a rule, which may be cut short to `-` or `--`."""
    gap = data[start:end]
    if not gap.strip(b" \t\r\n-"):
        return []
    skipped = len(gap) - len(gap.lstrip(b" \t\r\n-"))
    first = gap.rfind(b"\n", 0, skipped) + 1
    stop = start + len(gap.rstrip(b" \t\r\n"))
    return [Piece(start + first, stop, 0, DAMAGED, None, "stray text, not part of an entry")]


def _split_metadata(rest: str) -> tuple[list[tuple[str, str]], str]:
    """The `**Key:** value` lines right below a heading, and the text after the blank line that ends them."""
    if rest.startswith("\n"):
        rest = rest[1:]
        if not rest.startswith("**"):
            return [], rest
    meta, blank, body = rest.partition("\n\n")
    lines: list[tuple[str, str]] = []
    texts = meta.split("\n")
    for text in texts:
        title, colon, value = text.partition(":**")
        key = key_of(title) if colon and len(title) <= TITLE_LIMIT + 2 else ""
        if not key:  # the body begins here, without a blank line before it
            return lines, "\n".join(texts[len(lines) :]) + blank + body
        lines.append((key, value.strip(" \t")))
    return lines, body


def _without_frame(body: str, is_closed: bool) -> str:
    """The body without the blank line and newline that `encode` adds, or without what people write there."""
    if is_closed:
        return body[:-2] if body.endswith("\n\n") else body.removesuffix("\n")
    body = re.sub(r"\n---\s*\n<!--[^\n]*-->\Z", "\n---", body.strip("\n").rstrip())  # a comment after the rule
    head, newline, last = body.rpartition("\n")
    return head.rstrip() if last == "---" and (newline or not head) else body


def _apply_special_lines(fields: Fields, special: dict[str, str]) -> None:
    """Add the fields of Extra, and those hand-written lines that only share the name of a special line."""
    extra = value_of(special.get("extra", "{}"))
    fields.update(extra if isinstance(extra, dict) else {"extra": extra})
    if special.get("encoding", "json") != "json":
        fields["encoding"] = value_of(special["encoding"])
    if special.get("body", "none") not in ("none", "text"):
        fields["body"] = value_of(special["body"])
