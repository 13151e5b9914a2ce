"""The section "Measured" of the comparison page, written from the results; the rest of the page is left as it is.

Under each table stands where SMP is not the first among those that lose nothing, with the reason where it is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from compare.peers import PLOTS, Environments, NotInstalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Found = dict[str, Any]
    Rows = list[tuple[str, ...]]

BEGIN, END = "<!-- measured: begin, made by ./dev bench compare -->", "<!-- measured: end -->"
CHARTS = {"writes": "comparison-writes.svg", "queries": "comparison-queries.svg"}
SIZES = (1_000, 10_000, 100_000, 1_000_000)
RANKING = {"words", "vectors", "words and vectors"}
_KINDS = ("rare", "medium", "five words")
_AS_TEXT = {"packages", "search is by", "after delete", "after erase"}
REASONS = {  # why a peer may be ahead
    "OpenAI Agents SQLiteSession": "it has no search and keeps no index",
    "LangGraph SqliteStore": "a key-value table without an index of words",
    "Chroma": "an index of vectors alone, in memory",
    "mem0, FAISS": "an index of vectors alone, in memory",
    "memvid": "native code, few modules to load",
}
_HOW = """\
Made by `./dev bench compare`; do not edit this section by hand. Every peer is installed by name in an environment of its own and driven through its
public interface, with the same texts (English, about 430 bytes in the mean), in the same run. Vector stores get a hashed bag of words as embedder for speed, so that
their own cost is measured and no model's; SMP computes its own vectors. mem0 is called with `infer=False`. Search is not the same job everywhere; the
first table says what it is. MCP servers are spoken to over standard input and output. *Not reached*: filling the store to this size would take longer
than the limit of the run. After it was filled, SMP's index is made anew with the vectors of all memories; until then, every query makes some of them. Rows named *limit* are no memories: they show what the disk or SQLite alone takes."""


def write(path: str, found: Found, order: list[str], folder: str) -> None:
    """Put the section between the marks of the page, and the charts into `images` beside it."""
    with open(path, encoding="utf-8") as file:
        before = file.read()
    found = {**found, "peers": _ordered(found["peers"], order)}
    drawn = charts(found, os.path.join(os.path.dirname(path), "images"), folder)
    text = "\n".join([BEGIN, "", *section(found, drawn), "", END])
    if BEGIN in before:
        head, _, rest = before.partition(BEGIN)
        text = head + text + rest.partition(END)[2]
    else:
        text = f"{before.rstrip()}\n\n{text}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"Written: {path}", file=sys.stderr)


def charts(found: Found, images: str, folder: str) -> dict[str, str]:
    """Draw the charts in an environment of their own; empty if that cannot be made."""
    environments = Environments(folder)
    try:
        environments.install(PLOTS)
    except NotInstalled as error:
        print(f"No charts: {error}", file=sys.stderr)
        return {}
    os.makedirs(images, exist_ok=True)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "charts.py")
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(found["peers"], file)
        file.flush()
        words = [environments.python(PLOTS), script, file.name]
        words += [os.path.join(images, name) for name in CHARTS.values()]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"No charts: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    return {name: f"images/{file}" for name, file in CHARTS.items()}


@dataclass
class Table:
    """A table with what stands above and below it; without rows it is left out."""

    intro: str
    head: tuple[str, ...]
    rows: Rows
    below: str = ""

    def lines(self) -> Iterator[str]:
        yield from (self.intro, "") if self.intro else ()
        yield f"| {' | '.join(self.head)} |"
        yield "|---|" + "".join("---|" if name in _AS_TEXT else "--:|" for name in self.head[1:])
        yield from ("| " + " | ".join(row) + " |" for row in self.rows)
        yield from ("", self.below) if self.below else ()


def section(found: Found, drawn: dict[str, str]) -> Iterator[str]:
    facts, peers = found["facts"], found["peers"]
    yield from ("## Measured", "", _HOW, "", f"    {facts.get('command', './dev bench compare')}", "")
    yield "; ".join(f"{name}: {value}" for name, value in facts.items() if name != "command") + "."
    for title, make in TABLES.items():
        table = make(peers)
        if table.rows:
            yield from ("", f"### {title}", "", *table.lines())
            chart = drawn.get(_CHART_OF.get(title, ""))
            yield from ("", f"![{title}]({chart})") if chart else ()


