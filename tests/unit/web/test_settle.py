"""Two versions of a memory, from two clones: the page shows every value, keeps the one that is chosen, and loses none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import QueryParams

import smp_memory
from smp_memory.integrations.web.pages.memory import memory_page
from smp_memory.integrations.web.request import Inspector, PageRequest
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.security.test_client_store import limited
from tests.unit.web.inspector_client import Answer, Clock, InspectorClient

PAGE = "/memory/review/FIND-0001"
Change = Callable[[SessionMemory], Any]


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    made = memory.create_session("review", project="shop")
    made.add_finding("No rate limit", severity="high", author="veritas")
    return made


def change_in_two_clones(session: SessionMemory, clock: Clock, ours: Change, theirs: Change) -> None:
    """Make one change here and another in a copy of the store, then add the lines of the copy, as a merge without conflict markers does."""
    root = Path(session.memory.root)
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    clock.pass_days(1)
    ours(session)
    with smp_memory.open(copy, clock=clock) as memory:
        theirs(memory.session("review"))
    [mine] = root.glob("sessions/review/findings.jsonl")
    known = mine.read_bytes().splitlines(keepends=True)
    other = (copy / mine.relative_to(root)).read_bytes().splitlines(keepends=True)
    mine.write_bytes(b"".join([*known, *(line for line in other if line not in known)]))
    assert session.conflicts()


@pytest.fixture
def conflict(session: SessionMemory, clock: Clock) -> None:
    change_in_two_clones(
        session,
        clock,
        lambda s: s.resolve("FIND-0001", "Five attempts a minute", by="ada"),
        lambda s: s.resolve("FIND-0001", "A captcha", by="bob", status="wont_fix"),
    )


def versions(page: Answer) -> list[str]:
    """The versions that the page offers, each as HTML."""
    return re.findall(r'<div class="version".*?</form>\n</div>', page.html, re.DOTALL)


def keep(client: InspectorClient, chosen: str) -> Answer:
    """Press "Keep this one" of a version."""
    form = dict(re.findall(r'name="(revision|version)" value="([^"]*)"', chosen))
    return client.done(f"{PAGE}/settle", **form)


@pytest.mark.usefixtures("conflict")
def test_both_versions_are_shown_with_who_and_when(client: InspectorClient) -> None:
    page = client.get(PAGE)
    assert "Two versions" in page.text
    shown = versions(page)
    assert len(shown) == 2
    for who, status, text in (("ada", "resolved", "Five attempts a minute"), ("bob", "wont_fix", "A captcha")):
        [own] = [each for each in shown if who in each]
        assert status in own
        assert text in own
        assert "<time" in own
        assert "Keep this one" in own
    assert sum("used until you choose" in each for each in shown) == 1


@pytest.mark.parametrize("who", ["ada", "bob"])
@pytest.mark.usefixtures("conflict")
def test_version_that_is_kept_settles_every_field_of_it(who: str, client: InspectorClient, session: SessionMemory) -> None:  # fmt: skip
    [chosen] = [each for each in versions(client.get(PAGE)) if who in each]
    page = keep(client, chosen)
    assert "FIND-0001 is settled: status, resolution." in page.text
    assert "Two versions" not in page.text
    record = session.get("FIND-0001")
    assert (record.status, record.resolution["resolved_by"]) == ({"ada": "resolved", "bob": "wont_fix"}[who], who)
    assert session.conflicts() == []
    assert session.validate().problems == []
    kept = str(session.history("FIND-0001"))
    assert "Five attempts a minute" in kept
    assert "A captcha" in kept


@pytest.mark.usefixtures("conflict")
def test_undo_gives_back_the_version_that_was_in_use(client: InspectorClient, session: SessionMemory) -> None:
    before = session.get("FIND-0001")
    [used] = [each for each in versions(client.get(PAGE)) if "used until" in each]
    [other] = [each for each in versions(client.get(PAGE)) if "used until" not in each]
    page = keep(client, other)
    assert session.get("FIND-0001").status != before.status
    assert "has the other version again" in client.undo(page).text
    after = session.get("FIND-0001")
    assert (after.status, after.resolution) == (before.status, before.resolution)
    assert "Nothing was changed" in keep(client, used).text


@pytest.mark.usefixtures("conflict")
def test_second_press_and_old_page_change_nothing(client: InspectorClient, session: SessionMemory) -> None:
    first, second = versions(client.get(PAGE))
    keep(client, first)
    settled = session.get("FIND-0001")
    for chosen in (first, second):
        assert "Nothing was changed" in keep(client, chosen).text
    assert session.get("FIND-0001").revision == settled.revision


@pytest.mark.usefixtures("conflict")
def test_version_of_an_older_revision_is_refused(client: InspectorClient, session: SessionMemory) -> None:
    first, _ = versions(client.get(PAGE))
    session.update("FIND-0001", category="login", by="eve")
    form = dict(re.findall(r'name="(revision|version)" value="([^"]*)"', first))
    answer = client.post(f"{PAGE}/settle", **form)
    assert answer.status == 409
    assert session.conflicts()


def test_value_that_was_removed_can_be_kept(client: InspectorClient, session: SessionMemory, clock: Clock) -> None:
    change_in_two_clones(
        session,
        clock,
        lambda s: s.update("FIND-0001", severity=None, by="ada"),
        lambda s: s.update("FIND-0001", severity="low", by="bob"),
    )
    [removed] = [each for each in versions(client.get(PAGE)) if "ada" in each]
    assert "removed" in removed
    keep(client, removed)
    assert session.get("FIND-0001").get("severity") is None
    assert session.conflicts() == []


def test_field_that_no_update_may_write_is_refused(
    client: InspectorClient, session: SessionMemory, clock: Clock
) -> None:
    """Another program may have written any name; this one was taken for an argument of the update."""
    change_in_two_clones(
        session,
        clock,
        lambda s: s.update("FIND-0001", xy="ours"),
        lambda s: s.update("FIND-0001", xy="theirs"),
    )
    [path] = Path(session.memory.root).glob("sessions/review/findings.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for each in lines[1:]:
        each.pop("checksum")
    path.write_text("".join(json.dumps(each).replace('"xy"', '"expected_revision"') + "\n" for each in lines))
    shown = versions(client.get(PAGE))
    form = dict(re.findall(r'name="(revision|version)" value="([^"]*)"', shown[0]))
    answer = client.post(f"{PAGE}/settle", **form)
    assert answer.status == 400
    assert "cannot be changed here" in answer.text


def test_another_value_is_written_in_the_form_of_the_memory(
    client: InspectorClient, session: SessionMemory, clock: Clock
) -> None:
    change_in_two_clones(
        session,
        clock,
        lambda s: s.update("FIND-0001", severity="low", by="ada"),
        lambda s: s.update("FIND-0001", severity="critical", by="bob"),
    )
    assert re.search(rf'href="{PAGE}/edit"[^>]*>Write another<', client.get(PAGE).html)
    revision = client.get(f"{PAGE}/edit").value("revision")
    client.done(f"{PAGE}/edit", revision=revision, **{"text:severity": "medium"})
    assert session.get("FIND-0001").severity == "medium"
    assert session.conflicts() == []


@pytest.mark.usefixtures("conflict")
@pytest.mark.parametrize("may_write", [False, True])
def test_client_without_the_right_to_write_sees_versions_and_no_buttons(memory: Memory, may_write: bool) -> None:
    seen = limited(memory, "shop", write=may_write)
    inspector = Inspector(seen, "token", "ci", True, may_write=may_write)
    parts = {"session": "review", "id": "FIND-0001"}
    html = bytes(memory_page(PageRequest(inspector, PAGE, parts, QueryParams(""), {})).body).decode()
    shown = html.split('id="memory"')[1]
    assert "A captcha" in shown
    for button in ("Keep this one", "Write another", ">Edit<", ">Delete<", ">Relate"):
        assert (button in shown) is may_write, button


@pytest.mark.usefixtures("conflict")
def test_home_and_health_link_to_the_memory_until_it_is_settled(client: InspectorClient) -> None:
    assert "Nothing waits for you" not in client.get("/").text
    health = client.get("/health?check=quick")
    assert "onflicts of a merge wait for a choice" in health.text
    assert f'href="{PAGE}"' in health.html
    needs = client.get("/").html.split('id="needs"')[1].split("</section>")[0]
    assert "review/FIND-0001 has two versions" in needs
    assert "onflicts of a merge" not in needs  # it is said once
    assert f'href="{PAGE}#versions"' in needs
    keep(client, versions(client.get(PAGE))[0])
    assert "has two versions" not in client.get("/").text
