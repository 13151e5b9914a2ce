"""Syntax of session ids, memory ids (`DEC-0001`), agent names, tags and addresses of stores; random uids, and digests.

Ids of letters, digits, `_` and `-`, at most 64 of them, are safe as file names on every system. Numbered ids are
allocated under the session's lock and never reused. A uid only has to distinguish memories with the same id from two clones of a
store, so 32 random bits are enough.
"""

from __future__ import annotations

import os
from functools import lru_cache

from smp_memory.errors import InvalidRecord
from smp_memory.import_lock import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

LIMIT = 64
STATE_PREFIX = "STATE-"
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # no quotes needed in YAML
_DEVICES = frozenset(["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(10)])
_LONGEST_DEVICE = 4


def check(value: object, field: str, limit: int = LIMIT) -> str:
    """Return the id, or raise InvalidRecord naming the field."""
    if type(value) is str and is_valid(value, limit):
        return value
    if not isinstance(value, str):
        raise InvalidRecord(f"{field}: must be text, not {type(value).__name__}.", field=field)
    if not is_valid(value, limit):
        raise InvalidRecord(
            f"{field}: {value[:80]!r} is not an id. Use 1 to {limit} letters, digits, _ or -, not starting with -.",
            field=field,
            limit=limit,
        )
    return value


def is_valid(value: str, limit: int = LIMIT) -> bool:
    if not (0 < len(value) <= limit and value.isascii() and value[0] != "-"):
        return False
    rest = value.replace("-", "").replace("_", "")
    return (rest.isalnum() or not rest) and (len(value) > _LONGEST_DEVICE or value.lower() not in _DEVICES)


def new_session_id(now: datetime) -> str:
    return f"session-{now:%Y-%m-%d}-{os.urandom(3).hex()}"


def scheme_of(address: str) -> str:
    """The scheme of a store's address, `postgresql` of `postgresql://host/db`; empty for a folder. `c://` is a drive."""
    scheme, found, _ = address.partition("://")
    return scheme if found and len(scheme) > 1 and scheme.replace("-", "").replace("+", "").isalnum() else ""


def without_password(address: str) -> str:
    """A store's address as people, files and logs may see it; a folder as it is."""
    if not scheme_of(address):
        return address
    scheme, _, rest = address.partition("://")
    place, question, options = rest.partition("?")
    authority, slash, path = place.partition("/")
    login, at, host = authority.rpartition("@")
    if (
        not at and ":" in authority and "@" in rest and not _is_port(authority.rpartition(":")[2])
    ):  # a password with / or ?
        return f"{scheme}://{authority.partition(':')[0]}@{rest.rpartition('@')[2]}"
    shown = [each for each in options.split("&") if not _is_secret(each.partition("=")[0].lower())]
    query = question + "&".join(shown) if any(shown) else ""
    return f"{scheme}://{login.partition(':')[0]}{at}{host}{slash}{path}{query}"


def _is_port(text: str) -> bool:
    return text.isdigit() or text.endswith("]")  # an address in brackets has colons


def _is_secret(option: str) -> bool:
    """Whether the value of an option may be a secret; a name with % is spelled so that it is not recognised."""
    return any(word in option for word in ("password", "secret", "client_key", "server_key", "%"))


@lru_cache(maxsize=2000)  # stores use few distinct tags
def check_tag(tag: object) -> str:
    """Letters and digits of any script with `_ - .`; dots make a hierarchy."""
    if isinstance(tag, str) and is_word(tag):
        return tag
    raise InvalidRecord(
        f"tags: {str(tag)[:80]!r} is not a tag. Use 1 to {LIMIT} letters and digits with _ - and . between.",
        field="tags",
        limit=LIMIT,
    )


def is_word(text: str) -> bool:
    """Whether a text is valid as a tag or as a kind of relation."""
    return (
        0 < len(text) <= LIMIT
        and (text.isalnum() or all(char.isalnum() or char in "_-." or _is_mark(char) for char in text))
        and all(part and not _is_mark(part[0]) for part in text.split("."))
    )


def _is_mark(char: str) -> bool:
    """A combining mark: vowel signs of Hindi, Tamil or Thai, combining accents."""
    return (
        not char.isascii() and not char.isalnum() and ("a" + char).isidentifier()
    )  # avoids loading `unicodedata`, which is slow


def letters(digits: str) -> str:
    """Hexadecimal digits in the alphabet of uids."""
    return digits.translate(_LETTERS)


def uid_of_number(number: int) -> str:
    """The uid that stands for a number of 32 bits."""
    return f"{number:08x}".translate(_LETTERS)


def numbered(prefix: str, number: int) -> str:
    return f"{prefix}-{number:04d}"


def number_of(memory_id: str, prefix: str) -> int:
    """The number in an id of this prefix, 0 for any other id."""
    found, number = parts_of(memory_id)
    return number if found == prefix else 0


def parts_of(memory_id: str) -> tuple[str, int]:
    """Split an id at its last `-` into prefix and number; 0 if the rest is not a number."""
    prefix, _, digits = memory_id.rpartition("-")
    return prefix, int(digits) if len(digits) <= 12 and digits.isascii() and digits.isdigit() else 0


random_bytes = os.urandom


def new_uid() -> str:
    return letters(random_bytes(4).hex())


# -- digests

_OPENSSL_PAYS_BYTES = 1 << 18
_hash: Any = None
_until_openssl = _OPENSSL_PAYS_BYTES


def sha256_hex(data: bytes) -> str:
    """SHA-256 of data. Small data are hashed without loading OpenSSL, which takes a new process four milliseconds.

    Python has a SHA-256 of its own, which is as fast on an entry of some hundred bytes. A process that hashes more than
    `_OPENSSL_PAYS_BYTES`, such as one that reads a large session, switches to OpenSSL's, which is several times as fast on many bytes.
    """
    global _hash, _until_openssl  # noqa: PLW0603 - selects one of two equal functions; a race does no harm
    if _until_openssl > 0:
        _until_openssl -= len(data)
        if _hash is None or _until_openssl <= 0:
            _hash = _load_hash(_until_openssl > 0)
    digest: str = _hash(data).hexdigest()
    return digest


def _load_hash(small: bool) -> Any:
    with loading:
        if small:
            try:
                from _sha2 import sha256 as own  # type: ignore[import-not-found]  # Python 3.12 and later
            except ImportError:
                try:
                    from _sha256 import sha256 as own  # type: ignore[import-not-found]  # 3.11
                except ImportError:
                    from hashlib import sha256 as own
            return own
        from hashlib import sha256

        return sha256
