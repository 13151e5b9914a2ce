"""How do we find it fast? One object that takes memories in and answers for them.

Guarantees: `take_in` and `replace` leave exactly the rows that a rebuild from the same files would leave (the tests
compare them). All changes between `begin` and `commit` appear together.
"""

from __future__ import annotations

import os
import time
from itertools import islice, repeat

from smp_memory.index.documents import DocumentShape, facts_in
from smp_memory.index.rows import POSITION_BITS, IndexUnusable, Rows
from smp_memory.index.text import TextIndex
from smp_memory.index.vectors import Vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from smp_memory.index.rows import Known
    from smp_memory.model.history import RecordHistory

    class Embedder(Protocol):
        """What makes vectors of texts: `smp_memory.index.embeddings`, or another one in tests."""

        MODEL: str

        def embed(self, texts: Sequence[str]) -> Any: ...


ROWS_FILE = "rows.sqlite"
_PREFIX = "index-"
_OF_ONE_INDEX = ("doc", "places", "author", "digest", "facts")  # with numbers that another one may give differently
_MANY = 2000
_AT_ONCE = 500  # memories: so few that what is made of them is still at hand when it is written


def current_folder(base: str) -> str:
    """The folder of the index that all processes use, below a base; made if there is none.

    Each index has a folder of its own: SQLite finds its files by their names, so a name must not be used again as long
    as somebody has the old files open.
    """
    try:
        for folder in (os.path.dirname(base), base):  # not those above: a store that was moved away is not made anew
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                pass
        if not _folders(base):
            os.mkdir(os.path.join(base, f"{_PREFIX}{time.time_ns():020}-{os.urandom(4).hex()}"), 0o700)
        return os.path.join(base, _folders(base)[0])
    except (OSError, IndexError) as error:
        raise IndexUnusable(str(error)) from error


def discard(folder: str) -> None:
    """Throw an index away; who has it open keeps its files until he sees that it is not there."""
    gone = os.path.join(os.path.dirname(folder), f"gone-{os.urandom(4).hex()}")
    try:
        os.rename(folder, gone)
    except OSError:
        return
    from shutil import rmtree

    rmtree(gone, ignore_errors=True)


def discard_all(base: str) -> None:
    """Throw away every index below a base, also what earlier ones left behind."""
    from shutil import rmtree

    for name in os.listdir(base):
        path = os.path.join(base, name)
        if name.startswith(_PREFIX):
            discard(path)
        else:
            rmtree(path, ignore_errors=True)


def _folders(base: str) -> list[str]:
    """The oldest is the one that counts: two processes may have made one at the same time."""
    return sorted(name for name in os.listdir(base) if name.startswith(_PREFIX))


