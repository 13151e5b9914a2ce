"""An imported session equals the exported one: any session, any format, from any layout to any other."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.exchange.file_format import FORMATS
from smp_memory.files.layouts import NAMES
from smp_memory.privacy.anonymisation import Placeholders
from smp_memory.testing import FrozenClock
from tests.property.test_laws import given_values, texts, values

KINDS = ["decision", "finding", "learning", "artifact", "summary", "preference"]
TEXT = {"artifact": "content", "preference": "preference"}

own = st.dictionaries(
    st.one_of(st.sampled_from(["x", "note", "text", "memories", "session_id_"]), texts), given_values, max_size=3
)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KINDS), words, own),
        st.tuples(st.just("turn"), st.sampled_from(["user", "assistant", "tool"]), words),
        st.tuples(st.just("state"), st.sampled_from(["a", "b-2"]), values),
        st.tuples(
            st.just("update"), st.integers(0, 9), st.sampled_from(["own", "text", "seq", "extra", "note"]), values
        ),
        st.tuples(st.just("pin"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9), st.one_of(st.none(), words)),
        st.tuples(st.just("restore"), st.integers(0, 9)),
        st.tuples(st.just("relate"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("transact"), words, words),
    ),
    max_size=12,
)
all_metadata = st.fixed_dictionaries(
    {},
    optional={
        "user": words,
        "project": words,
        "agents": st.lists(words, max_size=2),
        "tags": st.lists(st.sampled_from(["auth", "a.b", "é"]), max_size=2),
        "phase": values,
        "note": given_values,
    },
)


def opened(layout: str) -> smp_memory.Memory:
    return smp_memory.open(
        ":memory:", layout=layout, clock=FrozenClock(), config={"privacy": {"redaction": {"enabled": False}}}
    )


def perform(session: smp_memory.SessionMemory, clock: FrozenClock, step: tuple[Any, ...]) -> None:
    known = session.records(include_deleted=True)
    there = [record.id for record in known if not record.deleted]
    clock.advance(1)
    try:
        if step[0] == "add":
            session.add(step[1], {**step[3], TEXT.get(step[1], step[1]): step[2]})
        elif step[0] == "turn":
            session.add_turn(step[1], step[2], author="x")
        elif step[0] == "state":
            session.update_agent_state(step[1], step[2])
        elif step[0] == "transact":
            with session.transaction() as tx:
                tx.relate(tx.add_decision(step[1]), tx.add_finding(step[2]), "led_to")
        elif step[0] == "restore":
            gone = [record.id for record in known if record.deleted]
            if gone:
                session.restore(gone[step[1] % len(gone)])
        elif there:
            one = there[step[1] % len(there)]
            if step[0] == "update":
                session.update(one, **{step[2]: step[3]}, by="x")
            elif step[0] == "pin":
                session.pin(one)
            elif step[0] == "delete":
                session.delete(one, step[2], by="ada")
            elif step[0] == "relate":
                session.relate(one, there[step[2] % len(there)])
    except SMPError:
        pass  # what the store refuses is not there to be exported


def shown(session: smp_memory.SessionMemory) -> str:
    """Everything that can be seen, so that 1, 1.0 and True differ."""
    records = session.records(include_deleted=True)
    return json.dumps(
        [
            {**session.info.to_dict(), "id": ""},
            [{**record.to_dict(), "session": "", "seq": record.seq} for record in records],
            [session.history(record.id) for record in records],
        ],
        sort_keys=True,
    )


def session_with(layout: str, metadata: dict[str, Any], history: list[tuple[Any, ...]]) -> smp_memory.SessionMemory:
    memory = opened(layout)
    try:
        session = memory.create_session("s-1", **metadata)
    except SMPError:
        session = memory.create_session("s-1")
    clock = memory.scope.clock.source
    assert isinstance(clock, FrozenClock)
    for step in history:
        perform(session, clock, step)
    return session


@pytest.mark.parametrize("format", FORMATS)
@given(source=st.sampled_from(NAMES), target=st.sampled_from(NAMES), metadata=all_metadata, history=steps)
def test_imported_session_equals_the_exported_one(
    format: str, source: str, target: str, metadata: dict[str, Any], history: list[tuple[Any, ...]]
) -> None:
    session = session_with(source, metadata, history)
    text = session.export(format=format)
    (again,) = opened(target).import_(text.encode())
    assert shown(again) == shown(session)
    assert again.validate().ok
    assert again.add_decision("next").id == session.add_decision("next").id


@given(format=st.sampled_from(FORMATS), metadata=all_metadata, history=steps)
def test_placeholders_can_be_replaced_by_the_names(
    format: str, metadata: dict[str, Any], history: list[tuple[Any, ...]]
) -> None:
    session = session_with("jsonl", metadata, history)
    placeholders = Placeholders()
    text = session.export(format=format, anonymise=placeholders)
    key = Placeholders.from_key(placeholders.key())
    (again,) = opened("jsonl").import_(text.encode(), restore=key)
    assert again.id == session.id
    assert shown(again) == shown(session)


@given(format=st.sampled_from(FORMATS), history=steps, data=st.data())
def test_a_file_that_was_cut_off_is_refused(format: str, history: list[tuple[Any, ...]], data: st.DataObject) -> None:
    session = session_with("jsonl", {}, [*history, ("turn", "user", "the end")])
    whole = session.export(format=format).encode()
    cut = whole[: data.draw(st.integers(0, len(whole.rstrip(b"\n-")) - 1))]
    memory = opened("jsonl")
    try:
        memory.import_(cut)
    except SMPError:
        assert memory.sessions() == []
    else:
        assert shown(memory.session("s-1")) == shown(session)  # nothing but the ornament at the end is missing
