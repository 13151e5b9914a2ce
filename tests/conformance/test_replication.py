"""Sessions are pushed to another store and pulled from it: each entry once, one writing side, conflicts named, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import (
    InvalidConfig,
    InvalidFormat,
    NotAllowed,
    SessionNotFound,
    StorageCorrupt,
    StorageError,
    StoreNotFound,
    UserError,
)
from smp_memory.exchange import replication
from smp_memory.exchange.outbox import Outbox
from smp_memory.exchange.transfer import SentEntries, read_session
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from smp_memory.scope import Scope
from smp_memory.store.opening import register_backend
from smp_memory.testing.clocks import FrozenClock
from tests.backends.naive_store import NAME, open_naive
from tests.exchange_stores import KINDS_OF_STORES, NASTY, POSTGRES, Places, exchange, fill

PAIRS = [
    *((kind, NAME) for kind in KINDS_OF_STORES),
    *((NAME, "jsonl"), (NAME, "markdown"), ("jsonl", "markdown")),
    *(("jsonl", POSTGRES), ("markdown", POSTGRES), (POSTGRES, "jsonl"), (POSTGRES, POSTGRES)),
]


class Stores:
    """A laptop's store and a shared one."""

    def __init__(self, places: Places, kind: str, other: str) -> None:
        self.clock = FrozenClock()
        self.places, self.kind, self.other = places, kind, other
        self.laptop = self.laptop_again()
        self.shared = self.shared_again()
        self.address = places.address(other, "shared")

    def laptop_again(self) -> smp_memory.Memory:
        """The laptop's store as another process opens it."""
        return self.places.open(self.kind, "laptop", clock=self.clock)

    def shared_again(self) -> smp_memory.Memory:
        """The shared store as another process opens it."""
        return self.places.open(self.other, "shared", clock=self.clock)

    def second_laptop(self) -> smp_memory.Memory:
        return self.places.open("jsonl", "second", clock=self.clock)

    def statuses(self, report: Any) -> dict[str, str]:
        return {each.session: each.status for each in report.sessions}


def told(memory: smp_memory.Memory, session: str) -> Any:
    storage = memory.store.session(session)
    histories = {**storage.history(segment="cold").histories, **storage.history().histories}
    return {id: (each.record(session).to_dict(), each.steps()) for id, each in sorted(histories.items())}


def write_past_the_mark(memory: smp_memory.Memory, session: str, text: str) -> None:
    """Write to a copy as a process does that had it open before it became one."""
    opened = memory.session(session)
    marked: dict[str, Any] = {}

    def unmark(info: Any) -> None:
        marked.update(info.config)
        info.config = {}

    storage = memory.store.session(session)
    storage.update_info(unmark)
    opened.add_decision(text)
    storage.update_info(lambda info: setattr(info, "config", marked))


@pytest.fixture(params=PAIRS, ids="-".join)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    return Stores(Places(request, tmp_path), *request.param)


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    return Places(request, tmp_path)


def test_pushed_session_is_equal_and_repeated_pushes_send_what_is_new(stores: Stores) -> None:
    session = stores.laptop.create_session("s1", user="ada", project="shop")
    session.add_decision(NASTY)
    session.add_finding("Wrong")
    session.delete("FIND-0001", "wrong")
    report = stores.laptop.push(stores.address)
    assert [(each.session, each.status, each.entries) for each in report.sessions] == [("s1", "sent", 3)]
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    assert stores.shared.store.session("s1").info().project == "shop"
    again = stores.laptop.push(stores.address)
    assert [(each.status, each.entries) for each in again.sessions] == [("equal", 0)]
    session.restore("FIND-0001")
    session.update("DEC-0001", rationale="later")
    session.change_info(project="web shop")
    third = stores.laptop.push(stores.address, ["s1"])
    assert [(each.status, each.entries) for each in third.sessions] == [("sent", 2)]
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    assert stores.shared.store.session("s1").info().project == "web shop"
    assert stores.shared.session("s1").validate().ok


