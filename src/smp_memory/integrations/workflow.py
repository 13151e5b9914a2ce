"""Workflows: load their `memory_requirements`, the memories they read, and enforce what they may write.

    workflow = Workflow.load("deep-verify/workflow-v6.md")
    run = workflow.start(session, agent="veritas")
    run.reads["findings.by_severity:critical"]      the memories it asked for
    run.memory.add_finding("…")                     allowed, because it is declared
    run.memory.add_decision("…")                    NotAllowed: names the file and the line of write_access
    run.context()                                   a prompt in which its hints count

Guarantees: reads are loaded as the agent may see them. A write of a type that `write_access` does not name is refused before
anything is written. A workflow without `memory_requirements` reads nothing and is not restricted; one that has them
but no `write_access` may write nothing. An invalid file is an error with file and line when it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.agents.agent_memory import AgentMemory, agent_in
from smp_memory.errors import InvalidFormat, NotAllowed
from smp_memory.integrations.workflow_declaration import (
    WORKING_MEMORY,
    Declaration,
    Located,
    WorkflowText,
    parse,
    read,
)
from smp_memory.model.statuses import is_settled

if TYPE_CHECKING:
    import os

    from smp_memory.context.builder import Context
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_NAMES = ("read_access", "write_access", "memory_hints")


class WorkflowUsage:
    """One `memory_usage` of a phase."""

    __slots__ = ("line", "phase", "purpose", "query", "type")

    def __init__(self, phase: str, type: str, query: str, purpose: str, line: int) -> None:
        self.phase = phase
        self.type = type  # read or write
        self.query = query
        self.purpose = purpose
        self.line = line


class Workflow:
    """The memory declarations of a workflow file."""

    def __init__(self, text: WorkflowText) -> None:
        self.path = text.path
        document = parse(text)
        body = document["workflow"] if isinstance(document.get("workflow"), dict) else document
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        self.id = _first(metadata.get("id"), body.get("id"), body.get("name"), document.get("name")) or "workflow"
        self.name = _first(metadata.get("name"), body.get("name"), document.get("name")) or self.id
        given = body.get("memory_requirements", document.get("memory_requirements"))
        self.is_restricted = given is not None
        requirements = self._mapping(given)
        self.read_access = [Declaration(each, self.path) for each in self._texts(requirements, "read_access")]
        self.write_access = [Declaration(each, self.path) for each in self._texts(requirements, "write_access")]
        self.hints = [each.text for each in self._texts(requirements, "memory_hints")]
        self.usages = list(self._usages(body.get("phases", document.get("phases"))))

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Workflow:
        """Load a workflow from a file, or from the text itself."""
        return cls(read(source))

    # -- parsing

    def _mapping(self, requirements: Any) -> dict[str, Any]:
        if requirements is None or isinstance(requirements, Located):
            return {}
        if not isinstance(requirements, dict):
            raise InvalidFormat(
                f"{self.path}: memory_requirements: must have {', '.join(_NAMES)}.",
                path=self.path,
                field="memory_requirements",
            )
        unknown = next((name for name in requirements if name not in _NAMES), None)
        if unknown is not None:
            raise InvalidFormat(
                f"{self.path}: memory_requirements.{unknown}: unknown field; there are {', '.join(_NAMES)}.",
                path=self.path,
                field=unknown,
            )
        return requirements

    def _texts(self, requirements: dict[str, Any], name: str) -> list[Located]:
        """A list of texts; one text with commas is a list, too. `by_topic: x` as a mapping is `by_topic:x`."""
        given = requirements.get(name)
        if isinstance(given, Located):
            if name == "memory_hints":
                return [given] if given.text else []
            return [Located(part.strip(), given.line) for part in given.text.split(",") if part.strip()]
        texts: list[Located] = []
        for item in given or []:
            if isinstance(item, dict):
                texts += [
                    Located(f"{key}:{value.text}", value.line)
                    for key, value in item.items()
                    if isinstance(value, Located)
                ]
            elif isinstance(item, Located) and item.text.strip():
                texts.append(item)
            else:
                raise InvalidFormat(f"{self.path}: {name}: must be a list of texts.", path=self.path, field=name)
        return texts

    def _usages(self, phases: Any) -> list[WorkflowUsage]:
        usages: list[WorkflowUsage] = []
        for number, phase in enumerate(phases if isinstance(phases, list) else [], 1):
            if not isinstance(phase, dict):
                continue
            title = _first(phase.get("name"), phase.get("id")) or f"phase {number}"
            for usage in phase.get("memory_usage") or []:
                if isinstance(usage, dict):
                    query = usage.get("query")
                    line = query.line if isinstance(query, Located) else 0
                    type, text, purpose = (_first(usage.get(part)) or "" for part in ("type", "query", "purpose"))
                    usages.append(WorkflowUsage(title, type, text, purpose, line))
        return usages

    @property
    def phases(self) -> list[str]:
        """The names of the phases, in order."""
        return list(dict.fromkeys(usage.phase for usage in self.usages))

    def to_dict(self) -> dict[str, Any]:
        """The declarations as plain data."""
        return {
            "id": self.id,
            "name": self.name,
            "path": self.path,
            "restricted": self.is_restricted,
            "read_access": [{"declaration": each.text, "line": each.line} for each in self.read_access],
            "write_access": [{"declaration": each.text, "line": each.line} for each in self.write_access],
            "memory_hints": self.hints,
            "phases": [
                {"phase": each.phase, "type": each.type, "query": each.query, "purpose": each.purpose}
                for each in self.usages
            ],
        }

    # -- using it

    def start(self, session: SessionMemory, agent: str) -> Run:
        """Load the declared memories, and open an agent's memory that enforces the write rights."""
        return Run(self, session, agent)

    def check_write(self, kind: str, name: str, agent: str) -> None:
        """Raise NotAllowed unless the workflow declares it."""
        if not self.is_restricted or any(each.allows(kind, name, agent) for each in self.write_access):
            return
        may = ", ".join(each.text for each in self.write_access) or "nothing"
        line = self.write_access[0].line if self.write_access else 0
        where = f"{self.path}:{line}" if line else self.path
        what = f"{kind} of {name}" if name and kind == "agent_state" else f"{kind} {name}".strip()
        raise NotAllowed(
            f"The workflow {self.id} may write {may} (write_access, {where}), not {what}. "
            "Declare it there if it should be allowed. Nothing was written.",
            path=self.path,
            line=line,
            kind=kind,
            declared=[each.text for each in self.write_access],
        )

    def __repr__(self) -> str:
        return f"Workflow({self.id}, reads {len(self.read_access)}, writes {len(self.write_access)})"


