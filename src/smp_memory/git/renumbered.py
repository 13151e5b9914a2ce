"""The memories of a merge that share an id with another one, and the ids under which they are shown from now on. Pure."""

from __future__ import annotations

import re

from smp_memory.git.entry_files import CHANGE, PUT
from smp_memory.model.entry import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.git.entry_files import Unit

_NUMBERS = re.compile(rb'numbers"?:[ ]*\{?((?:\s*"?[A-Z]+"?:[ ]*[0-9]+,?)+)')
_NUMBER = re.compile(rb"([A-Z]+)\"?:[ ]*([0-9]+)")


def renumbered(ours: Iterable[Unit], theirs: Iterable[Unit], units: Iterable[Unit], metadata: bytes) -> list[str]:
    """A sentence for each memory that only one side added and whose id the merge changes.

    `units` are all entries of the merged file, `metadata` is text with the numbers that were given out in the session.
    """
    added = [{unit.memory: unit.name for unit in side if unit.is_first} for side in (ours, theirs)]
    taken = set(added[0].values())
    if not any(name in taken and memory not in added[0] for memory, name in added[1].items()):
        return []
    from smp_memory.model.clone_merge import names_of

    names = names_of(map(_entry, (unit for unit in units if unit.op in (PUT, CHANGE))), numbers_in(metadata))
    found = []
    for name, put in names.unsettled.items():
        side = next((side for side, known in zip(("ours", "theirs"), added, strict=True) if known.get(put.uid) == put.id), "")  # fmt: skip
        if side:
            found.append(f"{put.id} of {side} is now {name}; relations to it follow.")
    return found


def _entry(unit: Unit) -> Entry:
    fields = unit.fields
    seq = fields.get("seq")
    data = fields.get("changes") if unit.op == CHANGE else {}
    return Entry(unit.op, str(fields.get("type", "")), unit.name, unit.at, data or {}, seq if type(seq) is int else 0, uid=str(fields.get("uid") or ""), state=unit.state or "signed")  # fmt: skip


def numbers_in(metadata: bytes) -> dict[str, int]:
    """The largest numbers that were given out, by prefix."""
    found: dict[str, int] = {}
    for block in _NUMBERS.finditer(metadata):
        for prefix, number in _NUMBER.findall(block[1]):
            found[prefix.decode()] = max(found.get(prefix.decode(), 0), int(number))
    return found
