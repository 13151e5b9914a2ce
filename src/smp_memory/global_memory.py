"""Memories for all sessions: preferences, learned patterns and the user's profile, promoted from sessions.

    memory.global_memory.promote("checkout-review/LEARN-0003", by="ada")
    memory.global_memory.set_profile("role", "platform engineer")
    memory.global_memory.undo("LEARN-0001")

They are ordinary memories in a session of their own (`global`), in readable files, as durable as all. The session is created
with the first write, and never archived automatically. `context` uses its memories in every session. The designs' files for all
sessions show them, and what other programs wrote there is read as well (`smp_memory.store.shared_files`).

Guarantees: a promoted memory names its origins (`promoted_from`: session, id, revision, who, when) and is related to them
(`derived_from`). Promoting a memory again, or one of the same text, adds an origin, not a second copy; many
processes may do so at once. Private memories and agent states are not promoted. `undo` reverts the last step.
Non-guarantees: the promoted copy is a memory of its own. Erasing the original does not erase the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import Conflict, InvalidRecord, maps_errors
from smp_memory.model.record import Record
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import unindexed_memories

if TYPE_CHECKING:
    from smp_memory.memory import Memory
    from smp_memory.model.record import Learning, Preference
    from smp_memory.session import SessionMemory

PROFILE = "user-profile"  # the category of the preferences that make the profile
_COPIED_FIELDS = (
    "topic",
    "aliases",
    "tags",
    "valid_from",
    "valid_until",
    "confidence",
    "importance",
    "pinned",
    "muted",
    "category",
    "context",
    "source",
    "applies_to",
)
_MOST_ATTEMPTS = 20


@maps_errors
class GlobalMemory:
    """The memories for all sessions of a store. Made by `Memory.global_memory`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        return bool(self._memory.store.sessions(id=GLOBAL_SESSION))

    @property
    def session(self) -> SessionMemory:
        """The session `global`; created on first use."""
        return self._memory.session(GLOBAL_SESSION)

    # -- reading

    def preferences(self) -> list[Preference]:
        """Preferences for all sessions, without the profile."""
        return [record for record in self._records("preference") if record.category != PROFILE]

    def patterns(self) -> list[Learning]:
        """Learnings for all sessions."""
        return self._records("learning")

    def profile(self) -> dict[str, Any]:
        """The user's profile."""
        return {record.key: record.value for record in self._records("preference") if record.category == PROFILE}

    def _records(self, type: str) -> list[Any]:
        """Records of the session `global`, and those in shared files of the designs whose key it does not have."""
        records = self._own(type)
        keys = {(record.category, record.key) for record in records} if type == "preference" else set()
        histories = unindexed_memories(self._memory.store, [GLOBAL_SESSION]).get(GLOBAL_SESSION, {}).values()
        shared: list[Any] = [history.record(GLOBAL_SESSION) for history in histories if history.first.type == type]
        others = [each for each in shared if type != "preference" or (each.category, each.key) not in keys]
        return [*others, *records]

    def _own(self, type: str) -> list[Any]:
        return self.session.records(type) if self.exists else []

    # -- writing

    def set_preference(self, key: str, value: Any, **fields: Any) -> Preference:
        """Set a preference for all sessions; the same key again updates it."""
        return self.session.add_preference(key, value, **fields)

    def set_profile(self, key: str, value: Any, **fields: Any) -> Preference:
        """Set a fact of the user's profile."""
        return self.session.add_preference(key, value, **{**fields, "category": PROFILE})

    def add_pattern(self, learning: str, **fields: Any) -> Learning:
        """Add a learning for all sessions."""
        return self.session.add_learning(learning, **fields)

    def promote(self, what: Record | str, *, by: str | None = None, **fields: Any) -> Record:
        """Copy a memory of a session to all sessions: a preference stays one, other types become a learning.

        `what` is a record or `session/ID`; `fields` override those of the memory.
        """
        record = self._promotable(what)
        origin = {
            "session": record.session,
            "id": record.id,
            "revision": record.revision,
            "at": to_text(self._memory.now()),
            **({"by": by} if by else {}),
        }
        for _ in range(_MOST_ATTEMPTS):
            known = self._find_promoted(record)
            if known is None:
                break
            try:
                return self._add_origin(known, record, origin, by, fields)
            except Conflict:  # another process promoted a memory of the same text or key
                continue
        data: dict[str, Any] = {name: record.given[name] for name in _COPIED_FIELDS if name in record.given}
        data |= {
            "author": record.author,
            "promoted_from": [origin],
            "relations": [{"kind": "derived_from", "target": record.ref}],
            "idempotency_key": f"promoted {record.ref}",
        }
        if record.type == "preference":
            data |= {name: record.given[name] for name in KINDS[record.type].parts if name in record.given}
            return self._add("preference", {**data, **fields})
        data.setdefault("category", record.type if record.type != "learning" else None)
        return self._add("learning", {"learning": record.text, **data, **fields})

    def _add(self, type: str, fields: dict[str, Any]) -> Record:
        record: Record = self.session.add(type, fields)
        return record

    def demote(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Record:
        """Delete a memory from all sessions; `session.restore` restores it."""
        record: Record = self.session.delete(id, reason, by=by)
        return record

    def undo(self, id: Any, *, by: str | None = None) -> Record:
        """Revert the last step: the last change, or the promotion if there was no change since."""
        name = getattr(id, "id", id)
        session = self.session
        steps = [step for step in session.history(name) if "changes" in step and set(step["changes"]) != {"access"}]
        if len(steps) < 2:
            return self.demote(name, "promotion undone", by=by)
        before = {field: change["from"] for field, change in steps[-1]["changes"].items()}
        record: Record = session.update(name, by=by, **before)
        return record

    # -- origins

    def _promotable(self, what: Any) -> Record:
        record = self._memory.get(what) if isinstance(what, str) else what
        if not isinstance(record, Record):
            raise InvalidRecord(f"what: give a record or session/ID, not {repr(what)[:60]}.", field="what")
        if record.session == GLOBAL_SESSION:
            raise InvalidRecord(f"{record.id}: applies to all sessions already.", field="id", id=record.id)
        if not KINDS[record.type].is_written_down:
            raise InvalidRecord(
                f"{record.ref}: a {record.type} cannot apply to all sessions; a preference, learning, decision or finding can.",
                field="id",
                id=record.id,
            )
        if not Viewer(None).sees(record):
            raise InvalidRecord(f"{record.ref}: is private; share it first.", field="visibility", id=record.id)
        return record

    def _find_promoted(self, record: Record) -> Record | None:
        """The memory for all sessions with the same key or, without a key, the same text."""
        key = record.given.get("key") if record.type == "preference" else None
        others = self._own("preference" if record.type == "preference" else "learning")
        if key is not None:
            matching = (other for other in others if other.key == key)
        else:
            matching = (other for other in others if _normalised(other.text) == _normalised(record.text))
        return next(matching, None)

    def _add_origin(
        self, known: Record, record: Record, origin: dict[str, Any], by: str | None, fields: dict[str, Any]
    ) -> Record:
        relation = {"kind": "derived_from", "target": record.ref}
        origins = known.given.get("promoted_from", [])
        changes: dict[str, Any] = dict(fields)
        if record.type == "preference":
            changes.update({name: record.given[name] for name in KINDS[record.type].parts if name in record.given})
        if not any(each.get("id") == record.id and each.get("session") == record.session for each in origins):
            changes["promoted_from"] = [*origins, origin]
        if relation not in known.relations:
            changes["relations"] = [*known.relations, relation]
        changed: Record = self.session.update(known.id, known.revision, by=by, **changes) if changes else known
        return changed


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
