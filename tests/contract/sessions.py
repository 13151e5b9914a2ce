"""Contract for sessions: creation, metadata, settings, quota."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

from smp_memory.errors import (
    InvalidConfig,
    InvalidRecord,
    SessionExists,
    SessionNotFound,
    SizeLimitExceeded,
)
from tests.contract.fixture import ContractFixture, dump, is_same, raises, raises_invalid

INVALID_IDS: list[Any] = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "a b",
    "-a",
    "ä",
    "x" * 65,
    "a\0",
    "a\n",
    "con",
    "LPT1",
    ".smp",
]


class SessionsContract(ContractFixture):
    def test_session_metadata_is_stored(self) -> None:
        memory = self.store()
        context: dict[str, Any] = {
            "phase": "review",
            "deep": {"n": [1, 2.5, None, "é\n"]},
            "project_name": "p",
            "context": {"a": 1},
        }
        session = memory.create_session(
            "s1", user="ada", agents=["architect", "veritas"], project="shop", tags=["x", "y.z"], **context
        )
        for seen in (session, self.reopen(session)):
            info = seen.info
            assert (info.id, info.user, info.agents, info.project) == ("s1", "ada", ["architect", "veritas"], "shop")
            assert (info.tags, info.status, info.created) == (["x", "y.z"], "active", self.clock())
            assert is_same(dict(sorted(info.context.items())), dict(sorted(context.items())))
            assert info.to_dict()["created"] == "2026-01-01T12:00:00Z"

    def test_hostile_text_in_session_metadata(self) -> None:
        memory = self.store()
        words = [
            "no",
            "012",
            "2026-01-01",
            "a: b",
            "- x",
            "é\u2028",
            '"',
            "#",
            "line\nbreak",
            "null",
            "1e3",
            "\ttab",
            " space ",
        ]
        for number, word in enumerate(words):
            more: dict[str, Any] = {word: [word]}
            session = memory.create_session(
                f"s{number}", user=word, agents=[word, word], project=word, note=word, **more
            )
            session.add_decision("x")
            info = self.store().session(f"s{number}").info
            assert [info.user, info.agents, info.project, info.context["note"], info.context[word]] == [
                word,
                [word, word],
                word,
                word,
                [word],
            ]

    def test_sessions_get_readable_ids(self) -> None:
        memory = self.store()
        ids = {memory.create_session().id for _ in range(5)}
        assert len(ids) == 5
        assert all(name.startswith("session-2026-01-01-") for name in ids)
        assert [session.id for session in self.store().sessions()] == sorted(ids)

    def test_sessions_do_not_mix(self) -> None:
        memory = self.store()
        for name in ("a", "b", "A", "a-b", "a_b", "0"):
            memory.create_session(name).add_decision(f"of {name}")
        for session in self.store().sessions():
            assert [record.ref for record in session.records()] == [f"{session.id}/DEC-0001"]
            assert session.get("DEC-0001").decision == f"of {session.id}"
        assert len(memory.sessions()) == 6

    def test_opening_a_missing_session_is_rejected(self) -> None:
        memory = self.store()
        assert memory.sessions() == []
        with raises(SessionNotFound, session="s9"):
            memory.session("s9")
        with raises(SessionNotFound, session="s9"):
            memory.get("s9/DEC-0001")
        assert self.store().sessions() == []

    def test_a_session_id_can_be_used_once(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        for memory in (session.memory, self.store()):
            with raises(SessionExists, session="s1"):
                memory.create_session("s1", user="eve")
        assert (self.reopen(session).info.user, len(session.records())) == ("ada", 1)

    def test_a_made_up_session_id_that_is_taken_is_made_up_again(self) -> None:
        memory, random_bytes, drawn = self.store(), os.urandom, iter([b"abc", b"abc", b"xyz"])
        with patch("os.urandom", lambda count: next(drawn) if count == 3 else random_bytes(count)):
            first, second = memory.create_session(user="ada"), memory.create_session(user="ada")
        assert first.id.endswith(b"abc".hex())
        assert second.id.endswith(b"xyz".hex())
        assert {session.id for session in self.store().sessions()} == {first.id, second.id}

    def test_invalid_session_ids_are_rejected(self) -> None:
        memory = self.store()
        for bad in [*INVALID_IDS, 5, b"x", ["a"]]:
            with raises(InvalidRecord, field="id"):
                memory.create_session(bad)
            with raises(InvalidRecord, field="session"):
                memory.session(bad)
        assert memory.sessions() == []

    def test_invalid_session_metadata_is_rejected(self) -> None:
        memory = self.store()
        cases: list[tuple[dict[str, Any], str]] = [
            ({"user": 5}, "user"),
            ({"user": "\ud800"}, "user"),
            ({"project": ["x"]}, "project"),
            ({"agents": [5]}, "agents"),
            ({"agents": 5}, "agents"),
            ({"tags": ["a b"]}, "tags"),
            ({"tags": "abc"}, "tags"),
            ({"created": "soon"}, "created"),
            ({"note": object()}, "context.note"),
            ({"note": float("nan")}, "context.note"),
            ({"note": {"\ud800": 1}}, "context.note"),
        ]
        for bad, field in cases:
            with raises_invalid(field):
                memory.create_session("s1", **bad)
        assert self.store().sessions() == []

    def test_session_metadata_can_be_changed(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        session.change_info(project="mall", tags=["new"], agents=["a", "b"], context={"phase": 2})
        session.add_decision("y")
        for seen in (session, self.reopen(session)):
            info = seen.info
            assert (info.project, info.tags, info.agents, info.user, info.context) == (
                "mall",
                ["new"],
                ["a", "b"],
                "ada",
                {"phase": 2},
            )
            assert [record.id for record in seen.records()] == ["DEC-0001", "DEC-0002"]
            assert seen.validate().problems == []
        with raises(InvalidRecord, field="status_"):
            session.change_info(status_="x")

    # -- settings

    def test_settings_passed_to_open(self) -> None:
        memory = self.store(config={"durability": "os", "concurrency": {"lock_timeout_ms": 250}})
        assert (memory.config.durability, memory.config.lock_timeout_seconds) == ("os", 0.25)
        assert memory.config.source("durability") == "argument"
        for bad in ({"durabilty": "os"}, {"durability": "never"}, {"storage": {"max_content_kb": 0}}, {"storage": 5}):
            with raises(InvalidConfig):
                self.store(config=bad)

    def test_every_durability_writes_and_is_read_at_once(self) -> None:
        self.new_session()
        for number, durability in enumerate(("always", "interval", "os")):
            memory = self.store(config={"durability": durability, "sync_interval_seconds": 60})
            session = memory.session("s1")
            session.add_decision(durability)
            with session.transaction() as tx:
                tx.add_finding(durability)
                tx.add_turn("user", durability)
            session.add_many([("learning", durability)] * 2)
            other = self.store().session("s1")
            assert len(other.records()) == 5 * (number + 1)
            memory.sync()
            memory.close()
        assert self.store().session("s1").validate().problems == []

    def test_a_session_can_override_settings(self) -> None:
        memory = self.store()
        session = memory.create_session("s1", config={"storage": {"max_content_kb": 1, "max_session_size_mb": 0.01}})
        free = memory.create_session("s2")
        assert self.reopen(session).info.config == {"storage": {"max_content_kb": 1, "max_session_size_mb": 0.01}}
        for seen in (session, self.reopen(session)):
            with raises(SizeLimitExceeded, limit=1024):
                seen.add_decision("x" * 2000)
        free.add_decision("x" * 2000)
        with raises(SizeLimitExceeded, limit=int(0.01 * 1024 * 1024), session="s1"):
            for _ in range(50):
                session.add_decision("x" * 900)
        assert session.stats().quota_bytes == int(0.01 * 1024 * 1024)
        for bad in ({"layout": "log"}, {"nonsense": 1}):
            with raises(InvalidConfig):
                memory.create_session("s3", config=bad)
        assert [each.id for each in self.store().sessions()] == ["s1", "s2"]

    def test_writes_beyond_the_quota_are_rejected(self) -> None:
        quota = 20 * 1024
        session = self.new_session(config={"storage": {"max_session_size_mb": quota / 1024 / 1024}, "durability": "os"})
        with raises(SizeLimitExceeded, limit=quota, session="s1") as caught:
            for _ in range(100):
                session.add_turn("user", "x" * 1000)
        details = caught[0].details
        assert details["used"] + details["size"] > quota >= details["used"]  # type: ignore[operator]
        before = dump(session)
        assert 10 < len(before) < 20
        with raises(SizeLimitExceeded), session.transaction() as tx:
            tx.add_decision("small")
            tx.add_turn("user", "x" * 5000)
        with raises(SizeLimitExceeded):
            session.add_many([("decision", "small"), ("finding", "x" * 5000)])
        assert session.stats().bytes <= quota
        larger = self.reopen(session)
        assert dump(larger) == before
        assert larger.add_decision("now there is room").id == "DEC-0001"
        assert larger.validate().problems == []
