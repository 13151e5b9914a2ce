"""Tokens of clients of a shared server: what a token is, what it allows, and the log in which tokens are kept.

    {"op":"create","id":"t-5f0c1a7e","name":"ci","sha256":"…","projects":["shop"],"sessions":[],"write":true,"erase":false,…}
    {"op":"revoke","id":"t-5f0c1a7e","at":"2026-11-18T12:00:00.000Z"}

A secret is `smp_` and 32 random bytes. Only its SHA-256 is stored: with 256 random bits a slow hash would add nothing.

Guarantees: pure; time and random bytes are arguments. A line that cannot be read, that lacks a field or has one of another type grants
nothing and is a problem to report; a second line with the id of another token grants nothing either. A revoked token never holds again. Secrets are compared
in constant time, with every token.
Non-guarantees: a revocation whose line was damaged afterwards does not hold; `problems` names the line.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from datetime import datetime

from smp_memory.errors import InvalidRecord
from smp_memory.model.times import to_moment, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.model.storage_reports import AppendLog

PREFIX = "smp_"
RATE, BURST = 50.0, 2.0  # requests a second, and for how many seconds' worth of them a client may wait in reserve
_SECRET_BYTES, _ID_BYTES = 32, 4
_MOST_NAME_CHARACTERS = 64
CREATE, REVOKE = "create", "revoke"


class ClientToken:
    """What one client may do. Neither projects nor sessions: all sessions of the store."""

    __slots__ = ("created", "digest", "expires", "id", "may_erase", "may_write", "name", "project_keys", "projects", "rate", "revoked", "sessions")  # fmt: skip

    def __init__(
        self,
        id: str,
        name: str,
        digest: str,
        *,
        projects: Iterable[str] = (),
        sessions: Iterable[str] = (),
        may_write: bool = False,
        may_erase: bool = False,
        rate: float | None = RATE,
        created: datetime | None = None,
        expires: datetime | None = None,
    ) -> None:
        self.id, self.name, self.digest = id, name, digest
        self.projects, self.sessions = tuple(projects), frozenset(sessions)
        self.project_keys = frozenset(map(project_key, self.projects))
        self.may_write, self.may_erase = may_write, may_erase
        self.rate = rate  # requests a second; None: no limit
        self.created, self.expires = created, expires
        self.revoked: datetime | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there are sessions that it does not show."""
        return bool(self.projects or self.sessions)

    def holds(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)

    def state(self, now: datetime) -> str:
        return "revoked" if self.revoked is not None else "valid" if self.holds(now) else "expired"

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """As `smp token list` shows it: nothing from which the secret could be derived."""
        times = {name: getattr(self, name) for name in ("created", "expires", "revoked")}
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state(now),
            "projects": list(self.projects),
            "sessions": sorted(self.sessions),
            "write": self.may_write,
            "erase": self.may_erase,
            "rate": self.rate,
            **{name: to_text(at) if at is not None else None for name, at in times.items()},
        }

    def line(self) -> bytes:
        """The line that creates it."""
        fields = {
            "op": CREATE, "id": self.id, "name": self.name, "sha256": self.digest, "projects": list(self.projects), "sessions": sorted(self.sessions),
            "write": self.may_write, "erase": self.may_erase, "rate": self.rate,
            "created": to_text(self.created) if self.created else None, "expires": to_text(self.expires) if self.expires else None,
        }  # fmt: skip
        return _encode(fields)


def project_key(name: str) -> str:
    """The name of a project as it is compared: without case, with single spaces."""
    return " ".join(name.casefold().split())


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def new_token(name: str, random: Callable[[int], bytes], **options: Any) -> tuple[str, ClientToken]:
    """A new secret and its token; the options are those of `ClientToken`. Raises InvalidRecord for a name that is none."""
    if not name.strip() or len(name) > _MOST_NAME_CHARACTERS or not name.isprintable():
        raise InvalidRecord(f"name: must have 1 to {_MOST_NAME_CHARACTERS} printable characters.", field="name")
    if any(not project_key(each) for each in options.get("projects", ())):
        raise InvalidRecord("project: must not be empty.", field="project")
    secret = PREFIX + urlsafe_b64encode(random(_SECRET_BYTES)).decode().rstrip("=")
    return secret, ClientToken(f"t-{random(_ID_BYTES).hex()}", name, digest_of(secret), **options)


