"""Quota of a session: reject writes above it, warn before it is reached. Pure; called under the lock with current sizes."""

from __future__ import annotations

from smp_memory.errors import SizeLimitExceeded


def near_quota(session: str, used_bytes: int, quota_bytes: int, percents: tuple[int, ...]) -> tuple[int, str]:
    """The highest threshold that a session has reached, and a warning; (0, "") below all thresholds."""
    reached = max((percent for percent in percents if used_bytes * 100 >= quota_bytes * percent), default=0)
    if not reached:
        return 0, ""
    return reached, (
        f"Session {session} has reached {reached} % of its quota of {quota_bytes:,} bytes; when it is full, writes are refused. "
        "Make room with `smp compact`, raise storage.max_session_size_mb, or start a new session."
    )


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
