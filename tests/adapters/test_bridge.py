"""The bridge between frameworks and sessions: names, items, messages and opaque states. No framework is needed."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory import errors
from smp_memory.adapters.bridge import Bridge, Items, Messages, OpaqueLog, id_for, names_in
from smp_memory.model.ids import is_valid
from smp_memory.privacy.fence import PLACEHOLDER, fence
from tests.adapters.stores import KINDS, make_address

ODD_NAMES = (
    "",
    " ",
    "-",
    "..",
    "../../etc",
    "CON",
    "Ada",
    "ada",
    "ada@example.org",
    "a/b",
    "a-b",
    "日本",
    "x" * 500,
    "\0",
    "a\nb",
    "🎉",
)


@pytest.fixture(params=KINDS)
def bridge(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    found = Bridge(make_address(request.param, tmp_path, request), "framework")
    yield found
    found.close()


@pytest.fixture
def ram() -> Any:
    with smp_memory.open(":memory:") as memory:
        yield Bridge(memory, "framework")


# -- names


@given(st.lists(st.lists(st.text(max_size=20), max_size=3).map(tuple), unique=True, max_size=20))
def test_ids_are_valid_and_differ_for_different_names(all_names: list[tuple[str, ...]]) -> None:
    made = [id_for("framework", *names) for names in all_names]
    assert all(is_valid(id) for id, _ in made)
    assert len({id for id, _ in made}) == len(all_names)
    assert [names_in("framework", *each) for each in made] == all_names


@given(st.text(string.ascii_lowercase + string.digits + "-", max_size=70))
def test_name_that_looks_like_made_id_does_not_collide(name: str) -> None:
    made, _ = id_for("framework", "x/y")
    assert id_for("framework", name)[0] != made
    assert id_for("framework", made.removeprefix("framework-"))[0] != made


def test_simple_name_is_kept_in_id() -> None:
    assert id_for("langgraph", "user-42") == ("langgraph-user-42", {})


def test_mail_address_is_not_shown_in_id() -> None:
    id, _ = id_for("framework", "users", "ada@example.org")
    assert "ada" not in id
    assert id.startswith("framework-users-")


def test_odd_names_come_back(bridge: Bridge) -> None:
    for name in ODD_NAMES:
        Items(bridge.session("users", name)).put(name, {"text": f"item of {name!r}"})
    again = Bridge(bridge.memory, "framework")
    assert again.namespaces() == sorted(("users", name) for name in ODD_NAMES)
    for name in ODD_NAMES:
        assert Items(again.session("users", name)).keys() == [name]


def test_namespaces_are_filtered_by_whole_names(ram: Bridge) -> None:
    for names in (("a", "b"), ("a", "bc"), ("ab",), ("a",)):
        Items(ram.session(*names)).put("k", 1)
    assert ram.namespaces(("a",)) == [("a",), ("a", "b"), ("a", "bc")]
    assert ram.namespaces(("a", "b")) == [("a", "b")]


def test_frameworks_do_not_see_each_other(ram: Bridge) -> None:
    other = Bridge(ram.memory, "framework_store")
    Items(ram.session("x")).put("k", 1)
    Items(other.session("x")).put("k", 2)
    ram.memory.create_session("framework-mine")
    assert ram.namespaces() == other.namespaces() == [("x",)]
    assert Items(ram.session("x")).get("k").value == 1


def test_thousand_namespaces_are_listed(ram: Bridge) -> None:
    for number in range(1000):
        Items(ram.session("users", str(number))).put("k", number)
    found = ram.namespaces(("users",))
    assert len(found) == 1000
    assert all(Items(ram.session(*names)).get("k").value == int(names[1]) for names in found)


def test_reading_creates_no_session(bridge: Bridge) -> None:
    items, messages, states = Items(bridge.session("a")), Messages(bridge.session("b")), OpaqueLog(bridge.session("c"))
    assert items.get("k") is None
    assert items.all() == items.search("x") == messages.all() == messages.last(3) == states.records() == []
    assert not items.delete("k")
    assert messages.pop() is None
    messages.clear()
    bridge.session("d").delete()
    assert bridge.memory.sessions() == []


def test_session_that_another_process_deleted_is_created_again(bridge: Bridge) -> None:
    items = Items(bridge.session("x"))
    items.put("k", "old")
    bridge.memory.delete_session(bridge.session("x").id)
    assert items.get("k") is None
    items.put("new", "value")
    assert items.keys() == ["new"]


def test_archived_session_is_restored_by_use(ram: Bridge) -> None:
    items = Items(ram.session("x"))
    items.put("k", "old")
    ram.memory.archive_session(ram.session("x").id)
    assert items.get("k").value == "old"


def test_sessions_are_not_compacted_or_archived_by_themselves(ram: Bridge) -> None:
    Items(ram.session("x")).put("k", 1)
    config = ram.memory.session("framework-x").config
    names = ("compaction.enabled", "lifecycle.auto_archive", "retention.enabled", "storage.max_session_size_mb")
    assert [config[name] for name in names] == [False, False, False, 250]


def test_own_store_is_closed_and_given_one_is_not(tmp_path: Path) -> None:
    own = Bridge(tmp_path / "store", "framework")
    own.close()
    with pytest.raises(errors.StoreClosed):
        Items(own.session("x")).put("k", 1)
    with smp_memory.open(":memory:") as memory:
        Bridge(memory, "framework").close()
        memory.create_session("still-open")


# -- items

VALUES = (
    {"text": "I like tea"},
    {"text": "I like tea", "kind": "drink", "n": 3},
    {"kind": "drink", "content": "tea\r\nand  milk \n"},
    {"text": "", "data": "uses the next field"},
    {"text": None, "a": [1, 2.5, True, None, {"b": {}}]},
    {},
    [],
    "plain text",
    "",
    "  ",
    0,
    None,
    True,
    {"exact": 1, "learning": "x", "opaque": "y", "item_key": "z", "id": "DEC-0001", "type": "t"},
    {"text": "日本 🎉 --- \u2028 # not a heading", "日": "本"},
)


def test_values_come_back_equal(bridge: Bridge) -> None:
    items = Items(bridge.session("x"))
    for number, value in enumerate(VALUES):
        items.put(f"key {number}", value)
    for number, value in enumerate(VALUES):
        assert items.get(f"key {number}").value == value
    assert list(items.get("key 2").value) == ["kind", "content"]


def test_each_value_replaces_each_other(ram: Bridge) -> None:
    items = Items(ram.session("x"))
    for value in (*VALUES, *reversed(VALUES)):
        items.put("k", value)
        assert items.get("k").value == value
    assert items.keys() == ["k"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), _JSON, max_size=3))
def test_any_json_comes_back_equal_without_redaction(values: dict[str, Any]) -> None:
    with smp_memory.open(":memory:", config={"privacy.redaction.enabled": False}) as memory:
        items = Items(Bridge(memory, "framework").session("x"))
        for key, value in values.items():
            items.put(key, value)
        assert {item.key: item.value for item in items.all()} == values


def test_deleted_item_can_be_put_again_and_history_stays(bridge: Bridge) -> None:
    items = Items(bridge.session("x"))
    items.put("k", {"text": "first"})
    assert items.delete("k")
    assert not items.delete("k")
    assert items.get("k") is None
    assert items.keys() == []
    items.put("k", {"text": "second", "n": 1})
    found = items.get("k")
    assert found.value == {"text": "second", "n": 1}
    assert found.updated >= found.created
    changes = bridge.memory.session("framework-x").history("item-k")
    assert [step["op"] for step in changes] == ["put", "delete", "restore", "change"]


def test_items_are_found_by_their_text(bridge: Bridge) -> None:
    items = Items(bridge.session("x"))
    items.put("drink", {"text": "Ada prefers green tea"})
    items.put("pet", {"species": "tortoise", "name": "Emmy"})
    assert items.search("which tea")[0].key == "drink"
    assert items.search("tortoise")[0].key == "pet"
    assert 0 < items.search("tea")[0].score <= 1
    assert bridge.memory.query("tea").records[0].text == "Ada prefers green tea"


def test_memories_of_others_in_session_are_not_items(ram: Bridge) -> None:
    Items(ram.session("x")).put("k", 1)
    ram.memory.session("framework-x").add_learning("Somebody wrote this, with the word tea")
    assert Items(ram.session("x")).keys() == ["k"]
    assert Items(ram.session("x")).search("tea") == []


def test_secrets_in_items_are_redacted_and_keys_are_not(ram: Bridge) -> None:
    items = Items(ram.session("users", "ada@example.org"))
    items.put("bob@example.org", {"text": "write to eve@example.org", "password": "hunter2-hunter2"})
    assert items.get("bob@example.org").value == {
        "text": "write to [REDACTED:email]",
        "password": "[REDACTED:password]",
    }
    assert items.keys() == ["bob@example.org"]
    assert Bridge(ram.memory, "framework").namespaces() == [("users", "ada@example.org")]
    assert ram.memory.redact() == []


_WRITER = """
import sys
from smp_memory.adapters.bridge import Bridge, Items, Messages
address, me, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
bridge = Bridge(address, "framework")
items, messages = Items(bridge.session("shared", "x")), Messages(bridge.session("talk"))
for number in range(count):
    items.put("one key", {"text": f"{me} {number}"})
    if number % 5 == 0:
        items.delete("one key")
    items.put(f"{me} {number}", number)
    messages.add_many([{"role": "user", "content": f"{me} {number}"}])
