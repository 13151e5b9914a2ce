"""Writes docs/reference/ and docs/adr/README.md from the code and the records: `python docs/make_reference.py`.

- `reference/api.md`: every public class and method with signature and docstring, by introspection, and every error;
- `reference/cli.md`: every command with its options and examples, from its parser;
- `adr/README.md`: the list of the architecture decision records.

`tests/test_docs.py` fails when one of them is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))  # the code beside these docs, installed or not

import smp_memory  # noqa: E402
from smp_memory import errors  # noqa: E402
from smp_memory.cli.arguments import build_parser  # noqa: E402
from smp_memory.cli.commands import GROUPS  # noqa: E402
from smp_memory.global_memory import GlobalMemory  # noqa: E402
from smp_memory.model import options  # noqa: E402
from smp_memory.model.candidates import Hit, Hits  # noqa: E402
from smp_memory.model.record import Records  # noqa: E402
from smp_memory.search.records import Snapshot  # noqa: E402

_NOTE = "<!-- Made by docs/make_reference.py from the code. Do not edit. -->\n"

# -- the API

_CLASSES: list[tuple[type, str]] = [
    (smp_memory.Memory, "A store"),
    (smp_memory.SessionMemory, "A session"),
    (smp_memory.Transaction, "Several writes at once"),
    (smp_memory.Record, "A memory"),
    (Records, "A list of memories"),
    (Hits, "The answer to a query"),
    (Hit, "One search result"),
    (Snapshot, "A session at a time in the past"),
    (smp_memory.Context, "Memories for a prompt"),
    (smp_memory.AgentMemory, "A session as one agent sees it"),
    (GlobalMemory, "What holds in all sessions"),
    (smp_memory.Party, "Several agents in one session"),
    (smp_memory.Workflow, "Memory declarations of a workflow"),
    (smp_memory.ContextManager, "MACP"),
    (smp_memory.Placeholders, "Names replaced in exports"),
]
_OPTIONS = ["QueryOptions", "Criteria", "CommonFields", "TurnFields", "DecisionFields", "FindingFields", "PreferenceFields", "ArtifactFields", "LearningFields"]  # fmt: skip
_FALLBACK = (smp_memory.SessionMemory, smp_memory.Memory)  # an agent's methods are those of a session


def api_page() -> str:
    """Every public class: docstring, then each method with signature and docstring."""
    parts = [
        "# Python reference\n",
        _NOTE,
        "Signatures and docstrings, from the code. [The guide](../guides/python.md) explains them by task.\n",
        " · ".join(f"[{kind.__name__}](#{kind.__name__.lower()})" for kind, _ in _CLASSES)
        + " · [Options and fields](#options-and-fields) · [Errors](#errors)\n",
        "## smp_memory.open\n",
        *_member("smp_memory.open", smp_memory.open),
    ]
    for kind, what in _CLASSES:
        parts += [f"## {kind.__name__}\n", f"{_text(inspect.getdoc(kind) or f'{what}.')}\n"]
        for name, member in _members(kind):
            parts += [f"### {kind.__name__}.{name}\n", *_member(name, member)]
    parts += ["## Options and fields\n", "What `**options` and `**fields` of the methods above take.\n"]
    for name in _OPTIONS:
        parts += _typed_dict(name)
    parts += [
        "## Errors\n",
        "What the operating system or the index raises is mapped to one of these. `error.code`, `error.number` and `error.exit_code` never change their "
        "meaning. `error.details` and attributes of the same names (`session`, `path`, `field`, `limit`, …) say what the message says. Errors can be pickled.\n",
        errors_table(),
        "The command line has three more exit codes: 130 (`E_INTERRUPTED`, Ctrl-C), 70 (`E_INTERNAL`, a bug), and 141 without a message when nobody reads its "
        "output any more.\n",
    ]
    return "\n".join(parts).rstrip() + "\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of SMP's own classes, in the order of the source."""
    seen: set[str] = set()
    for each in kind.__mro__:
        if not each.__module__.startswith("smp_memory"):
            continue
        for name, member in vars(each).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member):
                yield name, member


def _member(name: str, member: Any) -> list[str]:
    function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
    text = inspect.getdoc(function) or next((doc for doc in _inherited(name) if doc), "")
    if isinstance(member, property):
        shown = f"{name}: {_plain(inspect.signature(function).return_annotation)}"
    else:
        shown = _signature(name, function)
    return [f"```text\n{shown}\n```\n", *_paragraphs(text)]


