"""The pins of `./dev test-adapters`."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pins(lines: list[str]) -> dict[str, str]:
    found = [line.split(" ;")[0].split("#")[0].strip() for line in lines]
    return dict(line.split("==") for line in found if line and not line.startswith("--"))


def test_all_requirements_are_pinned_and_equal_those_of_dev() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dev = pins(project["optional-dependencies"]["dev"])
    for path in Path(__file__).parent.glob("requirements*.txt"):
        own = pins(path.read_text(encoding="utf-8").splitlines())
        assert {name: version for name, version in own.items() if dev.get(name, version) != version} == {}
