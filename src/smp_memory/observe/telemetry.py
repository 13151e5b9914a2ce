"""Telemetry of this process: counters and histograms, structured log events, and the observation of operations.

`observe` is the one place where an operation is observed: its duration, its outcome, a log event if it is slow, and a span where the
application traces. It wraps the operations below the public methods, so that a write is measured in the same way whether it comes from
Python, the command line, MCP or a hook.

Metrics belong to the process that counts them: a server exports its own, a command starts at zero. What a store holds is not counted
here but computed when it is asked for (`smp_memory.integrations.store_metrics`); `smp_memory.integrations.prometheus` prints both.

Log events go through the standard `logging` module. Every event has a logger `smp_memory.<component>`, a level, a name, a message, the
session concerned and figures. docs/reference/log-events.md lists all of them; `smp_memory.observe.json_logging.JsonFormatter` writes them as JSON.
Every event is counted, printed or not, except those for debugging: one for each operation, made only if somebody reads it
(`debug_logger`), because a histogram counts operations.

Guarantees
- Metrics, log events and spans hold no content of a memory, a query or a secret: operations, counts, types, durations and codes of errors.
  Labels are words of SMP's own code, never names of sessions, people or files.
- What an observed operation returns or raises is not changed.
- Threads may count at once. A child made by `fork` starts at zero, so nothing is counted twice.
- Counting costs less than a microsecond. An event costs one lookup as long as `logging` is not loaded: then no handler can exist either.
  Without a configured handler, only events in `_ALWAYS_SHOWN` are printed.
- OpenTelemetry is never imported here: spans are made only if the application has imported `opentelemetry` and configured a tracer
  provider; until then an operation costs one lookup in `sys.modules`.
"""

from __future__ import annotations

import os
from _thread import RLock
from functools import wraps
from sys import modules
from time import monotonic

from smp_memory.errors import Corrupt, SMPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Labels = tuple[str, ...]
    Sample = tuple[str, dict[str, str], float]  # suffix of the name, labels, value
    Function = TypeVar("Function", bound=Callable[..., Any])
    Figures = Callable[..., dict[str, Any]]

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_mutex = RLock()  # reentrant: a signal handler may write a memory while another write is being counted


class Metric:
    """The definition of a metric: `name` is its name in Prometheus, `instrument` the one in OpenTelemetry.

    A name with dots is one of design 004; Prometheus allows no dots, and wants `_total` at the end of a counter.
    """

    __slots__ = ("help", "instrument", "kind", "labels", "name")

    def __init__(self, name: str, kind: str, help: str, labels: Labels = ()) -> None:
        if "." in name:
            self.instrument = name
            self.name = name.replace(".", "_") + ("_total" if kind == COUNTER else "")
        else:
            self.instrument = name.replace("smp_", "smp.", 1).removesuffix("_total")
            self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels

    def labelled(self, values: Labels) -> dict[str, str]:
        return dict(zip(self.labels, values, strict=True))


class MetricSamples:
    """A metric with its values of one moment."""

    __slots__ = ("metric", "samples")

    def __init__(self, metric: Metric, samples: list[Sample]) -> None:
        self.metric = metric
        self.samples = samples


class Counter(Metric):
    __slots__ = ("values",)

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        super().__init__(name, COUNTER, help, labels)
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        with _mutex:
            self.values[labels] = self.values.get(labels, 0) + amount

    def samples(self) -> list[Sample]:
        if not self.labels and not self.values:
            return [("", {}, 0)]
        return [("", self.labelled(each), value) for each, value in sorted(self.values.items())]


