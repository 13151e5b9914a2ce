"""How does work go on when the host has its answer? In a child of its own that the host does not wait for.

Guarantees: the child is in a session of its own, so that a signal for the host's group does not reach it, and holds none of
the host's pipes, so that nobody waits for it. It ends after `LIMIT_SECONDS` at the latest, whatever happens. Where there is
no `fork`, or none is to be had, the work is done at once.
Non-guarantees: a machine that is switched off takes the child with it; what it had to record is still in the transcript, and
the next start of a session there takes it in.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_SECONDS = 900  # as long as it takes to make the index of a very large store


def go_on(work: Callable[[bool], None], *, wait: bool = False) -> None:
    """Do some work behind this process, or here if it must be; the work is told whether it is behind."""
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
        _let_go()
        work(True)
    finally:
        os._exit(0)


def _let_go() -> None:
    import signal

    os.setsid()
    with open(os.devnull, "rb") as nowhere:  # nothing is written any more
        for descriptor in (0, 1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_SECONDS)
    os.nice(5)  # the agent is at work now
