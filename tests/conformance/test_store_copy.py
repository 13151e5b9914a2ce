"""A whole store is copied into one of another kind: nothing is lost, doubled or overwritten, and an interrupted copy is completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import UserError
from smp_memory.files.layouts import NAMES
from smp_memory.testing.clocks import FrozenClock
from tests.backends.naive_store import NAME
from tests.conformance.clones import clone, memory_files, united
from tests.conformance.layout_files import blocks, by_hand, decisions_file, filled, opened
from tests.exchange_stores import KINDS_OF_STORES, POSTGRES, Places, contents, fill

PAIRS = [
    *((kind, NAME) for kind in KINDS_OF_STORES),
    *((NAME, kind) for kind in KINDS_OF_STORES if kind != NAME),
    *(("jsonl", POSTGRES), ("markdown", POSTGRES), (POSTGRES, "jsonl"), (POSTGRES, "markdown"), (POSTGRES, POSTGRES)),
]


class Stores:
    """A filled store of one kind, and the address of one of another kind."""

    def __init__(self, places: Places, kind: str, other: str) -> None:
        self.clock = FrozenClock()
        self.places, self.other = places, other
        self.source = places.open(kind, "from", clock=self.clock)
        self.address = places.address(other, "to")
        if other in NAMES:
            places.open(other, "to").close()  # with its layout

    def copy(self) -> Any:
        return self.source.copy_to(self.address)

    def target(self) -> smp_memory.Memory:
        return self.places.open(self.other, "to", clock=self.clock)


@pytest.fixture(params=PAIRS, ids="-".join)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    return Stores(Places(request, tmp_path), *request.param)


def test_copy_of_a_store_has_everything(stores: Stores) -> None:
    fill(stores.source, stores.clock)
    before = contents(stores.source)
    report = stores.copy()
    assert (report.conflicts, report.failed, report.left_out) == ([], [], [])
    assert contents(stores.source) == before
    found = contents(stores.target())
    noted = found["audit"].pop()
    assert (noted["action"], noted["count"]) == ("convert", len(report.copied))
    assert found == before
    assert report.memories == sum(len(each["memories"]) for each in before["sessions"].values())


def test_copying_again_changes_nothing(stores: Stores) -> None:
    fill(stores.source, stores.clock)
    first = stores.copy()
    before = contents(stores.target())
    again = stores.copy()
    assert (again.copied, again.extended, again.conflicts, again.failed) == ([], [], [], [])
    assert sorted(again.known) == sorted(first.copied)
    assert contents(stores.target()) == before


def test_copy_goes_on_with_what_was_written_since(stores: Stores) -> None:
    session = stores.source.create_session("s1")
    session.add_decision("First")
    stores.source.create_session("s2").add_decision("Other")
    stores.copy()
    session.update("DEC-0001", rationale="later")
    session.add_decision("Second")
    stores.source.archive_session("s2", "done")
    stores.source.create_session("s3").add_decision("New")
    report = stores.copy()
    assert (report.extended, report.copied, report.known) == (["s1"], ["s3"], ["s2"])
    found, wanted = contents(stores.target())["sessions"], contents(stores.source)["sessions"]
    assert {name: each["memories"] for name, each in found.items()} == {
        name: each["memories"] for name, each in wanted.items()
    }


def test_numbers_are_never_given_out_again_in_the_copy(stores: Stores) -> None:
    fill(stores.source, stores.clock)
    stores.copy()
    with stores.target() as target:
        assert target.session("every").add_decision("New").id == "DEC-0005"
        assert target.session("compacted").add_decision("New").id == "DEC-0007"
        for session, id in (("every", "DEC-0005"), ("compacted", "DEC-0007")):
            expected = stores.source.session(session).add_decision("New")
            entry = target.store.session(session).history([id]).histories[id].first
            twin = stores.source.store.session(session).history([id]).histories[id].first
            assert (expected.id, twin.seq) == (id, entry.seq)


def test_difference_in_the_target_is_a_conflict_and_stays(stores: Stores) -> None:
    stores.source.create_session("s1").add_decision("Here")
    stores.source.create_session("s2").add_decision("Shared")
    stores.source.set_config("compaction.old_turns_days", 9)
    stores.copy()
    with stores.target() as target:
        target.session("s2").add_decision("Written there")
        target.create_session("s3").add_decision("Another s3")
        target.set_config("compaction.old_turns_days", 8)
        before = contents(target)
    stores.source.session("s2").add_decision("Written here")
    stores.source.create_session("s3").add_decision("My s3")
    report = stores.copy()
    assert not report.is_complete
    assert [each.get("session", each.get("setting")) for each in report.conflicts] == [
        "s2",
        "s3",
        "compaction.old_turns_days",
    ]
    assert "DEC-0002" in report.conflicts[0]["why"]
    assert contents(stores.target()) == before


def test_a_store_is_not_copied_into_itself(stores: Stores) -> None:
    with pytest.raises(UserError):
        stores.source.copy_to(stores.source.root)


# -- stores in files that people and other programs have touched


def edited_by_hand(root: Path, layout: str) -> smp_memory.SessionMemory:
    """A session whose entries a person has reordered, changed, and added to."""
    filled(root, layout).memory.close()
    file = decisions_file(root, layout)
    head, first, second, third = blocks(layout, file.read_text(encoding="utf-8"))
    text = head + third + first + second.replace("Use Postgres", "Use MySQL") + by_hand(layout, "DEC-0007", "Typed")
    file.write_text(text, encoding="utf-8")
    return opened(root)


@pytest.mark.parametrize("kind", [NAME, POSTGRES])
@pytest.mark.parametrize("layout", NAMES)
def test_entries_written_by_hand_are_copied_as_they_read(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str, kind: str
) -> None:
    places, session = Places(request, tmp_path), edited_by_hand(tmp_path / "source", layout)
    report = session.memory.copy_to(places.address(kind, "to"))
    assert (report.copied, report.conflicts, report.failed) == (["s1"], [], [])
    copy = places.open(kind, "to").session("s1")
    assert [record.text for record in copy.records()] == [record.text for record in session.records()]
    assert {record.id: record.decision for record in copy.records("decision")} == {
        "DEC-0001": "Use OAuth",
        "DEC-0002": "Use MySQL",
        "DEC-0003": "Use Python",
        "DEC-0007": "Typed",
    }
    assert copy.add_decision("Next").id == "DEC-0008"


@pytest.mark.parametrize("layout", NAMES)
def test_entries_written_by_hand_are_pushed_once(request: pytest.FixtureRequest, tmp_path: Path, layout: str) -> None:
    places, session = Places(request, tmp_path), edited_by_hand(tmp_path / "source", layout)
    if layout == "jsonl":
        with decisions_file(tmp_path / "source", layout).open("a", encoding="utf-8") as file:
            file.write('{"decision": "Neither id nor time"}\n')
    places.open(NAME, "to").close()
    address = places.address(NAME, "to")
    for text in ("one", "two"):
        assert session.memory.push(address).is_complete
        session.add_decision(text)  # completes what the person left out
    report = session.memory.push(address)
    assert [(each.status, each.entries) for each in report.sessions] == [("sent", 1)]


@pytest.mark.parametrize("layout", NAMES)
def test_session_that_cannot_be_read_completely_is_named_and_others_are_copied(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str
) -> None:
    places, session = Places(request, tmp_path), filled(tmp_path / "source", layout)
    session.memory.create_session("s2").add_decision("Fine")
    session.memory.close()
    file = decisions_file(tmp_path / "source", layout)
    file.write_text(
        file.read_text(encoding="utf-8").replace("Use Postgres", 'Use \x00\\"{: \n\t- [', 1), encoding="utf-8"
    )
    memory = smp_memory.open(tmp_path / "source")
    report = memory.copy_to(places.address(NAME, "to"))
    assert (report.copied, [each["session"] for each in report.failed]) == (["s2"], ["s1"])
    assert not report.is_complete
    assert [head.session for head in places.open(NAME, "to").store.sessions()] == ["s2"]
    for each in memory.repair().values():
        assert each is not None
    again = memory.copy_to(places.address(NAME, "to"))
    assert (again.copied, again.known, again.failed) == (["s1"], ["s2"], [])
    assert any("quarantine" in text for text in again.left_out)


@pytest.mark.parametrize("kind", [NAME, POSTGRES])
def test_session_of_five_thousand_memories_is_copied_and_verified(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    places = Places(request, tmp_path)
    memory = places.open("jsonl", "from", config={"durability": "os"})
    session = memory.create_session("large", config={"storage": {"max_session_size_mb": 100}})
    session.add_many([("decision", {"decision": f"Decision {number}", "tags": ["x"]}) for number in range(5000)])
    calls: list[tuple[int, int, str, int]] = []
    report = memory.copy_to(places.address(kind, "to"), lambda *told: calls.append(told))
    assert (report.memories, report.is_complete, calls) == (5000, True, [(1, 1, "large", 0)])
    records = places.open(kind, "to").session("large").records()
    assert [record.decision for record in records] == [f"Decision {number}" for number in range(5000)]


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("layout", NAMES)
def test_session_merged_from_two_clones_is_copied_as_it_reads(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str, is_settled: bool
) -> None:
    """Both clones gave out the same ids and numbers; the next write makes the shown ids permanent."""
    places = Places(request, tmp_path)
    with smp_memory.open(tmp_path / "base", layout=layout, clock=FrozenClock()) as memory:
        memory.create_session("s1").add_decision("Common")
    sides = [clone(tmp_path / "base", tmp_path / name) for name in ("ours", "theirs")]
    for side in sides:
        with smp_memory.open(side, clock=FrozenClock()) as memory:
            memory.session("s1").add_decision(f"From {side.name}")
            memory.session("s1").update("DEC-0002", rationale=f"because {side.name}")
    merged = united(memory_files(tmp_path / "base"), sides, tmp_path / "merged", layout)
    session = smp_memory.open(merged, clock=FrozenClock()).session("s1")
    if is_settled:
        session.add_decision("Later")
    wanted = {record.id: (record.decision, record.rationale) for record in session.records()}
    assert len(wanted) == 3 + is_settled
    places.open(NAME, "pushed").close()
    assert session.memory.copy_to(places.address(NAME, "to")).is_complete
    assert session.memory.push(places.address(NAME, "pushed")).is_complete
    for name in ("to", "pushed"):
        records = places.open(NAME, name).session("s1").records()
        assert {record.id: (record.decision, record.rationale) for record in records} == wanted
    session.update("DEC-0003", rationale="written since")
    assert session.memory.copy_to(places.address(NAME, "to")).is_complete
    assert session.memory.push(places.address(NAME, "pushed")).is_complete
    assert places.open(NAME, "pushed").session("s1").get("DEC-0003").rationale == "written since"
