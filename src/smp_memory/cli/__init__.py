"""How does a person use this? The command `smp`.

`main` finds the command and turns errors into messages and exit codes; `arguments` reads the options; `call` is one
call of a command: its options, the store, the session it means, and where its answer goes; `render` makes text safe
and pleasant for a terminal; `commands` does the work, by asking the Python API for it.
"""
