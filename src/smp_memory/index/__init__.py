"""How do we find it fast? An index that is made from the files and can be thrown away at any time.

Rows (types, times, authors, tags, relations, where an entry stands) are in SQLite; words are in tantivy, which is fed in
bulk, and in a short *tail* of what tantivy has not seen yet, scored by the same formula. Cursors and rows change in one
transaction. Nothing here knows what the files look like: `smp_memory.store.indexer` brings both together.
"""
