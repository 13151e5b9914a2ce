"""The domain model: types of memory, records, entries, ids, times, reports, and the histories that turn entries into records.

Guarantees: pure values and pure functions; no I/O, no clock, no randomness. Importing it is cheap.
"""
