"""Here is a draft. Is it safely stored?

`validate` turns what a caller gives into the fields of a memory, or says which field is wrong. `batch` turns a list
of wishes into entries, under the session's lock, with ids, numbers and revisions. `admit` keeps a session within its
bounds. All of it is pure; the bytes are `smp_memory.store`'s business.
"""
