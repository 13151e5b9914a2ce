"""What are the bytes? The truth: a session's files, how they are read, appended to, replaced and put right.

From the ground up: `system` (what the operating system can do), `disk` (the only module that writes, syncs and
renames), `lock` (one writer per session), `journal` (several files change together), `codec` and its formats (entries
as bytes), `dialect` (names), `layouts` (which file holds what), `session_reader` (lock-free reading) and
`session_writer` (what happens under the lock).
"""
