"""Commands for a store in a git repository: git setup, git resolve, git check, git merge-driver."""

from __future__ import annotations

import os

from smp_memory.cli.render import color_diff, paint, plural
from smp_memory.discovery import find_root
from smp_memory.errors import SMPError, StoreNotFound, UserError
from smp_memory.git.repository import Repository
from smp_memory.model.ids import scheme_of, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.integrations.git import Setup, SetupChange

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
    repository, root = find_repository(call)
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


def find_repository(call: Invocation) -> tuple[Repository, str]:
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
        call.notify(f"git was not set up for this store: {error} Try again: smp git setup")
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

    repository, root = find_repository(call)
    count, problems = check_staged(repository, root)
    data = {"ok": not problems, "files": count, "findings": [each._asdict() for each in problems]}
    call.answer(data, [*map(str, problems), _result_line(count, len(problems))])
    return 1 if problems else 0


def _result_line(files: int, problems: int) -> str:
    staged = f"{plural(files, 'staged file')} of the store"
    if problems:
        return f"{paint('red', '✗')} Do not commit: {plural(problems, 'problem')} in {staged}."
    return f"{paint('green', '✓')} {staged}, no problems."
