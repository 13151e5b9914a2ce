"""Erase memories from the index without a rebuild: replace it by a clean copy that does not contain them.

SQLite copies the rows itself (`VACUUM INTO`), which leaves behind everything that was deleted; blocks of unindexed
terms are rewritten without the erased memories first. Segments of the text engine are sets of immutable files. A
segment is taken over if nothing was ever deleted in it and it contains none of these memories; the others, whose term
dictionaries and postings may contain their words, are left behind. Memories that stay but were in such a segment are
marked, so that the next query indexes them again.

Guarantees: the copy contains no byte of the erased memories, their earlier states included. The old index stays in
place until the copy is complete; then all processes move on to the copy. If anything is not as expected (another
process is changing the index, there are vectors, the engine's files have another form) the result is False, and the
caller deletes the index.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time

from smp_memory.index import unindexed
from smp_memory.index.engine import TantivyEngine
from smp_memory.index.index import ROWS_FILE, current_folder, discard
from smp_memory.index.rows import POSITION_BITS, IndexBusy, IndexUnusable, Rows
from smp_memory.index.vectors import PREFIX as VECTORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_META, _MANAGED = "meta.json", ".managed.json"
_INDEX_AGAIN = -1  # as the digest of a memory's terms


def scrub(base: str, erased: dict[str, list[str]]) -> bool:
    """Erase memories (ids by session) from the index below `base`. False: the index must be deleted."""
    copy_folder = os.path.join(base, f"making-{os.urandom(4).hex()}")
    try:
        folder = current_folder(base)
        if any(name.startswith(VECTORS) for name in os.listdir(folder)):
            return False
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


def _copy(folder: str, copy_folder: str, erased: dict[str, list[str]]) -> None:
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
        text = str(copy.meta("text_folder", "")) if copy.meta("generation") else ""
        if text:
            _copy_clean_segments(copy, os.path.join(folder, text), os.path.join(copy_folder, text), docs)
        copy.commit()
        copy.truncate_wal()
    finally:
        copy.close()


def _remove_rows(rows: Rows, erased: dict[str, list[str]]) -> set[int]:
    """Remove memories from the rows and return their docs. Their sessions are read again, because positions shift."""
    docs: set[int] = set()
    for session, ids in erased.items():
        known = rows.session(session)
        if known is None:
            continue
        found = [rows.by_id(known.number, id) for id in ids]
        docs.update(row.doc for row in found if row is not None)
        known.files = {}
        rows.save_session(known)
    for table in ("memory", "recent", "access", "tag", "topic"):
        rows.do_many(f"DELETE FROM {table} WHERE doc = ?", [(doc,) for doc in docs])
    unindexed.scrub(rows)
    rows.do_many("DELETE FROM relation WHERE source = ?", [(doc,) for doc in docs])
    return docs


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
    rows.do_many("UPDATE session SET files = '{}' WHERE no = ?", [(number,) for number in sorted(numbers)])
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
