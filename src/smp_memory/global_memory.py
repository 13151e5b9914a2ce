"""What holds in all sessions? Preferences, learned patterns and the user's profile, promoted from sessions.

    memory.global_memory.promote("checkout-review/LEARN-0003", by="ada")
    memory.global_memory.set_profile("role", "platform engineer")
    memory.global_memory.undo("LEARN-0001")

They are memories like any other, in a session of their own (`global`), in readable files, as durable as all. It is made
with the first write, and never archived by itself. `context` uses what is in it in every session.

Guarantees: what was promoted says where from (`promoted_from`: session, id, revision, who, when) and is related to it
(`derived_from`). To promote a memory again, or one that says the same, adds where it comes from, not a second copy; many
processes may do so at once. Private memories and agent states are not promoted. `undo` takes back the last step.
Non-guarantees: the promoted copy is a memory of its own. Who erases the first one must erase the copy, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.error_mapping import maps_errors
from smp_memory.errors import Conflict, InvalidRecord, SessionExists
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS
from smp_memory.privacy.visibility import Viewer

if TYPE_CHECKING:
    from smp_memory.memory import Memory
    from smp_memory.model.record import Learning, Preference, Record
    from smp_memory.session import SessionMemory

PROFILE = "user-profile"  # the category of the preferences that make the profile
_SETTINGS = {"lifecycle": {"auto_archive": False}, "retention": {"enabled": False}}
_KEPT = ("topic", "tags", "confidence", "importance", "pinned", "category", "context", "source", "applies_to")
_TRIES = 20


@maps_errors
class GlobalMemory:
    """What holds in all sessions of a store. Made by `Memory.global_memory`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        store = self._memory.store
        return bool(store.layout.exists(store.disk, store.root, GLOBAL_SESSION))

    @property
    def session(self) -> SessionMemory:
        """The session that it is kept in; made when it is first asked for."""
        if not self.exists:
            try:
                return self._memory.create_session(GLOBAL_SESSION, config=_SETTINGS, purpose="holds in all sessions")
            except SessionExists:  # another process was quicker
                pass
        return self._memory.session(GLOBAL_SESSION)

    # -- reading

    def preferences(self) -> list[Preference]:
        """Those for all sessions, without the profile."""
        return [record for record in self._records("preference") if record.category != PROFILE]

    def patterns(self) -> list[Learning]:
        """What agents learned in sessions, for all of them."""
        return self._records("learning")

    def profile(self) -> dict[str, Any]:
        """What is known of the user."""
        return {record.key: record.value for record in self._records("preference") if record.category == PROFILE}

    def _records(self, type: str) -> list[Any]:
        """Those of the session `global`, and those in files of the designs whose key it does not have."""
        from smp_memory.store.design_shared_files import shared_records

        own = self.session.records(type) if self.exists else []
        keys = {(record.category, record.key) for record in own} if type == "preference" else set()
        shared = shared_records(self._memory.store, type, GLOBAL_SESSION)
        others = [each for each in shared if type != "preference" or (each.category, each.key) not in keys]
        return [*others, *own]

    # -- writing

    def set_preference(self, key: str, value: Any, **fields: Any) -> Preference:
        """A preference for all sessions; the same key again updates it."""
        return self.session.add_preference(key, value, **fields)

    def set_profile(self, key: str, value: Any, **fields: Any) -> Preference:
        """Something about the user that holds everywhere."""
        return self.session.add_preference(key, value, **{**fields, "category": PROFILE})

    def add_pattern(self, learning: str, **fields: Any) -> Learning:
        """A pattern for all sessions."""
        return self.session.add_learning(learning, **fields)

    def promote(self, what: Record | str, *, by: str | None = None, **fields: Any) -> Record:
        """Let a memory of a session hold in all sessions: a preference stays one, all else becomes a pattern.

        `what` is a record or `session/ID`; `fields` go above those of the memory.
        """
        record = self._meant(what)
        origin = {
            "session": record.session,
            "id": record.id,
            "revision": record.revision,
            "at": to_text(self._memory.now()),
            **({"by": by} if by else {}),
        }
        for _ in range(_TRIES):
            known = self._said_before(record)
            if known is None:
                break
            try:
                return self._also_from(known, record, origin, by, fields)
            except Conflict:  # another process promoted something that says the same
                continue
        data: dict[str, Any] = {name: record.given[name] for name in _KEPT if name in record.given}
        data |= {
            "author": record.author,
            "promoted_from": [origin],
            "relations": [{"kind": "derived_from", "target": record.ref}],
            "idempotency_key": f"promoted {record.ref}",
        }
        if record.type == "preference":
            data |= {name: record.given[name] for name in KINDS[record.type].parts if name in record.given}
            return self._added("preference", {**data, **fields})
        data.setdefault("category", record.type if record.type != "learning" else None)
        return self._added("learning", {"learning": record.text, **data, **fields})

    def _added(self, type: str, fields: dict[str, Any]) -> Record:
        record: Record = self.session.add(type, fields)
        return record

    def demote(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Record:
        """Take something out again; `session.restore` brings it back."""
        record: Record = self.session.delete(id, reason, by=by)
        return record

    def undo(self, id: Any, *, by: str | None = None) -> Record:
        """Take back the last step: of what was promoted once, the promotion; else the last change."""
        name = getattr(id, "id", id)
        session = self.session
        steps = [step for step in session.history(name) if "changes" in step and set(step["changes"]) != {"access"}]
        if len(steps) < 2:
            return self.demote(name, "promotion undone", by=by)
        before = {field: change["from"] for field, change in steps[-1]["changes"].items()}
        record: Record = session.update(name, by=by, **before)
        return record

    # -- where it comes from

    def _meant(self, what: Any) -> Record:
        record = self._memory.get(what) if isinstance(what, str) else what
        from smp_memory.model.record import Record

        if not isinstance(record, Record):
            raise InvalidRecord(f"what: give a record or session/ID, not {repr(what)[:60]}.", field="what")
        if record.session == GLOBAL_SESSION:
            raise InvalidRecord(f"{record.id}: holds in all sessions already.", field="id", id=record.id)
        if not KINDS[record.type].is_written_down:
            raise InvalidRecord(
                f"{record.ref}: a {record.type} cannot hold in all sessions; a preference, learning, decision or finding can.",
                field="id",
                id=record.id,
            )
        if not Viewer(None).sees(record):
            raise InvalidRecord(f"{record.ref}: is private; share it first.", field="visibility", id=record.id)
        return record

    def _said_before(self, record: Record) -> Record | None:
        """What is promoted already and has the same key, or says the same."""
        key = record.given.get("key") if record.type == "preference" else None
        said = " ".join(record.text.casefold().split())
        for other in self._records("preference" if record.type == "preference" else "learning"):
            if (key is not None and other.key == key) or (
                key is None and " ".join(other.text.casefold().split()) == said
            ):
                found: Record = other
                return found
        return None

    def _also_from(
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
