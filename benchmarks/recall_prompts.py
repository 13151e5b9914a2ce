"""Measure what the prompt hook tells for each prompt of the labelled stores, by kind of prompt.

    python benchmarks/recall_prompts.py [--part development] [--store NAME] [--semantic off] [--show [KIND]] [--chart FILE] [--json FILE]

Every prompt is the first one of a new conversation, two weeks after the last one. Columns, as shares of the prompts of a kind:

    told             a memory or turn that states a wanted fact is in the text
    told or pointed  the same, or a pointer to it
    something told   right or wrong
    anything         something is told or pointed at
    stale            something superseded, resolved or deleted is told or pointed at
    tokens           of the text, on average over all prompts of the kind

For direct, reworded, task, file and asking prompts `told` should be high. For general and smalltalk prompts, which have nothing to do with the
project (`unrelated`), `anything` should be low. `near` prompts are about the project, but nothing in the store answers them.

Calibration: of the hits of `query` with a relevance from one tenth to the next, the share that states a wanted fact; and of the most relevant
hit of each prompt.
`--show` prints each miss and each wrong text, with the place and relevance that `query` gives to the best right memory.
`--chart` asks all prompts again at other floors (`recall.min_relevance`) and draws what they give.

The held-out part is for checking, not for choosing weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from statistics import mean
from unittest.mock import patch

import quality_chart
import recall_stores
from recall_stores import CLIENT, HELD_OUT, KINDS, NEEDS, PARTS, STALE

from smp_memory.index import embeddings
from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.model.times import Clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recall_stores import LabelledStore, Prompt, WrittenStore

UNRELATED = ("general", "smalltalk")
FLOORS = tuple(round(0.05 * step, 2) for step in range(4, 20))  # of the chart
_HITS = 50  # of `query`, among which the right memory is looked for
_MODEL_MS = 60_000  # so that the larger model answers on a busy machine, too; a hook waits for 150 ms at most
_JUDGED = 30  # of these, as many as the hook judges
_SHOWN_CHARACTERS = 110


@dataclass
class Answer:
    """What the hook told for one prompt; refs are `session/ID`. Rank and relevance: of the best right memory in `query`."""

    store: str
    kind: str
    text: str
    keys: tuple[str, ...]
    told: list[str]
    pointed: list[str]
    tokens: int
    is_told: bool
    is_pointed: bool
    is_stale: bool
    rank: int | None = None
    relevance: float | None = None
    judged: tuple[tuple[float, bool], ...] = ()  # relevance of the first hits of `query`, and whether each is right
    notes: tuple[str, ...] = ()  # lines for --show

    @property
    def is_any_told(self) -> bool:
        return bool(self.told)

    @property
    def is_anything(self) -> bool:
        return bool(self.told or self.pointed)

    @property
    def is_wrong(self) -> bool:
        """Whether --show prints it."""
        if self.kind in NEEDS:
            return not self.is_told or self.is_stale
        return self.is_stale if self.kind == STALE else self.is_anything


@dataclass
class Measured:
    """All answers, those at other floors, and the floors of the settings: from which relevance a memory is told, and pointed at."""

    answers: list[Answer] = field(default_factory=list)
    by_floor: dict[float, list[Answer]] = field(default_factory=dict)
    told_from: float = 0.0
    pointed_from: float = 0.0


# --- Asking --------------------------------------------------------------------------------------------------------


class PromptAsker:
    """Asks the prompts of one written store through the function that `smp hook` calls."""

    def __init__(self, name: str, store: WrittenStore) -> None:
        self._name = name
        self._store = store
        self._root = store.memory.root
        self._reader = Reader(self._root, os.environ, store=store.memory.store, clock=Clock(store.clock))
        self._stale = store.stale_refs()
        self._count = 0
        self.floors = self._reader.floor(), self._reader.pointer_floor()  # of the settings

    def ask(self, prompt: Prompt, floor: float | None = None) -> Answer:
        """What the hook tells, at another floor than that of the settings if one is given."""
        self._count += 1
        self._reader.min_relevance = floor
        host_session = f"prompt-{self._count}"
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": host_session,
            "cwd": self._root,
            "prompt": self._sent_text(prompt),
        }
        event = events.read(json.dumps(payload).encode(), CLIENT, {})
        assert event is not None
        recall = recall_for_event(self._reader, event, f"{CLIENT}-{host_session}")
        told, pointed = recall.told, recall.pointed
        right = self._store.refs(prompt.keys) if prompt.kind in NEEDS else set()
        return Answer(
            self._name,
            prompt.kind,
            prompt.text,
            prompt.keys,
            told,
            pointed,
            tokens=(len(recall.text) + 3) // 4,
            is_told=bool(right & set(told)),
            is_pointed=bool(right & set(pointed)) and not right & set(told),
            is_stale=bool(self._stale & {*told, *pointed}),
        )

    def _sent_text(self, prompt: Prompt) -> str:
        """The prompt as Claude Code sends it: in an editor, a block in front of it names the open file."""
        if not prompt.file:
            return prompt.text
        path = os.path.join(self._root, prompt.file)
        opened = f"The user opened the file {path} in the IDE. This may or may not be related to the current task."
        return f"<ide_opened_file>{opened}</ide_opened_file>\n{prompt.text}"

    def add_details(self, answer: Answer) -> None:
        """Add what `query` finds for the same prompt."""
        right = self._store.refs(answer.keys) if answer.kind in NEEDS else set()
        hits = self._store.memory.query(answer.text, limit=_HITS, track_access=False)
        judged = [hit for hit in hits[:_JUDGED] if hit.record.ref not in self._stale]
        answer.judged = tuple((round(hit.relevance, 3), hit.record.ref in right) for hit in judged)
        relevance = {hit.record.ref: hit.relevance for hit in hits}
        found = [(place, hit) for place, hit in enumerate(hits, 1) if hit.record.ref in right]
        notes = [self._note("told", ref, relevance, right) for ref in answer.told]
        notes += [self._note("pointed", ref, relevance, right) for ref in answer.pointed]
        if found:
            answer.rank, best = found[0]
            answer.relevance = round(best.relevance, 3)
            notes.append(f"right: rank {answer.rank}, relevance {best.relevance:.2f}: {_short(best.record.text)}")
        elif right:
            first = sorted(right, key=lambda ref: "/TURN-" in ref)[0]
            notes.append(f"right: not among the first {_HITS}: {_short(self._store.memory.get(first).text)}")
        answer.notes = tuple(notes)

    def _note(self, word: str, ref: str, relevance: dict[str, float], right: set[str]) -> str:
        mark = "right" if ref in right else "stale" if ref in self._stale else "other"
        known = f"{relevance[ref]:.2f}" if ref in relevance else "–"
        return f"{word} ({mark}, {known}): {_short(self._store.memory.get(ref).text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"


def measure(stores: list[LabelledStore], semantic: str, floors: tuple[float, ...] = ()) -> Measured:
    """Write each store to a temporary folder and ask all its prompts, and again at each of the floors."""
    measured = Measured(by_floor={floor: [] for floor in floors})
    for store in stores:
        with tempfile.TemporaryDirectory(prefix="smp-prompts-") as folder:
            own_state = patch.dict(os.environ, SMP_STATE_DIR=os.path.join(folder, "state"))  # not that of the user
            with own_state:
                _ask_store(store, os.path.join(folder, "store"), semantic, measured)
    return measured


def _ask_store(store: LabelledStore, folder: str, semantic: str, measured: Measured) -> None:
    search = {"semantic": semantic, "model_ms": _MODEL_MS}
    settings = {"durability": "os", "hooks": {"record": False}, "search": search}
    written = recall_stores.write(store, folder, settings)
    with written.memory as memory:
        memory.reindex()
        asker = PromptAsker(store.name, written)
        measured.told_from, measured.pointed_from = asker.floors
        for prompt in store.prompts:
            answer = asker.ask(prompt)
            asker.add_details(answer)
            measured.answers.append(answer)
            for floor, answers in measured.by_floor.items():
                answers.append(asker.ask(prompt, floor))


# --- Figures -------------------------------------------------------------------------------------------------------

_ROWS: dict[str, tuple[str, ...]] = {
    **{kind: (kind,) for kind in NEEDS},
    "all of these": NEEDS,
    **{kind: (kind,) for kind in (STALE, "near", *UNRELATED)},
    "unrelated": UNRELATED,
}
_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[[Answer], bool]]] = {
    "told": (NEEDS, lambda each: each.is_told),
    "told or pointed": (NEEDS, lambda each: each.is_told or each.is_pointed),
    "something told": (KINDS, lambda each: each.is_any_told),
    "anything": (KINDS, lambda each: each.is_anything),
    "stale": (KINDS, lambda each: each.is_stale),
}


def figures(answers: list[Answer]) -> dict[str, dict[str, float | None]]:
    """The rows of the table."""
    found: dict[str, dict[str, float | None]] = {}
    for name, kinds in _ROWS.items():
        some = [each for each in answers if each.kind in kinds]
        if not some:
            continue
        row: dict[str, float | None] = {"prompts": len(some)}
        for column, (known, is_so) in _COLUMNS.items():
            row[column] = mean(float(is_so(each)) for each in some) if set(kinds) <= set(known) else None
        row["tokens"] = mean(each.tokens for each in some)
        found[name] = row
    return found


def table(title: str, rows: dict[str, dict[str, float | None]]) -> Iterator[str]:
    columns = ("prompts", *_COLUMNS, "tokens")
    yield f"| {title:<12} | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in rows.items():
        yield f"| {name:<12} | {' | '.join(_cell(column, row[column]).rjust(len(column)) for column in columns)} |"


def _cell(column: str, figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:.0f}" if column in ("prompts", "tokens") else f"{figure:.2f}"


def calibration(answers: list[Answer]) -> Iterator[str]:
    """A table of tenths of relevance. Prompts about stale facts are left out: what replaced these answers, too, and is not labelled."""
    judged = [each.judged for each in answers if each.judged and each.kind != STALE]
    yield f"| relevance from | {' | '.join(f'{tenth / 10:.1f}' for tenth in range(10))} |"
    yield "|---" * 11 + "|"
    groups = {"hits": [hit for hits in judged for hit in hits], "best hits": [max(hits) for hits in judged]}
    for name, hits in groups.items():
        tenths = [[is_right for value, is_right in hits if min(int(value * 10), 9) == tenth] for tenth in range(10)]
        yield f"| {name} | {' | '.join(str(len(each)) for each in tenths)} |"
        yield f"| share that answers | {' | '.join(_cell('', mean(each) if each else None) for each in tenths)} |"


_LINES = {  # of the chart: a column of the table for some kinds
    "direct, asking: answer told": (("direct", "asking"), "told"),
    "reworded, task: answer told": (("reworded", "task"), "told"),
    "near: something told": (("near",), "something told"),
    "unrelated: something told": (UNRELATED, "something told"),
}


def floors_chart(by_floor: dict[float, list[Answer]]) -> str:
    """What each floor gives, as SVG."""
    drawn: dict[tuple[str, str], dict[float, float]] = {}
    for floor, answers in by_floor.items():
        for name, (kinds, column) in _LINES.items():
            some = [float(_COLUMNS[column][1](each)) for each in answers if each.kind in kinds]
            if some:
                drawn.setdefault((name, ""), {})[floor] = mean(some)
    return quality_chart.chart("Prompts by the floor of relevance", drawn, quality_chart.FLOOR)


def shown(answers: list[Answer], kind: str) -> Iterator[str]:
    """The misses and wrong texts of one kind or of all."""
    for each in answers:
        if each.is_wrong and kind in ("all", each.kind):
            keys = f" ({', '.join(each.keys)})" if each.keys else ""
            yield f"{each.store} {each.kind}{keys}: {each.text}"
            yield from (f"    {note}" for note in each.notes)


# --- The command ---------------------------------------------------------------------------------------------------


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default=PARTS[0])
    parser.add_argument("--store", metavar="NAME", help="only this file of the part")
    parser.add_argument("--semantic", choices=("auto", "minilm", "off"), default="auto", help="off: words alone")
    parser.add_argument(
        "--show", nargs="?", const="all", choices=("all", *KINDS), metavar="KIND", help="print misses and wrong texts"
    )
    parser.add_argument("--chart", metavar="FILE", help="ask at other floors, too, and draw what they give as SVG")
    parser.add_argument("--json", metavar="FILE", help="write the figures and all answers there as JSON")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = arguments(words)
    if given.part == HELD_OUT:
        print("HELD-OUT stores: do not choose weights by these figures.", file=sys.stderr)
    stores = recall_stores.read_part(given.part, given.store)
    if not stores:
        print(f"No labelled store {given.store or ''} in the part {given.part}.", file=sys.stderr)
        return 1
    if given.semantic == "minilm" and embeddings.package_folder() is None:
        print("Nothing is measured: the extra `models` is not installed.", file=sys.stderr)
        return 1
    start = time.perf_counter()
    measured = measure(stores, given.semantic, FLOORS if given.chart else ())
    answers = measured.answers
    if given.show:
        print("\n".join(shown(answers, given.show)), end="\n\n")
    print(f"Told from a relevance of {measured.told_from}, pointed at from {measured.pointed_from}. ", end="")
    print(f"search.semantic: {given.semantic}.\n")
    print("\n".join([*table(given.store or given.part, figures(answers)), "", *calibration(answers)]))
    print(f"{len(answers)} prompts, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if given.chart:
        with open(given.chart, "w", encoding="utf-8") as file:
            file.write(floors_chart(measured.by_floor))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            rows = {"figures": figures(answers), "answers": [asdict(each) for each in answers]}
            json.dump(rows, file, indent=1, ensure_ascii=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
