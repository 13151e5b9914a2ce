"""Storage of records. `port` defines what every backend provides; `file_store` and the rest of the package provide it with files.

A door: what most commands do not need of a store in files is loaded when it is first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.store import archive as archive
    from smp_memory.store import archive_erasure as archive_erasure
    from smp_memory.store import archive_index as archive_index
    from smp_memory.store import archive_names as archive_names
    from smp_memory.store import convert as convert
    from smp_memory.store import erasure as erasure
    from smp_memory.store import foreign_files as foreign_files
    from smp_memory.store import indexer as indexer
    from smp_memory.store import quarantine as quarantine
    from smp_memory.store import session_creation as session_creation
    from smp_memory.store import shared_files as shared_files
    from smp_memory.store import tidy as tidy
    from smp_memory.store import trash as trash

__getattr__ = door(
    __name__,
    "archive",
    "archive_erasure",
    "archive_index",
    "archive_names",
    "convert",
    "erasure",
    "foreign_files",
    "indexer",
    "quarantine",
    "session_creation",
    "shared_files",
    "tidy",
    "trash",
)
