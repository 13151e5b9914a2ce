"""Laws of the pure parts: the session history, the field names, histories and snapshots."""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

import smp_memory
from smp_memory.errors import InvalidRecord
from smp_memory.files.codec import SIGNED
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, check_fields
from smp_memory.model.history import SessionHistory
from smp_memory.model.record import same
from smp_memory.model.types import COMMON_ALIASES, COMMON_FIELDS, KINDS
from smp_memory.testing import FrozenClock

texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
given_values = values.filter(lambda value: value is not None)

RESERVED = [
    "id_", "seq", "tx", "type", "session_id", "schema", "revision", "updated", "updated_by", "changes", "deleted", "deleted_by",
    "restored", "restored_by", "reason", "checksum", "extra", "data", "content", "body", "encoding", "smp", "timestamp", "ts", "session",
]  # fmt: skip
ALL_NAMES = sorted(
    {
        *RESERVED,
        *COMMON_ALIASES,
        *COMMON_FIELDS,
        *(name for kind in KINDS.values() for name in (*kind.aliases, *kind.rank)),
    }
    - {"created", "id"}
)
names = st.one_of(st.sampled_from(ALL_NAMES), texts)
kinds = st.sampled_from(sorted(KINDS))
FACTS = frozenset(("created", "type", "session", "updated"))  # of a record; no change of SMP names them
TIME = "2026-01-11T14:30:05.250000Z"


# -- dialects and codecs


def entries_of(op: str) -> st.SearchStrategy[Entry]:
    if op in (DELETE, RESTORE):
        data = st.one_of(st.just({}), texts.map(lambda reason: {"reason": reason}))
    else:
        data = st.dictionaries(names, given_values if op == PUT else values, max_size=6)
    by = st.none() if op == PUT else st.one_of(st.none(), texts)
    return st.builds(
        lambda kind, data, by, seq, tx: Entry(op, kind, "X-1", TIME, data, by=by, seq=seq, tx=tx, revision=0 if op == PUT else 2 if op == CHANGE else 0),
        kinds, data, by, st.integers(1, 10**6), st.sampled_from(["", "3-7", "3-7/2"]),
    )  # fmt: skip


entries = st.sampled_from([PUT, PUT, CHANGE, CHANGE, DELETE, RESTORE]).flatmap(entries_of)


def looks(entry: Entry) -> list[Any]:
    return [
        entry.op,
        entry.type,
        entry.id,
        entry.at,
        entry.by,
        entry.data,
        entry.seq,
        entry.tx,
        entry.revision,
        entry.schema,
    ]


@pytest.mark.parametrize("name", NAMES)
@given(entry=entries)
def test_layout_round_trip_keeps_fields_of_any_name(name: str, entry: Entry) -> None:
    layout = layout_named(name)
    if entry.op == PUT:
        entry.data[KINDS[entry.type].text] = entry.data.get(KINDS[entry.type].text) or "text"
    assume(entry.op != CHANGE or FACTS.isdisjoint(entry.data))
    try:
        check_fields(entry.type, entry.data)
    except InvalidRecord:
        assume(False)  # a field has a rule, which its value breaks
    file = layout.file_of(entry, "s1")
    codec = layout.codec_of(file)
    data = codec.header(layout.title_of(file, "s1")) + codec.encode(layout.field_names.encode(entry, "s1"))
    (piece,) = codec.decode(data)
    assert piece.state == SIGNED
    assert piece.fields is not None
    found = layout.field_names.decode(piece.fields, layout.kind_of(file), piece.state, file, piece.line, 0)
    assert same(looks(found), looks(entry))


@pytest.mark.parametrize("name", NAMES)
def test_every_reserved_name_and_alias_can_be_a_custom_field(name: str) -> None:
    layout = layout_named(name)
    for field, kind in itertools.product(ALL_NAMES, KINDS):
        for op in (PUT, CHANGE):
            for value in ({"a": [1]}, "text", 0, False):
                if op == CHANGE and field in FACTS:
                    continue
                for others in ({KINDS[kind].text: "x"}, {"author": "ada", KINDS[kind].text: "x"}):
                    data = {field: value, **others}
                    try:
                        check_fields(kind, data)
                    except InvalidRecord:
                        continue  # the field has a rule, which this value breaks
                    entry = Entry(op, kind, "X-1", TIME, data, seq=1, revision=2 if op == CHANGE else 0)
                    fields = json.loads(json.dumps(layout.field_names.encode(entry, "s1")))
                    found = layout.field_names.decode(
                        fields, layout.kind_of(layout.file_of(entry, "s1")), SIGNED, "", 1, 0
                    )
                    assert same(looks(found), looks(entry)), (field, kind, op, fields)


