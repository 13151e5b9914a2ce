"""Generate random uids of memories and sessions.

A uid only has to distinguish memories with the same id from two clones of a store, so 32 bits are enough.
"""

from __future__ import annotations

import os

from smp_memory.model.ids import letters

random_bytes = os.urandom


def new_uid() -> str:
    return letters(random_bytes(4).hex())
