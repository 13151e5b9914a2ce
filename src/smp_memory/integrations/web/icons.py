"""Small pictures, drawn as SVG in the colour of the text around them."""

from __future__ import annotations

from smp_memory.integrations.web.html import Html

_PATHS = {
    "logo": '<rect x="2" y="3" width="16" height="4" rx="2"/><rect x="2" y="8.5" width="12" height="4" rx="2" opacity=".65"/><rect x="2" y="14" width="8" height="4" rx="2" opacity=".35"/>',
    "search": '<circle cx="8.5" cy="8.5" r="5" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="m12.4 12.4 4.4 4.4" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>',
    "theme": '<path d="M10 3a7 7 0 1 0 0 14z"/><circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "keys": '<rect x="2.5" y="5.5" width="15" height="9.5" rx="2" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M5.5 8.7h.01M8.5 8.7h.01M11.5 8.7h.01M14.5 8.7h.01M7 12h6" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/>',
    "check": '<path d="m4 10.5 4 4 8-9" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/>',
    "warn": '<path d="M10 3 18 17H2z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"/><path d="M10 8.5v4M10 14.6h.01" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>',
    "pin": '<path d="M7 3h6l-1 5 3 3H5l3-3zM10 11v6" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round"/>',
}


def icon(name: str) -> Html:
    """A picture that says nothing by itself: the text beside it, or the label of its button, does."""
    return Html(f'<svg class="icon" viewBox="0 0 20 20" fill="currentColor" aria-hidden="true">{_PATHS[name]}</svg>')
