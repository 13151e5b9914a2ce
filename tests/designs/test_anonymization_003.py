"""The flags of design 003 §8.4 for anonymised copies and records."""

from __future__ import annotations

from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord

ALL = {
    "remove_user_names": True,
    "remove_project_names": True,
    "remove_file_paths": True,
    "replace_with_placeholders": True,
    "preserve_structure": True,
}
TEXT = "Ada Byron moved Ledger to /srv/ledger/main.py and told ada@ledger.example"


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    memory = smp_memory.open(":memory:", config={"privacy.redaction.enabled": False})
    session = memory.create_session("s", user="Ada Byron", project="Ledger")
    session.add_turn("user", TEXT)
    session.add_decision("Keep it", references=["TURN-0001"], turn_ref=1)
    session.relate("DEC-0001", "TURN-0001", "led_to")
    return session


def texts(session: smp_memory.SessionMemory, **changed: bool) -> tuple[str, dict[str, Any]]:
    """The same from a copy and from a single record: the text of the turn, and the fields of the decision."""
    config = {**ALL, **changed}
    copy = session.anonymised(config=config)
    record = session.anonymised_record("TURN-0001", config=config)
    assert copy.get("TURN-0001").content == record["content"]
    return record["content"], copy.get("DEC-0001").to_dict()


def test_all_flags_together_are_the_default(session: smp_memory.SessionMemory) -> None:
    text, decision = texts(session)
    assert text == session.anonymised_record("TURN-0001")["content"]
    assert text == session.anonymised_record("TURN-0001", config={})["content"]
    assert not any(name in text for name in ("Ada", "Ledger", "/srv", "ledger.example"))
    assert (decision["references"], decision["turn_ref"]) == (["TURN-0001"], 1)
    assert decision["relations"] == [{"kind": "led_to", "target": "TURN-0001"}]


@pytest.mark.parametrize(
    ("flag", "kept"),
    [("remove_user_names", "Ada Byron"), ("remove_project_names", "Ledger"), ("remove_file_paths", "/main.py")],
)
def test_flag_that_is_off_keeps_what_it_names(session: smp_memory.SessionMemory, flag: str, kept: str) -> None:
    text, _ = texts(session, **{flag: False})
    assert kept in text
    others = {"Ada Byron", "Ledger", "/main.py"} - {kept}
    assert not any(name in text for name in others)
    assert "@ledger" not in text


def test_names_are_removed_without_placeholders(session: smp_memory.SessionMemory) -> None:
    text, _ = texts(session, replace_with_placeholders=False)
    assert text == "[removed] moved [removed] to [removed] and told [removed]"
    copy = session.anonymised("again", config={"replace_with_placeholders": False})
    assert (copy.info.user, copy.info.project) == ("[removed]", "[removed]")
    assert copy.validate().ok


def test_structure_is_dropped_if_it_is_not_to_be_preserved(session: smp_memory.SessionMemory) -> None:
    _, decision = texts(session, preserve_structure=False)
    assert not {"references", "relations", "turn_ref"} & decision.keys()
    assert decision["decision"] == "Keep it"


@pytest.mark.parametrize("config", [{"remove_names": True}, {"remove_user_names": "yes"}, "all"])
def test_unknown_flags_and_values_are_refused(session: smp_memory.SessionMemory, config: Any) -> None:
    with pytest.raises(InvalidRecord, match="config"):
        session.anonymised(config=config)
    with pytest.raises(InvalidRecord, match="config"):
        session.anonymised_record("TURN-0001", config=config)
    assert len(session.memory.sessions()) == 1
