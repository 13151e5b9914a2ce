"""What should this agent have in its prompt now? The right memories, best first, within a number of tokens.

    context = memory.context("architect", task="choose a database for orders", max_tokens=1500)
    prompt = f"{context}\n\n{question}"

Guarantees: `counter(str(context)) <= max_tokens`, whatever the counter; every memory is there once, with its date and id,
and the agent may see it; the same store, question and time give the same text. The text is fenced (`smp.agents.fence`):
marked as recalled data, and never stored again. Being recalled counts as use.
Without a task it is what helps at the start of a session: where the last one stopped, what was decided, what is open.
"""

from __future__ import annotations

from smp.agents import GLOBAL_SESSION
from smp.errors import InvalidQuery
from smp.loading import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from smp.agents.fitting import Item
    from smp.agents.gathering import Wanted
    from smp.agents.reach import Reach
    from smp.agents.seen import SeenFinder
    from smp.memory import Memory
    from smp.model.report import Problem
    from smp.session import SessionMemory

MAX_TOKENS = 1500
LAST_TURNS = 20
MOST_TURNS = 1000


_loaded: list[bool] = []


def load() -> None:
    """Load what makes a context; once, and while nobody forks."""
    if not _loaded:
        from smp import asking

        asking.load()
        with loading:
            pass
        _loaded.append(True)


class Context:
    """What was recalled: `str(context)` for the prompt, `items` for programs."""

    def __init__(
        self, text: str, items: list[Item], tokens: int, max_tokens: int, asked: dict[str, Any], at: str
    ) -> None:
        self.text = text
        self.items = items
        self.tokens = tokens
        self.max_tokens = max_tokens
        self.asked = asked  # agent, task, topic, session
        self.at = at
        self.archived_not_searched = 0  # archived sessions from which nothing is recalled
        self.problems: list[Problem] = []  # entries of the sessions gathered from that could not be read

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
    memory: Memory,
    agent: str | None = None,
    task: str | None = None,
    topic: str | None = None,
    *,
    session: str | SessionMemory | None = None,
    max_tokens: int = MAX_TOKENS,
    counter: Callable[[str], int] | None = None,
    turns: int = LAST_TURNS,
    at: datetime | str | None = None,
    track_access: bool = True,
    reach: Reach | None = None,
) -> Context:
    """What an agent should know now.

    agent       whose state is recalled, and who may see it; None sees what is shared.
    task, topic what it is about to do, in words as they come; without both: a digest.
    session     whose last turns are recalled, and whose user says which sessions may be gathered from; None: the session
                that was spoken in last, and all sessions may.
    counter     how many tokens a text has; default: a quarter of its characters.
    turns       how many last turns at most.
    reach       the sessions that may be gathered from, if the session cannot say it because it does not exist yet.
    """
    checked_agent, checked_task, checked_topic = (
        _text(name, value) for name, value in (("agent", agent), ("task", task), ("topic", topic))
    )
    _whole("max_tokens", max_tokens, 1 << 40)
    _whole("turns", turns, MOST_TURNS)
    name = _session_name(memory, session)
    load()
    from smp.agents.fitting import count_tokens
    from smp.agents.gathering import FROM_A_FILE, Wanted
    from smp.agents.reach import Reach
    from smp.model.time import parse, to_moment, to_text

    if reach is None and name is not None:
        reach = Reach(memory.store, name)
    now = memory.now() if at is None else to_moment(parse(at, "at"))
    wanted = Wanted(checked_agent, checked_task, checked_topic, name, turns, now, memory._policy(), reach)
    problems: list[Problem] = []
    text, chosen, home = _recalled(memory, wanted, max_tokens, counter, problems)
    if track_access and chosen:
        used = [item.record for item in chosen if item.why != FROM_A_FILE]
        memory._note_access(used, memory.now())
    asked = {"agent": checked_agent, "task": checked_task, "topic": checked_topic, "session": home}
    made = Context(text, chosen, (counter or count_tokens)(text), max_tokens, asked, to_text(now))
    made.archived_not_searched = memory.store.archived_count()
    made.problems = problems
    return made


def _recalled(
    memory: Memory, wanted: Wanted, max_tokens: int, counter: Callable[[str], int] | None, problems: list[Problem]
) -> tuple[str, list[Item], str | None]:
    """The text, what is in it, and the session whose ids need no session before them. `problems` gets unreadable entries."""
    from smp.agents.fitting import count_tokens, fitted
    from smp.agents.gathering import Gathering
    from smp.agents.seen import SeenStore
    from smp.agents.visibility import Viewer
    from smp.query.question import Question
    from smp.query.ranking import asks_by_meaning
    from smp.store.shared_files import all_shared

    viewer = Viewer(wanted.agent)
    store = SeenStore(memory.store, viewer, strict=True)
    store.check_open()
    shared = [record for record in all_shared(memory.store, GLOBAL_SESSION) if viewer.sees(record)]

    def look(finder: SeenFinder) -> tuple[str, list[Item], str | None]:
        gathering = Gathering(finder, wanted, shared)
        gathering.gather()
        problems[:] = finder.problems(None, wanted.reach.allows if wanted.reach is not None else None)
        if counter is None:
            text, chosen = fitted(gathering.items(), _head(wanted, gathering.home), max_tokens, count_tokens)
        else:  # somebody else's code, which may be slow or fail: not while others wait for the index
            text, chosen = "", gathering.enough_for(max_tokens)
        return text, chosen, gathering.home

    by_meaning = bool(wanted.words) and asks_by_meaning(Question({"text": wanted.words}, wanted.now))
    found: tuple[str, list[Item], str | None] = store.indexer.answer(None, look, by_meaning=by_meaning)
    if counter is None:
        return found
    _, items, home = found
    return *fitted(items, _head(wanted, home), max_tokens, counter), home


def _head(wanted: Wanted, home: str | None) -> str:
    from smp.agents.fitting import one_line

    parts = [f"For {wanted.agent}." if wanted.agent else "", f"Ids without a session are of {home}." if home else ""]
    return one_line(" ".join(part for part in parts if part))


def _session_name(memory: Memory, session: Any) -> str | None:
    """Of the session that is meant; it must be there, and one that is archived is brought back."""
    if session is None:
        return None
    name = getattr(session, "id", session)
    if not isinstance(name, str):
        raise InvalidQuery(f"session: give a session or its id, not {session!r}.", field="session")
    return memory.session(name).id


def _text(field: str, value: Any) -> str | None:
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


def _whole(field: str, value: Any, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
        raise InvalidQuery(f"{field}: must be a whole number from 0 to {high}, not {value!r}.", field=field, limit=high)