def test_every_kind_of_entry_can_be_pushed(stores: Stores) -> None:
    fill(stores.laptop, stores.clock)
    report = stores.laptop.push(stores.address)
    assert stores.statuses(report) == dict.fromkeys(("compacted", "empty", "every", "gone"), "sent")
    assert told(stores.shared, "every") == told(stores.laptop, "every")
    assert stores.statuses(stores.laptop.push(stores.address)) == dict.fromkeys(stores.statuses(report), "equal")


def test_nobody_writes_to_a_copy(stores: Stores) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("Mine")
    stores.laptop.push(stores.address)
    before = told(stores.shared, "s1")
    copy = stores.shared.session("s1")
    attempts = [
        lambda: copy.add_decision("Theirs"),
        lambda: copy.update("DEC-0001", rationale="theirs"),
        lambda: copy.delete("DEC-0001"),
        lambda: copy.erase("DEC-0001"),
        copy.compact,
        copy.redact,
    ]
    for attempt in attempts:
        with pytest.raises(NotAllowed, match=r"is a copy; .*writes it"):
            attempt()
    stores.shared.maintain()
    assert told(stores.shared, "s1") == before
    assert [hit.record.decision for hit in stores.shared.query("Mine")] == ["Mine"]


def test_pulled_session_is_a_copy_until_it_is_taken_over(stores: Stores) -> None:
    stores.shared.create_session("s1").add_decision("First")
    assert stores.statuses(stores.laptop.pull(stores.address)) == {"s1": "sent"}
    with pytest.raises(NotAllowed):
        stores.laptop.session("s1").add_decision("Not here")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "written there"}
    stores.shared.session("s1").add_decision("Second")
    assert [each.entries for each in stores.laptop.pull(stores.address, ["s1"]).sessions] == [1]
    assert stores.laptop.pull(stores.address, ["s1"], take_over=True).is_complete
    assert stores.laptop.session("s1").add_decision("Third").id == "DEC-0003"
    with pytest.raises(NotAllowed):
        stores.shared_again().session("s1").add_decision("Not here")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "sent"}
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")


