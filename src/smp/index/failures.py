"""Map errors of the index's database to SMPError."""

from __future__ import annotations

from smp.errors import StorageError, StorageFull


def from_index_error(error: Exception, path: str, doing: str) -> StorageError:
    """The index can be made anew from the files at any time, so nothing is lost."""
    kind = StorageFull if "full" in str(error) else StorageError
    return kind(
        f"The index in {path} failed while {doing} ({error}). No memory is lost; `smp reindex` makes it anew.",
        path=path,
    )
