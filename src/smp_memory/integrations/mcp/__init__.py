"""How do agents reach the memory over MCP? The server `smp mcp`, and a drop-in for the reference memory server.

    server, serving, http, token    which requests are answered, over which transport, and for whom
    connections             time limits and a maximum number of HTTP connections
    request_context         the caller, its rights, the store and the default session
    toolset, arguments, answers, schema, budget    what a tool is, takes and gives, and how it fits a prompt
    recalling, recording    the eight tools; each is a few lines around a method of `Memory`
    resources               what can be read by address, and two prompts
    graph, graph_file, graph_tools, zod    `--compat memory`: entities, observations and relations as memories

Guarantees: the server keeps nothing of a connection; every call says which session it means. Only `graph` and
`graph_file` may be loaded without the extra `smp-memory[mcp]`, and loading this package loads nothing.
"""
