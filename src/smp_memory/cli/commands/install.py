"""Commands for coding agents: install, hook. `cli.main` runs hook without this module, which provides its help."""

from __future__ import annotations

import os

from smp_memory.cli.render import color_diff, paint, table
from smp_memory.discovery import project_folder
from smp_memory.errors import UserError, install_command
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.hooks import hosts
from smp_memory.integrations.hooks.events import CLIENTS
from smp_memory.integrations.hooks.file_edit import (
    BACKUP,
    FileEdit,
    command_here,
    diff,
    environment_of,
    stated_store,
)
from smp_memory.integrations.hooks.hosts import PROJECT, USER, InstallTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

    class Installable(Protocol):
        """A program that SMP can be installed into."""

        TITLE: str  # its name
        ABOUT: str  # what is installed, in a few words
        SCOPES: tuple[str, ...]  # for a project, for a user

        def is_present(self, target: InstallTarget) -> bool:
            """Whether this machine, or this project, has the host."""

        def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
            """The changes, one for each file."""

        def hints(self, target: InstallTarget) -> list[str]:
            """What a person should know or do afterwards, in sentences."""


HOSTS = (*hosts.HOSTS, "bmad")


def install_arguments(parser: Parser) -> None:
    parser.add_argument("host", metavar="HOST", nargs="?", choices=HOSTS, help=", ".join(HOSTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", action="store_true", help="for this project (default)")
    scope.add_argument("--user", action="store_true", help="for all your projects")
    parser.add_argument("--undo", action="store_true", help="remove what was installed")
    parser.add_argument("--dry-run", action="store_true", help="only show the changes")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--command",
        metavar="CMD",
        help="the command by which the host runs SMP (default: smp, or its path where needed, as in a virtual environment)",
    )
    parser.add_argument("--in", dest="folder", metavar="DIR", help="the project's folder (default: this one)")
    parser.add_argument("--memlog", action="store_true", help="bmad: agents run `smp memlog` instead of memlog.py")
    parser.add_argument(
        "--workflows", action="store_true", help="bmad: all workflows, not only party mode and retrospectives"
    )
    parser.add_argument("--with-module", metavar="DIR", help="bmad: also run BMAD's installer with SMP's plugin folder as a module")  # fmt: skip


def run_install(call: Invocation) -> int | None:
    """Add hooks, the MCP server and rules to the settings of a coding agent; --undo removes them.

    The changes are shown first, as a diff; a script needs --yes. Everything else in the files stays as it is, byte for byte,
    and a copy of each changed file is kept beside it (.smp-backup) until --undo. Running it twice changes nothing.
    Without a host it lists the hosts, and what is installed in them.

    Examples:
      smp install
      smp install claude-code --dry-run
      smp install claude-code --yes
      smp install codex --user --yes
      smp install gemini --undo --yes
      smp install vscode --yes
      smp --root ~/memories install windsurf --yes
      smp install bmad --memlog --dry-run
    """
    options = call.options
    start = os.path.abspath(options.folder or os.getcwd())
    project = project_folder(start)
    if options.host is None:
        _list_hosts(call, project)
        return None
    extras = frozenset(name for name in ("memlog", "workflows") if getattr(options, name))
    selected = _host(options.host)
    scope = _scope(call, selected)
    store = _named_store(call, scope)
    where = InstallTarget(scope, project, os.path.expanduser("~"), os.environ, start, extras, store)
    module_command = _module_command(call, start) if options.with_module else []
    edits = selected.edits(where, _command(call))
    if not edits:
        call.answer({"host": options.host, "changed": [], "hints": selected.hints(where)}, selected.hints(where))
        return 1
    changes = [(edit, edit.now(), edit.without() if options.undo else edit.installed()) for edit in edits]
    changes = [change for change in changes if change[1] != change[2]]
    if scope == PROJECT:
        _name_links(call, [edit for edit, _, _ in changes if edit.leads_out_of(project)])
    is_done = bool(changes) and not options.dry_run and _is_confirmed(call, changes)
    if is_done:
        for edit, before, after in changes:
            _write(edit, before, after, where, undo=options.undo)
    trusted = None
    if scope == PROJECT and not options.undo and not options.dry_run and (is_done or not changes):
        trusted = _trust_store(store, start)
    data = {
        "host": options.host,
        "scope": where.scope,
        "changed": [edit.path for edit, _, _ in changes] if is_done else [],
        "would_change": [] if is_done else [edit.path for edit, _, _ in changes],
        "installed": not options.undo and (is_done or not changes),
        "trusted": trusted,
    }
    if trusted is not None and not options.json:
        call.notify(f"{selected.TITLE} uses the store {trusted}. To undo: smp trust --revoke")
    if module_command:
        data["module"] = _install_module(call, module_command, ask=not options.dry_run)
    hints = [] if options.undo else selected.hints(where)
    call.answer(data, _result_lines(call, selected.TITLE, changes, is_done, hints))
    return None if is_done or options.dry_run or not changes else 1


def _scope(call: Invocation, host: Installable) -> str:
    """What was asked for, else the first that the host has: a few have MCP servers for all projects only."""
    options = call.options
    asked = USER if options.user else PROJECT if options.project else None
    if asked is not None and asked not in host.SCOPES:
        raise UserError(f"{host.TITLE} has MCP servers for all your projects only: smp install {options.host} --user")
    if asked is None and PROJECT not in host.SCOPES and not options.json:
        call.notify(f"{host.TITLE} has MCP servers for all your projects only, so this is not for one project.")
    return asked or host.SCOPES[0]


def _host(name: str) -> Installable:
    if name in hosts.HOSTS:
        from smp_memory.integrations.hooks.installation import TableHost

        return TableHost(name)
    from smp_memory.integrations.bmad import customisation

    return customisation


def _named_store(call: Invocation, scope: str = PROJECT) -> str:
    """The address of a store that hosts must name, because nobody finds it from the project's folder: one that is no folder, or the one for all projects."""
    from smp_memory.model.ids import scheme_of, without_password

    if call.options.root and scope == USER and not scheme_of(call.options.root):
        return os.path.abspath(str(call.options.root))
    return without_password(call.root) if call.root and scheme_of(call.root) else ""


def _trust_store(named: str, start: str) -> str | None:
    """Trust the store that hooks will use, because they are installed for it: the one that was named, else the project's; returns where it is."""
    from smp_memory.integrations.hooks import entry_point

    root = named or entry_point.find_store(start, os.environ)
    if root is not None:
        entry_point.trust(root)
    return root


# -- list of hosts


def _list_hosts(call: Invocation, project: str) -> None:
    rows = []
    for name in HOSTS:
        each = _host(name)
        row: dict[str, Any] = {"host": name, "title": each.TITLE, "about": each.ABOUT}
        for scope in (PROJECT, USER):
            where = InstallTarget(scope, project, os.path.expanduser("~"), os.environ, store=_named_store(call))
            row["detected"] = row.get("detected", False) or each.is_present(where)
            row[scope] = _state(call, each, where)
        rows.append(row)
    call.answer(rows, _hosts_table(call, rows, project))


def _state(call: Invocation, host: Installable, where: InstallTarget) -> str:
    if where.scope not in host.SCOPES:
        return ""
    edits = host.edits(where, _command(call))
    try:
        if not where.store:  # the one that the files name, so that an installation for it is recognised
            where.store = next(filter(None, (stated_store(edit.now()) for edit in edits)), "")
            edits = host.edits(where, _command(call)) if where.store else edits
        installed = [edit.is_installed for edit in edits]
        ours = [edit.now() != edit.without() for edit in edits]
    except UserError:
        return "cannot be read"
    if edits and all(installed):
        return "installed"
    return "in part" if any(ours) else "–"


def _hosts_table(call: Invocation, rows: list[dict[str, Any]], project: str) -> Iterator[str]:
    cells = [(row["host"], "yes" if row["detected"] else "–", row[PROJECT], row[USER], row["about"]) for row in rows]
    yield from table(("host", "found", "project", "user", "what is installed"), cells, call.screen.width)
    yield ""
    yield f"The project is {project}. To install: smp install {rows[0]['host']}"


# -- changes


def _command(call: Invocation) -> str:
    given: str | None = getattr(call.options, "command", None)
    return given or command_here()


def _name_links(call: Invocation, edits: list[FileEdit]) -> None:
    """Name files outside of the project that its links lead to; --yes does not cover them, because they may have come with a clone."""
    for edit in edits:
        text = f"{edit.name} is, or lies behind, a link to {edit.path}, outside of the project."
        if call.options.yes and not call.options.dry_run:
            raise UserError(
                f"{text} Nothing was changed. Install without --yes in a terminal to confirm it, or remove the link.",
                path=edit.path,
            )
        call.notify(text)


def _is_confirmed(call: Invocation, changes: list[tuple[FileEdit, str, str]]) -> bool:
    """Whether --yes was given, or a person confirms the diff that is shown."""
    if call.options.yes:
        return True
    if not call.is_interactive:
        return False
    call.stop_waiting()
    for line in _diffs(changes):
        call.screen.line(line)
    return call.confirm("Apply these changes?")


def _diffs(changes: list[tuple[FileEdit, str, str]]) -> Iterator[str]:
    for edit, before, after in changes:
        yield from color_diff(diff(edit.path, before.expandtabs(4), after.expandtabs(4)))


def _result_lines(
    call: Invocation, title: str, changes: list[tuple[FileEdit, str, str]], is_done: bool, hints: list[str]
) -> Iterator[str]:
    undo = call.options.undo
    if not changes:
        yield f"{title}: nothing to undo, SMP is not installed." if undo else f"{title}: SMP is installed already."
        return
    if not is_done:
        if call.options.dry_run or not call.is_interactive:  # a person who was asked has seen the diff
            yield from _diffs(changes)
            yield ""
        yield from _command_notes(call)
        yield "Nothing was changed." + ("" if call.options.dry_run else " Add --yes to apply the changes.")
        return
    for edit, _, after in changes:
        result = f"{edit.about} {'removed' if undo else 'added'}" if after else f"{edit.about} removed, file deleted"
        yield f"{paint('green', '✓')} {edit.path}: {result}"
    yield from hints
    if not undo:
        yield from _command_notes(call)
        from importlib.util import find_spec

        if any("MCP" in edit.about for edit, _, _ in changes) and find_spec("mcp") is None:
            from smp_memory.cli.commands.servers import MCP_PACKAGES

            only = " The hooks do not." if any("hooks" in edit.about for edit, _, _ in changes) else ""
            yield f"The MCP server needs one more package: {install_command(*MCP_PACKAGES)}.{only}"
        from smp_memory.integrations.hooks.entry_point import find_store

        if not _named_store(call) and find_store(os.getcwd(), os.environ) is None:
            yield "There is no store here yet: nothing is recalled or recorded without one. Create it: smp init"


def _command_notes(call: Invocation) -> Iterator[str]:
    """Why the files contain the path of a program, and what that means for other machines."""
    command = _command(call)
    if call.options.undo or call.options.command or command == "smp":
        return
    environment = environment_of(command)
    if environment is not None:
        yield f"SMP runs in the virtual environment {environment}, which hosts do not activate, so the files contain the path {command}"
    if not call.options.user:
        yield f"{command} exists on this machine only. If others use the same files: --command smp"


def _write(edit: FileEdit, before: str, after: str, where: InstallTarget, *, undo: bool) -> None:
    """Replace the file atomically; it keeps its mode, and a backup of the original is kept until --undo."""
    if edit.now() != before:  # changed while a person read the diff, or by the host itself
        raise UserError(f"{edit.path} was changed by another program. It was not written; try again.", path=edit.path)
    disk, backup = Disk(RealSystem()), edit.path + BACKUP
    if not after:
        disk.remove(edit.path)
        _remove_empty_folders(os.path.dirname(edit.name), where.project if where.scope == PROJECT else where.home)
    else:
        os.makedirs(os.path.dirname(edit.path), exist_ok=True)  # a folder of the host, with the user's default mode
        mode = os.stat(edit.path).st_mode & 0o777 if before else 0o644 if where.scope == PROJECT else 0o600
        if before and not undo and edit.without() == before:
            disk.replace(backup, before.encode("utf-8"))
        disk.replace(edit.path, after.encode("utf-8"))
        os.chmod(edit.path, mode)
    if undo:
        disk.remove(backup)


def _remove_empty_folders(folder: str, top: str) -> None:
    """Remove folders of the host that are empty now, such as .kiro/steering and .kiro: hidden ones and those inside of them."""
    below = os.path.join(os.path.abspath(top), "")
    while folder.startswith(below) and f"{os.sep}." in folder[len(below) - 1 :]:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


# -- BMAD's own installer


def _module_command(call: Invocation, start: str) -> list[str]:
    """The command that runs BMAD's installer; raises before anything is changed if it cannot be run."""
    from smp_memory.integrations.bmad.project import command_for, find_project

    project = find_project(start)
    if call.options.host != "bmad" or call.options.undo or project is None:
        raise UserError("--with-module requires `smp install bmad` in a BMAD project. To remove the module: npx bmad-method install")  # fmt: skip
    return command_for(project, call.options.with_module)


def _install_module(call: Invocation, words: list[str], *, ask: bool) -> dict[str, Any]:
    """Show the command, ask, and run it."""
    import shlex

    from smp_memory.integrations.bmad.project import run

    call.stop_waiting()
    if not call.options.json:
        call.screen.line(f"BMAD's installer: {shlex.join(words)}")
    is_confirmed = ask and call.options.yes
    if ask and not is_confirmed and call.is_interactive:
        is_confirmed = call.confirm("Run it?")
    if is_confirmed:
        run(words)
    return {"command": words, "ran": is_confirmed}


# -- hook


def hook_arguments(parser: Parser) -> None:
    parser.add_argument("--client", choices=("auto", *CLIENTS), default="auto", help="the coding agent (default: auto)")
    parser.add_argument("--wait", action="store_true", help="return only when everything is recorded")


def run_hook(call: Invocation) -> None:
    """Recall and record, for the hooks of a coding agent: an event as JSON on standard input, an answer on standard output.

    `smp install` writes this command into the settings of a coding agent. At the start of a session and at each prompt it
    returns relevant memories that were not returned yet; prompts, answers and text that is about to be compacted are stored
    in the project's store. Without a store it does nothing. The exit code is always 0: the agent never fails because of its
    memory. Errors are logged in the user's state of the store, and `smp doctor` reports them.

    Examples:
      echo '{"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": "."}' | smp hook
      smp hook --client codex < event.json
    """
    from smp_memory.integrations.hooks.entry_point import main

    if call.root:
        os.environ["SMP_ROOT"] = call.root
    main(["--client", call.options.client, *(["--wait"] if call.options.wait else [])])