def add_token(log: AppendLog, token: ClientToken) -> None:
    _append(log, token.line())


def revoke(log: AppendLog, id: str, now: datetime) -> None:
    _append(log, _encode({"op": REVOKE, "id": id, "at": to_text(now)}))


def _append(log: AppendLog, line: bytes) -> None:
    log.append([b"", line], sync=True)  # after an empty line: the last one may have been cut off by a crash


class TokenBook:
    """The tokens that lines of the log add up to, and what is wrong with the lines."""

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self.tokens: dict[str, ClientToken] = {}
        self.problems: list[str] = []
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    self._apply(line)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
                self.problems.append(f"line {number} of the tokens cannot be read; it grants nothing")

    def _apply(self, line: bytes) -> None:
        fields = json.loads(line)
        if fields["op"] == REVOKE:
            token = self.tokens[fields["id"]]
            token.revoked = token.revoked or to_moment(fields["at"])
            return
        token = _token(fields)
        if token.id in self.tokens:
            raise ValueError(token.id)
        self.tokens[token.id] = token

    def find(self, secret: str, now: datetime) -> ClientToken | None:
        """The token of a secret, if it holds."""
        digest, found = digest_of(secret), None
        for token in self.tokens.values():
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found if found is not None and found.holds(now) else None

    def named(self, name: str, now: datetime) -> ClientToken:
        """The token with this id, or the only one with this name that is not revoked. Raises InvalidRecord."""
        if name in self.tokens:
            return self.tokens[name]
        found = [each for each in self.tokens.values() if each.name == name and each.revoked is None]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(each.id for each in found)
            raise InvalidRecord(f"token: several are called {name}; name one by its id: {ids}.", field="token")
        raise InvalidRecord(
            f"token: there is no {name!r}, or it is revoked. `smp token list` lists all.", field="token"
        )


def _token(fields: dict[str, Any]) -> ClientToken:
    """The token of a line. Everything is checked: a value of another type must not become a right."""
    if fields["op"] != CREATE or type(fields["write"]) is not bool or type(fields["erase"]) is not bool:
        raise ValueError("op")
    digest, names = fields["sha256"], (*fields["projects"], *fields["sessions"])
    if len(digest) != 64 or len(bytes.fromhex(digest)) != 32 or not digest.isascii():
        raise ValueError("sha256")
    if type(fields["projects"]) is not list or type(fields["sessions"]) is not list:
        raise ValueError("projects")
    if not all(type(each) is str and each.strip() for each in (fields["id"], fields["name"], *names)):
        raise ValueError("names")
    rate, expires = fields["rate"], fields["expires"]
    if rate is not None and not (type(rate) in (int, float) and 0 < rate < 1e9):
        raise ValueError("rate")
    return ClientToken(
        fields["id"],
        fields["name"],
        digest,
        projects=fields["projects"],
        sessions=fields["sessions"],
        may_write=fields["write"],
        may_erase=fields["erase"],
        rate=rate,
        created=to_moment(fields["created"]),
        expires=to_moment(expires) if expires is not None else None,
    )


class RateLimit:
    """A token bucket: `rate` requests a second, after a pause up to `BURST` seconds' worth at once."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._most = max((rate or 0) * BURST, 1.0)
        self._left, self._at = self._most, 0.0

    def wait_seconds(self, now: float) -> float:
        """Take a request: 0 if there is one left, else in how many seconds there will be one."""
        if self._rate is None:
            return 0.0
        self._left = min(self._left + (now - self._at) * self._rate, self._most) if self._at else self._most
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


def _encode(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
