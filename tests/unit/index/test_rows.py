"""The rows: NULL values, and SQL indexes that are created only for many memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.index import rows as rows_module
from smp_memory.index.rows import NULL, Rows

ALWAYS = {"memory_id", "memory_created", "wish_said", "vector_place"}


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    found = Rows(str(tmp_path / "rows.sqlite"))
    yield found
    found.close()


def made(rows: Rows) -> set[str]:
    return {name for (name,) in rows.all("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")}


def row(doc: int, *lacking: object) -> tuple[object, ...]:
    return (doc, f"DEC-{doc}", 1, 1000 + doc, *(lacking or (NULL,) * 10), 5, 6, "1:2:3")


def test_all_sql_indexes_are_created_for_many_memories(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "FEW", 3)
    for doc in range(3):
        rows.put([row(doc)])
        rows.make_indexes()
        assert made(rows) == ALWAYS
    rows.put([row(3)])
    rows.make_indexes()
    assert made(rows) > ALWAYS | {"tag_doc", "memory_type", "memory_session"}
    again = Rows(rows.path)  # another process: nothing is missing
    again.make_indexes()
    assert made(again) == made(rows)
    again.close()


def test_missing_values_are_null_and_zero_is_not(rows: Rows) -> None:
    given = (7, 3, 0.0, 0.5, 1, 1, "open", "low", "high", 1)
    rows.put([row(1), row(2, *given)])
    assert rows.all("SELECT count(*) FROM memory WHERE updated IS NULL AND author IS NULL AND approved IS NULL") == [
        (1,)
    ]
    first, second = (rows.by_id(0, id) for id in ("DEC-1", "DEC-2"))
    assert first is not None
    assert second is not None
    assert first[4:14] == (None,) * 10
    assert second[4:14] == given


@pytest.mark.parametrize("few", [0, 2000])
def test_results_are_the_same_with_few_or_all_sql_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(rows_module, "FEW", few)
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s")
        for number in range(12):
            session.add_decision(f"alpha {number}", tags=["a.b" if number % 2 else "c"], author=f"ann{number % 3}")
        other = memory.create_session("t")
        other.add_decision("alpha other", relations=[{"kind": "resolves", "target": "s/DEC-0001"}])
        assert len(memory.query(tags="a")) == 6
        assert len(memory.query(agents="ann1")) == 4
        assert [hit.record.id for hit in session.query(limit=2)] == ["DEC-0012", "DEC-0011"]
        session.update("DEC-0002", tags=["c"])
        session.delete("DEC-0004")
        assert len(memory.query(tags="a")) == 4
        assert len(memory.query(tags="c")) == 7
        assert len(memory.query("alpha", sessions="s", limit=100)) == 11
