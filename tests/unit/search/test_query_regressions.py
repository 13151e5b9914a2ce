"""Regressions of the query path, each test named after its bug."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.testing import FrozenClock
from tests.conformance.layout_files import by_hand, decisions_file, opened


def new_session(**options: Any) -> smp_memory.SessionMemory:
    return smp_memory.open(":memory:", clock=FrozenClock(), **options).create_session("s1")


def with_line(root: Path, layout: str, **fields: str) -> smp_memory.SessionMemory:
    """A session with one decision of SMP's and one that a person typed."""
    with smp_memory.open(root, layout=layout, clock=FrozenClock()) as memory:
        memory.create_session("s1").add_decision("alpha by SMP")
        memory.query("alpha")
    with decisions_file(root, layout).open("a") as file:
        file.write(by_hand(layout, "DEC-0900", "alpha by hand", **fields))
    return opened(root)


HAND: list[tuple[str, str]] = [
    ("tags", "5"), ("tags", '"abc"'), ("tags", '[1, "two x", "x"]'), ("tags", '["a\\u00a0x t1 s1"]'), ("relations", "5"), ("relations", '{"a": 1}'),
    ("references", '{"a": 1}'), ("references", "[1, null]"), ("author", "5"), ("author", '["a"]'), ("topic", '["x"]'), ("topic", '"x x t1"'),
    ("importance", "1" + "0" * 400), ("confidence", "1" + "0" * 400), ("importance", '"high"'), ("confidence", "{}"), ("impact", '["x", 5]'), ("severity", "5"),
    ("status", '["x"]'), ("resolution", "5"), ("pinned", '"yes"'), ("approved_by", "5"), ("own", "[" * 90 + "]" * 90), ("own", '"\\u0000"'), ("role", '["x"]'),
    ("seq", "99999999999999999999999"), ("seq", "-5"), ("revision", '"x"'),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(HAND)))
@pytest.mark.parametrize("layout", ["jsonl", "log"])
def test_hand_edited_fields_are_found_and_hide_nothing(tmp_path: Path, layout: str, number: int) -> None:
    """`tags: 5` and numbers of 400 digits stopped every query; a tag with ` x` in it looked like a deletion."""
    name, value = HAND[number]
    session = with_line(tmp_path / "store", layout, **{name: value})
    there = sorted(record.id for record in session.records())
    assert sorted(session.query("alpha").ids) == there
    for sort in ("newest", "priority", "importance"):
        assert sorted(session.query(sort=sort).ids) == there
    session.query(count_by=["type", "tag", "agent", "day", "topic", "session"])
    session.find_similar("DEC-0001")
    session.add_decision("alpha again")
    assert len(session.query("alpha")) == len(there) + 1
    assert not session.memory.store.indexer.feed.caught_up(None).is_in_memory
    session.memory.close()


def test_a_phrase_with_a_dash_between_its_words() -> None:
    session = new_session()
    session.add_decision("first - second")
    assert session.query('"first second"').ids == ["DEC-0001"]


def test_a_day_before_1970_is_counted_as_that_day() -> None:
    session = new_session()
    session.add_decision("x", created="1969-12-31T23:59:59.5Z")
    assert session.query(count_by="day").counts == {"day": {"1969-12-31": 1}}
    assert session.query(time="1969-12-31").ids == session.query("x", time="1969-12-31").ids == ["DEC-0001"]


def test_topic_filter_is_the_same_with_and_without_text() -> None:
    session = new_session()
    session.add_decision("alpha", topic="auth.login")
    session.add_decision("alpha", topic="Two  Words")
    for topic, wanted in (
        ("auth", ["DEC-0001"]),
        ("AUTH.Login", ["DEC-0001"]),
        ("two words", ["DEC-0002"]),
        ("two", []),
    ):
        assert session.query(topic=topic).ids == session.query("alpha", topic=topic).ids == wanted


