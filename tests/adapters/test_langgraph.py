"""LangGraph's store and checkpointer on SMP: the public conformance suite, LangGraph's own classes as oracles, real graphs, crashes."""

from __future__ import annotations

import asyncio
import operator
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory import errors
from smp_memory.session import SessionMemory
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

pytest.importorskip("langgraph.graph", reason="LangGraph is not installed; ./dev test-adapters has it")

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from smp_memory.adapters.langgraph import SMPSaver, SMPStore
from tests.adapters.langgraph_programs import SCRIPT, State, agent, at, checkpoint, model

PROGRAMS = (sys.executable, "-m", "tests.adapters.langgraph_programs")
SUITE = {
    "put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5, "delete_for_runs": 7, "copy_thread": 8, "prune": 8,
}  # fmt: skip


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return make_address(request.param, tmp_path, request)


@pytest.fixture
def ram() -> Any:
    with smp_memory.open(":memory:") as memory:
        yield memory


# -- the public suite


def test_conformance_suite_passes(address: str) -> None:
    @checkpointer_test(name="SMPSaver")
    async def saver() -> Any:
        made = SMPSaver(address)
        yield made
        made.close()

    report = asyncio.run(validate(saver))
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert {name: result.tests_passed for name, result in report.results.items()} == SUITE


# -- the checkpointer beside LangGraph's own


def plain(found: Any) -> Any:
    """All of a checkpoint but the time at which a test made it."""
    if found is None:
        return None
    kept = {name: value for name, value in found.checkpoint.items() if name != "ts"}
    return found.config, kept, found.metadata, found.parent_config, found.pending_writes


_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["", "child:1"]), st.sets(st.sampled_from("abc")), st.integers(0, 6), st.booleans()),
    max_size=25,
)  # fmt: skip


@given(_STEPS)
@settings(max_examples=25)
def test_checkpointer_equals_in_memory_saver(steps: list[tuple[int, str, set[str], int, bool]]) -> None:
    """Puts on the latest or an earlier checkpoint, writes, and a new process now and then, beside InMemorySaver."""
    with smp_memory.open(":memory:") as memory:
        ours, theirs = SMPSaver(memory), InMemorySaver()
        known: dict[str, list[Any]] = {"": [], "child:1": []}
        for number, (action, ns, changed, back, is_new) in enumerate(steps):
            ours = SMPSaver(memory) if is_new else ours
            parents = known[ns]
            parent = parents[-1 - back % len(parents)] if parents else None
            config = parent.config if parent else at("t", checkpoint_ns=ns)
            if action == 3 and parent is not None:
                for saver in (ours, theirs):
                    saver.put_writes(
                        config, [("a", number), ("__error__", "x")], f"task {back % 2}", f"path {back % 3}"
                    )
            else:
                before = parent.checkpoint if parent else checkpoint("", {}, {})
                new = dict.fromkeys(changed, number)
                values = {**before["channel_values"], **{name: [number, name] for name in changed}}
                made = checkpoint(f"{number:08d}", values, {**before["channel_versions"], **new})
                for saver in (ours, theirs):
                    saver.put(config, made, {"source": "loop", "step": number}, new)
                known[ns].append(theirs.get_tuple(at("t", checkpoint_ns=ns, checkpoint_id=made["id"])))
            assert plain(ours.get_tuple(at("t", checkpoint_ns=ns))) == plain(
                theirs.get_tuple(at("t", checkpoint_ns=ns))
            )
        for ns in known:
            both = [[plain(each) for each in saver.list(at("t", checkpoint_ns=ns))] for saver in (ours, theirs)]
            assert both[0] == both[1]


CONSTANT = random.Random(27).randbytes(3000)  # cannot be compressed


