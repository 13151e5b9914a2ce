"""The classes of SMP as asyncio programs use them. Each delegates to the class of the same name without `Async`, in a thread of the pool.

Methods are made from those of the class at import, so a new method is there at once; `__init__.pyi` has their types (`docs/make_aio_stub.py`).
A method is awaited. A property that reads the store is a method here, `await session.info()`; those that read nothing stay properties.
What a method returns is wrapped if it reads the store itself; everything else is a plain value.

Guarantees: the event loop's thread reads and writes no files. A write whose `await` has returned is stored. A write that is cancelled is stored
whole or not at all. A transaction in which a call was cancelled is rolled back. `close` waits for calls that still run.
Non-guarantees: after a cancelled write nobody knows whether it was stored; repeat it with the same `idempotency_key`.

The pool: a call that was cancelled before it began is never made; one that has begun is finished, whoever waits for it. The interpreter
exits when all calls are finished. Any number of event loops may call, and so may a forked child.
Non-guarantees: a cancelled `await` ends at once, so its call may still run then.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.agents.party import Party
from smp_memory.analytics.report import Analytics
from smp_memory.errors import InvalidRecord
from smp_memory.global_memory import GlobalMemory
from smp_memory.memory import Memory, open_memory
from smp_memory.model.session_info import SessionHead
from smp_memory.session import SessionMemory
from smp_memory.write.path import Transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator
    from concurrent.futures import Future
    from datetime import datetime
    from types import TracebackType

    from smp_memory.config.settings import Config
    from smp_memory.model.candidates import Hit
    from smp_memory.model.record import Record
    from smp_memory.search.watch import Watch

    FaceType = TypeVar("FaceType", bound=type["Face"])


P = ParamSpec("P")
R = TypeVar("R")

THREADS = 8  # writes that wait at the same time share a sync; more threads would compete with the event loop


class _Pool:
    """The pool of this process. It is not that of the event loop, which the program may fill with slow calls."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, "smp-aio")  # starts a thread when a call finds none idle


_pool = _Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_Pool.__init__, _pool))  # threads do not survive a fork


async def call(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a thread of the pool, with the context variables of the caller, and return what it returns."""
    return await asyncio.wrap_future(start(function, *args, **kwargs))


def start(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Start such a call without waiting for it."""
    return _pool.threads.submit(copy_context().run, partial(function, *args, **kwargs))


HIDDEN = ("addition", "opened", "scope", "store")  # for tools, which have them through `blocking`

FACES: dict[type, type[Face]] = {}


class Face:
    """An object of SMP whose methods are awaited. `blocking` is the object itself, for tools that run in threads."""

    def __init__(self, blocking: Any, calls: dict[Future[Any], int]) -> None:
        self.blocking = blocking
        self._calls = calls  # those of the store that are not finished, and the process that makes them

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        args = tuple(_unwrapped(each) for each in args)
        kwargs = {name: _unwrapped(value) for name, value in kwargs.items()}
        return self._wrapped(await asyncio.wrap_future(self._start(_finished, function, *args, **kwargs)))

    def _start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        running = start(function, *args, **kwargs)
        self._calls[running] = os.getpid()
        running.add_done_callback(self._calls.pop)
        return running

    def _wrapped(self, value: Any) -> Any:
        """What a method returned; objects that read the store get their face, also in lists and pairs."""
        face = FACES.get(type(value))
        if face is not None:
            return face(value, self._calls)
        if type(value) in (list, tuple) and value and (type(value[-1]) is tuple or type(value[-1]) in FACES):
            return type(value)(self._wrapped(each) for each in value)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Face) and self.blocking is other.blocking

    def __hash__(self) -> int:
        return hash(self.blocking)

    def __repr__(self) -> str:
        return f"Async{self.blocking!r}"


def _unwrapped(value: Any) -> Any:
    return value.blocking if isinstance(value, Face) else value


