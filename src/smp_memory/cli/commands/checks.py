"""Commands that check and repair: validate, repair, quarantine, doctor.

doctor opens the store for writing only if it applies a fix.
"""

from __future__ import annotations

import os

from smp_memory.cli.arguments import add_scope
from smp_memory.cli.commands.status import host_line, host_states
from smp_memory.cli.render import paint, plural, size_text, table, truncate, wrap
from smp_memory.errors import StorageCorrupt, StoreNotFound, UserError
from smp_memory.model.ids import scheme_of
from smp_memory.model.times import system_clock, to_text
from smp_memory.scope import file_features

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.health.examination import CheckResult, Examination, HealthIssue, HealthReport
    from smp_memory.memory import Memory
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.storage_reports import QuarantinedEntry
    from smp_memory.session import SessionMemory


_COLORS = {"error": "red", "warning": "yellow", "note": "dim"}


def _sessions(call: Invocation) -> list[SessionMemory]:
    return call.memory.sessions() if call.options.all else [call.session()]


def _answer(call: Invocation, reports: dict[str, Report], lines: Iterator[str]) -> int:
    ok = all(report.ok for report in reports.values())
    call.answer({"ok": ok, "sessions": {name: report.to_dict() for name, report in reports.items()}}, lines)
    return 0 if ok else StorageCorrupt.exit_code


# -- validate


validate_arguments = add_scope


def run_validate(call: Invocation) -> int:
    """Read everything, check every checksum, id and reference, and report problems with file and line.

    Nothing is changed. The exit code is 0 if every memory can be read (hand edits and notes are fine), else 41.

    Examples:
      smp validate && git commit -am "memories"
      smp validate --session checkout-review
    """
    is_whole = call.scope is call.memory
    reports = call.memory.validate() if is_whole else {(session := call.session()).id: session.validate()}
    _notify_missing_merge_driver(call)
    if not is_whole:
        call.notify_other_layouts()
    return _answer(call, reports, _validate_lines(call, reports))


def _notify_missing_merge_driver(call: Invocation) -> None:
    from smp_memory.git.repository import WorkTree

    tree = None if scheme_of(call.memory.root) else WorkTree.with_driver(call.memory.root)
    if tree is not None and (problem := tree.driver_problem()):
        call.notify(f"{problem} Register it: smp git setup")


def _validate_lines(call: Invocation, reports: dict[str, Report]) -> Iterator[str]:
    yield from _report_lines(reports)
    if len(reports) > 1:
        yield paint("dim", f"Checked {call.scope_text}.")
    if not reports:
        yield "There is no session to check."
    elif not all(report.ok for report in reports.values()):
        yield "Correct the lines named above in an editor. `smp repair` moves what you do not correct into quarantine (smp quarantine)."


def _report_lines(reports: dict[str, Report]) -> Iterator[str]:
    for name, report in reports.items():
        yield from map(_problem_line, report.problems)
        yield _result_line(name, report)


def _problem_line(problem: Problem) -> str:
    where = _relative_path(problem.path) + (f":{problem.line}" if problem.line else "")
    return f"{where}: {paint(_COLORS.get(problem.severity, 'dim'), problem.severity)}: {problem.message}"


