"""A type that is only a row of the table works everywhere: Python, command line, MCP, context, digest, exchange, all layouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.context.digest import digest_text
from smp_memory.errors import InvalidRecord
from smp_memory.files.layouts import NAMES
from smp_memory.model import types
from smp_memory.model.decay import POLICIES, DecayInputs, policy_of
from smp_memory.model.types import ACTIVE, IF_CRITICAL, KINDS, OPEN, Kind
from smp_memory.testing import FrozenClock

RISK = {
    "place": 2.5,
    "definition": "something that may go wrong",
    "statuses": ("open", "watched", "mitigated", "accepted"),
    "closed": ("mitigated", "accepted"),
    "default_status": "open",
    "is_open_until_closed": True,
    "decay": (0.9, 0.1, 0.02, 0.25),
    "floors": (IF_CRITICAL,),
    "half_life_hours": 24,
    "importance": 0.9,
    "retention_days": 10,
    "keeps": OPEN,
    "is_merged": True,
    "is_written_down": True,
    "reason": ("against it", "mitigation"),
    "context_place": 1.5,
    "context_title": "Open risks",
    "digest_title": "Risks",
}
FIELDS = ("author", "severity", "risk", "mitigation", "probability", "status", "resolution")


def new_kind(name: str = "risk", prefix: str = "RISK", **facts: Any) -> Kind:
    return Kind(name, prefix, f"{name}s", name, FIELDS, {"threat": "risk"}, **{**RISK, **facts})


@pytest.fixture(autouse=True)
def risk() -> Iterator[Kind]:
    kind = new_kind()
    types.register(kind)
    yield kind
    types.unregister("risk")
    assert "risk" not in KINDS
    assert "RISK" not in types.PREFIXES
    assert "risks" not in types.STEMS


def opened(folder: Path, layout: str = "jsonl", clock: FrozenClock | None = None) -> smp_memory.Memory:
    return smp_memory.open(folder / "store", layout=layout, clock=clock or FrozenClock(), config={"durability": "os"})


def filled(memory: smp_memory.Memory) -> smp_memory.SessionMemory:
    session = memory.create_session("s1", user="ada")
    session.add("risk", "The vendor may close", severity="critical", mitigation="Keep an export", author="ada")
    session.add("risk", {"threat": "The key may leak", "severity": "low", "probability": 0.2, "tags": ["keys"]})
    session.add_decision("Use files")
    return session


# -- Python


def test_new_type_is_added_read_found_changed_resolved_and_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        session = filled(memory)
        first, second = session.records("risks")
        assert (first.id, first.type, first.text, first.status) == ("RISK-0001", "risk", "The vendor may close", "open")
        assert (type(first).__name__, first.probability, second.probability) == ("Risk", None, 0.2)
        assert list(first.to_dict())[-7:] == ["author", "severity", "risk", "mitigation", "tags", "pinned", "text"]
        assert session.query("vendor", types="risk").ids == ["RISK-0001"]
        assert session.query(types="risk", where={"status": "open"}, sort="severity").ids == ["RISK-0001", "RISK-0002"]
        assert session.query(where="severity>=high").ids == ["RISK-0001"]
        assert session.query(count_by="type").counts == {"type": {"risk": 2, "decision": 1}}
        session.update("RISK-0002", probability=0.5, by="ada")
        session.resolve("RISK-0002", "Rotated", status="mitigated", by="ada")
        assert [step["op"] for step in session.history("RISK-0002")] == ["put", "change", "change"]
        assert session.get("RISK-0002").status == session.get("RISK-0002").resolution["status"] == "mitigated"
        assert session.query(types="risk", where={"status": "open"}).ids == ["RISK-0001"]
        session.delete("RISK-0001")
        assert [record.id for record in session.records("risk")] == ["RISK-0002"]
        assert session.add("risk", "Another one").id == "RISK-0003"
        assert session.stats().by_type == {"risk": 2, "decision": 1}
        assert session.size_report().components["risks"] > 0


def test_bad_input_is_rejected_by_the_facts_of_its_row(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        session = memory.create_session("s1")
        with pytest.raises(InvalidRecord, match="risk"):
            session.add("risk", {"severity": "high"})
        with pytest.raises(InvalidRecord, match="risk"):
            session.add("risk", {"risk": 5})
        learning = session.add_learning("A fact")
        with pytest.raises(InvalidRecord, match="only risks, findings and decisions can be resolved"):
            session.resolve(learning.id, "done")
        assert session.add("risk", "x", status="mitigted").warnings == (
            "status: 'mitigted' is stored but not known, so the risk counts as open. Did you mean 'mitigated'?",
        )


# -- files


@pytest.mark.parametrize("layout", NAMES)
def test_each_layout_stores_a_new_type_and_reads_it_back(tmp_path: Path, layout: str) -> None:
    with opened(tmp_path, layout) as memory:
        session = filled(memory)
        session.resolve("RISK-0002", "Rotated", status="mitigated")
        session.delete("RISK-0001")
        before = [record.to_dict() for record in session.records("risk", include_deleted=True)]
    with opened(tmp_path, layout) as memory:
        session = memory.session("s1")
        assert [record.to_dict() for record in session.records("risk", include_deleted=True)] == before
        assert all(report.ok for report in memory.validate().values())
        assert memory.doctor().ok
        assert session.query("rotated").ids == ["RISK-0002"]


def test_converting_through_all_layouts_keeps_a_new_type(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    filled(memory)
    before = [record.to_dict() for record in memory.session("s1").records("risk")]
    for layout in (*NAMES[1:], NAMES[0]):
        memory = memory.convert(layout)
        assert [record.to_dict() for record in memory.session("s1").records("risk")] == before
        assert memory.query("vendor").ids == ["RISK-0001"]
    memory.close()


@pytest.mark.parametrize("format", ["json", "jsonl", "yaml", "markdown"])
def test_an_export_can_be_imported(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"export.{format}"
    with opened(tmp_path) as memory:
        before = [record.to_dict() for record in filled(memory).records("risk")]
        memory.export(str(file), format=format)
    with opened(tmp_path / "other") as memory:
        memory.import_(str(file))
        assert [record.to_dict() for record in memory.session("s1").records("risk")] == before


# -- for agents and people


def test_open_records_of_a_new_type_are_in_the_context_and_the_digest(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        session = filled(memory)
        session.resolve("RISK-0002", status="accepted")
        text = session.context("Choose a vendor", max_tokens=800).text
        assert (
            "## Open risks\n- 2026-01-01 RISK-0001 [critical] (ada): The vendor may close (against it: Keep an export)"
            in text
        )
        assert text.index("## Open risks") < text.index("## Decisions")
        page = digest_text(memory.scope)
        assert (
            "## Risks\n\n- 2026-01-01 s1/RISK-0001 [critical] (ada): The vendor may close (against it: Keep an export)\n"
            in page
        )
        assert page.index("## Decisions") < page.index("## Risks") < page.index("## Preferences")
        assert "RISK-0002" not in text + page
        summary = session.summarize()
        assert "2 risks" in summary.text
        assert "\nOpen risks\n- RISK-0001 critical: The vendor may close (ada, 2026-01-01)\n" in summary.text
        known = summary.to_dict()["session_summary"]
        assert [each["risk"] for each in known["open_risks"]["critical"]] == ["The vendor may close"]
        assert list(known["open_risks"]) == ["critical"]


def test_command_line_adds_lists_and_finds_a_new_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMP_ROOT", str(tmp_path / "store"))
    monkeypatch.setenv("SMP_SESSION", "s1")

    def run(*words: str) -> str:
        assert main([*words]) in (0, None), capsys.readouterr().err
        return capsys.readouterr().out

    with opened(tmp_path) as memory:
        memory.create_session("s1")
    assert "RISK-0001" in run("add", "risk", "The vendor may close", "--field", "severity=critical")
    assert "critical, open" in (listed := run("list"))
    assert "The vendor may close" in listed
    assert [each["id"] for each in json.loads(run("list", "risks", "--json"))] == ["RISK-0001"]
    assert "RISK-0001" in run("query", "vendor", "--type", "risk")
    assert "mitigated" in run("resolve", "RISK-0001", "Exported", "--status", "mitigated")
    assert "mitigated" in run("history", "RISK-0001")
    assert ", summary, risk\n" in run("add", "--help")


def test_mcp_defines_stores_and_recalls_a_new_type(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    shown = TOOLS["remember"].definition("remember").input_schema["properties"]["type"]
    assert "risk" in shown["enum"]
    assert "; risk: something that may go wrong; " in shown["description"]
    with opened(tmp_path) as memory:
        caller = RequestContext(memory).caller("tester")
        given = {"type": "risk", "text": "The vendor may close", "severity": "high", "mitigation": "Keep an export"}
        stored = TOOLS["remember"].call(caller, given).data
        found = TOOLS["recall"].call(caller, {"query": "vendor", "types": ["risk"]}).data["items"]
        assert [(each["id"], each["text"], each["status"]) for each in found] == [
            (stored["id"], "The vendor may close", "open")
        ]
        TOOLS["update"].call(caller, {"action": "resolve", "id": stored["id"], "status": "mitigated"})
        assert memory.get(stored["id"]).mitigation == "Keep an export"
        assert memory.get(stored["id"]).status == "mitigated"


# -- decay, retention, compaction, consolidation


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_decays_a_new_type_by_its_row(policy: str) -> None:
    day = 86_400_000_000
    plain, critical = DecayInputs("risk", 0), DecayInputs("risk", 0, severity="critical")
    chosen = policy_of({"policy": policy})
    assert 1 >= chosen.priority(plain, 0) > chosen.priority(plain, 10 * day) >= 0
    if policy == "smp":
        assert chosen.priority(plain, 1000 * day) == 0.25
        assert chosen.explain(critical, 1000 * day)["floor_because"] == "a critical risk"
        assert policy_of({"rates": {"risk": 0.0}}).explain(plain, day)["rate_per_day"] == 0.0
    if policy == "half-life":
        assert chosen.priority(plain, day) == 0.5
    if policy == "boosted":
        assert chosen.explain(plain, 0)["importance"] == 0.9


def test_compaction_keeps_open_records_of_a_new_type_and_removes_closed_ones(tmp_path: Path) -> None:
    clock = FrozenClock()
    with opened(tmp_path, clock=clock) as memory:
        session = filled(memory)
        session.resolve("RISK-0002", status="accepted")
        session.update("RISK-0002", importance=0.5)
        clock.advance(days=5)
        plan = session.compact(1 << 20, dry_run=True).plan
        assert [(each.id, each.why, each.stage) for each in plan.removed] == [
            ("RISK-0002", "a settled risk", "resolved_findings")
        ]
        assert plan.kept["RISK-0001"] == "an open risk"
        session.compact(1 << 20)
        assert [record.id for record in session.records("risk")] == ["RISK-0001"]
        assert [each.id for each in session.archived()] == ["RISK-0002"]
        assert session.query("leak", include_archived=True).ids == ["RISK-0002"]


def test_retention_expires_closed_records_after_the_days_of_the_row(tmp_path: Path) -> None:
    from smp_memory.lifecycle.retention import due

    clock = FrozenClock()
    with opened(tmp_path, clock=clock) as memory:
        session = filled(memory)
        session.resolve("RISK-0002", status="mitigated")
        assert due(session.records(), clock.advance(days=9)) == []
        assert [expiry.id for expiry in due(session.records(), clock.advance(days=2))] == ["RISK-0002"]


def test_near_duplicates_are_found_and_keep_the_highest_severity(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        session = memory.create_session("s1")
        session.add("risk", "The only vendor may close its service", severity="low")
        session.add("risk", "The only vendor may close its service soon", severity="high")
        (group,) = session.duplicates()
        assert session.merge(group).severity == "high"


def test_agent_writes_a_new_type_in_its_own_name_and_may_keep_it_private(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        session = memory.create_session("s1")
        session.agent("veritas").add("risk", "The key may leak", visibility="private")
        assert [record.author for record in session.agent("veritas").records("risk")] == ["veritas"]
        assert session.agent("architect").records("risk") == []


def test_new_type_can_be_promoted_to_all_sessions(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        filled(memory)
        promoted = memory.global_memory.promote("s1/RISK-0001")
        assert (promoted.type, promoted.text, promoted.category) == ("learning", "The vendor may close", "risk")


def test_hooks_inject_a_new_type_at_a_prompt(tmp_path: Path) -> None:
    from smp_memory.integrations.hooks.events import read
    from smp_memory.integrations.hooks.reader import Reader
    from smp_memory.integrations.hooks.recall import recall_for_event

    with opened(tmp_path) as memory:
        filled(memory)
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "x",
        "prompt": "Could the vendor close, and do we keep an export?",
        "cwd": "/",
    }
    known = read(json.dumps(event).encode(), "claude-code", {})
    assert known is not None
    told = recall_for_event(Reader(str(tmp_path / "store"), {}), known, "other")
    assert "## Open risks\n" in told.text
    assert told.told == ["s1/RISK-0001"]


# -- the table


def test_a_row_states_facts_that_exist_and_takes_no_name_prefix_file_or_number_of_another() -> None:
    with pytest.raises(TypeError, match="colour is not a fact of a type"):
        new_kind("hazard", "HAZ", colour="red")
    for kind in (
        new_kind(prefix="HAZ"),
        new_kind("hazard"),
        new_kind("hazard", "HAZ", number=0),
        new_kind("hazard", "HAZ", other_names=("turn",)),
        Kind("hazard", "HAZ", "findings", "hazard", ("hazard",)),
    ):
        with pytest.raises(ValueError, match="belongs to another type"):
            types.register(kind)
    with pytest.raises(ValueError, match="is_named_by_key: only preference can be such a type"):
        types.register(new_kind("hazard", "HAZ", is_named_by_key=True))
    assert "hazard" not in KINDS


def test_a_name_is_not_registered_again_with_other_facts() -> None:
    types.unregister("risk")
    try:
        with pytest.raises(ValueError, match="with other facts"):
            types.register(new_kind(importance=0.1))
    finally:
        types.register(new_kind(number=8))


def test_types_that_hold_until_they_are_overturned_are_kept_while_active(tmp_path: Path) -> None:
    types.register(new_kind("policy", "POL", keeps=ACTIVE, is_open_until_closed=False))
    try:
        clock = FrozenClock()
        with opened(tmp_path, clock=clock) as memory:
            session = memory.create_session("s1")
            session.add("policy", "Two people review each change")
            clock.advance(days=90)
            assert session.compact(1 << 20, dry_run=True).plan.kept == {"POL-0001": "an active policy"}
    finally:
        types.unregister("policy")
