"""The page trash."""

from __future__ import annotations

from smp_memory.integrations.web.layout import heading, page


def trash_page(request):
    return page(request, "trash", "trash", heading("trash"))
