"""Actions."""

from __future__ import annotations


def form_page(request): ...


run = run_session = run_fix = undo = export = form_page
