"""Blocks of unindexed documents: current states, removal, scrubbing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from smp_memory.index import unindexed
from smp_memory.index.rows import Rows

Document = tuple[int, str, str, int, int]


def document(doc: int, words: str = "some words") -> Document:
    return doc, words, f"s1 t{doc % 3}", 1_700_000_000_000_000 + doc, doc << 8


@pytest.fixture
def rows() -> Iterator[Rows]:
    found = Rows(":memory:")
    yield found
    found.close()


@pytest.mark.parametrize("generation", [0, 3])
def test_documents_are_returned_by_version(rows: Rows, generation: int) -> None:
    rows.set_meta("generation", generation)
    first = [document(1), document(2, '北京 größe \ud800 \u2028 {"a": 1}'), document(3, "x" * 5000)]
    unindexed.put(rows, first, 1)
    unindexed.put(rows, [document(9)], 2)
    unindexed.put(rows, [], 3)
    assert list(unindexed.since(rows, -1)) == [*first, document(9)]
    assert list(unindexed.since(rows, 1)) == [document(9)]
    assert list(unindexed.since(rows, 2)) == []
    assert (unindexed.count(rows), unindexed.docs(rows)) == (4, {1, 2, 3, 9})


def test_line_end_separates_terms_like_a_blank(rows: Rows) -> None:
    unindexed.put(rows, [document(1, "one\ntwo"), document(2)], 1)
    assert list(unindexed.since(rows, -1)) == [document(1, "one two"), document(2)]


def test_later_state_replaces_an_earlier_one(rows: Rows) -> None:
    unindexed.put(rows, [document(1, "old"), document(2)], 1)
    unindexed.put(rows, [document(1, "new")], 2)
    assert list(unindexed.since(rows, -1)) == [document(2), document(1, "new")]
    assert unindexed.count(rows) == 2


def test_removed_documents_are_not_returned(rows: Rows) -> None:
    unindexed.put(rows, [document(1), document(2)], 1)
    unindexed.remove(rows, [1, 77])
    assert list(unindexed.since(rows, -1)) == [document(2)]
    unindexed.put(rows, [document(1, "again")], 2)
    assert list(unindexed.since(rows, -1)) == [document(2), document(1, "again")]
    unindexed.clear(rows)
    assert (list(unindexed.since(rows, -1)), unindexed.count(rows)) == ([], 0)


def test_no_block_contains_a_scrubbed_document(rows: Rows) -> None:
    unindexed.put(rows, [document(1, "secret"), document(2, "stays")], 1)
    unindexed.put(rows, [document(3, "secret")], 2)
    unindexed.put(rows, [document(4, "secret before"), document(5)], 3)
    unindexed.put(rows, [document(4, "changed")], 4)
    unindexed.remove(rows, [1, 3])
    unindexed.scrub(rows)
    held = [
        each
        for (packed,) in rows.all("SELECT data FROM block ORDER BY version")
        for each in unindexed._unpacked(packed)
    ]
    assert held == [document(2, "stays"), document(5), document(4, "changed")]
    assert list(unindexed.since(rows, -1)) == held
    assert rows.one("SELECT count(*) FROM block") == 3


def test_many_small_blocks_are_joined(rows: Rows) -> None:
    expected: dict[int, Document] = {}
    for version in range(1, 500):
        new = document(version % 190, f"state {version}")
        unindexed.put(rows, [new], version)
        expected[new[0]] = new
        if version % 7 == 0:
            unindexed.remove(rows, [version % 5])
            expected.pop(version % 5, None)
        if version == 300:
            seen = dict(expected)
    assert {each[0]: each for each in unindexed.since(rows, -1)} == expected
    assert unindexed.count(rows) == len(expected)
    assert rows.one("SELECT count(*) FROM block") < 2 * unindexed._SMALL
    later = {
        each[0]: each for each in unindexed.since(rows, 300)
    }  # one who has seen some: all that is new, perhaps more
    assert {doc: each for doc, each in {**seen, **later}.items() if doc in expected} == expected
    unindexed.scrub(rows)
    assert {each[0]: each for each in unindexed.since(rows, -1)} == expected
