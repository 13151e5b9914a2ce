"""The same data in files and in PostgreSQL gives the same answer to the same question: hits, order, scores, counts and warnings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import smp_memory
from smp_memory.model.session_info import SessionInfo
from tests.postgres_server import Server

pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = [
    "database",
    "login",
    "token",
    "payment",
    "queue",
    "cache",
    "index",
    "backup",
    "server",
    "password",
    "OAuth",
    "PostgreSQL",
    "redis",
    "invoice",
    "customer",
    "order",
    "retry",
    "timeout",
    "schema",
    "migration",
    "export",
    "import",
    "deploy",
    "rollback",
    "alert",
    "dashboard",
    "metric",
    "latency",
    "session",
    "cookie",
    "header",
    "proxy",
    "gateway",
    "cluster",
]
TAGS = ("auth", "auth.login", "db", "db.index", "ops", "billing")
AGENTS = ("architect", "veritas", "dev", "ops")
SESSIONS = ("review", "checkout", "billing", "ops", "global", "empty")
QUOTA_BYTES = 1 << 30


class Clock:
    """Each call is some minutes later; both stores get the entries of one."""

    def __init__(self) -> None:
        self.now = NOW - timedelta(days=90)

    def __call__(self) -> datetime:
        self.now = min(self.now + timedelta(minutes=53), NOW)
        return self.now


def fill(memory: smp_memory.Memory) -> None:
    chosen = random.Random(5)

    def text(count: int = 9) -> str:
        return " ".join(chosen.choices(WORDS, k=count))

    for name in SESSIONS:
        session = memory.create_session(name)
        for number in range(0 if name == "empty" else 45):
            facts: dict[str, Any] = {
                "tags": chosen.sample(TAGS, chosen.randrange(3)),
                "author": chosen.choice(AGENTS),
                "importance": round(chosen.random(), 2),
                "topic": chosen.choice(("login", "storage", "money")),
            }
            kind = number % 5
            if kind == 0:
                session.add_turn(chosen.choice(("user", "agent")), text(14))
            elif kind == 1:
                session.add_decision(text(), rationale=text(5), confidence=round(chosen.random(), 2), **facts)
            elif kind == 2:
                session.add_finding(text(), severity=chosen.choice(("low", "high", "critical")), **facts)
            elif kind == 3:
                session.add_learning(text(), valid_until=chosen.choice(("2026-02-01", "2026-12-31")), **facts)
            else:
                session.add_preference(f"key {number}", text(3), **facts)
        if name != "empty":
            change(session, chosen, text(6))


def change(session: Any, chosen: random.Random, text: str) -> None:
    session.update("DEC-0002", decision=f"changed: {text}")
    session.update("DEC-0003", importance=0.99)
    session.delete("FIND-0002")
    session.delete("FIND-0003")
    session.restore("FIND-0003")
    session.pin("DEC-0004")
    session.resolve("FIND-0004", "fixed it")
    session.add_decision(f"instead {text}", relations=[("supersedes", "DEC-0005")])
    session.relate("DEC-0001", "DEC-0006", "depends_on")
    session.add_turn("user", session.get("DEC-0007").decision)  # an echo


def questions() -> list[tuple[str | None, dict[str, Any]]]:
    chosen = random.Random(9)
    asked: list[tuple[str | None, dict[str, Any]]] = [
        (" ".join(chosen.sample(WORDS, count)), {}) for count in (1, 2, 3, 5, 8) for _ in range(8)
    ]
    texts = [
        "data*",
        "p*t",
        "-login token",
        '"changed instead"',
        "tokn pasword",
        "what did we decide about the database?",
        "",
        "ø",
    ]
    asked += [(text, {}) for text in texts]
    asked += [(f'"{chosen.choice(WORDS)} {chosen.choice(WORDS)}"', {}) for _ in range(10)]
    asked += [(f"{chosen.choice(WORDS)} -{chosen.choice(WORDS)} {chosen.choice(WORDS)[:3]}*", {}) for _ in range(10)]
    options: list[dict[str, Any]] = [
        *({"types": each} for each in ("decision", "finding", "conversation", "learning", "preference")),
        *({"tags": each} for each in TAGS),
        {"all_tags": ["auth", "db"]}, {"not_tags": ["ops"]}, {"agents": "veritas"}, {"agents": ["dev", "ops"]}, {"topic": "login"},
        {"time": "last 30 days"}, {"since": "2026-01-15", "until": "2026-02-01"}, {"time": "2026-02"},
        {"where": {"severity": "critical"}}, {"where": {"severity": ["high", "critical"]}}, {"where": {"importance": {"greater": 0.5}}},
        {"where": {"confidence": {"less_or_equal": 0.4}}}, {"where": {"rationale": {"contains": "token"}}}, {"where": {"topic": {"not_equals": "login"}}},
        {"where": {"topic": {"startswith": "sto"}}}, {"where": {"topic": {"endswith": "ey"}}}, {"where": {"topic": {"matches": "l*n"}}},
        {"where": {"rationale": {"exists": True}}}, {"where": {"severity": {"not_in": ["low"]}}}, {"where": {"resolution": {"not_exists": True}}},
        {"min_importance": 0.7}, {"min_priority": 0.4}, {"min_relevance": 0.3}, {"min_confidence": 0.5}, {"pinned": True},
        {"include_decayed": False}, {"include_deleted": True}, {"include_expired": True}, {"include_related": True},
        {"related_to": "review/DEC-0001"}, {"related_to": "review/DEC-0001", "depth": 2, "kinds": ["depends_on"]}, {"references": "DEC-0005"},
        {"sessions": ["review"]}, {"sessions": ["review", "ops"]}, {"sessions": ["empty"]},
        *({"sort": each} for each in ("relevance", "newest", "oldest", "priority", "importance", "severity", "access", "importance_asc")),
        {"limit": 3}, {"limit": 5, "offset": 7}, {"count_by": ["type", "tag", "agent", "day", "month", "session", "topic"]},
        {"aggregations": [{"field": "importance", "op": "avg"}]}, {"mode": "weighted"}, {"mode": "product"}, {"at": "2026-01-20"},
    ]  # fmt: skip
    asked += [(None, each) for each in options]
    asked += [(" ".join(chosen.sample(WORDS, 3)), each) for each in options]
    return asked


def answer(memory: smp_memory.Memory, text: str | None, options: dict[str, Any]) -> dict[str, Any]:
    hits = memory.query(text, **{"at": NOW, **options})
    return {
        "hits": [
            (
                hit.record.ref, hit.score, hit.relevance, hit.priority, hit.superseded_by, hit.outdated_by, hit.repeats, hit.repeats_state, hit.echoes,
                hit.settled, [record.ref for record in hit.related], hit.record.to_dict(), hit.explain,
            )
            for hit in hits
        ],
        "more": hits.more, "counts": hits.counts, "aggregations": hits.aggregations, "not_valid": hits.not_valid, "warnings": hits.warnings,
        "corrected": hits.corrected,
    }  # fmt: skip


class Both:
    """One set of memories in two stores."""

    def __init__(self, files: smp_memory.Memory, tables: smp_memory.Memory) -> None:
        self.files, self.tables = files, tables

    def assert_equal_answers(self) -> None:
        for text, options in questions():
            expected, found = answer(self.files, text, options), answer(self.tables, text, options)
            assert found == expected, (text, options)


def copy(source: smp_memory.Memory, target: smp_memory.Memory) -> None:
    for head in source.store.sessions():
        session = source.store.session(head.session)
        histories = session.history().histories.values()
        entries = sorted((entry for each in histories for entry in each.entries), key=lambda entry: entry.seq)
        info: SessionInfo = session.info()
        target.store.create(info, entries, QUOTA_BYTES)


def embed(texts: list[str]) -> list[list[float]]:
    """Vectors that depend on all words, so that every memory has another one."""
    return [[sum(hash_of(word, side) for word in text.lower().split()) + 0.1 for side in range(8)] for text in texts]


def hash_of(word: str, side: int) -> float:
    return (crc32(f"{side} {word}".encode()) % 1000) / 1000


@pytest.fixture(params=["words", "meaning"])
def both(postgres: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Both]:
    clock, options = Clock(), {"clock": lambda: NOW, "embed": embed if request.param == "meaning" else None}
    with (
        smp_memory.open(":memory:", clock=clock) as made,
        smp_memory.open(tmp_path / "store", layout="jsonl", **options) as files,
        smp_memory.open(postgres.new_schema_address(), **options) as tables,
    ):
        fill(made)
        copy(made, files)
        copy(made, tables)
        for memory in (files, tables):
            memory.store.indexer.embed_missing()
        yield Both(files, tables)


def test_questions_are_many_and_most_find_something(both: Both) -> None:
    asked = questions()
    assert len(asked) > 150
    assert sum(bool(answer(both.tables, *each)["hits"]) for each in asked) > 130


def test_same_question_gives_the_same_answer(both: Both) -> None:
    both.assert_equal_answers()


def test_answers_stay_the_same_when_both_stores_grow(both: Both) -> None:
    """An index that grew entry by entry ranks as one that was made at once, and as that of the other store."""
    both.assert_equal_answers()
    for number in range(3):
        for memory in (both.files, both.tables):
            session = memory.session("review")
            session.add_decision(
                f"the login token of server {number}", created=NOW, author="dev", id=f"DEC-9{number:03}"
            )
            session.update("DEC-0008", importance=0.1 * number)
            session.delete(f"PREF-000{number + 1}")
        expected = [hit.record.ref for hit in both.files.query("login token server", at=NOW)]
        assert [hit.record.ref for hit in both.tables.query("login token server", at=NOW)] == expected
    for memory in (both.files, both.tables):
        memory.reindex()
    for text in ("login token server", "database backup", "cache"):
        found, expected = (answer(memory, text, {}) for memory in (both.tables, both.files))
        assert [hit[:5] for hit in found["hits"]] == [hit[:5] for hit in expected["hits"]]
