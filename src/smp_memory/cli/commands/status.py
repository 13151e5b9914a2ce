"""The command status, and `smp` alone: where the store is, what it holds, what happened last, what to do next.

`cli.main` runs it for `smp` alone without argparse and without opening the store, because it is called often and must start fast.
"""

from __future__ import annotations

import os
import sys
import time

from smp_memory.cli.commands import COMMANDS
from smp_memory.cli.hit_output import display_text, status_text
from smp_memory.cli.render import Screen, age_text, one_line, pad, paint, plural, safe, truncate, value_text, width_of
from smp_memory.discovery import absolute, find_root, is_named, is_store
from smp_memory.errors import SMPError, StoreNotFound
from smp_memory.git.repository import WorkTree
from smp_memory.integrations.hooks.last_calls import TITLES, hosts_with_hooks, last_calls
from smp_memory.model.ids import scheme_of, without_password
from smp_memory.model.reports import StoreStatus
from smp_memory.model.times import EPOCH, to_microseconds, to_moment, to_text
from smp_memory.model.types import KINDS, SEVERITIES
from smp_memory.store.opening import store_status, user_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.files.user_state import UserState
    from smp_memory.model.reports import StoreStatus

_PIPE_COLUMNS = 240
_NEWEST = 5
_MOST_FINDINGS = 10_000
WITHOUT_MAINTENANCE = {"maintenance": {"auto": False}}  # settings for a store that is opened for a look only


def status_arguments(parser: Parser) -> None:
    parser.is_about_store = True


def run_status(call: Invocation) -> None:
    """Show where the store is, what it holds, what happened last, and what to do next. `smp` alone does the same.

    The figures come from the index. If more changed since then than can be read in a moment, the output says so.

    Examples:
      smp status
      smp status --json
    """
    data = collect_status(call.root)
    call.answer(data, status_lines(data, call.screen.width))


def show_status(words: list[str]) -> None:
    """Run `smp` alone with its options."""
    root = None
    for at, word in enumerate(words):
        if word == "--root":
            root = words[at + 1]
        elif word.startswith("--root="):
            root = word.partition("=")[2]
    screen = Screen(sys.stdout, may_color="--no-color" not in words)
    data = collect_status(root or os.environ.get("SMP_ROOT") or None)
    if "--json" in words:
        screen.json(data)
        return
    for line in status_lines(data, screen.width):
        screen.line(line)


# -- what is known


def collect_status(named_root: str | None) -> dict[str, Any]:
    """The status as plain values. A store that is missing or cannot be read is part of the answer, not an error."""
    data: dict[str, Any] = {
        "root": None,
        "layout": None,
        "trusted": None,
        "problem": None,
        "notices": [],
        "merging": None,
    }
    try:
        root = absolute(named_root) if named_root else find_root(None)
        data["root"] = without_password(root)
        data |= _figures(_status_by_address(root) if scheme_of(root) else _status_of_folder(root))
        data["hosts"] = host_states(root, user_state(root))
        tree = None if scheme_of(root) else WorkTree.with_driver(root)
        data["merging"] = {"operation": tree.operation, "problem": tree.driver_problem()} if tree is not None else None
    except StoreNotFound as error:
        data |= {"root": None, "problem": error.message}
    except SMPError as error:
        data |= {"problem": error.message}
    data["next"] = [{"command": command, "why": why} for command, why in _next_steps(data)]
    return data


def _status_of_folder(root: str) -> StoreStatus:
    if not is_store(root) and not os.path.lexists(os.path.join(root, "config.json")):
        raise StoreNotFound(f"There is no store in {root}.", path=root)
    return store_status(root, os.environ)


