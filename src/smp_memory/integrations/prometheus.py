"""Metrics of a store and of this process as Prometheus text, and an ASGI app that serves them.

    print(metrics_text(memory))                    # text exposition format 0.0.4
    app = MetricsApp(memory)                       # GET → 200, for any ASGI server

The text is made by `prometheus_client`, the extra `metrics`. Guarantees: it contains no content and no names (`store_metrics`, `metrics`).
Non-guarantees: `MetricsApp` checks neither host nor token; whoever mounts it does (`mcp.http.RequestGuard`).
"""

from __future__ import annotations

import os
import stat as modes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidFormat, SMPError, UserError, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.store_metrics import store_samples
from smp_memory.observe.metrics import COUNTER, process_samples

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from smp_memory.memory import Memory
    from smp_memory.observe.metrics import MetricSamples

    Message = MutableMapping[str, Any]

PROMETHEUS, OPENMETRICS = "prometheus", "openmetrics"
CONTENT_TYPES = {
    PROMETHEUS: "text/plain; version=0.0.4; charset=utf-8",
    OPENMETRICS: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
PATH = "/metrics"
# `pip install smp[metrics]` would install another project of that name.
_HOW_TO_INSTALL = (
    "The package `prometheus_client` is not installed; it is SMP's extra `metrics`. "
    "In the environment of smp: pip install 'prometheus-client>=0.22'"
)
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
        raise UserError(_HOW_TO_INSTALL, module=error.name) from None
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
        raise InvalidFormat(f"{path}: holds no metrics of SMP, so it is not replaced. Name another file.", path=path)
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
