"""With a task, what matches it comes first; turns, wishes, critical findings and the state have small shares of the budget."""

from __future__ import annotations

import pytest

import smp_memory
from smp_memory.errors import InvalidQuery
from smp_memory.testing import FrozenClock

TASK = "choose a cipher for the backups"
BUDGETS = (120, 300, 800, 1500)


@pytest.fixture
def memory() -> smp_memory.Memory:
    return smp_memory.open(":memory:", clock=FrozenClock(), config={"track_access": False})


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_only_match_is_not_pushed_out_by_critical_findings(memory: smp_memory.Memory, budget: int) -> None:
    old = memory.create_session("old")
    old.add_decision("Backups are encrypted with the cipher AES-256")
    session = memory.create_session("now")
    for number in range(30):
        session.add_finding(f"The lift of house {number} is out of order and nobody came", severity="critical")
    context = session.context(task=TASK, max_tokens=budget)
    assert "AES-256" in context.text
    assert budget < 300 or any(item.section == "finding" for item in context.items)


@pytest.mark.parametrize("budget", BUDGETS)
def test_matches_are_not_pushed_out_by_the_last_turns(memory: smp_memory.Memory, budget: int) -> None:
    memory.create_session("old").add_turn("user", "The cipher of the backups is AES-256, said the auditor")
    session = memory.create_session("now")
    for number in range(40):
        session.add_turn("user", f"And then number {number} went on and on about the weather " * 5)
    context = session.context(task=TASK, max_tokens=budget)
    assert "AES-256" in context.text
    last = [item for item in context.items if item.section == "turn"]
    assert sum(len(item.line) for item in last) <= max(budget * 4 // 8, 200)
    assert budget < 800 or last[-1].record.id == "TURN-0040"


def test_as_many_matches_come_in_as_the_budget_holds(memory: smp_memory.Memory) -> None:
    session = memory.create_session("old")
    for number in range(120):
        session.add_turn("user", f"The cipher of backup {number} was changed")
    found = [
        memory.context(task="cipher of the backups", max_tokens=budget, turns=0).items for budget in (300, 1500, 6000)
    ]
    assert len(found[0]) < len(found[1]) < len(found[2])
    assert len(found[2]) > 60


def test_matches_are_those_of_a_query_in_its_order(memory: smp_memory.Memory) -> None:
    session = memory.create_session("old")
    for number in range(40):
        session.add_turn(
            "user", f"Note {number}: the {'cipher ' * (number % 5)} of the {'backups ' * (number % 3)} is fine"
        )
    fresh = memory.create_session("fresh")
    hits = [hit.record.ref for hit in memory.query(TASK, limit=60)]
    context = fresh.context(task=TASK, max_tokens=400, turns=0)
    assert set(context.ids) == set(hits[: len(context.ids)])


def test_artifacts_and_summaries_that_match_come_in(memory: smp_memory.Memory) -> None:
    session = memory.create_session("old")
    session.add_artifact("cipher.md", "The cipher of the backups is Serpent")
    session.add("summary", {"summary": "We settled the cipher of the backups: Twofish"})
    text = memory.create_session("now").context(task=TASK).text
    assert "Serpent" in text
    assert "Twofish" in text


def test_something_is_recalled_while_something_fits(memory: smp_memory.Memory) -> None:
    session = memory.create_session("a-session-with-quite-a-long-name-as-hooks-make-them-2026-06-01")
    session.add_decision("Backups are encrypted with the cipher AES-256, because the auditor asks for it every year")
    for budget in (110, 150, 200, 300):
        assert session.context(task=TASK, max_tokens=budget).items, budget
        assert memory.context(max_tokens=budget).items, budget


def test_a_task_of_signs_alone_gives_a_digest(memory: smp_memory.Memory) -> None:
    memory.create_session("s").add_decision("Use tabs")
    assert memory.context(task="?!… --").ids == memory.context().ids == ["s/DEC-0001"]


def test_ids_in_the_text_can_be_resolved(memory: smp_memory.Memory) -> None:
    for name in ("alpha", "beta", "gamma"):
        session = memory.create_session(name)
        for number in range(2 if name != "beta" else 1):
            session.add_decision(f"The cipher of backup {name} {number} is AES")
    context = memory.session("gamma").context(task=TASK)
    resolved, above = [], ""
    for line in context.text.splitlines():
        if line.startswith("## "):
            above = ""
        if line.startswith("### "):
            above = line.removeprefix("### ")
        if line.startswith("- "):
            name = line.split()[2].rstrip(":")
            resolved.append(name if "/" in name else f"{above or 'gamma'}/{name}")
    assert "Ids without a session belong to gamma." in context.text
    assert resolved == context.ids
    assert len(set(resolved)) == 5
    assert context.text.count("alpha") == 3  # its name once, and the two memories


# -- standing instructions


def test_wish_that_was_only_said_comes_in(memory: smp_memory.Memory) -> None:
    old = memory.create_session("old")
    old.add_turn("user", "Looks good. Never push on Fridays! What is next?")
    old.add_turn("assistant", "Always glad to help. Never use eval here.")
    for number in range(200):
        old.add_turn("user", f"Something else, number {number}")
    for asked in ({"task": TASK}, {}):
        for budget in (300, 1500):
            context = memory.create_session().context(max_tokens=budget, **asked)
            assert "Never push on Fridays!" in context.text
            assert "Never use eval" not in context.text
            wish = next(item for item in context.items if item.why == "a standing instruction")
            assert (wish.section, wish.text) == ("preference", "Never push on Fridays!")


def test_deleted_wish_does_not_come_in(memory: smp_memory.Memory) -> None:
    session = memory.create_session("old")
    session.add_turn("user", "Never push on Fridays!")
    fresh = memory.create_session("new")
    assert "Fridays" in fresh.context(task=TASK).text
    session.delete("TURN-0001")
    assert "Fridays" not in fresh.context(task=TASK).text
    session.restore("TURN-0001")
    assert "Fridays" in fresh.context(task=TASK).text


def test_wish_in_recalled_text_is_none(memory: smp_memory.Memory) -> None:
    from smp_memory.privacy.fence import fence
    from smp_memory.text.memory_text import wish_of

    recalled = fence("## Preferences\nNever push on Fridays!")
    assert wish_of({"role": "user", "content": f"{recalled}\nWhat is next?"}) == ""
    assert wish_of({"role": "user", "content": f"{recalled}\nNever push on Mondays!"}) == "Never push on Mondays!"


def test_wishes_of_another_user_do_not_come_in(memory: smp_memory.Memory) -> None:
    memory.create_session("bobs", user="bob").add_turn("user", "Never push on Fridays!")
    memory.create_session("adas", user="ada").add_turn("user", "Always write tests first, please.")
    for asked in ({}, {"task": TASK}):
        text = memory.create_session(user="ada").context(**asked).text
        assert "write tests first" in text
        assert "Fridays" not in text
        text = memory.context(**asked).text
        assert "Fridays" not in text
        assert "tests first" not in text


def test_preferences_and_wishes_do_not_take_the_room_of_matches(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    session.add_decision("Backups are encrypted with the cipher AES-256")
    session.add_turn("user", "Good morning")
    other = memory.create_session("other")
    for number in range(50):
        session.add_preference(f"key-{number}", "a value that goes on for quite a while " * 3)
        other.add_turn("user", f"Never push on day {number} of the month, whatever happens there.")
    for budget in (300, 800, 1500):
        context = session.context(task=TASK, max_tokens=budget)
        wishes = [item for item in context.items if item.section == "preference"]
        assert "AES-256" in context.text
        assert 0 < sum(len(item.line) for item in wishes) <= budget * 4 // 3
        assert budget < 800 or {item.record.type for item in wishes} == {"preference", "conversation"}


# -- the digest


def test_digest_holds_every_kind_whatever_there_is_most_of(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    session.add_turn("user", "Never push on Fridays!")
    session.add_turn("user", "We stopped at the invoices.")
    for number in range(100):
        session.add_finding(f"The lift of house {number} is out of order and nobody came", severity="critical")
        session.add_learning(f"House {number} has a lift")
        session.add_decision(f"House {number} gets another lift")
    for budget in (440, 1140):
        for agent in (None, "architect"):
            found = [item.section for item in memory.context(agent, max_tokens=budget).items]
            assert {"turn", "preference", "finding", "decision", "learning"} == set(found)
            assert max(map(found.count, found)) <= len(found) / 2


def test_digest_gives_unused_shares_to_the_others(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    for number in range(100):
        session.add_learning(f"House {number} has a lift " + "that goes to the cellar " * 9)
    assert memory.context(max_tokens=1000).tokens > 900


# -- topic, tags, project


def labelled(memory: smp_memory.Memory) -> smp_memory.SessionMemory:
    session = memory.create_session("s")
    session.add_decision("The cipher for billing is AES", topic="billing", tags=["money.tax"])
    session.add_decision("The cipher for login is Serpent", topic="login")
    session.add_finding("The shop is down", severity="critical", topic="shop")
    session.add_turn("user", "Never push on Fridays!")
    return session


def test_topic_and_tags_narrow_a_context_as_they_do_a_query(memory: smp_memory.Memory) -> None:
    session = labelled(memory)
    for task in (None, "which cipher"):
        for asked in ({"topic": "billing"}, {"tags": "money"}, {"tags": ["money.tax", "none"]}, {"topic": "money"}):
            context = session.context(task=task, **asked)
            assert {item.record.id for item in context.items if item.section in ("decision", "finding")} == {"DEC-0001"}
            assert "Fridays" in context.text
            assert context.notes == []


def test_unknown_topic_is_said_and_searched_as_words(memory: smp_memory.Memory) -> None:
    session = labelled(memory)
    context = session.context(topic="cipher")
    assert context.notes == ["No memory has this topic: not narrowed, and searched as words."]
    assert context.notes[0] in context.text
    assert context.to_dict()["notes"] == context.notes
    assert {"DEC-0001", "DEC-0002"} <= {item.record.id for item in context.items}
    assert session.context(tags=["nowhere"], task="which cipher").notes == [
        "No memory has these tags: not narrowed, and searched as words."
    ]


def test_hidden_topic_looks_like_an_unknown_one(memory: smp_memory.Memory) -> None:
    session = labelled(memory)
    session.agent("alice").add_decision("The vault is blue", topic="vault", visibility="private")
    memory.create_session("bobs", user="bob").add_decision("The safe is red", topic="safe")
    memory.create_session("eves", user="eve")
    for topic in ("vault", "safe", "nowhere"):
        context = session.context("bob", topic=topic)
        assert context.notes
        assert "blue" not in context.text
        assert "red" not in context.text


def test_sessions_of_another_project_are_left_out(memory: smp_memory.Memory) -> None:
    for project in ("shop", "bank", None):
        memory.create_session(f"of-{project}", project=project).add_decision(f"The cipher of {project} is AES")
    for asked in ({}, {"task": TASK}):
        for context in (
            memory.create_session(project="Shop").context(**asked),
            memory.context(project="shop", **asked),
        ):
            assert "of shop" in context.text
            assert "of None" in context.text
            assert "of bank" not in context.text
        assert "of bank" in memory.context(**asked).text
    unknown = memory.context(project="nowhere", task=TASK)
    assert unknown.notes == ["No session names the project 'nowhere'."]
    assert "of None" in unknown.text
    assert "of bank" not in unknown.text


@pytest.mark.parametrize(
    "asked", [{"tags": 3}, {"tags": [""]}, {"project": 3}, {"user": ["ada"]}, {"project": "\ud800"}]
)
def test_invalid_scope_is_an_error_that_names_it(memory: smp_memory.Memory, asked: dict[str, object]) -> None:
    with pytest.raises(InvalidQuery) as caught:
        memory.context(**asked)  # type: ignore[arg-type]
    assert caught.value.details["field"] in asked
