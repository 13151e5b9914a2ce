"""Values of a search: a request for candidates, the candidates with the figures of the corpus, and the hits. Pure.

A candidate is a memory as an index knows it, before its record is read. Everything is named: sessions, types and authors by their names,
memories by `session/ID`, times in microseconds since 1970 UTC. Ranking, relevance, contexts, explanations and statistics are functions of
these values.

`traits` packs into one number what is compared for every candidate of every query: whether it is a turn and of whom, whether its
visibility must be checked, how many words it has (255: or more), how many of them state something and do not ask, and for a
turn whether it ends with a question and whether it names a time.
"""

from __future__ import annotations

from collections import namedtuple

from smp_memory.model.record import html_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, NamedTuple

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.text.tokenizer import ParsedText

NEWEST, OLDEST = "newest", "oldest"  # orders of candidates; with a text the best come first

NEAR_ENOUGH = 0.2  # similarity: below it two texts have nothing to do with each other

# -- traits

ROLES = {"user": 1, "assistant": 2, "system": 3, "tool": 4, "agent": 5}
ROLE, GUARDED, NAMES_TIME, ASKS = 7 << 4, 1 << 7, 1 << 24, 1 << 25  # bit masks
ROLE_SHIFT, WORDS_SHIFT, STATED_SHIFT = 4, 8, 16
TRAITS = (1 << 26) - 16  # all of them; the lowest four bits are free
_MANY_WORDS = 255


def traits_number(role: int, words: int, guarded: bool = False, asking_words: int = 0, marks: int = 0) -> int:
    """The traits of a memory; `role` is 0 unless it is a turn, `marks` are ASKS and NAMES_TIME."""
    stated = max(min(words - asking_words, _MANY_WORDS), 0)
    return marks | min(words, _MANY_WORDS) << WORDS_SHIFT | stated << STATED_SHIFT | guarded << 7 | role << ROLE_SHIFT


# -- candidates

if TYPE_CHECKING:

    class Candidate(NamedTuple):
        """One memory as an index knows it."""

        session: str
        id: str
        position: int  # in its session: neighbours in a conversation have neighbouring positions
        type: str
        created: int
        traits: int
        author: str  # empty: none
        match: float  # its text score; 0 without any of the words
        meaning: float  # similarity to the query, 0 to 1, on the scale of the static model's cosine; 0 without an embedding model
        meets: bool  # False: not all conditions are met; it counts for the scores of others, and is no hit itself
        updated: int  # the time of its creation if it was never changed
        importance: float | None
        confidence: float | None
        pinned: bool
        deleted: bool
        status: str | None
        severity: str | None
        impact: str | None
        approved: bool
        access_count: int
        last_access: int | None
        written: int  # when its session was last written
        latest: tuple[int, int, int | None] | None = None  # with LATEST
        valid_from: int | None = None  # with VALIDITY
        valid_until: int | None = None
        labels: Sequence[str] = ()  # with LABELS
        relations: Sequence[tuple[str, str]] = ()  # with RELATIONS
        repeats: str = ""  # with REPEATED: of a turn, the written memory that says the same, `session/ID`; HIDDEN_MEMORY: the viewer may not see it

        @property
        def ref(self) -> str: ...

else:  # `typing` takes a new process 5 ms to load
    _FIELDS = (
        "session id position type created traits author match meaning meets updated importance confidence pinned deleted "
        "status severity impact approved access_count last_access written latest valid_from valid_until labels relations repeats"
    )

    class Candidate(namedtuple("Candidate", _FIELDS, defaults=(None, None, None, (), (), ""))):
        """One memory as an index knows it."""

        __slots__ = ()

        @property
        def ref(self):
            return f"{self.session}/{self.id}"


# What a request may ask for besides the candidates themselves
NEWER = "newer"  # the memories that took their place (`Candidates.newer`)
REPEATED = "repeated"  # `repeats`, and the memories that are repeated (`Candidates.repeated`)
LATEST = "latest"  # `latest`: the latest creation, change and use among the memory and those that it is related to
VALIDITY = "validity"  # `valid_from` and `valid_until`
LABELS = "labels"  # `labels`: tags and topic, case-folded, each once
RELATIONS = "relations"  # `relations`: kind and `session/ID` of what the memory points to, whether it exists or not
NOT_VALID = "not_valid"  # `Candidates.not_valid`; with a text it is always there
PROBLEMS = "problems"  # unreadable entries of the sessions


