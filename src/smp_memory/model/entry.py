"""An entry: one appended item of a session's files. Records are the state that entries add up to.

    put      a new memory with its fields            revision 1
    change   new values of some fields (None removes) revision 2, 3, …; a change of `access` or `id` alone makes no revision
    delete   hides the memory, with a reason
    restore  shows it again

A readable id such as `DEC-0007` can be given out by two clones of a store. `uid` is random and distinguishes their memories.

`seq` numbers the entries of a session in the order in which they were written, over all its files. Entries of one
transaction carry the range of their numbers and how many files it touched, `12-14/2`; it takes effect only when complete.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


PUT, CHANGE, DELETE, RESTORE = "put", "change", "delete", "restore"
MAINTENANCE_FIELDS = frozenset(["access", "id"])  # counts of uses, and the id of a renamed memory
_TRANSACTION_LIMIT = 1_000_000  # entries
BY_MAINTENANCE = "smp"  # author of deletions by retention, which do not count as a use of the memory


class Entry:
    __slots__ = (
        "at", "by", "data", "file", "id", "lacks", "line", "op", "part", "place", "revision", "schema", "seq",
        "state", "tx", "type", "uid", "uids",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        type: str,
        id: str,
        at: str,
        data: dict[str, Any],
        seq: int = 0,
        *,
        tx: str = "",
        by: str | None = None,
        uid: str = "",
        revision: int = 0,
        schema: int = 1,
        state: str = "signed",
        file: str = "",
        line: int = 0,
    ) -> None:
        self.op = op
        self.type = type
        self.id = id
        self.at = at  # put: created; change, delete, restore: when it happened
        self.by = by  # change, delete, restore: who did it; a put's author is a field
        self.data = data
        self.seq = seq
        self.tx = tx
        self.uid = uid  # of the memory: put gives it, all other entries of the memory repeat it; "": the id is enough
        self.uids: dict[str, str] | None = None  # of the memories that the fields refer to, by their ids
        self.revision = revision
        self.schema = schema
        self.state = state
        self.file = file
        self.line = line
        # "id", "time": missing in the file because it was typed by hand, see `smp_memory.files.file_state`
        self.lacks: tuple[str, ...] = ()
        self.place = (0, 0)  # its byte range in the file: start, end
        self.part: int | None = None  # its position in a folded entry, see `smp_memory.files.entry_fields`

    @property
    def key(self) -> tuple[int, str, str, str, str]:
        """Identifies the entry within its session, also among entries of another clone with the same number.

        Left out where unreliable: the number of an entry typed by hand, and the time of a put, which may have been edited.
        """
        number = self.seq if self.state != "unsigned" else 0
        return number, self.id, self.op, self.uid, "" if self.op == PUT else self.at

    @property
    def bare_key(self) -> tuple[int, str, str, str]:
        """`key` from the visible part of an entry: without the uid and the fraction of the time, which only the machine line has."""
        return self.seq, self.id, self.op, "" if self.op == PUT else self.at[:19]

    def copy(self) -> Entry:
        """A copy that may be changed; it shares the dictionary of fields."""
        twin = Entry(self.op, self.type, self.id, self.at, self.data, self.seq, tx=self.tx, by=self.by)
        twin.revision, twin.schema, twin.state = self.revision, self.schema, self.state
        twin.file, twin.line, twin.place, twin.part = self.file, self.line, self.place, self.part
        twin.uid, twin.uids, twin.lacks = self.uid, self.uids, self.lacks
        return twin

    def __repr__(self) -> str:
        return f"Entry({self.op} {self.id} seq={self.seq} tx={self.tx!r} at={self.at} by={self.by} {self.data!r})"


def transaction_mark(first: int, count: int, files: int) -> str:
    return f"{first}-{first + count - 1}" + (f"/{files}" if files > 1 else "")


def transaction_range(mark: str) -> tuple[int, int, int] | None:
    """First number, last number and count of files; None if the mark is malformed."""
    numbers, _, files = mark.partition("/")
    first, _, last = numbers.partition("-")
    try:
        limits = int(first), int(last), int(files or 1)
    except ValueError:
        return None
    return limits if 0 < limits[0] <= limits[1] < limits[0] + _TRANSACTION_LIMIT else None


def is_maintenance(entry: Entry) -> bool:
    """Whether an entry only counts uses or renames the memory. Such entries change no content and make no revision."""
    return entry.op == CHANGE and len(entry.data) == 1 and not MAINTENANCE_FIELDS.isdisjoint(entry.data)


def is_revision(entry: Entry) -> bool:
    """Whether an entry makes a revision: the put, or a change of content."""
    return entry.op == PUT or (entry.op == CHANGE and not is_maintenance(entry))
