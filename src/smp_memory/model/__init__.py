"""What are we talking about? Types, records, entries, ids, times, reports, and the fold that makes records of entries.

Guarantees: pure values and pure functions; no I/O, no clock, no randomness. Importing it is cheap.
"""
