"""When do deleted memories go for good? Two looks at least a day apart after their time in the trash.

The first look that finds a memory due announces it, in `purge.json` of the session's private folder; a look at least a day
later, by the wall clock and by the time that has really passed (`lifecycle.clock`), takes all its entries out of the
files (`store.rewriting`). So a wrong clock leaves a day to notice.

Guarantees: what was restored meanwhile stays and is announced anew if it is deleted again. Nothing goes, and nothing is
announced, while the clock cannot be trusted (`lifecycle.clock`): the answer says why. A crash leaves all of a session's
purge done or nothing of it. Numbers of purged memories are never given out again. Which ones went stands in
`purge.json`, written in the same stroke, until it stands in the audit log: nothing goes without a word. The file is
signed (`files.user_state`): announcements that came with a repository do not count.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import Corrupt, SMPError, UserError
from smp_memory.files.cold_segment import FILE as COLD
from smp_memory.files.cold_segment import ColdSegment, encode_reduced
from smp_memory.files.user_state import authentication_code, is_authentic
from smp_memory.model.deletions import Purged, Trashed
from smp_memory.model.times import to_moment, to_text
from smp_memory.policies.clock_trust import (
    CHECK_INTERVAL,
    distrust,
    has_interval_passed,
    is_announcement_valid,
    later,
    second_check,
)
from smp_memory.store.rewrite import SessionEdit, entries_of, private_name, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.files.disk import Disk
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.policies.clock_trust import Evidence
    from smp_memory.store.file_session import FileSession

FILE = "purge.json"


class AnnouncedPurge(NamedTuple):
    """The look that found a deletion due."""

    deleted: str  # when it was deleted: one that was restored and deleted again is another case
    at: datetime
    passed: timedelta | None = None  # what `Evidence.passed` was at that look


def announced_in(session: FileSession) -> dict[str, AnnouncedPurge]:
    """Which memories were announced, and when; empty if nobody knows."""
    return announced_by(session.reader)


def announced_by(reader: SessionReader) -> dict[str, AnnouncedPurge]:
    """The same for a session that is read."""
    try:
        return {
            name: AnnouncedPurge(str(deleted), to_moment(at), timedelta(seconds=passed[0]) if passed else None)
            for name, (deleted, at, *passed) in _stored(reader)["announced"].items()
        }
    except (Corrupt, UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def taken_by(reader: SessionReader) -> list[str]:
    """What went and is not in the audit log yet."""
    taken = _stored(reader).get("taken")
    return [str(name) for name in taken] if isinstance(taken, list) else []


def _stored(reader: SessionReader, signed: Disk | None = None) -> dict[str, Any]:
    """What the file says; nothing if it came with a repository: it would let a purge skip its day of waiting."""
    path = os.path.join(reader.private, FILE)
    try:
        fields = json.loads(reader.disk.read(path))
        mac = fields.pop("mac", None)
        is_ours = is_authentic(signed or reader.disk, _purpose(reader), json.dumps(fields).encode(), mac)
    except (FileNotFoundError, Corrupt, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return fields if is_ours else {}


def _purpose(reader: SessionReader) -> str:
    return f"purge of {reader.session}"


def sign_again(session: FileSession, old: Disk, new: Disk) -> None:
    """Sign the file of a copy in RAM with the secret of another disk; one that `old` did not sign goes."""
    reader = session.reader
    path, fields = os.path.join(reader.private, FILE), _stored(reader, old)
    if fields:
        reader.disk.replace(path, _signed(reader, fields, new))
    else:
        reader.disk.remove(path)


def forget_taken(session: FileSession) -> None:
    """What went stands in the audit log."""
    session.exclusively("noting a purge", lambda: _write(session, announced_in(session), []))


def encode(reader: SessionReader, announced: dict[str, AnnouncedPurge], taken: list[str]) -> bytes | None:
    """The file, None for none."""
    if not announced and not taken:
        return None
    fields = {
        name: [
            each.deleted,
            to_text(each.at),
            *([] if each.passed is None else [round(each.passed.total_seconds(), 3)]),
        ]
        for name, each in sorted(announced.items())
    }
    return _signed(reader, {"announced": fields, **({"taken": taken} if taken else {})}, reader.disk)


def _signed(reader: SessionReader, said: dict[str, Any], disk: Disk) -> bytes:
    mac = authentication_code(disk.system.secret(), _purpose(reader), json.dumps(said).encode())
    return (json.dumps({**said, "mac": mac}) + "\n").encode()


def gone_from(deletion: Entry, kept: timedelta, announced: AnnouncedPurge | None) -> datetime:
    """The first moment at which a purge may take a memory."""
    due = later(to_moment(deletion.at), kept)
    if announced is not None and announced.deleted == deletion.at:
        return max(due, later(announced.at, CHECK_INTERVAL))
    return due


def trashed(
    history: RecordHistory, session: str, announced: AnnouncedPurge | None, kept: timedelta, auto: bool
) -> Trashed:
    """A deleted memory, and from when on a purge may take it (None: none does by itself)."""
    deletion, record = history.deletion, history.record(session)
    assert deletion is not None
    assert record is not None
    goes = gone_from(deletion, kept, announced) if auto else None
    noted = announced.at if announced is not None and announced.deleted == deletion.at else None
    return Trashed(record, to_moment(deletion.at), deletion.by, deletion.data.get("reason"), goes, noted)


class _Look(NamedTuple):
    gone: list[str]  # announced at least a day ago
    new: list[str]  # announced by this look
    announced: dict[str, AnnouncedPurge]  # those that are announced from now on
    waiting: int


def purge(
    session: FileSession, now: datetime, kept: timedelta, evidence: Evidence, note: Callable[[list[str]], bool]
) -> Purged:
    """One look: announce what is due, take what was announced at least a day ago; `note` writes into the audit log."""
    done = Purged()
    done.refused = distrust(now, evidence)
    if done.refused:
        return done
    looked: list[_Look] = [
        session.view(lambda session_history: _look(session_history, announced_in(session), now, kept, evidence))
    ]

    def edit(reader: SessionReader) -> SessionEdit | None:
        looked[0] = look = _look(reader.session_history, announced_in(session), now, kept, evidence)
        wanted = without(reader, look.gone)
        taken = [*taken_by(reader), *look.gone]
        wanted.files[private_name(reader, FILE)] = encode(reader, look.announced, taken)
        return wanted if look.gone else None

    def announce() -> None:
        looked[0] = look = _look(session.reader.session_history, announced_in(session), now, kept, evidence)
        _write(session, look.announced, taken_by(session.reader))

    if looked[0].gone:
        rewrite(session, "purging", edit)
    elif looked[0].announced != announced_in(session):
        session.exclusively("announcing a purge", announce)
    taken = taken_by(session.reader)
    if taken and note(taken):
        try:
            forget_taken(session)
        except SMPError:
            pass  # they are gone and noted; the next look finds them still named here and notes them once more
    done.ids = [f"{session.session}/{name}" for name in looked[0].gone]
    done.announced = [f"{session.session}/{name}" for name in looked[0].new]
    done.waiting = looked[0].waiting
    return done


def without(reader: SessionReader, ids: list[str]) -> SessionEdit:
    """All entries of these memories out of the session's files and its cold segment."""
    wanted = SessionEdit()
    for entry in entries_of(reader, ids):
        wanted.remove(entry)
    path = os.path.join(reader.private, COLD)
    if ids and reader.disk.exists(path):
        gone, data = encode_reduced(ColdSegment(reader.disk, path), lambda row: row.id in ids)
        if gone:
            wanted.files[private_name(reader, COLD)] = data
    return wanted


def _look(
    session_history: SessionHistory,
    before: dict[str, AnnouncedPurge],
    now: datetime,
    kept: timedelta,
    evidence: Evidence,
) -> _Look:
    look = _Look([], [], {}, 0)
    trash = {
        name: history.deletion for name, history in session_history.histories.items() if history.deletion is not None
    }
    for name, deletion in trash.items():
        if later(to_moment(deletion.at), kept) > now:
            continue
        known = before.get(name)
        if (
            known is None
            or known.deleted != deletion.at
            or known.at > now
            or not is_announcement_valid(known.passed, evidence)
        ):
            known = AnnouncedPurge(deletion.at, now, evidence.passed)
            look.new.append(name)
        if second_check(known.at, now) <= now and has_interval_passed(known.passed, evidence):
            look.gone.append(name)
        else:
            look.announced[name] = known
    return look._replace(waiting=len(trash) - len(look.gone))


def _write(session: FileSession, announced: dict[str, AnnouncedPurge], taken: list[str]) -> None:
    disk, path = session.store.disk, os.path.join(session.reader.private, FILE)
    data = encode(session.reader, announced, taken)
    if data is not None:
        disk.replace(path, data)
    else:
        disk.remove(path)