@pytest.mark.parametrize("how", [{"related_to": "DEC-0001", "depth": 2}, {"include_related": True}])
def test_index_is_caught_up_for_relations_through_other_sessions(tmp_path: Path, how: dict[str, Any]) -> None:
    with smp_memory.open(tmp_path / "store") as memory, smp_memory.open(tmp_path / "store") as other:
        session = memory.create_session("s1")
        session.add_decision("alpha")
        session.add_decision("beta")
        session.query("alpha")
        elsewhere = other.create_session("s2")
        elsewhere.add_decision("between", references=["s1/DEC-0001"])
        elsewhere.relate("DEC-0001", "s1/DEC-0002")
        if "related_to" in how:
            assert session.query(**how).ids == ["DEC-0002"]
        else:
            (hit,) = session.query("alpha", **how)
            assert [record.ref for record in hit.related] == ["s2/DEC-0001"]


@pytest.mark.parametrize("tail", [10, 10**6])
def test_pages_of_very_many_hits_do_not_overlap(monkeypatch: pytest.MonkeyPatch, tail: int) -> None:
    """More than are judged at first, with very different priorities: a later page must not shift the earlier ones."""
    monkeypatch.setattr("smp_memory.index.text.TAIL_LIMIT", tail)
    session = new_session()
    session.add_many(
        [
            ("decision", {"decision": "alpha " + "more " * (n % 7), "importance": n % 11 / 10, "created": f"2025-{n % 12 + 1:02}-01T00:00:00Z"})
            for n in range(700)
        ]
    )  # fmt: skip
    whole = session.query("alpha", limit=10_000, track_access=False).ids
    assert len(set(whole)) == 700
    for size in (90, 250):
        paged: list[str] = []
        while True:
            page = session.query("alpha", limit=size, offset=len(paged), track_access=False)
            paged += page.ids
            if not page.more:
                break
        assert sorted(paged) == sorted(whole)
        assert len(set(paged)) == len(paged)


def test_since_with_words_in_tantivy(monkeypatch: pytest.MonkeyPatch) -> None:
    """tantivy-py refuses an open end that is not included, and the index was thrown away for it."""
    monkeypatch.setattr("smp_memory.index.text.TAIL_LIMIT", 0)
    session = new_session()
    session.add_decision("alpha")
    session.query("alpha")
    for asked in ({"since": "2025"}, {"until": "2027"}, {"time": "2026"}, {"since": "2025", "until": "2027"}):
        assert session.query("alpha", **asked).ids == ["DEC-0001"]


def test_session_folder_created_before_its_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.store.change_detection._ALWAYS_SCAN_SECONDS", 1e9)
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("s1").add_decision("alpha")
        folder = tmp_path / "store/sessions/by-hand"
        folder.mkdir()
        time.sleep(0.06)  # until the clock of the file system has ticked
        assert len(memory.query("alpha")) == 1
        (folder / "decisions.jsonl").write_text(by_hand("jsonl", "DEC-0001", "alpha by hand"))
        assert len(memory.query("alpha")) == 2


def test_word_of_one_character_does_not_hide_memories_without_it() -> None:
    """`왜` (why) had to be there, so that most questions in Korean, and Chinese ones with a word apart, found nothing."""
    session = new_session()
    session.add_finding("우리는 데이터베이스로 포스트그레스를 골랐다")
    session.add_finding("好，我们选择数据库")
    session.add_finding("数据库已经备份了")
    assert session.query("왜 데이터베이스를 골랐나").ids == ["FIND-0001"]
    assert sorted(session.query("数据库 和 缓存").ids) == ["FIND-0002", "FIND-0003"]
    assert session.find_similar("FIND-0002").ids == ["FIND-0003"]


def test_query_with_at_counts_as_an_access_now() -> None:
    """With `at=` in the future the use was noted there: the memory did not fade till then, and no later use counted."""
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock)
    session = memory.create_session("s1")
    session.add_turn("user", "alpha")
    session.query("alpha", at="2036-01-01")
    memory.context(task="alpha", at="2036-01-01")
    assert noted(memory) == [("s1/TURN-0001", int(clock().timestamp()))]


