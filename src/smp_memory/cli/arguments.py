"""What does a command take? Its parser, with the global options, and its help from its docstring."""

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

    from smp_memory.cli.invocation import Call


class Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, within reason; left to itself argparse would load shutil to find out."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns
        except (OSError, ValueError):
            columns = 100
        super().__init__(prog, max_help_position=24, width=min(max(columns, 40), 110))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs fit the terminal; what is indented or in columns stays as it is."""
        from textwrap import fill

        paragraphs = text.split("\n\n")
        return "\n\n".join(part if "  " in part else fill(part, width) for part in paragraphs)


class Parser(argparse.ArgumentParser):
    words = ""  # the argument that takes words as they come: `-draft`, too, and whatever stands behind `--`
    without_session = "the one written last"

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.words:
            return super().parse_intermixed_args(args, namespace)
        given = list(args)
        end = given.index("--") if "--" in given else len(given)
        without = [word for word in given[:end] if _excludes(word)]
        options = super().parse_intermixed_args([word for word in given[:end] if not _excludes(word)], namespace)
        setattr(options, self.words, [*getattr(options, self.words), *without, *given[end + 1 :]])
        return options

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:]}.{self._meant(message)} See: {self.prog} --help")

    def _meant(self, message: str) -> str:
        """The option that is nearly the unknown one in a message, as a question; else nothing."""
        from difflib import get_close_matches

        unknown = next((word for word in message.split() if word.startswith("--")), "").partition("=")[0]
        near = get_close_matches(unknown, self._option_string_actions, 1, 0.75) if "unrecognized" in message else []
        return f" Did you mean {near[0]}?" if near else ""


def _excludes(word: str) -> bool:
    """`-draft` is a word that must not be there: no option is longer than a letter after one dash."""
    return word[:1] == "-" and word[1:3].isalnum() and len(word) > 2 and word[1].isalpha()


def parser_of(name: str) -> tuple[Parser, Callable[[Call], int | None]]:
    """The parser of a command and the function that runs it."""
    module = import_module(f"smp_memory.cli.commands.{COMMANDS[name][0]}")
    word = name.replace(" ", "_").replace("-", "_")
    run: Callable[[Call], int | None] = getattr(module, f"run_{word}")
    description, examples = _help_texts(run.__doc__ or COMMANDS[name][1])
    parser = Parser(
        prog=f"smp {name}",
        description=description,
        epilog=examples,
        formatter_class=Help,
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
    group.add_argument("--root", metavar="DIR", help="the store's own folder (SMP_ROOT)")
    group.add_argument(
        "--session", metavar="ID", help=f"the session meant (SMP_SESSION; else {parser.without_session})"
    )
    group.add_argument("--author", metavar="NAME", help="who is writing (SMP_AUTHOR)")
    group.add_argument("--json", action="store_true", help="print one JSON document")
    group.add_argument("--no-color", action="store_true", help="no colour")
    group.add_argument("--verbose", action="store_true", help="log events on standard error (with --json: as JSON)")


# -- values that several commands read


def assignment(text: str) -> tuple[str, Any]:
    """`name=value`; the value is JSON if it can be read as such, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected name=value, not {text!r}")
    if name == "tags" and not value.startswith("["):
        return name, [tag.strip() for tag in value.split(",") if tag.strip()]
    return name, json_or_text(value)


def json_or_text(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are words, not JSON


def count(text: str) -> int:
    """A whole number above nothing."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)
