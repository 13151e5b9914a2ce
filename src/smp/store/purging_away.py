"""Purge deleted memories of archived sessions: the archive is changed in RAM and replaced by one without them.

Announcing and taking follow `store.purging`: two looks at least a day apart, noted in `purge.json`, here inside the archive.

Guarantees: the session stays archived. A crash leaves the old archive or the new one, and what went is named in it until
the audit log has it. An archive of another program is not changed, nor one that cannot be read (`smp doctor` names it).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from smp.errors import SMPError
from smp.model.forgotten import Purged
from smp.model.time import to_text
from smp.store import purging
from smp.store.away_places import is_own_summary
from smp.store.away_session import of_archive
from smp.store.erasing_away import pack_again
from smp.store.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from smp.config import Config
    from smp.lifecycle.clock import Evidence
    from smp.store.away_session import Copy
    from smp.store.file_store import FileStore

TRASH = "deleted_memories"  # in the summary beside an archive: how many it holds


def purge_archives(
    store: FileStore,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None = None,
    *,
    automatic: bool = False,
) -> Iterator[tuple[str, Purged]]:
    """One look at each archive that may hold deleted memories; `kept` replaces the session's `lifecycle.purge_days`."""
    shelf = Shelf(store)
    for away in shelf.archived():
        if away.said and not (is_own_summary(away.said) and away.said.get(TRASH) != 0):
            continue
        try:
            with shelf.shelved(away.session, "purging"):
                done = _purge_archive(shelf, away.session, now, evidence, by, kept, automatic)
        except SMPError:
            continue  # damaged, or somebody else is at it: the next look
        yield away.session, done


def _purge_archive(
    shelf: Shelf,
    session: str,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None,
    automatic: bool,
) -> Purged:
    store = shelf.store
    if not shelf.is_archived(session):
        return Purged()
    path, beside = shelf.pair(session)
    copy = of_archive(store, path, session)
    if not is_own_summary(copy.summary):
        return Purged()
    files = copy.files
    if TRASH not in copy.summary and not _trash(copy):  # packed before summaries told of it
        shelf.write_summary(beside, {**copy.summary, TRASH: 0}, path)
        return Purged()
    config = files.usable_config()
    if automatic and not _may_purge(config):
        return Purged()
    purging.sign_again(files, store.disk, files.store.disk)
    before = purging.announced_in(files)
    time_kept = timedelta(days=config["lifecycle.purge_days"]) if kept is None else kept
    done = purging.purge(files, now, time_kept, evidence, lambda names: False)
    taken = purging.taken_by(files.reader)
    if taken or purging.announced_in(files) != before:
        _pack(shelf, copy, session)
    if taken and store.audit.note("purge", at=to_text(now), by=by, session=session, ids=taken):
        purging.sign_again(files, store.disk, files.store.disk)
        purging.forget_taken(files)
        _pack(shelf, copy, session)
    return done


def _pack(shelf: Shelf, copy: Copy, session: str) -> None:
    path, beside = shelf.pair(session)
    purging.sign_again(copy.files, copy.files.store.disk, shelf.disk)
    said = pack_again(shelf, copy, path)
    shelf.write_summary(beside, said, path)


def _trash(copy: Copy) -> int:
    number: int = copy.files.view(lambda fold: sum(trail.deletion is not None for trail in fold.trails.values()))
    return number


def _may_purge(config: Config) -> bool:
    return bool(config["lifecycle.auto_purge"])
