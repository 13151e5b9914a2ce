"""Vectors of memories, in files beside tantivy's, and nearest-neighbour search over them.

The vectors follow the rows: `missing` returns memories without a vector of their current state, and `add` appends
theirs. Each model has a set of its own (table `vector_set`), so the vectors of one model can be used while those of another are made.
The rows know the place of each memory's vector (table `vector`) and the number of valid ones, so vectors become visible with
the rows' commit; what a crash or a rolled-back transaction left behind is overwritten.

A search first compares signs (32 bytes for each memory), then the best ones exactly. Vectors are signed bytes.

Files: signs and vectors in a folder of their own, or in RAM, only written at their end. Files that are not as expected
raise OSError, ValueError or KeyError inside this module.

Guarantees: files that are missing or short, and a set of a model that has changed, count as empty; then all memories lack a vector.
Non-guarantees: a vector of a removed memory may still be found; its row is not. After a power loss some vectors may
be zeros, which nothing is near to.
"""

from __future__ import annotations

import os
from collections import namedtuple
from mmap import ACCESS_READ, mmap
from operator import itemgetter

import simsimd

from smp_memory.index.embeddings import HIGH, LOW, SIGNED_DIMENSIONS, vector_widths
from smp_memory.index.embeddings import VECTORS_PREFIX as PREFIX
from smp_memory.index.rows import IndexBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any, NamedTuple

    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.rows import Rows


SIGNS, VECTORS = "signs", "vectors"
_SIGN = bytes(ord("1") if 0 < byte < 128 else ord("0") for byte in range(256))  # of a signed byte


