"""Checking and repairing."""

from __future__ import annotations

import os

from smp.cli.render import paint, plural
from smp.errors import StorageCorrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.cli.arguments import Parser
    from smp.cli.call import Call
    from smp.model.report import Problem, Report
    from smp.session import SessionMemory

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
    from smp.files.git_repository import merges_without_driver

    if merges_without_driver(call.memory.root) is not None:
        from smp.health.git_merging import NO_DRIVER

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
