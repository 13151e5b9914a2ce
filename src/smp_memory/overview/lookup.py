"""The lookup index of a session, in the form of designs 001 and 004, which keep it in `index.json`. Pure.

    001   inverted_index, topic_index, temporal_index: ids by word, by topic and by hour
    004   entries: file position, type, time, tags, importance and relevance by id; ids by tag and by type

SMP has an index of its own and does not read this one: `smp index --json` prints it for other programs.
"""

from __future__ import annotations

from smp_memory.model.times import to_text
from smp_memory.overview.topics import overview_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record

    Words = Callable[[Record], Iterable[str]]

VERSION = 1
_HOUR = len("2026-01-11T10")


def inverted_index(session: str, at: str, records: Iterable[Record], words: Words) -> dict[str, Any]:
    """The index of design 001."""
    by_word: dict[str, list[str]] = {}
    by_topic: dict[str, list[str]] = {}
    by_hour: dict[str, list[str]] = {}
    for item in overview_items(records, across_sessions=False):
        for word in words(item.record):
            by_word.setdefault(word, []).append(item.ref)
        for topic in item.topics:
            by_topic.setdefault(topic, []).append(item.ref)
        by_hour.setdefault(to_text(item.created)[:_HOUR], []).append(item.ref)
    return {
        "session_id": session,
        "created_at": at,
        "inverted_index": dict(sorted(by_word.items())),
        "topic_index": dict(sorted(by_topic.items())),
        "temporal_index": by_hour,
        "version": VERSION,
    }


def entry_index(
    session: str, at: str, histories: Iterable[RecordHistory], priority: Callable[[Record], float]
) -> dict[str, Any]:
    """The index of design 004."""
    entries: dict[str, dict[str, Any]] = {}
    by_tag: dict[str, list[str]] = {}
    by_type: dict[str, list[str]] = {}
    for history in histories:
        record = history.record(session)
        if record is None or record.deleted:
            continue
        tags = [tag for tag in record.tags if isinstance(tag, str)] if isinstance(record.tags, list) else []
        entries[record.id] = {
            "line_number": history.first.line,
            "byte_offset": history.first.place[0],
            "type": record.type,
            "timestamp": to_text(record.created),
            "tags": tags,
            "importance": record.importance,
            "current_relevance": round(priority(record), 4),
        }
        for tag in tags:
            by_tag.setdefault(tag, []).append(record.id)
        by_type.setdefault(record.type, []).append(record.id)
    return {"version": VERSION, "last_updated": at, "entries": entries, "tags": by_tag, "types": by_type}
