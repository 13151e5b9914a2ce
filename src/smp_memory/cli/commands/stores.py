"""Commands for a store as a whole: init, config, trust."""

from __future__ import annotations

import os

from smp_memory.cli.commands.git import set_up_new_store
from smp_memory.cli.render import paint, safe, table, value_text
from smp_memory.config.schema import DEFAULT_ROOTS, SETTINGS
from smp_memory.config.sources import BY_PATH
from smp_memory.discovery import project_name, reject_linked_root, store_in
from smp_memory.errors import UserError
from smp_memory.git.repository import Repository
from smp_memory.model.ids import scheme_of
from smp_memory.store.opening import exists, trusted_stores
from smp_memory.trust import held_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.config.settings import Config, HeldSetting
    from smp_memory.memory import Memory

LAYOUTS = tuple(DEFAULT_ROOTS)


# -- init


def init_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        metavar="DIR|ADDRESS",
        nargs="?",
        default=".",
        help="the project's folder (default: this one), or the postgresql://… address of the store",
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
    An address such as postgresql://host/database creates it in that database, which must exist.

    Examples:
      smp init
      smp init --layout markdown ~/projects/shop
      smp init --root /srv/agents/memory
      smp init postgresql://db.example.org/team
    """
    from smp_memory.memory import open_memory

    folder = call.options.folder
    address = folder if scheme_of(folder) else call.root
    root = address or reject_linked_root(_root_below(folder, call.options.layout))
    existed = exists(root)
    call.use_store(open_memory(root, layout=call.options.layout))
    memory = call.memory
    data: dict[str, Any] = {"root": memory.root, "layout": memory.layout, "created": not existed}
    if not call.options.no_git and not scheme_of(memory.root):
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
    if call.root or scheme_of(memory.root):
        yield f"  export SMP_ROOT={_quoted(memory.root)}"
    elif os.path.abspath(call.options.folder) != os.getcwd():
        yield f"  cd {_quoted(call.options.folder)}"
    user, project = _names_here(memory)
    yield f"  smp session new --user {user} --project {project}"
    yield '  smp add decision "Use OAuth 2.0" --rationale "Standard, supports single sign-on" --tag auth'
    yield "  smp list"


def _names_here(memory: Memory) -> tuple[str, str]:
    """The user by git's settings or the system, and the project by its folder, as words for a shell."""
    from getpass import getuser

    folder = os.getcwd() if scheme_of(memory.root) else os.path.dirname(memory.root)
    repository = Repository.find(folder)
    user = (repository or Repository(os.getcwd())).setting("user.name")
    start = folder if repository is not None else os.getcwd()
    return _quoted(user or getuser()), _quoted(project_name(start) or "project")


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


# -- config


def config_arguments(parser: Parser) -> None:
    parser.add_argument("action", nargs="?", choices=("get", "set", "unset"), metavar="ACTION", help="get, set or unset (default: show all settings)")  # fmt: skip
    parser.add_argument("setting", metavar="NAME", nargs="?", help="the setting, such as durability")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="the new value")


def _parsed(name: str, value: str) -> Any:
    check = next((setting.check for setting in SETTINGS if setting.path == name), None)
    try:
        return check.parse(value) if check is not None else value
    except ValueError:
        return value  # the store rejects it and names the allowed values


def run_config(call: Invocation) -> None:
    """Show every setting with its value and the source of the value; or show or change one.

    The value is taken from the first source that has one: the environment, the session (with --session), the store's
    config.json, the default. `set` and `unset` change the store's config.json or, with --session, the session's own settings.

    Examples:
      smp config
      smp config get durability
      smp config set concurrency.lock_timeout_ms 10000
      smp config unset concurrency.lock_timeout_ms
      smp config set hooks.recall false --session checkout-review
    """
    options = call.options
    action, name = options.action, options.setting
    if action is not None and (name is None or (action == "set") != (options.value is not None)):
        form = {"get": "NAME", "set": "NAME VALUE", "unset": "NAME"}[action]
        raise UserError(f"Give it as: smp config {action} {form}")
    if action in ("set", "unset"):
        value = _parsed(name, options.value) if action == "set" else None
        (call.session() if call.session_name is not None else call.memory).set_config(name, value)
        call.close()  # reopened below: show the value that the next process will get
        if action == "unset" and name not in BY_PATH:
            call.answer({"name": name, "removed": True}, [f"{safe(name)} was removed from the file."])
            return
    rows = [dict(zip(("name", "value", "source", "about"), row, strict=True)) for row in _settings(call).rows()]
    if action is None:
        call.answer(rows, _settings_table(call, rows))
        return
    row = next(row for row in rows if row["name"] == _checked_name(call, name))
    text = value_text(row["value"])
    call.answer(row, [text if action == "get" else f"{row['name']} = {text} ({row['source']})"])


