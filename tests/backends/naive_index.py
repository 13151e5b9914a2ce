"""The simplest search index that answers everything: brute force over the histories of a store, read anew for every call.

It shows that the search port (`smp_memory.search.port`) is complete, and it is the oracle of the real index: both must find the same memories
and count the same. Orders are the same by time; by text they may differ in ties and in rounding, because lengths are not rounded here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionArchived, SessionNotFound
from smp_memory.model.candidates import (
    GUARDED,
    NEWER,
    OLDEST,
    PROBLEMS,
    REPEATED,
    ROLE,
    Candidate,
    CandidateRequest,
    Candidates,
    Facets,
    FoundRecords,
    RelatedRef,
    SessionActivity,
    Vocabulary,
    traits_number,
)
from smp_memory.model.decay import impact_level
from smp_memory.model.history import RecordHistory
from smp_memory.model.record import Record
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import names_of
from smp_memory.model.statuses import HIDDEN_MEMORY, last_successors, recalled_successions
from smp_memory.model.times import is_valid, to_microseconds, to_moment, validity
from smp_memory.model.types import CONFIDENCE_WORDS, KINDS
from smp_memory.privacy.visibility import Viewer
from smp_memory.search.ranking import count_records
from smp_memory.text.echoes import is_beside, statement
from smp_memory.text.memory_text import (
    FIRST_MEMORIES,
    as_list,
    index_terms,
    label_key,
    prompt_beginning,
    relations_of,
    role_number,
    statement_of,
    status_of,
    turn_facts,
    wish_of,
)
from smp_memory.text.names import LONG, MORE_THAN_ONE, REPLACED, SHORTEST, distance, mistyped, simple_variants
from smp_memory.text.tokenizer import STOP_WORDS, inverse_frequency, stem
from smp_memory.text.wildcards import RARITY, matches_terms, term_matcher

if TYPE_CHECKING:
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.port import Histories

    def _provides_port(index: NaiveIndex) -> SearchIndex:
        return index  # checked by mypy


class NaiveMemory:
    """One memory with everything that a request may ask about it."""

    def __init__(self, session: str, position: int, history: Any, uses: tuple[int, int | None], written: int) -> None:
        data, first, last = history.data(), history.first, history.entries[-1]
        record = history.record(session)
        assert record is not None
        self.record: Record = record
        self.data = data
        changes = [history.last.at] if history.last is not first else []
        changes += [history.deletion.at] if history.deletion is not None else []
        self.changes = [to_microseconds(to_moment(at)) for at in changes]
        kind = KINDS[first.type]
        self.terms = index_terms(data, first.id).split()
        self.tags = {key for each in as_list(data.get("tags")) if (key := label_key(each))}
        self.topic = label_key(data.get("topic"))
        self.relations = [(name, f"{where}/{id}") for name, where, id in relations_of(data, session)]
        role = role_number(data.get("role"))
        asked = turn_facts(data, " ".join(self.terms)) if role else ()
        guarded = "visibility" in data or kind.is_named_by_agent
        created = to_microseconds(to_moment(first.at))
        importance, confidence = data.get("importance"), data.get("confidence")
        self.candidate = Candidate(
            session, first.id, position, first.type, created, traits_number(role, len(self.terms), guarded, *asked),
            data.get("author") or "", 0.0, 0.0, True, to_microseconds(to_moment(last.at)),
            float(importance) if isinstance(importance, int | float) else None,
            CONFIDENCE_WORDS.get(confidence) if isinstance(confidence, str) else confidence,
            data.get("pinned") is True, history.deletion is not None, status_of(kind, data) or None, data.get("severity"),
            impact_level(data.get("impact")), bool(data.get("approved_by")), *uses, written, None, *validity(data),
            sorted(self.tags | {self.topic} - {""}), self.relations,
        )  # fmt: skip

    @property
    def ref(self) -> str:
        return self.candidate.ref

    def has_tag(self, names: Iterable[str], labels: set[str]) -> bool:
        keys = [label_key(name) for name in names]
        return any(label == key or label.startswith(f"{key}.") for label in labels for key in keys)

    def meets_labels(self, request: CandidateRequest) -> bool:
        """Whether it meets the conditions that decide which memories are the first by text."""
        each = self.candidate
        if each.deleted is not request.only_deleted and (request.only_deleted or not request.include_deleted):
            return False
        return (
            (request.sessions is None or each.session in request.sessions)
            and (not request.types or each.type in request.types)
            and (not request.authors or each.author in request.authors)
            and (request.since is None or each.created >= request.since)
            and (request.until is None or each.created < request.until)
            and (not request.tags or self.has_tag(request.tags, self.tags))
            and all(self.has_tag([tag], self.tags) for tag in request.all_tags)
            and not self.has_tag(request.not_tags, self.tags)
            and (not request.topics or self.has_tag(request.topics, self.tags | {self.topic}))
            and (not request.only_wishes or bool(wish_of(self.data)))
        )

    def meets_bounds(self, request: CandidateRequest, docs: set[str] | None) -> bool:
        each = self.candidate
        least, sure = request.min_importance, request.min_confidence
        return (
            (least is None or (each.importance is not None and each.importance >= least))
            and (request.changed_since is None or any(at >= request.changed_since for at in self.changes))
            and (sure is None or (each.confidence is not None and each.confidence >= sure))
            and (not request.confidence or each.confidence in request.confidence)
            and (request.pinned is None or each.pinned is request.pinned)
            and (docs is None or each.ref in docs)
        )


class NaiveIndex:
    """Brute force over the live sessions of a store, or over histories that were read before."""

    folder = ""

    def __init__(
        self, store: Any, histories: Histories | None = None, problems: Mapping[str, list[Problem]] | None = None
    ) -> None:
        self._store = store
        self._given = histories, problems or {}

    def _session_ids(self) -> list[str]:
        return names_of(self._store.sessions()) if self._given[0] is None else list(self._given[0])

    def _history(self, session: str) -> tuple[Mapping[str, RecordHistory], list[Problem]]:
        """The memories of a session and its unreadable entries; nothing if it was archived or deleted meanwhile."""
        histories, problems = self._given
        if histories is not None:
            return histories.get(session, {}), problems.get(session, [])
        try:
            found = self._store.session(session).history()
        except (SessionNotFound, SessionArchived):
            return {}, []
        return found.histories, found.unreadable

    def snapshot(self, *, all_sessions: bool = False, by_meaning: bool = False) -> AbstractContextManager[None]:
        return nullcontext()

    def _memories(self, viewer: Viewer | None) -> dict[str, NaiveMemory]:
        log = self._store.access
        used: dict[str, list[float]] = {}
        for name, seconds in (*log.read(0)[0], *log.pending()):
            used.setdefault(name, []).append(seconds)
        found: dict[str, NaiveMemory] = {}
        for session in self._session_ids():
            histories = list(self._history(session)[0].values())
            last = max((to_microseconds(to_moment(each.entries[-1].at)) for each in histories), default=0)
            for position, history in enumerate(histories):
                times = used.get(f"{session}/{history.first.id}", [])
                uses = len(times), int(max(times) * 1_000_000) if times else None
                memory = NaiveMemory(session, position, history, uses, last)
                if viewer is None or viewer.sees(memory.record):
                    found[memory.ref] = memory
        return found

    def _check_session(self, session: str) -> None:
        if self._given[0] is None:
            self._store.session(session)
        elif session not in self._given[0]:
            raise SessionNotFound(f"No session {session} in this index.", session=session)

    # -- candidates

    def candidates(self, request: CandidateRequest) -> Candidates:
        for name in request.sessions or () if not request.ignores_missing else ():
            self._check_session(name)
        every = self._memories(request.viewer)
        docs = self._docs(request, every)
        labelled = [each for each in every.values() if each.meets_labels(request)]
        valid = [each for each in labelled if request.valid_at is None or is_valid(each.data, request.valid_at)]
        if request.text is None:
            admitted = [each for each in valid if each.meets_bounds(request, docs)]
            found = self._by_time(request, admitted)
            found.not_valid = sum(each.meets_bounds(request, docs) for each in labelled) - len(admitted)
        else:
            found = self._by_text(request, every, valid, docs)
            matching = [each for each in labelled if matches_terms(found.text or request.text, each.terms)]
            found.not_valid = len(matching) - sum(each in valid for each in matching)
        newer = self._newer(every, request)
        found.has_successions = bool(newer)
        if NEWER in request.fetch:
            admitted_refs = {each.ref for each in valid if each.meets_bounds(request, docs)}
            found.newer = {old: [each._replace(meets=each.ref in admitted_refs) for each in those] for old, those in newer.items()}  # fmt: skip
        found.has_echoes = True
        if REPEATED in request.fetch:
            self._add_repeated(found, request, every, {each.ref for each in valid if each.meets_bounds(request, docs)})
        if PROBLEMS in request.fetch:
            names = self._session_ids() if request.sessions is None else request.sessions
            found.problems = {name: problems for name in names if (problems := self._history(name)[1])}
        return found

    def _docs(self, request: CandidateRequest, every: dict[str, NaiveMemory]) -> set[str] | None:
        found = None if request.refs is None else set(request.refs)

        def full(name: str) -> str:
            return name if "/" in name else f"{request.scope}/{name}"

        if request.references:
            edge, reached = {full(name) for name in request.references}, set[str]()
            for _ in range(request.depth):
                edge = {each.ref for each in every.values() for _, to in each.relations if to in edge} - reached
                reached |= edge
            found = reached if found is None else found & reached
        if request.related_to:
            near = {each.ref for name in request.related_to for each in self._near(full(name), every, request.depth, request.kinds)}  # fmt: skip
            found = near if found is None else found & near
        return found

    def _by_time(self, request: CandidateRequest, admitted: list[NaiveMemory]) -> Candidates:
        admitted.sort(key=lambda each: (each.candidate.created, each.candidate.session, each.candidate.position))
        ordered = [each.candidate for each in (admitted if request.order == OLDEST else reversed(admitted))]
        end = len(ordered) if request.limit is None else request.offset + request.limit
        found = Candidates(ordered[request.offset : end])
        found.is_all = end >= len(ordered)
        return found

    def _by_text(
        self, request: CandidateRequest, every: dict[str, NaiveMemory], valid: list[NaiveMemory], docs: set[str] | None
    ) -> Candidates:
        frequencies = Counter(term for each in every.values() for term in set(each.terms))
        text, corrected = request.text, self._corrections(request, frequencies, valid)
        assert text is not None
        text = text._replace(corrected=tuple(dict.fromkeys(corrected.values())))
        mean = sum(len(each.terms) for each in every.values()) / max(len(every), 1)
        scored = [
            each.candidate._replace(match=self._score(text, each, frequencies, len(every), mean), meets=each.meets_bounds(request, docs))
            for each in (valid if text else ())
            if matches_terms(text, each.terms)
        ]  # fmt: skip
        scored.sort(key=lambda each: (-each.match, each.session, each.position))
        found = Candidates(scored[: request.limit])
        found.is_all = request.limit is None or len(scored) < request.limit
        if request.with_memory in every and request.with_memory not in {each.ref for each in found.matches}:
            own = every[request.with_memory]
            score = self._score(text, own, frequencies, len(every), mean)
            found.matches = [*found.matches[: request.front - 1], own.candidate._replace(match=score)]
            found.matches.sort(key=lambda each: -each.match)
        found.text, found.corrected = text, corrected
        words = {*text.words, *(word for phrase in text.phrases for word in phrase)}
        found.frequencies, found.documents = {word: frequencies[word] for word in words}, len(every)
        if request.with_neighbours:
            turns = [each for each in found.matches[: request.front] if each.traits & ROLE][:10]
            near = {(each.session, each.position + step) for each in turns for step in (-2, -1, 1, 2)}
            known = {each.ref for each in found.matches}
            beside = (
                each.candidate for each in valid if each.candidate.type == "conversation" and each.ref not in known
            )
            found.others = [
                each._replace(meets=every[each.ref].meets_bounds(request, docs))
                for each in beside
                if (each.session, each.position) in near
            ]
        return found

    def _corrections(self, request: CandidateRequest, known: Counter[str], valid: list[NaiveMemory]) -> dict[str, str]:
        assert request.text is not None
        unknown = frozenset(word for word in request.text.words if not known[word])
        found = {}
        for word, term, is_name in mistyped(request.words, unknown) if request.with_corrections and unknown else ():
            most = MORE_THAN_ONE if is_name or len(term) >= LONG else REPLACED
            near = [
                (distance(term, each), each)
                for each in known
                if not each.startswith(term) and not term.startswith(each)
            ]
            near += [(distance(word.lower(), each), stem(each)) for each in simple_variants(word.lower())]
            good = [(error, -known[each], each) for error, each in near if 0 < error < most and known[each]]
            best = [
                each for _, _, each in sorted(good) if len(each) >= SHORTEST and each not in STOP_WORDS and each != term
            ]
            if best and best[0] not in request.text.words and any(best[0] in each.terms for each in valid):
                found[word] = best[0]
        return found

    def _score(self, text: Any, memory: NaiveMemory, known: Counter[str], count: int, mean: float) -> float:
        patterns = [term_matcher(each) for each in (*text.patterns, *text.characters)]
        wanted = dict.fromkeys([*text.words, *(word for phrase in text.phrases for word in phrase)], 1.0)
        wanted |= dict.fromkeys((each for each in set(memory.terms) if any(match(each) for match in patterns)), 1.0)
        weights = {**dict.fromkeys(text.corrected, 0.7), **wanted}
        norm = 1.2 * (0.25 + 0.75 * len(memory.terms) / mean)
        times = Counter(memory.terms)
        total: float = sum(
            share * inverse_frequency(count, known[term]) ** (1 + RARITY) * 2.2 * times[term] / (times[term] + norm)
            for term, share in weights.items()
            if times[term]
        )
        return total

    def _newer(self, every: dict[str, NaiveMemory], request: CandidateRequest) -> dict[str, list[Candidate]]:
        found: dict[str, list[Candidate]] = {}
        for each in every.values():
            for (old_session, old_id), (session, id) in recalled_successions(
                each.data, each.candidate.session, each.candidate.id
            ):
                old, new = every.get(f"{old_session}/{old_id}"), every.get(f"{session}/{id}")
                if old is None or new is None or new.candidate.deleted or old is new:
                    continue
                since = validity(new.data)[0]
                hides = old.candidate.traits & GUARDED and not Viewer(new.candidate.author or None).sees(old.record)
                counts = (since is None or since <= request.now) and not (request.viewer is not None and hides)
                if counts and new.candidate not in found.setdefault(old.ref, []):
                    found[old.ref].append(new.candidate)
        return {ref: those for ref, those in found.items() if those}

    def _add_repeated(
        self, found: Candidates, request: CandidateRequest, every: dict[str, NaiveMemory], admitted: set[str]
    ) -> None:
        echoes: dict[str, list[tuple[float, NaiveMemory]]] = {}
        for turn, memory, score in self._echoes(self._memories(None)):
            if request.sessions is None or memory.candidate.session in request.sessions:
                echoes.setdefault(turn.ref, []).append((score, memory))
        names = dict.fromkeys(echoes, HIDDEN_MEMORY)
        repeated: dict[str, Candidate] = {}
        listed = [each.ref for each in (*(found.matches[: request.front] if request.text else found.matches), *found.others)]  # fmt: skip
        for ref in (ref for ref in listed if ref in echoes):
            seen = [(score, each.candidate) for score, each in echoes[ref] if each.ref in every]
            for _, each in sorted(seen, key=lambda pair: (pair[1].deleted, -pair[0], -pair[1].created))[:1]:
                names[ref] = each.ref
                repeated[each.ref] = each._replace(meets=each.ref in admitted)
        found.matches, found.others = (
            [each._replace(repeats=names.get(each.ref, "") if each.ref in listed else "") for each in those]
            for those in (found.matches, found.others)
        )
        found.repeated = repeated

    @staticmethod
    def _echoes(every: dict[str, NaiveMemory]) -> Iterator[tuple[NaiveMemory, NaiveMemory, float]]:
        """Every turn with every memory that it repeats."""
        turns = [each for each in every.values() if KINDS[each.candidate.type].is_turn]
        for memory in every.values():
            stated, place = statement_of(KINDS[memory.candidate.type], memory.data), memory.candidate
            for turn in turns if stated else ():
                beside = turn.candidate.session == place.session and is_beside(place.position, turn.candidate.position)
                score = statement(stated).score(turn.record.text, beside=beside)
                if score:
                    yield turn, memory, score

    # -- the rest of the port

    def records(self, wanted: Iterable[Candidate | str], viewer: Viewer | None = None) -> FoundRecords:
        every = self._memories(viewer)
        refs = [each if isinstance(each, str) else each.ref for each in wanted]
        return FoundRecords({ref: every[ref].record for ref in refs if ref in every})

    def facets(self, request: CandidateRequest, fields: Sequence[str]) -> Facets:
        found = self.candidates(request.with_changes(limit=None, offset=0, fetch=[NEWER]))
        refs = {each.ref for each in (*found.matches, *found.others) if each.meets}
        if request.text is not None and NEWER in request.fetch:
            allows = None if request.sessions is None else set(request.sessions).__contains__
            ends = (end for ref in list(refs) for end in last_successors(ref, found.newer, allows) if end.meets)
            refs.update(end.ref for end in ends)
        records = list(self.records(refs, request.viewer).values())
        return Facets({field: count_records(field, records) for field in fields}, found.not_valid)

    def related(
        self, refs: Iterable[str], depth: int = 1, kinds: Sequence[str] = (), viewer: Viewer | None = None
    ) -> dict[str, list[RelatedRef]]:
        every = self._memories(viewer)
        return {ref: list(self._near(ref, every, depth, kinds)) for ref in refs if ref in every}

    def _near(
        self, start: str, every: dict[str, NaiveMemory], depth: int, kinds: Sequence[str]
    ) -> Iterator[RelatedRef]:
        seen, edge = {start}, [start] if start in every else []
        for steps in range(1, depth + 1):
            reached = []
            for ref in edge:
                for kind, other in self._edges(ref, every, "repeats" in kinds):
                    if other not in seen and other in every and (not kinds or kind in kinds):
                        seen.add(other)
                        reached.append(other)
                        yield RelatedRef(other, steps, kind, ref)
            edge = reached

    def _edges(self, ref: str, every: dict[str, NaiveMemory], with_echoes: bool) -> Iterator[tuple[str, str]]:
        own = every[ref]
        yield from own.relations
        yield from ((kind, each.ref) for each in every.values() for kind, to in each.relations if to == ref)
        turns = {to for kind, to in own.relations if kind == "turn" and own.candidate.type == "finding"}
        for each in every.values():
            if each is not own and each.candidate.type == "finding" and turns & {to for kind, to in each.relations if kind == "turn"}:  # fmt: skip
                yield "same_turn", each.ref
        for turn, memory, _ in self._echoes(every) if with_echoes else ():
            if ref in (turn.ref, memory.ref):
                yield "repeats", turn.ref if ref == memory.ref else memory.ref

    def vocabulary(self, words: Iterable[str], viewer: Viewer | None = None) -> Vocabulary:
        every = self._memories(viewer).values()
        return Vocabulary(len(every), {word: sum(word in each.terms for each in every) for word in words})

    def activity(
        self, sessions: Sequence[str] | None = None, *, ids_from: int | None = None
    ) -> dict[str, SessionActivity]:
        memories = list(self._memories(None).values())
        every = [each.candidate for each in memories]
        found = {}
        for name in self._session_ids() if sessions is None else sessions:
            own = [each for each in every if each.session == name]
            used = max((each.last_access or 0 for each in own), default=0)
            ids = [each.id for each in own if ids_from is not None and each.position >= ids_from]
            early = [each for each in memories if each.candidate.session == name][:FIRST_MEMORIES]
            begun = (prompt_beginning(each.data) for each in early if not each.candidate.deleted)
            prompt = next(filter(None, begun), "")
            last, has_deleted = own[-1].id if own else None, any(each.deleted for each in own)
            found[name] = SessionActivity(len(own), own[0].written if own else 0, used, last, has_deleted, ids, prompt)
        return found

    def saved_metadata(self, session: str | None = None) -> dict[str, Any]:
        return {}

    def count_accesses(self, *, from_start: bool = False) -> None:
        pass

    def is_intact(self) -> bool:
        return True

    def rebuild(self, progress: Any = None) -> int:
        return len(self._memories(None))

    def embed_missing(self, seconds: float | None = None) -> int:
        return 0

    def close(self) -> None:
        pass
