"""Vectors of memories, in files beside tantivy's, and nearest-neighbour search over them.

The vectors follow the rows: `missing` returns the memories without a vector of their current state, and `add` appends
theirs. The rows know the place of each memory's vector (table `vector`) and the number of valid ones, so vectors become visible with
the rows' commit; what a crash or a rolled-back transaction left behind is overwritten.

A search first compares signs (32 bytes for each memory), then the best ones exactly. Vectors are signed bytes.

Files: signs and vectors in a folder of their own, or in RAM, only written at their end. Files that are not as expected
raise OSError, ValueError or KeyError inside this module.

Guarantees: files that are missing, short, or of another model count as empty; then all memories lack a vector.
Non-guarantees: a vector of a removed memory may still be found; its row is not. After a power loss some vectors may
be zeros, which nothing is near to.
"""

from __future__ import annotations

import os
from mmap import ACCESS_READ, mmap

import simsimd

from smp_memory.index.embeddings import SIGNED_DIMENSIONS, vector_widths
from smp_memory.index.embeddings import VECTORS_PREFIX as PREFIX
from smp_memory.index.rows import IndexBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.rows import Rows


SIGNS, VECTORS = "signs", "vectors"
_SIGN = bytes(ord("1") if 0 < byte < 128 else ord("0") for byte in range(256))  # of a signed byte


class VectorFiles:
    """Vectors in two files. Folder names are never reused, because a process may have the old files mapped."""

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

    def new(self) -> str:
        self._parts = {}
        return f"{PREFIX}{os.urandom(4).hex()}"

    def write(self, name: str, part: str, start: int, data: bytes) -> None:
        self._parts[part] = self._parts.get(part, b"")[:start] + data

    def check(self, name: str, part: str, size: int) -> None:
        if len(self._parts[part]) < size:
            raise ValueError(part)

    def read(self, name: str, part: str, size: int) -> Any:
        return self._parts[part][:size]


_EXACTLY = 2000  # up to so many vectors are compared exactly
_SHORTLIST = 1000  # of more, those nearest by signs
_WASTE = 10_000
_SAME_MODEL = 0.99  # the cosine of one text's vectors now and when the files were made
_STATE = "SELECT key, value FROM meta WHERE key IN ('meaning_files', 'meaning_count', 'meaning_model')"
_PLACES = "SELECT doc, place FROM wanted CROSS JOIN vector ON doc = wanted.no"
_DOCS = "SELECT place, doc FROM wanted CROSS JOIN vector ON place = wanted.no"
_MISSING = """SELECT memory.doc, memory.digest FROM memory LEFT JOIN vector ON vector.doc = memory.doc
    WHERE vector.digest IS NOT memory.digest"""