def _relative_path(path: str) -> str:
    """A path relative to the working directory if it is below it; an address as it is."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return relative if not relative.startswith("..") else path


def _result_line(name: str, report: Report) -> str:
    counts = [sum(problem.severity == kind for problem in report.problems) for kind in _COLORS]
    problems = ", ".join(plural(number, kind) for number, kind in zip(counts, _COLORS, strict=True) if number)
    mark = paint("green", "✓") if report.ok else paint("red", "✗")
    return f"{mark} {paint('bold', name)}: {plural(report.checked, 'memory')} checked, {problems or 'no problems'}"


# -- repair


def repair_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--dry-run", action="store_true", help="only report problems; change nothing")


def run_repair(call: Invocation) -> int:
    """Repair what can be repaired in a session, quarantine the rest, and report what was done.

    Hand edits get a new checksum, duplicate ids get a new number, merge markers are removed, and what cannot be read is
    moved byte for byte into a quarantine file that the report names. Nothing is lost. The exit code is 41 if a problem
    remains, and always 0 with --dry-run.

    Examples:
      smp repair --dry-run
      smp repair
    """
    if call.options.dry_run:
        reports = {session.id: session.validate() for session in _sessions(call)}
        _answer(call, reports, _dry_run_lines(reports))
        return 0
    reports = {session.id: session.repair() for session in _sessions(call)}
    return _answer(call, reports, _repair_lines(reports))


def _dry_run_lines(reports: dict[str, Report]) -> Iterator[str]:
    yield from _report_lines(reports)
    yield "Nothing was changed. Without --dry-run, the problems above are repaired or quarantined."


def _repair_lines(reports: dict[str, Report]) -> Iterator[str]:
    for name, report in reports.items():
        yield from report.actions or [f"{name}: nothing to repair."]
        yield from _report_lines({name: report})


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
    options, store = call.options, file_features(call.memory.store)
    items = store.quarantined()
    if options.session:
        items = [item for item in items if item.session == options.session]
    if not options.name:
        if options.put_back:
            raise UserError("--put-back requires a NAME: smp quarantine NAME --put-back")
        call.answer([item.to_dict() for item in items], _quarantine_table(call, items))
        return
    item = _find_quarantined(items, options.name)
    if options.put_back:
        ids = store.restore_quarantined(item, to_text(call.memory.now()))
        call.answer({**item.to_dict(), "ids": ids}, [f"Put back into session {item.session}: {', '.join(ids)}"])
        return
    text = store.quarantined_data(item).decode(errors="replace")
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
    rows = [_quarantine_row(item.to_dict()) for item in items]
    yield from table(["session", "name", "why", "size"], rows, call.screen.width)


def _quarantine_row(item: dict[str, Any]) -> list[str]:
    return [item["session"], paint("cyan", item["name"]), item["why"], size_text(item["bytes"])]


def _quarantined_lines(item: QuarantinedEntry, text: str) -> Iterator[str]:
    yield paint("dim", f"{item.path}: {item.why}")
    yield from text.splitlines()


# -- doctor

_MARKS = {"ok": ("green", "✓"), "note": ("cyan", "·"), "warning": ("yellow", "!"), "problem": ("red", "✗")}
_REPORTED_SECONDS = 1.0  # shorter runs do not report their duration
_HAS_ISSUES = 1


def doctor_arguments(parser: Parser) -> None:
    parser.default_session = "all of them"
    parser.add_argument("--fix", action="store_true", help="apply safe fixes; they change no memory")
    parser.add_argument(
        "--only",
        action="append",
        metavar="FIX",
        help="with --fix: only permissions, recovery, index, access or maintenance; repeat for more",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="skip duplicates, archives and checksums of the index; search only the newest memories for secrets",
    )
    parser.add_argument("--all", action="store_true", help="all sessions, even if SMP_SESSION names one")


def run_doctor(call: Invocation) -> int:
    """Check a whole store: unreadable memories, stored secrets, recalled text stored again, duplicates, stale memories,
    dangling references, quota, index, locks, permissions, leftovers of crashes, archives, settings.

    It writes nothing, and works on a store with any kind of damage. Each issue is reported with its file and the
    command that helps. --fix applies the safe fixes: file permissions, recovery after a crash, the index, the access log.
    No memory is changed or removed.

    Checks without an issue, and notes that need no action, are only counted; --verbose lists them. At the end it says when each coding agent called last.

    The exit code is 0 if there are no issues or only notes, else 1.

    Examples:
      smp doctor
      smp doctor --fix
      smp doctor --quick --json
    """
    from itertools import chain

    from smp_memory.discovery import is_named
    from smp_memory.health.doctor import doctor
    from smp_memory.store.opening import examine_store, user_state

    options = call.options
    if options.only and not options.fix:
        raise UserError("--only selects a fix; add --fix. See: smp doctor --help")
    root = _find_root(call)
    session = call.session_name if not options.all else None
    progress = call.progress_line()

    def examine() -> Examination:
        return examine_store(root, system_clock(), environ=os.environ, quick=options.quick)

    report = doctor(
        examine,
        lambda: _open_for_fix(call, root),
        fix=options.only or options.fix,
        sessions=[session] if session else None,
        progress=lambda what, done, total: progress.show(f"{done:,} of {plural(total, 'session')} … {what}"),
    )
    progress.clear()
    state = user_state(root)
    hosts, is_trusted = host_states(root, state), is_named(root, os.environ) or state.is_trusted(root)
    lines = doctor_lines(report, call.screen.width, session, is_verbose=options.verbose)
    call.answer({**report.to_dict(), "hosts": hosts}, chain(lines, _host_lines(hosts, is_trusted)))
    return 0 if report.ok else _HAS_ISSUES


def _open_for_fix(call: Invocation, root: str) -> Memory:
    """Open the store without the maintenance that opening usually runs: a fix must not purge or archive anything."""
    from smp_memory.memory import open_memory

    if call._memory is None:
        call.use_store(open_memory(root, create=False, config={"maintenance": {"auto": False}}, trust=False))
    return call.memory


def _find_root(call: Invocation) -> str:
    """The store's address; also the folder of a store with a broken config.json, which no other command recognises."""
    from smp_memory.discovery import absolute, find_root

    root = absolute(call.root) if call.root else find_root(None)
    if scheme_of(root):
        return root
    if call.root is None and not os.path.isfile(os.path.join(root, "config.json")):
        root = _find_damaged_store(root) or root
    if not os.path.isdir(root) or not os.listdir(root):
        raise StoreNotFound(f"There is no store in {root}. Create one: smp init", path=root)
    return root


