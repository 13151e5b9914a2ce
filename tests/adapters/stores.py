"""Addresses of empty stores for tests of adapters: every layout, RAM, PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LAYOUTS = ("jsonl", "markdown", "single", "log")
KINDS = (*LAYOUTS, ":memory:", "postgresql")


def make_address(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a new store; that of a kind of files exists already."""
    if kind == "postgresql":
        address: str = request.getfixturevalue("postgres").new_schema_address()
        return address
    return kind if kind == ":memory:" else new_folder(kind, tmp_path / "store")


def new_folder(layout: str, folder: Path) -> str:
    import smp_memory

    shutil.rmtree(folder, ignore_errors=True)
    smp_memory.open(folder, layout=layout).close()
    return str(folder)


Opener = Callable[..., Any]
