"""Merges of clones by real git, on every layout, with SMP's merge driver and without it.

Each story is played once per layout; several tests look at how it ended.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smp_memory.files.layouts import NAMES
from tests.e2e.git_clones import Clone, copy_of, make_origin

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>")
UNION = "*.jsonl merge=union\n"
BASE = ["How do customers log in?", "No rate limit", "Use OAuth", "veritas"]


@pytest.fixture(scope="module", params=NAMES)
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Story = Callable[[Clone], "list[Clone]"]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Clone]]:
    """Play a story on a layout, once."""

    @functools.cache
    def origin(layout: str, attributes: str | None) -> Clone:
        return make_origin(tmp_path_factory.mktemp("origin") / "origin", layout, attributes)

    @functools.cache
    def played(layout: str, story: Story, attributes: str | None = None) -> list[Clone]:
        return story(copy_of(origin(layout, attributes), tmp_path_factory.mktemp(layout) / "origin"))

    return played


# -- stories


def both_find_and_one_resolves(origin: Clone, fails: bool = False) -> list[Clone]:
    """Both clones give out FIND-0002, relate it and update something; B resolves its own."""
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(
        lambda s: s.add_finding("A finds", severity="critical"),
        lambda s: s.add_decision("A decides"),
        lambda s: s.relate("DEC-0002", "FIND-0002", kind="addresses"),
        lambda s: s.update("DEC-0001", rationale="a standard"),
    )
    b.write(
        lambda s: s.add_finding("B finds", severity="low"),
        lambda s: s.resolve("FIND-0002", action_taken="done"),
        lambda s: s.add_decision("B decides"),
        lambda s: s.relate("DEC-0002", "FIND-0002", kind="addresses"),
        lambda s: s.update("DEC-0001", importance=0.9),
    )
    before = a.git("rev-parse", "HEAD").strip()
    a.pull(b, fails=fails)
    if not fails:
        b.git("fetch", "-q", str(a.folder), before)
        b.git("merge", "-q", "--no-edit", "FETCH_HEAD")
    return [a, b]


def both_find_and_git_stops(origin: Clone) -> list[Clone]:
    return both_find_and_one_resolves(origin, fails=True)


def three_clones(origin: Clone) -> list[Clone]:
    clones = [origin.clone(name, n) for n, name in enumerate("abc", 1)]
    for name, clone in zip("ABC", clones, strict=True):
        clone.write(
            lambda s, name=name: s.add_finding(f"{name} finds"),
            lambda s, name=name: s.update("FIND-0002", category=name),
            lambda s, name=name: s.add_turn("user", f"{name} says"),
        )
    a, b, c = clones
    a.pull(b)
    c.pull(b)
    a.pull(c)
    c.pull(a)
    b.pull(a)
    return clones


def rebased(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A finds"))
    b.write(lambda s: s.add_finding("B finds"))
    b.write(lambda s: s.resolve("FIND-0002", action_taken="done"), lambda s: s.add_decision("B decides"))
    b.git("pull", "-q", "--rebase", str(a.folder), "master")
    a.pull(b)
    return [a, b]


def cherry_picked(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A first"))
    a.write(lambda s: s.add_finding("A picked"), lambda s: s.update("FIND-0003", category="picked"))
    b.write(lambda s: s.add_finding("B finds"))
    b.git("fetch", "-q", str(a.folder), "master")
    b.git("cherry-pick", "FETCH_HEAD")
    b.write(lambda s: s.add_decision("B decides"))
    b.pull(a)
    a.pull(b)
    return [a, b]


def reverted(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A wrong"), lambda s: s.update("FIND-0002", category="wrong"))
    b.write(lambda s: s.add_finding("B finds"), lambda s: s.add_decision("B decides"))
    b.pull(a)
    b.git("revert", "--no-edit", a.git("rev-parse", "HEAD").strip())
    a.pull(b)
    return [a, b]


def stashed(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A finds"), lambda s: s.add_decision("A decides"))
    b.write(lambda s: s.add_finding("B finds"), lambda s: s.delete("DEC-0001"), commit=None)
    b.git("stash", "-q", "-u")
    b.pull(a)
    b.git("stash", "pop")
    b.commit()
    a.pull(b)
    return [a, b]


def criss_cross(origin: Clone) -> list[Clone]:
    """Two merges of the same two commits, each in its own clone, then a merge of these: git has two common ancestors."""
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.add_finding("A finds"))
    b.write(lambda s: s.add_finding("B finds"))
    first = a.git("rev-parse", "HEAD").strip()
    a.pull(b)
    b.git("fetch", "-q", str(a.folder), first)
    b.git("merge", "-q", "--no-edit", "FETCH_HEAD")
    a.write(lambda s: s.add_decision("A decides"), lambda s: s.update("FIND-0001", category="security"))
    b.write(lambda s: s.add_decision("B decides"), lambda s: s.delete("DEC-0001", reason="done"))
    a.pull(b)
    b.pull(a)
    return [a, b]


def deletions_preferences_and_states(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(
        lambda s: s.delete("FIND-0001", reason="done"),
        lambda s: s.add("preference", key="style", value="terse"),
        lambda s: s.add("agent_state", agent="scribe", state={"page": 1}),
        lambda s: s.add_turn("user", "A says"),
        lambda s: s.add("artifact", name="a.md", content="# A\n\n---\n\ntext\n"),
    )
    b.write(
        lambda s: s.delete("DEC-0001"),
        lambda s: s.restore("DEC-0001"),
        lambda s: s.add("preference", key="style", value="long"),
        lambda s: s.update("STATE-veritas", state={"task": "release"}),
        lambda s: s.add_turn("user", "B says"),
        lambda s: s.add("artifact", name="b.md", content="# B\n"),
    )
    a.pull(b)
    b.pull(a)
    return [a, b]


STORIES: dict[Story, list[str]] = {
    both_find_and_one_resolves: ["A decides", "A finds", "B decides", "B finds"],
    three_clones: ["A finds", "A says", "B finds", "B says", "C finds", "C says"],
    rebased: ["A finds", "B decides", "B finds"],
    cherry_picked: ["A first", "A picked", "B decides", "B finds"],
    reverted: ["B decides", "B finds"],
    stashed: ["A decides", "A finds", "B finds"],
    criss_cross: ["A decides", "A finds", "B decides", "B finds"],
}
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


# -- with the driver


@every_story
def test_merge_without_conflict_keeps_every_memory_once(layout: str, story: Story, play: Any) -> None:
    clones = play(layout, story)
    gone = {"Use OAuth"} if story in (stashed, criss_cross) else set()
    for clone in clones:
        assert clone.texts() == sorted([*(text for text in BASE if text not in gone), *STORIES[story]])
        assert not any(line.startswith(MARKERS) for data in clone.files().values() for line in data.splitlines())


@every_story
def test_all_clones_have_the_same_bytes_after_merging_each_other(layout: str, story: Story, play: Any) -> None:
    first, *others = play(layout, story)
    for clone in others:
        assert clone.files() == first.files()


@every_story
def test_validate_is_clean_after_the_merge_and_after_the_next_write(
    layout: str, story: Story, play: Any, tmp_path: Path
) -> None:
    clones = play(layout, story)
    assert [clone.problems() for clone in clones] == [[]] * len(clones)
    clone = copy_of(clones[0], tmp_path / "copy", clones[-1].now)
    clone.write(lambda s: s.add_finding("Later"), lambda s: s.update("FIND-0001", category="later"), commit=None)
    assert clone.problems() == []


def test_a_resolution_belongs_to_the_finding_of_its_own_clone(layout: str, play: Any) -> None:
    for clone in play(layout, both_find_and_one_resolves):
        records = {str(record.text): record for record in clone.opened().records()}
        assert [records[f"{name} finds"].get("status") for name in "AB"] == [None, "resolved"]
        assert len({record.id for record in records.values()}) == len(records)


def test_a_relation_leads_to_the_finding_of_its_own_clone(layout: str, play: Any) -> None:
    for clone in play(layout, both_find_and_one_resolves):
        records = {str(record.text): record for record in clone.opened().records()}
        for name in "AB":
            (relation,) = records[f"{name} decides"].relations
            assert relation["target"] == records[f"{name} finds"].id


def test_changes_of_different_fields_hold_both(layout: str, play: Any) -> None:
    for clone in play(layout, both_find_and_one_resolves):
        record = clone.opened().get("DEC-0001")
        assert (record.rationale, record.importance) == ("a standard", 0.9)


def test_changes_of_three_clones_belong_to_their_own_memories(layout: str, play: Any) -> None:
    for clone in play(layout, three_clones):
        found = {str(record.text): record.get("category") for record in clone.opened().records(type="finding")}
        assert found == {"No rate limit": None, "A finds": "A", "B finds": "B", "C finds": "C"}


def test_deletions_preferences_and_states_of_both_sides_are_merged(layout: str, play: Any) -> None:
    a, b = play(layout, deletions_preferences_and_states)
    assert a.files() == b.files()
    session = a.opened()
    texts = a.texts()
    assert "No rate limit" not in texts
    assert {"Use OAuth", "A says", "B says"} <= set(texts)
    assert sorted(str(record.value) for record in session.records(type="preference")) == ["long", "terse"]
    assert {record.agent: record.state for record in session.records(type="agent_state")} == {"veritas": {"task": "release"}, "scribe": {"page": 1}}  # fmt: skip
    assert sorted(record.name for record in session.records(type="artifact")) == ["a.md", "b.md"]


def test_later_preference_of_one_key_is_used(layout: str, play: Any, tmp_path: Path) -> None:
    a, b = play(layout, deletions_preferences_and_states)
    clone = copy_of(a, tmp_path / "copy", b.now)
    clone.write(lambda s: s.add_preference("style", "plain"), commit=None)
    values = [str(record.value) for record in clone.opened().records(type="preference")]
    assert sorted(values) == ["plain", "terse"]


# -- conflicts


def conflicting(origin: Clone) -> list[Clone]:
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.update("FIND-0001", severity="low"), lambda s: s.add_finding("A finds"))
    b.write(lambda s: s.update("FIND-0001", severity="critical"), lambda s: s.add_finding("B finds"))
    told = a.pull(b, fails=True)
    assert "FIND-0001: both sides changed severity." in told
    return [a, b]


def test_one_field_changed_on_both_sides_stops_the_merge(layout: str, play: Any) -> None:
    a, _ = play(layout, conflicting)
    marked = [name for name, data in a.files().items() if any(line.startswith(MARKERS) for line in data.splitlines())]
    assert len(marked) == 1
    assert a.git("diff", "--name-only", "--diff-filter=U").split() == [f"store/{marked[0]}"]
    session = a.opened()
    assert {"A finds", "B finds"} <= set(a.texts())
    assert [step["changes"]["severity"]["to"] for step in session.history("FIND-0001")[1:]] == ["low", "critical"]


def test_a_conflict_is_settled_by_removing_the_markers_and_writing_the_field(
    layout: str, play: Any, tmp_path: Path
) -> None:
    ours, theirs = play(layout, conflicting)
    a = copy_of(ours, tmp_path / "a", theirs.now)
    for name, data in a.files().items():
        lines = [line for line in data.splitlines(keepends=True) if not line.startswith(MARKERS)]
        (a.root / name).write_bytes(b"".join(lines))
    assert any("conflicting_change" in problem for problem in a.problems())
    a.write(lambda s: s.update("FIND-0001", severity="medium"))
    assert a.problems() == []
    assert a.opened().get("FIND-0001").severity == "medium"


@pytest.mark.parametrize("chosen", ["low", "critical", "medium"])
def test_update_settles_a_conflict_with_either_value_or_another_one(
    layout: str, chosen: str, play: Any, tmp_path: Path
) -> None:
    """Writing the value in use was no change, so it could not be chosen."""
    ours, theirs = play(layout, conflicting)
    a = copy_of(ours, tmp_path / "a", theirs.now)
    [conflict] = a.opened().conflicts()
    assert conflict.record.id == "FIND-0001"
    assert [each.value for each in conflict.fields["severity"]] == ["low", "critical"]
    a.write(lambda s: s.update("FIND-0001", severity=chosen), commit=None)
    assert a.opened().conflicts() == []
    assert a.opened().get("FIND-0001").severity == chosen
    assert [step["changes"]["severity"]["to"] for step in a.opened().history("FIND-0001")[1:]] == ["low", "critical", chosen]  # fmt: skip


def test_metadata_of_both_sides_is_united(layout: str, play: Any) -> None:
    def metadata_changed(origin: Clone) -> list[Clone]:
        a, b = origin.clone("a", 1), origin.clone("b", 2)
        a.write(lambda s: s.change_info(agents=["architect"], tags=["a"]))
        b.write(lambda s: s.change_info(agents=["veritas"], project="store"))
        a.pull(b)
        return [a, b]

    info = play(layout, metadata_changed)[0].opened().info
    assert (sorted(info.agents), info.tags, info.project) == (["architect", "veritas"], ["a"], "store")


# -- without the driver


def test_a_plain_merge_leaves_markers_and_loses_nothing(layout: str, play: Any) -> None:
    a, _ = play(layout, both_find_and_git_stops, "")
    assert any(line.startswith(MARKERS) for data in a.files().values() for line in data.splitlines())
    assert any(problem.startswith("conflict") for problem in a.problems())
    assert {"A finds", "B finds", "A decides", "B decides"} <= set(a.texts())


def test_a_plain_merge_with_markers_shows_no_memory_with_the_state_of_another(layout: str, play: Any) -> None:
    a, _ = play(layout, both_find_and_git_stops, "")
    records = {str(record.text): record for record in a.opened().records()}
    assert [records[f"{name} finds"].get("status") for name in "AB"] == [None, "resolved"]


@pytest.mark.parametrize("layout", ["jsonl", "single", "log"])
def test_union_merge_of_lines_loses_nothing(layout: str, play: Any) -> None:
    for clone in play(layout, both_find_and_one_resolves, UNION):
        assert clone.texts() == sorted([*BASE, "A decides", "A finds", "B decides", "B finds"])


@pytest.mark.parametrize("layout", ["jsonl", "single", "log"])
def test_a_union_merge_of_lines_shows_no_memory_with_the_state_of_another(layout: str, play: Any) -> None:
    for clone in play(layout, both_find_and_one_resolves, UNION):
        records = {str(record.text): record for record in clone.opened().records()}
        assert [records[f"{name} finds"].get("status") for name in "AB"] == [None, "resolved"]
        assert clone.problems() == []


def test_a_clone_without_the_driver_gets_a_conflict_and_not_a_wrong_merge(play: Any, tmp_path: Path) -> None:
    a = copy_of(play("markdown", rebased)[0], tmp_path / "a")
    b = a.clone("b", 5)
    a.write(lambda s: s.add_decision("A later"))
    b.write(lambda s: s.add_decision("B later"))
    a.git("config", "--remove-section", "merge.smp")
    a.pull(b, fails=True)
    assert {"A later", "B later"} <= set(a.texts())
