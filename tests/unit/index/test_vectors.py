"""Vectors in files: missing ones and nearest ones, with made-up vectors, without a model."""

from __future__ import annotations

import random
from operator import mul
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytest.importorskip("simsimd", reason="simsimd is not installed")

from smp_memory.index.rows import IndexBusy, Rows
from smp_memory.index.vectors import _EXACTLY, PREFIX, Vectors

DIMENSIONS = 256


def made_up(seed: int = 1, dimensions: int = DIMENSIONS) -> bytes:
    """A vector; -128 does not occur."""
    return random.Random(seed).randbytes(dimensions).replace(b"\x80", b"\x81")


class Model:
    """A model with a name, dimensions and a vector of the fixed text."""

    batch = 64
    load_ms = 0.0
    weight = 0.5
    question_words: frozenset[str] = frozenset()
    anchors = (0.2, 0.45)

    def __init__(self, name: str, dimensions: int, probe: bytes) -> None:
        self._identity = name, dimensions, probe

    def identity(self) -> tuple[str, int, bytes]:
        return self._identity

    def embed(self, texts: Sequence[str]) -> bytes:
        raise AssertionError("not asked here")


class Shelf:
    """Rows and vectors in a folder, or in RAM."""

    def __init__(
        self, folder: Path | None, model: str = "m/1", dimensions: int = DIMENSIONS, probe: bytes = b""
    ) -> None:
        self.rows = Rows(":memory:" if folder is None else str(folder / "rows.sqlite"))
        self.dimensions = dimensions
        self.vectors = Vectors(self.rows, None if folder is None else str(folder), Model(model, dimensions, probe))

    def memories(self, docs: list[int], digest: int = 7, *, recent: bool = False) -> None:
        """As if the index had taken them in."""
        for doc in docs:
            self._put("memory", {"doc": doc, "id": f"M-{doc}", "digest": digest})
            if recent:
                self._put("recent", {"doc": doc})
        self.rows.set_meta("tail_version", int(self.rows.meta("tail_version", 0)) + 1)

    def _put(self, table: str, known: dict[str, Any]) -> None:
        columns = [(name, kind) for _, name, kind, *_ in self.rows.all(f"PRAGMA table_info({table})")]
        values = [known.get(name, "" if kind == "TEXT" else 0) for name, kind in columns]
        self.rows.do(f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(values))})", values)

    def catch_up(self, of: dict[int, Any] | None = None) -> list[int]:
        self.rows.begin()
        known, docs = of or {}, []
        while missing := self.vectors.missing(500):
            self.vectors.add(missing, b"".join([known.get(doc) or made_up(doc, self.dimensions) for doc, _ in missing]))
            docs += [doc for doc, _ in missing]
        self.rows.commit()
        return sorted(docs)


