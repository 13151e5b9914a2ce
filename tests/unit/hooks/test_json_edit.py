"""Edits of a JSON text in one place leave all other bytes unchanged: laws, over files in any style."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.integrations.hooks import json_edit
from smp_memory.integrations.hooks.json_edit import NotPlainJson

NAMES = st.text(st.sampled_from('ab"\\é\n{}[],: 😀'), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@st.composite
def styled(draw: st.DrawFn) -> str:
    """An object as a person or a program may have written it."""
    value = draw(OBJECTS)
    indent = draw(st.sampled_from([None, 2, 4, "\t", 0]))
    text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff", " \n"])) + text + draw(st.sampled_from(["", "\n", "\n\n  "]))


def value_of(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


@given(styled(), VALUES)
def test_adding_and_removing_a_member_changes_nothing_else(text: str, value: Any) -> None:
    before = value_of(text)
    after = json_edit.add(text, ("new section", "list"), None, value)
    assert value_of(after) == {**before, "new section": {"list": [value]}}
    assert list(value_of(after)) == [*before, "new section"]
    last = max((part.end for _, _, part in json_edit.read(text).parts), default=0)
    assert after.startswith(text[:last])  # all that was there stands there, byte for byte
    assert value_of(json_edit.remove(after, ("new section",))) == before


@given(styled(), st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_adding_and_removing_items_of_a_list_changes_nothing_else(
    text: str, items: list[Any], data: st.DataObject
) -> None:
    before = value_of(text)
    for item in items:
        text = json_edit.add(text, ("new list",), None, item)
    assert value_of(text) == {**before, "new list": items}
    place = data.draw(st.integers(0, len(items) - 1))
    left = json_edit.remove(text, ("new list", place))
    assert value_of(left) == {**before, "new list": items[:place] + items[place + 1 :]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{", "{,}", '{"a": 1,,}', '{"a" 1}', '{"a": 1 "b": 2}', '{"a": 1} /* why', '{"a": 1, "a": 2}', "{'a': 1}", '{"a": 1} {}', "{" * 5000, '{"a": // 1}'],
)  # fmt: skip
def test_text_that_is_not_plain_json_is_refused(text: str) -> None:
    with pytest.raises(NotPlainJson):
        json_edit.add(text, ("hooks",), "x", 1)


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": "x"}', '{"hooks": {"Stop": {}}}', '{"hooks": null}'])
def test_value_of_another_type_on_the_path_is_refused(text: str) -> None:
    with pytest.raises(NotPlainJson):
        json_edit.add(text, ("hooks", "Stop"), None, 1)


def test_added_members_are_formatted_like_their_neighbours() -> None:
    text = '{\n\t"a": {\n\t\t"b": [\n\t\t\t1\n\t\t]\n\t}\n}\n'
    assert json_edit.add(text, ("a", "b"), None, 2) == '{\n\t"a": {\n\t\t"b": [\n\t\t\t1,\n\t\t\t2\n\t\t]\n\t}\n}\n'
    assert json_edit.add('{"a": [1]}', ("a",), None, {"b": 2}) == '{"a": [1, {"b": 2}]}'
    assert json_edit.add("{}\r\n", ("a",), "b", 1) == '{\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'


COMMENTS = st.sampled_from(
    ["", "", "", " ", "\n  ", " // a, } note\n ", '/* a " note */', "\n/* two\n lines */\n", "\t"]
)


@st.composite
def commented(draw: st.DrawFn) -> str:
    """An object with comments and commas as an editor's settings may have them."""

    def written(value: Any) -> str:
        gap = lambda: draw(COMMENTS)  # noqa: E731
        if isinstance(value, dict):
            items = [f"{gap()}{json.dumps(name)}{gap()}:{gap()}{written(each)}{gap()}" for name, each in value.items()]
        elif isinstance(value, list):
            items = [f"{gap()}{written(each)}{gap()}" for each in value]
        else:
            return json.dumps(value)
        comma = "," if items and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{','.join(items)}{comma}{gap()}{closing}"

    return draw(COMMENTS) + written(draw(OBJECTS)) + draw(COMMENTS)


@given(commented(), VALUES)
def test_comments_and_last_commas_stay_when_a_member_is_added_and_removed(text: str, value: Any) -> None:
    before = json_edit.read(text).value
    after = json_edit.add(text, ("new section",), "smp", value)
    assert json_edit.read(after).value == {**before, "new section": {"smp": value}}
    assert json_edit.remove(after, ("new section",)) == text or not before  # an empty object loses blanks
    assert text.count("note") == after.count("note")


@given(commented(), st.data())
def test_removing_any_member_keeps_all_comments_outside_of_it(text: str, data: st.DataObject) -> None:
    whole = json_edit.read(text)
    if not whole.parts:
        return
    name, begins, part = data.draw(st.sampled_from(whole.parts))
    try:
        after = json_edit.remove(text, (name,) if name else (whole.parts.index((name, begins, part)),))
    except NotPlainJson:
        return  # a comment would swallow what follows: refused
    assert json_edit.read(after).value == {key: each for key, each in whole.value.items() if key != name}
    assert after.count("note") == text.count("note") - text[begins : max(part.end, part.comma)].count("note")


def test_member_goes_behind_the_comment_of_the_last_one() -> None:
    text = '{"servers": {\n  // mine\n  "a": 1, // first\n  "b": 2 // last\n}}\n'
    after = json_edit.add(text, ("servers",), "c", 3)
    assert after == '{"servers": {\n  // mine\n  "a": 1, // first\n  "b": 2, // last\n  "c": 3\n}}\n'
    assert json_edit.remove(after, ("servers", "c")) == text
