"""Import memories from the files of other tools. The files are read, never changed.

`registry` names the importers, `ingest` adds what their readers find in a `source` to sessions.
Guarantees: importing only adds; repeating it adds nothing twice; the store is saved to a file before the first write; every memory records
the file and line it came from, and every line that was not understood is reported.
"""

from smp_memory.importers.ingest import import_from

__all__ = ["import_from"]
