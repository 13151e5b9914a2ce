"""In-memory systems that inject faults: loss of power, failing calls, a full disk, short reads and writes.

    run(system := CrashingSystem(crash_at=17))       # raises PowerLoss before the 17th call that changes something
    for disk in system.crash_states():               # every state is a machine that has just started again
        check(disk)                                  # disk.story tells what survived

`CrashingSystem` is stricter than any file system in use. Content is durable up to the last `sync` of the file, names
up to the last `sync_dir` of their folder, and a `sync` of a file does not make its name durable.

Guarantees: the same calls and the same seed give the same states in the same order (boot ids and time stamps apart;
give `boot` and `now_ns` for those); the first states are "nothing un-synced survived" and "everything survived".
What never happens, because no file system does it: half a rename; a change of a name that survives while an earlier
change of the same name is lost; a torn write inside durable content (it is old or new, as a whole). A folder that is
removed while names in it are not happens only with `unordered`: there any un-synced changes of names survive in any
order, also in different folders, so a file is lost if its folder was removed before its move out of it is durable.
Non-guarantees: un-synced states grow exponentially, `crash_states` is a sample of at most `limit`; permissions
(`chmod`) are always durable; a disk that lies about `sync` is not modelled.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection, Iterator
from copy import copy
from itertools import chain, zip_longest
from time import time_ns

from smp_memory.files.memory_system import Entry, MemoryFileNode, MemoryFolderNode, MemoryNode, MemorySystem
from smp_memory.files.system import Data

_Write = tuple[int, bytes | None]  # bytes at an offset, or a new size
_Versions = dict[int, list[tuple[str, bytes]]]  # what may be left of each un-synced file; first nothing new, then all
_Plan = tuple[frozenset[int], dict[int, int]]  # the renames that survive, and the version of each un-synced file


class PowerLoss(BaseException):
    """The machine has lost power. Not an `Exception`: no code may handle it and continue."""


class CrashState(MemorySystem):
    """The machine after a restart; `story` tells what the power loss left."""

    story = ""


class _Renaming:
    """One un-synced step that changed names: (folder number, name, node number or None) each."""

    def __init__(self, entries: tuple[Entry, ...], gone: MemoryNode | None) -> None:
        self.entries = [(folder.number, name, node.number if node else None) for folder, name, node in entries]
        self.names = {(folder, name) for folder, name, _ in self.entries}
        self.unsynced = {folder for folder, _, _ in self.entries}
        self.folders = frozenset(self.unsynced)
        self.targets = frozenset(folder for folder, _, node in self.entries if node is not None)
        self.emptied = gone.number if isinstance(gone, MemoryFolderNode) else None

    def clone(self) -> _Renaming:
        other = copy(self)
        other.unsynced = set(self.unsynced)
        return other

    def needs(self, earlier: _Renaming, unordered: bool) -> bool:
        """Whether this cannot be durable without `earlier`: the same name, or `earlier` emptied the folder removed here."""
        return not self.names.isdisjoint(earlier.names) or (not unordered and self.emptied in earlier.folders)

    def is_durable(self, unordered: bool) -> bool:
        """Whether its folders are synced; if `unordered`, the new name is enough, because the old folder may be gone."""
        return not self.unsynced or (unordered and bool(self.targets) and self.targets.isdisjoint(self.unsynced))

    def apply(self, folders: dict[int, dict[str, int]]) -> None:
        for folder, name, node in self.entries:
            if node is None:
                folders.setdefault(folder, {}).pop(name, None)
            else:
                folders.setdefault(folder, {})[name] = node

    def __str__(self) -> str:
        return ", ".join(f"{name} {'gone' if node is None else f'= #{node}'}" for _, name, node in self.entries)


class CrashingSystem(MemorySystem):
    """A machine that tracks what is durable, and loses power before the changing call number `crash_at`.

    From then on every call raises `PowerLoss`, except `close` and `unlock`, which do nothing. `calls` counts the
    changing calls: open with O_CREAT or O_TRUNC, write, pwrite, ftruncate, sync, sync_dir, replace, link, unlink,
    mkdir, rmdir. `disk` starts from a copy of another system, all of it durable, so that a recovery can crash, too.
    With `unordered`, changes of names become durable in any order across folders.
    """

    def __init__(
        self,
        *,
        crash_at: int | None = None,
        disk: MemorySystem | None = None,
        boot: str | None = None,
        now_ns: Callable[[], int] = time_ns,
        unordered: bool = False,
    ) -> None:
        super().__init__(disk=disk, boot=boot, now_ns=now_ns)
        self.calls = 0
        self.unordered = unordered
        self.crash_at = crash_at
        self.off = False
        self._nodes: dict[int, MemoryNode] = {}
        self._contents: dict[int, bytearray] = {}  # durable
        self._folders: dict[int, dict[str, int]] = {}  # durable
        self._writes: dict[int, list[_Write]] = {}  # un-synced, in order
        self._renamings: list[_Renaming] = []  # un-synced, in order
        self._adopt(self._root)

    def power_off(self) -> None:
        """Lose power now."""
        self.off = True

    def crash_states(self, *, limit: int = 60, seed: int = 0) -> Iterator[CrashState]:
        """The different disks that a power loss at this moment may leave, at most `limit`, each with a new boot id."""
        with self._guard:
            durable = _DurableState(self)
        return durable.states(limit, seed)

    def kill_state(self, *, crash_at: int | None = None) -> CrashingSystem:
        """The machine as other processes see it after kill -9 of this one: all writes, no locks, the same boot.

        What was not durable before is not durable there either.
        """
        with self._guard:
            clone = CrashingSystem(crash_at=crash_at, disk=self, now_ns=self._now_ns, unordered=self.unordered)
            clone._nodes = self._nodes | clone._nodes
            clone._contents = {number: bytearray(data) for number, data in self._contents.items()}
            clone._folders = {number: dict(names) for number, names in self._folders.items()}
            clone._writes = {number: list(writes) for number, writes in self._writes.items()}
            clone._renamings = [renaming.clone() for renaming in self._renamings]
        return clone

    def close(self, fd: int, /) -> None:
        if not self.off:
            super().close(fd)

    def unlock(self, fd: int, /) -> None:
        if not self.off:
            super().unlock(fd)

    def _adopt(self, node: MemoryNode) -> None:
        """Mark a tree as durable."""
        self._nodes[node.number] = node
        if isinstance(node, MemoryFolderNode):
            self._folders[node.number] = {name: inner.number for name, inner in node.names.items()}
            for inner in node.names.values():
                self._adopt(inner)
        elif isinstance(node, MemoryFileNode):
            self._contents[node.number] = bytearray(node.data)

    def _gate(self, call: str, changes: bool) -> None:
        if changes and not self.off:
            self.calls += 1
            self.off = self.calls == self.crash_at
        if self.off:
            raise PowerLoss(f"before call {self.calls}, {call}")

    def _splice(self, file: MemoryFileNode, offset: int, data: Data) -> int:
        size = super()._splice(file, offset, data)
        if size:
            self._writes.setdefault(file.number, []).append((offset, bytes(data)))
        return size

    def _resize(self, file: MemoryFileNode, size: int) -> None:
        super()._resize(file, size)
        self._writes.setdefault(file.number, []).append((size, None))

    def _rename(self, *entries: Entry, gone: MemoryNode | None = None) -> None:
        super()._rename(*entries, gone=gone)
        self._nodes.update((node.number, node) for _, _, node in entries if node)
        self._renamings.append(_Renaming(entries, gone))

    def _settle(self, node: MemoryNode) -> None:
        if isinstance(node, MemoryFileNode):
            content = self._contents.setdefault(node.number, bytearray())
            _replay(content, self._writes.pop(node.number, []))
            return
        for renaming in self._renamings:
            renaming.unsynced.discard(node.number)
        durable = {number for number, renaming in enumerate(self._renamings) if renaming.is_durable(self.unordered)}
        done = _with_needs(self._renamings, durable, self.unordered)
        for number in sorted(done):
            self._renamings[number].apply(self._folders)
        self._renamings = [renaming for number, renaming in enumerate(self._renamings) if number not in done]


class _DurableState:
    """A copy of what is durable and what is not; lists, selects and builds the possible states after a power loss."""

    def __init__(self, system: CrashingSystem) -> None:
        self.boot, self.now_ns, self.unordered = system._boot, system._now_ns, system.unordered
        self.counters = system._next_number, system._stamp
        self.root = system._root.number
        self.nodes = {number: (node.mode, node.modified, node.changed) for number, node in system._nodes.items()}
        self.files = {number for number, node in system._nodes.items() if isinstance(node, MemoryFileNode)}
        self.contents = {number: bytes(data) for number, data in system._contents.items()}
        self.folders = {number: dict(names) for number, names in system._folders.items()}
        self.renamings = list(system._renamings)
        self.versions: _Versions = {
            number: _versions(self.contents.get(number, b""), writes)
            for number, writes in sorted(system._writes.items())
        }

    def states(self, limit: int, seed: int) -> Iterator[CrashState]:
        seen: set[object] = set()
        for renamings, versions in self._plans(limit, random.Random(seed)):  # noqa: S311
            if len(seen) >= limit:
                return
            folders = {number: dict(names) for number, names in self.folders.items()}
            for number in sorted(renamings):
                self.renamings[number].apply(folders)
            names = sorted(self._reachable(folders))
            reachable = {node for _, _, node in names}
            contents = {number: self.versions[number][version] for number, version in versions.items()}
            state = (*names, *((number, data) for number, (_, data) in contents.items() if number in reachable))
            if state in seen:
                continue
            seen.add(state)
            yield self._build(len(seen), renamings, folders, contents)

    def _plans(self, limit: int, chance: random.Random) -> Iterator[_Plan]:
        """First the extremes, then prefixes, single changes and torn files in turn, then random combinations."""
        count = len(self.renamings)
        every = frozenset(range(count))
        lost = dict.fromkeys(self.versions, 0)
        kept = {file: min(1, len(versions) - 1) for file, versions in self.versions.items()}
        yield from ((frozenset(), lost), (every, kept), (every, lost), (frozenset(), kept))
        prefixes = [(frozenset(range(size)), data) for size in range(1, count) for data in (kept, lost)]
        needs = [_with_needs(self.renamings, {number}, self.unordered) for number in range(count)]
        single = [(needs[number], data) for number in range(count) for data in (kept, lost)]
        single += [(frozenset(i for i in every if number not in needs[i]), kept) for number in range(count)]
        torn = [
            (every, others | {file: version})
            for file, versions in self.versions.items()
            for version in range(len(versions))
            for others in (kept, lost)
        ]
        for plans in (prefixes, single, torn):
            chance.shuffle(plans)
        yield from (plan for plan in chain(*zip_longest(prefixes, torn, single)) if plan)
        for _ in range(4 * limit):
            chosen = {number for number in range(count) if chance.random() < 0.5}
            some = _with_needs(self.renamings, chosen, self.unordered)
            yield some, {file: chance.randrange(len(versions)) for file, versions in self.versions.items()}

    def _reachable(self, folders: dict[int, dict[str, int]]) -> Iterator[tuple[int, str, int]]:
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            for name, node in folders.get(folder, {}).items():
                yield folder, name, node
                if node not in self.files:
                    waiting.append(node)

    def _build(
        self,
        serial: int,
        renamings: frozenset[int],
        folders: dict[int, dict[str, int]],
        contents: dict[int, tuple[str, bytes]],
    ) -> CrashState:
        state = CrashState(boot=f"{self.boot}+{serial}", now_ns=self.now_ns)
        state._next_number, state._stamp = self.counters
        built: dict[int, MemoryNode] = {}
        for number in (self.root, *(node for _, _, node in self._reachable(folders))):
            if number not in built:
                built[number] = self._node(number, contents)
            built[number].links += 1
        for number, node in built.items():
            if isinstance(node, MemoryFolderNode):
                node.links = 2
                node.names = {name: built[inner] for name, inner in folders.get(number, {}).items()}
                if number == self.root:
                    state._root = node
        survived = "; ".join(str(self.renamings[number]) for number in sorted(renamings)) or "none"
        files = "; ".join(f"#{number} {label}" for number, (label, _) in contents.items()) or "none"
        state.story = f"un-synced names, {len(renamings)} of {len(self.renamings)}: {survived} | files: {files}"
        return state

    def _node(self, number: int, contents: dict[int, tuple[str, bytes]]) -> MemoryNode:
        mode, modified, changed = self.nodes[number]
        node: MemoryNode
        if number in self.files:
            node = MemoryFileNode(
                number, mode, contents[number][1] if number in contents else self.contents.get(number, b"")
            )
        else:
            node = MemoryFolderNode(number, mode)
        node.modified, node.changed = modified, changed
        return node


def _with_needs(renamings: list[_Renaming], chosen: set[int], unordered: bool) -> frozenset[int]:
    """The chosen renames, and the earlier ones without which they cannot be durable."""
    chosen = set(chosen)
    for number in range(len(renamings) - 1, -1, -1):
        if number in chosen:
            chosen.update(i for i in range(number) if renamings[number].needs(renamings[i], unordered))
    return frozenset(chosen)


def _replay(content: bytearray, writes: list[_Write]) -> bytearray:
    for offset, data in writes:
        content.extend(bytes(max(0, offset - len(content))))
        if data is None:
            del content[offset:]
        else:
            content[offset : offset + len(data)] = data
    return content


def _versions(durable: bytes, writes: list[_Write]) -> list[tuple[str, bytes]]:
    """Possible contents of an un-synced file: nothing new, everything, some of the writes, truncated or zeroed new bytes."""
    kept = min([len(durable), *(size for size, data in writes if data is None)])
    last = max(kept, writes[-1][0]) if writes[-1][1] else kept

    def after(some: list[_Write]) -> bytes:
        return bytes(_replay(bytearray(durable), some))

    live = after(writes)
    new, half = len(live) - kept, (len(live) - kept) // 2
    found = [("lost", durable), ("kept", live)]
    if new > 0:
        cuts = {kept, kept + 1, kept + half, len(live) - 1, last, last + 1, (last + len(live)) // 2}
        found += [(f"cut at {size}", live[:size]) for size in sorted(cuts) if kept <= size < len(live)]
        found += [
            (f"zeros from {kept}", live[:kept] + bytes(new)),
            (f"zeros from {kept + half}", live[: kept + half] + bytes(new - half)),
            (f"zeros at {kept}-{kept + half}", live[:kept] + bytes(half) + live[kept + half :]),
        ]
    for i in _some(len(writes)):
        found.append((f"without write {i}", after(writes[:i] + writes[i + 1 :])))
        found.append((f"with write {i} only", after(writes[i : i + 1])))
        found.append((f"with writes 0-{i}", after(writes[: i + 1])))
    different: dict[bytes, str] = {}
    for label, data in found:
        different.setdefault(data, label)
    return [(label, data) for data, label in different.items()]


def _some(count: int, most: int = 16) -> list[int]:
    """All indices, or the first and last few."""
    return [i for i in range(count) if i < most // 2 or i >= count - most // 2]


class FaultySystem(MemorySystem):
    """A machine whose changing call number `fail_at` raises `OSError(error)`; that call has no effect.

    With `sticky` all later calls fail, too, until `heal()`. With `short`, a write or pwrite at that number writes half
    of its bytes and succeeds, and the next call fails. With `short_reads` every pread returns half of the available
    bytes (at least one), as a signal or a network file system may cause. `calls` names the primitives that are counted
    (also reading ones such as "pread" or "lock"); by default the changing ones, as in `CrashingSystem`. The attribute
    `calls` is the count.
    """

    def __init__(
        self,
        *,
        fail_at: int | None = None,
        error: int = errno.ENOSPC,
        sticky: bool = False,
        short: bool = False,
        short_reads: bool = False,
        calls: Collection[str] | None = None,
        disk: MemorySystem | None = None,
        boot: str | None = None,
        now_ns: Callable[[], int] = time_ns,
    ) -> None:
        super().__init__(disk=disk, boot=boot, now_ns=now_ns)
        self.calls = 0
        self.fail_at = fail_at
        self.error = error
        self.sticky = sticky
        self.short = short
        self.short_reads = short_reads
        self._counted = calls

    def heal(self) -> None:
        """Let no further call fail."""
        self.fail_at = None

    def write(self, fd: int, data: Data, /) -> int:
        with self._guard:
            return super().write(fd, self._shortened("write", data))

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        with self._guard:
            return super().pwrite(fd, self._shortened("pwrite", data), offset)

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        found = super().pread(fd, size, offset)
        return found[: (len(found) + 1) // 2] if self.short_reads else found

    def _shortened(self, call: str, data: Data) -> Data:
        counted = self._counted is None or call in self._counted
        if not self.short or not counted or self.fail_at != self.calls + 1 or len(data) < 2:
            return data
        self.short = False
        self.fail_at += 1
        return memoryview(data)[: len(data) // 2]

    def _gate(self, call: str, changes: bool) -> None:
        if not (changes if self._counted is None else call in self._counted):
            return
        self.calls += 1
        failing = self.fail_at is not None and self.calls >= self.fail_at
        if failing and (self.sticky or self.calls == self.fail_at):
            raise OSError(self.error, os.strerror(self.error))
