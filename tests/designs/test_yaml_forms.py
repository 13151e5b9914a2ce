"""Files of design 003 stay valid YAML when SMP appends to them, whatever form the list in them has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import smp_memory

STATE = """\
agent_state:
  agent_id: "veritas"
  session_id: "s1"
  last_updated: "2026-01-11T16:45:00Z"

  # What the agent is about to do
  current_context:
    current_task: "verify_requirements"
    current_phase: "PHASE_6"

  working_memory:
    concerns_identified:
      - "Missing MFA specification"
      - "Undefined session timeout"

  decay:
    priority: 0.95
    last_accessed: "2026-01-11T16:45:00Z"
"""

ITEM = """\
- id: "DEC-001"
  timestamp: "2026-01-11T14:30:05Z"
  turn_ref: 2
  made_by: "bmad-master"

  decision: "Use multi-agent review"
  rationale: |
    Security-critical:

      it benefits from review
  alternatives_considered:
    - option: "Session cookies"
      rejected_because: "Not suitable"
- id: "DEC-002"
  timestamp: "2026-01-11T14:40:00Z"
  made_by: architect
  decision: "Use OAuth 2.0"
"""


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line if line.strip() else line for line in text.splitlines(keepends=True))


FORMS = {
    "indented by two": "decisions:\n" + indented(ITEM, 2),
    "not indented": "decisions:\n" + ITEM,
    "indented by four": "# Kept\n\ndecisions:  # of the review\n" + indented(ITEM, 4),
    "without a key": ITEM,
    "with a document start": "---\ndecisions:\n" + indented(ITEM, 2),
    "with a key in front": "version: 1\ndecisions:\n" + indented(ITEM, 2),
    "with a key behind": "decisions:\n" + indented(ITEM, 2) + "last_updated: 2026-01-11\nnotes:\n  by: ada\n",
    "without a line end": "decisions:\n" + indented(ITEM, 2).rstrip(),
}


def session_folder(root: Path) -> Path:
    folder = root / "active" / "s1"
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text("session:\n  id: s1\n  created_at: 2026-01-11T14:30:00Z\n")
    return folder


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("form", FORMS)
def test_file_stays_valid_yaml_after_each_append(tmp_path: Path, form: str) -> None:
    path = session_folder(tmp_path) / "decisions.yaml"
    path.write_text(FORMS[form])
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        before = [(each.id, each.text, each.given.get("rationale")) for each in session.records("decision")]
        assert [each[0] for each in before] == ["DEC-001", "DEC-002"]
        added = session.add_decision("Rotate the keys").id
        assert [each["id"] for each in loaded(path)["decisions"]] == ["DEC-001", "DEC-002", added]
        session.update("DEC-001", decision="Use one reviewer")
        assert len(loaded(path)["decisions"]) == 4
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        session.add_decision("Log every login")
        assert len(loaded(path)["decisions"]) == 5
        found = [(each.id, each.text, each.given.get("rationale")) for each in session.records("decision")]
        assert found[0][::2] == before[0][::2]
        assert found[1] == before[1]
        assert found[0][1] == "Use one reviewer"
        assert not [each for each in session.validate().problems if each.severity == "error" and "key" not in form]
    if "behind" in form:
        assert loaded(path)["notes"] == {"by": "ada"}
    if form == "indented by four":
        assert "# Kept" in path.read_text()


@pytest.mark.parametrize("empty", ["decisions: []\n", "decisions:\n", "# none yet\n", "decisions: ~\n", ""])
def test_first_entry_of_an_empty_list_leaves_valid_yaml(tmp_path: Path, empty: str) -> None:
    path = session_folder(tmp_path) / "decisions.yaml"
    path.write_text(empty)
    with smp_memory.open(tmp_path) as memory:
        added = memory.session("s1").add_decision("Rotate the keys").id
        assert [each["id"] for each in loaded(path)["decisions"]] == [added]
        assert [each.text for each in memory.session("s1").records("decision")] == ["Rotate the keys"]


def test_state_in_the_form_of_the_design_becomes_the_first_item_of_a_list(tmp_path: Path) -> None:
    folder = session_folder(tmp_path) / "agent-states"
    folder.mkdir()
    path = folder / "veritas.yaml"
    path.write_text(STATE)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        session.add_decision("Not about the state")
        assert path.read_text() == STATE  # only a write to this file changes its form
        session.update_agent_state("veritas", {"current_task": "rest"})
        items = loaded(path)["agent_state"]
        assert [each["id"] for each in items] == ["STATE-veritas", "STATE-veritas"]
        assert items[0]["state"]["current_context"]["current_phase"] == "PHASE_6"
        (state,) = session.records("agent_state")
        assert state.state == {"current_task": "rest"}
        assert [step["op"] for step in session.history("STATE-veritas")] == ["put", "change"]
        assert not [each for each in session.validate().problems if each.severity == "error"]


def test_transaction_over_several_files_leaves_each_one_valid(tmp_path: Path) -> None:
    folder = session_folder(tmp_path)
    (folder / "decisions.yaml").write_text("decisions:\n" + ITEM)
    (folder / "agent-states").mkdir()
    (folder / "agent-states" / "veritas.yaml").write_text(STATE)
    with smp_memory.open(tmp_path) as memory:
        with memory.session("s1").transaction() as tx:
            tx.add_decision("Rotate the keys")
            tx.update_agent_state("veritas", {"current_task": "rest"})
        assert len(loaded(folder / "decisions.yaml")["decisions"]) == 3
        assert len(loaded(folder / "agent-states" / "veritas.yaml")["agent_state"]) == 2
        assert len(memory.session("s1").records("decision")) == 3
