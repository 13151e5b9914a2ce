"""Checking and repairing.

Looking a whole store over: doctor. It opens the store only if it is to put something right.
"""

from __future__ import annotations

import os
import sys
import time

from smp_memory.cli.render import Screen, cut, paint, plural, wrapped
from smp_memory.errors import StorageCorrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.health.report import CheckResult, HealthIssue, HealthReport
    from smp_memory.memory import Memory
    from smp_memory.model.reports import Problem, Report
    from smp_memory.session import SessionMemory


_COLORS = {"error": "red", "warning": "yellow", "note": "dim"}


def _sessions(call: Call) -> list[SessionMemory]:
    return call.memory.sessions() if call.options.all else [call.session()]


def _answer(call: Call, reports: dict[str, Report], lines: Iterator[str]) -> int:
    ok = all(report.ok for report in reports.values())
    call.answer({"ok": ok, "sessions": {name: report.to_dict() for name, report in reports.items()}}, lines)
    return 0 if ok else StorageCorrupt.exit_code


# -- validate


def validate_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")


def run_validate(call: Call) -> int:
    """Read everything in a session, check every signature, id and reference, and report with file and line.

    Nothing is changed. The exit code is 0 when every memory can be read (edits by hand and notes are fine), else 41.

    Examples:
      smp validate
      smp validate --all && git commit -am "memories"
    """
    reports = call.memory.validate() if call.options.all else {(session := call.session()).id: session.validate()}
    _tell_of_git(call)
    if not call.options.all:
        call.tell_of_other_layouts()
    return _answer(call, reports, _findings(reports))


def _tell_of_git(call: Call) -> None:
    from smp_memory.git.repository import merges_without_driver

    if merges_without_driver(call.memory.root) is not None:
        from smp_memory.health.upkeep import NO_DRIVER

        call.remark(f"{NO_DRIVER} Register it: smp git setup")


def _findings(reports: dict[str, Report]) -> Iterator[str]:
    for name, report in reports.items():
        yield from map(_problem_line, report.problems)
        yield _verdict(name, report)
    if not reports:
        yield "There is no session to check."
    elif not all(report.ok for report in reports.values()):
        yield "Correct the lines named above in an editor; nothing is lost by it. `smp repair` sets aside what you leave (smp quarantine)."


def _problem_line(problem: Problem) -> str:
    where = _nearby(problem.path) + (f":{problem.line}" if problem.line else "")
    return f"{where}: {paint(_COLORS.get(problem.severity, 'dim'), problem.severity)}: {problem.message}"


def _nearby(path: str) -> str:
    """A path as one would type it here."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return relative if not relative.startswith("..") else path


def _verdict(name: str, report: Report) -> str:
    counts = [sum(problem.severity == kind for problem in report.problems) for kind in _COLORS]
    found = ", ".join(plural(number, kind) for number, kind in zip(counts, _COLORS, strict=True) if number)
    mark = paint("green", "✓") if report.ok else paint("red", "✗")
    return f"{mark} {paint('bold', name)}: {plural(report.checked, 'memory')} checked, {found or 'all well'}"


# -- repair


def repair_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--dry-run", action="store_true", help="only say what is wrong; change nothing")


def run_repair(call: Call) -> int:
    """Put right what can be put right in a session, set the rest aside, and say what was done.

    Edits by hand are signed as they stand, doubled ids get a number of their own, merge markers go, and what cannot be
    read is set aside byte for byte, in a file that the report names. Nothing is thrown away. The exit code is 41 if
    something is still wrong, and always 0 with --dry-run.

    Examples:
      smp repair --dry-run
      smp repair
    """
    if call.options.dry_run:
        reports = {session.id: session.validate() for session in _sessions(call)}
        _answer(call, reports, _plans(reports))
        return 0
    reports = {session.id: session.repair() for session in _sessions(call)}
    return _answer(call, reports, _deeds(reports))


def _plans(reports: dict[str, Report]) -> Iterator[str]:
    for name, report in reports.items():
        yield from map(_problem_line, report.problems)
        yield _verdict(name, report)
    yield "Nothing was changed. Without --dry-run, repair treats what is listed above."


def _deeds(reports: dict[str, Report]) -> Iterator[str]:
    for name, report in reports.items():
        yield from report.actions or [f"{name}: nothing to repair."]
        yield from map(_problem_line, report.problems)
        yield _verdict(name, report)


_MARKS = {"ok": ("green", "✓"), "note": ("cyan", "·"), "warning": ("yellow", "!"), "problem": ("red", "✗")}
_QUIET_SECONDS, _PAUSE_SECONDS = 1.0, 0.1
_NOT_WELL = 1
_TITLE_COLUMNS = 34


def doctor_arguments(parser: Parser) -> None:
    parser.without_session = "all of them"
    parser.add_argument("--fix", action="store_true", help="put right what is safe to; no memory is changed by it")
    parser.add_argument(
        "--only",
        action="append",
        metavar="FIX",
        help="with --fix: only permissions, recovery, index, access or maintenance; repeat for more",
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out secrets, duplicates, archives and checksums of the index"
    )
    parser.add_argument("--all", action="store_true", help="all sessions, also if SMP_SESSION names one")


def run_doctor(call: Call) -> int:
    """Look a whole store over: memories that cannot be read, secrets that slipped in, recalled text stored again,
    duplicates, stale memories, references to what is gone, quota, index, locks, permissions, leftovers, archives, settings.

    Nothing is written, and it works on a store that is damaged in any way. What was found is told with its file and the
    command that helps. With --fix, what is safe to put right is put right: rights of files, what a crash left, the index,
    the log of uses. No memory is changed, and none is removed.

    The exit code is 0 when all is well or there are only notes, else 1.

    Examples:
      smp doctor
      smp doctor --fix
      smp doctor --quick --json
    """
    from smp_memory.errors import UserError
    from smp_memory.files.system import RealSystem
    from smp_memory.health.doctor import doctor
    from smp_memory.model.times import system_clock

    options = call.options
    if options.only and not options.fix:
        raise UserError("--only says which fix; add --fix. See: smp doctor --help")
    root = _root(call)
    session = call.session_name if not options.all else None
    progress = DoctorProgress(call)
    report = doctor(
        RealSystem(root),
        root,
        system_clock,
        lambda: _opened(call, root),
        fix=options.only or options.fix,
        sessions=[session] if session else None,
        quick=options.quick,
        environ=os.environ,
        progress=progress,
    )
    progress.end()
    call.answer(report.to_dict(), lines(report, call.screen.width, session))
    return 0 if report.ok else _NOT_WELL


def _opened(call: Call, root: str) -> Memory:
    """The store, for a fix; opening it here must not purge or archive anything, as it may elsewhere."""
    from smp_memory.memory import open_memory

    if call._memory is None:
        call.use(open_memory(root, create=False, config={"maintenance": {"auto": False}}, trust=False))
    return call.memory


class DoctorProgress:
    """Says how far it is, on a terminal and only if it takes long."""

    def __init__(self, call: Call) -> None:
        self._screen = Screen(sys.stderr, may_color=not call.options.no_color)
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE_SECONDS
            self._shown = True
            self._screen.passing(f"{done:,} of {plural(total, 'session')} … {what}")

    def end(self) -> None:
        if self._shown:
            self._screen.passing("")


# -- which store


def _root(call: Call) -> str:
    """The store's folder. One whose config.json is broken is not recognised by anybody else, but this is its doctor."""
    from smp_memory.discovery import find_root
    from smp_memory.errors import StoreNotFound

    root = os.path.abspath(call.root) if call.root else find_root(None)
    if call.root is None and not os.path.isfile(os.path.join(root, "config.json")):
        root = _damaged_beside(root) or root
    if not os.path.isdir(root) or not os.listdir(root):
        raise StoreNotFound(f"There is no store in {root}. `smp init` makes one.", path=root)
    return root


