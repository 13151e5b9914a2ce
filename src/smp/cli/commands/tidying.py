"""The command `tidy`: fold changes into the entries that they change."""

from __future__ import annotations

from smp.cli.render import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.cli.arguments import Parser
    from smp.cli.call import Call
    from smp.store.tidying import Tidied


def tidy_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--dry-run", action="store_true", help="show which memories would be folded; change nothing")


def run_tidy(call: Call) -> None:
    """Fold changes into the entries that they change, so that the files of the markdown layout show what holds today.

    What was before stands below the entry, under `history`. Memories, histories, ids and revisions stay as they are.
    `smp maintain` does the same daily. In other layouts there is nothing to fold.

    Examples:
      smp tidy
      smp tidy --all --dry-run
    """
    options = call.options
    names = call.memory.store.session_ids() if options.all else [call.session().id]
    done = [call.memory.session(name).tidy(dry_run=options.dry_run) for name in names]
    call.answer([each.to_dict() for each in done], [_line(each, options.dry_run) for each in done])


def _line(done: Tidied, dry_run: bool) -> str:
    if not done.can_fold:
        return f"{done.session}: nothing to fold; only the markdown layout folds changes into their entries."
    if not done.ids:
        return f"{done.session}: nothing to fold."
    would = "would be folded" if dry_run else "folded"
    return f"{done.session}: changes of {plural(len(done.ids), 'memory')} {would} into their entries."
