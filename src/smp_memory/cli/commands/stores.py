"""Making, converting and configuring a store."""

from __future__ import annotations

import os

from smp_memory.cli.arguments import assignment
from smp_memory.cli.render import paint, plural, table, value_text
from smp_memory.config import DEFAULT_ROOTS, SETTINGS
from smp_memory.discovery import is_store, reject_linked_root, store_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.config import Config
    from smp_memory.memory import Memory

LAYOUTS = tuple(DEFAULT_ROOTS)


# -- init


def init_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default=".", help="the project's folder (default: this one)"
    )
    parser.add_argument("--layout", choices=LAYOUTS, help="how memories look on disk (default: jsonl)")
    parser.add_argument("--no-git", action="store_true", help="in a git work tree: do not set up merging")


def run_init(call: Call) -> None:
    """Make a store below a project's folder, or say that there is one.

    jsonl     .bmad/memory    one JSON file per type of memory
    markdown  .bmad/sessions  Markdown and YAML, pleasant to read and edit
    single    .bmad/sessions  one file per session
    log       memory          one log per session, with deletions beside it

    --root makes it in that very folder instead. In a git work tree it also does what `smp git setup` does.

    Examples:
      smp init
      smp init --layout markdown ~/projects/shop
      smp init --root /var/lib/agents/memory
    """
    from smp_memory.memory import open_memory

    root = call.root or reject_linked_root(_root_below(call.options.folder, call.options.layout))
    known = is_store(root)
    call.use(open_memory(root, layout=call.options.layout))
    memory = call.memory
    facts: dict[str, Any] = {"root": memory.root, "layout": memory.layout, "created": not known}
    if not call.options.no_git:
        from smp_memory.cli.commands.git import set_up_new_store

        git = set_up_new_store(call, memory.root)
        if git is not None:
            facts["git"] = git
    call.answer(facts, _welcome(call, memory, known))


def _root_below(folder: str, layout: str | None) -> str:
    """The store that a folder has already, else where its store belongs."""
    found = store_in(os.path.realpath(folder)) if os.path.isdir(folder) else None
    if found is not None:
        return found
    return os.path.join(folder, DEFAULT_ROOTS[layout or "jsonl"])


def _welcome(call: Call, memory: Memory, known: bool) -> Iterator[str]:
    if known:
        yield f"There is already a {memory.layout} store in {paint('bold', memory.root)}; it was not changed."
        return
    yield f"Made a {memory.layout} store in {paint('bold', memory.root)}"
    yield ""
    yield "What to do next:"
    if call.root:
        yield f"  export SMP_ROOT={_quoted(memory.root)}"
    elif os.path.abspath(call.options.folder) != os.getcwd():
        yield f"  cd {_quoted(call.options.folder)}"
    yield "  smp session new --user ada --project shop"
    yield '  smp decide "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --tag auth'
    yield "  smp list"


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


# -- convert


def convert_arguments(parser: Parser) -> None:
    parser.add_argument("--to", choices=LAYOUTS, required=True, help="the layout to change to")


def run_convert(call: Call) -> None:
    """Change how the memories look on disk, in place; no memory is lost, and the way back gives the same ones.

    The new files are written beside the old ones, read back and compared before anything is replaced. A crash on the
    way leaves the old store or the new one. Who wants to write meanwhile is told to try again. Comments that people
    wrote into YAML files, and text above the first entry of a Markdown file, are not carried over.

    With the layout that the store has, files of other layouts are taken in: a git merge leaves some if one clone
    converted the store and the other added a session.

    Examples:
      smp convert --to markdown
      smp convert --to jsonl
    """
    from smp_memory.store.foreign_layouts import unread

    memory = call.memory
    before, sessions = memory.layout, memory.sessions()
    taken = {each.session for each in unread(memory.store.disk, memory.root, memory.store.layout)}
    count = sum(len(session.records(include_deleted=True)) for session in sessions)
    if call.screen.is_terminal and not call.options.json:
        call.remark(
            f"Converting {plural(len(sessions), 'session')} with {plural(count, 'memory')} to {call.options.to} …"
        )
    done = iter(range(1, len(sessions) + 2))

    def progress(session: str) -> None:
        if call.screen.is_terminal and not call.options.json:
            call.remark(f"  {next(done)}/{len(sessions)} {session}")

    call.use(memory.convert(call.options.to, progress))
    facts = {
        "root": memory.root,
        "from": before,
        "to": call.options.to,
        "sessions": len(sessions),
        "memories": count,
        "taken_in": sorted(taken),
    }
    call.answer(facts, _converted(facts))


def _converted(facts: dict[str, Any]) -> Iterator[str]:
    if facts["taken_in"]:
        yield f"{paint('green', '✓')} Taken in from other layouts: {', '.join(facts['taken_in'])}."
        return
    if facts["from"] == facts["to"]:
        yield f"{facts['root']} has the layout {facts['to']} already; it was not changed."
        return
    counts = f"{plural(facts['sessions'], 'session')}, {plural(facts['memories'], 'memory')}"
    yield f"{paint('green', '✓')} {facts['root']} is a {facts['to']} store now, it was {facts['from']}: {counts}."


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
    change.add_argument("--unset", metavar="KEY", help="take a setting out again, back to its default")


def _setting(text: str) -> tuple[str, Any]:
    name, _ = assignment(text)
    value = text.partition("=")[2]
    check = next((setting.check for setting in SETTINGS if setting.path == name), None)
    try:
        return name, check.parse(value) if check is not None else value
    except ValueError:
        return name, value  # the store says what is allowed


def run_config(call: Call) -> None:
    """Show every setting, its value and where that came from; or change one.

    A value comes from the first that has one: the environment, the session (with --session), the store's config.json,
    the default.

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
        call.close()  # what holds is what the next one to open the store sees
        options.key = name
    rows = [dict(zip(("name", "value", "source", "about"), row, strict=True)) for row in _settings(call).rows()]
    if options.key is None:
        call.answer(rows, _settings_table(call, rows))
        return
    row = next(row for row in rows if row["name"] == _known(call, options.key))
    changed = options.set or options.unset
    call.answer(
        row,
        [f"{row['name']} = {value_text(row['value'])} ({row['source']})"] if changed else [value_text(row["value"])],
    )


def _settings(call: Call) -> Config:
    if call.session_name is None:
        return call.memory.config
    return call.session().config


def _settings_table(call: Call, rows: list[dict[str, Any]]) -> Iterator[str]:
    cells = [(row["name"], value_text(row["value"]), row["source"], row["about"]) for row in rows]
    yield from table(("setting", "value", "from", "about"), cells, call.screen.width)
    unused = _settings(call).unused
    if unused:
        from smp_memory.design_settings import report

        yield ""
        yield report(unused)


def _known(call: Call, name: str) -> str:
    call.memory.config.source(name)  # raises, with a suggestion, if there is no such setting
    return name
