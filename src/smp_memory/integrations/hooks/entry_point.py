"""The process `smp hook`: one event in, at most one JSON document out, and the exit code is 0.

Guarantees
- Whatever comes in (nothing, no JSON, megabytes, an unknown event) and whatever state the store is in (none, locked, damaged,
  read-only), the exit code is 0, and nothing is printed but an answer. Failures go to `hooks.log` in the user's state.
- The store is the one that Python, the command line and MCP find (`smp_memory.discovery`); where there is none, nothing is loaded,
  read or created. A store of another user, in a folder above ours, is not used unless `SMP_ROOT` names it.
- The host does not wait for recording, which continues in a forked child. The child is in a session of its own, so that a signal
  for the host's process group does not reach it, holds none of the host's pipes, and ends after `_BACKGROUND_SECONDS`. Without
  `fork`, or if it fails, the work is done in this process. If the machine is switched off, the child is lost; what it had to
  record is still in the transcript, and the next start of a session in the project records it.

Speed: this process is started for every prompt. So the garbage collector stays off, events without an answer are recognised by
their bytes, and the process ends by `os._exit`.
"""

from __future__ import annotations

import gc
import os
import sys

from smp_memory.discovery import discovery
from smp_memory.integrations.hooks import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import NoReturn

    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.reader import HookRecall

_LIMIT_BYTES = 32 << 20
_SILENCE_SECONDS = 3.0  # input counts as complete after this pause, for hosts that do not close it
_ANSWER_SECONDS = 4.0  # time limit of an answer; the work in the background makes the next one faster
_BACKGROUND_SECONDS = 900  # as long as it takes to make the index of a very large store
UNTRUSTED = (
    "SMP: this project comes with a memory store that the user has not trusted. Nothing is recalled from it and nothing is "
    "recorded to it. If the user trusts it, they can run `smp trust` in the project once."
)
_HELP = """\
smp hook is called by a coding agent, which writes an event as JSON to its standard input.
`smp install` writes it into the settings of Claude Code, Codex, Gemini CLI or Cursor.
"""


class _TooSlow(BaseException):
    """The time limit was reached. Not an Exception, so that no handler below takes it for a damaged index."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Handle the event and end the process with exit code 0."""
    gc.disable()  # before more is loaded; this process is too short-lived to need it
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except BaseException:  # noqa: S110 - the host must not fail
        pass
    os._exit(0)


def _run(arguments: list[str]) -> None:
    client, wait = _options(arguments)
    if _is_terminal():
        sys.stderr.write(_HELP)
        sys.stderr.flush()
        return
    raw = _standard_input()
    if not raw.strip():
        return
    if not events.may_be_answered(raw):
        _run_in_background(lambda is_background: _record_raw(raw, client, is_background, wait), wait=wait)
        return
    event = events.read(raw, client, os.environ)
    root = find_store(event.cwd, os.environ) if event is not None else None
    if event is None or root is None:
        return
    if not is_trusted(root, os.environ):
        _print(_untrusted_answer(event))
        return
    recall = _answer(event, root, wait)
    _run_in_background(lambda is_background: _record(event, root, recall, is_background, wait), wait=wait)


def _record_raw(raw: bytes, client: str, is_background: bool, is_awaited: bool) -> None:
    event = events.read(raw, client, os.environ)
    root = find_store(event.cwd, os.environ) if event is not None else None
    if event is not None and root is not None and is_trusted(root, os.environ):
        _record(event, root, None, is_background, is_awaited)


def _untrusted_answer(event: HookEvent) -> bytes:
    """The answer for a store that the user does not trust: a notice at the start of a session, nothing else."""
    has_notice = event.kind == events.START and events.takes_context(event)
    return events.answer(event, UNTRUSTED if has_notice else "")


def _answer(event: HookEvent, root: str, wait: bool) -> HookRecall | None:
    """Print the answer to an event and return what was recalled; None if that failed or the event takes no answer."""
    if event.kind not in events.ANSWERED:
        return None
    recall: HookRecall | None = None
    reader: Reader | None = None
    try:
        if events.takes_context(event):
            from smp_memory.integrations.hooks.reader import Reader
            from smp_memory.integrations.hooks.recall import recall_for_event
            from smp_memory.integrations.hooks.session_state import session_name

            _set_timer()
            # The recording behind the answer to a prompt catches up the index with all files.
            has_followup = event.kind == events.PROMPT and not wait and hasattr(os, "fork")
            reader = Reader(root, os.environ, defers_file_checks=has_followup)
            recall = recall_for_event(reader, event, session_name(reader.store.state, event))
    except BaseException as error:
        _log_failure(root, event, error)
    finally:
        _stop_timer()
    _print(events.answer(event, recall.text if recall is not None else ""))
    if reader is not None:
        reader.store.indexer.close()  # an SQLite connection must not be open in two processes
    return recall


