"""The health check of a PostgreSQL server: settings by which it may lose what it acknowledged, and rights and versions that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.health.examination import NOTE, PROBLEM, WARNING, Check, HealthIssue
from smp_memory.store.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.examination import Examination

_OLDEST_SERVER = 15
_FACTS = """
SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names') <> '', current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('server_version_num')::int / 10000, pg_encoding_to_char(encoding),
    pg_is_in_recovery(), NOT row_security_active('{schema}.session') AND has_table_privilege('{schema}.access', 'SELECT'), session_user, (SELECT value::int FROM {schema}.meta WHERE name = 'schema_version')
FROM pg_database WHERE datname = current_database()
"""
_RISKS = {  # of synchronous_commit: severity, whether a replica must wait for it, what is at risk
    "off": (
        PROBLEM,
        False,
        "a crash of the server loses the writes of the last moments, although they were acknowledged",
    ),
    "local": (WARNING, True, "a failover loses acknowledged writes that had not reached the replica"),
    "remote_write": (WARNING, True, "a power loss of the replica before a failover loses acknowledged writes"),
}


class ServerCheck(Check):
    name = "server"
    title = "the database server keeps what it acknowledges"
    failed = "the database server may lose or refuse writes"
    fails_from = WARNING

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        tables = subject.store.tables  # type: ignore[attr-defined]
        (facts,) = tables.rows(_FACTS)
        commit, has_replica, syncs, writes_pages, version, encoding, is_replica, sees_all, role, found = facts
        self.summary = f"PostgreSQL {version}, synchronous_commit={commit}"
        yield from self._durability(commit, has_replica, syncs, writes_pages)
        if version < _OLDEST_SERVER:
            message = f"The server is PostgreSQL {version}; SMP is tested with {_OLDEST_SERVER} and newer."
            yield HealthIssue(self.name, WARNING, message, "Upgrade the server.")
        if encoding != "UTF8":
            message = f"The encoding of the database is {encoding}; memories with characters that it lacks are refused."
            yield HealthIssue(
                self.name, PROBLEM, message, "Create a database with ENCODING 'UTF8' and copy the store there."
            )
        if is_replica:
            message = "This server is a replica: memories can be read here, but not written."
            yield HealthIssue(self.name, NOTE, message, "Give the address of the primary to those who write.")
        if sees_all and tables.rows("SELECT 1 FROM {schema}.access LIMIT 1"):
            message = f"Rights per role are in use, and do not hold for the role {role}: it owns the tables or may bypass them."
            yield HealthIssue(self.name, NOTE, message, "Let agents log in with roles of their own; see docs/scale.md.")
        if found != schema.VERSION:
            message = f"The tables are of version {found}, this SMP knows {schema.VERSION}; it can use them."
            yield HealthIssue(self.name, NOTE, message, "Install the newer SMP here, too.")

    def _durability(self, commit: str, has_replica: bool, syncs: bool, writes_pages: bool) -> Iterator[HealthIssue]:
        severity, needs_replica, risk = _RISKS.get(commit, (NOTE, True, ""))
        if risk and (has_replica or not needs_replica):
            advice = "Set synchronous_commit = on for this database or role."
            yield HealthIssue(self.name, severity, f"synchronous_commit is {commit}: {risk}.", advice)
        if not syncs:
            message = "fsync is off: a power loss or a crash of the machine can destroy the whole database."
            yield HealthIssue(self.name, PROBLEM, message, "Set fsync = on in the server's configuration.")
        if not writes_pages:
            message = "full_page_writes is off: a power loss can leave pages half written, unless the file system rules that out."
            yield HealthIssue(self.name, WARNING, message, "Set full_page_writes = on in the server's configuration.")
