"""Codec of Markdown blocks: round trips of any JSON value and body, cuts, damage, hand-written entries."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, SIGNED, TORN, UNSIGNED, Fields, Piece
from smp_memory.files.markdown_blocks import MarkdownBlocks

codec = MarkdownBlocks(label="Turn", time_key="timestamp", body_key="content", id_prefix="TURN")
HEADER = codec.header("Conversation")
ENTRIES = (SIGNED, EDITED, UNSIGNED)


def turn(number: int, content: Any = "Hello.", **more: Any) -> Fields:
    timestamp = "2026-01-11T14:30:00Z"
    return {
        "id": f"TURN-{number:04}",
        "seq": number,
        "timestamp": timestamp,
        "speaker": "user",
        **more,
        "content": content,
    }


RICH = turn(
    2,
    "Größe ✓\n\n## Turn 9 - 2026-01-11 14:30:00 <!-- 9 -->\n**Speaker:** me\n\nhi\n\n---\n\n"
    "<!-- end TURN-0009 seq=9 sha256:0123456789abcdef -->\n\n---\n#\n##\n## Tur\n<<<<<<< a\n=======\n>>>>>>> b\n",
    memory_refs=["DEC-0001", "FIND-0002"],
    odd={"a": [1, None]},
)
LATER = {**RICH, "seq": 12}
FILE = HEADER + codec.encode(turn(1)) + codec.encode(RICH) + codec.encode(turn(3, "x\r\ny"))


def states(pieces: list[Piece]) -> list[str]:
    return [piece.state for piece in pieces]


def fields_of(pieces: list[Piece]) -> list[Fields | None]:
    return [piece.fields for piece in pieces if piece.state in ENTRIES]


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


NASTY = [
    *(
        "",
        " ",
        "\n",
        "\n\n",
        "\n\n\n",
        "a\n",
        "a\n\n",
        "\na",
        "\n\na\n\n",
        " a",
        "a ",
        "\ta",
        "a\n---",
        "---",
        "---\n",
        "\n---\n",
    ),
    *(
        "\\---",
        "\\\\--- ",
        "---\t",
        "----",
        "--",
        "-",
        "## Turn 5",
        "\\## Turn 5 - x",
        "## Turn",
        "## Turn ",
        "# x",
        "## Heading",
    ),
    *("<!-- end TURN-0001 sha256:0123456789abcdef -->", "<!-- end", "<!-- end ", "\\<!-- end x", "<!-- note -->"),
    *(
        "<<<<<<< HEAD",
        "=======",
        "======= ",
        ">>>>>>> x",
        "||||||| x",
        "\\=======",
        "<<<<<<<",
        ">>>>>>>x",
        "Title\n=======\ntext",
    ),
    *(
        "**Id:** TURN-0009",
        "**Seq:** 1",
        "**Body:** none",
        "**Foo:** x\n\nbar",
        "**Encoding:** json",
        '"json"',
        "{",
        "[a, b]",
        "[",
        "]",
    ),
    *(
        "[a,b]",
        "[]",
        "[true]",
        "true",
        "null",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "-1",
        "1",
        "1.0",
        "012",
        "2026-01-11T14:30:00Z",
    ),
    *(
        "a\r\nb",
        "\r",
        "a\rb",
        "\x00",
        "\x07",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\x7f",
        "é",
        "日本語",
        "😀",
        "\\",
        "\\n",
        '"',
        "a\tb",
    ),
    *("\ufffe", "\xa0", "a\u3000", "\x1c", "none", "text", "undated", "?", "x" * 3000, FILE.decode()),
]
KEYS = [
    "a",
    "a_b",
    "a_1",
    "a1",
    "id",
    "seq",
    "timestamp",
    "content",
    "body",
    "encoding",
    "extra",
    "Body",
    "A-B",
    "updated",
    "deleted",
]
KEYS += ["restored", "memory_refs", "_a", "a__b", "", "é", "k" * 101, "a b", "a:** b", "label", "created"]

texts = st.one_of(st.sampled_from(NASTY), st.text(), st.text(alphabet="\\\n-#= <>|!*:ab\r\u2028", max_size=14))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
lists_of_words = st.lists(
    st.sampled_from(["a", "DEC-0001", "true", "null", "a b", "1", "NaN", "é", "x.y", "Infinity", "t,u", ""])
)


# ------------------------------------------------------------------------------------------------------ round trip
@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS) | texts, json_values | lists_of_words, max_size=7))
@example({})
@example({"content": None})
@example({"content": ""})
@example({"content": "**Foo:** x\n\nbar"})
@example({"content": "x", "body": "none", "encoding": "json", "extra": {"content": 1}})
@example({"id": "TURN-0000", "timestamp": "2026-01-11T14:30:00.123456Z", "updated": "2026-01-12T14:30:00Z"})
@example({"id": "changed", "deleted": "2026-01-12T14:30:00Z"})
@example({"id": "x" * 100, "restored": 5})
def test_any_json_value_survives_a_round_trip(fields: Fields) -> None:
    pieces = codec.decode(HEADER + codec.encode(fields) + codec.encode(turn(7)))
    assert states(pieces) == [SIGNED, SIGNED]
    assert same(pieces[0].fields, fields)
    assert pieces[1].fields == turn(7)


@pytest.mark.parametrize("text", NASTY)
def test_hostile_text_survives_as_body_value_and_key(text: str) -> None:
    for body in (text, f"{text}\n{text}", f"a\n{text}\n", f"\n{text}"):
        fields = turn(1, body, value=text, words=[text, "a"], more={text: text})
        fields[text + "K"] = text
        pieces = codec.decode(HEADER + codec.encode(fields))
        assert states(pieces) == [SIGNED]
        assert same(pieces[0].fields, fields)


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, max_size=6))
def test_any_body_survives_byte_for_byte(parts: list[str]) -> None:
    body = "\n".join(parts)
    pieces = codec.decode(codec.encode(turn(1, body)) + codec.encode(turn(2)))
    assert [piece.fields for piece in pieces] == [turn(1, body), turn(2)]


def test_a_file_looks_as_documented() -> None:
    fields = turn(1, "Let's review.\n\n## Sub\n- a", type="message", memory_refs=["DEC-0001", "FIND-0002"])
    fields |= {"timestamp": "2026-01-11T14:30:00.000042Z", "uid": "khmedagg", "schema": 1}
    text = (HEADER + codec.encode(fields)).decode()
    assert text[: text.index("sha256:")] + text[text.index(" -->\n\n---", 200) :] == (
        "# Conversation\n"
        "<!-- SMP format 1. Times are UTC. Add, edit or remove turns: a turn is a line "
        '"## Turn", below it the text; SMP adds number and time. -->\n\n'
        "---\n\n"
        "## Turn 1 - 2026-01-11 14:30:00 <!-- 1 -->\n"
        "**Speaker:** user\n"
        "**Type:** message\n"
        "**Memory-Refs:** [DEC-0001, FIND-0002]\n\n"
        "Let's review.\n\n## Sub\n- a\n\n"
        "<!-- end TURN-0001 seq=1 uid=khmedagg us=000042  -->\n\n---\n"
    )


@pytest.mark.parametrize(
    ("fields", "heading"),
    [
        ({"id": "TURN-0003", "deleted": "2026-01-11T15:00:00Z"}, "## Turn 3 deleted - 2026-01-11 15:00:00"),
        ({"id": "TURN-0003", "updated": "2026-01-11T15:00:00Z"}, "## Turn 3 changed - 2026-01-11 15:00:00"),
        ({"id": "TURN-0003", "restored": "2026-01-11T15:00:00.5Z"}, "## Turn 3 restored - 2026-01-11 15:00:00.5"),
        ({"id": "my-own", "timestamp": "2026-01-11T15:00:00Z"}, "## Turn my-own - 2026-01-11 15:00:00"),
        ({"id": "a\nb", "timestamp": "yesterday"}, "## Turn ? - undated"),
        ({}, "## Turn ? - undated"),
    ],
)
def test_headings(fields: Fields, heading: str) -> None:
    data = codec.encode(fields)
    assert data.decode().startswith(f"\n{heading}\n")
    assert codec.decode(data)[0].fields == fields


def test_blocks_of_another_label_are_text() -> None:
    artifacts = MarkdownBlocks(label="Artifact", time_key="timestamp", body_key="content", id_prefix="ART")
    data = artifacts.header("Artifact") + artifacts.encode({"id": "ART-0001", "seq": 1, "content": FILE.decode()})
    assert artifacts.decode(data)[0].fields == {"id": "ART-0001", "seq": 1, "content": FILE.decode()}
    assert b"\n## Turn 1 - " in data  # no escape where none is needed
    assert b'remove artifacts: an artifact is a line "## Artifact", below it' in data


def test_value_that_is_not_json_is_rejected() -> None:
    with pytest.raises(ValueError):
        codec.encode({"a": math.nan})
    with pytest.raises(TypeError):
        codec.encode({"a": object()})


# ------------------------------------------------------------------------------------------------ cuts and damage
BY_HAND = b"# Mine\n\n## Turn 1\n\nby hand\n"


@pytest.mark.parametrize("before", [FILE, HEADER, BY_HAND, BY_HAND[:-1], FILE[:-3], FILE + b"\n"])
def test_cut_at_every_byte_is_torn_or_leaves_no_trace(before: bytes) -> None:
    appended = codec.encode(LATER)
    complete = appended.rindex(b"-->") + 3
    earlier = fields_of(codec.decode(before))
    for length in range(len(appended)):
        pieces = codec.decode(before + appended[:length])
        if length >= complete:
            assert fields_of(pieces) == [*earlier, LATER]
            assert states(pieces)[-1] == SIGNED
            continue
        assert fields_of(pieces) == earlier, length
        others = [piece for piece in pieces if piece.state not in ENTRIES]
        assert states(others) in ([], [TORN])
        if others:
            assert others[0] is pieces[-1]
            assert len(before) <= others[0].start
            assert others[0].end == len(before) + length


def test_cut_entry_is_read_when_it_is_complete() -> None:
    appended = codec.encode(LATER) + codec.encode(turn(14))
    for length in range(len(appended)):
        pieces = codec.decode(FILE + appended[:length])
        settled = pieces[-1].start if pieces[-1].state == TORN else len(FILE) + length
        rest = codec.decode((FILE + appended)[settled:], settled)
        assert fields_of(pieces) + fields_of(rest) == [*fields_of(codec.decode(FILE)), LATER, turn(14)], length
        assert set(states(rest)) <= {SIGNED}


def test_new_file_cut_at_every_byte_has_no_damage() -> None:
    whole = HEADER + codec.encode(turn(1))
    for length in range(1, whole.rindex(b"-->")):
        pieces = codec.decode(whole[:length])
        assert states(pieces) in ([], [TORN]), length
        settled = pieces[-1].start if pieces else length
        assert fields_of(codec.decode(whole[settled:], settled)) == [turn(1)], length


def test_append_after_a_cut_rule_is_harmless() -> None:
    for missing in range(1, 6):
        pieces = codec.decode(FILE[:-missing] + b"\n" + codec.encode(turn(4)))
        assert states(pieces) == [SIGNED] * 4


@pytest.mark.parametrize("length", [0, 1, 5, 20, 60, 90])
@pytest.mark.parametrize("zeros", [1, 4096])
def test_tail_of_zero_bytes_is_torn(length: int, zeros: int) -> None:
    data = FILE + codec.encode(turn(4))[:length] + bytes(zeros)
    pieces = codec.decode(data)
    assert states(pieces) == [SIGNED, SIGNED, SIGNED, TORN]
    assert pieces[-1].end == len(data)


def test_changed_byte_is_detected_and_affects_no_other_entry() -> None:
    rng = random.Random(1)
    whole = codec.decode(FILE)
    for at in range(len(HEADER), len(FILE)):
        flipped = bytes([rng.choice([FILE[at] ^ (1 << rng.randrange(8)), 0, 10, 32, 45, 255])])
        if flipped == FILE[at : at + 1]:
            continue
        pieces = codec.decode(FILE[:at] + flipped + FILE[at + 1 :])
        found = [piece.fields for piece in pieces if piece.state == SIGNED]
        for piece in whole:
            if not piece.start - 1 <= at <= piece.end:
                assert piece.fields in found, (at, flipped)
        hit = next((piece for piece in whole if piece.start <= at < piece.end - 1), None)
        if hit is not None:
            assert hit.fields not in found, (at, flipped)
            assert {EDITED, DAMAGED} & set(states(pieces)), (at, flipped)
            assert TORN not in states(pieces), (at, flipped)  # a whole entry must not be cut away


def test_invalid_utf8_damages_one_entry_only() -> None:
    pieces = codec.decode(FILE.replace("Größe".encode(), b"Gr\xff\xfe\xe4e"))
    assert states(pieces) == [SIGNED, DAMAGED, SIGNED]
    assert "UTF-8" in pieces[1].message


def test_stray_text_is_one_damaged_piece_with_its_line() -> None:
    first = codec.decode(FILE)[0]
    pieces = codec.decode(FILE[: first.end] + b"\n---\n\nwhat is\n\nthis\n" + FILE[first.end :])
    assert states(pieces) == [SIGNED, DAMAGED, SIGNED, SIGNED]
    assert pieces[1].line == FILE.count(b"\n", 0, first.end) + 4


def test_damaged_first_heading_is_not_part_of_the_header() -> None:
    pieces = codec.decode(FILE.replace(b"## Turn 1 - ", b"## Tirn 1 - ", 1))
    assert states(pieces) == [DAMAGED, SIGNED, SIGNED]


def test_offsets_and_lines_are_those_of_the_file() -> None:
    for piece in codec.decode(FILE):
        assert FILE[piece.start :].startswith(b"## Turn ")
        assert piece.line == FILE.count(b"\n", 0, piece.start) + 1
        again = codec.decode(FILE[piece.start : piece.end], piece.start, piece.line)
        assert [(p.start, p.end, p.line, p.fields) for p in again] == [
            (piece.start, piece.end, piece.line, piece.fields)
        ]


def test_the_rest_of_a_file_reads_like_the_file() -> None:
    whole = codec.decode(FILE)
    for start in (whole[0].end, whole[1].start, whole[1].start - 1):
        rest = codec.decode(FILE[start:], start, FILE.count(b"\n", 0, start) + 1)
        assert [(p.start, p.end, p.line, p.fields) for p in rest] == [
            (p.start, p.end, p.line, p.fields) for p in whole[1:]
        ]


def test_boundary_finds_the_first_entry_in_a_chunk() -> None:
    starts = [piece.start for piece in codec.decode(FILE)]
    for at in range(len(FILE)):
        expected = [start for start in starts if start > at]
        assert codec.boundary(FILE[at:]) == (expected[0] - at if expected else -1)


# --------------------------------------------------------------------------------------------------------- people
def test_example_from_the_specification_is_decoded() -> None:
    text = b"""# Conversation History
