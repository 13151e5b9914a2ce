"""Commands for a store as a whole: init, config, trust; git setup, git merge-driver and git check for one in a git repository."""

from __future__ import annotations

import os

from smp_memory.cli.render import color_diff, paint, plural, safe, table, value_text
from smp_memory.config.schema import DEFAULT_ROOTS, SETTINGS
from smp_memory.config.sources import BY_PATH
from smp_memory.discovery import find_root, project_name, reject_linked_root, store_in
from smp_memory.errors import SMPError, StoreNotFound, UserError
from smp_memory.git.repository import Repository
from smp_memory.model.ids import scheme_of, without_password
from smp_memory.store.opening import exists, trusted_stores
from smp_memory.trust import held_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.config.settings import Config, HeldSetting
    from smp_memory.integrations.git import Setup, SetupChange
    from smp_memory.memory import Memory

# -- git setup


def git_setup_arguments(parser: Parser) -> None:
    parser.add_argument("--pre-commit", action="store_true", help="also install a hook that runs `smp git check`")
    parser.add_argument("--undo", action="store_true", help="remove what was set up")
    parser.add_argument("--dry-run", action="store_true", help="only show the changes")
    parser.add_argument(
        "--command", metavar="CMD", help="the command by which git runs SMP (default: smp, or its path)"
    )


def run_git_setup(call: Invocation) -> None:
    """Set up git to merge the store of this project entry by entry; --undo removes it.

    .gitattributes and .gitignore get a marked block with the rules for the store's files; commit them. The merge driver is
    registered in this clone's configuration, which git does not share: run this command once in each clone. An existing
    pre-commit hook is not changed; the command prints the line to add.

    Examples:
      smp git setup --dry-run
      smp git setup
      smp git setup --pre-commit
      smp git setup --undo
    """
    from smp_memory.integrations.git import Setup

    options = call.options
    repository, root = _find_repository(call)
    setup = Setup(repository, root, options.command)
    changes = setup.changes(undo=options.undo, hook=options.pre_commit)
    if not options.dry_run:
        for change in changes:
            change.carry_out()
    if not options.undo and repository.ignores(root):
        setup.notes.append(f"git ignores {root}: its files are not committed as long as a .gitignore excludes them.")
    targets = [change.where for change in changes]
    data = {
        "root": root,
        "work_tree": repository.top,
        "changed": [] if options.dry_run else targets,
        "would_change": targets if options.dry_run else [],
        "command": setup.command,
        "notes": setup.notes,
    }
    call.answer(data, _setup_lines(call, setup, changes))


def _setup_lines(call: Invocation, setup: Setup, changes: list[SetupChange]) -> Iterator[str]:
    options = call.options
    if not changes:
        yield "Nothing to undo: git does not use SMP here." if options.undo else "git is set up for this store already."
    for change in changes:
        if options.dry_run:
            from smp_memory.integrations.hooks.file_edit import diff

            yield from color_diff(diff(change.where, change.before, change.after))
        elif options.undo and not change.after and os.path.isabs(change.where):
            yield f"{paint('green', '✓')} deleted {change.where}"
        else:
            yield f"{paint('green', '✓')} {'removed from' if options.undo else 'written to'} {change.where}"
    if options.dry_run:
        yield "Nothing was changed."
    elif changes and not options.undo:
        yield from _next_steps(setup, changes)
    yield from setup.notes


def _next_steps(setup: Setup, changes: list[SetupChange]) -> Iterator[str]:
    if setup.command != "smp" and any("config" in change.where for change in changes):
        yield f"git runs {setup.command}, which exists on this machine only; each clone registers its own path."
    if any(".gitattributes" in change.where for change in changes):
        yield "Commit .gitattributes and .gitignore. In every other clone, run once: smp git setup"


def _find_repository(call: Invocation) -> tuple[Repository, str]:
    """The work tree, and the folder of the store in it."""
    root = call.root or find_root(None)
    if scheme_of(root):
        shown = without_password(root)
        raise UserError(f"{shown} is not in a git work tree: it is not a folder.", path=shown)
    root = os.path.realpath(root)
    if not os.path.isdir(root):
        raise StoreNotFound(f"There is no store in {root}. Create one: smp init", path=root)
    repository = Repository.find(root)
    if repository is None:
        raise UserError(f"{root} is not in a git work tree, or git refuses to use it (git -C {root} status says why).", path=root)  # fmt: skip
    return repository, root


def set_up_new_store(call: Invocation, root: str) -> dict[str, object] | None:
    """Do for `smp init` what `smp git setup` does, if the store is in a work tree. A failure is only reported."""
    from smp_memory.integrations.git import Setup

    try:
        repository = Repository.find(root)
        if repository is None or repository.ignores(root):
            return None
        setup = Setup(repository, root)
        changes = setup.changes()
        if changes:
            call.notify(f"{repository.top} is a git work tree: setting up .gitattributes, .gitignore and a merge driver for this store. Undo: smp git setup --undo. Without git: smp init --no-git")  # fmt: skip
        for change in changes:
            change.carry_out()
        for line in _next_steps(setup, changes):
            call.notify(line)
        return {"work_tree": repository.top, "changed": [change.where for change in changes]}
    except (SMPError, OSError) as error:
        call.notify(f"git was not set up for this store: {error}. Try again: smp git setup")
        return None


# -- git merge-driver


def git_merge_driver_arguments(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="base, ours, theirs, and the path in the work tree")


def run_git_merge_driver(call: Invocation) -> int:
    """Merge one file of a store entry by entry. Called by git as %O %A %B %P; `smp git setup` registers it.

    The result is written to the second file. The exit code is 0 without a conflict, and 1 with one: both versions are then
    written between git's conflict markers.

    Examples:
      smp git merge-driver base ours theirs .bmad/memory/sessions/shop/findings.jsonl
    """
    from smp_memory.git.merge_driver import main

    return main(call.options.files)


# -- git check


def git_check_arguments(parser: Parser) -> None:
    pass


def run_git_check(call: Invocation) -> int:
    """Check what is staged for the next commit: it must not contain secrets, private files of SMP or conflict markers.

    Only the files of the store are checked. Each problem is reported with file and line, without the secret. The exit code
    is 1 if there is a problem. `smp git setup --pre-commit` runs this before every commit.

    Examples:
      smp git check
    """
    from smp_memory.integrations.git import check_staged

    repository, root = _find_repository(call)
    count, problems = check_staged(repository, root)
    data = {"ok": not problems, "files": count, "findings": [each._asdict() for each in problems]}
    call.answer(data, [*map(str, problems), _result_line(count, len(problems))])
    return 1 if problems else 0


def _result_line(files: int, problems: int) -> str:
    staged = f"{plural(files, 'staged file')} of the store"
    if problems:
        return f"{paint('red', '✗')} Do not commit: {plural(problems, 'problem')} in {staged}."
    return f"{paint('green', '✓')} {staged}, no problems."


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
    user = repository.setting("user.name") if repository is not None else ""
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
    parser.add_argument("--yes", action="store_true", help="accept settings that lower protection without a question")


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