class VectorFiles:
    """Vectors in two files. Folder names are never reused, because a process may have the old files mapped."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def new(self, kept: Collection[str]) -> str:
        """Make a folder; remove all others but those in `kept`."""
        from shutil import rmtree

        name = f"{PREFIX}{os.urandom(4).hex()}"
        os.mkdir(os.path.join(self._folder, name), 0o700)
        for other in os.listdir(self._folder):
            if other.startswith(PREFIX) and other != name and other not in kept:
                rmtree(os.path.join(self._folder, other), ignore_errors=True)
        return name

    def write(self, name: str, part: str, start: int, data: bytes) -> None:
        """Write bytes at a position, over whatever is there."""
        handle = os.open(os.path.join(self._folder, name, part), os.O_WRONLY | os.O_CREAT, 0o600)
        with open(handle, "wb") as file:
            file.seek(start)
            file.write(data)

    def check(self, name: str, part: str, size: int) -> None:
        """Raise if a file is too short: reading a mapped file beyond its end would kill the process."""
        if os.stat(os.path.join(self._folder, name, part)).st_size < size:
            raise ValueError(f"{name}/{part} is too short")

    def read(self, name: str, part: str, size: int) -> Any:
        with open(os.path.join(self._folder, name, part), "rb") as file:
            return mmap(file.fileno(), size, access=ACCESS_READ)


class VectorArrays:
    """Vectors of an index in RAM."""

    def __init__(self) -> None:
        self._parts: dict[str, bytes] = {}

    def new(self, kept: Collection[str]) -> str:
        self._parts = {}
        return f"{PREFIX}{os.urandom(4).hex()}"

    def write(self, name: str, part: str, start: int, data: bytes) -> None:
        self._parts[part] = self._parts.get(part, b"")[:start] + data

    def check(self, name: str, part: str, size: int) -> None:
        if len(self._parts[part]) < size:
            raise ValueError(part)

    def read(self, name: str, part: str, size: int) -> Any:
        return self._parts[part][:size]


_EXACTLY = 10_000  # up to so many vectors are compared exactly: it takes no longer than a shortlist of them
_SAMPLED = 16  # of so many numbers one
_SHORTLIST = 1000  # of more, those nearest by signs
_WASTE = 10_000
_SAME_MODEL = 0.99  # the cosine of one text's vectors now and when the files were made
_SLOWER = 1.25
_MOST_SETS = 3  # the static model, one that is replaced, and the one that replaces it
_ALL = 1 << 62  # larger than all docs
_SET = "SELECT no, probe, files, filled, load_ms, generation, below, tail FROM vector_set WHERE model = ?"
_PLACES = "SELECT doc, place FROM wanted CROSS JOIN vector ON vector.model = {} AND doc = wanted.no"
_DOCS = "SELECT place, doc FROM wanted CROSS JOIN vector ON vector.model = {} AND place = wanted.no"
_MISSING = """SELECT memory.doc, memory.digest FROM {} LEFT JOIN vector ON vector.model = ? AND vector.doc = memory.doc
    WHERE vector.digest IS NOT memory.digest AND memory.doc < ? ORDER BY {} DESC LIMIT ?"""
_MISSING_RECENT = _MISSING.format("recent CROSS JOIN memory ON memory.doc = recent.doc", "memory.created")
_MISSING_BELOW = _MISSING.format("memory", "memory.doc")

if TYPE_CHECKING:

    class VectorSet(NamedTuple):
        """What the rows know of the vectors of one model."""

        no: int
        probe: bytes  # the vector of a fixed text
        files: str
        filled: int  # vectors in the files
        load_ms: float  # CPU time that a process needed to load the model
        generation: int  # of the text index when the last pass over all memories began
        below: int  # the docs below it are still to be looked at in this pass
        tail: int  # the version of the unindexed memories that all have their vectors

else:
    VectorSet = namedtuple("VectorSet", "no probe files filled load_ms generation below tail")


class Vectors:
    """The vectors of one index by one model."""

    def __init__(self, rows: Rows, folder: str | None, embedder: Embedder) -> None:
        """The vectors of these rows, in RAM if `folder` is None. Loads and reads nothing yet."""
        self._rows = rows
        self.embedder = embedder
        self._files: VectorFiles | VectorArrays = VectorFiles(folder) if folder is not None else VectorArrays()
        self._known: tuple[int, str, int] = (0, "", 0)  # the set, its files, and the number of vectors in them
        self._parts: dict[str, Any] = {}

    # -- synchronisation with the rows

    @property
    def model(self) -> str:
        name, dimensions, _ = self.embedder.identity()
        return f"{name} {dimensions}"

    def _set(self) -> VectorSet | None:
        """The set of this model, which gives the same vector for the same text; None if there is none."""
        for row in self._rows.all(_SET, (self.model,)):
            probe, known = self.embedder.identity()[2], VectorSet(*row)
            if known.probe == probe or (
                len(known.probe) == len(probe) and _cosines(probe, known.probe, 1)[0] >= _SAME_MODEL
            ):
                return known
        return None

    @property
    def is_caught_up(self) -> bool:
        """Whether every memory has its vector, and the files are complete."""
        known = self._set()
        return known is not None and self._is_complete(known) and self._refresh(known)

    def _is_complete(self, known: VectorSet) -> bool:
        return (known.generation, known.below, known.tail) == (self._generation(), 0, self._tail())

    def _generation(self) -> int:
        return int(self._rows.meta("generation", 0))

    def _tail(self) -> int:
        return int(self._rows.meta("tail_version", 0))

    def lacks(self) -> int:
        """About how many memories have no vector of their current state."""
        known = self._set()
        if known is not None and self._is_complete(known):
            return 0
        having = self._rows.one("SELECT count(*) FROM vector WHERE model = ?", (known.no,)) if known is not None else 0
        return max(int(self._rows.one("SELECT count(*) FROM memory") or 0) - int(having or 0), 1)

    @property
    def load_ms(self) -> float:
        """CPU time to load the model as it was measured last, or as the model expects it."""
        known = self._set()
        return self.embedder.load_ms if known is None else known.load_ms

    def missing(self, limit: int) -> list[tuple[int, int]]:
        """Memories without a vector of their current state, new ones first: doc and digest. Call in a transaction of the rows.

        Unindexed memories come first. A pass over the others goes on where it stopped. After a merge of the text index there is another
        pass, because some memories may have been merged before they had vectors.
        """
        known = self._set()
        if known is None or not self._refresh(known) or self._is_wasteful(known):
            known = self._create()
        if known.tail != self._tail():
            found = self._rows.all(_MISSING_RECENT, (known.no, _ALL, limit))
            if found:
                return found
            self._update(known, tail=self._tail())
        while known.below or known.generation != self._generation():
            if not known.below:
                known = self._update(known, generation=self._generation(), below=_ALL)
            found = self._rows.all(_MISSING_BELOW, (known.no, known.below, limit))
            known = self._update(known, below=found[0][0] + 1 if found else 0)
            if found:
                return found
        return []

    def _is_wasteful(self, known: VectorSet) -> bool:
        if known.filled <= _WASTE:  # counting takes milliseconds in a large store
            return False
        return known.filled > _WASTE + 2 * int(self._rows.one("SELECT count(*) FROM memory") or 0)

    def _update(self, known: VectorSet, **values: Any) -> VectorSet:
        for name, value in values.items():
            self._rows.do(f"UPDATE vector_set SET {name} = ? WHERE no = ?", (value, known.no))
        return known._replace(**values)

    def _create(self) -> VectorSet:
        """Create a new, empty set in place of the one of this model, and of the oldest one if there are many."""
        newest = "SELECT no FROM vector_set WHERE model != ? ORDER BY no DESC LIMIT ?"
        others = self._rows.all(newest, (self.model, _MOST_SETS - 1))
        self._drop([no for (no,) in self._rows.all("SELECT no FROM vector_set") if (no,) not in others])
        kept = [name for (name,) in self._rows.all("SELECT files FROM vector_set")]
        values = (
            self.model,
            self.embedder.identity()[2],
            self._files.new(kept),
            self.embedder.load_ms,
            self._generation(),
            _ALL,
        )
        self._rows.do("INSERT INTO vector_set VALUES (NULL,?,?,?,0,?,?,?,-1)", values)
        self.forget()
        known = self._set()
        assert known is not None
        return known

    def _drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._rows.do("DELETE FROM vector WHERE model = ?", (number,))
            self._rows.do("DELETE FROM vector_set WHERE no = ?", (number,))

    def add(self, keys: Sequence[tuple[int, int]], vectors: bytes) -> None:
        """Append vectors of memories (doc and digest), in a transaction of the rows, which commits after it. May raise IndexBusy."""
        rows, dimensions, known = self._rows, self.embedder.identity()[1], self._set()
        if known is None:
            raise IndexBusy  # another process uses another model
        if len(vectors) != len(keys) * dimensions:
            raise ValueError(f"{len(vectors)} bytes for {len(keys)} vectors of {dimensions} dimensions")
        each = (vectors[start : start + dimensions] for start in range(0, len(vectors), dimensions))
        written = {SIGNS: b"".join(map(_signs, each)), VECTORS: vectors}
        for part, width in vector_widths(dimensions).items():
            self._files.write(known.files, part, known.filled * width, written[part])
        places = ((known.no, doc, digest, place) for place, (doc, digest) in enumerate(keys, known.filled))
        rows.do_many("INSERT OR REPLACE INTO vector VALUES (?,?,?,?)", places)
        load_ms = min(self.embedder.load_ms, _SLOWER * known.load_ms)  # one slow process on a busy machine says little
        self._update(known, filled=known.filled + len(keys), load_ms=load_ms)

    def forget(self) -> None:
        """Drop cached state: a transaction was rolled back, or files are gone."""
        self._known, self._parts = (0, "", 0), {}

    def _refresh(self, known: VectorSet | None = None) -> bool:
        """Map as many vectors as the rows have; False if the files are not as expected."""
        known = known or self._set()
        if known is None:
            self.forget()
            return False
        sizes = {part: known.filled * width for part, width in vector_widths(self.embedder.identity()[1]).items()}
        try:
            for part, size in sizes.items() if known.filled else ():
                self._files.check(known.files, part, size)
            if (known.no, known.files, known.filled) != self._known:
                read = self._files.read
                self._parts = {part: read(known.files, part, size) for part, size in sizes.items() if known.filled}
                self._known = known.no, known.files, known.filled
        except (OSError, ValueError, KeyError):
            self.forget()
            return False
        return True

    # -- searching

    def nearest(self, vector: bytes, limit: int, docs: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The memories nearest to a vector, all or only these docs: doc and cosine, best first."""
        if not self._refresh() or not self._known[2] or not any(vector):
            return []
        number, _, count = self._known
        if docs is not None:
            compared: Sequence[int] = sorted({place for _, place in self._places(docs)})
        elif count <= _EXACTLY:
            compared = range(count)
        else:
            compared = self._shortlist(vector, min(max(_SHORTLIST, 2 * limit), count))
        cosines = self._cosines(vector, compared)
        wanted = limit
        while True:
            near = {compared[at]: cosines[at] for at in _largest(cosines, wanted) if cosines[at] > 0}
            doc_of = dict(self._rows.of(_DOCS.format(number), list(near)))  # without vectors that were replaced
            found = [(doc_of[place], cosine) for place, cosine in near.items() if place in doc_of]
            if len(found) >= limit or len(near) < wanted:
                return found[:limit]
            wanted *= 4

    def similarities(self, vector: bytes, docs: Sequence[int]) -> dict[int, float]:
        """The similarity of these memories on the scale of all models, 0 to 1; those without a vector are left out."""
        if not docs or not self._refresh() or not self._known[2]:
            return {}
        places = sorted(self._places(docs), key=itemgetter(1))
        if not any(vector):
            return {doc: 0.0 for doc, _ in places}
        cosines = self._cosines(vector, [place for _, place in places])
        return self.scaled((doc, cosine) for (doc, _), cosine in zip(places, cosines, strict=True))

    def scaled(self, cosines: Iterable[tuple[int, float]]) -> dict[int, float]:
        """Cosines by doc on the scale of all models."""
        low, high = self.embedder.anchors
        slope = (HIGH - LOW) / (high - low)
        return {doc: min(max(LOW + (cosine - low) * slope, 0.0), 1.0) if cosine > 0 else 0.0 for doc, cosine in cosines}

    def _places(self, docs: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Doc and place of those memories that have a vector."""
        number, _, count = self._known
        return [(doc, place) for doc, place in self._rows.of(_PLACES.format(number), docs) if 0 <= place < count]

    def _shortlist(self, vector: bytes, size: int) -> list[int]:
        """The places of the vectors with the fewest signs unlike this one's."""
        signs = _signs(vector)
        own = memoryview(signs).cast("B", [1, len(signs)])
        all_signs = memoryview(self._parts[SIGNS]).cast("B", [self._known[2], len(signs)])
        unlike = memoryview(simsimd.cdist(own, all_signs, "hamming", dtype="bin8", out_dtype="uint8")).tobytes()
        places: list[int] = []
        find, add = unlike.find, places.append  # called a thousand times
        for different in range(256):
            place = find(different)
            while place >= 0 and size:
                add(place)
                size -= 1
                place = find(different, place + 1)
            if not size:
                break
        return sorted(places)

    def _cosines(self, vector: bytes, places: Sequence[int]) -> list[float]:
        vectors, width = self._parts[VECTORS], len(vector)
        if len(places) == self._known[2]:  # ascending and unique: all of them
            return _cosines(vector, vectors, len(places))
        return _cosines(
            vector, b"".join([vectors[place * width : (place + 1) * width] for place in places]), len(places)
        )


def to_signed_bytes(vector: Sequence[float]) -> bytes:
    """A vector of any length as signed bytes: the largest of its numbers becomes 127 or -127."""
    largest = max(abs(max(vector)), abs(min(vector)))
    if largest <= 0:
        return bytes(len(vector))
    factor = 127 / largest
    return bytes([round(number * factor) & 255 for number in vector])


def _largest(numbers: list[float], count: int) -> list[int]:
    """The places of the largest numbers, the largest first. A sample gives a bound, so that few are sorted."""
    places: Sequence[int] = range(len(numbers))
    if 4 * (count + _SAMPLED) < len(numbers):
        bound = sorted(numbers[::_SAMPLED], reverse=True)[2 * count // _SAMPLED + 1]
        above = [place for place, number in enumerate(numbers) if number >= bound]
        places = above if len(above) >= count else places
    return sorted(places, key=numbers.__getitem__, reverse=True)[:count]


def _cosines(vector: bytes, others: Any, count: int) -> list[float]:
    """The cosines of one vector with others that follow each other."""
    if not count:
        return []
    own = memoryview(vector).cast("b", [1, len(vector)])
    distances = simsimd.cdist(own, memoryview(others).cast("b", [count, len(vector)]), "cosine")
    found: Any = memoryview(distances).tolist()
    return [1.0 - distance for distance in found[0]]


def _signs(vector: bytes) -> bytes:
    width = vector_widths(len(vector))[SIGNS]
    return int(vector[:SIGNED_DIMENSIONS].translate(_SIGN), 2).to_bytes(width, "big")
