"""Which memories were only recalled? Texts that carry the fence of a recall and were stored again as if they were new.

A prompt that holds memories comes back in a transcript or in an answer. Stored again it is found again, and again: one
mistake becomes hundreds. The fence (`smp.agents.fence`) marks what was recalled.

Non-guarantees: what was recalled and retold in other words has no fence; `smp duplicates` may find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp.agents.fence import MARK, find, is_only_recalled
from smp.health.check import Check
from smp.health.report import WARNING, Finding, counted, several

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject

_MOST = 10


class Recalled(Check):
    name = "recalled"
    title = "no recalled text stored again"

    def __init__(self) -> None:
        self._checked = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        found = []
        for trail in session.fold.trails.values():
            fields = [name for name, value in _texts("", trail.data()) if MARK in value and find(value)]
            if fields and trail.deletion is None:
                found.append(self._finding(session.id, trail.first, fields, trail.data()))
        self._checked += len(session.fold.trails)
        self.said = counted(self._checked, "memory", "memories")
        yield from several(found, _MOST, f"{{}} more memories of {session.id} hold recalled text.")

    def _finding(self, session: str, first: Any, fields: list[str], data: dict[str, Any]) -> Finding:
        only = all(is_only_recalled(value) for name, value in _texts("", data) if name in fields)
        message = f"{first.id} holds recalled text in {', '.join(fields)}" + (
            ", and nothing else there." if only else "."
        )
        take_out = f"smp delete {session}/{first.id} --reason recalled"
        advice = take_out if only or first.type == "conversation" else f"smp edit {session}/{first.id}, or {take_out}"
        details = tuple({"id": first.id, "field": name} for name in fields)
        return Finding(self.name, WARNING, message, advice, session, (first.id,), first.file, first.line, None, details)


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in the fields of a memory, with the name of its field."""
    if type(value) is str:
        yield name, value
    elif type(value) is dict:
        for key, item in value.items():
            yield from _texts(f"{name}.{key}" if name else key, item)
    elif type(value) is list:
        for place, item in enumerate(value):
            yield from _texts(f"{name}[{place}]", item)
