"""The inspector as a server: the socket and the one-time link, changes as events, routes, errors as pages, static files.

Pages are plain functions of a `PageRequest` that run in a thread, because the store blocks. A form is read here, and its token checked,
before a page sees it.

Guarantees: the socket is bound to 127.0.0.1, whatever the settings say. Connections have the limits of the MCP server's
(`smp_memory.integrations.mcp.http`). Links are printed to the terminal only; nothing is logged. Every acknowledged write of any
process leads to a server-sent event within a second, unless the store cannot be read; then a `trouble` event says so, and a `hello` when
it can be read again. No lock is taken that a writer waits for. Non-guarantees: several writes may share an event; a page that reconnects
reloads what it shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from smp_memory.errors import SMPError
from smp_memory.integrations.mcp.http import FILE, ConnectionLimits, listening_socket, read_token, settings
from smp_memory.integrations.store_metrics import PATH as METRICS_PATH
from smp_memory.integrations.store_metrics import MetricsApp
from smp_memory.integrations.web.access import FORM_FIELD, FORM_HEADER, Access, AccessGuard
from smp_memory.integrations.web.forms import error_page, result_page, status_of, undo
from smp_memory.integrations.web.pages import (
    agent,
    analytics,
    health,
    memory,
    memory_actions,
    memory_removal,
    search,
    session,
    session_actions,
    sessions,
)
from smp_memory.integrations.web.parts import line_of, visible
from smp_memory.integrations.web.request import Inspector, PageRequest
from smp_memory.model.types import KINDS
from smp_memory.observe import telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

    Page: TypeAlias = Callable[[PageRequest], Response]

HOST = "127.0.0.1"


def serve(memory: Memory, port: int, author: str | None, say: Callable[[str], None], open_browser: bool) -> None:
    """Serve until interrupted. `say` prints a line for the person who started it."""
    listener = listening_socket(HOST, port)
    port = listener.getsockname()[1]
    base = f"http://{HOST}:{port}"
    access = Access(port, _metrics_token(memory.store.state.path(FILE)))
    app = create_app(Inspector(memory, access, author))
    limits = ConnectionLimits(connections=128, body_bytes=2 * 1024 * 1024)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, log_config=None, timeout_graceful_shutdown=1, **settings(limits)
    )
    link = access.new_link(base)
    say(
        f"Inspector of {memory.root}\n\n  {link}\n\nThe link opens one browser, once, within ten minutes. Ctrl-C stops the inspector."
    )
    if open_browser:
        _open(link)
    if sys.stdin is not None and sys.stdin.isatty():
        say("Press Enter for another link.")
        threading.Thread(target=_offer_links, args=(access, base, say), name="smp-web-links", daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _metrics_token(path: str) -> str:
    """The bearer token of the MCP server, with which /metrics can be read; empty if there is none that can be used."""
    try:
        return read_token(path)
    except SMPError:
        return ""


def _open(link: str) -> None:
    import webbrowser

    try:
        webbrowser.open(link)
    except webbrowser.Error:
        pass  # the link is printed


def _offer_links(access: Access, base: str, say: Callable[[str], None]) -> None:
    for _ in sys.stdin:
        say(f"  {access.new_link(base)}")


POLL_SECONDS = 0.35
BEAT_SECONDS = 15.0  # a comment now and then tells a closed connection from a quiet one
MOST_LISTENERS = 64
_MOST_NEW = 20  # memories of one event
_TEXT_CHARACTERS = 140


class StoreState:
    """What the index knows of each session: the number of its memories, the last one, and when it was last written."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._sessions = self._read()

    def _read(self) -> dict[str, tuple[Any, ...]]:
        activity = self._memory.store.indexer.activity()
        return {name: (each.memories, each.last_id, each.written) for name, each in activity.items()}

    def changes(self) -> dict[str, Any] | None:
        """What has changed since the last call; None if nothing has."""
        before, now = self._sessions, self._read()
        changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
        if not changed:
            return None
        self._sessions = now
        grown = {name: now[name][0] - before.get(name, (0,))[0] for name in changed if name in now}
        return {"sessions": sorted(changed), "new": self._new(grown)}

    def _new(self, grown: dict[str, int]) -> list[dict[str, str]]:
        records: list[Record] = []
        for name, count in grown.items():
            if count > 0:
                session = self._memory.opened_session(name)
                records += session.records(last=min(count, _MOST_NEW))
        records.sort(key=lambda record: record.created)
        return [
            {
                "ref": record.ref,
                "type": KINDS[record.type].noun,
                "author": visible(str(record.author or "")),
                "text": visible(line_of(record))[:_TEXT_CHARACTERS],
            }
            for record in records[-_MOST_NEW:]
        ]


