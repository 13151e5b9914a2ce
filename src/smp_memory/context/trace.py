"""Trace of a context: what was offered to the token budget, what was dropped before it, and for which reason.

The functions that build a context, and hooks, fill a trace if they are given one. In normal use there is none, and nothing is collected. So
a preview (`smp_memory.context.preview`) reports on the code that runs, not on a copy of it.

Guarantees: a trace changes neither the text nor the order. All memories in it are as the viewer of the context may see them.
"""

from __future__ import annotations

from smp_memory.context.budget import section_of
from smp_memory.model.statuses import SETTLED, SUPERSEDED
from smp_memory.search.succession import OUTDATED, REPEATS, SILENCED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime
    from typing import Any, Protocol

    from smp_memory.context.budget import ContextItem, Lane
    from smp_memory.model.candidates import Candidate, Hit
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.port import SearchIndex

    class SessionFilter(Protocol):
        """Which sessions a context may contain (`smp_memory.context.visible_sessions`)."""

        def allows(self, session: str) -> bool: ...

        def sessions(self) -> list[str]: ...


class ContextRequest:
    """The arguments of a context, checked."""

    __slots__ = (
        "agent", "exclude", "max_tokens", "min_relevance", "notes", "now", "policy", "session", "tags", "task", "topic", "trace",
        "turns", "visible_sessions",
    )  # fmt: skip

    def __init__(
        self,
        agent: str | None,
        task: str | None,
        topic: str | None,
        session: str | None,
        turns: int,
        now: datetime,
        policy: Any,
        visible_sessions: SessionFilter,
        max_tokens: int,
        tags: Sequence[str] = (),
        exclude: Collection[str] = (),
        min_relevance: float = 0.0,
        trace: ContextTrace | None = None,
    ) -> None:
        self.agent = agent
        self.task = task
        self.topic = topic
        self.tags = list(tags)
        self.session = session
        self.turns = turns
        self.now = now
        self.policy = policy
        self.visible_sessions = visible_sessions
        self.max_tokens = max_tokens
        self.notes: list[str] = []  # what the answer has to say
        self.exclude = exclude  # refs of memories that are left out
        self.min_relevance = min_relevance  # matches below it are left out
        self.trace = trace  # gets what is considered and left out; None: nobody asks


# -- reasons for which a memory is left out

BELOW_FLOOR = "below the floor"
EXPIRED = "expired"
NOT_YET = "not valid yet"
HIDDEN = "hidden"
NO_ROOM = "no room"
SHARE_USED = "share used up"  # of its kind, while there was room for others
ALREADY_TOLD = "already told"
SAID_HERE = "said in this conversation"
OTHER_USER = "other user or project"
REPEATED_KEY = "repeated key"
REPEATED_TEXT = "repeated text"
NOT_FOR_AGENT = "not for this agent"
OTHER_LABELS = "other topic or tags"
MUTED = "turned off for recall"
MUTED_DETAIL = "somebody turned it off; `smp unmute` turns it on again"
CUT = "cut by limit"
REASONS = (
    BELOW_FLOOR, SUPERSEDED, OUTDATED, SILENCED, REPEATS, EXPIRED, NOT_YET, SETTLED, HIDDEN, NO_ROOM, SHARE_USED, ALREADY_TOLD, SAID_HERE, OTHER_USER, REPEATED_KEY,
    REPEATED_TEXT, NOT_FOR_AGENT, OTHER_LABELS, MUTED, CUT,
)  # fmt: skip

MATCHES = ("matches", "written")  # lanes of memories that match the task


class ContextCandidate:
    """A candidate that may become a context item, before its memory is read."""

    __slots__ = ("candidate", "explain", "ref", "relevance", "score", "section", "why")

    def __init__(
        self,
        candidate: Candidate,
        section: str,
        score: float,
        why: str,
        relevance: Callable[[Record], float] | None = None,
        explain: Callable[[Record], dict[str, Any]] | None = None,
    ) -> None:
        self.candidate = candidate
        self.ref = candidate.ref
        self.section = section
        self.score = score
        self.why = why
        self.relevance = relevance  # of a match, given its record
        self.explain = explain  # the parts of its score, the same way


