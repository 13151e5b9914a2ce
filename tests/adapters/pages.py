"""Run the examples of the pages in docs/adapters/, which `tests/test_snippets.py` leaves to the tests of each adapter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str, folder: Path) -> str:
    """Run all Python of a page as one program in a folder; what it prints."""
    program = "\n".join(_PYTHON.findall((ROOT / "docs" / "adapters" / name).read_text(encoding="utf-8")))
    environment = {**os.environ, "HOME": str(folder), "CREWAI_STORAGE_DIR": str(folder / "crewai")}
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
