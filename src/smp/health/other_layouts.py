"""Check that no session stands in a layout that the store does not have: nobody reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp.health.check import Check
from smp.health.report import PROBLEM, Finding
from smp.store.other_layouts import advice, unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import Subject


class OtherLayouts(Check):
    name = "layouts"
    title = "sessions have one layout"

    def store(self, subject: Subject) -> Iterator[Finding]:
        layout = subject.store.layout
        for each in unread(subject.disk, subject.root, layout):
            details = ({"layout": each.layout, "files": each.files},)
            yield Finding(
                self.name,
                PROBLEM,
                each.text(layout.name),
                advice(layout.name),
                each.session,
                path=each.path,
                details=details,
            )
