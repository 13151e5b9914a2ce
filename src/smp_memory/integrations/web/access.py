"""Who may use the inspector: Host, Origin, the one-time link, the cookie, the token of forms; and the headers of every answer.

A one-time link opens the inspector in one browser: it sets a cookie and is void from then on. The cookie is a random secret that exists only
in this process and in that browser; it ends with the process. A link that was not used is void after ten minutes.

Guarantees: nothing but a refusal is answered
  - to a request under another host name (a web page that resolves its own name to this machine),
  - to a request from another origin or another site, also if the browser sends the cookie,
  - without the cookie, except for the link itself, and for /metrics with the bearer token of the MCP server,
  - to a POST without the token of forms, which only pages of the inspector contain.
Every answer forbids the browser to load or run anything that does not come from this server, to show the page in a frame, and to keep it.
Not guaranteed: other programs of the same user can read the terminal and the browser's files. A browser sends cookies of 127.0.0.1 to every
port of it, so a hostile server on another port, if a person visits it, could see the cookie.
"""

from __future__ import annotations

import hmac
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse

from smp_memory.integrations.mcp.http import has_token
from smp_memory.integrations.store_metrics import PATH as METRICS_PATH

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATH = "/open"
LINK_SECONDS = 600.0
FORM_FIELD, FORM_HEADER = "form_token", "x-smp-form"
_FORWARD = '<!doctype html><html lang="en"><link rel="icon" href="/static/icon.svg"><meta http-equiv="refresh" content="0; url=/"><title>SMP</title><a href="/">Open the inspector</a></html>'
_SAFE_METHODS = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with `no-referrer` browsers send forms with the origin `null`
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Access:
    """The secrets of one running inspector."""

    def __init__(self, port: int, metrics_token: str = "") -> None:
        self.metrics_token = metrics_token  # lets a Prometheus server read /metrics, and nothing else
        names = ("127.0.0.1", "localhost")
        self.hosts = frozenset([f"{name}:{port}" for name in names] + ([*names] if port == 80 else []))
        self.origins = frozenset(f"http://{host}" for host in self.hosts)
        self.cookie_name = f"smp-inspector-{port}"
        self._cookie = secrets.token_urlsafe(32)
        self.form_token = secrets.token_urlsafe(32)
        self._links: dict[str, float] = {}

    def new_link(self, base: str) -> str:
        """An address that opens the inspector once."""
        now = time.monotonic()
        self._links = {link: until for link, until in self._links.items() if until > now}
        link = secrets.token_urlsafe(24)
        self._links[link] = now + LINK_SECONDS
        return f"{base}{OPEN_PATH}?link={link}"

    def take_link(self, link: str) -> bool:
        """Whether this link is valid; from now on it is not."""
        until = self._links.pop(link, None)
        return until is not None and time.monotonic() < until

    def has_cookie(self, header: str | None) -> bool:
        given = cookie_parser(header or "").get(self.cookie_name, "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._cookie.encode())

    def has_form_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token.encode())

    def set_cookie(self, response: Response) -> None:
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict", path="/")


class AccessGuard:
    """Passes on requests of the browser that opened the one-time link; refuses all others."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope) or self._opened(scope)
            await (answer or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._access.hosts:
            return PlainTextResponse("This host is not served here.\n", 421)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_foreign = origin is not None and origin.lower() not in self._access.origins
        if is_foreign or (scope["method"] not in _SAFE_METHODS and origin is None and site != "same-origin"):
            return PlainTextResponse("Requests from other sites are not served.\n", 403)
        if site not in (None, "same-origin", "none") and not _is_opening(scope):
            return PlainTextResponse("Requests from other sites are not served.\n", 403)
        return None

    def _opened(self, scope: Scope) -> Response | None:
        """The answer to the link; None for a request with the cookie."""
        access = self._access
        is_known = access.has_cookie(Headers(scope=scope).get("cookie"))
        if _is_opening(scope):
            link = parse_qs(scope["query_string"].decode("ascii", "replace")).get("link", [""])[0]
            if access.take_link(link) or is_known:
                response = HTMLResponse(
                    _FORWARD
                )  # not a redirect: after one that another site began, the browser withholds the cookie
                access.set_cookie(response)
                return response
            return PlainTextResponse(
                "This link was used already or is too old. In the terminal of `smp web`, press Enter for a new one.\n",
                403,
            )
        if not is_known and not self._may_scrape(scope):
            return PlainTextResponse("Open the inspector with the link that `smp web` prints.\n", 401)
        return None

    def _may_scrape(self, scope: Scope) -> bool:
        """Whether it is a request for the metrics with the bearer token."""
        token = self._access.metrics_token
        if not token or scope["method"] != "GET" or scope["path"] != METRICS_PATH:
            return False
        return has_token(token, Headers(scope=scope).get("authorization"))


def _is_opening(scope: Scope) -> bool:
    return bool(scope["method"] == "GET" and scope["path"] == OPEN_PATH)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            has_caching = any(name == b"cache-control" for name, _ in given)
            added = _HEADERS if has_caching else [*_HEADERS, (b"cache-control", b"no-store")]
            message = {**message, "headers": [*given, *added]}
        await send(message)

    return sending
