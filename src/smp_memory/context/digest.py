"""What is remembered, on a page that people and agents see? `MEMORY.md`, made from the store.

BMAD left dot folders because agents overlook them. The store may stay in one; the digest lies where work is.

Guarantees: decisions that hold, open findings, preferences, learnings and the last sessions, each with id and date; only what
everybody may see. The same memories give the same bytes, and an unchanged file is not written. It is replaced as a whole. It
is fenced (`smp_memory.privacy.fence`): read back by an agent, it is never stored as something new. A file that is not ours is left
alone unless `force`. Where digests were written is noted in the user's state, so that maintenance can renew them.
"""

from __future__ import annotations

import errno
import json
import os
import time

from smp_memory.errors import SMPError, UserError, from_os_error
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.model.types import in_order, severity_rank
from smp_memory.ownership import plain_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind

MARK = "<!-- Made by `smp digest` from the memories of this project. It is replaced as a whole: edits are lost. -->"
NOTES = "digests.json"  # in the user's state
_LOOKED_AT = 5  # times as many are looked at, because some are settled
_SESSIONS = 10
_CHARACTERS = 400
_ABANDONED_SECONDS = 3600
_LARGEST_BYTES = 16 << 20


def digest_text(memory: Memory) -> str:
    """The whole page."""
    from smp_memory.privacy.fence import fence, nonce_from

    parts = ["# Memory", ""]
    for kind in in_order("place"):
        if not kind.digest_title:
            continue
        records, more = _records(memory, kind)
        parts += [f"## {kind.digest_title}", "", *(_line(record) for record in records)]
        parts += [f"- … and older ones: `smp query --type {kind.name}`"] if more else []
        parts += [] if records else ["None."]
        parts.append("")
    parts += ["## Last sessions", "", *(_sessions(memory) or ["None."])]
    text = "\n".join(parts)
    return f"{MARK}\n{fence(text, nonce_from(text))}\n"


def write_digest(memory: Memory, path: str, *, force: bool = False) -> bool:
    """Write the page; whether it had to be written."""
    from smp_memory.files.system import RealSystem

    if os.path.islink(path):
        raise UserError(f"{path} is a link, and may lead anywhere. Name the file that it leads to.", path=path)
    target, disk = os.path.realpath(path), Disk(RealSystem())
    data = digest_text(memory).encode("utf-8")
    try:
        known = disk.read(target) if disk.exists(target) else None
        if known is not None and not is_ours(known) and not force:
            raise UserError(f"{path} was not made by `smp digest`. --force writes over it.", path=path)
        changed = known != data
        if changed:
            _replace(disk, target, data, is_there=known is not None)
    except OSError as error:
        raise from_os_error(error, target, "writing a digest") from error
    _note(memory, target)
    return changed


def _replace(disk: Disk, target: str, data: bytes, *, is_there: bool) -> None:
    """By a name of its own: several sessions may end at once, and each of them renews the digests."""
    folder, name = os.path.split(target)
    disk.make_folder(folder)
    _clear(disk, folder, name)
    fresh = f"{target}.{os.urandom(4).hex()}{TEMPORARY}"
    try:
        disk.write_new(fresh, data)
        if is_there:
            disk.system.chmod(fresh, disk.system.lstat(target).st_mode & 0o777)
        disk.move(fresh, target)
    except BaseException:
        disk.remove(fresh)
        raise
    disk.sync_folder(folder)


def _clear(disk: Disk, folder: str, name: str) -> None:
    """Away with what processes that were killed have left beside the page."""
    for each in disk.names(folder):
        path = os.path.join(folder, each)
        found = disk.stat(path) if each.startswith(f"{name}.") and each.endswith(TEMPORARY) else None
        if found is not None and time.time() - found.st_mtime > _ABANDONED_SECONDS:
            disk.remove(path)