def long_thread(saver: Any, count: int, thread: str = "t") -> None:
    config = at(thread, checkpoint_ns="")
    values: dict[str, Any] = {"constant": CONSTANT, "rare": "", "counter": 0}
    versions: dict[str, Any] = {"constant": 1, "rare": 1, "counter": 1}
    new = dict(versions)
    for number in range(count):
        config = saver.put(config, checkpoint(f"{number:08d}", dict(values), dict(versions)), {"step": number, "run_id": f"run {number % 7}"}, new)  # fmt: skip
        saver.put_writes(config, [("counter", number)], f"task {number}")
        new = {"counter": number + 2, **({"rare": number + 2} if number % 150 == 0 else {})}
        values, versions = {**values, **{name: f"{name} {number}" for name in new}}, {**versions, **new}


def test_long_thread_equals_in_memory_saver_and_stores_values_once(ram: Any) -> None:
    ours, theirs = SMPSaver(ram), InMemorySaver()
    long_thread(ours, 400)
    long_thread(theirs, 400)
    everything = at("t", checkpoint_ns="")
    assert [plain(each) for each in SMPSaver(ram).list(everything)] == [plain(each) for each in theirs.list(everything)]
    entries = [record.given["opaque"] for record in ram.session("langgraph-t").records()]
    assert sum("constant" in entry.get("values", {}) for entry in entries) <= 400 // 40  # not with each checkpoint


def test_latest_checkpoint_is_read_from_end_of_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(tmp_path / "store", config={"durability": "os"}) as memory:
        long_thread(SMPSaver(memory), 300)
    asked = []
    records = SessionMemory.records

    def noted(self: Any, type: Any = None, *, last: int | None = None, include_deleted: bool = False) -> Any:
        asked.append(last)
        return records(self, type, last=last, include_deleted=include_deleted)

    monkeypatch.setattr(SessionMemory, "records", noted)
    saver = SMPSaver(tmp_path / "store")
    found = saver.get_tuple(at("t"))
    assert found.checkpoint["id"] == "00000299"
    assert found.checkpoint["channel_values"]["constant"] == CONSTANT
    saver.put(
        found.config,
        checkpoint("00000300", found.checkpoint["channel_values"], found.checkpoint["channel_versions"]),
        {},
        {},
    )
    assert saver.get_tuple(at("t")).checkpoint["channel_values"] == found.checkpoint["channel_values"]
    assert None not in asked
    saver.close()


