"""Hostile queries: no text fails, innocent words still match, and an invalid option is named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import smp_memory
from smp_memory.errors import InvalidQuery, MemoryNotFound, SMPError
from smp_memory.search.query import MAX_VALUES
from smp_memory.testing import FrozenClock

# Each holds the innocent word `kiwi`, which one memory has; nothing in them asks to leave it out.
HOSTILE = [
    # SQL
    "kiwi'; DROP TABLE memory; --", "kiwi' OR '1'='1", 'kiwi" OR ""="', "kiwi); DELETE FROM memory", "1 UNION SELECT kiwi FROM x",
    "kiwi /* comment */", "kiwi -- comment", "%kiwi%", "kiwi_%", "kiwi%00", "%s kiwi %d %n", "kiwi {0} {kiwi}", "${kiwi}", "$(kiwi)", "`kiwi`",
    # FTS5
    "kiwi AND", "AND kiwi", "kiwi OR", "OR OR kiwi", "NOT kiwi", "kiwi NOT", "kiwi NEAR", "NEAR(kiwi x, 5)", "NEAR/5 kiwi", "^kiwi", "kiwi^", "kiwi + lime",
    "{a b}: kiwi", "- col : kiwi", "col:kiwi", "col : kiwi", "kiwi:", ":kiwi", "::kiwi::", "rowid:kiwi", "rank kiwi",
    # Lucene, tantivy
    "text:kiwi", "label:x kiwi", "doc:1 kiwi", "kiwi^2", "kiwi^2.5", "kiwi~", "kiwi~2", "kiwi~0.8", "[a TO z] kiwi", "{a TO z} kiwi", "created:[* TO *] kiwi",
    "+kiwi", "++kiwi", "+kiwi +lime", "kiwi && lime", "kiwi || lime", "!kiwi", "kiwi!", "(kiwi)", "((kiwi)", "(kiwi))", "()kiwi()", ")(kiwi", "kiwi AND (", "IN [kiwi]",
    "kiwi (a OR (b AND (c OR d)))", "_all:kiwi", "*:* kiwi ** x", "kiwi <3", ">kiwi", ">=5 kiwi", "/kiwi/", "kiwi\\", "\\kiwi", "\\\\kiwi\\\\", "kiwi \\\"",
    # regular expressions
    "(?i)kiwi", "(?P<kiwi>x) kiwi", "[kiwi", "kiwi]", "kiwi{1,999999999}", "(kiwi+)+$", "kiwi|", "|kiwi", "^(kiwi)$", "kiwi?", "(a+)+b kiwi",
    # quotes
    '"kiwi', 'kiwi"', '"kiwi"', '""kiwi""', '"""kiwi', "'kiwi'", "‘kiwi’", "“kiwi”", "„kiwi“", "«kiwi»", 'kiwi "', '" kiwi', '"" kiwi', '"  " kiwi', "kiwi '' ''", '\'"kiwi"\'', '"kiwi" "',
    # signs alone
    "- kiwi", "-- kiwi", "--kiwi", "kiwi -", "kiwi --", "* kiwi", "** kiwi **", "*** kiwi", "? kiwi ?", "kiwi *", "# kiwi", "@kiwi", "kiwi, lime; melon", "kiwi...", "...kiwi", "-5 kiwi", "-v kiwi",
    "kiwi -(", 'kiwi -"', 'kiwi -""', "kiwi -*", "kiwi -**", "kiwi ~", "~kiwi", "= kiwi =", "& kiwi", "<kiwi>", "<script>kiwi</script>", "kiwi=1", "?q=kiwi&x=1",
    # characters
    "kiwi\0", "\0kiwi\0", "ki\u200bwi", "kiwi\ufeff", "\ufeffkiwi", "\u202ekiwi", "kiwi \ud800", "\udfff kiwi \ud83d", "kiwi 🥝👩‍👩‍👧‍👦", "🥝 kiwi", "kiwi\u0301\u0301\u0301",
    "k\u0336i\u0336w\u0336i\u0336", "ｋｉｗｉ", "KIWI", "KiWi", "kiwi\x1b[31m", "kiwi\r\n\t\v\f", "\u2028kiwi\u2029", "kiwi\x85", "\x1ckiwi\x1f", "kiwi שלום עולם", "مرحبا kiwi", "kiwi \uffff \U0010ffff",
    "kiwi 数据库", "kiwi 'ฐาน'", "kiwi " + "\u0300" * 500, "kiwi " + "é" * 300, "İ kiwi ı ß ﬁ", "kiwi ǅ Ω ﷺ",
    # sizes
    "kiwi " * 2000, "kiwi " + "x" * 1_000_000, "kiwi " + '"' * 5000, "kiwi " + "(" * 5000, "kiwi " + "- " * 5000, "kiwi " + " ".join(f"w{n}" for n in range(3000)),
    "kiwi " + "/".join("ab" for _ in range(3000)), "kiwi " + "漢" * 20_000, "kiwi " + "🥝" * 3000,
    # other people's syntax
    "kiwi last 99999999999 years", "kiwi since 2026-99-99", "kiwi 0000-00-00..9999-99-99", "kiwi before before before", "type:decision kiwi", "tags:[a] kiwi", '{"text": "kiwi"}', "limit=5 kiwi",
    "../../etc/passwd kiwi", "C:\\kiwi\\x", "file:///kiwi", "kiwi@example.org", "http://[::1]/kiwi", "s1/DEC-0001 kiwi", "nan inf kiwi", "None kiwi null undefined", "true kiwi false", "kiwi 1e999 0x0",
]  # fmt: skip
# These insist on something or leave something out, so the word need not be found; they must only be answered.
INSISTING = [
    "", " ", "\t\n", "*", "kiwi.*", "/ki.*/ kiwi", "\\bkiwi\\b \\d", "**", "?", "-", "--", '"', '""', "'", "()", "(((", "\\", "\0", "\ud800", "\u0301", "\u200b", "\u202e", "🥝", "...", "~", "^", "-kiwi", '-"kiwi"', "-kiwi*", "kiwi -kiwi",
    '"kiwi lime', '"kiwi" -"kiwi"', "k*", "*iwi", "*i*", "k*i*w*i*", "a*" * 200, "* *", "*a*b*c*d*e*f*g*h*i*j*", "[*", "(*)", "\\*", "k\\*", "数*", "数", "-数", "ก", "한*", '"数"', '-"数"', "the", "-the", '"the"', "to be or not to be",
    "*" * 100_000, "a" * 1_000_000, "-a " * 2000, '"a" ' * 2000, "a* " * 300, "-a* " * 300, '-"a b" ' * 500, "漢" * 100_000, " " * 1_000_000,
]  # fmt: skip


