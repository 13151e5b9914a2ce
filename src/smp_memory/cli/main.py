"""Which command is meant, and what does an error look like?

Guarantees: `--help` and `--version` load neither the store nor argparse. A mistake, a damaged file, a full disk, Ctrl-C
or a closed pipe end in one message on stderr with a stable code and that error's exit code, never in a traceback;
`SMP_DEBUG=1` shows the traceback too. With `--json` the message is a JSON document on stderr, and stdout stays empty.
"""

from __future__ import annotations

import io
import os
import sys

import smp_memory
from smp_memory.cli.commands import COMMANDS, FAMILIES, GROUPS
from smp_memory.errors import MemoryNotFound, SMPError, UserError, from_os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED, CLOSED_PIPE, INTERNAL = 130, 141, 70
_TAKE_A_VALUE = ("--root", "--session", "--author")
_HELP = ("-h", "--help")
_REPORT_PROBLEMS = ("validate", "repair", "doctor")  # their answer names each problem
_OTHER_WORDS = {"search": ["query"], "find": ["query"], "ask": ["query"], "grep": ["query"], "follow": ["watch"]}

_GLOBAL_OPTIONS = """\
Options for every command, before or after it:
  --root DIR        the store's own folder, else SMP_ROOT,
                    else the store in the nearest .bmad upwards
  --session ID      the session meant, else SMP_SESSION, else the one that was
                    written last (query, similar, watch: all of them)
  --author NAME     who is writing, else SMP_AUTHOR
  --json            print one JSON document, exact and complete
  --no-color        no colour (also: NO_COLOR, and when this is no terminal)
  --verbose         log events on standard error (with --json: as JSON)
"""


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"] and "-h" not in words and "--help" not in words:
        from smp_memory.integrations.hooks.entry import main as hook  # called at every prompt: nothing else is loaded

        hook(words[1:])
    if words[:2] == ["git", "merge-driver"] and len(words) == 6:
        from smp_memory.integrations.git.merge_driver import (
            main as merge_driver,  # called by git for every file: nothing else is loaded
        )

        return merge_driver(words[2:])
    _have_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse has printed its help
        return leaving.code if isinstance(leaving.code, int) else 0
    except KeyboardInterrupt:
        return _tell("Interrupted. What was acknowledged is stored.", "E_INTERRUPTED", INTERRUPTED, words)
    except BrokenPipeError:
        _forget_stdout()
        return CLOSED_PIPE
    except Exception as error:
        return _report(error, words)


def _run(words: list[str]) -> int:
    name, rest = split(words)
    if name == "help":
        name, rest = split([*rest, "--help"])
    if not name:
        return _without_command(rest)
    if name in FAMILIES and any(word in _HELP for word in rest):
        print(overview(name), end="")
        return 0
    if name not in COMMANDS:
        raise UserError(_unknown(name), command=name)
    from smp_memory.cli.arguments import parser_of
    from smp_memory.cli.invocation import Call

    parser, run = parser_of(name)
    options = parser.parse_intermixed_args(rest)
    _set_up_log(options)
    with Call(options) as call:
        try:
            code = run(call) or 0
            if name not in _REPORT_PROBLEMS:
                call.tell_of_unreadable()
            return code
        except MemoryNotFound as error:
            raise call.with_hint(error) from error


def _set_up_log(options: Any) -> None:
    if options.verbose:
        from smp_memory.cli.log_output import show_events

        show_events(as_json=options.json, may_color=not options.no_color)


def split(words: list[str]) -> tuple[str, list[str]]:
    """The command, and all the other words: global options may stand on both sides of it."""
    at = _first_plain(words, 0)
    if at == len(words):
        return "", words
    name, rest = words[at], words[:at] + words[at + 1 :]
    if name in FAMILIES:
        more = _first_plain(rest, at)
        if more < len(rest):
            return f"{name} {rest[more]}", rest[:more] + rest[more + 1 :]
    return name, rest


def _first_plain(words: list[str], at: int) -> int:
    """Where the first word stands that is neither an option nor an option's value."""
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _TAKE_A_VALUE else 1
    return min(at, len(words))


def _without_command(words: list[str]) -> int:
    if "--version" in words:
        print(f"smp {smp_memory.__version__}")
    elif not words or any(word in _HELP for word in words):
        print(overview(), end="")
    else:
        raise UserError(f"No command in: smp {' '.join(words)}. See: smp --help")
    return 0


def overview(family: str = "") -> str:
    """All commands, or those of a family, by what one wants to do."""
    lines = [f"usage: smp {family or 'COMMAND'} …", "", "Memories of AI agents, in files that people can read.", ""]
    for title, commands in GROUPS:
        known = [f"  {name:16}  {about}" for name, (_, about) in commands.items() if name.startswith(family)]
        if known:
            lines += [f"{title}:", *known, ""]
    lines += [_GLOBAL_OPTIONS, "`smp COMMAND --help` explains a command, with examples. New here? smp demo"]
    return "\n".join(lines) + "\n"


def _unknown(name: str) -> str:
    family = name.partition(" ")[0]
    if family in FAMILIES:
        known = [command for command in COMMANDS if command.startswith(family + " ")]
        words = [command.partition(" ")[2] for command in known]
        return f"After 'smp {family}' comes {'one of' if len(words) > 1 else 'only'}: {', '.join(words)}."
    import difflib  # rare, and slow to load

    near = _OTHER_WORDS.get(name) or difflib.get_close_matches(name, [*COMMANDS, *FAMILIES], 1)
    return f"Unknown command: {name}. " + (f"Did you mean 'smp {near[0]}'?" if near else "See: smp --help")


# -- errors


def _have_streams() -> None:
    """A shell may start a program with its input or output closed (`>&-`). No file of a store may take its place."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, the one that is missing
            setattr(sys, name, io.StringIO())


def _report(error: Exception, words: list[str]) -> int:
    if os.environ.get("SMP_DEBUG"):
        import traceback

        traceback.print_exc()
    if isinstance(error, OSError):
        _forget_unwritable_stdout()
        error = from_os_error(error, str(error.filename or "the operating system"), "working")
    if isinstance(error, SMPError):
        return _tell(error.message, error.code, error.exit_code, words, error.number, error.details)
    message = (
        f"This should not have happened: {type(error).__name__}: {error}. SMP_DEBUG=1 shows where; please report it."
    )
    return _tell(message, "E_INTERNAL", INTERNAL, words)


def _tell(
    message: str,
    code: str,
    exit_code: int,
    words: list[str],
    number: str | None = None,
    details: dict[str, Any] | None = None,
) -> int:
    from smp_memory.cli.render import Screen

    screen = Screen(sys.stderr, may_color="--no-color" not in words)
    try:
        if "--json" in words:
            known = {"code": code, "number": number, "message": message, "exit_code": exit_code}
            screen.json({"error": {**(details or {}), **known}})
        else:
            screen.error(message, f"{code}, {number}" if number else code)
    except BrokenPipeError:
        pass
    return exit_code


def _forget_unwritable_stdout() -> None:
    """Printing itself may be what failed, on a full disk; what cannot be printed must not fail again at the end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _forget_stdout()


def _forget_stdout() -> None:
    """Nobody reads it any more; Python would complain once more when it flushes at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
