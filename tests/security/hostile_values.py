"""Stores with planted entries whose fields hold any value, and every way into such a store.

`Planter` writes a session of good memories, and beside them entries in which one field has a wrong value: with the right checksum, as
somebody who knows the format writes them, or as a person types them. `use` runs the library, the commands, the MCP tools, the hooks and
the pages of the inspector; errors of SMP itself are fine, anything else is a failure.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import SMPError
from smp_memory.files.codec import signature
from smp_memory.files.layouts import layout_named
from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.integrations.mcp.request_context import RequestContext
from smp_memory.integrations.mcp.server import TOOLS
from smp_memory.integrations.web.pages.analytics import PARTS
from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry
from smp_memory.model.types import COMMON_FIELDS, KINDS
from smp_memory.testing import FrozenClock
from tests.unit.web.inspector_client import InspectorClient

SESSION, OTHER = "bad", "good"
SIGNED, EDITED, UNSIGNED = "signed", "edited", "unsigned"
STATES = (SIGNED, EDITED, UNSIGNED)
AT = "2026-01-05T10:00:00Z"
PLANTED = "PLANTEDTEXT"


def _nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "epoch": 1770000000,
    "2^63": 2**63,
    "2^200": 2**200,
    "10^900": 10**900,
    "1e308": 1e308,
    "fraction": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "empty text": "",
    "word": "yesterday",
    "long text": "word " * 200_000,
    "control characters": "a\x00b\x1b[31m\x07\r\n\u2028\u202e\x85c",
    "lone surrogate": "a\ud800b",
    "year 1": "0001-01-01T00:00:00Z",
    "year 1 with zone": "0001-01-01T00:00:00+23:59",
    "year 9999": "9999-12-31T23:59:59.999999Z",
    "year 9999 with zone": "9999-12-31T23:59:59-23:59",
    "year 10000": "10000-01-01T00:00:00Z",
    "day": "9999-12-31",
    "empty list": [],
    "list in a list": [[]],
    "mixed list": [1, None, "DEC-0001", {"a": 1}, [2], True, 1.5],
    "empty object": {},
    "object": {"a": {}},
    "object with known names": {
        "count": "many",
        "last": 7,
        "kind": 3,
        "target": [7],
        "status": {"a": 1},
        "topic": [],
        "references": 7,
    },
    "list of objects": [{"kind": 7, "target": {}}, {"kind": "resolves", "target": "DEC-0001"}, {"at": 7, "agent": []}],
    "access with a wrong time": {"count": 3, "last": "yesterday"},
    "access with a huge count": {"count": 10**40, "last": "2026-01-01T00:00:00Z"},
    "deep": _nested(60),
    "very deep": _nested(4000),
}
MACHINE = ("id", "seq", "tx", "type", "session_id", "uid", "uids", "schema", "revision", "extra", "smp", "history", "data", "content", "metadata", "decay", "access_count", "last_accessed", "message")  # fmt: skip
OTHER_FIELDS = (
    "supersedes",
    "superseded_by",
    "inputs",
    "disagreed_by",
    "concluded_by",
    "promoted_from",
    "unknown",
    "expires",
)
TEXTS = {"conversation": {"role": "user"}, "preference": {"key": "style", "value": "plain"}, "agent_state": {"agent": "dev"}, "artifact": {"name": "plan.md"}}  # fmt: skip


def fields_of(kind: str) -> list[str]:
    """The names of all fields that SMP interprets in memories of a type, and some that it does not know."""
    return list(dict.fromkeys([*KINDS[kind].rank, *COMMON_FIELDS, "created", *MACHINE, *OTHER_FIELDS]))


class Planter:
    """Appends entries to the session `bad` of a store in one layout."""

    def __init__(self, root: Path, layout: str, state: str) -> None:
        self.layout = layout_named(layout)
        self.folder = Path(self.layout.folder(str(root), SESSION))
        self.state = state
        self.number = 1000
        self.count = 0

    def put(self, kind: str, name: str, value: Any) -> None:
        entry = self._entry(PUT, kind, f"{KINDS[kind].prefix}-{self.number + 1}", self._data(kind))
        self._plant(entry, name, value)

    def amend(self, op: str, name: str, value: Any, kind: str = "decision", id: str = "DEC-0001") -> None:
        data = {CHANGE: {"rationale": f"{PLANTED} changed"}, DELETE: {"reason": PLANTED}, RESTORE: {}}[op]
        self._plant(self._entry(op, kind, id, data), name, value)

    def _data(self, kind: str) -> dict[str, Any]:
        text = f"{PLANTED} {self.number} deploy"
        return {
            "author": "dev",
            **TEXTS.get(kind, {}),
            KINDS[kind].text: {"task": text} if kind == "agent_state" else text,
        }

    def _entry(self, op: str, kind: str, id: str, data: dict[str, Any]) -> Entry:
        self.number += 1
        entry = Entry(op, kind, id, AT, data, self.number, uid=f"uid{self.number}" if op == PUT else "")
        entry.by, entry.revision = (None, 0) if op == PUT else ("dev", 2)
        return entry

    def _plant(self, entry: Entry, name: str, value: Any) -> None:
        names = self.layout.field_names
        fields = names.encode(entry, SESSION)
        target = names._to_file[entry.type].get(name, names.time if name == "created" else name)
        inner = fields.get("changes") if entry.op == CHANGE else fields.get(names.nest)
        own = (*OTHER_FIELDS, *KINDS[entry.type].rank, *(KINDS["decision"].rank if entry.op == CHANGE else ()))
        if isinstance(inner, dict) and name in own and name not in names.outside:
            inner[target] = value
        else:
            fields[target] = value
        file = self.folder / self.layout.file_of(entry, SESSION)
        data = self._encoded(file.name if self.layout.name != "markdown" else self._file(entry), fields)
        if data is None:
            return
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.layout.codec_of(self._file(entry)).header("title"))
        with file.open("ab") as opened:
            opened.write(data)
        self.count += 1

    def _file(self, entry: Entry) -> str:
        return self.layout.file_of(entry, SESSION)

    def _encoded(self, file: str, fields: dict[str, Any]) -> bytes | None:
        if self.layout.name != "markdown":
            return self._line(fields)
        try:
            data = self.layout.codec_of(file).encode(fields)
        except (ValueError, TypeError, AttributeError, RecursionError, SMPError, KeyError):
            return None  # the format has no form for this value
        if self.state == EDITED:
            return re.sub(rb"sha256:[0-9a-f]{16}", b"sha256:0123456789abcdef", data)
        if self.state == UNSIGNED:
            data = re.sub(rb"(?m)^ *smp: .*\n", b"", data)
            return re.sub(rb"<!-- end [^\n]*-->", b"", data)
        return data

    def _line(self, fields: dict[str, Any]) -> bytes | None:
        try:
            body = json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode()
        except (RecursionError, ValueError):
            return None
        if self.state == UNSIGNED:
            return body + b"\n"
        checksum = signature(body[:-1]) if self.state == SIGNED else "sha256:0123456789abcdef"
        return body[:-1] + b',"checksum":"' + checksum.encode() + b'"}\n'


# -- a store


def make_store(root: Path, layout: str) -> None:
    """A store with a good session, and the session in which entries are planted."""
    with smp_memory.open(root, layout=layout, clock=FrozenClock(), config={"durability": "os"}) as memory:
        for name in (OTHER, SESSION):
            session = memory.create_session(name, user="ada", agents=["dev"], project="shop", tags=["web"])
            turn = session.add_turn("user", "Always deploy with the green button, please.")
            decision = session.add_decision(
                "Deploy on Monday with Postgres", author="dev", rationale="calm", tags=["ops"], topic="deploy"
            )
            finding = session.add_finding(
                "Deploy fails without an index", severity="high", author="dev", turn_ref=turn.id
            )
            session.relate(decision.id, finding.id, "resolves")
            session.add_preference("editor", "vim")
            session.add_learning("Deploy needs the green button", author="dev")
            session.update_agent_state("dev", {"task": "deploy"})
            session.add_artifact("deploy.md", "How to deploy")
            session.update(decision.id, impact="large")
        memory.query("deploy")


# -- every way in

Call = tuple[str, Callable[[], Any]]


def _exhaust(value: Any) -> None:
    """Look at a result as callers do."""
    for name in ("to_dict", "to_text", "to_dicts", "_repr_html_"):
        render = getattr(value, name, None)
        if callable(render):
            json.dumps(render())
    repr(value)
    str(value)
    if isinstance(value, (list, tuple)):
        for each in list(value)[:80]:
            record = getattr(each, "record", each)
            if hasattr(record, "to_dict"):
                json.dumps(record.to_dict(), ensure_ascii=False).encode()
                for name in ("text", "created", "updated", "author_kind", "confidence_value", "tags", "status"):
                    getattr(record, name, None)
                repr(record)


QUERIES: list[tuple[str | None, dict[str, Any]]] = [
    ("deploy", {}),
    (PLANTED, {"limit": 100}),
    (f'"{PLANTED}" depl*', {"explain": True}),
    (None, {"limit": 100}),
    (None, {"sort": "newest", "limit": 100}),
    (None, {"sort": "priority", "limit": 100}),
    (None, {"sort": "importance", "limit": 100}),
    ("deploy", {"include_deleted": True, "include_expired": True, "limit": 100}),
    ("deploy", {"include_archived": True}),
    ("deploy", {"agents": "dev", "types": "decision"}),
    (None, {"tags": ["ops"]}),
    (None, {"topic": "deploy"}),
    (None, {"time": "last year"}),
    (None, {"min_priority": 0.1, "limit": 100}),
    (None, {"min_confidence": 0.1, "limit": 100}),
    (None, {"where": {"severity": {"greater": 1}, "status": "open"}}),
    (None, {"where": {"importance": {"greater": 0.1}}}),
    (None, {"where": {"impact.score": {"less": 3}}}),
    (None, {"where": {"unknown": {"contains": "a"}}}),
    (None, {"references": "DEC-0001"}),
    (None, {"related_to": "DEC-0001"}),
    (None, {"count_by": "topic"}),
    (None, {"count_by": "day"}),
    (None, {"count_by": "tag"}),
    (None, {"count_by": "agent"}),
]


def library_reads(memory: Any) -> Iterator[Call]:
    for text, options in QUERIES:
        yield f"query({text!r}, {options})", lambda text=text, options=options: memory.query(text, **options)
    session = memory.session(SESSION)
    for name in ("topics", "agents", "summarize", "sessions", "deleted", "validate", "analytics", "session_states", "archived_sessions", "sessions_by_time", "latest_session", "preview", "export"):  # fmt: skip
        yield f"memory.{name}", getattr(memory, name)
    for by in ("hour", "day", "week", "month"):
        yield f"timeline({by})", lambda by=by: memory.timeline(by)
    for part in PARTS:
        yield f"analytics {part}", lambda: memory.analytics(by="day", since="2020-01-01").to_dict()
    for agent, task in (("dev", "deploy"), (None, PLANTED), ("stranger", "deploy the button"), (None, None)):
        yield "context", lambda agent=agent, task=task: memory.context(agent, task=task, max_tokens=4000).text
        yield "preview", lambda agent=agent, task=task: memory.preview(agent, task=task)
    yield "doctor", memory.doctor
    yield "doctor quick", lambda: memory.doctor(quick=True)
    yield "maintain dry", lambda: memory.maintain(dry_run=True)
    yield "purge", lambda: memory.purge(older_than=0)
    yield "redact preview", lambda: memory.redact(preview=True)
    yield "preferences", lambda: (memory.global_memory.preferences(), memory.global_memory.profile())
    for name in ("records", "stats", "topics", "agents", "summarize", "timeline", "deleted", "validate", "size_report", "duplicates", "archived", "export", "context", "get_context"):  # fmt: skip
        yield f"session.{name}", getattr(session, name)
    yield (
        "session_state",
        lambda: (session.session_state, session.next_step, session.state, session.info, session.written),
    )
    yield "records of all", lambda: session.records(include_deleted=True)
    for kind in KINDS:
        yield f"records({kind})", lambda kind=kind: session.records(kind, last=50)
    for format in ("json", "jsonl", "yaml", "markdown"):
        yield f"export {format}", lambda format=format: session.export(format=format)
    yield "as_of", lambda: session.as_of("2026-06-01").records()
    yield "compact dry", lambda: session.compact(dry_run=True)
    yield "tidy dry", lambda: session.tidy(dry_run=True)
    yield "anonymised", session.anonymised
    yield "watch", lambda: list(memory.watch("deploy", timeout=0, pause=0.01))
    agent = session.agent("dev")
    for name in ("records", "working_memory", "user_preferences", "deleted", "duplicates", "topics", "agents", "summarize", "timeline", "export", "conversation_context"):  # fmt: skip
        yield f"agent.{name}", getattr(agent, name)
    yield "agent.state", lambda: agent.state
    yield "agent.query", lambda: agent.query("deploy", limit=100)
    yield "agent.context", lambda: agent.context("deploy").text
    yield "agent.relevant", lambda: (agent.relevant_decisions("deploy"), agent.relevant_findings("deploy"))
    yield "agent.as_of", lambda: agent.as_of("2026-06-01").records()


def record_reads(memory: Any, most: int) -> Iterator[Call]:
    """Everything that can be asked of single memories."""
    session = memory.session(SESSION)
    found = session.records(include_deleted=True)
    for record in [*found[:7], *found[7:][-most:]]:
        for name in ("history", "priority", "find", "find_related", "find_similar", "get"):
            yield f"session.{name}", lambda name=name, id=record.id: getattr(session, name)(id)
        yield "decay_curve", lambda ref=record.ref: memory.decay_curve(ref)
        yield "explain", lambda ref=record.ref: memory.explain(ref, "deploy")
        yield "agent.history", lambda id=record.id: session.agent("dev").history(id)


def library_writes(memory: Any) -> Iterator[Call]:
    session = memory.session(SESSION)
    yield "add", lambda: session.add_decision("Deploy later", tags=["ops"], references=["DEC-0001"])
    yield "add many", lambda: session.add_many([("finding", "Deploy was slow")] * 3)
    yield "update", lambda: session.update("DEC-0001", rationale="new")
    yield "resolve", lambda: session.resolve("FIND-0001", "done")
    yield "pin", lambda: (session.pin("DEC-0001"), session.unpin("DEC-0001"))
    yield "add preference", lambda: session.add_preference("editor", "emacs")
    yield "state", lambda: session.update_agent_state("dev", {"task": "more"})
    planted = [each.id for each in session.records()][7:]
    for id in planted[:12]:
        yield "update planted", lambda id=id: session.update(id, topic="changed")
        yield "relate planted", lambda id=id: session.relate(id, "DEC-0001")
        yield "delete planted", lambda id=id: session.delete(id)
        yield "restore planted", lambda id=id: session.restore(id)
    for group in session.duplicates()[:3]:
        yield "merge", lambda group=group: session.merge(group)
    yield "promote", lambda: [memory.global_memory.promote(f"{SESSION}/{id}") for id in planted[:3]]
    yield "delete by query", lambda: session.delete(topic="changed")
    yield "erase", lambda: session.erase(planted[-1]) if planted else None
    yield "redact", memory.redact
    yield "tidy", session.tidy
    yield "compact", session.compact
    yield "archived", session.archived
    yield "maintain", memory.maintain
    yield "maintain later", lambda: memory.maintain(now="2027-11-01T00:00:00Z")
    yield "repair", memory.repair
    yield "doctor fix", lambda: memory.doctor(fix=True)
    yield "reindex", memory.reindex
    yield "archive", lambda: memory.archive_session(SESSION)
    yield "query archived", lambda: memory.query("deploy", include_archived=True)
    yield "restore session", lambda: memory.restore_session(SESSION)
    yield "delete session", lambda: memory.delete_session(SESSION)
    yield "undelete session", lambda: memory.undelete_session(SESSION)


COMMANDS = [
    "", "stats", "status", "list --all-memories", f"list --session {SESSION}", f"show DEC-0001 --session {SESSION}",
    f"history DEC-0001 --session {SESSION}", "query deploy --all", "query deploy --all --json", "query deploy --explain",
    "context dev --task deploy", "session list", f"session show {SESSION}", "topics --all", "timeline --all", "agents --all",
    "summary --all", "trash", "archived", "validate --all", "doctor", "audit", "analytics", "export --all --json",
    f"context --preview --session {SESSION}", "digest --dry-run", "metrics", "maintain --dry-run",
]  # fmt: skip
WRITING_COMMANDS = [
    f"note 'deploy was noticed' --session {SESSION}", f"edit DEC-0001 --set status=done --session {SESSION}",
    f"compact --session {SESSION}", "maintain", f"repair --session {SESSION}", "doctor --fix", f"session archive {SESSION}",
    f"session restore {SESSION}",
]  # fmt: skip


def run_command(root: Path, command: str) -> None:
    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
        main([*shlex.split(command), "--root", str(root), "--no-pager"])
    if "Internal error" in errors.getvalue() + said.getvalue():
        raise AssertionError(f"smp {command}: {errors.getvalue()[-600:]}")


MCP_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("recall", {"query": "deploy"}),
    ("recall", {"query": PLANTED, "limit": 100, "max_tokens": 20000}),
    ("recall", {"limit": 100, "sort": "priority", "include_expired": True}),
    ("get", {"ids": ["DEC-0001", "FIND-0001"], "session": SESSION, "related": True, "history": True}),
    ("context", {"task": "deploy"}),
    ("overview", {"about": "summary"}),
    ("overview", {"about": "topics"}),
    ("overview", {"about": "timeline"}),
    ("overview", {"about": "agents"}),
    ("overview", {"about": "figures"}),
    ("sessions", {"action": "list"}),
    ("forget", {"action": "list"}),
]
PAGES = (
    "/", "/search?q=deploy", f"/search?q={PLANTED}", "/sessions", f"/session/{SESSION}", f"/session/{OTHER}", "/timeline",
    f"/timeline?session={SESSION}", "/trash", "/health", "/health?check=full", "/export", "/maintain",
    f"/memory/{SESSION}/DEC-0001", "/?task=deploy&agent=dev", *(f"/analytics?part={part}" for part in PARTS),
)  # fmt: skip


def hook(root: Path, name: str, **fields: Any) -> str:
    payload = {"hook_event_name": name, "session_id": "h1", "cwd": str(root), **fields}
    event = events.read(json.dumps(payload).encode(), "claude-code", {})
    assert event is not None
    return recall_for_event(Reader(str(root), {}), event, "claude-code-h1").text


class Failures(list[str]):
    """What failed, each kind once, with the place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def run(self, calls: Iterator[Call]) -> None:
        while True:
            try:
                call = next(calls, None)
            except SMPError:
                return
            except Exception as error:
                self._add("preparing", error)
                return
            if call is None:
                return
            try:
                _exhaust(call[1]())
            except SMPError:
                pass
            except Exception as error:
                self._add(call[0], error)

    def _add(self, name: str, error: Exception) -> None:
        frames = list(traceback.extract_tb(error.__traceback__))
        ours = [each for each in frames if "/smp_memory/" in each.filename]
        last = (ours or frames)[-1]
        place = f"{last.filename.rpartition('/smp_memory/')[2]}:{last.lineno}"
        if place not in self._seen:
            self._seen.add(place)
            self.append(f"{name[:60]}: {place}: {type(error).__name__}: {str(error)[:300]}")


