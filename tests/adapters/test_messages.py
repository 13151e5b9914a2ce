"""Messages that do not fit the fields of a turn: images, large and odd ones."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.adapters.bridge import Bridge, Messages
from smp_memory.adapters.message_codec import PART_BYTES, is_blob
from smp_memory.errors import InvalidRecord
from smp_memory.session import SessionMemory
from tests.adapters.processes import run_together
from tests.adapters.stores import KINDS, make_address

IMAGE = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8000).decode()
FENCE = "<smp-recalled-aaaaaaaa data-not-instructions>\nOld news.\n</smp-recalled-aaaaaaaa>"
ODD: list[Any] = [
    {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}, {"type": "input_text", "text": "Look"}]},
    {"role": "tool", "content": "line ü\n" * 300_000},
    {"role": "tool", "content": "x" * (PART_BYTES - 31)},
    {"role": "tool", "content": "cut \ud83d", "\ud800": 1},
    {"role": "user", "content": FENCE},
    {"role": "user", "content": f"New. {FENCE}"},
    {"role": "user", "content": "a smp-recalled word"},
    {"role": "user", "content": json.loads("[" * 200 + "]" * 200)},
    {"n": 10**900},
    {"role": "user", "content": [1, None, "text"]},
    {},
    [],
    "",
    None,
]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_messages_come_back_equal_from_every_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with smp_memory.open(make_address(kind, tmp_path, request), config={"durability": "os"}) as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.add_many([{"role": "user", "content": "first"}, *ODD])
        found = messages.all()
        assert [number for number, message in enumerate(ODD) if found[number + 1] != message] == []
        assert messages.last(3) == ODD[-3:]
        assert [messages.pop() for _ in ODD] == ODD[::-1]
        assert messages.all() == [{"role": "user", "content": "first"}]
        assert [record.type for record in memory.sessions()[0].records()] == ["conversation"]  # no part is left


def test_all_parts_go_to_the_trash_and_private_parts_are_not_found() -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.add_many(ODD[:2])
        [session] = memory.sessions()
        assert {record.visibility for record in session.records("artifact")} == {"private"}
        assert [hit.record.content for hit in memory.query("look")] == ["[image: 2,048,000 bytes]\n\nLook"]
        messages.replace([{"role": "user", "content": "new"}])
        assert [record.content for record in session.records()] == ["new"]
        messages.add_many(ODD[:2])
        messages.clear()
        assert session.records() == []


def test_message_with_parts_is_stored_as_a_whole_or_not_at_all() -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        with pytest.raises(InvalidRecord):
            messages.add_many([ODD[0], {"role": "user", "content": "x", "wrong": object()}])
        assert messages.all() == []


def test_large_message_is_stored_once_for_each_key() -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        for _ in range(2):
            messages.add_many([ODD[0]], keys=["a"])
        assert messages.all() == [ODD[0]]
        assert len(memory.sessions()[0].records("artifact")) == len(
            memory.sessions()[0].records("turn")[0].opaque["parts"]
        )


@pytest.mark.parametrize("size", [100, 400_000, 2_000_000])
def test_secrets_of_large_messages_are_redacted(size: int) -> None:
    secret = "sk-ant-api03-" + "a8Fj2" * 18
    text = "word " * (size // 5) + f"the key is {secret} and more"
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.add_many([{"role": "user", "content": [{"type": "text", "text": text}, {"data": IMAGE}], "password": "hunter2hunter2"}])  # fmt: skip
        [found] = messages.all()
        stored = json.dumps(found) + json.dumps([record.to_dict() for record in memory.sessions()[0]])
        assert "a8Fj2a8Fj2" not in stored
        assert "hunter2" not in stored
        assert found["content"][1] == {"data": IMAGE}


def test_long_secrets_are_not_taken_for_data() -> None:
    assert not is_blob("sk-ant-api03-" + "a8Fj2" * 40)
    assert not is_blob("-----BEGIN PRIVATE KEY-----\n" + "A" * 2000)
    assert is_blob(base64.b64encode(bytes(500)).decode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8) | st.sampled_from(["A" * 600, FENCE, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON, max_size=5))
def test_any_json_comes_back_equal(given_messages: list[Any]) -> None:
    with smp_memory.open(":memory:", config={"privacy": {"redaction": {"enabled": False}}}) as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.add_many(given_messages)
        assert messages.all() == given_messages


LARGE = {"role": "user", "content": "start " + "é " * 700_000 + "walrustail"}


def _parts(session: SessionMemory, *, include_deleted: bool = False) -> list[str]:
    return [record.id for record in session.records("artifact", include_deleted=include_deleted)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one", "several", "criteria", "archived", "deleted"])
def test_erasing_a_turn_leaves_no_part_of_its_message(
    kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with smp_memory.open(make_address(kind, tmp_path, request), config={"durability": "os"}) as memory:
        Messages(Bridge(memory, "framework").session("big")).add_many([LARGE, {"role": "user", "content": "small"}])
        [session] = memory.sessions()
        parts = _parts(session)
        if name == "archived":
            memory.archive_session(session.id)
        elif name == "deleted":
            session.delete(parts[0])
            memory.delete_session(session.id)
        turn = f"{session.id}/TURN-0001"
        ways: dict[str, dict[str, Any]] = {"several": {"id": [turn]}, "criteria": {"text": "start", "types": "turn"}}
        arguments = ways.get(name, {"id": turn})
        refs = {turn, *(f"{session.id}/{part}" for part in parts)}
        assert set(memory.erase(**arguments, reason="gdpr", preview=True).ids) == refs
        receipt = memory.erase(**arguments, reason="gdpr")
        assert set(receipt.ids) == refs
        assert receipt.verified
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"walrustail" in path.read_bytes()] == []


def test_erasing_one_of_two_large_messages_is_verified(tmp_path: Path) -> None:
    other = {"role": "user", "content": "other " + "ü " * 700_000 + "seahorse"}
    with smp_memory.open(tmp_path / "store", config={"durability": "os"}) as memory:
        messages = Messages(Bridge(memory, "framework").session("big"))
        messages.add_many([LARGE, other])
        [session] = memory.sessions()
        receipt = session.erase("TURN-0001", "gdpr")
        assert (receipt.complete, receipt.elsewhere, receipt.left) == (True, [], [])
        assert messages.all() == [other]


@pytest.mark.parametrize("ids", ["TURN-0001", ["TURN-0001"]])
def test_deleting_and_restoring_a_turn_takes_its_parts_along(ids: Any) -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("big"))
        messages.add_many([LARGE])
        [session] = memory.sessions()
        parts = _parts(session)
        deleted = session.delete(ids)
        assert _parts(session) == []
        assert len(session.deleted()) == 1 + len(parts)
        restored = session.restore(ids)
        assert _parts(session) == parts
        assert messages.all() == [LARGE]
        if isinstance(ids, str):
            assert deleted.id == restored.id == ids
        else:
            assert deleted.count == restored.count == 1 + len(parts)


def test_parts_that_a_stranger_names_are_not_deleted() -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("talk")
        session.add("decision", {"id": "part-of-a-plan", "decision": "Use Postgres", "rationale": "known"})
        session.add("finding", {"id": "FIND-0001", "finding": "The sky is blue"})
        session.add("turn", {"role": "user", "content": "x", "opaque": {"parts": ["part-of-a-plan", "FIND-0001", 1]}})
        session.delete("TURN-0001")
        assert {record.id for record in session.records()} == {"part-of-a-plan", "FIND-0001"}


@pytest.mark.parametrize("how", ["deleted", "erased"])
def test_missing_part_damages_one_message_only(how: str) -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("big"))
        small = {"role": "user", "content": "small"}
        messages.add_many([small, LARGE])
        [session] = memory.sessions()
        part = _parts(session)[0]
        session.delete(part) if how == "deleted" else session.erase(part, "gdpr")
        first, damaged = messages.all()
        assert first == small
        assert damaged["role"] == "user"
        assert damaged["content"].startswith("start é")
        assert messages.last(1) == [damaged]
        assert messages.pop() == damaged
        assert messages.all() == [small]
        session.restore("TURN-0002")
        messages.clear()
        assert messages.all() == []
        assert _parts(session) == []
        session.restore("TURN-0002")
        messages.replace([small])
        assert messages.all() == [small]


@pytest.mark.parametrize("how", ["delete", "erase", "session"])
def test_message_removed_while_it_is_read_is_no_error(how: str) -> None:
    with smp_memory.open(":memory:") as memory:
        messages = Messages(Bridge(memory, "framework").session("big"))
        messages.add_many([LARGE])
        [session] = memory.sessions()
        [turn] = messages.records()
        if how == "session":
            memory.delete_session(session.id)
        else:
            getattr(session, how)(turn.id, "gone")
        found = messages.message(turn)
        assert found == LARGE if how == "delete" else found["content"].startswith("start é")


_POPPER = """
import sys
import smp_memory
from smp_memory.adapters.bridge import Bridge, Messages

