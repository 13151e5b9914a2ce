"""Commands that maintain a store: maintain, reindex, tidy, compact, duplicates."""

from __future__ import annotations

import os
import time

from smp_memory.cli.render import fields, paint, plural, size_text, table, time_text
from smp_memory.model.ids import scheme_of
from smp_memory.model.session_info import names_of
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.lifecycle.compaction import CompactionReport
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.model.storage_reports import TidyReport


_WATCH_SECONDS = 600


def maintain_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--dry-run", action="store_true", help="show what the tasks would do; change nothing")
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

        for path in renew_digests(call.memory.scope, dry_run=call.options.dry_run):
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
    parser.is_about_store = True


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
    """Bytes of the index, and of the files that it is built from; 0 for what is not in files."""
    if scheme_of(root):
        return _tree_size(index) if index else 0, 0
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
    if not data["file_bytes"]:
        return
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
    names = names_of(call.memory.store.sessions()) if options.all else [call.session().id]
    reports = [call.memory.session(name).tidy(dry_run=options.dry_run) for name in names]
    call.answer([each.to_dict() for each in reports], [_tidy_line(each, options.dry_run) for each in reports])


def _tidy_line(report: TidyReport, dry_run: bool) -> str:
    if not report.can_fold:
        return f"{report.session}: nothing to tidy; only the markdown layout needs it."
    if not report.ids:
        return f"{report.session}: nothing to tidy."
    merged = "would be merged" if dry_run else "merged"
    return f"{report.session}: changes of {plural(len(report.ids), 'memory')} {merged} into their entries."


# -- compact


def compact_arguments(parser: Parser) -> None:
    parser.add_argument("--forced", action="store_true", help="free storage.forced_percent of it, not gentle_percent")
    parser.add_argument("--bytes", type=int, metavar="N", help="free N bytes")
    parser.add_argument("--dry-run", action="store_true", help="show what would be moved, and why; change nothing")


def run_compact(call: Invocation) -> None:
    """Move faded memories, old turns and resolved findings from a session's files to a cold segment beside them.

    Nothing is destroyed: `smp restore ID` restores a memory, `smp list --archived` lists what was moved, and
    `smp query --include-archived` finds it. Turns that are moved leave a summary. Pinned, open, recent and important
    memories stay.

    Examples:
      smp compact --dry-run
      smp compact --forced --session checkout-review
    """
    options = call.options
    target = options.bytes if options.bytes is not None else "forced" if options.forced else None
    report = call.session().compact(target, dry_run=options.dry_run)
    call.answer(report.to_dict(), _compaction_lines(report, options.dry_run))


def _compaction_lines(report: CompactionReport, dry_run: bool) -> Iterator[str]:
    plan = report.plan.to_dict()
    moved = "would be moved" if dry_run else "moved"
    count = len(report.removed)
    if not report:
        yield f"No memory of {report.session} can be moved."
    else:
        yield f"{plural(count, 'memory')} {moved} to the cold segment; {size_text(report.freed_bytes)} freed"
        yield from table(
            ("stage", ">memories", ">bytes"),
            [
                (stage.replace("_", " "), f"{figures['memories']:,}", size_text(figures["bytes"]))
                for stage, figures in plan["stages"].items()
                if figures["memories"]
            ],
            None,
        )
        for summary in plan["summaries"]:
            yield paint("dim", f"summarised: {', '.join(summary['covers'])}")
    if plan["kept"]:
        yield ""
        yield paint("bold", "Not moved")
        yield from table(
            (">memories", "why", "such as"),
            [(f"{each['memories']:,}", why, ", ".join(each["examples"])) for why, each in plan["kept"].items()],
            None,
        )


# -- duplicates


def duplicates_arguments(parser: Parser) -> None:
    parser.default_session = "all of them; with --merge the one written last"
    parser.add_argument("--merge", action="store_true", help="merge each group of a session into its first memory")
    parser.add_argument("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def run_duplicates(call: Invocation) -> None:
    """Find findings and preferences of a session that say the same; --merge merges them.

    A merge can be undone: the merged memories are in the trash, and the remaining one lists them.

    Examples:
      smp duplicates
      smp duplicates --merge --session checkout-review
    """
    if call.options.merge:
        sessions = call.memory.sessions() if call.options.all else [call.session()]
        merged = [session.merge(group, by=call.author) for session in sessions for group in session.duplicates()]
        call.answer([each.to_dict() for each in merged], [f"Merged {plural(len(merged), 'group')}."])
        return
    groups = [
        {"session": session.id, **group.to_dict()} for session in call.read_sessions for group in session.duplicates()
    ]
    call.answer(groups, _group_lines(call, groups))


def _group_lines(call: Invocation, groups: list[dict[str, Any]]) -> Iterator[str]:
    if not groups:
        yield f"No two findings or preferences of a session say the same, in {call.scope_text}."
        return
    short_ids = call.has_one_session
    for group in groups:
        prefix = "" if short_ids else f"{group['session']}/"
        yield from fields(
            [
                (
                    paint("cyan", prefix + each["id"]),
                    f"{each['text']}  {paint('dim', format(each['similarity'], '.2f'))}",
                )
                for each in group["memories"]
            ],
            None,
        )
        yield ""
    yield paint("dim", f"{plural(len(groups), 'group')} in {call.scope_text}. To merge those of a session: smp duplicates --merge --session {groups[0]['session']}")  # fmt: skip
