"""Laws that every codec keeps: round trips, cuts, damage, offsets, hand-written entries, conflict markers of git."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, SIGNED, TORN, UNSIGNED
from tests.unit.files.codec_cases import (
    CASES,
    ENTRIES,
    CodecCase,
    check_no_overlap,
    fields_of,
    merged,
    places,
    same,
    states,
)

every_codec = pytest.mark.parametrize("case", CASES, ids=repr)


# -- round trip


@every_codec
@settings(max_examples=100)
@given(data=st.data())
def test_any_json_value_survives_a_round_trip(case: CodecCase, data: st.DataObject) -> None:
    fields = data.draw(case.fields)
    pieces = case.codec.decode(case.header + case.codec.encode(fields) + case.codec.encode(case.entry(7)))
    assert states(pieces) == [SIGNED, SIGNED]
    assert same(pieces[0].fields, fields)
    assert pieces[1].fields == case.entry(7)


@every_codec
def test_fields_with_a_meaning_in_the_format_survive_with_any_value(case: CodecCase) -> None:
    for fields in case.examples:
        (piece,) = case.codec.decode(case.header + case.codec.encode(fields))
        assert piece.state == SIGNED
        assert same(piece.fields, fields)


@every_codec
def test_hostile_text_survives_as_text_value_key_and_element(case: CodecCase) -> None:
    for text in (*case.hostile, case.file.decode()):
        for whole in (text, f"{text}\n{text}", f"a\n{text}\n", f"\n{text}"):
            more = {"value": text, "nested": {text: text, "list": [text, [text, "plain"]], "words": [text]}}
            fields = {**case.entry(1, whole, **more), text + "K": text}
            pieces = case.codec.decode(case.header + case.codec.encode(fields))
            assert states(pieces) == [SIGNED], text
            assert same(pieces[0].fields, fields), text


@every_codec
@pytest.mark.parametrize(
    "number", [0, -1, 1, 1.0, -0.0, 1e22, 1e-7, 1.5e300, 5e-324, 2**70, -(10**400), True, False, None, 0.1]
)
def test_numbers_keep_their_type(case: CodecCase, number: Any) -> None:
    fields = {"a": number, "b": [number, str(number)[:300], {"c": number}]}
    assert same(case.codec.decode(case.codec.encode(fields))[0].fields, fields)


@every_codec
@pytest.mark.parametrize("value", [math.nan, [math.inf], {"b": -math.inf}])
def test_value_that_is_not_json_is_rejected(case: CodecCase, value: Any) -> None:
    with pytest.raises(ValueError):
        case.codec.encode({"a": value})
    with pytest.raises(TypeError):
        case.codec.encode({"a": object()})


# -- cuts and damage


@every_codec
def test_cut_at_every_byte_is_torn_or_leaves_no_trace(case: CodecCase) -> None:
    appended = case.codec.encode(case.later)
    complete = case.complete_at(appended)
    for before in (case.file, case.header, *case.before_append):
        earlier = fields_of(case.codec.decode(before))
        for length in range(len(appended)):
            pieces = case.codec.decode(before + appended[:length])
            if length >= complete:
                assert fields_of(pieces) == [*earlier, case.later]
                assert states(pieces)[-1] == SIGNED
                continue
            assert fields_of(pieces) == earlier, length
            others = [piece for piece in pieces if piece.state not in ENTRIES]
            assert states(others) in ([], [TORN])
            if others:
                assert others[0] is pieces[-1]
                assert len(before) <= others[0].start
                assert others[0].end == len(before) + length


@every_codec
def test_cut_entry_is_read_when_it_is_complete(case: CodecCase) -> None:
    appended = case.codec.encode(case.later) + case.codec.encode(case.entry(14))
    expected = [*fields_of(case.codec.decode(case.file)), case.later, case.entry(14)]
    for length in range(len(appended)):
        pieces = case.codec.decode(case.file + appended[:length])
        settled = pieces[-1].start if pieces[-1].state == TORN else len(case.file) + length
        rest = case.codec.decode((case.file + appended)[settled:], settled)
        assert fields_of(pieces) + fields_of(rest) == expected, length
        assert set(states(rest)) <= {SIGNED}


@every_codec
def test_new_file_cut_at_every_byte_has_no_damage(case: CodecCase) -> None:
    whole = case.header + case.codec.encode(case.entry(1))
    for length in range(1, case.complete_at(whole)):
        pieces = case.codec.decode(whole[:length])
        assert states(pieces) in ([], [TORN]), length
        settled = pieces[-1].start if pieces else length
        assert fields_of(case.codec.decode(whole[settled:], settled)) == [case.entry(1)], length


@every_codec
@pytest.mark.parametrize("length", [0, 1, 5, 20, 60, 80])
@pytest.mark.parametrize("zeros", [1, 4096])
def test_tail_of_zero_bytes_is_torn(case: CodecCase, length: int, zeros: int) -> None:
    data = case.file + case.codec.encode(case.entry(4))[:length] + bytes(zeros)
    pieces = case.codec.decode(data)
    assert states(pieces) == [SIGNED, SIGNED, SIGNED, TORN]
    assert pieces[-1].end == len(data)


@every_codec
def test_changed_byte_is_detected_and_affects_no_other_entry(case: CodecCase) -> None:
    rng = random.Random(1)
    file = case.file
    whole = case.codec.decode(file)
    for at in range(len(case.header), len(file)):
        flipped = bytes([rng.choice([file[at] ^ (1 << rng.randrange(8)), 0, 10, 32, 45, 255])])
        if flipped == file[at : at + 1]:
            continue
        pieces = case.codec.decode(file[:at] + flipped + file[at + 1 :])
        found = [piece.fields for piece in pieces if piece.state == SIGNED]
        assert all(fields in fields_of(whole) for fields in found), (at, flipped)
        for piece in whole:
            if not piece.start - 1 <= at <= piece.end:
                assert piece.fields in found, (at, flipped)
        hit = next((piece for piece in whole if piece.start <= at < piece.end - 1), None)
        if hit is not None:
            assert hit.fields not in found, (at, flipped)
            assert set(case.shows_a_change) & set(states(pieces)), (at, flipped)
            assert TORN not in states(pieces), (at, flipped)  # a whole entry must not be cut away


@every_codec
def test_invalid_utf8_damages_one_entry_only(case: CodecCase) -> None:
    pieces = case.codec.decode(case.file.replace("Größe".encode(), b"Gr\xff\xfe\xe4e"))
    assert states(pieces) == [SIGNED, DAMAGED, SIGNED]
    assert case.invalid_utf8 in pieces[1].message


@every_codec
def test_stray_text_is_one_damaged_piece_with_its_line(case: CodecCase) -> None:
    first = case.codec.decode(case.file)[0]
    text, lines = case.stray
    pieces = case.codec.decode(case.file[: first.end] + text + case.file[first.end :])
    assert states(pieces) == [SIGNED, DAMAGED, SIGNED, SIGNED]
    assert pieces[1].line == case.file.count(b"\n", 0, first.end) + lines + (not case.header)


@every_codec
@settings(max_examples=100)
@given(data=st.data())
def test_no_mixture_of_lines_breaks_the_reader(case: CodecCase, data: st.DataObject) -> None:
    usual = [b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"||||||| c\n", b"\n", b"junk\n", b"\0"]
    fragments = [*usual, *case.fragments, case.codec.encode(case.entry(1))]
    text = b"".join(data.draw(st.lists(st.sampled_from(fragments), max_size=12)))
    pieces = case.codec.decode(text, 10, 5)
    assert all(10 <= piece.start <= piece.end <= 10 + len(text) for piece in pieces)
    assert all(piece.line == 5 + text.count(b"\n", 0, piece.start - 10) for piece in pieces)
    assert TORN not in states(pieces[:-1])


@every_codec
@settings(max_examples=100)
@given(junk=st.binary(max_size=200))
def test_no_bytes_break_the_reader(case: CodecCase, junk: bytes) -> None:
    case.codec.decode(junk)
    pieces = case.codec.decode(case.file + b"\n" + junk)
    assert fields_of(pieces)[:2] == fields_of(case.codec.decode(case.file))[:2]


# -- offsets


@every_codec
def test_offsets_and_lines_are_those_of_the_file(case: CodecCase) -> None:
    for piece in case.codec.decode(case.file):
        assert case.file[piece.start :].startswith(case.starts_with)
        assert piece.line == case.file.count(b"\n", 0, piece.start) + 1
        again = case.codec.decode(case.file[piece.start : piece.end], piece.start, piece.line)
        assert places(again) == places([piece])


@every_codec
def test_rest_of_a_file_reads_like_the_file(case: CodecCase) -> None:
    whole = case.codec.decode(case.file)
    for start in (whole[0].end, whole[1].start, whole[1].start - 1):
        rest = case.codec.decode(case.file[start:], start, case.file.count(b"\n", 0, start) + 1)
        assert places(rest) == places(whole[1:])


@every_codec
def test_boundary_finds_the_first_entry_in_a_chunk(case: CodecCase) -> None:
    starts = [piece.start for piece in case.codec.decode(case.file)]
    for at in range(len(case.file)):
        expected = [start for start in starts if start > at]
        assert case.codec.boundary(case.file[at:]) == (expected[0] - at if expected else -1)


@every_codec
def test_entry_can_be_removed_or_replaced_within_its_span(case: CodecCase) -> None:
    whole = case.codec.decode(case.file)
    for number, piece in enumerate(whole):
        start, end = case.codec.span(case.file, piece.start, piece.end)
        others = [each.fields for each in whole if each is not piece]
        removed = case.codec.decode(case.file[:start] + case.file[end:])
        assert fields_of(removed) == others
        replaced = case.codec.decode(case.file[:start] + case.codec.encode(case.later) + case.file[end:])
        assert fields_of(replaced) == [*others[:number], case.later, *others[number:]]
        assert set(states(removed) + states(replaced)) == {SIGNED}


# -- people


@every_codec
def test_changed_entry_is_edited_and_affects_no_other(case: CodecCase) -> None:
    for old, new in case.edits:
        assert old in case.file
        pieces = case.codec.decode(case.file.replace(old, new, 1))
        assert states(pieces) == [EDITED, SIGNED, SIGNED], (old, new)
        assert pieces[0].fields is not None
        assert pieces[0].fields["seq"] == 1


@every_codec
def test_entry_written_by_hand_is_read_with_all_its_fields(case: CodecCase) -> None:
    for typed, expected in case.typed:
        pieces = case.codec.decode(case.file + typed)
        assert states(pieces) == [SIGNED, SIGNED, SIGNED, UNSIGNED], typed
        found = pieces[-1].fields or {}
        assert {name: found.get(name) for name in expected} == expected, typed


@every_codec
def test_crlf_byte_order_mark_and_a_missing_last_newline_change_nothing(case: CodecCase) -> None:
    whole, bom = case.codec.decode(case.file), b"\xef\xbb\xbf"
    crlf = case.file.replace(b"\n", b"\r\n")
    for data in (crlf, bom + case.file, case.file[:-1], bom + crlf[:-2]):
        pieces = case.codec.decode(data)
        assert states(pieces) == [SIGNED] * 3
        assert fields_of(pieces) == fields_of(whole)
        assert all(data[piece.start :].startswith(case.starts_with) for piece in pieces)
        assert [piece.line for piece in pieces] == [piece.line for piece in whole]


# -- git


@every_codec
def test_complete_entries_on_both_sides_of_a_conflict_are_signed(case: CodecCase) -> None:
    ours, theirs, after = case.entry(4, "a"), case.entry(4, "b"), case.entry(5)
    encoded = [case.codec.encode(fields) for fields in (ours, theirs, after)]
    data = merged(case.file, *encoded, base=case.conflict_base)
    for text in (data, data.replace(b"\n", b"\r\n")):
        pieces = case.codec.decode(text)
        assert fields_of(pieces)[3:] == [ours, theirs, after]
        assert states(pieces).count(CONFLICT) == (4 if case.conflict_base else 3)
        assert DAMAGED not in states(pieces)
        check_no_overlap(pieces)


@every_codec
def test_left_over_marker_is_a_conflict_and_damages_nothing(case: CodecCase) -> None:
    whole = case.codec.decode(case.file)
    for marker in case.markers:
        for at in (whole[1].start, *(case.file.index(inside) for inside in case.marker_inside)):
            pieces = case.codec.decode(case.file[:at] + marker + case.file[at:])
            assert states(pieces).count(CONFLICT) == 1, (marker, at)
            assert fields_of(pieces) == fields_of(whole), (marker, at)
        between = case.codec.decode(case.file[: whole[1].start] + marker + case.file[whole[1].start :])
        assert [state for state in states(between) if state != SIGNED] == [CONFLICT]