@pytest.fixture(scope="module", params=["tail", "tantivy"])
def session(request: pytest.FixtureRequest) -> Iterator[smp_memory.SessionMemory]:
    with pytest.MonkeyPatch.context() as patch, smp_memory.open(":memory:", clock=FrozenClock()) as memory:
        patch.setattr("smp_memory.index.text.TAIL_LIMIT", 0 if request.param == "tantivy" else 1000)
        session = memory.create_session("s1")
        session.add_decision("One says kiwi", author="ada", tags=["fruit.green"], topic="fruit")
        session.add_finding("Another says nothing of the kind", severity="low")
        session.add_turn("user", "数据库 ฐานข้อมูล 데이터베이스를 “quoted” (brackets) a_b.py C++ 100%")
        session.relate("DEC-0001", "FIND-0001")
        session.query("kiwi")
        yield session


def test_there_are_enough_hostile_queries() -> None:
    assert len(set(HOSTILE)) + len(set(INSISTING)) >= 200


def test_innocent_words_are_found(session: smp_memory.SessionMemory) -> None:
    lost = [text[:80] for text in HOSTILE if "DEC-0001" not in session.query(text).ids]
    assert not lost


def test_every_hostile_query_is_answered(session: smp_memory.SessionMemory) -> None:
    for text in INSISTING:
        hits = session.query(text, limit=10_000)
        assert len(hits.ids) == len(set(hits.ids))
        session.query(text, tags="fruit", types="decision", time="2026", count_by="type", where={"topic": "fruit"})


