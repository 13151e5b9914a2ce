"""The index of one store: rows, text and vectors, changed in one transaction.

Guarantees: `extend` and `replace` leave exactly the rows that a rebuild from the same files would leave (the tests
compare them). All changes between `begin` and `commit` become visible together.
"""

from __future__ import annotations

import json
import os
import time
from itertools import islice

from smp_memory import index
from smp_memory.index import report_meaning
from smp_memory.index.echoes import EchoTable, packed_text
from smp_memory.index.rows import POSITION_BITS, PROBLEMS, IndexUnusable, Rows
from smp_memory.index.snapshot import INDEX_PREFIX, ROWS_FILE, index_folders
from smp_memory.index.text import TextIndex
from smp_memory.model.candidates import TRAITS
from smp_memory.model.reports import Problem
from smp_memory.observe import incomplete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.index.documents import IndexDocument
    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.rows import IndexedSession
    from smp_memory.index.vectors import Vectors
    from smp_memory.model.history import RecordHistory


_NOT_COMPARABLE = ("doc", "places", "author", "digest", "facts")  # contain numbers that each index assigns on its own
_MAX_PROBLEMS = 100  # of one session
_MANY = 2000
_AT_ONCE = 500  # memories: so few that their documents are still in the CPU's cache when they are written


def current_folder(base: str) -> str:
    """The folder of the index that all processes use, below `base`; created if there is none.

    Each index has a folder of its own: SQLite finds its files by name, so a name must not be reused while a process has
    the old files open.
    """
    try:
        for folder in (os.path.dirname(base), base):  # not their parents: a store that was moved is not created again
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                pass
        if not index_folders(base):
            os.mkdir(os.path.join(base, f"{INDEX_PREFIX}{time.time_ns():020}-{os.urandom(4).hex()}"), 0o700)
        return os.path.join(base, index_folders(base)[0])
    except (OSError, IndexError) as error:
        raise IndexUnusable(str(error)) from error


def discard(folder: str) -> None:
    """Delete an index. A process that has it open keeps its files until it notices that the folder is gone."""
    gone = os.path.join(os.path.dirname(folder), f"gone-{os.urandom(4).hex()}")
    try:
        os.rename(folder, gone)
    except OSError:
        return
    from shutil import rmtree

    rmtree(gone, ignore_errors=True)


def discard_all(base: str) -> None:
    """Delete every index below `base`, and leftovers of earlier ones."""
    from shutil import rmtree

    for name in os.listdir(base):
        path = os.path.join(base, name)
        if name.startswith(INDEX_PREFIX):
            discard(path)
        else:
            rmtree(path, ignore_errors=True)


