"""Items added to a person's TOML can be removed, and nothing else changes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.integrations.bmad.customisation import ADDED, NotMergeable, add_items, remove_items

OURS = "Memory (smp): "
STEP, FACT, OTHER = f'{OURS}run "x" — now', f"{OURS}a \\ b", f"{OURS}c"
LISTS = {"activation_steps_append": [STEP], "persistent_facts": [FACT, OTHER]}

TEXTS = {
    "nothing": "",
    "comments only": "# nothing yet\n",
    "a table with comments": '# mine\n[agent]  # the architect\n# about the icon\nicon = "x"\n',
    "another table": "# only this\n[workflow]\nx = 1\n",
    "only parts of the table": '[[agent.menu]]\ncode = "A"\n\n[[agent.menu]]\ncode = "B"\n',
    "a table below": "[agent.limits]\ny = 1\n",
    "a list on one line": '[agent]\nactivation_steps_append = ["a", "b"] # why\n',
    "a comma at the end": '[agent]\nactivation_steps_append = ["a", ]\npersistent_facts = ["b",]\n',
    "empty lists": "[agent]\nactivation_steps_append = []\npersistent_facts = [ ]\n",
    "comments in a list": '[agent]\nactivation_steps_append = [\n    "a", # one\n    # two\n    "b" # three, not a comma\n]\npersistent_facts = [\n  "q",\n  # last\n]\n[[agent.menu]]\ncode="x"\n',
    "closed beside its last item": '[agent]\nactivation_steps_append = ["a",\n "b"]\n',
    "a list that holds only a comment": "[agent]\npersistent_facts = [\n  # none yet\n]\n",
    "texts that look like TOML": '[agent]\npersistent_facts = [\n  """a\n[agent]\n# not a comment, ]""",\n  \'it"s ]\',\n]\nx = {a = [1, 2], b = "]"}\n[other]\n"agent" = 1\n',
    "quotes at the end of a long text": '[agent]\npersistent_facts = ["""say "hi\\"""""]\n',
    "line ends of Windows": '[agent]\r\nicon = "x"\r\npersistent_facts = [\r\n  "a"\r\n]\r\n',
    "no line end at the end": '[agent]\nicon = "x"',
    "a quoted header": '[ "agent" ]\nicon = "x"\n',
    "dates and numbers": "[agent]\nx = [1979-05-27 07:32:00, 2, 3.0]\n[agent.y]\nz = 07:32:00\n",
}


def added(text: str) -> dict[str, Any]:
    data = tomllib.loads(text)
    for name, items in LISTS.items():
        data.setdefault("agent", {}).setdefault(name, []).extend(items)
    return data


def essence(text: str) -> str:
    return "".join(f"{text}\n".replace("[agent]\n", "\n").replace(",", "").split())


def check_restored(left: str, before: str) -> None:
    """The same values and comments in their order, the same line ends; blanks, commas and an empty [agent] may differ."""
    assert tomllib.loads(left) == tomllib.loads(before)
    assert essence(left) == essence(before)
    assert ("\r\n" in left) == ("\r\n" in before)


@pytest.mark.parametrize("name", TEXTS)
def test_adding_and_removing_restores_the_text(name: str) -> None:
    before = TEXTS[name]
    after = add_items(before, "agent", LISTS, OURS)
    assert tomllib.loads(after) == added(before)
    assert add_items(after, "agent", LISTS, OURS) == after
    assert remove_items(before, OURS) == before
    check_restored(remove_items(after, OURS), before)


@pytest.mark.parametrize(
    "text",
    [
        'agent.persistent_facts = ["a"]\n',
        'agent = {icon = "x"}\n',
        '[agent]\npersistent_facts = "a"\n',
        "agent = 1\n",
        '[[agent]]\nicon = "x"\n',
        "[agent\n",
        '[agent]\nicon = "x"\nicon = "y"\n',
    ],
)
def test_text_that_cannot_be_merged_safely_is_refused(text: str) -> None:
    with pytest.raises(NotMergeable):
        add_items(text, "agent", LISTS, OURS)


def test_older_item_of_ours_is_replaced() -> None:
    old = add_items('[agent]\npersistent_facts = ["a"]\n', "agent", {"persistent_facts": [f"{OURS}old"]}, OURS)
    new = add_items(old, "agent", LISTS, OURS)
    assert "old" not in new
    assert tomllib.loads(new)["agent"]["persistent_facts"] == ["a", FACT, OTHER]


def test_items_added_by_a_person_to_our_table_and_list_stay() -> None:
    after = add_items("", "agent", LISTS, OURS)
    mine = after.replace("persistent_facts = [\n", 'icon = "x"\npersistent_facts = [\n  "mine", # a note\n')
    left = remove_items(mine, OURS)
    assert tomllib.loads(left) == {"agent": {"persistent_facts": ["mine"], "icon": "x"}}
    assert "# a note" in left
    assert OURS not in left


def test_empty_list_of_a_person_stays() -> None:
    after = add_items("[agent]\npersistent_facts = []\n", "agent", LISTS, OURS)
    assert ADDED in after
    assert tomllib.loads(remove_items(after, OURS)) == {"agent": {"persistent_facts": []}}


def test_table_that_another_one_interrupts_is_changed_and_restored_or_refused() -> None:
    before = '[agent]\npersistent_facts = ["a", ] # mine\n[workflow]\nx = 1\n[[agent.menu]]\ncode = "C"\n'
    try:
        after = add_items(before, "agent", LISTS, OURS)
    except NotMergeable:
        return
    check_restored(remove_items(after, OURS), before)


def test_key_after_our_block_keeps_its_table() -> None:
    after = add_items("", "agent", LISTS, OURS) + 'icon = "x"\n'
    assert tomllib.loads(remove_items(after, OURS)) == {"agent": {"icon": "x"}}


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
strings = st.one_of(
    words.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    words.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    words.map(lambda text: '"""' + text.replace("\\", "").replace('"', "") + '\n# x ]"""'),
)
comments = st.sampled_from(["", " # note", " # a, b ] [agent]"])


@st.composite
def lists(draw: st.DrawFn, name: str) -> str:
    items = draw(st.lists(strings, max_size=3))
    if draw(st.booleans()):
        return f"{name} = [{', '.join(items)}{draw(st.sampled_from(['', ',', ', '])) if items else ''}]{draw(comments)}"
    rows = [
        f"  {item}{',' if at < len(items) - 1 or draw(st.booleans()) else ''}{draw(comments)}"
        for at, item in enumerate(items)
    ]
    return "\n".join([f"{name} = [{draw(comments)}", *rows, f"]{draw(comments)}"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    parts = [f"[agent]{draw(comments)}"] if draw(st.booleans()) else []
    if parts:
        names = draw(st.permutations(["activation_steps_append", "persistent_facts", "principles"]))
        parts += [draw(lists(name)) for name in names if draw(st.booleans())]
    parts += draw(
        st.lists(
            st.sampled_from(['[[agent.menu]]\ncode = "C"', "# comment", ""]),
            max_size=3,
            unique=True,
        )
    )
    parts += draw(st.sampled_from([[], ["[workflow]\nx = 1"]]))
    return "\n".join(parts) + draw(st.sampled_from(["", "\n", "\n\n"]))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_adding_and_removing_restores_any_document(before: str) -> None:
    after = add_items(before, "agent", LISTS, OURS)
    assert tomllib.loads(after) == added(before)
    assert add_items(after, "agent", LISTS, OURS) == after
    check_restored(remove_items(after, OURS), before)