def test_find_similar_answers_every_hostile_text(session: smp_memory.SessionMemory) -> None:
    stored = {record.id for record in session.records()}
    for text in (*HOSTILE, *INSISTING):
        assert stored.issuperset(session.find_similar(text).ids), text[:80]
        assert len(session.memory.find_similar(text, limit=1)) <= 1, text[:80]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["", "kiwi ", ' "kiwi" ']))
def test_any_text_is_answered_from_the_stored_memories(text: str, innocent: str) -> None:
    with smp_memory.open(":memory:", clock=FrozenClock()) as memory:
        session = memory.create_session("s1")
        session.add_decision("One says kiwi")
        assert {"DEC-0001"}.issuperset(session.query(innocent + text).ids)
        assert {"DEC-0001"}.issuperset(session.query(text + innocent).ids)


def test_memory_is_found_by_its_own_words() -> None:
    """What was stored is found by its own words."""
    off = {"privacy": {"redaction": {"enabled": False}}}  # an address is to be found as it is
    with smp_memory.open(":memory:", clock=FrozenClock(), config=off) as memory:
        session = memory.create_session("s1")
        session.add_decision("filler")
        for number, text in enumerate(text for text in HOSTILE if len(text) < 100):
            if any("\ud800" <= character <= "\udfff" for character in text):
                continue
            record = session.add_decision(f"{text} m{number}m")
            assert record.id in session.query(f"m{number}m").ids, text
            assert record.id in session.find_similar(text, limit=500).ids, text


# -- wrong arguments

BAD_TEXTS: list[Any] = [5, 0.5, True, b"x", {}, [None], [5], [""], "", ["\ud800"], object()]
WRONG: list[tuple[str, list[Any]]] = [
    ("text", [5, b"kiwi", ["kiwi"], True, object()]),
    ("types", [*[bad for bad in BAD_TEXTS if bad != {}], "dreams", ["decision", "x"], "decision'; --"]),
    ("tags", [bad for bad in BAD_TEXTS if bad != {}]),
    ("all_tags", [bad for bad in BAD_TEXTS if bad != {}]),
    ("not_tags", [bad for bad in BAD_TEXTS if bad != {}]),
    ("agents", [bad for bad in BAD_TEXTS if bad != {}]),
    ("topic", [bad for bad in BAD_TEXTS if bad != {}]),
    ("references", [bad for bad in BAD_TEXTS if bad != {}]),
    ("related_to", [bad for bad in BAD_TEXTS if bad != {}]),
    ("kinds", [bad for bad in BAD_TEXTS if bad != {}]),
    ("sessions", [5, ["a/b"], "../x", "a b", "", ["\ud800"], [None]]),
    ("time", [5, "yesterdayish", "2026-13", (), ("a",), ("2026-02-01", "2026-01-01"), {"x": 1}, "", b"x", True]),
    ("since", ["no time", 5, True, b"x", {}, ["2026"]]),
    ("until", ["no time", 5, True, b"x", {}, ["2026"]]),
    ("at", ["no time", True, b"x", {}, ["2026"]]),
    ("confidence", ["sure", 2, -0.1, True, [True], ["sure"], object(), float("nan")]),
    ("min_confidence", ["sure", 2, -0.1, True, [0.5], float("nan")]),
    ("min_importance", ["high", 2, -0.1, True, [0.5], float("nan"), float("inf")]),
    ("min_priority", ["high", 2, -0.1, True, [0.5], float("nan")]),
    ("min_relevance", ["high", 2, -0.1, True, [0.5], float("nan")]),
    ("pinned", [1, 0, "yes", [], "true"]),
    ("include_deleted", [1, "yes", []]),
    ("include_decayed", [1, "yes", []]),
    ("include_archived", [1, "yes", []]),
    ("include_related", [1, "yes", []]),
    ("depth", [0, -1, 11, 1.5, "2", True]),
    ("sort", ["size", 5, [], {}, {"field": "size"}, "relevance; --", b"x"]),
    ("mode", ["best", 5, b"x", ["default"]]),
    ("limit", [-1, 10_001, 1.5, "5", True, 10**30]),
    ("offset", [-1, 10_000_001, 1.5, "5", True]),
    ("count_by", ["size", ["type", "x"], 5, {}, [None]]),
    ("timeout", [0, -1, "5", True, float("nan")]),
    ("where", [5, "no condition", {"x": {"about": 1}}, {"": 1}, [5], object(), [("a", "b", "c", "d")], {"type": "dreams"}]),
    ("tgas", ["x"]),
    ("limt", [5]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), WRONG, ids=[name for name, _ in WRONG])
