"""Check for files in a session's folder that SMP does not read: a person may believe that their text is remembered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import OVERVIEWS, PRIVATE
from smp_memory.health.report import NOTE, Check, HealthIssue, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.subject import SessionSubject

_OF_DESIGNS = frozenset(("index.json", "lock", ".lock"))  # made from the memories, or without a meaning here


class UnreadFilesCheck(Check):
    name = "unread"
    title = "all files of sessions are known"
    failed = "some files of sessions are not read"

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        reader, disk = session.reader, session.subject.disk
        if not reader.layout.info_file:  # its folder is that of all sessions
            return
        names = []
        for name in disk.names(reader.folder):
            path = os.path.join(reader.folder, name)
            if not disk.is_folder(path):
                names.append(name)
            elif name not in (PRIVATE, OVERVIEWS):
                names += [f"{name}/{inner}" for inner in disk.names(path)]
        unknown = [name for name in names if not _is_known(name, session.id)]
        if unknown:
            message = f"{named(unknown)} in the folder of {session.id} {'is' if len(unknown) == 1 else 'are'} not read."
            advice = "Nothing needs to be done; they are kept. Store what should be remembered as a memory: smp add."
            path = os.path.join(reader.folder, unknown[0])
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=path)


def _is_known(name: str, session: str) -> bool:
    if name in _OF_DESIGNS or name.endswith((".lock", TEMPORARY)):
        return True
    return any(name == layout.info_file or layout.is_session_file(name, session) for layout in map(layout_named, NAMES))
