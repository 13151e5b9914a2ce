"""Map foreign errors to SMPError, once, at the public methods of stores and sessions.

Guarantees: what the operating system or the index database raises leaves a public method as an `SMPError` with the path
and the method's name. All other errors pass unchanged: they are bugs, or come from functions that the caller passed in.
"""

from __future__ import annotations

from functools import wraps

from smp_memory.errors import from_os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from smp_memory.errors import SMPError

    Kind = TypeVar("Kind", bound=type)

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
    files = getattr(instance, "_files", None)
    path = str(getattr(instance, "root", "") or (files.reader.folder if files is not None else ""))
    if isinstance(error, OSError):
        return from_os_error(error, error.filename or path, activity)
    if type(error).__module__ == "sqlite3":
        from smp_memory.index.rows import from_index_error

        return from_index_error(error, path, activity)
    return None
