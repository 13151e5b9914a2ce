"""A package of npm by its name, for tests that compare with programs of others. It is installed once, beside temporary files."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

INSTALL_SECONDS = 100


def installed(package: str, version: str) -> Path:
    """The folder of a package; the test is skipped, with the reason, if it cannot be had here."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"{package} {version} needs node and npm, which are not here")
    name = package.strip("@").replace("/", "-")
    home = Path(os.environ.get("SMP_TEST_NPM") or Path(tempfile.gettempdir()) / f"smp-test-npm-{os.getuid()}")
    target = home / f"{name}-{version}"
    found = target / "node_modules" / package
    if not (found / "package.json").exists():
        _install(target, f"{package}@{version}", home)
    return found


def _install(target: Path, what: str, home: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=home))
    words = ["npm", "install", "--prefix", str(fresh), "--no-audit", "--no-fund", "--ignore-scripts", what]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        reason = done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except subprocess.TimeoutExpired:
        reason = ["it took too long"]
    if reason is not None:
        shutil.rmtree(fresh, ignore_errors=True)
        pytest.skip(f"{what} cannot be installed: {' '.join(reason)}")
    try:
        fresh.rename(target)
    except OSError:  # another process was quicker
        shutil.rmtree(fresh, ignore_errors=True)