def _ordered(peers: dict[str, Found], order: list[str]) -> dict[str, Found]:
    names = [*(name for name in order if name in peers), *(name for name in peers if name not in order)]
    return {name: peers[name] for name in names}


# --- Cells ---------------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) or value == int(value):
        return f"{value:,.0f}"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.095 else 3
    return f"{value:,.{places}f}"


def step(peer: Found, name: str) -> Any:
    return peer["steps"].get(name)


def at(peer: Found, size: int) -> Found:
    """What was measured at a size; a slow peer may not have come to the first thousand."""
    for each in step(peer, "sizes") or []:
        if each["size"] == size or (size == SIZES[0] and each["size"] < size):
            found: Found = each
            return found
    return {}


def reached(peer: Found, size: int, value: Callable[[Found], float]) -> str:
    """The value at a size; the first size that was not reached says why, larger ones have a dash."""
    each = at(peer, size)
    if "error" in each:
        return str(each["error"]).replace("not reached: ", "*not reached:* ")
    try:
        return number(value(each)) if each else "–"
    except KeyError:
        return "–"


def bold(name: str) -> str:
    return f"**{name}**" if name.startswith("SMP") else name


def is_safe(name: str, peer: Found) -> bool:
    """Whether it is a memory that syncs its writes and lost none of them."""
    kept = [step(peer, each) or {} for each in ("at_once", "kills")]
    synced = (step(peer, "syncs") or {}).get("per write")
    return (
        not any(each.get("lost") or "error" in each for each in kept) and synced != 0 and not name.startswith("limit")
    )


def not_first(
    peers: dict[str, Found], value: Callable[[Found], float], best: Callable[..., float] = min, safe: bool = True
) -> str:
    """Who is ahead of the best row of SMP, among those that sync and lose nothing or among all."""
    values = {name: _value(peer, value) for name, peer in peers.items() if not safe or is_safe(name, peer)}
    known = {name: each for name, each in values.items() if each is not None}
    own = [each for name, each in known.items() if name.startswith("SMP")]
    if not own:
        return ""
    mine = best(own)
    among = " of those that sync and lose nothing" if safe else ""
    ahead = [name for name, each in known.items() if not name.startswith("SMP") and best(each, mine) != mine]
    if not ahead:
        return f"SMP ({number(mine)}) is the first{among}."
    said = [f"{name} ({'; '.join([number(known[name]), *_reason(name)])})" for name in ahead]
    return f"SMP ({number(mine)}) is not the first{among}. Ahead of it: {', '.join(said)}."


def each_of(said: dict[str, str]) -> str:
    """Several such sentences, each with what it is about."""
    return " ".join(f"{about}: {text}" for about, text in said.items() if text)


def _reason(name: str) -> list[str]:
    return [REASONS[name]] if name in REASONS else []


def _value(peer: Found, value: Callable[[Found], float]) -> float | None:
    try:
        return value(peer)
    except (KeyError, TypeError):
        return None


# --- Tables --------------------------------------------------------------------------------------------------------


def installed(peers: dict[str, Found]) -> Table:
    rows = [
        (bold(name), peer["version"] or "this checkout", peer["search"] or "–", number(peer["megabytes"]))
        for name, peer in peers.items()
        if peer.get("megabytes") and not peer.get("error")
    ]
    failed = [f"{name} ({peer['version']}): {peer['error']}" for name, peer in peers.items() if peer.get("error")]
    below = f"Not measured: {'; '.join(failed)}" if failed else ""
    return Table("", ("peer", "packages", "search is by", "installed MB"), rows, below)


def writes(peers: dict[str, Found]) -> Table:
    intro = (
        "One memory after the other, up to 1,000 or ten seconds. Zero syncs: an acknowledged write is lost when the power fails. "
        "The last column: against a raw append and fdatasync of the same text, in alternating rounds."
    )
    rows = []
    for name, peer in _stores(peers):
        one = at(peer, SIZES[0]).get("write")
        if one:
            synced = (step(peer, "syncs") or {}).get("per write")
            cells = (synced, one["p50"], one["p95"], one["per second"])
            rows.append((bold(name), *map(number, cells), f"{number(one['ratio'])} ×"))
    below = not_first(peers, lambda peer: at(peer, SIZES[0])["write"]["ratio"])
    return Table(intro, ("peer", "syncs per write", "p50 ms", "p95 ms", "per second", "÷ raw append"), rows, below)


