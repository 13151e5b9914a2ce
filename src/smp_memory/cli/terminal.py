"""Parts of the terminal: a pager for long output, single keys, the user's editor, status lines while a command runs, log events (`--verbose`, `SMP_LOG`, `SMP_LOG_LEVEL`).

The pager: the first screen of lines is kept back; only if there are more is a pager started, with `SMP_PAGER`, `PAGER` or `less`. So
short answers start no program. `less` gets the options `FRX`, unless the variable `LESS` has others, keeps no history file, and opens
at the end of a list whose newest entry is the last.
Guarantees: the pager gets escaped text only, as the terminal would. Whoever quits it early ends the output, not with an error;
Ctrl-C belongs to the pager while it runs. Where no pager can be started, the lines are printed. No status line is shown before a second has passed, it is cleared at the end, and none is shown if the output
is not a terminal. Nothing in a log event can control the terminal.
While keys are read, Ctrl-C interrupts the command; the terminal is as before afterwards, and keys that were typed ahead are not lost.
Non-guarantees: it gives no estimate of the remaining time.
"""

from __future__ import annotations

import os
import sys
import time

from smp_memory.cli.render import Screen, safe
from smp_memory.errors import InvalidConfig, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Mapping
    from subprocess import Popen
    from typing import Any

    from smp_memory.cli.render import Screen

_OFF = ("", "cat")


def print_paged(screen: Screen, lines: Iterable[str], *, at_end: bool = False) -> None:
    """Print lines; more than a screen of them through the pager. `at_end`: the last lines matter most."""
    first: list[str] = []
    height = screen.height - 1  # the last line is for the prompt
    remaining = iter(lines)
    for line in remaining:
        first.append(screen.printable(line))
        if len(first) >= height:
            break
    process = _start(at_end) if len(first) >= height else None
    if process is None:
        for text in first:
            screen.write(text + "\n")
        for line in remaining:
            screen.line(line)
        return
    _feed(process, screen, first, remaining)


def _feed(process: Popen[bytes], screen: Screen, first: list[str], remaining: Iterable[str]) -> None:
    import signal

    assert process.stdin is not None
    screen.flush()
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # less stops its search or its reading at Ctrl-C; it is not the end
    try:
        for text in first:
            process.stdin.write(screen.encoded(text + "\n"))
        for line in remaining:
            process.stdin.write(screen.encoded(screen.printable(line) + "\n"))
    except OSError:
        pass  # the reader has quit
    finally:
        try:
            process.stdin.close()
        except OSError:
            pass
        process.wait()
        signal.signal(signal.SIGINT, before)


def _start(at_end: bool) -> Popen[bytes] | None:
    """The pager, waiting for its input; None if there is none or it cannot be started."""
    words = _command()
    if not words:
        return None
    import subprocess

    environment = {**os.environ, "LESSHISTFILE": "-"}
    environment.setdefault("LESS", "FRX")
    if at_end and os.path.basename(words[0]) == "less":
        words = [*words, "+G"]
    try:
        return subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    except OSError as error:
        sys.stderr.write(f"smp: cannot start the pager {safe(words[0])}: {error.strerror}\n")
        return None


def _command() -> list[str]:
    for variable in ("SMP_PAGER", "PAGER"):
        command = os.environ.get(variable)
        if command is not None:
            return _words(command)
    from shutil import which

    return ["less"] if which("less") else []


def _words(command: str) -> list[str]:
    import shlex

    if command.strip() in _OFF:
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []


def may_page(screen: Screen, options: Any) -> bool:
    """Whether long output goes through a pager: a person sits at a terminal that can show one."""
    if options.json or options.no_pager or not screen.is_terminal or os.environ.get("TERM") in (None, "", "dumb"):
        return False
    return sys.stdin is not None and sys.stdin.isatty()


# -- keys and the editor


