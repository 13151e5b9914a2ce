"""Stored text is shown as text: hostile texts in every field of every type of memory, in sessions, archives and the audit log, on every page."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.integrations.web import renderer
from smp_memory.integrations.web.pages.analytics import PARTS
from smp_memory.memory import Memory
from smp_memory.model.types import COMMON_FIELDS, KINDS
from tests.unit.web.inspector_client import InspectorClient

WEB = Path(renderer.__file__).parent
TEMPLATES = sorted(WEB.rglob("*.html"))
# A mark, and after it everything that could end a text, an attribute, an element or a template's expression.
HOSTILE = "planted<script>alert(1)</script>\"'><img src=x onerror=alert(1)></textarea></title></svg>{{ 7*191 }}{% x %}\x1b[31m\u202e&lt;"
OTHER = "planted' onmouseover='alert(1)' \" autofocus onfocus=\"alert(1) javascript:alert(1)"
OWN = ("supersedes", "superseded_by", "relations", "unknown")  # fields that no type names, or that relate memories


SILENT = {
    "/analytics?part=decay&compute=1", "/export", "/export?session=review", "/maintain", "/redact", "/edit", "/resolve", "/session/review/add",
    "/session/review/archive", "/session/review/compact?target=forced", "/session/review/delete", "/session/review/redact",
}  # fmt: skip  # pages that show ids and figures only; a turn can be neither edited nor resolved


class Found(HTMLParser):
    """What a browser would make of a page: elements and attributes that no page of ours has."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.shown = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag in ("img", "iframe", "object", "embed", "style", "base") or (tag == "script" and "src" not in names):
            self.wrong.append(f"<{tag}>")
        self.wrong += [f"{tag} {name}" for name in names if name.startswith("on") or name == "style"]
        for name, value in attrs:
            self.shown += "planted" in (value or "")
            if name in ("href", "src", "action", "formaction") and not (value or "").startswith(("/", "#")):
                self.wrong.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.shown += "planted" in data


def check(html: str) -> int:
    """Assert that a page is inert; how often it shows a hostile text."""
    found = Found()
    found.feed(html)
    found.close()
    assert found.wrong == []
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", html)
    assert "1337" not in html  # nor does a template run it
    return found.shown


def _plant(memory: Memory, entry: dict[str, Any], file: str) -> None:
    """Add an entry to the session `review` as an editor would."""
    with (Path(memory.root) / "sessions/review" / file).open("a") as opened:
        opened.write(json.dumps(entry) + "\n")


def _pages(ref: str) -> Iterator[str]:
    session, _, id = ref.partition("/")
    memory = f"/memory/{session}/{id}"
    yield from (
        "/",
        "/agent?kind=context&task=planted&floor=0",
        "/agent?kind=start",
        "/search?q=planted",
        "/search?sort=newest&include_deleted=1",
    )
    yield from (
        "/search?q=planted&why_not=" + ref,
        "/timeline",
        f"/session/{session}?deleted=1",
        "/trash",
        "/sessions",
        memory,
    )
    yield from (f"{memory}/{action}" for action in ("edit", "pin", "resolve", "relate", "delete", "redact", "erase"))
    yield from (
        f"/session/{session}/{action}" for action in ("compact?target=forced", "delete", "archive", "add", "redact")
    )
    yield from (f"/analytics?part={part}&compute=1" for part in PARTS)
    yield from (
        "/health?check=full",
        "/maintain",
        f"/export?ref={ref}",
        f"/export?session={session}",
        "/export?search=q%3Dplanted",
    )


def _with_text(kind: str, name: str, text: str) -> dict[str, Any]:
    """The fields of a memory, one of which holds the text."""
    given: dict[str, Any] = {
        KINDS[kind].text: "Something",
        "role": "user",
        "key": "style",
        "name": "a.md",
        "agent": "dev",
    }
    if name == "relations":
        return given | {name: [{"kind": text, "target": "DEC-0001"}, {"kind": "relates_to", "target": text}]}
    return given | {name: [text] if name in ("tags", "aliases", "references") else text}


