"""Health checks of a whole store, and fixes that are safe to apply (`smp doctor`, `Memory.doctor`).

Guarantees: checking writes nothing and does not count as access to a memory. No fix destroys or changes a memory. Issues
are reported without content: ids, kinds, fields, files and lines.
"""
