"""`add_turn` takes the message formats of Anthropic and OpenAI: text stays text, everything else is a part with a readable line."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.privacy.fence import fence

PICTURE = base64.b64encode(b"not really a picture").decode()
DIGEST = hashlib.sha256(b"not really a picture").hexdigest()


@pytest.fixture
def session():
    with smp_memory.open(":memory:") as memory:
        yield memory.create_session("talk", user="ada")


def test_a_message_of_text_alone_is_the_turn_of_its_text(session):
    plain = session.add_turn("user", "Use OAuth")
    blocks = session.add_turn("user", [{"type": "text", "text": "Use OAuth"}])
    item = session.add_turn(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Use OAuth"}]}
    )
    for each in (blocks, item):
        assert each.given == plain.given


def test_an_anthropic_reply_keeps_text_calls_and_reasoning(session):
    blocks = [
        {"type": "thinking", "thinking": "They want single sign-on", "signature": "c2ln"},
        {"type": "text", "text": "Decided: OAuth 2.0"},
        {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"file_path": "auth.py"}},
    ]
    turn = session.add_turn("assistant", blocks)
    assert turn.content == 'Decided: OAuth 2.0\n\n[tool call: Edit {"file_path": "auth.py"}]'
    assert turn.parts == [blocks[0], blocks[2]]
    assert [hit.record.id for hit in session.query("single sign-on")] == []  # parts are not searched
    assert session.query("auth.py")[0].record.id == turn.id


@pytest.mark.parametrize(
    ("message", "role", "content"),
    [
        (
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"p": "."}'}}]},
            "assistant",
            '[tool call: ls {"p": "."}]',
        ),
        ({"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}, "assistant", "[tool call: ls {}]"),
        ({"type": "function_call_output", "call_id": "c", "output": "auth.py"}, "tool", "[tool result: auth.py]"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "no"}], "is_error": True}]}, "user", "[tool error: no]"),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot do that"}]}, "assistant", "I cannot do that"),
        ({"type": "reasoning", "id": "rs_1", "summary": []}, "assistant", "[reasoning]"),
        ({"role": "user", "content": [{"type": "hologram", "name": "x"}]}, "user", "[hologram: x]"),
    ],
)  # fmt: skip
def test_messages_of_openai_and_anthropic_become_readable_turns(session, message, role, content):
    turn = session.add_turn(message)
    assert (turn.role, turn.content) == (role, content)
    assert session.find(turn.id) == turn


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
        {"type": "input_audio", "input_audio": {"data": PICTURE, "format": "wav"}},
        {"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": PICTURE}}]},
    ],
)
def test_bytes_of_files_are_not_stored_and_that_is_said(session, block):
    turn = session.add_turn("user", [{"type": "text", "text": "Look"}, block])
    assert "20 bytes" in turn.content
    assert PICTURE not in str(turn.to_dict())
    assert DIGEST in str(turn.parts)
    assert turn.warnings == ("parts: The bytes of 1 file were not stored, only their number and SHA-256.",)


def test_a_document_of_text_and_the_input_of_a_tool_are_stored_whole(session):
    blocks = [
        {"type": "document", "title": "notes", "source": {"type": "text", "media_type": "text/plain", "data": "hello"}},
        {"type": "tool_use", "id": "t", "name": "send", "input": {"data": "a text"}},
    ]
    turn = session.add_turn("user", blocks)
    assert turn.parts == blocks
    assert turn.warnings == ()


class Message:
    """As the client libraries have them."""

    def model_dump(self, *, mode, exclude_none):
        assert (mode, exclude_none) == ("json", True)
        block = {"type": "text", "text": "Done"}
        usage = {"input_tokens": 3}
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block], "usage": usage}


def test_objects_of_client_libraries_are_understood(session):
    turn = session.add_turn(Message())
    assert (turn.id, turn.role, turn.content, turn.message_id) == ("TURN-0001", "assistant", "Done", "msg_1")
    assert "usage" not in turn.to_dict()


def test_recalled_text_in_a_result_of_a_tool_is_not_taken_in_again(session):
    recalled = fence("DEC-0001 Use OAuth 2.0")
    turn = session.add_turn("tool", [{"type": "tool_result", "tool_use_id": "t", "content": f"Found:\n{recalled}\nok"}])
    assert "OAuth" not in str(turn.to_dict())
    assert turn.content == "[tool result: Found: ok]"


def test_secrets_in_parts_are_redacted(session):
    turn = session.add_turn("assistant", [{"type": "tool_use", "name": "login", "input": {"password": "hunter2-Xy7q"}}])
    assert "hunter2" not in str(turn.to_dict())
    assert turn.redacted


@pytest.mark.parametrize(("content", "text"), [([1], "block 1 must be"), ([[]], "block 1 must be"), ([], "content")])
def test_content_that_is_no_message_is_refused_and_nothing_is_stored(session, content, text):
    with pytest.raises(InvalidRecord, match=text):
        session.add_turn("user", content)
    assert session.records() == []


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_parts_come_back_equal_from_every_layout(tmp_path, layout):
    blocks = [
        {"type": "text", "text": "# one\n---\ntwo"},
        {"type": "tool_use", "name": "x", "input": {"a": ["é", None, 1.5]}},
    ]
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        turn = memory.create_session("talk").add_turn("assistant", blocks)
    with smp_memory.open(tmp_path / "store") as memory:
        assert memory.session("talk").get(turn.id) == turn


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)
names = (
    "type",
    "text",
    "content",
    "source",
    "data",
    "image_url",
    "url",
    "function",
    "name",
    "input",
    "output",
    "title",
)
types = st.sampled_from(
    ["text", "image", "tool_use", "tool_result", "function", "thinking", "x_call_output", "document"]
)
block_values = st.dictionaries(st.sampled_from(names), json_values | types, max_size=6)


@given(content=st.lists(block_values | json_values, max_size=4), calls=st.none() | st.lists(block_values) | json_values)
def test_any_json_as_a_message_is_a_turn_or_a_clear_error(content, calls):
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("talk")
        try:
            turn = session.add_turn({"role": "user", "content": content, "tool_calls": calls})
        except SMPError:
            return
        assert session.find(turn.id) == turn


def test_a_message_after_its_role_keeps_its_tool_calls(session):
    """Only its text was stored, without a word."""
    message = {"role": "assistant", "content": "text", "tool_calls": [{"type": "function", "function": {"name": "ls"}}]}
    assert session.add_turn("assistant", message).given == session.add_turn(message).given
    assert session.add_turn("assistant", {**message, "content": None}).content == "[tool call: ls]"
    with pytest.raises(InvalidRecord, match="the message has the role assistant"):
        session.add_turn("user", message)
