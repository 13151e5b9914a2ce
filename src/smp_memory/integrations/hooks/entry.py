"""The process `smp hook`: one event in, at most one JSON document out, and the exit code is 0.

Guarantees: whatever comes in (nothing, no JSON, megabytes, an unknown event) and whatever state the store is in
(none, locked, damaged, read-only), the exit code is 0, and nothing is printed but an answer. Failures go to
`hooks.log` in the user's state. The host does not wait for recording, which continues in a child (`background`).

Speed: this process is started for every prompt. So the garbage collector stays off, events without an answer are recognised by
their bytes, and the process ends by `os._exit`.
"""

from __future__ import annotations

import gc
import os
import sys

from smp_memory.integrations.hooks import background, events, project_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.recall import HookRecall

_LIMIT_BYTES = 32 << 20
_SILENCE_SECONDS = 3.0  # input counts as complete after this pause, for hosts that do not close it
_ANSWER_SECONDS = 4.0  # time limit of an answer; the work in the background makes the next one faster
_UNTRUSTED = (
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
        background.run_in_background(lambda is_background: _record_raw(raw, client, is_background, wait), wait=wait)
        return
    event = events.read(raw, client, os.environ)
    root = project_store.find_store(event.cwd, os.environ) if event is not None else None
    if event is None or root is None:
        return
    if not project_store.is_trusted(root, os.environ):
        _print(_untrusted_answer(event))
        return
    recall = _answer(event, root)
    background.run_in_background(lambda is_background: _record(event, root, recall, is_background, wait), wait=wait)


def _record_raw(raw: bytes, client: str, is_background: bool, is_awaited: bool) -> None:
    event = events.read(raw, client, os.environ)
    root = project_store.find_store(event.cwd, os.environ) if event is not None else None
    if event is not None and root is not None and project_store.is_trusted(root, os.environ):
        _record(event, root, None, is_background, is_awaited)


def _untrusted_answer(event: HookEvent) -> bytes:
    """The answer for a store that the user does not trust: a notice at the start of a session, nothing else."""
    has_notice = event.kind == events.START and events.takes_context(event)
    return events.answer(event, _UNTRUSTED if has_notice else "")


def _answer(event: HookEvent, root: str) -> HookRecall | None:
    """Print the answer to an event and return what was recalled; None if that failed or the event takes no answer."""
    if event.kind not in events.ANSWERED:
        return None
    recall: HookRecall | None = None
    try:
        if events.takes_context(event):
            from smp_memory.integrations.hooks.recall import Reader, recall_for_event
            from smp_memory.integrations.hooks.session_state import session_name

            _set_timer()
            reader = Reader(root, os.environ)
            recall = recall_for_event(reader, event, session_name(reader.store.state, event))
    except BaseException as error:
        _log_failure(root, event, error)
    finally:
        _stop_timer()
    _print(events.answer(event, recall.text if recall is not None else ""))
    return recall


def _record(event: HookEvent, root: str, recall: HookRecall | None, is_background: bool, is_awaited: bool) -> None:
    try:
        from smp_memory.integrations.hooks.record import record

        injected, notices = (recall.refs, recall.notices) if recall is not None else (None, [])
        record(event, root, injected, notices, is_background=is_background, is_awaited=is_awaited)
    except BaseException as error:
        _log_failure(root, event, error)


def _log_failure(root: str, event: HookEvent, error: BaseException) -> None:
    from smp_memory.integrations.hooks.failures import log_failure

    log_failure(root, event.client, event.name, error)


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


if __name__ == "__main__":
    main()
