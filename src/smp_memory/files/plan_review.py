"""Review of a plan that was found in a store: which of its steps may be carried out.

A plan is a file of the store, so anybody who can write there, or whose repository was cloned, may have put it there. It must not be able
to do more than that person could do with the session files themselves. So a plan is reviewed before it is read or carried out by a
process that did not write it; no signature is needed, and recovery works for every user and in every copy of the store.

- It names session files, metadata, cold segment, quarantine and overviews of its session; the plan of a conversion those of any session
  in any layout, and `config.json`. A plan that names anything else is rejected as a whole.
- It appends complete entries that can be decoded. Otherwise it is rejected.
- A step that replaces or removes a file is carried out if everything that it takes away is still in the session afterwards: each entry
  with the same content in another file or in the cold segment, the metadata with the same fields, and what cannot be decoded byte for
  byte, also in quarantine. Otherwise the step is skipped, and steps that relied on it are skipped with it.

Compaction, restoring, tidying, completing and converting pass: they move memories and destroy none. A plan that destroys (purge, erasure,
redaction) passes only if this user's state has approved exactly that plan (`smp_memory.files.user_state`); if that is missing, the steps
that would destroy are skipped, and the operation has to be repeated.
Non-guarantees: comments and other text between entries are not compared.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from smp_memory.errors import SMPError
from smp_memory.files.cold_segment import ColdSegment
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.entry_fields import decode_entries
from smp_memory.files.journal import Plan
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import (
    COLD_FILE,
    CONFIG_FILE,
    OVERVIEW_FILES,
    OVERVIEWS,
    OVERVIEWS_IGNORED,
    PRIVATE,
    QUARANTINE,
    STAGING,
)
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry

    Locate = Callable[[str], "PlannedFile | None"]

ENTRIES, INFO, COLD, SET_ASIDE, QUARANTINE_FOLDER, DERIVED = (
    "entries", "metadata", "cold segment", "set aside", "quarantine", "derived"
)  # fmt: skip
LOCK_FILES = ("lock", "queue")


class PlannedFile(NamedTuple):
    """A file that a plan names: whose it is and what it holds. `base` and `private` are relative to the folder of the plan."""

    role: str
    layout: Layout
    session: str
    base: str
    private: str
    name: str  # within the session's folder


class Content:
    """What must not get lost: keys of entries and metadata, and bytes that cannot be decoded."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.undecoded: list[bytes] = []
        self.blobs: list[bytes] = []  # where undecoded bytes may be found

    def add(self, other: Content) -> None:
        self.keys |= other.keys
        self.blobs += other.blobs

    def holds(self, other: Content, more: Callable[[], list[bytes]]) -> bool:
        if not other.keys <= self.keys:
            return False
        blobs = [*self.blobs, *more()] if other.undecoded else []
        return all(any(part in blob for blob in blobs) for part in other.undecoded)


