"""Cases of the codec contract: every file format with sample entries, hostile text, and what people do to its files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from smp_memory.files.codec import DAMAGED, EDITED, SIGNED, UNSIGNED, Codec, Fields, JsonLines, Piece
from smp_memory.files.markdown_blocks import MarkdownBlocks
from smp_memory.files.yaml_list import YamlList

ENTRIES = (SIGNED, EDITED, UNSIGNED)
TIME = "2026-01-11T14:30:05Z"


def states(pieces: list[Piece]) -> list[str]:
    return [piece.state for piece in pieces]


def fields_of(pieces: list[Piece]) -> list[Fields | None]:
    return [piece.fields for piece in pieces if piece.state in ENTRIES]


def places(pieces: list[Piece]) -> list[tuple[int, int, int, Fields | None]]:
    return [(piece.start, piece.end, piece.line, piece.fields) for piece in pieces]


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down; -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def merged(common: bytes, ours: bytes, theirs: bytes, after: bytes = b"", base: bytes = b"") -> bytes:
    """A file with the conflict markers of a git merge."""
    middle = b"||||||| base\n" + base if base else b""
    return common + b"<<<<<<< HEAD\n" + ours + middle + b"=======\n" + theirs + b">>>>>>> branch\n" + after


def check_no_overlap(pieces: list[Piece]) -> None:
    for left, right in itertools.pairwise(pieces):
        assert left.end <= right.start


@dataclass(frozen=True, repr=False, eq=False)
class CodecCase:
    """A codec, and the samples of its format that the laws need."""

    name: str
    codec: Codec
    title: str
    entry: Callable[..., Fields]  # (number, text)
    rich: Fields  # the second entry of the sample file: text that looks like the format itself, nested values
    starts_with: bytes  # first bytes of an entry
    complete_at: Callable[[bytes], int]  # how many bytes of an encoded entry must be there for it to be read
    hostile: list[str]
    alphabet: str  # characters with a meaning in the format
    keys: tuple[str, ...] = ()  # names of fields with a meaning in the format
    examples: tuple[Fields, ...] = ()  # fields with a meaning in the format, with values of any type
    reserved: tuple[str, ...] = ()  # names that no field may have
    fewest_fields: int = 0  # of an entry
    shows_a_change: tuple[str, ...] = (EDITED, DAMAGED)  # states of an entry in which a byte was changed
    before_append: tuple[bytes, ...] = ()  # files, besides the sample file, to which an entry is appended
    edits: tuple[tuple[bytes, bytes], ...] = ()  # edits of the first entry of the sample file by a person
    typed: tuple[tuple[bytes, Fields], ...] = ()  # hand-written entries, and fields that they have at least
    stray: tuple[bytes, int] = (b"", 0)  # text that is no entry, to insert after the first; its line from there
    invalid_utf8: str = "UTF-8"  # in the message about it
    conflict_base: bytes = b"junk\n"  # between the base marker and the next one; empty if each line counts for itself
    markers: tuple[bytes, ...] = ()  # conflict markers that somebody left
    marker_inside: tuple[bytes, ...] = ()  # where they may be inside an entry of the sample file
    fragments: tuple[bytes, ...] = ()  # lines to mix

    @cached_property
    def header(self) -> bytes:
        return self.codec.header(self.title)

    @cached_property
    def file(self) -> bytes:
        """Three signed entries."""
        first, third = self.entry(1, "one"), self.entry(3, "x\r\ny")
        return self.header + b"".join(self.codec.encode(fields) for fields in (first, self.rich, third))

    @cached_property
    def later(self) -> Fields:
        return {**self.rich, "seq": 12}

    @cached_property
    def texts(self) -> st.SearchStrategy[str]:
        return st.one_of(st.sampled_from(self.hostile), st.text(), st.text(alphabet=self.alphabet, max_size=14))

    @cached_property
    def values(self) -> st.SearchStrategy[Any]:
        texts = self.texts
        return st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
            max_leaves=12,
        )

    @cached_property
    def fields(self) -> st.SearchStrategy[Fields]:
        names = self.texts | st.sampled_from(self.keys) if self.keys else self.texts
        return st.dictionaries(
            names.filter(lambda name: name not in self.reserved), self.values, min_size=self.fewest_fields, max_size=7
        )

    def __repr__(self) -> str:
        return self.name


# -- YAML lists


def decision(number: int, text: str = "Use it", **more: Any) -> Fields:
    return {"id": f"DEC-{number:04}", "seq": number, "timestamp": TIME, "decision": text, **more}


YAML_HOSTILE = [
    "", " ", "  x", "x ", "\n", "\n\n", "\na", "a\n", "a\n\n", "a\n \n", " a\nb", "\ta\nb", "a\n\tb", "a\n  ",
    "a\n\n\nb\n\n\n", "no", "Yes", "on", "OFF", "null", "Null", "~", "true", "TRUE", "y", "N", "1", "012", "1e3",
    "0x1F", "0b1", "1_000", "1.0", ".5", "-", "--", "---", "...", ".inf", "-.INF", ".nan", "+1", "12:30:45",
    "2026-01-11", "2026-01-11 10:00:00", "2026-01-11T14:30:05Z", "2026-01-11T14:30:05.123456Z",
    "2026-01-11T14:30:05+02:00", "3 retries", "3 e", "=", "<<", "a: b", "a:", "a:b", "a #b", "a#b", "# c", ": x",
    "- x", "? x", "[a", "{a", "a]", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", '"', "'", "\\", "it's",
    'say "hi": no', '\'": \\', "a\tb", "a\r\nb", "a\rb", "a\x85b", "a\u2028b", "a\u2029b", "\ufeffa", "a\ufeff\nb",
    "\x00", "a\x07\nb", "\x7f", "\x9b", "é", "日本語", "😀", "\ufffe", "\U0010ffff", "\xa0a\xa0", "a\u3000",
    "    smp: sha256:0123456789abcdef", "x\n    smp: seq=3 sha256:0123456789abcdef\n", "  - id: DEC-1 #1\n",
    "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", "decisions:\n- a", "a\n---\nb", "a\n...\n", "x" * 2000,
]  # fmt: skip

YAML = CodecCase(
    name="yaml_list",
    codec=YamlList("decisions"),
    title="Decisions of this session",
    entry=decision,
    rich=decision(
        2,
        "Größe: prüfen ✓",
        made_by="bmad-master",
        rationale="First line\n  - id: DEC-0009 #4\n\n    smp: seq=4 sha256:0123456789abcdef\nlast\n",
        quoted="tags: [a]\n    smp: sha256:0123456789abcdef\r\nlast",
        tags=["process", "collaboration"],
        alternatives=[{"option": "cookies", "why": "no: # never"}, {"option": "none", "why": ["a b", ["c"], {}]}],
    ),
    starts_with=b"  - id: ",
    complete_at=lambda encoded: len(encoded) - 1,
    hostile=YAML_HOSTILE,
    alphabet=" \n\t-:#ab\"'\\|[]{}0\r\x85\u2028",
    keys=("smp", "checksum", "id", "seq", "schema", "uid", "uids", "tx", "history", "hand", "timestamp", "updated"),
    examples=(
        {"smp": "sha256:0123456789abcdef", "checksum": "a", "id": "DEC-0001", "seq": 1},
        {"smp": {"smp": None}},
        {"seq": 0, "schema": 0, "uid": "a b", "uids": {"a b": "c"}, "tx": 1, "history": [{"seq": 1}, 2], "hand": "edited"},
        {"seq": True, "schema": None, "history": [{"seq": 1, "at": "2026-01-11T14:30:05.123456Z"}], "timestamp": 5},
        {"timestamp": "2026-01-11T14:30:05.123456Z", "updated": "2026-01-11T14:30:05.000001Z", "uids": {"A-1": "x"}},
        {"k" * 1500: {"q" * 3000: ["x", {"z" * 1100: "a\nb"}]}},
        {},
    ),
    before_append=(b"decisions:\n- id: HAND\n  decision: by hand\n", b"decisions:\n  - {id: HAND}"),
    edits=(
        (b"decision: one", b"decision: eins"),
        (b"    smp: seq=1 schema=- sha256:", b"    smp: seq=1 schema=- md5:"),
        (b"    smp: seq=1 schema=- sha256:", b"    smp:   seq=1 schema=- sha256:"),
        (b"  - id: DEC-0001 #1\n", b"  - id: DEC-0001\n    x: 1\n"),
    ),
    typed=(
        (b"\n  - id: DEC-0009\n    decision: mine", {"id": "DEC-0009", "decision": "mine"}),
        (b"\n  - id: DEC-0009\n    timestamp: 2026-01-11T14:30:05Z\n    decision: mine\n", {"timestamp": TIME}),
        (b"\n  - decision: mine", {"decision": "mine"}),
        (b"\n  - decision: mine\n    shoe_size: 42\n\n", {"decision": "mine", "shoe_size": 42}),
        (b"\n- decision: mine", {"decision": "mine"}),
        (b"\n  - {id: DEC-0009, decision: mine}", {"id": "DEC-0009", "decision": "mine"}),
        (b"\n  - id: DEC-0009 # new\n    decision: mine", {"id": "DEC-0009", "decision": "mine"}),
    ),
    stray=(b"\nwhat is\nthis\n", 2),
    markers=(b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> x\n", b"||||||| b\n", b"=======\r\n"),
    marker_inside=(b"    made_by",),
    fragments=(
        b"  - id: A #1\n", b"    seq: 1\n", b"    smp: seq=1 sha256:0123456789abcdef\n", b"decisions:\n", b"- a: [\n", b"---\n",
    ),
)  # fmt: skip


# -- Markdown blocks


def turn(number: int, content: Any = "Hello.", **more: Any) -> Fields:
    fixed = {"id": f"TURN-{number:04}", "seq": number, "timestamp": "2026-01-11T14:30:00Z", "speaker": "user"}
    return {**fixed, **more, "content": content}


MARKDOWN_HOSTILE = [
    "", " ", "\n", "\n\n", "\n\n\n", "a\n", "a\n\n", "\na", "\n\na\n\n", " a", "a ", "\ta", "a\n---", "---", "---\n",
    "\n---\n", "\\---", "\\\\--- ", "---\t", "----", "--", "-", "## Turn 5", "\\## Turn 5 - x", "## Turn", "## Turn ",
    "# x", "## Heading", "<!-- end TURN-0001 sha256:0123456789abcdef -->", "<!-- end", "<!-- end ", "\\<!-- end x",
    "<!-- note -->", "<<<<<<< HEAD", "=======", "======= ", ">>>>>>> x", "||||||| x", "\\=======", "<<<<<<<",
    ">>>>>>>x", "Title\n=======\ntext", "**Id:** TURN-0009", "**Seq:** 1", "**Body:** none", "**Foo:** x\n\nbar",
    "**Encoding:** json", '"json"', "{", "[a, b]", "[", "]", "[a,b]", "[]", "[true]", "true", "null", "NaN",
    "Infinity", "-Infinity", "-", "-1", "1", "1.0", "012", "2026-01-11T14:30:00Z", "a\r\nb", "\r", "a\rb", "\x00",
    "\x07", "\x85", "\u2028", "\u2029", "\ufeff", "\x7f", "é", "日本語", "😀", "\\", "\\n", '"', "a\tb", "\ufffe", "\xa0",
    "a\u3000", "\x1c", "none", "text", "undated", "?", "x" * 3000,
]  # fmt: skip

MARKDOWN = CodecCase(
    name="markdown_blocks",
    codec=MarkdownBlocks(label="Turn", time_key="timestamp", body_key="content", id_prefix="TURN"),
    title="Conversation",
    entry=turn,
    rich=turn(
        2,
        "Größe ✓\n\n## Turn 9 - 2026-01-11 14:30:00 <!-- 9 -->\n**Speaker:** me\n\nhi\n\n---\n\n"
        "<!-- end TURN-0009 seq=9 sha256:0123456789abcdef -->\n\n---\n#\n##\n## Tur\n<<<<<<< a\n=======\n>>>>>>> b\n",
        memory_refs=["DEC-0001", "FIND-0002"],
        odd={"a": [1, None]},
    ),
    starts_with=b"## Turn ",
    complete_at=lambda encoded: encoded.rindex(b"-->") + 3,
    hostile=MARKDOWN_HOSTILE,
    alphabet="\\\n-#= <>|!*:ab\r\u2028",
    keys=("a", "a_b", "a_1", "a1", "id", "seq", "timestamp", "content", "body", "encoding", "extra", "Body", "A-B", "updated", "deleted", "restored", "memory_refs", "_a", "a__b", "", "é", "k" * 101, "a b", "a:** b", "label", "created"),
    examples=(
        {},
        {"content": None},
        {"content": ""},
        {"content": "**Foo:** x\n\nbar"},
        {"content": "x", "body": "none", "encoding": "json", "extra": {"content": 1}},
        {"id": "TURN-0000", "timestamp": "2026-01-11T14:30:00.123456Z", "updated": "2026-01-12T14:30:00Z"},
        {"id": "changed", "deleted": "2026-01-12T14:30:00Z"},
        {"id": "x" * 100, "restored": 5},
        {"words": ["a", "DEC-0001", "true", "null", "a b", "1", "NaN", "é", "x.y", "Infinity", "t,u", ""]},
    ),
    before_append=(b"# Mine\n\n## Turn 1\n\nby hand\n", b"# Mine\n\n## Turn 1\n\nby hand"),
    edits=(
        (b"\none\n", b"\neins\n"),
        (b"\none\n", b"\none,\n\ntwo.\n\n"),
        (b"**Speaker:** user", b"**Speaker:** me"),
        (b"<!-- end TURN-0001", b"<!-- end TURN-0009"),
    ),
    typed=(
        (b"\n## Turn 4\nmine", {"id": "TURN-0004", "content": "mine"}),
        (b"\n## Turn 4 - 2026-01-11 14:30:00\n**Shoe-Size:** 42\n\nmine", {"shoe_size": 42, "content": "mine"}),
        (b"\n## Turn 4\n\nmine\n", {"content": "mine"}),
    ),
    stray=(b"\n---\n\nwhat is\n\nthis\n", 4),
    markers=(b"<<<<<<< HEAD\n", b">>>>>>> x\n", b"||||||| b\r\n"),
    marker_inside=(b"**Memory-Refs", b"\\## Turn 9"),
    fragments=(
        b"## Turn 1\n", b"**Id:** A\n", b"## Turn 2 <!-- 2 -->\n", b"<!-- end A seq=2 sha256:0123456789abcdef -->\n", b"---\n", b"## Tu",
    ),
)  # fmt: skip


# -- JSON lines

JSON = CodecCase(
    name="json_lines",
    codec=JsonLines(),
    title="",
    entry=decision,
    rich=decision(
        2,
        "Größe: prüfen ✓",
        rationale='{"id":"DEC-0009","seq":9,"checksum":"sha256:0123456789abcdef"}\n{"id":"',
        quoted='","checksum":"sha256:0123456789abcdef"}',
        alternatives=[{"option": "none", "why": ["a b", ["c"], {}]}],
    ),
    starts_with=b'{"id":"',
    complete_at=lambda encoded: len(encoded) - 1,
    hostile=[*YAML_HOSTILE, '{"id":"', '","checksum":"sha256:0123456789abcdef"}', '"}', "\\u0000", "]}"],
    alphabet=' \n\t":,ab\\[]{}0\r\x85\u2028',
    examples=({"id": 5}, {"seq": True}, {"k": {"checksum": "sha256:0123456789abcdef"}}),
    reserved=("checksum",),
    fewest_fields=1,
    shows_a_change=(EDITED, DAMAGED, UNSIGNED),  # the name of the signature was changed
    before_append=(b'{"id":"HAND","decision":"by hand"}\n',),
    edits=((b'"decision":"one"', b'"decision":"eins"'), (b'"seq":1,', b'"seq": 1,'), (b'"checksum":"sha256:', b'"checksum":"md5:')),
    typed=(
        (b'{"id": "DEC-0009", "decision": "mine"}', {"id": "DEC-0009", "decision": "mine"}),
        (b'{"decision":"mine"}\n', {"decision": "mine"}),
        (b'  {"decision":"mine","shoe_size":42}  \n', {"decision": "mine", "shoe_size": 42}),
    ),
    stray=(b"\nwhat is this", 1),
    invalid_utf8="not a JSON object",
    conflict_base=b"",
    markers=(b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> x\n", b"||||||| b\n", b"=======\r\n"),
    fragments=(b'{"id":"A"', b'{"id":"A","seq":1}\n', b',"checksum":"sha256:0123456789abcdef"}\n', b"{}\n", b"[1]\n", b'"}'),
)  # fmt: skip

CASES = (JSON, YAML, MARKDOWN)
