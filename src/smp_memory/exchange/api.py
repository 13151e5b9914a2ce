"""Hand sessions out, take them in, clean them. The methods for it, shared by a session and a store.

    session.export("review.yaml")                    json, jsonl, yaml or markdown, by the ending or `format`
    text = memory.export(format="jsonl")             without a path: the text itself
    memory.import_("review.yaml", session="again")
    memory.redact(preview=True)                      secrets in what is already stored: ids and kinds
    session.export("for-others.json", anonymise=Placeholders())

Guarantees: what is imported equals what was exported: heads, memories, histories, relations, pins, deletions, fields
that SMP does not know, and the numbers that were given out. Each of these leaves a line in the audit log. `smp_memory.exchange` and
`smp_memory.store.stored_redaction` do the work.
"""

from __future__ import annotations

import os

from smp_memory.errors import UserError
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.errors import SMPError
    from smp_memory.memory import Memory
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.session import SessionMemory
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.stored_redaction import RedactionReport


class ExportMethods:
    """What a session and a store have in common: they can be exported, and secrets taken out of them."""

    if TYPE_CHECKING:  # what `Asking` and its heirs have

        def _asked_sessions(self) -> list[str] | None: ...

    def _exported(self) -> tuple[Memory, list[FileSession], str | None]:
        """The store, the sessions that go out, and who asks."""
        raise NotImplementedError

    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        *,
        anonymise: Placeholders | None = None,
        restore: Placeholders | None = None,
        agents: bool = False,
        force: bool = False,
    ) -> str:
        """Write everything into one file and return its path, or return the text if there is no path.

        format     json, jsonl, yaml or markdown; else what the path ends in, else json.
        anonymise  people, projects, paths, hosts and session ids get placeholders, which are remembered here;
                   `agents` disguises the names of agents, too.
        restore    the other way round: placeholders become what they stand for.
        force      write over a file that is there.
        """
        from smp_memory.exchange import export, file_format
        from smp_memory.store.incomplete import PUT_AWAY

        if anonymise is not None and restore is not None:
            raise UserError("Give anonymise or restore, not both.", field="restore")
        memory, sessions, by = self._exported()
        chosen = export.format_named(format, path)
        target = None if path is None else os.path.abspath(os.fspath(path))
        while True:
            carried = map(export.exported_session, sessions)
            if anonymise is not None or restore is not None:
                from smp_memory.exchange.anonymised import anonymising, restoring

                change = restoring(restore) if anonymise is None else anonymising(anonymise, sessions, agents)  # type: ignore[arg-type]
                carried = map(change, carried)
            counts: list[int] = []
            pieces = file_format.write(chosen, export.counting(carried, counts), len(sessions))
            try:
                result = b"".join(pieces).decode() if target is None else export.write(target, pieces, force)
                break
            except PUT_AWAY as error:
                sessions = self._without(sessions, error)
        facts = {"format": chosen, "anonymised": True if anonymise is not None else None, "to": target}
        for session, count in zip(sessions, counts, strict=True):
            _note(memory, "export", by, session.session, count, **facts)
        return result

    def _without(self, sessions: list[FileSession], error: SMPError) -> list[FileSession]:
        """The sessions of a store but for one that was put away meanwhile; what was asked for by name must be there."""
        from smp_memory.store.incomplete import left_out

        gone = error.details.get("session")
        there = [session for session in sessions if session.session != gone]
        if self._asked_sessions() is not None or len(there) == len(sessions):
            raise error
        left_out(str(gone), error)
        return there

    def redact(self, *, preview: bool = False, reason: str | None = None) -> list[RedactionReport]:
        """Take secrets out of what is already stored, of the history too; one report for each session that has some.

        With `preview` nothing is changed. Reports name ids and kinds, never content.
        """
        from smp_memory.privacy.settings import clean_reason, redactor_even_if_off
        from smp_memory.store.incomplete import PUT_AWAY
        from smp_memory.store.stored_redaction import clean, look

        memory, sessions, by = self._exported()
        reason = clean_reason(memory.config, reason)
        done: list[RedactionReport] = []
        for session in sessions:
            try:
                found = (look if preview else clean)(session, redactor_even_if_off(session.config))
            except PUT_AWAY as error:
                self._without([session], error)
                continue
            if found and not preview:
                ids, kinds = list(found.memories), found.kinds
                _note(memory, "redact", by, session.session, len(ids), ids=ids, kinds=kinds, reason=reason, stored=True)
            if found or found.pending:
                done.append(found)
        return done


