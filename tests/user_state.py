"""Where the tests find the user's state of a store."""

from __future__ import annotations

import os
from pathlib import Path

from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import UserState, open_user_state


def user_state(root: str | os.PathLike[str]) -> UserState:
    return open_user_state(os.fspath(root), Disk(RealSystem(os.fspath(root))))


def state_folder(root: str | os.PathLike[str]) -> Path:
    return Path(user_state(root).folder)