def test_get_counts_as_an_access() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("s1")
    session.add_decision("alpha", author="architect")
    session.find("DEC-0001")
    session.records()
    assert noted(memory) == []
    session.get("DEC-0001")
    session.agent("architect").get("DEC-0001")
    assert [ref for ref, _ in noted(memory)] == ["s1/DEC-0001"]


def test_get_is_not_counted_without_track_access() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock(), config={"track_access": False})
    session = memory.create_session("s1")
    session.add_decision("alpha")
    session.get("DEC-0001")
    assert noted(memory) == []


def noted(memory: smp_memory.Memory) -> list[tuple[str, int]]:
    """Which memories the access log knows, and when they were used."""
    memory.store.access.flush()
    return memory.store.access.read(0)[0]


@pytest.mark.parametrize("asked", [{}, {"sort": "oldest"}, {"sort": "priority"}, {"text": "alpha"}])
def test_pages_with_archived_memories_do_not_overlap(asked: dict[str, Any]) -> None:
    """Memories of one moment were ordered by id after their number had been cut off: each page was the first one."""
    session = new_session()
    session.add_many([("finding", {"finding": f"alpha {number}", "created": "2026-01-01"}) for number in range(30)])
    pages = [session.query(limit=10, offset=first, include_archived=True, **asked).ids for first in (0, 10, 20)]
    assert [id for page in pages for id in page] == session.query(limit=30, **asked).ids


def test_pages_of_similar_memories_do_not_overlap() -> None:
    """The memory itself was left out of the first page alone: the next one began with that page's last hit."""
    session = new_session()
    for number in range(12):
        session.add_finding(f"alpha beta {number}")
    pages = [session.find_similar("FIND-0001", limit=4, offset=first) for first in (0, 4, 8)]
    found = [id for page in pages for id in page.ids]
    assert sorted(found) == [f"FIND-{number:04}" for number in range(2, 13)]
    assert [page.more for page in pages] == [True, True, False]
    assert "FIND-0001" not in session.find_similar("FIND-0001", limit=None).ids
    assert session.find_similar("FIND-0001", limit=10_000).ids == found


def test_text_without_words_has_no_similar_memories() -> None:
    session = new_session()
    session.add_finding("alpha")
    assert session.find_similar(" - ") == []
    assert session.find_similar("") == []


@pytest.mark.parametrize(
    "text", ["pushed with --force today", "he said “no deploys on friday”", "„alpha“ -- again", "- alpha"]
)
def test_find_similar_ignores_query_syntax_in_its_text(text: str) -> None:
    """`--force` excluded what says force, and what stood between typographic quotes had to be there word by word."""
    session = new_session()
    session.add_finding("force a deploy on friday, alpha again")
    assert session.find_similar(text).ids == ["FIND-0001"]
    assert "FIND-0001" in session.memory.context(task=text, turns=0).text


def test_related_memories_meet_the_other_conditions() -> None:
    """`find_related(id, min_priority=…)`, as one of the designs has it, took every part and looked at none."""
    clock = FrozenClock()
    session = smp_memory.open(":memory:", clock=clock).create_session("s1")
    session.add_finding("old", created="2020-01-01")
    session.add_decision("new", references=["FIND-0001"])
    session.add_turn("user", "old and gone", created="2020-01-01")
    session.relate("TURN-0001", "FIND-0001")
    near = {each.id for each in session.find_related("FIND-0001")}
    assert near == {"DEC-0001", "TURN-0001"}
    assert [each.id for each in session.find_related("FIND-0001", min_priority=0.5)] == ["DEC-0001"]
    assert [each.id for each in session.find_related("FIND-0001", types="turn")] == ["TURN-0001"]
    assert [each.id for each in session.find_related("FIND-0001", text="gone")] == ["TURN-0001"]
    assert len(session.find_related("FIND-0001", limit=1)) == 1
    assert len(session.find_related("FIND-0001", limit=1, offset=1)) == 1


