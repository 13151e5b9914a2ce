"""The public names, how a store is found and created, and how its settings come about."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import FormatTooNew, InvalidConfig, InvalidFormat, LayoutMismatch, SessionNotFound, StoreNotFound
from smp_memory.files.layouts import NAMES

SOURCE = str(Path(smp_memory.__file__).parents[1])


def test_public_names() -> None:
    assert {name for name in smp_memory.__all__ if getattr(smp_memory, name) is None} == set()
    assert smp_memory.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = smp_memory.nothing_here  # type: ignore[attr-defined]


def test_import_loads_few_modules() -> None:
    script = "import sys; before = set(sys.modules); import smp_memory; print(sorted(name for name in set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True, check=True)  # fmt: skip
    assert set(ast.literal_eval(result.stdout)) <= {"smp_memory", "__future__"}


def test_new_store_has_the_layout_jsonl_in_its_config(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "a" / "b")
    assert (memory.layout, memory.root) == ("jsonl", str(tmp_path / "a" / "b"))
    assert json.loads((tmp_path / "a/b/config.json").read_text()) == {"layout": "jsonl", "format": 1}
    assert "jsonl" in repr(memory)


def test_open_without_create_requires_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound):
        smp_memory.open(tmp_path / "none", create=False)
    assert list(tmp_path.iterdir()) == []
    smp_memory.open(tmp_path / "there")
    assert smp_memory.open(tmp_path / "there", create=False).sessions() == []


def test_the_layout_of_a_new_store_may_come_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert smp_memory.open(tmp_path / "one", config={"layout": "markdown"}).layout == "markdown"
    monkeypatch.setenv("SMP_LAYOUT", "single")
    assert smp_memory.open(tmp_path / "two").layout == "single"
    assert smp_memory.open(tmp_path / "one").layout == "markdown"
    assert smp_memory.open(tmp_path / "three", layout="log").layout == "log"
    assert smp_memory.open(tmp_path / "four", config={"layout": "log"}).layout == "log"
    with pytest.raises(LayoutMismatch):
        smp_memory.open(tmp_path / "one", config={"layout": "log"})
    monkeypatch.setenv("SMP_LAYOUT", "parchment")
    with pytest.raises(InvalidConfig, match="SMP_LAYOUT"):
        smp_memory.open(tmp_path / "five")
    assert not (tmp_path / "five").exists()


def test_the_nearest_store_upwards_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    with pytest.raises(StoreNotFound, match="smp init"):
        smp_memory.open()
    (tmp_path / "project" / ".bmad").mkdir()
    assert smp_memory.open().root == str(tmp_path / "project/.bmad/memory")
    assert smp_memory.open(layout="markdown").root == str(tmp_path / "project/.bmad/sessions")
    assert smp_memory.open(layout="markdown").layout == "markdown"
    assert smp_memory.open().layout == "jsonl"


def test_settings_from_file_environment_and_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smp_memory.open(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"layout": "jsonl", "format": 1, "durability": "interval", "storage": {"max_content_kb": 5}})
    )
    smp_memory.open(tmp_path).trust()  # because an edit of the file may have come from elsewhere
    assert smp_memory.open(tmp_path).config.durability == "interval"
    monkeypatch.setenv("SMP_DURABILITY", "os")
    assert smp_memory.open(tmp_path).config.durability == "os"
    assert smp_memory.open(tmp_path, config={"durability": "always"}).config.durability == "always"
    assert smp_memory.open(tmp_path).config.content_limit_bytes == 5 * 1024
    smp_memory.open(tmp_path).set_config("storage.max_content_kb", 6)
    assert smp_memory.open(tmp_path).config.content_limit_bytes == 6 * 1024
    smp_memory.open(tmp_path).set_config("storage.max_content_kb", None)
    assert smp_memory.open(tmp_path).config.content_limit_bytes == 1024 * 1024
    for bad in ('{"layout": "parchment"}', "{", "[]", '{"durability": 5}'):
        path.write_text(bad)
        memory = smp_memory.open(tmp_path)
        assert str(path) in str(memory.config.invalid[0])
        with pytest.raises(InvalidConfig, match="nothing is written"):
            memory.create_session()
        assert path.read_text() == bad


@pytest.mark.parametrize(
    "written",
    [
        {"privacy": {"auto_redaction": False}},
        {"privacy.auto_redaction": False},
        {"privacy.redaction.enabled": False},
        {"privacy.redaction": {"enabled": False, "off": ["phone"]}},
        {"privacy": {"redaction.enabled": False}},
        {"memory_config": {"privacy": {"redaction": {"enabled": False}}}},
    ],
)
def test_setting_can_be_changed_in_every_form_of_the_file(tmp_path: Path, written: dict[str, Any]) -> None:
    """Settings under another name, or with dots in the middle, were then given twice, and refused."""
    smp_memory.open(tmp_path).close()
    (tmp_path / "config.json").write_text(json.dumps({"layout": "jsonl", "format": 1, **written}))
    with smp_memory.open(tmp_path) as memory:
        assert [each.key for each in memory.config.held][:1] == ["privacy.redaction.enabled"]
        memory.trust()
    with smp_memory.open(tmp_path) as memory:
        assert memory.config["privacy.redaction.enabled"] is False
        memory.set_config("privacy.redaction.enabled", True)
    with smp_memory.open(tmp_path) as memory:
        assert memory.config.source("privacy.redaction.enabled") != "default"
        assert memory.config["privacy.redaction.enabled"] is True
        assert memory.config["privacy.redaction.off"] == written.get("privacy.redaction", {}).get("off", [])
        memory.set_config("privacy.redaction.enabled", None)
    assert smp_memory.open(tmp_path).config.source("privacy.redaction.enabled") == "default"


def test_store_of_a_newer_format_is_not_written(tmp_path: Path) -> None:
    smp_memory.open(tmp_path)
    (tmp_path / "config.json").write_text('{"layout": "jsonl", "format": 2, "new": true}')
    with pytest.raises(FormatTooNew, match="this version of smp knows formats up to"):
        smp_memory.open(tmp_path)
    assert (tmp_path / "config.json").read_text() == '{"layout": "jsonl", "format": 2, "new": true}'


def test_file_is_rejected_as_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(smp_memory.errors.SMPError):
        smp_memory.open(tmp_path / "file")


@pytest.mark.parametrize("address", ["mysql://somewhere", "file:///somewhere"])
def test_address_without_a_backend_is_rejected_and_creates_no_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFormat, match="no backend for"):
        smp_memory.open(address)
    assert list(tmp_path.iterdir()) == []


def test_clock_without_a_time_zone_is_rejected(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path, clock=lambda: datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidConfig, match="clock"):
        memory.create_session("s1")


def test_paths_may_be_relative_or_path_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    smp_memory.open("store").create_session("s1").add_decision("x")
    monkeypatch.chdir("/")
    assert smp_memory.open(tmp_path / "store").session("s1").get("DEC-0001").decision == "x"


def test_in_memory_stores_are_separate() -> None:
    smp_memory.open(":memory:").create_session("s1")
    assert smp_memory.open(":memory:").sessions() == []


def test_example_of_the_docstring_runs() -> None:
    memory = smp_memory.open(":memory:")
    session = memory.create_session(user="ada", agents=["architect"], project="shop")
    record = session.add_decision(
        "Use OAuth 2.0", rationale="Standard, supports SSO", author="architect", tags=["auth"]
    )
    assert (record.id, record.rationale) == ("DEC-0001", "Standard, supports SSO")


@pytest.mark.parametrize("layout", NAMES)
def test_a_setting_does_not_make_a_store_again_that_was_moved_away(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path / "store", layout=layout)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreNotFound):
        memory.set_config("durability", "os")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("layout", NAMES)
def test_a_store_may_be_named_by_a_link(tmp_path: Path, layout: str) -> None:
    """A conversion was committed and then refused to go through the link; from then on nobody could open it by that name."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real", target_is_directory=True)
    memory = smp_memory.open(link, layout=layout)
    memory.create_session("s").add_decision("x")
    memory = memory.convert("log" if layout != "log" else "single")
    memory.set_config("durability", "os")
    memory.archive_session("s")
    assert [record.text for record in smp_memory.open(link).session("s").records()] == ["x"]
    assert memory.root == os.path.realpath(tmp_path / "real")


