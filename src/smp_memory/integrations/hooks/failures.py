"""What went wrong in a hook? One line of JSON for each failure in `hooks.log` of the user's state; `smp doctor` shows it.

    {"at": "2026-01-31T14:00:00Z", "client": "claude-code", "event": "Stop", "error": "LockTimeout E_LOCK_TIMEOUT"}

Guarantees: never raises, never grows beyond `LIMIT_BYTES`, and holds no memory and no prompt: the kind of an error, its
code, the environment variable that has a bad value and the place in the source, not its message. Non-guarantee: on a disk that is full or can only be read nothing is kept.
"""

from __future__ import annotations

import os
import time

FILE = "hooks.log"
LIMIT_BYTES = 128 << 10


def note_failure(root: str, client: str, event: str, error: BaseException) -> None:
    try:
        _note(root, client, event, error)
    except Exception:  # noqa: S110 - there is nobody left to tell
        pass


def _note(root: str, client: str, event: str, error: BaseException) -> None:
    import json

    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "client": client, "event": event, "error": described(error)}).encode() + b"\n"
    state = open_user_state(root, Disk(RealSystem(root)))
    state.make()
    disk, path = state.disk, state.path(FILE)
    found = disk.stat(path)
    if found is not None and found.st_size + len(line) > LIMIT_BYTES:
        kept = disk.read(path, max(found.st_size - LIMIT_BYTES // 2, 0))
        disk.replace(path, kept.partition(b"\n")[2] + line)
        return
    file = disk.open_append(path)
    try:
        file.append(line)
    finally:
        file.close()


def described(error: BaseException) -> str:
    """An error without its message: that may quote what was said."""
    kind = type(error).__name__
    code = getattr(error, "code", None)
    if isinstance(code, str):
        source = str(getattr(error, "details", {}).get("source", ""))
        variable = source.removeprefix("environment ") if source.startswith("environment SMP_") else ""
        return f"{kind} {code} {variable}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        return f"{kind}: {error.strerror}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return kind
    return f"{kind} in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