def test_session_is_handed_over_and_goes_on_at_the_other_side(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("First")
    assert stores.laptop.push(stores.address, ["s1"], hand_over=True).is_complete
    with pytest.raises(NotAllowed):
        stores.laptop.session("s1").add_decision("Not here")
    assert stores.shared.session("s1").add_decision("Second").id == "DEC-0002"
    assert stores.laptop.pull(stores.address).is_complete
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    again = stores.laptop.push(stores.address, ["s1"], hand_over=True)
    assert stores.statuses(again) == {"s1": "written there"}


def test_copy_cannot_be_taken_over_from_a_store_that_does_not_write_it(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.push(stores.address)
    second = stores.second_laptop()
    report = second.pull(stores.address, ["s1"], take_over=True)
    assert stores.statuses(report) == {"s1": "refused"}
    assert stores.laptop.root in report.sessions[0].why
    stores.laptop.session("s1").add_decision("Second")
    assert stores.laptop.push(stores.address, ["s1"], hand_over=True).is_complete
    assert second.pull(stores.address, ["s1"], take_over=True).is_complete
    assert second.session("s1").add_decision("Third").id == "DEC-0003"


def test_session_that_two_stores_take_over_at_once_has_one_writing_side(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.shared.create_session("s1").add_decision("First")
    second = stores.second_laptop()
    monkeypatch.setattr(second.store, "create", _then(second.store.create, lambda: stores.laptop.pull(stores.address, ["s1"], take_over=True)))  # fmt: skip
    assert stores.statuses(second.pull(stores.address, ["s1"], take_over=True)) == {"s1": "refused"}
    with pytest.raises(NotAllowed):
        second.session("s1").add_decision("Not here")
    assert stores.laptop.session("s1").add_decision("Second").id == "DEC-0002"


def test_push_that_a_hand_over_overtakes_does_not_take_the_session_back(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("First")
    stores.laptop.push(stores.address)
    session.add_decision("Second")
    again = stores.laptop_again()
    before = replication.append_entries
    monkeypatch.setattr(replication, "append_entries", _then(before, lambda: again.push(stores.address, ["s1"], hand_over=True)))  # fmt: skip
    assert stores.statuses(stores.laptop.push(stores.address, ["s1"])) == {"s1": "refused"}
    assert stores.shared_again().session("s1").add_decision("Third").id == "DEC-0003"


def _then(work: Callable[..., Any], more: Callable[[], object]) -> Callable[..., Any]:
    """Do `work`, then once something else."""
    left = [more]

    def both(*args: Any, **named: Any) -> Any:
        result = work(*args, **named)
        if left:
            left.pop()()
        return result

    return both


def test_nul_in_the_project_of_a_session_stops_no_push(stores: Stores) -> None:
    stores.laptop.create_session("s1", project="a\0b", user="\0").add_decision("First")
    stores.laptop.create_session("s2").add_decision("Second")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "sent", "s2": "sent"}
    assert stores.shared.session("s1").info.project == "a\0b"
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "equal", "s2": "equal"}


def test_another_store_cannot_push_the_same_session(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.push(stores.address)
    clone = stores.second_laptop()
    stores.laptop.copy_to(clone.root)  # the same session, writable, as in a clone of the folder
    clone.session("s1").add_decision("Written by the clone")
    report = clone.push(stores.address)
    assert stores.statuses(report) == {"s1": "refused"}
    assert "--take-over" in report.sessions[0].why
    assert clone.push(stores.address, take_over=True).is_complete
    assert told(stores.shared, "s1") == told(clone, "s1")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "refused"}


def test_entries_that_only_the_copy_has_are_conflicts_and_stay(stores: Stores) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("First")
    stores.laptop.create_session("s2").add_decision("Other")
    stores.laptop.push(stores.address)
    write_past_the_mark(stores.shared, "s1", "Theirs")
    session.add_decision("Mine")
    session.update("DEC-0002", rationale="really")
    stores.laptop.session("s2").add_decision("More")
    here, there = told(stores.laptop, "s1"), told(stores.shared, "s1")
    for _ in range(2):
        report = stores.laptop.push(stores.address)
        assert stores.statuses(report)["s1"] == "conflict"
        assert not report.is_complete
        conflict = report.sessions[0].conflicts[0]
        assert (conflict.id, conflict.revision, conflict.copy_revision) == ("DEC-0002", 2, 1)
        assert (told(stores.laptop, "s1"), told(stores.shared, "s1")) == (here, there)
        assert told(stores.shared, "s2") == told(stores.laptop, "s2")


def test_sessions_of_one_name_that_are_not_the_same_are_a_conflict(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("Mine")
    stores.shared.create_session("s1").add_decision("Theirs")
    before = told(stores.shared, "s1")
    for report in (stores.laptop.push(stores.address), stores.laptop.push(stores.address, take_over=True)):
        assert stores.statuses(report) == {"s1": "conflict"}
    assert told(stores.shared, "s1") == before


def test_erasure_and_redaction_reach_the_copy_at_the_next_push(stores: Stores) -> None:
    session = stores.laptop.create_session("s1", config={"privacy": {"redaction": {"enabled": False}}})
    session.add_decision("Erase me")
    session.add_decision("Keep me")
    session.add_finding("Call +49 30 901820 now")
    stores.shared.set_config("privacy.redaction.enabled", False)
    shared = stores.shared_again()
    stores.laptop.push(stores.address)
    stores.clock.advance(60)
    session.erase("DEC-0001")
    assert session.redact()[0].memories
    report = stores.laptop.push(stores.address)
    assert sorted(report.sessions[0].erased) == ["DEC-0001", "FIND-0001"]
    assert told(shared, "s1") == told(stores.laptop, "s1")
    assert "901820" not in json.dumps(told(shared, "s1"))
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "equal"}
    assert session.add_decision("Next").id == "DEC-0003"


def test_memories_lost_on_the_writing_side_are_not_erased_in_the_copy(stores: Stores) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("First")
    session.add_decision("Second")
    stores.laptop.push(stores.address)
    storage = stores.laptop.store.session("s1")
    session.delete("DEC-0002")
    deleted = storage.history().histories["DEC-0002"].deletion
    assert deleted is not None
    storage.rewrite(
        RewritePlan("losing", drop={"DEC-0002": deleted.at})
    )  # as an old backup would, without a line in the audit log
    report = stores.laptop.push(stores.address)
    assert stores.statuses(report) == {"s1": "conflict"}
    assert [each.to_dict() for each in report.sessions[0].conflicts] == [
        {"id": "DEC-0002", "revision": None, "copy_revision": 1}
    ]
    assert "DEC-0002" in told(stores.shared, "s1")


def test_changes_of_memories_that_the_copy_has_in_cold_storage_arrive(stores: Stores) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("Faded")
    session.add_decision("Fresh")
    storage = stores.laptop.store.session("s1")
    storage.rewrite(RewritePlan("moving", "2026-03-01T12:00:00Z", to_cold={"DEC-0001": ColdMove(1, "faded")}))
    stores.laptop.push(stores.address)
    assert list(stores.shared.store.session("s1").history().histories) == ["DEC-0002"]
    storage.rewrite(RewritePlan("restoring", from_cold=["DEC-0001"]))
    session.update("DEC-0001", rationale="needed again")
    storage.rewrite(RewritePlan("moving", "2026-03-02T12:00:00Z", to_cold={"DEC-0002": ColdMove(1, "faded")}))
    assert stores.laptop.push(stores.address).is_complete
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    assert stores.shared.session("s1").validate().ok


def test_secrets_do_not_enter_a_store_that_redacts_them(stores: Stores) -> None:
    secret = "The key is AKIA" + "QWERTYUIOPASDFGH"
    session = stores.laptop.create_session("s1", config={"privacy": {"redaction": {"enabled": False}}})
    session.add_decision(secret)
    report = stores.laptop.push(stores.address)
    assert stores.statuses(report) == {"s1": "refused"}
    assert "DEC-0001" in report.sessions[0].why
    assert stores.shared.store.sessions() == []


def test_archived_copy_is_not_written(stores: Stores) -> None:
    session = stores.laptop.create_session("s1")
    session.add_decision("First")
    stores.laptop.push(stores.address)
    stores.shared.archive_session("s1", "done")
    session.add_decision("Second")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "refused"}
    stores.shared.store.move("s1", "archived", "live")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "sent"}


