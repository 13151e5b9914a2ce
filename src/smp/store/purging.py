"""When do deleted memories go for good? Two looks at least a day apart after their time in the trash.

The first look that finds a memory due announces it, in `purge.json` of the session's private folder; a look at least a day
later takes all its entries out of the files (`store.rewriting`). So a wrong clock leaves a day to notice.

Guarantees: what was restored meanwhile stays and is announced anew if it is deleted again. Nothing goes, and nothing is
announced, while the clock cannot be trusted (`lifecycle.clock`): the answer says why. A crash leaves all of a session's
purge done or nothing of it. Numbers of purged memories are never given out again. Which ones went stands in
`purge.json`, written in the same stroke, until it stands in the audit log: nothing goes without a word.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp.errors import Corrupt, SMPError, UserError
from smp.files.cold_segment import FILE as COLD
from smp.files.cold_segment import ColdSegment, reduced
from smp.lifecycle.clock import BETWEEN_LOOKS, distrust, later, second_look
from smp.model.forgotten import Purged
from smp.model.time import to_moment, to_text
from smp.store.rewriting import Edit, entries_of, private_name, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp.files.disk import Disk
    from smp.files.session_reader import SessionReader
    from smp.lifecycle.clock import Evidence
    from smp.model.entry import Entry
    from smp.model.fold import Fold
    from smp.store.file_session import FileSession

FILE = "purge.json"


class Announced(NamedTuple):
    """The look that found a deletion due."""

    deleted: str  # when it was deleted: one that was restored and deleted again is another case
    at: datetime


def announced_in(session: FileSession) -> dict[str, Announced]:
    """Which memories were announced, and when; empty if nobody knows."""
    return announced_at(session.store.disk, session.reader.private)


def announced_at(disk: Disk, private: str) -> dict[str, Announced]:
    """The same for a session's private folder."""
    try:
        stored = json.loads(disk.read(os.path.join(private, FILE)))
        return {
            name: Announced(str(deleted), to_moment(at))
            for name, (deleted, at) in stored["announced"].items()
            if isinstance(name, str)
        }
    except (FileNotFoundError, Corrupt, UserError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def taken_at(disk: Disk, private: str) -> list[str]:
    """What went and is not in the audit log yet."""
    try:
        stored = json.loads(disk.read(os.path.join(private, FILE)))
        return [str(name) for name in stored.get("taken", ())]
    except (FileNotFoundError, Corrupt, ValueError, TypeError, AttributeError, RecursionError):
        return []


def encode(announced: dict[str, Announced], taken: list[str]) -> bytes | None:
    """The file, None for none."""
    if not announced and not taken:
        return None
    fields = {name: [deleted, to_text(at)] for name, (deleted, at) in sorted(announced.items())}
    said = {"announced": fields, **({"taken": taken} if taken else {})}
    return (json.dumps(said) + "\n").encode()


def gone_from(deletion: Entry, kept: timedelta, announced: Announced | None) -> datetime:
    """The first moment at which a purge may take a memory."""
    due = later(to_moment(deletion.at), kept)
    if announced is not None and announced.deleted == deletion.at:
        return max(due, later(announced.at, BETWEEN_LOOKS))
    return due


class _Look(NamedTuple):
    gone: list[str]  # announced at least a day ago
    new: list[str]  # announced by this look
    announced: dict[str, Announced]  # those that are announced from now on
    waiting: int


def purge(
    session: FileSession, now: datetime, kept: timedelta, evidence: Evidence, note: Callable[[list[str]], bool]
) -> Purged:
    """One look: announce what is due, take what was announced at least a day ago; `note` writes into the audit log."""
    done = Purged()
    done.refused = distrust(now, evidence)
    if done.refused:
        return done
    looked: list[_Look] = [session.view(lambda fold: _look(fold, announced_in(session), now, kept))]
    disk, private = session.store.disk, session.reader.private

    def edit(reader: SessionReader) -> Edit | None:
        looked[0] = look = _look(reader.fold, announced_in(session), now, kept)
        wanted = without(reader, look.gone)
        taken = [*taken_at(disk, private), *look.gone]
        wanted.files[private_name(reader, FILE)] = encode(look.announced, taken)
        return wanted if look.gone else None

    def announce() -> None:
        looked[0] = look = _look(session.reader.fold, announced_in(session), now, kept)
        _write(session, look.announced, taken_at(disk, private))

    if looked[0].gone:
        rewrite(session, "purging", edit)
    elif looked[0].announced != announced_in(session):
        session.exclusively("announcing a purge", announce)
    taken = taken_at(disk, private)
    if taken and note(taken):
        try:
            session.exclusively("noting a purge", lambda: _write(session, announced_in(session), []))
        except SMPError:
            pass  # they are gone and noted; the next look finds them still named here and notes them once more
    done.ids = [f"{session.session}/{name}" for name in looked[0].gone]
    done.announced = [f"{session.session}/{name}" for name in looked[0].new]
    done.waiting = looked[0].waiting
    return done


def without(reader: SessionReader, ids: list[str]) -> Edit:
    """All entries of these memories out of the session's files and its cold segment."""
    wanted = Edit()
    for entry in entries_of(reader, ids):
        wanted.remove(entry)
    path = os.path.join(reader.private, COLD)
    if ids and reader.disk.exists(path):
        gone, data = reduced(ColdSegment(reader.disk, path), lambda row: row.id in ids)
        if gone:
            wanted.files[private_name(reader, COLD)] = data
    return wanted


def _look(fold: Fold, before: dict[str, Announced], now: datetime, kept: timedelta) -> _Look:
    look = _Look([], [], {}, 0)
    trash = {name: trail.deletion for name, trail in fold.trails.items() if trail.deletion is not None}
    for name, deletion in trash.items():
        if later(to_moment(deletion.at), kept) > now:
            continue
        known = before.get(name)
        if known is None or known.deleted != deletion.at or known.at > now:
            known = Announced(deletion.at, now)
            look.new.append(name)
        if second_look(known.at, now) <= now:
            look.gone.append(name)
        else:
            look.announced[name] = known
    return look._replace(waiting=len(trash) - len(look.gone))


def _write(session: FileSession, announced: dict[str, Announced], taken: list[str]) -> None:
    disk, path = session.store.disk, os.path.join(session.reader.private, FILE)
    data = encode(announced, taken)
    if data is not None:
        disk.replace(path, data)
    else:
        disk.remove(path)
