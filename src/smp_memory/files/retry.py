"""Retry reads, lookups and openings that failed for a transient reason: three times, with growing pauses.

Guarantees: only what changes nothing is retried: stat, listing a folder, opening without creating (or a lock file), reading. Writes,
renames, removals and syncs are never retried; after a failed sync the kernel may have dropped the data. Every retry is a log event
(`io_retry`). A failure that persists raises the last error.
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

    Result = TypeVar("Result")

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
        getattr(errno, "ESTALE", errno.EAGAIN),  # a file server replaced the file; it is opened again
        getattr(errno, "ETIMEDOUT", errno.EAGAIN),
    ]
)


def retry(error: OSError, path: str, call: Callable[[], Result]) -> Result:
    """Repeat a call that has just raised this error; raises the last error if it does not succeed."""
    for number, pause in enumerate(PAUSES_SECONDS, 1):
        if error.errno not in TRANSIENT:
            break
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        text = f"{path}: {error.strerror or name}; retrying the read ({number} of {len(PAUSES_SECONDS)})."
        event_log.emit("storage", event_log.WARNING, "io_retry", text, path=path, errno=name, attempt=number)
        time.sleep(pause)
        try:
            return call()
        except OSError as last:
            error = last
    raise error


def retry_mapped(error: OSError, path: str, operation: str, call: Callable[[], Result]) -> Result:
    """The same, with the last error as an SMPError, unless there is no such file or folder."""
    try:
        return retry(error, path, call)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as last:
        raise from_os_error(last, path, operation) from last
