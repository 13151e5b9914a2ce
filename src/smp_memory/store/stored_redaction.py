"""How do secrets leave what is already stored? Every entry that has one is written anew without it, its history too.

    under the session's lock, in one plan   its files, what was set aside in quarantine, overviews made of them
    before and after it, each repeatable    the head, the cold segment, the index as a whole

Guarantees: ids, numbers, times, authors and every other field stay; `[REDACTED:kind]` stands where a secret was. A look
(`preview`) changes nothing. What is reported are ids, kinds and counts, never content. Doing it again changes nothing.
Non-guarantees: archived and deleted sessions are not opened, and what cannot be read as an entry is not judged; both are
said. Git, backups and the free blocks of the disk are beyond a program.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.files import cold_segment
from smp_memory.files.cold_segment import ColdSegment
from smp_memory.files.journal import QUARANTINE
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import OVERVIEWS
from smp_memory.index.index import discard_all
from smp_memory.model.entry import Entry
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_path, decoded
from smp_memory.store.erasure import INTENT
from smp_memory.store.overview_files import FILES
from smp_memory.store.rewrite import SessionEdit, copy_of, private_name, rewrite_under_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.cold_segment import ColdMatch
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

HEAD_MARK = b'"type":"session"'
_PEOPLE = ("user_id", "agent_ids", "config")
_NO_FILE = "redacting"  # a name that no file has: the log's heads are joined although no entry changes


class RedactionReport:
    """What was found in a session, or taken out of it: kinds and counts."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.memories: dict[str, dict[str, int]] = {}  # by id
        self.head: dict[str, int] = {}
        self.set_aside: dict[str, int] = {}  # in quarantine
        self.pending: list[str] = []  # what could not be looked at
        self.reason: dict[str, int] = {}  # taken out of the reason that was given for it; not part of `kinds`

    @property
    def kinds(self) -> dict[str, int]:
        """All of it, by kind."""
        kinds: dict[str, int] = {}
        for counts in (*self.memories.values(), self.head, self.set_aside):
            _add(kinds, counts)
        return kinds

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "count": len(self.memories),
            "kinds": self.kinds,
            "memories": self.memories,
            "head": self.head,
            "set_aside": self.set_aside,
            "pending": self.pending,
            **({"reason": self.reason} if self.reason else {}),
        }

    def __repr__(self) -> str:
        return f"Redaction({self.session}: {len(self.memories)} memories, {self.kinds})"


def look(session: FileSession, redactor: Redactor) -> RedactionReport:
    """What would be taken out."""
    work = _Cleaning(session, redactor)
    work.clean_head()
    session.view(lambda session_history: work.edit(session.reader))
    work.look_into_cold()
    return work.found


def clean(session: FileSession, redactor: Redactor) -> RedactionReport:
    """Take it out. Under the store's lock: whoever finds `erasing.json` without it knows that somebody died."""
    with ArchiveIndex(session.store).held("redacting"):
        return _clean(session, redactor)


def _clean(session: FileSession, redactor: Redactor) -> RedactionReport:
    work, store = _Cleaning(session, redactor), session.store

    def intended(edit: SessionEdit) -> SessionEdit:
        if edit:
            _intend(store, session.session)
        return edit

    def under_lock() -> None:
        info = work.clean_head()
        if info is not None:
            _intend(store, session.session)
            session.write_info(info)  # before the files: the log's old heads go with them
        rewrite_under_lock(session, lambda reader: intended(work.edit(reader)))
        if work.look_into_cold():
            _intend(store, session.session)
            path = cold_path(session)
            cold_segment.rewrite(store.disk, path, lambda row: row.id in work.found.memories, work.cleaned_cold)

    session.exclusively("redacting", under_lock)
    if work.found:
        _take_index_away(store)
        store.state.remove(INTENT)
    return work.found


def _take_index_away(store: FileStore) -> None:
    """Nobody can say what is in the free pages of one that is kept; the next question makes a new one."""
    index = store.indexer.folder
    with store.indexer.mutex:
        store.indexer.close()
        if store.state.on_disk and os.path.isdir(index):
            discard_all(index)


def _intend(store: FileStore, session: str) -> None:
    """If the process dies in between, whoever opens the store next takes the index away."""
    store.state.write(INTENT, json.dumps({"ids": {session: []}}).encode() + b"\n", durable=True)