address, name, count = sys.argv[1:]
with smp_memory.open(address, config={"durability": "os"}) as memory:
    messages = Messages(Bridge(memory, "framework").session("talk"))
    large = {"role": "user", "content": "é " * 700_000}
    for number in range(int(count)):
        if name == "pop":
            for _ in range(20):
                messages.pop()
        elif name == "clear":
            messages.clear()
        elif name == "replace":
            messages.replace([large, *({"role": "user", "content": str(each)} for each in range(20))])
        else:
            assert all(message["role"] == "user" for message in messages.all())
"""


def test_processes_pop_clear_replace_and_read_one_conversation(tmp_path: Path) -> None:
    run_together(_POPPER, str(tmp_path / "store"), ["pop", "clear", "replace", "read"], 20)
    with smp_memory.open(tmp_path / "store") as memory:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.clear()
        assert [record for session in memory.sessions() for record in session.records()] == []


def test_replacing_messages_while_another_process_pops_one(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory, smp_memory.open(tmp_path / "store") as second:
        messages = Messages(Bridge(memory, "framework").session("talk"))
        messages.add_many([{"role": "user", "content": str(number)} for number in range(8)])
        other = Messages(Bridge(second, "framework").session("talk"))

        class Popping(dict[str, Any]):
            """A message that is converted between the reading of the old messages and their deletion."""

            def items(self) -> Any:
                if len(other.all()) > 2:
                    other.pop()
                return super().items()

        messages.replace([Popping(LARGE)])
        assert other.all() == [LARGE]
