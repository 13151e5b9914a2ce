"""Queries through the index find exactly what a full scan finds, in pages that cover it once."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import smp_memory
from smp_memory.search.path import search_index
from smp_memory.search.query import Query
from smp_memory.store.opening import register_backend
from smp_memory.testing import FrozenClock
from smp_memory.text.tokenizer import ParsedText, parse, spellings, terms
from smp_memory.text.wildcards import is_loose, term_matcher
from tests.backends import naive_store
from tests.backends.naive_index import NaiveIndex
from tests.crash.scenarios import depth

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = ("s1", "s2", "s3")
VOCABULARY = [
    "alpha", "beta", "gamma", "delta", "Alphas", "running", "runs", "the", "of", "auth_service.py", "src/auth/o_auth.py",
    "OAuth2", "FIND-0001", "DEC-0001", "getUserName", "Zürich", "zurich", "C++", "v2.0", "数据库连接", "データベース", "데이터베이스를",
    "ฐานข้อมูล", "don't", "-", "—", "…", "alpha.", "(beta)", "🙂", "e\u0301te", "a" * 120,
]  # fmt: skip
TAGS = ["auth", "auth.oauth", "auth.oauth.pkce", "Auth.SAML", "db", "author"]
AUTHORS = ["ada", "bob", "Ada Lovelace"]
TOPICS = ["login", "Login flow", "auth.oauth", "db"]
KINDS = {
    "conversation": "content", "decision": "decision", "finding": "finding", "preference": "preference",
    "artifact": "content", "learning": "learning", "summary": "summary",
}  # fmt: skip
SILENT = {
    "id", "session", "type", "created", "updated", "revision", "author_kind", "idempotency_key", "access", "visibility",
    "trust", "relations", "references", "turn_ref", "role", "deleted", "confidence", "importance", "pinned",
}  # fmt: skip
WHERE: list[tuple[Any, Any]] = [
    ({"severity": "high"}, lambda data: data.get("severity") == "high"),
    ({"own.score": {"greater": 3}}, lambda data: (data.get("own") or {}).get("score", 0) > 3),
    ([("own", "exists")], lambda data: bool(data.get("own"))),
    ({"severity": {"not_equals": "low"}}, lambda data: data.get("severity") != "low"),
]

# -- stores

texts = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6).map(" ".join)
fields = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(st.sampled_from(TAGS), max_size=2, unique=True),
        "author": st.sampled_from(AUTHORS),
        "topic": st.sampled_from(TOPICS),
        "importance": st.sampled_from([0, 0.3, 0.9, 1]),
        "confidence": st.sampled_from(["explicit", "high", 0.4, "uncertain"]),
        "pinned": st.booleans(),
        "severity": st.sampled_from(["low", "high"]),
        "own": st.fixed_dictionaries({"score": st.integers(0, 6)}),
        "rationale": texts,
    },
)
pick = st.integers(0, 10**6)
days = st.integers(-9, 9)
session_numbers = st.integers(0, len(NAMES) - 1)
steps = st.one_of(
    st.tuples(st.just("add"), session_numbers, st.sampled_from(sorted(KINDS)), texts, fields, days),
    st.tuples(st.just("add"), session_numbers, st.sampled_from(sorted(KINDS)), texts, fields, days),
    st.tuples(st.just("several"), session_numbers, st.lists(texts, min_size=1, max_size=3), days),
    st.tuples(st.just("update"), pick, fields, texts),
    st.tuples(st.just("delete"), pick),
    st.tuples(st.just("restore"), pick),
    st.tuples(st.just("relate"), pick, pick, st.sampled_from(["relates_to", "resolves"])),
)


def when(day: int) -> str:
    return f"{START + timedelta(days=day, microseconds=day * 7):%Y-%m-%dT%H:%M:%S.%fZ}"


def do(memory: smp_memory.Memory, step: tuple[Any, ...]) -> None:
    what, *rest = step
    if what == "add":
        number, kind, text, more, day = rest
        data = {**more, KINDS[kind]: text, "created": when(day), **({"role": "user"} if kind == "conversation" else {})}
        memory.session(NAMES[number]).add(kind, data)
    elif what == "several":
        number, said, day = rest
        with memory.session(NAMES[number]).transaction() as tx:
            for text in said:
                tx.add_turn("assistant", text, created=when(day))
                tx.add_decision(text)
    else:
        change(memory, what, rest)


def change(memory: smp_memory.Memory, what: str, rest: list[Any]) -> None:
    there = [record for session in memory.sessions() for record in session.records(include_deleted=True)]
    live = [record for record in there if record.deleted is (what == "restore")]
    if not live:
        return
    record = live[rest[0] % len(live)]
    session = memory.session(record.session)
    if what == "update" and record.type != "conversation":
        session.update(record.id, **{**rest[1], KINDS[record.type]: rest[2]})
    elif what == "delete":
        session.delete(record.id)
    elif what == "restore":
        session.restore(record.id)
    elif what == "relate" and record.type != "conversation":
        session.relate(record.id, there[rest[1] % len(there)].ref, rest[2])


# -- questions

question_words = st.one_of(
    st.sampled_from(VOCABULARY),
    st.sampled_from(
        [
            "库连",
            "数",
            "ベース",
            "데이터",
            "ฐาน",
            "auth*",
            "alph*",
            "a*a",
            "*unning",
            "*vice*",
            "r*s",
            "getUser*",
            "service",
            "o_auth.py",
            "ada",
            "OAUTH2",
        ]
    ),
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=2).map(lambda words: f'"{" ".join(words)}"'),
    st.sampled_from(["-alpha", '-"alpha beta"', "-run*", "-*nning", "-🙂", "-数据", "-auth_service.py", "zzz"]),
)
PARTS = {
    "text": st.lists(question_words, min_size=1, max_size=4).map(" ".join),
    "types": st.lists(st.sampled_from([*sorted(KINDS), "turn"]), min_size=1, max_size=2),
    "tags": st.lists(st.sampled_from([*TAGS, "AUTH", "nothing"]), min_size=1, max_size=2),
    "all_tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=2),
    "not_tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=1),
    "agents": st.lists(st.sampled_from([*AUTHORS, "nobody"]), min_size=1, max_size=2),
    "topic": st.sampled_from([*TOPICS, "LOGIN  FLOW", "auth", "nothing"]),
    "since": days.map(when),
    "until": days.map(when),
    "min_importance": st.sampled_from([0, 0.3, 0.5]),
    "min_confidence": st.sampled_from([0.4, "high", 1]),
    "confidence": st.sampled_from(["high", 0.4, ["explicit", "uncertain"]]),
    "pinned": st.booleans(),
    "include_deleted": st.booleans(),
    "where": st.integers(0, len(WHERE) - 1),
    "sort": st.sampled_from(["relevance", "newest", "oldest", "priority", "importance"]),
    "sessions": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
}
# Few parts at once: with many of them nearly nothing is found, and nothing can be wrong.
questions = st.lists(st.sampled_from(sorted(PARTS)), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: PARTS[name] for name in names})
)


# -- a look at every memory


def said(record: smp_memory.Record) -> str:
    """All that a memory says. Its id is a term of its own: the number in it is no word."""
    parts = [part for name, value in record.to_dict().items() if name not in SILENT for part in spoken(name, value)]
    return "\n".join(parts)


def spoken(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from spoken(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str | list | dict):
                yield key
            yield from spoken(key, item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def has(said: list[str], words: tuple[str, ...]) -> bool:
    return any(tuple(said[start : start + len(words)]) == words for start in range(len(said)))


def meets_text(text: str, id: str, asked: ParsedText) -> bool:
    found = [*terms(text), id.lower()]

    def means(pattern: str) -> bool:
        if is_loose(pattern):
            fits = re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
            return any(map(fits, [*spellings(text), id.lower()]))
        fits = term_matcher(pattern)
        return any(fits(term) for term in found)

    if any(has(found, words) for words in asked.excluded) or any(map(means, asked.excluded_patterns)):
        return False
    if asked.phrases or asked.patterns:
        return all(has(found, words) for words in asked.phrases) and all(map(means, asked.patterns))
    if not asked.words and not asked.characters:
        return True
    return any(word in found for word in asked.words) or any(map(means, asked.characters))


def below(name: str, asked: str) -> bool:
    name, asked = " ".join(name.casefold().split()), " ".join(asked.casefold().split())
    return name == asked or name.startswith(asked + ".")


def tagged(record: smp_memory.Record, tag: str) -> bool:
    return any(below(each, tag) for each in record.tags)


def number(value: Any) -> float | None:
    return {"explicit": 1.0, "high": 0.9, "medium": 0.7, "low": 0.5, "uncertain": 0.3}.get(value, value)


def meets(record: smp_memory.Record, asked: dict[str, Any]) -> bool:
    data = record.to_dict()
    confidence = number(data.get("confidence"))
    wanted = asked.get("confidence")
    tests = (
        ("include_deleted", lambda value: value or not record.deleted, True),
        ("types", lambda value: record.type in [{"turn": "conversation"}.get(each, each) for each in value], False),
        ("tags", lambda value: any(tagged(record, tag) for tag in value), False),
        ("all_tags", lambda value: all(tagged(record, tag) for tag in value), False),
        ("not_tags", lambda value: not any(tagged(record, tag) for tag in value), False),
        ("agents", lambda value: record.author in value, False),
        ("topic", lambda value: below(record.topic or "", value) or tagged(record, value), False),
        ("since", lambda value: record.created >= datetime.fromisoformat(value), False),
        ("until", lambda value: record.created <= datetime.fromisoformat(value), False),
        ("min_importance", lambda value: record.importance is not None and record.importance >= value, False),
        ("min_confidence", lambda value: confidence is not None and confidence >= number(value), False),
        ("confidence", lambda value: confidence in [number(v) for v in (wanted if isinstance(wanted, list) else [wanted])], False),
        ("pinned", lambda value: record.pinned is value, False),
        ("where", lambda value: WHERE[value][1](data), False),
        ("sessions", lambda value: record.session in value, False),
    )  # fmt: skip
    return all(test(asked.get(name, False)) for name, test, always in tests if always or name in asked)


def expected(memory: smp_memory.Memory, asked: dict[str, Any]) -> tuple[dict[str, smp_memory.Record], set[str]]:
    """What must be found, and what may be found beside it: turns next to those with a sentence's words."""
    must: dict[str, smp_memory.Record] = {}
    may: set[str] = set()
    text = asked.get("text")
    query = parse(text) if text else None
    for session in memory.sessions():
        records = session.records(include_deleted=True)
        speaking = [query is None or (bool(query) and meets_text(said(record), record.id, query)) for record in records]
        for position, record in enumerate(records):
            if not meets(record, asked):
                continue
            if speaking[position]:
                must[record.ref] = record
            elif record.type == "conversation" and query and len(query.words) >= 3:
                near = [position - 2, position - 1, position + 1, position + 2]
                if any(0 <= at < len(records) and speaking[at] and meets(records[at], asked) for at in near):
                    may.add(record.ref)
    return must, may


