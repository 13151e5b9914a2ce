"""How do memories leave an index for good, without making it anew? A clean copy takes its place, without what they are in.

The rows are copied by SQLite itself (`VACUUM INTO`), which leaves behind all that was deleted; blocks of words that wait
are first written anew without them. Of the text engine's segments,
each a set of files that never changes, those are taken over in which nothing was ever deleted and none of these memories
stands; the others, whose word lists and postings may tell of them, are left behind. Memories that were in one of these and
stay are marked, so that they are taken in again with the next question.

Guarantees: the copy holds no byte of what was erased, also of what it said before it was changed. The old index stays in
place until the copy is whole, then all processes move on to the copy. If anything is not as expected (another process is
at work on it, vectors, another form of the engine's files) the answer is False, and the caller throws the index away.
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
_TAKE_IN_AGAIN = -1  # as the digest of a memory's words


def scrub(base: str, erased: dict[str, list[str]]) -> bool:
    """Take memories, ids by session, out of the index below a base. False: it must be thrown away."""
    made = os.path.join(base, f"making-{os.urandom(4).hex()}")
    try:
        folder = current_folder(base)
        if any(name.startswith(VECTORS) for name in os.listdir(folder)):
            return False
        for name in os.listdir(base):
            if name != os.path.basename(folder):
                shutil.rmtree(os.path.join(base, name))
        os.mkdir(made, 0o700)
        _copy(folder, made, erased)
        kind = os.path.basename(folder).partition("-")[0]
        os.rename(made, os.path.join(base, f"{kind}-{time.time_ns():020}-{os.urandom(4).hex()}"))
        discard(folder)  # now the copy is the oldest, which is the one that counts
        return not os.path.exists(folder)
    except (IndexBusy, IndexUnusable, OSError, sqlite3.Error, ValueError, KeyError, TypeError, AttributeError):
        shutil.rmtree(made, ignore_errors=True)
        return False
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if type(error).__name__ != "PanicException":  # of the text engine
            raise
        return False


def _copy(folder: str, made: str, erased: dict[str, list[str]]) -> None:
    path = os.path.join(made, ROWS_FILE)
    rows = Rows(os.path.join(folder, ROWS_FILE))
    try:
        rows.begin()
        docs = _take_out(rows, erased)
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
            _take_over(copy, os.path.join(folder, text), os.path.join(made, text), docs)
        copy.commit()
        copy.save_space()
    finally:
        copy.close()


def _take_out(rows: Rows, erased: dict[str, list[str]]) -> set[int]:
    """Out of the rows; which docs they were. Their sessions are read anew, because positions shift."""
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


def _take_over(rows: Rows, old: str, new: str, docs: set[int]) -> None:
    """The segments that tell nothing of these docs; what was in the others is to be taken in again."""
    with open(os.path.join(old, _META), encoding="utf-8") as file:
        meta = json.load(file)
    suspect = docs | {doc for (doc,) in rows.each("SELECT doc FROM gone")}  # old states, which may be anything's
    kept: list[dict[str, Any]] = []
    there: set[int] = set()
    for segment in meta["segments"]:
        found = _docs_in(old, f"{new}-looked-at", meta, segment) if not segment["deletes"] else suspect
        if found and found.isdisjoint(suspect):
            kept.append(segment)
            there |= found
    _link(old, new, meta, kept)
    known = there | unindexed.docs(rows)
    again = [doc for (doc,) in rows.each("SELECT doc FROM memory") if doc not in known]
    rows.do_many("UPDATE memory SET digest = ? WHERE doc = ?", [(_TAKE_IN_AGAIN, doc) for doc in again])
    numbers = {doc >> POSITION_BITS for doc in again}
    rows.do_many("UPDATE session SET files = '{}' WHERE no = ?", [(number,) for number in sorted(numbers)])
    rows.do("DELETE FROM gone")
    share = len(there) / max(int(rows.meta("token_docs", 0)), 1)
    rows.set_meta("tokens", int(int(rows.meta("tokens", 0)) * min(share, 1.0)))
    rows.set_meta("token_docs", len(there))
    rows.set_meta("generation", int(rows.meta("generation", 0)) + 1)


def _docs_in(old: str, folder: str, meta: dict[str, Any], segment: dict[str, Any]) -> set[int]:
    """The docs of one segment, which is looked at alone in a folder of its own."""
    _link(old, folder, meta, [segment])
    try:
        return TantivyEngine(folder, create=False).docs()
    finally:
        shutil.rmtree(folder)


def _link(old: str, new: str, meta: dict[str, Any], segments: list[dict[str, Any]]) -> None:
    """A folder that holds these segments alone. Files of a segment never change."""
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
