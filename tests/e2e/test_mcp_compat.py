"""`smp mcp --compat memory` compared with the reference memory server: the same answers, and no lost update."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from tests.e2e.mcp_process import Failed, Server, environment
from tests.e2e.npm_package import installed

PACKAGE, VERSION = "@modelcontextprotocol/server-memory", "2026.8.31"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compat") / "store"
    smp_memory.open(root, config=None).close()
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with Server(root, "--compat", "memory") as server:
        server.greet()
        yield server
        assert server.leave() == 0
        assert server.log == ""


def entity(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "person", "observations": list(observations)}


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


def test_nine_tools_and_the_resource_are_listed(server: Server) -> None:
    tools = [tool["name"] for tool in server.ask("tools/list")["tools"]]
    assert tools == [
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
        "delete_relations", "read_graph", "search_nodes", "open_nodes",
    ]  # fmt: skip
    assert [each["uri"] for each in server.ask("resources/list")["resources"]] == ["memory://knowledge-graph"]
    with pytest.raises(Failed, match="Resource memory://other not found"):
        server.ask("resources/read", uri="memory://other")


def test_sequence_of_calls_gives_the_answers_of_the_reference_server(server: Server) -> None:
    made = server.call("create_entities", entities=[entity("Ada", "likes tea ☕")])
    assert made["structuredContent"] == {"entities": [entity("Ada", "likes tea ☕")]}
    assert text_of(made) == json.dumps([entity("Ada", "likes tea ☕")], ensure_ascii=False, indent=2)
    assert server.error("add_observations", observations=[{"entityName": "Zoe", "contents": ["x"]}]) == (
        "Entity with name Zoe not found"
    )
    assert server.error("create_entities", entities=[{"name": "B"}]) == (
        "MCP error -32602: Input validation error: Invalid arguments for tool create_entities: "
        "Invalid input: expected string, received undefined at entities[0].entityType\n"
        "Invalid input: expected array, received undefined at entities[0].observations"
    )
    assert server.error("nonsense") == "MCP error -32602: Tool nonsense not found"
    gone = server.call("delete_entities", entityNames=["Ada"])
    assert text_of(gone) == "Entities deleted successfully"
    assert gone["structuredContent"] == {"success": True, "message": "Entities deleted successfully"}
    [content] = server.ask("resources/read", uri="memory://knowledge-graph")["contents"]
    assert content["mimeType"] == "application/json"
    assert "Ada" not in content["text"]


def test_subscriber_is_notified_when_the_graph_changes(server: Server) -> None:
    server.ask("resources/subscribe", uri="memory://knowledge-graph")
    number = server.request("tools/call", name="create_entities", arguments={"entities": [entity("Told")]})
    messages = [server.receive(), server.receive()]
    assert {each.get("method", each.get("id")) for each in messages} == {"notifications/resources/updated", number}
    server.ask("resources/unsubscribe", uri="memory://knowledge-graph")
    server.call("delete_entities", entityNames=["Told"])


def test_fifty_concurrent_calls_in_one_connection_are_all_stored(server: Server) -> None:
    for number in range(50):
        server.request("tools/call", name="create_entities", arguments={"entities": [entity(f"P{number}", "x")]})
    for _ in range(50):
        assert not server.receive()["result"].get("isError")
    graph = server.data("read_graph")
    assert sorted(each["name"] for each in graph["entities"]) == sorted(f"P{number}" for number in range(50))
    server.call("delete_entities", entityNames=[f"P{number}" for number in range(50)])
    assert server.data("read_graph") == {"entities": [], "relations": []}


def test_file_of_the_reference_server_is_imported_once_and_can_be_queried(tmp_path: Path) -> None:
    root, file = tmp_path / "store", tmp_path / "memory.jsonl"
    file.write_text('{"type":"entity","name":"Ada","entityType":"person","observations":["likes tea"]}\nnonsense')
    for expected in (1, 0):
        with Server(root, "--compat", "memory", "--create", MEMORY_FILE_PATH=str(file)) as server:
            server.greet()
            assert len(server.data("read_graph")["entities"]) == expected
            server.data("delete_entities", entityNames=["Ada"])
            assert server.leave() == 0
            assert ("imported 1 entities" in server.log) is bool(expected)
    assert file.read_text().endswith("nonsense")


def test_import_and_export_on_the_command_line(tmp_path: Path) -> None:
    root, file, out = str(tmp_path / "store"), tmp_path / "memory.jsonl", tmp_path / "out.jsonl"
    lines = [
        '{"type":"entity","name":"Ada","entityType":"person","observations":["likes tea","a"]}',
        '{"type":"relation","from":"Ada","to":"Acme","relationType":"works at"}',
    ]
    file.write_text("\n".join([*lines, "{broken"]))

    def run(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "smp_memory", *words, "--root", root, "--json"],
            env=environment(),
            capture_output=True,
            check=False,
        )
        return json.loads(done.stdout or done.stderr)

    run("init")
    first = run("import", str(file), "--from", "mcp-memory")
    assert first["sessions"] == {"knowledge-graph": 4}
    assert first["added"] == {"entity": 1, "observation": 2, "relation": 1}
    assert first["not_understood"] == [{"file": file.name, "line": 3, "why": "not valid JSON"}]
    assert run("import", str(file), "--from", "mcp-memory")["added"] == {}
    run("export", str(out), "--format", "mcp-memory")
    assert out.read_text() == "\n".join(lines)
    assert "already exists" in run("export", str(out), "--format", "mcp-memory")["error"]["message"]
    assert run("query", "tea")["hits"][0]["record"]["learning"] == "Ada: likes tea"
    assert "cannot be used with" in run("export", "--format", "mcp-memory", "--all")["error"]["message"]


# -- beside the real one


def reference(path: Path) -> Server:
    """The reference server as a process, spoken to in the same way."""
    script = installed(PACKAGE, VERSION) / "dist" / "index.js"
    other = Server.__new__(Server)
    other.start(["node", str(script)], environment(MEMORY_FILE_PATH=str(path)))
    return other


def steps(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls as clients make them, and as they do not."""
    chance = random.Random(seed)
    names = ["Ada", "Bob", "ada", "", "数据", "a\nb", 'quo"te', "\u2028 \x7f \x01", "🐘"]
    kinds = ["person", "", "TEAM", "ß"]
    pick = chance.choice

    def some(values: list[Any], most: int = 3) -> list[Any]:
        return [pick(values) for _ in range(chance.randint(0, most))]

    def relation() -> dict[str, Any]:
        return {"from": pick(names), "to": pick(names), "relationType": pick(kinds)}

    def entities() -> list[Any]:
        return [
            {"name": pick(names), "entityType": pick(kinds), "observations": some(names)}
            for _ in range(chance.randint(0, 3))
        ]

    wrong: list[Any] = [None, 7, 1.5, True, "text", [], {}, [1], [{}], [None], {"entities": []}]
    for _ in range(120):
        tool = pick(["create_entities"] * 4 + ["create_relations", "add_observations"] * 2 + [
            "delete_entities", "delete_observations", "delete_relations", "read_graph", "search_nodes", "open_nodes", "other"
        ])  # fmt: skip
        given: dict[str, Any] = {
            "create_entities": lambda: {"entities": entities()},
            "create_relations": lambda: {"relations": [relation() for _ in range(chance.randint(0, 3))]},
            "add_observations": lambda: {
                "observations": [
                    {"entityName": pick(names), "contents": some(names)} for _ in range(chance.randint(0, 2))
                ]
            },
            "delete_entities": lambda: {"entityNames": some(names, 1)},
            "delete_observations": lambda: {"deletions": [{"entityName": pick(names), "observations": some(names)}]},
            "delete_relations": lambda: {"relations": [relation() for _ in range(2)]},
            "read_graph": dict,
            "search_nodes": lambda: {"query": pick([*names, *kinds, "A", "DA"])},
            "open_nodes": lambda: {"names": some(names)},
            "other": dict,
        }[tool]()
        if given and chance.random() < 0.15:
            given[pick(list(given))] = pick(wrong)
        if chance.random() < 0.1:
            given["unknown"] = 1
        yield tool, given


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("SMP_SOAK", "1")) * 3))
def test_every_answer_equals_that_of_the_reference_server(tmp_path: Path, seed: int) -> None:
    with (
        reference(tmp_path / "theirs.jsonl") as theirs,
        Server(tmp_path / "ours", "--compat", "memory", "--create") as ours,
    ):
        theirs.greet()
        ours.greet()
        for tool, given in steps(seed):
            answer = {"isError": False, **theirs.call(tool, **given)}  # no word of it means the same
            assert ours.call(tool, **given) == answer, (tool, given)
        for uri in ("memory://knowledge-graph",):
            assert ours.ask("resources/read", uri=uri) == theirs.ask("resources/read", uri=uri)
        assert ours.leave() == 0
    words = [sys.executable, "-m", "smp_memory", "export", str(tmp_path / "out.jsonl"), "--format", "mcp-memory"]
    subprocess.run([*words, "--root", str(tmp_path / "ours")], env=environment(), check=True, capture_output=True)
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "theirs.jsonl").read_text()


@pytest.mark.slow
def test_tool_definitions_equal_those_of_the_reference_server(tmp_path: Path) -> None:
    with (
        reference(tmp_path / "theirs.jsonl") as theirs,
        Server(tmp_path / "ours", "--compat", "memory", "--create") as ours,
    ):
        there, here = theirs.greet(), ours.greet()
        assert here["serverInfo"] == there["serverInfo"]
        assert here["capabilities"]["resources"]["subscribe"] is there["capabilities"]["resources"]["subscribe"] is True
        shown = [{name: value for name, value in tool.items() if name != "execution"} for tool in theirs.ask("tools/list")["tools"]]  # fmt: skip
        assert ours.ask("tools/list")["tools"] == shown
        assert ours.ask("resources/list")["resources"] == theirs.ask("resources/list")["resources"]
