"""Repeat reads, lookups and openings that failed for a passing reason: three times, with growing pauses.

Guarantees: only what changes nothing is repeated: looking at a file, listing a folder, opening without creating (or a lock file), reading.
Writes, renames, removals and syncs are never repeated; after a failed sync the kernel may have dropped the data. Every repetition
is a log event (`io_retry`). What fails for good raises the last error.
"""

from __future__ import annotations

import errno
import time

from smp_memory import event_log
from smp_memory.errors import from_os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Found = TypeVar("Found")

PAUSES_SECONDS: tuple[float, ...] = (0.01, 0.04, 0.16)
TRANSIENT = frozenset(
    [
        errno.EINTR,  # a signal came
        errno.EAGAIN,  # try again
        errno.EMFILE,  # too many files open in this process
        errno.ENFILE,  # too many files open on this machine
        errno.ENOMEM,  # too little memory
        errno.EIO,  # the device or the network failed; reading again is safe
        errno.EBUSY,
        getattr(errno, "ESTALE", errno.EAGAIN),  # a file server replaced the file; it is opened anew
        getattr(errno, "ETIMEDOUT", errno.EAGAIN),
    ]
)


def again(error: OSError, path: str, work: Callable[[], Found]) -> Found:
    """Do a piece of work again that has just raised this error; raises the last error if it does not succeed."""
    for number, pause in enumerate(PAUSES_SECONDS, 1):
        if error.errno not in TRANSIENT:
            break
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        text = f"{path}: {error.strerror or name}; reading it is tried again ({number} of {len(PAUSES_SECONDS)})."
        event_log.emit("storage", event_log.WARNING, "io_retry", text, path=path, errno=name, attempt=number)
        time.sleep(pause)
        try:
            return work()
        except OSError as repeated:
            error = repeated
    raise error


def repeated(error: OSError, path: str, doing: str, work: Callable[[], Found]) -> Found:
    """The same, with the last error as an SMPError, unless it says that there is no such file or folder."""
    try:
        return again(error, path, work)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as last:
        raise from_os_error(last, path, doing) from last
