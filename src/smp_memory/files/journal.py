"""Write-ahead journal: a plan on disk, written before the first of several files is changed.

    {"appends":[["decisions.jsonl",1204,"…"],["findings.jsonl",0,"…"]],"moves":[["a.smp-new","a"]],"removes":["b"],"checksum":"…"}

The plan counts from the moment its file and the file's folder entry are synced: that is the commit point of a transaction over
several files, of a rewrite and of a conversion. Applying it may be interrupted and repeated at any point: an append has its offset, a
move whose source does not exist is done. A plan that is not complete was never committed and is removed. Readers that find a plan read
as if it had been applied already.

A plan may hold digests of the files that it replaces or removes (`before`). A file with another content at that moment was changed by
another program after the plan was made: it is first copied to quarantine, as `NAME.missing-after-change.TIME`. Between that comparison
and the rename lies one system call.

A process that finds a plan reviews it first (`smp_memory.files.plan_review`): it may have come with a repository. Steps that would
take away what is nowhere else are skipped, by readers as well as by the writer that recovers. A plan that no process of SMP writes is
rejected: it is not read, and the next writer moves it into quarantine with the unfinished files that it names.
"""

from __future__ import annotations

import json
import os
import time

from smp_memory.errors import StorageCorrupt, StorageError
from smp_memory.files.codec import signature
from smp_memory.files.disk import TEMPORARY, Disk, identity
from smp_memory.files.layouts.layout import QUARANTINE
from smp_memory.model.ids import sha256_hex
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Review(Protocol):
        """What may be carried out of a plan, see `smp_memory.files.plan_review`."""

        accepted: Plan
        skipped_sources: list[str]
        is_rejected: bool

    class Approval(Protocol):
        """The digest of the plan that this user approved although it destroys memories; kept outside of the store."""

        def read(self) -> str: ...
        def write(self, digest: str) -> None: ...
        def remove(self) -> None: ...


MISSING = ".missing-after-change."
_TRIES = 5
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class Plan:
    """Changes to apply: bytes to append at an offset, files to move, files to remove. Paths are relative."""

    __slots__ = ("appends", "before", "moves", "removes")

    def __init__(self) -> None:
        self.appends: list[tuple[str, int, bytes]] = []
        self.moves: list[tuple[str, str]] = []
        self.removes: list[str] = []
        self.before: dict[str, str] = {}  # digests of files that are replaced or removed; "": there was none


