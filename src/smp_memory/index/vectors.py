"""Which memories are near to a vector? A vector for each memory, in files beside tantivy's.

The vectors follow the rows: `lacking` says which memories have none, or one of an earlier state, and `add` takes them in
at the end of the files. How many are there is in the rows, so they appear together with what the rows say, and what a
crash or a transaction that was given up left behind is written over. The last vector of a memory counts.

A search first compares signs (32 bytes for each memory, about 20 ms for a million), then the best ones exactly.

Guarantees: files that are missing, short, or of another model count as nothing; then all memories lack a vector.
Non-guarantees: a vector of a memory that is gone may still be found; its row is not. After a power loss some vectors may
be zeros, which nothing is near to.

Where do the vectors lie? Three arrays in a folder of their own, or in RAM.

They are only written at their end. How many of them count is for the caller to know; what stands behind is a leftover
and is written over. Raises OSError, ValueError or KeyError for files that are not there as they should be.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.index.rows import Rows


PREFIX = "meaning-"
HEADS, SIGNS, VECTORS = "docs", "signs", "vectors"  # doc and digest; one bit for each number; the numbers
_BYTES = {"int64": 8, "uint64": 8, "int8": 1}
_FORMS = {HEADS: ("int64", 2), SIGNS: ("uint64", 4), VECTORS: ("int8", 256)}


class VectorFiles:
    """Three files; names of folders are not used again, because somebody may have the old files mapped."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def new(self) -> str:
        from shutil import rmtree

        name = f"{PREFIX}{os.urandom(4).hex()}"
        os.mkdir(os.path.join(self._folder, name), 0o700)
        for other in os.listdir(self._folder):
            if other.startswith(PREFIX) and other != name:
                rmtree(os.path.join(self._folder, other), ignore_errors=True)
        return name

    def write(self, name: str, count: int, arrays: dict[str, Any]) -> None:
        """Put arrays behind the first `count` of each file, over whatever is there."""
        for part, array in arrays.items():
            handle = os.open(os.path.join(self._folder, name, part), os.O_WRONLY | os.O_CREAT, 0o600)
            with open(handle, "wb") as file:
                file.seek(count * array.itemsize * array.shape[1])
                file.write(array.tobytes())

    def check(self, name: str, count: int) -> None:
        """To look beyond the end of a file that is mapped would end the process."""
        if not name:
            raise KeyError(name)
        for part, (kind, width) in _FORMS.items() if count else ():
            if os.stat(os.path.join(self._folder, name, part)).st_size < count * width * _BYTES[kind]:
                raise ValueError(f"{name}/{part} is too short")

    def read(self, name: str, count: int) -> Iterator[Any]:
        import numpy

        for part, (kind, width) in _FORMS.items():
            path = os.path.join(self._folder, name, part)
            if count:
                yield numpy.memmap(path, kind, "r", shape=(count, width)).view(numpy.ndarray)
            else:
                yield numpy.zeros((0, width), kind)


