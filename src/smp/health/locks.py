"""Who holds which lock, and for how long? And does the one who signed it still live?

A lock is the kernel's: it is gone when its holder dies. One that is held for long is a process that hangs or does
something large; one whose signer is gone is held by a child that the signer left behind.

Guarantees: nothing is written. To see whether a lock is held it is tried and let go of at once.
Non-guarantees: a writer that waits for nothing at all (`concurrency.lock_timeout_ms` 0) may meet that moment.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from smp.errors import SMPError
from smp.files.layouts.layout import PRIVATE
from smp.files.lock import HOLDER_BYTES
from smp.health.check import Check
from smp.health.report import NOTE, WARNING, Finding, counted
from smp.model.time import to_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject

_SIGNED = re.compile(r"process (\d{1,10}) on (.{1,80}) since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ), (.*)", re.DOTALL)
_LONG_SECONDS = 60


class Locks(Check):
    name = "locks"
    title = "no lock is stuck"

    def __init__(self) -> None:
        self._held = self._tried = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        yield from self._look(session.subject, session.reader.private, f"session {session.id}", session.id)

    def store(self, subject: Subject) -> Iterator[Finding]:
        yield from self._look(subject, os.path.join(subject.root, PRIVATE), "the store", None)

    def _look(self, subject: Subject, folder: str, what: str, session: str | None) -> Iterator[Finding]:
        path = os.path.join(folder, "lock")
        held = _is_held(subject, path)
        if held is None:
            return
        self._tried += 1
        self._held += held
        self.said = f"{counted(self._tried, 'lock')}, {self._held:,} held now"
        if not held:
            return
        text = subject.disk.read(path, 0, HOLDER_BYTES).decode(errors="replace").strip("\0 \n")
        signed = _SIGNED.match(text)
        seconds = _since(signed, subject.now)
        waits = " Another process waits for it." if _is_held(subject, os.path.join(folder, "queue")) else ""
        details: tuple[dict[str, Any], ...] = ({"holder": text, "seconds": seconds, "waiting": bool(waits)},)
        if signed is not None and _is_gone(signed):
            message = f"The lock of {what} is held, but process {signed[1]}, which took it, is gone.{waits}"
            advice = f"A child of that process holds it; find it with: lsof {path}"
            yield Finding(self.name, WARNING, message, advice, session, path=path, details=details)
        elif seconds is not None and seconds >= _LONG_SECONDS:
            message = f"The lock of {what} has been held for {_length(seconds)}: {text}.{waits}"
            advice = "Others cannot write meanwhile. Wait for it, or end that process; what it acknowledged is stored."
            yield Finding(self.name, WARNING if waits else NOTE, message, advice, session, path=path, details=details)


def _is_held(subject: Subject, path: str) -> bool | None:
    """Whether somebody holds it; None if there is no such file, or that cannot be told."""
    system = subject.disk.system
    try:
        descriptor = subject.disk.open_read(path)
    except (OSError, SMPError):
        return None
    try:
        if system.lock(descriptor):
            system.unlock(descriptor)
            return False
        return True
    except OSError:  # a file system whose locks want more than reading
        return None
    finally:
        system.close(descriptor)


def _since(signed: re.Match[str] | None, now: Any) -> int | None:
    try:
        return max(0, int((now - to_moment(signed[3])).total_seconds())) if signed else None
    except (ValueError, OverflowError):
        return None


def _is_gone(signed: re.Match[str]) -> bool:
    """Whether the process that signed does not live any more; False if that cannot be told."""
    if not hasattr(os, "uname") or signed[2] != os.uname().nodename[:80]:
        return False
    try:
        os.kill(int(signed[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _length(seconds: int) -> str:
    if seconds < 7200:
        return f"{seconds // 60} minutes"
    return f"{seconds // 3600} hours" if seconds < 172_800 else f"{seconds // 86400} days"
