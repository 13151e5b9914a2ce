"""A store in a git repository: set-up of the merge driver, the driver itself, and a check before a commit."""

from __future__ import annotations

import os

from smp_memory.cli.render import paint, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.git.repository import Repository
    from smp_memory.integrations.git.setup import Setup, SetupChange


# -- setup


def git_setup_arguments(parser: Parser) -> None:
    parser.add_argument("--pre-commit", action="store_true", help="also install a hook that runs `smp git check`")
    parser.add_argument("--undo", action="store_true", help="take out what was put in")
    parser.add_argument("--dry-run", action="store_true", help="show the changes and leave it at that")
    parser.add_argument("--command", metavar="CMD", help="how git calls SMP (default: smp, or where it is)")


def run_git_setup(call: Call) -> None:
    """Let git merge the store of this project entry by entry, or take that out with --undo.

    .gitattributes and .gitignore get a marked block with the rules for the store's files; commit them. The merge driver is
    registered in this clone's configuration, which git does not share: each clone needs this command once. A hook that
    is there already is not changed; the command says which line to add.

    Examples:
      smp git setup --dry-run
      smp git setup
      smp git setup --pre-commit
      smp git setup --undo
    """
    from smp_memory.integrations.git.setup import Setup

    options = call.options
    repository, root = _places(call)
    setup = Setup(repository, root, options.command)
    changes = setup.changes(undo=options.undo, hook=options.pre_commit)
    if not options.dry_run:
        for change in changes:
            change.carry_out()
    if not options.undo and repository.ignores(root):
        setup.notes.append(f"git ignores {root}: its files are not committed as long as .gitignore says so.")
    places = [change.where for change in changes]
    facts = {
        "root": root,
        "work_tree": repository.top,
        "changed": [] if options.dry_run else places,
        "would_change": places if options.dry_run else [],
        "command": setup.command,
        "notes": setup.notes,
    }
    call.answer(facts, _told(call, setup, changes))


def _told(call: Call, setup: Setup, changes: list[SetupChange]) -> Iterator[str]:
    options = call.options
    if not changes:
        yield "Nothing to undo: git does not use SMP here." if options.undo else "git is set up for this store already."
    for change in changes:
        if options.dry_run:
            yield from _diff(change)
        else:
            verb = "taken out of" if options.undo else "written to"
            yield f"{paint('green', '✓')} {verb} {change.where}" + ("" if change.after or not os.path.isabs(change.where) else ", which is gone now")  # fmt: skip
    if options.dry_run:
        yield "Nothing was changed."
    elif changes and not options.undo:
        yield from said(setup, changes)
    yield from setup.notes


def said(setup: Setup, changes: list[SetupChange]) -> Iterator[str]:
    """What a person should know after a set-up."""
    if setup.command != "smp" and any("config" in change.where for change in changes):
        yield f"git calls {setup.command}, which only this machine has; each clone registers its own program."
    if any(".gitattributes" in change.where for change in changes):
        yield "Commit .gitattributes and .gitignore. In every other clone, run once: smp git setup"


def _diff(change: SetupChange) -> Iterator[str]:
    from smp_memory.integrations.hooks.install.file_edit import diff

    for line in diff(change.where, change.before, change.after):
        color = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        yield paint(color, line) if color else line


def _places(call: Call) -> tuple[Repository, str]:
    """The work tree and the folder of the store."""
    from smp_memory.discovery import find_root
    from smp_memory.errors import UserError
    from smp_memory.git.repository import Repository

    root = os.path.realpath(call.root or find_root(None))
    if not os.path.isdir(root):
        from smp_memory.errors import StoreNotFound

        raise StoreNotFound(f"There is no store in {root}. Make one: smp init", path=root)
    repository = Repository.find(root)
    if repository is None:
        raise UserError(f"{root} is not in a git work tree, or git refuses to use it (git -C {root} status says why).", path=root)  # fmt: skip
    return repository, root


def set_up_new_store(call: Call, root: str) -> dict[str, object] | None:
    """What `smp init` does in a work tree: the same as `smp git setup`. A failure is told and no reason to fail."""
    from smp_memory.errors import SMPError
    from smp_memory.git.repository import Repository
    from smp_memory.integrations.git.setup import Setup

    try:
        repository = Repository.find(root)
        if repository is None or repository.ignores(root):
            return None
        setup = Setup(repository, root)
        changes = setup.changes()
        if changes:
            call.remark(f"{repository.top} is a git work tree: setting up .gitattributes, .gitignore and a merge driver for this store. Undo: smp git setup --undo. Without git: smp init --no-git")  # fmt: skip
        for change in changes:
            change.carry_out()
        for line in said(setup, changes):
            call.remark(line)
        return {"work_tree": repository.top, "changed": [change.where for change in changes]}
    except (SMPError, OSError) as error:
        call.remark(f"git was not set up for this store: {error}. Try again: smp git setup")
        return None


# -- the merge driver


def git_merge_driver_arguments(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="base, ours, theirs, and the path in the work tree")


def run_git_merge_driver(call: Call) -> int:
    """Merge one file of a store entry by entry. Called by git as %O %A %B %P; `smp git setup` registers it.

    The result is written to the second file. The exit code is 0 without a conflict, and 1 if a person has to decide:
    what both sides say then stands between git's conflict markers.

    Examples:
      smp git merge-driver base ours theirs .bmad/memory/sessions/shop/findings.jsonl
    """
    from smp_memory.integrations.git.merge_driver import main

    return main(call.options.files)


# -- check


def git_check_arguments(parser: Parser) -> None:
    pass


def run_git_check(call: Call) -> int:
    """Check what is staged for the next commit: no secret, no private file of SMP and no conflict marker may go in.

    Only the files of the store are looked at. Each finding names file and line, never the secret. The exit code is 1 if
    there is any. `smp git setup --pre-commit` runs this before every commit.

    Examples:
      smp git check
    """
    from smp_memory.integrations.git.staged_check import check_staged

    repository, root = _places(call)
    count, found = check_staged(repository, root)
    facts = {"ok": not found, "files": count, "findings": [each._asdict() for each in found]}
    call.answer(facts, [*map(str, found), _verdict(count, len(found))])
    return 1 if found else 0


def _verdict(count: int, found: int) -> str:
    if found:
        return f"{paint('red', '✗')} Not to be committed: {plural(found, 'finding')} in {plural(count, 'staged file')} of the store."
    return f"{paint('green', '✓')} {plural(count, 'staged file')} of the store, nothing found."
