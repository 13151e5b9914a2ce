"""The page memory."""

from __future__ import annotations

from smp_memory.integrations.web.layout import heading, page


def memory_page(request):
    return page(request, "memory", "memory", heading("memory"))
