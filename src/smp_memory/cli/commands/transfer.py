"""Commands that carry sessions to other stores, layouts and backends: convert, push, pull."""

from __future__ import annotations

import os

from smp_memory.cli.commands.stores import LAYOUTS
from smp_memory.cli.render import one_line, paint, plural
from smp_memory.errors import Busy, Conflict, UserError
from smp_memory.model.ids import scheme_of
from smp_memory.scope import file_features

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.cli.terminal import ProgressLine
    from smp_memory.exchange.replication import ExchangeReport, SessionExchange
    from smp_memory.exchange.store_copy import StoreCopyReport

_MOST_LISTED = 20


class _Suggestions(tuple[str, ...]):
    """Values that completion offers; others are accepted, too."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return True


class _Progress:
    """A line about the session that is being carried. While a single one is, the line with the seconds stays."""

    def __init__(self, call: Invocation) -> None:
        self._call = call
        self._line: ProgressLine | None = None

    def show(self, count: int, text: str) -> None:
        if count > 1:
            self._line = self._line or self._call.progress_line()
            self._line.show(text)

    def clear(self) -> None:
        if self._line is not None:
            self._line.clear()


# -- convert


def convert_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("--to", metavar="LAYOUT|ADDRESS", choices=_Suggestions(LAYOUTS), required=True, help=f"a layout to change to ({', '.join(LAYOUTS)}), or a folder or postgresql://… to copy the whole store to")  # fmt: skip


def run_convert(call: Invocation) -> int | None:
    """Convert a store to another file layout in place, or copy it to another folder or database.

    To a layout: the new files are written beside the old ones, read back and compared before anything is replaced. A crash
    leaves the old store or the new one. Writers get an error meanwhile and can retry. Comments in YAML files, and text above
    the first entry of a Markdown file, are not kept. With the layout that the store already has, session files of other layouts are
    imported: a git merge leaves such files if one clone converted the store and the other added a session.

    To an address: the store there is created if necessary and receives everything: sessions, archived and deleted ones, cold segments,
    histories, settings, the audit log. Each session is read back and compared. This store is only read, and stays. Run it again
    to go on after an interruption, or to add what was written since. Nothing there is overwritten: what differs is listed,
    and the exit code is 32.

    Examples:
      smp convert --to markdown
      smp convert --to postgresql://db.example.org/team
      smp convert --to ./copy
    """
    if call.options.to in LAYOUTS:
        _convert_in_place(call)
        return None
    return _copy_store(call)


def _convert_in_place(call: Invocation) -> None:
    memory = call.memory
    before, sessions = memory.layout, memory.sessions()
    imported = {each.session for each in file_features(memory.store).unread_sessions()}
    count = sum(len(session.records(include_deleted=True)) for session in sessions)
    if call.screen.is_terminal and not call.options.json:
        call.notify(
            f"Converting {plural(len(sessions), 'session')} with {plural(count, 'memory')} to {call.options.to} …"
        )
    numbers = iter(range(1, len(sessions) + 2))

    def progress(session: str) -> None:
        if call.screen.is_terminal and not call.options.json:
            call.notify(f"  {next(numbers)}/{len(sessions)} {session}")

    call.use_store(memory.convert(call.options.to, progress))
    data = {
        "root": memory.root,
        "from": before,
        "to": call.options.to,
        "sessions": len(sessions),
        "memories": count,
        "taken_in": sorted(imported),
    }
    call.answer(data, _convert_lines(data))


def _convert_lines(data: dict[str, Any]) -> Iterator[str]:
    if data["taken_in"]:
        yield f"{paint('green', '✓')} Sessions imported from other layouts: {', '.join(data['taken_in'])}."
        return
    if data["from"] == data["to"]:
        yield f"{data['root']} has the layout {data['to']} already; it was not changed."
        return
    counts = f"{plural(data['sessions'], 'session')}, {plural(data['memories'], 'memory')}"
    yield f"{paint('green', '✓')} Converted {data['root']} from {data['from']} to {data['to']}: {counts}."


def _copy_store(call: Invocation) -> int | None:
    address = _address(call.options.to, "--to")
    if not scheme_of(address) and os.sep not in call.options.to:
        raise UserError(f"--to: {call.options.to} is not a layout ({', '.join(LAYOUTS)}). To copy the store to a folder, write ./{call.options.to}", field="to")  # fmt: skip
    line = _Progress(call)
    report = call.memory.copy_to(
        address,
        lambda number, count, session, memories: line.show(
            count, f"{number} of {count} sessions, {plural(memories, 'memory')}: {session}"
        ),
    )
    line.clear()
    call.answer(report.to_dict(), _copy_lines(report))
    return None if report.is_complete else Conflict.exit_code


def _copy_lines(report: StoreCopyReport) -> Iterator[str]:
    counts = f"{plural(len(report.copied), 'session')} copied"
    counts += f", {len(report.extended):,} extended" if report.extended else ""
    counts += f", {len(report.known):,} were there already" if report.known else ""
    mark = paint("green", "✓") if report.is_complete else paint("yellow", "!")
    yield f"{mark} {report.target}: {counts}; {plural(report.memories, 'memory')} compared and equal."
    for each in report.conflicts:
        name = f"session {each['session']} ({each['state']})" if "session" in each else f"setting {each['setting']}"
        yield paint("yellow", f"  {name} was not copied: {one_line(each['why'])}")
    for each in report.failed:
        yield paint("yellow", f"  session {each['session']} ({each['state']}) failed: {one_line(each['why'])}")
    for text in report.left_out:
        yield f"  left out: {one_line(text)}"


# -- push


def push_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("words", metavar="SESSION… ADDRESS", nargs="*", help="the sessions to send (default: all that this store writes) and the store to send them to; nothing: what waits in the outbox")  # fmt: skip
    parser.add_argument("--hand-over", action="store_true", help="let the other store write these sessions from now on; here they become copies")  # fmt: skip
    parser.add_argument("--take-over", action="store_true", help="let this store write these sessions from now on, whoever did before")  # fmt: skip
    parser.add_argument("--forget", action="store_true", help="send nothing: take what waits for this store, or for all, out of the outbox")  # fmt: skip


def run_push(call: Invocation) -> int | None:
    """Send sessions to another store, for example from a laptop to the store of a team.

    There a session is a copy that others can read and search; only this store writes it. Run it again to send what is new:
    entries are recognised by id, revision and checksum, and none is sent twice. What was erased or redacted here is erased
    there. Entries that only the copy has are conflicts: they are listed, both sides stay as they are, and the exit code is 32.

    If the other store cannot be reached, the sessions wait in the outbox, and the exit code is 30; `smp push` sends them.

    Examples:
      smp push postgresql://db.example.org/team
      smp push checkout-review postgresql://db.example.org/team
      smp push
      smp push checkout-review postgresql://db.example.org/team --hand-over
      smp push --forget postgresql://db.exampel.org/team
    """
    options = call.options
    sessions = _sessions(options.words[:-1])
    address = _address(options.words[-1], "ADDRESS") if options.words else None
    if address is None and (options.hand_over or options.take_over):
        raise UserError("ADDRESS is missing. See: smp push --help")
    if options.forget and (sessions or options.hand_over or options.take_over):
        raise UserError("--forget takes only an address, or nothing.")
    modes = {"hand_over": options.hand_over, "take_over": options.take_over, "forget": options.forget}
    return _exchange(call, "sent", lambda progress: call.memory.push(address, sessions or None, progress=progress, **modes))  # fmt: skip


def pull_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("words", metavar="SESSION… ADDRESS", nargs="+", help="the sessions to get (default: all that this store does not write itself) and the store that has them")  # fmt: skip
    parser.add_argument("--take-over", action="store_true", help="let this store write these sessions from now on; there they become copies")  # fmt: skip


def run_pull(call: Invocation) -> int | None:
    """Get sessions from another store, for example to read and search them offline.

    Here a session is a copy; the other store writes it. Run it again to get what is new. With --take-over this store writes
    it from now on, and `smp push` sends what is new. Conflicts are listed as by `smp push`, and the exit code is 32.

    Examples:
      smp pull postgresql://db.example.org/team
      smp pull checkout-review postgresql://db.example.org/team
      smp pull checkout-review postgresql://db.example.org/team --take-over
    """
    sessions = _sessions(call.options.words[:-1])
    address = _address(call.options.words[-1], "ADDRESS")
    return _exchange(
        call,
        "received",
        lambda progress: call.memory.pull(
            address, sessions or None, take_over=call.options.take_over, progress=progress
        ),
    )


def _sessions(words: list[str]) -> list[str]:
    if any(map(scheme_of, words)):
        raise UserError("The address comes last: SESSION… ADDRESS.")
    return words


def _address(text: str, name: str) -> str:
    if not text:
        raise UserError(f"{name}: must not be empty.", field=name)
    return text if scheme_of(text) else os.path.abspath(text)


def _exchange(
    call: Invocation, verb: str, run: Callable[[Callable[[int, int, str], None]], ExchangeReport]
) -> int | None:
    line = _Progress(call)
    report = run(lambda number, count, session: line.show(count, f"{number} of {count} sessions: {session}"))
    line.clear()
    call.answer(report.to_dict(), _exchange_lines(report, verb))
    if report.of("conflict", "refused"):
        return Conflict.exit_code
    return Busy.exit_code if report.of("queued") else None


def _exchange_lines(report: ExchangeReport, verb: str) -> Iterator[str]:
    if not report.sessions:
        yield f"Nothing is waiting to be {verb}."
    equal = report.of("equal", "written there")
    for each in report.sessions:
        if each not in equal or len(report.sessions) <= _MOST_LISTED:
            yield from _session_lines(each, verb)
    if len(report.sessions) > _MOST_LISTED and equal:
        yield f"  {plural(len(equal), 'session')} were left as they are"


def _session_lines(each: SessionExchange, verb: str) -> Iterator[str]:
    if each.status == "sent":
        erased = f", {plural(len(each.erased), 'memory')} erased" if each.erased else ""
        yield f"{paint('green', '✓')} {each.session}: {plural(each.entries, 'entry')} {verb}{erased}"
    elif each.status == "equal":
        yield f"{paint('green', '✓')} {each.session}: nothing new"
    elif each.status == "written there":
        yield f"  {each.session}: {one_line(each.why)}"
    else:
        from smp_memory.exchange.outbox import ALL

        name = "all sessions" if each.session == ALL else each.session
        if each.status == "forgotten":
            yield f"  {name}: does not wait for {one_line(each.address)} any more"
            return
        yield paint("yellow", f"! {name}: {each.status}: {one_line(each.why)}")
    for conflict in each.conflicts[:_MOST_LISTED]:
        here = f"revision {conflict.revision}" if conflict.revision is not None else "not there"
        yield paint(
            "yellow", f"    {conflict.id}: {here} on the writing side, revision {conflict.copy_revision} in the copy"
        )
    if len(each.conflicts) > _MOST_LISTED:
        yield f"    … and {len(each.conflicts) - _MOST_LISTED:,} more; --json lists them all"
