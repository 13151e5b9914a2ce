"""Sessions as a whole: pack away, bring back, delete; and making room in one."""

from __future__ import annotations

from smp_memory.cli.render import fields, paint, plural, size_text, table, time_text
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.lifecycle.compaction import CompactionReport

_REASON_HELP = "why; it is kept with the session and in the audit log"


def _one_session(parser: Parser, *, reason: bool = True) -> None:
    parser.add_argument("id", metavar="ID", help="the session")
    if reason:
        parser.add_argument("--reason", metavar="TEXT", help=_REASON_HELP)


# -- session archive, archive


def session_archive_arguments(parser: Parser) -> None:
    _one_session(parser)


def run_session_archive(call: Call) -> None:
    """Pack a session away: a summary and a compressed file. Opening it brings it back.

    The archive is read back and compared before the session's files go. `smp query --include-archived` still finds its summary.

    Examples:
      smp session archive checkout-review --reason "released"
    """
    away = call.memory.archive_session(call.options.id, call.options.reason, by=call.author)
    call.answer(
        {**away.to_dict(), "path": away.path},
        [f"Archived {paint('bold', away.session)} in {away.path}, {size_text(away.bytes)}."],
    )
    call.remark_redacted("reason", away.redacted)


archive_arguments = session_archive_arguments


def run_archive(call: Call) -> None:
    """Pack a session away; the same as `smp session archive`.

    Examples:
      smp archive checkout-review --reason "released"
    """
    run_session_archive(call)


# -- session restore, unarchive


def session_restore_arguments(parser: Parser) -> None:
    _one_session(parser, reason=False)


def run_session_restore(call: Call) -> None:
    """Bring an archived session back. Any command that opens it does the same.

    Examples:
      smp session restore checkout-review
    """
    session = call.memory.restore_session(call.options.id, by=call.author)
    call.answer(
        {"id": session.id, "folder": session.folder}, [f"Restored {paint('bold', session.id)} in {session.folder}."]
    )


unarchive_arguments = session_restore_arguments


def run_unarchive(call: Call) -> None:
    """Bring an archived session back; the same as `smp session restore`.

    Examples:
      smp unarchive checkout-review
    """
    run_session_restore(call)


# -- session delete, undelete, purge


def session_delete_arguments(parser: Parser) -> None:
    _one_session(parser)


def run_session_delete(call: Call) -> None:
    """Move a whole session to the trash; it can be brought back for 30 days (lifecycle.purge_days).

    Examples:
      smp session delete checkout-review --reason "no longer needed"
    """
    away = call.memory.delete_session(call.options.id, call.options.reason, by=call.author)
    until = str(away.said.get("recovery_deadline", ""))
    call.answer(
        {**away.to_dict(), "until": until, "path": away.path},
        [f"Deleted {paint('bold', away.session)}. Until {time_text(until)}: smp session undelete {away.session}"],
    )
    call.remark_redacted("reason", away.redacted)


def session_undelete_arguments(parser: Parser) -> None:
    _one_session(parser)


def run_session_undelete(call: Call) -> None:
    """Bring a deleted session back, as it was; of several of one name, the one deleted last.

    Examples:
      smp session undelete checkout-review
    """
    from smp_memory.privacy.settings import clean_reason

    reason, redacted = clean_reason(call.memory.config, call.options.reason)
    state = call.memory.undelete_session(call.options.id, reason, by=call.author)
    data = {"id": call.options.id, "state": state, **({"redacted": redacted} if redacted else {})}
    call.answer(data, [f"Brought back {paint('bold', call.options.id)}; it is {state}."])
    call.remark_redacted("reason", redacted)


def session_purge_arguments(parser: Parser) -> None:
    _one_session(parser)
    parser.add_argument("--yes", action="store_true", help="do it: this cannot be undone")


def run_session_purge(call: Call) -> None:
    """Remove a deleted session for good, before its time. This cannot be undone.

    Examples:
      smp session purge checkout-review --yes
    """
    if not call.options.yes:
        raise UserError("Purging cannot be undone; repeat it with --yes if you mean it. Nothing was changed.")
    away = call.memory.purge_session(call.options.id, call.options.reason, by=call.author)
    call.answer(away.to_dict(), [f"Purged {paint('bold', away.session)}; it is gone."])
    call.remark_redacted("reason", away.redacted)


# -- compact


def compact_arguments(parser: Parser) -> None:
    parser.add_argument("--forced", action="store_true", help="free storage.forced_percent of it, not gentle_percent")
    parser.add_argument("--bytes", type=int, metavar="N", help="free so many bytes")
    parser.add_argument("--dry-run", action="store_true", help="show what would go, and why; change nothing")


def run_compact(call: Call) -> None:
    """Move what has faded, old turns and settled findings out of a session's files, into a cold segment beside them.

    Nothing is destroyed: `smp restore ID` brings a memory back, `smp archived` lists what went, and `smp query --include-archived`
    finds it. Turns that go leave a summary. What is pinned, open, recent or important stays.

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
    would = "would go" if dry_run else "went"
    count = len(report.removed)
    if not report:
        yield f"Nothing may go in {report.session}."
    else:
        yield f"{plural(count, 'memory')} {would} to the cold segment; {size_text(report.freed_bytes)} freed"
        yield from table(
            ("what", ">memories", ">bytes"),
            [
                (stage.replace("_", " "), f"{figures['memories']:,}", size_text(figures["bytes"]))
                for stage, figures in plan["stages"].items()
                if figures["memories"]
            ],
            None,
        )
        for summary in plan["summaries"]:
            yield paint("dim", f"summed up: {', '.join(summary['covers'])}")
    if plan["kept"]:
        yield ""
        yield paint("bold", "Stays")
        yield from table(
            (">memories", "why", "such as"),
            [(f"{each['memories']:,}", why, ", ".join(each["examples"])) for why, each in plan["kept"].items()],
            None,
        )


# -- archived


def archived_arguments(parser: Parser) -> None:
    pass


def run_archived(call: Call) -> None:
    """List the memories that compaction moved to a session's cold segment.

    Examples:
      smp archived
      smp restore TURN-0003
    """
    found = call.session().archived()
    lines = table(
        ("id", "type", "written (UTC)", "moved (UTC)", "why"),
        [
            (paint("cyan", each.id), each.type, time_text(each.created), time_text(each.moved), each.why)
            for each in found
        ],
        call.screen.width,
    )
    call.answer([each.to_dict() for each in found], lines if found else ["Nothing was compacted in this session."])


# -- duplicates


def duplicates_arguments(parser: Parser) -> None:
    parser.add_argument("--merge", action="store_true", help="let the first of each group stand for all of it")


def run_duplicates(call: Call) -> None:
    """Find findings and preferences that say the same, and merge them if you say so.

    A merge can be undone: the others are in the trash, and the one that is kept lists what it took in.

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
