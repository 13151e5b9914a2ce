"""Pages from Jinja2 templates, inside the frame that all pages share.

Guarantees: every value is escaped, whatever it contains; only a chart that SMP drew itself (`drawn`) stands as it is. Control characters and
marks of direction are spelled out in the whole page, so that no template can forget it. A name that a template does not know is an error.
Templates are compiled once in a process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from smp_memory.context.trace import relevance_text
from smp_memory.errors import SMPError
from smp_memory.integrations.web import parts
from smp_memory.integrations.web.parts import memories, visible
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
_PLACE_CHARACTERS = 28
_NAVIGATION = (
    ("home", "/", "Home", "g"),
    ("agent", "/agent", "Agent view", "a"),
    ("search", "/search", "Search", "s"),
    ("sessions", "/sessions", "Sessions", "e"),
    ("review", "/review", "Review", "r"),
    ("told", "/told", "Told", "o"),
    ("analytics", "/analytics", "Analytics", "n"),
    ("trash", "/trash", "Trash", "t"),
    ("health", "/health", "Health", "h"),
)
_FUNCTIONS = (
    parts.url, parts.memory_url, parts.line_of, parts.plain, parts.json_text, parts.first_items, parts.shortened, parts.label_of, parts.noun_of, parts.plural_of,
    parts.counted, parts.memories, parts.sentence, parts.size_text, parts.ago, parts.moment_text, parts.date_text, parts.day_title,
    parts.next_step_text, parts.marks_of, parts.highlighted, parts.difference, parts.shares_of, parts.score_parts, parts.score_rows,
    parts.score_text, parts.quota_of, parts.table_of, relevance_text,
)  # fmt: skip


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )
    made.globals.update({each.__name__: each for each in _FUNCTIONS})
    made.globals.update(KINDS=KINDS, PART_TITLES=parts.PART_TITLES, NAVIGATION=_NAVIGATION)
    return made


ENVIRONMENT = _environment()


def page(
    request: PageRequest, template: str, title: str, current: str = "", *, status: int = 200, **values: Any
) -> Response:
    """A whole page. `current` is the name of the entry in the navigation that it belongs to."""
    name = request.get("done")
    html = ENVIRONMENT.get_template(template).render(
        request=request,
        now=request.now,
        title=title,
        current=current,
        form_token=request.inspector.form_token,
        root=request.memory.root,
        place=_place(request.memory.root),
        searched=_searched(request),
        done=name,
        notice=request.inspector.notices.get(name) if name else None,
        audit_failure=request.memory.store.audit.failure,
        settings_notices=request.memory.config.notices(),
        **values,
    )
    return HTMLResponse(visible(html), status)


def drawn(svg: str) -> Markup:
    """A chart of `smp_memory.analytics`, which escapes all text itself."""
    return Markup(svg)  # noqa: S704


def _place(root: str) -> str:
    """Where the store is, short enough for the header."""
    home = os.path.expanduser("~")
    place = "~" + root[len(home) :] if root.startswith(home + os.sep) else root
    return place if len(place) <= _PLACE_CHARACTERS else "…" + place[1 - _PLACE_CHARACTERS :]


def _searched(request: PageRequest) -> str:
    """What the search box of the header searches."""
    try:
        return memories(request.inspector.store_names().memories)
    except SMPError:
        return "all memories"  # also a page that says that the store cannot be read has a header