class CandidateRequest:
    """Which memories are wanted, for whom, and how many. None and empty: no condition."""

    # conditions
    sessions: Sequence[str] | None = None
    ignores_missing = False  # a session that does not exist is no error
    types: Sequence[str] = ()
    authors: Sequence[str] = ()
    tags: Sequence[str] = ()  # one of these, or one below it (`auth` finds `auth.oauth`)
    all_tags: Sequence[str] = ()  # each of these
    not_tags: Sequence[str] = ()  # none of these
    topics: Sequence[str] = ()  # one of these, as topic or tag
    since: int | None = None  # created then or later
    until: int | None = None  # created before
    changed_since: int | None = None  # a field was changed then or later, or the memory was deleted then or later
    min_importance: float | None = None
    min_confidence: float | None = None
    confidence: Sequence[float] = ()  # one of these
    pinned: bool | None = None
    include_deleted = False
    only_deleted = False  # memories in the trash, and no others
    valid_at: int | None = None  # only what is valid then
    refs: Collection[str] | None = None  # only these memories, `session/ID`
    references: Sequence[str] = ()  # memories that refer to one of these over up to `depth` steps
    related_to: Sequence[str] = ()  # memories up to `depth` steps away in either direction, along these `kinds`
    kinds: Sequence[str] = ()
    depth = 1
    scope = ""  # the session of names without one
    only_wishes = False  # turns of users that are standing wishes

    # text
    words = ""  # as written
    text: ParsedText | None = None  # the same, parsed; None: no text
    with_corrections = False  # also search known terms for unknown words with a typing error
    front = 0  # so many of the best matches bring others: the turns beside them, and what is near in meaning
    with_neighbours = False  # add the turns beside the best turns of the front
    by_meaning = False  # add the memories nearest in meaning
    with_memory = ""  # add this memory whatever the conditions are, in place of the last match of the front

    # who asks, and how much
    viewer: Viewer | None = None  # None: sees everything
    now = 0  # a memory that is valid only later took nobody's place
    order = NEWEST
    limit: int | None = None
    offset = 0
    fetch: Collection[str] = ()  # NEWER, REPEATED, LATEST, VALIDITY, LABELS, RELATIONS, NOT_VALID, PROBLEMS

    def __init__(self, **given: Any) -> None:
        if not _CONDITIONS.issuperset(given):
            raise TypeError(f"CandidateRequest has no {', '.join(given.keys() - _CONDITIONS)}")
        self.__dict__ = given

    def with_changes(self, **changes: Any) -> CandidateRequest:
        """The same request but for these values."""
        return CandidateRequest(**{**self.__dict__, **changes})

    @property
    def has_labels(self) -> bool:
        """Whether there are conditions on tags or topics."""
        return bool(self.tags or self.all_tags or self.not_tags or self.topics)


_CONDITIONS = frozenset(vars(CandidateRequest)) - {"has_labels", "with_changes", "__init__"}


class Candidates:
    """The answer to a request."""

    __slots__ = (
        "complete", "corrected", "documents", "frequencies", "has_echoes", "has_successions", "is_all", "matches", "meaning_weight", "newer", "not_valid", "others",
        "problems", "repeated", "text", "warnings",
    )  # fmt: skip

    def __init__(self, matches: list[Candidate]) -> None:
        self.matches = matches  # in the order of the request; by text the best first
        self.others: list[Candidate] = []  # without any of the words: beside the best matches, or near in meaning
        # Of a request with `front` an index may leave out what few candidates are asked for (all from `id` and `updated` on, but for
        # `written`). This adds it to some of them, in their order; it may be called inside of the snapshot of the request.
        self.complete: Callable[[list[Candidate]], list[Candidate]] = list
        self.is_all = True  # whether there are no further matches
        self.text: ParsedText | None = None  # the parsed text, with corrections
        self.corrected: dict[str, str] = {}  # known terms that were searched for unknown words
        self.frequencies: dict[str, int] = {}  # in how many memories each word of the text is
        self.documents = 0  # the number of memories
        self.meaning_weight = (
            0.0  # how much meaning counts beside words; 0 without an embedding model, or if not `by_meaning`
        )
        self.newer: Mapping[
            str, Sequence[Candidate]
        ] = {}  # with NEWER: by ref the memories that directly took its place
        # With REPEATED: by ref the memories that candidates repeat, whatever their state, with VALIDITY; `meets` tells whether they meet the conditions.
        # With NEWER, `newer` has what took their place, too.
        self.repeated: Mapping[str, Candidate] = {}
        self.has_echoes = False  # whether any turn repeats a memory
        self.has_successions = False  # whether any memory took the place of another one
        self.not_valid = 0  # how many matches were left out because of `valid_at`
        self.problems: dict[str, list[Problem]] = {}  # with PROBLEMS: unreadable entries, by session
        self.warnings: list[str] = []  # why memories were not searched by meaning although there is a model

    @property
    def every_problem(self) -> list[Problem]:
        return [problem for problems in self.problems.values() for problem in problems]