class PlanReview:
    """The steps of a plan that may be carried out (`accepted`) and those that are skipped; `is_rejected`: none at all."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        plan: Plan,
        locate: Locate,
        *,
        is_approved: bool = False,
        is_conversion: bool = False,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._located: dict[str, PlannedFile] = {}
        self._contents: dict[tuple[str, str], Content] = {}
        self._targets = dict(plan.moves)
        self._is_conversion = is_conversion
        self.accepted = plan
        self.skipped_sources: list[str] = []  # of skipped moves, if they hold what is nowhere else
        self.is_rejected = not (self._locate_all(plan, locate) and all(map(self._may_append, plan.appends)))
        if not self.is_rejected and not is_approved and (plan.moves or plan.removes):
            self._select(plan)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name) if name else self._folder

    # -- names

    def _locate_all(self, plan: Plan, locate: Locate) -> bool:
        """Find out what each file is; False if the plan names one that no plan of SMP touches."""
        for name in [*plan.removes, *(name for name, _, _ in plan.appends), *(target for _, target in plan.moves)]:
            found = locate(name.replace(os.sep, "/"))
            if found is None:
                return False
            self._located[name] = found
        return all(self._is_source(source, target, locate) for source, target in plan.moves)

    def _is_source(self, source: str, target: str, locate: Locate) -> bool:
        if source in (target + TEMPORARY, os.path.join(STAGING, target)):
            return True
        found, to = locate(source.replace(os.sep, "/")), self._located[target]
        if found is None or found.role != to.role or found.session != to.session:
            return False
        is_free = not self._disk.exists(self._path(source)) or not self._disk.exists(self._path(target))
        return is_free and found.role in (COLD, QUARANTINE_FOLDER, SET_ASIDE)

    def _may_append(self, append: tuple[str, int, bytes]) -> bool:
        name, _, data = append
        located = self._located[name]
        if located.role != ENTRIES:
            return False
        content = self._decoded(located, data)
        return bool(content.keys) and not content.undecoded and not any(key.startswith(INFO) for key in content.keys)

    # -- steps

    def _select(self, plan: Plan) -> None:
        """Keep the pending steps after which nothing is missing. A skipped step may make another one lose something."""
        moves = [move for move in plan.moves if self._disk.exists(self._path(move[0]))]
        removes = [name for name in plan.removes if self._disk.exists(self._path(name))]
        pending = set(moves)
        done = [move for move in plan.moves if move not in pending]  # carried out, but perhaps not yet durable
        while True:
            after = self._after(moves, removes)
            kept = [move for move in moves if self._is_kept(move[1], after)], self._removable(removes, after)
            if kept == (moves, removes):
                break
            moves, removes = kept
        skipped = pending.difference(moves)
        self.accepted = Plan()
        self.accepted.appends, self.accepted.before = plan.appends, plan.before
        removed = [
            name for name in plan.removes if not self._disk.exists(self._path(name))
        ]  # their folders must be synced
        self.accepted.moves, self.accepted.removes = done + moves, removed + removes
        for source, target in skipped:
            if not after.holds(self._content(source, self._located[target]), list):
                self.skipped_sources.append(source)

    def _removable(self, removes: list[str], after: Content) -> list[str]:
        """The files that may go. A conversion removes all of a session's old files or none, so that those left can be imported."""
        kept = [name for name in removes if self._is_kept(name, after)]
        if not self._is_conversion or len(kept) == len(removes):
            return kept
        losing = {self._located[name].session for name in set(removes).difference(kept)}
        return [name for name in kept if self._located[name].session not in losing]

    def _is_kept(self, name: str, after: Content) -> bool:
        located = self._located[name]
        return after.holds(self._content(name, located), lambda: self._quarantined(located))

    def _after(self, moves: list[tuple[str, str]], removes: list[str]) -> Content:
        """What the sessions hold when these steps are done."""
        gone, after = {*removes, *(target for _, target in moves)}, Content()
        for source, target in moves:
            after.add(self._content(source, self._located[target]))
            gone.add(source)
        for name, located in self._existing().items():
            if name not in gone:
                after.add(self._content(name, located))
        return after

    def _existing(self) -> dict[str, PlannedFile]:
        """The files of all sessions that the plan is about."""
        found: dict[str, PlannedFile] = {}
        for located in {each.layout.name + each.session: each for each in self._located.values()}.values():
            layout, folder = located.layout, self._path(located.base)
            for name in layout.files(self._disk, folder, located.session):
                found[os.path.join(located.base, name)] = located._replace(role=ENTRIES, name=name)
            if layout.info_file:
                info = located._replace(role=INFO, name=layout.info_file)
                found[os.path.join(located.base, layout.info_file)] = info
            cold = layout.cold_file(located.session)
            found[os.path.join(located.base, cold)] = located._replace(role=COLD, name=cold)
        return found

    def _quarantined(self, located: PlannedFile) -> list[bytes]:
        folder = self._path(os.path.join(located.private, QUARANTINE))
        return [self._read(os.path.join(folder, name)) for name in self._disk.names(folder)]

    # -- contents

    def _content(self, name: str, located: PlannedFile) -> Content:
        """What a file holds, read as the file that it is or becomes. It is read once."""
        key = (name, located.layout.name)
        if key not in self._contents:
            self._contents[key] = self._load(self._source_or_target(name), located)
        return self._contents[key]

    def _source_or_target(self, name: str) -> str:
        """The path of a file; that of its target if a writer has just moved it there."""
        target = self._targets.get(name)
        return self._path(name if target is None or self._disk.exists(self._path(name)) else target)

    def _load(self, path: str, located: PlannedFile) -> Content:
        if located.role in (DERIVED, QUARANTINE_FOLDER):
            return Content()
        if located.role == COLD:
            return self._cold(path, located)
        data = self._read(path)
        if located.role == ENTRIES:
            return self._decoded(located, data)
        content = Content()
        content.blobs.append(data)
        if located.role == INFO and data:
            self._add_info(content, located, data)
        elif data:
            content.undecoded.append(data)
        return content

    def _read(self, path: str) -> bytes:
        """The bytes of a file; none if it is gone, because a writer is carrying out the plan at this moment."""
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return b""

    def _add_info(self, content: Content, located: PlannedFile, data: bytes) -> None:
        try:
            info = located.layout.decode_info(data, located.session)
            fields = info.to_dict() if self._is_conversion else {**info.to_dict(), "other": info.other}
            content.keys.add(f"{INFO} {_canonical(fields)}")
        except (SMPError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            content.undecoded.append(data)

    def _decoded(self, located: PlannedFile, data: bytes) -> Content:
        content, layout, metadata = Content(), located.layout, None
        content.blobs.append(data)
        kind, names, last = layout.kind_of(located.name), layout.field_names, 0
        for piece in layout.codec_of(located.name).decode(data, 0, 1):
            try:
                if piece.fields is not None and not layout.info_file and piece.fields.get("type") == "session":
                    metadata = piece.fields  # the last one holds
                elif piece.fields is not None:
                    entries = decode_entries(names, piece.fields, kind, piece.state, "", piece.line, last)
                    last = entries[0].seq
                    for entry in entries:
                        content.keys.update(_keys(located.session, entry))
                else:
                    content.undecoded.append(data[piece.start : piece.end].strip())
            except SMPError:
                content.undecoded.append(data[piece.start : piece.end].strip())
        if metadata is not None:
            self._add_info(content, located, json.dumps(metadata).encode())
        return content

    def _cold(self, path: str, located: PlannedFile) -> Content:
        content = Content()
        segment = ColdSegment.read(self._disk, path)
        for found in segment.entries():
            content.keys.update(_keys(located.session, found.entry))
        content.blobs += [segment.data, segment.text()]
        content.undecoded += segment.undecoded()
        return content


def _keys(session: str, entry: Entry) -> Iterator[str]:
    """Identify the content of an entry: not its place, its number or its transaction, which a rewrite may change."""
    bare = f"{session} {entry.type} {_canonical(entry.data)}"
    if not entry.lacks:
        yield f"{entry.op} {entry.uid or entry.id} {entry.at} {entry.by} {bare}"
    yield bare


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# -- which file is it


def review_session_plan(reader: SessionReader, plan: Plan, *, is_approved: bool) -> PlanReview:
    """Review a plan of one session."""
    private = os.path.relpath(reader.private, reader.folder).replace(os.sep, "/")

    def locate(name: str) -> PlannedFile | None:
        return _located(reader.layout, reader.session, "", private, name)

    return PlanReview(reader.disk, reader.folder, plan, locate, is_approved=is_approved)


def review_conversion(disk: Disk, root: str, plan: Plan) -> PlanReview:
    """Review the plan of a conversion, which may name files of every session."""
    layouts = [layout_named(name) for name in NAMES]

    def locate(name: str) -> PlannedFile | None:
        if name == CONFIG_FILE:
            return PlannedFile(DERIVED, layouts[0], "", "", "", name)
        return next((found for layout in layouts if (found := _in_layout(layout, name)) is not None), None)

    return PlanReview(disk, root, plan, locate, is_conversion=True)


def _in_layout(layout: Layout, name: str) -> PlannedFile | None:
    first, _, rest = name.partition("/")
    if layout.sessions:
        session, _, inner = rest.partition("/")
        base, private = f"{layout.sessions}/{session}", f"{layout.sessions}/{session}/{PRIVATE}"
        is_here = first == layout.sessions and ids.is_valid(session)
    else:
        session = rest.partition("/")[0] if first == PRIVATE else name.removesuffix(f".{COLD_FILE}").partition(".")[0]
        base, private, inner, is_here = "", f"{PRIVATE}/{session}", name, ids.is_valid(session)
    return _located(layout, session, base, private, inner) if is_here else None


def _located(layout: Layout, session: str, base: str, private: str, name: str) -> PlannedFile | None:
    full = f"{base}/{name}" if base else name
    role = None
    if full.startswith(private + "/"):
        role = _private_role(full[len(private) + 1 :])
    elif layout.is_session_file(name, session):
        role = ENTRIES
    elif name == layout.info_file:
        role = INFO
    elif name == layout.cold_file(session):
        role = COLD
    elif name in (f"{OVERVIEWS}/{each}" for each in (*OVERVIEW_FILES, OVERVIEWS_IGNORED)):
        role = DERIVED
    return PlannedFile(role, layout, session, base, private, name) if role is not None and name else None


def _private_role(name: str) -> str | None:
    folder, _, inner = name.rpartition("/")
    if name == QUARANTINE:
        return QUARANTINE_FOLDER
    if folder == QUARANTINE:
        return SET_ASIDE if inner else None
    return DERIVED if name in LOCK_FILES else None