def _settings(call: Invocation) -> Config:
    if call.session_name is None:
        return call.memory.config
    return call.session().config


def _settings_table(call: Invocation, rows: list[dict[str, Any]]) -> Iterator[str]:
    hidden = ("layout", "format", "durability", "sync_interval_seconds") if call.memory.store.files is None else ()
    shown = [row for row in rows if row["name"] not in hidden]
    cells = [(row["name"], value_text(row["value"]), row["source"], row["about"]) for row in shown]
    yield from table(("setting", "value", "from", "about"), cells, call.screen.width)
    unused = _settings(call).unused_notice()
    if unused:
        yield ""
        yield safe(unused)


def _checked_name(call: Invocation, name: str) -> str:
    call.memory.config.source(name)  # raises, with a suggestion, if there is no such setting
    return name


# -- trust


def trust_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--revoke", action="store_true", help="revoke trust, and remove what was derived from the store")
    what.add_argument("--list", action="store_true", help="list the stores that you trust")
    parser.add_argument("--yes", action="store_true", help="accept settings that lower protection, without being asked")


def run_trust(call: Invocation) -> None:
    """Trust the store of this project: hooks recall from it and record to it from now on, for you on this machine.

    A store that you created with `smp init`, or named by its path (--root, SMP_ROOT, smp_memory.open(folder)), is trusted
    already. A store of a cloned repository is not: its memories were written by somebody else, and an agent would act on
    them. Read them first (smp list, smp query, an editor). Trust belongs to a store at its path: after it was moved or
    replaced, trust it again.

    Trust covers the settings as they are. If the store's files, after a `git pull` or an edit, lower protection (less redaction,
    earlier removal, more that is told or recorded), the trusted values apply until you run `smp trust` again, which shows the change.

    Examples:
      smp trust
      smp trust --list
      smp trust --revoke
    """
    if call.options.list:
        stores = _trusted_stores()
        call.answer(stores, _store_lines(stores))
        return
    call.mentions_trust = False
    memory = call.memory
    before, changes = memory.is_trusted, [] if call.options.revoke else held_settings(memory.store)
    if call.options.revoke:
        memory.distrust()
    elif _accepts(call, changes):
        memory.trust()
        if not memory.store.state.on_disk:
            raise UserError(
                "Trust cannot be stored: your home folder belongs to another user or is not writable. "
                "Set SMP_STATE_DIR to a folder of your own."
            )
    else:
        raise UserError("Nothing was changed: the settings that you trusted before still apply.")
    data = {"root": memory.root, "trusted": not call.options.revoke, "changed": before == call.options.revoke}
    if changes:
        data["settings"] = [
            {"session": each.session or None, "key": each.key, "before": each.trusted, "now": each.stated}
            for each in changes
        ]
    call.answer(data, _trust_lines(data))


def _accepts(call: Invocation, changes: list[HeldSetting]) -> bool:
    """Show the settings that lower protection, old → new, and ask; without a terminal only `--yes` accepts them."""
    if not changes:
        return True
    call.notify("These settings would lower protection:")
    for each in changes:
        call.notify(f"  {each}" + (f" (session {each.session})" if each.session else ""))
    if not call.is_interactive and not call.options.yes:
        raise UserError(
            "Nothing was changed: there is no terminal to ask at. To accept these settings: smp trust --yes"
        )
    return call.options.yes or call.confirm("Accept them?")


def _trusted_stores() -> list[dict[str, Any]]:
    return [{"root": root, "exists": bool(scheme_of(root)) or os.path.isdir(root)} for root in trusted_stores()]


def _store_lines(stores: list[dict[str, Any]]) -> Iterator[str]:
    if not stores:
        yield "You trust no store yet."
    for each in stores:
        yield each["root"] + ("" if each["exists"] else paint("dim", "  (does not exist any more)"))


def _trust_lines(data: dict[str, Any]) -> Iterator[str]:
    now = "trusted" if data["trusted"] else "not trusted any more"
    yield f"{paint('green', '✓')} {data['root']} is {now}" + ("." if data["changed"] else ", as before.")
    if data["trusted"] and data["changed"]:
        yield "Hooks recall from it and record to it from now on."
