"""The error classes of SMP, and the mapping of foreign errors to them.

    SMPError
    ├── UserError                     the caller can correct it; nothing was written
    │   ├── InvalidRecord             E_SCHEMA_INVALID     a field of a memory is wrong
    │   ├── InvalidFormat             E_INVALID_FORMAT     a file or an argument cannot be read
    │   ├── InvalidConfig             E_CONFIG_INVALID     an unknown setting or a bad value
    │   ├── InvalidQuery              E_INVALID_QUERY      MEM_E004
    │   ├── StoreNotFound             E_STORE_NOT_FOUND
    │   ├── SessionNotFound           E_SESSION_NOT_FOUND  MEM_E005
    │   ├── SessionExists             E_SESSION_EXISTS
    │   ├── SessionArchived           E_SESSION_ARCHIVED
    │   ├── MemoryNotFound            E_MEMORY_NOT_FOUND
    │   ├── DuplicateId               E_DUPLICATE_ID
    │   ├── LayoutMismatch            E_LAYOUT_MISMATCH
    │   ├── NotAllowed                E_NOT_ALLOWED        an agent or a workflow may not do this
    │   ├── NotSupported              E_NOT_SUPPORTED      this kind of store does not offer it
    │   └── StoreClosed               E_STORE_CLOSED
    ├── SizeLimitExceeded             E_SIZE_LIMIT         MEM_E001
    ├── Busy                          try again; nothing was written
    │   ├── LockTimeout               E_LOCK_TIMEOUT       MEM_E002
    │   ├── Conflict                  E_CONCURRENT_MOD     the memory was changed meanwhile
    │   └── QueryTimeout              E_QUERY_TIMEOUT
    ├── Corrupt
    │   ├── StorageCorrupt            E_STORAGE_CORRUPT    MEM_E003
    │   ├── SessionCorrupt            E_SESSION_CORRUPT
    │   └── FormatTooNew              E_FORMAT_TOO_NEW
    ├── CompactionFailed              E_COMPACTION_FAILED  MEM_E006               `cause`: the code of what failed
    └── StorageError                  E_STORAGE_IO         the operating system failed
        ├── StorageFull               E_STORAGE_FULL
        ├── StorageReadOnly           E_STORAGE_READ_ONLY
        └── DurabilityUnknown         E_DURABILITY_UNKNOWN the disk did not confirm the write

Guarantees: `code` and `exit_code` are stable; every error can be pickled; its attributes
(`session`, `path`, `line`, `field`, `limit`, …) repeat the facts of its message. Damaged lines in files are not
errors but `Problem` values, see `smp_memory.model.reports`.

Guarantees of `maps_errors`: what the operating system or the index database raises leaves a public method as an `SMPError` with the path
and the method's name. All other errors pass unchanged: they are bugs, or come from functions that the caller passed in.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Kind = TypeVar("Kind", bound=type)


class SMPError(Exception):
    """The base of all errors that SMP raises."""

    code = "E_SMP"
    number: str | None = None
    exit_code = 1
    recoverable = False  # whether the same call may succeed a moment later

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        for name, value in details.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.details)


def _rebuild(kind: type[SMPError], message: str, details: dict[str, object]) -> SMPError:
    return kind(message, **details)


class UserError(SMPError):
    code = "E_USER"
    exit_code = 2


class InvalidRecord(UserError):
    code = "E_SCHEMA_INVALID"
    exit_code = 3
    field: str | None = None


class InvalidFormat(UserError):
    code = "E_INVALID_FORMAT"
    exit_code = 4


class InvalidConfig(UserError):
    code = "E_CONFIG_INVALID"
    exit_code = 5


class InvalidQuery(UserError):
    code = "E_INVALID_QUERY"
    number = "MEM_E004"
    exit_code = 6


class StoreNotFound(UserError):
    code = "E_STORE_NOT_FOUND"
    exit_code = 7


class SessionNotFound(UserError):
    code = "E_SESSION_NOT_FOUND"
    number = "MEM_E005"
    exit_code = 8


class SessionExists(UserError):
    code = "E_SESSION_EXISTS"
    exit_code = 9


class SessionArchived(UserError):
    code = "E_SESSION_ARCHIVED"
    exit_code = 10


class MemoryNotFound(UserError):
    code = "E_MEMORY_NOT_FOUND"
    exit_code = 11


class DuplicateId(UserError):
    code = "E_DUPLICATE_ID"
    exit_code = 12


class LayoutMismatch(UserError):
    code = "E_LAYOUT_MISMATCH"
    exit_code = 13


class StoreClosed(UserError):
    code = "E_STORE_CLOSED"
    exit_code = 14


class NotAllowed(UserError):
    code = "E_NOT_ALLOWED"
    exit_code = 15


class NotSupported(UserError):
    code = "E_NOT_SUPPORTED"
    exit_code = 16


class SizeLimitExceeded(SMPError):
    code = "E_SIZE_LIMIT"
    number = "MEM_E001"
    exit_code = 20


class Busy(SMPError):
    code = "E_BUSY"
    exit_code = 30
    recoverable = True


class LockTimeout(Busy):
    code = "E_LOCK_TIMEOUT"
    number = "MEM_E002"
    exit_code = 31


class Conflict(Busy):
    code = "E_CONCURRENT_MOD"
    exit_code = 32
    recoverable = False  # read the memory again first


class QueryTimeout(Busy):
    code = "E_QUERY_TIMEOUT"
    exit_code = 33


class Corrupt(SMPError):
    code = "E_CORRUPT"
    exit_code = 40


class StorageCorrupt(Corrupt):
    code = "E_STORAGE_CORRUPT"
    number = "MEM_E003"
    exit_code = 41


class SessionCorrupt(Corrupt):
    code = "E_SESSION_CORRUPT"
    exit_code = 42


class FormatTooNew(Corrupt):
    code = "E_FORMAT_TOO_NEW"
    exit_code = 43


class CompactionFailed(SMPError):
    code = "E_COMPACTION_FAILED"
    number = "MEM_E006"
    exit_code = 44


class StorageError(SMPError):
    code = "E_STORAGE_IO"
    exit_code = 50


class StorageFull(StorageError):
    code = "E_STORAGE_FULL"
    exit_code = 51


class StorageReadOnly(StorageError):
    code = "E_STORAGE_READ_ONLY"
    exit_code = 52


class DurabilityUnknown(StorageError):
    code = "E_DURABILITY_UNKNOWN"
    exit_code = 53


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
_SYMLINK = {errno.ELOOP}
_TRANSIENT = {  # the call may succeed later; advice for the user
    errno.EMFILE: "This process has too many files open; close some, or raise the limit (ulimit -n), and repeat.",
    errno.ENFILE: "Too many files are open on this machine; repeat when there are fewer.",
    errno.ENOMEM: "The machine is short of memory; repeat when there is more.",
    errno.EINTR: "The call was interrupted; repeat it.",
    errno.EAGAIN: "Repeat it.",
    getattr(errno, "ESTALE", -1): "The file was replaced on the file server; repeat it.",
}


def from_os_error(error: OSError, path: str, activity: str) -> StorageError | StorageCorrupt:
    """Map an OSError to an error that a caller can act on. `recoverable`: the same call may succeed later."""
    reason = error.strerror or str(error)
    if error.errno in _SYMLINK:
        return StorageCorrupt(
            f"Refused while {activity}: {path}: {reason}. Nothing was changed. "
            "SMP uses plain files and folders below the store only; put the real file or folder in its place.",
            path=path,
            errno=error.errno,
        )
    if error.errno in _TRANSIENT:
        return StorageError(
            f"The operating system failed while {activity}: {path} ({reason}). Nothing was half-written. "
            f"{_TRANSIENT[error.errno]}",
            path=path,
            errno=error.errno,
            recoverable=True,
        )
    if error.errno in _FULL:
        return StorageFull(
            f"No room left while {activity}: {path} ({reason}). Nothing was half-written; free some space and repeat.",
            path=path,
            errno=error.errno,
        )
    if error.errno in _READ_ONLY:
        return StorageReadOnly(
            f"Not allowed while {activity}: {path} ({reason}). Nothing was changed; check the permissions.",
            path=path,
            errno=error.errno,
        )
    return StorageError(
        f"The operating system failed while {activity}: {path} ({reason}). Nothing was half-written.",
        path=path,
        errno=error.errno,
    )


def done_before_failure(error: Exception, what: str, path: str) -> DurabilityUnknown:
    """The error for a step that failed after its operation had taken effect."""
    cause = error if isinstance(error, OSError) else error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) else str(error)
    return DurabilityUnknown(
        f"{what}, but a later step failed ({reason}). It may be lost after a crash; check the disk and the store before you repeat the call.",
        path=path,
        errno=getattr(cause, "errno", None),
    )


def is_failure(error: BaseException) -> bool:
    """Whether an error is a failure, and not a request to end the process; tantivy panics where Python would raise."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


