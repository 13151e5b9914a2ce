"""Write `MEMORY.md`, a page of what is remembered for people and agents, made from the store.

Agents overlook dot folders, in which the store may be; the digest is in the project's working folder.

Guarantees: active decisions, open findings, preferences with the standing instructions that a user only said, learnings and the last sessions,
each with id and date; only what everybody may see. Wishes are left out if the store's sessions name several users. The same memories give the same bytes, and an unchanged file is not written. It is replaced as a whole. It
is fenced (`smp_memory.privacy.fence`): read back by an agent, it is never stored as something new. A file that was not made by
`smp digest` is left alone unless `force`. The paths of digests are kept in the user's state, so that maintenance can renew them.
"""

from __future__ import annotations

import errno
import json
import os
import time

from smp_memory.context.budget import ELLIPSIS, line_prefix, line_text, one_line
from smp_memory.context.visible_sessions import VisibleSessions
from smp_memory.errors import SMPError, UserError, from_os_error
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.ownership import plain_bytes
from smp_memory.files.system import RealSystem
from smp_memory.lifecycle.session_states import last_writes
from smp_memory.model.candidates import NEWER, REPEATED, CandidateRequest
from smp_memory.model.ids import scheme_of
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.statuses import state_of_repeated
from smp_memory.model.types import in_order, severity_rank
from smp_memory.privacy.fence import fence, nonce_from
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search.path import query
from smp_memory.search.succession import current_hits
from smp_memory.text.memory_text import wish_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.candidates import Candidate, Candidates
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind

MARK = "<!-- Made by `smp digest` from the memories of this project. It is replaced as a whole: edits are lost. -->"
PATHS_FILE = "digests.json"  # in the user's state
_READ_FACTOR = 5  # so many times the limit are read, because some are settled
_SESSIONS = 10
_WISHES = 20
_CHARACTERS = 400
_ABANDONED_SECONDS = 3600
_LARGEST_BYTES = 16 << 20


def digest_text(scope: Scope) -> str:
    """The whole page."""
    parts = ["# Memory", ""]
    for kind in in_order("place"):
        if not kind.digest_title:
            continue
        records, more = _records(scope, kind)
        wishes = _wishes(scope) if kind.is_named_by_key else []
        parts += [f"## {kind.digest_title}", "", *(_line(record) for record in records), *wishes]
        parts += [f"- … and older ones: `smp query --type {kind.name}`"] if more else []
        parts += [] if records or wishes else ["None."]
        parts.append("")
    parts += ["## Last sessions", "", *(_sessions(scope) or ["None."])]
    text = "\n".join(parts)
    return f"{MARK}\n{fence(text, nonce_from(text))}\n"


def write_digest(scope: Scope, path: str, *, force: bool = False) -> bool:
    """Write the page; returns whether it changed."""
    if os.path.islink(path):
        raise UserError(f"{path} is a symbolic link. Name the file that it points to.", path=path)
    target, disk = os.path.realpath(path), Disk(RealSystem())
    data = digest_text(scope).encode("utf-8")
    try:
        known = disk.read(target) if disk.exists(target) else None
        if known is not None and not is_digest(known) and not force:
            raise UserError(f"{path} was not made by `smp digest`. --force overwrites it.", path=path)
        changed = known != data
        if changed:
            _replace(disk, target, data, exists=known is not None)
    except OSError as error:
        raise from_os_error(error, target, "writing a digest") from error
    _remember_path(scope, target)
    return changed


def _replace(disk: Disk, target: str, data: bytes, *, exists: bool) -> None:
    """Replace the file by a temporary one of a unique name: several sessions may end at once and each renews the digests."""
    folder, name = os.path.split(target)
    disk.make_folder(folder)
    _remove_leftovers(disk, folder, name)
    temporary = f"{target}.{os.urandom(4).hex()}{TEMPORARY}"
    try:
        disk.write_new(temporary, data)
        if exists:
            disk.system.chmod(temporary, disk.system.lstat(target).st_mode & 0o777)
        disk.move(temporary, target)
    except BaseException:
        disk.remove(temporary)
        raise
    disk.sync_folder(folder)


def _remove_leftovers(disk: Disk, folder: str, name: str) -> None:
    """Remove temporary files that killed processes have left beside the page."""
    for each in disk.names(folder):
        path = os.path.join(folder, each)
        status = disk.stat(path) if each.startswith(f"{name}.") and each.endswith(TEMPORARY) else None
        if status is not None and time.time() - status.st_mtime > _ABANDONED_SECONDS:
            disk.remove(path)


def renew_digests(scope: Scope, *, dry_run: bool = False) -> list[str]:
    """Rewrite the known digests that still exist; the paths of those that changed. Never fails."""
    changed = []
    for path in _known_paths(scope):
        try:
            known = _read_existing(path)
            if is_digest(known) and (known != digest_text(scope).encode() if dry_run else write_digest(scope, path)):
                changed.append(path)
        except (OSError, SMPError):
            continue
    return changed


