"""Counters and histograms of this process: operations, waits, syncs, errors, log events.

They belong to the process that counts them: a server exports its own, a command starts at zero. What a store holds is not counted
here but computed when it is asked for (`smp_memory.integrations.store_metrics`); `smp_memory.integrations.prometheus` prints both.

Guarantees: threads may count at once. A child made by `fork` starts at zero, so nothing is counted twice. Labels are words of SMP's own
code (operations, error codes, names of events), never names of sessions, people or files, and never content.
Counting costs less than a microsecond and imports nothing.
"""

from __future__ import annotations

import os
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Labels = tuple[str, ...]
    Sample = tuple[str, dict[str, str], float]  # suffix of the name, labels, value

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
            if labels not in self.values:
                self.values[labels] = [0] * (len(BUCKETS_SECONDS) + 2)
            counts = self.values[labels]
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