def _damaged_beside(root: str) -> str | None:
    """Another folder of the project in which a store may be."""
    from smp_memory.config import DEFAULT_ROOTS

    project = os.path.dirname(os.path.dirname(root))
    for name in dict.fromkeys(DEFAULT_ROOTS.values()):
        folder = os.path.join(project, name)
        if os.path.lexists(os.path.join(folder, "config.json")) or os.path.isdir(os.path.join(folder, ".smp")):
            return folder
    return None


# -- what is shown


def lines(report: HealthReport, width: int | None, session: str | None = None) -> Iterator[str]:
    """A report as people read it: each check with what it found and what to do about it, then the verdict."""
    what = session or plural(report.sessions, "session")
    near = os.path.relpath(report.root)
    yield f"{paint('bold', report.root if near.startswith('..') else near)}  {report.layout}, {what}, {plural(report.memories, 'memory')}"
    yield ""
    for fixed in report.fixed:
        mark = paint("green", "✓") if fixed.ok else paint("red", "✗")
        yield f"{mark} fixed {paint('bold', fixed.name)}: {'; '.join(fixed.did)}"
    if report.fixed:
        yield ""
    for check in report.checks:
        yield from _check(check, report.root, width)
    yield ""
    yield _verdict_doctor(report)


def _check(check: CheckResult, root: str, width: int | None) -> Iterator[str]:
    if check.skipped:
        yield paint("dim", f"- {check.title:{_TITLE_COLUMNS}}  not looked at (--quick)")
        return
    style, mark = _MARKS[check.severity]
    room = len(check.said) if width is None else max(0, width - _TITLE_COLUMNS - 4)
    said = paint("dim", cut(check.said, room)) if check.said and room else ""
    yield f"{paint(style, mark)} {check.title:{_TITLE_COLUMNS}}  {said}".rstrip()
    advice = ""
    for finding in check.findings:
        if advice and finding.advice != advice:
            yield from _indented(f"→ {advice}", width, "      ", "dim")
        advice = finding.advice
        style, mark = _MARKS[finding.severity]
        told = f"{finding.message}{_place(finding, root)}"
        first, *rest = wrapped(told, None if width is None else max(20, width - 6))
        yield f"    {paint(style, mark)} {first}"
        yield from (f"      {line}" for line in rest)
    if advice:
        yield from _indented(f"→ {advice}", width, "      ", "dim")


def _indented(text: str, width: int | None, indent: str, style: str) -> Iterator[str]:
    for line in wrapped(text, None if width is None else max(20, width - len(indent))):
        yield indent + paint(style, line)


def _place(finding: HealthIssue, root: str) -> str:
    """Session and file, as far as the sentence does not say them."""
    parts = [finding.session] if finding.session and finding.session not in finding.message else []
    if finding.path:
        inside = os.path.relpath(finding.path, root) if finding.path.startswith(root) else finding.path
        parts.append(f"{inside}:{finding.line}" if finding.line else inside)
    return f" ({', '.join(parts)})" if parts else ""


def _verdict_doctor(report: HealthReport) -> str:
    counts = [plural(report.count(kind), kind) for kind in ("problem", "warning", "note") if report.count(kind)]
    mark = paint("green", "✓") if report.ok else paint("red", "✗")
    told = ", ".join(counts) if counts else "all is well"
    offer = f" Safe to put right: {', '.join(report.fixes)}. Run: smp doctor --fix" if report.fixes else ""
    took = f", in {report.seconds:.1f} s" if report.seconds >= _QUIET_SECONDS else ""
    return f"{mark} {told}{took}.{offer}"
