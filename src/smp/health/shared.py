"""Check the files of the designs that hold for all sessions (`smp.store.shared_files`): each can be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp.health.check import Check
from smp.health.report import WARNING, Finding, counted
from smp.store.shared_files import all_shared, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import Subject


class SharedFiles(Check):
    name = "shared"
    title = "files for all sessions can be read"

    def store(self, subject: Subject) -> Iterator[Finding]:
        number = len(all_shared(subject.store))
        self.said = counted(number, "memory", "memories") + (
            " in global/ or shared/: context uses them" if number else ""
        )
        for name, why in unreadable(subject.store):
            path = os.path.join(subject.store.root, *name.split("/"))
            message = f"{name} cannot be read: {why}"
            yield Finding(self.name, WARNING, message, "Correct the file; SMP never writes it.", path=path)