class Histogram(Metric):
    """Durations, counted by `BUCKETS_SECONDS`; those of a name that ends in `_ms` are shown in milliseconds."""

    __slots__ = ("listeners", "per_second", "values")

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        super().__init__(name, HISTOGRAM, help, labels)
        self.per_second = 1000 if name.endswith("_ms") else 1  # units that are shown
        self.values: dict[Labels, list[float]] = {}  # a count for each bucket, one for what is longer, and the sum
        self.listeners: list[Any] = []  # called with labels and seconds; for exporters that count by themselves

    def limits(self) -> list[float]:
        """The upper limits of the buckets, in the units that are shown."""
        return [limit * self.per_second for limit in BUCKETS_SECONDS]

    def observe(self, labels: Labels, seconds: float) -> None:
        at = 0
        for limit in BUCKETS_SECONDS:
            if seconds <= limit:
                break
            at += 1
        with _mutex:
            counts = self.values.get(labels)
            if counts is None:
                counts = self.values[labels] = [0] * (len(BUCKETS_SECONDS) + 2)
            counts[at] += 1
            counts[-1] += seconds
        for listener in self.listeners:
            listener(labels, seconds)

    def samples(self) -> list[Sample]:
        found: list[Sample] = []
        for values, (*counts, total) in sorted(self.values.items()):
            labels, so_far = self.labelled(values), 0.0
            for limit, count in zip((*self.limits(), "+Inf"), counts, strict=True):
                so_far += count
                found.append(("_bucket", {**labels, "le": str(limit)}, so_far))
            found += [("_sum", labels, total * self.per_second), ("_count", labels, so_far)]
        return found


WRITE_SECONDS = Histogram(
    "memory.operations.write.duration_ms",
    "Duration of writes, from the request for the lock to the acknowledgement.",
    ("operation",),
)
QUERY_SECONDS = Histogram(
    "memory.operations.query.duration_ms", "Duration of queries, including catching up the index."
)
CONTEXT_SECONDS = Histogram("smp_context_duration_seconds", "Duration of building contexts for prompts.")
OPERATION_SECONDS = Histogram(
    "smp_operation_duration_seconds", "Duration of all other operations: compaction, archiving, export, maintenance and so on.", ("operation",)
)  # fmt: skip
INDEX_SECONDS = Histogram(
    "smp_index_catch_up_duration_seconds", "Duration of indexing sessions that had changed; a query waits for it."
)
SYNC_SECONDS = Histogram("smp_sync_duration_seconds", "Duration of the sync that makes a write durable.")
LOCK_SECONDS = Histogram(
    "smp_lock_wait_seconds", "Time that a process waited for a lock that another one held.", ("outcome",)
)
LOCK_CONTENTION = Counter(
    "memory.locks.contention.count",
    "Locks that were held by another process when they were requested; outcome timeout: LockTimeout was raised.",
    ("outcome",),
)
ERRORS = Counter("smp_operation_errors_total", "Operations that ended with an error, by error code.", ("operation", "code"))  # fmt: skip
CORRUPTION = Counter(
    "memory.errors.corruption.count",
    "Damage that this process met: log events of the component corruption, and operations that ended with E_…_CORRUPT.",
    ("cause",),
)
INDEX_REBUILDS = Counter(
    "smp_index_rebuilds_total", "Indexes that were discarded and built anew: damaged ones, and on request."
)
EVENTS = Counter("smp_events_total", "Log events, whether they were printed or not; slow operations are slow_….", ("component", "event"))  # fmt: skip

PROCESS: tuple[Counter | Histogram, ...] = (
    WRITE_SECONDS,
    QUERY_SECONDS,
    CONTEXT_SECONDS,
    OPERATION_SECONDS,
    INDEX_SECONDS,
    SYNC_SECONDS,
    LOCK_SECONDS,
    LOCK_CONTENTION,
    ERRORS,
    CORRUPTION,
    INDEX_REBUILDS,
    EVENTS,
)


def process_samples() -> list[MetricSamples]:
    """All counters and histograms of this process, in one moment."""
    with _mutex:
        return [MetricSamples(each, each.samples()) for each in PROCESS]


def reset() -> None:
    """Set everything to zero, as in a new process."""
    global _mutex  # noqa: PLW0603 - another thread of the parent may hold it, and does not exist in a forked child
    _mutex = RLock()
    for each in PROCESS:
        each.values.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset)


# -- log events

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
ROOT = "smp_memory"