def _find_damaged_store(root: str) -> str | None:
    """Another default folder of the project that contains files of a store."""
    from smp_memory.config.settings import DEFAULT_ROOTS

    project = os.path.dirname(os.path.dirname(root))
    for name in dict.fromkeys(DEFAULT_ROOTS.values()):
        folder = os.path.join(project, name)
        if os.path.lexists(os.path.join(folder, "config.json")) or os.path.isdir(os.path.join(folder, ".smp")):
            return folder
    return None


def doctor_lines(
    report: HealthReport, width: int | None, session: str | None = None, *, is_verbose: bool = False
) -> Iterator[str]:
    """A report as text: each check with issues, their advice, and the totals.

    Checks without issues, and notes about which nothing needs to be done, are only counted, or listed too.
    """
    what = session or plural(report.sessions, "session")
    yield f"{paint('bold', _relative_path(report.root))}  {report.layout}, {what}, {plural(report.memories, 'memory')}"
    yield ""
    for fixed in report.fixed:
        mark, verb = (paint("green", "✓"), "fixed") if fixed.ok else (paint("red", "✗"), "not fixed")
        yield f"{mark} {verb} {paint('bold', fixed.name)}: {'; '.join(fixed.did)}"
    if report.fixed:
        yield ""
    shown = [check for check in report.checks if is_verbose or check.shown]
    columns = max((len(check.title) for check in shown), default=0)
    for check in shown:
        issues = check.findings if is_verbose else check.shown
        yield from _check_lines(check, issues, columns, report.root, width)
    for check in report.checks:
        if check.not_checked:
            yield from wrap(f"- {check.name}: {check.not_checked} (--quick)", width)
    if report.folded and not is_verbose:
        yield from wrap(_folded_line(report), width)
    if shown or report.folded:
        yield ""
    yield _totals_line(report)


def _host_lines(hosts: list[dict[str, Any]], is_trusted: bool) -> Iterator[str]:
    yield ""
    if not is_trusted:
        yield "Hooks do not use this store, because you have not trusted it: smp trust"
    if not hosts:
        yield "No coding agent has hooks for this store: smp install"
    yield from map(host_line, hosts)
    if not any(host["host"] == "mcp" for host in hosts):
        yield "MCP: no client has connected to this store yet"


def _folded_line(report: HealthReport) -> str:
    """How many notes need nothing, by check."""
    counts = [(check.name, len(check.findings) - len(check.shown)) for check in report.checks]
    named = ", ".join(f"{name} {count:,}" for name, count in counts if count)
    return (
        f"· {plural(len(report.folded), 'note')} ({named}): nothing needs to be done; smp doctor --verbose lists them"
    )


def _check_lines(
    check: CheckResult, issues: list[HealthIssue], title_columns: int, root: str, width: int | None
) -> Iterator[str]:
    if check.skipped:
        yield paint("dim", f"- {check.title:{title_columns}}  skipped (--quick)")
        return
    style, mark = _MARKS[check.severity]
    columns = len(check.said) if width is None else max(0, width - title_columns - 4)
    summary = paint("dim", truncate(check.said, columns)) if check.said and columns else ""
    yield f"{paint(style, mark)} {check.title:{title_columns}}  {summary}".rstrip()
    advice = ""
    for issue in issues:
        if advice and issue.advice != advice:
            yield from _advice_lines(advice, width)
        advice = issue.advice
        style, mark = _MARKS[issue.severity]
        text = f"{issue.message}{_location(issue, root)}"
        first, *rest = wrap(text, None if width is None else max(20, width - 6))
        yield f"    {paint(style, mark)} {first}"
        yield from (f"      {line}" for line in rest)
    if advice:
        yield from _advice_lines(advice, width)


def _advice_lines(advice: str, width: int | None) -> Iterator[str]:
    indent = "      "
    for line in wrap(f"→ {advice}", None if width is None else max(20, width - len(indent))):
        yield indent + paint("dim", line)


def _location(issue: HealthIssue, root: str) -> str:
    """Session and file in brackets; without the session if the message names it."""
    parts = [issue.session] if issue.session and issue.session not in issue.message else []
    if issue.path:
        path = os.path.relpath(issue.path, root) if os.path.isabs(root) and issue.path.startswith(root) else issue.path
        parts.append(f"{path}:{issue.line}" if issue.line else path)
    return f" ({', '.join(parts)})" if parts else ""


def _totals_line(report: HealthReport) -> str:
    counts = [plural(report.count(kind), kind) for kind in ("problem", "warning", "note") if report.count(kind)]
    mark = paint("green", "✓") if report.ok else paint("red", "✗")
    passed = sum(not check.shown and not check.skipped for check in report.checks)
    skipped = sum(check.skipped for check in report.checks)
    result = f"{', '.join(counts) if counts else 'No issues'}; {plural(passed, 'check')} passed"
    result += f", {skipped} skipped (--quick)" if skipped else ""
    offer = f" Safe to fix: {', '.join(report.fixes)}. Run: smp doctor --fix" if report.fixes else ""
    duration = f", in {report.seconds:.1f} s" if report.seconds >= _REPORTED_SECONDS else ""
    return f"{mark} {result}{duration}.{offer}"
