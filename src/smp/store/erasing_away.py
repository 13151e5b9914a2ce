"""How do the bytes of a memory leave a session that is put away? It is changed in RAM and put in the old one's place.

An archive is unpacked in RAM, erased from, packed beside the old one, read back and compared, and moved onto it; then the
summary beside it is written anew. Of a deleted session the files that change are written beside the old ones and a plan
that moves them into place is committed. The session is never brought back: it is where it was, in the same state.

Guarantees: a crash leaves all of it as it was, or nothing of the memory in the archive or the files; what is left of a plan
or an old summary is completed by whoever opens the store, or does anything with that session, next.
Non-guarantees: which session is meant is for the caller to say; of several deleted ones of a name it is the last.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp.errors import SMPError
from smp.files import archive
from smp.files.disk import TEMPORARY
from smp.files.foreign_tar import read_archive
from smp.files.journal import Journal, Plan
from smp.files.layouts import NAMES, layout_named
from smp.files.layouts.layout import PRIVATE
from smp.lifecycle.archive_summary import archive_summary
from smp.store.archiving import packed, summary_of
from smp.store.away_places import is_own_summary
from smp.store.away_session import Copy, files_in, of_archive, of_folder
from smp.store.erasure import erase_in
from smp.store.shelf import CONTENT, ERASING, Shelf

if TYPE_CHECKING:
    from smp.files.disk import Disk
    from smp.model.record import Record
    from smp.model.session_info import SessionInfo
    from smp.store.erasure import Erased
    from smp.store.shelf import Away


def copy_of(shelf: Shelf, session: str) -> Copy:
    """The session that is put away under this name, in RAM: the archived one, else the one deleted last."""
    if shelf.is_archived(session):
        return of_archive(shelf.store, shelf.archive_of(session), session)
    return _deleted_copy(shelf, _last(shelf, session))


def erase_away(shelf: Shelf, session: str, ids: list[str]) -> tuple[Erased, list[str]]:
    """Erase from it; also which files were changed. Hold the root's lock."""
    if shelf.is_archived(session):
        path, beside = shelf.pair(session)
        copy = of_archive(shelf.store, path, session)
        erased = erase_in(copy.files, ids)
        said = pack_again(shelf, copy, path)
        shelf.write_summary(beside, said, path)
        return erased, [path, beside]
    away = _last(shelf, session)
    copy = _deleted_copy(shelf, away)
    inside = shelf.packed_in(away.path)
    if shelf.disk.exists(inside):
        erased = erase_in(copy.files, ids)
        pack_again(shelf, copy, inside)
        return erased, [inside]
    erased = erase_in(copy.files, ids)
    return erased, _put_back(shelf, copy, os.path.join(away.path, CONTENT))


def _last(shelf: Shelf, session: str) -> Away:
    found = shelf.deleted(session)
    if not found:
        raise shelf.store.no_session(session)
    return found[-1]


def _deleted_copy(shelf: Shelf, away: Away) -> Copy:
    inside = shelf.packed_in(away.path)
    if shelf.disk.exists(inside):
        return of_archive(shelf.store, inside, away.session)
    said = away.said.get("layout")
    layout = layout_named(said) if said in NAMES else shelf.store.layout
    return of_folder(shelf.store, os.path.join(away.path, CONTENT), layout, away.session)


def pack_again(shelf: Shelf, copy: Copy, path: str) -> dict[str, Any]:
    """Replace an archive by a changed copy of it; the summary, made as it was when the session was packed."""
    old, ram = copy.summary, copy.files.store.disk

    def summary(records: list[Record], info: SessionInfo | None, figures: dict[str, Any]) -> dict[str, Any]:
        return archive_summary(records, info, archived=old.get("archived"), reason=old.get("reason"), figures=figures)

    said = summary_of(copy.files, summary)
    archive.pack_files(shelf.disk, dict(packed(copy.files)), path, said, replace=True, source=ram)
    return said


# -- files of a deleted session


def _put_back(shelf: Shelf, copy: Copy, content: str) -> list[str]:
    """Let the files of a deleted session be those of a copy, all at once; which ones differ."""
    disk, ram = shelf.disk, copy.files.store.disk
    before = dict(files_in(disk, content))
    after = {name: ram.read(path) for name, path in packed(copy.files)}
    plan = Plan()
    folders = set()
    for name, data in after.items():
        if before.get(name) == data:
            continue
        path = os.path.join(content, name)
        disk.make_folder(os.path.dirname(path))
        disk.remove(path + TEMPORARY)
        disk.write_new(path + TEMPORARY, data)
        folders.add(os.path.dirname(path))
        plan.moves.append((name + TEMPORARY, name))
    plan.removes = [name for name in before if name not in after]
    for folder in sorted(folders):
        disk.sync_folder(folder)
    disk.make_folder(os.path.join(content, PRIVATE))
    _journal(disk, content).commit(plan)
    finish_plan(disk, content)
    changed = [name for _, name in plan.moves] + plan.removes
    return [os.path.join(content, name) for name in changed if not name.endswith(TEMPORARY)]


def finish_plan(disk: Disk, content: str) -> None:
    """Carry out what was committed for a deleted session's files, and take away what came to nothing."""
    journal = _journal(disk, content)
    if journal.exists():
        journal.recover(lambda name, data: True)


def _journal(disk: Disk, content: str) -> Journal:
    return Journal(disk, os.path.join(content, PRIVATE, ERASING), content, "a deleted session")


# -- after a crash


def finish(shelf: Shelf, session: str) -> None:
    """Complete what an erasure that died has left of a session that is put away. Hold the root's lock."""
    for folder in shelf.trash_folders(session):
        finish_plan(shelf.disk, os.path.join(folder, CONTENT))
    if shelf.is_archived(session):
        try:
            pair = shelf.pair(session)
            said = read_archive(shelf.disk, pair.archive).summary
        except SMPError:
            return  # whoever opens the session is told
        if is_own_summary(said):
            shelf.write_summary(pair.summary, said, pair.archive)
