"""A pager for long output on a terminal.

The first screen of lines is kept back; only if there are more is a pager started, with `SMP_PAGER`, `PAGER` or `less`. So short answers
start no program. `less` gets the options `FRX`, unless the variable `LESS` has others, keeps no history file, and opens at the end
of a list whose newest entry is the last.
Guarantees: the pager gets escaped text only, as the terminal would. Whoever quits it early ends the output, not with an error;
Ctrl-C belongs to the pager while it runs. Where no pager can be started, the lines are printed.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
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
