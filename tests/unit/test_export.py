"""Exports and imports: atomic files, and files that are rejected."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import (
    FormatTooNew,
    InvalidFormat,
    SessionCorrupt,
    SessionExists,
    SizeLimitExceeded,
    SMPError,
    UserError,
)
from smp_memory.exchange.file_format import FORMATS
from smp_memory.files.layouts import NAMES
from smp_memory.testing import CrashingSystem, FrozenClock, PowerLoss

EVERY_FORMAT = pytest.mark.parametrize("format", FORMATS)


def opened(layout: str = "jsonl", **settings: Any) -> smp_memory.Memory:
    return smp_memory.open(":memory:", layout=layout, clock=FrozenClock(), **settings)


def told(memory: smp_memory.Memory, name: str = "s-1") -> smp_memory.SessionMemory:
    session = memory.create_session(name, user="Ada Lovelace", agents=["architect"], project="shop", phase="review")
    session.add_turn("user", "Ada asks: how do we log in?\n\n## Memory 7 - 2026\n---\n")
    session.add_decision("Use OAuth", author="architect", tags=["auth"], own={"a": [1, 1.0, True, None]})
    session.add_finding("Slow", author="veritas")
    session.update("DEC-0001", rationale="Ada wants it", by="ada")
    session.relate("DEC-0001", "FIND-0001", "resolves")
    session.pin("DEC-0001")
    session.update_agent_state("architect", {"path": "/home/ada/shop/main.py"})
    session.delete("FIND-0001", "not true", by="ada")
    return session


def shown(session: smp_memory.SessionMemory) -> Any:
    records = session.records(include_deleted=True)
    plain = [{**record.to_dict(), "session": ""} for record in records]
    return {**session.info.to_dict(), "id": ""}, plain, [session.history(record.id) for record in records]


# -- out


@EVERY_FORMAT
def test_export_file_is_private_and_complete(tmp_path: Path, format: str) -> None:
    session = told(opened())
    path = tmp_path / "out.x"
    assert session.export(path, format) == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == session.export(format=format)
    assert os.listdir(tmp_path) == ["out.x"]


@pytest.mark.parametrize(
    ("ending", "format"),
    [("json", "json"), ("jsonl", "jsonl"), ("yaml", "yaml"), ("YML", "yaml"), ("md", "markdown"), ("txt", "json")],
)
def test_file_extension_determines_the_format(tmp_path: Path, ending: str, format: str) -> None:
    session = told(opened())
    path = session.export(tmp_path / f"out.{ending}")
    assert Path(path).read_text() == session.export(format=format)


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    session = told(opened())
    path = tmp_path / "out.json"
    path.write_text("mine")
    with pytest.raises(UserError, match="force"):
        session.export(path)
    assert path.read_text() == "mine"
    session.export(path, force=True)
    assert json.loads(path.read_text())["smp_export"] == 1
    assert os.listdir(tmp_path) == ["out.json"]


def test_failed_export_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(SMPError):
        told(opened()).export(tmp_path / "missing" / "out.json")
    with pytest.raises(InvalidFormat, match="json, jsonl, yaml, markdown"):
        told(opened()).export(tmp_path / "x", "xml")
    assert os.listdir(tmp_path) == []


def test_whole_store_is_exported_and_imported(tmp_path: Path) -> None:
    memory = opened()
    sessions = [told(memory, "a"), told(memory, "b"), memory.create_session("empty")]
    path = memory.export(tmp_path / "all.jsonl")
    made = opened("markdown").import_(path)
    assert [session.id for session in made] == ["a", "b", "empty"]
    assert list(map(shown, made)) == list(map(shown, sessions))


def test_export_without_sessions_is_rejected() -> None:
    with pytest.raises(InvalidFormat):
        opened().import_(opened().export())


def test_export_is_logged_without_content(tmp_path: Path) -> None:
    memory = opened()
    told(memory).export(tmp_path / "out.yaml", anonymise=smp_memory.Placeholders())
    note = memory.store.audit.entries()[-1]
    assert note == {
        "at": note["at"],
        "action": "export",
        "session": "s-1",
        "count": 4,
        "format": "yaml",
        "anonymised": True,
        "to": str(tmp_path / "out.yaml"),
    }


def test_damaged_session_is_not_exported(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", layout="jsonl") as memory:
        session = told(memory)
        with open(os.path.join(session.folder, "decisions.jsonl"), "ab") as file:
            file.write(b"not an entry\n")
        with pytest.raises(SessionCorrupt, match=r"decisions\.jsonl:"):
            session.export(tmp_path / "out.json")
        assert not (tmp_path / "out.json").exists()
        session.repair()
        session.export(tmp_path / "out.json")


# -- in


@EVERY_FORMAT
@pytest.mark.parametrize("layout", NAMES)
def test_imported_session_is_equal(tmp_path: Path, format: str, layout: str) -> None:
    session = told(opened())
    memory = opened(layout)
    (again,) = memory.import_(session.export(tmp_path / "out", format))
    assert shown(again) == shown(session)
    assert again.id == "s-1"
    assert again.validate().ok
    assert again.get("DEC-0001").pinned
    assert memory.query("OAuth").ids == ["DEC-0001"]
    note = memory.store.audit.entries()[-1]
    assert (note["action"], note["session"], note["count"], note["format"]) == ("import", "s-1", 4, format)


def test_numbers_are_not_reused_after_import() -> None:
    session = told(opened())
    (again,) = opened().import_(session.export())
    assert again.add_finding("new").id == "FIND-0002"


def test_existing_session_is_not_changed() -> None:
    memory = opened()
    text = told(memory).export()
    before = shown(memory.session("s-1"))
    with pytest.raises(SessionExists, match="another id"):
        memory.import_(text)
    (again,) = memory.import_(text, session="s-2")
    assert shown(again) == shown(memory.session("s-1")) == before
    assert {session.id for session in memory.sessions()} == {"s-1", "s-2"}


def test_import_is_rejected_when_any_session_exists() -> None:
    memory = opened()
    told(memory, "a")
    told(memory, "b")
    text = memory.export()
    other = opened()
    told(other, "b")
    with pytest.raises(SessionExists):
        other.import_(text)
    with pytest.raises(InvalidFormat, match="only to a single one"):
        other.import_(text, session="c")
    assert [session.id for session in other.sessions()] == ["b"]


def test_secrets_are_redacted_on_import() -> None:
    off = {"privacy": {"redaction": {"enabled": False}}}
    session = opened(config=off).create_session("s", config=off, note="mail ada@example.org")
    session.add_decision("Ask ada@example.org")
    session.update("DEC-0001", rationale="bob@example.org")
    session.delete("DEC-0001", "says eve@example.org")
    memory = opened()
    (again,) = memory.import_(session.export())
    assert "@example.org" not in json.dumps(shown(again))
    assert memory.store.audit.entries()[-1]["kinds"] == {"email": 4}


def test_a_session_above_the_quota_is_refused() -> None:
    session = opened().create_session("s")
    for _ in range(40):
        session.add_decision("x" * 1000)
    memory = opened(config={"storage": {"max_session_size_mb": 0.02}})
    with pytest.raises(SizeLimitExceeded):
        memory.import_(session.export())
    assert memory.sessions() == []


@pytest.mark.parametrize("layout", NAMES)
def test_a_crash_leaves_all_or_nothing(layout: str) -> None:
    text = told(opened()).export()
    wanted = shown(told(opened()))
    calls = 0
    while True:
        calls += 1
        system = CrashingSystem()
        memory = smp_memory.open(":memory:", layout=layout, clock=FrozenClock(), system=system)
        system.crash_at = system.calls + calls
        try:
            memory.import_(text)
        except PowerLoss:
            for state in system.crash_states(limit=2, seed=calls):
                found = smp_memory.open(":memory:", clock=FrozenClock(), system=CrashingSystem(disk=state))
                assert [shown(session) for session in found.sessions()] in ([], [wanted])
        else:
            break
    assert calls > 10


# -- what must not come in


def lines_of(session: smp_memory.SessionMemory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in session.export(format="jsonl").splitlines()]


def broken(change: Any) -> bytes:
    items = lines_of(told(opened()))
    for item in items:
        item.pop("checksum")
    found = change(items)
    return b"\n".join(json.dumps(item).encode() for item in (items if found is None else found)) + b"\n"


def setting(at: int, **fields: Any) -> Any:
    def change(items: list[dict[str, Any]]) -> None:
        items[at].update(fields)

    return change


HOSTILE: dict[str, tuple[Any, int]] = {
    "an entry is missing": (lambda items: items[:-1], 0),
    "the head is missing": (lambda items: items[1:], 1),
    "an entry twice": (lambda items: [{**items[0], "entries": len(items)}, *items[1:], items[-1]], 0),
    "an id twice": (setting(3, id="DEC-0001", type="decision", decision="x"), 4),
    "a change of nothing": (setting(4, id="DEC-0099", uid="0000000000"), 5),
    "a revision too far": (setting(4, revision=9), 5),
    "an unknown type": (setting(2, type="spell"), 3),
    "a type that is none": (setting(2, type=7), 3),
    "no time": (setting(2, created=None), 3),
    "a time that is none": (setting(2, created="soon"), 3),
    "a name of a file above": (setting(0, id="../../etc/passwd"), 1),
    "a device's name": (setting(0, id="con"), 1),
    "an id of a memory above": (setting(2, id="../x"), 3),
    "an id that is none": (setting(2, id=["DEC-0001"]), 3),
    "a head of lists": (setting(0, context=[1]), 1),
    "tags that are none": (setting(0, tags=[{}]), 1),
    "a setting of the whole store": (setting(0, config={"layout": "log"}), 1),
    "a wrong pattern": (
        setting(0, config={"privacy": {"redaction": {"patterns": [{"type": "x", "regex": "(a+)+b"}]}}}),
        1,
    ),
    "more sessions than there are": (setting(0, part=[1, 2]), 0),
    "another part": (setting(0, part=[2, 2]), 1),
    "no export": (setting(0, smp_export=None), 1),
    "half a character": (setting(2, decision="\ud800"), 3),
    "very deep": (setting(2, own=json.loads("[" * 60 + "]" * 60)), 3),
    "a very long number": (setting(2, own=10**1000), 3),
    "a reason that is none": (lambda items: [*items[:-1], {**items[-1], "reason": {"a": 1}}], 0),
    "somebody who is nobody": (setting(4, updated_by={"a": 1}), 5),
    "nothing to say": (setting(2, decision=""), 3),
    "relations that are none": (setting(2, relations=[{"kind": 1, "target": {}}]), 3),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_inconsistent_file_is_rejected_with_its_line(name: str) -> None:
    change, line = HOSTILE[name]
    memory = opened()
    with pytest.raises(InvalidFormat) as caught:
        memory.import_(broken(change))
    assert caught.value.line == (line or caught.value.line)  # type: ignore[attr-defined]
    assert caught.value.message.startswith("the text:")
    assert len(caught.value.message) < 600
    assert memory.sessions() == []
    assert memory.store.audit.entries() == []


RAW: dict[str, bytes] = {
    "nothing": b"",
    "blank": b" \n\n",
    "something else": b"PK\x03\x04\0\0\0\0",
    "an image": bytes(range(256)) * 20,
    "a list": b"[]",
    "an object": b"{}",
    "no list": b'{"smp_export":1,"memories":{}}',
    "no objects": b'{"smp_export":1,"memories":[1]}',
    "an empty list": b'{"smp_export":1,"memories":[]}',
    "a name twice": b'{"smp_export":1,"memories":[{"id":"a","id":"b"}]}',
    "no number": b'{"smp_export":1,"memories":[{"id":NaN}]}',
    "deep": b'{"smp_export":1,"memories":' + b"[" * 200_000,
    "deep lines": b'{"id":"s","seq":0,"type":"session","context":' + b"[" * 200_000 + b"\n",
    "not text": b'{"smp_export":1,"memories":["\xff"]}',
    "cut off": b'{"smp_export":1,"memories":[{"id":',
    "yaml with code": b"memories:\n  - !!python/object/apply:os.system ['true']\n",
    "yaml with anchors": b"memories:\n  - &a id: s\n    b: *a\n",
    "yaml that laughs": b"memories:\n  - id: s\n    a: &a [x,x]\n    b: &b [*a,*a]\n    c: [*b,*b]\n",
    "yaml of nothing": b"memories:\n",
    "markdown of nothing": b"# Memories\n\n## Memory x - soon\n",
    "jsonl and conflicts": b'{"id":"s"}\n<<<<<<< mine\n{"id":"s"}\n',
}


@EVERY_FORMAT
def test_export_that_was_cut_after_a_line_is_rejected(format: str) -> None:
    memory = opened()
    memory.create_session("s-1").add_turn("user", "the end")
    whole = memory.session("s-1").export(format=format).encode()
    lines = whole.rstrip(b"\n-").splitlines(keepends=True)
    for count in range(len(lines)):
        other = opened()
        try:
            other.import_(b"".join(lines[:count]))
        except SMPError:
            assert other.sessions() == []
        else:
            assert len(other.session("s-1").records()) == 1, count


@pytest.mark.parametrize("name", RAW)
def test_file_that_is_not_an_export_is_rejected(name: str) -> None:
    memory = opened()
    for format in (None, *FORMATS):
        with pytest.raises(InvalidFormat) as caught:
            memory.import_(RAW[name], format)
        assert len(caught.value.message) < 600
    assert memory.sessions() == []


def test_newer_export_format_is_rejected() -> None:
    with pytest.raises(FormatTooNew):
        opened().import_(broken(setting(0, smp_export=2)))


def test_hand_edited_export_is_imported() -> None:
    text = told(opened()).export(format="yaml").replace("decision: Use OAuth", "decision: Use OAuth 2.0")
    (again,) = opened().import_(text)
    assert again.get("DEC-0001").decision == "Use OAuth 2.0"


def test_json_document_may_have_any_layout() -> None:
    session = told(opened())
    document = json.loads(session.export())
    (again,) = opened().import_(json.dumps(document, indent=4))
    assert shown(again) == shown(session)
    document["memories"][2]["type"] = "spell"
    pretty = json.dumps(document, indent=4)
    with pytest.raises(InvalidFormat) as caught:
        opened().import_(pretty)
    line = caught.value.line  # type: ignore[attr-defined]
    assert pretty.splitlines()[line : line + 4][-1].strip() == '"type": "spell",'


def test_metadata_cannot_set_fields_that_smp_writes() -> None:
    wrong = {"smp": {"format": 99}, "status": "gone", "session_id": "x", "type": "x", "id": "y", "user_id": "z"}
    for layout in NAMES:
        (again,) = opened(layout).import_(broken(setting(0, other={**wrong, "mine": 1})))
        assert again.info.user == "Ada Lovelace"
        assert again.info.other == {"mine": 1}
        assert again.validate().ok


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidFormat, match="no file"):
        opened().import_(tmp_path / "missing.json")
    with pytest.raises(SMPError):
        opened().import_(tmp_path)


# -- placeholders


def test_anonymised_export_contains_no_names() -> None:
    session = told(opened(), "adas-review")
    placeholders = smp_memory.Placeholders()
    for format in FORMATS:
        text = session.export(format=format, anonymise=placeholders)
        assert not any(name in text.lower() for name in ("ada", "lovelace", "shop", "/home"))
        (made,) = opened().import_(text)
        assert made.get("DEC-0001").relations == session.get("DEC-0001").relations
        assert made.get("DEC-0001").rationale.startswith("User-1")
        assert [step["by"] for step in made.history("FIND-0001")] != [
            step["by"] for step in session.history("FIND-0001")
        ]
        (back,) = opened().import_(text, restore=smp_memory.Placeholders.from_key(placeholders.key()))
        assert shown(back) == shown(session)
        assert back.id == session.id


@pytest.mark.parametrize("format", FORMATS)
def test_an_anonymised_export_has_no_uids_that_lead_to_the_original_and_no_names_beside_them(format: str) -> None:
    session = opened().create_session("adas-review", user="Ada")
    session.add_decision("Use OAuth", author="Ada")
    session.add_decision("Use it twice", references=["DEC-0001", "adas-review/DEC-0001"])
    histories = session.memory.store.session(session.id).history().histories
    uids = [history.first.uid for history in histories.values()]
    assert all(uids)
    text = session.export(format=format, anonymise=smp_memory.Placeholders())
    assert not any(word in text.lower() for word in ("adas", *uids))
    (made,) = opened().import_(text)
    assert made.validate().ok


def test_anonymised_copy_in_the_same_store() -> None:
    memory = opened()
    session = told(memory, "adas-review")
    before = shown(session)
    placeholders = smp_memory.Placeholders()
    copy = session.anonymised(placeholders=placeholders)
    assert copy.id == "Session-1"
    assert shown(session) == before
    assert "ada" not in json.dumps(shown(copy)).lower()
    assert [record.id for record in copy.records()] == [record.id for record in session.records()]
    assert session.anonymised().id == "Session-1-2"
    assert session.anonymised("mine").id == "mine"
    with pytest.raises(SessionExists):
        session.anonymised("mine")
    (back,) = opened().import_(copy.export(restore=placeholders))
    assert (back.id, shown(back)) == ("adas-review", before)
    assert [note["action"] for note in memory.store.audit.entries()].count("anonymise") == 3


def test_one_memory_is_anonymised() -> None:
    session = told(opened())
    shown_to_others = session.anonymised_record("DEC-0001")
    assert shown_to_others["rationale"] == "User-1 wants it" or shown_to_others["rationale"].startswith("User-1")
    assert session.get("DEC-0001").rationale == "Ada wants it"
    assert len(session.memory.sessions()) == 1


def test_agent_names_are_kept_unless_requested() -> None:
    session = told(opened())
    (kept,) = opened().import_(session.export(anonymise=smp_memory.Placeholders()))
    assert kept.get("DEC-0001").author == "architect"
    (hidden,) = opened().import_(session.export(anonymise=smp_memory.Placeholders(), agents=True))
    assert hidden.get("DEC-0001").author.startswith("Agent-")
    assert hidden.records("agent_state")[0].id.startswith("STATE-Agent-")
    assert hidden.validate().ok


def test_anonymise_and_restore_together_are_rejected() -> None:
    with pytest.raises(UserError):
        told(opened()).export(anonymise=smp_memory.Placeholders(), restore=smp_memory.Placeholders())


# -- what compaction moved away


@pytest.mark.parametrize("layout", NAMES)
def test_compacted_memories_are_exported_and_can_be_redacted(layout: str) -> None:
    off = {"privacy": {"redaction": {"enabled": False}}}
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", layout=layout, clock=clock, config=off)
    session = memory.create_session("s")
    for number in range(30):
        session.add_turn("user", f"Turn {number}: ask ada{number}@example.org about it. " * 3)
    before = {record.id: record.to_dict() for record in session.records()}
    clock.advance(days=60)
    session.compact("forced")
    cold = {memory.id for memory in session.archived()}
    assert cold
    (again,) = smp_memory.open(":memory:", clock=clock, config=off).import_(session.export())
    assert {record.id: record.to_dict() for record in again.records("turns")} == before
    (done,) = session.redact()
    assert cold <= set(done.memories)
    (clean,) = smp_memory.open(":memory:", clock=clock, config=off).import_(session.export())
    assert "ada" not in json.dumps(shown(clean))
    assert len(clean.records("turns")) == 30
    assert session.redact() == []
