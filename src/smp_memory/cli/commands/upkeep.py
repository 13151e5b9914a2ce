"""Maintenance: what is due, and doing it.

Making the index anew: reindex.

The command `tidy`: fold changes into the entries that they change.

Looking at what was set aside, and putting it back.
"""

from __future__ import annotations

import os
import sys
import time

from smp_memory.cli.render import Screen, paint, plural, size_text, table, time_text
from smp_memory.errors import UserError
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.store.quarantine import QuarantinedEntry
    from smp_memory.store.tidy import TidyReport


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
        from smp_memory.lifecycle.maintenance import CHEAP

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
        from smp_memory.context.digest import renew_digests

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


_WORTH_COMPARING = 1 << 20  # bytes; an empty index has its size, too
_QUIET_SECONDS, _PAUSE_SECONDS = 1.0, 0.1


def reindex_arguments(parser: Parser) -> None:
    pass


def run_reindex(call: Call) -> None:
    """Make the index anew from the files. Never needed; harmless at any time, also while others read and write.

    Queries keep the index up to date by themselves, and make it anew if it is missing or damaged.

    Examples:
      smp reindex
      smp reindex --json
    """
    memory, started = call.memory, time.monotonic()
    progress = IndexProgress(call)
    count = memory.reindex(progress)
    progress.end()
    seconds = round(time.monotonic() - started, 3)
    index_bytes, file_bytes = _sizes(memory.root, memory.store.indexer.folder)
    facts = {"root": memory.root, "memories": count, "seconds": seconds, "index_bytes": index_bytes, "file_bytes": file_bytes}  # fmt: skip
    call.answer(facts, _done(facts))


class IndexProgress:
    """Says how far it is, on a terminal and only if it takes long."""

    def __init__(self, call: Call) -> None:
        self._screen = Screen(sys.stderr, may_color=not call.options.no_color)
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown = False

    def __call__(self, session: str, done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE_SECONDS
            self._shown = True
            self._screen.passing(f"{plural(done, 'memory')} … {session}")

    def end(self) -> None:
        if self._shown:
            self._screen.passing("")


def _sizes(root: str, index: str) -> tuple[int, int]:
    """Bytes of the index, and of the files that it is made from."""
    return _below(index), sum(_below(os.path.join(root, name)) for name in os.listdir(root) if name != ".smp")


def _below(path: str) -> int:
    """Bytes of the files below a folder, without SMP's own; or of one file."""
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


def _done(facts: dict[str, Any]) -> Iterator[str]:
    rate = f", {facts['memories'] / facts['seconds']:,.0f} a second" if facts["seconds"] > 1 else ""
    yield f"{paint('green', '✓')} {plural(facts['memories'], 'memory')} indexed in {facts['seconds']:.2f} s{rate}"
    share = f" ({facts['index_bytes'] / facts['file_bytes']:.2f} ×)" if facts["file_bytes"] >= _WORTH_COMPARING else ""
    yield f"  index {size_text(facts['index_bytes'])}, files {size_text(facts['file_bytes'])}{share}"


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


def _line(done: TidyReport, dry_run: bool) -> str:
    if not done.can_fold:
        return f"{done.session}: nothing to fold; only the markdown layout folds changes into their entries."
    if not done.ids:
        return f"{done.session}: nothing to fold."
    would = "would be folded" if dry_run else "folded"
    return f"{done.session}: changes of {plural(len(done.ids), 'memory')} {would} into their entries."


def quarantine_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a file in the list, or a part of its name that no other has"
    )
    parser.add_argument("--put-back", action="store_true", help="append its entries to their session again")


def run_quarantine(call: Call) -> None:
    """List what was set aside in all sessions; with NAME show one file; with --put-back put it back into its session.

    What a crash left unfinished, what `repair` could not read and what another program took out of a file is kept there. If an
    entry cannot be read, correct the file that the list names and put it back.

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
            raise UserError("Say which one: smp quarantine NAME --put-back")
        call.answer([item.to_dict() for item in items], _list(call, items))
        return
    item = _meant(items, options.name)
    if options.put_back:
        found = restore_quarantined(item, to_text(call.memory.now()))
        call.answer({**item.to_dict(), "ids": found}, [f"Put back into session {item.session}: {', '.join(found)}"])
        return
    text = item.data.decode(errors="replace")
    call.answer({**item.to_dict(), "text": text}, _shown(item, text))


def _meant(items: list[QuarantinedEntry], name: str) -> QuarantinedEntry:
    found = [item for item in items if item.name == name] or [item for item in items if name in item.name]
    if len(found) != 1:
        many = "nothing" if not found else plural(len(found), "file")
        raise UserError(f"{name}: {many} in quarantine has this name. See: smp quarantine")
    return found[0]


def _list(call: Call, items: list[QuarantinedEntry]) -> Iterator[str]:
    if not items:
        yield "Nothing was set aside."
        return
    rows = [_row(item.to_dict()) for item in items]
    yield from table(["session", "name", "why", "size"], rows, call.screen.width)


def _row(item: dict[str, Any]) -> list[str]:
    return [item["session"], paint("cyan", item["name"]), item["why"], size_text(item["bytes"])]


def _shown(item: QuarantinedEntry, text: str) -> Iterator[str]:
    yield paint("dim", f"{item.path}: {item.why}")
    yield from text.splitlines()
