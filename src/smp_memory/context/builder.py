"""Build the text that an agent gets in its prompt: the memories it needs now, best first, within a token budget.

    context = memory.context("architect", task="choose a database for orders", max_tokens=1500)
    prompt = f"{context}\n\n{question}"

With a task, what matches it comes first, in the order of a query, as much of it as the budget holds; the last turns, preferences and
standing instructions, open critical findings and the agent's state have small shares of their own (`smp_memory.context.lanes`). Without one it is
a digest for the start of a session: where the last one stopped, wishes, what is open, decided and learned; none of it takes all the room.
A topic and tags narrow what matches and what is new as they do a query; last turns, state and wishes stay, because they hold whatever the
task is about. If no memory has the topic or the tags, the context says so, and they count as words of the task.

Guarantees: `counter(str(context)) <= max_tokens`, whatever the counter; every memory is there once, with its date and id,
and the agent may see it; the same store, arguments and time give the same text. The text is fenced (`smp_memory.privacy.fence`):
marked as recalled data, and never stored again. Being recalled counts as use. Which sessions memories may come from is decided in
`smp_memory.context.visible_sessions`.

Callers import this module late and inside `with loading:`, because it loads the search.
"""

from __future__ import annotations

from smp_memory.context.budget import count_tokens, fit_lanes, one_line
from smp_memory.context.candidates import CandidateSearch
from smp_memory.context.lanes import SHARED_FILE_REASON, ContextLanes
from smp_memory.context.trace import ContextRequest
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import InvalidQuery
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.observe.telemetry import CONTEXT, observes
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope, unindexed_memories
from smp_memory.search.path import repeated_once
from smp_memory.search.query import Query
from smp_memory.search.ranking import uses_embeddings
from smp_memory.text.tokenizer import without_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from typing import Any

    from smp_memory.context.budget import ContextItem, Lane
    from smp_memory.context.trace import ContextTrace
    from smp_memory.model.reports import Problem

MAX_TOKENS = 1500
LAST_TURNS = 20
MOST_TURNS = 1000


class Context:
    """The recalled memories: `str(context)` for the prompt, `items` for programs."""

    def __init__(
        self, text: str, items: list[ContextItem], tokens: int, max_tokens: int, asked: dict[str, Any], at: str
    ) -> None:
        self.text = text
        self.items = items
        self.tokens = tokens
        self.max_tokens = max_tokens
        self.asked = asked  # agent, task, topic, session, and tags, project and user if they were given
        self.at = at
        self.archived_not_searched = 0  # number of archived sessions, from which nothing is recalled
        self.notes: list[
            str
        ] = []  # topics, tags and a project that no memory or session has; they are in the text, too
        self.warnings: list[str] = []  # that memories were not searched by meaning although there is a model
        self.problems: list[Problem] = []  # unreadable entries of the sessions that were searched

    @property
    def ids(self) -> list[str]:
        """`session/ID` of each memory, in the order of the text."""
        return [item.record.ref for item in self.items]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        data = {
            **self.asked,
            "at": self.at,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "items": [item.to_dict() for item in self.items],
            "text": self.text,
            **({"notes": self.notes} if self.notes else {}),
            **({"warnings": self.warnings} if self.warnings else {}),
            **({"archived_not_searched": self.archived_not_searched} if self.archived_not_searched else {}),
        }
        return {**data, "problems": [each.to_dict() for each in self.problems]} if self.problems else data

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    def __repr__(self) -> str:
        return f"Context({len(self.items)} memories, {self.tokens} of {self.max_tokens} tokens)"