@pytest.fixture(params=["files", "ram"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    return Shelf(tmp_path if request.param == "files" else None)


def test_all_vectors_are_missing_at_first_and_none_afterwards(shelf: Shelf) -> None:
    shelf.memories([3, 1, 2])
    assert not shelf.vectors.is_caught_up
    assert shelf.catch_up() == [1, 2, 3]
    assert shelf.vectors.is_caught_up
    assert shelf.catch_up() == []
    shelf.memories([4], recent=True)
    assert not shelf.vectors.is_caught_up
    assert shelf.catch_up() == [4]


def test_changed_memory_needs_a_new_vector_and_the_last_one_counts(shelf: Shelf) -> None:
    one, other = made_up(1001), made_up(1002)
    shelf.memories([1, 2])
    shelf.catch_up({1: one})
    assert shelf.vectors.nearest(one, 1) == [(1, pytest.approx(1))]
    shelf.memories([1], digest=8, recent=True)
    assert shelf.catch_up({1: other}) == [1]
    assert shelf.vectors.nearest(other, 1) == [(1, pytest.approx(1))]
    assert shelf.vectors.similarities(one, [1])[1] < 0.5
    assert [doc for doc, _ in shelf.vectors.nearest(one, 9)].count(1) <= 1


def test_empty_files_have_no_vectors(shelf: Shelf) -> None:
    assert shelf.vectors.nearest(made_up(), 5) == []
    assert shelf.vectors.similarities(made_up(), [1, 2]) == {}
    assert shelf.catch_up() == []
    assert shelf.vectors.nearest(made_up(), 5) == []
    assert shelf.vectors.similarities(made_up(), [1, 2]) == {}


def test_search_can_be_limited_to_docs(shelf: Shelf) -> None:
    shelf.memories(list(range(1, 30)))
    shelf.catch_up()
    asked = made_up(5)
    assert shelf.vectors.nearest(asked, 1)[0][0] == 5
    assert 5 not in [doc for doc, _ in shelf.vectors.nearest(asked, 9, [4, 6, 7, 99])]
    assert set(shelf.vectors.similarities(asked, [5, 99])) == {5}


def test_zero_vector_is_near_to_nothing(shelf: Shelf) -> None:
    shelf.memories([1, 2])
    shelf.catch_up({1: bytes(DIMENSIONS)})
    assert [doc for doc, _ in shelf.vectors.nearest(made_up(2), 5)] == [2]
    assert shelf.vectors.nearest(bytes(DIMENSIONS), 5) == []


def test_many_vectors_are_shortlisted_by_signs(shelf: Shelf) -> None:
    docs = list(range(1, _EXACTLY + 3000))
    shelf.memories(docs)
    shelf.catch_up()
    for doc in (1, 77, docs[-1]):
        assert shelf.vectors.nearest(made_up(doc), 3)[0] == (doc, pytest.approx(1))
    shelf.memories([10_000_000], recent=True)
    shelf.catch_up()
    assert shelf.vectors.nearest(made_up(10_000_000), 3)[0][0] == 10_000_000


def test_enough_are_found_although_the_nearest_vectors_were_replaced(shelf: Shelf) -> None:
    docs, asked = list(range(1, 401)), made_up(5000)
    shelf.memories(docs)
    shelf.catch_up(dict.fromkeys(docs[:300], asked))
    shelf.memories(docs[:300], digest=8, recent=True)
    shelf.catch_up()
    found = shelf.vectors.nearest(asked, 20)
    cosines = [cosine for _, cosine in found]
    assert len(found) == 20
    assert cosines == sorted(cosines, reverse=True)
    assert cosines[0] < 0.9
    assert found == shelf.vectors.nearest(asked, 20, docs)


def test_vectors_of_a_rolled_back_transaction_are_overwritten(shelf: Shelf) -> None:
    shelf.memories([1])
    shelf.catch_up()
    shelf.memories([2], recent=True)
    shelf.rows.begin()
    shelf.vectors.add(shelf.vectors.missing(500), made_up(99))
    shelf.rows.roll_back()
    shelf.vectors.forget()
    assert shelf.catch_up() == [2]
    assert shelf.vectors.nearest(made_up(2), 1)[0][0] == 2
    assert [cosine for _, cosine in shelf.vectors.nearest(made_up(99), 9) if cosine > 0.9] == []


def test_added_vectors_are_visible_to_another_process(tmp_path: Path) -> None:
    one = Shelf(tmp_path)
    other = Shelf(tmp_path)
    for doc in range(1, 6):
        one.memories([doc], recent=True)
        one.catch_up()
        assert other.vectors.is_caught_up
        assert other.vectors.nearest(made_up(doc), 1)[0][0] == doc


def test_vectors_of_two_models_are_side_by_side(tmp_path: Path) -> None:
    first = Shelf(tmp_path)
    first.memories([1, 2])
    first.catch_up()
    second = Shelf(tmp_path, "m/2")
    assert not second.vectors.is_caught_up
    assert first.vectors.nearest(made_up(1), 1)[0][0] == 1  # the old model answers until the new one has all vectors
    assert second.catch_up() == [1, 2]
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
    assert first.vectors.is_caught_up


def test_new_set_takes_the_place_of_the_oldest_of_three(tmp_path: Path) -> None:
    shelves = [Shelf(tmp_path, f"m/{number}") for number in range(4)]
    shelves[0].memories([1, 2])
    for shelf in shelves:
        assert shelf.catch_up() == [1, 2]
    assert [shelf.vectors.is_caught_up for shelf in shelves] == [False, True, True, True]
    assert shelves[0].vectors.nearest(made_up(1), 1) == []
    assert shelves[1].vectors.nearest(made_up(1), 1)[0][0] == 1
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 3


def test_interrupted_catch_up_continues_where_it_stopped(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2, 3])
    shelf.rows.begin()
    missing = shelf.vectors.missing(500)
    shelf.vectors.add(missing[:2], made_up(3) + made_up(2))
    shelf.rows.commit()
    assert Shelf(tmp_path).catch_up() == [1]


@pytest.mark.parametrize("cut", [0, 5])
def test_missing_or_short_files_count_as_empty(tmp_path: Path, cut: int) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2])
    shelf.catch_up()
    (folder,) = tmp_path.glob(f"{PREFIX}*")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:cut])
    again = Shelf(tmp_path)
    assert again.vectors.nearest(made_up(), 5) == []
    again.memories([3], recent=True)
    assert again.catch_up() == [1, 2, 3]
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{PREFIX}*/*")] == [0o600] * 2


@pytest.mark.parametrize("file", ["signs", "vectors"])
@pytest.mark.parametrize("damage", ["gone", "short", "one byte short"])
def test_damage_of_one_file_makes_all_vectors_missing(tmp_path: Path, file: str, damage: str) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2, 3])
    shelf.catch_up()
    (path,) = tmp_path.glob(f"{PREFIX}*/{file}")
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[:-1] if damage == "one byte short" else data[:5])
    for each in (shelf, Shelf(tmp_path)):  # one that has the files mapped, and a new one
        assert each.vectors.nearest(made_up(2), 5) == []
        assert each.vectors.similarities(made_up(2), [1, 2]) == {}
    again = Shelf(tmp_path)
    assert again.catch_up() == [1, 2, 3]
    assert again.vectors.nearest(made_up(2), 5)[0] == (2, pytest.approx(1))


