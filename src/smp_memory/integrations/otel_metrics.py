"""Export the metrics of a store and of this process through OpenTelemetry's metrics API.

    exporter = OpenTelemetryMetrics(memory)        # the application has configured a meter provider
    …
    exporter.close()

Instruments have the names of the design where it has some (`memory.sessions.active`, durations in milliseconds), otherwise those of
Prometheus with `smp.` in front. Gauges and counters are observable: they are computed when the application's reader collects, all
of them once. Spans need no call; `smp_memory.observe.telemetry` makes them.

Guarantees: the same figures and labels as `smp_memory.integrations.store_metrics`. Nothing is exported after `close`, and nothing of the
store once it is closed. Needs the package `opentelemetry-api`; without a configured provider nothing happens.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.integrations.store_metrics import STORE, store_samples
from smp_memory.observe.telemetry import COUNTER, PROCESS, Histogram, process_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.memory import Memory
    from smp_memory.observe.telemetry import Labels, Metric, MetricSamples, Sample

_FRESH_SECONDS = 1.0  # one collection asks for each instrument; the figures are computed for the first


class OpenTelemetryMetrics:
    """Instruments for one store and this process, in the global meter provider or in one that is given."""

    def __init__(self, memory: Memory, meter_provider: Any = None) -> None:
        from opentelemetry.metrics import Observation, get_meter_provider

        self._memory = memory
        self._observation = Observation
        self._computed: dict[str, list[Sample]] = {}
        self._computed_at = -_FRESH_SECONDS
        self._is_open = True
        self._listeners: list[tuple[Histogram, Callable[[Labels, float], None]]] = []
        meter = (meter_provider or get_meter_provider()).get_meter("smp_memory", smp_memory.__version__)
        for metric in (*STORE, *PROCESS):
            if isinstance(metric, Histogram):
                self._listen(meter, metric)
            else:
                kind = "counter" if metric.kind == COUNTER else "gauge"
                create = getattr(meter, f"create_observable_{kind}")
                create(metric.instrument, [partial(self._observe, metric)], _unit(metric), metric.help)

    def close(self) -> None:
        """Stop exporting. The instruments stay known to the provider, without values."""
        self._is_open = False
        for histogram, listener in self._listeners:
            if listener in histogram.listeners:
                histogram.listeners.remove(listener)

    def _observe(self, metric: Metric, _: Any) -> Iterator[Any]:
        """The values of a gauge or a counter, for a callback."""
        if self._is_open:
            for _suffix, labels, value in self._samples().get(metric.name, ()):
                yield self._observation(value, labels)

    def _samples(self) -> dict[str, list[Sample]]:
        if time.monotonic() - self._computed_at >= _FRESH_SECONDS:
            families: list[MetricSamples] = process_samples()
            try:
                families += store_samples(self._memory)
            except SMPError:
                pass  # the store is closed: its figures are left out
            self._computed = {each.metric.name: each.samples for each in families}
            self._computed_at = time.monotonic()
        return self._computed

    def _listen(self, meter: Any, metric: Histogram) -> None:
        """Record each duration in an OpenTelemetry histogram, too."""
        instrument = meter.create_histogram(
            metric.instrument,
            _unit(metric),
            metric.help,
            explicit_bucket_boundaries_advisory=metric.limits(),
        )

        def listener(labels: Labels, seconds: float) -> None:
            instrument.record(seconds * metric.per_second, metric.labelled(labels))

        metric.listeners.append(listener)
        self._listeners.append((metric, listener))


def _unit(metric: Metric) -> str:
    if metric.name.endswith("_ms"):
        return "ms"
    return "s" if metric.name.endswith("_seconds") else "By" if metric.name.endswith("_bytes") else "1"
