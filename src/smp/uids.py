"""Random identities of memories and sessions.

A uid only has to tell apart memories that got the same id in two clones of a store, so 32 bits are enough.
"""

from __future__ import annotations

from os import urandom

from smp.model.ids import letters


def new_uid() -> str:
    return letters(urandom(4).hex())