class Vectors:
    """The vectors of one index."""

    def __init__(self, rows: Rows, folder: str | None, embedder: Embedder) -> None:
        """The vectors of these rows, in RAM if `folder` is None. Loads and reads nothing yet."""
        self._rows = rows
        self._embedder = embedder
        self._files: VectorFiles | VectorArrays = VectorFiles(folder) if folder is not None else VectorArrays()
        self._known: tuple[str, int] = ("", 0)  # the files, and the number of vectors in them
        self._parts: dict[str, Any] = {}

    # -- synchronisation with the rows

    @property
    def is_caught_up(self) -> bool:
        """Whether every memory has its vector, and the files are complete."""
        return bool(self._rows.meta("meaning", "") == self._state()) and self._is_of_model() and self._refresh()

    def _state(self) -> str:
        return f"{self._rows.meta('generation', 0)} {self._rows.meta('tail_version', 0)}"

    def _has_name_of_model(self) -> bool:
        name, dimensions, _ = self._embedder.identity()
        return bool(self._rows.meta("meaning_model", "") == f"{name} {dimensions}")

    def _is_of_model(self) -> bool:
        """Whether the files were made by the same model, which gives the same vector for the same text."""
        probe, known = self._embedder.identity()[2], self._rows.meta("meaning_probe", b"")
        is_same = known == probe or (len(known) == len(probe) and _cosines(probe, known, 1)[0] >= _SAME_MODEL)
        return self._has_name_of_model() and is_same

    def missing(self) -> list[tuple[int, int]]:
        """Memories without a vector of their current state: doc and digest. Call in a transaction of the rows.

        If there was no merge of the text index since the vectors were complete, only unindexed memories can lack theirs.
        """
        rows = self._rows
        is_there = self._is_of_model() and self._refresh()
        if not is_there or self._known[1] > _WASTE + 2 * int(rows.one("SELECT count(*) FROM memory") or 0):
            self._create_files()
        only_new = str(rows.meta("meaning", "")).split(" ")[0] == str(rows.meta("generation", 0))
        recent = "AND memory.doc IN (SELECT doc FROM recent)" if only_new else ""
        return rows.all(f"{_MISSING} {recent} ORDER BY memory.doc")

    def _create_files(self) -> None:
        """Create new, empty files."""
        name, dimensions, probe = self._embedder.identity()
        self._rows.set_meta("meaning", "")  # no generation: all memories are compared
        self._rows.set_meta("meaning_model", f"{name} {dimensions}")
        self._rows.set_meta("meaning_probe", probe)
        self._rows.set_meta("meaning_files", self._files.new())
        self._rows.set_meta("meaning_count", 0)
        self._rows.do("DELETE FROM vector")
        self.forget()

    def add(self, keys: Sequence[tuple[int, int]], vectors: bytes) -> None:
        """Append vectors of memories (doc and digest), in a transaction of the rows, which commits after it. May raise IndexBusy."""
        rows, dimensions = self._rows, self._embedder.identity()[1]
        name, count = str(rows.meta("meaning_files", "")), int(rows.meta("meaning_count", 0))
        if not self._has_name_of_model():
            raise IndexBusy  # another process uses another model
        if len(vectors) != len(keys) * dimensions:
            raise ValueError(f"{len(vectors)} bytes for {len(keys)} vectors of {dimensions} dimensions")
        each = (vectors[start : start + dimensions] for start in range(0, len(vectors), dimensions))
        written = {SIGNS: b"".join(map(_signs, each)), VECTORS: vectors}
        for part, width in vector_widths(dimensions).items():
            self._files.write(name, part, count * width, written[part])
        places = ((doc, digest, place) for place, (doc, digest) in enumerate(keys, count))
        rows.do_many("INSERT OR REPLACE INTO vector VALUES (?,?,?)", places)
        rows.set_meta("meaning_count", count + len(keys))

    def mark_caught_up(self) -> None:
        self._rows.set_meta("meaning", self._state())

    def forget(self) -> None:
        """Drop cached state: a transaction was rolled back, or files are gone."""
        self._known, self._parts = ("", 0), {}

    def _refresh(self) -> bool:
        """Map as many vectors as the rows have; False if the files are not as expected."""
        model, dimensions, _ = self._embedder.identity()
        known = dict(self._rows.each(_STATE))
        name, count = str(known.get("meaning_files", "")), int(known.get("meaning_count", 0))
        sizes = {part: count * width for part, width in vector_widths(dimensions).items()}
        try:
            if known.get("meaning_model") != f"{model} {dimensions}":
                raise KeyError(model)
            for part, size in sizes.items() if count else ():
                self._files.check(name, part, size)
            if (name, count) != self._known:
                self._parts = {part: self._files.read(name, part, size) for part, size in sizes.items() if count}
                self._known = name, count
        except (OSError, ValueError, KeyError):
            self.forget()
            return False
        return True

    # -- searching

    def nearest(self, vector: bytes, limit: int, docs: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The memories nearest to a vector, all or only these docs: doc and cosine, best first."""
        if not self._refresh() or not self._known[1] or not any(vector):
            return []
        count = self._known[1]
        if docs is not None:
            compared: Sequence[int] = sorted({place for _, place in self._places(docs)})
        elif count <= _EXACTLY:
            compared = range(count)
        else:
            compared = self._shortlist(vector, min(max(_SHORTLIST, 2 * limit), count))
        cosines = self._cosines(vector, compared)
        near = sorted(range(len(cosines)), key=cosines.__getitem__, reverse=True)
        found: list[tuple[int, float]] = []
        for start in range(0, len(near), limit):
            part = {compared[at]: cosines[at] for at in near[start : start + limit] if cosines[at] > 0}
            doc_of = dict(self._rows.of(_DOCS, list(part)))  # without vectors that were replaced
            found += [(doc_of[place], cosine) for place, cosine in part.items() if place in doc_of]
            if len(found) >= limit or not part:
                break
        return found[:limit]

    def cosines(self, vector: bytes, docs: Sequence[int]) -> dict[int, float]:
        """The similarity of these memories, 0 to 1; those without a vector are left out."""
        if not docs or not self._refresh() or not self._known[1]:
            return {}
        if not any(vector):
            return {doc: 0.0 for doc, _ in self._places(docs)}
        places = list(self._places(docs))
        cosines = self._cosines(vector, [place for _, place in places])
        return {doc: min(max(cosine, 0.0), 1.0) for (doc, _), cosine in zip(places, cosines, strict=True)}

    def _places(self, docs: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Doc and place of those memories that have a vector."""
        return [(doc, place) for doc, place in self._rows.of(_PLACES, docs) if 0 <= place < self._known[1]]

    def _shortlist(self, vector: bytes, size: int) -> list[int]:
        """The places of the vectors with the fewest signs unlike this one's."""
        signs = _signs(vector)
        own = memoryview(signs).cast("B", [1, len(signs)])
        all_signs = memoryview(self._parts[SIGNS]).cast("B", [self._known[1], len(signs)])
        unlike = memoryview(simsimd.cdist(own, all_signs, "hamming", dtype="bin8", out_dtype="uint8")).tobytes()
        places: list[int] = []
        for different in range(256):
            place = unlike.find(different)
            while place >= 0 and len(places) < size:
                places.append(place)
                place = unlike.find(different, place + 1)
            if len(places) >= size:
                break
        return sorted(places)

    def _cosines(self, vector: bytes, places: Sequence[int]) -> list[float]:
        vectors, width = self._parts[VECTORS], len(vector)
        if len(places) == self._known[1]:  # ascending and unique: all of them
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