items.put("one key", {"text": "the end"})
bridge.close()
"""


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "postgresql"])
def test_processes_write_one_key_and_one_conversation(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address, count = make_address(kind, tmp_path, request), 15
    started = [subprocess.Popen([sys.executable, "-c", _WRITER, address, me, str(count)]) for me in ("a", "b", "c")]
    assert [process.wait(timeout=100) for process in started] == [0, 0, 0]
    bridge = Bridge(address, "framework")
    items = Items(bridge.session("shared", "x"))
    assert items.get("one key").value == {"text": "the end"}
    expected = sorted(f"{me} {number}" for me in "abc" for number in range(count))
    assert sorted(items.keys()) == sorted([*expected, "one key"])
    assert sorted(message["content"] for message in Messages(bridge.session("talk")).all()) == expected
    assert bridge.memory.session("framework-talk").validate().ok
    bridge.close()


# -- messages

MESSAGES = (
    {"role": "user", "content": "Hello"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "content": "", "tool_call_id": "1"},
    {"type": "human", "data": {"content": "nested"}},
    {"type": "ai", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "url": "x"}]},
    {"role": "Weird Role!", "content": "x"},
    {"no": "role"},
    "a text",
    ["a", "list"],
)


def test_messages_come_back_equal_and_in_order(bridge: Bridge) -> None:
    messages = Messages(bridge.session("x"))
    messages.add_many(MESSAGES[:4])
    messages.add_many(MESSAGES[4:])
    messages.add_many([])
    assert messages.all() == list(MESSAGES)
    assert messages.last(2) == list(MESSAGES[-2:])
    assert messages.last(0) == messages.last(-1) == []
    assert messages.last(100) == list(MESSAGES)
    assert [record.role for record in messages.records()][:5] == ["user", "assistant", "tool", "user", "assistant"]


def test_readable_text_of_messages_is_their_text(ram: Bridge) -> None:
    messages = Messages(ram.session("x"))
    messages.add_many(MESSAGES)
    texts = [record.content for record in messages.records()]
    assert texts[:3] == ["Hello", "[tool call: f {}]", '{"role":"tool","content":"","tool_call_id":"1"}']
    assert texts[4] == "Hi\n\n[image: x]"


def test_pop_and_clear_remove_messages(bridge: Bridge) -> None:
    messages = Messages(bridge.session("x"))
    messages.add_many(MESSAGES)
    assert messages.pop() == MESSAGES[-1]
    assert messages.all() == list(MESSAGES[:-1])
    messages.clear()
    assert messages.all() == []
    messages.add_many(MESSAGES[:1])
    assert messages.all() == list(MESSAGES[:1])
    assert len(bridge.memory.session("framework-x").deleted()) == len(MESSAGES)


def test_replace_is_one_change(bridge: Bridge) -> None:
    messages = Messages(bridge.session("x"))
    messages.replace(MESSAGES[:3])
    messages.replace(MESSAGES[2:5])
    assert messages.all() == list(MESSAGES[2:5])


def test_message_with_known_key_is_not_added_again(bridge: Bridge) -> None:
    messages = Messages(bridge.session("x"))
    messages.add_many(MESSAGES[:2], ["a", "b"])
    messages.add_many(MESSAGES[1:3], ["b", "c"])
    assert messages.all() == list(MESSAGES[:3])


def test_turns_of_others_are_messages(ram: Bridge) -> None:
    messages = Messages(ram.session("x"))
    messages.add_many(MESSAGES[:1])
    ram.memory.session("framework-x").add_turn("assistant", "Added by hand")
    assert messages.last(1) == [{"role": "assistant", "content": "Added by hand"}]


def test_secrets_in_messages_are_redacted(ram: Bridge) -> None:
    messages = Messages(ram.session("x"))
    messages.add_many([{"role": "user", "content": [{"type": "text", "text": "mail ada@example.org"}]}])
    assert "ada@" not in json.dumps(messages.all())
    assert messages.all()[0]["content"][0]["text"] == "mail [REDACTED:email]"


# -- opaque states

SECRET = "AKIAIOSFODNN7EXAMPLE ghp_1234567890abcdefghijklmnopqrstuvwxyz"


def test_states_come_back_equal_and_are_not_redacted(bridge: Bridge) -> None:
    states = OpaqueLog(bridge.session("x"))
    states.add_many([("State one", {"a": SECRET}), ("State two", SECRET)])
    assert [state.value for state in states.records()] == [{"a": SECRET}, SECRET]
    assert [state.value for state in states.records(last=1)] == [SECRET]
    assert bridge.memory.redact() == []


def test_states_are_neither_searched_nor_shown_to_agents(ram: Bridge) -> None:
    OpaqueLog(ram.session("x")).add_many([("State of the zebra graph", {"animal": "tortoise"})])
    assert ram.memory.query("tortoise") == []
    agent = ram.memory.agent("architect", "framework-x")
    assert agent.query("zebra") == []
    assert "zebra" not in ram.memory.context("architect", task="zebra graph").text


def test_recalled_text_is_not_stored_again_and_breaks_no_message(ram: Bridge) -> None:
    messages = Messages(ram.session("talk"))
    told = fence("We use PostgreSQL")
    given = [
        {"role": "tool", "content": told},
        {"role": "user", "content": [{"type": "text", "text": told}, {"type": "text", "text": f"Which?\n{told}"}]},
        {"role": "user", "content": [{"type": "text", "text": told}]},
        [told],
    ]
    messages.add_many(given)
    Items(ram.session("items")).put("key", {"text": told, "more": [told, "kept"]})
    assert messages.all() == given  # exactly, in a field that is not searched
    assert ram.memory.query("PostgreSQL") == []
    assert Items(ram.session("items")).all()[0].value == {"text": PLACEHOLDER, "more": [PLACEHOLDER, "kept"]}
