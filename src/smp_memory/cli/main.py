"""Entry point of the command `smp`: select and run a command, turn errors into messages and exit codes.

Guarantees: `--help`, `--version` and `smp` alone load neither the store nor argparse. A mistake, a damaged file, a full disk, Ctrl-C
or a closed pipe ends in one message on stderr with a stable code and that error's exit code, never in a traceback;
`SMP_DEBUG=1` shows the traceback, too. With `--json` the message is a JSON document on stderr, and stdout stays empty.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

import smp_memory
from smp_memory.cli.commands import COMMANDS, EVERYDAY, FAMILIES, GROUPS
from smp_memory.errors import MemoryNotFound, SMPError, UserError, from_os_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

INTERRUPTED, CLOSED_PIPE, INTERNAL = 130, 141, 70
_OPTIONS_WITH_VALUE = ("--root", "--session", "--author")
_FLAGS = ("--json", "--no-color", "--no-pager", "--verbose")
_HELP = ("-h", "--help")
_REPORT_PROBLEMS = ("validate", "repair", "doctor")  # their answer names each problem
_LASTING = (
    "watch",
    "mcp",
    "hook",
    "macp",
    "demo",
    "edit",
    "git merge-driver",
)  # they wait for others, or show their own progress
_SERVERS = ("mcp", "web")  # they end as Python ends: their libraries have threads and exit handlers of their own
_FEW_OBJECTS = 100_000  # new objects until garbage is collected: a command is over before
_SYNONYMS = {"search": ["query"], "find": ["query"], "ask": ["query"], "grep": ["query"], "follow": ["watch"]}

_GLOBAL_OPTIONS = """\
Options for every command, before or after it:
  --root DIR        the folder or address of the store, else SMP_ROOT,
                    else the nearest store upwards from here
  --session ID      the session, else SMP_SESSION; without it, commands that
                    read or search use all sessions, and those that write use
                    the session written last
  --author NAME     who is writing, else SMP_AUTHOR
  --json            print one JSON document, exact and complete
  --no-color        no colour (also: NO_COLOR, and if the output is no terminal)
  --no-pager        do not show long output in a pager (SMP_PAGER, PAGER, less)
  --verbose         log events on standard error (with --json: as JSON)
"""
_TITLE = "Memory for AI agents, in files that people can read."


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["hook"] and "-h" not in words and "--help" not in words:
        from smp_memory.integrations.hooks.entry_point import (
            main as hook,  # called at every prompt: nothing else is loaded
        )

        hook(words[1:])
    if words[:1] == ["__complete"]:
        from smp_memory.cli.completion import main as complete  # called at every press of the tab key: nothing else

        return complete(words[1:])
    if words[:2] == ["git", "merge-driver"] and len(words) == 6:
        from smp_memory.git.merge_driver import main as merge_driver  # called for every file: nothing else

        return merge_driver(words[2:])
    _replace_closed_streams()
    if argv is None:
        gc.set_threshold(_FEW_OBJECTS)
        _write_whole_texts()
    try:
        code = _run(words)
        sys.stdout.flush()
        if argv is None and split(words)[0] not in _SERVERS and not (sys.getprofile() or sys.gettrace()):
            _end(code)
        return code
    except SystemExit as end:  # argparse has printed its help
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        message = "Interrupted. All acknowledged writes are stored."
        return _print_error(message, "E_INTERRUPTED", INTERRUPTED, words)
    except BrokenPipeError:
        _discard_stdout()
        return CLOSED_PIPE
    except Exception as error:
        return _report_error(error, words)


def _end(code: int) -> NoReturn:
    """End the process without taking the interpreter apart, which would take a sixth of the time.

    The store is closed and standard output is flushed by now. Functions registered for the exit are called.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    name, rest = split(words)
    if name == "help":
        if rest[:1] == ["all"]:
            _print_help(overview())
            return 0
        name, rest = split([*rest, "--help"])
    if not name or name == "version":
        return _run_without_command([*rest, "--version"] if name else rest)
    if name in FAMILIES and any(word in _HELP for word in rest):
        _print_help(overview(name))
        return 0
    if name not in COMMANDS:
        raise UserError(_unknown_command(name), command=name)
    from smp_memory.cli.arguments import build_parser
    from smp_memory.cli.invocation import Invocation

    parser, run = build_parser(name)
    options = parser.parse_intermixed_args(rest)
    if parser.is_about_store and options.session:
        raise UserError(_about_store(f"smp {name}"))
    _set_up_log(options)
    with Invocation(options, name) as call:
        try:
            if name not in _LASTING:
                call.start_waiting()
            code = run(call) or 0
            if name not in _REPORT_PROBLEMS:
                call.notify_unreadable()
            return code
        except MemoryNotFound as error:
            raise call.add_hint(error) from error


def _about_store(command: str) -> str:
    return f"{command} is about the whole store and takes no --session."


def _set_up_log(options: Any) -> None:
    if not (options.verbose or os.environ.get("SMP_LOG") or os.environ.get("SMP_LOG_LEVEL")):
        return
    from smp_memory.cli.terminal import log_settings, show_events

    chosen = log_settings(os.environ, verbose=options.verbose, as_json=options.json)
    if chosen is not None:
        show_events(*chosen, may_color=not options.no_color)