def use(root: Path, *, writes: bool, most: int = 40) -> Failures:
    """Use a store in every way; what fails, and good memories that are not found."""
    failures = Failures()
    reads = "commands", [(f"smp {each}", lambda each=each: run_command(root, each)) for each in COMMANDS]
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        failures.run(library_reads(memory))
        failures.run(record_reads(memory, most))
        failures.run(iter(_tools(memory)))
        failures.run(_pages(memory, most))
        _check_good(memory, failures)
    failures.run(iter(reads[1]))
    for name, fields in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": "how do we deploy with Postgres?"}), ("SubagentStart", {"agent_type": "dev"})):  # fmt: skip
        failures.run(iter([(f"hook {name}", lambda name=name, fields=fields: hook(root, name, **fields))]))
    if writes:
        failures.run(iter([(f"smp {each}", lambda each=each: run_command(root, each)) for each in WRITING_COMMANDS]))
        with smp_memory.open(root, clock=FrozenClock()) as memory:
            failures.run(library_writes(memory))
            failures.run(library_reads(memory))
            _check_good(memory, failures)
            failures.run(iter([("convert", lambda: memory.convert("log" if memory.layout == "jsonl" else "jsonl"))]))
    return failures


def _tools(memory: Any) -> list[Call]:
    caller = RequestContext(memory).caller("tester")
    return [
        (f"mcp {name} {given}", lambda name=name, given=given: json.dumps(TOOLS[name].call(caller, dict(given)).data))
        for name, given in MCP_CALLS
    ]


def _pages(memory: Any, most: int) -> Iterator[Call]:
    client = InspectorClient(memory)

    def get(path: str) -> None:
        page = client.get(path)
        if page.status == 500:
            raise AssertionError(f"{path}: {page.text[-400:]}")

    for path in PAGES:
        yield path, lambda path=path: get(path)
    records = memory.session(SESSION).records(include_deleted=True)
    for record in records[7:][-most:]:
        for path in (f"/memory/{SESSION}/{record.id}", f"/memory/{SESSION}/{record.id}/edit"):
            yield path, lambda path=path: get(path)


def _check_good(memory: Any, failures: Failures) -> None:
    found = {hit.record.ref for hit in memory.query("deploy green button Monday", limit=100, min_relevance=0)}
    for name in ("DEC-0001", "LEARN-0001"):
        if f"{OTHER}/{name}" not in found:
            failures.append(f"{OTHER}/{name} is not found")
