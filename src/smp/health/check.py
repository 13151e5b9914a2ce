"""What is a check? Something that looks at each session, then at the store, and says what it found.

A check is made anew for each look, may keep figures from session to session, and may raise: that becomes a finding of its
own, and all others still run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp.health.report import Finding
    from smp.health.subject import SessionSubject, Subject


class Check:
    name = ""
    title = ""
    is_heavy = False  # left out of a quick look
    said = ""  # what was looked at, in figures; set by the check

    def session(self, session: SessionSubject) -> Iterable[Finding]:
        """What is wrong with one session."""
        return ()

    def store(self, subject: Subject) -> Iterable[Finding]:
        """What is wrong with the store, or shows only when all sessions were seen."""
        return ()