def test_writes_stored_before_their_checkpoint_are_found(ram: Any) -> None:
    """LangGraph stores a checkpoint in the background while the next tasks write; with many tasks the writes may come first."""
    saver, id = SMPSaver(ram), "00000001"
    made = checkpoint(id, {}, {})
    for number in range(200):
        saver.put_writes(at("t", checkpoint_id=id), [("a", number)], f"task {number:03d}")
    saver.put(at("t", checkpoint_ns=""), made, {}, {})
    assert len(SMPSaver(ram).get_tuple(at("t")).pending_writes) == 200


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "postgresql"])
def test_state_larger_than_one_memory_comes_back(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    saver = SMPSaver(make_address(kind, tmp_path, request))
    values = {
        "random": os.urandom(2_500_000),
        "text": "word " * 300_000,
        **{f"c{n}": os.urandom(60_000) for n in range(20)},
    }
    config = saver.put(
        at("t", checkpoint_ns=""), checkpoint("1", values, dict.fromkeys(values, 1)), {}, dict.fromkeys(values, 1)
    )
    saver.put_writes(config, [("random", values["random"])], "task")
    again = SMPSaver(saver.bridge.memory)
    found = again.get_tuple(at("t"))
    assert found.checkpoint["channel_values"] == values
    assert found.pending_writes == [("task", "random", values["random"])]
    again.put(found.config, checkpoint("2", values, dict.fromkeys(values, 1)), {}, {})
    again.prune(["t"])
    assert [each.checkpoint["channel_values"] == values for each in again.list(at("t"))] == [True]
    saver.close()


def test_full_session_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    saver = SMPSaver(tmp_path / "store")
    first = saver.put(at("t", checkpoint_ns=""), checkpoint("01", {"a": 1}, {"a": 1}), {}, {"a": 1})
    saver.bridge.memory.session("langgraph-t").set_config("storage.max_session_size_mb", 0.2)
    saver.close()
    saver = SMPSaver(tmp_path / "store")
    with pytest.raises(errors.SizeLimitExceeded, match="max_session_size_mb"):
        for number in range(2, 100):
            saver.put(first, checkpoint(f"{number:02}", {"a": os.urandom(20_000)}, {"a": number}), {}, {"a": number})
    assert len(list(saver.list(at("t")))) == number - 1
    saver.prune(["t"])
    assert [each.checkpoint["id"] for each in saver.list(at("t"))] == [f"{number - 1:02}"]
    saver.close()


@pytest.mark.parametrize(
    "thread", ["", "Ada", "ada@example.org", "a/b\\c", "../../x", "日本", "x" * 300, "a-b", "con", 17, "\0"]
)
def test_odd_thread_ids_are_kept_apart(ram: Any, thread: Any) -> None:
    saver = SMPSaver(ram)
    saver.put(at(thread, checkpoint_ns=""), checkpoint("1", {"a": "own"}, {"a": 1}), {}, {"a": 1})
    saver.put(at("other", checkpoint_ns=""), checkpoint("1", {"a": "other"}, {"a": 1}), {}, {"a": 1})
    assert SMPSaver(ram).get_tuple(at(thread)).checkpoint["channel_values"] == {"a": "own"}
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {str(thread), "other"}
    saver.delete_thread(thread)
    assert saver.get_tuple(at(thread)) is None
    assert saver.get_tuple(at("other")) is not None


def test_deleting_keeps_what_other_checkpoints_need(ram: Any) -> None:
    saver, theirs = SMPSaver(ram), InMemorySaver()
    long_thread(saver, 700)
    long_thread(theirs, 700)
    saver.delete_for_runs([f"run {number}" for number in range(6)])
    expected = {each.checkpoint["id"]: plain(each) for each in theirs.list(None, filter={"run_id": "run 6"})}
    assert {each.checkpoint["id"]: plain(each) for each in saver.list(at("t"))} == expected
    assert plain(SMPSaver(ram).get_tuple(at("t"))) == expected[max(expected)]
    saver.prune(["t", "unknown"])
    assert [plain(each) for each in SMPSaver(ram).list(at("t"))] == [expected[max(expected)]]
    assert ram.session("langgraph-t").validate().ok


def test_put_of_process_that_missed_a_prune_is_complete(ram: Any) -> None:
    slow, fast = SMPSaver(ram), SMPSaver(ram)
    long_thread(slow, 10)
    found = slow.get_tuple(at("t"))
    long_thread(fast, 600)
    fast.prune(["t"])
    values, versions = found.checkpoint["channel_values"], found.checkpoint["channel_versions"]
    slow.put(found.config, checkpoint("00000700", values, versions), {}, {})
    assert SMPSaver(ram).get_tuple(at("t")).checkpoint["channel_values"] == values
    fast.prune(["t"])
    assert SMPSaver(ram).get_tuple(at("t")).checkpoint["channel_values"] == values


def test_checkpoints_are_not_redacted_searched_or_shown(ram: Any) -> None:
    secret = "my key is AKIAIOSFODNN7EXAMPLE and the tortoise knows it"
    saver = SMPSaver(ram)
    saver.put(at("t", checkpoint_ns=""), checkpoint("1", {"a": secret}, {"a": 1}), {}, {"a": 1})
    assert saver.get_tuple(at("t")).checkpoint["channel_values"]["a"] == secret
    assert ram.query("tortoise") == []
    assert ram.redact() == []
    assert ram.context("architect", task="checkpoint of a LangGraph thread").items == []


def test_unknown_strategy_and_incomplete_checkpoint_are_clear_errors(ram: Any) -> None:
    saver = SMPSaver(ram)
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="keep_some")
    long_thread(saver, 3)
    [first, *_] = ram.session("langgraph-t").records()
    ram.session("langgraph-t").delete(first.id)
    with pytest.raises(errors.StorageCorrupt, match="incomplete"):
        SMPSaver(ram).get_tuple(at("t"))


