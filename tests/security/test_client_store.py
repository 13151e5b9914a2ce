"""A client of a shared server sees and changes the sessions of its token, and nothing tells of the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory import AgentMemory, Memory
from smp_memory.clients.client_store import ClientStore
from smp_memory.errors import NotAllowed, NotSupported, SessionArchived, SessionExists, SessionNotFound, SMPError
from smp_memory.memory import seen_through
from smp_memory.model.candidates import CandidateRequest
from smp_memory.privacy.client_tokens import ClientToken, digest_of
from smp_memory.store.opening import register_backend
from smp_memory.testing import FrozenClock
from tests.backends.naive_store import NAME, open_naive

SECRET = "zanzibar"  # a word of the other project alone
STARTED = datetime(2026, 1, 31, tzinfo=UTC)


def token(*projects: str, sessions: tuple[str, ...] = (), write: bool = False, erase: bool = False) -> ClientToken:
    return ClientToken("t-1", "ci", digest_of("x"), projects=projects, sessions=sessions, may_write=write, may_erase=erase)  # fmt: skip


def limited(memory: Memory, *projects: str, **options: Any) -> Memory:
    return seen_through(memory, ClientStore(memory.store, token(*projects, **options)))


def fill(memory: Memory, clock: FrozenClock, *, with_other: bool) -> None:
    """Two sessions of the project shop; if asked for, others around them that mention SECRET."""

    def other(name: str, **more: Any) -> None:
        if with_other:
            session = memory.create_session(name, project="bank", user="eve", agents=[f"{SECRET}-agent"], tags=[SECRET])
            session.add_turn("user", f"Use the {SECRET} queue for login, always", author=f"{SECRET}-ann")
            session.add_decision(
                f"Login of {SECRET}", tags=[SECRET, "auth"], topic=SECRET, author=f"{SECRET}-bob", **more
            )
            session.add_finding(f"The {SECRET} token leaks", severity="critical", tags=["auth"])
            session.add_preference(f"{SECRET}-style", f"{SECRET} style")
            session.add_decision(f"{SECRET} database", rationale=f"{SECRET} reason", topic="Plan")

    other("a-bank")
    for name in ("shop-1", "shop-2"):
        session = memory.create_session(name, project="shop", user="ada")
        for word in ("login", "payment", "queue"):
            clock.advance(60)
            session.add_turn("user", f"What about the {word}?", author="ada")
            session.add_turn("assistant", f"We keep the {word} small.")
            session.add_decision(f"Use one {word}", tags=["auth"], topic="Plan", author="bob")
        session.add_finding("The login token leaks", severity="critical", references=["DEC-0001"])
        session.add_decision("Use two queues", supersedes="DEC-0003", author="ada")
        if with_other and name == "shop-1":
            other("m-bank", supersedes="shop-1/DEC-0001", references=["shop-1/DEC-0002"])
            other("archived-bank")
            memory.archive_session("archived-bank", f"{SECRET} reason")
            other("deleted-bank")
            memory.delete_session("deleted-bank", f"{SECRET} reason")
            memory.session("m-bank").delete("FIND-0001", f"{SECRET} reason")
            if "global" in memory.root:
                memory.global_memory.set_preference("x", SECRET)
    other("z-bank", relations=[{"kind": "resolves", "target": "shop-2/DEC-0001"}])


def opened(where: str, *, with_other: bool) -> Memory:
    clock = FrozenClock()
    config = {"search.semantic": "off", "track_access": False}
    memory = smp_memory.open(where, clock=clock, config=config)
    fill(memory, clock, with_other=with_other)
    return memory


@pytest.fixture(params=["jsonl", "markdown", "single", "log", "naive"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    clock, config = FrozenClock(), {"search.semantic": "off", "track_access": False}
    register_backend(NAME, open_naive)
    where = f"{NAME}://{tmp_path}/store" if request.param == NAME else str(tmp_path / "store")
    layout = None if request.param == NAME else request.param
    with smp_memory.open(where, layout=layout, clock=clock, config=config) as memory:
        fill(memory, clock, with_other=True)
        yield memory


def exported(memory: Memory) -> str:
    """Everything that is stored of the sessions; without the time of the export."""
    return memory.export(format="markdown")


READS: dict[str, Callable[[Memory], Any]] = {
    "query": lambda m: [(h.record.ref, h.superseded_by, h.explain) for h in m.query("login queue", limit=100)],
    "secret": lambda m: [h.record.ref for h in m.query(SECRET, limit=100)],
    "phrase": lambda m: m.query(f'"{SECRET} token"', count_by=["session", "tag"]).counts,
    "wildcard": lambda m: [h.record.ref for h in m.query("zan*", limit=100)],
    "mistyped": lambda m: (m.query("zanzibra").corrected, m.query("paymnet").corrected),
    "everything": lambda m: [(h.record.ref, h.record.to_dict()) for h in m.query(limit=1000, include_related=True)],
    "archived": lambda m: [h.record.ref for h in m.query("login", limit=100, include_archived=True)],
    "not searched": lambda m: m.query("login").archived_not_searched,
    "counts": lambda m: m.query("login", count_by=["type", "tag", "agent", "session", "topic", "day"]).counts,
    "related": lambda m: [(e.record.ref, e.kind) for e in m.find_related("shop-1/DEC-0001", depth=3)],
    "related to": lambda m: [h.record.ref for h in m.query(related_to="shop-2/DEC-0001", limit=50)],
    "similar": lambda m: [h.record.ref for h in m.find_similar("shop-1/DEC-0001", limit=100)],
    "context": lambda m: m.context("bob", task="login and queue", max_tokens=20_000).ids,
    "digest": lambda m: m.context(max_tokens=20_000).ids,
    "preview": lambda m: [item.to_dict() for item in m.preview(task="login").included],
    "left out": lambda m: m.preview(task="login").left_out_count,
    "explanation": lambda m: m.explain("shop-1/DEC-0001", "login").reasons,
    "usage": lambda m: m.analytics().usage.to_dict(),
    "impact": lambda m: m.analytics().impact.to_dict(),
    "trends": lambda m: m.analytics().topics.to_dict(),
    "forecast": lambda m: m.analytics().forecast.to_dict(),
    "topics": lambda m: [each.name for each in m.topics()],
    "timeline": lambda m: [each.id for each in m.timeline()],
    "agents": lambda m: [each.name for each in m.agents()],
    "sessions": lambda m: [each.id for each in m.sessions()],
    "by time": lambda m: [each.id for _, each in m.sessions_by_time()],
    "latest": lambda m: m.latest_session().id,  # type: ignore[union-attr]
    "states": lambda m: [each.session for each in m.session_states(include_archived=True)],
    "archives": lambda m: [each.session for each in m.archived_sessions()],
    "deleted sessions": lambda m: [each.session for each in m.deleted_sessions()],
    "trash": lambda m: [each.record.ref for each in m.deleted()],
    "proposals": lambda m: [each.text for each in m.proposals()],
    "export": lambda m: m.export(format="json"),
    "validate": lambda m: list(m.validate()),
    "redact": lambda m: [each.session for each in m.redact(preview=True)],
    "agent": lambda m: [h.record.ref for h in AgentMemory(m.session("shop-1"), "eve").query("login", limit=90)],
    "vocabulary": lambda m: list(m.store.indexer.vocabulary([SECRET, "login", "queue"]).frequencies.values()),
    "records": lambda m: list(m.store.indexer.records(["m-bank/DEC-0001", "shop-1/DEC-0001", "z-bank/FIND-0001"])),
    "activity": lambda m: sorted(m.store.indexer.activity()),
    "metadata": lambda m: sorted(m.store.indexer.saved_metadata()) in ([], ["shop-1", "shop-2"]),
    "facets": lambda m: m.store.indexer.facets(CandidateRequest(), ["type", "agent", "tag"]).counts,
    "doctor": lambda m: json.dumps(m.doctor(quick=True).to_dict(), default=str),
    "audit": lambda m: m.store.audit.entries(),
    "uses": lambda m: sorted(m.store.session_uses.last_uses()),
}  # fmt: skip
_SAME_SCORES = ("usage", "export", "everything", "uses", "audit", "doctor")  # ids and times of both stores differ there


@pytest.mark.parametrize("name", READS)
def test_answer_is_that_of_a_store_without_the_other_sessions(name: str) -> None:
    with opened(":memory:", with_other=True) as both, opened(":memory:", with_other=False) as alone:
        answer = READS[name](limited(both, "Shop"))
        assert SECRET not in repr(answer)
        assert "bank" not in repr(answer)
        if name not in _SAME_SCORES:
            assert _rounded(answer) == _rounded(READS[name](alone))


def _rounded(value: Any) -> Any:
    """Scores differ a little: the mean length of a memory is that of the whole index."""
    if isinstance(value, float):
        return pytest.approx(value, rel=0.2, abs=0.05)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def test_nothing_of_other_sessions_is_read_on_any_backend(memory: Memory) -> None:
    for client in (limited(memory, "shop"), limited(memory, sessions=("shop-1", "shop-2"))):
        for name, read in READS.items():
            answer = repr(read(client))
            assert SECRET not in answer, name
            assert "bank" not in answer, name
        assert [each.id for each in client.sessions()] == ["shop-1", "shop-2"]


OUTSIDE: tuple[Callable[[Memory, str], Any], ...] = (
    lambda m, name: m.session(name),
    lambda m, name: m.opened_session(name),
    lambda m, name: m.store.session(name),
    lambda m, name: m.store.session(name, "archived"),
    lambda m, name: m.query("login", sessions=name),
    lambda m, name: m.archive_session(name),
    lambda m, name: m.restore_session(name),
    lambda m, name: m.delete_session(name),
    lambda m, name: m.undelete_session(name),
    lambda m, name: m.purge_session(name),
    lambda m, name: m.erase(f"{name}/DEC-0001"),
    lambda m, name: m.delete(f"{name}/DEC-0001"),
    lambda m, name: m.restore(f"{name}/DEC-0001"),
    lambda m, name: m.context(session=name),
    lambda m, name: m.find_related(f"{name}/DEC-0001"),
    lambda m, name: m.find_similar(f"{name}/DEC-0001"),
    lambda m, name: m.query(related_to=f"{name}/DEC-0001"),
    lambda m, name: m.explain(f"{name}/DEC-0001", "login"),
    lambda m, name: m.decay_curve(f"{name}/DEC-0001"),
    lambda m, name: m.priority(f"{name}/DEC-0001"),
    lambda m, name: m.agent("bob", name),
    lambda m, name: m.store.indexer.activity([name]),
    lambda m, name: m.store.indexer.candidates(CandidateRequest(sessions=[name])),
    lambda m, name: m.store.indexer.facets(CandidateRequest(sessions=[name]), ["type"]),
)


@pytest.mark.parametrize("name", ["a-bank", "archived-bank", "deleted-bank"])
def test_session_outside_of_the_token_does_not_exist(memory: Memory, name: str) -> None:
    client = limited(memory, "shop", write=True, erase=True)
    for number, call in enumerate(OUTSIDE):
        outcomes = []
        for each in (name, "nowhere"):
            try:
                outcome = [hit.record.ref for hit in call(client, each)]
            except SMPError as error:
                outcome = [type(error).__name__, error.message.replace(each, "X")]
            outcomes.append(outcome)
        assert outcomes[0] == outcomes[1], number
    assert len(memory.store.sessions("live", "archived", "deleted")) == 7


def test_own_archived_and_deleted_sessions_are_seen(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    client.archive_session("shop-1")
    assert [each.session for each in client.archived_sessions()] == ["shop-1"]
    with pytest.raises(SessionArchived):
        client.opened_session("shop-1")
    assert client.session("shop-1").id == "shop-1"
    client.delete_session("shop-1", "no longer needed")
    assert [each.session for each in client.deleted_sessions()] == ["shop-1"]
    assert client.undelete_session("shop-1") == "active"
    assert [each.id for each in client.sessions()] == ["shop-1", "shop-2"]


def test_token_that_may_only_read_writes_nothing(memory: Memory) -> None:
    before = exported(memory)
    client = limited(memory, "shop")
    session = client.session("shop-1")
    calls: list[Callable[[], Any]] = [
        lambda: session.add_decision("Use none"),
        lambda: session.update("DEC-0001", decision="Changed"),
        lambda: session.delete("DEC-0001"),
        lambda: session.restore("DEC-0001"),
        lambda: session.pin("DEC-0001"),
        lambda: session.relate("DEC-0001", "DEC-0002"),
        session.compact,
        session.repair,
        lambda: client.create_session("new"),
        lambda: client.create_session("new", project="shop"),
        lambda: client.archive_session("shop-1"),
        lambda: client.delete_session("shop-1"),
        lambda: client.delete(["shop-1/DEC-0001"]),
        lambda: client.erase("shop-1/DEC-0001"),
        client.redact,
        lambda: client.set_config("track_access", False),
        client.reindex,
        lambda: client.global_memory.set_preference("x", "y"),
        lambda: client.store.tokens,
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except NotAllowed:
            continue
        except SMPError as error:  # nothing to do: nothing was written either
            assert "may not" in error.message or number in (6,), error
    assert exported(memory) == before


def test_only_a_token_that_may_erase_removes_for_good(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    client.session("shop-1").delete("DEC-0001")
    for call in (
        lambda: client.erase("shop-1/DEC-0001"),
        client.redact,
        lambda: (client.delete_session("shop-2"), client.purge_session("shop-2")),
    ):
        try:
            call()
        except NotAllowed as error:
            assert "--erase" in error.message
    assert [each.session for each in memory.deleted_sessions() if each.session == "shop-2"] == ["shop-2"]
    allowed = limited(memory, "shop", write=True, erase=True)
    assert allowed.erase("shop-1/DEC-0001").complete
    assert memory.session("shop-1").find("DEC-0001") is None


def test_receipt_does_not_tell_of_the_same_text_elsewhere() -> None:
    with opened(":memory:", with_other=True) as memory:
        client = limited(memory, "shop", write=True, erase=True)
        same = client.session("shop-1").add_finding(f"The {SECRET} token leaks")
        receipt = client.erase(f"shop-1/{same.id}")
        assert receipt.elsewhere == []
        assert "bank" not in repr(receipt.to_dict())
        assert receipt.complete
        assert memory.session("z-bank").find("FIND-0001") is not None


def test_new_session_belongs_to_the_project_of_the_token(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    assert client.create_session("mine").info.project == "shop"
    assert client.create_session("named", project="SHOP").info.project == "SHOP"
    assert {"mine", "named"} < {each.id for each in client.sessions()}
    for project in ("bank", "Bank ", "shop2"):
        with pytest.raises(NotAllowed, match="project"):
            client.create_session("other", project=project)
    with pytest.raises(NotAllowed, match="shop, park"):
        limited(memory, "shop", "park", write=True).create_session("which")
    with pytest.raises(SessionExists, match="taken"):
        client.create_session("a-bank")
    only = limited(memory, sessions=("one",), write=True)
    assert only.create_session("one").id == "one"
    for id, project in (("two", None), ("one", "bank")):
        with pytest.raises((NotAllowed, SessionExists)):
            only.create_session(id, project=project)
    assert not memory.store.sessions(id="other") + memory.store.sessions(id="two")


def test_session_cannot_be_moved_into_another_project(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    storage = client.store.session("shop-1")

    def move(info: Any) -> None:
        info.project = "bank"

    with pytest.raises(NotAllowed, match="project"):
        storage.update_info(move)
    assert memory.session("shop-1").info.project == "shop"


def test_memory_cannot_refer_to_one_outside_of_the_token(memory: Memory) -> None:
    """A decision that supersedes another would change how that one is found."""
    client = limited(memory, "shop", write=True)
    session = client.session("shop-1")
    for target in ("a-bank/DEC-0001", "nowhere/DEC-0001", "archived-bank/DEC-0001"):
        for fields in (
            {"supersedes": target},
            {"references": [target]},
            {"relations": [{"kind": "resolves", "target": target}]},
        ):
            with pytest.raises(NotAllowed, match="does not exist"):
                session.add_decision("Use none", **fields)
            with pytest.raises(NotAllowed, match="does not exist"):
                session.update("DEC-0001", **fields)
    assert session.add_decision("Use both", references=["shop-2/DEC-0001", "DEC-0002"]).id
    assert all(hit.superseded_by is None for hit in memory.query(sessions="a-bank", limit=50))


def test_whole_store_is_for_tokens_of_the_whole_store(memory: Memory) -> None:
    client = limited(memory, "shop", write=True, erase=True)
    for call in (
        lambda: client.set_config("track_access", False),
        client.reindex,
        lambda: client.convert("jsonl"),
        lambda: client.store.tokens,
        lambda: client.global_memory.set_preference("x", "y"),
    ):
        with pytest.raises((NotAllowed, NotSupported)):
            call()


def test_audit_names_the_client(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    client.session("shop-1").delete("DEC-0001", "wrong")
    last = memory.store.audit.entries()[-1]
    assert (last["action"], last["client"], last["session"]) == ("delete", "ci", "shop-1")
    assert client.store.audit.entries()[-1] == last


def test_session_that_changes_its_project_is_seen_no_longer(memory: Memory) -> None:
    client = limited(memory, "shop", write=True)
    opened_before = client.session("shop-1")
    assert client.query("login", sessions="shop-1")

    def move(info: Any) -> None:
        info.project = "bank"

    memory.store.session("shop-1").update_info(move)
    assert {hit.record.session for hit in client.query("login", limit=50)} == {"shop-2"}
    with pytest.raises(SessionNotFound):
        client.session("shop-1")
    with pytest.raises(SMPError):
        opened_before.add_decision("Use none")


def test_client_cannot_copy_the_store(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(NotAllowed):
        limited(memory, "shop", write=True, erase=True).copy_to(str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()
