"""The application: routes, from a request to a page, errors as pages, static files.

Pages are plain functions of a `PageRequest` that run in a thread, because the store blocks. A form is read here, and its token checked,
before a page sees it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from smp_memory.errors import SMPError
from smp_memory.integrations.prometheus import PATH as METRICS_PATH
from smp_memory.integrations.prometheus import MetricsApp
from smp_memory.integrations.web import live
from smp_memory.integrations.web.access import FORM_FIELD, FORM_HEADER, AccessGuard
from smp_memory.integrations.web.forms import error_page, result_page, status_of, undo
from smp_memory.integrations.web.pages import (
    agent,
    analytics,
    export,
    health,
    memory,
    memory_actions,
    search,
    session,
    session_actions,
    sessions,
    trash,
)
from smp_memory.integrations.web.request import Inspector, PageRequest
from smp_memory.observe import event_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    Page: TypeAlias = Callable[[PageRequest], Response]

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
    ("/trash", trash.trash_page),
    ("/health", health.health_page),
    ("/session/{session}/{action}", session_actions.form_page),
    ("/export", export.form_page),
    ("/maintain", health.maintain_page),
    ("/result/{name}", result_page),
)
_POST: tuple[tuple[str, Page], ...] = (
    ("/memory/{session}/{id}/{action}", memory_actions.run),
    ("/session/{session}/{action}", session_actions.run),
    ("/health/fix", health.run_fix),
    ("/health/quarantine", health.put_back),
    ("/trash/restore", trash.restore_selected),
    ("/maintain", health.run_maintain),
    ("/export", export.download),
    ("/undo/{name}", undo),
)


def create_app(inspector: Inspector) -> ASGIApp:
    """The guarded application."""
    feed = live.ChangeFeed(inspector)
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
    event_log.emit("web", event_log.ERROR, "page_failed", f"A page of the inspector failed: {kind}.")
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
