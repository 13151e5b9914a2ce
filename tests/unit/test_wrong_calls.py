"""Calls that cannot be meant: refused with the argument's name, or stored and answered with a warning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import Conflict, InvalidRecord
from smp_memory.files.layouts import NAMES

PLACES = [*NAMES, ":memory:"]


@pytest.fixture(params=PLACES)
def session(request: Any, tmp_path: Path) -> Any:
    where = ":memory:" if request.param == ":memory:" else tmp_path / "store"
    with smp_memory.open(where, layout=None if request.param == ":memory:" else request.param) as memory:
        yield memory.create_session("s1", author="ada")


# -- refused


@pytest.mark.parametrize("given", ["new text", {"decision": "new"}, 1.5, True])
def test_update_with_a_text_as_expected_revision_is_a_wrong_call(session: Any, given: Any) -> None:
    session.add_decision("Use OAuth")
    with pytest.raises(InvalidRecord, match="expected_revision") as caught:
        session.update("DEC-0001", given)
    assert caught.value.field == "expected_revision"
    assert not isinstance(caught.value, Conflict)
    assert session.get("DEC-0001").decision == "Use OAuth"


def test_add_with_another_type_in_its_data_is_refused(session: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"type.*decision.*finding") as caught:
        session.add("decision", {"type": "finding", "decision": "x"})
    assert caught.value.field == "type"
    with pytest.raises(InvalidRecord, match=r"type.*bug"):
        session.add_finding("x", type="bug")
    with pytest.raises(InvalidRecord, match="type"):
        session.add_many([("decision", {"type": "finding", "decision": "x"})])
    assert session.records() == []


def test_add_with_the_same_type_in_its_data_is_accepted(session: Any) -> None:
    assert session.add("decision", {"type": "decisions", "decision": "x"}).type == "decision"
    assert session.add("turn", {"type": "conversation_turn", "data": {"role": "user", "message": "y"}}).content == "y"


def test_update_of_the_type_is_refused(session: Any) -> None:
    session.add_decision("x")
    with pytest.raises(InvalidRecord, match="type"):
        session.update("DEC-0001", type="finding")


# -- stored, with a warning


@pytest.mark.parametrize(
    ("type", "field", "known"),
    [
        ("decision", "rational", "rationale"),
        ("decision", "alternativesConsidered", "alternatives_considered"),
        ("finding", "severty", "severity"),
        ("finding", "catgeory", "category"),
        ("learning", "tag", "tags"),
        ("decision", "importence", "importance"),
        ("conversation", "refrences", "references"),
    ],
)
def test_nearly_known_field_name_is_stored_and_answered_with_a_warning(
    session: Any, type: str, field: str, known: str
) -> None:
    record = session.add(type, {"role": "user"} if type == "conversation" else {}, **{_text(type): "x", field: "why"})
    assert record[field] == "why"
    assert session.get(record.id)[field] == "why"
    (warning,) = record.warnings
    assert repr(field) in warning
    assert repr(known) in warning


def _text(type: str) -> str:
    return {"conversation": "content"}.get(type, type)


@pytest.mark.parametrize(
    ("type", "field", "value", "known"),
    [
        ("finding", "severity", "huge", "critical"),
        ("finding", "visibility", "privat", "private"),
        ("decision", "author_kind", "robot", "agent"),
    ],
)
def test_unknown_value_of_a_known_field_is_stored_and_answered_with_a_warning(
    session: Any, type: str, field: str, value: str, known: str
) -> None:
    record = session.add(type, {type: "x", field: value})
    assert record[field] == value
    (warning,) = record.warnings
    assert value in warning
    assert known in warning


def test_known_names_and_values_and_own_names_are_answered_without_a_warning(session: Any) -> None:
    written = [
        session.add_decision("x", rationale="y", made_by="ada", alternatives=["z"], ticket="T-1", context="c"),
        session.add_finding("x", severity="Critical", visibility="private", category="security", cwe=79),
        session.add_turn("user", "hello", context={"a": 1}, host="h", rule="r"),
        session.add_preference("style", "short", weight=3),
    ]
    assert [record.warnings for record in written] == [()] * len(written)
    assert session.get("DEC-0001").warnings == ()


def test_change_with_a_nearly_known_name_is_answered_with_a_warning(session: Any) -> None:
    session.add_decision("x")
    record = session.update("DEC-0001", rational="y")
    assert "'rationale'" in record.warnings[0]
    assert record.rational == "y"


def test_warnings_of_many_and_of_a_transaction_are_with_each_write(session: Any) -> None:
    first, second = session.add_many([("decision", {"decision": "x", "rational": "y"}), ("decision", "z")])
    assert (len(first.warnings), second.warnings) == (1, ())
    with session.transaction() as transaction:
        third = transaction.add_finding("x", severity="huge")
        fourth = transaction.add_finding("x")
    assert (len(third.warnings), tuple(fourth.warnings)) == (1, ())


def test_create_session_keeps_unknown_keywords_and_warns_of_nearly_known_ones(session: Any) -> None:
    made = session.memory.create_session("s2", usr="ada", phase="review")
    assert made.info.context == {"usr": "ada", "phase": "review"}
    (warning,) = made.warnings
    assert "'usr'" in warning
    assert "'user'" in warning
    assert session.memory.create_session("s3", phase="review").warnings == ()


def test_agents_get_warnings_too(session: Any) -> None:
    assert "'rationale'" in session.agent("veritas").add_decision("x", rational="y").warnings[0]


# -- on the command line


def smp_command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", "--root", str(root), *words], capture_output=True, text=True, check=False
    )


def test_command_line_prints_warnings_on_stderr_and_in_json(tmp_path: Path) -> None:
    root = tmp_path / "store"
    smp_memory.open(root).create_session("s1")
    told = smp_command(root, "note", "x", "--severity", "huge")
    assert told.returncode == 0
    assert "'huge'" in told.stderr
    assert "FIND-0001" in told.stdout
    told = smp_command(root, "decide", "x", "--field", "rational=y", "--json")
    assert "'rationale'" in json.loads(told.stdout)["warnings"][0]
    told = smp_command(root, "edit", "DEC-0001", "importnace=0.5")
    assert "'importance'" in told.stderr
    told = smp_command(root, "decide", "x", "--json")
    assert "warnings" not in json.loads(told.stdout)
    assert told.stderr == ""