def renew_after_erasing(scope: Scope) -> tuple[list[str], list[str]]:
    """Renew the known digests that exist: their paths, and the reason for each that could not be renewed."""
    existing, failed = [], []
    for path in _known_paths(scope):
        try:
            made_by_smp = is_digest(_read_existing(path))
            existing.append(path)
            if made_by_smp:
                write_digest(scope, path)
        except FileNotFoundError:
            continue
        except (OSError, SMPError) as error:
            failed.append(f"the digest {path} could not be renewed ({error})")
    return existing, failed


def _read_existing(path: str) -> bytes:
    """The bytes of a known digest, unless it or a folder above it was replaced by a link, or it by a pipe."""
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, "the path now leads through a symbolic link", path)
    return plain_bytes(path, _LARGEST_BYTES)


def is_digest(data: bytes) -> bool:
    return data.startswith(MARK.encode("utf-8"))


# -- the content


def _records(scope: Scope, kind: Kind) -> tuple[list[Record], bool]:
    """The newest memories that hold, and whether there are more; findings by severity."""
    most = kind.digest_most
    shared = Scope(scope.store, scope.sessions, scope.config, scope.clock, viewer=Viewer(None))
    hits = query(
        shared, None, {"types": kind.name, "sort": "newest", "limit": most * _READ_FACTOR, "track_access": False}
    )
    current = [hit.record for hit in current_hits(hits) if not hit.record.muted]
    if kind.has_severity:
        current.sort(key=lambda record: severity_rank(record.given.get("severity")))
    return current[:most], len(current) > most or hits.more


def _wishes(scope: Scope) -> list[str]:
    """The newest standing instructions of the only user, or of sessions without one."""
    visible = VisibleSessions(scope.store, None)

    index, viewer = scope.store.indexer, Viewer(None)
    with index.snapshot():
        said = index.candidates(
            CandidateRequest(only_wishes=True, viewer=viewer, limit=_WISHES, fetch=[NEWER, REPEATED])
        )
        wanted = [each for each in said.matches if visible.allows(each.session)]
        records = index.records([*wanted, *said.repeated.values()], viewer)
    muted = {ref for ref, record in records.items() if record.muted}
    found = (
        records.get(each.ref)
        for each in wanted
        if each.repeats not in muted and not _repeats_what_ended(each, said, visible)
    )
    return [
        _line(record, wish_of(record.given))
        for record in found
        if record is not None and not (record.deleted or record.muted)
    ]


def _repeats_what_ended(turn: Candidate, said: Candidates, visible: VisibleSessions) -> bool:
    return bool(turn.repeats and state_of_repeated(turn, said, visible.allows)[0])


def _line(record: Record, said: str = "") -> str:
    text = one_line(said or line_text(record))
    if len(text) > _CHARACTERS:
        text = text[:_CHARACTERS].rsplit(" ", 1)[0] + ELLIPSIS
    return f"- {one_line(line_prefix(record, None))} {text}"


def _sessions(scope: Scope) -> list[str]:
    writes = last_writes(scope.store)
    newest = sorted(((writes[name].written, name) for name in writes if name != GLOBAL_SESSION), reverse=True)
    lines = []
    for written, session in newest[:_SESSIONS]:
        try:
            info = scope.store.session(session).info()
            who = ", ".join(part for part in (info.project, info.user, *info.agents) if part)
        except SMPError:
            who = ""
        lines.append(one_line(f"- {written.date().isoformat()} {session}" + (f" ({who})" if who else "")))
    return lines


# -- the paths of digests


def _known_paths(scope: Scope) -> list[str]:
    """The paths of known digests. They are stored relative to the folder of a store: a project may be moved."""
    root = scope.store.root
    try:
        names: Any = json.loads(scope.store.state.read(PATHS_FILE))
    except (OSError, SMPError, ValueError, RecursionError):
        return []
    return [os.path.normpath(os.path.join(root, name)) for name in names if isinstance(name, str)] if isinstance(names, list) else []  # fmt: skip


def _remember_path(scope: Scope, path: str) -> None:
    root = scope.store.root
    known = _known_paths(scope)
    is_folder = not scheme_of(root)
    if path in known or not root or (is_folder and not os.path.isdir(root)):  # a store in RAM has no state
        return
    try:
        names = [os.path.relpath(each, root) if is_folder else each for each in [*known, path]]
        scope.store.state.write(PATHS_FILE, (json.dumps(names, indent=2) + "\n").encode())
    except (OSError, SMPError, ValueError):
        pass  # the digest is written; only its automatic renewal is lost
