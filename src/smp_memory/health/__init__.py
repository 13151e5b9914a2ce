"""Is this store well, and what should be done about it? One look over everything, and fixes that are safe.

Guarantees: a look writes nothing and counts as no use of a memory. No fix destroys or changes a memory. What is found is
told without content: ids, kinds, fields, files and lines.
"""
