"""Putting hooks and the MCP server into a host's settings, and taking them out again."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint, table
from smp_memory.integrations.hooks.install import HOSTS, PROJECT, USER, InstallTarget, host, project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.integrations.hooks.install.file_edit import FileEdit


def install_arguments(parser: Parser) -> None:
    parser.add_argument("host", metavar="HOST", nargs="?", choices=tuple(HOSTS), help=", ".join(HOSTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", action="store_true", help="for this project (default)")
    scope.add_argument("--user", action="store_true", help="for all your projects")
    parser.add_argument("--undo", action="store_true", help="take out what was put in")
    parser.add_argument("--dry-run", action="store_true", help="show the change and leave it at that")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--command",
        metavar="CMD",
        help="how the host calls SMP (default: smp, or its path, as in a virtual environment)",
    )
    parser.add_argument("--in", dest="folder", metavar="DIR", help="the project's folder (default: here)")
    parser.add_argument("--memlog", action="store_true", help="bmad: agents call `smp memlog` where they would call memlog.py")  # fmt: skip
    parser.add_argument("--workflows", action="store_true", help="bmad: all workflows, not only those that look back")
    parser.add_argument("--with-module", metavar="DIR", help="bmad: also let BMAD's installer take in SMP's plugin folder as a module")  # fmt: skip


def run_install(call: Call) -> int | None:
    """Put hooks and the MCP server into the settings of a coding agent, or take them out with --undo.

    The change is shown first, as a diff; a script says --yes. Everything else in the files stays as it is, byte for byte,
    and a copy of what was there is kept beside each file (.smp-backup) until --undo. Doing it twice changes nothing.
    Without a host: which ones are there, and what is installed.

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
    where = InstallTarget(scope, project, os.path.expanduser("~"), os.environ, start, extras)
    asked = host(options.host)
    module = _module(call, start) if options.with_module else []
    edits = asked.edits(where, _command(call))
    if not edits:
        call.answer({"host": options.host, "changed": [], "hints": asked.hints(where)}, asked.hints(where))
        return 1
    changes = [(edit, edit.now(), edit.without() if options.undo else edit.installed()) for edit in edits]
    changes = [change for change in changes if change[1] != change[2]]
    done = bool(changes) and not options.dry_run and _may_change(call, changes)
    if done:
        for edit, before, after in changes:
            _write(edit, before, after, is_shared=where.scope == PROJECT, undo=options.undo)
    trusted = None
    if scope == PROJECT and not options.undo and not options.dry_run and (done or not changes):
        trusted = _trust(start)
    facts = {
        "host": options.host,
        "scope": where.scope,
        "changed": [edit.path for edit, _, _ in changes] if done else [],
        "would_change": [] if done else [edit.path for edit, _, _ in changes],
        "installed": not options.undo and (done or not changes),
        "trusted": trusted,
    }
    if trusted is not None and not options.json:
        call.remark(f"Hooks use the store {trusted} (smp trust --revoke takes that back).")
    if module:
        facts["module"] = _with_module(call, module, ask=not options.dry_run)
    call.answer(facts, _told(call, asked.TITLE, changes, done, [] if options.undo else asked.hints(where)))
    return None if done or options.dry_run or not changes else 1


def _trust(start: str) -> str | None:
    """Whoever installs hooks for a project wants them to use its store; which one it is."""
    from smp_memory.integrations.hooks import project_store

    root = project_store.find_store(start, os.environ)
    if root is not None:
        project_store.trust(root)
    return root


# -- what is there


def _list_hosts(call: Call, project: str) -> None:
    rows = []
    for name in HOSTS:
        asked = host(name)
        found: dict[str, Any] = {"host": name, "title": asked.TITLE, "about": asked.ABOUT}
        for scope in (PROJECT, USER):
            where = InstallTarget(scope, project, os.path.expanduser("~"), os.environ)
            found["detected"] = found.get("detected", False) or asked.is_present(where)
            found[scope] = _state(asked.edits(where, _command(call)))
        rows.append(found)
    call.answer(rows, _hosts_table(call, rows, project))


def _state(edits: list[FileEdit]) -> str:
    from smp_memory.errors import UserError

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


def _hosts_table(call: Call, rows: list[dict[str, Any]], project: str) -> Iterator[str]:
    cells = [(row["host"], "yes" if row["detected"] else "–", row[PROJECT], row[USER], row["about"]) for row in rows]
    yield from table(("host", "found", "in this project", "for you", "what is put in"), cells, call.screen.width)
    yield ""
    yield f"The project is {project}. To install: smp install {rows[0]['host']}"


# -- changing


def _command(call: Call) -> str:
    from smp_memory.integrations.hooks.install.file_edit import command_here

    given: str | None = getattr(call.options, "command", None)
    return given or command_here()


