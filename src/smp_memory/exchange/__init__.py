"""How do sessions leave a store and come into one? With every step of their history, as `smp_memory.exchange.file_format` writes them.

`going_out` gathers a session and writes the file, `disguise` gives names their placeholders or takes them back,
`coming_in` checks a file and makes sessions of it. `smp_memory.exchange.api` has the methods that callers use.
"""