def test_an_empty_name_is_not_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFormat, match="where"):
        smp_memory.open("")
    assert list(tmp_path.iterdir()) == []


def test_argument_of_a_wrong_kind_is_named_in_the_error(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("s")
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("where", lambda: smp_memory.open(5)),  # type: ignore[arg-type]
            ("where", lambda: smp_memory.open("a\0b")),
            ("config", lambda: smp_memory.open(tmp_path, config=["a"])),  # type: ignore[arg-type]
            ("clock", lambda: smp_memory.open(tmp_path, clock=5)),  # type: ignore[arg-type]
            ("items", lambda: session.add_many(None)),  # type: ignore[arg-type]
            ("items", lambda: session.agent("architect").add_many(7)),  # type: ignore[arg-type]
            ("last", lambda: session.records(last="3")),  # type: ignore[arg-type]
            ("last", lambda: session.records("turn", last=1.5)),  # type: ignore[arg-type]
        ]
        for field, call in calls:
            with pytest.raises(smp_memory.errors.SMPError) as caught:
                call()
            assert caught.value.field == field
            assert str(caught.value).startswith(f"{field}: must be ")
        assert session.records(last=0) == []


# -- the short way, and sessions that are made on demand


def test_remember_and_recall_need_no_session(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        first = memory.remember("We deploy on Tuesdays only, after the backup", tags=["deploy"])
        memory.remember("Use OAuth 2.0 for sign-in", "decision", author="ada")
        assert (first.type, first.ref) == ("learning", "default/LEARN-0001")
    with smp_memory.open(tmp_path / "store") as memory:
        hits = memory.recall("on which day do we deploy?")
        assert [hit.record.ref for hit in hits] == ["default/LEARN-0001"]
        assert memory.recall("who likes strawberry ice cream?") == []


def test_recall_takes_the_options_of_query(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        memory.remember("We deploy on Tuesdays only", "decision")
        memory.remember("The deploy of Tuesday was late", "finding")
        hits = memory.recall("on which day do we deploy?", types="finding", limit=1)
        assert [hit.record.type for hit in hits] == ["finding"]


def test_a_preference_with_a_key_has_its_text_as_value_in_every_way(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        memory.remember("concise", "preference", key="response_style")
        memory.remember("detailed", "preference", key="response_style")
        [only] = memory.session("default").records("preference")
        assert (only.key, only.value, only.preference) == ("response_style", "detailed", None)


def test_a_session_is_made_on_demand_and_opened_the_second_time(tmp_path):
    for count in (1, 2):
        with smp_memory.open(tmp_path / "store") as memory:
            session = memory.session("review", create=True, author="ada")
            session.add_decision(f"Decision {count}")
            assert [each.author for each in session.records()] == ["ada"] * count
    with smp_memory.open(tmp_path / "store") as memory, pytest.raises(SessionNotFound):
        memory.session("another")


def test_threads_that_make_one_session_at_once_get_the_same(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: memory.remember(f"fact {n}", session="made"), range(32)))
        assert len(memory.session("made").records()) == 32
        assert [each.id for each in memory.sessions()] == ["made"]


def test_the_session_global_is_there_when_it_is_named(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        memory.remember("Answer in German", "preference", session="global")
        assert [each.text for each in memory.global_memory.preferences()] == ["Answer in German"]
        assert memory.session("global").config["lifecycle.auto_archive"] is False
        assert "Answer in German" in str(memory.context("developer", task="write the release notes in which language?"))


def test_remembering_the_same_again_returns_the_memory_that_is_there(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        first = memory.remember("Deploys run on Tuesdays", tags=["deploy"])
        assert memory.remember("Deploys run on Tuesdays", tags=["deploy"]).id == first.id
        assert memory.remember("Deploys run on Tuesdays").id == "LEARN-0002"  # other fields
        memory.session("default").delete(first.id)
        again = [memory.remember("Deploys run on Tuesdays", tags=["deploy"]).id for _ in range(2)]
        assert again == ["LEARN-0003", "LEARN-0003"]
        memory.session("default").update("LEARN-0003", learning="Deploys run on Wednesdays")
        assert memory.remember("Deploys run on Tuesdays", tags=["deploy"]).id == "LEARN-0004"
        for value in ("A", "B", "A"):
            assert memory.remember(value, "preference", key="k").value == value
