"""The frame of every page: head, navigation, the search box, notices, and the place of live updates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from smp_memory.errors import SMPError
from smp_memory.integrations.web.access import FORM_FIELD
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.icons import icon
from smp_memory.integrations.web.words import counted

if TYPE_CHECKING:
    from smp_memory.integrations.web.request import PageRequest

_PLACE_CHARACTERS = 28
PAGES = (
    ("agent", "/", "Agent view", "a"),
    ("search", "/search", "Search", "s"),
    ("sessions", "/sessions", "Sessions", "e"),
    ("analytics", "/analytics", "Analytics", "n"),
    ("trash", "/trash", "Trash", "t"),
    ("health", "/health", "Health", "h"),
)


def page(
    request: PageRequest, title: str, current: str, *content: Child, status: int = 200, wide: bool = False
) -> HTMLResponse:
    """A whole page. `current` is the name of the entry in the navigation that it belongs to."""
    body = el(
        "body",
        el("a", "Skip to content", href="#main", class_="skip"),
        _header(request, current),
        _notice(request),
        _audit_banner(request),
        _settings_banner(request),
        el("main", *content, id="main", class_="wide" if wide else None, tabindex="-1"),
        _help(),
        el("dialog", id="dialog", aria_label="Action"),
        el("div", id="toasts", role="status", aria_live="polite"),
        data_form_token=request.inspector.access.form_token,
    )
    return HTMLResponse(f'<!doctype html>\n<html lang="en">{_head(title)}{body}</html>', status)


def _head(title: str) -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · SMP"),
        el("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        el("link", rel="stylesheet", href="/static/inspector.css"),
        el("script", src="/static/theme.js"),
        el("script", src="/static/inspector.js", type="module"),
    )


def _header(request: PageRequest, current: str) -> Html:
    root = request.memory.root
    place = el("small", _place(root), title=root)
    links = [
        el("a", label, href=href, aria_current="page" if name == current else None, data_key=f"g {key}")
        for name, href, label, key in PAGES
    ]
    return el(
        "header",
        el("a", icon("logo"), el("b", "SMP"), place, class_="brand", href="/", aria_label=f"SMP, store {root}"),
        el("nav", links, aria_label="Pages"),
        _search_box(request),
        _live_light(),
        _button("theme", "Switch between light and dark", "Light or dark"),
        _button("keys", "Keyboard shortcuts", "Keyboard shortcuts (?)"),
    )


def _search_box(request: PageRequest) -> Html:
    try:
        count = counted(request.inspector.store_names().memories, "memory", "memories")
    except SMPError:
        count = "all memories"  # also a page that says that the store cannot be read has a header
    field = el(
        "input",
        type="search",
        name="q",
        placeholder=f"Search {count}",
        aria_label="Search all memories",
        data_focus_key="/",
        autocomplete="off",
    )
    key = el("kbd", "/", aria_hidden="true")
    return el("form", icon("search"), field, key, action="/search", role="search", class_="find")


def _live_light() -> Html:
    """Whether the page hears of changes; a script sets its state."""
    about = "New memories appear here as any process writes them."
    return el("span", el("i", aria_hidden="true"), el("span", "connecting"), id="live", class_="live", title=about)


def _button(name: str, label: str, title: str) -> Html:
    return el("button", icon(name), id=name, type="button", class_="plain", aria_label=label, title=title)


def _place(root: str) -> str:
    """Where the store is, short enough for the header."""
    home = os.path.expanduser("~")
    place = "~" + root[len(home) :] if root.startswith(home + os.sep) else root
    return place if len(place) <= _PLACE_CHARACTERS else "…" + place[1 - _PLACE_CHARACTERS :]


def _notice(request: PageRequest) -> Html | None:
    """What the action before this page did, with its undo."""
    name = request.get("done")
    notice = request.inspector.notices.get(name) if name else None
    if notice is None:
        return None
    undo = None
    if notice.undo is not None:
        undo = form(request, url("/undo/{}", name), el("button", "Undo", class_="small"))
    return el("div", icon("check"), el("span", notice.text), undo, class_="notice", role="status")


def _audit_banner(request: PageRequest) -> Html | None:
    """That something was done and could not be noted in the audit log; until the next note succeeds."""
    failure = request.memory.store.audit.failure
    return el("div", el("p", failure), class_="banner", role="alert") if failure else None


def _settings_banner(request: PageRequest) -> Html | None:
    return settings_banner(request.memory.config.notices())


def settings_banner(notices: list[str]) -> Html | None:
    """Settings that cannot be used, or that lower protection and do not count yet."""
    return el("div", [el("p", text) for text in notices], class_="banner", role="note") if notices else None


def form(request: PageRequest, action: str, *content: Child, **attributes: object) -> Html:
    """A form that posts, with the token that proves that it came from here."""
    token = el("input", type="hidden", name=FORM_FIELD, value=request.inspector.access.form_token)
    return el("form", token, *content, action=action, method="post", **attributes)


def _help() -> Html:
    keys = [
        *((f"g {key}", label) for _, _, label, key in PAGES),
        ("/", "Search"),
        ("j  k", "Next, previous memory"),
        ("Enter", "Open the memory"),
        ("e  p  r  d", "On a memory: edit, pin, relate, delete"),
        ("?", "This list"),
        ("Esc", "Close"),
    ]
    rows = [join(el("dt", el("kbd", key)), el("dd", label)) for key, label in keys]
    return el(
        "dialog",
        el("h2", "Keyboard"),
        el("dl", rows, class_="keys"),
        el("form", el("button", "Close", class_="primary"), method="dialog"),
        id="help",
        aria_label="Keyboard shortcuts",
    )


def panel(title: Child, *content: Child, **attributes: object) -> Html:
    """A box with a heading."""
    name = attributes.pop("class_", "")
    return el("section", el("h2", title), *content, class_=f"panel {name}".strip(), **attributes)


def heading(title: Child, lead: Child = None, *more: Child) -> Html:
    return el(
        "div", el("h1", title), el("p", lead, class_="lead") if lead is not None else None, *more, class_="heading"
    )


def problems_banner(problems: list[object], archived_not_searched: int = 0) -> Html | None:
    """That an answer is incomplete, because entries could not be read or sessions are archived."""
    said = []
    if problems:
        count = "1 entry" if len(problems) == 1 else f"{len(problems):,} entries"
        said.append(join(f"{count} could not be read and may be missing here. ", el("a", "See Health", href="/health")))
    if archived_not_searched:
        which = (
            "1 archived session was"
            if archived_not_searched == 1
            else f"{archived_not_searched:,} archived sessions were"
        )
        said.append(join(f"{which} not searched. ", el("a", "See Sessions", href="/sessions#archived")))
    return el("div", [el("p", each) for each in said], class_="banner", role="note") if said else None
