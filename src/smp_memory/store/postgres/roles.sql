-- Roles with the least rights that they need. Run by the owner of the tables, after `smp init`:
--
--     psql "$ADDRESS" -v schema=smp -f roles.sql
--
-- smp_reader reads, smp_writer reads and writes, smp_server also reads the tokens of clients. Which projects and people a login
-- role may see is in the table `access`; a role without a row there sees no session:
--
--     GRANT smp_writer TO build_agents;
--     INSERT INTO smp.access (role, project, may_write) VALUES ('build_agents', 'shop', true);
--
-- The owner of the tables sees everything: let no agent log in as the owner. Vacuum, migrations and roles are the owner's.

\set ON_ERROR_STOP on
\if :{?schema} \else \set schema smp \endif

SELECT format('CREATE ROLE %I NOLOGIN', name)
FROM unnest(ARRAY['smp_reader', 'smp_writer', 'smp_server']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec

GRANT smp_reader TO smp_writer;
GRANT smp_writer TO smp_server;
GRANT USAGE ON SCHEMA :"schema" TO smp_reader;
GRANT SELECT ON :"schema".meta, :"schema".session, :"schema".entry TO smp_reader;
GRANT INSERT, UPDATE, DELETE ON :"schema".session, :"schema".entry TO smp_writer;
GRANT USAGE ON SEQUENCE :"schema".moves TO smp_writer;
GRANT SELECT, INSERT ON :"schema".audit TO smp_writer;
GRANT SELECT, INSERT ON :"schema".token TO smp_server;
ALTER ROLE smp_reader SET statement_timeout = '60s';
ALTER ROLE smp_writer SET statement_timeout = '60s';