def test_filter_accepts_the_computed_priority() -> None:
    """The designs' own examples, `decay.priority` below 0.3 with the lowest first, found nothing or the wrong order."""
    session = new_session()
    session.add_turn("user", "faded", created="2020-01-01")
    session.add_turn("user", "fading", created="2026-01-01")
    session.add_decision("fresh")
    below = [{"field": "decay.priority", "operator": "lessThan", "value": 0.8}]
    lowest = [{"field": "decay.priority", "direction": "asc"}]
    every = session.query(sort=lowest)
    assert [hit.priority for hit in every] == sorted(hit.priority for hit in every)
    assert every.ids[0] == "TURN-0001"
    faded = [hit.id for hit in every if hit.priority < 0.8]
    assert 0 < len(faded) < 3
    assert session.query({"filters": below, "sort": lowest}).ids == faded
    assert session.query({"filters": below, "sort": lowest, "include_archived": True}).ids == faded
    assert session.agent("veritas").query({"filters": below, "sort": lowest}).ids == faded
    assert session.query(where={"priority": {"greater_or_equal": 0.8}}, sort="priority_asc").ids == [
        hit.id for hit in every if hit.id not in faded
    ]


def test_own_field_called_priority_comes_first() -> None:
    session = new_session()
    session.add_decision("alpha", priority="urgent", decay={"mine": 1})
    assert session.query(where={"priority": "urgent"}).ids == ["DEC-0001"]
    assert session.query(where={"decay.mine": 1, "decay.priority": {"greater": 0.5}}).ids == ["DEC-0001"]


def test_filter_accepts_the_computed_access_count() -> None:
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock)
    session = memory.create_session("s1")
    session.add_decision("alpha")
    session.add_decision("beta")
    session.query("alpha")
    memory.store.access.flush()
    memory.store.indexer.count_accesses()
    assert session.query(where={"access.count": {"greater": 0}}, track_access=False).ids == ["DEC-0001"]
    assert session.query(where={"decay.access_count": 0}, track_access=False).ids == ["DEC-0002"]
    assert session.query(where={"last_accessed": {"exists": True}}, track_access=False).ids == ["DEC-0001"]


@pytest.mark.parametrize(
    "sort", [{"field": "relevance", "direction": "asc"}, {"field": "priority", "direction": "sideways"}]
)
def test_unknown_sort_order_is_rejected(sort: dict[str, str]) -> None:
    """The direction was passed over in silence."""
    with pytest.raises(smp_memory.errors.InvalidQuery, match="sort"):
        new_session().query(sort=sort)


def test_since_after_until_is_rejected() -> None:
    with pytest.raises(smp_memory.errors.InvalidQuery, match="ends before it begins"):
        new_session().query(since="2026-05", until="2026-01")


def test_topics_is_an_alias_and_never_suggested() -> None:
    session = new_session()
    session.add_decision("alpha", topic="db")
    assert session.query(topics="db").ids == ["DEC-0001"]
    with pytest.raises(smp_memory.errors.InvalidQuery, match=r"Did you mean topic\?"):
        session.query(topicz="db")


def test_the_priority_of_a_memory_without_its_session() -> None:
    with pytest.raises(smp_memory.errors.InvalidQuery, match="session/DEC-0001"):
        new_session().memory.priority("DEC-0001")


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_watch_yields_new_memories_after_others_were_purged(tmp_path: Path, layout: str) -> None:
    """Positions shift when bytes go: as many memories as before looked like nothing new."""
    with smp_memory.open(tmp_path / "store", layout=layout, clock=FrozenClock()) as memory:
        session = memory.create_session("s1")
        for number in range(4):
            session.add_finding(f"alpha {number}")
        watcher = session.watch("alpha", timeout=60)
        session.erase("FIND-0002")
        session.add_finding("alpha and new")
        assert next(watcher).id == "FIND-0005"
        session.erase("FIND-0005")
        session.add_decision("alpha, the last")
        assert next(watcher).id == "DEC-0001"


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "log"])
def test_watch_yields_a_memory_inserted_by_hand(tmp_path: Path, layout: str) -> None:
    """It stands before what was written later into another file: the last one of these was yielded again instead."""
    root = tmp_path / "store"
    with smp_memory.open(root, layout=layout, clock=FrozenClock()) as memory:
        session = memory.create_session("s1")
        session.add_decision("alpha by SMP")
        session.add_finding("alpha and later")
        watcher = session.watch("alpha", timeout=60)
        with decisions_file(root, layout).open("a") as file:
            file.write(by_hand(layout, "DEC-0900", "alpha by hand"))
        assert next(watcher).id == "DEC-0900"
        session.add_finding("alpha at last")
        assert next(watcher).id == "FIND-0002"