def test_files_that_are_too_long_are_read_up_to_the_number_in_the_rows(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2])
    shelf.catch_up()
    for path in tmp_path.glob(f"{PREFIX}*/*"):
        path.write_bytes(path.read_bytes() + made_up(7) * 3)
    assert [doc for doc, _ in Shelf(tmp_path).vectors.nearest(made_up(7), 9) if doc not in (1, 2)] == []


@pytest.mark.parametrize("place", [-1, 3, 1 << 40])
def test_place_outside_the_files_is_not_read(tmp_path: Path, place: int) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2, 3])
    shelf.catch_up()
    shelf.rows.do("UPDATE vector SET place = ? WHERE doc = 2", (place,))
    assert set(shelf.vectors.similarities(made_up(2), [1, 2, 3])) == {1, 3}
    assert 2 not in [doc for doc, _ in shelf.vectors.nearest(made_up(2), 9)]
    assert shelf.vectors.nearest(made_up(2), 9, [2]) == []


def test_vectors_of_the_same_name_and_other_dimensions_are_rebuilt(tmp_path: Path) -> None:
    first = Shelf(tmp_path)
    first.memories([1, 2])
    first.catch_up()
    second = Shelf(tmp_path, dimensions=384)
    assert not second.vectors.is_caught_up
    assert second.catch_up() == [1, 2]
    assert second.vectors.nearest(made_up(2, 384), 1) == [(2, pytest.approx(1))]


def test_vectors_of_a_model_that_changed_under_its_name_are_rebuilt(tmp_path: Path) -> None:
    first = Shelf(tmp_path, probe=made_up(5))
    first.memories([1, 2])
    first.catch_up()
    nearly = bytes([made_up(5)[0] ^ 1]) + made_up(5)[1:]  # rounded otherwise on another machine
    assert Shelf(tmp_path, probe=nearly).vectors.is_caught_up
    for changed in (made_up(6), b""):
        second = Shelf(tmp_path, probe=changed)
        assert not second.vectors.is_caught_up
        assert second.catch_up() == [1, 2]


