"""Preview of what an agent is told: the exact text, each memory in it with its reason, and what was left out and why.

    preview = memory.preview("architect", task="choose a database")
    preview.text           what `memory.context("architect", task=…)` would give now
    preview.left_out       memories that were considered or that match the task, each with a reason

The text comes from the code that builds contexts (`smp_memory.context.builder`), which fills a trace; this module reads the trace. What
the agent's search cannot meet, because it is hidden from the agent, of another user, expired or ranked too low, is found by a second
search as the owner of the scope sees the store.

Guarantees: nothing is written, no lock is taken, nothing counts as used. The text is that of the context for the same store, arguments
and time, but for the nonce of its fence. Of the first `limit` memories that match the task's words each is included or left out with a
reason; `left_out_count` counts all that match. A preview of a scope with a viewer shows nothing that this viewer may not see.
Non-guarantees: without a task, memories that were too old to be considered are not listed. Between the two searches another process may write.
"""

from __future__ import annotations

from smp_memory.context.budget import count_tokens, section_of
from smp_memory.context.builder import LAST_TURNS, MAX_TOKENS, context
from smp_memory.context.candidates import CandidateSearch
from smp_memory.context.trace import (
    BELOW_FLOOR,
    CUT,
    EXPIRED,
    HIDDEN,
    MATCHES,
    MUTED,
    MUTED_DETAIL,
    NO_ROOM,
    NOT_FOR_AGENT,
    NOT_YET,
    OTHER_LABELS,
    OTHER_USER,
    REPEATED_TEXT,
    SHARE_USED,
    ContextRequest,
    ContextTrace,
    TracedMemory,
)
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import InvalidQuery, SMPError
from smp_memory.model.previews import Preview, PreviewItem
from smp_memory.model.session_info import names_of
from smp_memory.model.times import is_valid, parse, to_microseconds, to_moment, validity, validity_text
from smp_memory.model.types import KINDS
from smp_memory.privacy import fence
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search.path import search
from smp_memory.search.query import Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime
    from typing import Any

    from smp_memory.context.budget import ContextItem
    from smp_memory.context.builder import Context
    from smp_memory.model.candidates import Hit, Hits
    from smp_memory.model.record import Record
    from smp_memory.store.port import Store

LIMIT = 200  # memories that match and are looked at, and memories that are listed as left out
FRAME = "frame"  # in `shares`: the fence, its note, headings, names of sessions, notices


def preview_context(
    scope: Scope,
    agent: str | None = None,
    task: str | None = None,
    topic: str | None = None,
    *,
    tags: str | Sequence[str] | None = None,
    project: str | None = None,
    user: str | None = None,
    session: Any = None,
    max_tokens: int = MAX_TOKENS,
    turns: int = LAST_TURNS,
    min_relevance: float | None = None,
    at: datetime | str | None = None,
    limit: int = LIMIT,
) -> Preview:
    """What `context` with these arguments gives, and what it leaves out.

    min_relevance  the floor for matches; default: the setting `recall.min_pointer`.
    limit          how many matches are looked at, and how many memories are listed as left out.
    """
    check_floor(min_relevance)
    now = scope.now() if at is None else to_moment(parse(at, "at"))
    trace = ContextTrace()
    found = context(
        scope, agent, task, topic, tags=tags, project=project, user=user, session=session, max_tokens=max_tokens,
        turns=turns, at=now, track_access=False, min_relevance=min_relevance, trace=trace,
    )  # fmt: skip
    name = getattr(session, "id", session)
    visible = VisibleSessions(scope.store, name, user=found.asked.get("user"), project=found.asked.get("project"))
    narrow = {"topic": topic, "tags": found.asked.get("tags")} if trace.is_narrowed else {}
    return preview_of(scope, "context", found, trace, visible, now, narrow=narrow, turns=turns, limit=limit)


def check_floor(value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1):
        raise InvalidQuery(
            f"min_relevance: must be a number from 0 to 1, not {value!r}.", field="min_relevance", limit=1
        )


def preview_of(
    scope: Scope,
    kind: str,
    found: Context,
    trace: ContextTrace,
    visible: VisibleSessions,
    now: datetime,
    *,
    narrow: dict[str, Any] | None = None,
    turns: int = LAST_TURNS,
    limit: int = LIMIT,
    text: str | None = None,
) -> Preview:
    """The preview of a context that was built with a trace; `text`: the context with notices around it."""
    preview = Preview(kind, found.max_tokens, trace.floor)
    preview.text = found.text if text is None else text
    preview.tokens = count_tokens(preview.text)
    preview.notes, preview.warnings, preview.problems = [*found.notes], [*found.warnings], [*found.problems]
    preview.archived_not_searched = found.archived_not_searched
    agent = found.asked["agent"]
    owner = OwnerSearch(scope, Viewer(agent), visible, now, limit)
    request = ContextRequest(
        agent, found.asked["task"], found.asked["topic"], found.asked["session"], turns, now, scope.policy(),
        AllSessions(scope.store), found.max_tokens, found.asked.get("tags", ()), (), trace.floor,
    )  # fmt: skip
    complete(preview, found.items, trace, owner, narrow or {}, request)
    return preview


