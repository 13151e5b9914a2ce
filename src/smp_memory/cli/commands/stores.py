"""Commands for a store as a whole: init, convert, config."""

from __future__ import annotations

import os

from smp_memory.cli.arguments import parse_assignment
from smp_memory.cli.render import paint, plural, safe, table, value_text
from smp_memory.config.schema import DEFAULT_ROOTS, SETTINGS
from smp_memory.config.sources import BY_PATH
from smp_memory.discovery import reject_linked_root, store_in
from smp_memory.model.ids import scheme_of
from smp_memory.scope import file_features
from smp_memory.store.opening import exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.config.settings import Config
    from smp_memory.memory import Memory

LAYOUTS = tuple(DEFAULT_ROOTS)


# -- init


def init_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default=".", help="the project's folder (default: this one)"
    )
    parser.add_argument("--layout", choices=LAYOUTS, help="the file layout (default: jsonl)")
    parser.add_argument("--no-git", action="store_true", help="in a git work tree: do not set up git")


def run_init(call: Invocation) -> None:
    """Create a store below a project's folder, unless there is one.

    jsonl     .bmad/memory    one JSON file per type of memory
    markdown  .bmad/sessions  Markdown and YAML, easy to read and edit
    single    .bmad/sessions  one file per session
    log       memory          one log per session, with deletions beside it

    --root creates it in exactly that folder. In a git work tree it also does what `smp git setup` does.

    Examples:
      smp init
      smp init --layout markdown ~/projects/shop
      smp init --root /srv/agents/memory
    """
    from smp_memory.memory import open_memory

    root = call.root or reject_linked_root(_root_below(call.options.folder, call.options.layout))
    existed = exists(root)
    call.use_store(open_memory(root, layout=call.options.layout))
    memory = call.memory
    data: dict[str, Any] = {"root": memory.root, "layout": memory.layout, "created": not existed}
    if not call.options.no_git and not scheme_of(memory.root):
        from smp_memory.cli.commands.git import set_up_new_store

        git = set_up_new_store(call, memory.root)
        if git is not None:
            data["git"] = git
    call.answer(data, _init_lines(call, memory, existed))


def _root_below(folder: str, layout: str | None) -> str:
    """The existing store of a folder, else the default path of a new one."""
    existing = store_in(os.path.realpath(folder)) if os.path.isdir(folder) else None
    if existing is not None:
        return existing
    return os.path.join(folder, DEFAULT_ROOTS[layout or "jsonl"])


def _init_lines(call: Invocation, memory: Memory, existed: bool) -> Iterator[str]:
    if existed:
        yield f"There is already a {memory.layout} store in {paint('bold', memory.root)}; it was not changed."
        return
    yield f"Created a {memory.layout} store in {paint('bold', memory.root)}"
    yield ""
    yield "Next steps:"
    if call.root:
        yield f"  export SMP_ROOT={_quoted(memory.root)}"
    elif os.path.abspath(call.options.folder) != os.getcwd():
        yield f"  cd {_quoted(call.options.folder)}"
    yield "  smp session new --user ada --project shop"
    yield '  smp add decision "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --tag auth'
    yield "  smp list"


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


# -- convert


def convert_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--to", choices=LAYOUTS, required=True, help="the layout to change to")