class Journal:
    """The journal of a folder. It holds at most one plan."""

    def __init__(self, disk: Disk, path: str, folder: str, review: Callable[[Plan, bool], Review]) -> None:
        """`review` is called for a plan that was found, and with whether this user has approved it."""
        self._disk = disk
        self.path = path
        self._folder = folder
        self._review = review
        self.approval: Approval | None = None
        self._is_approved = False  # whether the plan that is there now was approved
        self.is_rejected = False  # whether the last `load` found a plan that SMP does not write
        self._rejected: list[int] = []  # the identity of the file of such a plan
        self._unfinished: list[str] = []  # files that a rejected plan or a skipped step would have moved into place

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def commit(self, plan: Plan, *, destroys: bool = False) -> None:
        """Make the plan durable; from here on it will be applied, also after a crash. `destroys`: it removes memories for good."""
        appends = [[name, offset, data.decode()] for name, offset, data in plan.appends]
        fields: dict[str, Any] = {"appends": appends, "moves": plan.moves, "removes": plan.removes}
        if plan.before:
            fields["before"] = plan.before
        body = _encode(fields)
        data = body.encode()
        if destroys and self.approval is not None:
            self.approval.write(sha256_hex(data))
            self._is_approved = True
        self._disk.remove(self.path)
        self._disk.write_new(self.path, f'{body[:-1]},"checksum":"{signature(data)}"}}\n'.encode())
        self._disk.sync_folder(os.path.dirname(self.path))

    def load(self) -> Plan | None:
        """What may be carried out of the committed plan; None if there is none, it is not complete, or it is rejected."""
        found = self._disk.stat(self.path)
        if found is not None and self._rejected == identity(found):
            return None  # not parsed again for each read
        self.is_rejected, self._unfinished, self._rejected = False, [], []
        try:
            fields: dict[str, Any] = json.loads(self._disk.read(self.path))
            checksum = fields.pop("checksum")
            body = _encode(fields).encode()
            if signature(body) != checksum:
                return None
            plan = _decode(fields)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        except StorageCorrupt:  # too large, or not a plain file
            plan = None
        self._is_approved = plan is not None and self.approval is not None and self.approval.read() == sha256_hex(body)
        review = self._review(plan, self._is_approved) if plan is not None else None
        if review is None or review.is_rejected:
            self.is_rejected = True
            self._rejected = identity(found) if found is not None else []
            self._unfinished = [source for source, _ in plan.moves if source.endswith(TEMPORARY)] if plan else []
            return None
        self._unfinished = review.skipped_sources
        return review.accepted

    def recover(self, is_applied: Callable[[str, bytes], bool]) -> Plan | None:
        """Apply a committed plan as far as its review allows. A rejected one is moved into quarantine, an incomplete one removed."""
        plan = self.load()
        if plan is not None:
            self.apply(plan, is_applied)
            text = f"{self.path}: a change that a process had committed but not finished was applied."
            telemetry.emit("recovery", telemetry.WARNING, "journal_completed", text, path=self.path)
        if self.is_rejected or self._unfinished:
            self._quarantine_unfinished()
        if self.exists() and not self._disk.is_folder(self.path):
            self.clear()
        return plan

    def _quarantine_unfinished(self) -> None:
        """Move a rejected plan, and files that it did not move into place, to quarantine: they may still be needed."""
        quarantine = os.path.join(os.path.dirname(self.path), QUARANTINE)
        self._disk.make_folder(quarantine, within=os.path.dirname(self.path))
        stamp = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}"
        paths = [self.path] if self.is_rejected else []
        for number, path in enumerate([*paths, *map(self._path, self._unfinished)]):
            if self._disk.exists(path) and not self._disk.is_folder(path):
                self._disk.move(path, os.path.join(quarantine, f"unfinished-{os.path.basename(path)}.{stamp}.{number}"))
        self._disk.sync_folder(quarantine)
        self._disk.sync_folder(os.path.dirname(self.path))
        text = f"{self.path}: a plan was not carried out, or not completely, because memories would have been lost; see quarantine."
        telemetry.emit("recovery", telemetry.WARNING, "plan_set_aside", text, path=self.path)

    def apply(self, plan: Plan, is_applied: Callable[[str, bytes], bool]) -> None:
        """Apply a plan; repeating it changes nothing. `is_applied` finds appended entries after a hand edit.

        What was added or moved is durable before anything is removed, because a file system may write changes in any order.
        """
        added: set[str] = set()
        for name, offset, data in plan.appends:
            self._append(name, offset, data, is_applied)
            if offset == 0:
                added.update(self._folders_of(name))
        for source, target in plan.moves:
            if self._disk.exists(self._path(source)):
                self._disk.make_folder(os.path.dirname(self._path(target)), within=self._folder)
                self._quarantine_changed(plan, target)
                self._disk.move(self._path(source), self._path(target))
            added.update(self._folders_of(target))
        self._sync(added)
        self._sync({os.path.dirname(self._path(source)) for source, _ in plan.moves} - added)
        for name in plan.removes:
            self._quarantine_changed(plan, name)
            self._disk.remove_tree(self._path(name))
        self._sync({os.path.dirname(self._path(name)) for name in plan.removes})

    def _quarantine_changed(self, plan: Plan, name: str) -> None:
        """Copy a file to quarantine that another program changed since the plan was made."""
        path, known = self._path(name), {plan.before.get(name)}
        for _ in range(_TRIES if name in plan.before else 0):
            status = self._disk.stat(path)
            if status is None:
                return
            try:
                data = self._disk.read(path)
            except FileNotFoundError:
                continue
            digest = sha256_hex(data)
            if digest not in known:
                known.add(digest)
                self._copy_to_quarantine(name, data)
                continue  # that took time: compare again
            now = self._disk.stat(path)
            if now is not None and identity(now) == identity(status):
                return
        if name in plan.before:
            raise StorageError(f"{path} is being changed by another program while SMP writes.", path=path)

    def _copy_to_quarantine(self, name: str, data: bytes) -> None:
        path = write_to_quarantine(self._disk, os.path.dirname(self.path), name + MISSING.rstrip("."), data)
        text = f"{self._path(name)} was changed by another program while SMP replaced it; that version was copied to {path}."
        telemetry.emit("corruption", telemetry.WARNING, "changed_file_set_aside", text, path=self._path(name))

    def _sync(self, folders: set[str]) -> None:
        for folder in sorted(folders):
            if self._disk.exists(folder):
                self._disk.sync_folder(folder)

    def clear(self) -> None:
        """Remove an applied plan, durably: otherwise a later power loss could bring it back."""
        self._disk.remove(self.path)
        self._disk.sync_folder(os.path.dirname(self.path))
        if self._is_approved and self.approval is not None:
            self.approval.remove()
            self._is_approved = False

    def _append(self, name: str, offset: int, data: bytes, is_applied: Callable[[str, bytes], bool]) -> None:
        path = self._path(name)
        self._disk.make_folder(os.path.dirname(path), within=self._folder)
        for _ in range(_TRIES):
            if self._append_once(name, path, offset, data, is_applied):
                return
        raise StorageError(f"{path} is being changed by another program while SMP writes.", path=path)

    def _append_once(
        self, name: str, path: str, offset: int, data: bytes, is_applied: Callable[[str, bytes], bool]
    ) -> bool:
        """One attempt; False if the file changed between its stat and the write."""
        status = self._disk.stat(path)
        size = status.st_size if status else 0
        stored = self._disk.read(path, offset) if size > offset else b""
        if stored == data:
            self._disk.sync_file(path)  # its writer may have died before its sync
        elif size >= offset and is_part(stored, data):
            return self._disk.complete_append(path, offset, data, stored)
        elif is_applied(name, data):
            self._disk.sync_file(path)
        else:
            return self._disk.complete_append(path, size, b"\n" + data)
        return True

    def _folders_of(self, name: str) -> list[str]:
        """The folder of a file and those above it, to be synced: the process that made them may have died before."""
        folders = []
        while name:
            name = os.path.dirname(name)
            folders.append(self._path(name))
        return folders

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name) if name else self._folder


