"""Import memories from the files of other tools. The files are read, never changed.

`ingest` adds new memories to a session; `bmad` finds the files of a BMAD project and their readers.
Guarantees: importing only adds; repeating it adds nothing twice; every memory records the file and line it came from, and every
line that was not understood is reported. Loading this package loads nothing.
"""