class SessionExportMethods(ExportMethods):
    """Anonymised copies, beside the export of one session."""

    def anonymised(
        self, id: str | None = None, *, placeholders: Placeholders | None = None, agents: bool = False
    ) -> SessionMemory:
        """A copy of the session in the same store, in which people, projects and places have placeholders.

        The session itself stays as it is. `placeholders` remembers what stands for what; without it nothing can be
        turned back.
        """
        from smp_memory.exchange.anonymised import anonymising
        from smp_memory.exchange.export import exported_session
        from smp_memory.exchange.import_ import free_id, store_session
        from smp_memory.privacy.anonymisation import Placeholders
        from smp_memory.store.session_states import note_session_use

        memory, sessions, by = self._exported()
        known = Placeholders() if placeholders is None else placeholders
        carried = anonymising(known, sessions, agents)(exported_session(sessions[0]))
        carried.info.id = free_id(memory.store, carried.info.id) if id is None else id
        store_session(memory.store, carried)
        note_session_use(memory.store, carried.info.id, memory.now())
        made = memory.session(carried.info.id)
        _note(memory, "anonymise", by, sessions[0].session, len(made.records(include_deleted=True)), into=made.id)
        return made

    def anonymised_record(
        self, id: str, *, placeholders: Placeholders | None = None, agents: bool = False
    ) -> dict[str, Any]:
        """The fields of one memory with placeholders, to show it to others. Nothing is stored."""
        from smp_memory.exchange.anonymised import learn
        from smp_memory.exchange.export import exported_session
        from smp_memory.privacy.anonymisation import Anonymiser, Placeholders

        memory, sessions, by = self._exported()
        record = memory.session(sessions[0].session).get(id)
        anonymiser = Anonymiser(Placeholders() if placeholders is None else placeholders, agents=agents)
        learn(anonymiser, exported_session(sessions[0]))
        _note(memory, "anonymise", by, sessions[0].session, 1, ids=[id])
        return anonymiser.fields(record.to_dict())


class ImportMethods(ExportMethods):
    """What only a store can do: take sessions in."""

    def import_(
        self,
        source: str | bytes | os.PathLike[str],
        format: str | None = None,
        session: str | None = None,
        *,
        restore: Placeholders | None = None,
    ) -> list[SessionMemory]:
        """Take in what `export` wrote: a path, or the text itself. Returns the new sessions.

        session  another id for the session, if there is only one.
        restore  turns placeholders back into what they stand for.
        """
        from smp_memory.exchange.import_ import read_sessions, store_session
        from smp_memory.privacy.settings import count_kinds
        from smp_memory.store.session_states import note_session_use

        memory, _, by = self._exported()
        chosen, found = read_sessions(memory.store, source, format, session, restore)
        made: list[SessionMemory] = []
        for carried, removals in found:
            store_session(memory.store, carried)
            note_session_use(memory.store, carried.info.id, memory.now())
            made.append(memory.session(carried.info.id))
            count = len({entry.id for entry in carried.entries})
            _note(memory, "import", by, carried.info.id, count, kinds=count_kinds(removals), format=chosen)
        return made


def _note(memory: Memory, action: str, by: str | None, session: str, count: int, **facts: Any) -> None:
    memory.store.audit.note(action, at=to_text(memory.now()), by=by, session=session, count=count, **facts)
