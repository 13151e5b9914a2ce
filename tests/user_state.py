"""Where the tests find the user's state of a store."""

from __future__ import annotations

import os
from pathlib import Path

from smp.files.disk import Disk
from smp.files.system import RealSystem
from smp.files.user_state import state_of


def state_folder(root: str | os.PathLike[str]) -> Path:
    return Path(state_of(os.fspath(root), Disk(RealSystem(os.fspath(root)))).folder)
