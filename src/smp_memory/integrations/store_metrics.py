"""Metrics of a store: sessions, memories, sizes, damage, maintenance, hooks, audited actions. Computed when they are asked for.

They describe the store, whichever process asks; what this process did is in `smp_memory.observe.telemetry`.

Guarantees: nothing in the store is changed; only the index catches up, as for a query. Labels are known words (types, states,
severities, hosts, tasks, actions): anything else counts as `other`, so that no text of a store becomes a label and the number of
series is bounded. No label names a session, a person or a file. A part that cannot be computed is left out, and
`smp_collector_success` says which.
What never happened has no time: the series is missing.
Non-guarantees: the parts are not computed at one moment. At most 100 unreadable entries are counted for each session.

    print(metrics_text(memory))                    # with those of this process as Prometheus text, exposition format 0.0.4
    app = MetricsApp(memory)                       # GET → 200, for any ASGI server

The text is made by `prometheus_client`, the extra `metrics`. `MetricsApp` checks neither host nor token; whoever mounts it does
(`mcp.http.RequestGuard`).
"""

from __future__ import annotations

import json
import os
import stat as modes
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import smp_memory
from smp_memory.errors import InvalidFormat, SMPError, UserError, from_os_error, install_command
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.hooks.events import CLIENTS
from smp_memory.integrations.hooks.session_state import FOLDER as HOOKS_FOLDER
from smp_memory.integrations.hooks.session_state import LOG as HOOKS_LOG
from smp_memory.lifecycle.maintenance import EVERY, last_runs
from smp_memory.lifecycle.transitions import ACTIVE, ARCHIVED, CREATED, DECAYING, DELETED, IDLE
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.history import COLD
from smp_memory.model.session_info import names_of
from smp_memory.model.types import KINDS, SEVERITIES, names_where
from smp_memory.observe import telemetry
from smp_memory.observe.incomplete import SESSION_GONE
from smp_memory.observe.telemetry import COUNTER, GAUGE, Metric, MetricSamples, process_samples

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from smp_memory.memory import Memory

    Message = MutableMapping[str, Any]
    from collections.abc import Iterable, Iterator

    from smp_memory.observe.telemetry import Labels
    from smp_memory.search.port import SearchIndex

    Values = dict[Labels, float]
    Part = Iterator[tuple[Metric, Values]]

