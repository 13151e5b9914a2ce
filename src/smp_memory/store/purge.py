"""Purge deleted memories after their time in the trash, by two checks at least a day apart.

The first check that finds a memory due announces it in `purge.json` of the session's private folder. A check at least a
day later, by the wall clock and by the time that has really passed (`policies.clock_trust`), removes all its entries
from the files (`store.rewrite`). So a wrong clock leaves a day to notice.

    {"announced": {"DEC-0001": [deleted at, announced at, passed seconds]}, "taken": ["DEC-0002"], "mac": "…"}

Guarantees: a memory that was restored meanwhile stays, and is announced again if it is deleted again. While the clock
cannot be trusted nothing is purged or announced, and the answer says why. A crash leaves all of a session's purge done
or none of it. Numbers of purged memories are never reused. Purged ids are in `taken`, written in the same plan, until the
audit log has them. The file is authenticated (`files.user_state`): announcements that came with a repository do not count.
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
    """The check that found a deletion due."""

    deleted: str  # time of the deletion: after a restoration and another deletion, it is announced again
    at: datetime
    passed: timedelta | None = None  # `Evidence.passed` at that check


def announced_purges(session: FileSession) -> dict[str, AnnouncedPurge]:
    """The announced memories of a session, by id; empty if the file is missing or not authentic."""
    return read_announcements(session.reader)


def read_announcements(reader: SessionReader) -> dict[str, AnnouncedPurge]:
    """The same, from a reader."""
    try:
        return {
            name: AnnouncedPurge(str(deleted), to_moment(at), timedelta(seconds=passed[0]) if passed else None)
            for name, (deleted, at, *passed) in _stored(reader)["announced"].items()
        }
    except (Corrupt, UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def purged_ids(reader: SessionReader) -> list[str]:
    """Ids that were purged and are not in the audit log yet."""
    purged = _stored(reader).get("taken")
    return [str(name) for name in purged] if isinstance(purged, list) else []


def _stored(reader: SessionReader, signed: Disk | None = None) -> dict[str, Any]:
    """The fields of the file; empty if it is not authentic, because a forged one would let a purge skip its day of waiting."""
    path = os.path.join(reader.private, FILE)
    try:
        fields = json.loads(reader.disk.read(path))
        mac = fields.pop("mac", None)
        is_valid = is_authentic(signed or reader.disk, _purpose(reader), json.dumps(fields).encode(), mac)
    except (FileNotFoundError, Corrupt, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return fields if is_valid else {}


def _purpose(reader: SessionReader) -> str:
    return f"purge of {reader.session}"


def sign_for(session: FileSession, old: Disk, new: Disk) -> None:
    """Sign the file of a copy in RAM with the secret of another disk; remove one that `old` did not sign."""
    reader = session.reader
    path, fields = os.path.join(reader.private, FILE), _stored(reader, old)
    if fields:
        reader.disk.replace(path, _signed(reader, fields, new))
    else:
        reader.disk.remove(path)


def clear_purged_ids(session: FileSession) -> None:
    """Empty the list of purged ids, after they were written to the audit log."""
    session.run_locked("noting a purge", lambda: _write(session, announced_purges(session), []))


def encode(reader: SessionReader, announced: dict[str, AnnouncedPurge], purged: list[str]) -> bytes | None:
    """The content of the file; None if none is needed."""
    if not announced and not purged:
        return None
    fields = {
        name: [
            each.deleted,
            to_text(each.at),
            *([] if each.passed is None else [round(each.passed.total_seconds(), 3)]),
        ]
        for name, each in sorted(announced.items())
    }
    return _signed(reader, {"announced": fields, **({"taken": purged} if purged else {})}, reader.disk)


def _signed(reader: SessionReader, fields: dict[str, Any], disk: Disk) -> bytes:
    mac = authentication_code(disk.system.secret(), _purpose(reader), json.dumps(fields).encode())
    return (json.dumps({**fields, "mac": mac}) + "\n").encode()


def due_at(deletion: Entry, kept: timedelta, announced: AnnouncedPurge | None) -> datetime:
    """The first moment at which a memory may be purged."""
    due = later(to_moment(deletion.at), kept)
    if announced is not None and announced.deleted == deletion.at:
        return max(due, later(announced.at, CHECK_INTERVAL))
    return due


def trashed(
    history: RecordHistory, session: str, announced: AnnouncedPurge | None, kept: timedelta, auto: bool
) -> Trashed:
    """A deleted memory, and when it may be purged (None: not automatically)."""
    deletion, record = history.deletion, history.record(session)
    assert deletion is not None
    assert record is not None
    due = due_at(deletion, kept, announced) if auto else None
    announced_at = announced.at if announced is not None and announced.deleted == deletion.at else None
    return Trashed(record, to_moment(deletion.at), deletion.by, deletion.data.get("reason"), due, announced_at)


class _Check(NamedTuple):
    """The result of one check of a session's trash."""

    due: list[str]  # announced at least a day ago
    new: list[str]  # announced by this check
    announced: dict[str, AnnouncedPurge]  # all that are announced from now on
    waiting: int


