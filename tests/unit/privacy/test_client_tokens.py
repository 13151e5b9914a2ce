"""Tokens of clients: what lines of the log grant, and what they never grant."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from smp_memory.errors import InvalidRecord
from smp_memory.privacy.client_tokens import (
    ClientToken,
    RateLimit,
    TokenBook,
    add_token,
    digest_of,
    new_token,
    revoke,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Log:
    """An `AppendLog` as a list of lines."""

    path = "log"

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        assert sync  # a revocation must survive a power loss
        self.lines += lines

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        return self.lines[offset:], len(self.lines)

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        raise NotImplementedError

    def size_bytes(self) -> int:
        return sum(map(len, self.lines))

    def problems(self) -> list[str]:
        return []


def random_bytes(count: int) -> bytes:
    return bytes(range(count))


def made(**options: Any) -> tuple[str, ClientToken]:
    return new_token("ci", random_bytes, created=NOW, **options)


def test_token_is_found_by_its_secret_and_stored_without_it() -> None:
    secret, token = made(projects=["Shop  Front"], sessions=["s1"], may_write=True, rate=3)
    log = Log()
    add_token(log, token)
    assert secret.startswith("smp_")
    assert len(secret) == 4 + 43
    assert secret[4:].encode() not in b"".join(log.lines)
    found = TokenBook(log.lines).find(secret, NOW)
    assert found is not None
    assert found.to_dict(NOW) == token.to_dict(NOW)
    assert found.project_keys == {"shop front"}
    assert (found.may_write, found.may_erase, found.rate, found.is_limited) == (True, False, 3, True)


@pytest.mark.parametrize("secret", ["", "smp_", "SMP_", " ", "\ud800", "smp_" + "A" * 43, "x" * 100_000])
def test_other_secret_finds_nothing(secret: str) -> None:
    log = Log()
    add_token(log, made()[1])
    assert TokenBook(log.lines).find(secret, NOW) is None


def test_hash_of_the_secret_is_no_secret() -> None:
    secret, token = made()
    log = Log()
    add_token(log, token)
    assert TokenBook(log.lines).find(digest_of(secret), NOW) is None
    assert TokenBook(log.lines).find(token.digest, NOW) is None


def test_revoked_and_expired_tokens_do_not_hold() -> None:
    secret, token = made(expires=NOW + timedelta(days=1))
    log = Log()
    add_token(log, token)
    assert TokenBook(log.lines).find(secret, NOW) is not None
    assert TokenBook(log.lines).find(secret, NOW + timedelta(days=1)) is None
    revoke(log, token.id, NOW)
    assert TokenBook(log.lines).find(secret, NOW) is None
    assert TokenBook(log.lines).tokens[token.id].state(NOW) == "revoked"
    log.lines.append(token.line())  # creating it again does not bring it back
    book = TokenBook(log.lines)
    assert book.find(secret, NOW) is None
    assert len(book.problems) == 1


def changed(**fields: Any) -> bytes:
    line = json.loads(made()[1].line())
    line.update(fields)
    return json.dumps({name: value for name, value in line.items() if value != "REMOVED"}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"[]", b"null", b"1", b"\xff\xfe", b'{"op":"create"}', b'{"op":"revoke","id":"t-unknown","at":"2026-01-01T00:00:00Z"}',
        b"[" * 100_000, changed(op="grant"), changed(sha256=""), changed(sha256="zz" * 32), changed(sha256=None), changed(sha256="REMOVED"),
        changed(projects="shop"), changed(projects=[""]), changed(projects=[1]), changed(projects=None), changed(sessions="REMOVED"),
        changed(write="yes"), changed(write=1), changed(erase=None), changed(rate=0), changed(rate="fast"), changed(rate=float("nan")),
        changed(created="yesterday"), changed(expires="soon"), changed(expires=1), changed(expires="REMOVED"), changed(name=""), changed(id=["x"]),
    ],
)  # fmt: skip
def test_line_that_cannot_be_read_grants_nothing_and_is_reported(line: bytes) -> None:
    secret, _token = made()
    other = ClientToken("t-other", "other", digest_of("smp_other"), created=NOW)
    book = TokenBook([line, other.line()])
    assert book.find(secret, NOW) is None
    assert list(book.tokens) == ["t-other"]
    assert len(book.problems) == 1
    assert "line 1" in book.problems[0]


def test_line_after_one_that_was_cut_off_is_read() -> None:
    secret, token = made()
    log = Log()
    add_token(log, token)
    torn = b"\n".join(log.lines) + b'\n{"op":"crea'
    more = Log()
    revoke(more, token.id, NOW)
    book = TokenBook((torn + b"\n".join(more.lines)).split(b"\n"))
    assert book.find(secret, NOW) is None
    assert len(book.problems) == 1


def test_name_of_several_tokens_is_refused() -> None:
    book = TokenBook([ClientToken(f"t-{each}", "ci", digest_of(each), created=NOW).line() for each in "ab"])
    with pytest.raises(InvalidRecord, match="t-a, t-b"):
        book.named("ci", NOW)
    assert book.named("t-a", NOW).id == "t-a"
    with pytest.raises(InvalidRecord, match="there is no "):
        book.named("nobody", NOW)


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb", "\x1b[31m"])
def test_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecord, match="name"):
        new_token(name, random_bytes)
    with pytest.raises(InvalidRecord, match="project"):
        new_token("ci", random_bytes, projects=[" "])


def test_rate_limit_allows_a_burst_and_then_the_rate() -> None:
    limit = RateLimit(10.0)
    assert [limit.wait_seconds(100.0) for _ in range(20)] == [0.0] * 20
    assert limit.wait_seconds(100.0) == pytest.approx(0.1)
    assert limit.wait_seconds(100.125) == 0.0
    assert limit.wait_seconds(100.125) > 0
    assert [limit.wait_seconds(1000.0) for _ in range(20)] == [0.0] * 20  # not more after a long pause
    assert limit.wait_seconds(1000.0) > 0
    assert [RateLimit(None).wait_seconds(1.0) for _ in range(1000)] == [0.0] * 1000
    slow = RateLimit(0.1)
    assert slow.wait_seconds(5.0) == 0.0
    assert slow.wait_seconds(5.0) == pytest.approx(10.0)


def test_secret_is_compared_with_every_token_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes tells neither whether a secret is right nor which token it belongs to."""
    import hmac

    compared: list[object] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *given: compared.append(given) or compare(*given))
    book = TokenBook([ClientToken(f"t-{each}", each, digest_of(each), created=NOW).line() for each in "abc"])
    for secret, is_known in (("a", True), ("c", True), ("x", False), ("", False)):
        compared.clear()
        assert (book.find(secret, NOW) is not None) is is_known
        assert len(compared) == 3
