"""A text merge can put the first lines of one entry before the last lines of another. Such an entry is damage, not an edit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import smp_memory
from tests.conformance.layout_files import decisions_file, filled, opened, turns_file


def mixed(path: Path, pattern: str) -> None:
    """Append an entry with the first lines of the last entry but one and the machine line of the last."""
    found = re.findall(pattern, path.read_text())
    (begin, _), (_, end) = found[-2:]
    with path.open("a") as file:
        file.write(f"\n{begin}{end}\n")


def damage(session: smp_memory.SessionMemory) -> list[str]:
    return [each.message for each in session.validate().problems if each.code == "damaged"]


@pytest.mark.parametrize("file", ["decisions", "turns"])
def test_entry_with_lines_of_two_entries_is_reported_and_does_not_count(tmp_path: Path, file: str) -> None:
    session = filled(tmp_path, "markdown")
    session.add_turn("assistant", "Second words")
    session.update("DEC-0001", rationale="of one")
    session.update("DEC-0002", rationale="of two")
    before = {record.id: record.to_dict() for record in opened(tmp_path).records()}
    if file == "decisions":
        mixed(decisions_file(tmp_path, "markdown"), r"(  - id: .*\n(?:    .*\n)*?)(    smp: .*\n)")
    else:
        mixed(turns_file(tmp_path, "markdown"), r"(## Turn (?:.*\n)*?)(<!-- end .*\n\n---\n)")
    look = opened(tmp_path)
    assert {record.id: record.to_dict() for record in look.records()} == before
    assert len(look.records().problems) == len(damage(look)) == 1
    assert "lines of two entries were mixed" in damage(look)[0]
    look.add_decision("Later")
    look.repair()
    again = opened(tmp_path)
    assert damage(again) == []
    assert {record.id: record.to_dict() for record in again.records() if record.id in before} == before
    assert [each.code for each in again.validate().problems] == ["quarantine"]
