"""Argument parsers of the commands: global options, help texts from docstrings, argument types, the options of a query."""

from __future__ import annotations

import argparse
import os

from smp_memory.cli.commands import COMMANDS
from smp_memory.errors import UserError
from smp_memory.import_lock import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from smp_memory.cli.invocation import Invocation
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hits
    from smp_memory.session import SessionMemory

    QueryOptions = dict[str, Any]  # keyword arguments of `query`
    Search = Callable[[Memory | SessionMemory, QueryOptions], Hits]


# All help is in English. argparse would look for translations of its own words, which takes as long as all other work on the options.
argparse._ = str  # type: ignore[attr-defined]


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
    is_about_store = False  # a command about the whole store: --session is rejected, SMP_SESSION has no effect
    names_sessions = False  # it has a --session of its own, for any number of them

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

    def print_help(self, file: Any = None) -> None:
        from smp_memory.cli.render import print_help

        print_help(self.format_help())

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
    module = loaded(f"smp_memory.cli.commands.{COMMANDS[name][0]}")
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
    group.add_argument("--root", metavar="DIR", help="the folder or address of the store (SMP_ROOT)")
    session = f"the session (SMP_SESSION; else {parser.default_session})"
    if not parser.names_sessions:
        group.add_argument("--session", metavar="ID", help=argparse.SUPPRESS if parser.is_about_store else session)
    group.add_argument("--author", metavar="NAME", help="who is writing (SMP_AUTHOR)")
    group.add_argument("--json", action="store_true", help="print one JSON document")
    group.add_argument("--no-color", action="store_true", help="no colour")
    group.add_argument("--no-pager", action="store_true", help="do not show long output in a pager")
    group.add_argument("--verbose", action="store_true", help="log events on standard error (with --json: as JSON)")


# -- argument types and texts that several commands use

ID_HELP = "DEC-0001, or session/DEC-0001 if several sessions have this id"


def add_scope(parser: Parser) -> None:
    """The scope of a command that reads: all sessions, unless one is named."""
    parser.default_session = "all of them"
    parser.add_argument("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


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


# -- the options of a query

_SORTS = ("relevance", "newest", "oldest", "priority", "importance")
_MODES = ("default", "weighted", "product")
_COUNTABLE = "type, tag, agent, day, month, session, topic"

# Keyword arguments of `query` that restrict its results -> their options.
_RESTRICTIONS = {
    "types": "--type",
    "tags": "--tag",
    "all_tags": "--all-tags",
    "not_tags": "--not-tag",
    "agents": "--agent",
    "topic": "--topic",
    "time": "--time",
    "since": "--since",
    "until": "--until",
    "where": "--where",
    "pinned": "--pinned",
    "min_priority": "--min-priority",
    "min_relevance": "--min-relevance",
    "min_importance": "--min-importance",
    "min_confidence": "--min-confidence",
    "include_decayed": "--no-decayed",
    "related_to": "--related-to",
    "references": "--references",
    "offset": "--offset",
}
_RELAXED_LIMIT = 100


def add_words(parser: Parser) -> None:
    parser.free_words = "words"
    parser.default_session = "all of them"
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="what to search for, in your own words; rare words count most"
    )


