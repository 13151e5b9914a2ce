"""What should this agent have in its prompt now? The right memories, best first, within a number of tokens.

    context = memory.context("architect", task="choose a database for orders", max_tokens=1500)
    prompt = f"{context}

{question}"

Guarantees: `counter(str(context)) <= max_tokens`, whatever the counter; every memory is there once, with its date and id,
and the agent may see it; the same store, question and time give the same text. The text is fenced (`smp_memory.privacy.fence`):
marked as recalled data, and never stored again. Being recalled counts as use.
Without a task it is what helps at the start of a session: where the last one stopped, what was decided, what is open.

Which sessions a context may gather from: the session's own user separates them.

    the session itself, and `global`     always
    sessions without a user              always
    sessions of the same user            always
    sessions of other users              only if `context.share_users` is on for them: in the store, or in that session's own settings

A session without a user, as hooks make them, belongs to the only user that the store's sessions name. If they name several, it is none of
theirs, and all sessions that have a user are those of others.

Guarantees: a session whose head cannot be read, so that nobody knows whose it is, counts as another user's.
Non-guarantees: `query` and everything that names sessions itself is not limited. Files are files.
"""

from __future__ import annotations

from os.path import join
from weakref import WeakKeyDictionary

from smp_memory.errors import InvalidQuery, SessionCorrupt, SMPError
from smp_memory.files.disk import identity
from smp_memory.import_lock import loading
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.scope import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from smp_memory.context.budget import ContextItem
    from smp_memory.context.candidates import ContextRequest
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.visible_index import VisibleFinder


MAX_TOKENS = 1500
LAST_TURNS = 20
MOST_TURNS = 1000


_loaded: list[bool] = []


def load() -> None:
    """Load what makes a context; once, and while nobody forks."""
    if not _loaded:
        from smp_memory.search import api

        api.load()
        with loading:
            pass
        _loaded.append(True)


