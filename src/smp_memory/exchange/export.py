"""What leaves? A session as it stands, with all that happened to it, into a file that appears when it is complete.

Guarantees: the entries are those that readers see, in the order in which they were written. The file is 0600, has its name
only when it is whole and synced, and never takes the place of another unless it is told to. A session with entries that
cannot be read is refused: nothing is left out in silence.
Memories that compaction moved away are among them.
Non-guarantees: of memories that stayed, the earlier steps that compaction moved away are not.
"""

from __future__ import annotations

import os

from smp_memory.errors import InvalidFormat, SessionCorrupt, from_os_error
from smp_memory.exchange import file_format
from smp_memory.exchange.file_format import Exported
from smp_memory.files.disk import TEMPORARY, Disk, identity
from smp_memory.model.entry import CHANGE, Entry, is_revision
from smp_memory.store.cold_storage import cold_history, cold_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.store.file_session import FileSession

_LARGEST_SEQ = 10**15


def carried_from(files: FileSession) -> Exported:
    """A session as it goes out: every step of every memory, in the order in which they were written."""
    while True:  # compaction may move memories while we look
        before = files.store.disk.stat(cold_path(files))
        carried = _gathered(files, cold_history(files))
        after = files.store.disk.stat(cold_path(files))
        if (before and identity(before)) == (after and identity(after)):
            return carried


def _gathered(files: FileSession, cold: SessionHistory) -> Exported:
    def look(session_history: SessionHistory) -> Exported:
        info = files.info()
        for numbers in (session_history.numbers, cold.numbers):
            info.numbers.update({key: max(number, info.numbers.get(key, 0)) for key, number in numbers.items()})
        info.seq = max(info.seq, session_history.seq)
        return Exported(info, _entries({**cold.histories, **session_history.histories}))

    carried: Exported = files.view(look)
    broken = next((problem for problem in files.reader.problems() if problem.severity == "error"), None)
    if broken is not None:
        raise SessionCorrupt(
            f"{broken}. Repair the session first; nothing was handed out.", session=files.session, path=broken.path
        )
    return carried


def _entries(histories: dict[str, RecordHistory]) -> list[Entry]:
    entries: list[Entry] = []
    for name, history in histories.items():
        revision = 0
        for entry in history.entries:
            revision += is_revision(entry)
            entries.append(copy_of(entry, name, entry.data, entry.by, revision if entry.op == CHANGE else 0))
    return numbered(sorted(entries, key=_seq))


def copy_of(entry: Entry, id: str, data: dict[str, Any], by: str | None, revision: int) -> Entry:
    twin = Entry(
        entry.op,
        entry.type,
        id,
        entry.at,
        data,
        entry.seq,
        by=by,
        revision=revision,
        schema=entry.schema,
        line=entry.line,
    )
    twin.file, twin.uid, twin.uids = entry.file, entry.uid, entry.uids
    return twin


def counting(sessions: Iterable[Exported], counts: list[int]) -> Iterator[Exported]:
    """The same sessions; how many memories each has is put down as they pass."""
    for carried in sessions:
        counts.append(len({entry.id for entry in carried.entries}))
        yield carried


def _seq(entry: Entry) -> int:
    return entry.seq


def numbered(entries: list[Entry]) -> list[Entry]:
    """Numbers as they were if they tell the order, else new ones: what people write by hand has none."""
    last = 0
    for entry in entries:
        if not last < entry.seq < _LARGEST_SEQ:
            for number, each in enumerate(entries, 1):
                each.seq = number
            break
        last = entry.seq
    return entries


def format_named(format: str | None, path: str | os.PathLike[str] | None) -> str:
    if format is None and path is not None:
        format = file_format.ENDINGS.get(os.fspath(path).rpartition(".")[2].lower())
    chosen = format or "json"
    if chosen not in file_format.FORMATS:
        raise InvalidFormat(
            f"format: {chosen!r} is none. Use one of: {', '.join(file_format.FORMATS)}.", field="format"
        )
    return chosen


def write(path: str, pieces: Iterable[bytes], force: bool) -> str:
    """A file that is complete when it gets its name. It lies outside of the store, in the real file system."""
    from smp_memory.files.system import RealSystem

    disk = Disk(RealSystem())
    if not force and disk.exists(path):
        raise _in_the_way(path)
    waiting = f"{path}.{os.urandom(4).hex()}{TEMPORARY}"
    try:
        file = disk.open_append(waiting)
        try:
            for piece in pieces:
                file.append(piece)
            file.sync()
        finally:
            file.close()
        if force:
            disk.move(waiting, path)
        else:
            _name_new(disk, waiting, path)
        disk.sync_folder(os.path.dirname(path))
    except OSError as error:
        raise from_os_error(error, path, "exporting") from error
    finally:
        disk.remove(waiting)
    return path


def _name_new(disk: Disk, waiting: str, path: str) -> None:
    try:
        disk.link_new(waiting, path)
    except FileExistsError:
        raise _in_the_way(path) from None
    except OSError:  # a file system without links
        if disk.exists(path):
            raise _in_the_way(path) from None
        disk.move(waiting, path)


def _in_the_way(path: str) -> InvalidFormat:
    return InvalidFormat(
        f"{path} is there already. Choose another name, or write over it with force (--force).", path=path
    )
