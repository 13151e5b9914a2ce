"""The lanes of a context: candidates as items, with the share of the budget that each kind of them has.

With a task, what matches it has all that the others leave, and each of these has a small share that it cannot exceed: the agent's state,
wishes, open critical findings, the last turns. A small budget goes to the matches first. Matches below the
floor of relevance (`ContextRequest.min_relevance`) are left out, so a context ends where relevance ends.
Without a task (a digest) all kinds have the same weight, and what one does not use is left to the others.

Guarantees: memories are read as they are drawn, as the files hold them, and only those that the agent may see. Superseded memories and
preferences for somebody else are left out, and of one key the first preference is taken.
"""

from __future__ import annotations

from itertools import chain

from smp_memory.context.budget import Lane, QuestionWords, context_item, line_text
from smp_memory.context.trace import (
    ALREADY_TOLD,
    BELOW_FLOOR,
    CUT,
    MATCHES,
    MUTED,
    MUTED_DETAIL,
    NOT_FOR_AGENT,
    OTHER_LABELS,
    REPEATED_KEY,
    REPEATED_TEXT,
    below_floor,
    describe_replaced,
)
from smp_memory.model.candidates import NEWER, REPEATED, CandidateRequest
from smp_memory.model.statuses import (
    SETTLED,
    SUPERSEDED,
    describe_repeated,
    is_settled,
    last_successors,
    state_of_repeated,
    status_of,
)
from smp_memory.model.times import is_valid
from smp_memory.model.types import KINDS
from smp_memory.search.relevance import floor_beside
from smp_memory.search.succession import OUTDATED, REPEATS, SILENCED, Judged, describe_silenced, last_word, outdated
from smp_memory.text.memory_text import wish_of
from smp_memory.text.tokenizer import STOP_WORDS, inverse_frequency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from smp_memory.context.budget import ContextItem
    from smp_memory.context.candidates import CandidateSearch
    from smp_memory.context.trace import ContextCandidate, ContextRequest
    from smp_memory.model.candidates import Candidate
    from smp_memory.model.record import Record
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.port import SearchIndex

SHARED_FILE_REASON = "applies to all sessions; read from a file for all sessions"  # such a memory is not in the index
SHARES = {
    "state": 1 / 8,
    "wishes": 1 / 8,
    "critical": 1 / 8,
    "written": 1 / 8,
    "turns": 1 / 12,
}  # beside the matches
_SMALL_BUDGET = 200  # tokens
_MOST_JUDGED, _TOKENS_PER_JUDGED = 100, 40  # of the first matches so many are compared with the floor
_BEST = 3  # so many of the first matches are in no other lane
_HARD_CUT = 160  # characters of a turn that is there for continuity
_TOKENS_PER_LINE = (
    100  # of a rather long memory; so many are read in one call as could fit into the share of their lane
)
_COMPARED = 24  # of the first memories of each lane, newer ones replace older ones that say the same with another value
_MORE = 4  # memories in each later call
_CHARACTERS_PER_TOKEN = 12  # more than any tokenizer has, but for very long words


