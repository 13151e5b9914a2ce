"""Candidates for the completion of a command line, printed by the hidden command `smp __complete SHELL WORD…`.

The last word is the one at the cursor, and may be empty. Each line is a candidate; for zsh and fish a tab and a description follow.
Without a candidate nothing is printed, and the shell completes file names.
Guarantees: it never fails and never prints an error; the exit code is 0. No memory is written. A store in files is not opened: ids come
from the index as it is, session names from their folders; any other store is opened and asked. A name with a character that could control a terminal or mean something to
the shell is left out.
Speed: commands are completed from their table; the parser of a command is built only for its options and arguments.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.commands import COMMANDS, FAMILIES
from smp_memory.model.ids import scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.memory import Memory

    Candidates = Iterable[tuple[str, str]]  # word, description

_MAX_IDS = 100
_VALUE_OPTIONS = ("--root", "--session", "--author")
_SESSION_COMMANDS = ("session show", "session archive", "session delete", "session restore", "session erase")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,@+%:")


def main(words: list[str]) -> int:
    """Print the candidates. The first word is the shell."""
    try:
        shell, *line = words
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a description may not fit the locale
        option = _option_at_cursor(line[-1]) if line else ""
        found = [(option + word, about) for word, about in candidates(line or [""]) if word and _PLAIN.issuperset(word)]
        print("".join(f"{word}\n" if shell == "bash" else f"{word}\t{about}\n" for word, about in found), end="")
        sys.stdout.flush()
    except BaseException:  # noqa: S110 - an error would end up in the middle of the user's command line
        pass
    return 0


def candidates(line: list[str]) -> Iterator[tuple[str, str]]:
    """What may stand in the place of the last word."""
    *before, current = _without_equals_signs(line)
    command, rest = _command_in(before)
    previous = before[-1] if before else ""
    if previous == "--session" or (current.startswith("--session=") and command == ""):
        yield from _matching(_sessions(before), current)
    elif command == "" or command in FAMILIES:
        if previous not in _VALUE_OPTIONS:
            yield from _matching(_commands(command, current), current)
    elif command in ("help", "help all"):
        yield from _matching(_commands(" ".join(rest), current, for_help=True), current)
    else:
        yield from _matching(_arguments_of(command, rest, before, current), current)


def _option_at_cursor(word: str) -> str:
    """`--session=` of the word `--session=ch`: zsh and fish complete it as a whole, while bash splits it at the sign."""
    name, sign, _ = word.partition("=")
    return name + sign if sign and name.startswith("--") else ""


def _without_equals_signs(line: list[str]) -> list[str]:
    """Bash splits `--session=x` at the sign; here it becomes `--session x`."""
    words: list[str] = []
    for at, word in enumerate(line):
        if word == "=" and words and words[-1].startswith("--"):
            if at == len(line) - 1:
                words.append("")
        elif word.startswith("--") and "=" in word and at == len(line) - 1:
            words += word.split("=", 1)
        else:
            words.append(word)
    return words or [""]


def _command_in(before: list[str]) -> tuple[str, list[str]]:
    """The command in the words before the cursor, or the family, or an empty text; and the words after it."""
    at = _next_word(before, 0)
    if at >= len(before):
        return "", []
    name, rest = before[at], before[at + 1 :]
    if name in FAMILIES:
        second = _next_word(rest, 0)
        if second >= len(rest):
            return name, rest
        name, rest = f"{name} {rest[second]}", rest[second + 1 :]
    return name, rest


def _next_word(words: list[str], at: int) -> int:
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUE_OPTIONS else 1
    return at


def _matching(found: Candidates, current: str) -> Iterator[tuple[str, str]]:
    return ((word, about) for word, about in found if word.startswith(current))


# -- commands


def _commands(family: str, current: str, *, for_help: bool = False) -> Iterator[tuple[str, str]]:
    if current.startswith("-"):
        yield from _GLOBAL_OPTIONS
    elif family:
        yield from (
            (name.partition(" ")[2], about) for name, (_, about) in COMMANDS.items() if name.startswith(family + " ")
        )
    else:
        yield from ((name, about) for name, (_, about) in COMMANDS.items() if " " not in name)
        yield from ((name, f"{name} …") for name in sorted(FAMILIES))
        yield ("all", "List all commands") if for_help else ("help", "Explain a command")


_GLOBAL_OPTIONS = (
    ("--root", "the folder or address of the store"),
    ("--session", "the session"),
    ("--author", "who is writing"),
    ("--json", "print one JSON document"),
    ("--no-color", "no colour"),
    ("--no-pager", "do not show long output in a pager"),
    ("--verbose", "log events on standard error"),
    ("--help", "explain it"),
    ("--version", "print the version"),
)


# -- options and arguments


def _arguments_of(command: str, rest: list[str], before: list[str], current: str) -> Iterator[tuple[str, str]]:
    from smp_memory.cli.arguments import build_parser

    parser = build_parser(command)[0]
    positionals: list[str] = []
    pending: Action | None = None
    for word in rest:
        if pending is not None:
            pending = None
        elif word.startswith("-") and len(word) > 1:
            action = parser._option_string_actions.get(word.partition("=")[0])
            pending = action if action is not None and action.nargs != 0 and "=" not in word else None
        else:
            positionals.append(word)
    if pending is not None:
        yield from _values(command, pending, before, current)
    elif current.startswith("-"):
        yield from _options(parser)
    else:
        action = _positional(parser, len(positionals))
        if action is not None:
            yield from _values(command, action, before, current)


def _options(parser: Parser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if action.help != "==SUPPRESS==":
            for option in action.option_strings:
                if option.startswith("--"):
                    yield option, (action.help or "").partition(";")[0]


def _positional(parser: Parser, number: int) -> Action | None:
    actions = parser._get_positional_actions()
    if number < len(actions):
        return actions[number]
    return actions[-1] if actions and actions[-1].nargs in ("*", "+") else None


def _values(command: str, action: Action, before: list[str], current: str) -> Iterator[tuple[str, str]]:
    """The values of an option or an argument, as far as they are known."""
    if action.choices is not None:
        yield from ((str(choice), "") for choice in action.choices)
    elif action.dest == "session" or (action.dest == "id" and command in _SESSION_COMMANDS):
        yield from _sessions(before, with_archived=command == "session restore")
    elif action.dest in _VALUES:
        yield from _VALUES[action.dest]()
    elif action.dest in _ID_DESTS and (command, action.dest) not in _NEW_IDS:
        yield from _ids(before, current)


_ID_DESTS = ("id", "ids", "source", "target", "memory", "related_to", "references")
_NEW_IDS = (("add", "id"), ("session new", "id"))


def _types() -> Iterator[tuple[str, str]]:
    from smp_memory.model.types import KINDS

    for name, kind in KINDS.items():
        yield (kind.noun if kind.noun in kind.other_names else name), ""


def _severities() -> Iterator[tuple[str, str]]:
    from smp_memory.model.types import SEVERITIES

    return ((name, "") for name in SEVERITIES)


def _settings() -> Iterator[tuple[str, str]]:
    from smp_memory.config.settings import SETTINGS

    return ((setting.path, setting.doc) for setting in SETTINGS)


_VALUES: dict[str, Callable[[], Candidates]] = {
    "type": _types,
    "types": _types,
    "severity": _severities,
    "setting": _settings,
}


# -- what the store holds


def _value_of(option: str, variable: str, words: list[str]) -> str | None:
    """The value of a global option in the words before the cursor, or of its environment variable."""
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else os.environ.get(variable) or None


def _root(words: list[str]) -> str | None:
    from smp_memory.discovery import absolute, discovery

    named = _value_of("--root", "SMP_ROOT", words)
    if named:
        return absolute(os.path.expanduser(named))
    found = discovery(os.getcwd())
    return found.root if found.is_ours else None


def _sessions(words: list[str], *, with_archived: bool = False) -> Iterator[tuple[str, str]]:
    root = _root(words)
    if root is not None:
        yield from ((name, state) for name, state in _session_names(root) if with_archived or state == "session")


def _session_names(root: str) -> list[tuple[str, str]]:
    if not scheme_of(root):
        from smp_memory.store.opening import session_names

        return session_names(root)
    with _opened(root) as memory:
        found = {head.session: "session" for head in memory.store.sessions()}
        for state, sessions in (("archived", memory.archived_sessions()), ("deleted", memory.deleted_sessions())):
            for each in sessions:
                found.setdefault(each.session, state)
    return list(found.items())


def _memory_ids(root: str, prefix: str, session: str | None, limit: int) -> list[tuple[str, str]]:
    if not scheme_of(root):
        from smp_memory.store.opening import memory_ids

        return memory_ids(root, prefix, session, limit)
    with _opened(root) as memory:
        scope = memory.opened_session(session) if session else memory
        hits = scope.query(sort="newest", limit=10 * limit, include_expired=True, track_access=False)
        found = [(record.session, record.id) for record in hits.records if record.id.startswith(prefix)]
    return found[:limit]


def _opened(address: str) -> Memory:
    """A store that is not in files, opened for a look."""
    from smp_memory.memory import open_memory

    return open_memory(address, create=False, trust=False, config={"maintenance": {"auto": False}})


def _ids(words: list[str], current: str) -> Iterator[tuple[str, str]]:
    root, named = _root(words), _value_of("--session", "SMP_SESSION", words)
    if root is None:
        return
    session, slash, prefix = current.rpartition("/")
    found = _memory_ids(root, prefix if slash or named else "", session if slash else named, _MAX_IDS)
    sessions = {name for name, _ in found}
    if slash:
        yield from ((f"{name}/{memory_id}", "") for name, memory_id in found)
    elif named or len(sessions) == 1:
        yield from ((memory_id, name) for name, memory_id in found)
    else:
        yield from ((f"{name}/{memory_id}", "") for name, memory_id in found)
        yield from _unique_ids(root, current)


def _unique_ids(root: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Ids without their session that only one session has."""
    holders: dict[str, list[str]] = {}
    for name, memory_id in _memory_ids(root, prefix, None, 10 * _MAX_IDS) if prefix else ():
        holders.setdefault(memory_id, []).append(name)
    yield from ((memory_id, names[0]) for memory_id, names in holders.items() if len(names) == 1)
