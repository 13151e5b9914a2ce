"""Quality of retrieval over the size of the store: the same questions among growing noise.

Two conversations of LoCoMo stand in one store. Noise is added until the store has each size: turns of invented people, made of
sentences that users and assistants said in LongMemEval, drawn at random with a fixed seed. So the noise has ordinary words, and
none of it answers a question.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from datetime import datetime, timedelta
from itertools import islice
from statistics import mean, median

import retrieval

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Turn = dict[str, str]

CONVERSATIONS = 2
SESSION_TURNS = 500  # of noise
FIGURES = ("any@1", "any@5", "any@10", "mrr")
_SHORTEST, _LONGEST = 3, 40  # words of a sentence
_SENTENCES = (1, 3)
_PEOPLE = ("Arvo", "Benita", "Corrin", "Delphi", "Esko", "Fenna", "Gisli", "Hedda", "Ilmar", "Jorun")
_CONFIG = {"durability": "os", "storage": {"max_session_size_mb": 250}}


def curve(folder: str, sizes: list[int], semantic: str, first: int | None = None) -> dict[int, dict[str, float]]:
    """The figures at each size. `first`: only so many questions of each conversation."""
    conversations = list(islice(retrieval.locomo(folder), CONVERSATIONS))
    found: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="smp-retrieval-") as path:
        config = {**_CONFIG, "search": {"semantic": semantic}}
        with smp_memory.open(path, config=config) as memory:
            asked, places, written = _write_conversations(memory, conversations, first)
            noise = _Noise(memory, folder, conversations)
            for size in sorted(sizes):
                while written < size:
                    written += noise.write(min(SESSION_TURNS, size - written))
                found[written] = _ask(memory, asked, places)
    return found


def _write_conversations(
    memory: Any, conversations: list[retrieval.Conversation], first: int | None
) -> tuple[list[tuple[str, retrieval.Question]], dict[tuple[str, str], tuple[str, int]], int]:
    """Write the conversations, each session named after its conversation; returns questions, places and the number of turns."""
    asked: list[tuple[str, retrieval.Question]] = []
    places: dict[tuple[str, str], tuple[str, int]] = {}
    for number, conversation in enumerate(conversations):
        prefix = f"conversation-{number}-"
        sessions = {prefix + name: turns for name, turns in conversation.sessions.items()}
        places |= retrieval.write(memory, retrieval.Conversation(sessions, []))
        asked += [(prefix, question) for question in conversation.questions[:first]]
    return asked, places, len(places)


def _ask(
    memory: Any, asked: list[tuple[str, retrieval.Question]], places: dict[tuple[str, str], tuple[str, int]]
) -> dict[str, float]:
    """Mean figures of all questions, and the median CPU time of a query."""
    memory.reindex()  # a query alone makes the vectors of some memories only
    memory.query("what is all this about", limit=1, track_access=False)  # index and model are loaded now
    turns, sessions, milliseconds = [], [], []
    for prefix, question in asked:
        start = time.process_time()
        hits = memory.query(question.text, limit=retrieval.PAGE, at=question.at, track_access=False)
        milliseconds.append((time.process_time() - start) * 1000)
        ranked = [places.get((hit.record.session, hit.record.id), ("", -1)) for hit in hits]
        gold = {(prefix + session, position) for session, position in question.gold["turn"]}
        if gold:
            turns.append(retrieval.figures(ranked, gold))
        named = list(dict.fromkeys(hit.record.session for hit in hits))
        sessions.append(retrieval.figures(named, {prefix + session for session in question.gold["session"]}))
    return {
        **{f"turn {name}": mean(each[name] for each in turns) for name in FIGURES},
        "session any@5": mean(each["any@5"] for each in sessions),
        "CPU ms": median(milliseconds),
    }


class _Noise:
    """Writes sessions of noise, on the days of the conversations."""

    def __init__(self, memory: Any, folder: str, conversations: list[retrieval.Conversation]) -> None:
        self._memory = memory
        self._turns = noise(folder)
        self._days = [turns[0]["created"][:10] for each in conversations for turns in each.sessions.values()]
        self._number = 0

    def write(self, count: int) -> int:
        """Write one session of so many turns."""
        self._number += 1
        day = datetime.fromisoformat(self._days[self._number % len(self._days)])
        created = (day + timedelta(hours=self._number % 24)).isoformat()
        session = self._memory.create_session(f"noise-{self._number}", created=created)
        session.add_many([("conversation", {**turn, "created": created}) for turn in islice(self._turns, count)])
        return count


def noise(folder: str, seed: int = 0) -> Iterator[Turn]:
    """Turns without end: sentences of the other set in any order, said by invented people."""
    rng = random.Random(f"retrieval noise {seed}")
    sentences = _sentences(folder)
    while True:
        text = " ".join(rng.choice(sentences) for _ in range(rng.randint(*_SENTENCES)))
        yield {"role": "user", "author": rng.choice(_PEOPLE), "content": text}


def _sentences(folder: str) -> list[str]:
    found: dict[str, None] = {}
    for conversation in retrieval.longmemeval(folder):
        for turns in conversation.sessions.values():
            for turn in turns:
                for sentence in re.split(r"(?<=[.!?])\s+", turn["content"]):
                    if _SHORTEST <= len(sentence.split()) <= _LONGEST:
                        found[" ".join(sentence.split())] = None
    return list(found)
