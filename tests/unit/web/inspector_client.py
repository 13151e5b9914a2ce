"""The inspector without a server: pages of a store as a browser with the cookie gets them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.testclient import TestClient

from smp_memory.integrations.clients import Clients
from smp_memory.integrations.web.access import FORM_FIELD, Access
from smp_memory.integrations.web.app import create_app

if TYPE_CHECKING:
    import pytest

    from smp_memory.memory import Memory

PORT = 7799
BASE = f"http://127.0.0.1:{PORT}"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


class Answer:
    """A page: its status, its HTML, its visible text, and where it redirects to."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.html: str = response.text
        self.headers = response.headers
        self.location: str = response.headers.get("location", "")

    @property
    def text(self) -> str:
        body = re.sub(r"<(script|title|head)\b.*?</\1>", " ", self.html, flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())

    def value(self, name: str) -> str:
        """The value of a control of the form."""
        found = re.search(rf'<textarea[^>]* name="{re.escape(name)}"[^>]*>\n?(.*?)</textarea>', self.html, re.DOTALL)
        if found is None:
            select = re.search(rf'<select[^>]* name="{re.escape(name)}"[^>]*>(.*?)</select>', self.html, re.DOTALL)
            found = re.search(r'<option value="([^"]*)" selected>', select[1]) if select is not None else None
        if found is None:
            element = re.search(rf'<input[^>]* name="{re.escape(name)}"[^>]*>', self.html)
            found = re.search(r' value="([^"]*)"', element[0]) if element is not None else None
        assert found is not None, name
        return unescape(found[1])


class InspectorClient:
    """A browser that has opened the inspector of a store, without scripts."""

    def __init__(self, memory: Memory, author: str | None = "ada") -> None:
        clients = Clients(memory, "cookie")
        self.access = Access(PORT, clients, "cookie")
        local = clients.local
        assert local is not None
        self.form_token = self.access.form_token(local)
        self._client = TestClient(
            create_app(self.access, memory, author), base_url=BASE, headers={"origin": BASE}, follow_redirects=False
        )
        assert self._client.get(self.access.new_link("")).status_code == 200

    def get(self, path: str) -> Answer:
        return Answer(self._client.get(path))

    def post(self, path: str, token: str | None = None, **form: str) -> Answer:
        given = {FORM_FIELD: self.form_token if token is None else token, **form}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return Answer(self._client.post(path, content=urlencode(given), headers=headers))

    def done(self, path: str, **form: str) -> Answer:
        """Send a form that succeeds, and show the page after it."""
        answer = self.post(path, **form)
        assert answer.status == 303, answer.text
        return self.get(answer.location)

    def undo(self, page: Answer) -> Answer:
        """Press Undo on the page after an action."""
        found = re.search(r'action="(/undo/[^"]+)"', page.html)
        assert found is not None, page.text
        return self.done(found[1])


def port_calls(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list to which every call of the index from now on adds its name."""
    calls: list[str] = []
    index = memory.store.indexer

    def noted(name: str) -> Any:
        asked = getattr(index, name)

        def call(*given: Any, **more: Any) -> Any:
            calls.append(name)
            return asked(*given, **more)

        return call

    for name in ("candidates", "records", "facets", "related", "vocabulary", "activity"):
        monkeypatch.setattr(index, name, noted(name))
    return calls