@pytest.mark.parametrize("text", [HOSTILE, OTHER], ids=["elements", "attributes"])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_in_any_field_is_shown_and_inert(
    memory: Memory, client: InspectorClient, kind: str, text: str
) -> None:
    memory.create_session("review").add_decision("A good decision")
    prefix, file = KINDS[kind].prefix, f"{KINDS[kind].file}.jsonl"
    names = list(dict.fromkeys([*KINDS[kind].rank, *COMMON_FIELDS, *OWN]))
    for number, name in enumerate(names, 900):
        _plant(memory, {"id": f"{prefix}-{number:04}", **_with_text(kind, name, text)}, file)
    silent = []
    for number, name in enumerate(names, 900):
        address = f"/memory/review/{prefix}-{number:04}"
        pages = {action: client.get(f"{address}{action}") for action in ("", "/edit", "/relate", "/delete")}
        assert {action: page.status for action, page in pages.items() if page.status not in (200, 303)} == {}, name
        counts = [check(page.html) for page in pages.values()]
        if not counts[0]:
            silent.append(name)
    assert silent == ["access"]  # a count and a time, if they are any
    for path in ("/agent?kind=context&task=something&floor=0", "/search?sort=newest", "/session/review", "/timeline"):
        assert check(client.get(path).html), path


@pytest.mark.parametrize("text", [HOSTILE, OTHER], ids=["elements", "attributes"])
def test_hostile_text_everywhere_in_a_store_is_inert_on_every_page(
    memory: Memory, client: InspectorClient, text: str
) -> None:
    session = memory.create_session("review", user=text, project=text, context={text: text})
    turn = session.add_turn("user", text)
    finding = session.add_finding(
        text, severity="high", recommendation=text, category=text, turn_ref=turn.id, own={text: [text]}
    )
    decision = session.add_decision(
        text, rationale=text, alternatives_considered=[text], topic=text, references=[finding.id]
    )
    session.relate(decision.id, finding.id, "resolves")
    session.add_preference(text[:30].replace("\x1b", ""), text)
    session.add_artifact("a.md", text, format=text)
    session.update(decision.id, rationale=f"{text} {text}", by=text[:60])
    session.delete(session.add_learning(text).id, reason=text, by=text[:60])
    for name in ("away", "gone"):
        memory.create_session(name).add_decision(text)
    memory.archive_session("away", text)
    memory.delete_session("gone", text, by=text[:60])
    shown = {
        path: check(client.get(path).html) for ref in (decision.ref, finding.ref, turn.ref) for path in _pages(ref)
    }
    shown |= {
        path: check(client.get(path).html) for path in ("/session/away", "/session/gone", "/memory/away/DEC-0001")
    }
    silent = {path for path, count in shown.items() if not count}
    assert {re.sub(r"\?ref=.*|/memory/review/[A-Z]+-0001", "", path) for path in silent} == SILENT


def test_hostile_text_in_records_of_archives_deletions_and_quarantine_is_inert(
    memory: Memory, client: InspectorClient
) -> None:
    for name in ("review", "away", "gone"):
        memory.create_session(name).add_decision("hostile")
    memory.archive_session("away")
    memory.delete_session("gone")
    root = Path(memory.root)
    record, summary = root / "deleted/gone/deletion-record.json", root / "archive/away.manifest.json"
    deletion, archived = json.loads(record.read_text())["deletion"], json.loads(summary.read_text())
    record.write_text(json.dumps({"deletion": {**dict.fromkeys(deletion, HOSTILE), "state": "active"}}))
    lists = {"key_decisions": [{"decision": HOSTILE}], "topics": [{"topic": HOSTILE}], "conversation": HOSTILE}
    summary.write_text(
        json.dumps({**dict.fromkeys(archived, HOSTILE), **lists, "open_findings": {"high": [{"finding": HOSTILE}]}})
    )
    _plant(memory, {"id": "DEC-0900"}, "decisions.jsonl")
    with (root / "sessions/review/decisions.jsonl").open("a") as file:
        file.write(f'{{"id": "DEC-0901", "decision": "{HOSTILE}\n')
    paths = ["/sessions", "/session/away", "/session/gone", "/trash", "/memory/gone/DEC-0001", "/memory/away/DEC-0001"]
    paths += ["/health?check=full", "/memory/review/DEC-0901", "/session/gone/purge", "/session/away/restore"]
    for path in paths:
        check(client.get(path).html)
    memory.repair()
    page = client.get("/health?check=quick")
    assert "Quarantine" in page.text
    check(page.html)