def _nothing_because(preview: Preview) -> str:
    if not preview.left_out:
        return "no memory was found"
    if all(item.reason == BELOW_FLOOR for item in preview.left_out):
        return f"no memory is relevant enough; the floor is {preview.min_relevance:g}"
    if all(item.reason in (NO_ROOM, SHARE_USED) for item in preview.left_out):
        return f"no memory fits into {preview.max_tokens:,} tokens"
    return "every memory that was found is left out"


def complete(
    preview: Preview,
    chosen: list[ContextItem],
    trace: ContextTrace,
    owner: OwnerSearch,
    narrow: dict[str, Any],
    request: ContextRequest | None,
) -> None:
    """Fill in what was included and left out: from the trace, then from the search as the owner."""
    offered = {id(each.item): each for each in trace.offered}
    preview.included = [_included(offered[id(item)]) for item in chosen]
    _set_lines(preview, chosen)
    included = {item.ref: item for item in preview.included}
    left_out: dict[str, PreviewItem] = {}
    for traced in (*_best_first(trace.offered), *trace.dropped.values()):
        if traced.record is not None and traced.record.ref not in included and traced.record.ref not in left_out:
            left_out[traced.record.ref] = _left_out(traced, trace, preview, chosen)
    total = 0
    if trace.words:
        hits = owner.hits(trace.words)
        total = sum(hits.counts.get("type", {}).values())
        with_labels = {hit.record.ref for hit in owner.hits(trace.words, narrow)} if narrow else None
        for rank, hit in enumerate(hits, 1):
            ref = hit.record.ref
            total -= 1 + len(hit.echoes)
            if ref in included:
                _add_match(included[ref], hit)
            elif ref in left_out:
                _add_match(left_out[ref], hit)
            else:
                left_out[ref] = owner.left_out_hit(hit, rank, with_labels)
    if request is not None:
        for item in owner.unseen_candidates(request, {*included, *left_out}):
            left_out[item.ref] = item
    preview.left_out = sorted(left_out.values(), key=_order)[: owner.limit]
    preview.left_out_count = len(left_out) + max(total, 0)
    if not preview.included:
        preview.nothing_because = trace.nothing_because or _nothing_because(preview)
    _set_shares(preview)


def _add_match(item: PreviewItem, hit: Hit) -> None:
    """Complete an item that was considered for another reason, and matches, too."""
    if item.relevance is None:
        item.score, item.relevance, item.explain = hit.score, hit.relevance, hit.explain


def _best_first(offered: list[TracedMemory]) -> list[TracedMemory]:
    """A memory that came in several ways counts as a match if it is one."""
    return sorted(offered, key=lambda each: each.lane not in MATCHES)


def _order(item: PreviewItem) -> tuple[Any, ...]:
    return item.relevance is None, -(item.score or 0.0), item.ref


def _item_of(traced: TracedMemory) -> PreviewItem:
    assert traced.record is not None
    item = PreviewItem(traced.record, traced.section, traced.lane, traced.why)
    item.score, item.relevance, item.explain = traced.score, traced.relevance, traced.explain
    return item


def _included(traced: TracedMemory) -> PreviewItem:
    item = _item_of(traced)
    item.why = _WHY.get(traced.lane, "") or traced.why
    if traced.item is not None:
        item.section = traced.item.section
    return item


_WHY = {"matches": "matches the task", "written": "matches the task, and was written down", "state": "its own state", "pointers": "may help; only pointed at"}  # fmt: skip


def _left_out(traced: TracedMemory, trace: ContextTrace, preview: Preview, chosen: list[ContextItem]) -> PreviewItem:
    item = _item_of(traced)
    item.reason, item.detail = traced.reason, traced.detail
    if item.reason:
        return item
    repeats = traced.item.repeats or _same_text(traced.item, chosen) if traced.item is not None else ""
    if repeats:
        item.reason, item.detail = REPEATED_TEXT, f"{repeats} says the same"
    else:
        item.reason, item.detail = _no_room(traced, trace.shares.get(traced.lane), preview)
    return item


def _same_text(item: ContextItem, chosen: list[ContextItem]) -> str:
    """A memory in the context with the same text as one that the budget did not ask for any more."""
    text = item.text.casefold()
    return next((each.record.ref for each in chosen if each.text.casefold() == text), "")


def _no_room(traced: TracedMemory, share: float | None, preview: Preview) -> tuple[str, str]:
    """The reason and its detail: the budget is used up, or only the part of it for this kind of memory."""
    most, line = preview.max_tokens, traced.item.line if traced.item is not None else ""
    if preview.tokens + count_tokens(line) > most:
        return NO_ROOM, f"the budget of {most:,} tokens was used up"
    part = f", {int(share * most):,} of {most:,} tokens," if share is not None else ""
    return SHARE_USED, f"the share of its kind of memories{part} was used up"


