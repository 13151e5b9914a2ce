"""Sessions that another program adds, removes, renames or changes are noticed by the next query of a new process.

The index keeps the stat data of every session. Each test has it saved for all sessions first, so that a query which trusted
it too much would miss the change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smp_memory
from smp_memory import search
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.integrations.hooks.reader import Reader
from tests.conformance.layout_files import DECISIONS, by_hand

SESSIONS = ("s1", "s2", "s3")
TICK_SECONDS = 0.06  # stat data is saved when the clock of the file system has ticked


@pytest.fixture(params=[0, 200], ids=["many sessions", "few sessions"])
def threshold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many sessions on a listing of all sessions and the time of the last check are saved."""
    monkeypatch.setattr("smp_memory.store.change_detection._MANY", request.param)


@pytest.fixture(params=NAMES)
def root(request: pytest.FixtureRequest, tmp_path: Path, threshold: None) -> Path:
    """A store of three sessions with an index that knows the stat data of all."""
    root = tmp_path / "store"
    with smp_memory.open(root, layout=request.param) as memory:
        for name in SESSIONS:
            session = memory.create_session(name)
            session.add_turn("user", f"What about {name}?")
            session.add_decision(f"Use original for {name}")
    index(root)
    return root


def index(root: Path) -> None:
    time.sleep(TICK_SECONDS)
    found(root, "original")
    with smp_memory.open(root) as memory, memory.store.indexer.feed.mutex:
        rows = memory.store.indexer.feed.caught_up(None).rows  # the premise of each test
        assert all(stats for _, _, stats in rows.stats_of_sessions())


def found(root: Path, word: str) -> list[str]:
    """The sessions in which a new process finds a word in a decision."""
    with smp_memory.open(root) as memory:
        hits = memory.query(word, types=["decision"], limit=50, track_access=False)
        return sorted(hit.record.session for hit in hits)


def place(root: Path, name: str) -> Path:
    """The folder or file of a session."""
    layout = layout_named(layout_of(root))
    return root / layout.sessions / name if layout.info_file else root / f"{name}.jsonl"


def layout_of(root: Path) -> str:
    with smp_memory.open(root) as memory:
        return memory.layout


def file_of(root: Path, name: str) -> Path:
    """The file with the decisions of a session."""
    there = place(root, name)
    return there / DECISIONS[layout_of(root)] if there.is_dir() else there


def edited(root: Path, old: str, new: str) -> bytes:
    data = file_of(root, "s2").read_bytes()
    assert old.encode() in data
    assert len(old) == len(new)
    return data.replace(old.encode(), new.encode())


def with_times_of(path: Path, status: os.stat_result) -> None:
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_copied_session_is_found(root: Path) -> None:
    source, target = place(root, "s2"), place(root, "copied")
    shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    assert found(root, "original") == ["copied", *SESSIONS]


def test_removed_session_is_not_found(root: Path) -> None:
    there = place(root, "s2")
    shutil.rmtree(there) if there.is_dir() else there.unlink()
    assert found(root, "original") == ["s1", "s3"]
    assert found(root, "original") == ["s1", "s3"]


def test_renamed_session_is_found_by_its_new_name_only(root: Path) -> None:
    place(root, "s2").rename(place(root, "s9"))
    assert found(root, "original") == ["s1", "s3", "s9"]


def test_two_sessions_that_changed_places_are_read_again(root: Path) -> None:
    spare = root / "spare"
    place(root, "s1").rename(spare)
    place(root, "s2").rename(place(root, "s1"))
    spare.rename(place(root, "s2"))
    with smp_memory.open(root) as memory:
        hits = memory.query("original", types=["decision"], track_access=False)
        assert {hit.record.session: hit.record.decision for hit in hits} == {
            "s1": "Use original for s2", "s2": "Use original for s1", "s3": "Use original for s3",
        }  # fmt: skip


def test_file_replaced_by_one_of_the_same_size_and_time_is_read_again(root: Path) -> None:
    """As a git checkout or rsync does."""
    path = file_of(root, "s2")
    status, new = path.stat(), path.with_name("checkout")
    new.write_bytes(edited(root, "original", "replaced"))
    with_times_of(new, status)
    new.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (found(root, "replaced"), found(root, "original")) == (["s2"], ["s1", "s3"])


