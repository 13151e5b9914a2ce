"""Log of hook failures: one line of JSON for each in `hooks.log` of the user's state; `smp doctor` shows it.

    {"at": "2026-01-31T14:00:00Z", "client": "claude-code", "event": "Stop", "error": "LockTimeout E_LOCK_TIMEOUT"}

Guarantees: never raises, never grows beyond `LIMIT_BYTES`, and holds no memory and no prompt: only the class of an error, its
code, the environment variable that has a bad value and the source line, not its message. Non-guarantee: on a disk that is full or
read-only nothing is logged.
"""

from __future__ import annotations

import os
import time

FILE = "hooks.log"
LIMIT_BYTES = 128 << 10


def log_failure(root: str, client: str, event: str, error: BaseException) -> None:
    try:
        _append(root, client, event, error)
    except Exception:  # noqa: S110 - a failure of the log cannot be reported anywhere
        pass


def _append(root: str, client: str, event: str, error: BaseException) -> None:
    import json

    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "client": client, "event": event, "error": describe(error)}).encode() + b"\n"
    state = open_user_state(root, Disk(RealSystem(root)))
    state.make()
    disk, path = state.disk, state.path(FILE)
    status = disk.stat(path)
    if status is not None and status.st_size + len(line) > LIMIT_BYTES:
        kept = disk.read(path, max(status.st_size - LIMIT_BYTES // 2, 0))
        disk.replace(path, kept.partition(b"\n")[2] + line)
        return
    file = disk.open_append(path)
    try:
        file.append(line)
    finally:
        file.close()


def describe(error: BaseException) -> str:
    """An error without its message, which may quote the conversation."""
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
