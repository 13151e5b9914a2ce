"""The methods of the original designs under their Python names: a thin layer over the API for readers of these documents.

    manager = MemoryManager(".bmad/memory")                       # designs 001, 002, 003, 004
    session_id = manager.create_session({"user_id": "ada"})       # 001: an id
    session = manager.create_session("ada", {"tags": ["auth"]})   # 003, 004: the user, and a session that has an `id`
    manager.add_decision(session_id, {"decision": "Use OAuth"})   # the session comes first
    manager.get_by_topic("auth")                                  # 003: the session is the one activated, created or loaded last

`getByTopic` is `get_by_topic`, and so on; what a document calls asynchronous is a plain method. Every method takes a session, or its
id, as its first argument, or leaves it out. Objects may have the names of the documents (`minPriority`) or those of Python.
Queries give `Hits`; other methods that find memories give a list of records. docs/reference/designs.md maps every name of the documents. New code uses
`smp_memory.open`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.discovery import is_store
from smp_memory.errors import Corrupt, InvalidRecord, LockTimeout, MemoryNotFound, SizeLimitExceeded, SMPError
from smp_memory.memory import open_memory
from smp_memory.model.ids import scheme_of
from smp_memory.model.reports import Stats
from smp_memory.model.session_info import ARCHIVED, LIVE
from smp_memory.session import SessionMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hits, Related
    from smp_memory.model.record import Record

MemoryPersistenceError = SMPError  # 003 §10.4
ConcurrencyError, SizeLimitError, CorruptionError = LockTimeout, SizeLimitExceeded, Corrupt  # 004 §5.3

_STATES = "agent-states/"
_ROOTS = {"rootPath": "jsonl", "root_path": "jsonl", "storageRoot": "log", "storage_root": "log"}  # 001, 004
_HALF_LIFE = ("defaultDecayHalfLife", "default_decay_half_life")


class MemoryTransaction:
    """003 §6.4: writes that are stored together by `commit`, or not at all."""

    def __init__(self, session: SessionMemory) -> None:
        self._session = session
        self.begin()

    def begin(self) -> None:
        self._transaction, self._is_active = self._session.transaction(), True
        self._modifications: list[Any] = []

    def write_memory(self, memory: Mapping[str, Any]) -> Any:
        return self._noted(self._transaction.add(memory))

    def write_decision(self, decision: Any) -> Any:
        return self._noted(self._transaction.add_decision(decision))

    def write_finding(self, finding: Any) -> Any:
        return self._noted(self._transaction.add_finding(finding))

    def write_preference(self, preference: Any) -> Any:
        return self._noted(self._transaction.add_preference(preference))

    def update_agent_state(self, agent_id: str, state: Any) -> Any:
        return self._noted(self._transaction.update_agent_state(agent_id, state))

    def _noted(self, operation: Any) -> Any:
        self._modifications.append(operation)
        return operation

    def commit(self) -> None:
        self._is_active = False
        self._transaction.commit()

    def rollback(self) -> None:
        self._is_active = False
        self._modifications.clear()
        self._transaction.rollback()

    def is_active(self) -> bool:
        return self._is_active

    def get_modifications(self) -> list[Any]:
        return list(self._modifications)


class AgentMemoryInterface:
    """002 §8.1, 003 §11.1: a session as one agent sees it; it writes in its own name."""

    def __init__(self, agent: AgentMemory) -> None:
        self._agent = agent

    def get_conversation_context(self, turn_count: int = 20) -> list[Record]:
        return self._agent.conversation_context(turn_count)

    def get_relevant_decisions(self, topic: str) -> list[Record]:
        return self._agent.relevant_decisions(topic)

    def get_relevant_findings(self, topic: str) -> list[Record]:
        return self._agent.relevant_findings(topic)

    def get_user_preferences(self, topic: str | None = None) -> list[Record]:
        return self._agent.user_preferences(topic)

    def record_decision(self, decision: Any) -> Record:
        return self._agent.add_decision(decision)

    def record_finding(self, finding: Any) -> Record:
        return self._agent.add_finding(finding)

    def record_preference(self, preference: Any) -> Record:
        return self._agent.add_preference(preference)

    def update_agent_state(self, state: Any) -> Record:
        return self._agent.update_state(state)

    def query(self, query: Any) -> Hits:
        return self._agent.query(query)

    def find_similar(self, memory_id: str) -> list[Record]:
        return self._agent.find_similar(memory_id).records


class MemoryManager:
    """All methods of the designs' managers; see the module."""

    def __init__(self, root: str | os.PathLike[str] | Mapping[str, Any] | None = None, **options: Any) -> None:
        """Open a store: `MemoryManager({"rootPath": ".bmad/memory", "config": {…}})`, or its folder and options of `smp_memory.open`."""
        given: dict[str, Any] = {**root, **options} if hasattr(root, "keys") else {"root": root, **options}  # type: ignore[dict-item]
        where, layout = given.pop("root", None), given.pop("layout", None)
        for name in [name for name in given if name in _ROOTS]:
            where, layout = given.pop(name), layout or _ROOTS[name]
        for name in [name for name in given if name in _HALF_LIFE]:
            given["config"] = {**(given.get("config") or {}), "decay_config": {"half_life_hours": given.pop(name)}}
        is_known = where is not None and (scheme_of(str(where)) or is_store(os.fspath(where)))
        self.memory: Memory = open_memory(where, layout=None if is_known else layout, **given)
        self._current: SessionMemory | None = None

    # -- which session a call is about

    def _session(self, session: Any) -> SessionMemory:
        return session if isinstance(session, SessionMemory) else self.memory.session(session)

    def _is_session(self, given: Any) -> bool:
        if not isinstance(given, str):
            return isinstance(given, SessionMemory)
        return any(each.has_memories for each in self.memory.store.sessions(LIVE, ARCHIVED, id=given))

    def _at(self, args: tuple[Any, ...], least: int, most: int | None = None) -> tuple[SessionMemory, tuple[Any, ...]]:
        """The session of a call, and its other arguments, of which there are from `least` to `most`."""
        most = least if most is None else most
        if len(args) > most or (len(args) > least and self._is_session(args[0])):
            session, args = self._session(args[0]), args[1:]
        elif self._current is None:
            raise InvalidRecord("session_id: name a session, or activate one first.", field="session_id")
        else:
            session = self._current
        if not least <= len(args) <= most:
            raise InvalidRecord(
                f"arguments: at most {most} are allowed besides the session, not {len(args)}.", field="arguments"
            )
        return session, args

    # -- sessions: 001 §10.1, 003 §5.2 and §10.2, 004 §4.1

    def create_session(self, params: Any = None, context: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """001: one object, gives an id. 003, 004: the user and maybe a context or options, gives a session."""
        if isinstance(params, str):
            self._current = self.memory.create_session(**{"user_id": params, **(context or {}), **more})
            return self._current
        name = f"sess-{self.memory.now():%Y-%m-%d}-{os.urandom(3).hex()}"
        self._current = self.memory.create_session(**{"session_id": name, **(params or {}), **more})
        return self._current.id

    def load_session(self, session_id: str) -> SessionMemory:
        self._current = self.memory.session(session_id)
        return self._current

    get_session = activate_session = load_session

    def deactivate_session(self, session_id: Any = None) -> None:
        """Sessions become idle with time; what is not yet synced is synced."""
        self.memory.sync()
        if self._current is not None and session_id in (None, self._current, self._current.id):
            self._current = None

    close_session = deactivate_session

    def archive_session(self, session_id: Any, reason: str | None = None) -> None:
        self.memory.archive_session(getattr(session_id, "id", session_id), reason)

    def delete_session(self, session_id: Any, reason: str | None = None) -> None:
        self.memory.delete_session(getattr(session_id, "id", session_id), reason)

    def restore_session(self, session_id: str) -> SessionMemory:
        return self.memory.restore_session(session_id)

    def undelete_session(self, session_id: str, reason: str | None = None) -> None:
        self.memory.undelete_session(session_id, reason)

    def compact_session(self, *session: Any) -> Any:
        return self._at(session, 0)[0].compact()

    def compact(self, session: Any, target_reduction: int) -> Any:
        return self._session(session).compact(target_reduction)

    def validate_session(self, *session: Any) -> Any:
        return self._at(session, 0)[0].validate()

    def repair_session(self, *session: Any) -> Any:
        return self._at(session, 0)[0].repair()

    def rebuild_index(self, *session: Any) -> None:
        self.memory.reindex()

    # -- writing: 001 §10.1, 003 §10.2 and §11.1, 004 §4.1

    def add_memory(self, *args: Any) -> str:
        session, (memory,) = self._at(args, 1)
        return str(session.add(memory).id)

    write_memory = add_memory

    def add_conversation(self, *args: Any) -> Any:
        session, (message,) = self._at(args, 1)
        return session.add("conversation", message)

    def add_decision(self, *args: Any) -> Any:
        session, (decision,) = self._at(args, 1)
        return session.add_decision(decision)

    def add_finding(self, *args: Any) -> Any:
        session, (finding,) = self._at(args, 1)
        return session.add_finding(finding)

    def update_preference(self, *args: Any) -> Any:
        session, (preference,) = self._at(args, 1)
        return session.add_preference(preference)

    record_decision, record_finding, record_preference = add_decision, add_finding, update_preference

    def update_agent_state(self, *args: Any) -> Any:
        session, (agent_id, state) = self._at(args, 2)
        return session.update_agent_state(agent_id, state)

    def begin_transaction(self, *session: Any) -> MemoryTransaction:
        return MemoryTransaction(self._at(session, 0)[0])

    def get_agent_memory(self, *args: Any) -> AgentMemoryInterface:
        session, (agent_id,) = self._at(args, 1)
        return AgentMemoryInterface(session.agent(agent_id))

    # -- reading and searching: 001 §10.1, 003 §4.1, 004 §4.1

    def get_memory(self, *args: Any) -> Record | None:
        """None for a memory that is missing or deleted. `agent-states/NAME` is the state of that agent (003, appendix B)."""
        session, (name,) = self._at(args, 1)
        try:
            return session.get(f"STATE-{name[len(_STATES) :]}" if name.startswith(_STATES) else name)
        except MemoryNotFound:
            return None

    read_memory = get_memory

    def query(self, *args: Any, **options: Any) -> Hits:
        session, (query,) = self._at(args, 1)
        return session.query(query, **options)

    query_memories = query

    def get_by_topic(self, *args: Any, **options: Any) -> list[Record]:
        session, (topic, *more) = self._at(args, 1, 2)
        return session.by_topic(topic, **_options(more, options)).records

    search_by_topic = get_by_topic

    def get_by_agent(self, *args: Any, **options: Any) -> list[Record]:
        session, (agent_id, *more) = self._at(args, 1, 2)
        return session.by_agent(agent_id, **_options(more, options)).records

    def get_by_type(self, *args: Any, **options: Any) -> list[Record]:
        session, (type, *more) = self._at(args, 1, 2)
        return session.by_type(type, **_options(more, options)).records

    search_by_type = get_by_type

    def get_by_time_range(self, *args: Any, **options: Any) -> list[Record]:
        session, (start, end, *more) = self._at(args, 2, 3)
        return session.by_time_range(start, end, **_options(more, options)).records

    search_by_time_range = get_by_time_range

    def find_similar(self, *args: Any, **options: Any) -> list[Record]:
        session, (query, *more) = self._at(args, 1, 2)
        return session.find_similar(query, **_options(more, options)).records

    def find_related(self, *args: Any, **options: Any) -> list[Related]:
        session, (memory_id, *more) = self._at(args, 1, 2)
        return session.find_related(memory_id, **_options(more, options))

    def get_decisions(self, *args: Any, **filters: Any) -> list[Record]:
        return self._all_of("decision", args, filters)

    def get_findings(self, *args: Any, **filters: Any) -> list[Record]:
        return self._all_of("finding", args, filters)

    def get_preferences(self, *args: Any, **filters: Any) -> list[Record]:
        return self._all_of("preference", args, filters)

    def _all_of(self, type: str, args: tuple[Any, ...], filters: dict[str, Any]) -> list[Record]:
        session, more = self._at(args, 0, 1)
        options = _options(more, filters)
        fields = {name: options.pop(name) for name in ("severity", "status", "category") if name in options}
        if fields:
            options["where"] = {**options.get("where", {}), **fields}
        return session.query(**{"sort": "oldest", "limit": 10_000, **options, "types": type}).records

    def summarize_session(self, *session: Any) -> Any:
        return self._at(session, 0)[0].summarize()

    def get_topics(self, *session: Any) -> list[Any]:
        return list(self._at(session, 0)[0].topics())

    def get_timeline(self, *session: Any) -> Any:
        return self._at(session, 0)[0].timeline()

    # -- decay: 001 §10.1, 003 §7.1

    def calculate_priority(self, memory: Any, now: Any = None) -> float:
        return self._session_of(memory).priority(memory, now)

    def update_on_access(self, memory: Any) -> None:
        self._session_of(memory).get(memory)

    def _session_of(self, memory: Any) -> SessionMemory:
        return self._session(memory.session) if hasattr(memory, "session") else self._at((), 0)[0]

    def update_decay_factors(self, *session: Any) -> dict[str, float]:
        """The priority of each memory now; nothing needs to be stored."""
        found = self._at(session, 0)[0]
        return {record.id: found.priority(record) for record in found.records()}

    decay_all_memories = update_decay_factors

    # -- deleting and anonymising: 001 §10.1, 003 §8.2 and §8.4, 004 §4.1

    def delete(self, *args: Any, **criteria: Any) -> Any:
        session, more = self._at(args, 0, 1)
        return session.delete(_options(list(more), criteria))

    def delete_memory(self, *args: Any) -> bool:
        """Whether there was such a memory: `(session, id)` of 004, or `(id, reason)` of 003."""
        session, (memory_id, *reason) = self._at(args, 1, 2)
        try:
            session.delete(memory_id, *reason)
        except MemoryNotFound:
            return False
        return True

    def delete_by_topic(self, *args: Any) -> Any:
        session, (topic, *reason) = self._at(args, 1, 2)
        return session.delete(None, *reason, topic=topic)

    def delete_by_date_range(self, *args: Any) -> Any:
        session, (start, end, *reason) = self._at(args, 2, 3)
        return session.delete(None, *reason, time=(start, end))

    def delete_by_agent(self, *args: Any) -> Any:
        session, (agent_id, *reason) = self._at(args, 1, 2)
        return session.delete(None, *reason, agents=agent_id)

    def delete_memories_by_topic(self, *args: Any) -> int:
        return int(self.delete_by_topic(*args).count)

    def delete_memories_by_time_range(self, *args: Any) -> int:
        return int(self.delete_by_date_range(*args).count)

    def list_deleted_memories(self, *session: Any) -> Any:
        return self._at(session, 0)[0].deleted()

    def restore_memory(self, *args: Any) -> Any:
        session, (memory_id, *reason) = self._at(args, 1, 2)
        return session.restore(memory_id, *reason)

    def purge_deleted(self, older_than: Any) -> Any:
        return self.memory.purge(older_than=older_than)

    def anonymize_session(self, session_id: Any, config: Mapping[str, bool] | None = None) -> SessionMemory:
        """An anonymised copy; the session itself stays as it is."""
        return self._session(session_id).anonymised(config=config)

    def anonymize_memory(self, *args: Any) -> dict[str, Any]:
        """The fields of one memory, anonymised; the memory itself stays as it is."""
        session, (memory_id, *config) = self._at(args, 1, 2)
        return session.anonymised_record(memory_id, config=config[0] if config else None)

    # -- figures and exports: 001 §10.1, 003 §9.4, 004 §4.1

    def get_statistics(self, *session: Any) -> Stats:
        return _statistics([self._at(session, 0)[0]])

    get_session_stats = get_statistics

    def get_global_statistics(self) -> Stats:
        return _statistics(self.memory.sessions())

    def get_current_size(self, *session: Any) -> int:
        return self.get_size_breakdown(*session).total_bytes  # type: ignore[no-any-return]

    def get_quota_utilization(self, *session: Any) -> float:
        return self.get_size_breakdown(*session).utilization  # type: ignore[no-any-return]

    def get_size_breakdown(self, *session: Any) -> Any:
        return self._at(session, 0)[0].size_report()

    def predict_time_to_quota(self, *session: Any) -> float | None:
        return self.get_size_breakdown(*session).predicted_days_to_quota  # type: ignore[no-any-return]

    def estimate_compaction_gain(self, *session: Any) -> int:
        return self.get_size_breakdown(*session).estimated_gain_bytes or 0

    def export_session(self, *args: Any) -> str:
        session, format = self._at(args, 0, 1)
        return session.export(None, *format)

    def close(self) -> None:
        self.memory.close()

    def __enter__(self) -> MemoryManager:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


SessionMemoryManager = MemoryManager  # 003 §10.2


def _options(given: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Options as one object, as keywords, or both."""
    return {**(given[0] or {}), **named} if given else named


def _statistics(sessions: list[SessionMemory]) -> Stats:
    """The figures of sessions under the names of 001 §3.1 and 004 §3.2, besides those of `SessionMemory.stats` for a single one."""
    each = [session.stats() for session in sessions]

    def count(type: str) -> int:
        return sum(stats.by_type.get(type, 0) for stats in each)

    messages, decisions, findings = count("conversation"), count("decision"), count("finding")
    size = sum(stats.bytes for stats in each)
    last = max((stats.last for stats in each if stats.last), default=None)
    return Stats({
        **(each[0].to_dict() if len(each) == 1 else {}),
        "total_sessions": len(each), "total_entries": sum(stats.memories for stats in each),
        "total_messages": messages, "total_decisions": decisions, "total_findings": findings,
        "conversations": messages, "decisions": decisions, "findings": findings, "preferences": count("preference"),
        "size_bytes": size, "total_size_bytes": size, "last_accessed": last,
    })  # fmt: skip