**Session:** session-2026-01-11-abc123
**Started:** 2026-01-11 14:30:00 UTC

---

## Turn 1 - 2026-01-11 14:30:00
**Speaker:** user
**Type:** message

Let's review.

---

## Turn 2 - 2026-01-11 14:30:05
**Speaker:** bmad-master
**Memory-Refs:** [DEC-001, FIND-002]

I'll coordinate.

**Memory Stored:**
- Decision [DEC-001]

---

<!-- Conversation continues... -->
"""
    pieces = codec.decode(text)
    assert states(pieces) == [UNSIGNED, UNSIGNED]
    assert pieces[0].fields == {
        "id": "TURN-0001",
        "timestamp": "2026-01-11T14:30:00Z",
        "speaker": "user",
        "type": "message",
        "content": "Let's review.",
    }
    assert pieces[1].fields is not None
    assert pieces[1].fields["memory_refs"] == ["DEC-001", "FIND-002"]
    assert pieces[1].fields["content"].startswith("I'll coordinate.\n\n**Memory Stored:**\n- Decision [DEC-001]")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("## Turn 3\nhi", {"id": "TURN-0003", "content": "hi"}),
        ("## Turn 3\n\nhi\n\n---\n\n", {"id": "TURN-0003", "content": "hi"}),
        ("## Turn 3 - 2026-01-11 14:30\n\n**Speaker:** me\n\nhi", {"id": "TURN-0003", "speaker": "me"}),
        ("## Turn 12345 - 2026-01-11 14:30:01 UTC\n**A:** {x\n**B:** [a b, c]\n**C:** 3\ntext", {"a": "{x", "b": ["a b", "c"], "c": 3, "content": "text"}),
        ("## Turn intro - some day\n**Memory Refs:** [x]\n\nhi", {"id": "intro", "timestamp": "some day", "memory_refs": ["x"]}),
        ("## Turn 4\n**Id:** OWN-7\n**Extra:** words\n**Body:** mine\n**Encoding:** utf-8\n\nhi", {"id": "OWN-7", "extra": "words", "body": "mine", "encoding": "utf-8"}),
    ],
)  # fmt: skip
def test_hand_written_turns(text: str, fields: Fields) -> None:
    for data in (text.encode(), HEADER + b"\n" + text.encode(), (text + "\n").replace("\n", "\r\n").encode()):
        pieces = codec.decode(data)
        assert states(pieces) == [UNSIGNED]
        assert pieces[0].fields is not None
        assert {key: pieces[0].fields[key] for key in fields} == fields


def test_headings_in_a_hand_written_body_are_text_unless_they_name_a_turn() -> None:
    text = b"## Turn 1\n\n## Sub\n\n## Turn of events\n\n## Turning\n\nTitle\n=======\n"
    pieces = codec.decode(text)
    assert pieces[0].fields == {
        "id": "TURN-0001",
        "content": "## Sub\n\n## Turn of events\n\n## Turning\n\nTitle\n=======",
    }


def test_changed_entry_is_edited() -> None:
    for old, new in (
        (b"Hello.", b"Hello, you."),
        (b"**Speaker:** user", b"**Speaker:** me"),
        (b"<!-- end TURN-0001", b"<!-- end TURN-0009"),
    ):
        pieces = codec.decode(FILE.replace(old, new, 1))
        assert states(pieces) == [EDITED, SIGNED, SIGNED]
    assert codec.decode(FILE.replace(b"Hello.", b"Hello,\n\nyou.\n", 1))[0].fields == turn(1, "Hello,\n\nyou.\n")


def test_entry_without_its_end_comment_is_edited() -> None:
    start = FILE.index(b"<!-- end TURN-0001")
    pieces = codec.decode(FILE[:start] + FILE[FILE.index(b"\n", start) + 1 :])
    assert states(pieces) == [EDITED, SIGNED, SIGNED]
    assert pieces[0].fields == turn(1)


@pytest.mark.parametrize(
    "typed",
    [b"\n## Turn 4\nmine", b"\n## Turn 4 - 2026-01-11 14:30:00\n**Speaker:** me\n\nmine", b"\n## Turn 4\n\nmine\n"],
)
def test_last_turn_written_by_hand_is_unsigned_and_never_torn(typed: bytes) -> None:
    pieces = codec.decode(FILE + typed)
    assert states(pieces) == [SIGNED, SIGNED, SIGNED, UNSIGNED]
    assert pieces[-1].fields is not None
    assert pieces[-1].fields["content"] == "mine"


def test_a_turn_copied_by_hand_without_its_end_comment_is_not_torn() -> None:
    copy = codec.encode(turn(3, "mine"))
    copy = copy[: copy.index(b"<!-- end")].replace(b"## Turn 3", b"## Turn 4")
    for text in (copy, copy.rstrip()):
        pieces = codec.decode(FILE + text)
        assert states(pieces) == [SIGNED, SIGNED, SIGNED, UNSIGNED]
        assert pieces[-1].fields == {
            "id": "TURN-0004",
            "timestamp": "2026-01-11T14:30:00Z",
            "speaker": "user",
            "content": "mine",
        }


def test_removing_a_turn_affects_no_other() -> None:
    whole = codec.decode(FILE)
    pieces = codec.decode(FILE[: whole[1].start] + FILE[whole[2].start :])
    assert [piece.fields for piece in pieces] == [whole[0].fields, whole[2].fields]


def test_crlf_bom_and_a_missing_last_newline_change_nothing() -> None:
    expected = fields_of(codec.decode(FILE))
    bom = b"\xef\xbb\xbf"
    for data in (FILE.replace(b"\n", b"\r\n"), bom + FILE, FILE[:-1], bom + FILE.replace(b"\n", b"\r\n")[:-2]):
        pieces = codec.decode(data)
        assert states(pieces) == [SIGNED] * 3
        assert fields_of(pieces) == expected
        assert all(data[piece.start :].startswith(b"## Turn ") for piece in pieces)
        assert [piece.line for piece in pieces] == [piece.line for piece in codec.decode(FILE)]


def test_deeply_nested_json_in_a_line_is_text() -> None:
    value = "[" * 200_000
    pieces = codec.decode(f"## Turn 1\n**A:** {value}\n\nhi\n".encode())
    assert pieces[0].fields == {"id": "TURN-0001", "a": value, "content": "hi"}


# ------------------------------------------------------------------------------------------------------- conflicts
def merged(common: bytes, ours: bytes, theirs: bytes, after: bytes = b"", base: bytes = b"") -> bytes:
    middle = b"||||||| base\n" + base if base else b""
    return common + b"<<<<<<< HEAD\n" + ours + middle + b"=======\n" + theirs + b">>>>>>> branch\n" + after


def check_no_overlap(pieces: list[Piece]) -> None:
    for left, right in itertools.pairwise(pieces):
        assert left.end <= right.start


def test_complete_turns_on_both_sides_of_a_conflict_are_signed() -> None:
    data = merged(FILE, codec.encode(turn(4, "a")), codec.encode(turn(4, "b")), codec.encode(turn(5)), b"junk\n")
    for text in (data, data.replace(b"\n", b"\r\n")):
        pieces = codec.decode(text)
        assert fields_of(pieces)[3:] == [turn(4, "a"), turn(4, "b"), turn(5)]
        assert states(pieces).count(CONFLICT) == 4
        assert DAMAGED not in states(pieces)
        check_no_overlap(pieces)


def test_turn_whose_first_and_last_lines_git_moved_out_of_the_conflict_is_decoded_on_both_sides() -> None:
    ours, theirs = codec.encode(turn(4, "a")), codec.encode(turn(4, "b"))
    shared, tail = ours.index(b"a\n\n<!-- end"), len(b"\n---\n")
    data = merged(FILE + ours[:shared], ours[shared:-tail], theirs[shared:-tail], ours[-tail:] + codec.encode(turn(5)))
    pieces = codec.decode(data)
    assert fields_of(pieces)[3:] == [turn(4, "a"), turn(4, "b"), turn(5)]
    assert states(pieces) == [SIGNED] * 3 + [EDITED, CONFLICT, CONFLICT, EDITED, CONFLICT, SIGNED]
    check_no_overlap(pieces)
    repaired = b"".join(
        b"" if p.state == CONFLICT else codec.encode(p.fields or {}) if p.state == EDITED else data[p.start : p.end]
        for p in pieces
    )
    assert states(codec.decode(HEADER + repaired)) == [SIGNED] * 6


@pytest.mark.parametrize("marker", [b"<<<<<<< HEAD\n", b">>>>>>> x\n", b"||||||| b\r\n"])
def test_left_over_marker_is_a_conflict_and_damages_nothing(marker: bytes) -> None:
    whole = codec.decode(FILE)
    for at in (whole[0].end, FILE.index(b"**Memory-Refs"), FILE.index(b"\\## Turn 9")):
        pieces = codec.decode(FILE[:at] + marker + FILE[at:])
        assert states(pieces).count(CONFLICT) == 1
        assert fields_of(pieces) == fields_of(whole)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"||||||| c\n", b"## Turn 1\n", b"**Id:** A\n",
    b"## Turn 2 <!-- 2 -->\n", b"<!-- end A seq=2 sha256:0123456789abcdef -->\n", b"\n", b"junk\n", b"---\n", b"\0", b"## Tu", codec.encode(turn(1))]),
    max_size=12))  # fmt: skip
def test_no_mixture_of_lines_breaks_the_reader(parts: list[bytes]) -> None:
    data = b"".join(parts)
    pieces = codec.decode(data, 10, 5)
    assert all(10 <= piece.start <= piece.end <= 10 + len(data) for piece in pieces)
    assert all(piece.line == 5 + data.count(b"\n", 0, piece.start - 10) for piece in pieces)
    assert TORN not in states(pieces[:-1])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(junk: bytes) -> None:
    codec.decode(junk)
    pieces = codec.decode(FILE + b"\n" + junk)
    assert fields_of(pieces)[:2] == fields_of(codec.decode(FILE))[:2]


@pytest.mark.parametrize("behind", ["**Speaker:** ann", "oops"])
def test_text_after_the_number_in_a_heading_is_kept(behind: str) -> None:
    fields = {"id": "TURN-0001", "timestamp": "2026-01-01T12:00:00Z", "role": "user", "content": "words", "seq": 2}
    data = codec.encode(fields).replace(b"<!-- 2 -->\n", f"<!-- 2 -->{behind}\n".encode())
    (piece,) = codec.decode(data)
    assert piece.fields is not None
    assert piece.state == "edited"
    wanted = {"speaker": "ann", "content": "words"} if behind != "oops" else {"content": "oops\nwords"}
    assert {name: piece.fields.get(name) for name in wanted} == wanted
    assert piece.fields["role"] == "user"
