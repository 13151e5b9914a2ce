"""Codec of YAML lists, beyond the laws in test_codecs.py: bytes on disk, hand-written lists, invalid YAML, folded entries."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, SIGNED, TORN, UNSIGNED, Fields
from smp_memory.files.yaml_text import DEPTH_LIMIT, InvalidYaml, emit_mapping, load_mapping, read_value
from tests.unit.files.codec_cases import YAML, check_no_overlap, fields_of, merged, same, states
from tests.unit.files.codec_cases import decision as entry

codec, HEADER, FILE, RICH = YAML.codec, YAML.header, YAML.file, YAML.rich
texts, json_values = YAML.texts, YAML.values


FOLDED = entry(8, decision="now", uid="khmedagg", schema=1) | {
    "history": [
        {"revision": 2, "at": "2026-01-12T09:00:00.000001Z", "by": "ada", "before": {"decision": "then"}, "seq": 9},
        {"deleted": "2026-01-13T09:00:00Z", "reason": "why: not", "seq": 10, "schema": 1, "hand": "edited"},
    ]
}


# ------------------------------------------------------------------------------------------------------ round trip


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
        "    decision: Use it\n"
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


def test_id_with_begin_mark_comes_first_for_any_order_of_fields() -> None:
    assert codec.encode({"a": 1, "seq": 5, "id": "X"}).startswith(b"\n  - id: X #5\n    a: 1\n")


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
    code = "import sys; from smp_memory.files.yaml_list import YamlList; YamlList('k').encode({'id': 'a: b'}); print('yaml' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


# ------------------------------------------------------------------------------------------------ cuts and damage


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


def without_machine_line(number: int) -> bytes:
    encoded = codec.encode(entry(number))
    return encoded[: encoded.index(b"    smp:")]


def test_folded_entry_survives_and_a_cut_in_it_is_torn() -> None:
    appended = codec.encode(FOLDED)
    assert codec.decode(FILE + appended)[-1].fields == FOLDED
    assert appended.count(b"seq=") == appended.splitlines()[-1].count(b"seq=") == 3
    for length in range(1, len(appended) - 1):
        pieces = codec.decode(FILE + appended[:length])
        assert states(pieces) in ([SIGNED] * 3, [SIGNED] * 3 + [TORN]), length
    assert states(codec.decode(FILE + appended + without_machine_line(9))) == [SIGNED] * 4 + [UNSIGNED]
    assert states(codec.decode(FILE + appended + without_machine_line(11))) == [SIGNED] * 4 + [TORN]


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
