"""Turn the input of callers into entries: validation, write operations, batches and the quota.

`path` is the write path as callers see it. Everything below it is pure; `smp_memory.store` writes the bytes.
"""