def _decode(fields: dict[str, Any]) -> Plan | None:
    """A plan from its fields; None if a name in it leads out of the folder or an offset is invalid."""
    plan = Plan()
    plan.appends = [(name, offset, data.encode()) for name, offset, data in fields["appends"]]
    plan.moves = [(source, target) for source, target in fields["moves"]]
    plan.removes = list(fields["removes"])
    plan.before = {str(name): str(digest) for name, digest in fields.get("before", {}).items()}
    names = [*plan.removes, *(name for name, _, _ in plan.appends), *(name for move in plan.moves for name in move)]
    offsets = all(type(offset) is int and offset >= 0 for _, offset, _ in fields["appends"])
    return plan if offsets and all(_is_inside(name) for name in names) else None


def _is_inside(name: object) -> bool:
    """Whether a name stays below the folder; SMP writes no plan with another."""
    if not isinstance(name, str) or not name:
        return False
    return not os.path.isabs(name) and ".." not in name.replace("\\", "/").split("/")


def is_part(stored: bytes, data: bytes) -> bool:
    """Whether these bytes are what a power loss left of the data: its beginning, or zeros in place of some bytes."""
    return data.startswith(stored) or (
        len(stored) <= len(data) and all(found in (0, byte) for found, byte in zip(stored, data, strict=False))
    )


def write_to_quarantine(disk: Disk, private: str, base: str, data: bytes) -> str:
    """Write a new file `BASE.TIME` to the quarantine below a private folder, durably. Returns its path."""
    folder = os.path.join(private, QUARANTINE)
    disk.make_folder(folder, within=private)
    first = os.path.join(folder, f"{base.replace('/', '_')}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    path, number = first, 1
    while disk.exists(path):
        number += 1
        path = f"{first}.{number}"
    disk.write_new(path, data)
    disk.sync_folder(folder)
    return path
