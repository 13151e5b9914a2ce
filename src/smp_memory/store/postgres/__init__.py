"""A store in PostgreSQL: many machines share one memory. Needs the extra `postgres`.

    schema.py            tables, migrations, row-level security
    connection.py        addresses, connections, transactions, errors
    tables.py            what they share: statements, entries as rows, changes of rows
    postgres_store.py    `Store`            postgres_session.py    `SessionStore`
    rewriting.py         plans: purge, compaction, restoring, redaction;  erasure.py   erasure
    feed.py              feeds the same search index as a store in files, in the user's state folder
    offline.py           opens or creates a store by its address; reads the index while the server cannot be reached

The tables hold the same entries as files do: `entry.line` is the JSON line with its checksum. A write is finished when its transaction has
committed. Everything else that a process keeps, the index included, can be made again from the tables.
"""
