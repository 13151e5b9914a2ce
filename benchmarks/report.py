"""Results as a table on the terminal, as docs/speed.md and as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from timing import Row

HEAD = ("figure", "case", "target", "measured", "raw", "ratio", "met")

_HOW = {
    "`smp` alone": "From the start of the process to its end, in a project with 50 sessions of 20 memories and an index that is up to date. Raw: `python -c pass`.",
    "inspector at the server, p50": (
        "`smp web` in a process of its own, a store of 100,000 memories with vectors, one client, from the request to the last byte of the answer. Raw: the style sheet "
        "from the same server. `hits` is what the browser asks for while a person types; the counts of the filters follow with a second request."
    ),
    "inspector, first paint": "First contentful paint of the agent view in a new window of Chromium. Raw: the same for the style sheet as a page of text.",
    "durable add_decision, p50": (
        "One process adds decisions one by one with the default durability. Raw: the same fields encoded as JSON, then "
        "the very bytes that SMP stores appended to an open file in the same folder, then fdatasync. Rounds of 20."
    ),
    'adds, durability="os"': (
        "One process, one `add_decision` after another, nothing synced. Raw: encode and write alone. Rounds of 250; the "
        "rate is the middle round's."
    ),
    "async add_decision, durable, p50": (
        "`await session.add_decision(…)` one after another in one task. Raw: the same of the sync session, in turns. `gathered`: 100 at once, which share syncs."
    ),
    "event loop lag, p99": (
        "Eight tasks add and query in turn, in a store of 5,000 memories, while another one sleeps for a millisecond again and again and notes how late it runs. Raw: eight tasks "
        "encode JSON and hash it in the same threads, about as long as a query takes. Python takes its lock away from a thread after 5 ms; a full garbage collection holds it longer."
    ),
    "add_many of 1,000, durable": (
        "One call, synced before it returns. Raw: 1,000 decisions encoded, one write, one fdatasync. The mix has seven "
        "types, so several files to write and sync, and preferences and states whose earlier values must be known."
    ),
    "adding at 9 MB against at 100 kB, p50": (
        "`add_turn` to two sessions in turn, rounds of 20. Measured is the large one, raw the small one."
    ),
    "eight threads against one, durable": (
        "Threads share one session and one sync serves all who wait. Measured: eight threads with 40 adds each, raw: one "
        "thread with 40, both SMP. Afterwards all are counted."
    ),
    "eight processes against one, in total": (
        "Processes are started first and released together for a fixed time. Measured: adds per second of all eight, "
        "raw: of one alone, both SMP. Afterwards all are counted."
    ),
    "eight processes, longest single add": (
        "The slowest `add_decision` of all eight processes, in seconds. Raw: the slowest raw append + fdatasync of one "
        "process in the same minutes, that is what the disk alone does."
    ),
    "new process: last 20 turns of 10 MB": (
        "From the start of `python -c …` to its end, with compiled bytecode as an installed package has it. Raw: `python -c "
        "pass` in the same environment. The figure asked for is that of jsonl; all layouts are shown."
    ),
    "read all and validate, 10 MB": (
        "A new process imports smp, opens the session, reads all records, then validates, which reads everything again. "
        "Raw: a new process reads the same memories with json.loads from one file. Without a target: for information."
    ),
    "query p95": (
        "`memory.query` with five words that stand somewhere in the texts, the best 20 with scores and records, all rounds. "
        "Raw: the text engine alone with the same terms, its best 20 with their texts."
    ),
    "query p50 against the bare engine": (
        "The same. The bare engine weighs single words alone, makes no records and does not look whether anything has changed."
    ),
    "newest 20, p50": "Filters without words. The figure asked for is that of a million memories.",
    "index build": "`memory.reindex()` on a store that is not cached, once.",
    "index against files": "All bytes of the index against the session files.",
    "catch up with 1,000 foreign writes": "Another process's `add_many`, then one query here.",
    "first answer of a new process": "Import, open, one question, from the start of the process to its end.",
    "index build with meaning": "`memory.reindex()` with the vectors of all memories.",
    "query p95 with meaning": "The same queries by words and meaning.",
    "first answer of a new process with meaning": "The same question by words and meaning; the vectors are there.",
    "compaction of a 10 MB session": (
        "`session.compact`, in a store just opened, so that the session is read first. Raw: 10 MB written and synced."
    ),
    "archive a 10 MB session": "`memory.archive_session`. Raw: Python's own tar.gz of the same folder, synced, not read back.",
    "restore a 10 MB session": "`memory.restore_session`. Raw: Python's own unpacking, not synced.",
    "search inside a 10 MB archive": (
        "`query(…, include_archived=True)`: at first the archive is unpacked in RAM and taken into an index there, then it "
        "is known. Raw: Python's own unpacking. For information."
    ),
    "erase inside a 10 MB archive": (
        "One memory; the archive is unpacked in RAM, changed, packed anew, read back and moved into place. Raw: Python's "
        "own packing. For information."
    ),
    "delete by id against an append, p50": (
        "`session.delete(id)` and `session.add`, both durable, in alternating rounds of 20. Measured is the deletion, raw "
        "the append, both SMP."
    ),
    "delete_session of 10 MB": "Moved to the trash. Raw: an empty folder renamed, and the folder above it synced.",
    "erase one memory of 10 MB in a store of 100,000": (
        "`session.erase(id)` of a turn, in a store just opened, with all that belongs to it: files, cold segment, index, log, and "
        "the look through every file afterwards. Raw: 10 MB written and synced, and every file of the store read once."
    ),
    "first question after an erasure, 100,000 memories": (
        "What was in the same part of the index is taken in again. Raw: as above. For information."
    ),
    "maintenance of 1,000 idle sessions": "`memory.maintain()`, all that is due. Raw: every file of the store read once.",
    "hook in a new process": "`smp hook`, from the start of the process to its end; what it records goes on behind it. Raw: `python -c pass`.",
    "start of a command": "As a person waits for it, against `python -c pass`. For information.",
}


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{places}f} {unit}".strip()


def cells(row: Row) -> tuple[str, ...]:
    met = {True: "yes", False: "**no**", None: ""}[row.met]
    ratio = f"{row.ratio:.2f} ×" if row.ratio is not None else "–"
    target = str(row.target) if row.target else ""
    unit = f" {row.unit}" if row.target and row.target.of == "value" else ""
    return row.figure, row.case, target + unit, number(row.value, row.unit), number(row.raw, row.unit), ratio, met


def details(row: Row) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in row.details.items())


def terminal(rows: list[Row]) -> str:
    lines = [HEAD, *(tuple(cell.replace("**", "") for cell in cells(row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    shown = []
    for line in lines:
        padded = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append("  ".join(padded).rstrip())
    return "\n".join(shown)


def verdict(rows: list[Row]) -> str:
    judged = [row for row in rows if row.met is not None]
    missed = [f"{row.figure} ({row.case})" for row in judged if not row.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} targets met."
    return text + (" Missed: " + "; ".join(missed) + "." if missed else "")


_INTRODUCTION = """# Speed

