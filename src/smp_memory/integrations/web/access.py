"""Who may use the inspector: Host, Origin, the one-time link, the cookie, tokens, the token of forms; and the headers of every answer.

A one-time link opens the inspector in one browser: it sets a cookie and is void from then on. The cookie is a random secret that exists only
in this process and in that browser; it ends with the process. A link that was not used is void after ten minutes.
On a shared server (`integrations.clients`) there are no links: a client signs in with its token, which becomes the cookie, or sends it as a bearer token. So
nothing is kept between requests, and a revoked token ends every session of it. Under a name of `--allow-host` the cookie is for HTTPS only.

Guarantees: nothing but a refusal is answered
  - to a request under another host name (a web page that resolves its own name to this machine),
  - to a request from another origin or another site, also if the browser sends the cookie,
  - without the cookie or a token, except for the link itself, the form to sign in, and /metrics with the bearer token of the MCP server,
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

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse

from smp_memory.integrations.clients import KEY, bearer
from smp_memory.integrations.mcp.http import allowed_hosts, not_ready, too_many
from smp_memory.integrations.store_metrics import PATH as METRICS_PATH

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from smp_memory.integrations.clients import Client, Clients

OPEN_PATH = "/open"
LINK_SECONDS = 600.0
FORM_FIELD, FORM_HEADER = "form_token", "x-smp-form"
_FORWARD = '<!doctype html><html lang="en"><link rel="icon" href="/static/icon.svg"><meta http-equiv="refresh" content="0; url=/"><title>SMP</title><a href="/">Open the inspector</a></html>'
_SIGN_IN = (
    '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><link rel="icon" href="/static/icon.svg">'
    '<link rel="stylesheet" href="/static/inspector.css"><title>Sign in – SMP</title><main><section class="panel"><h1>Sign in</h1>'
    '<form action="/open" method="post"><p><label for="token">Token</label> <input id="token" name="token" type="password" '
    'autocomplete="current-password" autofocus required> <button>Sign in</button></p></form><p>%s</p></section></main></html>'
)
_ABOUT_TOKENS = "Whoever runs this server creates tokens with <code>smp token create</code>."
_WRONG = "This token does not open the inspector: it is mistyped, expired or revoked."
_SAFE_METHODS = ("GET", "HEAD")
_STATIC = "/static/"
_MOST_FORM_BYTES = 4096
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
    """The secrets of one running inspector, and its clients."""

    def __init__(
        self, port: int, clients: Clients, cookie: str = "", metrics_token: str = "", host: str = "127.0.0.1", names: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        """`cookie`: the secret of the person at this machine, whom the link lets in; `names` are further ones of this server."""
        self.clients = clients
        self.metrics_token = metrics_token  # lets a Prometheus server read /metrics, and nothing else
        self.hosts, self.origins = allowed_hosts(host, port, names)
        self._names = {name.lower() for name in names}
        self.cookie_name = f"smp-inspector-{port}"
        self._cookie = cookie
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

    def client(self, headers: Headers) -> Client | None:
        """The client of a request, by its cookie or bearer token."""
        given = cookie_parser(headers.get("cookie") or "").get(self.cookie_name, "")
        return self.clients.find(bearer(headers.get("authorization")) or given)

    def form_token(self, client: Client) -> str:
        """What forms of this client contain; the same in every server process."""
        return hmac.new(client.token.digest.encode(), b"forms of the inspector", "sha256").hexdigest()

    def has_form_token(self, given: str, client: Client) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token(client).encode())

    def forward(self, headers: Headers, secret: str | None = None) -> Response:
        """The way in, with the cookie. Not a redirect: after one that another site began, the browser withholds the cookie."""
        response = HTMLResponse(_FORWARD)
        is_https = headers.get("host", "").lower().partition(":")[0] in self._names
        response.set_cookie(
            self.cookie_name, secret or self._cookie, httponly=True, samesite="strict", path="/", secure=is_https
        )
        return response


class AccessGuard:
    """Passes on requests of the browser that opened the one-time link, or with a token; refuses all others."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope) or await self._admit(scope, receive)
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

    async def _admit(self, scope: Scope, receive: Receive) -> Response | None:
        """Note the client in the scope, or return the answer to the link, the form to sign in or a refusal."""
        access, headers = self._access, Headers(scope=scope)
        if access.clients.is_due:
            await run_sync(access.clients.refresh)
        if not access.clients.is_readable:
            return not_ready()
        client, is_shared = access.client(headers), access.clients.is_shared
        if scope["path"] == OPEN_PATH:
            if is_shared:
                return await self._sign_in(scope, receive, headers)
            return self._opened(scope, headers, client)
        if client is not None and scope["path"] == METRICS_PATH and client.token.is_limited:
            return PlainTextResponse("This token is limited to some sessions; metrics cover all of them.\n", 403)
        if client is not None:
            scope[KEY] = client
            return None if scope["path"].startswith(_STATIC) else too_many(client)
        if self._may_scrape(scope, headers) or (is_shared and scope["path"].startswith(_STATIC)):
            return None
        if not is_shared:
            return PlainTextResponse("Open the inspector with the link that `smp web` prints.\n", 401)
        if "text/html" in headers.get("accept", ""):
            return HTMLResponse(_SIGN_IN % _ABOUT_TOKENS, 401)
        return PlainTextResponse("A token is needed: sign in at /open, or send it as a bearer token.\n", 401)

    def _opened(self, scope: Scope, headers: Headers, client: Client | None) -> Response:
        """The answer to the one-time link."""
        link = parse_qs(scope["query_string"].decode("ascii", "replace")).get("link", [""])[0]
        if scope["method"] == "GET" and (self._access.take_link(link) or client is not None):
            return self._access.forward(headers)
        return PlainTextResponse(
            "This link was used already or is too old. In the terminal of `smp web`, press Enter for a new one.\n", 403
        )

    async def _sign_in(self, scope: Scope, receive: Receive, headers: Headers) -> Response:
        """The form in which a client gives its token, and the answer to it."""
        if scope["method"] != "POST":
            return HTMLResponse(_SIGN_IN % _ABOUT_TOKENS)
        given = b""
        async for piece in Request(scope, receive).stream():
            given += piece
            if len(given) > _MOST_FORM_BYTES:
                return PlainTextResponse("This is no token.\n", 413)
        secret = parse_qs(given.decode("utf-8", "replace")).get("token", [""])[0].strip()
        client = self._access.clients.find(secret)
        if client is None:
            return HTMLResponse(_SIGN_IN % _WRONG, 401)
        client.note("sign_in", "web /open")
        return self._access.forward(headers, secret)

    def _may_scrape(self, scope: Scope, headers: Headers) -> bool:
        """Whether it is a request for the metrics with the bearer token of the MCP server, which is not shared."""
        token, given = self._access.metrics_token, bearer(headers.get("authorization"))
        if not token or scope["method"] != "GET" or scope["path"] != METRICS_PATH or self._access.clients.is_shared:
            return False
        return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


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