def _inherited(name: str) -> Iterator[str]:
    for kind in _FALLBACK:
        if text := inspect.getdoc(getattr(kind, name, None)):
            yield f"As `{kind.__name__}.{name}`: {text[:1].lower()}{text[1:]}" if not text.startswith("`") else text


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown: list[str] = []
    star = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        star = star or each.kind is each.VAR_POSITIONAL
        shown.append(_parameter(each))
    answer = _plain(signature.return_annotation)
    line = f"{name}({', '.join(shown)}) -> {answer}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f") -> {answer}"


def _parameter(each: inspect.Parameter) -> str:
    name = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
    typed = f"{name}: {_plain(each.annotation)}" if each.annotation is not each.empty else name
    return typed if each.default is each.empty else f"{typed} = {each.default!r}"


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return "None" if text in ("NoneType", "_empty") else re.sub(r"Unpack\[(\w+)\]", r"\1", text)


def _typed_dict(name: str) -> Iterator[str]:
    kind = getattr(options, name)
    yield f"### {name}\n"
    if kind.__doc__:
        yield f"{_text(inspect.cleandoc(kind.__doc__))}\n"
    yield "| name | type | meaning |\n|---|---|---|"
    inherited = (
        set(options.CommonFields.__annotations__) if name.endswith("Fields") and name != "CommonFields" else set()
    )
    comments = _comments(name)
    for field, annotation in kind.__annotations__.items():
        if field not in inherited:
            yield f"| `{field}` | `{_cell(getattr(annotation, '__forward_arg__', str(annotation)))}` | {_cell(comments.get(field, ''))} |"
    if inherited:
        yield "\nand those of [CommonFields](#commonfields)."
    yield ""


def _comments(name: str) -> dict[str, str]:
    """What the source says behind the fields of a class and of those that it inherits from."""
    found = re.search(
        rf"^class {name}\((\w+)[^)]*\):\n((?:    .*\n|\n(?=    ))*)", inspect.getsource(options), re.MULTILINE
    )
    if found is None:  # TypedDict itself
        return {}
    return {**_comments(found[1]), **dict(re.findall(r"^    (\w+): [^#\n]+# (.+)$", found[2], re.MULTILINE))}


WHEN = {
    "SMPError": "Catches all of them.",
    "UserError": "Catches all that the caller can put right. On the command line: a wrong option or argument.",
    "InvalidRecord": "A field is missing, of the wrong type or not allowed. The attribute `field` names it.",
    "InvalidFormat": "A file or an argument cannot be read, such as a PostgreSQL address in this version.",
    "InvalidConfig": "An unknown setting, a bad value, or a `config.json` that is not JSON.",
    "InvalidQuery": "A part of a query cannot be read: a time, a field filter, an option. The message names the part and shows what is understood.",
    "StoreNotFound": "No store here or above; or `create=False` and no store in that folder.",
    "SessionNotFound": "There is no session with this id.",
    "SessionExists": "`create_session` with an id that is taken.",
    "SessionArchived": "The session was archived since it was opened, or a read over MCP names an archived one. `memory.session(id)` or `smp session restore` brings it back; a write does so by itself.",
    "MemoryNotFound": "There is no memory with this id, or it is deleted.",
    "DuplicateId": "An id of your own that is or was taken.",
    "LayoutMismatch": "The store has another layout than you asked for, or was converted while it was open.",
    "NotAllowed": "An agent writes in another's name, or a workflow what it does not declare. Nothing was written.",
    "NotSupported": "The kind of store does not offer this, such as another layout for a store that is not in files. Nothing was changed.",
    "StoreClosed": "A call after `close()` or `convert()`.",
    "SizeLimitExceeded": "One memory is too large, or the session would outgrow its quota. `size` and `limit` say by how much.",
    "Busy": "Catches all that may succeed when tried again.",
    "LockTimeout": "Another process held the lock for too long. `holder` says who. Also while a store is being converted.",
    "Conflict": "`expected_revision` is not the current one: the memory was changed meanwhile.",
    "QueryTimeout": "`query(timeout=…)` took longer than that. Nothing is wrong; ask for less, or give it more time.",
    "Corrupt": "Catches all kinds of damage.",
    "StorageCorrupt": "A link, a pipe or a file with several names where a plain file should be. Exit code of `smp validate` when something cannot be read.",
    "SessionCorrupt": "The metadata of a session cannot be read (its memories can), or `convert` met entries that cannot be read.",
    "FormatTooNew": "The store was written by a newer version. Nothing was touched.",
    "CompactionFailed": "A session could not be compacted, because of damage or because the operating system failed. `cause` has the code of what went wrong, `__cause__` is that error. No memory is lost.",
    "StorageError": "The operating system failed in another way, such as an I/O error.",
    "StorageFull": "No room on the disk, or a disk quota. Nothing is half-written.",
    "StorageReadOnly": "No permission to write, or a read-only disk. Reading still works.",
    "DurabilityUnknown": "The disk did not confirm a write. It was not acknowledged; do not count on it.",
}


