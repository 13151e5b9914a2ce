"""Check that git knows the merge driver which `.gitattributes` asks for: a clone does not inherit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp.files.git_repository import merges_without_driver
from smp.files.system import RealSystem
from smp.health.check import Check
from smp.health.report import WARNING, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import Subject


class GitMerging(Check):
    name = "git"
    title = "git merges entry by entry"

    def store(self, subject: Subject) -> Iterator[Finding]:
        top = merges_without_driver(subject.root) if isinstance(subject.system, RealSystem) else None
        if top is not None:
            yield Finding(self.name, WARNING, NO_DRIVER, "smp git setup registers it.", path=top)


NO_DRIVER = ".gitattributes asks for the merge driver `smp`, which this clone does not have: git merges the store as plain text."
