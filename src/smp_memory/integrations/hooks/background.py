"""Run work in a forked child so that the host does not wait for it.

Guarantees: the child is in a session of its own, so that a signal for the host's process group does not reach it, and holds
none of the host's pipes. It ends after `LIMIT_SECONDS` at the latest, whatever happens. Without `fork`, or if it fails, the
work is done in this process.
Non-guarantees: if the machine is switched off, the child is lost; what it had to record is still in the transcript, and the next
start of a session in the project records it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_SECONDS = 900  # as long as it takes to make the index of a very large store


def run_in_background(work: Callable[[bool], None], *, wait: bool = False) -> None:
    """Call `work(is_background)` in a child process, or in this one if `wait` or if there is no fork."""
    if wait or not hasattr(os, "fork"):
        work(False)
        return
    try:
        child = os.fork()
    except OSError:
        work(False)
        return
    if child:
        return
    try:
        _detach()
        work(True)
    finally:
        os._exit(0)


def _detach() -> None:
    import signal

    os.setsid()
    with open(os.devnull, "rb") as null:  # read-only: the child writes no output
        for descriptor in (0, 1, 2):
            os.dup2(null.fileno(), descriptor)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_SECONDS)
    os.nice(5)  # the agent works at the same time
