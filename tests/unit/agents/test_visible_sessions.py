"""A context contains memories of the session's own user, of sessions without a user and of `global`; not of other users."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.integrations.bmad.macp import ContextManager
from smp_memory.integrations.hooks.events import HookEvent
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.model.types import KINDS
from smp_memory.testing import FrozenClock

ADA, BOB, NOBODY, GLOBAL = "aardvark", "buffalo", "nightingale", "gazelle"  # a word in all memories of each
ASKED = "which database holds the orders of the shop"


def fill(session: smp_memory.SessionMemory, word: str, count: int = 1) -> None:
    """A memory of every kind that a context gathers, all of them about the same."""
    items: list[tuple[str, dict[str, Any]]] = []
    for number in range(count):
        said = f"the {word} database holds the orders of the shop, number {number}"
        items += [
            ("conversation", {"role": "user", "content": said}),
            ("decision", {"decision": said, "topic": "orders", "rationale": word}),
            ("finding", {"finding": said, "topic": "orders", "severity": "critical", "author": "veritas"}),
            ("learning", {"learning": said, "topic": "orders"}),
            ("preference", {"key": f"{word}-{number}", "value": said}),
        ]
    session.add_many(items)
    session.update_agent_state("architect", {"task": f"{word} orders"})
    session.add("summary", {"summary": f"{word} orders"})
    session.add_artifact(f"{word}.md", f"{word} orders")


def store(root: Any = ":memory:", *, count: int = 1, **config: Any) -> smp_memory.Memory:
    memory = smp_memory.open(root, clock=FrozenClock(), config={"track_access": False, **config})
    fill(memory.create_session("adas", user="ada"), ADA, count)
    fill(memory.create_session("nobodys"), NOBODY, count)
    memory.global_memory.add_pattern(f"the {GLOBAL} database holds the orders of the shop")
    fill(memory.create_session("bobs", user="bob"), BOB, count)
    return memory


@cache
def known(count: int) -> smp_memory.Memory:
    """A store to look at."""
    return store(count=count)


def texts(context: Any) -> str:
    return str(context) + json.dumps(context.to_dict() if hasattr(context, "to_dict") else str(context))


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"task": ASKED},
    {"topic": "orders"},
    {"task": ASKED, "topic": "orders", "max_tokens": 20_000},
    {"agent": "architect"},
    {"agent": "architect", "task": ASKED, "max_tokens": 9000},
    {"task": ASKED, "counter": len, "max_tokens": 60_000},
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("count", [1, 130])
def test_context_contains_nothing_of_another_user(question: dict[str, Any], count: int) -> None:
    """However much the other user has written, and although it is newer than all else."""
    memory = known(count)
    session = memory.create_session(user="ada")
    found = texts(session.context(**question))
    assert BOB not in found
    assert ADA in found or NOBODY in found  # which are newer
    assert ADA in texts(memory.session("adas").context(**question))
    assert BOB not in texts(memory.session("adas").context(**question))
    assert "Last turns" in found


def test_sessions_without_a_user_and_global_are_visible_to_all() -> None:
    memory = store()
    for user in ("ada", "bob", None):
        found = texts(memory.create_session(user=user).context(task=ASKED, max_tokens=20_000))
        assert NOBODY in found
        assert GLOBAL in found
        assert (ADA in found, BOB in found) == (user == "ada", user == "bob")


def test_session_without_a_user_sees_the_only_user_of_the_store() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    fill(memory.create_session("adas", user="ada"), ADA)
    hook = memory.create_session("claude-code-1")
    assert ADA in texts(hook.context(task=ASKED, max_tokens=20_000))
    fill(memory.create_session("bobs", user="bob"), BOB)
    found = texts(hook.context(task=ASKED, max_tokens=20_000))
    assert ADA not in found
    assert BOB not in found


def test_context_without_a_session_contains_nothing_of_several_users() -> None:
    found = texts(store().context(task=ASKED, max_tokens=20_000))
    assert NOBODY in found
    assert GLOBAL in found
    assert ADA not in found
    assert BOB not in found


def test_context_without_a_session_belongs_to_the_user_it_names() -> None:
    memory = store()
    for user, own, other in (("ada", ADA, BOB), ("bob", BOB, ADA)):
        for question in QUESTIONS:
            found = texts(memory.context(user=user, **question))
            assert own in found
            assert other not in found


def test_context_without_a_session_belongs_to_the_only_user_of_the_store() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    fill(memory.create_session("adas", user="ada"), ADA)
    assert ADA in texts(memory.context(task=ASKED))
    assert ADA not in texts(memory.context(task=ASKED, user="bob"))


def test_query_is_not_limited_to_visible_sessions() -> None:
    memory = store()
    hits = memory.session("adas").query(BOB, sessions="all")
    assert hits
    assert hits.records[0].session == "bobs"


def test_store_setting_shares_the_sessions_of_all_users() -> None:
    memory = store(context={"share_users": True})
    assert BOB in texts(memory.session("adas").context(task=ASKED, max_tokens=20_000))


def test_session_setting_shares_or_hides_the_session() -> None:
    memory = store()
    shared = memory.create_session("bobs-shared", user="bob", config={"context": {"share_users": True}})
    fill(shared, "flamingo")
    found = texts(memory.session("adas").context(task=ASKED, max_tokens=20_000))
    assert "flamingo" in found
    assert BOB not in found


def test_session_setting_overrides_a_store_that_shares(tmp_path: Path) -> None:
    with store(tmp_path / "store") as memory:
        memory.set_config("context.share_users", True)
    with smp_memory.open(tmp_path / "store") as memory:
        kept = memory.create_session("bobs-own", user="bob", config={"context": {"share_users": False}})
        fill(kept, "flamingo")
        found = texts(memory.session("adas").context(task=ASKED, max_tokens=20_000))
        assert BOB in found
        assert "flamingo" not in found


def test_setting_of_the_asking_session_does_not_share_others() -> None:
    memory = store()
    curious = memory.create_session("curious", user="ada", config={"context": {"share_users": True}})
    assert BOB not in texts(curious.context(task=ASKED, max_tokens=20_000))


def test_session_with_damaged_metadata_counts_as_another_users(tmp_path: Path) -> None:
    with store(tmp_path / "store") as memory:
        head = Path(memory.session("bobs").folder) / memory.store.layout.info_file
    assert '"bob"' in head.read_text()
    head.write_text("{ broken")
    with smp_memory.open(tmp_path / "store") as memory:
        assert BOB not in texts(memory.session("adas").context(task=ASKED, max_tokens=20_000))


def test_agents_workflows_and_macp_are_limited_to_the_user() -> None:
    memory = store()
    session = memory.session("adas")
    agent = session.agent("architect")
    assert BOB not in texts(agent.context(ASKED, max_tokens=20_000))
    run = smp_memory.Workflow.load("workflow:\n  metadata: {id: w}\n").start(session, "architect")
    assert BOB not in texts(run.context(ASKED, max_tokens=20_000))
    for topic in (None, "orders"):
        message = {
            "header": {"message_id": "m", "session_id": "adas"},
            "routing": {"source_agent": "architect", "target_agent": "_context_manager"},
            "classification": {"type": "REQUEST", "priority": "NORMAL"},
            "payload": {"intent": "REQUEST_CONTEXT", "content": {"task": ASKED, "topic": topic, "max_tokens": 20_000}},
        }
        answer = json.dumps(ContextManager(memory).answer(message))
        assert BOB not in answer
        assert ADA in answer


def test_context_over_mcp_is_limited_to_the_user_of_the_session() -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS, prompt_text

    memory = store()
    given = {"task": ASKED, "max_tokens": 20_000}
    for desk, more in ((RequestContext(memory), {"session": "adas"}), (RequestContext(memory, session="adas"), {})):
        caller = desk.caller("tests")
        answer = TOOLS["context"].call(caller, {**given, **more})
        prompt = prompt_text(caller, "recall", {"task": ASKED, **more})
        for found in (answer.text + json.dumps(answer.data), prompt):
            assert BOB not in found
            assert ADA in found
    memory.session("adas").add_learning("written last", created="2026-01-01T13:00:00Z")
    answer = TOOLS["context"].call(
        RequestContext(memory).caller("tests"), given
    )  # the current session is the one written last
    assert BOB not in answer.text
    assert ADA in answer.text


@pytest.mark.parametrize("count", [1, 130])
def test_hooks_recall_nothing_of_sessions_that_have_a_user(tmp_path: Path, count: int) -> None:
    with store(tmp_path / "store", count=count) as memory:
        memory.set_config("recall.min_relevance", 0.0)  # so many alike: none of them is likely to be the answer
        memory.query("orders")
    reader = Reader(str(tmp_path / "store"), {})
    for told in (
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": ASKED},
        {"hook_event_name": "SubagentStart", "agent_type": "architect"},
    ):
        event = HookEvent(
            "claude-code", str(told["hook_event_name"]), {"session_id": "h1", "cwd": str(tmp_path), **told}
        )
        found = recall_for_event(reader, event, "claude-code-1")
        assert NOBODY in found.text
        assert ADA not in found.text + str(found.told + found.pointed)
        assert BOB not in found.text + str(found.told + found.pointed)


def test_hooks_recall_nothing_where_all_sessions_belong_to_several_users(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        fill(memory.create_session("bobs", user="bob"), BOB)
        fill(memory.create_session("adas", user="ada"), ADA)
    reader = Reader(str(tmp_path / "store"), {})
    told = {"session_id": "h1", "cwd": str(tmp_path), "prompt": ASKED}
    assert recall_for_event(reader, HookEvent("claude-code", "UserPromptSubmit", told), "claude-code-1").text == ""
    assert recall_for_event(reader, HookEvent("claude-code", "SessionStart", told), "claude-code-1").items == []


def test_change_of_a_sessions_user_takes_effect_at_once() -> None:
    memory = store()
    ada = memory.session("adas")
    assert NOBODY in texts(ada.context(task=ASKED, max_tokens=20_000))
    memory.session("nobodys").change_info(user="bob")
    assert NOBODY not in texts(ada.context(task=ASKED, max_tokens=20_000))
    memory.session("nobodys").change_info(user="ada")
    assert NOBODY in texts(ada.context(task=ASKED, max_tokens=20_000))


def test_every_type_of_memory_is_covered_here() -> None:
    memory = store()
    assert {record.type for record in memory.session("bobs").records()} == set(KINDS)


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("asking", ["adas", "nobodys"])
def test_session_with_unreadable_metadata_counts_as_another_users(tmp_path: Path, layout: str, asking: str) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory:
        memory.create_session("adas", user="ada").add_decision(f"The {ADA} database holds the orders")
        memory.create_session("nobodys").add_decision(f"The {NOBODY} database holds the orders")
        bobs = memory.create_session("bobs", user="bob")
        bobs.add_decision(f"The {BOB} database holds the orders")
        head = Path(bobs.folder) / (memory.store.layout.info_file or "bobs.jsonl")
    lines = head.read_bytes().splitlines(keepends=True)
    head.write_bytes(b"".join([b"{ not a head\n", *lines[1:]]))
    with smp_memory.open(tmp_path) as memory:
        assert BOB not in texts(memory.context(session=asking, task=ASKED))
        assert BOB in texts(memory.context(session="bobs", task=ASKED))
