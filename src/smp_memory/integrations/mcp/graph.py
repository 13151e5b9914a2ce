"""A knowledge graph of entities, observations and relations, stored as memories of one session.

Each entity, each observation and each relation is a `learning` of its own, whose text is a sentence that a search can
find. So adding never rewrites existing memories, and a deletion is a tombstone that `smp restore` undoes.

Guarantees: any number of processes and threads may work on one graph; none loses what another one added. Each call is
stored whole or not at all. What the author of the graph may not see (`smp_memory.privacy.visibility`) is neither shown nor deleted. A
name exists once, even if several create it at the same time: the id of a memory is a digest of its content, and an id is given out
once. Answers are those of the reference memory server, also where that keeps items that one call gives twice. Not guaranteed: names
and texts that hold secrets, or text recalled from memory, come back as they were stored, without them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from smp_memory.errors import Busy, DuplicateId, MemoryNotFound, SessionArchived, SessionExists, SessionNotFound
from smp_memory.privacy import fence
from smp_memory.privacy.settings import redactor_of
from smp_memory.privacy.visibility import Viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.integrations.clients import Client
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

T = TypeVar("T")
SESSION = "knowledge-graph"
_SETTINGS = {"compaction": {"enabled": False}, "storage": {"max_session_size_mb": 250}}  # a graph is not compacted
_MOST_RETRIES = 50


class UnknownEntity(Exception):
    """Observations were given for an entity that does not exist."""


class KnowledgeGraph:
    """The graph in one session of a store; the session is created when something is first added."""

    def __init__(self, memory: Memory, session: str | None = None, author: str | None = None) -> None:
        self._memory = memory
        self._name = session or SESSION
        self._author = author
        self._read: tuple[object, _GraphView] | None = None  # the session's version, and the graph of it

    def for_client(self, client: Client) -> KnowledgeGraph:
        """The same graph as a client of a shared server may use it."""
        return KnowledgeGraph(client.memory, self._name, self._author)

    @property
    def content_limit_bytes(self) -> int:
        """The size limit of a memory."""
        return self._memory.config.content_limit_bytes

    # -- reading

    def read(self) -> dict[str, list[dict[str, Any]]]:
        return self._unchanged_view().whole()

    def search(self, query: str) -> dict[str, list[dict[str, Any]]]:
        """Entities with the query in their name, type or observations, ignoring case; and their relations."""
        needle = query.lower()
        return self._unchanged_view().graph(
            lambda node: (
                needle in node.name.lower()
                or needle in node.type.lower()
                or any(needle in text.lower() for text in node.texts)
            )
        )

    def open(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        view = self._unchanged_view()
        cleaned = {view.clean(name) for name in names}
        return view.graph(lambda node: node.name in cleaned)

    # -- adding

    def create_entities(self, entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the entities whose name does not exist yet; returns those added."""

        def plan(view: _GraphView) -> tuple[list[_Step], list[dict[str, Any]]]:
            existing = view.by_name
            given = [(view.clean(each["name"]), view.clean(each["entityType"]), each) for each in entities]
            new = [each for each in given if each[0] not in existing]
            steps: list[_Step] = []
            for name, kind, each in new:
                entity = view.free_id("ENT", name)
                steps.append(_put(entity, f"{name} is a {kind}", name, graph="entity", entity=name, entity_type=kind))
                steps += view.observations(entity, name, view.new_texts(each["observations"]))
            added = [
                {"name": name, "entityType": kind, "observations": view.new_texts(each["observations"])}
                for name, kind, each in new
            ]
            return steps, added

        return self._apply(plan)

    def create_relations(self, relations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the relations that do not exist yet; returns those added."""

        def plan(view: _GraphView) -> tuple[list[_Step], list[dict[str, Any]]]:
            existing = {edge.key for edge in view.edges}
            new = [key for key in map(view.key_of, relations) if key not in existing]
            return [view.relation(key) for key in new], [_relation(key) for key in new]

        return self._apply(plan)

    def add_observations(self, observations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add observations that do not exist yet to entities that do; returns those added for each entity."""

        def plan(view: _GraphView) -> tuple[list[_Step], list[dict[str, Any]]]:
            steps: list[_Step] = []
            results = []
            for each in observations:
                name = view.clean(each["entityName"])
                node = view.first(name)
                if node is None:
                    raise UnknownEntity(f"Entity with name {each['entityName']} not found")
                new = [text for text in view.new_texts(each["contents"]) if text not in node.texts]
                steps += [("exists", node.id, {}), *view.observations(node.id, name, new)]
                node.texts += new
                results.append({"entityName": name, "addedObservations": new})
            return steps, results

        return self._apply(plan)

    # -- deleting

    def delete_entities(self, names: Iterable[str]) -> None:
        """Delete entities with their observations and relations."""
        given = list(names)

        def plan(view: _GraphView) -> tuple[list[_Step], None]:
            deleted = {view.clean(name) for name in given}
            nodes = [node for node in view.nodes.values() if node.name in deleted]
            ids = [node.id for node in nodes] + [id for node in nodes for id in node.ids]
            ids += [edge.id for edge in view.edges if deleted & set(edge.key[:2])]
            return _deletions(ids), None

        self._apply(plan)
        self._apply(lambda view: (_deletions(view.orphans), None))  # observations added meanwhile

    def delete_observations(self, deletions: list[dict[str, Any]]) -> None:
        def plan(view: _GraphView) -> tuple[list[_Step], None]:
            ids: dict[str, None] = {}
            for each in deletions:
                node = view.first(view.clean(each["entityName"]))
                texts = {view.clean(text) for text in each["observations"]}
                if node is not None:
                    ids |= {id: None for id, text in zip(node.ids, node.texts, strict=True) if text in texts}
            return _deletions(ids), None

        self._apply(plan)

    def delete_relations(self, relations: list[dict[str, Any]]) -> None:
        def plan(view: _GraphView) -> tuple[list[_Step], None]:
            deleted = set(map(view.key_of, relations))
            return _deletions(edge.id for edge in view.edges if edge.key in deleted), None

        self._apply(plan)

    # -- importing

    def merge(
        self, graph: dict[str, list[dict[str, Any]]], source: str | None = None, *, dry_run: bool = False
    ) -> dict[str, int]:
        """Add what another graph has and this one lacks; returns the counts. A named source is merged only once."""
        if source is not None and source in self.sources():
            return {"entities": 0, "observations": 0, "relations": 0}

        def plan(view: _GraphView) -> tuple[list[_Step], dict[str, int]]:
            before = {name: list(nodes) for name, nodes in view.by_name.items()}
            steps: list[_Step] = []
            counts = {"entities": 0, "observations": 0, "relations": 0}
            for each in graph["entities"]:
                name, texts = view.clean(each["name"]), view.new_texts(each["observations"])
                same = before.setdefault(name, [])
                if same:
                    node = same.pop(0)  # the second entity of a name there is the second of that name here
                    entity, texts = node.id, [text for text in texts if text not in node.texts]
                else:
                    kind, entity = view.clean(each["entityType"]), view.free_id("ENT", name)
                    steps.append(
                        _put(entity, f"{name} is a {kind}", name, graph="entity", entity=name, entity_type=kind)
                    )
                    counts["entities"] += 1
                steps += view.observations(entity, name, texts)
                counts["observations"] += len(texts)
            existing = {edge.key for edge in view.edges}
            new = [key for key in map(view.key_of, graph["relations"]) if key not in existing]
            counts["relations"] = len(new)
            return steps + [view.relation(key) for key in new], counts

        if dry_run:
            return plan(self._view())[1]
        counts = self._apply(plan)
        if source is not None:
            session = self._session()
            session.change_info(context={**session.info.context, "imported": [*self.sources(), source]})
        return counts

    def sources(self) -> list[str]:
        """The sources that were merged."""
        try:
            return list(self._memory.session(self._name).info.context.get("imported") or [])
        except SessionNotFound:
            return []

    # -- the session

    def _session(self) -> SessionMemory:
        try:
            return self._memory.session(self._name, author=self._author)
        except SessionNotFound:
            pass
        try:
            return self._memory.create_session(self._name, author=self._author, config=_SETTINGS)
        except SessionExists:  # another process has created it meanwhile
            return self._memory.session(self._name, author=self._author)

    def _unchanged_view(self) -> _GraphView:
        """A view for reading: the last one, if the session has not changed since. Plans change their view, so they do not use it."""
        try:
            version = self._memory.store.session(self._name).version()
        except (SessionArchived, SessionNotFound):
            return self._view()
        if self._read is None or self._read[0] != version:
            self._read = (version, self._view())
        return self._read[1]

    def _view(self, session: SessionMemory | None = None) -> _GraphView:
        if session is None:
            try:
                session = self._memory.opened_session(self._name)
            except SessionNotFound:
                return _GraphView([], None, Viewer(None).sees)
        viewer = Viewer(self._author)
        return _GraphView(session.records("learning", include_deleted=True), redactor_of(session.config), viewer.sees)

    def _apply(self, plan: Callable[[_GraphView], tuple[list[_Step], T]]) -> T:
        """Store the steps that a plan makes from a view of the graph. If another writer changed its basis, plan again."""
        steps, result = plan(self._view())
        if not steps:
            return result
        session = self._session()
        for _ in range(_MOST_RETRIES):
            try:
                with session.transaction() as tx:
                    for action, id, fields in steps:
                        if action == "put":
                            tx.add("learning", fields, id=id)
                        elif action == "delete":
                            tx.delete(id)
                        else:
                            tx.update(id)  # changes nothing, and fails if it was deleted
                return result
            except (DuplicateId, MemoryNotFound):
                steps, result = plan(self._view(session))
        raise Busy(f"Other writers keep changing the same entities of {self._name}. Nothing was written; try again.")


_Step = tuple[str, str, dict[str, Any]]


class _Node:
    __slots__ = ("id", "ids", "name", "texts", "type")

    def __init__(self, record: Record) -> None:
        self.id = record.id
        self.name: str = record.given["entity"]
        self.type: str = record.given["entity_type"]
        self.ids: list[str] = []
        self.texts: list[str] = []


class _Edge:
    __slots__ = ("id", "key")

    def __init__(self, record: Record) -> None:
        self.id = record.id
        self.key = (record.given["from"], record.given["to"], record.given["relation_type"])


class _GraphView:
    """The graph at one moment, and the ids that are in use."""

    def __init__(self, records: list[Record], redactor: Any, sees: Callable[[Record], bool]) -> None:
        self._used_ids = {record.id for record in records}
        self._numbers: dict[str, int] = {}  # the last number given out, for each digest
        self._redactor = redactor
        by_kind: dict[str, list[Record]] = {"entity": [], "observation": [], "relation": []}
        for record in records:
            kind = record.given.get("graph")
            if kind in by_kind and not record.deleted and _has_fields(kind, record) and sees(record):
                by_kind[kind].append(record)
        self.nodes = {record.id: _Node(record) for record in by_kind["entity"]}
        self.by_name: dict[str, list[_Node]] = {}
        for node in self.nodes.values():
            self.by_name.setdefault(node.name, []).append(node)
        self.edges = [_Edge(record) for record in by_kind["relation"]]
        self.orphans: list[str] = []
        for record in by_kind["observation"]:
            about = self.nodes.get(record.given["entity_id"])
            if about is None:
                self.orphans.append(record.id)
            else:
                about.ids.append(record.id)
                about.texts.append(record.given["observation"])

    def clean(self, text: str) -> str:
        """A text as it is stored: without text recalled from memory, and with secrets redacted."""
        text = fence.strip(text)
        return str(self._redactor.redact(text)[0]) if self._redactor is not None else text

    def new_texts(self, texts: Iterable[str]) -> list[str]:
        """The same for observations, without those that were only recalled."""
        return [self.clean(text) for text in texts if not fence.is_only_recalled(text)]

    def first(self, name: str) -> _Node | None:
        return next(iter(self.by_name.get(name, ())), None)

    def key_of(self, relation: dict[str, Any]) -> tuple[str, str, str]:
        return self.clean(relation["from"]), self.clean(relation["to"]), self.clean(relation["relationType"])

    def free_id(self, prefix: str, *content: str) -> str:
        """A free id made of the content, so that two writers of the same content compete for the same id."""
        base = f"{prefix}-{sha256(chr(0).join(content).encode()).hexdigest()[:16]}"
        number = self._numbers.get(base, 0) + 1
        while f"{base}-{number}" in self._used_ids:
            number += 1
        self._numbers[base] = number
        return f"{base}-{number}"

    def observations(self, entity: str, name: str, texts: Iterable[str]) -> list[_Step]:
        return [
            _put(
                self.free_id("OBS", entity, text),
                f"{name}: {text}",
                name,
                graph="observation",
                entity=name,
                entity_id=entity,
                observation=text,
                references=[entity],
            )
            for text in texts
        ]

    def relation(self, key: tuple[str, str, str]) -> _Step:
        source, target, kind = key
        ends = [node.id for name in dict.fromkeys((source, target)) if (node := self.first(name)) is not None]
        fields: dict[str, Any] = {"from": source, "to": target, "relation_type": kind}
        if ends:
            fields["references"] = ends
        return _put(self.free_id("REL", *key), f"{source} {kind} {target}", source, graph="relation", **fields)

    def whole(self) -> dict[str, list[dict[str, Any]]]:
        """All entities and all relations, also those between names that are not entities."""
        return {
            "entities": list(map(_entity, self.nodes.values())),
            "relations": [_relation(edge.key) for edge in self.edges],
        }

    def graph(self, matches: Callable[[_Node], bool]) -> dict[str, list[dict[str, Any]]]:
        """The matching entities, and the relations that begin or end at them."""
        nodes = [node for node in self.nodes.values() if matches(node)]
        names = {node.name for node in nodes}
        relations = [_relation(edge.key) for edge in self.edges if names & set(edge.key[:2])]
        return {"entities": list(map(_entity, nodes)), "relations": relations}


_FIELDS = {
    "entity": ("entity", "entity_type"),
    "observation": ("entity_id", "observation"),
    "relation": ("from", "to", "relation_type"),
}


def _has_fields(kind: str, record: Record) -> bool:
    """Whether the memory has the fields of its kind; somebody may have edited the file."""
    return all(isinstance(record.given.get(name), str) for name in _FIELDS[kind])


def _put(id: str, sentence: str, topic: str, **fields: Any) -> _Step:
    about = {"topic": topic} if topic.strip() else {}
    return "put", id, {"learning": sentence, **about, **fields}


def _deletions(ids: Iterable[str]) -> list[_Step]:
    return [("delete", id, {}) for id in ids]


def _entity(node: _Node) -> dict[str, Any]:
    return {"name": node.name, "entityType": node.type, "observations": list(node.texts)}


def _relation(key: tuple[str, str, str]) -> dict[str, str]:
    return {"from": key[0], "to": key[1], "relationType": key[2]}
