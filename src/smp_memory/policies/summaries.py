"""What do many texts say in few sentences? An extractive summary: their own sentences, those that most others resemble.

It is LexRank (Erkan and Radev 2004): sentences are nodes, resemblance of words is an edge, and a walk that follows the
edges rests longest at the central ones. From these the summary takes the best that do not repeat what it has, and
puts them in the order in which they were said.

Guarantees: nothing is made up: each sentence stands in a text (at most shortened, and on one line); the same texts give
the same summary; every script works; any input gives a text, if need be an empty one. The work is bounded: of more than
`LOOKED_AT` sentences an even sample is weighed, of these the `WALKED` heaviest are walked.
Non-guarantees: it does not understand what it quotes; a text of its own can be had from a callable (`compaction.plan`).

Where does a sentence end? Texts of any script as single lines that can be quoted.

Sentences end in `.`, `!`, `?`, `…` before white space, in the full stops of other scripts (`。`, `।`, `؟`, `።` …) and at line
ends. A full stop inside a name, number or path (`v2.1`, `a.py`) ends nothing, since no white space follows it.

Guarantees: pure, linear in the length of the text; never raises, whatever it is given. A sentence holds no line break,
no control character and no half of a character, and is at most `LONGEST` characters long: what is longer is cut there.
Of a text of more than 40,000 characters the first and the last 20,000 are looked at.
Code fences, rules, markup and data (a line in brackets) and lines without a letter or digit are no sentences.

What should be known of a session that is packed away? Its summary, small enough to stay beside the archive.

It is the summary that `query.summary` makes (figures, participants, decisions that stand, open findings, preferences,
agent states, topics), with the conversation in a few sentences and the turns that they come from.

Guarantees: pure; nothing is made up; deleted memories are left out; the same records give the same summary; the size is
bounded, whatever the session holds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain, filterfalse
from math import log, sqrt
from operator import mul, sub
from typing import Any, NamedTuple

from smp_memory.index.tokens import STOP_WORDS, terms
from smp_memory.model.times import to_text
from smp_memory.overview.summary import summarize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Vector = dict[str, float]
    from collections.abc import Callable

    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo


LONGEST = 300
SHORTEST = 2  # characters that are letters or digits
_READ = 20_000  # characters of one text that are looked at: its beginning, and as much of its end
_STOPS, _OTHER_STOPS, _BREAKS = ".!?…", "。！？｡।॥؟۔።၊။։", r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# It begins with one set of characters, which is looked for far faster than three that may begin it.
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
            line = " ".join(line[: 4 * LONGEST].split())
            line = shortened(line if line[0].isalpha() else _LEADER.sub("", line))
            if _says_something(line):
                yield line


def _pieces(text: str) -> Iterator[str]:
    """A text cut behind each end of a sentence; white space and a closing quote go."""
    start = 0
    for end in _END.finditer(text):
        yield text[start : end.start() + 1]
        start = end.end()
    yield text[start:]


def shortened(line: str, most: int = LONGEST) -> str:
    """A line of at most so many characters, cut between words where there are any."""
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    blank = cut.rfind(" ", most // 2)
    return (cut[:blank] if blank > 0 else cut).rstrip() + "…"


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * _READ else f"{text[:_READ]}\n{text[-_READ:]}"


def _says_something(line: str) -> bool:
    if line.startswith(("```", "~~~", "---", "===")) or (line[0] in "[{<" and line[-1] in "]}>"):
        return False
    begins_with_a_word = len(line) >= SHORTEST and line[:SHORTEST].isalnum()
    return begins_with_a_word or sum(map(str.isalnum, line[:40])) >= SHORTEST


LOOKED_AT = 4_000  # sentences
WALKED = 120
ENOUGH_WORDS = (
    12  # a sentence with so many words that are not in every other one says something; "Sounds great!" does not
)
RESEMBLES = 0.1  # cosine from which on there is an edge; LexRank's own figure
REPEATS = 0.55  # cosine from which on a sentence says the same
DAMPING = 0.85
STEPS = 15  # at most
SETTLED = 1e-3  # of the mean rank: the walk ends when no rank moves by more
MOST_TERMS = 60  # of one sentence; more make it a list, not a sentence
_SENTENCE_CHARACTERS = 80  # about
_SPARE = 2  # so many times as many sentences as are looked at: some are no sentences, or come twice
_FEWEST_TEXTS = 40
MAX_SENTENCES = 8
MAX_CHARACTERS = 1_500


class Quote(NamedTuple):
    """A sentence of the summary."""

    text: str
    source: int  # which of the texts it stands in
    weight: float  # 1 for the most central one


def summarise(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    looked_at: int = LOOKED_AT,
    walked: int = WALKED,
) -> str:
    """The texts in few sentences, in the order in which they were said."""
    return " ".join(quote.text for quote in quotes(texts, max_sentences, max_characters, looked_at, walked))


def quotes(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    looked_at: int = LOOKED_AT,
    walked: int = WALKED,
) -> list[Quote]:
    """The sentences of a summary, in their order; at least one if any text has one and there is room for a word."""
    found = _distinct(texts, looked_at)
    if max_sentences < 1 or max_characters < 1 or not found:
        return []
    found = _sample(found, looked_at)
    vectors, worths = _vectors([line for line, _ in found])
    heavy = _heaviest(vectors, worths, walked)
    ranks = [rank * worths[place] for rank, place in zip(_walk([vectors[at] for at in heavy]), heavy, strict=True)]
    order = sorted(range(len(heavy)), key=lambda at: (-ranks[at], heavy[at]))
    chosen = _choose(order, heavy, found, vectors, max_sentences, max_characters)
    top = ranks[order[0]]
    return [
        Quote(shortened(found[heavy[at]][0], max_characters), found[heavy[at]][1], round(ranks[at] / top, 4))
        for at in sorted(chosen, key=lambda at: heavy[at])
    ]


# -- candidates


def _distinct(texts: Sequence[str], looked_at: int) -> list[tuple[str, int]]:
    """Every sentence once, with the text that said it first; of texts with far more than are looked at, some texts."""
    about = sum(map(_length, texts)) // _SENTENCE_CHARACTERS + 1
    enough = min(looked_at, max(_FEWEST_TEXTS, len(texts) * _SPARE * looked_at // about))
    sample = _sample(list(enumerate(texts)), enough)
    first: dict[str, int] = {}
    for source, text in sample:
        for line in sentences(text):
            first.setdefault(line, source)
    return list(first.items())


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _sample(items: list[Any], most: int) -> list[Any]:
    """At most so many, evenly spread, always with the first."""
    if len(items) <= most:
        return items
    return [items[at * len(items) // most] for at in range(most)]


def _vectors(lines: list[str]) -> tuple[list[Vector], list[float]]:
    """Each sentence as the weights of its words, of length 1; rare words weigh more. And how much it says, up to 1."""
    bags = [Counter(filterfalse(STOP_WORDS.__contains__, terms(line)[:MOST_TERMS])) for line in lines]
    spread = Counter(chain.from_iterable(bags))
    rarity = {term: log(1 + len(lines) / count) for term, count in spread.items()}
    enough = ENOUGH_WORDS * (sum(map(log, [1 + len(lines), 2])) / 2)  # words half as rare as can be
    worths = [min(1.0, (1 + sum(map(rarity.__getitem__, bag))) / enough) ** 2 for bag in bags]
    return [_of_length_one({term: count * rarity[term] for term, count in bag.items()}) for bag in bags], worths


def _of_length_one(vector: Vector) -> Vector:
    weights = vector.values()
    length = sqrt(sum(map(mul, weights, weights)))
    return {term: weight / length for term, weight in vector.items()} if length else vector


def _heaviest(vectors: list[Vector], worths: list[float], walked: int) -> list[int]:
    """The places of the sentences that say most and are nearest to the middle of all, in order; of equals the earlier."""
    if len(vectors) <= walked:
        return list(range(len(vectors)))
    middle: defaultdict[str, float] = defaultdict(float)
    for vector in vectors:
        for term, weight in vector.items():
            middle[term] += weight
    near = [
        worth * sum(map(mul, vector.values(), map(middle.__getitem__, vector)))
        for vector, worth in zip(vectors, worths, strict=True)
    ]
    return sorted(sorted(range(len(vectors)), key=lambda at: (-near[at], at))[:walked])


# -- the walk


def _walk(vectors: list[Vector]) -> list[float]:
    """How long the walk rests at each sentence."""
    likeness = _likeness(vectors)
    count = len(vectors)
    degrees = [sum(row) or 1.0 for row in likeness]
    ranks = [1.0 / count] * count
    for _ in range(STEPS):
        flow = [rank / degree for rank, degree in zip(ranks, degrees, strict=True)]
        before, ranks = ranks, [(1 - DAMPING) / count + DAMPING * sum(map(mul, flow, row)) for row in likeness]
        if max(map(abs, map(sub, ranks, before))) < SETTLED / count:
            break
    return [round(rank, 12) for rank in ranks]  # equal but for rounding is equal


def _likeness(vectors: list[Vector]) -> list[list[float]]:
    """How much each sentence resembles each other one, 0 if hardly; found through the words they share."""
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
            if row[other] >= RESEMBLES:
                rows[other][place] = row[other]
            else:
                row[other] = 0.0
    return rows


# -- the choice


def _choose(
    order: list[int],
    heavy: list[int],
    found: list[tuple[str, int]],
    vectors: list[Vector],
    max_sentences: int,
    max_characters: int,
) -> list[int]:
    chosen: list[int] = []
    room = max_characters
    for at in order:
        length = len(found[heavy[at]][0]) + bool(chosen)
        if len(chosen) == max_sentences:
            break
        fits = length <= room or not chosen
        if fits and all(_cosine(vectors[heavy[at]], vectors[heavy[other]]) < REPEATS for other in chosen):
            chosen.append(at)
            room -= length
    return chosen


def _cosine(one: Vector, other: Vector) -> float:
    if len(other) < len(one):
        one, other = other, one
    return sum(weight * other.get(term, 0.0) for term, weight in one.items())


KEY_TURNS = 10
MOST_OF_EACH = 20
VERSION = 1


def archive_summary(
    records: Sequence[Record],
    info: SessionInfo | None = None,
    *,
    priority: Callable[[Record], float] | None = None,
    archived: str | None = None,
    reason: str | None = None,
    figures: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The summary as plain JSON values; `archived` is when, `figures` are sizes and counts that the caller knows."""
    living = [record for record in records if not record.deleted]
    turns = [record for record in living if record.type == "conversation"]
    said = quotes([record.text for record in turns], KEY_TURNS, 200 * KEY_TURNS)
    body: dict[str, Any] = summarize(living, info, priority=priority, most=MOST_OF_EACH).to_dict()["session_summary"]
    return {
        "summary_version": VERSION,
        "session": info.id if info else (records[0].session if records else None),
        "archived": archived,
        "reason": reason,
        **(figures or {}),
        **body,
        "conversation": " ".join(quote.text for quote in said),
        "key_turns": [_key_turn(turns[quote.source], quote) for quote in said],
    }


def _key_turn(record: Record, quote: Quote) -> dict[str, Any]:
    author = record.author if isinstance(record.author, str) else "user"
    return {"id": record.id, "author": author, "created": to_text(record.created), "text": quote.text}
