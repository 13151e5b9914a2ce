"""Rights of an agent inside transactions, through idempotency keys and through relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import MemoryNotFound, NotAllowed, SMPError
from smp_memory.testing import FrozenClock

SECRET = "zebrafish"
KEY = "key-1"


@pytest.fixture
def session() -> Any:
    with smp_memory.open(":memory:", config={"track_access": False}) as memory:
        yield memory.create_session("room")


def everything(session: Any) -> list[Any]:
    records = session.records(include_deleted=True)
    return [{**record.to_dict(), "history": session.history(record.id)} for record in records]


def hidden_of(session: Any, kind: str) -> Any:
    """A private memory of alice with the idempotency key `KEY`."""
    alice = session.agent("alice")
    if kind == "agent_state":
        return alice.update_state({"task": SECRET}, idempotency_key=KEY)
    fields = {kind: SECRET, "visibility": "private", "idempotency_key": KEY}
    if kind == "preference":  # an agent itself makes none that others do not see
        return session.add(kind, {**fields, "author": "alice"})
    return alice.add(kind, fields)


AFTER_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda tx, added: None,
    "update": lambda tx, added: tx.update(added, importance=0.1),
    "publish": lambda tx, added: tx.update(added, visibility="shared"),
    "take over": lambda tx, added: tx.update(added, author="bob"),
    "resolve": lambda tx, added: tx.resolve(added, "done"),
    "pin": lambda tx, added: tx.pin(added),
    "delete": lambda tx, added: tx.delete(added),
    "relate": lambda tx, added: tx.relate(added, tx.add_decision("other")),
    "unrelate": lambda tx, added: tx.unrelate(added, tx.add_decision("other")),
    "relate to": lambda tx, added: tx.relate(tx.add_decision("other"), added),
}


def _outcome(session: Any, work: Callable[[Any], Any]) -> tuple[str, list[Any]]:
    """What bob's work leaves: the error, and his memories without ids."""
    error = ""
    try:
        with session.agent("bob").transaction() as tx:
            work(tx)
    except SMPError as caught:
        error = caught.code
    left = [each for each in session.agent("bob").records(include_deleted=True) if each.author == "bob"]
    return error, [(each.type, each.text, each.importance, each.pinned, each.visibility, each.deleted) for each in left]


@pytest.mark.parametrize("what", AFTER_ADD)
@pytest.mark.parametrize("kind", ["decision", "finding", "learning", "preference", "agent_state"])
def test_key_of_hidden_memory_is_free_for_others(session: Any, kind: str, what: str) -> None:
    hidden = hidden_of(session, kind)
    before = session.history(hidden.id)
    work: Callable[[Any], Any] = lambda tx: AFTER_ADD[what](tx, tx.add_decision("x", idempotency_key=KEY))  # noqa: E731
    expected = _outcome(session.memory.create_session("empty"), work)
    assert _outcome(session, work) == expected
    assert session.history(hidden.id) == before


def test_repeated_key_returns_the_first_memory_of_each_agent(session: Any) -> None:
    alice, bob = session.agent("alice"), session.agent("bob")
    hidden = hidden_of(session, "learning")
    own = bob.add_decision("x", idempotency_key=KEY)
    bob.add_many([("learning", {"learning": "first"}), ("decision", {"decision": "x", "idempotency_key": KEY})])
    assert bob.add_decision("x", idempotency_key=KEY).id == own.id
    assert alice.add("learning", {"learning": SECRET, "idempotency_key": KEY}).id == hidden.id
    assert [record.text for record in session.records()] == [SECRET, "x", "first"]


def test_agent_sets_a_preference_of_its_own_beside_a_hidden_one(session: Any) -> None:
    alice, bob = session.agent("alice"), session.agent("bob")
    hidden = session.add_preference("style", SECRET, author="alice", visibility="private")
    own = bob.add_preference("style", "short")
    assert own.id != hidden.id
    assert bob.add_preference("style", "terse").id == own.id
    assert [(each.id, each.value) for each in bob.records("preference")] == [(own.id, "terse")]
    assert session.get(hidden.id).value == SECRET
    assert alice.add_preference("style", "long").id == hidden.id
    assert session.get(own.id).value == "terse"
    assert session.validate().problems == []


def test_preference_can_get_the_key_of_a_hidden_one(session: Any) -> None:
    hidden = session.add_preference("style", SECRET, author="alice", visibility="private")
    bob = session.agent("bob")
    own = bob.add_preference("tone", "short")
    assert bob.update(own.id, key="style").key == "style"
    assert bob.add_preference("style", "terse").id == own.id
    assert session.get(hidden.id).value == SECRET


def test_key_of_hidden_compacted_memory_is_free_for_others() -> None:
    clock = FrozenClock()
    session = smp_memory.open(":memory:", clock=clock).create_session("room")
    hidden = session.add_finding(SECRET, author="alice", visibility="private", idempotency_key=KEY)
    session.resolve(hidden.id, "done")
    clock.advance(90 * 86_400)
    assert session.compact(1 << 30).removed
    with session.agent("bob").transaction() as tx:
        added = tx.add_learning("x", idempotency_key=KEY)
    assert added.record.text == "x"