def errors_table() -> str:
    """Every error: code, number, exit code, place in the tree, and when it is raised."""
    lines = ["| class | code | number | exit code | kind of | when |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{kind.__name__}` | `{kind.code}` | {kind.number or ''} | {kind.exit_code} | `{kind.__mro__[1].__name__}` | {WHEN[kind.__name__]} |"
        for kind in sorted(all_errors(errors.SMPError), key=lambda kind: kind.exit_code)
    ]
    return "\n".join(lines) + "\n"


def all_errors(kind: type[errors.SMPError]) -> list[type[errors.SMPError]]:
    known = [kind] if kind.__module__ == errors.__name__ else []
    return [*known, *(each for child in kind.__subclasses__() for each in all_errors(child))]


# -- the command line

_GLOBAL = {"help", "root", "author", "json", "no_color", "no_pager", "verbose"}


def cli_page() -> str:
    """Every command: description, arguments and options, examples."""
    parts = [
        "# Commands\n",
        _NOTE,
        "What `smp help COMMAND` prints, without the [options of every command](../cli.md#options-for-every-command).\n",
    ]
    for title, commands in GROUPS:
        parts.append(f"## {title}\n")
        for name in commands:
            parts += _command(name)
    return "\n".join(parts).rstrip() + "\n"


def _command(name: str) -> Iterator[str]:
    parser, _ = build_parser(name)
    yield f"### smp {name}\n"
    yield from _paragraphs(inspect.cleandoc(parser.description or ""))
    rows = [action for action in parser._actions if action.dest not in _GLOBAL and action.help != argparse.SUPPRESS]
    rows = [action for action in rows if action.dest != "session" or parser.names_sessions]
    filters = [
        action for group in parser._action_groups if group.title == "which memories" for action in group._group_actions
    ]
    if filters and name != "query":
        rows = [action for action in rows if action not in filters]
        yield "Which memories: the options of [smp query](#smp-query) from `--type` to `--all`.\n"
    if rows:
        yield "| | |\n|---|---|"
        yield from (f"| {_invocation(action)} | {_cell(_help(parser, action))} |" for action in rows)
        yield ""
    examples = inspect.cleandoc((parser.epilog or "").partition("Examples:")[2])
    if examples:
        yield f"```sh\n{examples.strip()}\n```\n"


def _invocation(action: argparse.Action) -> str:
    value = action.metavar or ("\\|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{value}`".replace("\\|", "|").replace("|", "\\|")
    taken = "" if action.nargs == 0 else f" {value}"
    return f"`{', '.join(action.option_strings)}{taken}`"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


# -- decisions


def decisions_page() -> str:
    folder = os.path.join(HERE, "adr")
    lines = ["# Decisions\n", _NOTE, "What was decided, why, and what was turned down. One record each.\n"]
    for name in sorted(name for name in os.listdir(folder) if name != "README.md"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            title = file.readline().removeprefix("# ").strip()
        lines.append(f"- [{title}]({name})")
    return "\n".join(lines) + "\n"


# -- text


def _text(text: str) -> str:
    """Prose of a docstring as Markdown: text that would be taken for HTML is escaped."""
    return re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs that have columns are shown as they are, as in `--help`."""
    for paragraph in filter(None, text.split("\n\n")):
        yield f"```text\n{paragraph}\n```\n" if "  " in paragraph else f"{_text(paragraph)}\n"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": api_page,
    "docs/reference/cli.md": cli_page,
    "docs/adr/README.md": decisions_page,
}


def main() -> None:
    for name, page in PAGES.items():
        path = os.path.join(os.path.dirname(HERE), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(page())
        sys.stdout.write(f"{name}: written\n")


if __name__ == "__main__":
    main()
