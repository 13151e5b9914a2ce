"""Types of the options of queries and of the fields of memories, for signatures:

    def query(self, text=None, **options: Unpack[QueryOptions])
    def add_decision(self, decision, **fields: Unpack[DecisionFields])

Imported for type checking only. `smp_memory.search.query` checks the options when a query is made, accepts the names that the
original designs use, and rejects unknown ones. Fields that SMP does not know are stored as well; a type checker accepts them in
`session.add("decision", {…})`. `smp_memory.write.validation` checks their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from smp_memory.privacy.anonymisation import Placeholders

    Words = str | Sequence[str]
    Moment = datetime | str


# -- options of queries


class _Filters(TypedDict, total=False):
    types: Words  # decision, finding, …; any of them
    tags: Words | Mapping[str, Words]  # a tag finds those below it, too
    all_tags: Words  # memories with every one of these
    not_tags: Words  # memories with none of these
    agents: Words  # the authors; any of them
    time: str | tuple[Any, Any] | Mapping[str, Any]  # "last 24 hours", "2026-01", ("2026-01-05", "2026-01-10")
    since: Moment  # from then on
    until: Moment  # up to then; a day is included
    where: Mapping[str, Any]  # {"severity": "critical", "impact.score": {"greater": 3}}
    min_priority: float  # 0 to 1
    min_importance: float  # 0 to 1
    min_relevance: float  # 0 to 1: the probability that a memory answers
    min_confidence: float | str  # 0 to 1, or a word such as high
    confidence: float | str  # with this confidence: a number or a word
    pinned: bool  # only pinned memories, or only others
    references: Any  # the id of a memory, or several: what refers to it
    related_to: Any  # the id of a memory, or several: what is related to it
    include_decayed: bool  # False leaves out what has faded
    include_archived: bool  # also compacted memories and archived sessions
    include_deleted: bool  # also the trash
    include_expired: bool  # also what no longer holds or does not hold yet: valid_from, valid_until
    sessions: Words | None  # "all", or some
    session: str  # one session
    topic_in_text: bool  # whether a topic may also be a part of the text
    at: Moment  # as if it were that time
    mode: str  # default, weighted or product


class _Page(_Filters, total=False):
    include_related: bool | int  # memories related to each hit, or how many
    sort: str | Mapping[str, str] | Sequence[Any]  # relevance, newest, oldest, priority, importance, or a field
    offset: int  # how many hits to skip
    count_by: Any  # type, tag, agent, day, session or topic: counts of all that match
    track_access: bool  # False: being found does not count as use


class RelevantOptions(_Page, total=False):
    """Those of `query` for `relevant_decisions` and `relevant_findings`, which have a topic and a limit of their own."""

    depth: int  # steps of related_to
    kinds: Words | None  # kinds of relations that count
    timeout: float  # seconds; then QueryTimeout


class TopicOptions(RelevantOptions, total=False):
    """Those of `query` for `by_topic`."""

    limit: int  # how many hits; 0 counts only


class RelatedOptions(_Page, total=False):
    """Those of `query` for `find_related`, which has a depth and kinds of its own."""

    topic: Words  # a topic, or a tag of this name
    limit: int  # how many hits; 0 counts only
    timeout: float  # seconds; then QueryTimeout


class WatchOptions(_Page, total=False):
    """Those of `query` for `watch`, which has a timeout of its own."""

    topic: Words  # a topic, or a tag of this name
    limit: int  # how many hits; 0 counts only
    depth: int  # steps of related_to and include_related
    kinds: Words | None  # kinds of relations that count


class RecallOptions(_Page, total=False):
    """Those of `query` for `recall`, which has a limit of its own."""

    topic: Words  # a topic, or a tag of this name
    timeout: float  # seconds; then QueryTimeout


class QueryOptions(WatchOptions, total=False):
    """Everything that `query` takes beside its text."""

    timeout: float  # seconds; then QueryTimeout


class Criteria(_Filters, total=False):
    """Which memories a deletion, restoration or erasure is about."""

    text: str  # words that must all occur
    ids: Any  # these memories
    topic: Words  # a topic, or a tag of this name
    depth: int  # steps of related_to
    kinds: Words | None  # kinds of relations that count
    timeout: float  # seconds; then QueryTimeout


# -- fields of memories


class ClientObject(Protocol):
    """A message as an object of Anthropic's or OpenAI's client library."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]: ...


class CommonFields(TypedDict, total=False):
    """Fields of every type."""

    id: str  # an id of your own; else the next number
    author: str | None  # who wrote it
    author_kind: str  # user, agent or system
    created: datetime | str  # when; else now
    turn_ref: str | int  # the turn that it comes from
    topic: str  # in a word or two
    aliases: Sequence[str] | str  # other names of what it is about
    tags: Sequence[str] | str  # such as security.login
    valid_from: date | str  # the first day or the time from which it holds
    valid_until: date | str  # a day is included
    confidence: float | str  # 0 to 1, or a word such as high
    importance: float | str  # 0 to 1
    pinned: bool  # does not fade
    muted: bool  # agents are not told it unasked; searches find it
    references: Sequence[str] | Mapping[str, Any]  # ids of memories, or other sources
    relations: Sequence[Mapping[str, Any]]  # typed links: kind and target
    access: Mapping[str, Any]  # how often it was used; kept by SMP
    visibility: str  # shared or private
    trust: str | float  # how far to trust it
    idempotency_key: str  # the same key again adds nothing


class TurnFields(CommonFields, total=False):
    kind: str  # what kind of message
    parts: Sequence[Mapping[str, Any]]  # what is not text: tool calls, images, …; given by content blocks


class DecisionFields(CommonFields, total=False):
    rationale: str  # why
    alternatives_considered: Sequence[Any]  # what else was considered
    alternatives: Sequence[Any]  # the same
    impact: Any  # the consequences
    reversible: bool | str  # whether it can be undone
    approved_by: Sequence[str] | str  # who approved it
    agreed_by: Sequence[str] | str  # who agreed
    agents_involved: Sequence[str] | str  # who took part
    status: str  # active, pending, superseded, …
    resolution: Any  # how it was settled


class FindingFields(CommonFields, total=False):
    severity: str  # critical, high, medium, low or info
    category: str  # its kind, such as security
    evidence: Any  # what shows it
    recommendation: str  # what to do
    location: Any  # where
    impact: Any  # the consequences
    root_cause: str  # why it is so
    status: str  # open, resolved, …
    resolution: Any  # how it was settled


class PreferenceFields(CommonFields, total=False):
    preference: str  # in words, beside or instead of key and value
    category: str  # its kind
    context: Any  # when it applies
    source: str  # where it comes from
    applies_to: Any  # to whom or what it applies
    learned_from: Sequence[str] | str  # the memories that it was inferred from


class ArtifactFields(CommonFields, total=False):
    path: str  # where the file is; it is not read
    format: str  # markdown, json, …


class LearningFields(CommonFields, total=False):
    category: str  # its kind


# -- options of anonymised copies


class AnonymisationOptions(TypedDict, total=False):
    placeholders: Placeholders | None  # remembers what stands for what; without it nothing can be turned back
    agents: bool  # whether names of agents are replaced, too
    config: Mapping[str, bool] | None  # flags that switch parts off, see `SessionMemory.anonymised`
