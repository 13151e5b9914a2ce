"""The table of types, the record classes and the types for checkers say the same."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

import smp_memory
from smp_memory.cli.hit_output import display_text
from smp_memory.model import options as typed
from smp_memory.model.record import CLASSES, Field, Status
from smp_memory.model.types import (
    CLOSED_STATUSES,
    COMMON_FIELDS,
    KINDS,
    SETTLED,
    SEVERITIES,
    SEVERITY_LEVELS,
    SEVERITY_WEIGHTS,
    severity_rank,
)

TYPED = {
    "conversation": (typed.TurnFields, {"role", "content"}),
    "decision": (typed.DecisionFields, {"decision"}),
    "finding": (typed.FindingFields, {"finding"}),
    "preference": (typed.PreferenceFields, {"key", "value"}),
    "artifact": (typed.ArtifactFields, {"name", "content"}),
    "learning": (typed.LearningFields, {"learning"}),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_record_class_of_a_type_has_its_fields_as_attributes(name: str) -> None:
    attributes = {key for key, value in vars(CLASSES[name]).items() if isinstance(value, Field | Status)}
    assert attributes == {*KINDS[name].fields} - {"author"}


@pytest.mark.parametrize("name", TYPED)
def test_the_fields_for_type_checkers_are_those_of_the_table(name: str) -> None:
    typed_fields, named = TYPED[name]
    kind, hints = KINDS[name], {"Mapping": dict, "Sequence": list, "datetime": object, "date": object}
    given = {kind.aliases.get(field, field) for field in get_type_hints(typed_fields, localns=hints)} | named
    assert given == {"id", "created", *COMMON_FIELDS, *kind.fields}


@pytest.mark.parametrize(
    ("given", "listed", "recalled"),
    [
        ({"key": "tabs", "value": 4}, "tabs: 4", "tabs: 4"),
        ({"key": "tabs", "value": 0}, "tabs: 0", "tabs: 0"),
        ({"key": "tabs", "value": {"width": 4}}, 'tabs: {"width": 4}', 'tabs: {"width": 4}'),
        ({"key": "style", "value": "brief"}, "style: brief", "style: brief"),
        ({"key": "style", "value": "brief", "preference": "Be brief"}, "style: Be brief", "style: Be brief"),
        ({"key": "style"}, "style", "style"),
        ({"preference": "Be brief"}, "Be brief", "Be brief"),
    ],
)
def test_a_preference_on_one_line_shows_its_value_also_if_it_is_not_a_text(
    given: dict[str, Any], listed: str, recalled: str
) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.read_tools import memory_text

    with smp_memory.open(":memory:") as memory:
        record = memory.create_session("s1").add("preference", given)
        assert (display_text(record), memory_text(record)) == (listed, recalled)


def test_the_numbers_of_the_index_never_change() -> None:
    """An index that another version made is read by these numbers."""
    assert {name: kind.number for name, kind in KINDS.items()} == {
        "conversation": 0,
        "decision": 1,
        "finding": 2,
        "preference": 3,
        "agent_state": 4,
        "artifact": 5,
        "learning": 6,
        "summary": 7,
    }


def test_severities_are_ordered_once() -> None:
    assert tuple(SEVERITY_WEIGHTS) == SEVERITIES == tuple(SEVERITY_LEVELS)
    assert sorted(SEVERITY_WEIGHTS.values(), reverse=True) == list(SEVERITY_WEIGHTS.values())
    assert sorted(SEVERITY_LEVELS.values(), reverse=True) == list(SEVERITY_LEVELS.values())
    assert severity_rank(" Critical ") == 0
    assert severity_rank("odd") == severity_rank(None) == severity_rank(5) == len(SEVERITIES)


@pytest.mark.parametrize("name", KINDS)
def test_a_status_that_closes_a_memory_settles_it(name: str) -> None:
    row = KINDS[name]
    assert set(row.closed) <= set(row.statuses)
    assert row.settled == SETTLED
    assert set(CLOSED_STATUSES) <= SETTLED
    assert row.default_status is None or row.default_status in row.statuses
