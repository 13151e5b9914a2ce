"""Latency of `context` over 100,000 memories, beside a bare query of the same words.

The store is that of the queries, with preferences, learnings, agent states and global memories in it. A context is what a
hook asks for at every prompt: one question by words, some by time, and the memories that fit into 1,500 tokens.
"""

from __future__ import annotations

import queries
import reads
from timing import MILLISECONDS, Row, Target, alternate, each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from run import Plan

_AGENT, _SESSION = "architect", "session-0000"
_KEYS = 40
_filled: dict[int, queries.Filled] = {}


def _store(plan: Plan) -> queries.Filled:
    """The store of the queries, with what an agent needs beside turns, decisions and findings."""
    count, sessions, _ = queries._SIZES[0 if plan.quick else 2]
    filled = queries._store(plan, count, sessions)
    if count not in _filled:
        texts = queries.Texts()
        memory = filled.memory
        session = memory.session(_SESSION)
        session.add_many([("preference", {"key": f"key{number}", "value": texts.text()}) for number in range(_KEYS)])
        session.add_many([("learning", {"learning": texts.text(), "author": _AGENT}) for _ in range(_KEYS)])
        for agent in (_AGENT, "tester", "veritas"):
            session.update_agent_state(agent, {"task": texts.text(), "done": 3})
        for record in session.records("learning", last=10):
            memory.global_memory.promote(record)
        _filled[count] = filled
    return filled


def contexts(plan: Plan) -> Iterator[Row]:
    """A context for a task, and a digest without one; a query of the same words beside it."""
    filled = _store(plan)
    memory = filled.memory
    case = f"{filled.count:,} memories"

    def task(words: str) -> None:
        found = memory.context(_AGENT, words, session=_SESSION)
        if not 0 < found.tokens <= 1500:
            raise RuntimeError(f"{found!r} for {words!r}")

    def digest(_: str) -> None:
        memory.context(_AGENT, session=_SESSION)

    for name, ask in (("for a task", task), ("a digest", digest)):
        sides = alternate(
            {"context": lambda: each(ask, filled.questions), "query": lambda: each(memory.query, filled.questions)},
            plan.count(5, 2),
        )
        limit = None if plan.quick else Target("value", at_most=10.0)
        for label, share in (("p95", 0.95), ("p50", 0.5)):
            yield Row(
                f"context {name}, {label}",
                case,
                "ms",
                sides.at("context", share) * 1e3,
                sides.at("query", share) * 1e3,
                sides.ratio("context", "query"),
                limit if label == "p95" else None,
                sides.details("context", MILLISECONDS),
            )


_FIRST = """\
import smp_memory
context = smp_memory.open({root!r}).context({agent!r}, "which connection is closed when the timeout expires", session={session!r})
if not 0 < context.tokens <= 1500: raise SystemExit("no context")
"""


def first_context(plan: Plan) -> Iterator[Row]:
    """A new process, as a hook is one: import, open, context; against `python -c pass`."""
    filled = _store(plan)
    children = reads.Children(plan)
    script = _FIRST.format(root=filled.root, agent=_AGENT, session=_SESSION)
    filled.memory.query("caught up")
    sides = alternate(
        {"smp": lambda: children.seconds(script), "python": lambda: children.seconds("pass")}, plan.count(15, 3)
    )
    yield Row(
        "first context of a new process",
        f"{filled.count:,} memories",
        "ms",
        sides.at("smp", 0.5) * 1e3,
        sides.at("python", 0.5) * 1e3,
        sides.ratio("smp", "python"),
    )