class TracedMemory:
    """A memory that was considered: by which lane, with which score, and why it was dropped if it was."""

    __slots__ = ("_explain", "_relevance", "candidate", "detail", "explain", "item", "lane", "reason", "record", "relevance", "score", "section", "why")  # fmt: skip

    def __init__(
        self,
        lane: str,
        section: str,
        score: float,
        why: str,
        record: Record | None = None,
        candidate: Candidate | None = None,
    ) -> None:
        self.lane = lane
        self.section = section
        self.score = score
        self.why = why
        self.record = record  # None until `read`
        self.candidate = candidate
        self.item: ContextItem | None = None  # as it was offered to the budget
        self.reason = self.detail = ""
        self.relevance: float | None = None
        self.explain: dict[str, Any] = {}
        self._relevance: Callable[[Record], float] | None = None
        self._explain: Callable[[Record], dict[str, Any]] | None = None

    def compute(self) -> None:
        """Compute relevance and score parts, which the context itself does only for some memories."""
        if self.record is not None and self._relevance is not None and self._explain is not None:
            self.relevance, self.explain = self._relevance(self.record), self._explain(self.record)


class ContextTrace:
    """Everything that was considered for one context or one prompt."""

    def __init__(self) -> None:
        self.offered: list[TracedMemory] = []
        self.dropped: dict[str, TracedMemory] = {}  # by ref; the first reason counts
        self.shares: dict[str, float] = {}  # the largest share of the budget of each lane
        self.words = ""  # what was searched for
        self.is_narrowed = False  # whether topic and tags narrowed the search
        self.session: str | None = None  # whose ids are given without a session
        self.nothing_because = ""
        self.floor = 0.0
        self.max_tokens = 0
        self.warnings: list[str] = []  # of searches at a prompt
        self.problems: list[Problem] = []

    def clear(self) -> None:
        """Forget everything: the search begins again."""
        self.offered.clear()
        self.dropped.clear()

    # -- contexts

    def offer(self, lane: str, candidate: ContextCandidate | None, item: ContextItem) -> None:
        traced = TracedMemory(lane, item.section, item.score, item.why, item.record)
        traced.item = item
        if candidate is not None:
            traced._relevance, traced._explain = candidate.relevance, candidate.explain
        self.offered.append(traced)

    def drop(
        self, lane: str, candidate: ContextCandidate, reason: str, detail: str = "", record: Record | None = None
    ) -> None:
        if candidate.ref not in self.dropped:
            traced = TracedMemory(lane, candidate.section, candidate.score, candidate.why, record, candidate.candidate)
            traced._relevance, traced._explain = candidate.relevance, candidate.explain
            traced.reason, traced.detail = reason, detail
            self.dropped[candidate.ref] = traced

    def finish(self, lanes: Iterable[Lane], index: SearchIndex, viewer: Viewer | None) -> None:
        """Draw what the budget did not ask for, which offers or drops it, and read the records of dropped candidates."""
        for lane in lanes:
            for _ in lane.items:
                pass
        unread = [each for each in self.dropped.values() if each.record is None]
        records = index.records([each.candidate for each in unread if each.candidate is not None], viewer)
        for traced in unread:
            if traced.candidate is not None:
                traced.record = records.get(traced.candidate.ref)
        for traced in (*self.offered, *self.dropped.values()):
            traced.compute()

    # -- prompts

    def offer_hit(self, hit: Hit, item: ContextItem) -> None:
        traced = _of_hit(hit, item.section, item.why)
        traced.lane = "pointers" if item.is_pointer else traced.lane
        traced.item = item
        self.offered.append(traced)

    def drop_hit(self, hit: Hit, reason: str, detail: str = "") -> None:
        if hit.record.ref not in self.dropped:
            traced = self.dropped[hit.record.ref] = _of_hit(hit, section_of(hit.record.type), "matches the prompt")
            traced.reason, traced.detail = reason, detail


def describe_replaced(reason: str, other: str) -> str:
    """Why a memory does not hold; `other` is its status, or the memory that took its place."""
    if reason == SETTLED:
        return f"its status is {other}"
    if reason == REPEATS:
        return f"repeats {other}"
    return f"superseded by {other}" if reason == SUPERSEDED else f"{other} says the same with a newer value"


def _of_hit(hit: Hit, section: str, why: str) -> TracedMemory:
    traced = TracedMemory("matches", section, hit.score, why, hit.record)
    traced.relevance, traced.explain = hit.relevance, hit.explain
    return traced


def below_floor(relevance: float, floor: float) -> str:
    return f"relevance {relevance_text(relevance, floor)}, the floor is {floor:g}"


def relevance_text(relevance: float, floor: float) -> str:
    """A relevance with two digits; with four if rounding would lift it to the floor."""
    text = f"{relevance:.2f}"
    return f"{relevance:.4f}" if relevance < floor <= float(text) else text
