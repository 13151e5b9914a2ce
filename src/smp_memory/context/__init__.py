"""What an agent gets in its prompt: candidates, token budget, format and visible sessions; and the digest `MEMORY.md`.

A door: `context.builder`, `context.digest` and `context.preview` are loaded when they are first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.context import builder as builder
    from smp_memory.context import digest as digest
    from smp_memory.context import preview as preview

__getattr__ = door(__name__, "builder", "digest", "preview")
