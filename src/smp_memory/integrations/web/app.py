"""The inspector as a server: the socket and the one-time link, changes as events, routes, errors as pages, static files.

Pages are plain functions of a `PageRequest` that run in a thread, because the store blocks. A form is read here, and its token checked,
before a page sees it.

Guarantees: the socket is bound to 127.0.0.1 unless told otherwise, whatever the settings say; beyond this machine only tokens open it. Each client has an inspector and events of
its own, made from its memory (`integrations.clients`). Connections have the limits of the MCP server's
(`smp_memory.integrations.mcp.http`). Links are printed to the terminal only; nothing is logged. Every acknowledged write of any
process leads to a server-sent event within a second, unless the store cannot be read; then a `trouble` event says so, and a `hello` when
it can be read again. No lock is taken that a writer waits for. Non-guarantees: several writes may share an event; a page that reconnects
reloads what it shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from smp_memory.errors import SMPError, UserError
from smp_memory.integrations.clients import FILE, KEY, READ, WRITE, Clients, read_token
from smp_memory.integrations.mcp.http import ConnectionLimits, is_local, listening_socket, settings
from smp_memory.integrations.store_metrics import PATH as METRICS_PATH
from smp_memory.integrations.store_metrics import MetricsApp
from smp_memory.integrations.web.access import FORM_FIELD, FORM_HEADER, Access, AccessGuard
from smp_memory.integrations.web.forms import error_page, result_page, status_of, undo
from smp_memory.integrations.web.pages import (
    agent,
    analytics,
    health,
    home,
    memory,
    memory_actions,
    memory_removal,
    redaction,
    review,
    search,
    session,
    session_actions,
    sessions,
    told,
)
from smp_memory.integrations.web.parts import line_of, visible
from smp_memory.integrations.web.request import Inspector, PageRequest
from smp_memory.model.ids import is_valid
from smp_memory.model.types import KINDS
from smp_memory.observe import telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from smp_memory.integrations.clients import Client
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

    Page: TypeAlias = Callable[[PageRequest], Response]

HOST = "127.0.0.1"


def serve(
    memory: Memory,
    port: int,
    author: str | None,
    say: Callable[[str], None],
    open_browser: bool,
    *,
    host: str = HOST,
    names: tuple[str, ...] = (),
) -> None:
    """Serve until interrupted. `say` prints a line for the person who started it; `names` are further ones of the server."""
    cookie = secrets.token_urlsafe(32)
    clients = Clients(memory, cookie if is_local(host) else None)
    clients.refresh()
    if clients.is_shared and not clients.has_tokens:
        raise UserError("Beyond this machine, each client needs a token of its own. Create one: smp token create NAME")
    listener = listening_socket(host, port)
    port = listener.getsockname()[1]
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    access = Access(port, clients, cookie, _metrics_token(memory.store.state.path(FILE)), host, names)
    limits = ConnectionLimits(connections=128, body_bytes=2 * 1024 * 1024)
    config = uvicorn.Config(
        create_app(access, memory, author),
        log_level="critical",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=1,
        **settings(limits),
    )
    if clients.is_shared:
        say(
            f"Inspector of {memory.root}: {base}/ — sign in with a token of `smp token create`. Ctrl-C stops the inspector."
        )
    else:
        _show_link(memory, access, base, say, open_browser)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        clients.close()


def _show_link(memory: Memory, access: Access, base: str, say: Callable[[str], None], open_browser: bool) -> None:
    link = access.new_link(base)
    say(
        f"Inspector of {memory.root}\n\n  {link}\n\nThe link opens one browser, once, within ten minutes. Ctrl-C stops the inspector."
    )
    if open_browser:
        _open(link)
    if sys.stdin is not None and sys.stdin.isatty():
        say("Press Enter for another link.")
        threading.Thread(target=_offer_links, args=(access, base, say), name="smp-web-links", daemon=True).start()


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
    """Hands the changes of a store, as one client may see it, to all browsers of that client that listen."""

    def __init__(self, inspector: Inspector, is_admitted: Callable[[], bool]) -> None:
        """Called in the event loop. `is_admitted`: whether the token of the client holds still."""
        self._inspector = inspector
        self._is_admitted = is_admitted
        self._listeners: set[asyncio.Queue[str]] = set()
        self._loop = asyncio.get_running_loop()
        self._has_listeners = threading.Event()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="smp-web-live", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._is_stopped.set()
        self._has_listeners.set()
        self._put("")
        await asyncio.to_thread(self._thread.join, 5)

    def _poll(self) -> None:
        state: StoreState | None = None
        has_trouble = False
        while not self._is_stopped.is_set():
            if not self._has_listeners.is_set():
                state = None
                self._has_listeners.wait()
                continue
            if not self._is_admitted():
                self._send("")
                self._is_stopped.wait(POLL_SECONDS)
                continue
            try:
                self._inspector.check_store()
                if state is None:
                    state = StoreState(self._inspector.memory)
                    if has_trouble:
                        self._send(
                            _event("hello", {})
                        )  # pages reload what they show: nobody knows what changed meanwhile
                    has_trouble = False
                changes = state.changes()
                if changes is not None:
                    self._send(_event("change", changes))
            except Exception as error:  # whatever it is, pages must not seem to be live
                self._send(_event("trouble", {"message": _trouble(error)}))
                state, has_trouble = None, True
                self._is_stopped.wait(5 * POLL_SECONDS)
            self._is_stopped.wait(POLL_SECONDS)

    def _send(self, text: str) -> None:
        """Send an event to all that listen; an empty one ends their streams."""
        if not self._loop.is_closed():
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
                    text = await asyncio.wait_for(queue.get(), BEAT_SECONDS)
                except TimeoutError:
                    text = ": still here\n\n"
                if not text:
                    return
                yield text
        finally:
            self._listeners.discard(queue)
            if not self._listeners and not self._is_stopped.is_set():
                self._has_listeners.clear()


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _trouble(error: Exception) -> str:
    return error.message if isinstance(error, SMPError) else f"Internal error: {type(error).__name__}."


STATIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")
GET_PAGES: tuple[tuple[str, Page], ...] = (
    ("/", home.home_page),
    ("/agent", agent.agent_page),
    ("/search", search.search_page),
    ("/sessions", sessions.sessions_page),
    ("/session/{session}", session.session_page),
    ("/timeline", session.timeline_page),
    ("/memory/{session}/{id}", memory.memory_page),
    ("/memory/{session}/{id}/{action}", memory_actions.form_page),
    ("/told", told.told_page),
    ("/analytics", analytics.analytics_page),
    ("/review", review.review_page),
    ("/review/{session}/{id}/{type}", review.edit_page),
    ("/trash", memory_removal.trash_page),
    ("/health", health.health_page),
    ("/health/redact", redaction.sessions_page),
    ("/session/{session}/{action}", session_actions.form_page),
    ("/export", search.export_page),
    ("/maintain", health.maintain_page),
    ("/result/{name}", result_page),
)
_POST: tuple[tuple[str, Page], ...] = (
    ("/memory/{session}/{id}/{action}", memory_actions.run),
    ("/session/{session}/{action}", session_actions.run),
    ("/health/fix", health.run_fix),
    ("/health/redact", redaction.run_sessions),
    ("/health/quarantine", health.put_back),
    ("/review/{session}/{id}/{type}/keep", review.keep),
    ("/review/{session}/{id}/{type}/drop", review.drop),
    ("/trash/restore", memory_removal.restore_selected),
    ("/maintain", health.run_maintain),
    ("/export", search.download),
    ("/undo/{name}", undo),
)


class Site:
    """What serves each client: an inspector and a feed of changes, made when they are first needed."""

    def __init__(self, access: Access, memory: Memory, author: str | None) -> None:
        self.access = access
        self._has_settings = memory.store.configured_at() is not None
        self._author = author
        self._feeds: list[ChangeFeed] = []

    def client(self, request: Request) -> Client:
        client: Client = request.scope[KEY]
        return client

    def inspector(self, client: Client) -> Inspector:
        form_token, author = self.access.form_token(client), self._author or client.name

        def made() -> Inspector:
            may_write = client.token.may_write
            return Inspector(client.memory, form_token, author, self._has_settings, may_write=may_write)

        return client.keep("inspector", made)

    def _feed(self, client: Client) -> ChangeFeed:
        def is_admitted() -> bool:
            self.access.clients.refresh()
            return self.access.clients.is_admitted(client)

        feed = ChangeFeed(self.inspector(client), is_admitted)
        self._feeds.append(feed)
        return feed

    async def events(self, request: Request) -> StreamingResponse:
        client = self.client(request)
        return await client.keep("feed", lambda: self._feed(client)).events(request)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        for feed in self._feeds:
            await feed.stop()


def create_app(access: Access, memory: Memory, author: str | None = None) -> ASGIApp:
    """The guarded application; `author`: in whose name changes are made, else the name of the client's token."""
    site = Site(access, memory, author)
    routes = [Route(path, _endpoint(site, path, each), methods=["GET"]) for path, each in GET_PAGES]
    routes += [Route(path, _endpoint(site, path, each), methods=["POST"]) for path, each in _POST]
    routes += [Route("/events", site.events, methods=["GET"])]
    app = Starlette(routes=routes, lifespan=site.lifespan, exception_handlers={404: _not_found(site)})
    app.mount("/static", StaticFiles(directory=STATIC))
    app.router.routes.append(Route(METRICS_PATH, MetricsApp(memory), methods=["GET"]))
    return AccessGuard(app, access)


