"""Who is it in a copy for others? Sessions with placeholders in the place of names, or with the names again.

Guarantees: one `Placeholders` gives the same name the same placeholder in every session of an export; all sessions are
learned from before the first is changed. `smp_memory.privacy.anonymisation` says what counts as a name.
"""

from __future__ import annotations

from smp_memory.exchange.export import carried_from, copy_of
from smp_memory.exchange.file_format import Exported
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.privacy.anonymisation import Anonymiser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.files.codec import Fields
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.store.file_session import FileSession


class FieldChange:
    """Gives every session of an export its placeholders, or takes them back."""

    def __init__(self, fields: Callable[[Fields], Fields], text: Callable[[str], str]) -> None:
        self._fields = fields
        self._text = text

    def __call__(self, carried: Exported) -> Exported:
        info = carried.info
        head = self._fields({**info.to_dict(), "other": info.other})
        info.id = head["id"]
        for name in ("user", "agents", "project", "tags", "context", "config", "other"):
            setattr(info, name, head[name])
        return Exported(info, [self._entry(entry) for entry in carried.entries], carried.line)

    def _entry(self, entry: Entry) -> Entry:
        by = self._text(entry.by) if isinstance(entry.by, str) else entry.by
        twin = copy_of(entry, self._text(entry.id), self._fields(entry.data), by, entry.revision)
        twin.uid, twin.uids = "", None  # they would lead to the original, and name what the fields refer to
        return twin


def disguised(placeholders: Placeholders, sessions: Iterable[FileSession], agents: bool) -> FieldChange:
    """Names become placeholders. All are learned first: one may stand in the texts of another session."""
    anonymiser = Anonymiser(placeholders, agents=agents)
    for session in sessions:
        learn(anonymiser, carried_from(session))
    return FieldChange(anonymiser.fields, anonymiser.text)


def revealed(placeholders: Placeholders) -> FieldChange:
    """Placeholders become what they stand for."""
    anonymiser = Anonymiser(placeholders)
    return FieldChange(anonymiser.restore, anonymiser.restore_text)


def learn(anonymiser: Anonymiser, carried: Exported) -> None:
    """Names from a session: first who writes, so that an agent who approves is not taken for a person."""
    anonymiser.learn_session(carried.info.to_dict())
    for entry in carried.entries:
        if entry.op == PUT:
            anonymiser.learn({name: entry.data.get(name) for name in ("author", "author_kind", "role", "agent")})
    for entry in carried.entries:
        if entry.op in (PUT, CHANGE):
            anonymiser.learn({**entry.data, "session": carried.info.id})
        resolution = entry.data.get("resolution")
        resolver = resolution.get("resolved_by") if isinstance(resolution, dict) else None
        anonymiser.learn({"approved_by": [name for name in (entry.by, resolver) if isinstance(name, str)]})
