"""What happens when a host calls `smp hook`? One event in, at most one JSON document out, and the exit code is 0.

Guarantees: whatever comes in (nothing, no JSON, megabytes, an event that nobody knows) and whatever state the store is in
(none, locked, damaged, only readable), the exit code is 0, and nothing is printed but an answer. Failures go to
`hooks.log` in the user's state. The host does not wait for what is recorded: that goes on behind (`smp_memory.integrations.hooks.background`).

Speed: this is started for every prompt. So the collector stays off, events without an answer are told by their bytes, and
the process ends without taking itself apart.
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
_SILENCE_SECONDS = 3.0  # after which a host that does not close our input has said all it has to say
_ANSWER_SECONDS = 4.0  # later than this nobody waits for an answer: what is behind makes the next one faster
_UNTRUSTED = (
    "SMP: this project comes with a memory store that the user has not trusted. Nothing is recalled from it and nothing is "
    "recorded to it. If the user trusts it, they can run `smp trust` in the project once."
)
_HELP = """\
smp hook is called by a coding agent, which writes an event as JSON to its standard input.
`smp install` writes it into the settings of Claude Code, Codex, Gemini CLI or Cursor.
"""


class _TooSlow(BaseException):
    """Not an Exception: nobody below may take it for a damaged index."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Do what the event asks for and end the process, with exit code 0."""
    gc.disable()  # before more is loaded; this process does not live long enough to need it
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except BaseException:  # noqa: S110 - the host must not notice
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
        background.go_on(lambda is_behind: _work(raw, client, is_behind, wait), wait=wait)
        return
    event = events.read(raw, client, os.environ)
    root = project_store.store_of(event.cwd, os.environ) if event is not None else None
    if event is None or root is None:
        return
    if not project_store.is_trusted(root, os.environ):
        _print(_untrusted(event))
        return
    found = _answer(event, root)
    background.go_on(lambda is_behind: _record(event, root, found, is_behind, wait), wait=wait)


def _work(raw: bytes, client: str, is_behind: bool, is_awaited: bool) -> None:
    event = events.read(raw, client, os.environ)
    root = project_store.store_of(event.cwd, os.environ) if event is not None else None
    if event is not None and root is not None and project_store.is_trusted(root, os.environ):
        _record(event, root, None, is_behind, is_awaited)


def _untrusted(event: HookEvent) -> bytes:
    """What to say of a store that came with the project; nothing of it is told, and nothing is recorded to it."""
    from smp_memory.integrations.hooks.events import answer, takes_context

    says = event.kind == events.START and takes_context(event)
    return answer(event, _UNTRUSTED if says else "")


def _answer(event: HookEvent, root: str) -> HookRecall | None:
    """Print the answer to an event and return what was recalled; None if that failed."""
    from smp_memory.integrations.hooks.events import answer, takes_context

    if event.kind not in events.ANSWERED:
        return None
    found: HookRecall | None = None
    try:
        if takes_context(event):
            from smp_memory.integrations.hooks.recall import Reader, recalled
            from smp_memory.integrations.hooks.session_state import name_for

            _set_timer()
            reader = Reader(root, os.environ)
            found = recalled(reader, event, name_for(reader.store.state, event))
    except BaseException as error:
        _note_failure(root, event, error)
    finally:
        _stop_timer()
    _print(answer(event, found.text if found is not None else ""))
    return found


def _record(event: HookEvent, root: str, found: HookRecall | None, is_behind: bool, is_awaited: bool) -> None:
    try:
        from smp_memory.integrations.hooks.record import record

        given, notices = (found.refs, found.notices) if found is not None else (None, [])
        record(event, root, given, notices, is_behind=is_behind, is_awaited=is_awaited)
    except BaseException as error:
        _note_failure(root, event, error)


def _note_failure(root: str, event: HookEvent, error: BaseException) -> None:
    from smp_memory.integrations.hooks.failures import note_failure

    note_failure(root, event.client, event.name, error)


# -- the process


def _options(arguments: list[str]) -> tuple[str, bool]:
    """The host's name, and whether to wait for what is recorded. What cannot be understood is passed over."""
    client = "auto"
    for place_, word in enumerate(arguments):
        if word.startswith("--client="):
            client = word.partition("=")[2]
        elif word == "--client" and place_ + 1 < len(arguments):
            client = arguments[place_ + 1]
        elif word == "--root" and place_ + 1 < len(arguments):
            os.environ["SMP_ROOT"] = arguments[place_ + 1]
    return client, "--wait" in arguments


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _standard_input() -> bytes:
    """All that the host writes, up to a limit; what is beyond it is read and dropped, so that the host can finish."""
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
    """Whether there is something to read, or the end; False if the host says nothing and does not close."""
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
            pass  # nobody listens any more


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
