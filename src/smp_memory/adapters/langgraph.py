"""LangGraph: `SMPStore` is a long-term store (`BaseStore`), `SMPSaver` a checkpointer (`BaseCheckpointSaver`).

    graph = builder.compile(checkpointer=SMPSaver("memory"), store=SMPStore("memory"))

Guarantees
    SMPStore   A namespace is a session, an item is a learning. Operations of a batch read the state before the batch. Values are JSON; a
               time in a value comes back as text.
    SMPSaver   A thread is a session, each `put` and `put_writes` one memory in it: after a crash it is there completely or not at all.
               The latest checkpoint is read from the end of the session. Each version of a channel's value is stored about once.
Non-guarantees: checkpoints are neither redacted nor searched. Items have no time to live; `put(ttl=…)` raises NotImplementedError.
See docs/adapters/langgraph.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, Items, item_of

try:
    from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp

    from smp_memory.adapters.langgraph_saver import SMPSaver
except ImportError as error:
    raise ImportError("LangGraph is not installed: pip install 'smp-memory[langgraph]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from langgraph.store.base import MatchCondition, Op, Result

    from smp_memory.adapters.bridge import Item as BridgeItem
    from smp_memory.memory import Memory

__all__ = ["SMPSaver", "SMPStore"]

_MOST_HITS = 10_000  # of a query that is filtered afterwards
_SEARCHED = {"is_searched": {"exists": False}}  # what was put with `index=False` has this field


# -- the store


class SMPStore(BridgeOwner, BaseStore):
    """A LangGraph store in an SMP store. `memory` is a `Memory`, a folder or an address; None: the nearest store."""

    __slots__ = ("bridge",)

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None, *, author: str | None = None) -> None:
        self.bridge = Bridge(memory, "langgraph_store", author)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            elif isinstance(op, GetOp):
                found = self._items(op.namespace).get(op.key)
                results.append(None if found is None else Item(**_fields(op.namespace, found)))
            elif isinstance(op, SearchOp):
                results.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._list_namespaces(op))
            else:
                raise ValueError(f"Unknown operation: {type(op).__name__}.")
        for (namespace, key), op in puts.items():
            if op.value is None:
                self._items(namespace).delete(key)
            else:
                self._items(namespace).put(key, op.value, is_searched=False if op.index is False else None)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await aio.call(self.batch, list(ops))

    def _items(self, namespace: tuple[str, ...]) -> Items:
        return Items(self.bridge.session(*namespace))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        namespaces = self.bridge.namespaces(op.namespace_prefix)
        found = self._hits(op, namespaces) if op.query else self._newest(namespaces)
        wanted = [
            (namespace, item)
            for namespace, item in found
            if all(_matches(item.value.get(name), condition) for name, condition in (op.filter or {}).items())
        ]
        page = wanted[op.offset : op.offset + op.limit]
        return [SearchItem(**_fields(namespace, item), score=item.score) for namespace, item in page]

    def _newest(self, namespaces: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], BridgeItem]]:
        found = [(namespace, item) for namespace in namespaces for item in self._items(namespace).all()]
        return sorted(found, key=lambda each: each[1].updated, reverse=True)

    def _hits(self, op: SearchOp, namespaces: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], BridgeItem]]:
        by_session = {self.bridge.session(*namespace).id: namespace for namespace in namespaces}
        if not by_session:
            return []
        limit = _MOST_HITS if op.filter else op.offset + op.limit
        hits = self.bridge.memory.query(
            op.query, types="learning", sessions=list(by_session), limit=limit, where=_SEARCHED
        )
        found = [(hit.record, item_of(hit.record, hit.relevance)) for hit in hits]
        return [(by_session[record.session], item) for record, item in found if item is not None]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        counts = self.bridge.memory.query(types="learning", count_by="session", limit=0).counts["session"]
        found = {
            namespace[: op.max_depth]
            for namespace in self.bridge.namespaces()
            if self.bridge.session(*namespace).id in counts
            and all(_fits(condition, namespace) for condition in op.match_conditions or ())
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _fields(namespace: tuple[str, ...], item: BridgeItem) -> dict[str, Any]:
    times = {"created_at": item.created, "updated_at": item.updated}
    return {"namespace": namespace, "key": item.key, "value": item.value, **times}


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :] if path else ()
    return len(part) == len(path) and all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, other: bool(value == other),
    "$ne": lambda value, other: bool(value != other),
    "$gt": lambda value, other: float(value) > float(other),
    "$gte": lambda value, other: float(value) >= float(other),
    "$lt": lambda value, other: float(value) < float(other),
    "$lte": lambda value, other: float(value) <= float(other),
}


def _matches(value: Any, condition: Any) -> bool:
    """Whether a value meets a condition of a filter: equal, nested, or with operators. A value that cannot be compared does not."""
    if isinstance(condition, dict) and any(name.startswith("$") for name in condition):
        return all(_compares(value, name, other) for name, other in condition.items())
    if isinstance(condition, dict):
        return isinstance(value, dict) and all(_matches(value.get(name), each) for name, each in condition.items())
    if isinstance(condition, (list, tuple)):
        is_list = isinstance(value, (list, tuple)) and len(value) == len(condition)
        return is_list and all(_matches(each, other) for each, other in zip(value, condition, strict=True))
    return bool(value == condition)


def _compares(value: Any, operator: str, other: Any) -> bool:
    compare = _COMPARISONS.get(operator)
    if compare is None:
        raise ValueError(f"filter: {operator} is not an operator; there are {', '.join(_COMPARISONS)}.")
    try:
        return compare(value, other)
    except (TypeError, ValueError):
        return False