class Index:
    """Rows, text index and vectors of one store, on disk or in RAM."""

    def __init__(self, folder: str | None, load_embedders: Callable[[], list[Embedder]] | None = None) -> None:
        """Open or create the index in a folder (None: in RAM). The embedders, best first, are loaded when vectors are first needed."""
        self.folder = folder
        self._load_embedders = load_embedders
        self.models: list[Vectors] = []  # the vectors of each embedder, best first
        self.answering: list[Vectors] = []  # those with the vectors of nearly all memories
        if folder is not None:
            try:
                os.makedirs(folder, 0o700, exist_ok=True)
            except OSError as error:
                raise IndexUnusable(str(error)) from error
        self.rows = Rows(":memory:" if folder is None else os.path.join(folder, ROWS_FILE))
        self.text = TextIndex(self.rows, folder)
        self.echoes = EchoTable(self.rows)
        self.vector_failure = ""  # why a model is not used although there is one
        self.missing_vectors = ""  # that memories are not searched by meaning yet, until an answer has said it
        self.has_told_missing = False
        self._added: list[tuple[int, str, str, int, int]] = []
        self._removed: list[int] = []
        self.added_count = 0  # memories since `begin`
        self.sessions: dict[
            int, tuple[str, int]
        ] = {}  # name and last write of sessions by number, as far as they were asked for
        self.session_numbers: dict[str, int] = {}  # the numbers of these
        self.filled: dict[str, bool] = {}  # whether tables that are empty in most stores have rows

    def close(self) -> None:
        self.rows.close()

    def open_vectors(self) -> list[Vectors]:
        """The vectors of each embedder, which are looked for once. Raises ImportError if a library does not load."""
        if self._load_embedders is not None:
            load, self._load_embedders = self._load_embedders, None
            embedders = load()
            if embedders:
                from smp_memory.index.vectors import Vectors  # a door: it loads a native library

                self.models = [Vectors(self.rows, self.folder, each) for each in embedders]
        return self.models

    def leave_model(self, error: Exception, vectors: Vectors | None = None) -> None:
        """Do without a model (None: all) until the index is opened again, because it failed."""
        self.models = [each for each in self.models if each is not vectors and vectors is not None]
        self.answering = [each for each in self.answering if each in self.models]
        instead = "by the smaller embedding model" if self.models else "by words alone, not by meaning"
        self.vector_failure = f"Searched {instead}: {error}"
        report_meaning("model_failed", self.vector_failure)

    def take_warnings(self) -> list[str]:
        """What an answer by meaning has to say about vectors; of missing ones once."""
        missing, self.missing_vectors = self.missing_vectors, ""
        return [text for text in (self.vector_failure, missing) if text]

    def refresh(self) -> None:
        """Bring what is kept in RAM up to the rows."""
        self.text.refresh()
        self.sessions.clear()
        self.session_numbers.clear()
        self.filled.clear()

    def count(self) -> int:
        """The number of memories, deleted ones included."""
        return int(self.rows.one("SELECT count(*) FROM memory") or 0)

    def is_intact(self) -> bool:
        """Whether it is undamaged, as far as a quick check finds out."""
        return bool(self.rows.one("PRAGMA quick_check") == "ok")

    @property
    def exists(self) -> bool:
        """Whether no process has deleted its folder."""
        return self.folder is None or os.path.exists(self.folder)

    @property
    def is_in_memory(self) -> bool:
        return self.folder is None

    # -- transactions

    def begin(self) -> None:
        self.rows.begin()
        self.echoes.forget()
        self._added, self._removed, self.added_count = [], [], 0

    def commit(self, *, more_to_come: bool = False) -> None:
        try:
            self.text.add(self._added, self._removed)
            if not more_to_come:
                self.rows.make_indexes()
            self.rows.commit()
            if self.added_count > _MANY:
                self.rows.truncate_wal()
        except BaseException:
            self.roll_back()
            raise
        self._added, self._removed = [], []

    def roll_back(self) -> None:
        self.rows.roll_back()
        self.rows.forget_names()
        self.text.forget()
        self.echoes.forget()
        self._added, self._removed = [], []

    # -- changes

    def extend(
        self,
        session: IndexedSession,
        histories: Iterable[RecordHistory],
        places: Callable[[RecordHistory], str],
        previous: dict[int, int] | None = None,
    ) -> None:
        """Add memories after all others of their session.

        `previous`: digests by doc of what the text index already has; what is taken over or replaced is removed from it.
        """
        old = {} if previous is None else previous
        number_of, first = self.rows.number_of, session.number << POSITION_BITS
        remaining = iter(histories)
        while batch := list(islice(remaining, _AT_ONCE)):
            numbered = enumerate(batch, first | session.size)
            documents = [
                index.documents.IndexDocument(doc, session.id, history, number_of, places(history))
                for doc, history in numbered
            ]
            session.size += len(batch)
            self._put(session, documents, old)
            if self.text.exceeds_tail(len(self._added)):
                self.text.feed(self._added, self._removed)
                self._added, self._removed = [], []

    def amend(
        self, session: IndexedSession, history: RecordHistory, doc: int, places: Callable[[RecordHistory], str]
    ) -> None:
        """Replace one memory, which has changed."""
        self.rows.remove_memory(doc)
        self.echoes.forget()
        self._removed.append(doc)
        self._put(
            session, [index.documents.IndexDocument(doc, session.id, history, self.rows.number_of, places(history))], {}
        )

    def replace(
        self,
        session: IndexedSession,
        histories: Iterable[RecordHistory],
        places: Callable[[RecordHistory], str],
    ) -> None:
        """Replace all memories of a session. Those whose text is unchanged stay in the text index."""
        first = session.number << POSITION_BITS
        last = first | (1 << POSITION_BITS) - 1
        accesses = self.rows.remove_accesses(first, last)  # positions may shift: access counts stay with their memory
        previous = self.rows.remove_range(first, last)
        if previous:
            self.echoes.forget()
        session.size = session.last = 0
        self.extend(session, histories, places, previous)
        self.rows.restore_accesses(session.number, accesses)
        self._removed += previous

    def remove(self, session: IndexedSession) -> None:
        self.replace(session, (), str)
        self.rows.remove_session(session.number)

    def _put(self, session: IndexedSession, documents: list[IndexDocument], previous: dict[int, int]) -> None:
        rows = self.rows
        rows.put([document.row for document in documents])
        self.added_count += len(documents)
        tags, topics, relations, accesses, validities, successions, wishes, prompts = [], [], [], [], [], [], [], []
        for document in documents:
            doc, created = document.row[0], document.row[3]
            session.last = max(session.last, document.last_change)
            tags += [(tag, doc) for tag in document.tags]
            if document.topic:
                topics.append((document.topic, doc))
            relations += [(doc, *relation) for relation in document.relations]
            if document.wish:
                wishes.append((doc, created))
            if document.prompt:
                prompts.append((doc, packed_text(document.prompt)))
            if document.validity is not None:
                validities.append((doc, *document.validity))
            successions += [(*old, *new, doc) for old, new in document.successions]
            if document.access is not None:
                accesses.append((doc, *document.access))
            if doc in previous:
                if previous.pop(doc) == document.row[15]:  # the digest: nothing changed for the text index
                    continue
                self._removed.append(doc)  # its old terms are removed before the new ones are added
            self._added.append((doc, document.terms, document.labels, created, document.facts))
        for into, values in (
            ("OR IGNORE INTO tag VALUES (?,?)", tags),
            ("OR IGNORE INTO topic VALUES (?,?)", topics),
            ("OR IGNORE INTO relation VALUES (?,?,?,?)", relations),
            ("OR IGNORE INTO wish VALUES (?,?)", wishes),
            ("OR IGNORE INTO prompt VALUES (?,?)", prompts),
            ("OR REPLACE INTO validity VALUES (?,?,?)", validities),
            ("OR IGNORE INTO succession VALUES (?,?,?,?,?)", successions),
        ):
            if values:
                rows.do_many(f"INSERT {into}", values)
        if accesses:
            rows.merge_accesses(accesses)
        self.echoes.put(documents)

    def count_accesses(self, accesses: Iterable[tuple[str, float]]) -> None:
        """Count accesses: memory (`session/ID`) and time in seconds."""
        numbers = {name: number for number, name in self.rows.session_names().items()}
        split = ((name.rpartition("/"), seconds) for name, seconds in accesses)
        self.rows.do_many(
            "INSERT INTO access SELECT doc, 1, ? FROM memory WHERE doc >> 24 = ? AND id = ? "
            "ON CONFLICT(doc) DO UPDATE SET count = count + 1, last = max(last, excluded.last)",
            ((int(seconds * 1_000_000), numbers.get(session, -1), id) for (session, _, id), seconds in split),
        )

    def snapshot(self) -> dict[str, Any]:
        """Everything in the index about each memory, to compare two indexes."""
        names = self.rows.session_names()
        found: dict[str, Any] = {}
        for row in self.rows.select("1", (), "doc", -1):
            values = {name: value for name, value in row._asdict().items() if name not in _NOT_COMPARABLE}
            values["author"] = row.author and self.rows.name_of(row.author)
            values["facts"] = row.facts & TRAITS
            values["position"] = row.doc & (1 << POSITION_BITS) - 1
            values["tags"] = [
                tag for (tag,) in self.rows.all("SELECT tag FROM tag WHERE doc = ? ORDER BY 1", (row.doc,))
            ]
            values["relations"] = self.rows.all(
                "SELECT kind, session, target FROM relation WHERE source = ?", (row.doc,)
            )
            values["validity"] = self.rows.all("SELECT since, until FROM validity WHERE doc = ?", (row.doc,))
            values["successions"] = self.rows.all(
                "SELECT session, id, new_session, new_id FROM succession WHERE source = ?", (row.doc,)
            )
            found[f"{names[row.doc >> POSITION_BITS]}/{row.id}"] = values
        return found


