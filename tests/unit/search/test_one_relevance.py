"""One number for people: the relevance that the floor of a hook tests is what every surface shows for the same words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import smp_memory
from smp_memory import Memory
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.web.parts import url
from tests.e2e.terminal import Terminal
from tests.unit.web.inspector_client import InspectorClient

PROMPTS = (
    "Which database are orders stored in and why not SQLite?",  # direct
    "orders database",  # keywords
    "how do we do payments now?",  # vague
    "fix the slow search page",
    "what did we decide about the login?",
    "what is the weather in Paris today?",  # unrelated
    "PostgreSQL",
)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    session = memory.create_session("review")
    session.add_decision("Orders are stored in PostgreSQL because SQLite locked up under load", tags=["storage"])
    session.add_decision("Customers log in with OAuth 2.0; tokens last an hour", topic="login")
    session.add_finding("The checkout retries payments twice and charges the card two times", severity="high")
    session.add_finding("The search page takes four seconds because an index on products is missing")
    session.add_learning("Payments must be idempotent: send a key with each request")
    session.add_preference("commits", "short commit messages in English")
    session.add_turn("user", "Can we move the orders to another database than SQLite?")
    session.add_turn("assistant", "The orders table locks under load, and PostgreSQL handles that well for us.")
    session.add("agent_state", agent="dev", state={"task": "orders in PostgreSQL"})
    session.delete(session.add_decision("Orders go to MongoDB, the database in which orders are stored").id)
    session.add_decision("Orders were kept for a year in PostgreSQL", valid_until="2020-01-01")
    session.add_decision("The PostgreSQL password of orders", visibility="private", author="ada")
    memory.store.indexer.embed_missing(30)
    return memory


def by_hook(memory: Memory, prompt: str) -> dict[str, float]:
    shown = preview_hook(memory, "prompt", prompt=prompt)
    return {each.ref: each.relevance for each in (*shown.included, *shown.left_out) if each.relevance is not None}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_query_context_explanation_and_hook_have_the_same_number(memory: Memory, prompt: str) -> None:
    hook = by_hook(memory, prompt)
    hits = {hit.record.ref: hit.relevance for hit in memory.query(prompt, track_access=False)}
    shown = memory.preview(task=prompt)
    context = {each.ref: each.relevance for each in (*shown.included, *shown.left_out) if each.relevance is not None}
    assert hits.keys() <= hook.keys()
    assert {ref: hook[ref] for ref in hits} == pytest.approx(hits, abs=1e-9)
    assert {ref: hook[ref] for ref in context if ref in hook} == pytest.approx(
        {ref: value for ref, value in context.items() if ref in hook}, abs=1e-9
    )
    for ref, relevance in hits.items():
        assert memory.explain(ref, prompt).relevance == pytest.approx(relevance, abs=1e-9)


def test_command_line_and_pages_print_that_number(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    cli, client, prompt, ref = Terminal(capsys), InspectorClient(memory), PROMPTS[0], "review/DEC-0001"
    root = ("--root", memory.root)
    number = f"{by_hook(memory, prompt)[ref]:.2f}"
    assert re.search(rf"{number}  DEC-0001 ", cli.ok("query", prompt, *root))
    hit = next(
        each
        for each in json.loads(cli.ok("query", prompt, "--json", *root))["hits"]
        if each["record"]["id"] == "DEC-0001"
    )
    assert f"{hit['relevance']:.2f}" == number
    assert f"relevance {number}" in cli.ok("context", "--task", prompt, "--explain", *root)
    assert f"relevance {number}" in cli.ok("query", prompt, "--why-not", ref, *root)
    assert f"relevance {number}" in cli.ok("told", ref, "--prompt", prompt, *root).lower()
    for path, given in (
        ("/agent", {"kind": "prompt", "task": prompt}),
        ("/agent", {"task": prompt, "kind": "context"}),
        ("/search", {"q": prompt}),
    ):
        html = client.get(url(path, **given)).html
        article = html.partition('data-href="/memory/review/DEC-0001"')[2]
        found = re.search(r'<div class="score">([0-9.]+)', article)
        assert found is not None, given
        assert found[1] == number, given
        assert "likely" not in html
    assert f"Relevance {number};" in client.get(url(f"/memory/{ref}", prompt=prompt)).text
