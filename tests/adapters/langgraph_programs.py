"""Checkpoints, a graph with a scripted model, and writers for tests of LangGraph; also for processes, so nothing heavy is imported.

python -m tests.adapters.langgraph_programs interrupt ADDRESS
python -m tests.adapters.langgraph_programs write ADDRESS NAME COUNT
"""

from __future__ import annotations

import operator
import os
import signal
import sys
import time
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.base import empty_checkpoint

from smp_memory.adapters.langgraph import SMPSaver


def at(thread: str, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **more}}


def checkpoint(id: str, values: dict[str, Any], versions: dict[str, Any]) -> Any:
    return {**empty_checkpoint(), "id": id, "channel_values": values, "channel_versions": versions}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


SCRIPT = ["I would book the train.", "Booked.", "Anything else?"]


def model(state: State) -> dict[str, Any]:
    return {"said": [SCRIPT[len(state["said"]) % len(SCRIPT)]]}


def ask(state: State) -> dict[str, Any]:
    from langgraph.types import interrupt

    return {"said": [f"user: {interrupt('Shall I book?')}"]}


def agent() -> Any:
    from langgraph.graph import END, START, StateGraph

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("ask", ask)
    builder.add_node("book", model)
    builder.add_edge(START, "model")
    builder.add_edge("model", "ask")
    builder.add_edge("ask", "book")
    builder.add_edge("book", END)
    return builder


def interrupt_graph(address: str) -> None:
    """Run the graph until it asks, and die."""
    graph = agent().compile(checkpointer=SMPSaver(address))
    found = graph.invoke({"said": []}, at("trip"))
    assert found["__interrupt__"][0].value == "Shall I book?", found
    os.kill(os.getpid(), signal.SIGKILL)


def write_checkpoints(address: str, me: str, count: int) -> None:
    """Put checkpoints with writes into one thread, and print the number of each when it is stored. Ids begin with the time, as LangGraph's do."""
    saver, config = SMPSaver(address), at("shared", checkpoint_ns="")
    for number in range(count):
        new = {"n": f"{me}{number}", **({"big": me} if number == 0 else {})}
        made = checkpoint(
            f"{time.time_ns():020d}-{me}-{number}", {"n": [me, number], "big": me * 2000}, {"n": new["n"], "big": me}
        )
        config = saver.put(config, made, {"step": number}, new)
        saver.put_writes(config, [("n", [me, number])], me)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "interrupt":
        interrupt_graph(sys.argv[2])
    else:
        write_checkpoints(sys.argv[2], sys.argv[3], int(sys.argv[4]))