def test_watch_yields_all_memories_of_one_write() -> None:
    """What came beyond the first 10,000 was passed over."""
    session = new_session()
    watcher = session.watch(timeout=60, pause=0.01)
    session.add_many([("finding", f"number {number}") for number in range(10_050)])
    assert len({next(watcher).id for _ in range(10_050)}) == 10_050


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*service*", [1, 2, 6]), ("*service", [1, 6]), ("*services", [2]), ("web*service*", [2]), ("*cation", [3]),
        ("auth*tion", [3]), ("get*Response", [4]), ("*nning", [5]), ("r*ing", [5]), ("serv*ce", [1]), ("-*service*", [3, 4, 5]),
        ("*ing -*nning", []), ("*-0003", [3]),
    ],
)  # fmt: skip
def test_wildcard_inside_a_word_matches_words_as_written(pattern: str, found: list[int]) -> None:
    """The index has stems, so a pattern that goes on behind its `*` found hardly any English word."""
    session = new_session()
    for text in ("the service", "webservices", "authentication", "getHTTPResponse", "running", "a microservice"):
        session.add_finding(text)
    assert sorted(session.query(pattern).ids) == [f"FIND-{number:04}" for number in found]
    assert session.query(pattern, count_by="type").counts == {"type": {"finding": len(found)} if found else {}}


def test_symbol_can_be_excluded() -> None:
    """`-🎉` asked for it instead."""
    session = new_session()
    session.add_finding("alpha 🎉")
    session.add_finding("alpha")
    assert session.query("alpha -🎉").ids == ["FIND-0002"]


def test_pattern_with_many_stars_does_not_backtrack() -> None:
    """Each star tried every place again: this question was never answered."""
    session = new_session()
    session.add_finding("a" * 100)
    session.add_finding("a" * 100_000)
    session.add_finding("a" * 60 + "b")
    assert session.query("*a" * 12 + "*b").ids == ["FIND-0003"]
    assert len(session.query("a*" * 12)) == 3


@pytest.mark.parametrize("policy", ["smp", "half-life", "boosted", "simple"])
def test_decayed_memories_can_be_left_out(policy: str) -> None:
    """A memory counted as decayed below 0.1, and hardly any rule lets one fade so far: nothing was ever left out."""
    session = new_session(config={"decay": {"policy": policy}})
    session.add_turn("user", "alpha", created="2020-01-01")
    session.add_turn("user", "alpha")
    assert sorted(session.query("alpha").ids) == ["TURN-0001", "TURN-0002"]
    assert session.query("alpha", include_decayed=False).ids == ["TURN-0002"]
    assert session.query(include_decayed=False).ids == ["TURN-0002"]


def test_session_indexed_by_another_process_and_removed_by_hand(tmp_path: Path) -> None:
    """The index forgets it, so no answer says that it was left out."""
    root = tmp_path / "store"
    with smp_memory.open(root) as one, smp_memory.open(root) as two:
        one.create_session("s1").add_decision("alpha of one")
        one.create_session("s2").add_decision("alpha of two")
        one.session("s1").query("alpha")  # indexes only s1
        assert len(two.query("alpha")) == 2
        shutil.rmtree(root / "sessions" / "s2")
        hits = one.query("alpha")
        assert [hit.session for hit in hits] == ["s1"]
        assert not hits.left_out
