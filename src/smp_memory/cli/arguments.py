"""Argument parsers of the commands: global options, help texts from docstrings, argument types."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from smp_memory.cli.commands import COMMANDS
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from smp_memory.cli.invocation import Invocation


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, at most 110 columns. By default argparse loads shutil to find the width."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns
        except (OSError, ValueError):
            columns = 100
        super().__init__(prog, max_help_position=24, width=min(max(columns, 40), 110))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap paragraphs; keep those that are indented or have columns."""
        from textwrap import fill

        paragraphs = text.split("\n\n")
        return "\n\n".join(part if "  " in part else fill(part, width) for part in paragraphs)


class Parser(argparse.ArgumentParser):
    free_words = ""  # the argument that also takes excluded words (`-draft`) and everything after `--`
    default_session = "the one written last"  # for the help of --session

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.free_words:
            return super().parse_intermixed_args(args, namespace)
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        excluded = [word for word in words[:end] if _is_excluded_word(word)]
        others = [word for word in words[:end] if not _is_excluded_word(word)]
        options = super().parse_intermixed_args(others, namespace)
        setattr(options, self.free_words, [*getattr(options, self.free_words), *excluded, *words[end + 1 :]])
        return options

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:]}.{self._suggestion(message)} See: {self.prog} --help")

    def _suggestion(self, message: str) -> str:
        """A question that names the option most similar to the unknown one; empty if there is none."""
        from difflib import get_close_matches

        unknown = next((word for word in message.split() if word.startswith("--")), "").partition("=")[0]
        near = get_close_matches(unknown, self._option_string_actions, 1, 0.75) if "unrecognized" in message else []
        return f" Did you mean {near[0]}?" if near else ""


def _is_excluded_word(word: str) -> bool:
    """Whether it is a word to exclude, such as `-draft`: options with one dash have one letter only."""
    return word[:1] == "-" and word[1:3].isalnum() and len(word) > 2 and word[1].isalpha()


def build_parser(name: str) -> tuple[Parser, Callable[[Invocation], int | None]]:
    """The parser of a command, and the function that runs it."""
    module = import_module(f"smp_memory.cli.commands.{COMMANDS[name][0]}")
    word = name.replace(" ", "_").replace("-", "_")
    run: Callable[[Invocation], int | None] = getattr(module, f"run_{word}")
    description, examples = _help_texts(run.__doc__ or COMMANDS[name][1])
    parser = Parser(
        prog=f"smp {name}",
        description=description,
        epilog=examples,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    getattr(module, f"{word}_arguments")(parser)
    _add_global_options(parser)
    return parser, run


def _help_texts(docstring: str) -> tuple[str, str]:
    text = "\n".join(line.removeprefix("    ") for line in docstring.strip().split("\n"))
    description, mark, examples = text.partition("Examples:")
    return description.strip(), (mark + examples).rstrip()


def _add_global_options(parser: Parser) -> None:
    group = parser.add_argument_group("options for every command")
    group.add_argument("--root", metavar="DIR", help="the folder of the store (SMP_ROOT)")
    group.add_argument("--session", metavar="ID", help=f"the session (SMP_SESSION; else {parser.default_session})")
    group.add_argument("--author", metavar="NAME", help="who is writing (SMP_AUTHOR)")
    group.add_argument("--json", action="store_true", help="print one JSON document")
    group.add_argument("--no-color", action="store_true", help="no colour")
    group.add_argument("--verbose", action="store_true", help="log events on standard error (with --json: as JSON)")


# -- argument types and texts that several commands use

ID_HELP = "DEC-0001, or session/DEC-0001 for a memory of another session"


def parse_assignment(text: str) -> tuple[str, Any]:
    """`name=value`; the value is JSON if it is valid JSON, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected name=value, not {text!r}")
    if name == "tags" and not value.startswith("["):
        return name, [tag.strip() for tag in value.split(",") if tag.strip()]
    return name, parse_json_or_text(value)


def parse_json_or_text(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON: they are text


def positive_int(text: str) -> int:

    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)
