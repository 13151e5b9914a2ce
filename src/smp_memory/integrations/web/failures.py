"""Errors as pages: which status an error has, and a page that says what is wrong in the words of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import (
    Conflict,
    InvalidConfig,
    InvalidQuery,
    InvalidRecord,
    MemoryNotFound,
    SessionNotFound,
    SizeLimitExceeded,
    SMPError,
    StoreNotFound,
    UserError,
)
from smp_memory.integrations.web.html import el
from smp_memory.integrations.web.layout import heading, page

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest

_STATUS: tuple[tuple[type[SMPError], int], ...] = (
    (MemoryNotFound, 404),
    (SessionNotFound, 404),
    (StoreNotFound, 503),
    (Conflict, 409),
    (InvalidQuery, 400),
    (InvalidRecord, 400),
    (InvalidConfig, 400),
    (SizeLimitExceeded, 400),
    (UserError, 400),
)


def status_of(error: SMPError) -> int:
    return next((number for kind, number in _STATUS if isinstance(error, kind)), 500)


def error_page(request: PageRequest, title: str, message: str, status: int, code: str = "") -> Response:
    """A page for an error: what is wrong, in the words of the error."""
    about = el("p", message, class_="error-text")
    back = el("p", el("a", "Back to the agent view", href="/"))
    return page(
        request, title, "", heading(title, code or None), el("section", about, back, class_="panel"), status=status
    )