def test_a_wrong_argument_is_named(session: smp_memory.SessionMemory, name: str, values: list[Any]) -> None:
    for value in values:
        for ask in (session.query, session.memory.query):
            try:
                ask(value) if name == "text" else ask(**{name: value})
            except InvalidQuery as error:
                assert name in str(error) or str(error.field) in str(error), (value, str(error))
            except BaseException as error:
                raise AssertionError(f"{name}={value!r}: {type(error).__name__}: {error}") from error
            else:
                raise AssertionError(f"{name}={value!r} was taken")


def test_a_wrong_argument_in_a_dictionary_is_named(session: smp_memory.SessionMemory) -> None:
    for asked in (
        {"limit": "x"},
        {"tags": 5},
        {"nonsense": 1},
        {5: 1},
        {None: 1},
        {"text": 5},
        {"types": "x", "type": "y"},
    ):
        with pytest.raises(InvalidQuery):
            session.query(asked)  # type: ignore[arg-type]


def test_too_many_values_of_an_option_are_rejected(session: smp_memory.SessionMemory) -> None:
    for name in ("tags", "all_tags", "not_tags", "agents", "topic", "references", "related_to", "kinds"):
        few, many = [f"t{n}" for n in range(MAX_VALUES)], [f"t{n}" for n in range(MAX_VALUES + 1)]
        session.query(**{name: few})
        session.query("kiwi", **{name: few})
        with pytest.raises(InvalidQuery) as caught:
            session.query(**{name: many})
        assert name in str(caught.value)


def test_unknown_values_match_nothing_but_an_unknown_session_is_an_error(session: smp_memory.SessionMemory) -> None:
    for asked in ({"tags": "x'; --"}, {"agents": '"'}, {"topic": "%"}, {"references": "a/b/c"}, {"related_to": "///"}, {"kinds": "x", "related_to": "DEC-0001"}, {"tags": "."}, {"topic": "..."}):  # fmt: skip
        assert session.query(**asked).ids == []
        assert session.query("kiwi", **asked).ids == []
    with pytest.raises(SMPError):
        session.memory.query(sessions=["nobody"])


def test_invalid_ids_and_options_of_find_related_are_rejected(session: smp_memory.SessionMemory) -> None:
    for wrong in ("nothing", "s9/DEC-0001", "DEC-0001/", "/", "a/b/c", "DEC-0099"):
        with pytest.raises(MemoryNotFound):
            session.find_related(wrong)
    for wrong in (5, None, [], ["DEC-0001"], b"x", "", "\ud800"):
        with pytest.raises(SMPError):
            session.find_related(wrong)
        with pytest.raises(SMPError):
            session.find_similar(wrong, limit="x")
    for wrong in (0, -1, 1.5, "2", 11):
        with pytest.raises(InvalidQuery):
            session.find_related("DEC-0001", depth=wrong)  # type: ignore[arg-type]
    for wrong in (5, None, "", "nothing", "s9/x", "DEC-0099", [], b"x"):
        with pytest.raises(SMPError):
            session.priority(wrong)


def test_first_and_last_possible_times_are_valid(session: smp_memory.SessionMemory) -> None:
    for time in (
        "0001",
        "9999",
        ("0001-01-01", "9999-12-31"),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
    ):
        everything = isinstance(time, tuple) or time == datetime(1, 1, 1, tzinfo=UTC)  # a moment alone is a start
        assert len(session.query(time=time)) == (3 if everything else 0)
        assert session.query("kiwi", time=time).ids == (["DEC-0001"] if everything else [])
        since = time[0] if isinstance(time, tuple) else time
        from_the_first_year = str(since).startswith("0001")
        assert len(session.query(since=since)) == (3 if from_the_first_year else 0)
        assert len(session.query(at=time if isinstance(time, datetime) else None)) == 3
