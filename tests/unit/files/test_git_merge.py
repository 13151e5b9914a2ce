"""Three-way merge of session files by entries: copies of a store are changed apart and merged file by file."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.codec import CONFLICT, Codec, JsonLines
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.git.entry_files import CannotMerge, NotAStoreFile
from smp_memory.git.merge import merge
from smp_memory.testing import FrozenClock
from tests.conformance.layout_files import FOLDERS, blocks, decisions_file

Change = Callable[[smp_memory.SessionMemory], Any]
FAST = {"durability": "os"}


def clock_at(at: str) -> FrozenClock:
    return FrozenClock(datetime.fromisoformat(at))


@pytest.fixture(params=NAMES, scope="module")
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, layout: str) -> Path:
    """A store with a session of which clones are made."""
    root = tmp_path_factory.mktemp("made") / layout
    with smp_memory.open(root, layout=layout, clock=FrozenClock(), config=FAST) as memory:
        session = memory.create_session("s1", user="ada", project="shop")
        session.add_turn("user", "First words")
        session.add_decision("Use OAuth", author="ada")
        session.add_finding("No rate limit", severity="high")
        session.add("agent_state", agent="veritas", state={"task": "review"})
        session.add("artifact", name="plan.md", content="# Plan\n")
    return root


@pytest.fixture
def base(tmp_path: Path, made: Path) -> Path:
    shutil.copytree(made, tmp_path / "base")
    return tmp_path / "base"


def clone(base: Path, name: str, *changes: Change, at: str = "2026-03-01T10:00:00Z") -> Path:
    root = base.with_name(name)
    shutil.copytree(base, root)
    for found in root.rglob(".smp"):
        shutil.rmtree(found)
    if changes:
        with smp_memory.open(root, clock=clock_at(at), config=FAST) as memory:
            session = memory.session("s1")
            for change in changes:
                change(session)
    return root


def files(root: Path) -> dict[str, bytes]:
    found = [
        path
        for path in root.rglob("*")
        if path.is_file() and {".smp", "indexes"}.isdisjoint(path.parts) and path.name != "config.json"
    ]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def merged(base: Path, ours: Path, theirs: Path, name: str = "merged") -> tuple[Path, list[str]]:
    """A third store with the merged files, and the conflicts."""
    root = base.with_name(name)
    shutil.copytree(ours, root)
    for found in root.rglob(".smp"):
        shutil.rmtree(found)
    sides = [files(each) for each in (base, ours, theirs)]
    conflicts = []
    for file in sorted(sides[1].keys() | sides[2].keys()):
        result = merge(*(side.get(file, b"") for side in sides), file)
        conflicts += result.conflicts
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result.data)
    return root, conflicts


def texts(root: Path) -> dict[str, Any]:
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        return {f"{record.type}: {record.text}": record for record in memory.session("s1").records()}


def both_ways(base: Path, ours: Path, theirs: Path) -> tuple[Path, list[str]]:
    """The merge in one direction, which must equal the merge in the other."""
    there, conflicts = merged(base, ours, theirs, "there")
    back, others = merged(base, theirs, ours, "back")
    assert conflicts == others
    if not conflicts:
        assert files(there) == files(back)
    return there, conflicts


# -- what only one side did


def test_two_sides_that_only_appended_merge_without_a_conflict(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.add_finding("A one"), lambda s: s.add_turn("user", "A said"))
    theirs = clone(
        base,
        "theirs",
        lambda s: s.add_finding("B one"),
        lambda s: s.add_decision("B decides"),
        at="2026-03-01T11:00:00Z",
    )
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert texts(root).keys() >= {"finding: A one", "finding: B one", "conversation: A said", "decision: B decides"}
    assert len(texts(root)) == 9


def test_changes_of_different_fields_of_one_memory_merge_without_a_conflict(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", rationale="A standard"))
    theirs = clone(base, "theirs", lambda s: s.update("DEC-0001", importance=0.9), at="2026-03-01T11:00:00Z")
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    record = texts(root)["decision: Use OAuth"]
    assert (record.rationale, record.importance) == ("A standard", 0.9)


def test_same_value_on_both_sides_is_no_conflict(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", rationale="Same"))
    theirs = clone(base, "theirs", lambda s: s.update("DEC-0001", rationale="Same"), at="2026-03-01T11:00:00Z")
    assert both_ways(base, ours, theirs)[1] == []


def test_an_entry_removed_on_one_side_is_removed(base: Path, layout: str) -> None:
    ours, theirs = clone(base, "ours"), clone(base, "theirs", lambda s: s.add_decision("B decides"))
    path = decisions_file(ours, layout)
    parts = [part for part in blocks(layout, path.read_text()) if "Use OAuth" not in part]
    path.write_text("".join(parts))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert "decision: B decides" in texts(root)
    assert "decision: Use OAuth" not in texts(root)


def test_edit_by_hand_on_one_side_is_merged(base: Path, layout: str) -> None:
    ours, theirs = clone(base, "ours"), clone(base, "theirs", lambda s: s.add_decision("B decides"))
    path = decisions_file(ours, layout)
    path.write_text(path.read_text().replace("Use OAuth", "Use OAuth 2.1"))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert texts(root).keys() >= {"decision: Use OAuth 2.1", "decision: B decides"}


def test_deletion_and_restoration_merge_with_appends(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.delete("FIND-0001", reason="done"))
    theirs = clone(
        base, "theirs", lambda s: s.delete("DEC-0001"), lambda s: s.restore("DEC-0001"), at="2026-03-01T11:00:00Z"
    )
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert "decision: Use OAuth" in texts(root)
    assert "finding: No rate limit" not in texts(root)


def test_duplicate_entry_is_merged_once(base: Path) -> None:
    picked = clone(base, "picked", lambda s: s.add_decision("Picked"))
    ours = clone(picked, "ours", lambda s: s.add_decision("A decides"))
    theirs = clone(picked, "theirs", lambda s: s.add_decision("B decides"), at="2026-03-01T11:00:00Z")
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert sum(data.count(b"Picked") for data in files(root).values()) == 1


# -- conflicts


def test_one_field_changed_to_different_values_is_a_conflict(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.update("FIND-0001", severity="low"))
    theirs = clone(base, "theirs", lambda s: s.update("FIND-0001", severity="critical"), at="2026-03-01T11:00:00Z")
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == ["FIND-0001: both sides changed severity."]
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        session = memory.session("s1")
        assert [problem.code for problem in session.validate().problems if problem.code == CONFLICT]
        assert [step["changes"]["severity"]["to"] for step in session.history("FIND-0001")[1:]] == ["low", "critical"]


def test_a_conflict_in_a_transaction_keeps_the_transaction_together(base: Path) -> None:
    def both(text: str, severity: str) -> Change:
        def change(session: smp_memory.SessionMemory) -> None:
            with session.transaction() as tx:
                tx.update("FIND-0001", severity=severity)
                tx.add_finding(text)

        return change

    ours = clone(base, "ours", both("A noticed", "low"))
    theirs = clone(
        base, "theirs", both("B noticed", "critical"), lambda s: s.add_finding("B later"), at="2026-03-01T11:00:00Z"
    )
    root, conflicts = both_ways(base, ours, theirs)
    assert len(conflicts) == 1
    for file, data in files(root).items():  # a person takes the markers out and keeps everything
        kept = [
            line for line in data.splitlines(keepends=True) if not line.startswith((b"<<<<<<<", b"=======", b">>>>>>>"))
        ]
        (root / file).write_bytes(b"".join(kept))
    assert texts(root).keys() >= {"finding: A noticed", "finding: B noticed", "finding: B later"}


def test_an_entry_edited_differently_on_both_sides_is_a_conflict(base: Path, layout: str) -> None:
    ours, theirs = clone(base, "ours"), clone(base, "theirs")
    for root, text in ((ours, "Use OAuth 2.1"), (theirs, "Use OpenID")):
        path = decisions_file(root, layout)
        path.write_text(path.read_text().replace("Use OAuth", text))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts[0] == "DEC-0001 was edited on both sides."
    text = decisions_file(root, layout).read_text()
    assert text.index("<<<<<<< ours") < text.index("Use OpenID") < text.index("=======") < text.index("2.1") or (
        text.index("<<<<<<< ours") < text.index("2.1") < text.index("=======") < text.index("Use OpenID")
    )


def test_an_entry_edited_on_one_side_and_removed_on_the_other_is_a_conflict(base: Path, layout: str) -> None:
    ours, theirs = clone(base, "ours"), clone(base, "theirs")
    path = decisions_file(ours, layout)
    path.write_text(path.read_text().replace("Use OAuth", "Use OAuth 2.1"))
    path = decisions_file(theirs, layout)
    path.write_text("".join(part for part in blocks(layout, path.read_text()) if "Use OAuth" not in part))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == ["DEC-0001 was edited on one side and removed on the other."]
    assert "Use OAuth 2.1" in decisions_file(root, layout).read_text()


def test_a_change_of_a_memory_that_the_other_side_removed_is_a_conflict(base: Path, layout: str) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", rationale="A standard"))
    theirs = clone(base, "theirs")
    path = decisions_file(theirs, layout)
    path.write_text("".join(part for part in blocks(layout, path.read_text()) if "Use OAuth" not in part))
    assert both_ways(base, ours, theirs)[1] == ["DEC-0001 was changed on one side and removed on the other."]


def test_states_of_one_agent_are_a_conflict_when_they_differ(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.add("agent_state", agent="scribe", state={"page": 1}))
    theirs = clone(base, "theirs", lambda s: s.add("agent_state", agent="scribe", state={"page": 2}))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == ["STATE-scribe: both sides changed state."]
    data = b"".join(files(root).values())
    assert data.count(b"<<<<<<< ours") == 1


def test_a_field_edited_by_hand_and_changed_on_the_other_side_is_a_conflict(base: Path, layout: str) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", decision="Use OpenID", rationale="newer"))
    theirs = clone(base, "theirs")
    path = decisions_file(theirs, layout)
    path.write_text(path.read_text().replace("Use OAuth", "Use OAuth 2.1"))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == ["DEC-0001: both sides changed decision."]
    text = decisions_file(root, layout).read_text()
    assert text.count("<<<<<<< ours") == 1
    assert "Use OpenID" in text
    assert "Use OAuth 2.1" in text


def test_a_field_edited_by_hand_and_another_changed_is_no_conflict(base: Path, layout: str) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", rationale="newer"))
    theirs = clone(base, "theirs")
    path = decisions_file(theirs, layout)
    path.write_text(path.read_text().replace("Use OAuth", "Use OAuth 2.1"))
    root, conflicts = both_ways(base, ours, theirs)
    assert conflicts == []
    assert texts(root)["decision: Use OAuth 2.1"].rationale == "newer"


def test_change_reverted_on_one_side_and_overlaid_on_the_other_is_no_conflict(base: Path, layout: str) -> None:
    """`git revert` of a change that a later one has overlaid."""
    changed = clone(base, "changed", lambda s: s.update("DEC-0001", rationale="first"))
    ours = clone(changed, "ours", lambda s: s.update("DEC-0001", rationale="second"), at="2026-03-01T11:00:00Z")
    root, conflicts = merged(changed, ours, base)
    assert conflicts == []
    assert texts(root)["decision: Use OAuth"].rationale == "second"


def test_use_counts_are_never_a_conflict(base: Path, layout: str) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", access={"count": 2, "last": "2026-03-01T10:00:00Z"}))
    theirs = clone(base, "theirs", lambda s: s.update("DEC-0001", access={"count": 5, "last": "2026-03-02T10:00:00Z"}))
    assert both_ways(base, ours, theirs)[1] == []


# -- what people wrote around the entries


def test_comments_and_header_are_kept(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with smp_memory.open(base, layout="markdown", clock=FrozenClock()) as memory:
        memory.create_session("s1").add_decision("Use OAuth")
    ours = clone(base, "ours", lambda s: s.add_decision("A decides"))
    theirs = clone(base, "theirs", lambda s: s.add_decision("B decides"), at="2026-03-01T11:00:00Z")
    path = decisions_file(ours, "markdown")
    path.write_text(
        path.read_text().replace("\n  - id: DEC-0001", "\n# ask ada about this one\n  - id: DEC-0001") + "# the end\n"
    )
    path = decisions_file(theirs, "markdown")
    path.write_text(path.read_text().replace("# Decisions of s1.", "# What we decided."))
    root, conflicts = both_ways(base, ours, theirs)
    text = decisions_file(root, "markdown").read_text()
    assert conflicts == []
    assert text.startswith("# What we decided.")
    assert text.count("# ask ada about this one\n  - id: DEC-0001") == text.count("# the end\n") == 1
    assert texts(root).keys() == {"decision: Use OAuth", "decision: A decides", "decision: B decides"}


def test_entries_moved_on_one_side_stay_moved(base: Path, layout: str) -> None:
    with smp_memory.open(base, clock=FrozenClock()) as memory:
        memory.session("s1").add_decision("Use Postgres")
    ours, theirs = clone(base, "ours", lambda s: s.add_decision("A decides")), clone(base, "theirs")
    path = decisions_file(theirs, layout)
    first, second = (
        next(part for part in blocks(layout, path.read_text()) if word in part)
        for word in ("Use OAuth", "Use Postgres")
    )
    path.write_text(path.read_text().replace(second, "").replace(first, second + first))
    root, conflicts = both_ways(base, ours, theirs)
    text = decisions_file(root, layout).read_text()
    assert conflicts == []
    assert text.index("Use Postgres") < text.index("Use OAuth") < text.index("A decides")


# -- the metadata of sessions


def heads(root: Path, layout: str) -> tuple[Path, str]:
    path = root / FOLDERS[layout] / (layout_named(layout).info_file or "s1.jsonl")
    return path, path.read_text()


def test_metadata_merges_field_by_field(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.change_info(agents=["architect"], tags=["a"], project="store"))
    theirs = clone(base, "theirs", lambda s: s.change_info(agents=["veritas"], tags=["b"], context={"phase": "review"}))
    root, conflicts = merged(base, ours, theirs)
    assert conflicts == []
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        info = memory.session("s1").info
    assert (sorted(info.agents), sorted(info.tags)) == (["architect", "veritas"], ["a", "b"])
    assert (info.project, info.context, info.user) == ("store", {"phase": "review"}, "ada")


def test_metadata_changed_differently_on_both_sides_is_a_conflict(base: Path, layout: str) -> None:
    ours = clone(base, "ours", lambda s: s.change_info(project="store", agents=["architect"]))
    theirs = clone(base, "theirs", lambda s: s.change_info(project="kiosk"))
    root, conflicts = both_ways(base, ours, theirs)
    _, text = heads(root, layout)
    assert len(conflicts) == 1
    assert conflicts[0].endswith("project_name.")
    assert text.count("<<<<<<< ours") == text.count(">>>>>>> theirs") == 1
    assert "store" in text
    assert "kiosk" in text


def test_a_session_created_in_two_clones_gets_one_metadata(tmp_path: Path, layout: str) -> None:
    base = tmp_path / "base"
    smp_memory.open(base, layout=layout).close()
    sides = []
    for name, at in (("ours", "2026-03-01T10:00:00Z"), ("theirs", "2026-03-02T10:00:00Z")):
        root = base.with_name(name)
        shutil.copytree(base, root)
        with smp_memory.open(root, clock=clock_at(at)) as memory:
            memory.create_session("s1", user="ada", agents=[name]).add_decision(f"{name} decides")
        sides.append(root)
    root, conflicts = merged(base, *sides)
    assert conflicts == []
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        info = memory.session("s1").info
    assert info.created_text.startswith("2026-03-01T10:00")
    assert sorted(info.agents) == ["ours", "theirs"]


def test_uid_times_and_counters_of_metadata_merge_without_a_conflict() -> None:
    ours = {
        "created_at": "2026-01-02T00:00:00Z",
        "updated_at": "2026-01-05T00:00:00Z",
        "message_count": 4,
        "smp": {"uid": "bbbb", "seq": 7},
    }
    theirs = {
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-04T00:00:00Z",
        "message_count": 6,
        "smp": {"uid": "aaaa", "seq": 9},
    }
    result = merge(b"", json.dumps(ours).encode(), json.dumps(theirs).encode(), "sessions/s1/manifest.json")
    assert result.conflicts == []
    assert json.loads(result.data) == {"created_at": "2026-01-01T00:00:00Z", "message_count": 6, "smp": {"uid": "aaaa", "seq": 9}}, "figures are computed anew"  # fmt: skip


def test_list_item_removed_on_one_side_stays_removed() -> None:
    base, ours, theirs = ({"tags": tags} for tags in (["a", "b"], ["a"], ["a", "b", "c"]))
    result = merge(*(json.dumps(each).encode() for each in (base, ours, theirs)), "metadata.json")
    assert json.loads(result.data) == {"tags": ["a", "c"]}


# -- random histories

CODECS: dict[str, Codec] = {
    "findings.jsonl": JsonLines(),
    "findings.yaml": layout_named("markdown").codec_of("findings.yaml"),
    "conversation.md": layout_named("markdown").codec_of("conversation.md"),
}


class Entries:
    """Entries of a file by a name that never changes, and what happens to them by chance."""

    def __init__(self, chance: random.Random, file: str) -> None:
        self.chance, self.codec, self.count = chance, CODECS[file], 0

    def new(self, known: dict[str, bytes]) -> None:
        self.count += 1
        name = f"w{self.count}w"
        fields: dict[str, Any] = {"id": f"FIND-{self.chance.randint(1, 4):04}", "seq": self.chance.randint(1, 9)}
        fields |= {"timestamp": f"2026-01-0{self.chance.randint(1, 3)}T00:00:00Z", "content": name}
        if self.chance.random() < 0.8:
            fields["uid"] = f"uid{self.count}"
        known[name] = self.codec.encode(fields)

    def changed(self, base: dict[str, bytes]) -> dict[str, bytes]:
        """A side: some entries added, edited, removed."""
        side = dict(base)
        for name in base:
            what = self.chance.choice(("keep", "keep", "keep", "edit", "remove"))
            if what == "remove":
                del side[name]
            elif what == "edit":
                side[name] = side[name].replace(name.encode(), f"{name} edited {self.chance.randint(1, 2)}".encode())
        for _ in range(self.chance.randint(0, 4)):
            self.new(side)
        return side

    def file(self, known: dict[str, bytes]) -> bytes:
        return (self.codec.header("Findings") if known else b"") + b"".join(known.values())


@pytest.mark.parametrize("file", CODECS)
def test_random_merges_lose_and_duplicate_nothing(file: str) -> None:
    for seed in range(150):
        entries = Entries(random.Random(seed), file)
        base: dict[str, bytes] = {}
        for _ in range(entries.chance.randint(0, 5)):
            entries.new(base)
        ours, theirs = entries.changed(base), entries.changed(base)
        data = merge(entries.file(base), entries.file(ours), entries.file(theirs), file).data
        for name in base.keys() | ours.keys() | theirs.keys():
            before, one, other = base.get(name), ours.get(name), theirs.get(name)
            wanted = {one, other} - {before} - {None} if before is not None else {one or other}
            if not wanted and one is not None and other is not None:
                wanted = {before}
            expected = {text.strip() for text in wanted if text is not None}
            assert all(data.count(text) == 1 for text in expected), (seed, name)
            assert expected or name.encode() not in data, (seed, name)


# -- what cannot be merged


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("s/findings.jsonl", b'<<<<<<< HEAD\n{"id":"FIND-0001"}\n'),
        ("s/findings.jsonl", b'{"id":"FIND-0001","se'),
        ("s/findings.yaml", b"findings:\n\n  - id: FIND-0001\n    finding: [\n"),
        ("s/metadata.yaml", b"session: {a: [\n"),
        ("s/manifest.json", b'{"a": 1,'),
        ("s/manifest.json", b"[1]"),
        (
            "s/conversation.md",
            b"# C\n\n---\n\nstray text\n\n## Turn 1 - 2026-01-01 10:00:00\n\nHello\n\n---\n\nstray\n",
        ),
    ],
)
def test_unreadable_file_raises_cannot_merge(file: str, data: bytes) -> None:
    with pytest.raises(CannotMerge):
        merge(b"", data, data + b"\n", file)


def test_a_damaged_line_of_json_is_kept() -> None:
    base = b'{"id":"A","ts":"1"}\nbroken {\n'
    result = merge(base, base + b'{"id":"B","ts":"2"}\n', base + b'{"id":"C","ts":"3"}\n', "s.jsonl")
    assert (result.conflicts, result.data) == ([], base + b'{"id":"B","ts":"2"}\n{"id":"C","ts":"3"}\n')


def test_file_that_is_not_of_a_store_is_left_to_git() -> None:
    with pytest.raises(NotAStoreFile):
        merge(b"a\n", b"a\nb\n", b"c\na\n", ".bmad/sessions/README.md")


def test_base_with_conflict_markers_is_accepted() -> None:
    """Git merges several common ancestors into one, which may hold the conflict of that merge."""
    line = '{{"id":"FIND-0001","seq":{},"updated":"2026-01-0{}T00:00:00Z","changes":{{"severity":"{}"}},"uid":"abcdefgh"}}\n'
    put = b'{"id":"FIND-0001","seq":1,"timestamp":"2026-01-01T00:00:00Z","finding":"x","uid":"abcdefgh"}\n'
    one, two = (line.format(2, day, value).encode() for day, value in ((2, "low"), (3, "high")))
    base = put + b"<<<<<<< ours\n" + one + b"=======\n" + two + b">>>>>>> theirs\n"
    three, four = (line.format(seq, 5, "medium").encode() for seq in (5, 6))
    result = merge(base, put + one + two + three, put + one + two + four, "findings.jsonl")
    assert (result.conflicts, result.data) == ([], put + one + two + three + four)


def test_line_ends_do_not_matter() -> None:
    base = b'{"id":"A","ts":"1"}\n'
    ours, theirs = b'{"id":"A","ts":"1"}\r\n{"id":"B","ts":"2"}\r\n', base + b'{"id":"C","ts":"3"}\n'
    assert merge(base, ours, theirs, "s.jsonl").data == base + b'{"id":"B","ts":"2"}\n{"id":"C","ts":"3"}\n'


def test_conflicts_name_ids_and_fields_and_never_content(base: Path) -> None:
    ours = clone(base, "ours", lambda s: s.update("DEC-0001", rationale="private words"))
    theirs = clone(base, "theirs", lambda s: s.update("DEC-0001", rationale="other words"))
    conflicts = both_ways(base, ours, theirs)[1]
    assert conflicts
    assert not any("words" in about for about in conflicts)
