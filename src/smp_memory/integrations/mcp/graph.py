"""What do we know of whom? A graph of entities, observations and relations, kept as memories of one session.

Each entity, each observation and each relation is a `learning` of its own, whose text is a sentence that a question can
find. So adding never rewrites what is there, and taking away is a tombstone that `smp restore` undoes.

Guarantees: any number of processes and threads may work on one graph; none loses what another one added. Each call is
stored whole or not at all. What the author of the graph may not see (`smp_memory.privacy.visibility`) is neither shown nor deleted. A name exists once, whoever creates it at the same time: the id of a memory is made of what it
says, and an id is given out once. Answers are those of the reference memory server, also where that keeps what one call
gives twice. Not guaranteed: names and texts that hold secrets, or text recalled from memory, come back as they were stored,
without them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from smp_memory.errors import Busy, DuplicateId, MemoryNotFound, SessionExists, SessionNotFound
from smp_memory.privacy import fence
from smp_memory.privacy.visibility import Viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

T = TypeVar("T")
SESSION = "knowledge-graph"
_SETTINGS = {"compaction": {"enabled": False}, "storage": {"max_session_size_mb": 10240}}  # a graph does not fade
_TRIES = 50


class UnknownEntity(Exception):
    """Observations were meant for an entity that is not there."""


class KnowledgeGraph:
    """The graph in one session of a store; made when something is first added."""

    def __init__(self, memory: Memory, session: str | None = None, author: str | None = None) -> None:
        self._memory = memory
        self._name = session or SESSION
        self._author = author

    @property
    def content_limit_bytes(self) -> int:
        """How large a memory may be."""
        return self._memory.config.content_limit_bytes

    # -- asking

    def read(self) -> dict[str, list[dict[str, Any]]]:
        return self._look().whole()

    def search(self, query: str) -> dict[str, list[dict[str, Any]]]:
        """Entities that hold the query, in whatever case, in their name, type or observations; and their relations."""
        wanted = query.lower()
        return self._look().graph(
            lambda node: (
                wanted in node.name.lower()
                or wanted in node.type.lower()
                or any(wanted in text.lower() for text in node.texts)
            )
        )

    def open(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        look = self._look()
        wanted = {look.clean(name) for name in names}
        return look.graph(lambda node: node.name in wanted)

    # -- adding

    def create_entities(self, entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add those whose name is not there yet; what was added."""

        def plan(look: _Look) -> tuple[list[_Step], list[dict[str, Any]]]:
            there = look.by_name
            given = [(look.clean(each["name"]), look.clean(each["entityType"]), each) for each in entities]
            new = [each for each in given if each[0] not in there]
            steps: list[_Step] = []
            for name, kind, each in new:
                entity = look.free_id("ENT", name)
                steps.append(_put(entity, f"{name} is a {kind}", name, graph="entity", entity=name, entity_type=kind))
                steps += look.observations(entity, name, look.new_texts(each["observations"]))
            added = [
                {"name": name, "entityType": kind, "observations": look.new_texts(each["observations"])}
                for name, kind, each in new
            ]
            return steps, added

        return self._carry_out(plan)

    def create_relations(self, relations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add those that are not there yet; what was added."""

        def plan(look: _Look) -> tuple[list[_Step], list[dict[str, Any]]]:
            there = {edge.key for edge in look.edges}
            new = [key for key in map(look.key_of, relations) if key not in there]
            return [look.relation(key) for key in new], [_relation(key) for key in new]

        return self._carry_out(plan)

    def add_observations(self, observations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add what is not there yet to entities that are; for each of them, what was added."""

        def plan(look: _Look) -> tuple[list[_Step], list[dict[str, Any]]]:
            steps: list[_Step] = []
            results = []
            for each in observations:
                name = look.clean(each["entityName"])
                node = look.first(name)
                if node is None:
                    raise UnknownEntity(f"Entity with name {each['entityName']} not found")
                new = [text for text in look.new_texts(each["contents"]) if text not in node.texts]
                steps += [("still there", node.id, {}), *look.observations(node.id, name, new)]
                node.texts += new
                results.append({"entityName": name, "addedObservations": new})
            return steps, results

        return self._carry_out(plan)

    # -- taking away

    def delete_entities(self, names: Iterable[str]) -> None:
        """Take entities away, with their observations and relations."""
        wanted = list(names)

        def plan(look: _Look) -> tuple[list[_Step], None]:
            gone = {look.clean(name) for name in wanted}
            nodes = [node for node in look.nodes.values() if node.name in gone]
            ids = [node.id for node in nodes] + [id for node in nodes for id in node.ids]
            ids += [edge.id for edge in look.edges if gone & set(edge.key[:2])]
            return _deletions(ids), None

        self._carry_out(plan)
        self._carry_out(lambda look: (_deletions(look.orphans), None))  # added while we took away

    def delete_observations(self, deletions: list[dict[str, Any]]) -> None:
        def plan(look: _Look) -> tuple[list[_Step], None]:
            ids: dict[str, None] = {}
            for each in deletions:
                node = look.first(look.clean(each["entityName"]))
                gone = {look.clean(text) for text in each["observations"]}
                ids |= {id: None for id, text in zip(node.ids, node.texts, strict=True) if text in gone} if node else {}
            return _deletions(ids), None

        self._carry_out(plan)

    def delete_relations(self, relations: list[dict[str, Any]]) -> None:
        def plan(look: _Look) -> tuple[list[_Step], None]:
            gone = set(map(look.key_of, relations))
            return _deletions(edge.id for edge in look.edges if edge.key in gone), None

        self._carry_out(plan)

    # -- both

    def take_in(self, graph: dict[str, list[dict[str, Any]]], source: str | None = None) -> dict[str, int]:
        """Add what another graph has and this one lacks; how much that was. With a source: only once."""
        if source is not None and source in self.sources():
            return {"entities": 0, "observations": 0, "relations": 0}

        def plan(look: _Look) -> tuple[list[_Step], dict[str, int]]:
            before = {name: list(nodes) for name, nodes in look.by_name.items()}
            steps: list[_Step] = []
            counts = {"entities": 0, "observations": 0, "relations": 0}
            for each in graph["entities"]:
                name, texts = look.clean(each["name"]), look.new_texts(each["observations"])
                same = before.setdefault(name, [])
                if same:
                    node = same.pop(0)  # the second of a name there is the second of that name here
                    entity, texts = node.id, [text for text in texts if text not in node.texts]
                else:
                    kind, entity = look.clean(each["entityType"]), look.free_id("ENT", name)
                    steps.append(
                        _put(entity, f"{name} is a {kind}", name, graph="entity", entity=name, entity_type=kind)
                    )
                    counts["entities"] += 1
                steps += look.observations(entity, name, texts)
                counts["observations"] += len(texts)
            there = {edge.key for edge in look.edges}
            new = [key for key in map(look.key_of, graph["relations"]) if key not in there]
            counts["relations"] = len(new)
            return steps + [look.relation(key) for key in new], counts

        counts = self._carry_out(plan)
        if source is not None:
            session = self._session()
            session.change_info(context={**session.info.context, "imported": [*self.sources(), source]})
        return counts

    def sources(self) -> list[str]:
        """From where something was taken in once."""
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
        except SessionExists:  # another process was quicker
            return self._memory.session(self._name, author=self._author)

    def _look(self, session: SessionMemory | None = None) -> _Look:
        if session is None:
            try:
                session = self._memory.opened_session(self._name)
            except SessionNotFound:
                return _Look([], None, Viewer(None).sees)
        from smp_memory.privacy.settings import redactor_of

        viewer = Viewer(self._author)
        return _Look(session.records("learning", include_deleted=True), redactor_of(session.config), viewer.sees)

    def _carry_out(self, plan: Callable[[_Look], tuple[list[_Step], T]]) -> T:
        """Store what a look at the graph asks for. If another writer changed what it rests on, look again."""
        steps, result = plan(self._look())
        if not steps:
            return result
        session = self._session()
        for _ in range(_TRIES):
            try:
                with session.transaction() as tx:
                    for what, id, fields in steps:
                        if what == "put":
                            tx.add("learning", fields, id=id)
                        elif what == "delete":
                            tx.delete(id)
                        else:
                            tx.update(id)  # changes nothing, and is refused if it is gone
                return result
            except (DuplicateId, MemoryNotFound):
                steps, result = plan(self._look(session))
        raise Busy(f"Others change the same entities of {self._name} all the time. Nothing was written; try again.")


_Step = tuple[str, str, dict[str, Any]]


class _Node:
    def __init__(self, record: Record) -> None:
        self.id = record.id
        self.name: str = record.given["entity"]
        self.type: str = record.given["entity_type"]
        self.ids: list[str] = []
        self.texts: list[str] = []


class _Edge:
    def __init__(self, record: Record) -> None:
        self.id = record.id
        self.key = (record.given["from"], record.given["to"], record.given["relation_type"])


class _Look:
    """The graph as it stands, and the ids that are taken."""

    def __init__(self, records: list[Record], redactor: Any, sees: Callable[[Record], bool]) -> None:
        self._taken = {record.id for record in records}
        self._numbers: dict[str, int] = {}  # the last one that was given out, for each that says the same
        self._redactor = redactor
        live = [record for record in records if not record.deleted and sees(record)]
        by_kind: dict[str, list[Record]] = {"entity": [], "observation": [], "relation": []}
        for record in live:
            if (kind := record.given.get("graph")) in by_kind and _is_whole(kind, record):
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
        """A text as it is stored: without what was recalled from memory, and without secrets."""
        text = fence.strip(text)
        return str(self._redactor.redact(text)[0]) if self._redactor is not None else text

    def new_texts(self, texts: Iterable[str]) -> list[str]:
        """The same for observations; what was only recalled is none."""
        return [self.clean(text) for text in texts if not fence.is_only_recalled(text)]

    def first(self, name: str) -> _Node | None:
        return next(iter(self.by_name.get(name, ())), None)

    def key_of(self, relation: dict[str, Any]) -> tuple[str, str, str]:
        return self.clean(relation["from"]), self.clean(relation["to"]), self.clean(relation["relationType"])

    def free_id(self, prefix: str, *said: str) -> str:
        """Made of what is said, so that two who say the same want the same; each is given out once."""
        head = f"{prefix}-{sha256(chr(0).join(said).encode()).hexdigest()[:16]}"
        number = self._numbers.get(head, 0) + 1
        while f"{head}-{number}" in self._taken:
            number += 1
        self._numbers[head] = number
        return f"{head}-{number}"

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
        """All entities, and all relations, also those between names that are no entities."""
        return {
            "entities": list(map(_entity, self.nodes.values())),
            "relations": [_relation(edge.key) for edge in self.edges],
        }

    def graph(self, wanted: Callable[[_Node], bool]) -> dict[str, list[dict[str, Any]]]:
        """The entities that are wanted, and the relations that begin or end there."""
        nodes = [node for node in self.nodes.values() if wanted(node)]
        names = {node.name for node in nodes}
        relations = [_relation(edge.key) for edge in self.edges if names & set(edge.key[:2])]
        return {"entities": list(map(_entity, nodes)), "relations": relations}


_FIELDS = {
    "entity": ("entity", "entity_type"),
    "observation": ("entity_id", "observation"),
    "relation": ("from", "to", "relation_type"),
}


def _is_whole(kind: str, record: Record) -> bool:
    """Somebody may have edited the file."""
    return all(isinstance(record.given.get(name), str) for name in _FIELDS[kind])


def _put(id: str, sentence: str, topic: str, **fields: Any) -> _Step:
    about = {"topic": topic} if topic.strip() else {}
    return "put", id, {"learning": sentence, **about, **fields}


def _deletions(ids: Iterable[str]) -> list[_Step]:
    return [("delete", id, {}) for id in ids]


def _entity(node: _Node) -> dict[str, Any]:
    return {"name": node.name, "entityType": node.type, "observations": node.texts}


def _relation(key: tuple[str, str, str]) -> dict[str, str]:
    return {"from": key[0], "to": key[1], "relationType": key[2]}
