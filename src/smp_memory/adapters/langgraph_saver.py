"""A LangGraph checkpointer: `SMPSaver`. Its public place is `smp_memory.adapters.langgraph`.

A thread is a session, each `put` and `put_writes` one memory in it (`adapters.checkpoint_log` has the format): after a crash it is there
completely or not at all. A put appends and reads nothing. The latest checkpoint is read from the end of the session: the one with the
greatest id there, because ids grow with time.

A value that did not change since the parent is stored as a reference to the checkpoint that has it, if this process knows that one: it
was the last that it put or got. References reach back `_REACH` entries, so that the end of a session is enough to read; beyond that the
value is stored again. Deleting stores again what the remaining checkpoints refer to, and leaves the last `_KEPT_ENTRIES` entries in
place: what a put of another process may refer to at the same time is never deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, OpaqueLog
from smp_memory.adapters.checkpoint_log import Packer, ThreadState, parts_of
from smp_memory.errors import StorageCorrupt

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from smp_memory.adapters.bridge import OpaqueState
    from smp_memory.adapters.checkpoint_log import Entry
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record


_TAILS = (64, 1024, None)  # how many of the last memories of a thread are read at once; None: all
_REACH = 100  # entries: a value that is further back is stored again
_KEPT_ENTRIES = (
    4 * _REACH
)  # of a thread that are deleted by a `drop` entry alone, because a `put` of another process may refer to them
_KNOWN_THREADS = 1000


class _Source(NamedTuple):
    """Where the value of a channel is stored."""

    version: Any
    checkpoint: str
    seq: int


class _Known(NamedTuple):
    """The checkpoint that this process saw last in a namespace of a thread."""

    id: str
    seq: int
    sources: dict[str, _Source]  # by channel


class SMPSaver(BridgeOwner, BaseCheckpointSaver[int]):
    """A LangGraph checkpointer in an SMP store. `memory` is a `Memory`, a folder or an address; None: the nearest store."""

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        *,
        serde: SerializerProtocol | None = None,
        author: str | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.bridge = Bridge(memory, "langgraph", author)
        self._known: dict[tuple[str, str], _Known] = {}

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns, id = _place(config)
        for count in _TAILS:
            states = self._log(thread).records(count)
            is_all = count is None or len(states) < count
            state = ThreadState(each.value for each in states)
            entry = state.find(ns, id or state.latest(ns))
            found = None if entry is None else self._tuple_if_there(thread, state, entry, is_all)
            if found is not None and (is_all or _begins_before(states[0].record, found.checkpoint["ts"])):
                self._remember(thread, state, found, {each.value.get("checkpoint"): each.record.seq for each in states})
                return found
            if is_all:
                break
        return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        thread, ns, id = _place(config) if config else (None, None, None)
        if config and "checkpoint_ns" not in config["configurable"]:
            ns = None
        end = get_checkpoint_id(before) if before else None
        threads = [thread] if thread is not None else [names[0] for names in self.bridge.namespaces()]
        loaded = [(name, self._load(name)) for name in threads]
        damaged: StorageCorrupt | None = None
        found = [(each[1], name, state, each) for name, state in loaded for each in state.all()]
        for checkpoint_id, name, state, (in_ns, _) in sorted(found, key=lambda each: each[0], reverse=True):
            is_wanted = ns in (None, in_ns) and id in (None, checkpoint_id) and (end is None or checkpoint_id < end)
            entry = state.checkpoints[in_ns][checkpoint_id]
            if not is_wanted or not self._has_metadata(state, entry, filter):
                continue
            if limit is not None and limit <= 0:
                return
            try:
                loaded_tuple = self._tuple(name, state, entry)
            except StorageCorrupt as error:  # the others are not affected
                damaged = error
                continue
            limit = None if limit is None else limit - 1
            yield loaded_tuple
        if damaged is not None:
            raise damaged

    def get_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        """The writes of channels along the parents of a checkpoint; the thread is read once for all parents."""
        state = self._load(_place(config)[0])

        class Loaded:
            @staticmethod
            def get_tuple(config: RunnableConfig) -> CheckpointTuple | None:
                thread, ns, id = _place(config)
                entry = state.find(ns, id or state.latest(ns))
                return None if entry is None else self._tuple(thread, state, entry)

        walk = BaseCheckpointSaver.get_delta_channel_history
        return walk(Loaded, config=config, channels=channels)  # type: ignore[arg-type]  # it calls get_tuple alone

    def _log(self, thread: str) -> OpaqueLog:
        return OpaqueLog(self.bridge.session(thread))

    def _load(self, thread: str) -> ThreadState:
        return ThreadState(each.value for each in self._log(thread).records())

    def _tuple_if_there(self, thread: str, state: ThreadState, entry: Entry, is_all: bool) -> CheckpointTuple | None:
        """None if a part of the checkpoint is before the end of the log that was read."""
        try:
            return self._tuple(thread, state, entry)
        except StorageCorrupt:
            if is_all:
                raise
            return None

    def _tuple(self, thread: str, state: ThreadState, entry: Entry) -> CheckpointTuple:
        ns, id, parent = entry["ns"], entry["checkpoint"], entry["parent"]
        load = self.serde.loads_typed
        try:
            head = load(state.unpack(entry["head"]))
            values = {channel: load(typed) for channel, typed in state.values(entry).items()}
            writes = [(task, channel, load(state.unpack(blob))) for _, task, _, channel, blob in state.writes(entry)]
            metadata = load(state.unpack(entry["metadata"]))
        except KeyError as error:
            raise StorageCorrupt(
                f"Checkpoint {id} of thread {thread!r} is incomplete: {error} is missing. `smp validate` says what cannot be read.",
                session=self.bridge.session(thread).id,
            ) from error
        return CheckpointTuple(
            _config(thread, ns, id),
            cast("Checkpoint", {**head, "channel_values": values}),
            metadata,
            _config(thread, ns, parent) if parent else None,
            writes,
        )

    def _has_metadata(self, state: ThreadState, entry: Entry, filter: dict[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self._metadata(state, entry["ns"], entry["checkpoint"])
        return all(metadata.get(name) == value for name, value in filter.items())

    def _remember(self, thread: str, state: ThreadState, found: CheckpointTuple, seqs: Mapping[str, int]) -> None:
        ns, id = found.config["configurable"]["checkpoint_ns"], found.checkpoint["id"]
        refs, versions = state.checkpoints[ns][id]["refs"], found.checkpoint["channel_versions"]
        holders = {channel: refs.get(channel, id) for channel in found.checkpoint["channel_values"]}
        sources = {channel: _Source(versions.get(channel), held, seqs[held]) for channel, held in holders.items()}
        self._keep(thread, ns, _Known(id, seqs[id], sources))

    def _keep(self, thread: str, ns: str, known: _Known) -> None:
        if len(self._known) >= _KNOWN_THREADS:
            self._known.clear()
        self._known[thread, ns] = known

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = _place(config)
        sources = self._sources(thread, ns, parent, checkpoint, new_versions)
        given = get_checkpoint_metadata(config, metadata)
        while True:
            entries = self._checkpoint_entries(ns, parent, checkpoint, given, sources)
            seq = self._append(thread, f"Checkpoint {given.get('step', '')} of a LangGraph thread", entries)
            if all(0 < seq - source.seq < 2 * _REACH for source in sources.values()):
                break
            sources = {}  # others wrote so much, or deleted the thread, meanwhile: what it refers to is gone or may be soon
        versions = checkpoint["channel_versions"]
        own = {name: _Source(versions.get(name), checkpoint["id"], seq) for name in checkpoint["channel_values"]}
        self._keep(thread, ns, _Known(checkpoint["id"], seq, {**own, **sources}))
        return _config(thread, ns, checkpoint["id"])

    def _sources(
        self, thread: str, ns: str, parent: str | None, checkpoint: Checkpoint, new_versions: ChannelVersions
    ) -> dict[str, _Source]:
        """By channel: where its value is stored already. Nothing if this process has not seen the parent last."""
        known = self._known.get((thread, ns))
        if known is None or known.id != parent:
            return {}
        versions = checkpoint["channel_versions"]
        return {
            channel: source
            for channel, source in known.sources.items()
            if channel in checkpoint["channel_values"]
            and channel not in new_versions
            and source.version == versions.get(channel)
            and known.seq - source.seq < _REACH
        }

    def _checkpoint_entries(
        self, ns: str, parent: str | None, checkpoint: Checkpoint, metadata: Any, sources: dict[str, _Source]
    ) -> Iterator[Entry]:
        packer, dump = Packer(), self.serde.dumps_typed
        values = {name: value for name, value in checkpoint["channel_values"].items() if name not in sources}
        entry = {
            "checkpoint": checkpoint["id"],
            "ns": ns,
            "parent": parent,
            "head": packer.blob(dump({name: value for name, value in checkpoint.items() if name != "channel_values"})),
            "metadata": packer.blob(dump(metadata)),
            "values": {name: packer.blob(dump(value)) for name, value in values.items()},
            "refs": {channel: source.checkpoint for channel, source in sources.items()},
        }
        yield from (*packer.parts, entry)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, ns, id = _place(config)
        packer = Packer()
        items = [
            [WRITES_IDX_MAP.get(channel, index), channel, packer.blob(self.serde.dumps_typed(value))]
            for index, (channel, value) in enumerate(writes)
        ]
        entry = {"writes": id, "ns": ns, "task": task_id, "path": task_path, "items": items}
        self._append(thread, "Writes in a LangGraph thread", (*packer.parts, entry))

    def _append(self, thread: str, sentence: str, entries: Iterable[Entry]) -> int:
        """Store entries together; returns the seq of the last one."""
        return self._log(thread).add_many((sentence, entry) for entry in entries)[-1].seq

    # deleting and copying

    def delete_thread(self, thread_id: str) -> None:
        """Move the session of a thread to the trash."""
        self._forget(str(thread_id))
        self.bridge.session(str(thread_id)).delete("LangGraph deleted the thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        wanted = set(run_ids)

        def of_runs(state: ThreadState) -> set[tuple[str, str]]:
            return {(ns, id) for ns, id in state.all() if self._metadata(state, ns, id).get("run_id") in wanted}

        for (thread,) in self.bridge.namespaces() if wanted else ():
            self._remove(thread, of_runs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        states = self._log(str(source_thread_id)).records()
        self._log(str(target_thread_id)).add_many((each.record.text, each.value) for each in states)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads, or all but the latest of each namespace and those that its delta channels need."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy: {strategy!r} is not known; there are keep_latest and delete.")

        def all_but_latest(state: ThreadState) -> set[tuple[str, str]]:
            kept = {each for ns in state.checkpoints for each in self._needed(state, ns, state.latest(ns))}
            return set(state.all()) - kept

        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._remove(thread, all_but_latest)

    def _needed(self, state: ThreadState, ns: str, id: str | None) -> Iterator[tuple[str, str]]:
        """A checkpoint, and the parents from which its delta channels are put together."""
        steps = 0
        if id is not None:
            counters = self._metadata(state, ns, id).get("counters_since_delta_snapshot") or {}
            steps = max((each[1] for each in counters.values()), default=0)
        while id is not None and (entry := state.find(ns, id)) is not None and steps >= 0:
            yield ns, id
            id, steps = entry["parent"], steps - 1

    def _metadata(self, state: ThreadState, ns: str, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.serde.loads_typed(state.unpack(state.checkpoints[ns][id]["metadata"]))
        return found

    def _remove(self, thread: str, choose: Callable[[ThreadState], set[tuple[str, str]]]) -> None:
        """Delete the chosen checkpoints and their writes, in one transaction. What the others need of them is stored again."""
        self._forget(thread)
        session, states = self.bridge.session(thread).opened(), self._log(thread).records()
        state = ThreadState(each.value for each in states)
        doomed = choose(state)
        if session is None or not doomed:
            return
        dead = _dead(states, set(state.all()) - doomed)
        ids = {(each.value["ns"], each.value["checkpoint"]) for each in dead if "checkpoint" in each.value}
        sentence = "Checkpoints of a LangGraph thread were deleted"
        with session.transaction() as tx:
            for entry in _to_store_again(state, doomed, ids):
                packer = Packer()
                whole = {channel: packer.blob(typed) for channel, typed in state.values(entry).items()}
                head, metadata = (packer.blob(state.unpack(entry[name])) for name in ("head", "metadata"))
                again = {**entry, "head": head, "metadata": metadata, "values": whole, "refs": {}}
                for value in (*packer.parts, again):
                    tx.add("turn", OpaqueLog.fields(sentence, value))
            tx.add("turn", OpaqueLog.fields(sentence, {"drop": [list(each) for each in sorted(doomed)]}))
            for each in dead:
                tx.delete(each.record.id)

    def _forget(self, thread: str) -> None:
        self._known = {place: known for place, known in self._known.items() if place[0] != thread}

    # the same for asyncio

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await aio.call(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await aio.call(next, found, None)) is not None:
            yield each

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        return await aio.call(self.get_delta_channel_history, config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await aio.call(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await aio.call(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await aio.call(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await aio.call(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await aio.call(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await aio.call(self.prune, thread_ids, strategy=strategy)


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread, namespace and id of the checkpoint that a configuration names."""
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or "", get_checkpoint_id(config)