def _status_by_address(address: str) -> StoreStatus:
    """The status of a store that is not in files; it is opened for it."""
    from smp_memory.memory import open_memory
    from smp_memory.model.statuses import is_open

    with open_memory(address, create=False, trust=False, config=WITHOUT_MAINTENANCE) as memory:
        status = StoreStatus(memory.root, memory.layout, is_named(address, os.environ) or memory.is_trusted)
        hits = memory.query(sort="newest", limit=_NEWEST, count_by="type", include_expired=True, track_access=False)
        times = memory.sessions_by_time()
        status.sessions, status.is_indexed, status.unreadable = len(times), True, len(hits.problems)
        status.counts = {name: hits.counts["type"][name] for name in KINDS if name in hits.counts["type"]}
        status.newest, status.notices = hits.records, memory.config.notices()
        if times:
            written, session = times[-1]
            status.last_session = (session.id, to_microseconds(written))
        kinds = [name for name, kind in KINDS.items() if kind.is_open_until_closed]
        for finding in memory.query(
            types=kinds, limit=_MOST_FINDINGS, include_expired=True, track_access=False
        ).records:
            if is_open(finding):
                severity = str(finding.get("severity") or "").lower()
                status.open_findings[severity] = status.open_findings.get(severity, 0) + 1
    return status


def host_states(root: str, state: UserState) -> list[dict[str, Any]]:
    """The hosts that have hooks for a store or have called, each with the time of its last call."""
    parent = os.path.dirname(root)
    project = os.path.dirname(parent) if os.path.basename(parent) == ".bmad" else os.getcwd()
    calls, hooks = last_calls(state), hosts_with_hooks(project, os.environ)
    return [_host(name, name in hooks, calls.get(name)) for name in TITLES if name in hooks or name in calls]


def _figures(status: StoreStatus) -> dict[str, Any]:
    order = {name: at for at, name in enumerate((*SEVERITIES, ""))}
    severities = sorted(status.open_findings, key=lambda name: order.get(name, len(order)))
    last = status.last_session
    return {
        "root": status.root,
        "layout": status.layout,
        "trusted": status.is_trusted,
        "notices": status.notices,
        "sessions": status.sessions,
        "indexed": status.is_indexed,
        "changed_sessions": status.changed,
        "memories": sum(status.counts.values()),
        "by_type": status.counts,
        "open_findings": {name or "none": status.open_findings[name] for name in severities},
        "unreadable": status.unreadable,
        "last_session": {"id": last[0], "written": _time_from(last[1])} if last is not None else None,
        "newest": [
            {
                "id": record.id,
                "session": record.session,
                "type": record.type,
                "created": to_text(record.created),
                "author": record.author,
                "state": status_text(record),
                "text": display_text(record),
            }
            for record in status.newest
        ],
    }


def _time_from(microseconds: int) -> str:
    from datetime import timedelta

    return to_text(EPOCH + timedelta(microseconds=microseconds))


def _host(name: str, is_installed: bool, called: float | None) -> dict[str, Any]:
    at = _time_from(int(called * 1_000_000)) if called is not None else None
    return {"host": name, "title": TITLES[name], "installed": is_installed, "last_call": at}


