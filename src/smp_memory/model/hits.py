"""Search results: hits with score, relevance, priority and explanation, and related memories."""

from __future__ import annotations

from typing import NamedTuple

from smp_memory.model.record import html_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem


class Hit:
    """One search result. The fields of its record are attributes of the hit, too: `hit.decision`, `hit.tags`."""

    __slots__ = ("_explain", "_relevance", "archived", "outdated_by", "priority", "record", "related", "score", "superseded_by")  # fmt: skip

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
        self.archived: str | None = None  # with include_archived: the cold segment or archive that holds it

    @property
    def relevance(self) -> float:
        """The probability that the memory answers the query, comparable across queries and stores (`search.relevance`)."""
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
        if self.archived:
            found["archived"] = self.archived
        if self.related:
            found["related"] = [record.to_dict() for record in self.related]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled hit carries its explanation; it needs no index when it is read again."""
        figures = self.score, self.relevance, self.priority
        others = self.archived, self.superseded_by, self.outdated_by
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
) -> Hit:
    hit = Hit(record, score, priority, lambda record: explanation, lambda record: relevance, related)
    hit.archived, hit.superseded_by, hit.outdated_by = archived, superseded_by, outdated_by
    return hit


def _figures(hit: Hit) -> tuple[str, str]:
    return f"{hit.relevance:.3f}", f"{hit.priority:.3f}"


class LeftOut(NamedTuple):
    """A session that another process archived or deleted during the search."""

    session: str
    reason: str  # archived or deleted


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
        self.left_out = left_out or []  # sessions of which nothing is here, because they were put away meanwhile
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
        """The hits that are relevant enough for hooks and contexts to hand them on unasked (`recall.min_relevance`)."""
        return [hit for hit in self if hit.relevance >= self.min_relevance]

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