class Run:
    """A run of a workflow in a session, as one agent."""

    def __init__(self, workflow: Workflow, session: SessionMemory, agent: str) -> None:
        self.workflow = workflow
        agent_in(session.memory, agent, session)  # checks the name
        self.agent = agent
        self.memory: AgentMemory = AgentMemory(session, self.agent, self._guard)
        self.reads: dict[str, list[Record]] = {each.text: self._load(each) for each in workflow.read_access}

    def _guard(self, kind: str, name: str) -> None:
        self.workflow.check_write(kind, name, self.agent)

    def _load(self, declared: Declaration) -> list[Record]:
        memory, kind = self.memory, declared.kind
        if kind == WORKING_MEMORY:
            return memory.working_memory()
        if kind == "conversation":
            return memory.conversation_context(int(declared.value or 20))
        if kind == "agent_state":
            agent = declared.name if declared.selector == "name" else self.agent
            return [record for record in memory.records("agent_state") if record.agent == agent]
        if kind == "preference":
            preferences = memory.user_preferences()
            if declared.selector == "name":
                return [each for each in preferences if each.key == declared.name]
            return preferences
        hits = memory.query(**declared.query_options, sessions="all")
        if declared.selector != "open":
            return hits.records
        return [record for record in hits.records if not is_settled(record)]

    def phase(self, name: str) -> list[Record]:
        """The memories that the `memory_usage` of a phase queries, in any session, best first."""
        from smp_memory.index.tokenizer import without_signs

        records: dict[str, Record] = {}
        for usage in self.workflow.usages:
            if usage.phase == name and usage.type != "write" and usage.query:
                for hit in self.memory.query(without_signs(usage.query), sessions="all", limit=10):
                    records.setdefault(hit.record.ref, hit.record)
        return list(records.values())

    def context(self, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """The context for a prompt; the workflow's hints count as part of the task."""
        about = " ".join(part for part in (task, *self.workflow.hints) if part) or None
        return self.memory.context(about, topic, **options)

    def __repr__(self) -> str:
        return f"Run({self.workflow.id} as {self.agent} in {self.memory.id})"


def _first(*given: Any) -> str | None:
    return next((each.text for each in given if isinstance(each, Located) and each.text.strip()), None)
