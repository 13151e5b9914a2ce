"""The command `metrics`: metrics of the store for Prometheus."""

from __future__ import annotations

from smp_memory.cli.render import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

_FORMATS = ("prometheus", "openmetrics")


def metrics_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument(
        "--output", metavar="FILE", help="write to this file, for node_exporter's textfile collector; - prints them"
    )
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="the text format (default: prometheus)")


def run_metrics(call: Invocation) -> None:
    """Print metrics of the store for Prometheus: sessions, memories, sizes, damage, maintenance, hooks.

    They are computed from the store now. Durations and errors of operations are counted by each process for itself, and
    this one has just begun: `smp mcp --http` serves those of the server, with these, at /metrics. No metric names a
    session or contains text of a memory.

    The text needs SMP's extra `metrics`; --json does not.

    FILE is replaced as a whole, and only if it holds metrics of SMP. Its name must end in .prom for node_exporter.

    Examples:
      smp metrics
      smp metrics --output smp.prom
      smp metrics --json
    """
    from smp_memory.integrations.prometheus import metrics_dict, render, write_text_file
    from smp_memory.integrations.store_metrics import store_samples

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
