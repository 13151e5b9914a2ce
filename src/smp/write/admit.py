"""Is there room? A session may not outgrow its quota; pure, asked under the lock with the figures of that moment."""

from __future__ import annotations

from smp.errors import SizeLimitExceeded


def admit(session: str, used_bytes: int, new_bytes: int, quota_bytes: int) -> None:
    if used_bytes + new_bytes > quota_bytes:
        raise SizeLimitExceeded(
            f"Session {session} holds {used_bytes:,} bytes; {new_bytes:,} more would exceed its quota of {quota_bytes:,}. "
            "Nothing was written. Raise storage.max_session_size_mb or start a new session.",
            session=session,
            used=used_bytes,
            size=new_bytes,
            limit=quota_bytes,
        )
