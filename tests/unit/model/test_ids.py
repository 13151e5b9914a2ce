"""Ids and uids."""

from __future__ import annotations

import os

import pytest

from smp_memory.model import ids


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_child_gives_out_other_uids_than_its_parent() -> None:
    ids.new_uid()  # so that random bits are kept for the next ones
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.new_uid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert of_child
    assert of_child not in [ids.new_uid() for _ in range(200)]