class ChangeFeed:
    """Hands the changes of a store to all browsers that listen."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._listeners: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_listeners = threading.Event()
        self._is_stopped = threading.Event()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._poll, name="smp-web-live", daemon=True)
        thread.start()
        yield
        self._is_stopped.set()
        self._has_listeners.set()
        for queue in self._listeners:
            queue.put_nowait("")
        await asyncio.to_thread(thread.join, 5)

    def _poll(self) -> None:
        state: StoreState | None = None
        has_trouble = False
        while not self._is_stopped.is_set():
            if not self._has_listeners.is_set():
                state = None
                self._has_listeners.wait()
                continue
            try:
                self._inspector.check_store()
                if state is None:
                    state = StoreState(self._inspector.memory)
                    if has_trouble:
                        self._send("hello", {})  # pages reload what they show: nobody knows what changed meanwhile
                    has_trouble = False
                changes = state.changes()
                if changes is not None:
                    self._send("change", changes)
            except Exception as error:  # whatever it is, pages must not seem to be live
                self._send("trouble", {"message": _trouble(error)})
                state, has_trouble = None, True
                self._is_stopped.wait(5 * POLL_SECONDS)
            self._is_stopped.wait(POLL_SECONDS)

    def _send(self, event: str, data: dict[str, Any]) -> None:
        text = f"event: {event}\ndata: {json.dumps(data)}\n\n"
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, text)

    def _put(self, text: str) -> None:
        for queue in self._listeners:
            if queue.qsize() < MOST_LISTENERS:  # a browser that does not read gets the next one
                queue.put_nowait(text)

    async def events(self, request: Request) -> StreamingResponse:
        """The endpoint: an event stream that stays open."""
        if len(self._listeners) >= MOST_LISTENERS:
            return StreamingResponse(
                iter(['event: trouble\ndata: {"message": "Too many open pages."}\n\n']), media_type="text/event-stream"
            )
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(queue)
        self._has_listeners.set()
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._is_stopped.is_set():
                try:
                    yield await asyncio.wait_for(queue.get(), BEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(queue)
            if not self._listeners and not self._is_stopped.is_set():
                self._has_listeners.clear()


def _trouble(error: Exception) -> str:
    return error.message if isinstance(error, SMPError) else f"Internal error: {type(error).__name__}."


STATIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")
_GET: tuple[tuple[str, Page], ...] = (
    ("/", agent.agent_page),
    ("/search", search.search_page),
    ("/sessions", sessions.sessions_page),
    ("/session/{session}", session.session_page),
    ("/timeline", session.timeline_page),
    ("/memory/{session}/{id}", memory.memory_page),
    ("/memory/{session}/{id}/{action}", memory_actions.form_page),
    ("/analytics", analytics.analytics_page),
    ("/trash", memory_removal.trash_page),
    ("/health", health.health_page),
    ("/session/{session}/{action}", session_actions.form_page),
    ("/export", search.export_page),
    ("/maintain", health.maintain_page),
    ("/result/{name}", result_page),
)
_POST: tuple[tuple[str, Page], ...] = (
    ("/memory/{session}/{id}/{action}", memory_actions.run),
    ("/session/{session}/{action}", session_actions.run),
    ("/health/fix", health.run_fix),
    ("/health/quarantine", health.put_back),
    ("/trash/restore", memory_removal.restore_selected),
    ("/maintain", health.run_maintain),
    ("/export", search.download),
    ("/undo/{name}", undo),
)


def create_app(inspector: Inspector) -> ASGIApp:
    """The guarded application."""
    feed = ChangeFeed(inspector)
    routes = [Route(path, _endpoint(inspector, each), methods=["GET"]) for path, each in _GET]
    routes += [Route(path, _endpoint(inspector, each), methods=["POST"]) for path, each in _POST]
    routes += [Route("/events", feed.events, methods=["GET"])]
    app = Starlette(routes=routes, lifespan=feed.lifespan, exception_handlers={404: _not_found(inspector)})
    app.mount("/static", StaticFiles(directory=STATIC))
    app.router.routes.append(Route(METRICS_PATH, MetricsApp(inspector.memory), methods=["GET"]))
    return AccessGuard(app, inspector.access)


def _endpoint(inspector: Inspector, answer: Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        form: dict[str, str] = {}
        if request.method == "POST":
            pairs = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
            form = dict(pairs)
            token = form.pop(FORM_FIELD, "") or request.headers.get(FORM_HEADER, "")
            if not inspector.access.has_form_token(token):
                return PlainTextResponse(
                    "The form is not from this inspector, or it is too old. Reload the page.\n", 403
                )
        part = request.headers.get("x-smp-part", "")
        given = PageRequest(inspector, request.url.path, request.path_params, request.query_params, form, part)
        return await to_thread.run_sync(_answer, answer, given)

    return endpoint


def _answer(answer: Page, request: PageRequest) -> Response:
    try:
        request.inspector.check_store()
        return answer(request)
    except SMPError as error:
        title = "That did not work" if request.form else "Cannot show this"
        return error_page(request, title, error.message, status_of(error), error.code)
    except Exception as error:  # a fault of the inspector: no traceback for the browser, no content in the log
        return _fault_page(request, error)


def _fault_page(request: PageRequest, error: Exception) -> Response:
    kind = type(error).__name__
    telemetry.emit("web", telemetry.ERROR, "page_failed", f"A page of the inspector failed: {kind}.")
    if os.environ.get("SMP_DEBUG"):
        import traceback

        traceback.print_exc()
    about = f"Internal error: {kind}. No memory was lost. SMP_DEBUG=1 smp web prints the traceback; please report it."
    return error_page(request, "Internal error", about, 500, "E_INTERNAL")


def _not_found(inspector: Inspector) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def endpoint(request: Request, error: Exception) -> Response:
        given = PageRequest(inspector, request.url.path, {}, request.query_params, {})
        message = "There is no page at this address."
        return await to_thread.run_sync(error_page, given, "Not found", message, 404)

    return endpoint
