"""The stores in which adapters are tested, and what public suites expect of pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.stores import LAYOUTS, make_address


def pytest_configure(config: pytest.Config) -> None:
    for name in ("benchmark", "vcr", "enable_socket"):  # marks in langchain-tests, of plugins that are not loaded
        config.addinivalue_line("markers", f"{name}: of a public suite")


@pytest.fixture(params=(*LAYOUTS, "postgresql"))
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new store that can be opened again: in files of every layout, and in PostgreSQL."""
    return make_address(request.param, tmp_path, request)
