"""Vectors of memories, in files beside tantivy's, and nearest-neighbour search over them.

The vectors follow the rows: `missing` returns the memories without a vector of their current state, and `add` appends
theirs. The number of valid vectors is in the rows, so vectors become visible with the rows' commit; what a crash or a
rolled-back transaction left behind is overwritten. The last vector of a memory counts.

A search first compares signs (32 bytes for each memory, about 20 ms for a million), then the best ones exactly.

Files: three arrays in a folder of their own, or in RAM, only written at their end. Files that are not as expected
raise OSError, ValueError or KeyError inside this module.

Guarantees: files that are missing, short, or of another model count as empty; then all memories lack a vector.
Non-guarantees: a vector of a removed memory may still be found; its row is not. After a power loss some vectors may
be zeros, which nothing is near to.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.index.rows import Rows


PREFIX = "meaning-"
KEYS, SIGNS, VECTORS = "docs", "signs", "vectors"  # doc and digest; one bit for each dimension; the vectors
_BYTES = {"int64": 8, "uint64": 8, "int8": 1}
_FORMS = {KEYS: ("int64", 2), SIGNS: ("uint64", 4), VECTORS: ("int8", 256)}


class VectorFiles:
    """Vectors in three files. Folder names are never reused, because a process may have the old files mapped."""

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
        """Write arrays after the first `count` items of each file, over whatever follows them."""
        for part, array in arrays.items():
            handle = os.open(os.path.join(self._folder, name, part), os.O_WRONLY | os.O_CREAT, 0o600)
            with open(handle, "wb") as file:
                file.seek(count * array.itemsize * array.shape[1])
                file.write(array.tobytes())

    def check(self, name: str, count: int) -> None:
        """Raise if a file is too short: reading a mapped file beyond its end would kill the process."""
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
    """Vectors of an index in RAM."""

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


_EXACTLY = 2000  # up to so many vectors are compared exactly
_SHORTLIST = 1000  # of more, those nearest by signs
_OVERLAY = 4096  # new vectors kept apart before all docs are sorted again
_WASTE = 10_000


class Vectors:
    """The vectors of one index."""

    def __init__(self, rows: Rows, folder: str | None, model: str) -> None:
        """The vectors of these rows, in RAM if `folder` is None. Loads and reads nothing yet."""
        self._rows = rows
        self._model = model
        self._files: VectorFiles | VectorArrays = VectorFiles(folder) if folder is not None else VectorArrays()
        self._known: tuple[str, int] = ("", 0)  # the files, and the number of vectors in them
        self._docs: Any = None  # sorted and unique; `_places` has the position of each one's last vector
        self._places: Any = None
        self._overlay: dict[int, int] = {}  # positions of the vectors added since
        self._keys: Any = None
        self._signs: Any = None
        self._vectors: Any = None

    # -- synchronisation with the rows

    @property
    def is_caught_up(self) -> bool:
        """Whether every memory has its vector, and the files are complete."""
        return bool(self._rows.meta("meaning", "") == self._state()) and self._refresh()

    def _state(self) -> str:
        return f"{self._model} {self._rows.meta('generation', 0)} {self._rows.meta('tail_version', 0)}"

    def missing(self) -> list[tuple[int, int]]:
        """Memories without a vector of their current state: doc and digest. Call in a transaction of the rows.

        If there was no merge of the text index since the vectors were complete, only unindexed memories can lack theirs.
        """
        import numpy

        rows = self._rows
        model, _, rest = str(rows.meta("meaning", "")).partition(" ")
        is_there = self._refresh() and model == self._model
        if not is_there or self._known[1] > _WASTE + 2 * int(rows.one("SELECT count(*) FROM memory") or 0):
            self._create_files()
        only_new = is_there and rest.split(" ")[0] == str(rows.meta("generation", 0))
        candidates = rows.all(
            f"SELECT doc, digest FROM memory {'WHERE doc IN (SELECT doc FROM recent)' if only_new else ''} ORDER BY doc"
        )
        places = self._places_of(numpy.array([doc for doc, _ in candidates], numpy.int64))
        digests = self._keys[places, 1] if self._known[1] else places
        return [
            each
            for each, place, digest in zip(candidates, places.tolist(), digests.tolist(), strict=True)
            if place < 0 or digest != each[1]
        ]

    def _create_files(self) -> None:
        """Create new, empty files."""
        self._rows.set_meta("meaning", f"{self._model} -1 -1")  # no generation: all memories are compared
        self._rows.set_meta("meaning_files", self._files.new())
        self._rows.set_meta("meaning_count", 0)
        self.forget()
        self._refresh()

    def add(self, keys: Sequence[tuple[int, int]], vectors: Any) -> None:
        """Append vectors of memories (doc and digest), in a transaction of the rows, which commits after it."""
        import numpy

        count = int(self._rows.meta("meaning_count", 0))
        self._files.write(
            str(self._rows.meta("meaning_files", "")),
            count,
            {
                KEYS: numpy.array(keys, numpy.int64).reshape(-1, 2),
                SIGNS: numpy.packbits(vectors > 0, axis=1).view(numpy.uint64),
                VECTORS: vectors,
            },
        )
        self._rows.set_meta("meaning_count", count + len(keys))

    def mark_caught_up(self) -> None:
        self._rows.set_meta("meaning", self._state())

    def forget(self) -> None:
        """Drop cached state: a transaction was rolled back, or files are gone."""
        self._known = ("", 0)
        self._keys = self._signs = self._vectors = None

    def _refresh(self) -> bool:
        """Load as many vectors as the rows have; False if the files are not as expected."""
        name, count = str(self._rows.meta("meaning_files", "")), int(self._rows.meta("meaning_count", 0))
        try:
            self._files.check(name, count)
            if (name, count) == self._known and self._keys is not None:
                return True
            self._keys, self._signs, self._vectors = self._files.read(name, count)
        except (OSError, ValueError, KeyError):
            self.forget()
            return False
        old, before = self._known
        if old == name and before <= count and count - before + len(self._overlay) <= _OVERLAY:
            new = self._keys[before:count, 0].tolist()
            self._overlay.update(zip(new, range(before, count), strict=True))
        else:
            self._sort_docs()
        self._known = (name, count)
        return True

    def _sort_docs(self) -> None:
        import numpy

        docs = numpy.ascontiguousarray(self._keys[:, 0])
        order = numpy.argsort(docs, kind="stable")
        docs = docs[order]
        is_last = numpy.append(docs[1:] != docs[:-1], [True] * bool(len(docs))).astype(bool)
        self._docs, self._places, self._overlay = docs[is_last], order[is_last], {}

    # -- searching

    def nearest(self, vector: Any, limit: int, docs: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The memories nearest to a vector, all or only these docs: doc and cosine, best first."""
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
        near = self._keys[places[order], 0]
        order = order[self._places_of(near) == places[order]][:limit]  # the last vector of a memory counts
        docs_found = self._keys[places[order], 0]
        return list(zip(docs_found.tolist(), cosines[order].tolist(), strict=True))

    def cosines(self, vector: Any, docs: Sequence[int]) -> dict[int, float]:
        """The similarity of these memories, 0 to 1; those without a vector are left out."""
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

        query = numpy.asarray(vector, numpy.float32)
        vectors = self._vectors[places].astype(numpy.float32)
        lengths = numpy.sqrt((vectors * vectors).sum(axis=1)) * numpy.sqrt((query * query).sum())
        return (vectors @ query) / numpy.maximum(lengths, 1e-9)

    def _places_of(self, docs: Any) -> Any:
        """The position of each doc's vector; -1 without one."""
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
