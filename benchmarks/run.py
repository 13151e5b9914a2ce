"""Measure the published figures, each beside a raw probe, and compare them with their targets. Called by `./dev bench`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback

import async_calls
import concurrent_writes
import contexts
import growth_chart
import hooks
import lifecycle
import machine
import many_sessions
import mcp_server
import people
import queries
import reads
import report
import sample_data
import writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timing import Row

WRITING = {
    "durable": writes.durable_add,
    "rate": writes.add_rate,
    "bulk": writes.bulk,
    "large": writes.large_session,
    "threads": concurrent_writes.threads,
    "processes": concurrent_writes.processes,
    "last-turns": reads.last_turns,
    "read-all": reads.read_all,
    "commands": reads.commands,
}
FINDING = {
    "queries": queries.queries,
    "newest": queries.newest,
    "fresh": queries.fresh,
    "building": queries.building,
    "first-answer": queries.first_answer,
    "with-meaning": queries.with_meaning,
    "many-sessions": many_sessions.many_sessions,
}
AGENTS = {
    "hooks": hooks.events,
    "context": contexts.contexts,
    "first-context": contexts.first_context,
    "mcp": mcp_server.calls,
    "aio": async_calls.aio_calls,
}
PEOPLE = {"alone": people.alone, "pages": people.pages}
GROUPS = {"writing": WRITING, "finding": FINDING, "forgetting": lifecycle.FIGURES, "agents": AGENTS, "people": PEOPLE}
FIGURES = {name: figure for group in GROUPS.values() for name, figure in group.items()}


class Plan:
    """How much is measured, and where the stores are made."""

    def __init__(self, folder: str, quick: bool) -> None:
        self.quick = quick
        self._folder = folder
        self._made = 0
        self._filled: dict[tuple[str, int], str] = {}

    def each_round(self, full: int) -> int:
        """How many durable writes make a round."""
        return full // 4 if self.quick else full

    def count(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def seconds(self, full: float, quick: float) -> float:
        return quick if self.quick else full

    def size(self, full_bytes: int) -> int:
        return full_bytes // 30 if self.quick else full_bytes

    def folder(self, name: str) -> str:
        """A name for a store that is not there yet."""
        self._made += 1
        return os.path.join(self._folder, f"{name}-{self._made}")

    def filled(self, layout: str, size_bytes: int) -> str:
        """A store of this size, made once for all who read it."""
        key = (layout, size_bytes)
        if key not in self._filled:
            root = self.folder(f"filled-{layout}")
            sample_data.fill(root, layout, size_bytes)
            self._filled[key] = root
        return self._filled[key]


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description=__doc__,
        epilog="./dev bench guard: slower than the last release? ./dev bench compare: SMP beside other memories. "
        "./dev bench postgres: a store in PostgreSQL beside plain SQL and files. ./dev bench import: transcripts. "
        "./dev bench adapters: what adapters of frameworks cost above the calls of SMP.",
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds, smaller sessions: does the harness work?")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*GROUPS, *FIGURES],
        metavar="NAME",
        help=f"a group ({', '.join(GROUPS)}) or a figure ({', '.join(FIGURES)}); may be repeated",
    )
    parser.add_argument(
        "--folder", default=".", help="where the stores are made for the time of the run (default: here)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        help="write the sections of the measured groups into this page, usually docs/speed.md",
    )
    return parser.parse_args(words)


def measure_all(names: list[str], plan: Plan) -> tuple[list[Row], list[str]]:
    """The rows, and what went wrong: an error ends its figure, the others are still measured."""
    rows: list[Row] = []
    errors: list[str] = []
    for name in names:
        print(f"{name}: {(FIGURES[name].__doc__ or '').splitlines()[0]}", file=sys.stderr)
        try:
            for row in FIGURES[name](plan):
                row.group = next(group for group, figures in GROUPS.items() if name in figures)
                rows.append(row)
        except Exception as error:
            traceback.print_exc()
            errors.append(f"{name}: {type(error).__name__}: {error}")
    return rows, errors


def write_page(path: str, rows: list[Row], facts: dict[str, str], quick: bool) -> None:
    drawn = growth_chart.growth(rows)
    image = os.path.splitext(path)[0] + ".svg" if drawn else ""
    sections = {}
    for group in dict.fromkeys(row.group for row in rows):
        shown = os.path.basename(image) if group == "finding" else ""
        sections[group] = report.section(group, [row for row in rows if row.group == group], facts, quick, shown)
    before = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = file.read()
    report.write(path, report.page(before, sections, GROUPS))
    if image:
        report.write(image, drawn)


def main(words: list[str]) -> int:
    if words[:1] == ["compare"]:
        import compare.main

        return compare.main.main(words[1:])
    if words[:1] == ["postgres"]:
        import postgres

        return postgres.main(words[1:])
    if words[:1] == ["adapters"]:
        import adapters

        return adapters.main(words[1:])
    if words[:1] == ["import"]:
        import transcript_import

        return transcript_import.main(words[1:])
    if words[:1] == ["guard"]:
        import guard

        return guard.main(words[1:])
    chosen = arguments(words)
    os.makedirs(chosen.folder, exist_ok=True)
    facts = {"command": " ".join(["./dev bench", *words]), **machine.describe(chosen.folder)}
    print("\n".join(f"{name:12} {value}" for name, value in facts.items()), file=sys.stderr)
    if facts["file system"].startswith("tmpfs"):
        print("This is tmpfs: a sync costs nothing here, figures of durable writes say little.", file=sys.stderr)
    start = time.monotonic()
    folder = tempfile.mkdtemp(prefix=".smp-bench-", dir=chosen.folder)
    try:
        report.write_quietly(os.path.join(folder, ".gitignore"), "*\n")
        os.environ["SMP_STATE_DIR"] = os.path.join(
            os.path.abspath(folder), "state"
        )  # nothing is left in the user's state
        names = [name for word in chosen.only or GROUPS for name in GROUPS.get(word, [word])]
        rows, errors = measure_all(names, Plan(os.path.abspath(folder), chosen.quick))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts |= {"load after": machine.load(), "took": f"{time.monotonic() - start:.0f} s"}
    facts |= {f"could not be measured ({number})": text for number, text in enumerate(errors, 1)}
    print(f"\n{report.terminal(rows)}\n\n{report.verdict(rows)}")
    print("".join(f"Could not be measured: {text}\n" for text in errors), end="")
    if chosen.json:
        report.write(chosen.json, report.as_json(rows, facts))
    if chosen.markdown:
        write_page(chosen.markdown, rows, facts, chosen.quick)
    return 1 if errors else 0  # a missed target is a result, not an error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
