"""Maintenance: what is due, and doing it."""

from __future__ import annotations

from smp.cli.render import paint, table, time_text
from smp.model.time import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.cli.arguments import Parser
    from smp.cli.call import Call
    from smp.maintaining import MaintenanceReport

_WATCH_SECONDS = 600


def maintain_arguments(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be done; change nothing")
    parser.add_argument("--auto", action="store_true", help="only what is cheap, as opening a store does")
    parser.add_argument("--watch", action="store_true", help="stay, and run what becomes due")
    parser.add_argument(
        "--only", action="append", metavar="TASK", help="this task, whether it is due or not; repeat for more"
    )


def run_maintain(call: Call) -> int:
    """Run what is due: compaction, counts for fading, a check of the index, archiving, retention, purging.

    Each task knows when it ran last (in the user's state). Opening a store runs what is due and cheap a few times a
    day; to run everything on time, call this from cron, or let it stay with --watch.

    Examples:
      smp maintain --dry-run
      smp maintain --only archive
      smp maintain --watch
    """
    options = call.options
    only = options.only
    if options.auto:
        from smp.maintaining import CHEAP

        only = list(CHEAP)
    report = call.memory.maintain(only=only, dry_run=options.dry_run)
    call.answer(report.to_dict(), _lines(report))
    _renew_digests(call, only)
    while options.watch:
        import time

        time.sleep(_WATCH_SECONDS)
        report = call.memory.maintain(only=only, dry_run=options.dry_run)
        if report.did or not report.ok:
            call.answer(report.to_dict(), _lines(report))
        _renew_digests(call, only)
    return 0 if report.ok else 1


def _renew_digests(call: Call, only: list[str] | None) -> None:
    """What `smp digest` wrote follows the store."""
    if only is None:
        from smp.digest import renew_digests

        for path in renew_digests(call.memory, dry_run=call.options.dry_run):
            call.remark(f"{path}: {'would be ' if call.options.dry_run else ''}written anew")


def _lines(report: MaintenanceReport) -> Iterator[str]:
    rows = [
        (
            task.name,
            "would run" if task.ran and report.dry_run else "ran" if task.ran else "not due",
            time_text(to_text(task.next)),
            task.problem or "; ".join(task.did) or ("nothing to do" if task.ran else ""),
        )
        for task in report.tasks
    ]
    yield from table(("task", "", "next (UTC)", "what"), rows, None)
    if report.refused:
        yield paint("yellow", f"Nothing was archived, expired or purged: {report.refused}.")
