"""The section "Measured" of the comparison page, written from the results; the rest of the page is left as it is.

Under each table stands where SMP is not the first among those that lose nothing, with the reason where it is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from compare.peers import PLOTS, Environments, NotInstalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Found = dict[str, Any]
    Rows = list[tuple[str, ...]]

BEGIN, END = "<!-- measured: begin, made by ./dev bench compare -->", "<!-- measured: end -->"
CHARTS = {"writes": "comparison-writes.svg", "queries": "comparison-queries.svg"}
_KINDS = ("rare", "medium", "five words")
REASONS = {
    "OpenAI Agents SQLiteSession": "it has no search, so it keeps no index",
    "LangGraph SqliteStore": "a key-value table without an index of words",
    "LanceDB": "it syncs nothing",
    "reference MCP memory server": "it syncs nothing and keeps everything in memory",
    "memvid": "native code without an interpreter's modules",
}
_HOW = """\
Made by `./dev bench compare`; do not edit this section by hand. Every peer is installed by name in an environment of its own and driven through its
public interface, with the same texts (English, about 430 bytes in the mean), in the same run. Vector stores get a hashed bag of words as embedder for speed, so that
their own cost is measured and no model's; SMP computes its own vectors. mem0 is called with `infer=False`. Search is not the same job everywhere; the
first table says what it is. MCP servers are spoken to over standard input and output. *Not reached*: filling the store to this size would take longer
than the limit of the run. Rows named *limit* are no memories: they show what the disk or SQLite alone takes."""


def write(path: str, found: Found, order: list[str], folder: str) -> None:
    """Put the section between the marks of the page, and the charts into `images` beside it."""
    with open(path, encoding="utf-8") as file:
        before = file.read()
    drawn = charts(found, os.path.join(os.path.dirname(path), "images"), folder)
    text = "\n".join([BEGIN, "", *section(found, order, drawn), "", END])
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


def section(found: Found, order: list[str], drawn: dict[str, str]) -> Iterator[str]:
    facts, peers = found["facts"], _ordered(found["peers"], order)
    yield from ("## Measured", "", _HOW, "", f"    {facts.get('command', './dev bench compare')}", "")
    yield "; ".join(f"{name}: {value}" for name, value in facts.items() if name != "command") + "."
    for title, table in TABLES.items():
        lines = list(table(peers))
        if lines:
            yield from ("", f"### {title}", "", *lines)
        if title in _CHART_OF and _CHART_OF[title] in drawn:
            yield from ("", f"![{title}]({drawn[_CHART_OF[title]]})")


def _ordered(peers: dict[str, Found], order: list[str]) -> dict[str, Found]:
    names = [*(name for name in order if name in peers), *(name for name in peers if name not in order)]
    return {name: peers[name] for name in names}


# --- Cells ---------------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    if value is None:
        return "–"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.095 else 3
    return f"{value:,.{places}f}"


def step(peer: Found, name: str) -> Any:
    return peer["steps"].get(name)


def at(peer: Found, size: int) -> Found:
    return next((each for each in step(peer, "sizes") or [] if abs(each["size"] - size) <= size / 2), {})


def reached(peer: Found, size: int, value: Callable[[Found], float]) -> str:
    """The value at a size; the first size that was not reached says why, larger ones have a dash."""
    each = at(peer, size)
    if "error" in each:
        return each["error"].replace("not reached: ", "*not reached:* ")
    try:
        return number(value(each)) if each else "–"
    except KeyError:
        return "–"


def table(head: tuple[str, ...], rows: Rows) -> Iterator[str]:
    if rows:
        yield f"| {' | '.join(head)} |"
        yield "|---|" + "--:|" * (len(head) - 1)
        yield from ("| " + " | ".join(row) + " |" for row in rows)


def bold(name: str) -> str:
    return f"**{name}**" if name.startswith("SMP") else name


def loses(peer: Found) -> bool:
    """Whether acknowledged writes were lost, or a store did not open."""
    kept = [step(peer, name) or {} for name in ("at_once", "kills")]
    return any(each.get("lost") or "error" in each for each in kept)


def is_safe(name: str, peer: Found) -> bool:
    synced = (step(peer, "syncs") or {}).get("per write")
    return not loses(peer) and synced != 0 and not name.startswith("limit")


def not_first(peers: dict[str, Found], value: Callable[[Found], float | None], best: Callable[..., float] = min) -> str:
    """Who is ahead of the best row of SMP, among those that sync and lose nothing."""
    values = {
        name: found
        for name, peer in peers.items()
        if is_safe(name, peer) and (found := _value(peer, value)) is not None
    }
    own = [found for name, found in values.items() if name.startswith("SMP")]
    if not own:
        return ""
    mine = best(own)
    ahead = [
        name for name, found in values.items() if not name.startswith("SMP") and best(found, mine) == found != mine
    ]
    if not ahead:
        return "SMP is the first of those that sync and lose nothing."
    said = [f"{name} ({number(values[name])}; {REASONS.get(name, 'no reason known')})" for name in ahead]
    return f"SMP is not the first ({number(mine)}). Ahead of it: {', '.join(said)}."


def _value(peer: Found, value: Callable[[Found], float | None]) -> float | None:
    try:
        return value(peer)
    except (KeyError, TypeError):
        return None


# --- Tables --------------------------------------------------------------------------------------------------------


def installed(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        if "version" in peer and not peer.get("error") and not name.startswith("limit"):
            rows.append(
                (bold(name), peer["version"] or "this checkout", peer["search"] or "–", number(peer["megabytes"]))
            )
    yield from table(("peer", "packages", "search is by", "installed MB"), rows)
    failed = [f"- {name} ({peer['version']}): {peer['error']}" for name, peer in peers.items() if peer.get("error")]
    yield from ["", "Not measured:", "", *failed] if failed else []


def writes(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        one = at(peer, 1000).get("write")
        if one and name != "SMP jsonl, words alone":
            synced = step(peer, "syncs") or {}
            cells = (one["p50"], one["p95"], one["per second"])
            ratio = f"{number(one['ratio'])} ×"
            rows.append((bold(name), number(synced.get("per write")), *map(number, cells), ratio))
    yield "One memory after the other, up to 1,000 or twelve seconds. Zero syncs: an acknowledged write is lost when the power fails. The last column: against a raw append and fdatasync of the same text, in alternating rounds."
    yield ""
    yield from table(("peer", "syncs per write", "p50 ms", "p95 ms", "per second", "÷ raw append"), rows)
    yield from ("", not_first(peers, lambda peer: at(peer, 1000)["write"]["ratio"]))


def growth(peers: dict[str, Found]) -> Iterator[str]:
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    rows = [
        (bold(name), *(reached(peer, size, lambda each: each["write"]["p50"]) for size in sizes))
        for name, peer in peers.items()
        if step(peer, "sizes") and name != "SMP jsonl, words alone"
    ]
    yield "p50 of one write in ms, in a store that was filled to this size before."
    yield ""
    yield from table(("peer", *(f"{size:,}" for size in sizes)), rows)
    yield from (
        "",
        not_first(peers, lambda peer: at(peer, 100_000)["write"]["ratio"]) + " (at 100,000, against the raw append)",
    )


def questions(peers: dict[str, Found]) -> Iterator[str]:
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    rows = [
        (bold(name), *(reached(peer, size, lambda each: each["query"]["five words"]["p50"]) for size in sizes))
        for name, peer in peers.items()
        if at(peer, 1000).get("query")
    ]
    yield "p50 in ms of a search with five words, the best ten."
    yield ""
    yield from table(("peer", *(f"{size:,}" for size in sizes)), rows)
    ranked = {
        name: peer for name, peer in peers.items() if peer.get("search") in {"words", "vectors", "words and vectors"}
    }
    for size in (10_000, 100_000):
        said = not_first(ranked, lambda peer: at(peer, size)["query"]["five words"]["p50"])
        yield from ("", f"At {size:,}, among those that rank: {said}") if said else ()


def kinds(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        asked = at(peer, 10_000).get("query")
        if asked:
            cells = [f"{number(asked[kind]['p50'])} / {number(asked[kind]['p95'])}" for kind in _KINDS]
            rows.append((bold(name), peer["search"], *cells))
    yield "p50 / p95 in ms at 10,000 memories. Rare: a word of one text; medium: a word of one to ten per cent of them."
    yield ""
    yield from table(("peer", "search is by", *_KINDS), rows)


def starts(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        first = step(peer, "first_answers") or {}
        size = next((each for each in (at(peer, 10_000), at(peer, 1_000)) if "peak MB" in each), {})
        if "ms" in first or size:
            ratio = f"{first['ms'] / first['empty']:,.1f} ×" if "ms" in first else "–"
            cells = (first.get("ms"), size.get("peak MB"), size.get("bytes per memory"))
            rows.append((bold(name), number(cells[0]), ratio, number(cells[1]), number(cells[2])))
    yield "From the start of a process to its end with one answer, in a store of 1,000; against an empty process of Python or node. Memory and disk at 10,000 memories, or at 1,000 where that was not reached; servers included."
    yield ""
    yield from table(("peer", "first answer ms", "÷ empty process", "peak MB", "bytes per memory"), rows)
    yield from ("", not_first(peers, lambda peer: step(peer, "first_answers")["ms"]))


def processes(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "at_once")
        if each:
            cells = (each.get("per second"), each.get("acknowledged"), each.get("errors"))
            lost = each.get("error") or number(each["lost"])
            rows.append((bold(name), *map(number, cells), f"**{lost}**" if each.get("lost") else lost))
    yield "Four processes write to one store at once. Lost: acknowledged, and not found by a new process afterwards."
    yield ""
    yield from table(("peer", "per second", "acknowledged", "errors", "lost"), rows)
    clean = {name: peer for name, peer in peers.items() if not (step(peer, "at_once") or {}).get("errors")}
    yield from ("", not_first(clean, lambda peer: step(peer, "at_once")["per second"], max))


def killed(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "kills")
        if each and "error" in each:
            rows.append((bold(name), "–", "–", f"**{each['error']}**"))
        elif each:
            lost = f"**{each['lost']:,}**" if each["lost"] else "0"
            rows.append((bold(name), str(each["kills"]), number(each["acknowledged"]), lost))
    yield "A writer and its children are killed with `kill -9` in the middle of writing, as often as fits into a minute, at most twenty times. It shows what a crash of the process does, not a power failure."
    yield ""
    yield from table(("peer", "kills", "acknowledged", "lost"), rows)


def forgotten(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "forgetting")
        if each:
            rows.append((bold(name), *(_left(each, how) for how in ("delete", "erase"))))
    yield "Whether the raw bytes of a deleted text are still in a file of the store, its index, logs or state. SMP's `delete` keeps it in a trash on purpose; *erase* is SMP's, and LanceDB's `optimize`."
    yield ""
    yield from table(("peer", "after delete", "after erase"), rows)


def _left(each: Found, how: str) -> str:
    if "error" in each:
        return str(each["error"])
    if how not in each:
        return "–"
    files = each[how]["files"]
    return f"in {len(files)} file{'s' if len(files) > 1 else ''}" if files else "gone"


def recalled(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    asked = {}
    for name, peer in peers.items():
        each = step(peer, "recall")
        if each and "error" not in each:
            cells = []
            for data in ("LoCoMo", "LongMemEval"):
                asked[data] = each[data].get("questions", asked.get(data))
                cells += (
                    [each[data].get("error", "") or f"{each[data][figure]:.3f}" for figure in ("any@5", "any@10")]
                    if "error" not in each[data]
                    else [each[data]["error"], "–"]
                )
            rows.append((bold(name), *cells))
    if rows:
        yield f"The share of questions with a turn that answers among the first five and ten. LoCoMo: three conversations, {asked['LoCoMo']} questions. LongMemEval: 150 sessions, {asked['LongMemEval']} questions. Vector stores get the vectors of all-MiniLM-L6-v2, the default of Chroma and MemPalace."
        yield ""
        yield from table(("peer", "LoCoMo any@5", "any@10", "LongMemEval any@5", "any@10"), rows)


def precise(peers: dict[str, Found]) -> Iterator[str]:
    rows = []
    for name, peer in peers.items():
        each = step(peer, "precision")
        if each and "error" in each:
            rows.append((bold(name), each["error"], "–", "–"))
        elif each:
            passed = f"{each['passed']} of {each['cases']}"
            rows.append((bold(name), f"{each['precision']:.3f}", f"{each['recall']:.3f}", passed))
    if rows:
        yield "PrecisionMemBench: whether a prompt gets the beliefs that it needs and no others. For the others the number of hits and the limit on the score are those that pass most of these very cases, and replaced beliefs are left out of their stores; both favour them. SMP's rules are its defaults."
        yield ""
        yield from table(("peer", "precision", "recall", "cases passed"), rows)


TABLES: dict[str, Callable[[dict[str, Found]], Iterator[str]]] = {
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
