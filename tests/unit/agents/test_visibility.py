"""Visibility for every read method and every type of memory. A new read method must be added to the table here."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import smp_memory
from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.errors import MemoryNotFound, NotAllowed, SMPError
from smp_memory.model.candidates import GUARDED, CandidateRequest
from smp_memory.model.types import KINDS
from smp_memory.privacy import fence
from smp_memory.privacy.visibility import Viewer
from smp_memory.testing import FrozenClock

SECRET = "zebrafish"  # stands in every memory that the other agent may not see
OPEN = "giraffe"  # stands in every memory that all may see


def text_of(kind: str, word: str) -> dict[str, Any]:
    """Fields of a memory of this kind that holds a word."""
    said = f"the {word} of {kind}"
    return {
        "conversation": {"role": "user", "content": said},
        "decision": {"decision": said, "topic": word, "tags": [word]},
        "finding": {"finding": said, "severity": "high", "topic": word, "tags": [word]},
        "preference": {"key": f"{word}-key", "value": said},
        "agent_state": {"agent": "owner", "state": {"note": said}},
        "artifact": {"name": f"{word}.md", "content": said},
        "learning": {"learning": said, "topic": word},
        "summary": {"summary": said},
    }[kind]


class Case:
    """A session with one hidden and one open memory of a kind, and the agents who look at it."""

    def __init__(self, kind: str) -> None:
        self.clock = FrozenClock()
        self.memory = smp_memory.open(":memory:", clock=self.clock, config={"track_access": False})
        self.session = self.memory.create_session("s1", user="ada")
        self.anchor = self.session.add_decision("the anchor", author="owner")
        hidden = text_of(kind, SECRET)
        if kind != "agent_state":
            hidden["visibility"] = "private"
        self.hidden = self.session.add(kind, hidden, author="owner")
        if kind == "agent_state":
            seen = {"agent": "other", "state": {"note": f"the {OPEN}"}, "visibility": "shared"}
            self.open = self.session.add(kind, seen, author="other")
        else:
            self.open = self.session.add(kind, text_of(kind, OPEN), author="owner")
        self.session.relate(self.anchor.id, self.hidden.id, "led_to")
        self.session.relate(self.hidden.id, self.open.id, "led_to")
        self.owner = self.session.agent("owner")
        self.other = self.session.agent("other")


# How each public name of AgentMemory is tried: what it shows, as text.
def shown(value: Any) -> str:
    if isinstance(value, smp_memory.Record):
        return repr(value.to_dict())
    if isinstance(value, smp_memory.Context):  # without the question that it answers
        return repr([item.to_dict() for item in value.items]) + value.text
    if hasattr(value, "to_dict"):
        return repr(value.to_dict()) + str(value)
    if isinstance(value, dict):
        return repr({key: shown(item) for key, item in value.items()})
    if hasattr(value, "record"):
        return shown(value.record)
    if isinstance(value, (list, tuple)) or (hasattr(value, "__iter__") and not isinstance(value, str)):
        return " ".join(map(shown, value))
    return str(value)


def watched(agent: AgentMemory, case: Case, kind: str) -> str:
    """What a watcher is told while a hidden and an open memory are written."""
    watcher = agent.watch(timeout=60, pause=0.01, types=[kind, "learning"])
    seen: list[str] = []

    def look() -> None:
        for hit in watcher:
            seen.append(shown(hit))
            if "the last one" in seen[-1]:
                return

    thread = threading.Thread(target=look)
    thread.start()
    if kind != "agent_state":
        case.session.add(kind, {**text_of(kind, f"{SECRET} new"), "tags": [], "visibility": "private"}, author="owner")
    case.session.add_learning("the last one", author="owner")
    thread.join()
    return " ".join(seen)


READS: dict[str, Callable[[AgentMemory, Case, str], Any]] = {
    "find": lambda agent, case, kind: agent.find(case.hidden.id),
    "get": lambda agent, case, kind: agent.get(case.hidden.id),
    "records": lambda agent, case, kind: [
        agent.records(),
        agent.records(kind),
        agent.records(kind, last=1),
        agent.records(include_deleted=True),
        list(agent),
    ],
    "history": lambda agent, case, kind: agent.history(case.hidden.id),
    "as_of": lambda agent, case, kind: [
        agent.as_of(case.memory.now()).records(),
        list(agent.as_of("2100-01-01").records(include_deleted=True)),
    ],
    "deleted": lambda agent, case, kind: agent.deleted(),
    "duplicates": lambda agent, case, kind: agent.duplicates(threshold=0.1),
    "export": lambda agent, case, kind: [agent.export(format=name) for name in ("json", "jsonl", "yaml", "markdown")],
    "query": lambda agent, case, kind: [
        agent.query(),
        agent.query(SECRET),
        agent.query(f"the {SECRET} of {kind} that was written"),
        agent.query(types=kind, include_related=True, depth=3),
        agent.query(sessions="all", sort="oldest"),
        agent.query(sort="priority"),
        agent.query(SECRET, include_archived=True, include_deleted=True),
        agent.query(related_to=case.anchor.id, depth=5),
        agent.query(references=case.hidden.id),
        agent.query({"text": SECRET, "mode": "weighted"}),
        agent.query(tags=SECRET),
        agent.query(topic=SECRET),
        agent.query(where={"author": "owner"}),
        agent.query(where={"visibility": "private"}),
        agent.query(agents="owner", sort="importance", limit=1),
    ],
    "by_topic": lambda agent, case, kind: agent.by_topic(SECRET),
    "by_agent": lambda agent, case, kind: agent.by_agent("owner"),
    "by_type": lambda agent, case, kind: agent.by_type(kind),
    "by_time_range": lambda agent, case, kind: agent.by_time_range("2000-01-01", "2100-01-01"),
    "priority": lambda agent, case, kind: agent.priority(case.hidden.id),
    "find_similar": lambda agent, case, kind: [
        agent.find_similar(case.hidden.id),
        agent.find_similar(f"the {SECRET} of {kind}"),
        agent.find_similar(case.anchor.id),
    ],
    "find_related": lambda agent, case, kind: [
        agent.find_related(case.anchor.id, depth=5),
        agent.find_related(case.open.id, depth=5),
    ],
    "topics": lambda agent, case, kind: agent.topics(),
    "timeline": lambda agent, case, kind: agent.timeline(),
    "agents": lambda agent, case, kind: agent.agents(),
    "summarize": lambda agent, case, kind: agent.summarize(),
    "context": lambda agent, case, kind: [
        agent.context(),
        agent.context(f"the {SECRET} of {kind}", max_tokens=9000),
        agent.context(topic=SECRET),
    ],
    "conversation_context": lambda agent, case, kind: agent.conversation_context(),
    "relevant_decisions": lambda agent, case, kind: agent.relevant_decisions(SECRET),
    "relevant_findings": lambda agent, case, kind: agent.relevant_findings(SECRET),
    "user_preferences": lambda agent, case, kind: [agent.user_preferences(), agent.user_preferences(SECRET)],
    "state": lambda agent, case, kind: agent.state,
    "working_memory": lambda agent, case, kind: agent.working_memory(),
    "watch": watched,
    "info": lambda agent, case, kind: agent.info.to_dict(),
}
WRITES = {
    "add", "add_turn", "add_decision", "add_finding", "add_preference", "add_artifact", "add_learning", "add_many",
    "update_agent_state", "update_state", "update", "resolve", "relate", "unrelate", "pin", "unpin", "mute", "unmute", "delete", "restore",
    "transaction",
}  # fmt: skip
NAMES = {"agent", "id"}  # who it is and of which session
NOT_FOR_AGENTS = {
    # of a session as a whole, which only a person or a program that looks after it needs
    "anonymised", "anonymised_record", "archived", "change_info", "compact", "conflicts", "config", "erase", "folder", "memory",
    "merge", "next_step", "party", "purge", "redact", "repair", "restore_archived", "proposals", "keep_proposal", "drop_proposals", "reopen_proposal", "set_config", "size_report", "session_state",
    "missing", "opened", "scope",
    "state", "stats", "tidy", "validate", "written",
    "get_context",  # the name of a design for what agents have as `query(sort="priority")`
}  # fmt: skip
EVERY = [(name, kind) for name in READS for kind in KINDS]


def public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_every_way_to_read_is_in_the_table() -> None:
    known = set(READS) | WRITES | NAMES
    attributes = public(AgentMemory) | {"agent", "id"}
    assert attributes - known == set(), "a new method of AgentMemory: enter it into READS or WRITES"
    assert known - attributes == set()


def test_every_method_of_a_session_is_classified() -> None:
    """A new method of a session is either offered to agents, and then in the table, or not for them."""
    unknown = public(smp_memory.SessionMemory) - public(AgentMemory) - NOT_FOR_AGENTS
    assert unknown == {"agent"}  # an agent does not become another


@cache
def case_of(kind: str) -> Case:
    """To look at, not to be changed."""
    return Case(kind)


@cache
def case_without(kind: str) -> Case:
    """The same, in which nothing is hidden any more."""
    case = Case(kind)
    case.session.erase(case.hidden.id)
    return case


@pytest.mark.parametrize("kind", list(KINDS))
def test_private_memory_is_invisible_to_another_agent(kind: str) -> None:
    for name in [name for name, each in EVERY if each == kind]:
        case = Case(kind) if name == "watch" else case_of(kind)
        try:
            found = shown(READS[name](case.other, case, kind))
        except SMPError as error:
            found = str(error) + repr(error.details)
        assert SECRET not in found, name


@pytest.mark.parametrize("kind", list(KINDS))
def test_errors_do_not_reveal_a_private_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hidden and what does not exist look the same: answers and errors, but for the id that was asked for."""
    case, empty = case_of(kind), case_without(kind)
    monkeypatch.setattr(fence, "new_nonce", lambda: "1f2e3d4c")

    def tried(name: str, case: Case) -> str:
        try:
            return "found " + shown(READS[name](case.other, case, kind))
        except SMPError as error:
            return f"{type(error).__name__} {error}"

    for name in [name for name, each in EVERY if each == kind]:
        if name not in ("watch", "export"):  # its own memories; numbers that were given out
            assert _without_times(tried(name, case)) == _without_times(tried(name, empty)), name


