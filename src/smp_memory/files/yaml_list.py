"""Codec of a YAML file with one list of entries, such as decisions.yaml.

    # Decisions of this session. SMP format 1; …
    decisions:

      - id: DEC-0001 #3
        timestamp: 2026-01-11T14:30:05Z
        decision: Use multi-agent review
        smp: seq=3 uid=khmedagg sha256:0123456789abcdef

An entry is a blank line and one list item: `  - ` with `id` first, fields at column 4, the machine line `smp:` last. The machine line
holds what only SMP needs (the machine line, `text_fields`), and a signature of all bytes from the `  - ` up to it. The text of values is that of
`yaml_text`; nothing inside a value ever starts at column 4 or less, so no text can imitate the structure. A field of the caller's that
is called smp is written with its key in quotes, which distinguishes it from the machine line.

The comment ` #3` after the id is the *begin mark*: the entry's number. A last entry without a machine line is an unfinished write if it
has a begin mark with a number larger than all before it in the file, because numbers only grow. Without a mark a person wrote it; with a
number that exists already a person copied it from another entry. Both count. So does one that was complete once, by the writer state
(`stored`): a person removed its machine line.

Reading goes by lines first: an item starts at a `- ` that is not deeper than the item before it, and ends after its machine line or
before the next item or another key at column 0. Each item is then parsed alone, so damage is limited to it. Hand-written lists may have
any indent; items of SMP are found among them by their begin mark.

`agent-states/{agent}.yaml` may also hold the one mapping that design 003 writes (`AgentStateYaml`):

    agent_state:
      agent_id: veritas
      last_updated: 2026-01-31T14:32:00Z
      working_memory: {…}

The mapping is read as one unsigned entry: `agent_id` is the agent, `last_updated` the time, `decay` counts as in any memory, and all
other fields are the state. The first write to the file turns the mapping into an item of a list (`arranged`).

Guarantees: those of `codec`, for fields with a one-line `id` and a `seq` that is larger than those before it: cut at any byte, such an
entry is TORN or leaves no trace. An entry of SMP that lost its machine line is EDITED, and TORN only at the end of a file. If its machine
line was damaged but once complete, it is EDITED also there.
Non-guarantees: without `id` and `seq` a cut entry cannot be distinguished from a hand-written one. A last line `- id: …` without a line
end and without anything else counts as cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from smp_memory.files.codec import (
    DAMAGED,
    EDITED,
    NOT_KNOWN,
    SIGNED,
    TORN,
    UNSIGNED,
    Fields,
    Piece,
    Stored,
    signature,
    was_complete,
    widen_span,
)
from smp_memory.files.conflict_markers import decode_both_sides
from smp_memory.files.text_fields import (
    highest_seq,
    join_machine_line,
    mixed_entries,
    split_cut_closing,
    split_damaged_closing,
    split_machine_line,
)
from smp_memory.files.yaml_text import InvalidYaml, emit_mapping, load_mapping, read_item, yaml_library
from smp_memory.model import ids
from smp_memory.model.design_fields import RELATED

_ITEM_INDENT, _FIELD_INDENT = "  - ", "    "
_CLOSING = b"    smp: "
_BEGIN_MARK = re.compile(rb"  - id: [^\n]* #([0-9]{1,15})\r?\n")
_BEGINNING_LIMIT_BYTES = 200  # longer than any first line that SMP writes
_BLANK_LINE = (b"\n\n", b"\n\r\n")
_CUT_INDENTS = (b" ", b"  ")  # a last line that is only an item's indent
_CUT_OFF = "the write of this entry was cut off"
_TOP_LINE = re.compile(
    rb"^(?![ \t\r\n#]|-[ \r\n]|-\Z)[^\n]*(?:\n|\Z)", re.MULTILINE
)  # a key, or the limit of a document
_DOCUMENT_LIMITS = (b"---", b"...")
_FIRST_DASH = re.compile(rb"^([ ]*)-(?=[ \r\n]|\Z)", re.MULTILINE)
_SIGNED_END = re.compile(rb"\n    smp: [^\n]*sha256:[0-9a-f]{16}[ ]*\r?\n\Z")
_USUAL_INDENT_LIMIT = 4  # nested lists of SMP start at column 6; deeper items count only if the file begins with one


class YamlList:
    """Codec of a YAML file that holds one list under `key`."""

    def __init__(self, key: str) -> None:
        self._key = key
        name = re.escape(key.encode()) + b"|" + RELATED.encode()
        self._structure = re.compile(
            rb"^(?:(?P<dash> *)-(?=[ \r\n]|\Z)"
            rb"|(?P<closing> +)smp: (?P<machine>(?:[^\n]* )?)(?P<sum>sha256:[0-9a-f]{16})[ ]*\r?(?:\n|\Z)"
            rb"|(?P<top>\"?(?:" + name + rb")\"?:[ ]*(?:\[\][ ]*)?(?:#[^\n]*)?|---[ ]*|\.\.\.[ ]*)\r?(?:\n|\Z)"
            rb"|(?P<other>[A-Za-z_][A-Za-z0-9_-]*:(?=[ \r\n]|\Z)))",
            re.MULTILINE,
        )

    def header(self, title: str) -> bytes:
        title = " ".join(title.split()).rstrip(".")
        about = f"# {title}. SMP format 1. Add, edit or remove entries: a new one needs only its text, SMP adds id and time."
        return f"{about}\n{self._key}:\n".encode()

    def encode(self, fields: Fields) -> bytes:
        shown, machine = split_machine_line(fields)
        text = emit_mapping(_id_first(shown), _FIELD_INDENT)
        if "smp" in shown:
            text = re.sub("^    smp:", '    "smp":', text, count=1, flags=re.MULTILINE)
        if "seq" in fields and "seq" not in shown and type(id := shown.get("id")) is str and "\n" not in id:
            first, _, rest = text.partition("\n")
            text = f"{first} #{fields['seq']}\n{rest}"
        item = (_ITEM_INDENT + text[4:] if text else "  -\n").encode() + _CLOSING
        if machine:
            item += machine.encode() + b" "
        return b"\n%b%b\n" % (item, signature(item).encode())

    def decode(self, data: bytes, offset: int = 0, line: int = 1, stored: Stored = NOT_KNOWN) -> list[Piece]:
        limits = (stored[0], stored[1] - offset)
        return decode_both_sides(
            data, offset, line, lambda text, first: self._read(text, first, limits), lone_divider=True
        )

    def span(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        return widen_span(data, start, end)

    def boundary(self, data: bytes) -> int:
        at = data.find(b"\n  - id: ")
        return at + 1 if at >= 0 else -1

    def ends_signed(self, data: bytes) -> bool:
        """Whether the file ends in an entry of SMP, to which another one can be appended."""
        return _SIGNED_END.search(data) is not None

    def arranged(self, data: bytes) -> bytes:
        """The file in the form to which an entry can be appended: the list is last, its items are indented by two.

        Text and comments stay. A file that has that form, or of which it cannot be made, is returned as it is.
        """
        if self.ends_signed(data):
            return data
        starts = [match.start() for match in _TOP_LINE.finditer(data)]
        lead = data[: starts[0]] if starts else data
        sections = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
        own = next((each for each in sections if self._is_own(each)), b"")
        others = [each for each in sections if each is not own and (each is sections[0] or not _is_limit(each))]
        dash = _FIRST_DASH.search(lead)
        if not own and dash is not None:  # a list without a key
            own, lead = f"{self._key}:\n".encode() + lead[dash.start() :], lead[: dash.start()]
        key, _, items = own.partition(b"\n")
        value, _, comment = key.partition(b":")[2].partition(b"#")
        if value.strip() not in (b"", b"[]", b"{}", b"~", b"null") or (items.strip() and not _FIRST_DASH.search(items)):
            return data
        line = f"{self._key}:".encode() + (b"  #" + comment.rstrip(b"\r") if comment else b"") + b"\n"
        lines = [each if not each or each.endswith(b"\n") else each + b"\n" for each in (lead, *others)]
        new = b"".join(lines) + (line if value.strip() or not own else key + b"\n") + _indented(items)
        return data if new.rstrip() == data.rstrip() else new

    def _is_own(self, section: bytes) -> bool:
        return section.partition(b":")[0].strip(b"\"' ").decode("utf-8", "replace") == self._key

    def _read(self, data: bytes, at_file_start: bool, stored: Stored) -> list[Piece]:
        if at_file_start and self._is_cut_header(data):
            return [Piece(0, len(data), 0, TORN, None, "the write of the file's first lines was cut off")]
        last = data.rfind(b"\n") + 1
        cut = last if data[last:] in _CUT_INDENTS else len(data)
        pieces = self._pieces(data[:cut] if cut < len(data) else data, stored)
        if cut < len(data):
            start = pieces.pop().start if pieces and pieces[-1].state == TORN else cut
            pieces.append(Piece(start, len(data), 0, TORN, None, _CUT_OFF))
        return pieces

    def _is_cut_header(self, data: bytes) -> bool:
        comment, _, key = data.partition(b"\n")
        return comment.startswith(b"#") and len(key) <= len(self._key) and f"{self._key}:".encode().startswith(key)

    def _pieces(self, data: bytes, stored: Stored) -> list[Piece]:
        pieces: list[Piece] = []
        done = highest = 0  # the end of the last item; the largest number so far
        for item in self._items(data):
            pieces.extend(_stray(data, done, item.start))
            if item.column >= 0:
                pieces.append(_decode_item(data, item, highest, stored))
                highest = max(highest, highest_seq(pieces[-1].fields))
            done = item.end
        pieces.extend(_stray(data, done, len(data)))
        return pieces

    def _items(self, data: bytes) -> Iterator[_Item]:
        """Items and top-level lines (column -1), in order; text between them belongs to no item."""
        current: _Item | None = None
        limit, top_end = -1, 0  # the deepest indent of an item is unknown before the first one
        for match in self._structure.finditer(data):
            start = match.start()
            dash, closing = match["dash"], match["closing"]
            if match["other"] is not None:
                if current is not None and current.stop < 0:
                    current.stop = start
                continue
            if closing is not None:
                if current is not None and len(closing) == current.column:
                    current.end, current.closing_at, current.sum_at = match.end(), start, match.start("sum")
                    current.machine, current.sum = match["machine"], match["sum"].decode()
                    yield current
                    current = None
                continue
            if dash is not None:
                if limit < 0:
                    clean = _stray_span(data, top_end, start) is None
                    limit = max(_USUAL_INDENT_LIMIT, len(dash)) if clean else _USUAL_INDENT_LIMIT
                deepest = limit if current is None else current.indent
                if len(dash) > deepest and not _is_own_start(data, start):
                    continue
            if current is not None:
                yield current.until(start)
                current = None
            if dash is None:
                top_end = match.end()
                yield _Item(start, top_end, 0, -1)
            else:
                current = _Item(start, len(data), len(dash), _column(data, match.end(), len(dash)))
        if current is not None:
            yield current.until(len(data))


class _Item:
    """Position of one list item: its dash's indent, its fields' column, and its machine line if it has one."""

    __slots__ = ("closing_at", "column", "end", "indent", "machine", "start", "stop", "sum", "sum_at")

    def __init__(self, start: int, end: int, indent: int, column: int) -> None:
        self.start, self.end, self.indent, self.column = start, end, indent, column
        self.closing_at = self.sum_at = (
            self.stop
        ) = -1  # `stop`: where another key of the file stands, if it has no machine line
        self.machine, self.sum = b"", ""

    def until(self, end: int) -> _Item:
        """The item without a machine line; it ends here or before another key of the file."""
        self.end = self.stop if self.stop >= 0 else end
        return self


def _is_limit(section: bytes) -> bool:
    """Whether this is a line that begins or ends a document, and nothing below it."""
    return section.startswith(_DOCUMENT_LIMITS) and not section[3:].strip()


def _indented(items: bytes) -> bytes:
    """The items of a list, moved to the column where SMP writes its own."""
    dash = _FIRST_DASH.search(items)
    shift = 2 - len(dash[1]) if dash is not None else 0
    if not shift:
        return items
    lines = items.splitlines(keepends=True)
    if shift > 0:
        return b"".join(b" " * shift + line if line.strip() else line for line in lines)
    return b"".join(line[min(-shift, len(line) - len(line.lstrip(b" "))) :] for line in lines)


def _id_first(fields: Fields) -> Fields:
    return {"id": fields["id"], **fields} if "id" in fields else fields


def _column(data: bytes, after_dash: int, indent: int) -> int:
    end = data.find(b"\n", after_dash)
    rest = data[after_dash : end if end >= 0 else len(data)]
    text = rest.lstrip(b" ")
    return indent + 1 + len(rest) - len(text) if text.strip() else indent + 2


def _is_own_start(data: bytes, start: int) -> bool:
    """Whether an entry written by `encode`, or the beginning of one that was cut off, starts at this offset."""
    if _BEGIN_MARK.match(data, start):
        return True
    if len(data) - start > _BEGINNING_LIMIT_BYTES or not data[max(0, start - 3) : start].endswith(_BLANK_LINE):
        return False
    return _is_cut_beginning(data[start:])


def _stray_span(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """The lines between two items without blank and comment lines at the edges; None if there are no others."""
    if start >= end or data[start:end].isspace():
        return None
    first = last = -1
    for text in data[start:end].splitlines(keepends=True):
        if text.strip() and not text.lstrip().startswith(b"#"):
            first = start if first < 0 else first
            last = start + len(text)
        start += len(text)
    return (first, last) if first >= 0 else None


def _stray(data: bytes, start: int, end: int) -> list[Piece]:
    span = _stray_span(data, start, end)
    return [Piece(*span, 0, DAMAGED, None, "stray text, not part of an entry")] if span else []


def _decode_item(data: bytes, item: _Item, highest: int, stored: Stored) -> Piece:
    """The piece for one item. Checks first whether it is torn, because a cut may fall inside a character."""
    start, end = item.start, item.end
    if item.sum_at >= 0:
        state = SIGNED if signature(data[start : item.sum_at]) == item.sum else EDITED
        message = "" if state == SIGNED else "changed since it was signed"
        machine = item.machine.decode("utf-8", "replace")
        if state == EDITED and (mixed := mixed_entries(_BEGIN_MARK.match(data, start, end), machine)):
            return Piece(start, end, 0, DAMAGED, None, mixed)
        return _parse_item(data[start : item.closing_at], start, end, state, message, machine)
    raw = data[start:end].rstrip() + b"\n"
    for trimmed in (data[start:end], raw):
        closed = split_damaged_closing(trimmed, _CLOSING, b"\n")
        if closed is not None:
            return _parse_item(closed[0], start, start + len(raw), EDITED, "its machine line is damaged", closed[1])
    mark = _BEGIN_MARK.match(raw)
    seq = int(mark[1]) if mark else 0
    may_be_cut = seq > highest and not was_complete(seq, start, stored)
    if end == len(data) and (may_be_cut or _is_cut_beginning(data[start:end])):
        return Piece(start, end, 0, TORN, None, _CUT_OFF)
    end = min(end, start + len(raw))
    if seq <= highest:
        return _without_foreign_signature(_parse_item(raw, start, end, UNSIGNED, ""))
    body, machine = split_cut_closing(data[start : item.end], _CLOSING)
    piece = _without_foreign_signature(
        _parse_item(body.rstrip() + b"\n", start, end, EDITED, "its machine line is missing", machine)
    )
    if piece.fields is not None:
        piece.fields["seq"] = seq
    return piece


def _without_foreign_signature(piece: Piece) -> Piece:
    """Mark an entry as edited whose machine line was moved or reformatted by a person, or that an older tool signed."""
    fields = piece.fields
    if not fields:
        return piece
    if type(machine := fields.get("smp")) is str and ("seq=" in machine or "sha256:" in machine):
        piece.fields = join_machine_line({name: value for name, value in fields.items() if name != "smp"}, machine)
        piece.state, piece.message = EDITED, "changed since it was signed"
    if piece.fields and piece.fields.pop("checksum", None) is not None:
        piece.state, piece.message = EDITED, "changed since it was signed"
    return piece


def _parse_item(raw: bytes, start: int, end: int, state: str, message: str, machine: str = "") -> Piece:
    yaml = yaml_library()
    try:
        fields = read_item(raw.replace(b"\r\n", b"\n").decode(), yaml)
    except UnicodeDecodeError:
        return Piece(start, end, 0, DAMAGED, None, "not valid UTF-8")
    except InvalidYaml as error:
        return Piece(start, end, 0, DAMAGED, None, str(error))
    if fields is None and state == SIGNED:
        fields = {}
    if not isinstance(fields, dict):
        return Piece(start, end, 0, DAMAGED, None, "not a mapping of fields")
    return Piece(start, end, 0, state, join_machine_line(fields, machine) if machine else fields, message)


def _is_cut_beginning(raw: bytes) -> bool:
    """Whether these last bytes of a file are the beginning of an entry of SMP, cut within its first line."""
    if raw.rstrip() == b"  -":
        return True
    return b"\n" not in raw and (raw.startswith(b"  - id: ") or b"  - id: ".startswith(raw))


_KEY = "agent_state"
_MAPPING = re.compile(
    rb"^\"?agent_state\"?:[ ]*(?:#[^\n]*)?\r?\n(?P<body>(?:[ ]*(?:#[^\n]*)?\r?\n)*[ ]+[^\s#-])", re.MULTILINE
)
_ITEM = re.compile(rb"^[ ]{0,2}- id: ", re.MULTILINE)
_NOT_STATE = ("id", "agent_id", "agent", "session_id", "last_updated", "timestamp", "decay")


class AgentStateYaml(YamlList):
    """Codec of `agent-states/{agent}.yaml`: reads the mapping and the list, writes list items."""

    def __init__(self) -> None:
        super().__init__(_KEY)

    def _pieces(self, data: bytes, stored: Stored) -> list[Piece]:
        match = _MAPPING.search(data)
        if match is None:
            return super()._pieces(data, stored)
        start = match.start("body")
        item = _ITEM.search(data, start)
        end = item.start() if item is not None else len(data)
        mapping = data[start:end].rstrip()
        pieces = [
            _decode_state(
                mapping + b"\n",
                start,
                start + len(mapping) + 1 if start + len(mapping) < len(data) else start + len(mapping),
            )
        ]
        rest = (stored[0], stored[1] - end)
        for piece in super()._pieces(data[end:], rest) if item is not None else ():
            piece.start, piece.end = piece.start + end, piece.end + end
            pieces.append(piece)
        return pieces

    def arranged(self, data: bytes) -> bytes:
        match = _MAPPING.search(data)
        if match is None:
            return super().arranged(data)
        state, *others = self._pieces(data, NOT_KNOWN)
        if state.fields is None or others:
            return data
        text = emit_mapping({name: value for name, value in state.fields.items() if value is not None}, _FIELD_INDENT)
        return b"%bagent_state:\n\n%b" % (data[: match.start()], (_ITEM_INDENT + text[4:]).encode())


def _decode_state(body: bytes, start: int, end: int) -> Piece:
    try:
        fields = load_mapping(b"agent_state:\n" + body).get(_KEY)
    except ValueError as error:
        return Piece(start, end, 0, DAMAGED, None, str(error))
    if not isinstance(fields, dict) or not isinstance(fields.get("agent_id", fields.get("agent")), str):
        return Piece(start, end, 0, DAMAGED, None, "agent_id: required for the state of an agent")
    return Piece(start, end, 0, UNSIGNED, _as_entry(fields))


def _as_entry(fields: Fields) -> Fields:
    agent = fields.get("agent_id", fields.get("agent"))
    entry: Fields = {
        "id": f"{ids.STATE_PREFIX}{agent}",
        "timestamp": fields.get("last_updated", fields.get("timestamp")),
        "author": agent,
        "agent": agent,
        "state": {name: value for name, value in fields.items() if name not in _NOT_STATE},
    }
    if "decay" in fields:
        entry["decay"] = fields["decay"]
    return entry