def _record(event: HookEvent, root: str, recall: HookRecall | None, is_background: bool, is_awaited: bool) -> None:
    try:
        from smp_memory.integrations.hooks.last_calls import OTHER, note_call
        from smp_memory.integrations.hooks.record import record
        from smp_memory.store.opening import user_state

        note_call(user_state(root), event.client if event.is_client_certain else OTHER)

        record(event, root, recall, is_background=is_background, is_awaited=is_awaited)
    except BaseException as error:
        _log_failure(root, event, error)


def _log_failure(root: str, event: HookEvent, error: BaseException) -> None:
    from smp_memory.integrations.hooks.session_state import log_failure

    log_failure(root, event.client, event.name, error)


# -- the store of the project


def find_store(cwd: str, environ: Mapping[str, str]) -> str | None:
    """The root of the store for work in a folder; None if there is none."""
    try:
        located = discovery(cwd, environ)
    except OSError:  # the folder does not exist any more
        return None
    return located.root if located.is_ours else None


def is_trusted(root: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the store; one that `SMP_ROOT` names is trusted."""
    if environ.get("SMP_ROOT"):
        return True
    from smp_memory.store.opening import user_state

    return user_state(root).is_trusted(root)


def trust(root: str) -> None:
    """Trust the store, because the user installs hooks for its project."""
    from smp_memory.store.opening import user_state

    user_state(root).trust(root)


# -- the process


def _options(arguments: list[str]) -> tuple[str, bool]:
    """The host's name, and whether to wait for recording. Unknown arguments are ignored; `--root` sets SMP_ROOT."""
    client = "auto"
    for position, word in enumerate(arguments):
        if word.startswith("--client="):
            client = word.partition("=")[2]
        elif word == "--client" and position + 1 < len(arguments):
            client = arguments[position + 1]
        elif word == "--root" and position + 1 < len(arguments):
            os.environ["SMP_ROOT"] = arguments[position + 1]
    return client, "--wait" in arguments


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _standard_input() -> bytes:
    """All that the host writes; beyond a limit it is read and dropped, so that the host can finish writing."""
    parts: list[bytes] = []
    size = 0
    try:
        while _has_more():
            part = os.read(0, 1 << 20)
            if not part:
                break
            size += len(part)
            if size <= _LIMIT_BYTES:
                parts.append(part)
    except OSError:
        pass
    return b"".join(parts) if size <= _LIMIT_BYTES else b""


def _has_more() -> bool:
    """Wait for input or its end; False if the host neither writes nor closes it for `_SILENCE_SECONDS`."""
    if os.name == "nt":
        return True
    from select import select

    return bool(select([0], [], [], _SILENCE_SECONDS)[0])


def _print(document: bytes) -> None:
    if sys.stdout is not None and document:
        try:
            sys.stdout.buffer.write(document)
            sys.stdout.flush()
        except OSError:
            pass  # the host has closed its end


def _set_timer() -> None:
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_REAL, _ANSWER_SECONDS)


def _stop_timer() -> None:
    import signal

    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def _run_in_background(work: Callable[[bool], None], *, wait: bool = False) -> None:
    """Call `work(is_background)` in a child process, or in this one if `wait` or if there is no fork."""
    if wait or not hasattr(os, "fork"):
        work(False)
        return
    try:
        child = os.fork()
    except OSError:
        work(False)
        return
    if child:
        return
    try:
        _detach()
        work(True)
    finally:
        os._exit(0)


def _detach() -> None:
    import signal

    os.setsid()
    with open(os.devnull, "rb") as null:  # read-only: the child writes no output
        for descriptor in (0, 1, 2):
            os.dup2(null.fileno(), descriptor)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_BACKGROUND_SECONDS)
    os.nice(5)  # the agent works at the same time


if __name__ == "__main__":
    main()
