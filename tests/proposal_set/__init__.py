"""Labelled turns and sentences for rules that propose memories: what holds a decision, a finding, a learning or a standing wish.

Each part exists twice. `development`: the rules were written with it; most of it is by the author of the rules, and a second author wrote what
stands under "By a second author". `held_out`: written by an author who had not seen the rules; it was opened when the rules were finished, and measured once.
No rule was changed afterwards. Whoever changes rules because of it moves it to `development` and needs a new one.

Turns of two kinds: those of conversations that hooks record (`turns_development.txt`, `turns_held_out.txt`), and those that imports of transcripts bring, with long
answers, talk about tools, tasks, plans, quotations and chat (`turns_imported_development.txt`, `turns_imported_held_out.txt`). The latter are by the author of the rules
for them; each turn was labelled before the rules were run on it. Four former held-out parts are in the development part.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DEVELOPMENT, HELD_OUT = "development", "held_out"
IMPORTED_DEVELOPMENT, IMPORTED_HELD_OUT = "imported_development", "imported_held_out"


class Turn(NamedTuple):
    role: str
    types: tuple[tuple[str, ...], ...]  # of each expected proposal the types that are right
    text: str


class Sentence(NamedTuple):
    language: str
    is_wish: bool
    text: str


def turns(part: str) -> list[Turn]:
    rows = _rows(f"turns_{part}.txt")
    return [Turn(role, _types(types), text.replace("⏎", "\n")) for role, types, text in rows]


def wishes(part: str) -> list[Sentence]:
    return [Sentence(language, mark == "+", text) for language, mark, text in _rows(f"wishes_{part}.txt")]


class Quality(NamedTuple):
    """Precision and recall, with what was wrong and what was missed."""

    precision: float
    recall: float
    wrong: list[str]
    missed: list[str]

    @classmethod
    def of(cls, right: int, wrong: list[str], missed: list[str]) -> Quality:
        return cls(right / max(right + len(wrong), 1), right / max(right + len(missed), 1), wrong, missed)


def _types(words: str) -> tuple[tuple[str, ...], ...]:
    return () if words == "-" else tuple(tuple(word.split("/")) for word in words.split())


def _rows(name: str) -> list[list[str]]:
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    return [line.split(" | ", 2) for line in lines if line and not line.startswith("#")]
