"""Codec of YAML lists: round trips of any JSON value, cuts, damage, hand-written entries."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, SIGNED, TORN, UNSIGNED, Fields, Piece
from smp_memory.files.yaml_list import YamlList, load_mapping
from smp_memory.files.yaml_text import DEPTH_LIMIT, InvalidYaml, emit_mapping, read_value

codec = YamlList("decisions")
HEADER = codec.header("Decisions of this session")
ENTRIES = (SIGNED, EDITED, UNSIGNED)


def entry(number: int, **more: Any) -> Fields:
    return {"id": f"DEC-{number:04}", "seq": number, "timestamp": "2026-01-11T14:30:05Z", **more}


RICH = entry(
    2,
    made_by="bmad-master",
    decision="Größe: prüfen ✓",
    rationale="First line\n  - id: DEC-0009 #4\n\n    smp: seq=4 sha256:0123456789abcdef\nlast\n",
    quoted="tags: [a]\n    smp: sha256:0123456789abcdef\r\nlast",
    tags=["process", "collaboration"],
    alternatives=[{"option": "cookies", "why": "no: # never"}, {"option": "none", "why": ["a b", ["c"], {}]}],
)
FOLDED = entry(8, decision="now", uid="khmedagg", schema=1) | {
    "history": [
        {"revision": 2, "at": "2026-01-12T09:00:00.000001Z", "by": "ada", "before": {"decision": "then"}, "seq": 9},
        {"deleted": "2026-01-13T09:00:00Z", "reason": "why: not", "seq": 10, "schema": 1, "hand": "edited"},
    ]
}
LATER = {**RICH, "seq": 12}
FILE = HEADER + codec.encode(entry(1, decision="one")) + codec.encode(RICH) + codec.encode(entry(3, decision="three"))


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
        "  x",
        "x ",
        "\n",
        "\n\n",
        "\na",
        "a\n",
        "a\n\n",
        "a\n \n",
        " a\nb",
        "\ta\nb",
        "a\n\tb",
        "a\n  ",
        "a\n\n\nb\n\n\n",
    ),
    *(
        "no",
        "Yes",
        "on",
        "OFF",
        "null",
        "Null",
        "~",
        "true",
        "TRUE",
        "y",
        "N",
        "1",
        "012",
        "1e3",
        "0x1F",
        "0b1",
        "1_000",
    ),
    *(
        "1.0",
        ".5",
        "-",
        "--",
        "---",
        "...",
        ".inf",
        "-.INF",
        ".nan",
        "+1",
        "12:30:45",
        "2026-01-11",
        "2026-01-11 10:00:00",
    ),
    *(
        "2026-01-11T14:30:05Z",
        "2026-01-11T14:30:05.123456Z",
        "2026-01-11T14:30:05+02:00",
        "3 retries",
        "3 e",
        "=",
        "<<",
    ),
    *(
        "a: b",
        "a:",
        "a:b",
        "a #b",
        "a#b",
        "# c",
        ": x",
        "- x",
        "? x",
        "[a",
        "{a",
        "a]",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
    ),
    *(
        '"',
        "'",
        "\\",
        "it's",
        'say "hi": no',
        "'\": \\",
        "a\tb",
        "a\r\nb",
        "a\rb",
        "a\x85b",
        "a\u2028b",
        "a\u2029b",
        "\ufeffa",
    ),
    *(
        "a\ufeff\nb",
        "\x00",
        "a\x07\nb",
        "\x7f",
        "\x9b",
        "é",
        "日本語",
        "😀",
        "\ufffe",
        "\U0010ffff",
        "\xa0a\xa0",
        "a\u3000",
    ),
    *(
        "    smp: sha256:0123456789abcdef",
        "x\n    smp: seq=3 sha256:0123456789abcdef\n",
        "  - id: DEC-1 #1\n",
    ),
    *(
        "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n",
        "decisions:\n- a",
        "a\n---\nb",
        "a\n...\n",
        FILE.decode(),
        "x" * 2000,
    ),
]

texts = st.one_of(st.sampled_from(NASTY), st.text(), st.text(alphabet=" \n\t-:#ab\"'\\|[]{}0\r\x85\u2028", max_size=12))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


# ------------------------------------------------------------------------------------------------------ round trip
@settings(max_examples=400, deadline=None)
@given(st.dictionaries(texts, json_values, max_size=6))
@example({"smp": "sha256:0123456789abcdef", "checksum": "a", "id": "DEC-0001", "seq": 1})
@example({"smp": {"smp": None}})
@example(
    {"seq": 0, "schema": 0, "uid": "a b", "uids": {"a b": "c"}, "tx": 1, "history": [{"seq": 1}, 2], "hand": "edited"}
)
@example({"seq": True, "schema": None, "history": [{"seq": 1, "at": "2026-01-11T14:30:05.123456Z"}], "timestamp": 5})
@example({"timestamp": "2026-01-11T14:30:05.123456Z", "updated": "2026-01-11T14:30:05.000001Z", "uids": {"A-1": "x"}})
@example({"k" * 1500: {"q" * 3000: ["x", {"z" * 1100: "a\nb"}]}})
@example({})
def test_any_json_value_survives_a_round_trip(fields: Fields) -> None:
    pieces = codec.decode(HEADER + codec.encode(fields) + codec.encode(entry(7)))
    assert states(pieces) == [SIGNED, SIGNED]
    assert same(pieces[0].fields, fields)
    assert pieces[1].fields == entry(7)


@pytest.mark.parametrize("text", NASTY)
def test_hostile_text_survives_as_value_key_and_element(text: str) -> None:
    fields = entry(1, value=text, nested={text: text, "list": [text, [text, "plain"]], "words": [text]}, last=text)
    pieces = codec.decode(HEADER + codec.encode(fields))
    assert states(pieces) == [SIGNED]
    assert same(pieces[0].fields, fields)


@pytest.mark.parametrize(
    "number", [0, -1, 1, 1.0, -0.0, 1e22, 1e-7, 1.5e300, 5e-324, 2**70, -(10**400), True, False, None, 0.1]
)
def test_numbers_keep_their_type(number: Any) -> None:
    pieces = codec.decode(codec.encode({"a": number, "b": [number, str(number)[:300], {"c": number}]}))
    assert same(pieces[0].fields, {"a": number, "b": [number, str(number)[:300], {"c": number}]})


@settings(max_examples=200, deadline=None)
@given(texts)
def test_other_yaml_readers_see_the_same_text(text: str) -> None:
    """Whoever reads the file with PyYAML gets the same, but for ISO times."""
    data = HEADER + codec.encode({"id": "DEC-0001", "value": text, "list": [text], text + "k": 1})
    item = yaml.load(data, Loader=yaml.CSafeLoader)["decisions"][0]
    if not text.startswith("2026-"):
        assert item["value"] == text
        assert item["list"] == [text]
    assert item[text + "k"] == 1


def test_file_is_valid_yaml_and_looks_as_documented() -> None:
    fields = entry(
        1,
        rationale="First line\nsecond line",
        tags=["process", "collaboration"],
        options=[{"option": "a b", "why": "c"}],
        uid="khmedagg",
        schema=1,
    )
    fields["timestamp"] = "2026-01-11T14:30:05.000042Z"
    text = (HEADER + codec.encode(fields)).decode()
    assert text[: text.rindex("sha256:")] == (
        "# Decisions of this session. SMP format 1. "
        "Add, edit or remove entries: a new one needs only its text, SMP adds id and time.\n"
        "decisions:\n\n"
        "  - id: DEC-0001 #1\n"
        "    timestamp: 2026-01-11T14:30:05Z\n"
        "    rationale: |-\n"
        "      First line\n"
        "      second line\n"
        "    tags: [process, collaboration]\n"
        "    options:\n"
        "      - option: a b\n"
        "        why: c\n"
        "    smp: seq=1 uid=khmedagg us=000042 "
    )
    assert len(yaml.safe_load(FILE)["decisions"]) == 3


def test_id_with_begin_mark_comes_first_whatever_the_order_of_fields() -> None:
    assert codec.encode({"a": 1, "seq": 5, "id": "X"}).startswith(b"\n  - id: X #5\n    a: 1\n")


@pytest.mark.parametrize("bad", [{"a": math.nan}, {"a": [math.inf]}])
def test_value_that_is_not_json_is_rejected(bad: Fields) -> None:
    with pytest.raises(ValueError, match="finite"):
        codec.encode(bad)
    with pytest.raises(TypeError):
        codec.encode({"a": object()})


def test_nesting_up_to_the_limit_survives_and_deeper_is_rejected() -> None:
    value: Any = 1
    for level in range(DEPTH_LIMIT - 1):
        value = {"a": value} if level % 2 else [value]
    assert codec.decode(codec.encode({"v": value}))[0].fields == {"v": value}
    with pytest.raises(ValueError, match="nested deeper"):
        codec.encode({"v": [value]})


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(texts, json_values, max_size=5))
def test_mapping_file_survives_a_round_trip(fields: Fields) -> None:
    data = emit_mapping(fields).encode()
    assert same(load_mapping(data), fields)
    assert same(load_mapping(b"\xef\xbb\xbf# hi\r\n" + data.replace(b"\n", b"\r\n")), fields)


def test_the_python_parser_reads_the_same_when_the_c_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from smp_memory.files import yaml_text

    expected = fields_of(codec.decode(FILE))
    yaml_text._events.cache_clear()
    monkeypatch.delattr(yaml, "CSafeLoader")
    try:
        assert fields_of(codec.decode(FILE)) == expected
        deep = codec.decode(HEADER + b"  - a: " + b"[" * 5000 + b"\n")
        assert states(deep) == [DAMAGED]
    finally:
        yaml_text._events.cache_clear()


def test_writing_does_not_import_yaml() -> None:
    code = "import sys; from smp_memory.files.yaml_list import YamlList; YamlList('k').encode({'id': 'a: b'}); sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------ cuts and damage
@pytest.mark.parametrize(
    "before", [FILE, HEADER, b"decisions:\n- id: HAND\n  decision: by hand\n", HEADER + b"  - {id: HAND}"]
)
def test_cut_at_every_byte_is_torn_or_leaves_no_trace(before: bytes) -> None:
    appended = codec.encode(LATER)
    earlier = fields_of(codec.decode(before))
    for length in range(len(appended)):
        pieces = codec.decode(before + appended[:length])
        if length == len(appended) - 1:  # only the last newline is missing: the entry is whole
            assert fields_of(pieces) == [*earlier, LATER]
            continue
        assert fields_of(pieces) == earlier, length
        others = [piece for piece in pieces if piece.state not in ENTRIES]
        assert states(others) in ([], [TORN])
        if others:
            assert others[0] is pieces[-1]
            assert len(before) <= others[0].start
            assert others[0].end == len(before) + length


def test_cut_entry_is_read_when_it_is_complete() -> None:
    appended = codec.encode(LATER) + codec.encode(entry(14))
    for length in range(len(appended)):
        pieces = codec.decode(FILE + appended[:length])
        settled = pieces[-1].start if pieces[-1].state == TORN else len(FILE) + length
        rest = codec.decode((FILE + appended)[settled:], settled)
        assert fields_of(pieces) + fields_of(rest) == [*fields_of(codec.decode(FILE)), LATER, entry(14)], length
        assert set(states(rest)) <= {SIGNED}


def test_new_file_cut_at_every_byte_has_no_damage() -> None:
    whole = HEADER + codec.encode(entry(1))
    for length in range(1, len(whole) - 1):
        pieces = codec.decode(whole[:length])
        assert states(pieces) in ([], [TORN]), length
        settled = pieces[-1].start if pieces else length
        assert fields_of(codec.decode(whole[settled:], settled)) == [entry(1)]


@pytest.mark.parametrize("length", [0, 1, 5, 20, 60])
@pytest.mark.parametrize("zeros", [1, 4096])
def test_tail_of_zero_bytes_is_torn(length: int, zeros: int) -> None:
    data = FILE + codec.encode(entry(4))[:length] + bytes(zeros)
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


def test_offsets_and_lines_are_those_of_the_file() -> None:
    for piece in codec.decode(FILE):
        assert FILE[piece.start :].startswith(b"  - id: ")
        assert piece.line == FILE.count(b"\n", 0, piece.start) + 1
        again = codec.decode(FILE[piece.start : piece.end], piece.start, piece.line)
        assert [(p.start, p.end, p.line, p.fields) for p in again] == [
            (piece.start, piece.end, piece.line, piece.fields)
        ]


def test_the_rest_of_a_file_reads_like_the_file() -> None:
    whole = codec.decode(FILE)
    for start in (whole[1].start, whole[1].start - 1):
        rest = codec.decode(FILE[start:], start, FILE.count(b"\n", 0, start) + 1)
        assert [(p.start, p.end, p.line, p.fields) for p in rest] == [
            (p.start, p.end, p.line, p.fields) for p in whole[1:]
        ]


def test_boundary_finds_the_first_entry_after_a_line_end() -> None:
    starts = [piece.start for piece in codec.decode(FILE)]
    for at in range(len(FILE)):
        expected = [start for start in starts if start > at]
        found = codec.boundary(FILE[at:])
        assert at + found in starts or found == -1
        assert found == (expected[0] - at if expected else -1)


# --------------------------------------------------------------------------------------------------------- people
def test_hand_written_lists_of_any_indent() -> None:
    for indent in ("", "  ", "    ", "      "):
        text = f"decisions:\n{indent}- id: A\n{indent}  tags:\n{indent}  - x\n{indent}  - y\n\n{indent}# note\n{indent}- id: B\n{indent}  t: yes"
        pieces = codec.decode(text.encode())
        assert states(pieces) == [UNSIGNED, UNSIGNED], indent
        assert fields_of(pieces) == [{"id": "A", "tags": ["x", "y"]}, {"id": "B", "t": "yes"}]
        after = codec.decode(text.encode() + b"\n" + codec.encode(RICH) + codec.encode(entry(3)))
        assert states(after) == [UNSIGNED, UNSIGNED, SIGNED, SIGNED], indent


def test_example_from_the_specification_is_decoded() -> None:
    text = b"""decisions:
  - id: "DEC-001"
    timestamp: "2026-01-11T14:30:05Z"
    turn_ref: 2

    decision: 'Use it'
    agents_involved: ["veritas", "architect"]
    reversible: false  # Would require architecture change

    decay:
      priority: 1.0
      last: 2026-01-11T16:45:00Z
