"""Vectors in files: missing ones and nearest ones, with made-up vectors, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

numpy: Any = pytest.importorskip("numpy", reason="smp-memory[semantic] is not installed: no numpy")

from smp_memory.index.rows import Rows  # noqa: E402
from smp_memory.index.vectors import (  # noqa: E402
    _EXACTLY,
    PREFIX,
    Vectors,
)

if TYPE_CHECKING:
    from pathlib import Path


def made_up(count: int, seed: int = 1) -> Any:
    return numpy.random.default_rng(seed).integers(-127, 128, (count, 256)).astype(numpy.int8)


class Shelf:
    """Rows and vectors in a folder, or in RAM."""

    def __init__(self, folder: Path | None, model: str = "m/1") -> None:
        self.rows = Rows(":memory:" if folder is None else str(folder / "rows.sqlite"))
        self.vectors = Vectors(self.rows, None if folder is None else str(folder), model)

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
        missing = self.vectors.missing()
        if missing:
            self.vectors.add(missing, numpy.array([(of or {}).get(doc, made_up(1, doc)[0]) for doc, _ in missing]))
        self.vectors.mark_caught_up()
        self.rows.commit()
        return [doc for doc, _ in missing]


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
    one, other = made_up(2)
    shelf.memories([1, 2])
    shelf.catch_up({1: one})
    assert shelf.vectors.nearest(one, 1) == [(1, pytest.approx(1))]
    shelf.memories([1], digest=8, recent=True)
    assert shelf.catch_up({1: other}) == [1]
    assert shelf.vectors.nearest(other, 1) == [(1, pytest.approx(1))]
    assert shelf.vectors.cosines(one, [1])[1] < 0.5
    assert [doc for doc, _ in shelf.vectors.nearest(one, 9)].count(1) <= 1


def test_empty_files_have_no_vectors(shelf: Shelf) -> None:
    assert shelf.vectors.nearest(made_up(1)[0], 5) == []
    assert shelf.vectors.cosines(made_up(1)[0], [1, 2]) == {}
    assert shelf.catch_up() == []
    assert shelf.vectors.nearest(made_up(1)[0], 5) == []
    assert shelf.vectors.cosines(made_up(1)[0], [1, 2]) == {}


def test_search_can_be_limited_to_docs(shelf: Shelf) -> None:
    shelf.memories(list(range(1, 30)))
    shelf.catch_up()
    asked = made_up(1, 5)[0]
    assert shelf.vectors.nearest(asked, 1)[0][0] == 5
    assert 5 not in [doc for doc, _ in shelf.vectors.nearest(asked, 9, [4, 6, 7, 99])]
    assert set(shelf.vectors.cosines(asked, [5, 99])) == {5}


def test_zero_vector_is_near_to_nothing(shelf: Shelf) -> None:
    shelf.memories([1, 2])
    shelf.catch_up({1: numpy.zeros(256, numpy.int8)})
    assert [doc for doc, _ in shelf.vectors.nearest(made_up(1, 2)[0], 5)] == [2]
    assert shelf.vectors.nearest(numpy.zeros(256, numpy.int8), 5) == []


def test_many_vectors_are_shortlisted_by_signs(shelf: Shelf) -> None:
    docs = list(range(1, _EXACTLY + 3000))
    shelf.memories(docs)
    shelf.catch_up()
    for doc in (1, 77, docs[-1]):
        assert shelf.vectors.nearest(made_up(1, doc)[0], 3)[0] == (doc, pytest.approx(1))
    shelf.memories([10_000_000], recent=True)
    shelf.catch_up()
    assert shelf.vectors.nearest(made_up(1, 10_000_000)[0], 3)[0][0] == 10_000_000


def test_vectors_of_a_rolled_back_transaction_are_overwritten(shelf: Shelf) -> None:
    shelf.memories([1])
    shelf.catch_up()
    shelf.memories([2], recent=True)
    shelf.rows.begin()
    shelf.vectors.add(shelf.vectors.missing(), made_up(1, 99))
    shelf.rows.roll_back()
    shelf.vectors.forget()
    assert shelf.catch_up() == [2]
    assert shelf.vectors.nearest(made_up(1, 2)[0], 1)[0][0] == 2
    assert [cosine for _, cosine in shelf.vectors.nearest(made_up(1, 99)[0], 9) if cosine > 0.9] == []


def test_added_vectors_are_visible_to_another_process(tmp_path: Path) -> None:
    one = Shelf(tmp_path)
    other = Shelf(tmp_path)
    for doc in range(1, 6):
        one.memories([doc], recent=True)
        one.catch_up()
        assert other.vectors.is_caught_up
        assert other.vectors.nearest(made_up(1, doc)[0], 1)[0][0] == doc


def test_vectors_of_another_model_are_rebuilt(tmp_path: Path) -> None:
    first = Shelf(tmp_path)
    first.memories([1, 2])
    first.catch_up()
    second = Shelf(tmp_path, "m/2")
    assert not second.vectors.is_caught_up
    assert second.catch_up() == [1, 2]
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1


def test_interrupted_catch_up_continues_where_it_stopped(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2, 3])
    shelf.rows.begin()
    missing = shelf.vectors.missing()
    shelf.vectors.add(missing[:2], made_up(2))
    shelf.rows.commit()
    assert Shelf(tmp_path).catch_up() == [3]


@pytest.mark.parametrize("cut", [0, 5])
def test_missing_or_short_files_count_as_empty(tmp_path: Path, cut: int) -> None:
    shelf = Shelf(tmp_path)
    shelf.memories([1, 2])
    shelf.catch_up()
    (folder,) = tmp_path.glob(f"{PREFIX}*")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:cut])
    again = Shelf(tmp_path)
    assert again.vectors.nearest(made_up(1)[0], 5) == []
    again.memories([3], recent=True)
    assert again.catch_up() == [1, 2, 3]
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{PREFIX}*/*")] == [0o600] * 3
