"""The page analytics."""

from __future__ import annotations

from smp_memory.integrations.web.layout import heading, page


def analytics_page(request):
    return page(request, "analytics", "analytics", heading("analytics"))
