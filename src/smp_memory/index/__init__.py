"""The index: a cache made from the files, which can be deleted at any time.

Rows (types, times, authors, tags, relations, file positions) are in SQLite. Terms are in tantivy, which is fed in
bulk, and in a short memtable (`unindexed`) of what tantivy does not have yet, scored by the same formula. Cursors and
rows change in one transaction. Nothing here knows the files' formats; `smp_memory.store.indexer` connects both.
"""