class FoundRecords(dict[str, "Record"]):
    """Records by `session/ID`, without those that do not exist or are hidden. Deleted ones are among them."""

    __slots__ = ("left_out",)

    def __init__(self, found: Mapping[str, Record] | Iterable[tuple[str, Record]] = ()) -> None:
        super().__init__(found)
        self.left_out: dict[str, LeftOut] = {}  # sessions that were archived or deleted meanwhile


class Facets:
    """How many memories meet a request: by field and name, the most frequent first."""

    __slots__ = ("counts", "not_valid")

    def __init__(self, counts: dict[str, dict[str, int]], not_valid: int = 0) -> None:
        self.counts = counts
        self.not_valid = not_valid  # how many were left out because of `valid_at`


if TYPE_CHECKING:

    class RelatedRef(NamedTuple):
        """A memory that was reached along relations."""

        ref: str
        steps: int
        kind: str
        via: str  # the memory from which it was reached

    class Vocabulary(NamedTuple):
        """The number of memories, and in how many of them each word is."""

        documents: int
        frequencies: dict[str, int]

    class SessionActivity(NamedTuple):
        """What an index knows of one session."""

        memories: int  # positions that were given out
        written: int  # last write by the memories' times; 0: never
        used: int  # last access; 0: never
        last_id: str | None  # the memory at the last position
        has_deleted: bool  # whether memories are in its trash
        ids: Sequence[str]  # if they were asked for, by position
        prompt: str  # the beginning of its first prompt (`text.memory_text.prompt_beginning`); empty: it has none, or none for everybody

    class LeftOut(NamedTuple):
        """A session that another process archived or deleted during the search."""

        session: str
        reason: str  # archived or deleted

else:
    RelatedRef = namedtuple("RelatedRef", "ref steps kind via")
    Vocabulary = namedtuple("Vocabulary", "documents frequencies")
    SessionActivity = namedtuple("SessionActivity", "memories written used last_id has_deleted ids prompt")
    LeftOut = namedtuple("LeftOut", "session reason")


# -- hits


