"""Storage of records. `port` defines what every backend provides; `file_store` and the rest of the package provide it with files.

A door: what most commands do not need of a store in files is loaded when it is first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.store import archive as archive
    from smp_memory.store import archive_index as archive_index
    from smp_memory.store import archive_names as archive_names
    from smp_memory.store import cold_storage as cold_storage
    from smp_memory.store import convert as convert
    from smp_memory.store import erasure as erasure
    from smp_memory.store import file_session as file_session
    from smp_memory.store import inactive_sessions as inactive_sessions
    from smp_memory.store import indexer as indexer
    from smp_memory.store import record_reader as record_reader
    from smp_memory.store import session_creation as session_creation
    from smp_memory.store import session_edits as session_edits
    from smp_memory.store import session_indexer as session_indexer
    from smp_memory.store import shared_files as shared_files
    from smp_memory.store import tidy as tidy
    from smp_memory.store import unread_files as unread_files
    from smp_memory.store import verification as verification
else:  # so that mypy knows which modules there are
    __getattr__ = door(
        __name__,
        "archive",
        "archive_index",
        "archive_names",
        "cold_storage",
        "convert",
        "erasure",
        "file_session",
        "inactive_sessions",
        "indexer",
        "record_reader",
        "session_creation",
        "session_edits",
        "session_indexer",
        "shared_files",
        "tidy",
        "unread_files",
        "verification",
    )
