"""The page sessions."""

from __future__ import annotations

from smp_memory.integrations.web.layout import heading, page


def sessions_page(request):
    return page(request, "sessions", "sessions", heading("sessions"))


def session_page(request):
    return page(request, "session", "sessions", heading("s"))
