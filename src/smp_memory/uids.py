"""Random identities of memories and sessions.

A uid only has to tell apart memories that got the same id in two clones of a store, so 32 bits are enough.
"""

from __future__ import annotations

import os

from smp_memory.model.ids import letters

random_bytes = os.urandom


def new_uid() -> str:
    return letters(random_bytes(4).hex())