# -- foreign errors, mapped once, at the public methods of stores and sessions

_SPECIAL = ("__exit__", "__iter__", "__len__")


def maps_errors(kind: Kind) -> Kind:
    """Class decorator: the public methods and properties that the class itself defines raise no foreign errors."""
    for name, found in list(vars(kind).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        function = found.fget if isinstance(found, property) else found
        if function is None or not hasattr(function, "__code__"):
            continue
        mapped = _mapped(function, name)
        is_property = isinstance(found, property)
        setattr(kind, name, property(mapped, found.fset, found.fdel, found.__doc__) if is_property else mapped)
    return kind


def _mapped(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    from functools import wraps  # not for the many that import only the errors

    @wraps(function)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return function(self, *args, **named)
        except Exception as error:
            mapped = _mapped_error(error, self, f"{name}() ran")
            if mapped is None:
                raise
            raise mapped from error

    return call


def _mapped_error(error: Exception, instance: Any, activity: str) -> SMPError | None:
    """The error to raise instead; None for one that passes unchanged."""
    files = getattr(instance, "_storage", None)
    path = str(getattr(instance, "root", "") or (files.location if files is not None else ""))
    if isinstance(error, OSError):
        return from_os_error(error, error.filename or path, activity)
    if type(error).__module__ == "sqlite3":  # the index can be rebuilt from the files
        kind = StorageFull if "full" in str(error) else StorageError
        return kind(
            f"The index in {path} failed while {activity} ({error}). No memory is lost; `smp reindex` rebuilds it.",
            path=path,
        )
    return None


def install_command(*packages: str) -> str:
    """The command that installs packages into the environment of this process, as that was made: by pipx, uv or pip."""
    import sys
    from importlib.util import find_spec
    from shlex import quote

    names, prefix = " ".join(map(quote, packages)), sys.prefix.replace("\\", "/")
    if "/pipx/venvs/" in prefix:
        return f"pipx inject {prefix.rpartition('/')[2]} {names}"
    if "/uv/tools/" in prefix or find_spec("pip") is None:
        return f"uv pip install --python {quote(sys.executable)} {names}"
    return f"{quote(sys.executable)} -m pip install {names}"