def renew_digests(memory: Memory, *, dry_run: bool = False) -> list[str]:
    """Write those anew that were written before and are still there; the paths of those that changed. Never fails."""
    changed = []
    for path in _noted(memory):
        try:
            known = _present(path)
            if is_ours(known) and (known != digest_text(memory).encode() if dry_run else write_digest(memory, path)):
                changed.append(path)
        except (OSError, SMPError):
            continue
    return changed


def renew_after_erasing(memory: Memory) -> tuple[list[str], list[str]]:
    """Renew the noted digests that are there: their paths, and for each that could not be renewed why."""
    there, failed = [], []
    for path in _noted(memory):
        try:
            ours = is_ours(_present(path))
            there.append(path)
            if ours:
                write_digest(memory, path)
        except FileNotFoundError:
            continue
        except (OSError, SMPError) as error:
            failed.append(f"the digest {path} could not be renewed ({error})")
    return there, failed


def _present(path: str) -> bytes:
    """A digest that was written before. Somebody may have put a link or a pipe in its place, or in that of a folder."""
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, "a link was put in its way", path)
    return plain_bytes(path, _LARGEST_BYTES)


def is_ours(data: bytes) -> bool:
    return data.startswith(MARK.encode("utf-8"))


# -- what stands there


def _records(memory: Memory, kind: Kind) -> tuple[list[Record], bool]:
    """The newest that still hold; open findings by gravity."""
    from smp_memory.policies.statuses import is_settled, relations_of
    from smp_memory.privacy.visibility import Viewer

    most = kind.digest_most
    hits = memory.query(types=kind.name, sort="newest", limit=most * _LOOKED_AT, track_access=False)
    seen = [record for record in hits.records if Viewer(None).sees(record)]
    replaced = {
        (record.session, target)
        for record in seen
        for relation, target in relations_of(record)
        if relation == "supersedes"
    }
    held = [
        record
        for record in seen
        if (record.session, record.id) not in replaced and not (kind.statuses and is_settled(record))
    ]
    if kind.has_severity:
        held.sort(key=lambda record: severity_rank(record.given.get("severity")))
    return held[:most], len(held) > most or hits.more


def _line(record: Record) -> str:
    from smp_memory.context.budget import ELLIPSIS, one_line
    from smp_memory.context.format import head_of, said_by

    text = one_line(said_by(record))
    if len(text) > _CHARACTERS:
        text = text[:_CHARACTERS].rsplit(" ", 1)[0] + ELLIPSIS
    return f"- {one_line(head_of(record, None))} {text}"


def _sessions(memory: Memory) -> list[str]:
    from smp_memory.context.budget import one_line
    from smp_memory.model.session_info import GLOBAL_SESSION

    newest = [each for each in reversed(memory.sessions_by_time()) if each[1].id != GLOBAL_SESSION][:_SESSIONS]
    lines = []
    for written, session in newest:
        try:
            info = session.info
            who = ", ".join(part for part in (info.project, info.user, *info.agents) if part)
        except SMPError:
            who = ""
        lines.append(one_line(f"- {written.date().isoformat()} {session.id}" + (f" ({who})" if who else "")))
    return lines


# -- where digests are


def _noted(memory: Memory) -> list[str]:
    """Their paths. They are noted relative to the store: a project may be moved."""
    root = memory.store.root
    try:
        names: Any = json.loads(memory.store.state.read(NOTES))
    except (OSError, SMPError, ValueError, RecursionError):
        return []
    return [os.path.normpath(os.path.join(root, name)) for name in names if isinstance(name, str)] if isinstance(names, list) else []  # fmt: skip


def _note(memory: Memory, path: str) -> None:
    root = memory.store.root
    known = _noted(memory)
    if path in known or not memory.store.root or not os.path.isdir(root):  # a store in RAM has no place for it
        return
    try:
        names = [os.path.relpath(each, root) for each in [*known, path]]
        memory.store.state.write(NOTES, (json.dumps(names, indent=2) + "\n").encode())
    except (OSError, SMPError, ValueError):
        pass  # only a note: nothing but the renewal is lost