def split(words: list[str]) -> tuple[str, list[str]]:
    """The command, and all the other words: global options may come before or after it."""
    at = _first_argument(words, 0)
    if at == len(words):
        return "", words
    name, rest = words[at], words[:at] + words[at + 1 :]
    if name in FAMILIES:
        second = _first_argument(rest, at)
        if second < len(rest):
            return f"{name} {rest[second]}", rest[:second] + rest[second + 1 :]
    return name, rest


def _first_argument(words: list[str], at: int) -> int:
    """The index of the first word from `at` on that is neither an option nor an option's value."""
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _OPTIONS_WITH_VALUE else 1
    return min(at, len(words))


def _run_without_command(words: list[str]) -> int:
    if "--version" in words:
        print(f"smp {smp_memory.__version__}")
    elif any(word in _HELP for word in words):
        _print_help(everyday_overview())
    elif _are_global_options(words):
        if any(word.partition("=")[0] == "--session" for word in words):
            raise UserError(_about_store("smp alone"))
        from smp_memory.cli.commands.status import show_status

        show_status(words)
    else:
        raise UserError(_unknown_option(next(word for word in words if word.startswith("-"))))
    return 0


def _unknown_option(option: str) -> str:
    if option in _OPTIONS_WITH_VALUE:
        return f"{option} needs a value. See: smp --help"
    import difflib  # rare, and slow to load

    known = ["--help", "--version", *_OPTIONS_WITH_VALUE, *_FLAGS]
    near = [each for each in known if each.startswith(option)] or difflib.get_close_matches(option, known, 1)
    return f"Unknown option: {option}. " + (f"Did you mean {near[0]}?" if near else "See: smp --help")


def _are_global_options(words: list[str]) -> bool:
    at = 0
    while at < len(words):
        if words[at] in _OPTIONS_WITH_VALUE and at + 1 < len(words):
            at += 2
        elif words[at] in _FLAGS or ("=" in words[at] and words[at].partition("=")[0] in _OPTIONS_WITH_VALUE):
            at += 1
        else:
            return False
    return True


def everyday_overview() -> str:
    """The commands that people use every day, and where to find the others."""
    lines = ["usage: smp [COMMAND] …", "", _TITLE, ""]
    lines += ["`smp` alone shows the store, what it holds and what to do next.", ""]
    lines += [*map(_line, EVERYDAY), ""]
    others = len(COMMANDS) - len(EVERYDAY)
    lines += [f"`smp help all` lists {others} more, `smp help COMMAND` explains one, with examples.", ""]
    lines += [_GLOBAL_OPTIONS, "New here? smp demo"]
    return "\n".join(lines) + "\n"


def overview(family: str = "") -> str:
    """The list of all commands, or of those of a family, in groups."""
    lines = [f"usage: smp {family or 'COMMAND'} …", "", _TITLE, ""]
    for title, commands in GROUPS:
        known = [_line(name) for name in commands if not family or name.startswith(family + " ")]
        if known:
            lines += [f"{title}:", *known, ""]
    lines += [_GLOBAL_OPTIONS, "`smp help COMMAND` explains a command, with examples. New here? smp demo"]
    return "\n".join(lines) + "\n"


def _print_help(text: str) -> None:
    from smp_memory.cli.render import print_help

    print_help(text)


def _line(name: str) -> str:
    return f"  {name:16}  {COMMANDS[name][1]}"


def _unknown_command(name: str) -> str:
    family = name.partition(" ")[0]
    if family in FAMILIES:
        known = [command for command in COMMANDS if command.startswith(family + " ")]
        words = [command.partition(" ")[2] for command in known]
        problem = f"Unknown command: {name}." if " " in name else f"'smp {name}' needs a subcommand."
        return f"{problem} Subcommands: {', '.join(words)}."
    import difflib  # rare, and slow to load

    near = _SYNONYMS.get(name) or difflib.get_close_matches(name, [*COMMANDS, *FAMILIES, "version"], 1)
    return f"Unknown command: {name}. " + (f"Did you mean 'smp {near[0]}'?" if near else "See: smp --help")


# -- errors


def _replace_closed_streams() -> None:
    """Open streams that the shell closed (`>&-`), so that no file of a store gets their descriptor."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, the missing one
            setattr(sys, name, io.StringIO())


def _write_whole_texts() -> None:
    """Buffer the output although PYTHONUNBUFFERED is set: Python would not repeat a write that was cut short."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        buffered = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(buffered, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)


def _report_error(error: Exception, words: list[str]) -> int:
    if os.environ.get("SMP_DEBUG"):
        import traceback

        traceback.print_exc()
    if isinstance(error, OSError):
        _discard_unwritable_stdout()
        error = from_os_error(error, str(error.filename or "the operating system"), "working")
    if isinstance(error, SMPError):
        return _print_error(error.message, error.code, error.exit_code, words, error.number, error.details)
    message = f"Internal error: {type(error).__name__}: {error}. SMP_DEBUG=1 shows the traceback; please report it."
    return _print_error(message, "E_INTERNAL", INTERNAL, words)


def _print_error(
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
            fields = {"code": code, "number": number, "message": message, "exit_code": exit_code}
            screen.json({"error": {**(details or {}), **fields}})
        else:
            screen.error(message, f"{code}, {number}" if number else code)
    except BrokenPipeError:
        pass
    return exit_code


def _discard_unwritable_stdout() -> None:
    """Discard stdout if it cannot be written (a full disk), so that the flush at exit does not fail again."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard_stdout()


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
