"""Commands for the lifecycle of sessions: archive, restore, delete, undelete, purge, compact, archived, duplicates."""

from __future__ import annotations

from smp_memory.cli.render import fields, paint, plural, size_text, table, time_text
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.lifecycle.compaction import CompactionReport


def _session_arguments(parser: Parser, *, has_reason: bool = True) -> None:
    parser.add_argument("id", metavar="ID", help="the session")
    if has_reason:
        parser.add_argument("--reason", metavar="TEXT", help="why; stored with the session and in the audit log")


# -- session archive, archive


def session_archive_arguments(parser: Parser) -> None:
    _session_arguments(parser)


def run_session_archive(call: Invocation) -> None:
    """Archive a session: a compressed file and a summary. Opening the session restores it.

    The archive is read back and compared before the session's files are removed. `smp query --include-archived` still
    searches it.

    Examples:
      smp session archive checkout-review --reason "released"
    """
    archived = call.memory.archive_session(call.options.id, call.options.reason, by=call.author)
    call.answer(
        {**archived.to_dict(), "path": archived.path},
        [f"Archived {paint('bold', archived.session)} in {archived.path}, {size_text(archived.bytes)}."],
    )
    call.notify_redacted("reason", archived.redacted)


archive_arguments = session_archive_arguments


def run_archive(call: Invocation) -> None:
    """Archive a session; the same as `smp session archive`.

    Examples:
      smp archive checkout-review --reason "released"
    """
    run_session_archive(call)


# -- session restore, unarchive


def session_restore_arguments(parser: Parser) -> None:
    _session_arguments(parser, has_reason=False)


def run_session_restore(call: Invocation) -> None:
    """Restore an archived session. Any command that opens it does the same.

    Examples:
      smp session restore checkout-review
    """
    session = call.memory.restore_session(call.options.id, by=call.author)
    call.answer(
        {"id": session.id, "folder": session.folder}, [f"Restored {paint('bold', session.id)} in {session.folder}."]
    )


unarchive_arguments = session_restore_arguments


def run_unarchive(call: Invocation) -> None:
    """Restore an archived session; the same as `smp session restore`.

    Examples:
      smp unarchive checkout-review
    """
    run_session_restore(call)


# -- session delete, undelete, purge


def session_delete_arguments(parser: Parser) -> None:
    _session_arguments(parser)


def run_session_delete(call: Invocation) -> None:
    """Move a whole session to the trash; it can be restored for 30 days (lifecycle.purge_days).

    Examples:
      smp session delete checkout-review --reason "no longer needed"
    """
    deleted = call.memory.delete_session(call.options.id, call.options.reason, by=call.author)
    until, name = str(deleted.metadata.get("recovery_deadline", "")), deleted.session
    call.answer(
        {**deleted.to_dict(), "until": until, "path": deleted.path},
        [
            f"Deleted {paint('bold', name)}. It can be restored until {time_text(until)} UTC: smp session undelete {name}"
        ],
    )
    call.notify_redacted("reason", deleted.redacted)


def session_undelete_arguments(parser: Parser) -> None:
    _session_arguments(parser)


def run_session_undelete(call: Invocation) -> None:
    """Restore a deleted session; of several with the same id, the one deleted last.

    Examples:
      smp session undelete checkout-review
    """
    from smp_memory.privacy.settings import clean_reason

    reason, redacted = clean_reason(call.memory.config, call.options.reason)
    state = call.memory.undelete_session(call.options.id, reason, by=call.author)
    data = {"id": call.options.id, "state": state, **({"redacted": redacted} if redacted else {})}
    call.answer(data, [f"Restored {paint('bold', call.options.id)}; it is {state}."])
    call.notify_redacted("reason", redacted)


def session_purge_arguments(parser: Parser) -> None:
    _session_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="confirm: this cannot be undone")


def run_session_purge(call: Invocation) -> None:
    """Remove a deleted session for good, before its retention ends. This cannot be undone.

    Examples:
      smp session purge checkout-review --yes
    """
    if not call.options.yes:
        raise UserError("Purging cannot be undone. Add --yes to confirm. Nothing was changed.")
    purged = call.memory.purge_session(call.options.id, call.options.reason, by=call.author)
    call.answer(purged.to_dict(), [f"Purged {paint('bold', purged.session)}."])
    call.notify_redacted("reason", purged.redacted)


# -- compact


def compact_arguments(parser: Parser) -> None:
    parser.add_argument("--forced", action="store_true", help="free storage.forced_percent of it, not gentle_percent")
    parser.add_argument("--bytes", type=int, metavar="N", help="free N bytes")
    parser.add_argument("--dry-run", action="store_true", help="show what would be moved, and why; change nothing")


def run_compact(call: Invocation) -> None:
    """Move faded memories, old turns and resolved findings from a session's files to a cold segment beside them.

    Nothing is destroyed: `smp restore ID` restores a memory, `smp archived` lists what was moved, and
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


# -- archived


def archived_arguments(parser: Parser) -> None:
    pass


def run_archived(call: Invocation) -> None:
    """List the memories that compaction moved to a session's cold segment.

    Examples:
      smp archived
      smp restore TURN-0003
    """
    archived = call.session().archived()
    lines = table(
        ("id", "type", "written (UTC)", "moved (UTC)", "why"),
        [
            (paint("cyan", each.id), each.type, time_text(each.created), time_text(each.moved), each.why)
            for each in archived
        ],
        call.screen.width,
    )
    data = [each.to_dict() for each in archived]
    call.answer(data, lines if archived else ["The cold segment of this session is empty."])


# -- duplicates


def duplicates_arguments(parser: Parser) -> None:
    parser.add_argument("--merge", action="store_true", help="merge each group into its first memory")


def run_duplicates(call: Invocation) -> None:
    """Find findings and preferences that say the same; --merge merges them.

    A merge can be undone: the merged memories are in the trash, and the remaining one lists them.

    Examples:
      smp duplicates
      smp duplicates --merge
    """
    session = call.session()
    groups = session.duplicates()
    if call.options.merge:
        merged = [session.merge(group, by=call.author).to_dict() for group in groups]
        call.answer(merged, [f"Merged {plural(len(groups), 'group')}."])
        return
    call.answer([group.to_dict() for group in groups], _group_lines([group.to_dict() for group in groups]))


def _group_lines(groups: list[dict[str, Any]]) -> Iterator[str]:
    if not groups:
        yield "No two findings or preferences say the same."
    for group in groups:
        yield from fields(
            [
                (paint("cyan", each["id"]), f"{each['text']}  {paint('dim', format(each['similarity'], '.2f'))}")
                for each in group["memories"]
            ],
            None,
        )
        yield ""
