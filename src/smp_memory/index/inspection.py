"""The index on disk, apart from queries: inspect it without changing it, and erase memories from it without a rebuild.

Inspection: nothing is created, removed or written. The rows are opened read-only; tantivy's files are read as plain
bytes, each checked against the checksum in its footer. Damage is a list of sentences, or `IndexUnusable` if nothing
can be read. While a process has the index open, or died with it open, SQLite may touch its own `rows.sqlite-shm`.

Erasure replaces the index by a clean copy that does not contain the memories. SQLite copies the rows itself (`VACUUM INTO`),
which leaves behind everything that was deleted; blocks of unindexed terms are rewritten without the erased memories first.
Segments of the text engine are sets of immutable files. A segment is taken over if nothing was ever deleted in it and it
contains none of these memories; the others, whose term dictionaries and postings may contain their words, are left behind.
Memories that stay but were in such a segment are marked, so that the next query indexes them again.
Guarantees: the copy contains no byte of the erased memories, their earlier states included. The old index stays in
place until the copy is complete; then all processes move on to the copy. If anything is not as expected (another
process is changing the index, the engine's files have another form) the index is deleted. Vectors of memories that stay are copied one by one; an earlier vector of a memory is not.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import time
from urllib.parse import quote
from zlib import crc32

from smp_memory.index import unindexed
from smp_memory.index.embeddings import VECTORS_PREFIX, vector_widths
from smp_memory.index.engine import TantivyEngine
from smp_memory.index.index import current_folder, discard, discard_all
from smp_memory.index.rows import (
    COLUMNS,
    CURSOR,
    POSITION_BITS,
    PROBLEMS,
    TABLES_OF_A_MEMORY,
    VERSION,
    IndexBusy,
    IndexedSession,
    IndexUnusable,
    Row,
    Rows,
)
from smp_memory.index.snapshot import ROWS_FILE, index_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, BinaryIO

    Erased = Mapping[str, list[str] | None]

_FOOTER_MAGIC = 1337  # each tantivy file ends with: JSON with the checksum, its length, this number
_MAX_FOOTER = 4096
_CHUNK = 1 << 20
_KEPT_VECTORS = (
    "SELECT doc, digest, place FROM vector WHERE model = ? AND doc IN (SELECT doc FROM memory) ORDER BY place"
)


class IndexInspection:
    """One index opened read-only. Close it after use."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        path = os.path.join(folder, ROWS_FILE)
        wal = f"{path}-wal"
        if not _is_plain_file(path):  # opening a planted pipe would block for ever
            raise IndexUnusable(f"{ROWS_FILE} is not a plain file")
        is_idle = not os.path.exists(wal) or not os.path.getsize(wal)  # then no process is writing to it
        try:
            self._db = sqlite3.connect(
                f"file:{quote(path)}?mode=ro{'&immutable=1' if is_idle else ''}",
                uri=True,
                timeout=0.2,
                isolation_level=None,
            )
            self._opened_state = self._file_state() if is_idle else ()
            self._db.execute("BEGIN")  # all reads see one state, whatever is written meanwhile
        except (sqlite3.Error, OSError) as error:
            raise IndexUnusable(str(error)) from error

    def _file_state(self) -> tuple[int, ...]:
        found = os.stat(os.path.join(self.folder, ROWS_FILE))
        return (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            os.path.exists(os.path.join(self.folder, f"{ROWS_FILE}-wal")),
        )

    @property
    def has_changed(self) -> bool:
        """Whether a process began to write after all, so that what was read may be of two states."""
        try:
            return bool(self._opened_state) and self._file_state() != self._opened_state
        except OSError:
            return True

    def close(self) -> None:
        self._db.close()

    @property
    def version(self) -> int:
        return int(self._one("PRAGMA user_version") or 0)

    @property
    def is_current(self) -> bool:
        return self.version == VERSION

    def damage(self) -> Iterator[str]:
        """The damage that SQLite and tantivy's checksums report."""
        reported = self._one("PRAGMA quick_check(1)")
        if reported != "ok":
            yield f"the rows are damaged ({str(reported)[:80]})"
            return
        generation = int(self._meta("generation") or 0)
        if generation:
            yield from self._text_damage(os.path.join(self.folder, str(self._meta("text_folder") or "")))

    def sessions(self) -> dict[str, IndexedSession]:
        """Each indexed session, with the cursors of its files."""
        rows = self._all("SELECT no, id, files, seq, size, whole, last, names FROM session")
        return {row[1]: IndexedSession(*row) for row in rows}

    def memories_of(self, session: IndexedSession) -> dict[str, Row]:
        """The rows of a session's memories, by id."""
        first = session.number << POSITION_BITS  # their rows lie together
        found = self._all(
            f"SELECT {COLUMNS} FROM memory WHERE doc >= ? AND doc < ?", (first, first + (1 << POSITION_BITS))
        )
        return {row.id: row for row in map(Row._make, found)}

    def names(self) -> dict[int, str]:
        """Names of authors and files, by number."""
        return dict(self._all("SELECT no, name FROM name"))

    # -- text

    def _text_damage(self, folder: str) -> Iterator[str]:
        try:
            with _open_plain(os.path.join(folder, "meta.json")) as file:
                meta = json.loads(file.read())
            indexed = sum(
                each["max_doc"] - (each["deletes"] or {}).get("num_deleted_docs", 0) for each in meta["segments"]
            )
            names = [each["segment_id"].replace("-", "") for each in meta["segments"]]
            stamp = int(meta["opstamp"])
            present = os.listdir(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            yield "the text index cannot be read (meta.json)"
            return
        if stamp != self._meta("stamp"):
            yield "the text index has another state than the rows"
        for segment in names:
            files = [name for name in present if name.startswith(f"{segment}.")]
            if not files:
                yield "a segment of the text index is missing"
            for name in files:
                if not _has_valid_checksum(os.path.join(folder, name)):
                    yield f"the text index is damaged ({name})"
        count = int(
            self._one("SELECT count(*) FROM memory WHERE digest >= 0") or 0
        )  # the others are to be indexed again
        recent = int(self._one("SELECT count(*) FROM recent") or 0)
        if indexed + recent < count:
            yield f"it has {count:,} memories, but the text of {indexed + recent:,}"

    # -- SQL

    def _meta(self, key: str) -> Any:
        return self._one("SELECT value FROM meta WHERE key = ?", (key,))

    def _one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        found = self._all(sql, values)
        return found[0][0] if found else None

    def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise IndexUnusable(str(error)) from error


def inspect_index(base: str) -> IndexInspection | None:
    """The index that all processes use, below `base`; None if there is none."""
    names = index_folders(base) if os.path.isdir(base) else []
    folder = os.path.join(base, names[0]) if names else ""
    return IndexInspection(folder) if names and os.path.lexists(os.path.join(folder, ROWS_FILE)) else None


def _is_plain_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _open_plain(path: str) -> BinaryIO:
    if not _is_plain_file(path):
        raise OSError(f"{path} is not a plain file")
    return open(path, "rb")


def _has_valid_checksum(path: str) -> bool:
    """Whether a tantivy file matches the checksum in its footer."""
    try:
        with _open_plain(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            end = file.read(8)
            length, magic = int.from_bytes(end[:4], "little"), int.from_bytes(end[4:], "little")
            if magic != _FOOTER_MAGIC or not 0 < length <= min(_MAX_FOOTER, size - 8):
                return False
            body = size - 8 - length
            file.seek(body)
            reported = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = 0
            while body > 0 and (part := file.read(min(_CHUNK, body))):
                found = crc32(part, found)
                body -= len(part)
            return bool(found == reported)
    except (OSError, ValueError, KeyError, TypeError):
        return False


# -- erasure

_META, _MANAGED = "meta.json", ".managed.json"
_REMOVALS = 50  # attempts to remove a folder
_INDEX_AGAIN = -1  # as the digest of a memory's terms


def erase_from_index(base: str, erased: Erased) -> str:
    """Erase memories (ids by session; None: the whole session) from the index below `base`; returns "rewritten", "removed", or "" if there was none."""
    if not os.path.isdir(base):
        return ""
    if any(ids is None or ids for ids in erased.values()) and _scrub(base, erased):
        return "rewritten"
    discard_all(base)
    return "removed"


def _scrub(base: str, erased: Erased) -> bool:
    """Replace the index by a clean copy. False: the index must be deleted."""
    copy_folder = os.path.join(base, f"making-{os.urandom(4).hex()}")
    try:
        folder = current_folder(base)
        for name in os.listdir(base):
            if name != os.path.basename(folder):
                shutil.rmtree(os.path.join(base, name))
        os.mkdir(copy_folder, 0o700)
        _copy(folder, copy_folder, erased)
        kind = os.path.basename(folder).partition("-")[0]
        os.rename(copy_folder, os.path.join(base, f"{kind}-{time.time_ns():020}-{os.urandom(4).hex()}"))
        discard(folder)  # now the copy is the oldest, which is the one in use
        return not os.path.exists(folder)
    except (IndexBusy, IndexUnusable, OSError, sqlite3.Error, ValueError, KeyError, TypeError, AttributeError):
        shutil.rmtree(copy_folder, ignore_errors=True)
        return False
    except BaseException as error:
        shutil.rmtree(copy_folder, ignore_errors=True)
        if type(error).__name__ != "PanicException":  # raised by the text engine
            raise
        return False


def _copy(folder: str, copy_folder: str, erased: Erased) -> None:
    path = os.path.join(copy_folder, ROWS_FILE)
    rows = Rows(os.path.join(folder, ROWS_FILE))
    try:
        rows.begin()
        docs = _remove_rows(rows, erased)
        rows.commit()
        rows.do("VACUUM INTO ?", (path,))
    finally:
        rows.close()
    os.chmod(path, 0o600)
    copy = Rows(path)
    try:
        copy.do("PRAGMA journal_mode = WAL")
        copy.begin()
        _copy_vectors(copy, folder, copy_folder)
        text = str(copy.meta("text_folder", "")) if copy.meta("generation") else ""
        if text:
            _copy_clean_segments(copy, os.path.join(folder, text), os.path.join(copy_folder, text), docs)
        copy.commit()
        copy.truncate_wal()
    finally:
        copy.close()


def _remove_rows(rows: Rows, erased: Erased) -> set[int]:
    """Remove memories from the rows and return their docs. Their sessions are read again, because positions shift."""
    docs: set[int] = set()
    for session, ids in erased.items():
        known = rows.session(session)
        if known is None:
            continue
        if ids is None:
            docs.update(doc for (doc,) in rows.each("SELECT doc FROM memory WHERE doc >> 24 = ?", (known.number,)))
            rows.remove_session(known.number)
            continue
        found = [rows.by_id(known.number, id) for id in ids]
        docs.update(row.doc for row in found if row is not None)
        known.files, known.stats = {}, b""
        rows.save_session(known)
    for table, column in (*TABLES_OF_A_MEMORY, ("recent", "doc"), ("access", "doc"), ("vector", "doc")):
        rows.do_many(f"DELETE FROM {table} WHERE {column} = ?", [(doc,) for doc in docs])
    unindexed.scrub(rows)
    rows.do_many("DELETE FROM meta WHERE key = ?", [(PROBLEMS + session,) for session in erased])
    rows.remove_unused_names()
    return docs


def _copy_vectors(rows: Rows, folder: str, copy_folder: str) -> None:
    """Copy the vectors of the memories that are left, to places without gaps; a set whose files are not as expected is dropped."""
    for number, model, name in rows.all("SELECT no, model, files FROM vector_set"):
        kept = rows.all(_KEPT_VECTORS, (number,))
        rows.do("DELETE FROM vector WHERE model = ?", (number,))
        new = f"{VECTORS_PREFIX}{os.urandom(4).hex()}"
        try:
            widths = vector_widths(int(model.rpartition(" ")[2]))
            os.mkdir(os.path.join(copy_folder, new), 0o700)
            for part, width in widths.items() if kept else ():
                _copy_places(os.path.join(folder, name, part), os.path.join(copy_folder, new, part), width, kept)
        except (OSError, ValueError):
            rows.do("DELETE FROM vector_set WHERE no = ?", (number,))
            shutil.rmtree(os.path.join(copy_folder, new), ignore_errors=True)
            continue
        places = ((number, doc, digest, place) for place, (doc, digest, _) in enumerate(kept))
        rows.do_many("INSERT INTO vector VALUES (?,?,?,?)", places)
        values = (new, len(kept), number)  # no generation: all memories are compared with their vectors again
        rows.do(
            "UPDATE vector_set SET files = ?, filled = ?, generation = -1, below = 0, tail = -1 WHERE no = ?", values
        )


def _copy_places(path: str, copy_path: str, width: int, kept: list[tuple[int, int, int]]) -> None:
    with _open_plain(path) as file, open(os.open(copy_path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as copy:
        for _, _, place in kept:
            file.seek(place * width)
            data = file.read(width)
            if len(data) < width:
                raise ValueError(f"{path} is too short")
            copy.write(data)


def _copy_clean_segments(rows: Rows, old: str, new: str, docs: set[int]) -> None:
    """Copy the segments that contain nothing of these docs; mark what was in the others to be indexed again."""
    with open(os.path.join(old, _META), encoding="utf-8") as file:
        meta = json.load(file)
    suspect = docs | {doc for (doc,) in rows.each("SELECT doc FROM gone")}  # old states, which may contain erased text
    kept: list[dict[str, Any]] = []
    kept_docs: set[int] = set()
    for segment in meta["segments"]:
        found = _docs_in(old, f"{new}-inspected", meta, segment) if not segment["deletes"] else suspect
        if found and found.isdisjoint(suspect):
            kept.append(segment)
            kept_docs |= found
    _link(old, new, meta, kept)
    known = kept_docs | unindexed.docs(rows)
    again = [doc for (doc,) in rows.each("SELECT doc FROM memory") if doc not in known]
    rows.do_many("UPDATE memory SET digest = ? WHERE doc = ?", [(_INDEX_AGAIN, doc) for doc in again])
    numbers = {doc >> POSITION_BITS for doc in again}
    rows.do_many("UPDATE session SET files = '{}', stats = x'' WHERE no = ?", [(number,) for number in sorted(numbers)])
    rows.do("DELETE FROM meta WHERE key = ?", (CURSOR,))  # no change of these sessions will be told
    rows.do("DELETE FROM gone")
    share = len(kept_docs) / max(int(rows.meta("token_docs", 0)), 1)
    rows.set_meta("tokens", int(int(rows.meta("tokens", 0)) * min(share, 1.0)))
    rows.set_meta("token_docs", len(kept_docs))
    rows.set_meta("generation", int(rows.meta("generation", 0)) + 1)


def _docs_in(old: str, folder: str, meta: dict[str, Any], segment: dict[str, Any]) -> set[int]:
    """The docs of one segment, opened alone in a temporary folder."""
    _link(old, folder, meta, [segment])
    try:
        return TantivyEngine(folder, create=False).docs()
    finally:
        _remove_folder(folder)


def _remove_folder(folder: str) -> None:
    """Remove a folder in which a thread of tantivy may still create or remove a file."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.01)
    shutil.rmtree(folder)


def _link(old: str, new: str, meta: dict[str, Any], segments: list[dict[str, Any]]) -> None:
    """Make a folder with these segments alone, by hard links or copies: files of a segment never change."""
    os.mkdir(new, 0o700)
    marks = tuple(segment["segment_id"].replace("-", "") + "." for segment in segments)
    names = [name for name in os.listdir(old) if name.startswith(marks)]
    for name in names:
        try:
            os.link(os.path.join(old, name), os.path.join(new, name))
        except OSError:
            shutil.copyfile(os.path.join(old, name), os.path.join(new, name))
    _write(os.path.join(new, _META), {**meta, "segments": segments})
    _write(os.path.join(new, _MANAGED), [_META, *names])


def _write(path: str, value: Any) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(value, file)
