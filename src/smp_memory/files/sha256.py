"""What is the SHA-256 of a few bytes? Without loading OpenSSL for them, which takes a new process four milliseconds.

Python brings a SHA-256 of its own along, which is as quick on an entry of some hundred bytes. Whoever goes on to hash
much, to read a large session for example, gets OpenSSL's, which is several times as quick on many bytes.
"""

from __future__ import annotations

from smp_memory.import_lock import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OPENSSL_PAYS_BYTES = 1 << 18
_hash: Any = None
_until_openssl = _OPENSSL_PAYS_BYTES


def sha256_hex(data: bytes) -> str:
    global _hash, _until_openssl  # noqa: PLW0603 - which of two equal functions is used; a lost race costs nothing
    if _until_openssl > 0:
        _until_openssl -= len(data)
        if _hash is None or _until_openssl <= 0:
            _hash = _loaded(_until_openssl > 0)
    found: str = _hash(data).hexdigest()
    return found


def _loaded(small: bool) -> Any:
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