class Index:
    def __init__(self, folder: str | None, embedder: Embedder | None = None) -> None:
        """Open or create the index in a folder, or one in RAM; without an embedder it knows words alone."""
        self.folder = folder
        self.embedder = embedder
        if folder is not None:
            try:
                os.makedirs(folder, 0o700, exist_ok=True)
            except OSError as error:
                raise IndexUnusable(str(error)) from error
        self.rows = Rows(":memory:" if folder is None else os.path.join(folder, ROWS_FILE))
        self.text = TextIndex(self.rows, folder)
        self.vectors = Vectors(self.rows, folder, embedder.MODEL) if embedder is not None else None
        self._fresh: list[tuple[int, str, str, int, int]] = []
        self._gone: list[int] = []
        self.taken = 0  # memories since `begin`

    def close(self) -> None:
        self.rows.close()

    @property
    def is_there(self) -> bool:
        """Whether nobody has thrown it away."""
        return self.folder is None or os.path.exists(self.folder)

    @property
    def is_private(self) -> bool:
        return self.folder is None

    # -- transactions

    def begin(self) -> None:
        self.rows.begin()
        self._fresh, self._gone, self.taken = [], [], 0

    def commit(self, *, more_to_come: bool = False) -> None:
        try:
            self.text.add(self._fresh, self._gone)
            if not more_to_come:
                self.rows.make_indexes()
            self.rows.commit()
            if self.taken > _MANY:
                self.rows.save_space()
        except BaseException:
            self.roll_back()
            raise
        self._fresh, self._gone = [], []

    def roll_back(self) -> None:
        self.rows.roll_back()
        self.rows.forget_names()
        self.text.forget()
        self._fresh, self._gone = [], []

    # -- taking in

    def extend(
        self,
        known: Known,
        histories: Iterable[RecordHistory],
        places: Callable[[RecordHistory], str],
        before: dict[int, int] | None = None,
        words: Sequence[str] = (),
    ) -> None:
        """Memories that come after all others of their session; words that were there `before` are taken out of it.

        `words` of all of them, if somebody has made them.
        """
        old = {} if before is None else before
        number_of, first = self.rows.number_of, known.number << POSITION_BITS
        remaining = zip(histories, words or repeat(None), strict=False)
        while some := list(islice(remaining, _AT_ONCE)):
            numbered = enumerate(some, first | known.size)
            shapes = [
                DocumentShape(doc, known.id, history, number_of, places(history), said)
                for doc, (history, said) in numbered
            ]
            known.size += len(some)
            self._put(known, shapes, old)
            if self.text.are_many(len(self._fresh)):
                self.text.feed(self._fresh, self._gone)
                self._fresh, self._gone = [], []

    def amend(self, known: Known, history: RecordHistory, doc: int, places: Callable[[RecordHistory], str]) -> None:
        """A memory that is there has changed."""
        self.rows.take_out(doc)
        self._gone.append(doc)
        self._put(known, [DocumentShape(doc, known.id, history, self.rows.number_of, places(history))], {})

    def replace(
        self,
        known: Known,
        histories: Iterable[RecordHistory],
        places: Callable[[RecordHistory], str],
        words: Sequence[str] = (),
    ) -> None:
        """A whole session anew. What is as it was is left alone in the text index."""
        first = known.number << POSITION_BITS
        last = first | (1 << POSITION_BITS) - 1
        accesses = self.rows.take_accesses(first, last)  # positions may shift: what was used stays with its memory
        before = self.rows.remove_between(first, last)
        known.size = known.last = 0
        self.extend(known, histories, places, before, words)
        self.rows.put_accesses(known.number, accesses)
        self._gone += before

    def remove(self, known: Known) -> None:
        self.replace(known, (), str)
        self.rows.remove_session(known.number)

    def _put(self, known: Known, shapes: list[DocumentShape], before: dict[int, int]) -> None:
        rows = self.rows
        rows.put([shape.row for shape in shapes])
        self.taken += len(shapes)
        tags, topics, relations, accesses = [], [], [], []
        for shape in shapes:
            doc, created = shape.row[0], shape.row[3]
            known.last = max(known.last, shape.last_change)
            tags += [(tag, doc) for tag in shape.tags]
            if shape.topic:
                topics.append((shape.topic, doc))
            relations += [(doc, *relation) for relation in shape.relations]
            if shape.access is not None:
                accesses.append((doc, *shape.access))
            if doc in before:
                if before.pop(doc) == shape.row[15]:
                    continue
                self._gone.append(doc)  # its old words go before its new ones come
            self._fresh.append((doc, shape.terms, shape.labels, created, shape.facts))
        if tags:
            rows.do_many("INSERT OR IGNORE INTO tag VALUES (?,?)", tags)
        if topics:
            rows.do_many("INSERT OR IGNORE INTO topic VALUES (?,?)", topics)
        if relations:
            rows.do_many("INSERT OR IGNORE INTO relation VALUES (?,?,?,?)", relations)
        if accesses:
            rows.know_accesses(accesses)

    def count_accesses(self, noted: Iterable[tuple[str, float]]) -> None:
        """Memories (`session/ID`) that were used, and when, in seconds."""
        numbers = {name: number for number, name in self.rows.session_names().items()}
        split = ((name.rpartition("/"), seconds) for name, seconds in noted)
        self.rows.do_many(
            "INSERT INTO access SELECT doc, 1, ? FROM memory WHERE doc >> 24 = ? AND id = ? "
            "ON CONFLICT(doc) DO UPDATE SET count = count + 1, last = max(last, excluded.last)",
            ((int(seconds * 1_000_000), numbers.get(session, -1), id) for (session, _, id), seconds in split),
        )

    # -- looking

    def snapshot(self) -> dict[str, Any]:
        """Everything the index knows of the memories, for comparing two of them."""
        names = self.rows.session_names()
        found: dict[str, Any] = {}
        for row in self.rows.select("1", (), "doc", -1):
            values = {name: value for name, value in row._asdict().items() if name not in _OF_ONE_INDEX}
            values["author"] = row.author and self.rows.name_of(row.author)
            values["facts"] = *facts_in(row.facts)[:3], facts_in(row.facts)[4]
            values["position"] = row.doc & (1 << POSITION_BITS) - 1
            values["tags"] = [
                tag for (tag,) in self.rows.all("SELECT tag FROM tag WHERE doc = ? ORDER BY 1", (row.doc,))
            ]
            values["relations"] = self.rows.all(
                "SELECT kind, session, target FROM relation WHERE source = ?", (row.doc,)
            )
            found[f"{names[row.doc >> POSITION_BITS]}/{row.id}"] = values
        return found
