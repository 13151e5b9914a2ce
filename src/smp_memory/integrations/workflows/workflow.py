"""What does a workflow need to know, and what may it write? Its `memory_requirements`, loaded and enforced.

    workflow = Workflow.load("deep-verify/workflow-v6.md")
    run = workflow.start(session, agent="veritas")
    run.reads["findings.by_severity:critical"]      the memories it asked for
    run.memory.add_finding("…")                     allowed, because it is declared
    run.memory.add_decision("…")                    NotAllowed: names the file and the line of write_access
    run.context()                                   a prompt in which its hints count

Guarantees: reads are loaded as the agent may see them. A write of a kind that `write_access` does not name is refused before
anything is written. A workflow without `memory_requirements` asks for nothing and is not restricted; one that has them
but no `write_access` may write nothing. What cannot be understood is an error with file and line when it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidFormat, NotAllowed
from smp_memory.integrations.workflows.declaration import (
    WORKING_MEMORY,
    Declaration,
    Located,
    WorkflowText,
    parse,
    read,
)

if TYPE_CHECKING:
    import os

    from smp_memory.agent_memory import AgentMemory
    from smp_memory.context.builder import Context
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_NAMES = ("read_access", "write_access", "memory_hints")


class WorkflowUsage:
    """What a phase wants to know."""

    __slots__ = ("line", "phase", "purpose", "query", "type")

    def __init__(self, phase: str, type: str, query: str, purpose: str, line: int) -> None:
        self.phase = phase
        self.type = type  # read or write
        self.query = query
        self.purpose = purpose
        self.line = line


class Workflow:
    """What a workflow file declares about memory."""

    def __init__(self, text: WorkflowText) -> None:
        self.path = text.path
        said = parse(text)
        body = said["workflow"] if isinstance(said.get("workflow"), dict) else said
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        self.id = _first(metadata.get("id"), body.get("id"), body.get("name"), said.get("name")) or "workflow"
        self.name = _first(metadata.get("name"), body.get("name"), said.get("name")) or self.id
        needs = body.get("memory_requirements", said.get("memory_requirements"))
        self.is_restricted = needs is not None
        needs = self._mapping(needs)
        self.read_access = [Declaration(each, self.path) for each in self._texts(needs, "read_access")]
        self.write_access = [Declaration(each, self.path) for each in self._texts(needs, "write_access")]
        self.hints = [each.text for each in self._texts(needs, "memory_hints")]
        self.usages = list(self._usages(body.get("phases", said.get("phases"))))

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Workflow:
        """From a file, or from the text itself."""
        return cls(read(source))

    # -- what it says

    def _mapping(self, needs: Any) -> dict[str, Any]:
        if needs is None or isinstance(needs, Located):
            return {}
        if not isinstance(needs, dict):
            raise InvalidFormat(
                f"{self.path}: memory_requirements: must have {', '.join(_NAMES)}.",
                path=self.path,
                field="memory_requirements",
            )
        unknown = next((name for name in needs if name not in _NAMES), None)
        if unknown is not None:
            raise InvalidFormat(
                f"{self.path}: memory_requirements.{unknown}: not known; it has {', '.join(_NAMES)}.",
                path=self.path,
                field=unknown,
            )
        return needs

    def _texts(self, needs: dict[str, Any], name: str) -> list[Located]:
        """A list of texts; one text with commas is a list, too. `by_topic: x` as a mapping is `by_topic:x`."""
        given = needs.get(name)
        if isinstance(given, Located):
            if name == "memory_hints":
                return [given] if given.text else []
            return [Located(part.strip(), given.line) for part in given.text.split(",") if part.strip()]
        found: list[Located] = []
        for item in given or []:
            if isinstance(item, dict):
                found += [
                    Located(f"{key}:{value.text}", value.line)
                    for key, value in item.items()
                    if isinstance(value, Located)
                ]
            elif isinstance(item, Located) and item.text.strip():
                found.append(item)
            else:
                raise InvalidFormat(f"{self.path}: {name}: must be a list of texts.", path=self.path, field=name)
        return found

    def _usages(self, phases: Any) -> list[WorkflowUsage]:
        found: list[WorkflowUsage] = []
        for number, phase in enumerate(phases if isinstance(phases, list) else [], 1):
            if not isinstance(phase, dict):
                continue
            title = _first(phase.get("name"), phase.get("id")) or f"phase {number}"
            for usage in phase.get("memory_usage") or []:
                if isinstance(usage, dict):
                    query = usage.get("query")
                    line = query.line if isinstance(query, Located) else 0
                    type, text, purpose = (_first(usage.get(part)) or "" for part in ("type", "query", "purpose"))
                    found.append(WorkflowUsage(title, type, text, purpose, line))
        return found

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(usage.phase for usage in self.usages))

    def to_dict(self) -> dict[str, Any]:
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
        """Load what it reads, and give the agent a memory that takes what it may write."""
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
            f"The workflow {self.id} may write {may} (write_access, {where}), and {what} is not among it. "
            "Declare it there if it should be. Nothing was written.",
            path=self.path,
            line=line,
            kind=kind,
            declared=[each.text for each in self.write_access],
        )

    def __repr__(self) -> str:
        return f"Workflow({self.id}, reads {len(self.read_access)}, writes {len(self.write_access)})"


class Run:
    """A workflow at work in a session, as one agent."""

    def __init__(self, workflow: Workflow, session: SessionMemory, agent: str) -> None:
        from smp_memory.agent_memory import AgentMemory, agent_in

        self.workflow = workflow
        agent_in(session.memory, agent, session)  # checks the name
        self.agent = agent
        self.memory: AgentMemory = AgentMemory(session, self.agent, self._guard)
        self.reads: dict[str, list[Record]] = {each.text: self._loaded(each) for each in workflow.read_access}

    def _guard(self, kind: str, name: str) -> None:
        self.workflow.check_write(kind, name, self.agent)

    def _loaded(self, declared: Declaration) -> list[Record]:
        memory, kind = self.memory, declared.kind
        if kind == WORKING_MEMORY:
            return memory.working_memory()
        if kind == "conversation":
            return memory.conversation_context(int(declared.value or 20))
        if kind == "agent_state":
            wanted = declared.name if declared.selector == "name" else self.agent
            return [record for record in memory.records("agent_state") if record.agent == wanted]
        if kind == "preference":
            found = memory.user_preferences()
            return [each for each in found if each.key == declared.name] if declared.selector == "name" else found
        hits = memory.query(**declared.question, sessions="all")
        if declared.selector != "open":
            return hits.records
        from smp_memory.policies.statuses import is_settled

        return [record for record in hits.records if not is_settled(record)]

    def phase(self, name: str) -> list[Record]:
        """What the `memory_usage` of a phase asks for, in any session, best first."""
        from smp_memory.index.tokens import without_signs

        found: dict[str, Record] = {}
        for usage in self.workflow.usages:
            if usage.phase == name and usage.type != "write" and usage.query:
                for hit in self.memory.query(without_signs(usage.query), sessions="all", limit=10):
                    found.setdefault(hit.record.ref, hit.record)
        return list(found.values())

    def context(self, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into the prompt now; the workflow's hints count as part of the task."""
        about = " ".join(part for part in (task, *self.workflow.hints) if part) or None
        return self.memory.context(about, topic, **options)

    def __repr__(self) -> str:
        return f"Run({self.workflow.id} as {self.agent} in {self.memory.id})"


def _first(*given: Any) -> str | None:
    return next((each.text for each in given if isinstance(each, Located) and each.text.strip()), None)
