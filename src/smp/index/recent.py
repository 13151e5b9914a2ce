"""Which words wait for tantivy? The newest memories as they were taken in, in blocks, in the rows' own file.

A commit of tantivy takes longer than a question may, so what was taken in since the last one is kept here, and each
process holds it in its tail. What came at once is one block, packed together if it may stay for long; many small ones
are joined. The table `recent` says which memories wait, and in which block each stands as it is now.

Guarantees: what is taken out is not handed out any more; after `scrub` no block holds a byte of it either.
"""

from __future__ import annotations

import json
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from smp.index.engine import Document
    from smp.index.rows import Rows

_EFFORT = 4  # of zlib: less would take a tenth more room, the usual 6 twice the time
_SMALL = 32  # memories in a block, and blocks with fewer


def put(rows: Rows, documents: Sequence[Document], version: int) -> None:
    """Memories that came at once; what was known of them before does not count any more."""
    if documents:
        small = [each for (each,) in rows.all("SELECT version FROM block WHERE count < ? ORDER BY 1", (_SMALL,))]
        if len(small) >= _SMALL:  # a new process has to open them all
            _write(rows, list(_taken(rows, small)), small[-1])
        _write(rows, documents, version)


def _write(rows: Rows, documents: Sequence[Document], version: int) -> None:
    effort = 0 if rows.meta("generation") else _EFFORT  # beside what was merged, they will soon be merged, too
    if documents:
        rows.do("INSERT INTO block VALUES (?, ?, ?)", (version, len(documents), _packed(documents, effort)))
        rows.do_many(f"INSERT OR REPLACE INTO recent VALUES (?, {version})", ((each[0],) for each in documents))


def _taken(rows: Rows, versions: Sequence[int]) -> Iterator[Document]:
    """What some blocks hold, as far as it counts; the blocks go."""
    current = dict(rows.each("SELECT doc, version FROM recent"))
    for version in versions:
        packed = rows.one("SELECT data FROM block WHERE version = ?", (version,))
        rows.do("DELETE FROM block WHERE version = ?", (version,))
        yield from (each for each in _unpacked(packed) if current.get(each[0]) == version)


def since(rows: Rows, version: int) -> Iterator[Document]:
    """What came after a version, as it is now."""
    current = dict(rows.each("SELECT doc, version FROM recent WHERE version > ?", (version,)))
    if current:
        for number, packed in rows.each("SELECT version, data FROM block WHERE version > ?", (version,)):
            yield from (each for each in _unpacked(packed) if current.get(each[0]) == number)


def count(rows: Rows) -> int:
    return int(rows.one("SELECT count(*) FROM recent") or 0)


def docs(rows: Rows) -> set[int]:
    return {doc for (doc,) in rows.each("SELECT doc FROM recent")}


def take_out(rows: Rows, docs: Iterable[int]) -> None:
    rows.do_many("DELETE FROM recent WHERE doc = ?", ((doc,) for doc in docs))


def clear(rows: Rows) -> None:
    rows.do("DELETE FROM recent")
    rows.do("DELETE FROM block")


def scrub(rows: Rows) -> None:
    """Blocks anew, without what was taken out or is known in a later state."""
    for (version,) in rows.all("SELECT version FROM block"):
        _write(rows, list(_taken(rows, [version])), version)


def _packed(documents: Sequence[Document], effort: int) -> bytes:
    """A line for all that is not words, column by column, then a line of words for each memory."""
    docs, words, *others = zip(*documents, strict=True)
    head = json.dumps([docs, *others], ensure_ascii=False, separators=(",", ":"))
    lines = "\n".join([head, *words])
    if lines.count("\n") != len(words):  # an id that somebody spoilt; any white space parts words
        lines = "\n".join([head, *(text.replace("\n", " ") for text in words)])
    return zlib.compress(lines.encode(errors="surrogatepass"), effort)


def _unpacked(packed: bytes) -> Iterator[Document]:
    head, *words = zlib.decompress(packed).decode(errors="surrogatepass").split("\n")
    docs, *others = json.loads(head)
    return zip(docs, words, *others, strict=True)
