"""Codec of Markdown blocks, beyond the laws in test_codecs.py: bodies, bytes on disk, headings, hand-written turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, SIGNED, UNSIGNED, Fields
from smp_memory.files.markdown_blocks import MarkdownBlocks
from tests.unit.files.codec_cases import MARKDOWN, check_no_overlap, fields_of, merged, states, turn

codec, HEADER, FILE = MARKDOWN.codec, MARKDOWN.header, MARKDOWN.file
texts = MARKDOWN.texts


# ------------------------------------------------------------------------------------------------------ round trip


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


# ------------------------------------------------------------------------------------------------ cuts and damage


def test_append_after_a_cut_rule_is_harmless() -> None:
    for missing in range(1, 6):
        pieces = codec.decode(FILE[:-missing] + b"\n" + codec.encode(turn(4)))
        assert states(pieces) == [SIGNED] * 4


def test_damaged_first_heading_is_not_part_of_the_header() -> None:
    pieces = codec.decode(FILE.replace(b"## Turn 1 - ", b"## Tirn 1 - ", 1))
    assert states(pieces) == [DAMAGED, SIGNED, SIGNED]


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


def test_edited_body_is_read_with_its_blank_lines() -> None:
    pieces = codec.decode(FILE.replace(b"\none\n", b"\none,\n\ntwo.\n\n", 1))
    assert (pieces[0].state, pieces[0].fields) == (EDITED, turn(1, "one,\n\ntwo.\n"))


def test_entry_without_its_end_comment_is_edited() -> None:
    start = FILE.index(b"<!-- end TURN-0001")
    pieces = codec.decode(FILE[:start] + FILE[FILE.index(b"\n", start) + 1 :])
    assert states(pieces) == [EDITED, SIGNED, SIGNED]
    assert pieces[0].fields == turn(1, "one")


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


def test_deeply_nested_json_in_a_line_is_text() -> None:
    value = "[" * 200_000
    pieces = codec.decode(f"## Turn 1\n**A:** {value}\n\nhi\n".encode())
    assert pieces[0].fields == {"id": "TURN-0001", "a": value, "content": "hi"}


# ------------------------------------------------------------------------------------------------------- conflicts


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
