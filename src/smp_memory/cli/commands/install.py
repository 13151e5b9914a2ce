"""Commands for coding agents: install, trust, hook. `cli.main` runs hook without this module, which provides its help."""

from __future__ import annotations

import os

from smp_memory.cli.render import color_diff, paint, table
from smp_memory.errors import UserError, install_command
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.hooks.events import CLIENTS
from smp_memory.integrations.hooks.file_edit import BACKUP, FileEdit, command_here, diff, environment_of
from smp_memory.integrations.hooks.hosts import AGENTS, PROJECT, USER, InstallTarget, project_folder
from smp_memory.trust import held_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.config.settings import HeldSetting
    from smp_memory.integrations.hooks.hosts import Host

HOSTS = (*AGENTS, "bmad")


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
        help="the command by which the host runs SMP (default: smp, or its path, as in a virtual environment)",
    )
    parser.add_argument("--in", dest="folder", metavar="DIR", help="the project's folder (default: this one)")
    parser.add_argument("--memlog", action="store_true", help="bmad: agents run `smp memlog` instead of memlog.py")
    parser.add_argument(
        "--workflows", action="store_true", help="bmad: all workflows, not only party mode and retrospectives"
    )
    parser.add_argument("--with-module", metavar="DIR", help="bmad: also run BMAD's installer with SMP's plugin folder as a module")  # fmt: skip


def run_install(call: Invocation) -> int | None:
    """Add hooks and the MCP server to the settings of a coding agent; --undo removes them.

    The changes are shown first, as a diff; a script needs --yes. Everything else in the files stays as it is, byte for byte,
    and a copy of each changed file is kept beside it (.smp-backup) until --undo. Running it twice changes nothing.
    Without a host it lists the hosts, and what is installed in them.

    Examples:
      smp install
      smp install claude-code --dry-run
      smp install claude-code --yes
      smp install codex --user --yes
      smp install gemini --undo --yes
      smp install bmad --memlog --dry-run
    """
    options = call.options
    start = os.path.abspath(options.folder or os.getcwd())
    project = project_folder(start)
    if options.host is None:
        _list_hosts(call, project)
        return None
    extras = frozenset(name for name in ("memlog", "workflows") if getattr(options, name))
    scope = USER if options.user else PROJECT
    where = InstallTarget(scope, project, os.path.expanduser("~"), os.environ, start, extras, _named_store(call))
    selected = _host(options.host)
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
            _write(edit, before, after, is_shared=where.scope == PROJECT, undo=options.undo)
    trusted = None
    if scope == PROJECT and not options.undo and not options.dry_run and (is_done or not changes):
        trusted = _trust_store(_named_store(call), start)
    data = {
        "host": options.host,
        "scope": where.scope,
        "changed": [edit.path for edit, _, _ in changes] if is_done else [],
        "would_change": [] if is_done else [edit.path for edit, _, _ in changes],
        "installed": not options.undo and (is_done or not changes),
        "trusted": trusted,
    }
    if trusted is not None and not options.json:
        call.notify(f"Hooks use the store {trusted}. To undo: smp trust --revoke")
    if module_command:
        data["module"] = _install_module(call, module_command, ask=not options.dry_run)
    hints = [] if options.undo else selected.hints(where)
    call.answer(data, _result_lines(call, selected.TITLE, changes, is_done, hints))
    return None if is_done or options.dry_run or not changes else 1


def _host(name: str) -> Host:
    if name in AGENTS:
        return AGENTS[name]
    from smp_memory.integrations.bmad import customisation

    return customisation


def _named_store(call: Invocation) -> str:
    """The address of a store that is no folder, which hosts must name: nobody finds it from the project's folder."""
    from smp_memory.model.ids import scheme_of, without_password

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
            row[scope] = _state(each.edits(where, _command(call)))
        rows.append(row)
    call.answer(rows, _hosts_table(call, rows, project))


def _state(edits: list[FileEdit]) -> str:
    if not edits:
        return "–"
    try:
        installed = [edit.is_installed for edit in edits]
        ours = [edit.now() != edit.without() for edit in edits]
    except UserError:
        return "cannot be read"
    if all(installed):
        return "installed"
    return "in part" if any(ours) else "–"


def _hosts_table(call: Invocation, rows: list[dict[str, Any]], project: str) -> Iterator[str]:
    cells = [(row["host"], "yes" if row["detected"] else "–", row[PROJECT], row[USER], row["about"]) for row in rows]
    yield from table(("host", "found", "in this project", "for you", "what is installed"), cells, call.screen.width)
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

            yield f"The MCP server needs one more package: {install_command(*MCP_PACKAGES)}. The hooks do not."
        from smp_memory.integrations.hooks.entry_point import find_store

        if not _named_store(call) and find_store(os.getcwd(), os.environ) is None:
            yield "There is no store here yet: the hooks do nothing without one. Create it: smp init"


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


def _write(edit: FileEdit, before: str, after: str, *, is_shared: bool, undo: bool) -> None:
    """Replace the file atomically; it keeps its mode, and a backup of the original is kept until --undo."""
    if edit.now() != before:  # changed while a person read the diff, or by the host itself
        raise UserError(f"{edit.path} was changed by another program. It was not written; try again.", path=edit.path)
    disk, backup = Disk(RealSystem()), edit.path + BACKUP
    if not after:
        disk.remove(edit.path)
        folder = os.path.dirname(edit.path)
        if os.path.basename(folder).startswith("."):  # a folder of the host, such as .claude; not the project itself
            try:
                os.rmdir(folder)  # only if it is empty now
            except OSError:
                pass
    else:
        os.makedirs(os.path.dirname(edit.path), exist_ok=True)  # a folder of the host, with the user's default mode
        mode = os.stat(edit.path).st_mode & 0o777 if before else 0o644 if is_shared else 0o600
        if before and not undo and edit.without() == before:
            disk.replace(backup, before.encode("utf-8"))
        disk.replace(edit.path, after.encode("utf-8"))
        os.chmod(edit.path, mode)
    if undo:
        disk.remove(backup)


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
    earlier removal, more that is told or recorded), the trusted values hold until you run `smp trust` again, which shows the change.

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
        raise UserError("Nothing was changed: the settings that you trusted before still hold.")
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
    from smp_memory.model.ids import scheme_of
    from smp_memory.store.opening import trusted_stores

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
