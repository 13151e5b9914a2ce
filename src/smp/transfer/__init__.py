"""How do sessions leave a store and come into one? With every step of their history, as `smp.files.exchange` writes them.

`going_out` gathers a session and writes the file, `disguise` gives names their placeholders or takes them back,
`coming_in` checks a file and makes sessions of it. `smp.exporting` has the methods that callers use.
"""
