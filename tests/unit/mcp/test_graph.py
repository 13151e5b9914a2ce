"""The knowledge graph in a session: the answers of the reference server, and no lost update."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.importers.ingest import import_from
from smp_memory.integrations.mcp.graph import SESSION, KnowledgeGraph, UnknownEntity
from smp_memory.integrations.mcp.graph_file import export_file, graph_lines, import_once, parse
from smp_memory.privacy.fence import fence


@pytest.fixture
def memory() -> Any:
    with smp_memory.open(":memory:") as memory:
        yield memory


def entity(name: str, *observations: str, kind: str = "person") -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(source: str, target: str, kind: str = "knows") -> dict[str, Any]:
    return {"from": source, "to": target, "relationType": kind}


def test_reading_an_empty_graph_creates_no_session(memory: Any) -> None:
    assert KnowledgeGraph(memory).read() == {"entities": [], "relations": []}
    KnowledgeGraph(memory).delete_entities(["nobody"])
    assert memory.sessions() == []


def test_create_entities_adds_only_new_names(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    assert graph.create_entities([entity("Ada", "likes tea")]) == [entity("Ada", "likes tea")]
    assert graph.create_entities([entity("Ada", "other"), entity("Bob")]) == [entity("Bob")]
    assert graph.create_relations([relation("Ada", "Bob")]) == [relation("Ada", "Bob")]
    assert graph.create_relations([relation("Ada", "Bob"), relation("Bob", "Ada")]) == [relation("Bob", "Ada")]
    assert graph.read() == {
        "entities": [entity("Ada", "likes tea"), entity("Bob")],
        "relations": [relation("Ada", "Bob"), relation("Bob", "Ada")],
    }


def test_a_graph_that_was_read_shows_what_others_changed_since(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "m") as memory, smp_memory.open(tmp_path / "m") as other:
        graph, elsewhere = KnowledgeGraph(memory), KnowledgeGraph(other)
        graph.create_entities([entity("Ada", "likes tea")])
        assert graph.search("ada") == graph.open(["Ada"]) == graph.read()
        graph.read()["entities"][0]["observations"].append("never said")  # an answer belongs to the caller
        elsewhere.add_observations([{"entityName": "Ada", "contents": ["likes cake"]}])
        assert graph.read()["entities"] == [entity("Ada", "likes tea", "likes cake")]
        other.session(SESSION).erase([record.id for record in other.session(SESSION).records() if "tea" in record.text])
        assert graph.search("ada")["entities"] == [entity("Ada", "likes cake")]
        elsewhere.delete_entities(["Ada"])
        assert graph.read() == {"entities": [], "relations": []}


def test_duplicates_within_one_call_are_kept_as_in_the_reference_server(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    twice = [entity("A", "x", "x"), entity("A", kind="other")]
    assert graph.create_entities(twice) == twice
    assert graph.add_observations([{"entityName": "A", "contents": ["y", "y", "x"]}]) == [
        {"entityName": "A", "addedObservations": ["y", "y"]}
    ]
    assert graph.read()["entities"] == [entity("A", "x", "x", "y", "y"), entity("A", kind="other")]
    graph.delete_observations([{"entityName": "A", "observations": ["x", "unknown"]}])
    assert graph.open(["A"])["entities"][0]["observations"] == ["y", "y"]
    graph.delete_entities(["A"])
    assert graph.read()["entities"] == []


def test_add_observations_is_atomic_and_requires_existing_entities(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada")])
    with pytest.raises(UnknownEntity, match="Entity with name Zoe not found"):
        graph.add_observations([{"entityName": "Ada", "contents": ["a"]}, {"entityName": "Zoe", "contents": ["b"]}])
    assert graph.read()["entities"] == [entity("Ada")]


def test_deleting_an_entity_deletes_its_relations_and_observations(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada", "old"), entity("Bob")])
    graph.create_relations([relation("Ada", "Bob"), relation("Bob", "nobody"), relation("x", "y")])
    graph.delete_entities(["Ada"])
    assert graph.read() == {"entities": [entity("Bob")], "relations": [relation("Bob", "nobody"), relation("x", "y")]}
    graph.create_entities([entity("Ada", "new")])
    assert graph.open(["Ada"])["entities"] == [entity("Ada", "new")]
    graph.delete_relations([relation("x", "y")])
    assert graph.read()["relations"] == [relation("Bob", "nobody")]


def test_search_ignores_case_in_names_types_and_observations(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada", "Ärger"), entity("Bob", kind="TEAM"), entity("Cid")])
    graph.create_relations([relation("Cid", "Bob")])
    assert graph.search("ärger")["entities"] == [entity("Ada", "Ärger")]
    assert graph.search("team") == {"entities": [entity("Bob", kind="TEAM")], "relations": [relation("Cid", "Bob")]}
    assert len(graph.search("")["entities"]) == 3


def test_graph_memories_can_be_queried_and_restored(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada", "prefers dark roast coffee")])
    hits = memory.query("who likes dark roast?")
    assert hits[0].record.text == "Ada: prefers dark roast coffee"
    assert hits[0].record.topic == "Ada"
    assert [each.record.text for each in memory.session(SESSION).find_related(hits[0].record)] == ["Ada is a person"]
    graph.delete_observations([{"entityName": "Ada", "observations": ["prefers dark roast coffee"]}])
    memory.session(SESSION).restore(hits[0].record.id)
    assert graph.read()["entities"] == [entity("Ada", "prefers dark roast coffee")]


def test_redacted_names_match_on_later_calls(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("ada@example.com", "mail ada@example.com")])
    assert graph.open(["ada@example.com"])["entities"] == [entity("[REDACTED:email]", "mail [REDACTED:email]")]
    assert (
        graph.add_observations([{"entityName": "ada@example.com", "contents": ["mail ada@example.com"]}])[0][
            "addedObservations"
        ]
        == []
    )


def test_recalled_text_is_not_added_as_an_observation(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    texts = [fence("old fact"), "new " + fence("old fact")]
    assert graph.create_entities([entity("Ada", *texts)]) == [entity("Ada", "new ")]
    assert graph.read()["entities"] == [entity("Ada", "new ")]
    assert graph.add_observations([{"entityName": "Ada", "contents": texts}])[0]["addedObservations"] == []


def test_concurrent_creation_of_an_entity_yields_one(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path) as memory:
        created: list[Any] = []

        def work(number: int) -> None:
            graph = KnowledgeGraph(memory)
            created.extend(graph.create_entities([entity("shared", "first"), entity(f"own {number}")]))
            graph.add_observations([{"entityName": "shared", "contents": ["same", f"from {number}"]}])
            graph.create_relations([relation("shared", f"own {number}"), relation("a", "b")])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        graph = KnowledgeGraph(memory).read()
        by_name = {each["name"]: each["observations"] for each in graph["entities"]}
        assert sorted(by_name) == sorted(["shared", *(f"own {number}" for number in range(8))])
        assert len(graph["entities"]) == 9
        assert sorted(by_name["shared"]) == sorted(["first", "same", *(f"from {number}" for number in range(8))])
        assert len(graph["relations"]) == 9
        assert sum(each["name"] == "shared" for each in created) == 1


def test_observation_added_during_deletion_of_its_entity_is_deleted(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada")])
    [node] = memory.session(SESSION).records()
    memory.session(SESSION).add(
        "learning", {"learning": "Ada: late", "graph": "observation", "entity_id": node.id, "observation": "late"}
    )
    memory.session(SESSION).delete(node.id)
    graph.delete_entities(["Ada"])
    assert memory.session(SESSION).records() == []


def test_record_without_its_graph_fields_is_left_out(memory: Any) -> None:
    graph = KnowledgeGraph(memory)
    graph.create_entities([entity("Ada"), entity("Bob")])
    first, _ = memory.session(SESSION).records()
    memory.session(SESSION).update(first.id, entity_type=None)
    assert graph.read()["entities"] == [entity("Bob")]


# -- files


def test_import_and_export_of_a_file_round_trip(tmp_path: Path) -> None:
    lines = [
        '{"type":"entity","name":"Ada","entityType":"person","observations":["x","x","ß"]}',
        '{"type":"entity","name":"Ada","entityType":"twin","observations":["z"]}',
        '{"type":"relation","from":"Ada","to":"Acme","relationType":"works at"}',
    ]
    source, target = tmp_path / "memory.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    with smp_memory.open(tmp_path / "store") as memory:
        first = import_from(memory, "mcp-memory", source)
        assert first.added == {"entity": 2, "observation": 4, "relation": 1}
        assert import_from(memory, "mcp-memory", source).added == {}
        export_file(memory, str(target))
    assert target.read_text() == source.read_text()
    assert target.stat().st_mode & 0o777 == 0o600


def test_invalid_lines_are_reported_and_the_others_imported() -> None:
    text = b'{"type":"entity","name":"A","entityType":"t","observations":[]}\n\nnonsense\n{"type":"other"}\n{"type":"entity","name":7,"entityType":"t","observations":[]}\n{"type":"entity","name":"B","entityType":"t","observations":[1]}\n{"type":"relation","from":"a","to":"\\ud800","relationType":"r"}'
    graph, problems = parse(text)
    assert graph["entities"] == [{"name": "A", "entityType": "t", "observations": []}]
    assert graph["relations"] == []
    assert [line for line, _ in problems] == [3, 4, 5, 6, 7]
    assert graph_lines(graph) == '{"type":"entity","name":"A","entityType":"t","observations":[]}'


def test_file_is_imported_once_so_that_deletions_last(tmp_path: Path) -> None:
    source = tmp_path / "memory.jsonl"
    source.write_text('{"type":"entity","name":"Ada","entityType":"person","observations":[]}')
    with smp_memory.open(tmp_path / "store") as memory:
        graph = KnowledgeGraph(memory)
        assert import_once(graph, str(source)) == ({"entities": 1, "observations": 0, "relations": 0}, [])
        graph.delete_entities(["Ada"])
        assert import_once(graph, str(source)) is None
        assert import_once(graph, str(tmp_path / "missing")) is None
        assert graph.read()["entities"] == []


def test_oversized_items_are_reported_and_the_others_imported(memory: Any, tmp_path: Path) -> None:
    huge = "x" * 2_000_000
    lines = [
        {"type": "entity", **entity("Ada", "likes tea", huge, "plays chess")},
        {"type": "entity", **entity(huge)},
        {"type": "relation", **relation("Ada", huge)},
        {"type": "entity", **entity("Bob", "y" * 400_000)},
    ]
    (tmp_path / "memory.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = import_from(memory, "mcp-memory", tmp_path / "memory.jsonl")
    assert [each.line for each in done.unread] == [1, 2, 3]
    assert all(huge not in each.why for each in done.unread)
    assert KnowledgeGraph(memory).read()["entities"] == [
        entity("Ada", "likes tea", "plays chess"),
        entity("Bob", "y" * 400_000),
    ]
