"""The MCP server that both transports share: tools, resources and prompts.

Guarantees: the store is used in threads, so that many calls of one connection run at once and their writes share a sync.
A mistake of the caller, a full disk or a bug ends in a result with `isError`, one sentence and a code; never in a traceback, and
never in the end of the server. Contents of memories are never logged.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import mcp_types as types
from anyio.to_thread import run_sync
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

import smp_memory
from smp_memory.context.budget import one_line
from smp_memory.errors import SMPError, from_os_error
from smp_memory.integrations.mcp import resources
from smp_memory.integrations.mcp.tools import INSTRUCTIONS, UNTRUSTED, tools_for
from smp_memory.privacy.fence import escape_marks

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.integrations.mcp.answers import Reply
    from smp_memory.integrations.mcp.request_context import Caller, RequestContext

T = TypeVar("T")
log = logging.getLogger("smp_memory.integrations.mcp")
THREADS = 64
INVALID_PARAMS, INTERNAL_ERROR, NOT_FOUND = types.INVALID_PARAMS, types.INTERNAL_ERROR, -32002


class Threads:
    """The threads in which the store is used: its methods wait for disks and locks, and the event loop must not."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(THREADS)
        return await run_sync(work, limiter=self._limiter)


def create_server(context: RequestContext) -> Server[Any]:
    """A server with SMP's own tools."""
    return Server(
        "smp",
        version=smp_memory.__version__,
        title="Session Memory Persistence",
        instructions=INSTRUCTIONS if context.memory.is_trusted else f"{INSTRUCTIONS}\n\n{UNTRUSTED}",
        **_tool_handlers(context, Threads()),
        **_resource_handlers(context, Threads()),
    )


def _tool_handlers(context: RequestContext, threads: Threads) -> dict[str, Any]:
    tools = tools_for(context)
    definitions = [tool.definition(name) for name, tool in tools.items()]
    schemas = {each.name: each.input_schema for each in definitions}

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=definitions)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        caller = context.caller(client_name(ctx))
        try:
            return tool_result(await threads.run(partial(tool.call, caller, params.arguments)))
        except Exception as error:
            return error_result(error_text(error, f"the tool {params.name}"))

    return {"on_list_tools": list_tools, "on_call_tool": call_tool, "get_tool_input_schema": schemas.get}


def _resource_handlers(context: RequestContext, threads: Threads) -> dict[str, Any]:
    async def run(ctx: Any, operation: str, work: Callable[[Caller], T]) -> T:
        try:
            return await threads.run(partial(work, context.caller(client_name(ctx))))
        except Exception as error:
            code = NOT_FOUND if _is_missing(error) else INVALID_PARAMS
            raise MCPError(code, error_text(error, operation)) from None

    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None else None
        names, after = await run(ctx, "the list", lambda caller: resources.page(caller, cursor))
        first = (
            [] if cursor else [_resource(resources.SESSIONS, "sessions", "The sessions, the one written last first")]
        )
        listed = [_resource(resources.session_uri(name), name, None) for name in names]
        return types.ListResourcesResult(resources=first + listed, next_cursor=after)

    async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type=mime)
                for uri, (name, about, mime) in resources.TEMPLATES.items()
            ]
        )

    async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = await run(ctx, "the resource", lambda caller: resources.read_uri(caller, uri))
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)]
        )

    async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(name) for name in resources.PROMPTS])

    async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = dict(params.arguments or {})
        text = await run(ctx, "the prompt", lambda caller: resources.prompt_text(caller, params.name, given))
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=resources.PROMPTS[params.name][0], messages=[message])

    return {
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
        "on_list_prompts": list_prompts,
        "on_get_prompt": get_prompt,
    }


def _resource(uri: str, name: str, about: str | None) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=about, mime_type="text/markdown")


def _prompt(name: str) -> types.Prompt:
    about, takes = resources.PROMPTS[name]
    arguments = [types.PromptArgument(name=each, description=text, required=False) for each, text in takes.items()]
    return types.Prompt(name=name, description=about, arguments=arguments)


# -- shared with the server of `--compat memory`


def client_name(ctx: Any) -> str | None:
    """The client's name in the protocol."""
    params = ctx.session.client_params
    name = params.client_info.name if params is not None and params.client_info is not None else None
    return name if isinstance(name, str) and name.strip() else None


def tool_result(reply: Reply) -> types.CallToolResult:
    text = types.TextContent(type="text", text=reply.text)
    return types.CallToolResult(content=[text], structured_content=reply.data)


def error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


def error_text(error: Exception, operation: str) -> str:
    """One line and a code, without fence marks. A bug is logged by its class alone: its message may hold a memory."""
    if isinstance(error, OSError):
        error = from_os_error(error, str(error.filename or "the operating system"), "working")
    if isinstance(error, SMPError):
        return f"{escape_marks(one_line(error.message))} [{error.code}]"
    log.error("%s failed: %s", operation, type(error).__name__, exc_info=bool(os.environ.get("SMP_DEBUG")))
    return (
        f"This should not have happened in {operation}: {type(error).__name__}. SMP_DEBUG=1 shows where. [E_INTERNAL]"
    )


def _is_missing(error: Exception) -> bool:
    return isinstance(error, SMPError) and error.code in ("E_SESSION_NOT_FOUND", "E_MEMORY_NOT_FOUND")
