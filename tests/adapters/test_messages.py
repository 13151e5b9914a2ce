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