@observes(CONTEXT)
def context(
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
    counter: Callable[[str], int] | None = None,
    turns: int = LAST_TURNS,
    at: datetime | str | None = None,
    track_access: bool = True,
    exclude: Collection[str] = (),
    visible_sessions: VisibleSessions | None = None,
    min_relevance: float | None = None,
    trace: ContextTrace | None = None,
) -> Context:
    """Build the context of an agent.

    agent        whose state is recalled and whose visibility holds; None sees what is shared.
    task         what the agent is about to do, in free text; without task, topic and tags the context is a digest.
    topic, tags  only memories with this topic, or with one of these tags, as in a query; a tag above another one includes it.
    project      not from sessions that name another project; default: that of the session.
    user         not from sessions of other users; default: that of the session. A session without a user, or no session, belongs to the
                 only user that the store's sessions name; if they name several, to none of them.
    session      a session or its id; it must exist. Its last turns are recalled. None: the visible session with the newest turn.
    counter      counts the tokens of a text; default: a quarter of its characters.
    turns        the number of last turns, at most.
    exclude      refs of memories to leave out, which the agent has already.
    visible_sessions  instead of those that session, user and project say.
    min_relevance  the floor for matches, instead of the setting `recall.min_pointer`.
    trace        gets what was considered and left out.
    """
    given = (("agent", agent), ("task", task), ("topic", topic), ("project", project), ("user", user))
    checked = {name: _check_text(name, value) for name, value in given}
    checked_tags = Query({"tags": tags}, scope.now()).tags
    _check_int("max_tokens", max_tokens, 1 << 40)
    _check_int("turns", turns, MOST_TURNS)
    name = _session_id(session)
    visible = visible_sessions or VisibleSessions(scope.store, name, user=checked["user"], project=checked["project"])
    now = scope.now() if at is None else to_moment(parse(at, "at"))
    request = ContextRequest(
        checked["agent"],
        checked["task"],
        checked["topic"],
        name,
        turns,
        now,
        scope.policy(),
        visible,
        max_tokens,
        checked_tags,
        exclude,
        scope.config["recall.min_pointer"] if min_relevance is None else min_relevance,
        trace,
    )
    if checked["project"] and not visible.has_project():
        request.notes.append(f"No session names the project {project!r}.")
    problems: list[Problem] = []
    text, chosen, search = _build(scope, request, counter, problems)
    if track_access and chosen:
        scope.note_access([item.record for item in chosen if item.why != SHARED_FILE_REASON])
    asked: dict[str, Any] = {name: checked[name] for name in ("agent", "task", "topic")}
    asked |= {name: value for name, value in (("tags", checked_tags), *list(checked.items())[3:]) if value}
    asked["session"] = search.default_session
    result = Context(text, chosen, (counter or count_tokens)(text), max_tokens, asked, to_text(now))
    result.archived_not_searched = sum(each.has_memories for each in scope.store.sessions(ARCHIVED))
    result.notes, result.warnings = search.notes, search.warnings
    result.problems = problems
    return result


def _build(
    scope: Scope, request: ContextRequest, counter: Callable[[str], int] | None, problems: list[Problem]
) -> tuple[str, list[ContextItem], CandidateSearch]:
    """The text, its items, and the search that found them. Unreadable entries are added to `problems`."""
    viewer = Viewer(request.agent)
    scope.store.check_open()
    shared = [
        record
        for name, histories in sorted(
            unindexed_memories(scope.store).items(), key=lambda each: each[0] != request.session
        )
        for history in histories.values()
        if request.visible_sessions.allows(name) and (record := history.record(name)) and viewer.sees(record)
    ]
    by_meaning = bool(request.task) and uses_embeddings(Query({"text": without_signs(request.task or "")}, request.now))

    def select() -> tuple[str, list[ContextItem], CandidateSearch, list[Lane]]:
        index = scope.store.indexer
        if request.trace is not None:
            request.trace.clear()
        with index.snapshot(all_sessions=True, by_meaning=by_meaning):
            search = CandidateSearch(index, viewer, request)
            candidates = search.collect()
            unreadable = index.candidates(CandidateRequest(limit=0, fetch=[PROBLEMS])).problems
            allows = request.visible_sessions.allows
            problems[:] = [each for name, found in unreadable.items() if allows(name) for each in found]
            lanes = ContextLanes(index, viewer, request, search, shared)
            given = lanes.lanes(candidates)
            if counter is not None:  # the caller's code, which may be slow or fail: not while others wait for the index
                return "", [], search, lanes.enough_for(given)
            text, chosen = _fit(given, request, search, count_tokens)
            if request.trace is not None:
                request.trace.session, request.trace.floor = search.default_session, request.min_relevance
                request.trace.finish(given, index, viewer)
            return text, chosen, search, []

    text, chosen, search, lanes = repeated_once(select)
    if counter is not None:
        text, chosen = _fit(lanes, request, search, counter)
    return text, chosen, search


def _fit(
    lanes: list[Lane], request: ContextRequest, search: CandidateSearch, counter: Callable[[str], int]
) -> tuple[str, list[ContextItem]]:
    agent = f"For {request.agent}." if request.agent else ""
    heading = one_line(" ".join(part for part in (agent, *search.notes) if part))
    return fit_lanes(lanes, heading, request.max_tokens, counter, search.default_session)


def _session_id(session: Any) -> str | None:
    if session is None:
        return None
    name = getattr(session, "id", session)
    if not isinstance(name, str):
        raise InvalidQuery(f"session: give a session or its id, not {session!r}.", field="session")
    return name


def _check_text(field: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        raise InvalidQuery(f"{field}: must be text, not {type(value).__name__}.", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        message = f"{field}: not valid text, a lone surrogate at position {error.start}."
        raise InvalidQuery(message, field=field) from None
    return value


def _check_int(field: str, value: Any, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
        raise InvalidQuery(f"{field}: must be a whole number from 0 to {high}, not {value!r}.", field=field, limit=high)