def add_filters(parser: Parser) -> None:
    """The options that filter memories, of all sessions unless one is named."""
    parser.default_session = "all of them"
    add = parser.add_argument_group("which memories").add_argument
    add("--type", action="extend", type=_names, dest="types", metavar="TYPE", help="only this type: decision, finding, …; repeat for more")  # fmt: skip
    add("--tag", action="extend", type=_names, dest="tags", metavar="TAG", help="only with this tag or a tag below it; repeat: any of them may match")  # fmt: skip
    add("--all-tags", action="store_true", help="all of the tags must match, not any of them")
    add("--not-tag", action="extend", type=_names, dest="not_tags", metavar="TAG", help="only without this tag")
    add("--agent", action="append", dest="agents", metavar="NAME", help="only by this author; repeat for more")
    add("--topic", help="only with this topic, or with a tag of this name")
    add("--time", metavar="WHEN", help='"last 24 hours", yesterday, "since monday", 2026-01, 2026-01-05..2026-01-10')
    add("--since", metavar="WHEN", help="from then on")
    add("--until", metavar="WHEN", help="up to then, that day included")
    add("--where", action="append", metavar="CONDITION", help="severity=critical, 'impact.score>3', tags~auth, status!=open, evidence?; repeat: all must match")  # fmt: skip
    add("--pinned", action="store_true", default=None, help="only pinned memories")
    add("--min-priority", type=float, metavar="N", help="from 0 to 1: only with at least this priority")
    add("--min-importance", type=float, metavar="N", help="from 0 to 1")
    add("--min-confidence", type=_number_or_word, metavar="N", help="from 0 to 1, or a word such as high")
    add("--no-decayed", action="store_false", default=None, dest="include_decayed", help="leave out faded memories")
    add("--include-deleted", action="store_true", default=None, help="also deleted memories")
    add(
        "--include-expired",
        action="store_true",
        default=None,
        help="also memories that are expired or not valid yet",
    )
    add(
        "--include-archived",
        action="store_true",
        default=None,
        help="also compacted memories, and those of archived sessions",
    )
    add("--related-to", action="append", metavar="ID", help="only memories that are related to this one")
    add("--references", action="append", metavar="ID", help="only memories that refer to this one")
    add_relation_options(add)
    add("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def add_relation_options(add: Any, used_by: str = "for --related-to and --include-related: ") -> None:
    add("--depth", type=int, metavar="N", help=f"{used_by}the largest number of steps (default: 1)")
    add("--kind", action="extend", type=_names, dest="kinds", metavar="KIND", help=f"{used_by}only this kind of relation; repeat for more")  # fmt: skip


def add_result_options(parser: Parser) -> None:
    """The options for order, number and details of the results."""
    add = parser.add_argument_group("the answer").add_argument
    add("--sort", choices=_SORTS, help="the order (default: relevance with words, else newest)")
    add(
        "--limit", type=int, default=10, metavar="N", help="the largest number of results (default: 10; 0: only counts)"
    )
    add("--offset", type=int, metavar="N", help="skip the first N results: the next page")
    add("--min-relevance", type=float, metavar="N", help="from 0 to 1")
    add("--include-related", action="store_true", default=None, help="show related memories with each result")
    add("--count-by", action="extend", type=_names, metavar="WHAT", help=f"count all matches by {_COUNTABLE}")
    add("--mode", choices=_MODES, help="how relevance is computed (default: default)")
    add("--explain", action="store_true", help="show how the relevance of each result is computed")


def _names(text: str) -> list[str]:
    """Split at commas: `decision,finding` is two names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


_ARGUMENTS = (*_RESTRICTIONS, "include_deleted", "include_expired", "include_archived", "include_related", "depth", "kinds", "sort", "limit", "count_by", "mode")  # fmt: skip


def words_from(call: Invocation) -> str:
    return " ".join(call.options.words)


def query_from(call: Invocation) -> QueryOptions:
    """The query that the options form, without its words."""
    options = call.options
    query: QueryOptions = {name: getattr(options, name, None) for name in _ARGUMENTS}
    query["all_tags"] = options.tags if options.all_tags else None
    query["tags"] = None if options.all_tags else options.tags
    for name in ("related_to", "references"):
        if query[name]:
            query[name] = [call.record(each, include_deleted=True).ref for each in query[name]]
    return {name: value for name, value in query.items() if value is not None}


def relaxed_counts(call: Invocation, query: QueryOptions, search: Search, words: str) -> Iterator[tuple[str, str]]:
    """For a query without results: each option without which there are some, and their number."""
    scope, plain = call.scope, {**query, "limit": _RELAXED_LIMIT, "track_access": False, "count_by": None}
    attempts = [
        (option, search, scope, {**plain, name: None}) for name, option in _RESTRICTIONS.items() if name in query
    ]
    if scope is not call.memory:
        attempts.append(("--session", search, call.memory, plain))
    if words and attempts:
        attempts.append(("the words", _search_without_words, scope, plain))
    results = [(option, run(where, relaxed)) for option, run, where, relaxed in attempts]
    if len(attempts) > 1 and not any(hits for _, hits in results):
        results = [("any option", search(call.memory, {**plain, **dict.fromkeys(_RESTRICTIONS)}))]
    for option, hits in results:
        if hits:
            yield option, f"{len(hits):,} or more" if hits.more else f"{len(hits):,}"


def _search_without_words(scope: Memory | SessionMemory, query: QueryOptions) -> Hits:
    return scope.query(**query)