class Context:
    """What was recalled: `str(context)` for the prompt, `items` for programs."""

    def __init__(
        self, text: str, items: list[ContextItem], tokens: int, max_tokens: int, asked: dict[str, Any], at: str
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
    reach: SessionReach | None = None,
) -> Context:
    """What an agent should know now.

    agent       whose state is recalled, and who may see it; None sees what is shared.
    task, topic what it is about to do, in words as they come; without both: a digest.
    session     a session or its id; it must exist. Its last turns are recalled, and its user says which sessions may be gathered from; None: the session
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
    name = _session_name(session)
    load()
    from smp_memory.context.budget import count_tokens
    from smp_memory.context.candidates import FROM_A_FILE, ContextRequest
    from smp_memory.model.times import parse, to_moment, to_text

    if reach is None and name is not None:
        reach = SessionReach(scope.store, name)
    now = scope.now() if at is None else to_moment(parse(at, "at"))
    wanted = ContextRequest(checked_agent, checked_task, checked_topic, name, turns, now, scope.policy(), reach)
    problems: list[Problem] = []
    text, chosen, home = _recalled(scope, wanted, max_tokens, counter, problems)
    if track_access and chosen:
        used = [item.record for item in chosen if item.why != FROM_A_FILE]
        scope.note_access(used)
    asked = {"agent": checked_agent, "task": checked_task, "topic": checked_topic, "session": home}
    made = Context(text, chosen, (counter or count_tokens)(text), max_tokens, asked, to_text(now))
    made.archived_not_searched = scope.store.archived_count()
    made.problems = problems
    return made


def _recalled(
    scope: Scope,
    wanted: ContextRequest,
    max_tokens: int,
    counter: Callable[[str], int] | None,
    problems: list[Problem],
) -> tuple[str, list[ContextItem], str | None]:
    """The text, what is in it, and the session whose ids need no session before them. `problems` gets unreadable entries."""
    from smp_memory.context.budget import count_tokens, fitted
    from smp_memory.context.candidates import CandidateSearch
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import uses_embeddings
    from smp_memory.store.design_shared_files import all_shared

    viewer = Viewer(wanted.agent)
    visible = Scope(scope.store, None, scope.config, scope.clock, viewer=viewer)
    scope.store.check_open()
    shared = [record for record in all_shared(scope.store, GLOBAL_SESSION) if viewer.sees(record)]

    def look(finder: VisibleFinder) -> tuple[str, list[ContextItem], str | None]:
        gathering = CandidateSearch(finder, wanted, shared)
        gathering.gather()
        problems[:] = finder.problems(None, wanted.reach.allows if wanted.reach is not None else None)
        if counter is None:
            text, chosen = fitted(gathering.items(), _head(wanted, gathering.home), max_tokens, count_tokens)
        else:  # somebody else's code, which may be slow or fail: not while others wait for the index
            text, chosen = "", gathering.enough_for(max_tokens)
        return text, chosen, gathering.home

    by_meaning = bool(wanted.words) and uses_embeddings(Query({"text": wanted.words}, wanted.now))
    found: tuple[str, list[ContextItem], str | None] = visible.answer(None, look, by_meaning=by_meaning)
    if counter is None:
        return found
    _, items, home = found
    return *fitted(items, _head(wanted, home), max_tokens, counter), home


def _head(wanted: ContextRequest, home: str | None) -> str:
    from smp_memory.context.budget import one_line

    parts = [f"For {wanted.agent}." if wanted.agent else "", f"Ids without a session are of {home}." if home else ""]
    return one_line(" ".join(part for part in parts if part))


def _session_name(session: Any) -> str | None:
    if session is None:
        return None
    name = getattr(session, "id", session)
    if not isinstance(name, str):
        raise InvalidQuery(f"session: give a session or its id, not {session!r}.", field="session")
    return name


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


SETTING = "context.share_users"
_read: WeakKeyDictionary[FileStore, dict[str, tuple[Any, SessionInfo]]] = (
    WeakKeyDictionary()
)  # heads, as long as their files are the same


class SessionReach:
    """The sessions that a context for one session, or for one without a user that does not exist yet, may gather from."""

    def __init__(self, store: FileStore, session: str | None) -> None:
        self._store = store
        self._session = session
        self._user = self._user_of(session) if session is not None else None
        self._known: dict[str, bool] = {}
        self._one_user: bool | None = None

    def allows(self, session: str) -> bool:
        """Whether memories of this session may be handed out."""
        if session not in self._known:
            self._known[session] = session in (self._session, GLOBAL_SESSION) or self._is_shared(session)
        return self._known[session]

    def sessions(self) -> list[str]:
        """All of them. Reads the head of every session, so it is asked only where another user's session was met."""
        return [name for name in self._store.session_ids() if self.allows(name)]

    def _is_shared(self, session: str) -> bool:
        try:
            info = self._head_of(session)
            if info.user is None or info.user == self._user or (self._user is None and self._has_one_user()):
                return True
            config = self._store.config
            return bool((config.override_session(info.config, session) if info.config else config)[SETTING])
        except (SMPError, OSError):
            return False

    def _has_one_user(self) -> bool:
        """Whether the sessions of the store name no more than one user. Reads their heads, once."""
        if self._one_user is None:
            users: set[str] = set()
            for name in self._store.session_ids():
                users.add(self._head_of(name).user or "")
                if len(users - {""}) > 1:
                    break
            self._one_user = len(users - {""}) <= 1
        return self._one_user

    def _user_of(self, session: str) -> str | None:
        try:
            return self._head_of(session).user
        except (SMPError, OSError):
            return None

    def _head_of(self, session: str) -> SessionInfo:
        store = self._store
        if not store.layout.info_file:  # the head is an entry of the log, which every write changes
            return self._head_in_log(session)
        path = join(store.layout.folder(store.root, session), store.layout.info_file)
        found = store.disk.stat(path)
        state = found and identity(found)
        heads = _read.setdefault(store, {})
        known = heads.get(session)
        if known is None or state is None or known[0] != state:
            known = heads[session] = (state, store.session(session).info())
        return known[1]

    def _head_in_log(self, session: str) -> SessionInfo:
        """The head among the entries. If there is none and a line cannot be read, that line may be it."""
        files = self._store.session(session)
        info = files.info()
        if info.user is None and info.is_assumed:
            files.view(lambda fold: None)  # reads what the process has not read yet
            if not files.unreadable():
                return info
            raise SessionCorrupt(f"The head of session {session} may be an entry that cannot be read.", session=session)
        return info
