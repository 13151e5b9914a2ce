"""Native libraries that do not load: PyStemmer and tantivy.

A library that is missing or does not load is one log event (`library_missing`), never an ImportError. A process without a library that the
index on disk was built with does not touch that index: it builds one in RAM.
"""

from __future__ import annotations

from smp_memory.errors import install_command
from smp_memory.observe import telemetry

_reported: set[str] = set()
_missing: set[str] = set()  # libraries without which the index on disk cannot be used
_uses_disk: list[bool] = []


class LibraryMissing(Exception):
    """A library turned out to be missing while the index on disk is open; the caller starts again with an index in RAM."""


def libraries_are_loaded() -> bool:
    """Whether no library is known to be missing; libraries that were not needed yet are not tried."""
    return not _missing


def record_use_of_disk() -> None:
    """Record that this process has the index on disk open."""
    _uses_disk.append(True)


def report_missing(library: str, error: Exception) -> None:
    """Log once that a library does not load."""
    if library in _reported:
        return
    _reported.add(library)
    text = (
        f"{library} cannot be loaded ({type(error).__name__}: {error}). Queries work without it, but they are slower and may find less. "
        f"Install it: {install_command(library)}"
    )
    telemetry.emit("query", telemetry.WARNING, "library_missing", text, library=library)


def leave_disk(library: str, error: Exception) -> None:
    """Record that the index on disk cannot be used without this library; raise LibraryMissing if it is open."""
    report_missing(library, error)
    if library not in _missing:
        _missing.add(library)
        if _uses_disk:
            raise LibraryMissing(library)
