"""A preview tells the owner of a store what an agent is told, what is left out and why; agents cannot ask for one."""

from __future__ import annotations

import pytest

import smp_memory
from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.context.preview import preview_context
from smp_memory.errors import InvalidQuery
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.hooks.session_state import SessionStates
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.previews import Preview
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.testing import FrozenClock

TASK = "choose a database for orders"


@pytest.fixture
def memory() -> smp_memory.Memory:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("shop", user="ada")
    first = session.add_decision("Use SQLite as the database for orders")
    session.add_decision("Use PostgreSQL as the database for orders", supersedes=first.id)
    session.add_finding("The database for orders was slow", status="resolved")
    session.add_decision("A secret database for orders", author="architect", visibility="private")
    session.add_decision("The database for orders was Oracle", valid_until="2020-01-01")
    memory.create_session("other", user="bob").add_decision("Orders are in the database of Bob")
    return memory


def reasons(preview: Preview) -> dict[str, str]:
    return {item.ref: f"{item.reason}: {item.detail}" for item in preview.left_out}


def test_everything_that_matches_and_is_left_out_has_a_reason(memory: smp_memory.Memory) -> None:
    preview = memory.preview("dev", TASK, session="shop")
    assert preview.ids == ["shop/DEC-0002"]
    assert reasons(preview) == {
        "shop/DEC-0001": "superseded: superseded by shop/DEC-0002",
        "shop/FIND-0001": "settled: its status is resolved",
        "shop/DEC-0003": "hidden: private to architect",
        "shop/DEC-0004": "expired: valid until 2020-01-01",
        "other/DEC-0001": "other user or project: session other is of user bob",
    }
    assert preview.left_out_count == 5


def test_hidden_memory_is_told_to_the_agent_that_owns_it(memory: smp_memory.Memory) -> None:
    assert "shop/DEC-0003" in memory.preview("architect", TASK, session="shop").ids


def test_preview_in_a_scope_with_a_viewer_shows_nothing_hidden(memory: smp_memory.Memory) -> None:
    own = memory.scope
    scope = Scope(own.store, None, own.config, own.clock, viewer=Viewer("dev"))
    preview = preview_context(scope, "dev", TASK, session="shop")
    assert "shop/DEC-0003" not in reasons(preview)
    assert "secret" not in str(preview.to_dict())


def test_agents_have_neither_previews_nor_explanations() -> None:
    assert not {"preview", "explain"} & set(dir(AgentMemory))


def test_preview_does_not_count_as_use(memory: smp_memory.Memory) -> None:
    memory.preview("dev", TASK)
    preview_hook(memory, "prompt", prompt=TASK)
    assert not any(each.access_count for each in memory.store.indexer.candidates(CandidateRequest()).matches)


def test_lower_floor_lets_a_prompt_tell_more(memory: smp_memory.Memory) -> None:
    strict = preview_hook(memory, "prompt", prompt=TASK, session="shop", min_relevance=1.0)
    assert [(item.ref, item.lane) for item in strict.included] == [("shop/DEC-0002", "pointers")]
    assert "shop/DEC-0002" in preview_hook(memory, "prompt", prompt=TASK, session="shop", min_relevance=0.0).ids


def test_nothing_because_names_the_setting_or_the_prompt(memory: smp_memory.Memory) -> None:
    assert "no content words" in preview_hook(memory, "prompt", prompt="yes, go ahead").nothing_because
    assert preview_hook(memory, "prompt", prompt=TASK, max_tokens=0).nothing_because == "the budget is 0 tokens"
    silent = smp_memory.open(":memory:", config={"hooks.recall": False})
    assert preview_hook(silent, "prompt", prompt=TASK).nothing_because == "hooks.recall is off"


def test_memory_that_the_conversation_has_is_already_told(memory: smp_memory.Memory) -> None:
    with SessionStates(memory.store.state, 5.0) as states:
        known = states.load("host-1")
        known.session, known.injected = "shop", ["shop/DEC-0002@1"]
        states.save(known)
    preview = preview_hook(memory, "prompt", prompt=TASK, session="shop", min_relevance=0.0)
    assert reasons(preview)["shop/DEC-0002"] == "already told: it is in the conversation already"


def test_untrusted_store_tells_only_that_it_is_untrusted(
    memory: smp_memory.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(memory), "is_trusted", False)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    preview = preview_hook(memory, "start")
    assert "has not trusted" in preview.text
    assert not preview.included
    assert "not trusted" in preview.nothing_because
    assert preview_hook(memory, "prompt", prompt=TASK).text == ""


@pytest.mark.parametrize("wrong", [{"min_relevance": 2}, {"min_relevance": "high"}, {"max_tokens": -1}])
def test_wrong_floor_or_budget_is_named(memory: smp_memory.Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidQuery, match=next(iter(wrong))):
        preview_hook(memory, "prompt", prompt=TASK, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidQuery, match=next(iter(wrong))):
        memory.preview("dev", TASK, **wrong)  # type: ignore[arg-type]