def _without_times(text: str) -> str:
    """Figures rest on how rare words are in all memories; nothing else differs."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?", "TIME", text)
    return re.sub(r"'why': '[^']*'", "WHY", re.sub(r"[01]\.\d+", "NUMBER", text))


@pytest.mark.parametrize("kind", list(KINDS))
def test_private_memory_is_visible_to_its_owner(kind: str) -> None:
    case = Case(kind)
    for name in ("find", "get", "records", "history", "as_of", "query", "export", "find_related"):
        assert SECRET in shown(READS[name](case.owner, case, kind)), name
    assert case.hidden.id in [record.id for record in case.owner.working_memory()]


@pytest.mark.parametrize("kind", list(KINDS))
def test_shared_memory_is_visible_to_all(kind: str) -> None:
    case = Case(kind)
    for agent in (case.owner, case.other):
        assert OPEN in shown(agent.records(kind))
        assert OPEN in shown(agent.query(types=kind))
        assert agent.get(case.open.id).id == case.open.id


@pytest.mark.parametrize("by", ["type", "tag", "agent", "day", "session", "topic"])
@pytest.mark.parametrize("text", [None, "the"])
def test_counts_include_only_visible_memories(by: str, text: str | None) -> None:
    case = Case("finding")
    hits = case.other.query(text, count_by=by)
    seen = [record for record in case.session.records() if Viewer("other").sees(record)]
    if by in ("type", "agent", "day", "session"):
        assert sum(hits.counts[by].values()) == len(seen)
    assert SECRET not in hits.counts[by]
    assert SECRET in case.owner.query(text, count_by="tag").counts["tag"]


def test_pages_are_full_although_some_memories_are_hidden() -> None:
    memory = smp_memory.open(":memory:")
    session = memory.create_session("s1")
    for number in range(120):
        private = {"visibility": "private"} if number % 3 else {}
        session.add_learning(f"lesson {number} about tests", author="owner", **private)
    other = session.agent("other")
    first, second = (other.query("lesson about tests", limit=20, offset=offset).ids for offset in (0, 20))
    assert len(first) == len(second) == 20
    assert not set(first) & set(second)
    assert len(other.query("lesson about tests", limit=100)) == 40
    assert len(other.records("learning", last=15)) == 15
    assert len(other.query(types="learning", limit=15)) == 15


def test_private_memory_is_invisible_through_another_session() -> None:
    case = Case("learning")
    stranger = case.memory.create_session("s2").agent("other")
    for found in (
        stranger.query(SECRET, sessions="all"),
        stranger.query(sessions=["s1"]),
        stranger.find_related(case.anchor.ref, depth=5),
        stranger.find_similar(case.hidden.ref),
        stranger.context(SECRET),
        stranger.relevant_decisions(SECRET),
    ):
        assert SECRET not in shown(found)
    with pytest.raises(MemoryNotFound):
        stranger.priority(case.hidden.ref)


def test_memory_made_private_is_invisible_in_the_past_too() -> None:
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock)
    session = memory.create_session("s1")
    owner, other = session.agent("owner"), session.agent("other")
    learning = owner.add_learning("once for all")
    then = memory.now()
    clock.advance(60)
    owner.update(learning.id, visibility="private")
    assert other.as_of(then).records() == []
    assert owner.as_of(then).records() != []
    with pytest.raises(MemoryNotFound):
        other.history(learning.id)
    owner.update(learning.id, visibility=None)
    assert [step.get("left_out") for step in other.history(learning.id)] == [None, "revision 2 was private", None]


def test_compacted_private_memories_stay_private() -> None:
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock)
    session = memory.create_session("s1")
    session.resolve(session.add_finding(f"the {SECRET}", author="owner", visibility="private").id, "done")
    session.resolve(session.add_finding(f"the {OPEN}", author="owner").id, "done")
    clock.advance(90 * 86_400)
    assert session.compact(1 << 30).removed
    owner, other = session.agent("owner"), session.agent("other")
    assert SECRET in shown(owner.query(f"{SECRET} {OPEN}", include_archived=True))
    found = shown(other.query(f"{SECRET} {OPEN}", include_archived=True, count_by="type"))
    assert OPEN in found
    assert SECRET not in found
    assert SECRET not in other.export(format="json")
    with pytest.raises(MemoryNotFound) as hidden:
        other.get("FIND-0001")
    assert "compacted" not in str(hidden.value)


def test_summary_of_an_archived_session_is_not_visible_to_agents() -> None:
    """It sums up private memories, too."""
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("s1")
    session.add_decision(f"the {SECRET}", author="owner", visibility="private")
    memory.archive_session("s1")
    other = memory.create_session("s2").agent("other")
    assert other.query(SECRET, sessions="all", include_archived=True) == []


@pytest.mark.parametrize("word", ["Private", "privat", "secret", 7, ["owner"], {}])
def test_unknown_visibility_counts_as_private(word: Any) -> None:
    memory = smp_memory.open(":memory:")
    session = memory.create_session("s1")
    record = session.add_learning("hush", author="owner", visibility=word)
    assert not Viewer("other").sees(record)
    assert not Viewer(None).sees(record)
    assert Viewer("owner").sees(record)


def test_private_memory_without_an_author_is_visible_to_no_agent() -> None:
    session = smp_memory.open(":memory:").create_session("s1")
    record = session.add_learning("hush", visibility="private")
    assert not Viewer(None).sees(record)
    assert not Viewer("other").sees(record)


# -- writing


@pytest.mark.parametrize(
    "write",
    [
        lambda agent, id: agent.update(id, note="mine"),
        lambda agent, id: agent.pin(id),
        lambda agent, id: agent.delete(id),
        lambda agent, id: agent.restore(id),
        lambda agent, id: agent.relate(id, "DEC-0001"),
        lambda agent, id: agent.relate("DEC-0001", id),
        lambda agent, id: agent.relate("DEC-0001", f"s1/{id}"),
        lambda agent, id: agent.resolve(id, "done"),
    ],
)
def test_invisible_memory_cannot_be_changed(write: Callable[[AgentMemory, str], Any]) -> None:
    case = Case("finding")
    with pytest.raises(MemoryNotFound) as hidden:
        write(case.other, case.hidden.id)
    with pytest.raises(MemoryNotFound) as missing:
        write(case.other, "FIND-9999")
    assert str(hidden.value) == str(missing.value).replace("FIND-9999", case.hidden.id)
    assert case.session.get(case.hidden.id).revision == 2
    with pytest.raises(MemoryNotFound), case.other.transaction() as tx:
        write(tx, case.hidden.id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "write",
    [
        lambda agent: agent.add_decision("x", author="owner"),
        lambda agent: agent.add_decision("x", made_by="owner"),
        lambda agent: agent.update_agent_state("owner", {}),
        lambda agent: agent.add("agent_state", {"agent": "owner", "state": {}, "author": "other"}),
        lambda agent: agent.update("DEC-0001", by="owner", note="x"),
        lambda agent: agent.update("DEC-0001", author="other"),
        lambda agent: agent.update("DEC-0001", made_by="other"),
        lambda agent: agent.update("DEC-0001", visibility="private"),
        lambda agent: agent.delete("DEC-0001", by="owner"),
        lambda agent: agent.update("STATE-owner", state={"note": "mine"}),
        lambda agent: agent.delete("STATE-owner"),
        lambda agent: agent.pin("STATE-owner"),
        lambda agent: agent.relate("STATE-owner", "DEC-0001"),
        lambda agent: agent.add_many([("decision", {"decision": "x", "author": "owner"})]),
    ],
)
def test_an_agent_writes_in_its_own_name(write: Callable[[AgentMemory], Any]) -> None:
    case = Case("finding")
    case.session.update_agent_state("owner", {"note": "for all to see"}, visibility="shared")
    before = [record.to_dict() for record in case.session.records()]
    with pytest.raises(NotAllowed):
        write(case.other)
    with pytest.raises(NotAllowed), case.other.transaction() as tx:
        if write.__code__.co_names[0] == "add_many":
            raise NotAllowed("a transaction has no add_many")
        write(tx)  # type: ignore[arg-type]
    assert [record.to_dict() for record in case.session.records()] == before


def test_every_write_is_attributed() -> None:
    session = smp_memory.open(":memory:").create_session("s1", user="ada")
    agent = session.agent("bob")
    for record in (
        agent.add_decision("d"),
        agent.add_finding("f"),
        agent.add_learning("l"),
        agent.add_artifact("a.md", "a"),
        agent.add_preference("k", "v"),
        agent.update_state({"x": 1}),
        agent.add_turn("assistant", "t"),
        agent.add_turn("bob", "t"),
        *agent.add_many([("finding", "g")]),
    ):
        assert record.author == "bob"
    assert agent.add_turn("user", "hello").author == "ada"
    agent.update("DEC-0001", note="x")
    assert session.get("DEC-0001").updated_by == "bob"
    agent.delete("FIND-0001")
    assert session.deleted()[0].by == "bob"
    with agent.transaction() as tx:
        decision = tx.add_decision("in a transaction")
        tx.relate(decision, "DEC-0001", "influenced")
    assert session.get(decision.id).author == "bob"
    with pytest.raises(ZeroDivisionError), agent.transaction() as tx:
        tx.add_decision("never")
        raise ZeroDivisionError
    assert len(session.records("decision")) == 2


def test_idempotency_key_does_not_reveal_a_memory() -> None:
    case = Case("learning")
    case.owner.add_learning(f"the {SECRET} again", visibility="private", idempotency_key="k")
    assert case.other.add_learning("mine", idempotency_key="k").text == "mine"


def test_a_private_preference_is_neither_seen_nor_overwritten() -> None:
    session = smp_memory.open(":memory:").create_session("s1")
    session.add_preference("style", SECRET, author="owner", visibility="private")
    assert session.agent("other").add_preference("style", "mine").value == "mine"
    assert [record.value for record in session.records("preference")] == [SECRET, "mine"]


@pytest.mark.parametrize("kind", ["conversation", "preference", "summary"])
def test_some_types_are_never_private(kind: str) -> None:
    session = smp_memory.open(":memory:").create_session("s1")
    with pytest.raises(SMPError, match="visibility"):
        session.agent("owner").add(kind, {**text_of(kind, "x"), "role": "assistant", "visibility": "private"})


def test_table_of_read_methods_matches_the_classes() -> None:
    """Every entry of the table takes the same arguments, so that none is left out by mistake."""
    for name, read in READS.items():
        assert list(inspect.signature(read).parameters) == ["agent", "case", "kind"], name


def test_page_is_full_although_some_of_the_best_hits_are_hidden() -> None:
    """What is hidden is known late for turns that come along with others; then the next ones take their places."""
    memory = smp_memory.open(":memory:", clock=FrozenClock(), config={"track_access": False})
    session = memory.create_session("s1")
    seen = []
    for number in range(40):
        best = f"the {OPEN} jumps over the fence, number {number}"
        other = f"number {number} is a {OPEN} " + " ".join(f"word{number}{place}" for place in range(40))
        seen.append(session.add_turn("user", best if number < 15 else other, author="owner"))
        session.add_turn("user", f"yes, the {SECRET} does " * 4, author="owner", visibility="private")
    whole = session.agent("owner").query(f"{OPEN} jumps fence", limit=80)
    assert {hit.record.given.get("visibility") for hit in whole} == {None, "private"}
    hits = session.agent("other").query(f"{OPEN} jumps fence", limit=30)
    assert (len(hits), hits.more) == (30, True)
    assert {hit.id for hit in hits} <= {record.id for record in seen}
    longer = session.agent("other").query(f"{OPEN} jumps fence", limit=80)
    assert (longer.ids[:30], len(longer), longer.more) == (hits.ids, 40, False)


def test_index_marks_memories_with_a_visibility() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("s1")
    plain = session.add_decision("for all", author="owner")
    marked = [
        session.add_decision("for one", author="owner", visibility="private"),
        session.add_decision("for all, as it says", author="owner", visibility="shared"),
        session.update_agent_state("owner", {"task": "x"}),
    ]
    later = session.add_decision("not any more", author="owner")
    marked.append(session.update(later.id, visibility="private"))
    traits = {each.id: each.traits for each in memory.store.indexer.candidates(CandidateRequest()).matches}
    assert {id for id, number in traits.items() if number & GUARDED} == {record.id for record in marked}
    assert plain.id in traits
