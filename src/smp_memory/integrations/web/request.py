"""A request for a page: the store, what the address and the form say, and what a page needs to answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from smp_memory.errors import StoreNotFound
from smp_memory.integrations.web.parts import url
from smp_memory.model.candidates import CandidateRequest

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.datastructures import QueryParams

    from smp_memory.memory import Memory

_MOST_NOTICES = 200
_MOST_NAMES, _NAMES_SECONDS = 200, 5.0


class Notice(NamedTuple):
    """What an action did, shown on the page after it, and the way to take it back."""

    text: str
    undo: Callable[[], str] | None = None  # takes the action back and says so
    back: str = "/"  # the page to show after the undo
    detail: tuple[str, Any] | None = None  # the whole result: the template of a page of its own, and what it shows


class Notices:
    """Notices by an unguessable name, so that no address can make a page say something. The oldest go first."""

    def __init__(self) -> None:
        self._by_name: dict[str, Notice] = {}

    def add(self, notice: Notice) -> str:
        name = secrets.token_urlsafe(12)
        self._by_name[name] = notice
        while len(self._by_name) > _MOST_NOTICES:
            self._by_name.pop(next(iter(self._by_name)))
        return name

    def get(self, name: str) -> Notice | None:
        return self._by_name.get(name)

    def take(self, name: str) -> Notice | None:
        return self._by_name.pop(name, None)

    def put_back(self, name: str, notice: Notice) -> None:
        """After `take`: the undo could not be tried, so it may be tried again."""
        self._by_name[name] = notice


class StoreNames(NamedTuple):
    """What forms and the header show of a store."""

    memories: int
    agents: list[str]  # those with the most memories first
    sessions: list[str]  # those used last first


class Inspector:
    """What all requests of one client of a running inspector share; nothing of it is shared with other clients."""

    def __init__(
        self, memory: Memory, form_token: str, author: str | None, has_settings: bool, *, may_write: bool = True
    ) -> None:
        """`has_settings`: whether the store had settings when the server was started. `may_write`: whether the client may change memories."""
        self.memory = memory
        self.form_token = form_token  # proves that a form comes from a page of this client
        self.author = author  # in whose name changes are made
        self.may_write = may_write
        self.notices = Notices()
        self.memo: dict[str, tuple[object, Any]] = {}  # costly answers with the state that they are valid for
        self._kept: dict[str, tuple[float, Any]] = {}
        self._has_settings = has_settings

    def check_store(self) -> None:
        """Raise if the store was moved or removed since the inspector was started; it would look like an empty one."""
        if self._has_settings and self.memory.store.configured_at() is None:
            root = self.memory.root
            raise StoreNotFound(
                f"The store in {root} was moved or removed, or its disk is not there. Put it back, then reload this page.",
                path=root,
            )

    def kept(self, name: str, seconds: float, compute: Callable[[], Any]) -> Any:
        """A value that may be some seconds old, such as suggestions of a form."""
        until, value = self._kept.get(name, (0.0, None))
        if time.monotonic() >= until:
            value = compute()
            self._kept[name] = (time.monotonic() + seconds, value)
        return value

    def store_names(self) -> StoreNames:
        """The number of memories, and names for forms; a few seconds old at most."""
        found: StoreNames = self.kept("names", _NAMES_SECONDS, lambda: _read_names(self.memory))
        return found


def _read_names(memory: Memory) -> StoreNames:
    index = memory.store.indexer
    counts, activity = index.facets(CandidateRequest(), ["type", "agent"]).counts, index.activity()
    agents = sorted(filter(None, counts["agent"]), key=lambda name: -counts["agent"][name])
    sessions = sorted(activity, key=lambda name: -max(activity[name].written, activity[name].used))
    return StoreNames(sum(counts["type"].values()), agents[:_MOST_NAMES], sessions[:_MOST_NAMES])


class PageRequest(NamedTuple):
    """One request."""

    inspector: Inspector
    path: str
    parts: Mapping[str, str]  # of the path
    query: QueryParams
    form: Mapping[str, str]  # of a POST
    part: str = ""  # the region that the browser needs first; what takes longer may be left out

    @property
    def memory(self) -> Memory:
        return self.inspector.memory

    @property
    def now(self) -> datetime:
        return self.memory.now()

    def get(self, name: str, default: str = "") -> str:
        """A value of the address."""
        return self.query.get(name, default).strip()

    def all(self, name: str) -> list[str]:
        return [value for value in self.query.getlist(name) if value]

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number of the address within bounds; the default if there is none."""
        try:
            value = float(self.query.get(name, ""))
        except ValueError:
            return default
        return default if isnan(value) else min(max(value, low), high)

    def page_number(self, name: str, total: int) -> int:
        """The place in a list of so many at which its page begins."""
        return int(self.number(name, 0, 0, max(total - 1, 0)))

    def address(self, **changes: Any) -> str:
        """The address of this page with some values changed; without its offset unless that is given."""
        given = {name: self.all(name) for name in self.query if name not in ("offset", "done")}
        return url(quote(self.path), **{**given, **changes})

    def neighbours(self, name: str, offset: int, size: int, total: int) -> tuple[str | None, str | None]:
        """The addresses of the page before and of the page after this one; `name` is the place in the address."""
        back = self.address(**{name: max(offset - size, 0) or None}) if offset else None
        on = self.address(**{name: offset + size}) if offset + size < total else None
        return back, on
