"""The nine tools of the reference memory server (`--compat memory`), on SMP's store.

Guarantees: names, arguments, results, their text and their errors are those of the npm package
@modelcontextprotocol/server-memory 2026.8.31; a test compares them with the package itself. What differs is
below: nothing is lost when many write at once, and what was deleted can be restored with `smp restore`.

The reference server checks its arguments with the library zod, today in version 4; clients and their logs know its
messages. What zod accepts is accepted, without fields that the schema does not know; what it refuses is refused with the
same message.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from smp_memory.integrations.clients import READ, WRITE
from smp_memory.integrations.mcp.graph import UnknownEntity
from smp_memory.integrations.mcp.request_context import client_of, for_client
from smp_memory.integrations.mcp.server import ADDS, CHANGES, INVALID_PARAMS, READS, Threads, error_result, error_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.integrations.mcp.graph import KnowledgeGraph


def validate(schema: dict[str, Any], given: Any) -> tuple[Any, list[str]]:
    """The value without fields that the schema does not know, and its problems."""
    problems: list[str] = []
    value = _validate(schema, given, "", problems)
    return value, problems


def _validate(schema: dict[str, Any], value: Any, path: str, problems: list[str]) -> Any:
    expected = schema["type"]
    if _json_type(value) != expected:
        message = f"Invalid input: expected {expected}, received {_json_type(value)}"
        problems.append(f"{message} at {path}" if path else message)
        return None
    if expected == "array":
        items = schema["items"]
        return [_validate(items, item, f"{path}[{at}]", problems) for at, item in enumerate(value)]
    if expected == "object":
        known = schema["properties"]
        return {
            name: _validate(inner, value.get(name, _MISSING), f"{path}.{name}" if path else name, problems)
            for name, inner in known.items()
        }
    return value


_MISSING = object()


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    known = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return known.get(type(value), "undefined")


NAME, VERSION = "memory-server", "0.6.3"  # as the reference server calls itself
RESOURCE = "memory://knowledge-graph"
_DRAFT = "http://json-schema.org/draft-07/schema#"


def _text(description: str | None = None) -> dict[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _list(items: dict[str, Any], description: str | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items, **({"description": description} if description else {})}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an output, which has no other fields."""
    if schema["type"] == "array":
        return {**schema, "items": _closed(schema["items"])}
    if schema["type"] != "object":
        return schema
    properties = {name: _closed(inner) for name, inner in schema["properties"].items()}
    return {**schema, "properties": properties, "additionalProperties": False}


_ENTITY = _object(
    name=_text("The name of the entity"),
    entityType=_text("The type of the entity"),
    observations=_list(_text(), "An array of observation contents associated with the entity"),
)
_RELATION = _object(
    **{
        "from": _text("The name of the entity where the relation starts"),
        "to": _text("The name of the entity where the relation ends"),
        "relationType": _text("The type of the relation"),
    }
)
_GRAPH = _object(entities=_list(_ENTITY), relations=_list(_RELATION))
_DONE = _object(success={"type": "boolean"}, message=_text())
_NEW_OBSERVATIONS = _object(
    entityName=_text("The name of the entity to add the observations to"),
    contents=_list(_text(), "An array of observation contents to add"),
)
_ADDED = _object(entityName=_text(), addedObservations=_list(_text()))
_OLD_OBSERVATIONS = _object(
    entityName=_text("The name of the entity containing the observations"),
    observations=_list(_text(), "An array of observations to delete"),
)


class _GraphTool(NamedTuple):
    """One of the nine tools: its schemas, and the method of the graph that it calls."""

    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    hints: dict[str, bool]
    run: Callable[[KnowledgeGraph, dict[str, Any]], Any]
    done: str | None = None  # the message after a deletion

    def definition(self, name: str) -> types.Tool:
        return types.Tool(
            name=name,
            title=name.replace("_", " ").title(),
            description=self.description,
            input_schema={"$schema": _DRAFT, **self.input_schema},
            output_schema={"$schema": _DRAFT, **_closed(self.output_schema)},
            annotations=types.ToolAnnotations.model_validate(self.hints),
        )

    def call(self, graph: KnowledgeGraph, given: dict[str, Any]) -> types.CallToolResult:
        result = self.run(graph, given)
        if self.done is not None:
            return _result(self.done, {"success": True, "message": self.done})
        [wrapped] = self.output_schema["required"][:1] if self.output_schema is not _GRAPH else [None]
        return _result(_json(result), {wrapped: result} if wrapped else result)