@pytest.mark.parametrize("text", [HOSTILE, OTHER], ids=["elements", "attributes"])
def test_hostile_text_in_addresses_forms_and_notices_is_inert(
    memory: Memory, client: InspectorClient, text: str
) -> None:
    from urllib.parse import quote

    session = memory.create_session("review")
    session.add_decision("A decision")
    given = quote(text)
    names = ("q", "task", "agent", "session", "folder", "type", "tag", "author", "day", "time", "sort", "why_not", "project", "state", "by", "part", "ref", "search")  # fmt: skip
    for path in ("/", "/search", "/sessions", "/timeline", "/session/review", "/trash", "/analytics", "/export"):
        for name in names:
            check(client.get(f"{path}?{name}={given}").html)
    for path in (
        f"/session/{given}",
        f"/memory/{given}/{given}",
        f"/memory/review/{given}",
        f"/result/{given}",
        f"/{given}",
    ):
        check(client.get(path).html)
    typed = {"revision": "1", "text:decision": text, "list:tags": text, "number:importance": text, "json:own": text}
    forms: dict[str, dict[str, str]] = {
        "/memory/review/DEC-0001/edit": typed,
        "/memory/review/DEC-0001/relate": {"kind": text, "target": text},
        "/memory/review/DEC-0001/unrelate": {"kind": text, "target": text},
        "/memory/review/DEC-0001/erase": {"confirm": text, "reason": text},
        "/session/review/add": {"type": text, "text": text, "tags": text},
        "/session/review/archive": {"reason": text},
        "/export": {"format": text, "search": text},
        "/health/fix": {"fix": text},
        "/health/quarantine": {"session": text, "name": text},
        "/trash/restore": {f"memory:{text}": "1"},
    }
    for path, form in forms.items():
        answer = client.post(path, **form)
        check(answer.html)
        if answer.location:
            check(client.get(answer.location).html)


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    made = renderer.ENVIRONMENT.from_string('<p title="{{ text }}">{{ text }}</p>').render(text=text)
    inside = made.removeprefix("<p").removesuffix("</p>")
    assert inside.count("<") == 0
    assert inside.count(">") == 1
    assert inside.count('"') == 2


def test_places_that_are_not_escaped_are_the_charts_alone() -> None:
    filters = [path.name for path in TEMPLATES if re.search(r"\|\s*safe\b|autoescape|Markup", path.read_text())]
    assert filters == []
    makers, users = set(), set()
    for path in WEB.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        makers |= {path.name} if "Markup" in names else set()
        users |= {path.name} if "drawn" in names else set()
    assert makers == {"renderer.py"}
    assert users == {"analytics.py", "memory.py"}


def test_every_attribute_with_a_value_is_quoted_in_templates() -> None:
    """An unquoted value could be ended by a space. Attributes that `xmlattr` writes are quoted by it."""
    found = [(path.name, each) for path in TEMPLATES for each in re.findall(r"[\w-]+=\{\{", path.read_text())]
    assert found == []


def test_templates_know_every_name_that_they_use() -> None:
    with pytest.raises(Exception, match="undefined"):
        renderer.ENVIRONMENT.from_string("{{ mistyped }}").render()


def test_templates_are_compiled_once() -> None:
    assert renderer.ENVIRONMENT.get_template("memory.html") is renderer.ENVIRONMENT.get_template("memory.html")