class Hit:
    """One search result. The fields of its record are attributes of the hit, too: `hit.decision`, `hit.tags`."""

    __slots__ = ("_explain", "_relevance", "archived", "echoes", "outdated_by", "priority", "record", "related", "repeats", "repeats_state", "score", "settled", "superseded_by")  # fmt: skip

    def __init__(
        self,
        record: Record,
        score: float,
        priority: float,
        explain: Callable[[Record], dict[str, Any]],
        relevance: Callable[[Record], float],
        related: list[Record] | None = None,
    ) -> None:
        self.record = record
        self.score = score  # 0 to 1: the order of the hits of one query; decay included
        self._relevance: Callable[[Record], float] | float = relevance
        self.priority = priority  # 0 to 1: what decay has left of it
        self._explain = explain
        self.related = related if related is not None else []  # with include_related
        self.superseded_by: str | None = None  # the memory that took its place, `session/ID`
        self.outdated_by: str | None = None  # a newer hit that says the same with another value
        self.repeats: str | None = None  # of a turn, the written memory that says the same, `session/ID`
        self.repeats_state = (
            ""  # why that memory does not hold: deleted, superseded, settled, not valid, hidden; empty if it does
        )
        self.echoes: list[
            str
        ] = []  # turns that match, too, and repeat this memory, `session/ID`; they are not listed beside it
        self.settled = False  # its status says that nothing is left to do, or that it was overturned
        self.archived: str | None = None  # with include_archived: the cold segment or archive that holds it

    @property
    def relevance(self) -> float:
        """An estimate from 0 to 1 of whether the memory answers the query, comparable across queries and stores (`search.relevance`)."""
        if not isinstance(self._relevance, float):
            self._relevance = float(self._relevance(self.record))
        return self._relevance

    def inherit(self, other: Hit) -> None:
        """Take over the score and the relevance of another hit where they are higher."""
        own = self._relevance
        self.score = max(self.score, other.score)
        self._relevance = lambda record: max(own if isinstance(own, float) else own(record), other.relevance)

    @property
    def explain(self) -> dict[str, Any]:
        """The components of the score; under `relevance` and `priority` those of these figures."""
        return self._explain(self.record)

    @property
    def id(self) -> str:
        """The id of its record."""
        return self.record.id

    @property
    def session(self) -> str:
        return self.record.session

    def to_dict(self) -> dict[str, Any]:
        """The hit as plain JSON values."""
        found: dict[str, Any] = {
            "record": self.record.to_dict(),
            "score": round(self.score, 4),
            "relevance": round(self.relevance, 4),
            "priority": round(self.priority, 4),
            "explain": self.explain,
        }
        if self.superseded_by:
            found["superseded_by"] = self.superseded_by
        if self.outdated_by:
            found["outdated_by"] = self.outdated_by
        for name in ("repeats", "repeats_state", "echoes", "archived"):
            if value := getattr(self, name):
                found[name] = value
        if self.related:
            found["related"] = [record.to_dict() for record in self.related]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled hit carries its explanation; it needs no index when it is read again."""
        figures = self.score, self.relevance, self.priority
        others = (
            self.archived,
            self.superseded_by,
            self.outdated_by,
            self.repeats,
            self.repeats_state,
            self.echoes,
            self.settled,
        )
        return _unpickled, (self.record, *figures, self.explain, self.related, *others)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.record, name)

    def __repr__(self) -> str:
        return f"Hit({self.record.ref} {self.relevance:.3f}: {self.record.text[:60]!r})"

    def _repr_html_(self) -> str:
        return Hits([self])._repr_html_()


def _unpickled(
    record: Record,
    score: float,
    relevance: float,
    priority: float,
    explanation: dict[str, Any],
    related: list[Record],
    archived: str | None,
    superseded_by: str | None = None,
    outdated_by: str | None = None,
    repeats: str | None = None,
    repeats_state: str = "",
    echoes: Iterable[str] = (),
    settled: bool = False,
) -> Hit:
    hit = Hit(record, score, priority, lambda record: explanation, lambda record: relevance, related)
    hit.archived, hit.superseded_by, hit.outdated_by = archived, superseded_by, outdated_by
    hit.repeats, hit.repeats_state, hit.echoes, hit.settled = repeats, repeats_state, list(echoes), settled
    return hit


def _figures(hit: Hit) -> tuple[str, str]:
    return f"{hit.relevance:.3f}", f"{hit.priority:.3f}"


class Hits(list[Hit]):
    """The hits of one page, best first."""

    def __init__(
        self,
        hits: list[Hit],
        *,
        more: bool = False,
        counts: dict[str, dict[str, int]] | None = None,
        left_out: list[LeftOut] | None = None,
        aggregations: dict[str, dict[str, Any]] | None = None,
        problems: list[Problem] | None = None,
    ) -> None:
        super().__init__(hits)
        self.aggregations = (
            aggregations or {}
        )  # of all that match, by field and operation: {"importance": {"avg": 0.7}}
        self.problems = problems or []  # entries of the sessions asked for that could not be read
        self.left_out = left_out or []  # sessions archived or deleted during the query
        self.not_valid = 0  # matches left out because they do not hold at that time; include_expired=True finds them
        self.corrected: dict[str, str] = {}  # unknown words of the text, and the known ones that were searched as well
        self.archived_not_searched = 0  # archived sessions in which nobody looked; include_archived=True does
        self.warnings: list[str] = []  # that opening the session brought it back from its archive
        self.min_relevance = 0.0  # `recall.min_relevance`: what `confident` asks for
        self.more = more  # whether there are further ones behind these
        self.counts = counts or {}  # of all that match, by what was asked for: {"type": {"decision": 3}}

    @property
    def records(self) -> list[Record]:
        """The records, best first."""
        return [hit.record for hit in self]

    @property
    def ids(self) -> list[str]:
        """The ids of the records, best first."""
        return [hit.record.id for hit in self]

    @property
    def confident(self) -> list[Hit]:
        """The hits that a hook would tell: relevant enough (`recall.min_relevance`), and neither superseded, outdated nor settled."""
        current = [
            hit for hit in self if not (hit.superseded_by or hit.outdated_by or hit.settled or hit.repeats_state)
        ]
        return [hit for hit in current if hit.relevance >= self.min_relevance]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dictionary for each hit, as a DataFrame takes them: the fields of the record, score, relevance and priority."""
        return [
            {**hit.record.to_dict(), "score": hit.score, "relevance": hit.relevance, "priority": hit.priority}
            for hit in self
        ]

    def _repr_html_(self) -> str:
        columns = ("memory", "type", "created", "relevance", "priority", "text")
        rows = (
            (hit.record.ref, hit.record.type, hit.record.to_dict()["created"], *_figures(hit), hit.record.text)
            for hit in self
        )
        return html_table(columns, rows)


class Related:
    """A memory that is connected with another one by relations."""

    __slots__ = ("kind", "record", "steps", "via")

    def __init__(self, record: Record, steps: int, kind: str, via: str) -> None:
        self.record = record
        self.steps = steps  # the distance in relations
        self.kind = kind  # of the last relation on the path
        self.via = via  # the previous memory on the path, `session/ID`

    @property
    def id(self) -> str:
        return self.record.id

    def to_dict(self) -> dict[str, Any]:
        return {"record": self.record.to_dict(), "steps": self.steps, "kind": self.kind, "via": self.via}

    def __repr__(self) -> str:
        return f"Related({self.record.ref} {self.kind}, {self.steps} from {self.via})"
