"""The documents about observability and the dashboard name what SMP exports, and their examples run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from smp_memory.integrations.store_metrics import STORE
from smp_memory.observe import telemetry
from smp_memory.observe.telemetry import Metric

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = (DOCS / "observability.md").read_text("utf-8").partition("\n## Logs\n")[0]
DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text("utf-8"))
ALL = {metric.name: metric for metric in (*STORE, *telemetry.PROCESS)}


def series() -> dict[str, Metric]:
    """The names of series that Prometheus stores."""
    found = {}
    for name, metric in ALL.items():
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found.update({name + suffix: metric for suffix in suffixes})
    return found


def expressions() -> list[str]:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return queries + [
        variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable
    ]


def alert_rules() -> list[str]:
    import yaml

    (block,) = [each for each in blocks("yaml") if "alert:" in each]
    return [rule["expr"] for group in yaml.safe_load(block)["groups"] for rule in group["rules"]]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("expression", [*expressions(), *alert_rules()])
def test_expressions_name_only_series_and_labels_that_exist(expression: str) -> None:
    used = re.findall(r"\b(?:smp|memory)_[a-z_]+", expression)
    assert used
    known = series()
    assert [name for name in used if name not in known] == []
    labels = {label for name in used for label in known[name].labels} | {"job", "instance", "le"}
    named = set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|=|!=)", expression))
    named |= {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert named <= labels, expression


def test_dashboard_shows_every_metric() -> None:
    shown = {
        series()[name].name
        for expression in expressions()
        for name in re.findall(r"\b(?:smp|memory)_[a-z_]+", expression)
    }
    assert sorted(set(ALL) - shown) == []


def test_dashboard_is_a_classic_model_with_panels_that_do_not_overlap() -> None:
    assert DASHBOARD["schemaVersion"] >= 36
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not cells & covered, panel["title"]
        cells |= covered


def test_every_metric_is_in_the_tables() -> None:
    for metric in ALL.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        row = f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |".replace("|  |", "| |")
        assert row in DOCUMENT, row


def test_no_table_names_a_metric_that_does_not_exist() -> None:
    assert set(re.findall(r"^\| `((?:smp|memory)_[a-z_]+)`", DOCUMENT, re.MULTILINE)) == set(ALL)


def test_example_for_opentelemetry_runs() -> None:
    (code,) = blocks("python")
    told = subprocess.run([sys.executable, "-c", code + "\nprint(exported)"], capture_output=True, text=True, check=False)  # fmt: skip
    assert told.returncode == 0, told.stderr
    for expected in ('"name": "smp.add"', '"name": "smp.query"', '"smp.hits": 1', "memory.sessions.active"):
        assert expected in told.stdout


def test_operations_of_the_document_are_those_of_the_code() -> None:
    source = Path(telemetry.__file__).parents[1]
    named = {
        name for path in source.rglob("*.py") for name in re.findall(r'@observed\("([a-z_]+)"', path.read_text("utf-8"))
    }
    assert len(named) >= 15
    assert [name for name in sorted(named) if f"`{name}`" not in DOCUMENT] == []