# -- comparing


def check(memory: smp_memory.Memory, asked: dict[str, Any]) -> None:
    must, may = expected(memory, asked)
    given = {**asked, "track_access": False}
    if "where" in given:
        given["where"] = WHERE[given["where"]][0]
    if "since" in asked and "until" in asked and asked["since"] > asked["until"]:
        assert not must
        with pytest.raises(smp_memory.errors.InvalidQuery):
            memory.query(**given)
        return
    hits = memory.query(**given, limit=10_000, count_by=["type", "session", "agent", "tag", "day", "topic"])
    refs = [hit.record.ref for hit in hits]
    assert len(set(refs)) == len(refs)
    listed = {*refs, *(ref for hit in hits for ref in hit.echoes)}  # a memory speaks for the turns that repeat it
    may |= {hit.record.ref for hit in hits if hit.echoes}
    assert must.keys() <= listed <= must.keys() | may, (asked, must.keys() - listed, listed - must.keys())
    assert not hits.more
    for hit in hits:
        assert hit.record == memory.session(hit.session).find(hit.id)
        assert 0 <= hit.score <= 1
        assert 0 <= hit.relevance <= 1
        assert 0 <= hit.priority <= 1
    if not any(
        hit.echoes for hit in hits
    ):  # counts are of what matches; a memory may speak for a turn without matching itself
        assert hits.counts == counted([hit.record for hit in hits])
    check_order(hits, asked)
    check_naive(memory, given, hits)
    check_pages(memory, given, refs)