def _endpoint(site: Site, path: str, answer: Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        client = site.client(request)
        inspector = site.inspector(client)
        form: dict[str, str] = {}
        if request.method == "POST":
            pairs = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
            form = dict(pairs)
            token = form.pop(FORM_FIELD, "") or request.headers.get(FORM_HEADER, "")
            if not site.access.has_form_token(token, client):
                return PlainTextResponse(
                    "The form is not from this inspector, or it is too old. Reload the page.\n", 403
                )
        part = request.headers.get("x-smp-part", "")
        given = PageRequest(inspector, request.url.path, request.path_params, request.query_params, form, part)
        response = await to_thread.run_sync(client.run, partial(_answer, answer, given))
        _note(client, request, path, response.status_code)
        return response

    return endpoint


def _note(client: Client, request: Request, path: str, status: int) -> None:
    """Log a request of a client: the page, the session and the memory, not what was searched or written."""
    session, id = (request.path_params.get(name) for name in ("session", "id"))
    named = session if session and is_valid(session) else None
    facts = {"status": status} if status >= 400 else {}
    action = WRITE if request.method == "POST" else READ
    client.note(action, f"web {path}", named, [id] if named and id and is_valid(id) else [], **facts)


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


def _not_found(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def endpoint(request: Request, error: Exception) -> Response:
        if KEY not in request.scope:  # a static file that does not exist, for somebody who has not signed in
            return PlainTextResponse("Not found.\n", 404)
        inspector = site.inspector(site.client(request))
        given = PageRequest(inspector, request.url.path, {}, request.query_params, {})
        message = "There is no page at this address."
        return await to_thread.run_sync(error_page, given, "Not found", message, 404)

    return endpoint
