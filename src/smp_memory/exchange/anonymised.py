"""Anonymise the sessions of an export, or restore the names.

Guarantees: a name has the same placeholder in every session of an export; names are learned from all sessions before the
first one is changed. `smp_memory.privacy.anonymisation` defines what counts as a name.
"""

from __future__ import annotations

from smp_memory.exchange.export import copy_of, exported_session
from smp_memory.exchange.file_format import Exported
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.privacy.anonymisation import Anonymiser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.files.codec import Fields
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.store.file_session import FileSession


class SessionTransform:
    """Applies a change to all fields and texts of an exported session."""

    def __init__(self, fields: Callable[[Fields], Fields], text: Callable[[str], str]) -> None:
        self._fields = fields
        self._text = text

    def __call__(self, session: Exported) -> Exported:
        info = session.info
        metadata = self._fields({**info.to_dict(), "other": info.other})
        info.id = metadata["id"]
        for name in ("user", "agents", "project", "tags", "context", "config", "other"):
            setattr(info, name, metadata[name])
        return Exported(info, [self._entry(entry) for entry in session.entries], session.line)

    def _entry(self, entry: Entry) -> Entry:
        by = self._text(entry.by) if isinstance(entry.by, str) else entry.by
        twin = copy_of(entry, self._text(entry.id), self._fields(entry.data), by, entry.revision)
        twin.uid, twin.uids = "", None  # they would link to the original
        return twin


def anonymising(placeholders: Placeholders, sessions: Iterable[FileSession], agents: bool) -> SessionTransform:
    """A transform from names to placeholders. Names are learned from all sessions first, because texts refer to other sessions."""
    anonymiser = Anonymiser(placeholders, agents=agents)
    for files in sessions:
        learn(anonymiser, exported_session(files))
    return SessionTransform(anonymiser.fields, anonymiser.text)


def restoring(placeholders: Placeholders) -> SessionTransform:
    """A transform from placeholders to the original names."""
    anonymiser = Anonymiser(placeholders)
    return SessionTransform(anonymiser.restore, anonymiser.restore_text)


def learn(anonymiser: Anonymiser, session: Exported) -> None:
    """Learn the names in a session: authors first, so that an approving agent is not taken for a person."""
    anonymiser.learn_session(session.info.to_dict())
    for entry in session.entries:
        if entry.op == PUT:
            anonymiser.learn({name: entry.data.get(name) for name in ("author", "author_kind", "role", "agent")})
    for entry in session.entries:
        if entry.op in (PUT, CHANGE):
            anonymiser.learn({**entry.data, "session": session.info.id})
        resolution = entry.data.get("resolution")
        resolver = resolution.get("resolved_by") if isinstance(resolution, dict) else None
        anonymiser.learn({"approved_by": [name for name in (entry.by, resolver) if isinstance(name, str)]})
