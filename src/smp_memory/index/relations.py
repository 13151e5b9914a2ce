"""Follow relations between memories in the rows of an index.

Guarantees: a hidden memory is not followed, and cannot be distinguished from one that does not exist.
"""

from __future__ import annotations

from smp_memory.index.access_counts import docs_of
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from smp_memory.index.rows import Rows

REPEATS = "repeats"
_ECHOES = "SELECT memory FROM echo WHERE turn = ? UNION ALL SELECT turn FROM echo WHERE memory = ?"
_FINDING = KINDS["finding"].number


class RelationGraph:
    """The relations of one state of an index, as one viewer may see them."""

    def __init__(
        self,
        rows: Rows,
        refs: Callable[[Sequence[int]], dict[int, str]],
        visible: Callable[[Sequence[int]], set[int]] | None,
    ) -> None:
        """`refs` gives the names of docs, `visible` those of some docs that the viewer may see (None: all)."""
        self._rows = rows
        self._refs = refs
        self._visible: Callable[[Sequence[int]], set[int]] = set if visible is None else visible

    def related(
        self, names: Iterable[str], scope: str, depth: int, kinds: Sequence[str] = ()
    ) -> dict[int, tuple[int, str, int]]:
        """All visible memories up to `depth` steps away in either direction: doc -> (steps, kind, the doc it was reached from)."""
        docs = docs_of([_full(name, scope) for name in names], self._rows).values()
        starts = [doc for doc in docs if doc is not None]
        return self.near([doc for doc in starts if doc in self._visible(starts)], depth, kinds)

    def near(self, edge: list[int], depth: int, kinds: Sequence[str] = ()) -> dict[int, tuple[int, str, int]]:
        seen = set(edge)
        found: dict[int, tuple[int, str, int]] = {}
        for step in range(1, depth + 1):
            reached: list[int] = []
            for doc in edge:
                for kind, other in self._neighbours(doc, REPEATS in kinds):
                    if other not in seen and (not kinds or kind in kinds):
                        seen.add(other)
                        found[other] = (step, kind, doc)
                        reached.append(other)
            edge = reached
        return found

    def _neighbours(self, doc: int, with_echoes: bool) -> list[tuple[str, int]]:
        stated = self._rows.all("SELECT kind, session, target FROM relation WHERE source = ?", (doc,))
        docs = docs_of([f"{session}/{target}" for _, session, target in stated], self._rows) if stated else {}
        targets = ((kind, docs[f"{session}/{target}"]) for kind, session, target in stated)
        found = [(kind, other) for kind, other in targets if other is not None]
        own = self._refs([doc]).get(doc)
        if own is not None:
            found += self._sources(own)
        found += self._of_same_turn(doc)
        if with_echoes:
            found += [(REPEATS, other) for (other,) in self._rows.all(_ECHOES, (doc, doc))]
        if not found:
            return found
        visible = self._visible([other for _, other in found])
        return [(kind, other) for kind, other in found if other in visible]

    def referring(self, names: Iterable[str], scope: str, depth: int) -> set[int]:
        """Memories that refer to one of these, directly or over up to `depth` visible steps."""
        found: set[int] = set()
        edge = [_full(name, scope) for name in names]
        for _ in range(depth):
            new = {doc for name in edge for _, doc in self._sources(name)} - found
            found |= new
            edge = list(self._refs(list(self._visible(list(new)))).values())
        return found

    def _of_same_turn(self, doc: int) -> list[tuple[str, int]]:
        """The other findings of the turn to which a finding belongs (design 003)."""
        own = self._rows.all("SELECT session, target FROM relation WHERE source = ? AND kind = 'turn'", (doc,))
        if not own or self._rows.one("SELECT type FROM memory WHERE doc = ?", (doc,)) != _FINDING:
            return []
        found = self._rows.all(
            "SELECT source FROM relation JOIN memory ON doc = source "
            "WHERE session = ? AND target = ? AND kind = 'turn' AND type = ? AND source != ?",
            (*own[0], _FINDING, doc),
        )
        return [("same_turn", other) for (other,) in found]

    def _sources(self, ref: str) -> list[tuple[str, int]]:
        """Kind and doc of the memories that refer to a memory."""
        session, _, id = ref.rpartition("/")
        found = self._rows.all("SELECT kind, source FROM relation WHERE session = ? AND target = ?", (session, id))
        return [(kind, doc) for kind, doc in found]


def _full(name: str, scope: str) -> str:
    """`session/ID`; a name without a session is of `scope`."""
    return name if "/" in name else f"{scope}/{name}"
