"""A preview gives the text of the context or hook itself, and a reason for everything that matches and is not in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import smp_memory
from smp_memory.context.trace import REASONS
from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.hooks.prompt_recall import query_words
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_in_state
from smp_memory.integrations.hooks.session_state import HookSession
from smp_memory.privacy import fence
from smp_memory.testing import FrozenClock
from tests.crash.scenarios import depth

NAMES = ("shop", "site", "global")
USERS = (None, "ada", "bob")
AGENTS = (None, "dev", "architect")
WORDS = [
    "database",
    "orders",
    "backup",
    "PostgreSQL",
    "slow",
    "the",
    "invoice",
    "limit is 30",
    "limit is 50",
    "now",
    "cipher",
    "smp-recalled",
]
TASKS = (
    None,
    "choose a database for orders",
    "database",
    "Which backup has the invoice cipher?",
    "nothing like it",
    "…",
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
memories = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(["turn", "decision", "finding", "preference", "learning", "wish", "state"]),
    texts,
    st.fixed_dictionaries(
        {},
        optional={
            "author": st.sampled_from(["dev", "architect"]),
            "visibility": st.sampled_from(["private", "shared"]),
            "tags": st.sampled_from([["db"], ["ui"]]),
            "topic": st.sampled_from(["orders", "login"]),
            "valid_until": st.sampled_from(["2020-01-01", "2090-01-01"]),
            "valid_from": st.just("2080-01-01"),
            "severity": st.sampled_from(["low", "critical"]),
            "status": st.sampled_from(["open", "resolved", "overturned"]),
            "applies_to": st.sampled_from(["dev", "architect", "*"]),
        },
    ),
)
requests = st.fixed_dictionaries(
    {"agent": st.sampled_from(AGENTS), "task": st.sampled_from(TASKS), "max_tokens": st.sampled_from([0, 90, 200, 600, 3000])},
    optional={
        "topic": st.sampled_from(["orders", "unknown"]),
        "tags": st.sampled_from([["db"], ["unknown"]]),
        "session": st.sampled_from(NAMES[:2]),
        "user": st.sampled_from(["ada", "bob"]),
        "turns": st.sampled_from([0, 3]),
    },
)  # fmt: skip
stores = st.tuples(st.lists(memories, max_size=25), st.tuples(st.sampled_from(USERS), st.sampled_from(USERS)))


@pytest.fixture(autouse=True)
def nonce() -> Iterator[None]:
    with mock.patch.object(fence, "new_nonce", return_value="1f2e3d4c"):
        yield


def filled(written: list[Any], users: tuple[str | None, ...]) -> smp_memory.Memory:
    memory = smp_memory.open(":memory:", clock=FrozenClock(), config={"track_access": False})
    sessions = {name: memory.create_session(name, user=user) for name, user in zip(NAMES, users, strict=False)}
    for place, kind, text, fields in written:
        session = sessions[place] if place in sessions else sessions[NAMES[0]]
        if kind in ("turn", "wish"):
            common = {name: fields[name] for name in ("author", "visibility", "tags") if name in fields}
            session.add_turn("user", f"Please always use {text}" if kind == "wish" else text, **common)
        elif kind == "state":
            session.agent(fields.get("author", "dev")).update_state({"task": text})
        else:
            if fields.get("valid_until") == "2020-01-01":
                fields = {name: value for name, value in fields.items() if name != "valid_from"}
            data = {**fields, kind: text, **({"key": text[:8], "value": text} if kind == "preference" else {})}
            session.add(kind, data)
    supersede(sessions[NAMES[0]])
    return memory


def supersede(session: smp_memory.SessionMemory) -> None:
    decisions = session.records("decision")
    if len(decisions) > 1:
        session.relate(decisions[-1].id, decisions[0].id, "supersedes")


def check(memory: smp_memory.Memory, preview: Any, text: str, words: str) -> None:
    assert preview.text == text
    assert preview.tokens == (len(text) + 3) // 4
    assert sum(preview.shares.values()) == preview.tokens
    assert preview.left_out_count >= len(preview.left_out)
    refs = [item.ref for item in (*preview.included, *preview.left_out)]
    assert len(set(refs)) == len(refs)
    lines = text.split("\n")
    places = [lines.index(item.line) for item in preview.included]
    assert len(set(places)) == len(places)
    assert places == sorted(places)
    for item in preview.left_out:
        assert item.reason in REASONS
        assert item.detail
        assert not item.line
    assert bool(preview.nothing_because) is not bool(preview.included)
    if words:
        matching = memory.query(words, limit=10_000, include_expired=True, track_access=False)
        assert {hit.record.ref for hit in matching} <= set(refs)
        assert preview.left_out_count == len(preview.left_out)
    json.dumps(preview.to_dict())


@settings(max_examples=depth(40, 800), deadline=None)
@given(stores, st.lists(requests, min_size=1, max_size=3), st.sampled_from([None, 0.0, 0.3, 1.0]))
def test_preview_of_a_context_is_the_context_with_reasons(store: Any, asked: list[dict[str, Any]], floor: Any) -> None:
    memory = filled(*store)
    before = [record.to_dict() for session in memory.sessions() for record in session.records()]
    for request in asked:
        if floor is not None:
            memory.scope.config = memory.config.override_session({"recall": {"min_pointer": floor}}, "x")
        context = memory.context(**request, track_access=False)
        memory.scope.config = memory.config
        preview = memory.preview(**request, min_relevance=floor)
        task = request["task"] if request["task"] != "…" else ""
        check(memory, preview, context.text, task or "")
        assert preview.ids == context.ids
        assert preview.notes == context.notes
        assert preview.min_relevance == (0.33 if floor is None else floor)
        for item in preview.included:
            assert smp_memory.privacy.visibility.Viewer(request["agent"]).sees(item.record)
    assert before == [record.to_dict() for session in memory.sessions() for record in session.records()]


EVENTS = {"start": "SessionStart", "prompt": "UserPromptSubmit", "agent": "SubagentStart"}


@settings(max_examples=depth(40, 800), deadline=None)
@given(
    stores,
    st.sampled_from(sorted(EVENTS)),
    st.sampled_from([*TASKS[1:], "ok", "yes do it", ""]),
    st.sampled_from([None, "shop"]),
    st.sampled_from([None, 0, 100, 400]),
    st.sampled_from([None, 0.0, 0.2, 1.0]),
)  # fmt: skip
def test_preview_of_a_hook_is_what_the_hook_injects(
    store: Any, kind: str, prompt: str, session: str | None, max_tokens: int | None, floor: float | None
) -> None:
    memory = filled(*store)
    given = [record.ref for record in memory.session("shop").records()[:2]]
    state = HookSession({"session": session or "", "given": given if session else [], "notices": ["Mind the gap."]})
    payload = {
        "hook_event_name": EVENTS[kind],
        "session_id": "preview",
        "prompt": prompt,
        "agent_type": "dev",
        "source": "",
    }
    event = events.read(json.dumps(payload).encode(), "claude-code", {})
    assert event is not None
    lowest = "recall.min_relevance" if kind == "prompt" else "recall.min_pointer"
    settings = {lowest: floor, "hooks.prompt_tokens": max_tokens, "hooks.start_tokens": max_tokens}
    nested = {"recall": {}, "hooks": {}}
    for name, value in settings.items():
        if value is not None:
            nested[name.split(".")[0]][name.split(".")[1]] = value
    reader = Reader("/memory", {}, store=memory.store, clock=memory.scope.clock)
    reader.scope.config = memory.config.override_session(nested, "x")
    name = session or smp_memory.integrations.hooks.session_state.new_session_name(event)
    with mock.patch.object(Reader, "use_config_of"):
        recall = recall_in_state(reader, event, name, state)
        with mock.patch("smp_memory.integrations.hooks.preview._state", return_value=state):
            preview = preview_hook(
                memory, kind, prompt=prompt, agent="dev", session=session, source="", min_relevance=floor, max_tokens=max_tokens
            )  # fmt: skip
    words = query_words(prompt) if kind == "prompt" and max_tokens != 0 else ""
    check(memory, preview, recall.text, words)
    if kind != "agent":
        assert preview.ids == [item.ref for item in recall.items]
