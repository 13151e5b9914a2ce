"""The MCP server `smp mcp`, and a drop-in for the reference memory server.

    server, transport, http   requests for tools, resources and prompts; over which transport, and for whom
    request_context           the caller, its rights, the store and the default session
    tools, arguments, answers the definition, input and output of each tool
    read_tools, write_tools   the eight tools; each is a few lines around a method of `Memory`
    graph, graph_file, graph_tools    `--compat memory`: entities, observations and relations as memories

Guarantees: the server keeps no state of a connection; every call names its session or takes the default. Only `graph` and
`graph_file` may be loaded without the extra `smp-memory[mcp]`, and loading this package loads nothing.
"""