def test_copy_that_was_deleted_there_is_not_brought_back(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.push(stores.address)
    stores.shared.delete_session("s1", "not wanted here")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "refused"}
    assert stores.shared.store.sessions() == []
    assert stores.statuses(stores.laptop.push(stores.address, ["s1"], take_over=True)) == {"s1": "sent"}


def test_erasure_in_a_session_with_equal_numbers_does_not_make_conflicts(stores: Stores) -> None:
    """Two clones of a store, or a person, gave one number to several entries; a copy numbers them anew."""
    session = stores.laptop.create_session("s1")
    for number in range(4):
        session.add_decision(f"Decision {number}")
    storage = stores.laptop.store.session("s1")
    twice = storage.history().histories["DEC-0002"].first.copy()
    twice.id, twice.uid, twice.seq = "DEC-0009", "abcdefgh", 1
    storage.commit(SentEntries([twice]))
    with_equal_numbers = SentEntries([])
    with_equal_numbers.resolve = lambda allocator: [_numbered(twice, "DEC-0010")]  # type: ignore[method-assign]
    storage.commit(with_equal_numbers)
    stores.laptop.push(stores.address)
    stores.clock.advance(60)
    session.erase("DEC-0001")
    session.add_decision("After")
    report = stores.laptop.push(stores.address)
    assert stores.statuses(report) == {"s1": "sent"}
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "equal"}


def _numbered(entry: Any, id: str) -> Any:
    """An entry of another clone with a number that is taken."""
    twin = entry.copy()
    twin.id, twin.seq, twin.uid = id, 1, "hgfedcba"
    return twin


