"""What adapters cost above the calls of SMP that they make: `./dev bench adapters`.

Each row compares one call of an adapter with the calls of SMP that store or read the same fields, in alternating rounds. Processor time
with durability "os" shows the work of the adapter; wall time with durability "always" is what a program waits for. The serialisation that
LangGraph itself asks for (`serde`) is on both sides. A framework that is not installed is left out, and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import tempfile
import time

import smp_memory
from smp_memory.adapters.bridge import Bridge, Items, Messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Sides = tuple[str, Callable[[int], Any], Callable[[int], Any]]

TARGET = 1.2
_TEXT = "Ada prefers green tea in the morning, and travels by train whenever she can. "


def rows(memory: Any) -> Iterator[Sides]:
    """Name, call of the adapter, call of SMP; each takes a running number."""
    yield from _bridge_rows(memory)
    if importlib.util.find_spec("langgraph"):
        yield from _langgraph_rows(memory)
    if importlib.util.find_spec("langchain_core"):
        yield from _langchain_rows(memory)


def _bridge_rows(memory: Any) -> Iterator[Sides]:
    plain = memory.create_session("plain")
    items, messages = Items(Bridge(memory, "bench").session("items")), Messages(Bridge(memory, "bench").session("talk"))

    def item(number: int) -> dict[str, Any]:
        return {"learning": f"{_TEXT}{number}", "exact": {"text": None, "n": number}, "text_field": "text"}

    yield (
        "Items.put of a new key",
        lambda number: items.put(f"key-{number}", {"text": f"{_TEXT}{number}", "n": number}),
        lambda number: plain.add("learning", {"id": f"item-key-{number}", "item_key": f"key-{number}", **item(number)}),
    )
    yield (
        "Items.put of a known key",
        lambda number: items.put("key", {"text": f"{_TEXT}{number}", "n": number}),
        lambda number: _set(plain, "item-key", item(number)),
    )
    yield "Items.get", lambda _: items.get("key"), lambda _: plain.find("item-key")
    yield (
        "Messages.add_many",
        lambda number: messages.add_many([{"role": "user", "content": f"{_TEXT}{number}"}]),
        lambda number: plain.add_turn(
            "user", f"{_TEXT}{number}", exact={"role": "user", "content": None}, text_field="content"
        ),
    )


def _set(session: Any, id: str, fields: dict[str, Any]) -> None:
    if session.find(id) is None:
        session.add("learning", {"id": id, **fields})
    else:
        session.update(id, **fields)


def _langgraph_rows(memory: Any) -> Iterator[Sides]:
    from langgraph.checkpoint.base import empty_checkpoint

    from smp_memory.adapters.bridge import OpaqueLog
    from smp_memory.adapters.checkpoint_log import Packer
    from smp_memory.adapters.langgraph import SMPSaver, SMPStore

    saver, store, plain = SMPSaver(memory), SMPStore(memory), memory.create_session("checkpoints")
    place: dict[str, Any] = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}

    def checkpoint(number: int) -> Any:
        values = {"messages": [f"{_TEXT}{each}" for each in range(10)], "n": number}
        versions = {"messages": number, "n": number}
        return {**empty_checkpoint(), "id": f"{number:08}", "channel_values": values, "channel_versions": versions}

    def put(number: int) -> None:
        made = checkpoint(number)
        saver.put(place, made, {"source": "loop", "step": number}, made["channel_versions"])

    def add(number: int) -> None:
        made, dump, packer = checkpoint(number), saver.serde.dumps_typed, Packer()
        values = made.pop("channel_values")
        entry = {"checkpoint": made["id"], "ns": "", "parent": None, "head": packer.blob(dump(made))}
        entry |= {"metadata": packer.blob(dump({"source": "loop", "step": number})), "refs": {}}
        entry["values"] = {name: packer.blob(dump(value)) for name, value in values.items()}
        plain.add("turn", OpaqueLog.fields(f"Checkpoint {number}", entry))

    yield "SMPSaver.put", put, add

    def load(_: int) -> None:
        value = plain.records("turn", last=64)[-1].given["opaque"]
        for blob in (value["head"], value["metadata"], *value["values"].values()):
            saver.serde.loads_typed(_unpacked(blob))

    yield "SMPSaver.get_tuple", lambda _: saver.get_tuple(place), load
    yield (
        "SMPStore.put",
        lambda number: store.put(("users", "ada"), "tea", {"text": f"{_TEXT}{number}"}),
        lambda number: _set(plain, "item-tea", {"learning": f"{_TEXT}{number}", "text_field": "text"}),
    )
    yield "SMPStore.get", lambda _: store.get(("users", "ada"), "tea"), lambda _: plain.find("item-tea")


def _unpacked(blob: list[Any]) -> tuple[str, bytes]:
    from smp_memory.adapters.checkpoint_log import ThreadState

    return ThreadState(()).unpack(blob)


def _langchain_rows(memory: Any) -> Iterator[Sides]:
    from langchain_core.messages import HumanMessage

    from smp_memory.adapters.langchain import SMPChatMessageHistory, SMPRetriever

    history, plain = SMPChatMessageHistory(memory, "talk"), memory.create_session("talk")
    exact, message = {"type": "human", "content": None}, HumanMessage(_TEXT)
    yield (
        "SMPChatMessageHistory.add_message",
        lambda _: history.add_message(message),
        lambda _: plain.add_turn("user", _TEXT, exact=exact, text_field="content"),
    )
    for number in range(5):
        plain.add_learning(f"A cormorant dives {number} metres")
    retriever = SMPRetriever(memory=memory)
    yield "SMPRetriever.invoke", lambda _: retriever.invoke("cormorant"), lambda _: memory.query("cormorant", limit=4)


def measure(sides: Sides, rounds: int, calls: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a call of the adapter and of SMP: the fastest of the rounds."""
    numbers = itertools.count()
    fastest = [float("inf"), float("inf")]
    for _ in range(rounds):
        drawn = list(itertools.islice(numbers, calls))
        for place, side in enumerate(sides[1:]):
            start = clock()
            for number in drawn:
                side(number)
            fastest[place] = min(fastest[place], (clock() - start) / calls)
    return fastest[0], fastest[1]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench adapters", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=30, help="calls in a round")
    parser.add_argument(
        "--folder", default=".", help="where the stores are made for the time of the run (default: here)"
    )
    chosen = parser.parse_args(words)
    missing = [name for name in ("langgraph", "langchain_core") if not importlib.util.find_spec(name)]
    if missing:
        print(f"not installed and left out: {', '.join(missing)}", file=sys.stderr)
    print(f"{'call':36} {'durability':10} {'adapter':>10} {'SMP':>10} {'ratio':>6}  target ≤ {TARGET}")
    for durability, clock in (("os", time.process_time), ("always", time.perf_counter)):
        with (
            tempfile.TemporaryDirectory(dir=chosen.folder) as folder,
            smp_memory.open(folder, config={"durability": durability}, trust=False) as memory,
        ):
            for sides in rows(memory):
                own, core = measure(sides, chosen.rounds, chosen.calls, clock)
                print(f"{sides[0]:36} {durability:10} {own * 1e6:>7.0f} µs {core * 1e6:>7.0f} µs {own / core:>6.2f}")
    return 0
