"""Is there room? A session may not outgrow its quota; pure, asked under the lock with the figures of that moment."""

from __future__ import annotations

from smp_memory.errors import SizeLimitExceeded


def near_quota(session: str, used_bytes: int, quota_bytes: int, percents: tuple[int, ...]) -> tuple[int, str]:
    """The highest of the percentages that a session has reached, and a sentence about it; (0, "") below all of them."""
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
