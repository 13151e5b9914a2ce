"""Commands that serve a store to others: web for people, mcp for agents, tokens for both, metrics for Prometheus."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import one_line, paint, plural, safe, table
from smp_memory.errors import InvalidRecord, StoreNotFound, UserError, install_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.privacy.client_tokens import TokenBook

# The packages of extras. `pip install smp[web]` would install another project of that name.
WEB_PACKAGES = ("starlette>=1,<2", "uvicorn>=0.50", "jinja2>=3.1.6,<4")
MCP_PACKAGES = ("mcp>=2.3,<3",)


def web_arguments(parser: Parser) -> None:
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port (default: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="allow other machines to reach --host")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a further accepted host name, for instance that of a TLS proxy")  # fmt: skip
    parser.add_argument("--no-browser", action="store_true", help="print the link; do not open a browser")


def run_web(call: Invocation) -> None:
    """Show the store in a browser: what agents are told, search, sessions, trash, health.

    The page is served on 127.0.0.1 for the browser that opens the one-time link, until Ctrl-C. If the store has tokens (`smp token`),
    or with another --host, people sign in with a token, and each sees what the token allows.

    Examples:
      smp web
      smp web --port 8377 --no-browser
    """
    memory = call.memory  # first: a missing store is reported at once
    try:
        from smp_memory.integrations.mcp.http import check_host
        from smp_memory.integrations.web.app import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "smp_memory":
            raise
        message = f"The package `{error.name}` is not installed. Install it: {install_command(*WEB_PACKAGES)}"
        raise UserError(message, module=error.name) from None

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    options = call.options
    check_host(options.host, options.allow_remote)
    names = tuple(options.allow_host)
    serve(memory, options.port, call.author, say, not options.no_browser, host=options.host, names=names)


_ONLY_HTTP = ("host", "port", "token_file", "allow_remote", "allow_host")


def mcp_arguments(parser: Parser) -> None:
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of standard input and output")
    parser.add_argument("--host", help="with --http: the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="with --http: the port (default: a free one)")
    parser.add_argument("--token-file", metavar="FILE", help="with --http: the file of the bearer token; created if it is missing (default: a file in the user's state, printed at the start)")  # fmt: skip
    parser.add_argument("--allow-remote", action="store_true", help="with --http: allow other machines to reach --host")
    parser.add_argument("--allow-host", metavar="NAME", action="append", help="with --http: a further accepted host name")  # fmt: skip
    parser.add_argument("--create", action="store_true", help="create the store if there is none, as `smp init` does")
    parser.add_argument("--allow-erase", action="store_true", help="agents may erase memories for good")
    parser.add_argument("--compat", choices=("memory",), help="memory: the tools of the reference memory server")


def run_mcp(call: Invocation) -> None:
    """Serve the memory to an agent over MCP, the Model Context Protocol. A client such as a coding agent starts it.

    Over standard input and output there is one server for each client; any number of servers and other commands may use the same store. With --http one server serves many clients, which need the bearer token. Needs SMP's extra `mcp`.

    With --compat memory it replaces the reference memory server, with its nine tools; the file that MEMORY_FILE_PATH
    names is imported once.

    Examples:
      claude mcp add memory -- smp mcp --root "$PWD/.bmad/memory"
      smp mcp --http --port 8765
      smp mcp --compat memory
    """
    options = call.options
    if not options.http and any(getattr(options, name) for name in _ONLY_HTTP):
        raise UserError("--host, --port, --token-file, --allow-remote and --allow-host require --http.")
    if options.create:
        _create_store(call)
    memory = call.memory  # first: a missing store is reported at once, and loading the rest takes a second
    try:
        from smp_memory.integrations.mcp.transport import ServerOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "smp_memory":
            raise
        message = f"The package `mcp` is not installed. Install it: {install_command(*MCP_PACKAGES)}"
        raise UserError(message, module=error.name) from None
    except ImportError as error:  # it is installed, but a part of it does not load
        message = f"The package `mcp` cannot be loaded ({error}). Reinstall it: {install_command(*MCP_PACKAGES)}"
        raise UserError(message, module=error.name) from None
    server = ServerOptions(
        session=call.session_name,
        author=call.author,
        may_erase=options.allow_erase,
        compat=options.compat is not None,
        http=options.http,
        host=options.host or "127.0.0.1",
        port=options.port or 0,
        token_file=options.token_file,
        remote=options.allow_remote,
        names=tuple(options.allow_host or ()),
    )
    serve(memory, server)


def _create_store(call: Invocation) -> None:
    """Create the store where `smp init` does, unless there is one."""
    from smp_memory.config.settings import DEFAULT_ROOTS
    from smp_memory.memory import open_memory

    try:
        call.memory.config  # noqa: B018 - opens it
    except StoreNotFound:
        call.use_store(open_memory(call.root or os.path.join(os.getcwd(), DEFAULT_ROOTS["jsonl"])))


# -- tokens

_EXPIRES = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


def token_create_arguments(parser: Parser) -> None:
    parser.is_about_store = parser.names_sessions = True
    parser.set_defaults(session=None)
    parser.add_argument("name", metavar="NAME", help="who gets it; the audit log uses this name")
    parser.add_argument("--project", action="append", default=[], metavar="NAME", help="only sessions of this project; repeat for more")  # fmt: skip
    parser.add_argument("--session", action="append", default=[], dest="sessions", metavar="ID", help="only this session, besides those of the projects; repeat for more")  # fmt: skip
    parser.add_argument("--write", action="store_true", help="it may write, change and delete memories")
    parser.add_argument("--erase", action="store_true", help="it may also remove memories for good; implies --write")
    parser.add_argument("--expires", metavar="SPAN", help="until when: 12h, 90d, 8w or a date (default: until it is revoked)")  # fmt: skip
    parser.add_argument("--rate", type=float, metavar="N", help="requests per second, in each server process (default: 50)")  # fmt: skip


def run_token_create(call: Invocation) -> None:
    """Create a token with which a client uses `smp mcp --http` and `smp web` of this store. The secret is printed once.

    Without --project and --session it gives access to all sessions. Without --write it can only read. Only a hash of the
    secret is stored, in your state or in the database, never in the folder of the store.

    Examples:
      smp token create ci --project shop --expires 90d
      smp token create ada --project shop --project billing --write
      smp token create admin --write --erase
    """
    from smp_memory.model import ids
    from smp_memory.privacy.client_tokens import RATE, add_token, new_token

    options, now = call.options, call.memory.now()
    rate = RATE if options.rate is None else options.rate
    if not 0 < rate < 1e6:
        raise UserError("--rate: must be more than 0 requests per second.", field="rate")
    log, rights = call.memory.store.tokens, {"may_write": options.write or options.erase, "may_erase": options.erase}
    sessions = [ids.check(each, "session") for each in options.sessions]
    expires = _expiry(options.expires, now) if options.expires else None
    secret, token = new_token(
        options.name, os.urandom, projects=options.project, sessions=sessions, rate=rate, created=now, expires=expires, **rights
    )  # fmt: skip
    if call.memory.store.files is not None and not call.memory.store.state.on_disk:
        raise UserError("There is no folder for your state, where tokens are stored. Set SMP_STATE_DIR to a folder that you own.")  # fmt: skip
    if any(each.name == token.name and each.holds(now) for each in _tokens(call).tokens.values()):
        raise UserError(f"There is a valid token {token.name} already; revoke it first, or choose another name.")
    add_token(log, token)
    lines = [
        secret,
        f"Token {token.id} for {token.name}: {_rights(token.to_dict(now))}. The secret is not shown again.",
    ]
    call.answer({**token.to_dict(now), "secret": secret}, lines)


def _expiry(text: str, now: datetime) -> datetime:
    """The end of a span from now on, `90d`, or a date."""
    from datetime import timedelta

    from smp_memory.model.times import later, parse, to_moment

    number, unit = text[:-1], text[-1:].lower()
    if number.isascii() and number.isdigit() and unit in _EXPIRES and len(number) < 6:
        until = later(now, timedelta(seconds=int(number) * _EXPIRES[unit]))
    else:
        try:
            until = to_moment(parse(text, "expires"))
        except InvalidRecord:
            raise UserError(f"--expires: not a span or a date: {text[:80]!r}. Give 12h, 90d, 8w or a date such as 2027-01-31.", field="expires") from None  # fmt: skip
    if until <= now:
        raise UserError("--expires: this is in the past. Give a span such as 90d, or a later date.", field="expires")
    return until


def _tokens(call: Invocation) -> TokenBook:
    from smp_memory.privacy.client_tokens import TokenBook

    return TokenBook(call.memory.store.tokens.read()[0])


def token_list_arguments(parser: Parser) -> None:
    parser.is_about_store = True


def run_token_list(call: Invocation) -> None:
    """List the tokens of clients: names, rights, when they expire, and whether they are valid. Secrets are not stored.

    Examples:
      smp token list
      smp token list --json
    """
    now, book = call.memory.now(), _tokens(call)
    rows = [token.to_dict(now) for token in book.tokens.values()]
    cells = [
        (safe(row["id"]), safe(row["name"]), row["state"], _rights(row), (row["expires"] or "")[:16]) for row in rows
    ]
    lines = list(table(("id", "name", "state", "rights", "expires"), cells, call.screen.width)) if rows else ["There are no tokens."]  # fmt: skip
    lines += [f"{paint('red', '✗')} {problem}" for problem in book.problems]
    call.answer({"tokens": rows, "problems": book.problems}, lines)


def _rights(row: dict[str, Any]) -> str:
    """What a token allows, in words."""
    rights = "read, write and erase" if row["erase"] else "read and write" if row["write"] else "read"
    names = [f"project {each}" for each in row["projects"]] + [f"session {each}" for each in row["sessions"]]
    return safe(one_line(f"{rights} {', '.join(names) or 'all sessions'}"))


def token_revoke_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument("token", metavar="ID|NAME", help="the id or the name of a token")


def run_token_revoke(call: Invocation) -> None:
    """Revoke a token. Every server refuses it within a second, and ends its open event streams.

    Examples:
      smp token revoke ci
      smp token revoke t-5f0c1a7e
    """
    from smp_memory.privacy.client_tokens import revoke

    now = call.memory.now()
    token = _tokens(call).named(call.options.token, now)
    if token.revoked is None:
        revoke(call.memory.store.tokens, token.id, now)
    token = _tokens(call).tokens[token.id]
    call.answer(token.to_dict(now), [f"Token {token.id} of {token.name} is revoked."])


# -- metrics

_FORMATS = ("prometheus", "openmetrics")


def metrics_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument(
        "--output", metavar="FILE", help="write to this file, for node_exporter's textfile collector; - prints them"
    )
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="the text format (default: prometheus)")


def run_metrics(call: Invocation) -> None:
    """Print metrics of the store for Prometheus: sessions, memories, sizes, damage, maintenance, hooks.

    They are computed from the store now. Each process counts durations and errors of its own operations, and this
    one has just started: `smp mcp --http` serves those of the server, together with these metrics, at /metrics. No metric names a
    session or contains text of a memory.

    The text needs SMP's extra `metrics`; --json does not.

    FILE is replaced as a whole, and only if it contains metrics of SMP. Its name must end in .prom for node_exporter.

    Examples:
      smp metrics
      smp metrics --output smp.prom
      smp metrics --json
    """
    from smp_memory.integrations.store_metrics import metrics_dict, render, store_samples, write_text_file

    options = call.options
    families = store_samples(call.memory)
    if options.output in (None, "-"):
        lines = [] if options.json else render(families, options.format).removesuffix("\n").split("\n")
        call.answer(metrics_dict(families), lines)
        return
    text = render(families, options.format)
    path, count = write_text_file(options.output, text), len(families)
    data = {"path": path, "bytes": len(text.encode()), "metrics": count}
    call.answer(data, [f"Wrote {plural(count, 'metric')} to {path}"])