def test_file_changed_in_place_with_the_same_size_and_time_is_read_again(root: Path) -> None:
    path = file_of(root, "s2")
    status, data = path.stat(), edited(root, "original", "replaced")
    path.write_bytes(data)
    with_times_of(path, status)
    assert (found(root, "replaced"), found(root, "original")) == (["s2"], ["s1", "s3"])


def test_second_edit_within_the_same_tick_is_noticed(root: Path) -> None:
    path = file_of(root, "s2")
    for old, new in (("original", "replaced"), ("replaced", "thirdone")):
        path.write_bytes(edited(root, old, new))
        assert found(root, new) == ["s2"]
    index(root)
    assert found(root, "thirdone") == ["s2"]


def test_appended_entry_is_found(root: Path) -> None:
    with open(file_of(root, "s2"), "a", encoding="utf-8") as file:
        file.write(by_hand(layout_of(root), "DEC-0007", "Typed by a person"))
    assert found(root, "person") == ["s2"]


def test_session_emptied_by_hand_and_filled_again_is_found(root: Path) -> None:
    there = place(root, "s2")
    if not there.is_dir():
        pytest.skip("a session is a file in this layout")
    kept = {path: path.read_bytes() for path in there.rglob("*") if path.is_file() and ".smp" not in path.parts}
    for path in kept:
        path.unlink()
    time.sleep(TICK_SECONDS)
    assert found(root, "original") == ["s1", "s3"]
    time.sleep(TICK_SECONDS)
    assert found(root, "original") == ["s1", "s3"]
    for path, data in kept.items():
        path.write_bytes(data)
    assert found(root, "original") == list(SESSIONS)


def test_session_without_memories_gets_its_first_one_by_hand(root: Path) -> None:
    with smp_memory.open(root) as memory:
        memory.create_session("empty")
    index(root)
    layout = layout_of(root)
    path = place(root, "empty") / DECISIONS[layout] if place(root, "empty").is_dir() else place(root, "empty")
    with open(path, "a", encoding="utf-8") as file:
        file.write(("decisions:\n" if layout == "markdown" else "") + by_hand(layout, "DEC-0001", "Typed by a person"))
    assert found(root, "person") == ["empty"]


def test_document_in_an_empty_folder_of_artifacts_is_found(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, layout="markdown") as memory:
        memory.create_session("s1").add_decision("Use original for s1")
    folder = root / "active/s1/artifacts"
    folder.mkdir()
    index(root)
    (folder / "plan.md").write_text("The zeppelin is inflated first.\n")
    with smp_memory.open(root) as memory:
        assert [hit.record.type for hit in memory.query("zeppelin", track_access=False)] == ["artifact"]


def test_file_whose_name_has_a_line_break_is_watched(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, layout="markdown") as memory:
        memory.create_session("s1").add_decision("Use original for s1")
    folder = root / "active/s1/artifacts"
    folder.mkdir()
    (folder / "two\nlines.md").write_text("The zeppelin is inflated first.\n")
    index(root)
    (folder / "two\nlines.md").write_text("The gondola is attached first.\n")
    with smp_memory.open(root) as memory:
        assert len(memory.query("gondola", track_access=False)) == 1


def test_time_in_the_far_future_does_not_hide_changes(root: Path) -> None:
    path = file_of(root, "s2")
    os.utime(path, (2**34, 2**34))
    assert found(root, "original") == list(SESSIONS)
    path.write_bytes(edited(root, "original", "replaced"))
    os.utime(path, (2**34, 2**34))
    assert found(root, "replaced") == ["s2"]


# -- a reader that leaves the check of files to another


@pytest.fixture
def deferring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("smp_memory.store.change_detection._MANY", 0)
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        for name in SESSIONS:
            memory.create_session(name).add_decision(f"Use original for {name}")
    index(root)
    return root


def found_at_a_prompt(root: Path, word: str) -> list[str]:
    """The sessions in which a prompt finds a word."""
    reader = Reader(str(root), {}, defers_file_checks=True)
    hits = search.path.query(reader.scope, word, {"track_access": False})
    return sorted({hit.record.session for hit in hits})