_ALWAYS_SHOWN = frozenset(  # reported nowhere else; Python prints them to stderr if no handler is configured
    [
        "archive_kept",
        "audit_failed",
        "compaction_failed",
        "entries_missing",
        "head_conflict",
        "library_missing",
        "not_compared",
        "reason_redacted",
        "session_brought_back",
        "session_left_out",
        "shared_files_stale",
    ]
)


def emit(
    component: str,
    level: int,
    event: str,
    message: str,
    session: str | None = None,
    *,
    shown: bool = False,
    **figures: Any,
) -> None:
    """Log an event. The message must not contain content of memories; `figures` are numbers, names of kinds, paths of files.

    `shown`: it is printed without a configured handler, like those in `_ALWAYS_SHOWN`.
    """
    EVENTS.add((component, event))
    if component == "corruption":
        CORRUPTION.add((event,))
    is_always_shown = shown or (level >= WARNING and event in _ALWAYS_SHOWN)
    if not is_always_shown and "logging" not in modules:
        return
    logger = _logger(component)
    if logger.isEnabledFor(level) and (is_always_shown or logger.hasHandlers()):
        write(logger, level, event, message, session, figures)


def write(logger: Any, level: int, event: str, message: str, session: str | None, figures: dict[str, Any]) -> None:
    """Log an event without counting it."""
    logger.log(level, "%s", message, extra={"smp_event": event, "smp_session": session, "smp_figures": figures})


def debug_logger(component: str) -> Any:
    """The logger of a component if it is to log operations one by one, else None. Only for callers that know `logging` to be loaded."""
    logger = _loggers.get(component) or _logger(component)
    return logger if logger.isEnabledFor(DEBUG) and logger.hasHandlers() else None


_loggers: dict[str, Any] = {}


def _logger(component: str) -> Any:
    import logging  # slow to load

    logger = _loggers[component] = logging.getLogger(f"{ROOT}.{component}")
    return logger


# -- operations

_TRACE = "opentelemetry.trace"
_tracer: tuple[Any, Any] = (None, None)  # the provider, and its tracer for SMP


class ObservedOperation:
    """What is observed: the name of a span, a histogram with its labels, and the log event for a slow one."""

    __slots__ = ("component", "done", "event", "figures", "histogram", "labels", "level", "name")

    def __init__(
        self,
        name: str,
        histogram: Histogram = OPERATION_SECONDS,
        component: str = "operation",
        level: int = INFO,
        figures: Figures | None = None,
    ) -> None:
        self.name = name
        self.histogram = histogram
        self.labels = (name,) if histogram.labels else ()
        self.component = component
        self.event = f"slow_{component}"
        self.done = f"{component}_done"  # the event for debugging, of each
        self.level = level  # WARNING for what somebody waits for
        self.figures = figures  # called with the result and the arguments


def _of_write(_: Any, operations: list[Any], *__: Any) -> dict[str, Any]:
    record = operations[0].record if len(operations) == 1 else None
    return {"memories": len(operations), **({"type": record.type} if record is not None else {})}


def _write(name: str) -> ObservedOperation:
    return ObservedOperation(name, WRITE_SECONDS, "write", WARNING, _of_write)


_WRITES = {name: _write(name.lower()) for name in ("Add", "Update", "Relate", "Delete", "Restore")}  # by class
_BATCH, _TRANSACTION = _write("batch"), _write("transaction")
QUERY = ObservedOperation("query", QUERY_SECONDS, "query", WARNING, lambda hits, *_, **__: {"hits": len(hits)})
CONTEXT = ObservedOperation(
    "context",
    CONTEXT_SECONDS,
    "context",
    WARNING,
    lambda found, *_, **__: {"memories": len(found.items), "tokens": found.tokens},
)
INDEX = ObservedOperation(
    "index",
    INDEX_SECONDS,
    "index",
    WARNING,
    lambda memories, _, names, *__: {"memories": memories, "sessions": len(names)},
)


def write_operation(operations: list[Any], atomic: bool) -> ObservedOperation:
    """The operation that a commit of these is: a transaction, a batch, or the only one of them."""
    if atomic:
        return _TRANSACTION
    return _WRITES.get(type(operations[0]).__name__, _BATCH) if len(operations) == 1 else _BATCH