def _stores(peers: dict[str, Found]) -> list[tuple[str, Found]]:
    """Without the row that differs in its search only."""
    return [(name, peer) for name, peer in peers.items() if name != "SMP jsonl, words alone"]


def growth(peers: dict[str, Found]) -> Table:
    rows = [
        (bold(name), *(reached(peer, size, lambda each: each["write"]["p50"]) for size in SIZES))
        for name, peer in peers.items()
        if step(peer, "sizes")
    ]
    said = not_first(peers, lambda peer: at(peer, 100_000)["write"]["ratio"])
    below = each_of({"At 100,000, against the raw append": said})
    intro = "p50 of one write in ms, in a store that was filled to this size before."
    return Table(intro, ("peer", *(f"{size:,}" for size in SIZES)), rows, below)


def questions(peers: dict[str, Found]) -> Table:
    rows = [
        (bold(name), *(reached(peer, size, lambda each: each["query"]["five words"]["p50"]) for size in SIZES))
        for name, peer in peers.items()
        if at(peer, SIZES[0]).get("query")
    ]
    ranked = {name: peer for name, peer in peers.items() if peer.get("search") in RANKING}
    said = {
        f"At {size:,}, among those that rank": not_first(
            ranked, lambda peer, size=size: at(peer, size)["query"]["five words"]["p50"]
        )
        for size in SIZES[1:3]
    }
    below = each_of(said)
    intro = "p50 in ms of a search with five words, the best ten. A filter and the last items are no search; they are not in the chart."
    return Table(intro, ("peer", *(f"{size:,}" for size in SIZES)), rows, below)


def kinds(peers: dict[str, Found]) -> Table:
    rows = []
    for name, peer in peers.items():
        asked = at(peer, 10_000).get("query")
        if asked:
            cells = [f"{number(asked[kind]['p50'])} / {number(asked[kind]['p95'])}" for kind in _KINDS]
            rows.append((bold(name), peer["search"], *cells))
    intro = (
        "p50 / p95 in ms at 10,000 memories. Rare: a word of one text; medium: a word of one to ten per cent of them."
    )
    return Table(intro, ("peer", "search is by", *_KINDS), rows)


def starts(peers: dict[str, Found]) -> Table:
    rows = []
    for name, peer in _stores(peers):
        first = step(peer, "first_answers") or {}
        size = next((each for each in (at(peer, 10_000), at(peer, SIZES[0])) if "peak MB" in each), {})
        if "ms" in first or size:
            ratio = f"{first['ms'] / first['empty']:,.1f} ×" if "ms" in first else "–"
            cells = (size.get("peak MB"), size.get("bytes per memory"))
            rows.append((bold(name), number(first.get("ms")), ratio, *map(number, cells)))
    intro = (
        "From the start of a process to its end with one answer, in a store of 1,000; against an empty process of Python or node. "
        "Memory and disk at 10,000 memories, or at the first thousand where that was not reached; servers included."
    )
    said = {"First answer": not_first(peers, lambda peer: step(peer, "first_answers")["ms"])}
    for name, cell in (("Memory", "peak MB"), ("Disk", "bytes per memory")):
        said[f"{name} at 10,000"] = not_first(peers, lambda peer, cell=cell: at(peer, 10_000)[cell])
    below = each_of(said)
    return Table(intro, ("peer", "first answer ms", "÷ empty process", "peak MB", "bytes per memory"), rows, below)


def processes(peers: dict[str, Found]) -> Table:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "at_once")
        if each:
            cells = [number(each.get(cell)) for cell in ("per second", "acknowledged", "errors")]
            lost = each.get("error") or number(each["lost"])
            rows.append((bold(name), *cells, f"**{lost}**" if each.get("lost") else lost))
    clean = {name: peer for name, peer in peers.items() if not (step(peer, "at_once") or {}).get("errors")}
    intro = "Four processes write to one store at once. Lost: acknowledged, and not found by a new process afterwards."
    below = not_first(clean, lambda peer: step(peer, "at_once")["per second"], max)
    return Table(intro, ("peer", "per second", "acknowledged", "errors", "lost"), rows, below)


