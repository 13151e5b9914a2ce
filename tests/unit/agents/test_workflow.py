"""Declared reads of a workflow are loaded, and undeclared writes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidFormat, NotAllowed
from smp_memory.integrations.bmad.workflow import Run
from smp_memory.testing import FrozenClock

BODY = """\
workflow:
  metadata:
    id: "deep-verify-v6"
    name: "Deep Verify V6"

  memory_requirements:
    read_access:
      - "conversation.last_20_turns"
      - "decisions.by_topic:verification"
      - "findings.by_severity:critical"
      - "preferences.workflow_depth"

    write_access:
      - "findings"
      - "agent_states.veritas"

    memory_hints:
      - "Load past verification findings for comparison"
      - "Check user preferences for verification depth"

  phases:
    - name: "Phase 0: Self-Check"
      memory_usage:
        - type: "read"
          query: "past verifications on similar content"
          purpose: "Check for consistency in verification rigor"
"""
FORMS = {
    "yaml": (BODY, 0),
    "block": (f"# Deep verify\n\nText.\n\n```yaml\n{BODY}```\n\nMore text: with a colon\n", 5),
    "front matter": (f"---\n{BODY}---\n\n# Deep verify\n", 1),
    "front matter and block": (f"---\nname: other\n---\n\n```yaml\n{BODY}```\n", 5),
}


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    other = memory.create_session("other")
    other.add_finding("An old critical hole in the verification", severity="critical", author="veritas")
    session = memory.create_session("s1", user="ada")
    for number in range(25):
        session.add_turn("user", f"turn {number}")
    session.add_decision("Verify twice", topic="verification", author="architect")
    session.add_decision("Use OAuth", topic="login", author="architect")
    session.add_finding("A critical hole", severity="critical", author="veritas")
    session.add_finding("A dent", severity="low", author="veritas")
    session.add_preference("workflow_depth", "deep")
    session.add_preference("colour", "blue")
    session.update_agent_state("veritas", {"step": 1})
    session.update_agent_state("architect", {"step": 9})
    return session


def started(session: smp_memory.SessionMemory, text: str = BODY, agent: str = "veritas") -> Run:
    return smp_memory.Workflow.load(text).start(session, agent=agent)


@pytest.mark.parametrize("form", FORMS)
def test_workflow_is_read_from_yaml_and_markdown(form: str, tmp_path: Path) -> None:
    text, offset = FORMS[form]
    path = tmp_path / "workflow-v6.md"
    path.write_text(text)
    for workflow in (
        smp_memory.Workflow.load(text),
        smp_memory.Workflow.load(path),
        smp_memory.Workflow.load(str(path)),
    ):
        assert (workflow.id, workflow.name) == ("deep-verify-v6", "Deep Verify V6")
        assert [each.text for each in workflow.write_access] == ["findings", "agent_states.veritas"]
        assert workflow.read_access[0].line == 8 + offset
        assert len(workflow.hints) == 2
        assert workflow.phases == ["Phase 0: Self-Check"]
        assert workflow.to_dict()["read_access"][1]["declaration"] == "decisions.by_topic:verification"


def test_declared_reads_are_loaded(session: smp_memory.SessionMemory) -> None:
    reads = {name: [record.text for record in records] for name, records in started(session).reads.items()}
    assert reads["conversation.last_20_turns"] == [f"turn {number}" for number in range(5, 25)]
    assert reads["decisions.by_topic:verification"] == ["Verify twice"]
    assert sorted(reads["findings.by_severity:critical"]) == [
        "A critical hole",
        "An old critical hole in the verification",
    ]
    assert reads["preferences.workflow_depth"] == ["deep"]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("conversation.last_3_turns", ["turn 22", "turn 23", "turn 24"]),
        ("conversation.last_turns:2", ["turn 23", "turn 24"]),
        ("conversation", [f"turn {number}" for number in range(5, 25)]),
        ("decisions", ["Use OAuth", "Verify twice"]),
        ("decisions.by_topic:verification,login", ["Use OAuth", "Verify twice"]),
        ("decisions.by_agent:architect", ["Use OAuth", "Verify twice"]),
        ("findings.by_severity:low", ["A dent"]),
        (
            "findings.by_severity:low, critical",
            ["A critical hole", "A dent", "An old critical hole in the verification"],
        ),
        ("findings.by_status:resolved", []),
        ("findings.about:dent", ["A dent"]),
        ("findings.open", ["A critical hole", "A dent", "An old critical hole in the verification"]),
        ("preferences", ["blue", "deep"]),
        ("agent_states.veritas", ["veritas"]),
        ("agent_states", ["veritas"]),
        ("agent_states.architect", []),  # another's state is not seen, whatever is declared
        ("working_memory", ["veritas"]),
        ("learnings", []),
    ],
)
def test_every_form_of_a_declaration_selects_its_memories(
    session: smp_memory.SessionMemory, declared: str, found: list[str]
) -> None:
    run = started(session, f"memory_requirements:\n  read_access: [{declared!r}]\n")
    texts = [record.text for record in run.reads[declared]]
    assert (texts if declared.startswith("conversation") else sorted(texts)) == found


def test_declared_writes_are_stored(session: smp_memory.SessionMemory) -> None:
    run = started(session)
    assert run.memory.add_finding("new").author == "veritas"
    run.memory.update_state({"step": 2})
    run.memory.update("FIND-0002", note="seen")
    run.memory.resolve("FIND-0002", "painted")
    with run.memory.transaction() as tx:
        tx.add_finding("another")
    run.memory.add_many([("finding", "third")])


@pytest.mark.parametrize(
    "write",
    [
        lambda memory: memory.add_decision("x"),
        lambda memory: memory.add_turn("user", "x"),
        lambda memory: memory.add_preference("a", "b"),
        lambda memory: memory.add_learning("x"),
        lambda memory: memory.add_artifact("x"),
        lambda memory: memory.update("DEC-0001", note="x"),
        lambda memory: memory.delete("DEC-0001"),
        lambda memory: memory.pin("DEC-0001"),
        lambda memory: memory.relate("DEC-0001", "FIND-0001"),
        lambda memory: memory.resolve("DEC-0001", "x"),
        lambda memory: memory.add_many([("finding", "x"), ("decision", "y")]),
    ],
)
def test_undeclared_writes_are_refused_with_file_and_line(
    session: smp_memory.SessionMemory, write: Any, tmp_path: Path
) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(BODY)
    run = smp_memory.Workflow.load(path).start(session, agent="veritas")
    before = [record.to_dict() for record in session.records()]
    with pytest.raises(NotAllowed) as caught:
        write(run.memory)
    assert f"{path}:14" in str(caught.value)
    assert "findings, agent_states.veritas" in str(caught.value)
    assert caught.value.details["line"] == 14
    assert [record.to_dict() for record in session.records()] == before


def test_a_transaction_with_one_undeclared_write_writes_nothing(session: smp_memory.SessionMemory) -> None:
    run = started(session)
    with pytest.raises(NotAllowed), run.memory.transaction() as tx:
        tx.add_finding("new")
        tx.add_decision("not declared")
    assert "new" not in [record.finding for record in session.records("finding")]


def test_a_state_may_be_declared_for_one_agent_only(session: smp_memory.SessionMemory) -> None:
    run = started(session, agent="architect")
    with pytest.raises(NotAllowed, match="agent_state of architect"):
        run.memory.update_state({"x": 1})
    started(session, "memory_requirements: {write_access: [agent_states]}", "architect").memory.update_state({"x": 1})


def test_one_preference_may_be_declared(session: smp_memory.SessionMemory) -> None:
    run = started(session, "memory_requirements:\n  write_access: [preferences.workflow_depth]")
    run.memory.add_preference("workflow_depth", "shallow")
    with pytest.raises(NotAllowed):
        run.memory.add_preference("colour", "red")


def test_workflow_without_requirements_is_not_restricted(session: smp_memory.SessionMemory) -> None:
    run = started(session, "name: free\nphases: []\n")
    assert run.reads == {}
    run.memory.add_decision("anything")


def test_requirements_without_write_access_may_write_nothing(session: smp_memory.SessionMemory) -> None:
    run = started(session, "memory_requirements:\n  read_access: [decisions]\n")
    with pytest.raises(NotAllowed, match="may write nothing"):
        run.memory.add_finding("x")


def test_hints_and_phases_select_memories(session: smp_memory.SessionMemory) -> None:
    run = started(session)
    assert "An old critical hole in the verification" in run.context().text
    found = [record.text for record in run.phase("Phase 0: Self-Check")]
    assert "An old critical hole in the verification" in found
    assert run.phase("no such phase") == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("memory_requirements:\n  read_access:\n    - bananas\n", 3, "bananas"),
        ("memory_requirements:\n  read_access: [decisions.by_mood:x]\n", 2, "by_mood"),
        ("memory_requirements:\n  read_access: [decisions.by_topic]\n", 2, "by_topic:login"),
        ("memory_requirements:\n  read_access: [conversation.first_3]\n", 2, "last_20_turns"),
        ("a: b\nc: [1,\n  2\nd: e\n", 4, "expected"),
        ("---\nmemory_requirements:\n  write_access: [everything]\n---\n", 3, "everything"),
        ("# Title\n\n```yaml\nmemory_requirements:\n  write_access: [nothing]\n```\n", 5, "nothing"),
    ],
)
def test_invalid_declaration_is_reported_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidFormat, match=words) as caught:
        smp_memory.Workflow.load(text)
    assert caught.value.details["line"] == line


@pytest.mark.parametrize(
    "text",
    [
        "memory_requirements: [a, b]\n",
        "memory_requirements:\n  reads: [decisions]\n",
        "memory_requirements:\n  read_access: [[nested]]\n",
        "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
        "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
        "f: [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n",
        "a: &a\n  b: *a\n",
        "[" * 2000 + "\n",
    ],
)
def test_invalid_workflow_file_is_an_error(text: str) -> None:
    with pytest.raises(InvalidFormat):
        smp_memory.Workflow.load(text)


def test_yaml_tags_in_a_workflow_are_not_executed() -> None:
    workflow = smp_memory.Workflow.load("name: !!python/object/apply:os.system ['true']\nmemory_requirements: {}\n")
    assert workflow.is_restricted


def test_missing_file_or_binary_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFormat, match="no such file"):
        smp_memory.Workflow.load(tmp_path / "nowhere.md")
    with pytest.raises(InvalidFormat, match="no such file"):
        smp_memory.Workflow.load(tmp_path)
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidFormat, match="UTF-8"):
        smp_memory.Workflow.load(tmp_path / "bytes.md")
    (tmp_path / "large.md").write_bytes(b"x: y\n" * 300_000)
    with pytest.raises(InvalidFormat, match="larger"):
        smp_memory.Workflow.load(tmp_path / "large.md")