TOOLS: dict[str, _GraphTool] = {
    "create_entities": _GraphTool(
        "Create multiple new entities in the knowledge graph",
        _object(entities=_list(_ENTITY)),
        _object(entities=_list(_ENTITY)),
        ADDS,
        lambda graph, given: graph.create_entities(given["entities"]),
    ),
    "create_relations": _GraphTool(
        "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        _object(relations=_list(_RELATION)),
        _object(relations=_list(_RELATION)),
        ADDS,
        lambda graph, given: graph.create_relations(given["relations"]),
    ),
    "add_observations": _GraphTool(
        "Add new observations to existing entities in the knowledge graph",
        _object(observations=_list(_NEW_OBSERVATIONS)),
        _object(results=_list(_ADDED)),
        ADDS,
        lambda graph, given: graph.add_observations(given["observations"]),
    ),
    "delete_entities": _GraphTool(
        "Delete multiple entities and their associated relations from the knowledge graph",
        _object(entityNames=_list(_text(), "An array of entity names to delete")),
        _DONE,
        CHANGES,
        lambda graph, given: graph.delete_entities(given["entityNames"]),
        "Entities deleted successfully",
    ),
    "delete_observations": _GraphTool(
        "Delete specific observations from entities in the knowledge graph",
        _object(deletions=_list(_OLD_OBSERVATIONS)),
        _DONE,
        CHANGES,
        lambda graph, given: graph.delete_observations(given["deletions"]),
        "Observations deleted successfully",
    ),
    "delete_relations": _GraphTool(
        "Delete multiple relations from the knowledge graph",
        _object(relations=_list(_RELATION, "An array of relations to delete")),
        _DONE,
        CHANGES,
        lambda graph, given: graph.delete_relations(given["relations"]),
        "Relations deleted successfully",
    ),
    "read_graph": _GraphTool(
        "Read the entire knowledge graph",
        {"type": "object", "properties": {}},
        _GRAPH,
        READS,
        lambda graph, given: graph.read(),
    ),
    "search_nodes": _GraphTool(
        "Search for nodes in the knowledge graph based on a query",
        _object(query=_text("The search query to match against entity names, types, and observation content")),
        _GRAPH,
        READS,
        lambda graph, given: graph.search(given["query"]),
    ),
    "open_nodes": _GraphTool(
        "Open specific nodes in the knowledge graph by their names",
        _object(names=_list(_text(), "An array of entity names to retrieve")),
        _GRAPH,
        READS,
        lambda graph, given: graph.open(given["names"]),
    ),
}


def graph_server(graph: KnowledgeGraph, *, one_client: bool) -> Server[Any]:
    """The server; with one client it can notify that client of changes of the graph."""
    threads = Threads()
    subscriptions: set[str] = set()
    definitions = [tool.definition(name) for name, tool in TOOLS.items()]
    schemas = {each.name: each.input_schema for each in definitions}

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=definitions)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            return error_result(f"MCP error {INVALID_PARAMS}: Tool {params.name} not found")
        given, problems = validate(tool.input_schema, params.arguments or {})
        if problems:
            details = "\n".join(problems)
            return error_result(
                f"MCP error {INVALID_PARAMS}: Input validation error: Invalid arguments for tool {params.name}: {details}"
            )
        try:
            result = await threads.run(partial(tool.call, for_client(ctx, graph), given))
        except UnknownEntity as error:
            return error_result(str(error))
        except Exception as error:
            _note(ctx, params.name, tool.hints, error=getattr(error, "code", "E_INTERNAL"))
            return error_result(error_text(error, f"the tool {params.name}"))
        _note(ctx, params.name, tool.hints)
        if not tool.hints["read_only_hint"] and RESOURCE in subscriptions:
            await ctx.session.send_resource_updated(RESOURCE)
        return result

    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        resource = types.Resource(
            uri=RESOURCE,
            name="knowledge-graph",
            title="Knowledge Graph",
            description="The full knowledge graph with all entities and relations",
            mime_type="application/json",
        )
        return types.ListResourcesResult(resources=[resource])

    async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri != RESOURCE:
            raise MCPError(INVALID_PARAMS, f"MCP error {INVALID_PARAMS}: Resource {uri} not found")
        try:
            text = _json(await threads.run(for_client(ctx, graph).read))
            _note(ctx, "read_graph", READS)
        except Exception as error:
            raise MCPError(types.INTERNAL_ERROR, error_text(error, "the resource")) from None
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
        )

    async def subscribe(ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        subscriptions.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(ctx: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        subscriptions.discard(str(params.uri))
        return types.EmptyResult()

    subscription_handlers = (
        {"on_subscribe_resource": subscribe, "on_unsubscribe_resource": unsubscribe} if one_client else {}
    )
    handlers: dict[str, Any] = {
        "get_tool_input_schema": schemas.get,
        "on_list_tools": list_tools,
        "on_call_tool": call_tool,
        "on_list_resources": list_resources,
        "on_read_resource": read_resource,
        **subscription_handlers,
    }
    return Server(NAME, version=VERSION, **handlers)


def _note(ctx: Any, operation: str, hints: dict[str, bool], **facts: Any) -> None:
    """Log an operation of a client of a shared server."""
    client = client_of(ctx)
    if client is not None:
        client.note(READ if hints["read_only_hint"] else WRITE, f"mcp {operation}", **facts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _result(text: str, data: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=data)