def _set_lines(preview: Preview, chosen: list[ContextItem]) -> None:
    """Find the line of each item in the text, in its order."""
    lines = iter(preview.text.split("\n"))
    for item, source in zip(preview.included, chosen, strict=True):
        forms = fence.escape_marks(source.line), fence.escape_marks(source.line_in_group)
        item.line = next((line for line in lines if line in forms), forms[0])
        item.tokens = count_tokens(item.line)


def _set_shares(preview: Preview) -> None:
    for item in preview.included:
        preview.shares[item.lane] = preview.shares.get(item.lane, 0) + item.tokens
    if preview.tokens:
        preview.shares[FRAME] = preview.tokens - sum(preview.shares.values())


# -- what the agent's own search cannot meet


class AllSessions:
    """Every session of a store, for the owner's view."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allows(self, session: str) -> bool:
        return True

    def sessions(self) -> list[str]:
        return names_of(self._store.sessions())


class OwnerSearch:
    """Searches as the owner of a scope sees the store, and says why an agent does not get what is found."""

    def __init__(self, scope: Scope, viewer: Viewer, visible: VisibleSessions, now: datetime, limit: int) -> None:
        self._scope = Scope(scope.store, None, scope.config, scope.clock, viewer=scope.viewer)
        self._viewer = viewer
        self._visible = visible
        self._now = now
        self._at = to_microseconds(now)
        self.limit = limit

    def hits(self, words: str, narrow: dict[str, Any] | None = None) -> Hits:
        options = {"text": words, "limit": self.limit, "include_expired": True, "at": self._now, "count_by": ["type"]}
        return search(self._scope, Query({**options, **(narrow or {})}, self._now))

    def left_out_hit(self, hit: Hit, rank: int, with_labels: Collection[str] | None) -> PreviewItem:
        record = hit.record
        item = PreviewItem(record, section_of(record.type), "matches", "matches")
        item.score, item.relevance, item.explain = hit.score, hit.relevance, hit.explain
        item.reason, item.detail = self.reason(record) or self._other_reason(record, rank, with_labels)
        return item

    def reason(self, record: Record) -> tuple[str, str] | None:
        """Why the agent cannot get a memory, whatever its rank: hidden, of another user, turned off, not valid."""
        if not self._viewer.sees(record):
            return HIDDEN, _hidden_detail(record)
        if not self._visible.allows(record.session):
            return OTHER_USER, self._session_detail(record.session)
        if record.muted:
            return MUTED, MUTED_DETAIL
        if not is_valid(record.given, self._at):
            since, _ = validity(record.given)
            is_later = since is not None and since > self._at
            return NOT_YET if is_later else EXPIRED, validity_text(record.given)
        return None

    def _other_reason(self, record: Record, rank: int, with_labels: Collection[str] | None) -> tuple[str, str]:
        if KINDS[record.type].is_named_by_agent:
            return NOT_FOR_AGENT, f"the state of {record.given.get('agent')} in {record.session}"
        if with_labels is not None and record.ref not in with_labels:
            return OTHER_LABELS, "has neither the topic nor the tags"
        return CUT, f"rank {rank} of the matches, which is too low to be considered for this budget"

    def _session_detail(self, session: str) -> str:
        try:
            info = self._scope.store.session(session).info()
        except (SMPError, OSError):
            return f"the metadata of session {session} cannot be read"
        parts = [f"{name} {value}" for name, value in (("user", info.user), ("project", info.project)) if value]
        return f"session {session} is of {' and '.join(parts)}" if parts else f"session {session} is not shared"

    def unseen_candidates(self, request: ContextRequest, known: Collection[str]) -> Iterator[PreviewItem]:
        """What would be a candidate for another reason than matching, if it were not hidden, of another user or not valid."""

        index, viewer = self._scope.store.indexer, self._scope.viewer
        with index.snapshot(all_sessions=True):
            lanes = CandidateSearch(index, viewer, request).collect()
            found = [(lane, each) for lane, those in lanes.items() if lane not in MATCHES for each in those]
            records = index.records([each.candidate for _, each in found], viewer)
        seen = set(known)
        for lane, candidate in found:
            record = records.get(candidate.ref)
            if record is None:
                continue
            reason = None if record.ref in seen or record.deleted else self.reason(record)
            if reason is not None:
                seen.add(record.ref)
                item = PreviewItem(record, candidate.section, lane, candidate.why)
                item.score = candidate.score
                item.reason, item.detail = reason
                yield item


def _hidden_detail(record: Record) -> str:
    if KINDS[record.type].is_named_by_agent:
        return f"the state of {record.given.get('agent')}, which only {record.given.get('agent')} sees"
    return f"private to {record.author}" if record.author else "private, and without an author nobody sees it"