def test_entries_that_two_processes_send_at_once_are_there_once(stores: Stores) -> None:
    """Both have compared the sessions before one of them sends."""
    session = stores.laptop.create_session("s1")
    session.add_decision("First")
    stores.laptop.push(stores.address)
    session.update("DEC-0001", rationale="because")
    session.add_decision("Second")
    new = read_session(stores.laptop.store.session("s1")).entries[1:]
    for _ in range(2):
        stores.shared_again().store.session("s1").commit(SentEntries(new))
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    assert len(read_session(stores.shared_again().store.session("s1")).entries) == 3
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "sent"}  # the mark of how far it is
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "equal"}


class LateStore:
    """A store in which another process creates the session just after this one has looked."""

    def __init__(self, store: Any) -> None:
        self._store, self._has_looked = store, False

    def sessions(self, *states: str, **options: Any) -> Any:
        if not self._has_looked:
            self._has_looked = True
            return []
        return self._store.sessions(*states, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_session_that_two_processes_create_at_once_is_there_once(stores: Stores) -> None:
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.push(stores.address)
    late: Any = LateStore(stores.shared.store)
    report = exchange(stores.laptop.scope, Scope(late, None, stores.shared.config, stores.shared.scope.clock))
    assert stores.statuses(report) == {"s1": "equal"}
    assert len(stores.shared.store.sessions()) == 1


# -- the outbox


class Unreachable:
    """A backend whose server can be switched off."""

    is_off = False

    def __call__(self, *options: Any) -> Any:
        if self.is_off:
            raise StorageError("The server does not answer.")
        return open_naive(*options)


def test_push_to_a_store_that_cannot_be_reached_waits_in_the_outbox(places: Places) -> None:
    stores, server = Stores(places, "jsonl", NAME), Unreachable()
    register_backend(NAME, server)
    server.is_off = True
    stores.laptop.create_session("s1").add_decision("Offline")
    stores.laptop.create_session("s2").add_decision("Not asked for")
    report = stores.laptop.push(stores.address, ["s1"])
    assert [(each.session, each.status, each.why) for each in report.sessions] == [
        ("s1", "queued", "The server does not answer.")
    ]
    with smp_memory.open(stores.laptop.root) as again:
        assert stores.statuses(again.push()) == {"s1": "queued"}
    server.is_off = False
    stores.laptop.session("s1").add_decision("Also offline")
    assert [(each.session, each.entries) for each in stores.laptop.push().sessions] == [("s1", 2)]
    assert stores.laptop.push().sessions == []
    assert told(stores.shared, "s1") == told(stores.laptop, "s1")
    register_backend(NAME, open_naive)


def test_push_to_a_mistyped_address_does_not_wait(places: Places) -> None:
    laptop = places.open("jsonl", "laptop")
    laptop.create_session("s1")
    with pytest.raises(StoreNotFound):
        laptop.push(str(places.folder / "nowhere"))
    with pytest.raises(InvalidFormat):
        laptop.push("nosuch://x")
    assert laptop.push().sessions == []
    with pytest.raises(UserError):
        laptop.push(laptop.root)


def test_conflicts_stay_in_the_outbox_until_they_are_gone(places: Places) -> None:
    stores = Stores(places, "jsonl", "jsonl")
    stores.laptop.create_session("s1").add_decision("Mine")
    stores.shared.create_session("s1").add_decision("Theirs")
    stores.laptop.push(stores.address)
    assert stores.statuses(stores.laptop.push()) == {"s1": "conflict"}
    stores.shared.delete_session("s1")
    assert stores.statuses(stores.laptop.push()) == {"s1": "sent"}
    assert stores.laptop.push().sessions == []


def test_sessions_that_do_not_exist_do_not_wait(places: Places) -> None:
    stores = Stores(places, "jsonl", "jsonl")
    stores.laptop.create_session("s1").add_decision("First")
    with pytest.raises(SessionNotFound):
        stores.laptop.push(stores.address, ["s1", "typo"])
    assert stores.laptop.push().sessions == []
    stores.shared.create_session("s1").add_decision("Another")
    assert stores.statuses(stores.laptop.push(stores.address, ["s1"])) == {"s1": "conflict"}
    stores.laptop.delete_session("s1")
    assert stores.statuses(stores.laptop.push()) == {"s1": "refused"}
    assert stores.laptop.push().sessions == []


def test_session_added_to_the_outbox_during_a_push_is_not_struck_out(places: Places) -> None:
    stores = Stores(places, "jsonl", NAME)
    outbox = Outbox(stores.laptop.store.state)
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.create_session("s2").add_decision("Second")

    def add_meanwhile(*_: Any) -> None:
        outbox.add(stores.address, ["s1", "s2"])  # another process, which is killed then

    stores.laptop.push(stores.address, ["s1"], progress=add_meanwhile)
    assert sorted(outbox.waiting()[stores.address]) == ["s1", "s2"]
    assert stores.statuses(stores.laptop.push()) == {"s1": "equal", "s2": "sent"}


def test_damaged_outbox_is_reported(places: Places) -> None:
    stores = Stores(places, "jsonl", "jsonl")
    stores.laptop.create_session("s1")
    for data in (b"{", b"[]", b'{"waiting": {"a": 1}, "reached": []}'):
        stores.laptop.store.state.write("outbox.json", data)
        with pytest.raises(StorageCorrupt, match=r"outbox\.json cannot be read"):
            stores.laptop.push(stores.address)


def test_copy_with_a_damaged_mark_is_not_written(places: Places) -> None:
    stores = Stores(places, "jsonl", "jsonl")
    stores.laptop.create_session("s1").add_decision("First")
    stores.laptop.push(stores.address)
    stores.shared.store.session("s1").update_info(lambda info: info.config.update(copy_of="laptop"))
    with pytest.raises(InvalidConfig, match="copy_of"):
        stores.shared_again().session("s1").add_decision("Not here")
    assert stores.statuses(stores.laptop.push(stores.address)) == {"s1": "refused"}
    assert stores.statuses(stores.laptop.push(stores.address, ["s1"], take_over=True)) == {"s1": "sent"}
    with pytest.raises(NotAllowed):
        stores.shared_again().session("s1").add_decision("Not here")


def test_database_is_the_same_store_under_another_address(places: Places) -> None:
    """Options of a connection, such as sslmode, are part of the address and not of the store."""
    address = places.address(POSTGRES, "shared")
    with smp_memory.open(address) as shared:
        shared.create_session("theirs").add_decision("Use OAuth")
    with places.open("jsonl", "laptop") as laptop:
        laptop.create_session("mine").add_decision("Use TLS")
        for each in (address, f"{address}&sslmode=prefer", f"{address}&application_name=other"):
            assert laptop.pull(each, ["theirs"]).is_complete
            assert laptop.push(each, ["mine"]).is_complete


def test_waiting_sessions_can_be_given_up(places: Places) -> None:
    with places.open("jsonl", "laptop") as laptop:
        laptop.create_session("mine").add_decision("Use TLS")
        gone = "postgresql://nobody@127.0.0.1:1/gone"
        assert [each.status for each in laptop.push(gone, ["mine"]).sessions] == ["queued"]
        assert [each.session for each in laptop.push(gone, forget=True).sessions] == ["mine"]
        assert Outbox(laptop.store.state).waiting() == {}
        assert laptop.push().sessions == []


def test_session_that_was_deleted_here_comes_back_by_taking_it_over(places: Places) -> None:
    with places.open("jsonl", "shared") as shared:
        shared.create_session("theirs").add_decision("Use OAuth")
    with places.open("jsonl", "laptop") as laptop:
        address = places.address("jsonl", "shared")
        assert laptop.pull(address).is_complete
        laptop.delete_session("theirs")
        assert not laptop.pull(address, ["theirs"]).is_complete
        assert laptop.pull(address, ["theirs"], take_over=True).is_complete
        assert laptop.session("theirs").add_decision("Mine now").id == "DEC-0002"