def killed(peers: dict[str, Found]) -> Table:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "kills")
        if each and "error" in each:
            rows.append((bold(name), "–", "–", f"**{each['error']}**"))
        elif each:
            lost = f"**{each['lost']:,}**" if each["lost"] else "0"
            rows.append((bold(name), str(each["kills"]), number(each["acknowledged"]), lost))
    intro = (
        "A writer and its children are killed with `kill -9` in the middle of writing, as often as fits into 45 seconds, at most twenty "
        "times. It shows what a crash of the process does, not a power failure."
    )
    return Table(intro, ("peer", "kills", "acknowledged", "lost"), rows)


def forgotten(peers: dict[str, Found]) -> Table:
    rows = [
        (bold(name), _left(step(peer, "forgetting"), "delete"), _left(step(peer, "forgetting"), "erase"))
        for name, peer in peers.items()
        if step(peer, "forgetting")
    ]
    intro = (
        "Whether the raw bytes of a deleted text are still in a file of the store, its index, logs or state, after the store was closed; "
        "nothing is unpacked. SMP's `delete` keeps it in a trash on purpose; *erase* is SMP's, and LanceDB's `optimize`."
    )
    return Table(intro, ("peer", "after delete", "after erase"), rows)


def _left(each: Found, how: str) -> str:
    if "error" in each:
        return str(each["error"])
    if how not in each:
        return "–"
    files = len(each[how]["files"])
    return f"in {files} file{'s' if files > 1 else ''}" if files else "gone"


def recalled(peers: dict[str, Found]) -> Table:
    sets = ("LoCoMo", "LongMemEval")
    rows = []
    asked: dict[str, int] = {}
    for name, peer in peers.items():
        each = step(peer, "recall")
        if each and "error" not in each:
            asked |= {data: each[data]["questions"] for data in sets if "questions" in each[data]}
            rows.append((bold(name), *(cell for data in sets for cell in _shares(each[data]))))
    counts = ", ".join(f"{data} {count} questions" for data, count in asked.items())
    intro = (
        f"The share of questions with a turn that answers among the first five and ten: {counts}, of three conversations and of 150 "
        "sessions. Vector stores get the vectors of all-MiniLM-L6-v2, the default of Chroma and MemPalace."
    )
    said = {
        f"{data} any@10": not_first(peers, lambda peer, data=data: step(peer, "recall")[data]["any@10"], max, False)
        for data in sets
    }
    return Table(intro, ("peer", "LoCoMo any@5", "any@10", "LongMemEval any@5", "any@10"), rows, each_of(said))


def _shares(each: Found) -> tuple[str, str]:
    if "error" in each:
        return str(each["error"]).replace("not reached: ", "*not reached:* "), "–"
    return f"{each['any@5']:.3f}", f"{each['any@10']:.3f}"


def precise(peers: dict[str, Found]) -> Table:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "precision")
        if each and "error" in each:
            rows.append((bold(name), str(each["error"]), "–", "–"))
        elif each:
            passed = f"{each['passed']} of {each['cases']}"
            rows.append((bold(name), f"{each['precision']:.3f}", f"{each['recall']:.3f}", passed))
    intro = (
        "PrecisionMemBench: whether a prompt gets the beliefs that it needs and no others. For the others, the number of hits and the "
        "limit on the score are those that pass most of these very cases, and replaced beliefs are left out of their stores; both "
        "favour them. SMP's rules are its defaults."
    )
    said = {
        name.capitalize(): not_first(peers, lambda peer, name=name: step(peer, "precision")[name], max, False)
        for name in ("precision", "passed")
    }
    return Table(intro, ("peer", "precision", "recall", "cases passed"), rows, each_of(said))


TABLES: dict[str, Callable[[dict[str, Found]], Table]] = {
    "What was installed": installed,
    "Durable writes": writes,
    "Writes in growing stores": growth,
    "Searches in growing stores": questions,
    "Kinds of questions": kinds,
    "New process, memory, disk": starts,
    "Four processes at once": processes,
    "Killed while writing": killed,
    "Forgetting": forgotten,
    "Recall": recalled,
    "Precision": precise,
}
_CHART_OF = {"Writes in growing stores": "writes", "Searches in growing stores": "queries"}