PROMETHEUS, OPENMETRICS = "prometheus", "openmetrics"
CONTENT_TYPES = {
    PROMETHEUS: "text/plain; version=0.0.4; charset=utf-8",
    OPENMETRICS: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
PATH = "/metrics"
_NOT_INSTALLED = "The package `prometheus_client` is not installed; it is SMP's extra `metrics`."
_PACKAGE = "prometheus-client>=0.22"
_BEGINNING = b"# HELP smp_"


def metrics_text(memory: Memory, format: str = PROMETHEUS) -> str:
    """The metrics of a store and of this process; `format` is prometheus or openmetrics."""
    return render(collect(memory), format)


def collect(memory: Memory) -> list[MetricSamples]:
    """All metrics: those of the store, then those of this process."""
    return store_samples(memory) + process_samples()


def render(families: list[MetricSamples], format: str = PROMETHEUS) -> str:
    try:
        from prometheus_client.exposition import generate_latest
        from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
    except ModuleNotFoundError as error:
        raise UserError(f"{_NOT_INSTALLED} Install it: {install_command(_PACKAGE)}", module=error.name) from None
    registry: Any = SimpleNamespace(collect=lambda: [_converted(family) for family in families if family.samples])
    return (generate_openmetrics if format == OPENMETRICS else generate_latest)(registry).decode()


def _converted(family: MetricSamples) -> Any:
    from prometheus_client.metrics_core import Metric

    metric = family.metric
    name = metric.name.removesuffix("_total") if metric.kind == COUNTER else metric.name
    converted = Metric(name, metric.help, metric.kind)
    for suffix, labels, value in family.samples:
        converted.add_sample(metric.name + suffix, labels, value)
    return converted


def write_text_file(path: str, text: str) -> str:
    """Write metrics to a file for node_exporter's textfile collector; returns its absolute path.

    It is replaced as a whole, so that nobody reads half of it. A new one can be read by all users of the machine, because
    node_exporter is another one; an existing one keeps its permissions. A file that does not hold metrics of SMP is not replaced.
    """
    disk, target = Disk(RealSystem()), os.path.abspath(path)
    temporary = f"{target}.{os.urandom(4).hex()}.smp-new"
    try:
        mode = _mode_of_earlier(disk, target)
        try:
            disk.write_new(temporary, text.encode(), sync=False)
            disk.system.chmod(temporary, mode)
            disk.move(temporary, target)
        finally:
            disk.remove(temporary)
    except OSError as error:
        raise from_os_error(error, target, "writing metrics") from error
    return target


def _mode_of_earlier(disk: Disk, path: str) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    status = disk.stat(path)
    if status is None:
        return 0o644
    if not modes.S_ISREG(status.st_mode):
        raise InvalidFormat(f"{path}: is a link, a folder or a device, not a plain file. Name another file.", path=path)
    if disk.read(path, 0, len(_BEGINNING)) != _BEGINNING:
        raise InvalidFormat(f"{path}: contains no metrics of SMP, so it is not replaced. Name another file.", path=path)
    return modes.S_IMODE(status.st_mode)


def metrics_dict(families: list[MetricSamples]) -> dict[str, Any]:
    """The same as plain values, for JSON: by name the kind, the help and the samples."""
    return {
        family.metric.name: {
            "type": family.metric.kind,
            "help": family.metric.help,
            "samples": [
                {**({"suffix": suffix} if suffix else {}), "labels": labels, "value": value}
                for suffix, labels, value in family.samples
            ],
        }
        for family in families
    }


class MetricsApp:
    """An ASGI app that answers GET and HEAD with the metrics, and other methods with 405."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        status, text, kind = await self._answer(scope["method"])
        body = text.encode()
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            *([(b"allow", b"GET, HEAD")] if status == 405 else []),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, method: str) -> tuple[int, str, str]:
        if method not in ("GET", "HEAD"):
            return 405, "Metrics are read with GET.\n", "text/plain; charset=utf-8"
        import asyncio  # a server has loaded it

        try:
            text = await asyncio.to_thread(metrics_text, self._memory)
        except SMPError as error:  # the store was closed, or the library is missing
            what = error.message if "module" in error.details else f"The metrics could not be computed. [{error.code}]"
            return 503, f"{what}\n", "text/plain; charset=utf-8"
        return 200, text, CONTENT_TYPES[PROMETHEUS]


def with_metrics(app: Any, memory: Memory) -> Any:
    """An ASGI app that serves `PATH` with the metrics of a store, and everything else with `app`."""
    metrics = MetricsApp(memory)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        is_metrics = scope["type"] == "http" and scope["path"] == PATH
        await (metrics if is_metrics else app)(scope, receive, send)

    return route


OTHER = "other"
_STATES = (CREATED, ACTIVE, IDLE, DECAYING, ARCHIVED, DELETED)
_ACTIONS = (
    "anonymise", "archive_session", "compact", "delete", "delete_session", "erase", "export", "import", "purge", "purge_session",
    "redact", "restore", "restore_archived", "restore_session", "undelete_session",
)  # fmt: skip
_PARTS = ("sessions", "cold", "archived", "trash")

BUILD = Metric("smp_build_info", GAUGE, "Always 1; the labels say what runs.", ("version", "python", "layout"))
SESSIONS_ACTIVE = Metric(
    "memory.sessions.active", GAUGE, "Sessions in the state active: used within lifecycle.idle_hours."
)  # fmt: skip
SESSIONS = Metric("smp_sessions", GAUGE, "Sessions by state, archived and deleted ones included.", ("state",))
LAST_WRITE = Metric("smp_last_write_timestamp_seconds", GAUGE, "Time of the newest memory.", ())
MEMORIES = Metric("memory.entries.total", GAUGE, "Memories of live sessions by type, without deleted ones.", ("type",))
DELETED_MEMORIES = Metric("smp_deleted_memories", GAUGE, "Memories in the trash of live sessions.")
OPEN_FINDINGS = Metric("smp_open_findings", GAUGE, "Findings that are not closed, by severity.", ("severity",))
UNREADABLE = Metric(
    "smp_unreadable_entries", GAUGE, "Entries of live sessions that cannot be read; `smp doctor` says where they are."
)
UNREAD_SESSIONS = Metric(
    "smp_unread_sessions", GAUGE, "Sessions in another layout than the store's, which are not read."
)
QUARANTINED = Metric("smp_quarantined_files", GAUGE, "Files in the quarantine of live sessions.")
BYTES = Metric(
    "memory.size.bytes",
    GAUGE,
    "Size of the stored memories: files of live sessions, their cold segments, archived sessions, deleted sessions.",
    ("part",),
)
QUOTA = Metric("smp_quota_utilization_max_ratio", GAUGE, "Size of the fullest session as a share of its quota.")
NEAR_QUOTA = Metric("smp_sessions_near_quota", GAUGE, "Sessions at or above storage.warning_percent of their quota.")
COMPACTIONS = Metric(
    "memory.compaction.count", COUNTER, "Compactions, by all processes, from the audit log."
)  # fmt: skip
ACTIONS = Metric("smp_audit_actions_total", COUNTER, "Lines of the audit log by action, of all processes.", ("action",))
MAINTENANCE = Metric(
    "smp_maintenance_last_run_timestamp_seconds", GAUGE, "When a maintenance task last ran to its end.", ("task",)
)  # fmt: skip
HOOK_SESSIONS = Metric(
    "smp_hook_sessions", GAUGE, "Conversations of a host that hooks were called for in the last 60 days.", ("host",)
)
HOOK_LAST_CALL = Metric("smp_hook_last_call_timestamp_seconds", GAUGE, "When a hook of a host last ran.", ("host",))
HOOK_FAILURES = Metric(
    "smp_hook_failures", GAUGE, "Failures of hooks in hooks.log, which keeps the newest 64 to 128 KiB.", ("host",)
)
SUCCESS = Metric("smp_collector_success", GAUGE, "Whether a part of the metrics could be computed.", ("collector",))
SECONDS = Metric("smp_collector_duration_seconds", GAUGE, "How long computing a part of the metrics took.", ("collector",))  # fmt: skip

STORE = (
    BUILD, SESSIONS_ACTIVE, SESSIONS, LAST_WRITE, MEMORIES, DELETED_MEMORIES, OPEN_FINDINGS, UNREADABLE, UNREAD_SESSIONS, QUARANTINED,
    BYTES, QUOTA, NEAR_QUOTA, COMPACTIONS, ACTIONS, MAINTENANCE, HOOK_SESSIONS, HOOK_LAST_CALL, HOOK_FAILURES, SUCCESS, SECONDS,
)  # fmt: skip


def store_samples(memory: Memory) -> list[MetricSamples]:
    """All metrics of a store, in the order of `STORE`. Raises StoreClosed."""
    memory.store.check_open()
    found: dict[Metric, Values] = {SUCCESS: {}, SECONDS: {}}
    for collect in _COLLECTORS:
        name, began = collect.__name__.strip("_"), time.monotonic()
        try:
            values = dict(collect(memory))
        except Exception as error:  # whatever is wrong with one part, the others are still worth having
            values = {}
            code = error.code if isinstance(error, SMPError) else type(error).__name__
            text = f"The part {name} of the metrics could not be computed: {code}."
            telemetry.emit("metrics", telemetry.WARNING, "collector_failed", text, collector=name, code=code)
        found.update(values)
        found[SUCCESS][name,] = float(bool(values))
        found[SECONDS][name,] = time.monotonic() - began
    return [
        MetricSamples(metric, [("", metric.labelled(labels), value) for labels, value in found[metric].items()])
        for metric in STORE
        if found.get(metric)
    ]


def _count(known: Iterable[str], values: Iterable[str]) -> Values:
    """How often each known word occurs, also those that do not; any other one counts as `other`."""
    counts: Values = {(word,): 0 for word in known}
    for value in values:
        key = (value,) if (value,) in counts else (OTHER,)
        counts[key] = counts.get(key, 0) + 1
    return counts


# -- the parts


def _build(memory: Memory) -> Part:
    python = ".".join(map(str, sys.version_info[:3]))
    yield BUILD, {(smp_memory.__version__, python, memory.layout): 1}


def _sessions(memory: Memory) -> Part:
    states = _count(_STATES, (each.state for each in memory.session_states(include_archived=True)))
    yield SESSIONS_ACTIVE, {(): states[ACTIVE,]}
    yield SESSIONS, states
    yield UNREAD_SESSIONS, {(): len(memory.store.files.unread_sessions()) if memory.store.files is not None else 0}


def _memories(memory: Memory) -> Part:
    index = memory.store.indexer
    with index.snapshot():
        counts = _indexed(index)
    yield from counts.items()


def _indexed(index: SearchIndex) -> dict[Metric, Values]:
    by_type = index.facets(CandidateRequest(), ["type"]).counts["type"]
    deleted = index.facets(CandidateRequest(only_deleted=True), ["type"]).counts["type"]
    written = [each.written for each in index.activity().values() if each.memories]
    problems = index.candidates(CandidateRequest(limit=0, fetch=[PROBLEMS])).every_problem
    return {
        LAST_WRITE: {(): max(written) / 1_000_000} if written else {},
        MEMORIES: {(name,): by_type.get(name, 0) for name in KINDS},
        DELETED_MEMORIES: {(): sum(deleted.values())},
        OPEN_FINDINGS: _count(SEVERITIES, _open_severities(index)),
        UNREADABLE: {(): len(problems)},
    }


def _open_severities(index: SearchIndex) -> Iterator[str]:
    for each in index.candidates(CandidateRequest(types=names_where("is_open_until_closed"))).matches:
        status = (each.status or "").strip().lower().replace("-", "_").replace(" ", "_")
        if status not in KINDS[each.type].settled:
            yield (each.severity or "").strip().lower()


def _sizes(memory: Memory) -> Part:
    store, live, cold, near = memory.store, 0, 0, 0
    shares = [0.0]
    for name in names_of(store.sessions()):
        try:
            storage = store.session(name)
            used = sum(storage.sizes().values())
            cold += sum(storage.sizes(COLD).values())
        except SESSION_GONE:
            continue  # archived or deleted meanwhile; it is counted there
        config = storage.config
        live += used
        shares.append(used / config.quota_bytes)
        near += shares[-1] * 100 >= config["storage.warning_percent"]
    away = [sum(each.bytes for each in those) for those in (store.sessions(ARCHIVED), store.sessions(DELETED))]
    yield BYTES, {(part,): size for part, size in zip(_PARTS, (live, cold, *away), strict=True)}
    yield QUOTA, {(): max(shares)}
    yield NEAR_QUOTA, {(): near}


def _quarantine(memory: Memory) -> Part:
    yield QUARANTINED, {(): len(memory.store.files.quarantined()) if memory.store.files is not None else 0}


def _audit(memory: Memory) -> Part:
    actions = _count(_ACTIONS, (str(each.get("action")) for each in memory.store.audit.entries()))
    yield COMPACTIONS, {(): actions["compact",]}
    yield ACTIONS, actions


def _maintenance(memory: Memory) -> Part:
    last = last_runs(memory.store)
    yield MAINTENANCE, {(task,): last[task].timestamp() for task in EVERY if task in last}


def _hooks(memory: Memory) -> Part:
    state = memory.store.state
    sessions, failures = _count(CLIENTS, ()), _count(CLIENTS, ())
    last: Values = {}
    for name in state.names(HOOKS_FOLDER):
        path = f"{HOOKS_FOLDER}/{name}"
        called = state.modified_at(path) if name.endswith(".json") else None
        if called is not None and state.has(path):
            key = _host(state.read(path))
            sessions[key] = sessions.get(key, 0) + 1
            last[key] = max(last.get(key, 0), called)
    for line in state.read(HOOKS_LOG).splitlines() if state.has(HOOKS_LOG) else ():
        key = _host(line)
        failures[key] = failures.get(key, 0) + 1
    yield HOOK_SESSIONS, sessions
    yield HOOK_LAST_CALL, last
    yield HOOK_FAILURES, failures


def _host(text: bytes) -> tuple[str]:
    """The host that a state file or a line of the log is about."""
    try:
        fields: Any = json.loads(text)
        client = fields.get("client")
    except (ValueError, RecursionError, AttributeError):
        client = None
    return (client if client in CLIENTS else OTHER,)


_COLLECTORS: tuple[Callable[[Memory], Part], ...] = (
    _build,
    _sessions,
    _memories,
    _sizes,
    _quarantine,
    _audit,
    _maintenance,
    _hooks,
)
