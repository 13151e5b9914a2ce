"""SHA-256 of small data without loading OpenSSL, which takes a new process four milliseconds.

Python has a SHA-256 of its own, which is as fast on an entry of some hundred bytes. A process that hashes more than
`_OPENSSL_PAYS_BYTES`, such as one that reads a large session, switches to OpenSSL's, which is several times as fast on many bytes.
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
