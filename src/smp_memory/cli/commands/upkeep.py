"""Commands that maintain a store: maintain, reindex, tidy, quarantine."""

from __future__ import annotations

import os
import time

from smp_memory.cli.render import paint, plural, size_text, table, time_text
from smp_memory.errors import UserError
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.store.quarantine import QuarantinedEntry
    from smp_memory.store.tidy import TidyReport


_WATCH_SECONDS = 600


def maintain_arguments(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be done; change nothing")
    parser.add_argument("--auto", action="store_true", help="only the cheap tasks that opening a store runs")
    parser.add_argument("--watch", action="store_true", help="keep running, and run tasks when they become due")
    parser.add_argument(
        "--only", action="append", metavar="TASK", help="this task, whether it is due or not; repeat for more"
    )


def run_maintain(call: Invocation) -> int:
    """Run the tasks that are due: compaction, decay counts, a check of the index, archiving, retention, purging.

    The last run of each task is stored in the user's state. Opening a store runs due and cheap tasks a few times a day; to
    run everything on time, run this command from cron, or with --watch.

    Examples:
      smp maintain --dry-run
      smp maintain --only archive
      smp maintain --watch
    """
    options = call.options
    only = options.only
    if options.auto:
        from smp_memory.lifecycle.maintenance import CHEAP

        only = list(CHEAP)
    report = call.memory.maintain(only=only, dry_run=options.dry_run)
    call.answer(report.to_dict(), _maintain_lines(report))
    _update_digests(call, only)
    while options.watch:
        time.sleep(_WATCH_SECONDS)
        report = call.memory.maintain(only=only, dry_run=options.dry_run)
        if report.did or not report.ok:
            call.answer(report.to_dict(), _maintain_lines(report))
        _update_digests(call, only)
    return 0 if report.ok else 1


def _update_digests(call: Invocation, only: list[str] | None) -> None:
    """Update the files that `smp digest` wrote, unless single tasks were selected."""
    if only is None:
        from smp_memory.context.digest import renew_digests

        for path in renew_digests(call.memory, dry_run=call.options.dry_run):
            call.notify(f"{path}: {'would be ' if call.options.dry_run else ''}updated")


def _maintain_lines(report: MaintenanceReport) -> Iterator[str]:
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


# -- reindex

_MIN_COMPARED_BYTES = 1 << 20  # below it the ratio says nothing: an empty index has a size, too


def reindex_arguments(parser: Parser) -> None:
    pass


def run_reindex(call: Invocation) -> None:
    """Rebuild the index from the files. Never required; safe at any time, also while other processes read and write.

    Queries keep the index up to date, and rebuild it if it is missing or damaged.

    Examples:
      smp reindex
      smp reindex --json
    """
    memory, started = call.memory, time.monotonic()
    progress = call.progress_line()
    count = memory.reindex(lambda session, done: progress.show(f"{plural(done, 'memory')} … {session}"))
    progress.clear()
    seconds = round(time.monotonic() - started, 3)
    index_bytes, file_bytes = _sizes(memory.root, memory.store.indexer.folder)
    data = {"root": memory.root, "memories": count, "seconds": seconds, "index_bytes": index_bytes, "file_bytes": file_bytes}  # fmt: skip
    call.answer(data, _reindex_lines(data))


def _sizes(root: str, index: str) -> tuple[int, int]:
    """Bytes of the index, and of the files that it is built from."""
    return _tree_size(index), sum(_tree_size(os.path.join(root, name)) for name in os.listdir(root) if name != ".smp")


def _tree_size(path: str) -> int:
    """Bytes of the files below a folder, without SMP's private ones; or of one file."""
    total = 0 if os.path.isdir(path) else _size(path)
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != ".smp"]
        total += sum(_size(os.path.join(folder, name)) for name in names)
    return total


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # gone meanwhile
        return 0