def _may_change(call: Call, changes: list[tuple[FileEdit, str, str]]) -> bool:
    """Whether a person or a script agrees. The diff goes to the terminal, so that people know to what."""
    if call.options.yes:
        return True
    if not _is_person(call):
        return False
    for line in _diffs(changes):
        call.screen.line(line)
    call.screen.flush()
    sys.stdout.write("Change this? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _is_person(call: Call) -> bool:
    return sys.stdin.isatty() and call.screen.is_terminal and not call.options.json


def _diffs(changes: list[tuple[FileEdit, str, str]]) -> Iterator[str]:
    from smp_memory.integrations.hooks.install.file_edit import diff

    for edit, before, after in changes:
        for line in diff(edit.path, before.expandtabs(4), after.expandtabs(4)):
            color = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
            yield paint(color, line) if color else line


def _told(
    call: Call, title: str, changes: list[tuple[FileEdit, str, str]], done: bool, hints: list[str]
) -> Iterator[str]:
    undo = call.options.undo
    if not changes:
        yield f"{title}: nothing to change, it is {'not installed' if undo else 'installed'} already."
        return
    if not done:
        if call.options.dry_run or not _is_person(call):  # who was asked has seen it
            yield from _diffs(changes)
            yield ""
        yield from _about_command(call)
        yield "Nothing was changed." + ("" if call.options.dry_run else " --yes does it.")
        return
    for edit, _, after in changes:
        yield f"{paint('green', '✓')} {edit.path}: {edit.about} {'taken out' if undo else 'put in'}" + (
            "" if after else ", the file is gone"
        )
    yield from hints
    if not undo:
        yield from _about_command(call)
        from importlib.util import find_spec

        if any("MCP" in edit.about for edit, _, _ in changes) and find_spec("mcp") is None:
            from smp_memory.cli.commands.mcp import HOW_TO_INSTALL

            yield f"The MCP server needs one more package: {HOW_TO_INSTALL}. The hooks do not."
        from smp_memory.integrations.hooks.project_store import find_store

        if find_store(os.getcwd(), os.environ) is None:
            yield "There is no store here yet: the hooks do nothing until there is one. Make it: smp init"


def _about_command(call: Call) -> Iterator[str]:
    """Why the files name a path, and what that means for others."""
    from smp_memory.integrations.hooks.install.file_edit import environment_of

    command = _command(call)
    if call.options.undo or call.options.command or command == "smp":
        return
    environment = environment_of(command)
    if environment is not None:
        yield f"SMP runs in the virtual environment {environment}, which hosts do not activate. The files name its program: {command}"
    if not call.options.user:
        yield f"Only this machine has {command}. If others share the files: --command smp"


def _write(edit: FileEdit, before: str, after: str, *, is_shared: bool, undo: bool) -> None:
    """Replace the file as a whole; it keeps its mode, and a copy of what was there is kept until it is undone."""
    from smp_memory.errors import UserError
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.integrations.hooks.install.file_edit import BACKUP

    if edit.now() != before:  # while somebody read the diff, or by the host itself
        raise UserError(f"{edit.path} was changed meanwhile. It was left as it is; try again.", path=edit.path)
    disk, backup = Disk(RealSystem()), edit.path + BACKUP
    if not after:
        disk.remove(edit.path)
        folder = os.path.dirname(edit.path)
        if os.path.basename(folder).startswith("."):  # a host's own, such as .claude; not the project itself
            try:
                os.rmdir(folder)  # if it was only there for this
            except OSError:
                pass
    else:
        os.makedirs(os.path.dirname(edit.path), exist_ok=True)  # a host's folder, with the modes that people use
        mode = os.stat(edit.path).st_mode & 0o777 if before else 0o644 if is_shared else 0o600
        if before and not undo and edit.without() == before:
            disk.replace(backup, before.encode("utf-8"))
        disk.replace(edit.path, after.encode("utf-8"))
        os.chmod(edit.path, mode)
    if undo:
        disk.remove(backup)


# -- BMAD's own installer


def _module(call: Call, start: str) -> list[str]:
    """What would be called, or an error before anything is changed."""
    from smp_memory.errors import UserError
    from smp_memory.integrations.bmad.project import command_for, find_project

    found = find_project(start)
    if call.options.host != "bmad" or call.options.undo or found is None:
        raise UserError("--with-module goes with: smp install bmad, in a project that has BMAD. To take the module out: npx bmad-method install")  # fmt: skip
    return command_for(found, call.options.with_module)


def _with_module(call: Call, words: list[str], *, ask: bool) -> dict[str, Any]:
    """Show the call, ask, and run it."""
    import shlex

    from smp_memory.integrations.bmad.project import run

    if not call.options.json:
        call.screen.line(f"BMAD's installer: {shlex.join(words)}")
    agreed = ask and call.options.yes
    if ask and not agreed and _is_person(call):
        call.screen.flush()
        sys.stdout.write("Run it? [y/N] ")
        sys.stdout.flush()
        agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if agreed:
        run(words)
    return {"command": words, "ran": agreed}
