"""What should be known of a session that is packed away? Its summary, small enough to stay beside the archive.

It is the summary that `query.summary` makes (figures, participants, decisions that stand, open findings, preferences,
agent states, topics), with the conversation in a few sentences and the turns that they come from.

Guarantees: pure; nothing is made up; deleted memories are left out; the same records give the same summary; the size is
bounded, whatever the session holds.
"""

from __future__ import annotations

from smp.lifecycle.summarise import quotes
from smp.model.time import to_text
from smp.query.summary import summarize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from smp.lifecycle.summarise import Quote
    from smp.model.record import Record
    from smp.model.session_info import SessionInfo

KEY_TURNS = 10
MOST_OF_EACH = 20
VERSION = 1


def archive_summary(
    records: Sequence[Record],
    info: SessionInfo | None = None,
    *,
    priority: Callable[[Record], float] | None = None,
    archived: str | None = None,
    reason: str | None = None,
    figures: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The summary as plain JSON values; `archived` is when, `figures` are sizes and counts that the caller knows."""
    living = [record for record in records if not record.deleted]
    turns = [record for record in living if record.type == "conversation"]
    said = quotes([record.text for record in turns], KEY_TURNS, 200 * KEY_TURNS)
    body: dict[str, Any] = summarize(living, info, priority=priority, most=MOST_OF_EACH).to_dict()["session_summary"]
    return {
        "summary_version": VERSION,
        "session": info.id if info else (records[0].session if records else None),
        "archived": archived,
        "reason": reason,
        **(figures or {}),
        **body,
        "conversation": " ".join(quote.text for quote in said),
        "key_turns": [_key_turn(turns[quote.source], quote) for quote in said],
    }


def _key_turn(record: Record, quote: Quote) -> dict[str, Any]:
    author = record.author if isinstance(record.author, str) else "user"
    return {"id": record.id, "author": author, "created": to_text(record.created), "text": quote.text}