def _reindex_lines(data: dict[str, Any]) -> Iterator[str]:
    rate = f", {data['memories'] / data['seconds']:,.0f} a second" if data["seconds"] > 1 else ""
    yield f"{paint('green', '✓')} {plural(data['memories'], 'memory')} indexed in {data['seconds']:.2f} s{rate}"
    ratio = f" ({data['index_bytes'] / data['file_bytes']:.2f} ×)" if data["file_bytes"] >= _MIN_COMPARED_BYTES else ""
    yield f"  index {size_text(data['index_bytes'])}, files {size_text(data['file_bytes'])}{ratio}"


# -- tidy


def tidy_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--dry-run", action="store_true", help="show which memories would be tidied; change nothing")


def run_tidy(call: Invocation) -> None:
    """Merge appended changes into their entries, so that the files of the markdown layout show the current values.

    Old values are listed in the entry under `history`. Memories, histories, ids and revisions do not change.
    `smp maintain` does the same daily. Other layouts do not need it.

    Examples:
      smp tidy
      smp tidy --all --dry-run
    """
    options = call.options
    names = call.memory.store.session_ids() if options.all else [call.session().id]
    reports = [call.memory.session(name).tidy(dry_run=options.dry_run) for name in names]
    call.answer([each.to_dict() for each in reports], [_tidy_line(each, options.dry_run) for each in reports])


def _tidy_line(report: TidyReport, dry_run: bool) -> str:
    if not report.can_fold:
        return f"{report.session}: nothing to tidy; only the markdown layout needs it."
    if not report.ids:
        return f"{report.session}: nothing to tidy."
    merged = "would be merged" if dry_run else "merged"
    return f"{report.session}: changes of {plural(len(report.ids), 'memory')} {merged} into their entries."


# -- quarantine


def quarantine_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a file in the list, or a unique part of its name")
    parser.add_argument("--put-back", action="store_true", help="append its entries to their session again")


def run_quarantine(call: Invocation) -> None:
    """List the quarantined files of all sessions; with NAME show one file; --put-back puts it back into its session.

    Quarantine holds what a crash left unfinished, what `smp repair` could not read and what another program removed from a
    file. If an entry cannot be read, correct the file that the list names and put it back.

    Examples:
      smp quarantine
      smp quarantine decisions.jsonl.repair.20260131T143000Z
      smp quarantine decisions.jsonl.repair.20260131T143000Z --put-back
    """
    from smp_memory.store.quarantine import list_quarantined, restore_quarantined

    options = call.options
    items = list_quarantined(call.memory.store)
    if options.session:
        items = [item for item in items if item.session == options.session]
    if not options.name:
        if options.put_back:
            raise UserError("--put-back requires a NAME: smp quarantine NAME --put-back")
        call.answer([item.to_dict() for item in items], _quarantine_table(call, items))
        return
    item = _find_quarantined(items, options.name)
    if options.put_back:
        ids = restore_quarantined(item, to_text(call.memory.now()))
        call.answer({**item.to_dict(), "ids": ids}, [f"Put back into session {item.session}: {', '.join(ids)}"])
        return
    text = item.data.decode(errors="replace")
    call.answer({**item.to_dict(), "text": text}, _quarantined_lines(item, text))


def _find_quarantined(items: list[QuarantinedEntry], name: str) -> QuarantinedEntry:
    found = [item for item in items if item.name == name] or [item for item in items if name in item.name]
    if not found:
        raise UserError(f"{name}: there is no such file in quarantine. See: smp quarantine")
    if len(found) > 1:
        raise UserError(f"{name}: {len(found):,} files in quarantine match. See: smp quarantine")
    return found[0]


def _quarantine_table(call: Invocation, items: list[QuarantinedEntry]) -> Iterator[str]:
    if not items:
        yield "The quarantine is empty."
        return
    rows = [_row(item.to_dict()) for item in items]
    yield from table(["session", "name", "why", "size"], rows, call.screen.width)


def _row(item: dict[str, Any]) -> list[str]:
    return [item["session"], paint("cyan", item["name"]), item["why"], size_text(item["bytes"])]


def _quarantined_lines(item: QuarantinedEntry, text: str) -> Iterator[str]:
    yield paint("dim", f"{item.path}: {item.why}")
    yield from text.splitlines()