class VectorArrays:
    """The same for an index that lives with its object."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def new(self) -> str:
        self._arrays = {}
        return f"{PREFIX}{os.urandom(4).hex()}"

    def write(self, name: str, count: int, arrays: dict[str, Any]) -> None:
        import numpy

        for part, array in arrays.items():
            before = self._arrays.get(part, array[:0])
            self._arrays[part] = numpy.concatenate([before[:count], array])

    def check(self, name: str, count: int) -> None:
        if not name:
            raise KeyError(name)

    def read(self, name: str, count: int) -> Iterable[Any]:
        import numpy

        return [self._arrays.get(part, numpy.zeros((0, width), kind))[:count] for part, (kind, width) in _FORMS.items()]


_EXACTLY = 2000  # up to so many are compared exactly
_SHORTLIST = 1000  # of more, so many that are nearest by their signs
_OVERLAY = 4096  # so many new ones are kept apart before all are put in order again
_WASTE = 10_000


class Vectors:
    def __init__(self, rows: Rows, folder: str | None, model: str) -> None:
        """What belongs to these rows; `folder` None keeps all in RAM. Loads and reads nothing yet."""
        self._rows = rows
        self._model = model
        self._files: VectorFiles | VectorArrays = VectorFiles(folder) if folder is not None else VectorArrays()
        self._known: tuple[str, int] = ("", 0)  # which files, how many of them
        self._docs: Any = None  # in order, each once; beside it the place of its last vector
        self._places: Any = None
        self._overlay: dict[int, int] = {}  # the same for what came later
        self._heads: Any = None
        self._signs: Any = None
        self._vectors: Any = None

    # -- keeping up with the rows

    @property
    def is_caught_up(self) -> bool:
        """Whether every memory has its vector, and the files are there."""
        return bool(self._rows.meta("meaning", "") == self._state()) and self._refresh()

    def _state(self) -> str:
        return f"{self._model} {self._rows.meta('generation', 0)} {self._rows.meta('tail_version', 0)}"

    def lacking(self) -> list[tuple[int, int]]:
        """Memories without a vector of their present state: doc and digest. Call in a transaction of the rows.

        If no words were merged since the vectors were caught up, only the newest can lack theirs.
        """
        import numpy

        rows = self._rows
        model, _, rest = str(rows.meta("meaning", "")).partition(" ")
        is_there = self._refresh() and model == self._model
        if not is_there or self._known[1] > _WASTE + 2 * int(rows.one("SELECT count(*) FROM memory") or 0):
            self._start()
        only_new = is_there and rest.split(" ")[0] == str(rows.meta("generation", 0))
        wanted = rows.all(
            f"SELECT doc, digest FROM memory {'WHERE doc IN (SELECT doc FROM recent)' if only_new else ''} ORDER BY doc"
        )
        places = self._places_of(numpy.array([doc for doc, _ in wanted], numpy.int64))
        digests = self._heads[places, 1] if self._known[1] else places
        return [
            each
            for each, place, digest in zip(wanted, places.tolist(), digests.tolist(), strict=True)
            if place < 0 or digest != each[1]
        ]

    def _start(self) -> None:
        """New files, with nothing in them."""
        self._rows.set_meta("meaning", f"{self._model} -1 -1")  # of no generation: what is there is compared
        self._rows.set_meta("meaning_files", self._files.new())
        self._rows.set_meta("meaning_count", 0)
        self.forget()
        self._refresh()

    def add(self, heads: Sequence[tuple[int, int]], vectors: Any) -> None:
        """Take in vectors of memories (doc and digest); in a transaction of the rows, which commits after it."""
        import numpy

        count = int(self._rows.meta("meaning_count", 0))
        self._files.write(
            str(self._rows.meta("meaning_files", "")),
            count,
            {
                HEADS: numpy.array(heads, numpy.int64).reshape(-1, 2),
                SIGNS: numpy.packbits(vectors > 0, axis=1).view(numpy.uint64),
                VECTORS: vectors,
            },
        )
        self._rows.set_meta("meaning_count", count + len(heads))

    def note_caught_up(self) -> None:
        self._rows.set_meta("meaning", self._state())

    def forget(self) -> None:
        """What we believe may not hold: a transaction was given up, or files are gone."""
        self._known = ("", 0)
        self._heads = self._signs = self._vectors = None

    def _refresh(self) -> bool:
        """Know as many as the rows know; False if the files are not there as they should be."""
        name, count = str(self._rows.meta("meaning_files", "")), int(self._rows.meta("meaning_count", 0))
        try:
            self._files.check(name, count)
            if (name, count) == self._known and self._heads is not None:
                return True
            self._heads, self._signs, self._vectors = self._files.read(name, count)
        except (OSError, ValueError, KeyError):
            self.forget()
            return False
        old, before = self._known
        if old == name and before <= count and count - before + len(self._overlay) <= _OVERLAY:
            new = self._heads[before:count, 0].tolist()
            self._overlay.update(zip(new, range(before, count), strict=True))
        else:
            self._put_in_order()
        self._known = (name, count)
        return True

    def _put_in_order(self) -> None:
        import numpy

        docs = numpy.ascontiguousarray(self._heads[:, 0])
        order = numpy.argsort(docs, kind="stable")
        docs = docs[order]
        is_last = numpy.append(docs[1:] != docs[:-1], [True] * bool(len(docs))).astype(bool)
        self._docs, self._places, self._overlay = docs[is_last], order[is_last], {}

    # -- searching

    def nearest(self, vector: Any, limit: int, docs: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The memories, or those among `docs`, that are nearest to a vector: doc and cosine, best first."""
        import numpy

        if not self._refresh():
            return []
        if docs is not None:
            places = self._places_of(numpy.array(docs, numpy.int64))
            places = numpy.unique(places[places >= 0])
        elif self._known[1] <= _EXACTLY:
            places = numpy.arange(self._known[1])
        else:
            places = self._shortlist(vector, max(_SHORTLIST, 2 * limit))
        cosines = self._cosines(vector, places)
        order = numpy.lexsort((places, -cosines))
        order = order[cosines[order] > 0]
        near = self._heads[places[order], 0]
        order = order[self._places_of(near) == places[order]][:limit]  # the last vector of a memory counts
        docs_found = self._heads[places[order], 0]
        return list(zip(docs_found.tolist(), cosines[order].tolist(), strict=True))

    def cosines(self, vector: Any, docs: Sequence[int]) -> dict[int, float]:
        """How near these memories are, 0 to 1; those without a vector are left out."""
        import numpy

        if not docs or not self._refresh():
            return {}
        places = self._places_of(numpy.array(docs, numpy.int64))
        near = self._cosines(vector, numpy.maximum(places, 0)) if self._known[1] else places
        pairs = zip(docs, places.tolist(), near.tolist(), strict=True)
        return {doc: min(max(cosine, 0.0), 1.0) for doc, place, cosine in pairs if place >= 0}

    def _shortlist(self, vector: Any, size: int) -> Any:
        import numpy

        signs = numpy.packbits(vector > 0).view(numpy.uint64)
        unlike = numpy.bitwise_count(self._signs ^ signs)
        total = unlike[:, 0].astype(numpy.uint16)
        for column in range(1, unlike.shape[1]):
            total += unlike[:, column]
        size = min(size, len(total) - 1)
        return numpy.sort(numpy.argpartition(total, size)[:size])

    def _cosines(self, vector: Any, places: Any) -> Any:
        import numpy

        asked = numpy.asarray(vector, numpy.float32)
        vectors = self._vectors[places].astype(numpy.float32)
        lengths = numpy.sqrt((vectors * vectors).sum(axis=1)) * numpy.sqrt((asked * asked).sum())
        return (vectors @ asked) / numpy.maximum(lengths, 1e-9)

    def _places_of(self, docs: Any) -> Any:
        """Where the vector of each doc is; -1: nowhere."""
        import numpy

        if self._docs is None or not len(self._docs):
            places = numpy.full(len(docs), -1, numpy.int64)
        else:
            at = numpy.minimum(numpy.searchsorted(self._docs, docs), len(self._docs) - 1)
            places = numpy.where(self._docs[at] == docs, self._places[at], -1)
        if self._overlay:
            for number, doc in enumerate(docs.tolist()):
                places[number] = self._overlay.get(doc, places[number])
        return places