def check_naive(memory: smp_memory.Memory, given: dict[str, Any], hits: Any) -> None:
    """Brute force behind the same port finds and counts the same, by time in the same order."""
    asked = {name: value for name, value in given.items() if name != "track_access"}
    query = Query({**asked, "limit": 10_000, "count_by": list(hits.counts)}, memory.now())
    found = search_index(query, NaiveIndex(memory.store), memory.scope.policy())
    assert {hit.record.ref for hit in found} == {hit.record.ref for hit in hits}, asked
    assert found.counts == hits.counts
    assert (found.not_valid, found.corrected, found.more) == (hits.not_valid, hits.corrected, hits.more)
    if query.sort in ("newest", "oldest") and len({hit.record.created for hit in hits}) == len(hits):
        assert [hit.record.ref for hit in found] == [hit.record.ref for hit in hits]


def counted(records: list[smp_memory.Record]) -> dict[str, dict[str, int]]:
    found = {
        "type": Counter(record.type for record in records),
        "session": Counter(record.session for record in records),
        "agent": Counter(record.author or "" for record in records),
        "tag": Counter(tag for record in records for tag in {tag.casefold() for tag in record.tags}),
        "day": Counter(f"{record.created:%Y-%m-%d}" for record in records),
        "topic": Counter(record.topic.casefold() for record in records if record.topic),
    }
    return {name: dict(counts) for name, counts in found.items()}