# -- unreadable entries: a query that finds the index up to date does not read the session, and still has to say what is missing


def save_problems(index: Index, session: str, problems: Iterable[Problem], *, grown: bool) -> None:
    """Save a session's errors in the index; `grown`: add those in appended entries to the saved ones."""
    kept = [problem.to_dict() for problem in incomplete.errors(problems)]
    if grown:
        if not kept:
            return
        kept = json.loads(index.rows.meta(PROBLEMS + session, "[]")) + kept
    if kept:
        index.rows.set_meta(PROBLEMS + session, json.dumps(kept[:_MAX_PROBLEMS]))
    else:
        index.rows.do("DELETE FROM meta WHERE key = ?", (PROBLEMS + session,))


def load_problems(rows: Rows, sessions: Iterable[str] | None) -> dict[str, list[Problem]]:
    """The errors saved in the index, by session (None: of all sessions)."""
    found = rows.all("SELECT key, value FROM meta WHERE key BETWEEN ? AND ?", (PROBLEMS, PROBLEMS + "\x7f"))
    if not found:
        return {}
    selected = None if sessions is None else set(sessions)
    return {
        key[len(PROBLEMS) :]: [_problem(**each) for each in json.loads(value)]
        for key, value in found
        if selected is None or key[len(PROBLEMS) :] in selected
    }


def _problem(
    path: str, line: int, code: str, severity: str, id: str | None, message: str, archived: str | None = None
) -> Problem:
    return Problem(path, line, code, message, severity, id, archived)