Made by `benchmarks/run.py`; do not edit by hand. A run replaces the sections of the groups that it measured.

What is compared runs in small alternating rounds in the same minutes; a ratio is the median of the rounds' own ratios, so it need not be exactly the quotient of the two medians
beside it. Texts are made up, English, about 430 bytes in the mean. Rows without a target are for information. How well memories are found: [quality.md](quality.md). The cost of
redaction: [privacy.md](privacy.md#what-it-costs).
"""
_QUICK = "**A quick run: smaller sessions, few rounds. Its figures prove nothing but that the harness works.**"


def section(group: str, rows: list[Row], facts: dict[str, str], quick: bool, image: str = "") -> str:
    """The section of one group of figures."""
    lines = [f"## {group.capitalize()}", "", f"    {facts['command']}", ""]
    lines += [_QUICK, ""] if quick else []
    lines += ["; ".join(f"{name}: {value}" for name, value in facts.items() if name != "command") + ".", ""]
    lines += [verdict(rows)]
    lines += ["", f"![The cost of a query against the size of the store]({image})"] if image else []
    for figure in dict.fromkeys(row.figure for row in rows):
        lines += ["", f"### {figure[:1].upper()}{figure[1:]}", ""]
        lines += [_HOW[figure], ""] if figure in _HOW else []
        lines += ["| case | target | measured | raw | ratio | met |", "|---|--:|--:|--:|--:|---|"]
        lines += ["| " + " | ".join(cells(row)[1:]) + " |" for row in rows if row.figure == figure]
    return "\n".join(lines) + "\n"


def page(before: str, sections: dict[str, str], groups: Iterable[str]) -> str:
    """The page with these sections; those of other groups stay as they are in the page before."""
    kept = {each.split("\n", 1)[0].lower(): f"## {each.rstrip()}\n" for each in before.split("\n## ")[1:]}
    known = {**kept, **sections}
    return "\n".join([_INTRODUCTION, *(known[group] for group in groups if group in known)])


def as_json(rows: list[Row], facts: dict[str, str]) -> str:
    document = {"machine": facts, "rows": [{**asdict(row), "met": row.met} for row in rows]}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def write_quietly(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write(path: str, text: str) -> None:
    write_quietly(path, text)
    print(f"Written: {path}", file=sys.stderr)
