"""Measure what the prompt hook tells for each prompt of the labelled stores, by kind of prompt.

    python benchmarks/recall_prompts.py [--part development] [--store NAME] [--semantic off] [--show [KIND]] [--json FILE]

Every prompt is the first one of a new conversation, two weeks after the last one. Columns, as shares of the prompts of a kind:

    told         a memory or turn that states a wanted fact is in the text
    pointed      only a pointer to it is
    any told     something is told, right or wrong
    anything     something is told or pointed at
    stale        something superseded, resolved or deleted is told or pointed at
    tokens       of the text, on average over all prompts of the kind

For direct, reworded, task, file and asking prompts `told` should be high; for near, general and smalltalk `anything` should be low.
`--show` prints each miss and each wrong text, with the place and relevance that `query` gives to the best right memory.

The held-out part is for checking, not for choosing weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from statistics import mean

import recall_stores
from recall_stores import CLIENT, HELD_OUT, KINDS, NEEDS, NONE, PARTS, STALE

from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.model.times import Clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recall_stores import LabelledStore, Prompt, WrittenStore

_HITS = 50  # of `query`, among which the right memory is looked for
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
    notes: list[str] | None = None  # lines for --show

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


# --- Asking --------------------------------------------------------------------------------------------------------


class PromptAsker:
    """Asks the prompts of one written store through the function that `smp hook` calls."""

    def __init__(self, name: str, store: WrittenStore, is_detailed: bool) -> None:
        self._name = name
        self._store = store
        self._root = store.memory.root
        self._reader = Reader(self._root, os.environ, clock=Clock(store.clock))
        self._stale = store.stale_refs()
        self._is_detailed = is_detailed
        self._count = 0

    def ask(self, prompt: Prompt) -> Answer:
        self._count += 1
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
        answer = Answer(
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
        if self._is_detailed:
            self._add_details(answer, right)
        return answer

    def _sent_text(self, prompt: Prompt) -> str:
        """The prompt as Claude Code sends it: in an editor, a block in front of it names the open file."""
        if not prompt.file:
            return prompt.text
        path = os.path.join(self._root, prompt.file)
        opened = f"The user opened the file {path} in the IDE. This may or may not be related to the current task."
        return f"<ide_opened_file>{opened}</ide_opened_file>\n{prompt.text}"

    def _add_details(self, answer: Answer, right: set[str]) -> None:
        hits = self._store.memory.query(answer.text, limit=_HITS, track_access=False)
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
        answer.notes = notes

    def _note(self, word: str, ref: str, relevance: dict[str, float], right: set[str]) -> str:
        mark = "right" if ref in right else "stale" if ref in self._stale else "other"
        known = f"{relevance[ref]:.2f}" if ref in relevance else "–"
        return f"{word} ({mark}, {known}): {_short(self._store.memory.get(ref).text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"


def ask_store(store: LabelledStore, semantic: str, is_detailed: bool) -> list[Answer]:
    """Write a store to a temporary folder and ask all its prompts."""
    settings = {"durability": "os", "hooks": {"record": False}, "search": {"semantic": semantic}}
    with tempfile.TemporaryDirectory(prefix="smp-prompts-") as folder:
        written = recall_stores.write(store, folder, settings)
        with written.memory as memory:
            memory.set_config("search.semantic", semantic)  # the hook reads the settings of the store
            memory.reindex()
            asker = PromptAsker(store.name, written, is_detailed)
            return [asker.ask(prompt) for prompt in store.prompts]


# --- Figures -------------------------------------------------------------------------------------------------------

_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[[Answer], bool]]] = {
    "told": (NEEDS, lambda each: each.is_told),
    "pointed": (NEEDS, lambda each: each.is_pointed),
    "any told": (KINDS, lambda each: each.is_any_told),
    "anything": (KINDS, lambda each: each.is_anything),
    "stale": (KINDS, lambda each: each.is_stale),
}


def figures(answers: list[Answer]) -> dict[str, dict[str, float | None]]:
    """The rows of the table: by kind, then all that need a memory and all that need none."""
    groups: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in KINDS}
    groups |= {"need a memory": NEEDS, "need none": NONE}
    found: dict[str, dict[str, float | None]] = {}
    for name, kinds in groups.items():
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
    yield f"{title:<16}" + "".join(f"{column:>10}" for column in columns)
    for name, row in rows.items():
        yield f"{name:<16}" + "".join(f"{_cell(column, row[column]):>10}" for column in columns)


def _cell(column: str, figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:.0f}" if column in ("prompts", "tokens") else f"{figure:.2f}"


def shown(answers: list[Answer], kind: str) -> Iterator[str]:
    """The misses and wrong texts of one kind or of all."""
    for each in answers:
        if each.is_wrong and kind in ("all", each.kind):
            keys = f" ({', '.join(each.keys)})" if each.keys else ""
            yield f"{each.store} {each.kind}{keys}: {each.text}"
            yield from (f"    {note}" for note in each.notes or ())


# --- The command ---------------------------------------------------------------------------------------------------


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default=PARTS[0])
    parser.add_argument("--store", metavar="NAME", help="only this file of the part")
    parser.add_argument("--semantic", choices=("auto", "off"), default="auto", help="off: words alone")
    parser.add_argument(
        "--show", nargs="?", const="all", choices=("all", *KINDS), metavar="KIND", help="print misses and wrong texts"
    )
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
    start = time.perf_counter()
    answers = _collect(stores, given.semantic, is_detailed=bool(given.show or given.json))
    if given.show:
        print("\n".join(shown(answers, given.show)), end="\n\n")
    print("\n".join(table(given.store or given.part, figures(answers))))
    print(f"{len(answers)} prompts, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            rows = {"figures": figures(answers), "answers": [asdict(each) for each in answers]}
            json.dump(rows, file, indent=1, ensure_ascii=False)
    return 0


def _collect(stores: list[LabelledStore], semantic: str, is_detailed: bool) -> list[Answer]:
    with tempfile.TemporaryDirectory(prefix="smp-prompts-state-") as state:
        before = os.environ.get("SMP_STATE_DIR")
        os.environ["SMP_STATE_DIR"] = state  # nothing is left in the user's state
        try:
            return [answer for store in stores for answer in ask_store(store, semantic, is_detailed)]
        finally:
            os.environ.pop("SMP_STATE_DIR")
            if before is not None:
                os.environ["SMP_STATE_DIR"] = before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