def test_prompt_finds_what_other_processes_wrote(deferring: Path) -> None:
    with smp_memory.open(deferring) as memory:
        memory.session("s2").add_decision("Use another one")
        assert found_at_a_prompt(deferring, "another") == ["s2"]
        memory.create_session("s4").add_decision("Use another one")
        assert found_at_a_prompt(deferring, "another") == ["s2", "s4"]
        memory.session("s2").delete("DEC-0002")
        assert found_at_a_prompt(deferring, "another") == ["s4"]


@pytest.mark.parametrize("layout", NAMES)
def test_first_session_of_a_store_is_in_the_change_table(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory:
        memory.create_session("s1")
    assert any((tmp_path / ".smp/changes").read_bytes())


def test_prompt_finds_replaced_added_and_removed_files(deferring: Path) -> None:
    path = file_of(deferring, "s2")
    new = path.with_name("checkout")
    new.write_bytes(edited(deferring, "original", "replaced"))
    new.replace(path)
    assert found_at_a_prompt(deferring, "replaced") == ["s2"]
    shutil.copytree(place(deferring, "s2"), place(deferring, "s5"))
    assert found_at_a_prompt(deferring, "replaced") == ["s2", "s5"]
    shutil.rmtree(place(deferring, "s2"))
    assert found_at_a_prompt(deferring, "replaced") == ["s5"]


def test_prompt_finds_an_edit_in_place_after_the_next_check(deferring: Path) -> None:
    file_of(deferring, "s2").write_bytes(edited(deferring, "original", "replaced"))
    found_at_a_prompt(deferring, "replaced")
    assert found(deferring, "replaced") == ["s2"]  # as the recording of the prompt queries the store
    assert found_at_a_prompt(deferring, "replaced") == ["s2"]


def test_prompt_checks_all_files_if_nobody_did_for_long(deferring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.store.change_detection._DEFER_SECONDS", 0)
    file_of(deferring, "s2").write_bytes(edited(deferring, "original", "replaced"))
    assert found_at_a_prompt(deferring, "replaced") == ["s2"]


def test_prompt_checks_all_files_if_there_is_no_change_table(deferring: Path) -> None:
    (deferring / ".smp/changes").unlink()
    file_of(deferring, "s2").write_bytes(edited(deferring, "original", "replaced"))
    assert found_at_a_prompt(deferring, "replaced") == ["s2"]


# -- metadata


@pytest.fixture(params=NAMES)
def of_one_user(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with two sessions of one user and one without a user, whose metadata the index knows."""
    root = tmp_path / "store"
    with smp_memory.open(root, layout=request.param) as memory:
        for name in ("s1", "s2"):
            memory.create_session(name, user="ada").add_decision(f"Use original for {name}")
        memory.create_session("hook").add_decision("Ask for the original")
    index(root)
    return root


def metadata_of(root: Path, name: str) -> Path:
    there = place(root, name)
    return there / layout_named(layout_of(root)).info_file if there.is_dir() else there


def seen_by_hook(root: Path) -> list[str]:
    """The sessions in a context of the session without a user, in a new process."""
    with smp_memory.open(root) as memory:
        context = memory.session("hook").context(task="original", max_tokens=5000)
        return sorted({item.record.session for item in context.items})


def test_user_changed_by_hand_in_place_takes_effect_at_once(of_one_user: Path) -> None:
    assert seen_by_hook(of_one_user) == ["hook", "s1", "s2"]
    path = metadata_of(of_one_user, "s2")
    status, data = path.stat(), path.read_bytes()
    path.write_bytes(data.replace(b"ada", b"bob"))
    with_times_of(path, status)
    assert seen_by_hook(of_one_user) == ["hook"]
    index(of_one_user)
    assert seen_by_hook(of_one_user) == ["hook"]
    path.write_bytes(data)
    assert seen_by_hook(of_one_user) == ["hook", "s1", "s2"]


def test_metadata_damaged_by_hand_counts_as_another_users(of_one_user: Path) -> None:
    path = metadata_of(of_one_user, "s2")
    path.write_bytes(b"{[" + path.read_bytes())
    assert "s2" not in seen_by_hook(of_one_user)
    time.sleep(TICK_SECONDS)
    found(of_one_user, "original")
    assert "s2" not in seen_by_hook(of_one_user)


def test_merge_conflict_in_metadata_counts_as_before_the_index_knew_it(of_one_user: Path) -> None:
    path = metadata_of(of_one_user, "s2")
    if not place(of_one_user, "s2").is_dir():
        pytest.skip("the metadata is an entry in this layout")
    lines = path.read_text().splitlines(keepends=True)
    line = next(number for number, text in enumerate(lines) if "ada" in text)
    conflict = ["<<<<<<< ours\n", lines[line], "=======\n", lines[line].replace("ada", "bob"), ">>>>>>> theirs\n"]
    path.write_text("".join([*lines[:line], *conflict, *lines[line + 1 :]]))
    at_once = seen_by_hook(of_one_user)
    time.sleep(TICK_SECONDS)
    found(of_one_user, "original")
    assert seen_by_hook(of_one_user) == at_once


def test_a_document_whose_file_name_is_not_utf_8_is_found(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", layout="markdown") as memory:
        session = memory.create_session("s1")
        session.add_decision("Orders use PostgreSQL")
        session.add_artifact("plan.md", "The plan of orders")
        folder = next((tmp_path / "store").rglob("artifacts"))
        path = os.path.join(os.fsencode(folder), b"caf\xe9.md")
        try:
            with open(path, "wb") as file:
                file.write(b"Orders of the coffee bar")
        except OSError:
            pytest.skip("this file system takes only names in UTF-8")
        assert memory.query("coffee bar").ids == ["ART-0002"]
    for command in (["query", "coffee bar"], ["query", "coffee bar", "--json"], ["doctor"], ["doctor", "--json"]):
        called = [sys.executable, "-m", "smp_memory", *command, "--root", str(tmp_path / "store")]
        done = subprocess.run(called, capture_output=True, check=False)
        assert b"Traceback" not in done.stderr, command
        assert done.returncode == 0 or command[0] == "doctor", done.stderr
    with smp_memory.open(tmp_path / "store") as memory:
        assert memory.query("coffee bar").ids == ["ART-0002"]


@pytest.mark.parametrize("tags", ["5", "true", "1.5", '{"a": 1}', '"one"', "null", "[7, null]"])
def test_tags_of_any_type_typed_by_hand_do_not_stop_queries(tmp_path: Path, tags: str) -> None:
    with smp_memory.open(tmp_path / "store", layout="single") as memory:
        memory.create_session("s1").add_decision("The kiosk gate opens at nine")
    [path] = [each for each in (tmp_path / "store").rglob("*.jsonl") if "kiosk" in each.read_text()]
    path.write_text(path.read_text().replace('"decision":"The kiosk', f'"tags":{tags},"decision":"The kiosk'))
    with smp_memory.open(tmp_path / "store") as memory:
        assert memory.query("kiosk gate").ids == ["DEC-0001"]
        assert memory.query("kiosk gate", count_by="tag").ids == ["DEC-0001"]
        assert memory.query("kiosk gate", topic="kiosk").ids == ["DEC-0001"]


@pytest.mark.parametrize("typed", ['"31.12.2020"', '"yesterday"', "2020", "[1]"])
def test_unreadable_validity_typed_by_hand_is_reported(tmp_path: Path, typed: str) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("s1").add_decision("The kiosk gate opens at nine")
    [path] = (tmp_path / "store").rglob("decisions.jsonl")
    path.write_text(path.read_text().replace('"decision":"The kiosk', f'"valid_until":{typed},"decision":"The kiosk'))
    with smp_memory.open(tmp_path / "store") as memory:
        problems = memory.session("s1").validate().problems
        assert [(each.code, each.id) for each in problems if each.code == "unreadable_validity"] == [
            ("unreadable_validity", "DEC-0001")
        ]
        assert memory.query("kiosk gate").ids == ["DEC-0001"]
        assert any("valid_until" in str(issue) for issue in memory.doctor().findings)
