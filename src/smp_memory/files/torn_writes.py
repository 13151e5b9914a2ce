"""Recognise unfinished writes at the end of a file: bytes that a power loss zeroed, and parts of a transaction."""

from __future__ import annotations

from smp_memory.files.codec import CONFLICT, DAMAGED, SIGNED
from smp_memory.model.entry import transaction_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Piece
    from smp_memory.model.entry import Entry


def torn_from(pieces: list[Piece], data: bytes, offset: int) -> float:
    """Where an unfinished write begins that reached the disk with holes: a power loss leaves zeros in them.

    That is the last piece, if it is not as it was signed and has zeros in it; or the whole one-file transaction
    that the file ends with, if zeros stand for what it lacks.
    """
    if b"\0" not in data or not pieces:
        return float("inf")
    last = pieces[-1]
    if last.state not in (SIGNED, CONFLICT) and b"\0" in data[last.start - offset : last.end - offset]:
        return last.start
    mark = (last.fields or {}).get("tx")
    limits = transaction_range(mark) if isinstance(mark, str) else None
    if limits is None or limits[2] > 1:
        return float("inf")
    first, missing = len(pieces), limits[1] - limits[0] + 1
    while first and (pieces[first - 1].state == DAMAGED or (pieces[first - 1].fields or {}).get("tx") == mark):
        first -= 1
        missing -= pieces[first].state != DAMAGED
    start = pieces[first - 1].end if first else offset
    if data[start - offset : start - offset + 1] == b"\n":
        start += 1
    return start if missing > 0 and b"\0" in data[start - offset :] else float("inf")


def unfinished_group(entries: list[Entry], complete_until: int) -> int | None:
    """Where the last entries of a file begin if they are part of a one-file transaction whose rest is not there yet.

    A write that was cut off leaves the first entries of a transaction, in order. Anything else is the work of a person or
    of git: the rest was there once (`complete_until`), or it stands elsewhere in the file. Then what is left counts.
    """
    if not entries or not entries[-1].tx:
        return None
    mark, last = entries[-1].tx, entries[-1].seq
    limits = transaction_range(mark)
    if limits is None or limits[2] > 1 or limits[1] <= max(last, complete_until):
        return None
    first = len(entries) - 1
    while first > 0 and entries[first - 1].tx == mark and entries[first - 1].seq == entries[first].seq - 1:
        first -= 1
    is_beginning = entries[first].seq == limits[0]
    rest_is_elsewhere = any(entry.tx == mark for entry in entries[:first])
    return first if is_beginning and not rest_is_elsewhere else None
