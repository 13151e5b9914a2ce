"""Suites that others wrote run against the adapters. They are downloaded as source distributions for the run and kept nowhere else.

Plugins in `public_suites/` put our classes in the place of those that a suite tests. What is left out stands there with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent / "public_suites"
ROOT = Path(__file__).parents[2]
SUITES = {
    "anthropic": ("memory_tool_plugin", ["tests/lib/tools/memory_tools/test_filesystem.py"], ["--noconftest"], 69),
    "openai-agents": (
        "agents_session_plugin",
        ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"],
        [],
        52,
    ),
}  # by package: plugin, files, options, how many tests run


def source_of(package: str, folder: Path) -> Path:
    """The source distribution of the installed version, unpacked; the test is skipped if it cannot be had."""
    try:
        wanted = f"{package}=={version(package)}"
    except PackageNotFoundError:
        pytest.skip(f"needs {package}; ./dev test-adapters installs it")
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
        wanted,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        pytest.skip(f"{wanted} cannot be downloaded: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.mark.skipif("SMP_PUBLIC_SUITES" not in os.environ, reason="run by ./dev test-adapters")
@pytest.mark.parametrize("package", SUITES)
def test_public_suite_passes(package: str, tmp_path: Path) -> None:
    plugin, files, options, count = SUITES[package]
    source = source_of(package, tmp_path)
    words = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(source), "-p", plugin]
    words += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio", *options, *files]
    paths = os.pathsep.join([str(PLUGINS), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= count, done.stdout[-1000:]