class _Cleaning:
    def __init__(self, session: FileSession, redactor: Redactor) -> None:
        self._session = session
        self._redactor = redactor
        self._disk = session.store.disk
        self._heads_go = False  # a log is to lose heads that it had before
        self.found = RedactionReport(session.session)

    # -- entries

    def edit(self, reader: SessionReader) -> SessionEdit:
        """May be asked again, so it begins anew."""
        self.found.memories, self.found.set_aside, self.found.pending = {}, {}, []
        wanted = SessionEdit()
        for name, state in reader.states.items():
            for entry in state.entries:
                new, removals = self._cleaned(entry)
                if removals:
                    wanted.replace(entry, new)
                    _count(self.found.memories.setdefault(entry.id, {}), removals)
            self.found.pending += [
                f"{os.path.join(reader.folder, name)}:{problem.line} cannot be read as a memory; `smp repair` sets it aside"
                for problem in state.problems
                if problem.code in ("damaged", "invalid", "conflict")
            ]
        self._edit_others(reader, wanted)
        if self._heads_go and not wanted:
            wanted.files[_NO_FILE] = None
        return wanted

    def _cleaned(self, entry: Entry) -> tuple[Entry, list[RedactedSpan]]:
        data, removals = self._redactor.redact_fields(entry.data)
        if not removals:
            return entry, []
        twin = copy_of(entry)
        twin.data = data
        return twin, removals

    def _edit_others(self, reader: SessionReader, wanted: SessionEdit) -> None:
        folder = os.path.join(reader.private, QUARANTINE)
        for name in self._disk.names(folder):
            text = self._disk.read(os.path.join(folder, name)).decode("utf-8", "surrogateescape")
            cleaned, removals = self._redactor.redact(text)
            if removals:
                path = private_name(reader, os.path.join(QUARANTINE, name))
                wanted.files[path] = cleaned.encode("utf-8", "surrogateescape")
                _count(self.found.set_aside, removals)
        if wanted and reader.layout.info_file:
            wanted.files.update({f"{OVERVIEWS}/{name}": None for name in FILES})

    # -- the head

    def clean_head(self) -> SessionInfo | None:
        """The head without secrets; None if it has none."""
        info = self._session.info_to_change()
        self.found.head = {}
        self._look_at_old_heads()
        given = {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}
        cleaned, removals = self._redactor.redact_fields(given)
        _count(self.found.head, removals)
        if not removals:
            return None
        for name, value in cleaned.items():
            setattr(info, name, value)
        self._heads_go = True
        return info

    def _look_at_old_heads(self) -> None:
        """A log keeps the heads that a session had before."""
        layout, reader = self._session.store.layout, self._session.reader
        if layout.info_file:
            return
        heads: list[dict[str, Any]] = []
        for name in layout.files(self._disk, reader.folder, reader.session):
            lines = self._disk.read(os.path.join(reader.folder, name)).splitlines(keepends=True)
            for piece in layout.codec_of(name).decode(b"".join([line for line in lines if HEAD_MARK in line])):
                if piece.fields is not None and piece.fields.get("type") == "session":
                    heads.append(piece.fields)
        for head in heads[:-1]:
            texts = {name: head.get(name) for name in head if name not in _PEOPLE}
            removals = self._redactor.redact_fields(texts)[1]
            _count(self.found.head, removals)
            self._heads_go = self._heads_go or bool(removals)

    # -- the cold segment

    def look_into_cold(self) -> bool:
        """Whether something is to be taken out of it."""
        segment = ColdSegment(self._disk, cold_path(self._session))
        touched: dict[str, dict[str, int]] = {}
        for found in segment.entries():
            entry = decoded(found, self._session.store.layout.name)
            removals = self._cleaned(entry)[1] if entry is not None else []
            if removals:
                _count(touched.setdefault(found.row.id, {}), removals)
        for id, counts in touched.items():
            _add(self.found.memories.setdefault(id, {}), counts)
        self.found.pending += [str(problem) for problem in segment.problems]
        return bool(touched)

    def cleaned_cold(self, found: ColdMatch) -> bytes:
        """The bytes of an entry without its secrets, in the layout that it was written in."""
        own = self._session.store.layout.name
        entry = decoded(found, own)
        if entry is None:
            return found.data
        new, removals = self._cleaned(entry)
        if not removals:
            return found.data
        name = found.row.about.get("layout", own)
        layout = layout_named(name if name in NAMES else own)
        return layout.codec_of(found.row.file).encode(layout.field_names.encode(new, self._session.session))


def _count(kinds: dict[str, int], removals: Iterable[RedactedSpan]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1


def _add(kinds: dict[str, int], counts: dict[str, int]) -> None:
    for kind, number in counts.items():
        kinds[kind] = kinds.get(kind, 0) + number
