"""Review of proposals: turns that look like a memory nobody has written down, and what becomes of them. Pure.

Proposals are computed from the turns of a session (`smp_memory.model.proposals`). One is open until a memory was written from it: a memory that
names the turn as its source (`turn_ref`, a relation or a reference) or says about the same; or until somebody dropped the turn.

Guarantees: nothing is stored but the ids of dropped turns and proposals, in the metadata of the session (`DROPPED`). A deleted turn proposes nothing; a
memory that was written from a turn and deleted later still closes its proposal, unless keeping it was undone. Turns are looked at one by one, the
newest first, so the first proposals of a long session are cheap.
Non-guarantees: "about the same" compares words within the session. A clone that drops turns at the same time may lose that to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord
from smp_memory.model.proposals import proposals_in
from smp_memory.model.statuses import evidence_ids
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS, kind_of
from smp_memory.text.tokenizer import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo

DROPPED = "dropped_proposals"  # in `SessionInfo.other`: ids of turns, or of one proposal "TURN-0004 decision"
UNDONE = "undone in review"  # why a kept memory was deleted: its turn proposes again
TYPES = tuple(kind.name for kind in KINDS.values() if kind.is_written_down)  # that a proposal can become
_SAME, _CONTAINED = 0.6, 0.8  # share of the words of a proposal in a memory, and of a memory in a proposal


class Proposal(NamedTuple):
    """Sentences of a turn that look like a memory."""

    session: str
    turn: str  # its id
    type: str
    text: str
    created: datetime  # of the turn

    @property
    def ref(self) -> str:
        """The turn, as `session/ID`."""
        return f"{self.session}/{self.turn}"

    @property
    def name(self) -> str:
        """What tells it from all others of its session."""
        return f"{self.turn} {self.type}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"ref": self.ref, "type": self.type, "text": self.text, "created": to_text(self.created)}


def open_proposals(records: Iterable[Record], info: SessionInfo) -> Iterator[Proposal]:
    """The proposals of a session that nobody wrote down or dropped, the newest first; `records` with the deleted ones."""
    dropped = dropped_names(info)
    known = list(records)
    turns = (each for each in reversed(known) if KINDS[each.type].is_turn and not each.deleted)
    written = [each for each in known if KINDS[each.type].is_written_down and not _is_undone(each)]
    sources = {(turn, each.type) for each in written for turn in evidence_ids(each)}
    texts = [_words(each.text) for each in written]  # also of deleted ones: what a person removed is not proposed again
    for turn in turns:
        for each in () if turn.id in dropped else _open_in(turn, sources):
            if each.name not in dropped and not _is_told(_words(each.text), texts):
                yield each


def _is_undone(record: Record) -> bool:
    return record.deletion is not None and record.deletion.data.get("reason") == UNDONE


def proposals_of(turn: Record) -> list[Proposal]:
    """All proposals in one turn."""
    found = proposals_in(turn.text, str(turn.given.get("role")))
    return [Proposal(turn.session, turn.id, type, text, turn.created) for type, text in found]


def proposal_in(turn: Record, type: str) -> Proposal:
    """The proposal of this type in a turn; raises InvalidRecord if there is none."""
    found = next((each for each in proposals_of(turn) if each.type == type), None)
    if found is None:
        raise InvalidRecord(f"type: {turn.ref} proposes no {type}.", field="type", id=turn.id)
    return found


def surroundings(turn: str, said: str, size: int) -> tuple[str, str, str]:
    """What stands before, in and after a proposal in the text of its turn, at most so many characters before and after it."""
    at = turn.find(said)
    if at < 0:  # several sentences, or a heading with its next line
        return "", said, ""
    before, after = turn[:at], turn[at + len(said) :]
    return _end_of(before, size), said, after if len(after) <= size else after[:size].rpartition(" ")[0] + " …"


def _end_of(text: str, size: int) -> str:
    return text if len(text) <= size else "… " + text[-size:].partition(" ")[2]


def turn_id(turn: Any) -> Any:
    """The turn of a proposal; anything else unchanged."""
    return turn.turn if isinstance(turn, Proposal) else turn


def _open_in(turn: Record, sources: set[tuple[str, str]]) -> list[Proposal]:
    """The proposals of a turn without those that a memory was written from; of a single one the memory may have any type."""
    found = proposals_of(turn)
    if len(found) == 1:
        return [] if any(source == turn.id for source, _ in sources) else found
    return [each for each in found if (turn.id, each.type) not in sources]


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - STOP_WORDS


def says_the_same(text: str, written: str) -> bool:
    """Whether a memory with this text closes a proposal with that one."""
    return _is_told(_words(text), [_words(written)])


def _is_told(words: frozenset[str], written: Iterable[frozenset[str]]) -> bool:
    return any(
        len(words & other) >= _SAME * len(words) or len(words & other) >= _CONTAINED * len(other)
        for other in written
        if words and other
    )


def fields_to_keep(
    turn: Record, type: str | None, text: str | None, proposal: Proposal | None = None
) -> tuple[str, dict[str, Any]]:
    """The type and the fields of the memory that a proposal becomes; `type` and `text` replace what the rules propose.

    Raises InvalidRecord if the turn is none, proposes nothing, or proposes several memories and neither `type` nor `proposal` says which one.
    """
    if not KINDS[turn.type].is_turn:
        raise InvalidRecord(f"turn: {turn.ref} is a {turn.type}, not a turn.", field="turn", id=turn.id)
    found = [proposal] if proposal is not None else proposals_of(turn)
    wanted = kind_of(type).name if type is not None else None
    fitting = [each for each in found if each.type == wanted] or (found if len(found) == 1 or wanted is None else [])
    if wanted is not None and text is not None and not fitting:
        return wanted, _fields(turn, wanted, text)
    if len(fitting) != 1:
        types = ", ".join(each.type for each in found) or "nothing"
        advice = "Say which type." if found else "Give a type and a text."
        raise InvalidRecord(f"type: {turn.ref} proposes {types}. {advice}", field="type", id=turn.id)
    kept = wanted or fitting[0].type
    fields = _fields(turn, kept, text or fitting[0].text)
    return kept, fields if text else {**fields, "confidence": "inferred"}


def _fields(turn: Record, type: str, text: str) -> dict[str, Any]:
    if not KINDS[type].is_written_down:
        raise InvalidRecord(
            f"type: a {type} cannot be kept; a decision, finding, learning or preference can.", field="type"
        )
    return {KINDS[type].text: text, "turn_ref": turn.id, "idempotency_key": f"kept {turn.id} {type}"}


def dropped_names(info: SessionInfo) -> Collection[str]:
    """The turns, and the names of single proposals, that somebody dropped."""
    known = info.other.get(DROPPED)
    return frozenset(each for each in known if isinstance(each, str)) if isinstance(known, list) else frozenset()


def change_dropped(info: SessionInfo, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Note in the metadata of a session which turns and proposals are not wanted, and which are wanted again."""
    names = sorted({*dropped_names(info), *add} - {*remove})
    info.other = {**info.other, DROPPED: names}
