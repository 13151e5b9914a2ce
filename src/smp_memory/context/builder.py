"""Build the text that an agent gets in its prompt: the memories it needs now, best first, within a token budget.

    context = memory.context("architect", task="choose a database for orders", max_tokens=1500)
    prompt = f"{context}\n\n{question}"

Guarantees: `counter(str(context)) <= max_tokens`, whatever the counter; every memory is there once, with its date and id,
and the agent may see it; the same store, arguments and time give the same text. The text is fenced (`smp_memory.privacy.fence`):
marked as recalled data, and never stored again. Being recalled counts as use. Which sessions memories may come from is decided in
`smp_memory.context.visible_sessions`.
Without a task it is a digest for the start of a session: where the last one stopped, what was decided, what is open.

Callers import this module late and inside `with loading:`, because it loads the search.
"""

from __future__ import annotations

from smp_memory.context.budget import count_tokens, fit_to_budget, one_line
from smp_memory.context.candidates import SHARED_FILE_REASON, CandidateSearch, ContextRequest
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import InvalidQuery
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search.query import Query
from smp_memory.search.ranking import uses_embeddings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from smp_memory.context.budget import ContextItem
    from smp_memory.model.reports import Problem
    from smp_memory.store.port import IndexSearcher

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
        self.asked = asked  # agent, task, topic, session
        self.at = at
        self.archived_not_searched = 0  # number of archived sessions, from which nothing is recalled
        self.problems: list[Problem] = []  # unreadable entries of the sessions that were searched

    @property
    def ids(self) -> list[str]:
        """`session/ID` of each memory, in the order of the text."""
        return [item.record.ref for item in self.items]

    def to_dict(self) -> dict[str, Any]:
        data = {
            **self.asked,
            "at": self.at,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "items": [item.to_dict() for item in self.items],
            "text": self.text,
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


def context(
    scope: Scope,
    agent: str | None = None,
    task: str | None = None,
    topic: str | None = None,
    *,
    session: Any = None,
    max_tokens: int = MAX_TOKENS,
    counter: Callable[[str], int] | None = None,
    turns: int = LAST_TURNS,
    at: datetime | str | None = None,
    track_access: bool = True,
    visible_sessions: VisibleSessions | None = None,
) -> Context:
    """Build the context of an agent.

    agent        whose state is recalled and whose visibility holds; None sees what is shared.
    task, topic  what the agent is about to do, in free text; without both the context is a digest.
    session      a session or its id; it must exist. Its last turns are recalled, and its user decides which sessions are visible.
                 None: the session with the newest turn, and all sessions are visible.
    counter      counts the tokens of a text; default: a quarter of its characters.
    turns        the number of last turns, at most.
    visible_sessions  instead of those of `session`, for a session that does not exist yet.
    """
    checked_agent, checked_task, checked_topic = (
        _check_text(name, value) for name, value in (("agent", agent), ("task", task), ("topic", topic))
    )
    _check_int("max_tokens", max_tokens, 1 << 40)
    _check_int("turns", turns, MOST_TURNS)
    name = _session_id(session)
    if visible_sessions is None and name is not None:
        visible_sessions = VisibleSessions(scope.store, name)
    now = scope.now() if at is None else to_moment(parse(at, "at"))
    request = ContextRequest(
        checked_agent, checked_task, checked_topic, name, turns, now, scope.policy(), visible_sessions
    )
    problems: list[Problem] = []
    text, chosen, default_session = _build(scope, request, max_tokens, counter, problems)
    if track_access and chosen:
        scope.note_access([item.record for item in chosen if item.why != SHARED_FILE_REASON])
    asked = {"agent": checked_agent, "task": checked_task, "topic": checked_topic, "session": default_session}
    result = Context(text, chosen, (counter or count_tokens)(text), max_tokens, asked, to_text(now))
    result.archived_not_searched = scope.store.archived_count()
    result.problems = problems
    return result


def _build(
    scope: Scope,
    request: ContextRequest,
    max_tokens: int,
    counter: Callable[[str], int] | None,
    problems: list[Problem],
) -> tuple[str, list[ContextItem], str | None]:
    """The text, its items, and the session whose ids are given without a session. Unreadable entries are added to `problems`."""
    viewer = Viewer(request.agent)
    visible = Scope(scope.store, None, scope.config, scope.clock, viewer=viewer)
    scope.store.check_open()
    shared = [record for record in scope.store.shared_records(None, GLOBAL_SESSION) if viewer.sees(record)]

    def select(searcher: IndexSearcher) -> tuple[str, list[ContextItem], str | None]:
        search = CandidateSearch(searcher, request, shared)
        search.collect()
        allows = request.visible_sessions.allows if request.visible_sessions is not None else None
        problems[:] = searcher.problems(None, allows)
        if counter is None:
            heading = _heading(request, search.default_session)
            text, chosen = fit_to_budget(search.items(), heading, max_tokens, count_tokens)
        else:  # the caller's code, which may be slow or fail: not while others wait for the index
            text, chosen = "", search.enough_for(max_tokens)
        return text, chosen, search.default_session

    by_meaning = bool(request.words) and uses_embeddings(Query({"text": request.words}, request.now))
    result: tuple[str, list[ContextItem], str | None] = visible.answer(None, select, by_meaning=by_meaning)
    if counter is None:
        return result
    _, items, default_session = result
    return *fit_to_budget(items, _heading(request, default_session), max_tokens, counter), default_session


def _heading(request: ContextRequest, default_session: str | None) -> str:
    agent = f"For {request.agent}." if request.agent else ""
    session = f"Ids without a session are of {default_session}." if default_session else ""
    return one_line(" ".join(part for part in (agent, session) if part))


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