"""
    assert codec.decode(text)[0].fields == {
        "id": "DEC-001",
        "timestamp": "2026-01-11T14:30:05Z",
        "turn_ref": 2,
        "decision": "Use it",
        "agents_involved": ["veritas", "architect"],
        "reversible": False,
        "decay": {"priority": 1.0, "last": "2026-01-11T16:45:00Z"},
    }


def test_changed_entry_is_edited_and_the_machine_line_is_not_a_field() -> None:
    for old, new in (
        (b"decision: one", b"decision: eins"),
        (b"    smp: seq=1 schema=- sha256:", b"    smp: seq=1 schema=- md5:"),
        (b"    smp: seq=1 schema=- sha256:", b"    smp:   seq=1 schema=- sha256:"),
        (b"  - id: DEC-0001 #1\n", b"  - id: DEC-0001\n    x: 1\n"),
    ):
        pieces = codec.decode(FILE.replace(old, new, 1))
        assert states(pieces)[1:] == [SIGNED, SIGNED]
        assert pieces[0].state in (EDITED, DAMAGED)
        if pieces[0].fields is not None:
            assert "smp" not in pieces[0].fields
            assert pieces[0].fields["seq"] == 1


def test_entry_without_its_machine_line_is_edited() -> None:
    lines = FILE.split(b"\n")
    del lines[lines.index(next(text for text in lines if text.startswith(b"    smp:")))]
    pieces = codec.decode(b"\n".join(lines))
    assert states(pieces) == [EDITED, SIGNED, SIGNED]
    assert pieces[0].fields == entry(1, decision="one")


@pytest.mark.parametrize(
    "typed",
    [
        b"\n  - id: DEC-0009\n    decision: mine",
        b"\n  - id: DEC-0009\n    timestamp: 2026-01-11T14:30:05Z\n    decision: mine\n",
        b"\n  - decision: mine",
        b"\n  - decision: mine\n    made_by: ada\n\n",
        b"\n- decision: mine",
        b"\n  - {id: DEC-0009, decision: mine}",
        b"\n  - id: DEC-0009 # new\n    decision: mine",
    ],
)
def test_last_entry_written_by_hand_is_unsigned_and_never_torn(typed: bytes) -> None:
    pieces = codec.decode(FILE + typed)
    assert states(pieces) == [SIGNED, SIGNED, SIGNED, UNSIGNED]
    assert pieces[-1].fields is not None
    assert pieces[-1].fields["decision"] == "mine"


@pytest.mark.parametrize("copied", [1, 3])
def test_an_entry_copied_by_hand_without_its_machine_line_is_not_torn(copied: int) -> None:
    """Somebody copies an entry as a pattern, gives it another text and leaves out the line that is not for people."""
    copy = codec.encode(entry(copied, decision="one more"))
    copy = copy[: copy.index(b"    smp:")].replace(b"id: DEC-000", b"id: DEC-004")
    for text in (copy, copy.rstrip()):
        pieces = codec.decode(FILE + text)
        assert states(pieces) == [SIGNED, SIGNED, SIGNED, UNSIGNED]
        assert fields_of(pieces)[-1] == {
            "id": f"DEC-004{copied}",
            "timestamp": "2026-01-11T14:30:05Z",
            "decision": "one more",
        }


def test_folded_entry_survives_and_a_cut_in_it_is_torn() -> None:
    appended = codec.encode(FOLDED)
    assert codec.decode(FILE + appended)[-1].fields == FOLDED
    assert appended.count(b"seq=") == appended.splitlines()[-1].count(b"seq=") == 3
    for length in range(1, len(appended) - 1):
        pieces = codec.decode(FILE + appended[:length])
        assert states(pieces) in ([SIGNED] * 3, [SIGNED] * 3 + [TORN]), length
    assert states(codec.decode(FILE + appended + codec.encode(entry(9))[:-60])) == [SIGNED] * 4 + [UNSIGNED]
    assert states(codec.decode(FILE + appended + codec.encode(entry(11))[:-60])) == [SIGNED] * 4 + [TORN]


def test_crlf_bom_and_a_missing_last_newline_change_nothing() -> None:
    expected = fields_of(codec.decode(FILE))
    bom = b"\xef\xbb\xbf"
    for data in (FILE.replace(b"\n", b"\r\n"), bom + FILE, FILE[:-1], bom + FILE.replace(b"\n", b"\r\n")[:-2]):
        pieces = codec.decode(data)
        assert states(pieces) == [SIGNED] * 3
        assert fields_of(pieces) == expected
        assert all(data[piece.start :].startswith(b"  - id: ") for piece in pieces)
        assert [piece.line for piece in pieces] == [piece.line for piece in codec.decode(FILE)]


def test_stray_lines_are_one_damaged_piece_with_their_line() -> None:
    first = codec.decode(FILE)[0]
    pieces = codec.decode(FILE[: first.end] + b"\nwhat is\nthis\n" + FILE[first.end :])
    assert states(pieces) == [SIGNED, DAMAGED, SIGNED, SIGNED]
    assert pieces[1].line == FILE.count(b"\n", 0, first.end) + 2
    assert FILE[first.end :].count(b"this") == 0


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (b"  - &a {id: x}", "anchors"),
        (b"  - id: x\n    b: *a", "aliases"),
        (b"  - id: !!python/object/apply:os.system [ls]", "tags"),
        (b"  - id: !x y", "tags"),
        (b"  - id: x\n    id: y", "twice"),
        (b"  - id: x\n    a: {b: 1, b: 2}", "twice"),
        (b"  - id: .nan", "finite"),
        (b"  - id: -.inf", "finite"),
        (b"  - id: 1e999", "finite"),
        (b"  - id: " + b"9" * 5000, "too long"),
        (b"  - just text", "mapping"),
        (b"  - - a", "mapping"),
        (b"  - {[a]: b}", "key"),
        (b"  - id: [a", ""),
        (b"  - id: x\n   seq: 1", ""),
        (b"  - id: x\n    a: \x07", ""),
        (b"  - id: " + b"[" * 50_000, "nested deeper"),
        (b"  - id: " + b"{a: " * 50_000, "nested deeper"),
        (b"  - " + b"- " * 50_000, "nested deeper"),
        (b"  - " + b"? " * 50_000, "key"),
    ],
)
def test_invalid_item_is_damaged_and_affects_no_other(item: bytes, reason: str) -> None:
    pieces = codec.decode(FILE + b"\n" + item + b"\n" + codec.encode(entry(5)))
    assert states(pieces) == [SIGNED, SIGNED, SIGNED, DAMAGED, SIGNED]
    assert reason in pieces[3].message
    assert len(pieces[3].message) < 200
    assert pieces[3].line == FILE.count(b"\n") + 2


def test_a_merge_key_is_only_a_key_and_odd_keys_are_text() -> None:
    pieces = codec.decode(b"decisions:\n- id: x\n  <<: {a: 1}\n  1: b\n  true: c\n")
    assert pieces[0].fields == {"id": "x", "<<": {"a": 1}, "1": "b", "true": "c"}


def test_two_documents_are_rejected() -> None:
    with pytest.raises(InvalidYaml):
        read_value("a: 1\n--- b\n", yaml)
    with pytest.raises(ValueError, match="UTF-8"):
        load_mapping(b"a: \xff")


# ------------------------------------------------------------------------------------------------------- conflicts
def merged(common: bytes, ours: bytes, theirs: bytes, after: bytes = b"", base: bytes = b"") -> bytes:
    middle = b"||||||| base\n" + base if base else b""
    return common + b"<<<<<<< HEAD\n" + ours + middle + b"=======\n" + theirs + b">>>>>>> branch\n" + after


def check_no_overlap(pieces: list[Piece]) -> None:
    for left, right in itertools.pairwise(pieces):
        assert left.end <= right.start


def test_complete_entries_on_both_sides_of_a_conflict_are_signed() -> None:
    data = merged(FILE, codec.encode(entry(4, a=1)), codec.encode(entry(4, b=2)), codec.encode(entry(5)), b"junk\n")
    for text in (data, data.replace(b"\n", b"\r\n")):
        pieces = codec.decode(text)
        assert fields_of(pieces)[3:] == [entry(4, a=1), entry(4, b=2), entry(5)]
        assert states(pieces).count(CONFLICT) == 4
        assert DAMAGED not in states(pieces)
        check_no_overlap(pieces)


def test_entry_whose_first_lines_git_moved_out_of_the_conflict_is_decoded_on_both_sides() -> None:
    ours, theirs = codec.encode(entry(4, a=1)), codec.encode(entry(4, b=2))
    shared = ours.index(b"    a:")
    data = merged(FILE + ours[:shared], ours[shared:], theirs[shared:], codec.encode(entry(5)))
    pieces = codec.decode(data)
    assert fields_of(pieces)[3:] == [entry(4, a=1), entry(4, b=2), entry(5)]
    assert states(pieces) == [SIGNED] * 3 + [EDITED, CONFLICT, CONFLICT, EDITED, CONFLICT, SIGNED]
    check_no_overlap(pieces)
    repaired = b"".join(
        b"" if p.state == CONFLICT else codec.encode(p.fields or {}) if p.state == EDITED else data[p.start : p.end]
        for p in pieces
    )
    assert states(codec.decode(HEADER + repaired)) == [SIGNED] * 6


def test_a_conflict_in_the_middle_of_an_entry() -> None:
    lines = codec.encode(entry(4, a=1, z=2))
    cut, end = lines.index(b"    a:"), lines.index(b"    z:")
    data = merged(FILE + lines[:cut], lines[cut:end], b"", lines[end:] + codec.encode(entry(5)))
    pieces = codec.decode(data)
    assert fields_of(pieces)[3:] == [entry(4, a=1, z=2), entry(4, z=2), entry(5)]
    check_no_overlap(pieces)


@pytest.mark.parametrize("marker", [b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> x\n", b"||||||| b\n", b"=======\r\n"])
def test_left_over_marker_is_a_conflict_and_damages_nothing(marker: bytes) -> None:
    whole = codec.decode(FILE)
    pieces = codec.decode(FILE[: whole[0].end] + marker + FILE[whole[0].end :])
    assert [piece.state for piece in pieces if piece.state != SIGNED] == [CONFLICT]
    assert fields_of(pieces) == fields_of(whole)
    inside = FILE.index(b"    made_by")
    pieces = codec.decode(FILE[:inside] + marker + FILE[inside:])
    assert fields_of(pieces) == fields_of(whole)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"||||||| c\n", b"  - id: A #1\n", b"    seq: 1\n",
    b"    smp: seq=1 sha256:0123456789abcdef\n", b"\n", b"decisions:\n", b"junk\n", b"- a: [\n", b"\0", b"---\n", codec.encode(entry(1))]),
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
