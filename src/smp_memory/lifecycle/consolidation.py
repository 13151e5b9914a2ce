"""Consolidation: find duplicate findings and preferences, and plan their merge (design 003).

`find_duplicates` only reads. `merged` returns the changes of one transaction: one memory of the group is kept and
gets what the others have, the others go to the trash with a reason that names it. The kept one lists each of them
with its text, author, time and location (`merged_from`), so that the trace outlives the trash; restoring the others
and undoing the change brings everything back.

Similarity: a text becomes the set of its words and of its pairs of neighbouring words (shingles), without stop words
and endings; the similarity of two texts is the Jaccard index of both sets. Texts that differ in a number, a version,
a path, a name in code or a negation are never similar, nor are those with opposite words (`enable`, `disable`):
findings of one template about different files are different findings. Where each text has a word that the other
lacks, one thing may replace another (Alice for Bob), and the similarity counts less than where one only says more.

Guarantees: pure; any script. Memories are never merged if type, visibility, location or openness differ, nor
preferences with one key and different values, which contradict each other. Equal texts have similarity 1; a text
without words is similar to nothing. A merge has the revision of every memory it read, so that it can be rejected if
one has changed meanwhile.
Near-linear: a text is compared with at most `MAX_COMPARED` others, those that share most of its rarest shingles, and
equal texts are grouped without comparison. So among thousands of texts made of a few dozen words, a similar one may
be missed.
Non-guarantees: it compares words, not meanings: `MFA is missing` and `no second factor` are not similar. A person
should review the groups first.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS, SEVERITIES, names_where, severity_rank
from smp_memory.text.tokenizer import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smp_memory.model.record import Record

    Rare = tuple[frozenset[str], str]

_LISTS = ("tags", "references", "learned_from")
THRESHOLD = 0.6  # chosen on the examples in tests/unit/lifecycle/test_consolidation.py
REPLACED_FACTOR = 0.75  # the factor where each text has a word that the other lacks
MAX_COMPARED = 40
MAX_TERMS = 400  # of a text that are compared; the rest of a longer text must be equal
_NEGATIONS = frozenset(
    """no not never without don doesn didn isn aren wasn weren won can't cannot couldn shouldn wouldn nor none nothing
    nicht kein keine nie ohne ne pas sans jamais sin nunca non nao nie bez не без нет ない 不 没""".split()  # noqa: SIM905
)
_NUMBER_WORDS = frozenset(
    """two three four five six seven eight nine ten eleven twelv monday tuesday wednesday thursday friday saturday sunday
    januari februari march april june juli august septemb octob novemb decemb""".split()  # noqa: SIM905
)
_PAIRS = """enabl/disabl allow/deni allow/forbid alway/never increas/decreas before/after dark/light tab/space sync/async
    synchron/asynchron true/fals on/off add/remov min/max minimum/maximum high/low upper/lower more/less first/last
    with/without up/down slow/fast open/close read/write encod/decod encrypt/decrypt start/stop public/privat
    optional/requir optional/mandatori success/fail pass/fail prefer/avoid like/dislik"""
_OPPOSITES = tuple(frozenset(pair.split("/")) for pair in _PAIRS.split())
_ANY_OPPOSITE = frozenset().union(*_OPPOSITES)


class Duplicates(NamedTuple):
    """Memories that say the same, the one to keep first, and the similarity of each to the oldest one."""

    records: list[Record]
    similarity: list[float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "keep": self.records[0].id,
            "memories": [
                {"id": record.id, "author": _author(record), "text": record.text, "similarity": round(value, 3)}
                for record, value in zip(self.records, self.similarity, strict=True)
            ],
        }


class MergedMemory(NamedTuple):
    """The changes of one transaction: update the memory that is kept, delete the others."""

    keep: str
    changes: dict[str, Any]
    remove: list[tuple[str, str]]  # id and reason
    revisions: dict[str, int]  # of all of them, as they were read

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def find_duplicates(
    records: Iterable[Record], threshold: float = THRESHOLD, types: Sequence[str] | None = None
) -> list[Duplicates]:
    """Groups of memories of one session that say the same, in the order of their first memories; None: all types that are merged."""
    wanted = names_where("is_merged") if types is None else types
    by_key: dict[tuple[Any, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.seq):
        if record.type in wanted and not record.deleted:
            by_key.setdefault(_required_equal(record), []).append(record)
    found = [_group(group) for members in by_key.values() for group in _groups_of_similar(members, threshold)]
    return sorted(found, key=lambda group: min(record.seq for record in group.records))


def merged(group: Duplicates) -> MergedMemory:
    """The changes of a transaction that merges the group into its first memory."""
    kept, *others = group.records
    changes: dict[str, Any] = {
        name: union
        for name in _LISTS
        if (union := _union(group.records, name)) and union != _as_list(getattr(kept, name, None))
    }
    changes.update(_strongest(kept, others))
    changes["discoverers"] = list(dict.fromkeys(name for record in group.records for name in _discoverers(record)))
    changes["relations"] = _relations(kept, others)
    changes["merged_from"] = _as_list(getattr(kept, "merged_from", None)) + [
        trace for record in others for trace in (*_as_list(getattr(record, "merged_from", None)), _trace(record))
    ]
    return MergedMemory(
        kept.id,
        changes,
        [(record.id, f"merged into {kept.id}") for record in others],
        {record.id: record.revision for record in group.records},
    )


# -- grouping


def _required_equal(record: Record) -> tuple[Any, ...]:
    """The values that two memories must have in common to be merged."""
    kind = KINDS[record.type]
    settled = kind.is_open_until_closed and is_settled(record)
    agent = _author(record) if record.visibility != "shared" else ""
    fields = ("key", "value") if kind.is_named_by_key else ()
    values = tuple(repr(getattr(record, name, None)) for name in fields)
    return record.session, record.type, str(record.visibility), agent, settled, _place(record), values


def _place(record: Record) -> str:
    """The location of a finding, or the projects that a preference applies to."""
    return repr(getattr(record, "location", None) or getattr(record, "applies_to", None))


def _groups_of_similar(members: list[Record], threshold: float) -> list[list[tuple[Record, float]]]:
    groups = similar_groups([shingles_of(record.text) for record in members], threshold)
    return [[(members[place], value) for place, value in group] for group in groups]


def _group(found: list[tuple[Record, float]]) -> Duplicates:
    ordered = sorted(found, key=lambda item: _preference_to_keep(item[0]))
    return Duplicates([record for record, _ in ordered], [value for _, value in ordered])


def _preference_to_keep(record: Record) -> tuple[Any, ...]:
    """Sort key: the one to keep first; pinned, then by confidence, then the oldest."""
    confidence = record.confidence_value
    return not record.pinned, -(confidence if isinstance(confidence, int | float) else 0.0), record.seq


# -- merging


def _strongest(kept: Record, others: list[Record]) -> dict[str, Any]:
    """The highest severity, importance and confidence; pinned if one was."""
    changes: dict[str, Any] = {}
    every = [kept, *others]
    if any(record.pinned for record in others) and not kept.pinned:
        changes["pinned"] = True
    highest = min(_severity_rank(record) for record in every)
    if highest < _severity_rank(kept):
        changes["severity"] = SEVERITIES[highest]
    for name in ("importance", "confidence_value"):
        values = [value for record in every if (value := _number(getattr(record, name))) is not None]
        if values and max(values) > (_number(getattr(kept, name)) or 0.0):
            changes[name.removesuffix("_value")] = max(values)
    return changes


def _relations(kept: Record, others: list[Record]) -> list[Any]:
    """The relations of all memories without those inside the group, and `derived_from` for each merged one."""
    inside = {record.id for record in (kept, *others)}
    every = [relation for record in (kept, *others) for relation in _as_list(record.relations)]
    outside = [each for each in every if not (isinstance(each, dict) and each.get("target") in inside)]
    return _distinct([*outside, *({"kind": "derived_from", "target": record.id} for record in others)])


def _trace(record: Record) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "id": record.id,
        "author": _author(record),
        "created": to_text(record.created),
        "text": record.text,
    }
    names = ("evidence", "recommendation", "context", "root_cause", "impact", "severity", "turn_ref")
    return {**trace, **{name: value for name in names if (value := getattr(record, name, None)) is not None}}


def _discoverers(record: Record) -> list[str]:
    return [
        _author(record),
        *(name for name in _as_list(getattr(record, "discoverers", None)) if isinstance(name, str)),
    ]


def _union(records: Sequence[Record], name: str) -> list[Any]:
    return _distinct([item for record in records for item in _as_list(getattr(record, name, None))])


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _author(record: Record) -> str:
    return record.author if isinstance(record.author, str) else "user"


def _severity_rank(record: Record) -> int:
    return severity_rank(getattr(record, "severity", None))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- similarity


class Shingles(NamedTuple):
    """The words and shingles of one text."""

    words: frozenset[str]  # also the stop words
    shingles: frozenset[str]
    distinguishing: frozenset[str]  # terms that must be equal: numbers, names in code, negations


def shingles_of(text: str) -> Shingles:
    every = terms(text)
    found, rest = every[:MAX_TERMS], every[MAX_TERMS:]
    content = [term for term in found if term not in STOP_WORDS]
    return Shingles(
        frozenset(found),
        frozenset(content) | {f"{one} {other}" for one, other in pairwise(content)},
        frozenset(
            [term_mark for term in found if (term_mark := _distinguishing(term))] + [" ".join(rest)] * bool(rest)
        ),
    )


def _distinguishing(term: str) -> str:
    """A number or a name in code unchanged, every negation as `not`; empty for all other words."""
    if term in _NEGATIONS:
        return "not"
    plain = term.isalpha() or not any(map(str.isalnum, term))
    return "" if plain and term not in _NUMBER_WORDS else term


def similarity(one: Shingles, other: Shingles) -> float:
    """The similarity of two texts, 0 to 1; 0 if they must not be merged."""
    shared = len(one.shingles & other.shingles)
    if one.distinguishing != other.distinguishing or not shared:
        return 0.0
    only_one, only_other = one.words - other.words, other.words - one.words
    if _are_opposed(only_one, only_other):
        return 0.0
    replaced = only_one - STOP_WORDS and only_other - STOP_WORDS
    return shared / (len(one.shingles) + len(other.shingles) - shared) * (REPLACED_FACTOR if replaced else 1.0)


def _are_opposed(only_one: frozenset[str], only_other: frozenset[str]) -> bool:
    if _ANY_OPPOSITE.isdisjoint(only_one) or _ANY_OPPOSITE.isdisjoint(only_other):
        return False
    return any(only_one & pair and only_other & pair for pair in _OPPOSITES)


def similar_groups(texts: Sequence[Shingles], threshold: float = THRESHOLD) -> list[list[tuple[int, float]]]:
    """Groups of two or more texts, each with its similarity to the first of its group; ordered by the first ones."""
    frequency = Counter(shingle for text in texts for shingle in text.shingles)
    equal: dict[Shingles, int] = {}  # a text, and the first text of its group
    groups_with: dict[Rare, list[int]] = {}  # a rare shingle, and the first texts of groups with it
    groups: dict[int, list[tuple[int, float]]] = {}
    for place, text in enumerate(texts):
        if not text.shingles:
            continue
        first = equal.get(text)
        if first is None:
            first = _nearest(texts, place, _rarest(text, frequency, threshold), groups_with, threshold)
            equal[text] = first
        groups.setdefault(first, []).append((place, similarity(texts[first], text)))
        if first == place:
            for shingle in _rarest(text, frequency, threshold):
                groups_with.setdefault(shingle, []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def _rarest(text: Shingles, frequency: Counter[str], threshold: float) -> list[Rare]:
    """The rarest shingles: two texts above the threshold share at least one of theirs (prefix filtering)."""
    ordered = sorted(text.shingles, key=lambda shingle: (frequency[shingle], shingle))
    return [(text.distinguishing, shingle) for shingle in ordered[: len(ordered) - ceil(threshold * len(ordered)) + 1]]


def _nearest(
    texts: Sequence[Shingles], place: int, rare: list[Rare], groups_with: dict[Rare, list[int]], threshold: float
) -> int:
    """The first text of the group that this one belongs to; itself if there is none."""
    shared = Counter(other for shingle in rare for other in groups_with.get(shingle, ())[-MAX_COMPARED:])
    candidates = sorted(shared, key=lambda other: (-shared[other], other))[:MAX_COMPARED]
    best = max(((similarity(texts[other], texts[place]), -other) for other in candidates), default=(0.0, 0))
    return -best[1] if best[0] >= threshold else place
