"""Session files: the only place where memories are stored, and everything that reads, appends to, replaces and repairs them.

From the ground up: `system` (operating system), `disk` (writes, syncs, renames), `lock` (one writer per session), `journal` (changes of
several files), `codec` and the formats (entries as bytes), `entry_fields`, `layouts` (which file holds what), `reader` (without a
lock) and `writer` (under the lock).
"""
