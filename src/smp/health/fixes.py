"""What can be put right without asking? Fixes that destroy and change no memory.

    permissions   files 0600, folders 0700, of SMP's own and of this user's
    recovery      what a crash left: a committed plan is carried out, unfinished files and never committed plans go, a torn
                  end is set aside in quarantine; a conversion or erasure that was interrupted is finished or taken back
    index         thrown away and made anew from the files
    access        the log of uses is folded into the files, as maintenance does daily
    maintenance   of what is overdue: the counts for fading, the check of the index, the log of uses. Nothing by the calendar

Guarantees: the memories are the same before and after (the count of uses may grow). A fix that fails says so, and the
others still run. Everything else is left to a person: reports name the command.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from smp.errors import InvalidRecord, SMPError
from smp.files.disk import Disk
from smp.files.system import RealSystem
from smp.health.access_rights import FILE_MODE, FOLDER_MODE, Place, places
from smp.health.report import Fixed
from smp.health.upkeep import TENDED
from smp.model import ids
from smp.store.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp.health.report import Finding, HealthReport
    from smp.health.subject import Subject
    from smp.memory import Memory

NAMES = ("permissions", "recovery", "index", "access", "maintenance")
_ABANDONED_SECONDS = 3600  # whoever made it would be done by now


def wanted(fix: bool | Iterable[str], report: HealthReport) -> list[str]:
    """The fixes that were asked for and would help, in the order in which they are done."""
    names = NAMES if fix is True else (fix,) if isinstance(fix, str) else tuple(fix or ())
    for name in names:
        if name not in NAMES:
            raise InvalidRecord(f"fix: {name!r} is not a safe fix; there are {', '.join(NAMES)}.", field="fix")
    return [name for name in NAMES if name in names and name in report.fixes]


def apply(names: list[str], report: HealthReport, subject: Subject, opened: Callable[[], Memory]) -> list[Fixed]:
    """Do them; `opened` gives the store, when it is needed, and may fail."""
    work: dict[str, Callable[[list[Finding]], Iterator[str]]] = {
        "permissions": lambda _: _close_up(subject),
        "recovery": lambda findings: _recover(findings, subject, opened()),
        "index": lambda _: _make_index(opened()),
        "access": lambda _: _maintain(opened(), ["access"]),
        "maintenance": lambda _: _maintain(opened(), list(TENDED)),
    }
    done = []
    for name in names:
        did: list[str] = []
        try:
            for line in work[name]([finding for finding in report.findings if finding.fix == name]):
                did.append(line)
            done.append(Fixed(name, True, did or ["nothing was left to do"]))
        except (SMPError, OSError) as error:
            done.append(Fixed(name, False, [*did, f"could not be done: {getattr(error, 'message', error)}"]))
    return done


def _close_up(subject: Subject) -> Iterator[str]:
    """Take rights away from others; only where this user may, and never through a link."""
    disk, changed = Disk(subject.system), 0
    for place in list(places(subject)):
        now = disk.stat(place.path)
        if now is not None and Place(place.path, now).is_too_open:
            disk.system.chmod(place.path, FOLDER_MODE if place.is_folder else FILE_MODE)
            changed += 1
    if changed:
        yield f"{changed:,} files and folders are for their owner alone now"


def _recover(findings: list[Finding], subject: Subject, memory: Memory) -> Iterator[str]:
    """Opening the store has finished what concerned the whole of it; the rest is done session by session."""
    store = memory.store
    named = [finding.session for finding in findings if finding.session]
    for name in dict.fromkeys(named):
        if store.layout.exists(store.disk, store.root, name):
            store.session(name).exclusively("recovering", _nothing)
            yield f"{name}: what was interrupted is finished"
    shelf = Shelf(store)
    waiting = [str(detail["path"]) for finding in findings if not finding.session for detail in finding.details]
    for name in dict.fromkeys([*named, *(_session_in(path) for path in waiting)]):
        if ids.is_valid(name):
            with shelf.shelved(name, "recovering"):
                pass
    removed = [path for path in waiting if store.disk.exists(path) and _is_abandoned(subject, store.disk, path)]
    for path in removed:
        store.disk.remove_tree(path)
    gone = [path for path in waiting if not store.disk.exists(path)]
    if gone:
        yield f"{len(gone):,} unfinished files or folders are gone"


def _nothing() -> None:
    """Taking the lock is what recovers."""


def _session_in(path: str) -> str:
    """The session of `leaving-NAME.smp-new` and the like; a valid name in any case."""
    name = os.path.basename(path).removesuffix(".smp-new").removeprefix("leaving-").removeprefix("coming-")
    return name if ids.is_valid(name) else "recovery"


def _is_abandoned(subject: Subject, disk: Disk, path: str) -> bool:
    found = disk.stat(path)
    if found is None or not isinstance(subject.system, RealSystem):
        return found is not None
    return bool(time.time() - found.st_mtime_ns / 1e9 > _ABANDONED_SECONDS)


def _make_index(memory: Memory) -> Iterator[str]:
    from smp.index.index import discard_all

    indexer = memory.store.indexer
    with indexer.mutex:
        indexer.close()
        if memory.store.state.on_disk and os.path.isdir(indexer.folder):
            discard_all(indexer.folder)
        count = memory.reindex()
    yield f"made anew from the files: {count:,} memories"


def _maintain(memory: Memory, tasks: list[str]) -> Iterator[str]:
    report = memory.maintain(only=tasks)
    yield from (f"{task.name}: {'; '.join(task.did) or task.problem or 'done'}" for task in report.tasks if task.ran)
