"""Real disks with a limit: a small file system, and a store that its owner may only read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.processes import SOURCE

_CANNOT_DROP_RIGHTS = 77
_DROP_RIGHTS = f"""
import ctypes, os, sys
if os.geteuid() == 0:  # root may write everywhere, until it gives up its capabilities
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()):
        sys.exit({_CANNOT_DROP_RIGHTS})
"""


@contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size, mounted on a new folder."""
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a small tmpfs can only be mounted by root on Linux")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "smp-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def run_on_read_only_store(root: Path, script: str, *arguments: str) -> None:
    """Run a program in a process that cannot write below `root`, its first argument. It must end well."""
    if sys.platform == "win32":
        pytest.skip("needs POSIX permissions")
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)
    ended = subprocess.run(
        [sys.executable, "-c", _DROP_RIGHTS + textwrap.dedent(script), str(root), *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)
    if ended.returncode == _CANNOT_DROP_RIGHTS:
        pytest.skip("root cannot give up its capabilities here")
    assert ended.returncode == 0, ended.stderr