def test_key_of_shared_memory_does_not_make_another_agent_its_author(session: Any) -> None:
    shared = session.agent("alice").add_finding("shared", severity="low", idempotency_key=KEY)
    before = everything(session)
    with pytest.raises(NotAllowed), session.agent("bob").transaction() as tx:
        tx.update(tx.add_finding("x", idempotency_key=KEY), visibility="private")
    assert everything(session) == before
    with session.agent("bob").transaction() as tx:  # what a change by id may do, a change by key may do
        tx.update(tx.add_finding("x", idempotency_key=KEY), severity="high")
    assert session.get(shared.id).severity == "high"


@pytest.mark.parametrize("what", ["update", "pin", "delete"])
def test_key_of_shared_state_does_not_let_another_agent_change_it(session: Any, what: str) -> None:
    session.agent("alice").update_state({"task": 1}, visibility="shared", idempotency_key=KEY)
    before = everything(session)
    with pytest.raises(NotAllowed), session.agent("bob").transaction() as tx:
        AFTER_ADD[what](tx, tx.add_decision("x", idempotency_key=KEY))
    assert everything(session) == before


def test_own_memory_can_be_changed_by_key_in_transaction(session: Any) -> None:
    bob = session.agent("bob")
    bob.add_decision("first", visibility="private", idempotency_key=KEY)
    with bob.transaction() as tx:
        added = tx.add_decision("again", idempotency_key=KEY)
        tx.update(added, visibility="shared", topic="plans")
    assert session.get("DEC-0001").topic == "plans"
    assert [record.id for record in session.records()] == ["DEC-0001"]


def test_workflow_guard_checks_the_memory_of_an_idempotency_key(session: Any) -> None:
    from smp_memory.agents.agent_memory import AgentMemory

    def guard(kind: str, name: str) -> None:
        if kind != "finding":
            raise NotAllowed(f"{kind} is not declared.")

    session.add_decision("shared", author="alice", idempotency_key=KEY)
    before = everything(session)
    guarded = AgentMemory(session, "bob", guard)
    with pytest.raises(NotAllowed), guarded.transaction() as tx:
        tx.update(tx.add_finding("x", idempotency_key=KEY), topic="changed")
    with pytest.raises(NotAllowed), guarded.transaction() as tx:
        tx.delete(tx.add_finding("x", idempotency_key=KEY))
    assert everything(session) == before


def test_memory_hidden_after_the_check_is_not_changed(session: Any) -> None:
    shared = session.agent("alice").add_decision("shared")
    tx = session.agent("bob").transaction()
    tx.update(shared.id, topic="changed")
    session.agent("alice").update(shared.id, visibility="private")
    with pytest.raises(MemoryNotFound):
        tx.commit()
    assert session.get(shared.id).topic is None


# -- relations and references

FIELDS = {
    "relations": lambda id: {"relations": [{"kind": "supersedes", "target": id}]},
    "own session": lambda id: {"relations": [{"kind": "supersedes", "target": f"room/{id}"}]},
    "references": lambda id: {"references": [id]},
}


@pytest.mark.parametrize("field", FIELDS)
def test_relation_to_hidden_memory_is_refused_like_relate(session: Any, field: str) -> None:
    hidden = session.agent("alice").add_decision(SECRET, visibility="private")
    bob = session.agent("bob")
    own = bob.add_decision("own")
    before = everything(session)
    given = FIELDS[field](hidden.id)
    with pytest.raises(MemoryNotFound) as related:
        bob.relate(own.id, hidden.id, "supersedes")
    for write in (
        lambda: bob.add_decision("x", **given),
        lambda: bob.add_many([("decision", {"decision": "x", **given})]),
        lambda: bob.update(own.id, **given),
    ):
        with pytest.raises(MemoryNotFound) as refused:
            write()
        assert refused.value.message == related.value.message
    with pytest.raises(MemoryNotFound), bob.transaction() as tx:
        tx.update(tx.add_decision("y"), **given)
    assert everything(session) == before
    session.agent("alice").add_decision("new", **given)  # its owner may


@pytest.mark.parametrize("author", ["bob", None])
def test_private_decision_stays_in_context_when_superseded_by_an_author_who_cannot_see_it(
    session: Any, author: str | None
) -> None:
    alice = session.agent("alice")
    hidden = alice.add_decision("The pond gets a roof", visibility="private")
    shared = alice.add_decision("The pond gets a fence")
    relations = [{"kind": "supersedes", "target": each.id} for each in (hidden, shared)]
    session.add_decision("Nothing is built", author=author, relations=relations)  # as an earlier version stored it
    context = str(alice.context("roof or fence of the pond"))
    assert "gets a roof" in context
    assert "gets a fence" not in context
    alice.add_decision("No roof then", relations=relations[:1])
    assert "gets a roof" not in str(alice.context("roof of the pond"))


def test_agent_cannot_remove_a_relation_to_a_memory_that_it_does_not_see(session: Any) -> None:
    session.add_decision("Shared", author="ada")
    hidden = session.add_finding("Secret", author="ada", visibility="private").id
    session.relate("DEC-0001", hidden, "resolves")
    before = everything(session)
    with pytest.raises((MemoryNotFound, NotAllowed)):
        session.agent("bob").unrelate("DEC-0001", hidden, "resolves")
    assert everything(session) == before
    assert session.agent("ada").unrelate("DEC-0001", hidden, "resolves").relations == []
