"""Types of the options of queries and of the fields of memories, for signatures:

    def query(self, text=None, **options: Unpack[QueryOptions])
    def add_decision(self, decision, **fields: Unpack[DecisionFields])

Imported for type checking only. `smp_memory.search.query` checks the options when a query is made, accepts the names that the
original designs use, and rejects unknown ones. Fields that SMP does not know are stored as well; a type checker accepts them in
`session.add("decision", {…})`. `smp_memory.write.validation` checks their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    Words = str | Sequence[str]
    Moment = datetime | str


# -- options of queries


class _Filters(TypedDict, total=False):
    types: Words
    tags: Words | Mapping[str, Words]  # a tag finds those below it, too
    all_tags: Words
    not_tags: Words
    agents: Words
    time: str | tuple[Any, Any] | Mapping[str, Any]  # "last 24 hours", "2026-01", ("2026-01-05", "2026-01-10")
    since: Moment
    until: Moment
    where: Mapping[str, Any]  # {"severity": "critical", "impact.score": {"greater": 3}}
    min_priority: float
    min_importance: float
    min_relevance: float
    min_confidence: float | str
    confidence: float | str
    pinned: bool
    references: Any
    related_to: Any
    include_decayed: bool
    include_archived: bool
    include_deleted: bool
    include_expired: bool  # also what no longer holds or does not hold yet: valid_from, valid_until
    sessions: Words | None  # "all", or some
    session: str
    topic_in_text: bool
    at: Moment
    mode: str  # default, weighted or product


class _Page(_Filters, total=False):
    include_related: bool | int
    sort: str | Mapping[str, str] | Sequence[Any]
    offset: int
    count_by: Any
    track_access: bool


class RelevantOptions(_Page, total=False):
    """Those of `query` for `relevant_decisions` and `relevant_findings`, which have a topic and a limit of their own."""

    depth: int
    kinds: Words | None
    timeout: float


class TopicOptions(RelevantOptions, total=False):
    """Those of `query` for `by_topic`."""

    limit: int


class RelatedOptions(_Page, total=False):
    """Those of `query` for `find_related`, which has a depth and kinds of its own."""

    topic: Words
    limit: int
    timeout: float


class WatchOptions(_Page, total=False):
    """Those of `query` for `watch`, which has a timeout of its own."""

    topic: Words
    limit: int
    depth: int
    kinds: Words | None


class QueryOptions(WatchOptions, total=False):
    """Everything that `query` takes beside its text."""

    timeout: float


class Criteria(_Filters, total=False):
    """Which memories a deletion, restoration or erasure is about."""

    text: str
    ids: Any
    topic: Words
    depth: int
    kinds: Words | None
    timeout: float


# -- fields of memories


class CommonFields(TypedDict, total=False):
    """Fields of every type."""

    id: str
    author: str | None
    author_kind: str
    created: datetime | str
    turn_ref: str | int
    topic: str
    aliases: Sequence[str] | str  # other names of what it is about
    tags: Sequence[str] | str
    valid_from: date | str
    valid_until: date | str  # a day is included
    confidence: float | str
    importance: float | str
    pinned: bool
    references: Sequence[str] | Mapping[str, Any]
    relations: Sequence[Mapping[str, Any]]
    access: Mapping[str, Any]
    visibility: str
    trust: str | float
    idempotency_key: str


class TurnFields(CommonFields, total=False):
    kind: str


class DecisionFields(CommonFields, total=False):
    rationale: str
    alternatives_considered: Sequence[Any]
    alternatives: Sequence[Any]
    impact: Any
    reversible: bool | str
    approved_by: Sequence[str] | str
    agreed_by: Sequence[str] | str
    agents_involved: Sequence[str] | str
    status: str
    resolution: Any


class FindingFields(CommonFields, total=False):
    severity: str
    category: str
    evidence: Any
    recommendation: str
    location: Any
    impact: Any
    root_cause: str
    status: str
    resolution: Any


class PreferenceFields(CommonFields, total=False):
    preference: str
    category: str
    context: Any
    source: str
    applies_to: Any
    learned_from: Sequence[str] | str


class ArtifactFields(CommonFields, total=False):
    path: str
    format: str


class LearningFields(CommonFields, total=False):
    category: str
