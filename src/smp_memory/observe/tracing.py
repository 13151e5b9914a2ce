"""Observe the operations of SMP: duration, outcome, slow ones in the log, and a span where the application traces.

`observe` is the one place for it. It wraps the operations below the public methods, so that a write is measured in the same way
whether it comes from Python, the command line, MCP or a hook.

Guarantees: metrics, log events and spans hold no content: operations, counts, types, durations and error codes. What the operation
returns or raises is not changed. OpenTelemetry is never imported here: spans are made only if the application has imported
`opentelemetry` and configured a tracer provider; until then an operation costs one lookup in `sys.modules`.
"""

from __future__ import annotations

from functools import wraps
from sys import modules
from time import monotonic

from smp_memory.errors import Corrupt, SMPError
from smp_memory.observe import event_log, metrics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])
    Figures = Callable[..., dict[str, Any]]

_TRACE = "opentelemetry.trace"
_tracer: tuple[Any, Any] = (None, None)  # the provider, and its tracer for SMP


class ObservedOperation:
    """What is observed: the name of a span, a histogram with its labels, and the log event for a slow one."""

    __slots__ = ("component", "done", "event", "figures", "histogram", "labels", "level", "name")

    def __init__(
        self,
        name: str,
        histogram: metrics.Histogram = metrics.OPERATION_SECONDS,
        component: str = "operation",
        level: int = event_log.INFO,
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
    return ObservedOperation(name, metrics.WRITE_SECONDS, "write", event_log.WARNING, _of_write)


_WRITES = {name: _write(name.lower()) for name in ("Add", "Update", "Relate", "Delete", "Restore")}  # by class
_BATCH, _TRANSACTION = _write("batch"), _write("transaction")
QUERY = ObservedOperation(
    "query", metrics.QUERY_SECONDS, "query", event_log.WARNING, lambda hits, *_, **__: {"hits": len(hits)}
)
CONTEXT = ObservedOperation(
    "context",
    metrics.CONTEXT_SECONDS,
    "context",
    event_log.WARNING,
    lambda found, *_, **__: {"memories": len(found.items), "tokens": found.tokens},
)
INDEX = ObservedOperation(
    "index",
    metrics.INDEX_SECONDS,
    "index",
    event_log.WARNING,
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
    logger = event_log.debug_logger(operation.component) if "logging" in modules else None
    if not is_slow and logger is None:
        return
    figures = operation.figures(result, *args, **named) if operation.figures is not None else {}
    figures = {"operation": operation.name, "duration_ms": round(seconds * 1000, None if is_slow else 3), **figures}
    session = getattr(owner, "id", None)
    if logger is not None:
        event_log.write(logger, event_log.DEBUG, operation.done, f"{operation.name} done.", session, figures)
    if is_slow:
        text = f"Slow: {operation.name} took {seconds:.1f} s."
        event_log.emit(operation.component, operation.level, operation.event, text, session, **figures)


def _count_error(operation: ObservedOperation, error: Exception) -> str:
    code = error.code if isinstance(error, SMPError) else "E_OTHER"
    metrics.ERRORS.add((operation.name, code))
    if isinstance(error, Corrupt) or isinstance(error.__cause__, Corrupt):  # such as that of CompactionFailed
        metrics.CORRUPTION.add((code,))
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
