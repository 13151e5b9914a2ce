"""The store as a hook reads it, and what a hook answers: the text to inject with the memories in it."""

from __future__ import annotations

from smp_memory.integrations.hooks.session_state import injection_mark
from smp_memory.model.times import Clock
from smp_memory.observe import incomplete
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.store.opening import open_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from smp_memory.config.settings import Config
    from smp_memory.context.budget import ContextItem
    from smp_memory.context.builder import Context
    from smp_memory.context.trace import ContextTrace
    from smp_memory.context.visible_sessions import VisibleSessions
    from smp_memory.integrations.hooks.session_state import HookSession
    from smp_memory.store.port import Store

_CATCH_UP_MS = 500
_MODEL_MS = 150  # a larger embedding model is used if it can be loaded in this time


class Reader:
    """A read-only scope of a store. A `Memory` loads twice as much, and maintains the store when it is opened."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        *,
        defers_file_checks: bool = False,
        store: Store | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`store`: one that is open already, and its clock, for previews."""
        self.root = root
        self.project = ""  # of the folder in which the host works, if the store is for several projects
        if store is None:
            incomplete.caller_reports = True  # in the notice at the start of a session; a hook prints nothing else
            store = open_read_only(
                root,
                environ,
                {"track_access": False, "search.model_ms": _MODEL_MS, "search.catch_up_ms": _CATCH_UP_MS},
                defers_file_checks=defers_file_checks,
            )
            if store.files is not None and store.files.sessions_with_deletion_records():
                _hide_recorded_deletions(root)
        self.store = store
        self.scope = Scope(store, None, store.config, clock or Clock(), viewer=Viewer(None))
        self.trace: ContextTrace | None = None  # gets what is considered and left out; None: nobody asks
        self.min_relevance: float | None = None  # instead of `recall.min_relevance`
        self.max_tokens: int | None = None  # instead of the budget in the settings

    @property
    def config(self) -> Config:
        return self.scope.config

    def budget(self, setting: str) -> int:
        """The tokens that an event may take, by the settings or as a preview says."""
        tokens = int(self.config[setting]) if self.max_tokens is None else self.max_tokens
        if self.trace is not None:
            self.trace.max_tokens = tokens
            if not tokens:
                self.nothing_because(f"{setting} is 0" if self.max_tokens is None else "the budget is 0 tokens")
        return tokens

    def floor(self) -> float:
        """The relevance from which a memory is told."""
        return float(self.config["recall.min_relevance"]) if self.min_relevance is None else self.min_relevance

    def pointer_floor(self) -> float:
        """The relevance from which a memory is pointed at."""
        return min(float(self.config["recall.min_pointer"]), self.floor())

    def nothing_because(self, reason: str) -> None:
        if self.trace is not None:
            self.trace.nothing_because = reason

    def use_config_of(self, session: str) -> None:
        """Use the settings of a session, if it exists and has some."""
        if self.has(session):
            self.scope.config = self.store.session(session).config

    def has(self, session: str) -> bool:
        return bool(session and self.store.sessions(id=session))


class HookRecall:
    """The text to inject, the memories in it, and the notices in it about what was recorded."""

    def __init__(self, text: str = "", items: list[ContextItem] | None = None, context: Context | None = None) -> None:
        self.text = text
        self.notices: list[str] = []
        self.asks_to_record = False
        self.context = context  # that the text is made of; at a prompt there is none
        self.items = items or []

    @property
    def told(self) -> list[str]:
        """The refs of the memories that are told."""
        return [item.ref for item in self.items if not item.is_pointer]

    @property
    def pointed(self) -> list[str]:
        """The refs of the memories that are only pointed at."""
        return [item.ref for item in self.items if item.is_pointer]

    @property
    def marks(self) -> list[str]:
        """What the state of the conversation notes about these memories (`HookSession.injected`)."""
        return [injection_mark(item.record, is_told=not item.is_pointer) for item in self.items]

    def with_notices(self, texts: list[str]) -> HookRecall:
        self.notices = texts
        self.text = "\n\n".join(part for part in (self.text, *texts) if part)
        return self

    def with_request(self, text: str) -> HookRecall:
        """The same with a request to write something down; empty: none."""
        self.asks_to_record = bool(text)
        self.text = "\n\n".join(part for part in (self.text, text) if part)
        return self


def visible_sessions(reader: Reader, state: HookSession) -> VisibleSessions:
    """The sessions that may be recalled from. A session that hooks create has no user."""
    from smp_memory.context.visible_sessions import VisibleSessions

    session = state.session if reader.has(state.session) else None
    return VisibleSessions(reader.store, session, project=reader.project)


def _hide_recorded_deletions(root: str) -> None:
    """Open the store for writing, which hides the memories that another program has deleted. Rare."""
    from smp_memory.memory import open_memory

    open_memory(root, create=False, trust=False).close()
