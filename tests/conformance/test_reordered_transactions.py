"""Entries of a transaction whose lines a person or git put in another order are kept, in every layout.

Only the beginning of a transaction at the end of a file, with its rest nowhere in the file, is an unfinished write.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import blocks, decisions_file, filled, opened, texts

pytestmark = pytest.mark.parametrize("layout", NAMES)
GROUP = ["One", "Two", "Three"]
ALL = ["Use OAuth", "Use Postgres", "Use Python", *GROUP]


def with_transaction(root: Path, layout: str) -> tuple[Path, list[str]]:
    """The file with decisions, its parts, and no writer's notes, as in a fresh clone."""
    with filled(root, layout).transaction() as work:
        for text in GROUP:
            work.add_decision(text)
    for lock in root.rglob(".smp/**/lock"):
        lock.write_bytes(b"")
    path = decisions_file(root, layout)
    return path, blocks(layout, path.read_text())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("apart", [False, True])
def test_reordered_transaction_is_no_unfinished_write(
    tmp_path: Path, layout: str, order: tuple[int, ...], apart: bool
) -> None:
    path, (header, *parts) = with_transaction(tmp_path, layout)
    first, *rest = [parts[3 + number] for number in order]
    moved = [*rest, *parts[:3], first] if apart else [*parts[:3], first, *rest]
    path.write_text("".join([header, *moved]))
    assert sorted(texts(opened(tmp_path))) == sorted(ALL)
    session = opened(tmp_path)
    session.add_decision("Later")
    assert sorted(texts(opened(tmp_path))) == sorted([*ALL, "Later"])
    assert all(part in path.read_text() for part in parts)
    assert not list(tmp_path.rglob("quarantine/*"))
    assert opened(tmp_path).validate().ok


def test_rest_of_a_transaction_with_entries_removed_by_hand_is_kept(tmp_path: Path, layout: str) -> None:
    path, (header, *parts) = with_transaction(tmp_path, layout)
    path.write_text("".join([header, *parts[:3], parts[4]]))
    assert texts(opened(tmp_path)) == [*ALL[:3], "Two"]
    opened(tmp_path).add_decision("Later")
    assert texts(opened(tmp_path)) == [*ALL[:3], "Two", "Later"]


@pytest.mark.parametrize("count", [1, 2])
def test_beginning_of_a_transaction_at_the_end_is_an_unfinished_write(tmp_path: Path, layout: str, count: int) -> None:
    path, (header, *parts) = with_transaction(tmp_path, layout)
    path.write_text("".join([header, *parts[: 3 + count]]))
    assert texts(opened(tmp_path)) == ALL[:3]
    opened(tmp_path).add_decision("Later")
    assert texts(opened(tmp_path)) == [*ALL[:3], "Later"]
    (kept,) = tmp_path.rglob("quarantine/*")
    assert kept.read_text().strip() == "".join(parts[3 : 3 + count]).strip()
