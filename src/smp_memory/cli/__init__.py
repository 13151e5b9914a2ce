"""The command line `smp`.

`main` selects the command and turns errors into messages and exit codes; `arguments` builds the parsers; `invocation`
holds the state of one invocation (options, store, session, output); `render` formats text safely for a terminal;
`commands` implements the commands on top of the Python API.
"""