# -- real graphs with a scripted model


@pytest.mark.parametrize("kind", ["markdown", "postgresql"])
def test_interrupted_graph_goes_on_in_another_process(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = make_address(kind, tmp_path, request)
    first = subprocess.run([*PROGRAMS, "interrupt", address], timeout=100, check=False)
    assert first.returncode == -signal.SIGKILL
    saver = SMPSaver(address)
    graph = agent().compile(checkpointer=saver)
    assert graph.get_state(at("trip")).next == ("ask",)
    done = graph.invoke(Command(resume="yes"), at("trip"))
    assert done["said"] == [SCRIPT[0], "user: yes", SCRIPT[2]]
    assert graph.get_state(at("trip")).next == ()
    saver.close()


def test_time_travel_and_fork(ram: Any) -> None:
    graph = agent().compile(checkpointer=SMPSaver(ram))
    graph.invoke({"said": []}, at("trip"))
    graph.invoke(Command(resume="yes"), at("trip"))
    history = list(graph.get_state_history(at("trip")))
    [before] = [each for each in history if each.next == ("ask",)]
    forked = graph.update_state(before.config, {"said": ["by plane"]})
    assert graph.get_state(forked).values["said"] == [SCRIPT[0], "by plane"]
    assert graph.get_state(history[0].config).values["said"][-1] == SCRIPT[2]
    again = list(agent().compile(checkpointer=SMPSaver(ram)).get_state_history(at("trip")))
    assert [each.values for each in again[1:]] == [each.values for each in history]


def test_subgraphs_have_namespaces_of_their_own(ram: Any) -> None:
    inner = agent().compile(checkpointer=True)
    outer = StateGraph(State)
    outer.add_node("trip", inner)
    outer.add_node("end", model)
    outer.add_edge(START, "trip")
    outer.add_edge("trip", "end")
    saver = SMPSaver(ram)
    outer.compile(checkpointer=saver).invoke({"said": []}, at("t"))
    state = outer.compile(checkpointer=SMPSaver(ram)).get_state(at("t"), subgraphs=True)
    assert state.tasks[0].state.values["said"] == [SCRIPT[0]]
    done = outer.compile(checkpointer=SMPSaver(ram)).invoke(Command(resume="no"), at("t"))
    assert done["said"][-3:-1] == ["user: no", SCRIPT[2]]
    assert {each.config["configurable"]["checkpoint_ns"] for each in saver.list(at("t"))} == {"", "trip"}


def appended(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(each for write in writes for each in write)]


class DeltaState(TypedDict):
    said: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=5)]


