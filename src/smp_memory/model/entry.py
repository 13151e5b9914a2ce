"""What was written? An entry is one appended item of a session's files; records are what entries add up to.

    put      a new memory with its fields            revision 1
    change   new values of some fields (None removes) revision 2, 3, …; one of `access` or `id` alone is no revision
    delete   hides the memory, with a reason
    restore  shows it again

A readable id such as `DEC-0007` can be given out by two clones of a store. `uid` is random and tells their memories apart.

`seq` numbers the entries of a session in the order in which they were written, over all its files. Entries of one
transaction carry the range of their numbers and how many files it touched, `12-14/2`; it counts only when whole.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


PUT, CHANGE, DELETE, RESTORE = "put", "change", "delete", "restore"
BY_MAINTENANCE = "smp"  # who deletes what retention takes; nobody used the memory by it


class Entry:
    __slots__ = (
        "at",
        "by",
        "data",
        "file",
        "id",
        "lacks",
        "line",
        "op",
        "part",
        "place",
        "revision",
        "schema",
        "seq",
        "state",
        "tx",
        "type",
        "uid",
        "uids",
    )

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
        self.lacks: tuple[
            str, ...
        ] = ()  # "id", "time": not in the file; typed by hand, see `smp_memory.files.file_state`
        self.place = (0, 0)  # where it stands in its file, from byte to byte
        self.part: int | None = None  # its position in a folded entry, see `smp_memory.files.folded_entries`

    @property
    def key(self) -> tuple[int, str, str, str, str]:
        """What tells it from all others of its session, also from those of another clone with the same number.

        The number of one that was written by hand may be any; the time of a put may have been edited.
        """
        number = self.seq if self.state != "unsigned" else 0
        return number, self.id, self.op, self.uid, "" if self.op == PUT else self.at

    @property
    def bare_key(self) -> tuple[int, str, str, str]:
        """`key` of what people see: without the uid and the fraction of the time, which stand in the machine line only."""
        return self.seq, self.id, self.op, "" if self.op == PUT else self.at[:19]

    def copy(self) -> Entry:
        """One that may be changed; the fields are shared."""
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
    """First and last number and the count of files; None if a person broke the mark."""
    numbers, _, files = mark.partition("/")
    first, _, last = numbers.partition("-")
    try:
        return int(first), int(last), int(files or 1)
    except ValueError:
        return None


def is_use(entry: Entry) -> bool:
    """Whether it only says how often a memory was used, or under which id it is shown. Upkeep writes such entries; they are no revisions."""
    return entry.op == CHANGE and len(entry.data) == 1 and ("access" in entry.data or "id" in entry.data)


def is_revision(entry: Entry) -> bool:
    """Whether it is the first entry of a memory or a change of it."""
    return entry.op == PUT or (entry.op == CHANGE and not is_use(entry))