def run_convert(call: Invocation) -> None:
    """Convert a store to another file layout in place; no memory is lost, and converting back yields the same memories.

    The new files are written beside the old ones, read back and compared before anything is replaced. A crash leaves the
    old store or the new one. Writers get an error meanwhile and can retry. Comments in YAML files, and text above the first
    entry of a Markdown file, are not kept.

    With the layout that the store has, session files of other layouts are imported: a git merge leaves some if one clone
    converted the store and the other added a session.

    Examples:
      smp convert --to markdown
      smp convert --to jsonl
    """
    memory = call.memory
    before, sessions = memory.layout, memory.sessions()
    imported = {each.session for each in file_features(memory.store).unread_sessions()}
    count = sum(len(session.records(include_deleted=True)) for session in sessions)
    if call.screen.is_terminal and not call.options.json:
        call.notify(
            f"Converting {plural(len(sessions), 'session')} with {plural(count, 'memory')} to {call.options.to} …"
        )
    numbers = iter(range(1, len(sessions) + 2))

    def progress(session: str) -> None:
        if call.screen.is_terminal and not call.options.json:
            call.notify(f"  {next(numbers)}/{len(sessions)} {session}")

    call.use_store(memory.convert(call.options.to, progress))
    data = {
        "root": memory.root,
        "from": before,
        "to": call.options.to,
        "sessions": len(sessions),
        "memories": count,
        "taken_in": sorted(imported),
    }
    call.answer(data, _convert_lines(data))


def _convert_lines(data: dict[str, Any]) -> Iterator[str]:
    if data["taken_in"]:
        yield f"{paint('green', '✓')} Sessions imported from other layouts: {', '.join(data['taken_in'])}."
        return
    if data["from"] == data["to"]:
        yield f"{data['root']} has the layout {data['to']} already; it was not changed."
        return
    counts = f"{plural(data['sessions'], 'session')}, {plural(data['memories'], 'memory')}"
    yield f"{paint('green', '✓')} Converted {data['root']} from {data['from']} to {data['to']}: {counts}."


# -- config


def config_arguments(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="print this setting's value only")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=_setting,
        help="write a setting to the store's config.json, or (--session) to the session's own",
    )
    change.add_argument("--unset", metavar="KEY", help="remove a setting, so that its default applies")


def _setting(text: str) -> tuple[str, Any]:
    name, _ = parse_assignment(text)
    value = text.partition("=")[2]
    check = next((setting.check for setting in SETTINGS if setting.path == name), None)
    try:
        return name, check.parse(value) if check is not None else value
    except ValueError:
        return name, value  # the store rejects it and names the allowed values


def run_config(call: Invocation) -> None:
    """Show every setting with its value and the source of the value; or change one.

    The value is taken from the first source that has one: the environment, the session (with --session), the store's
    config.json, the default.

    Examples:
      smp config
      smp config durability
      smp config --set concurrency.lock_timeout_ms=10000
      smp config --unset concurrency.lock_timeout_ms
      smp config --session checkout-review --set hooks.recall=false
    """
    options = call.options
    if options.set or options.unset:
        name, value = options.set or (options.unset, None)
        (call.session() if call.session_name is not None else call.memory).set_config(name, value)
        call.close()  # reopened below: show the value that the next process will get
        options.key = name
        if options.unset and name not in BY_PATH:
            call.answer({"name": name, "removed": True}, [f"{safe(name)} was removed from the file."])
            return
    rows = [dict(zip(("name", "value", "source", "about"), row, strict=True)) for row in _settings(call).rows()]
    if options.key is None:
        call.answer(rows, _settings_table(call, rows))
        return
    row = next(row for row in rows if row["name"] == _checked_name(call, options.key))
    changed = options.set or options.unset
    call.answer(
        row,
        [f"{row['name']} = {value_text(row['value'])} ({row['source']})"] if changed else [value_text(row["value"])],
    )


def _settings(call: Invocation) -> Config:
    if call.session_name is None:
        return call.memory.config
    return call.session().config


def _settings_table(call: Invocation, rows: list[dict[str, Any]]) -> Iterator[str]:
    cells = [(row["name"], value_text(row["value"]), row["source"], row["about"]) for row in rows]
    yield from table(("setting", "value", "from", "about"), cells, call.screen.width)
    unused = _settings(call).unused_notice()
    if unused:
        yield ""
        yield safe(unused)


def _checked_name(call: Invocation, name: str) -> str:
    call.memory.config.source(name)  # raises, with a suggestion, if there is no such setting
    return name