# -- the session history


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Entry]]:
    """What may have been written, in order, with the file that each entry went to (as in the layout `log`)."""
    written: list[tuple[str, Entry]] = []
    alive: dict[str, int] = {}
    dead: set[str] = set()
    for seq in range(1, draw(st.integers(1, 14)) + 1):
        op = draw(st.sampled_from([PUT, PUT, CHANGE, DELETE, RESTORE]))
        choices = sorted(dead if op == RESTORE else alive)
        if op == PUT or not choices:
            kind = draw(st.sampled_from(["decision", "finding", "preference"]))
            name = f"{KINDS[kind].prefix}-{seq:04}"
            data = {KINDS[kind].text: "x", "n": seq, "idempotency_key": f"k{seq % 3}"}
            written.append((kind, Entry(PUT, kind, name, f"2026-01-01T00:00:{seq:02}Z", data, seq=seq)))
            alive[name] = 1
            continue
        name = draw(st.sampled_from(choices))
        kind = next(entry.type for _, entry in written if entry.id == name)
        at = f"2026-01-01T00:00:{seq:02}Z"
        if op == CHANGE:
            alive[name] += 1
            written.append(
                (
                    kind,
                    Entry(
                        CHANGE,
                        kind,
                        name,
                        at,
                        {"n": draw(st.one_of(st.none(), st.integers(0, 3)))},
                        seq=seq,
                        revision=alive[name],
                    ),
                )
            )
        elif op == DELETE:
            dead.add(name)
            revision = alive.pop(name)
            written.append(("tombstones", Entry(DELETE, kind, name, at, {"reason": str(revision)}, seq=seq)))
        else:
            dead.discard(name)
            alive[name] = 1 + sum(entry.op == CHANGE and entry.id == name for _, entry in written)
            written.append(("tombstones", Entry(RESTORE, kind, name, at, {}, seq=seq)))
    return written


def state_of(session_history: SessionHistory) -> Any:
    records = [history.record("s1") for history in session_history.histories.values()]
    steps = [history.steps() for history in session_history.histories.values()]
    return [record.to_dict() for record in records if record], steps, session_history.numbers, session_history.seq, session_history.preferences, [each.code for each in session_history.problems]  # fmt: skip


@given(written=histories(), seed=st.integers(0, 10**6))
def test_session_history_does_not_depend_on_how_entries_arrive(written: list[tuple[str, Entry]], seed: int) -> None:
    """Each file is read in its order, but a reader may see more of one file than of another at any look."""
    chance = Random(seed)
    whole = SessionHistory()
    whole.add([entry for _, entry in written])
    files: dict[str, list[Entry]] = {}
    for file, entry in written:
        files.setdefault(file, []).append(entry)
    parts = SessionHistory()
    while any(files.values()):
        arrival: list[Entry] = []
        for rest in files.values():
            count = chance.randint(0, len(rest))
            arrival += rest[:count]
            del rest[:count]
        parts.add(arrival)
    assert state_of(parts) == state_of(whole)


@given(written=histories())
def test_a_history_replays_to_the_record(written: list[tuple[str, Entry]]) -> None:
    session_history = SessionHistory()
    session_history.add([entry for _, entry in written])
    for history in session_history.histories.values():
        now: dict[str, Any] = {}
        deleted = False
        revision = 0
        for step in history.steps():
            for name, change in step.get("changes", {}).items():
                assert same(now.get(name), change["from"])
                now[name] = change["to"]
            deleted = step["op"] == DELETE or (deleted and step["op"] != RESTORE)
            revision = step["revision"]
        record = history.record("s1")
        assert record is not None
        shown = {name: value for name, value in record.to_dict().items() if name in now}
        assert shown == {name: value for name, value in now.items() if value is not None}
        assert (record.deleted, record.revision) == (deleted, revision)


@given(written=histories())
def test_past_records_are_the_history_of_the_past_entries(written: list[tuple[str, Entry]]) -> None:
    session_history = SessionHistory()
    session_history.add([entry for _, entry in written])
    for number in range(len(written) + 1):
        past = SessionHistory()
        past.add([entry for _, entry in written[:number]])
        until = f"2026-01-01T00:00:{number:02}Z"
        found = [history.record("s1", until) for history in session_history.histories.values()]
        assert [record.to_dict() for record in found if record] == state_of(past)[0]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "update", "delete", "restore", "wait"]), st.integers(0, 99)), max_size=12
    )
)
def test_as_of_now_is_the_session_as_it_is(steps: list[tuple[str, int]]) -> None:
    clock = FrozenClock()
    session = smp_memory.open(":memory:", clock=clock).create_session("s1")
    for what, number in steps:
        alive = session.records()
        dead = [record for record in session.records(include_deleted=True) if record.deleted]
        if what == "wait":
            clock.advance(number / 10)
        elif what == "add":
            session.add_decision(f"{number}")
        elif what == "restore" and dead:
            session.restore(dead[number % len(dead)])
        elif what == "update" and alive:
            session.update(alive[number % len(alive)], n=number)
        elif what == "delete" and alive:
            session.delete(alive[number % len(alive)])
        assert session.as_of(clock()).records(include_deleted=True) == session.records(include_deleted=True)
        assert session.as_of(clock()).records() == session.records()