def _finished(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; what it returns reads no file any more."""
    value = function(*args, **kwargs)
    for each in value if type(value) is list else [value]:
        if type(each) is SessionHead:
            for name in SessionHead.LAZY:
                getattr(each, name, None)
    return value


def _delegates_to(sync: type) -> Callable[[FaceType], FaceType]:
    """Class decorator: add the public methods and properties of the sync class that the face does not define itself.

    Attributes that the face annotates are read without waiting.
    """

    def complete(face: FaceType) -> FaceType:
        for kind in sync.__mro__[:-1]:
            for name, member in vars(kind).items():
                if not name.startswith("_") and name not in vars(face) and name not in HIDDEN:
                    setattr(
                        face, name, _getter(name, member) if isinstance(member, property) else _method(name, member)
                    )
        for name in face.__annotations__:
            setattr(face, name, _value(name))
        FACES[sync] = face
        return face

    return complete


def _method(name: str, function: Any) -> Any:
    async def method(self: Face, *args: Any, **kwargs: Any) -> Any:
        return await self._call(getattr(self.blocking, name), *args, **kwargs)

    return _named(method, name, function.__doc__)


def _getter(name: str, read: property) -> Any:
    async def getter(self: Face) -> Any:
        return await self._call(getattr, self.blocking, name)

    return _named(getter, name, read.__doc__)


def _named(function: Any, name: str, doc: str | None) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _value(name: str) -> property:
    return property(lambda self: self._wrapped(getattr(self.blocking, name)))


# -- the classes


@_delegates_to(Memory)
class AsyncMemory(Face):
    """A store of sessions. Tasks, threads and event loops may share it. Made by `aio.open`."""

    config: Config
    global_memory: AsyncGlobalMemory
    layout: str
    root: str

    def watch(self, text: str | None = None, **options: Any) -> AsyncWatch:
        """Memories that match, as any process writes them; see `AsyncWatch`."""
        return AsyncWatch(self, text, options)

    async def close(self) -> None:
        """Wait for the calls that still run, then close the store. Safe to call twice."""
        try:
            own = [running for running, process in self._calls.copy().items() if process == os.getpid()]
            if own:  # those of the process that it was forked from are never finished here
                await asyncio.wait([asyncio.wrap_future(each) for each in own])
        finally:
            await self._call(self.blocking.close)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@_delegates_to(SessionMemory)
class AsyncSessionMemory(Face):
    """One session of a store, from `AsyncMemory.create_session` or `AsyncMemory.session`."""

    id: str
    memory: AsyncMemory
    redacted: dict[str, int]
    warnings: tuple[str, ...]

    watch = AsyncMemory.watch

    def transaction(self) -> AsyncTransaction:
        """Several writes that become visible together or not at all; an exception or a cancelled call inside rolls back."""
        return AsyncTransaction(self.blocking.transaction(), self._calls)

    async def __aiter__(self) -> AsyncIterator[Record]:
        for record in await self._call(
            self.blocking.records
        ):  # an iterator of the store would read it in the event loop
            yield record


@_delegates_to(AgentMemory)
class AsyncAgentMemory(Face):
    """One session of a store as one agent may see it."""

    agent: str | None
    id: str

    watch = AsyncMemory.watch
    transaction = AsyncSessionMemory.transaction
    __aiter__ = AsyncSessionMemory.__aiter__


@_delegates_to(GlobalMemory)
class AsyncGlobalMemory(Face):
    """The memories for all sessions of a store."""


@_delegates_to(Analytics)
class AsyncAnalytics(Face):
    """Statistics, each part computed when it is first asked for: `await (await memory.analytics()).usage()`."""

    now: datetime
    sessions: list[str] | None


@_delegates_to(Party)
class AsyncParty(Face):
    """Agents that share a session."""

    agents: list[str]
    session: AsyncSessionMemory

    def __getitem__(self, agent: str) -> AsyncAgentMemory:
        return AsyncAgentMemory(self.blocking[agent], self._calls)

    def __iter__(self) -> Iterator[AsyncAgentMemory]:
        return (AsyncAgentMemory(each, self._calls) for each in self.blocking)


@_delegates_to(Transaction)
class AsyncTransaction(Face):
    """Writes that are stored together when the `async with` block ends; see `Transaction` for what they return."""

    _is_cut_off = False

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._call(function, *args, **kwargs)
        except asyncio.CancelledError:  # whether this write is among the collected ones depends on the moment
            self._is_cut_off = True
            self.blocking.rollback()
            raise

    async def commit(self) -> None:
        """Store all writes; called by the end of the `async with` block."""
        if self._is_cut_off:
            raise InvalidRecord(
                "transaction: one of its calls was cancelled, so nothing was written; begin a new one.",
                field="transaction",
            )
        await self._call(self.blocking.commit)

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
        else:
            self.blocking.rollback()


class AsyncWatch:
    """An asynchronous iterator of hits. No thread waits: the store is looked at in short calls.

    The watch begins with the first step, or with `async with session.watch(…) as hits:`. A step that is cancelled loses no hit:
    the next one gives it.
    """

    def __init__(self, face: Face, text: str | None, options: dict[str, Any]) -> None:
        self._face = face
        self._given = text, options
        self._watch: Watch | None = None
        self._found: deque[Hit] = deque()
        self._looking: Future[Any] | None = None

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> Hit:
        while not self._found:
            if self._watch is not None and self._watch.is_over:
                raise StopAsyncIteration
            await self._step()
            if not self._found and self._watch is not None:
                await asyncio.sleep(self._watch.pause_seconds)
        return self._found.popleft()

    async def _step(self) -> None:
        """Look at the store, after a look that still runs because its step was cancelled."""
        if self._looking is None or self._looking.done():
            self._looking = self._face._start(self._look)
        await asyncio.wrap_future(self._looking)

    def _look(self) -> None:
        if self._watch is None:
            text, options = self._given
            self._watch = self._face.blocking.watch(text, **options)
        else:
            self._found.extend(self._watch.poll())

    async def __aenter__(self) -> AsyncWatch:
        if self._watch is None:
            await self._step()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to end."""


class Opening:
    """A store that is being opened: `memory = await aio.open(…)`, or `async with aio.open(…) as memory:`."""

    def __init__(self, where: Any, options: dict[str, Any]) -> None:
        self._given = where, options
        self._opened: AsyncMemory | None = None

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self._open().__await__()

    async def _open(self) -> AsyncMemory:
        where, options = self._given
        opening = start(open_memory, where, **options)
        try:
            return AsyncMemory(await asyncio.wrap_future(opening), {})
        except asyncio.CancelledError:
            start(_close_opened, opening)
            raise

    async def __aenter__(self) -> AsyncMemory:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.close()


def _close_opened(opening: Future[Memory]) -> None:
    """Close a store that nobody waits for any more, when it is open. It waits for a call that runs, never for one that is queued."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def open_async(where: Any = None, **options: Any) -> Opening:
    """Open a store; see `smp_memory.open`."""
    return Opening(where, options)