def check_order(hits: Any, asked: dict[str, Any]) -> None:
    sort = asked.get("sort", "relevance" if asked.get("text") else "newest")
    keys = {
        "relevance": lambda hit: -hit.score,
        "newest": lambda hit: -hit.record.created.timestamp(),
        "oldest": lambda hit: hit.record.created.timestamp(),
        "priority": lambda hit: -hit.priority,
        "importance": lambda hit: -(-1 if hit.record.importance is None else hit.record.importance),
    }
    values = [keys[sort](hit) for hit in hits]
    assert values == sorted(values), (sort, values)


def check_pages(memory: smp_memory.Memory, given: dict[str, Any], refs: list[str]) -> None:
    size = max(1, len(refs) // 3)
    paged: list[str] = []
    more = True
    while more:
        page = memory.query(**given, limit=size, offset=len(paged))
        assert len(page) <= size
        paged += [hit.record.ref for hit in page]
        more = page.more
        assert more == (len(paged) < len(refs)), (paged, refs)
    assert paged == refs


@contextmanager
def opened(where: str) -> Iterator[smp_memory.Memory]:
    clock = FrozenClock(START)
    if where == ":memory:":
        with smp_memory.open(":memory:", clock=clock, config={"search.semantic": "off"}) as memory:
            yield memory
        return
    register_backend(naive_store.NAME, naive_store.open_naive)
    config = {"durability": "os", "search.semantic": "off"}
    with tempfile.TemporaryDirectory() as folder:
        address = f"{where}://{folder}/s" if where == naive_store.NAME else Path(folder, "s")
        with smp_memory.open(address, clock=clock, config=config) as memory:
            yield memory


def run(where: str, tail: int, first: list[Any], second: list[Any], asked: list[dict[str, Any]]) -> None:
    with mock.patch("smp_memory.index.text.TAIL_LIMIT", tail), opened(where) as memory:
        for name in NAMES:
            memory.create_session(name)
        for step in first:
            do(memory, step)
        check(memory, asked[0])
        for step in second:
            do(memory, step)
        for each in asked:
            check(memory, each)


NEVER = 10**6


@pytest.mark.parametrize(
    ("where", "tail", "examples"),
    [
        pytest.param(":memory:", NEVER, (40, 500), id="memory-tail"),
        pytest.param(":memory:", 3, (12, 300), id="memory-merged"),
        pytest.param("files", NEVER, (12, 300), id="files-tail"),
        pytest.param("files", 3, (8, 300), id="files-merged"),
        pytest.param(naive_store.NAME, NEVER, (20, 300), id="naive"),
    ],
)
def test_query_finds_what_a_full_scan_finds(where: str, tail: int, examples: tuple[int, int]) -> None:
    @settings(max_examples=depth(*examples), deadline=None)
    @given(st.lists(steps, max_size=12), st.lists(steps, max_size=12), st.lists(questions, min_size=1, max_size=5))
    def each(first: list[Any], second: list[Any], asked: list[dict[str, Any]]) -> None:
        run(where, tail, first, second, asked)

    each()
