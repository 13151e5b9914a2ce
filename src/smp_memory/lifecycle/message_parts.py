"""The parts of large messages: artifacts that hold the message of a turn, named in its `opaque.parts`. Adapters write them.

Guarantee: only artifacts of the turn's own session whose ids begin with `part-` count as parts, whatever a turn names.
"""

from __future__ import annotations

from smp_memory.model.history import COLD, HOT
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.record import Record
    from smp_memory.store.port import SessionStore, Store


def part_ids(record: Record) -> list[str]:
    """The ids of the parts of a turn, existing or not, in the order of the text."""
    state = record.get("opaque") if KINDS[record.type].is_turn else None
    ids = state.get("parts") if isinstance(state, dict) else None
    return [id for id in ids if isinstance(id, str) and id.startswith("part-")] if isinstance(ids, list) else []


def parts_of(storage: SessionStore, turn: Record) -> list[Record]:
    """The existing parts of a turn, those in the trash too."""
    return [part for part in _records(storage, part_ids(turn), HOT) if part.type == "artifact"]


def names_with_parts(store: Store, session: str, ids: list[str]) -> list[str]:
    """Ids of memories of a live, archived or deleted session, then those of their existing parts; cold segments included."""
    state = next((each for each in (LIVE, ARCHIVED, DELETED) if store.sessions(each, id=session)), None)
    if state is None:
        return ids
    storage = store.session(session, state)
    named = [id for segment in (HOT, COLD) for turn in _records(storage, ids, segment) for id in part_ids(turn)]
    parts = [part for segment in (HOT, COLD) for part in _records(storage, named, segment)]
    return list(dict.fromkeys([*ids, *(part.id for part in parts if part.type == "artifact")]))


def _records(storage: SessionStore, ids: list[str], segment: str) -> list[Record]:
    histories = storage.history(ids, segment=segment).histories if ids else {}
    records = [histories[id].record(storage.session) for id in ids if id in histories]
    return [record for record in records if record is not None]
