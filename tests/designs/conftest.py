"""The sessions of these folders are old; opening such a store would archive them in the background."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_maintenance_on_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_MAINTENANCE_AUTO", "false")
