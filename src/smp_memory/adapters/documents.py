"""Texts by their paths in a session, for frameworks whose memory is a tree of files: one artifact for each path.

Guarantees: a path is one memory, whose id is made of the path, so two processes that create a path at once cannot both succeed. Each
change of a text is a revision. A deleted text goes to the trash with its history; creating its path again continues that history.
The changes of a `TreeChanges` take effect as a whole. Committing raises one of `CHANGED_MEANWHILE` and changes nothing if a text is no longer as it was in the tree.

A folder exists while something is in it. An empty one is an artifact whose path ends with a slash.
"""

from __future__ import annotations

from smp_memory.adapters.bridge import id_for, names_in
from smp_memory.errors import Conflict, DuplicateId, InvalidRecord, MemoryNotFound
from smp_memory.privacy.fence import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.adapters.bridge import BridgeSession
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction

CHANGED_MEANWHILE = (Conflict, DuplicateId, MemoryNotFound)  # another process created, changed or deleted a text
_PREFIX, _KIND = "file", "document"


def path_of(record: Record) -> str:
    """The path of a text; '' if the artifact is none, but one that somebody else wrote into the session."""
    return names_in(_PREFIX, record.id, record.given)[0] if record.get("kind") == _KIND else ""


def id_of(path: str) -> str:
    """The id of the memory of a path."""
    return id_for(_PREFIX, path)[0]


class Tree:
    """The texts of a session as they were when it was read."""

    def __init__(self, session: BridgeSession) -> None:
        self.session = session
        found: list[Record] = session.read(lambda opened: list(opened.records("artifact", include_deleted=True)), [])
        known = [(path, record) for record in found if (path := path_of(record))]
        self._known = dict(known)  # deleted ones, too
        self.nodes = {path: record for path, record in known if not record.deleted}

    def content(self, path: str) -> str | None:
        """The text at a path; None if there is none."""
        record = self.nodes.get(path)
        return None if record is None else record.get("content") or ""

    def is_folder(self, path: str) -> bool:
        return not path or any(name.startswith(f"{path}/") for name in self.nodes)

    def exists(self, path: str) -> bool:
        return path in self.nodes or self.is_folder(path)

    def file_above(self, path: str) -> str | None:
        """The file that stands where a path needs a folder; None if there is none."""
        return next((above for above in parents(path) if above in self.nodes), None)

    def within(self, path: str) -> list[str]:
        """The path itself and all below it, with the marks of empty folders."""
        return [name for name in self.nodes if not path or name == path or name.startswith(f"{path}/")]

    def size(self, path: str) -> int:
        """The bytes of the texts at and below a path."""
        names = [path] if path in self.nodes else self.within(path)
        return sum(len((self.content(name) or "").encode()) for name in names)

    def children(self, path: str) -> list[str]:
        """The paths of what is in a folder, sorted; those of folders end with a slash."""
        start = f"{path}/" if path else ""
        names = (name[len(start) :] for name in self.nodes if name.startswith(start) and name != start)
        return sorted({start + name[: name.find("/") + 1 or None] for name in names}, key=lambda name: name.rstrip("/"))

    def known(self, path: str) -> Record | None:
        """The memory of a path, also when it is deleted."""
        return self._known.get(path)


class TreeChanges:
    """Changes of a tree that take effect together."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._after = set(tree.nodes)  # the paths that exist afterwards
        self._changes: dict[str, dict[str, Any] | None] = {}  # the fields of a path; None: deleted

    def write(self, path: str, content: str, **fields: Any) -> None:
        self._changes[path] = {"content": content, "renamed_from": None, **fields}
        self._after.add(path)

    def delete(self, path: str) -> None:
        self._changes[path] = None
        self._after.discard(path)

    def move(self, path: str, to: str) -> None:
        self.write(to, self._tree.content(path) or "", renamed_from=path)
        self.delete(path)

    def keep_folder_of(self, path: str) -> None:
        """Let the folder of a path stay if nothing is left in it."""
        folder = path.rpartition("/")[0]
        if folder and not any(name.startswith(f"{folder}/") for name in self._after):
            self.write(f"{folder}/", "")

    def commit(self) -> None:
        if self._changes:
            self._tree.session.write(self._commit_to)

    def _commit_to(self, session: SessionMemory) -> None:
        with session.transaction() as transaction:
            for path, fields in self._changes.items():
                known = self._tree.known(path)
                if fields is not None:
                    put(transaction, path, known, fields)
                elif known is not None:
                    delete(transaction, known)


def put(transaction: Transaction, path: str, known: Record | None, fields: dict[str, Any]) -> None:
    """Write the fields of a path, if its memory is still as `known`; None if there was none."""
    if strip(fields["content"]) != fields["content"]:
        raise InvalidRecord(
            "content: contains text recalled from memory, which is not stored again. Use other words.",
            field="content",
        )
    if known is None:
        id, exact = id_for(_PREFIX, path)
        given = {name: value for name, value in fields.items() if value is not None}
        transaction.add("artifact", {"id": id, "kind": _KIND, "name": path, **exact, **given})
        return
    if known.deleted:
        transaction.restore(known.id)
    transaction.update(known.id, known.revision, **fields)


def delete(transaction: Transaction, known: Record) -> None:
    """Move a text to the trash, if it is still as `known`."""
    transaction.update(known.id, known.revision)  # changes nothing, but raises Conflict if another process did
    transaction.delete(known.id)


def parents(path: str) -> Iterator[str]:
    """The folders that a path is in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