class Keyboard:
    """Single keys without Enter, not echoed, while it is used as a context manager."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._before: Any = None  # the settings of the terminal

    def __enter__(self) -> Keyboard:
        try:
            import termios
            import tty
        except ImportError:  # Windows, where single keys need no setting
            return self
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
            self._before = None

    def read(self) -> str:
        """The next key; empty at the end of the input."""
        if self._before is not None:
            return _read_character(self._descriptor)
        from msvcrt import getwch  # type: ignore[attr-defined,unused-ignore]

        key: str = getwch()
        if key == "\x03":
            raise KeyboardInterrupt
        return "" if key == "\x04" else key


_END_OF_INPUT = b"\x04"  # Ctrl-D


def _read_character(descriptor: int) -> str:
    import select

    data = os.read(descriptor, 1)
    if data in (b"", _END_OF_INPUT):
        return ""
    while data[0] in (0x1B, *range(0xC0, 0xF8)) and len(data) < 8:  # an escape sequence or a letter of several bytes
        if not select.select([descriptor], [], [], 0.02)[0]:
            break
        data += os.read(descriptor, 1)
        if data[0] != 0x1B and len(data) == _letter_bytes(data[0]):
            break
    return data.decode("utf-8", "ignore") if data[0] != 0x1B else "\x1b"


def _letter_bytes(first: int) -> int:
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2


def has_editor() -> bool:
    """Whether the user has named an editor."""
    return bool(os.environ.get("VISUAL") or os.environ.get("EDITOR"))


def run_editor(path: str, advice: str) -> None:
    """Let the user edit a file. If no editor can be started, the file is removed; `advice` says what else can be done."""
    import shlex
    import subprocess

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not command and not sys.stdin.isatty():
        os.unlink(path)
        raise UserError(f"No editor is configured: set VISUAL or EDITOR, {advice}")
    words = shlex.split(command) or ["notepad" if os.name == "nt" else "vi"]
    try:
        code = subprocess.call([*words, path])
    except OSError as error:
        os.unlink(path)
        raise UserError(f"Cannot start the editor {words[0]}: {error.strerror}. Set VISUAL or EDITOR.") from None
    if code != 0:
        raise UserError(
            f"The editor {words[0]} failed (exit code {code}); nothing was changed. Your text is kept in {path}"
        )


def ask_line(prompt: str, text: str) -> str:
    """A line that the user types or, where the terminal can do it, changes; `text` is what stands there first."""
    try:
        import readline
    except ImportError:
        return input(prompt)
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        return input(prompt)
    finally:
        readline.set_startup_hook(None)


# -- status lines

_DELAY_SECONDS, _INTERVAL_SECONDS = 1.0, 0.1
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class ProgressLine:
    """A status line that is updated as work goes on, at most ten times a second."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._next = time.monotonic() + _DELAY_SECONDS
        self._is_shown = False

    def show(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL_SECONDS
            self._is_shown = True
            self._screen.status(text)

    def clear(self) -> None:
        if self._is_shown:
            self._screen.status("")


class WaitingLine:
    """Shows the name of what is running and its seconds, after the first second, until `stop`."""

    def __init__(self, screen: Screen, name: str, delay_seconds: float = _DELAY_SECONDS) -> None:
        self._screen = screen
        self._name = name
        self._delay_seconds = delay_seconds
        import threading  # only for people who wait

        self._is_over, self._is_shown = threading.Event(), False
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()

    def _show(self) -> None:
        started = time.monotonic()
        while not self._is_over.wait(self._delay_seconds):
            self._is_shown = True
            self._screen.status(f"{self._name} … {time.monotonic() - started:.0f} s")

    def stop(self) -> None:
        """Clear the line. Nothing is shown after this returns."""
        self._is_over.set()
        self._thread.join()
        if self._is_shown:
            self._screen.status("")


# -- log events


class _ScreenStream:
    """A stream for a log handler that prints through `Screen`, which escapes what others wrote."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, text: str) -> None:
        self._screen.line(text.removesuffix("\n"))

    def flush(self) -> None:
        self._screen.flush()


def log_settings(environ: Mapping[str, str], *, verbose: bool, as_json: bool) -> tuple[str, str] | None:
    """Form and level of the log: `SMP_LOG`, `SMP_LOG_LEVEL`, `--verbose` and `--json`. None: nothing is logged."""
    form, level = environ.get("SMP_LOG", ""), environ.get("SMP_LOG_LEVEL", "").upper()
    if form not in ("", "text", "json"):
        raise InvalidConfig(f"SMP_LOG: must be text or json, not {form[:40]!r}.", key="SMP_LOG")
    if level not in ("", *_LEVELS):
        known = ", ".join(_LEVELS)
        raise InvalidConfig(f"SMP_LOG_LEVEL: must be one of {known}, not {level[:40]!r}.", key="SMP_LOG_LEVEL")
    if not (form or level or verbose):
        return None
    return form or ("json" if as_json else "text"), level or ("DEBUG" if verbose else "INFO")


def show_events(form: str, level: str, *, may_color: bool) -> logging.Handler:
    """Print the events of SMP from this level on, as lines (text) or as JSON. No other handler gets them, so each is printed once."""
    import logging

    from smp_memory.observe.json_logging import JsonFormatter

    handler = logging.StreamHandler(_ScreenStream(Screen(sys.stderr, may_color=may_color)))
    handler.setFormatter(
        JsonFormatter() if form == "json" else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    logger = logging.getLogger("smp_memory")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    return handler