def purge(
    session: FileSession, now: datetime, kept: timedelta, evidence: Evidence, note: Callable[[list[str]], bool]
) -> Purged:
    """Announce what is due, purge what was announced at least a day ago; `note` writes the audit record."""
    done = Purged()
    done.refused = distrust(now, evidence)
    if done.refused:
        return done
    checks: list[_Check] = [
        session.view(lambda session_history: _check(session_history, announced_purges(session), now, kept, evidence))
    ]

    def edit(reader: SessionReader) -> SessionEdit | None:
        checks[0] = check = _check(reader.session_history, announced_purges(session), now, kept, evidence)
        removal = removal_edit(reader, check.due)
        purged = [*purged_ids(reader), *check.due]
        removal.files[private_name(reader, FILE)] = encode(reader, check.announced, purged)
        return removal if check.due else None

    def announce() -> None:
        checks[0] = check = _check(session.reader.session_history, announced_purges(session), now, kept, evidence)
        _write(session, check.announced, purged_ids(session.reader))

    if checks[0].due:
        rewrite(session, "purging", edit)
    elif checks[0].announced != announced_purges(session):
        session.run_locked("announcing a purge", announce)
    purged = purged_ids(session.reader)
    if purged and note(purged):
        try:
            clear_purged_ids(session)
        except SMPError:
            pass  # the audit log has them; the next check writes them there once more
    done.ids = [f"{session.session}/{name}" for name in checks[0].due]
    done.announced = [f"{session.session}/{name}" for name in checks[0].new]
    done.waiting = checks[0].waiting
    return done


def removal_edit(reader: SessionReader, ids: list[str]) -> SessionEdit:
    """An edit that removes all entries of these memories from the session's files and its cold segment."""
    edit = SessionEdit()
    for entry in entries_of(reader, ids):
        edit.remove(entry)
    path = os.path.join(reader.private, COLD)
    if ids and reader.disk.exists(path):
        removed, data = encode_reduced(ColdSegment(reader.disk, path), lambda row: row.id in ids)
        if removed:
            edit.files[private_name(reader, COLD)] = data
    return edit


def _check(
    session_history: SessionHistory,
    before: dict[str, AnnouncedPurge],
    now: datetime,
    kept: timedelta,
    evidence: Evidence,
) -> _Check:
    check = _Check([], [], {}, 0)
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
            check.new.append(name)
        if second_check(known.at, now) <= now and has_interval_passed(known.passed, evidence):
            check.due.append(name)
        else:
            check.announced[name] = known
    return check._replace(waiting=len(trash) - len(check.due))


def _write(session: FileSession, announced: dict[str, AnnouncedPurge], purged: list[str]) -> None:
    disk, path = session.store.disk, os.path.join(session.reader.private, FILE)
    data = encode(session.reader, announced, purged)
    if data is not None:
        disk.replace(path, data)
    else:
        disk.remove(path)
