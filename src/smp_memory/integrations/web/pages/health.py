"""The page health."""

from __future__ import annotations

from smp_memory.integrations.web.layout import heading, page


def health_page(request):
    return page(request, "health", "health", heading("health"))