def _config(thread: str, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def _begins_before(record: Record, time: str) -> bool:
    """Whether a memory is older than a checkpoint: then no write of the checkpoint is before it."""
    try:
        return record.created < datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return True


def _dead(states: list[OpaqueState], alive: set[tuple[str, str]]) -> list[OpaqueState]:
    """The entries of checkpoints that are not alive, and their parts; without the newest, to which a `put` in progress may refer."""
    end = states[-1].record.seq - _KEPT_ENTRIES
    dead = [
        each
        for each in states
        if each.record.seq < end
        and (id := each.value.get("checkpoint") or each.value.get("writes")) is not None
        and (each.value["ns"], id) not in alive
    ]
    tokens = {token for each in dead for token in parts_of(each.value)}
    return dead + [each for each in states if each.value.get("part") in tokens]


def _to_store_again(state: ThreadState, doomed: set[tuple[str, str]], dead: set[tuple[str, str]]) -> Iterator[Entry]:
    """The checkpoints that refer to values of dead ones, and the latest of their namespaces as the last, because it is read from the end."""
    for ns in state.checkpoints:
        alive = sorted(id for id in state.checkpoints[ns] if (ns, id) not in doomed)
        refer = [id for id in alive if any((ns, to) in dead for to in state.checkpoints[ns][id]["refs"].values())]
        for id in dict.fromkeys([*refer, *alive[-1:]]) if refer else ():
            yield state.checkpoints[ns][id]
