"""Extractive summaries of texts by LexRank, and the summary of an archived session.

LexRank (Erkan and Radev 2004): sentences are nodes, similarity of words is an edge, and a random walk along the edges
stays longest at the central ones. The summary takes the best of these that do not repeat what it has, in their
original order.

Sentences end with `.`, `!`, `?`, `…` before white space, with the full stops of other scripts (`。`, `।`, `؟`, `።` …)
and at line ends. A full stop inside a name, number or path (`v2.1`, `a.py`) does not end one, since no white space
follows it. A sentence has no line break, no control character and no half of a character, and at most `MAX_SENTENCE`
characters; a longer one is cut. Of a text of more than 40,000 characters the first and the last 20,000 are read. Code
fences, rules, markup and data (a line in brackets) and lines without a letter or digit are not sentences.

The summary of an archived session is small enough to stay beside the archive: the summary of `overview.summary`
(figures, participants, decisions in force, open findings, preferences, agent states, topics), with the conversation
in a few sentences and the turns that they come from.

Guarantees: pure; nothing is invented: each sentence is in a text (at most shortened, and on one line); the same input
gives the same summary; every script works; any input gives a text, possibly an empty one; deleted memories are left
out. The work and the size are bounded: of more than `MAX_CANDIDATES` sentences an even sample is weighted, and the
`MAX_RANKED` most central of these are ranked.
Non-guarantees: it does not understand what it quotes; a callable can provide other text (`compaction_plan.plan`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain, filterfalse
from math import log, sqrt
from operator import mul, sub
from typing import Any, NamedTuple

from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS
from smp_memory.overview.summary import summarize
from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo

    Vector = dict[str, float]


MAX_SENTENCE = 300
MIN_SENTENCE = 2  # characters that are letters or digits
_MAX_READ = 20_000  # characters of a text that are read: so many at its beginning, and as many at its end
_STOPS, _OTHER_STOPS, _BREAKS = ".!?…", "。！？｡।॥؟۔።၊။։", r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# It begins with one character set, which is searched far faster than three alternatives.
_END = re.compile(
    rf"[{_STOPS}{_OTHER_STOPS}{_BREAKS}](?:(?<=[{_STOPS}])[\"'”’»)\]]?\s+|(?<=[{_OTHER_STOPS}])|(?<=[{_BREAKS}]))"
)
_LEADER = re.compile(r"^(?:[-*+•>#]{1,6}|\d{1,3}[.)])\s+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b\u2028\u2029\ufeff]+")


def sentences(text: Any) -> Iterator[str]:
    """The sentences of a text, in order."""
    for piece in _pieces(_bounded(text if isinstance(text, str) else "")):
        line = (piece if piece.isprintable() else _UNPRINTABLE.sub(" ", piece)).strip()
        if len(line) > 1:
            line = " ".join(line[: 4 * MAX_SENTENCE].split())
            line = shortened(line if line[0].isalpha() else _LEADER.sub("", line))
            if _is_quotable(line):
                yield line


def _pieces(text: str) -> Iterator[str]:
    """The text split after each end of a sentence, without white space and a closing quote."""
    start = 0
    for end in _END.finditer(text):
        yield text[start : end.start() + 1]
        start = end.end()
    yield text[start:]


def shortened(line: str, most: int = MAX_SENTENCE) -> str:
    """A line of at most `most` characters, cut between words if possible."""
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    blank = cut.rfind(" ", most // 2)
    return (cut[:blank] if blank > 0 else cut).rstrip() + "…"


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * _MAX_READ else f"{text[:_MAX_READ]}\n{text[-_MAX_READ:]}"


def _is_quotable(line: str) -> bool:
    if line.startswith(("```", "~~~", "---", "===")) or (line[0] in "[{<" and line[-1] in "]}>"):
        return False
    begins_with_a_word = len(line) >= MIN_SENTENCE and line[:MIN_SENTENCE].isalnum()
    return begins_with_a_word or sum(map(str.isalnum, line[:40])) >= MIN_SENTENCE


MAX_CANDIDATES = 4_000  # sentences
MAX_RANKED = 120
ENOUGH_WORDS = 12  # rare words that a sentence needs for full weight; "Sounds great!" has too few
EDGE_THRESHOLD = 0.1  # the cosine from which there is an edge; LexRank's own value
REPETITION_THRESHOLD = 0.55  # the cosine from which a sentence counts as a repetition
DAMPING = 0.85
STEPS = 15  # at most
CONVERGED = 1e-3  # of the mean rank: iteration ends when no rank changes by more
MAX_TERMS = 60  # of a sentence; with more it is a list, not a sentence
_SENTENCE_CHARACTERS = 80  # about
_SPARE = 2  # factor for sampled texts, because some lines are not sentences, or occur twice
_MIN_TEXTS = 40
MAX_SENTENCES = 8
MAX_CHARACTERS = 1_500


class Quote(NamedTuple):
    """A sentence of the summary."""

    text: str
    source: int  # the index of its text
    weight: float  # 1 for the most central one


def summarise(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    max_candidates: int = MAX_CANDIDATES,
    max_ranked: int = MAX_RANKED,
) -> str:
    """The texts in few sentences, in their original order."""
    return " ".join(quote.text for quote in quotes(texts, max_sentences, max_characters, max_candidates, max_ranked))


def quotes(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    max_candidates: int = MAX_CANDIDATES,
    max_ranked: int = MAX_RANKED,
) -> list[Quote]:
    """The sentences of a summary in order; at least one if any text has one and there is room for a word."""
    found = _distinct(texts, max_candidates)
    if max_sentences < 1 or max_characters < 1 or not found:
        return []
    found = _sample(found, max_candidates)
    vectors, worths = _vectors([line for line, _ in found])
    central = _most_central(vectors, worths, max_ranked)
    ranks = [
        rank * worths[place] for rank, place in zip(_lexrank([vectors[at] for at in central]), central, strict=True)
    ]
    order = sorted(range(len(central)), key=lambda at: (-ranks[at], central[at]))
    chosen = _choose(order, central, found, vectors, max_sentences, max_characters)
    top = ranks[order[0]]
    return [
        Quote(shortened(found[central[at]][0], max_characters), found[central[at]][1], round(ranks[at] / top, 4))
        for at in sorted(chosen, key=lambda at: central[at])
    ]


# -- candidates


def _distinct(texts: Sequence[str], max_candidates: int) -> list[tuple[str, int]]:
    """Every sentence once, with the index of its first text; of far too many texts, an even sample is read."""
    about = sum(map(_length, texts)) // _SENTENCE_CHARACTERS + 1
    enough = min(max_candidates, max(_MIN_TEXTS, len(texts) * _SPARE * max_candidates // about))
    sample = _sample(list(enumerate(texts)), enough)
    first: dict[str, int] = {}
    for source, text in sample:
        for line in sentences(text):
            first.setdefault(line, source)
    return list(first.items())


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _sample(items: list[Any], most: int) -> list[Any]:
    """At most `most` items, evenly spread, the first included."""
    if len(items) <= most:
        return items
    return [items[at * len(items) // most] for at in range(most)]


def _vectors(lines: list[str]) -> tuple[list[Vector], list[float]]:
    """Each sentence as a unit vector of word weights, rare words weighing more; and its information, up to 1."""
    bags = [Counter(filterfalse(STOP_WORDS.__contains__, terms(line)[:MAX_TERMS])) for line in lines]
    spread = Counter(chain.from_iterable(bags))
    rarity = {term: log(1 + len(lines) / count) for term, count in spread.items()}
    enough = ENOUGH_WORDS * (sum(map(log, [1 + len(lines), 2])) / 2)  # words half as rare as can be
    worths = [min(1.0, (1 + sum(map(rarity.__getitem__, bag))) / enough) ** 2 for bag in bags]
    return [_of_length_one({term: count * rarity[term] for term, count in bag.items()}) for bag in bags], worths


def _of_length_one(vector: Vector) -> Vector:
    weights = vector.values()
    length = sqrt(sum(map(mul, weights, weights)))
    return {term: weight / length for term, weight in vector.items()} if length else vector


def _most_central(vectors: list[Vector], worths: list[float], max_ranked: int) -> list[int]:
    """The positions of the sentences with most information that are nearest to the centroid, in order."""
    if len(vectors) <= max_ranked:
        return list(range(len(vectors)))
    middle: defaultdict[str, float] = defaultdict(float)
    for vector in vectors:
        for term, weight in vector.items():
            middle[term] += weight
    near = [
        worth * sum(map(mul, vector.values(), map(middle.__getitem__, vector)))
        for vector, worth in zip(vectors, worths, strict=True)
    ]
    return sorted(sorted(range(len(vectors)), key=lambda at: (-near[at], at))[:max_ranked])


# -- LexRank


def _lexrank(vectors: list[Vector]) -> list[float]:
    """The LexRank of each sentence."""
    similarities = _similarities(vectors)
    count = len(vectors)
    degrees = [sum(row) or 1.0 for row in similarities]
    ranks = [1.0 / count] * count
    for _ in range(STEPS):
        flow = [rank / degree for rank, degree in zip(ranks, degrees, strict=True)]
        before, ranks = ranks, [(1 - DAMPING) / count + DAMPING * sum(map(mul, flow, row)) for row in similarities]
        if max(map(abs, map(sub, ranks, before))) < CONVERGED / count:
            break
    return [round(rank, 12) for rank in ranks]  # differences by rounding do not count


def _similarities(vectors: list[Vector]) -> list[list[float]]:
    """The cosine of each pair of sentences, 0 below the threshold; computed through shared words."""
    postings: dict[str, list[tuple[int, float]]] = {}
    rows = [[0.0] * len(vectors) for _ in vectors]
    for place, vector in enumerate(vectors):
        row = rows[place]
        for term, weight in vector.items():
            held = postings.setdefault(term, [])
            for other, other_weight in held:
                row[other] += weight * other_weight
            held.append((place, weight))
        for other in range(place):
            if row[other] >= EDGE_THRESHOLD:
                rows[other][place] = row[other]
            else:
                row[other] = 0.0
    return rows


# -- choice


def _choose(
    order: list[int],
    central: list[int],
    found: list[tuple[str, int]],
    vectors: list[Vector],
    max_sentences: int,
    max_characters: int,
) -> list[int]:
    chosen: list[int] = []
    room = max_characters
    for at in order:
        length = len(found[central[at]][0]) + bool(chosen)
        if len(chosen) == max_sentences:
            break
        fits = length <= room or not chosen
        if fits and all(
            _cosine(vectors[central[at]], vectors[central[other]]) < REPETITION_THRESHOLD for other in chosen
        ):
            chosen.append(at)
            room -= length
    return chosen


def _cosine(one: Vector, other: Vector) -> float:
    if len(other) < len(one):
        one, other = other, one
    return sum(weight * other.get(term, 0.0) for term, weight in one.items())


KEY_TURNS = 10
MAX_OF_EACH = 20
VERSION = 1
_EARLIER = 20  # summaries left by compaction that are quoted in the summary


def archive_summary(
    records: Sequence[Record],
    info: SessionInfo | None = None,
    *,
    priority: Callable[[Record], float] | None = None,
    archived: str | None = None,
    reason: str | None = None,
    figures: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The summary as plain JSON values; `archived` is the time, `figures` are sizes and counts from the caller."""
    existing = [record for record in records if not record.deleted]
    turns = [record for record in existing if KINDS[record.type].is_turn]
    key_quotes = quotes([record.text for record in turns], KEY_TURNS, 200 * KEY_TURNS)
    body: dict[str, Any] = summarize(existing, info, priority=priority, most=MAX_OF_EACH).to_dict()["session_summary"]
    return {
        "summary_version": VERSION,
        "session": info.id if info else (records[0].session if records else None),
        "archived": archived,
        "reason": reason,
        **(figures or {}),
        **body,
        "conversation": " ".join(quote.text for quote in key_quotes),
        "key_turns": [_key_turn(turns[quote.source], quote) for quote in key_quotes],
    }


def session_summary(
    records: Sequence[Record], info: SessionInfo | None, size_bytes: int, *, archived: str | None, reason: str | None
) -> dict[str, Any]:
    """The summary of a session that is archived, with its figures."""
    earlier = [record.text for record in records if record.type == "summary" and not record.deleted]
    figures = {
        "memories": sum(1 for record in records if not record.deleted),
        "deleted_memories": sum(1 for record in records if record.deleted),
        "original_size_bytes": size_bytes,
        "earlier_conversation": earlier[-_EARLIER:],
    }
    return archive_summary(records, info, archived=archived, reason=reason, figures=figures)


def _key_turn(record: Record, quote: Quote) -> dict[str, Any]:
    author = record.author if isinstance(record.author, str) else "user"
    return {"id": record.id, "author": author, "created": to_text(record.created), "text": quote.text}