@pytest.mark.parametrize("dimensions", [1, 7, 100, 384, 1536])
def test_models_of_any_dimension_find_the_nearest(tmp_path: Path, dimensions: int) -> None:
    shelf = Shelf(tmp_path, dimensions=dimensions)
    shelf.memories(list(range(1, _EXACTLY + 200)))
    shelf.catch_up()
    found = shelf.vectors.nearest(made_up(77, dimensions), 5)
    assert found[0][1] == pytest.approx(1)
    assert dimensions < 100 or found[0][0] == 77


def test_set_that_another_process_dropped_is_not_extended(tmp_path: Path) -> None:
    first, second = Shelf(tmp_path), Shelf(tmp_path, "m/2", dimensions=64)
    first.memories([1, 2, 3])
    first.rows.begin()
    missing = first.vectors.missing(500)
    first.rows.commit()
    for number in range(3, 6):
        Shelf(tmp_path, f"m/{number}", dimensions=64).catch_up()
    second.catch_up()
    first.rows.begin()
    with pytest.raises(IndexBusy):
        first.vectors.add(missing, made_up(1) + made_up(2) + made_up(3))
    first.rows.roll_back()
    assert second.vectors.nearest(made_up(2, 64), 1) == [(2, pytest.approx(1))]


def test_new_memories_come_first_and_a_pass_goes_on_where_it_stopped(shelf: Shelf) -> None:
    shelf.memories(list(range(1, 10)))
    shelf.memories([20], recent=True)
    seen: list[int] = []
    shelf.rows.begin()
    while missing := shelf.vectors.missing(4):
        seen += [doc for doc, _ in missing]
        assert shelf.vectors.lacks() == 10 - len(seen) + len(missing)
        shelf.vectors.add(missing, b"".join(made_up(doc) for doc, _ in missing))
    shelf.rows.commit()
    assert seen == [20, *range(9, 0, -1)]
    assert (shelf.vectors.lacks(), shelf.vectors.is_caught_up) == (0, True)


def test_memories_that_a_merge_took_over_get_their_vectors(shelf: Shelf) -> None:
    shelf.memories([1, 2, 3])
    shelf.rows.begin()
    first = shelf.vectors.missing(1)
    shelf.vectors.add(first, made_up(3))
    shelf.rows.commit()
    shelf.memories([9], recent=True)  # and merged before it had a vector
    shelf.rows.do("DELETE FROM recent")
    shelf.rows.set_meta("generation", 1)
    assert shelf.catch_up() == [1, 2, 9]


def test_vectors_of_the_wrong_number_are_rejected(shelf: Shelf) -> None:
    shelf.memories([1, 2])
    shelf.rows.begin()
    missing = shelf.vectors.missing(500)
    with pytest.raises(ValueError):
        shelf.vectors.add(missing, made_up(1))
    shelf.rows.roll_back()
    shelf.vectors.forget()
    assert shelf.catch_up() == [1, 2]


def test_results_equal_those_of_exact_arithmetic(shelf: Shelf) -> None:
    docs = list(range(1, 300))
    shelf.memories(docs)
    shelf.catch_up()
    asked = made_up(5000)
    exact = {doc: cosine(asked, made_up(doc)) for doc in docs}
    found = shelf.vectors.similarities(asked, docs)
    assert found == {doc: pytest.approx(max(value, 0.0), abs=1e-5) for doc, value in exact.items()}
    best = sorted((doc for doc in docs if exact[doc] > 0), key=lambda doc: -exact[doc])[:10]
    assert [doc for doc, _ in shelf.vectors.nearest(asked, 10)] == best


def cosine(one: bytes, other: bytes) -> float:
    a, b = memoryview(one).cast("b").tolist(), memoryview(other).cast("b").tolist()
    return sum(map(mul, a, b)) / (sum(map(mul, a, a)) * sum(map(mul, b, b))) ** 0.5