class ContextLanes:
    """The lanes of one context."""

    def __init__(
        self,
        index: SearchIndex,
        viewer: Viewer | None,
        request: ContextRequest,
        search: CandidateSearch,
        shared: list[Record],
    ) -> None:
        self._index = index
        self._viewer = viewer
        self._request = request
        self._search = search
        self._shared = shared  # memories outside of the index
        self._words = QuestionWords(search.words, self._weight) if search.words else None
        self._records: dict[str, Record | None] = {}
        self._matching: set[str] = set()  # refs
        self._preferences: list[ContextCandidate] = []
        self._outdated: Mapping[str, str] = {}  # refs, and those of the newer memories
        self._replaced: Mapping[str, str] = {}
        self._spoken: dict[str, str] = {}  # refs of turns that repeat another candidate, and that one
        self._muted_echoes: set[str] = set()  # refs of turns that repeat a memory that is turned off
        self._repeating: dict[str, str] = {}  # refs of turns that repeat what does not hold, and that memory
        self._ended: list[Judged] | None = None  # deleted and settled matches
        self._first_of_key: dict[str, str] | None = None  # the preference that holds for each key

    def lanes(self, candidates: dict[str, list[ContextCandidate]]) -> list[Lane]:
        """The lanes of these candidates, which `CandidateSearch` has collected."""
        self._preferences = [each for each in candidates["wishes"] if KINDS[each.candidate.type].is_named_by_key]
        self._read_first(candidates)
        self._outdated = self._find_outdated(candidates)
        self._replaced = self._find_replaced(candidates)
        for name in MATCHES:
            if name in candidates:
                candidates = {**candidates, name: self._relevant(name, candidates[name])}
        matches = [each.ref for each in candidates.get("matches", ())]
        best = set(matches[:_BEST])  # they come as matches, with more room
        self._matching = {*matches, *(each.ref for each in candidates.get("written", ()))}
        items = {
            name: self._items(name, [each for each in found if name == "matches" or each.ref not in best])
            for name, found in candidates.items()
        }
        shared = {name: self._from_shared_files(name) for name in dict.fromkeys(each.type for each in self._shared)}
        for name in list(shared):
            if KINDS[name].is_named_by_key:
                items["wishes"] = chain(items["wishes"], shared.pop(name))
        return self._task_lanes(items, shared) if self._search.is_for_task else _digest_lanes(items, shared)

    def enough_for(self, lanes: Iterable[Lane]) -> list[Lane]:
        """The same lanes with as many items in memory as could fit for any counter."""
        return [self._drawn(lane) for lane in sorted(lanes, key=lambda lane: lane.rank)]

    def _drawn(self, lane: Lane) -> Lane:
        items: list[ContextItem] = []
        characters = _CHARACTERS_PER_TOKEN * self._request.max_tokens * lane.most
        for item in lane.items:
            items.append(item)
            characters -= min(len(item.line), lane.longest or len(item.line))
            if characters < 0:
                break
        lane.items = items
        return lane

    def _task_lanes(self, items: dict[str, Iterator[ContextItem]], shared: dict[str, Iterator[ContextItem]]) -> list[Lane]:  # fmt: skip
        is_small = self._request.max_tokens < _SMALL_BUDGET
        items["written"] = chain(items["written"], *shared.values())
        others = [
            Lane(
                items[name],
                most=1.0 if is_small else share,
                rank=2 if is_small else 0,
                longest=_HARD_CUT if name == "turns" else 0,
            )
            for name, share in SHARES.items()
        ]
        if self._request.trace is not None and not is_small:
            self._request.trace.shares = dict(SHARES)
        return [*others, Lane(items["matches"], rank=1)]

    def _relevant(self, lane: str, candidates: list[ContextCandidate]) -> list[ContextCandidate]:
        """The matches that are relevant enough, in the order of the search.

        Only the first are judged, which takes reading them; a hit behind them is hardly ever relevant. What has the topic or the tags
        that were asked for stays, whatever its relevance.
        """
        first = candidates[: min(_MOST_JUDGED, self._request.max_tokens // _TOKENS_PER_JUDGED)]
        judged = self._judged(first)
        best = max((each.relevance for each in judged.values()), default=0.0)
        floor = floor_beside(best, self._request.min_relevance)
        floor = 0.0 if self._search.is_narrowed else floor
        if self._ended is None:
            self._ended = list(self._judged(self._search.ended).values())
        written = [*judged.values(), *self._ended]
        found, trace = [], self._request.trace
        for each in candidates:
            own = judged.get(each.ref)
            relevance = own.relevance if own is not None else -1.0
            last = last_word(own.record, relevance, written) if own is not None else None
            if each.relevance is None or (relevance >= floor and last is None):
                found.append(each)
            elif trace is not None and own is not None and relevance < floor:
                trace.drop(lane, each, BELOW_FLOOR, below_floor(relevance, round(floor, 2)))
            elif trace is not None and last is not None:
                trace.drop(lane, each, SILENCED, describe_silenced(last))
            elif trace is not None:
                trace.drop(lane, each, CUT, f"not among the first {len(first)} matches, and only those are judged")
        return found

    def _judged(self, candidates: list[ContextCandidate]) -> dict[str, Judged]:
        """The records of these candidates, and how relevant they are."""
        records = zip(candidates, self._read([each.candidate for each in candidates]), strict=True)
        return {
            each.ref: Judged(record, self._relevance(each, record)) for each, record in records if record is not None
        }

    def _relevance(self, candidate: ContextCandidate, record: Record) -> float:
        relevance = candidate.relevance(record) if candidate.relevance is not None else 0.0
        candidate.why = f"matches ({relevance:.2f})"
        return relevance

    # -- items

    def _items(self, lane: str, candidates: list[ContextCandidate]) -> Iterator[ContextItem]:
        """The items of a lane; memories are read as they are drawn. Of wishes, the first preference of each key holds."""
        known: set[str] | None = set() if lane == "wishes" else None
        replaced, trace = self._replaced, self._request.trace
        for start in range(0, len(candidates), _MORE):
            block = candidates[start : start + _MORE]
            records = self._read([each.candidate for each in block])
            for each, record in zip(block, records, strict=True):
                if record is None or record.deleted:
                    continue
                reason = self._reason_against(each, record, replaced, known)
                if reason:
                    if trace is not None:
                        trace.drop(lane, each, reason, self._detail(reason, each, record, replaced), record)
                    continue
                item = self._item(each, record)
                if trace is not None:
                    trace.offer(lane, each, item)
                yield item

    def _reason_against(
        self, candidate: ContextCandidate, record: Record, replaced: Mapping[str, str], known: set[str] | None
    ) -> str:
        """Why a memory is left out; empty if it is not. `known`: the keys of preferences that were met before, in their order."""
        if candidate.ref in replaced:
            return SUPERSEDED
        if candidate.ref in self._repeating:
            return REPEATS
        if candidate.ref in self._muted_echoes:
            return MUTED
        if known is not None and candidate.ref in self._spoken:
            return REPEATED_TEXT
        if record.ref in self._outdated:
            return OUTDATED
        reason = self._reason_to_exclude(record)
        if known is not None and self._search.is_for_task and record.given.get("topic"):
            return OTHER_LABELS  # it is about a subject; if the task is, too, the preference matches
        if reason in ("", MUTED) and KINDS[record.type].is_named_by_key:  # one that is off holds its key
            holds = _is_new(record, known) if known is not None else self._holds(record)
            return reason if holds else REPEATED_KEY
        return reason

    def _detail(self, reason: str, candidate: ContextCandidate, record: Record, replaced: Mapping[str, str]) -> str:
        """The same in a sentence that names the other memory, the status or the key."""
        if reason == MUTED:
            return MUTED_DETAIL
        if reason == REPEATED_TEXT:
            return f"{self._spoken[candidate.ref]} says the same"
        if reason in (SUPERSEDED, REPEATS):
            other = replaced[candidate.ref] if reason == SUPERSEDED else self._repeating[candidate.ref]
            return describe_replaced(reason, other)
        if reason in (OUTDATED, SETTLED):
            return describe_replaced(reason, self._outdated[record.ref] if reason == OUTDATED else status_of(record))
        if reason == REPEATED_KEY:
            self._holds(record)
            other = (self._first_of_key or {}).get(_key(record), "")
            return f"{other or 'another preference'} applies to the key {_key(record)}"
        if reason == OTHER_LABELS:
            return f"it is about {record.given.get('topic')}"
        if reason == NOT_FOR_AGENT:
            return f"applies to {record.applies_to if isinstance(record.applies_to, str) else ', '.join(map(str, record.applies_to))}"
        return "it is in the conversation already"

    def _find_outdated(self, candidates: dict[str, list[ContextCandidate]]) -> Mapping[str, str]:
        """The refs of memories that a newer one among the first of all lanes outdates, as far as they were read."""
        refs = dict.fromkeys(each.ref for found in candidates.values() for each in found[:_COMPARED])
        records = [record for ref in refs if (record := self._records.get(ref)) is not None]
        return outdated(records, one_user=True)

    def _find_replaced(self, candidates: dict[str, list[ContextCandidate]]) -> Mapping[str, str]:
        """The refs of superseded memories, and those of their successors; also finds turns that repeat what does not hold."""
        every = {each.ref for found in candidates.values() for each in found}
        if not every or not self._search.has_states:
            return {}
        allows, at = self._search.allows, self._search.at
        asked = CandidateRequest(refs=every, viewer=self._viewer, now=at, fetch=[NEWER, REPEATED])
        known = self._index.candidates(asked)
        states = {each.ref: state_of_repeated(each, known, allows, at) for each in known.matches if each.repeats}
        self._spoken = {turn: ref for turn, (state, ref) in states.items() if not state and ref in every}
        self._repeating = {turn: describe_repeated(ref, state) for turn, (state, ref) in states.items() if state}
        echoed = {
            turn: known.repeated[ref] for turn, (state, ref) in states.items() if not state and ref in known.repeated
        }
        for turn, record in zip(echoed, self._read(list(echoed.values())), strict=True):
            if record is not None and record.muted:
                self._muted_echoes.add(turn)
        found = {ref: last_successors(ref, known.newer, allows) for ref in every if ref in known.newer}
        return {ref: successors[0].ref for ref, successors in found.items() if successors}

    def _read_first(self, candidates: dict[str, list[ContextCandidate]]) -> None:
        """Read the first memories of all lanes in one call."""
        first = {}
        tokens = self._request.max_tokens
        for name, found in candidates.items():
            share = (SHARES.get(name, 1.0)) if self._search.is_for_task else 1 / len(candidates)
            for each in found[: int(tokens * share) // _TOKENS_PER_LINE + 1]:
                first[each.ref] = each.candidate
        self._read(list(first.values()))

    def _item(self, candidate: ContextCandidate, record: Record) -> ContextItem:
        is_wish = (
            KINDS[record.type].is_turn and candidate.section in KINDS
        )  # then only the sentence with the wish is shown
        said = wish_of(record.given) if is_wish else ""
        words = self._words if candidate.ref in self._matching else None
        return context_item(record, candidate.section, candidate.score, candidate.why, words, said)

    def _from_shared_files(self, type: str) -> Iterator[ContextItem]:
        """Memories of one type in shared files; with a task, those with most of its words first."""
        words = set(self._search.words.casefold().split())
        scored = []
        for rank, record in enumerate(each for each in self._shared if each.type == type):
            text = f"{line_text(record)} {record.given.get('topic', '')}".casefold()
            fit = sum(word in text for word in words) / len(words) if words else 0.5
            scored.append((fit - 0.001 * rank, record))
        for score, record in sorted(scored, key=lambda each: -each[0]):
            if (
                (score > 0 or KINDS[type].is_named_by_key)
                and is_valid(record.given, self._search.at)
                and not self._reason_to_exclude(record)
                and (not KINDS[type].is_named_by_key or self._holds(record))
            ):
                item = context_item(record, type, max(score, 0.0), SHARED_FILE_REASON)
                if self._request.trace is not None:
                    self._request.trace.offer("shared files", None, item)
                yield item

    def _weight(self, term: str) -> float:
        """How much a word of the task counts when a long memory is cut; words that no memory has do not."""
        if term in STOP_WORDS:
            return 0.0
        known = self._search.vocabulary
        if known is None or term not in known.frequencies:
            known = self._index.vocabulary([term], self._viewer)
        frequency = known.frequencies[term]
        return inverse_frequency(known.documents, frequency) if frequency else 0.0

    # -- conditions that need the memory itself, not only its row

    def _reason_to_exclude(self, record: Record) -> str:
        kind = KINDS[record.type]
        if record.muted:
            return MUTED
        if record.ref in self._request.exclude:
            return ALREADY_TOLD
        if kind.is_named_by_key:
            return "" if self._applies(record) else NOT_FOR_AGENT
        return SETTLED if kind.statuses and is_settled(record) else ""

    def _holds(self, record: Record) -> bool:
        """Whether no other preference comes before this one for the same key: of the session, of `global`, a newer one, of a file."""
        if self._first_of_key is None:
            self._first_of_key = {}
            known = self._read([each.candidate for each in self._preferences])
            for each in (*known, *self._shared):
                if each is not None and not each.deleted and KINDS[each.type].is_named_by_key and self._applies(each):
                    self._first_of_key.setdefault(_key(each), each.ref)
        return not _key(record) or self._first_of_key.get(_key(record), record.ref) == record.ref

    def _read(self, candidates: list[Candidate]) -> list[Record | None]:
        refs = [each.ref for each in candidates]
        missing = [each for each, ref in zip(candidates, refs, strict=True) if ref not in self._records]
        if missing:
            self._records.update(dict.fromkeys(each.ref for each in missing))
            self._records.update(self._index.records(missing, self._viewer))
        return [self._records[ref] for ref in refs]

    def _applies(self, record: Record) -> bool:
        """Whether a preference is for this agent, or for its task or topic."""
        value = record.applies_to
        names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        request = self._request
        about = f"{request.topic or ''} {request.task or ''}".casefold()
        for name in names:
            word = str(name).casefold()
            if word in ("", "*", "all", "any", "everything") or name == request.agent or word in about:
                return True
        return not names or not (request.agent or about.strip())


def _key(preference: Record) -> str:
    return preference.key if isinstance(preference.key, str) else ""


def _is_new(preference: Record, known: set[str]) -> bool:
    """Whether no preference with this key was met before; it is from now on."""
    key = _key(preference)
    if key and key in known:
        return False
    known.add(key)
    return True


def _digest_lanes(items: dict[str, Iterator[ContextItem]], shared: dict[str, Iterator[ContextItem]]) -> list[Lane]:
    """One lane for each kind, all of the same weight."""
    names = dict.fromkeys((*items, *shared))
    return [
        Lane(
            chain(items.get(name, ()), shared.get(name, ())),
            most=SHARES["state"] if name == "state" else 1.0,
            longest=_HARD_CUT if name == "turns" else 0,
        )
        for name in names
    ]