def _next_steps(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Commands that fit the state, the most urgent first, each with the reason."""
    if data["problem"] and data["root"] is None:
        yield "smp init", "create a store for this project"
        yield "smp demo", "see in a minute what SMP does"
        return
    if data["problem"] or data["unreadable"]:
        yield "smp doctor", "see what cannot be read, and how to fix it"
    if data["problem"]:
        return
    merging = data["merging"] or {"operation": "", "problem": ""}
    if merging["operation"]:
        yield "smp git resolve", f"settle the conflicts of the {merging['operation']} in progress"
    if merging["problem"]:
        yield "smp git setup", "register the merge driver of this clone"
    if data["notices"]:
        yield "smp doctor", "see which settings are ignored, and how to fix them"
    if not data["trusted"]:
        yield "smp trust", "let hooks use this store, if it is yours or your team's"
    if not data["memories"] and not data["changed_sessions"]:
        yield 'smp add decision "…" --rationale "…"', "store a first memory"
    elif not data["indexed"]:
        yield "smp list", "build the index, and list the newest memories"
    if not any(each["host"] != "mcp" for each in data["hosts"]):
        yield "smp install", "let your coding agent recall and record automatically"
    if data["memories"]:
        yield "smp query WORDS", "find memories in your own words"
    if "web" in COMMANDS:
        yield "smp web", "look at all of it in the browser"


# -- text


def status_lines(data: dict[str, Any], columns: int | None) -> Iterator[str]:
    if data["root"] is None:
        yield data["problem"]
    else:
        yield from _store_lines(data)
    if data.get("newest"):
        yield ""
        yield paint("bold", "Newest")
        yield from _newest_lines(data, columns)
    if data.get("hosts"):
        yield ""
        yield paint("bold", "Hosts")
        yield from (f"  {line}" for line in map(host_line, data["hosts"]))
    yield ""
    yield paint("bold", "Next")
    steps = [(step["command"], step["why"]) for step in data["next"]] + [("smp --help", "see the commands")]
    widest = max(width_of(command) for command, _ in steps)
    yield from (f"  {paint('cyan', pad(command, widest))}  {why}" for command, why in steps)


def _store_lines(data: dict[str, Any]) -> Iterator[str]:
    home = os.path.expanduser("~")
    root = data["root"]
    shown = f"~{root[len(home) :]}" if root.startswith(home + os.sep) else root
    if data["problem"]:
        yield paint("bold", shown)
        yield paint("red", data["problem"])
        return
    trusted = "trusted" if data["trusted"] else paint("yellow", "not trusted: hooks do not use it")
    yield f"{paint('bold', shown)}  {data['layout']}, {trusted}"
    yield from (paint("yellow", safe(text)) for text in data["notices"])
    if data["merging"] and data["merging"]["problem"]:
        yield paint("yellow", safe(data["merging"]["problem"]))
    if data["indexed"]:
        yield f"{plural(data['sessions'], 'session')}, {plural(data['memories'], 'memory')}{_types(data)}"
    else:
        yield f"{plural(data['sessions'], 'session')}; memories are not counted, because there is no index yet"
    if data["indexed"] and data["changed_sessions"]:
        changed = plural(data["changed_sessions"], "session")
        yield paint("yellow", f"As of the last index: {changed} changed since. `smp list` brings it up to date.")
    if data["open_findings"]:
        yield f"{plural(sum(data['open_findings'].values()), 'open finding')}{_severities(data['open_findings'])}"
    if data["unreadable"]:
        entries = "1 entry cannot" if data["unreadable"] == 1 else f"{data['unreadable']:,} entries cannot"
        yield paint("red", f"{entries} be read")
    if data["last_session"]:
        last = data["last_session"]
        yield f"Last session: {last['id']}, written {_age(last['written'])}"


def _types(data: dict[str, Any]) -> str:
    counts = [plural_of(number, name) for name, number in data["by_type"].items() if number]
    return f": {', '.join(counts)}" if counts else ""


def plural_of(number: int, type_name: str) -> str:
    kind = KINDS[type_name]
    return f"1 {kind.noun}" if number == 1 else f"{number:,} {kind.plural}"


def _severities(findings: dict[str, int]) -> str:
    named = [f"{number:,} {'without severity' if name == 'none' else name}" for name, number in findings.items()]
    return f": {', '.join(named)}" if list(findings) != ["none"] else ""


def _newest_lines(data: dict[str, Any], columns: int | None) -> Iterator[str]:
    short_ids = data["sessions"] == 1
    rows = [
        (_age(each["created"]), each["id"] if short_ids else f"{each['session']}/{each['id']}", each)
        for each in data["newest"]
    ]
    age_width, name_width = (max(width_of(safe(row[at])) for row in rows) for at in (0, 1))
    for age, name, each in rows:
        author = f"{one_line(value_text(each['author']))}: " if each["author"] else ""
        header = f"  {paint('dim', pad(age, age_width))}  {paint('cyan', pad(safe(name), name_width))}  "
        yield truncate(safe(f"{header}{author}{one_line(each['text'])}"), columns or _PIPE_COLUMNS)


def host_line(host: dict[str, Any]) -> str:
    """`Claude Code: last call 2 hours ago`; `Codex: installed, never called`."""
    verb = "last connected" if host["host"] == "mcp" else "last call"
    if host["last_call"]:
        note = "" if host["installed"] or host["host"] in ("mcp", "other") else ", hooks not in its settings"
        return f"{host['title']}: {verb} {_age(host['last_call'])}{note}"
    return f"{host['title']}: installed, never called"


def _age(at: str) -> str:
    return age_text(time.time() - (to_moment(at) - EPOCH).total_seconds())
