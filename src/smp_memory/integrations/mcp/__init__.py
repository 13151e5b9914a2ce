"""The MCP server `smp mcp`, and a drop-in for the reference memory server.

    server, transport, http   which requests are answered, over which transport, and for whom
    connections               limits of time, size and number for HTTP connections
    request_context           the caller, its rights, the store and the default session
    tools, arguments, answers, answer_budget    the definition, input, output and token budget of each tool
    read_tools, write_tools   the eight tools; each is a few lines around a method of `Memory`
    resources                 resources and two prompts
    graph, graph_file, graph_tools    `--compat memory`: entities, observations and relations as memories

Guarantees: the server keeps no state of a connection; every call names its session or takes the default. Only `graph` and
`graph_file` may be loaded without the extra `smp-memory[mcp]`, and loading this package loads nothing.
"""