def observed(name: str, **figures: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Decorator for a function whose first argument has a `config`: observe each call as the operation `name`.

    `figures` are computed from the result, for spans and slow operations: `@observed("export", characters=len)`.
    """

    def of_result(result: Any, *_: Any, **__: Any) -> dict[str, Any]:
        return {key: compute(result) for key, compute in figures.items()}

    return observes(ObservedOperation(name, figures=of_result))


def observes(operation: ObservedOperation) -> Callable[[Function], Function]:
    """The same with an `ObservedOperation`."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(owner: Any, /, *args: Any, **named: Any) -> Any:
            return observe(operation, owner, function, owner, *args, **named)

        return call  # type: ignore[return-value]

    return decorate


def observe(operation: ObservedOperation, owner: Any, work: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call `work` and observe it. `owner` has the settings (`config`), and maybe the session (`id`)."""
    if _TRACE in modules:
        tracer = _active_tracer()
        if tracer is not None:
            return _trace(tracer, operation, owner, work, args, named)
    began = monotonic()
    try:
        result = work(*args, **named)
    except Exception as error:
        _count_error(operation, error)
        raise
    _report(operation, owner, monotonic() - began, result, args, named)
    return result


def _report(
    operation: ObservedOperation, owner: Any, seconds: float, result: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """Count the duration of an operation that succeeded, and log it if it was slow or if each is to be logged."""
    operation.histogram.observe(operation.labels, seconds)
    is_slow = seconds >= owner.config.slow_seconds
    logger = debug_logger(operation.component) if "logging" in modules else None
    if not is_slow and logger is None:
        return
    figures = operation.figures(result, *args, **named) if operation.figures is not None else {}
    figures = {"operation": operation.name, "duration_ms": round(seconds * 1000, None if is_slow else 3), **figures}
    session = getattr(owner, "id", None)
    if logger is not None:
        write(logger, DEBUG, operation.done, f"{operation.name} done.", session, figures)
    if is_slow:
        text = f"Slow: {operation.name} took {seconds:.1f} s."
        emit(operation.component, operation.level, operation.event, text, session, **figures)


def _count_error(operation: ObservedOperation, error: Exception) -> str:
    code = error.code if isinstance(error, SMPError) else "E_OTHER"
    ERRORS.add((operation.name, code))
    if isinstance(error, Corrupt) or isinstance(error.__cause__, Corrupt):  # such as that of CompactionFailed
        CORRUPTION.add((code,))
    return code


# -- spans


def _active_tracer() -> Any:
    """The tracer, if the application has configured OpenTelemetry."""
    global _tracer  # noqa: PLW0603 - the tracer of the provider that was asked last
    trace = modules.get(_TRACE)
    if trace is None:
        return None
    try:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
    except AttributeError:  # another thread is importing it at this moment
        return None
    known, tracer = _tracer
    if provider is not known:
        from smp_memory import __version__

        tracer = provider.get_tracer("smp_memory", __version__)
        _tracer = (provider, tracer)
    return tracer


def _trace(
    tracer: Any,
    operation: ObservedOperation,
    owner: Any,
    work: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    attributes = {"smp.operation": operation.name, "smp.layout": owner.config.layout}
    # Messages of errors may quote what a caller gave, so neither they nor tracebacks are recorded.
    with tracer.start_as_current_span(
        f"smp.{operation.name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        began = monotonic()
        try:
            result = work(*args, **named)
        except Exception as error:
            trace, code = modules[_TRACE], _count_error(operation, error)
            span.set_attribute("error.type", code)
            span.set_status(trace.Status(trace.StatusCode.ERROR, code))
            raise
        _report(operation, owner, monotonic() - began, result, args, named)
        if operation.figures is not None and span.is_recording():
            figures = operation.figures(result, *args, **named)
            span.set_attributes({f"smp.{name}": value for name, value in figures.items() if value is not None})
        return result
