"""Export sessions with their whole history into a file, and import them again, optionally anonymised.

`api` has the methods that callers use, `file_format` the bytes of an export file.
"""