def test_delta_channels_survive_prune_and_copy(ram: Any) -> None:
    builder = StateGraph(DeltaState)
    builder.add_node("model", lambda state: {"said": [f"answer {len(state['said'])}"]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=SMPSaver(ram))
    for number in range(8):
        expected = graph.invoke({"said": [f"question {number}"]}, at("t"))["said"]
        saver = SMPSaver(ram)
        assert builder.compile(checkpointer=saver).get_state(at("t")).values["said"] == expected
        saver.copy_thread("t", f"copy {number}")
        saver.prune([f"copy {number}"])
        assert builder.compile(checkpointer=saver).get_state(at(f"copy {number}")).values["said"] == expected
    assert len(expected) == 16


def test_graph_and_store_work_with_asyncio(ram: Any) -> None:
    async def run() -> None:
        graph = agent().compile(checkpointer=SMPSaver(ram))
        await graph.ainvoke({"said": []}, at("trip"))
        done = await graph.ainvoke(Command(resume="yes"), at("trip"))
        assert done["said"] == [SCRIPT[0], "user: yes", SCRIPT[2]]
        history = [each.values async for each in graph.aget_state_history(at("trip"))]
        assert history[0] == done
        store = SMPStore(ram)
        await asyncio.gather(*(store.aput(("users",), str(number), {"n": number}) for number in range(20)))
        assert len(await store.asearch(("users",), limit=100)) == 20

    asyncio.run(run())


def test_concurrent_threads_do_not_mix(tmp_path: Path) -> None:
    saver = SMPSaver(tmp_path / "store")
    graph = agent().compile(checkpointer=saver)

    def run(name: str) -> None:
        graph.invoke({"said": [name]}, at(name))
        graph.invoke(Command(resume=name), at(name))

    threads = [threading.Thread(target=run, args=(f"thread {number}",)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number in range(8):
        name = f"thread {number}"
        assert graph.get_state(at(name)).values["said"] == [name, SCRIPT[1], f"user: {name}", SCRIPT[0]]
    saver.close()


def start_writer(address: str, me: str, count: int) -> subprocess.Popen[str]:
    command = [*PROGRAMS, "write", address, me, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_shared(address: str, acknowledged: dict[str, int]) -> None:
    """Every acknowledged checkpoint is there, and every checkpoint that is there is complete."""
    saver = SMPSaver(address)
    everything = list(saver.list(at("shared")))
    found = {each.checkpoint["id"].partition("-")[2]: each for each in everything}
    for me, last in acknowledged.items():
        assert all(f"{me}-{number}" in found for number in range(last + 1))
        assert found[f"{me}-{last}"].pending_writes == [(me, "n", [me, last])]
    for name, each in found.items():
        me, _, number = name.partition("-")
        assert each.checkpoint["channel_values"] == {"n": [me, int(number)], "big": me * 2000}
    assert plain(saver.get_tuple(at("shared"))) == plain(everything[0])
    saver.close()


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_processes_write_to_one_thread(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address(kind, tmp_path, request)
    writers = [start_writer(address, me, 40) for me in ("a", "b")]
    assert [(each.communicate(timeout=100), each.returncode)[1] for each in writers] == [0, 0]
    check_shared(address, {"a": 39, "b": 39})


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["jsonl", "markdown"])
def test_killed_writer_loses_no_acknowledged_checkpoint(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = make_address(kind, tmp_path, request)
    acknowledged = {}
    for place, me in enumerate("ab"):
        writer = start_writer(address, me, 10_000)
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(5 + 7 * place)]
        writer.kill()
        lines += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        acknowledged[me] = max(int(line) for line in lines if line.strip().isdigit() and line.endswith("\n"))
        check_shared(address, acknowledged)
    with smp_memory.open(address) as memory:
        assert memory.session("langgraph-shared").validate().ok


# -- the store beside LangGraph's own

_NAMES = st.sampled_from(["a", "b", "users"])
_NAMESPACES = st.lists(_NAMES, min_size=1, max_size=3).map(tuple)
_KEYS = st.sampled_from(["k", "K", "a b", "ada@example.org", "x/y"])
_VALUES = st.dictionaries(st.sampled_from(["text", "n", "deep"]), st.one_of(st.text("ab ", max_size=3), st.integers(0, 3), st.lists(st.integers(0, 1), max_size=2), st.dictionaries(st.just("x"), st.integers(0, 2)), st.none()))  # fmt: skip
_CHANGES = st.lists(st.tuples(_NAMESPACES, _KEYS, st.none() | _VALUES), max_size=12)
_NUMBERS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
_FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": st.integers(0, 3)}),
    st.fixed_dictionaries({"deep": st.fixed_dictionaries({"x": st.integers(0, 2)}) | st.lists(st.integers(0, 1), max_size=2)}),
    st.fixed_dictionaries({"n": st.dictionaries(_NUMBERS, st.integers(0, 3), min_size=1)}),
)  # fmt: skip
_CONDITIONS = st.tuples(st.lists(_NAMES | st.just("*"), max_size=2).map(tuple), st.lists(_NAMES | st.just("*"), max_size=2).map(tuple), st.none() | st.integers(1, 3))  # fmt: skip


@given(_CHANGES, st.lists(_NAMES, max_size=2).map(tuple), _FILTERS, _CONDITIONS)
def test_store_equals_in_memory_store(changes: Any, prefix: tuple[str, ...], filter: Any, conditions: Any) -> None:
    live: dict[Any, Any] = {}
    with smp_memory.open(":memory:", config={"privacy.redaction.enabled": False}) as memory:
        store, theirs = SMPStore(memory), InMemoryStore()
        for namespace, key, value in changes:
            store.batch([PutOp(namespace, key, value)])
            live.pop((namespace, key), None)
            if value is not None:
                live[namespace, key] = value
        for (namespace, key), value in live.items():
            theirs.put(namespace, key, value)
        for namespace, key, _ in changes:
            both = [each.get(namespace, key) for each in (store, theirs)]
            assert [each and (each.namespace, each.key, each.value) for each in both[:1]] == [each and (each.namespace, each.key, each.value) for each in both[1:]]  # fmt: skip
        theirs = InMemoryStore()
        for (namespace, key), value in live.items():
            theirs.put(namespace, key, value)
        assert _found(store, prefix, filter) == _found(theirs, prefix, filter)
        start, end, depth = conditions
        options = {"prefix": start or None, "suffix": end or None, "max_depth": depth}
        assert store.list_namespaces(**options) == theirs.list_namespaces(**options)
        assert store.list_namespaces(offset=1, limit=2) == theirs.list_namespaces(offset=1, limit=2)
        pages = [store.search(prefix, offset=start, limit=3) for start in range(0, len(live) + 3, 3)]
        assert len({(each.namespace, each.key) for page in pages for each in page}) == len(_found(theirs, prefix, None))


def _found(store: Any, prefix: tuple[str, ...], filter: Any) -> Any:
    """What a search finds; of operators that cannot compare a value, InMemoryStore raises where SMPStore finds nothing."""
    try:
        found = store.search(prefix, filter=filter, limit=1000)
    except (TypeError, ValueError):
        found = [each for each in store.search(prefix, limit=1000) if _is_number(each.value.get("n"), filter["n"])]
    return sorted(((each.namespace, each.key, each.value) for each in found), key=repr)


def _is_number(value: Any, conditions: dict[str, int]) -> bool:
    try:
        compare = {"$eq": operator.eq, "$ne": operator.ne}
        numeric = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
        return all(compare[name](value, other) if name in compare else numeric[name](float(value), other) for name, other in conditions.items())  # fmt: skip
    except (TypeError, ValueError):
        return False


def test_batch_reads_the_state_before_it(ram: Any) -> None:
    store = SMPStore(ram)
    results = store.batch(
        [PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"), PutOp(("a",), "k", {"n": 2}), SearchOp(("a",))]
    )
    assert results == [None, None, None, []]
    assert store.get(("a",), "k").value == {"n": 2}
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch(["nonsense"])


def test_query_finds_items_with_score_and_filter(address: str) -> None:
    store = SMPStore(address)
    store.put(("users", "ada"), "tea", {"text": "Ada drinks green tea", "kind": "drink"})
    store.put(("users", "bob"), "coffee", {"text": "Bob drinks coffee, never tea", "kind": "drink"})
    store.put(("users", "ada"), "train", {"text": "Ada goes by train", "kind": "travel"})
    store.put(("other",), "tea", {"text": "Somebody else has tea"})
    store.put(("users", "ada"), "hidden", {"text": "A secret tea"}, index=False)
    found = store.search(("users",), query="who drinks tea?")
    assert {each.key for each in found} == {"tea", "coffee"}
    assert all(0 < each.score <= 1 for each in found)
    assert found[0].score >= found[1].score
    assert [each.key for each in store.search(("users", "ada"), query="tea")] == ["tea"]
    assert [each.key for each in store.search(("users",), query="Ada", filter={"kind": "travel"})] == ["train"]
    assert store.search(("users",), query="tea", offset=5) == []
    assert store.search(("nobody",), query="tea") == []
    store.bridge.close()


def test_items_are_memories_of_smp(ram: Any) -> None:
    SMPStore(ram).put(("users", "ada"), "tea", {"text": "Ada drinks green tea"})
    assert ram.query("green tea").records[0].text == "Ada drinks green tea"


def test_time_to_live_is_refused(ram: Any) -> None:
    with pytest.raises(NotImplementedError):
        SMPStore(ram).put(("a",), "k", {"n": 1}, ttl=5)


def test_value_above_the_content_limit_is_a_clear_error(ram: Any) -> None:
    store = SMPStore(ram)
    store.put(("a",), "k", {"text": "x" * 1_000_000})
    assert len(store.get(("a",), "k").value["text"]) == 1_000_000
    with pytest.raises(errors.SizeLimitExceeded, match="max_content_kb"):
        store.put(("a",), "k", {"text": "x" * 1_100_000})
    assert len(store.get(("a",), "k").value["text"]) == 1_000_000


def test_example_of_page_runs(tmp_path: Path) -> None:
    assert run_page("langgraph.md", tmp_path).splitlines() == [
        "('ask',)",
        "['by train']",
        "{'text': 'Ada travels by train'}",
        "Ada travels by train",
    ]


def test_missing_framework_names_the_extra() -> None:
    code = "import sys; sys.modules['langgraph'] = None; import smp_memory.adapters.langgraph"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install 'smp-memory[langgraph]'" in found.stderr


# -- faults found by an attack


def _put(saver, config, step):
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"const": "C", "n": step}
    checkpoint["channel_versions"] = {"const": 1, "n": step}
    return saver.put(
        config, checkpoint, {"step": step, "source": "loop"}, {"n": step} if step > 1 else {"const": 1, "n": 1}
    )


def test_thread_that_is_deleted_while_a_run_goes_on_stays_readable(tmp_path):
    """The next checkpoint referred to a value in the deleted session, and nobody could read the thread again."""
    thread = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with smp_memory.open(tmp_path / "store") as memory:
        one, other = SMPSaver(memory), SMPSaver(memory)
        config = thread
        for step in range(1, 4):
            config = _put(one, config, step)
        other.delete_thread("t")
        for step in range(4, 9):
            config = _put(one, config, step)
            assert one.get_tuple(thread).checkpoint["channel_values"] == {"const": "C", "n": step}
        assert len(list(other.list(None))) == 5


def test_one_unreadable_checkpoint_does_not_hide_other_threads(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        saver = SMPSaver(memory)
        for name in ("a", "b"):
            config = _put(saver, {"configurable": {"thread_id": name, "checkpoint_ns": ""}}, 1)
            _put(saver, config, 2)
        memory.delete("langgraph-a/TURN-0001")  # the second checkpoint refers to it
        found = []
        with pytest.raises(errors.StorageCorrupt):
            for each in saver.list(None):
                found.append(each.config["configurable"]["thread_id"])
        assert sorted(found) == ["b", "b"]


def test_items_without_an_index_do_not_use_up_the_limit_of_a_search(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        store = SMPStore(memory)
        for number in range(5):
            store.put(("n",), f"h{number}", {"text": "apple pie apple pie"}, index=False)
        store.put(("n",), "v", {"text": "I once had an apple and many other things as well in the big city"})
        assert [each.key for each in store.search(("n",), query="apple", limit=1)] == ["v"]
