"""Workflows: load their `memory_requirements`, the memories they read, and enforce what they may write.

    workflow = Workflow.load("deep-verify/workflow-v6.md")
    run = workflow.start(session, agent="veritas")
    run.reads["findings.by_severity:critical"]      the memories it asked for
    run.memory.add_finding("…")                     allowed, because it is declared
    run.memory.add_decision("…")                    NotAllowed: names the file and the line of write_access
    run.context()                                   a prompt in which its hints count

A file is YAML, or Markdown with YAML in its front matter or in a block. Declarations: `conversation.last_50_turns`, `decisions.by_topic:login`,
`findings.by_severity:critical,high`, `findings.open`, `preferences.workflow_depth`, `agent_states.veritas`, `working_memory` and so on.

Guarantees: reads are loaded as the agent may see them. A write of a type that `write_access` does not name is refused before
anything is written. A workflow without `memory_requirements` reads nothing and is not restricted; one that has them
but no `write_access` may write nothing. An invalid file is an `InvalidFormat` with file and line when it is loaded; nothing of it is run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from smp_memory.agents.agent_memory import AgentMemory, agent_in
from smp_memory.errors import InvalidFormat, InvalidRecord, NotAllowed, from_os_error
from smp_memory.files.yaml_text import yaml_library
from smp_memory.model.statuses import is_settled
from smp_memory.model.types import KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.context.builder import Context
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

WORKING_MEMORY = "working_memory"
_TURNS, _NEWEST = 20, 50
_SELECTORS = {
    "by_topic": "topic",
    "by_tag": "tags",
    "by_agent": "agents",
    "by_author": "agents",
    "by_severity": "severity",
    "by_status": "status",
    "by_category": "category",
    "by_type": "category",
    "about": "text",
    "matching": "text",
}
_FIELDS = ("severity", "status", "category")


class Declaration:
    """One line of `read_access` or `write_access`."""

    __slots__ = ("kind", "line", "name", "path", "selector", "text", "value")

    def __init__(self, declared: Located, path: str) -> None:
        self.text = declared.text.strip()
        self.path = path
        self.line = declared.line
        kind, _, rest = self.text.partition(".")
        if not rest and ":" in kind:  # `agent_states:veritas`
            kind, _, rest = self.text.partition(":")
        self.kind = self._kind(kind.strip())
        self.selector, self.value, self.name = "", "", ""
        if rest.strip():
            self._select(rest.strip())

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def _kind(self, name: str) -> str:
        if name.lower().replace("-", "_") == WORKING_MEMORY:
            return WORKING_MEMORY
        word = {"conversation_history": "conversation", "history": "conversation"}.get(name, name)
        try:
            return kind_of(word.lower().replace("-", "_") if word.lower() != "agent-states" else word).name
        except InvalidRecord:
            self._refuse(f"{name!r} is not a type of memory")

    def _select(self, rest: str) -> None:
        selector, colon, value = rest.partition(":")
        selector, value = selector.strip(), value.strip()
        kind = KINDS.get(self.kind)
        if kind is not None and kind.is_turn:
            self.selector, self.value = "last", self._turns(selector, value)
        elif (
            kind is not None
            and (kind.is_named_by_agent or kind.is_named_by_key)
            and not colon
            and selector not in ("all", "own", "self")
        ):
            self.selector, self.name = "name", selector
        elif selector in ("all", "own", "self", "{self}", "recent", "newest"):
            self.selector = ""
        elif selector in ("open", "unresolved", "active"):
            self.selector = "open"
        elif selector in _SELECTORS and value:
            self.selector, self.value = selector, value
        elif selector in _SELECTORS:
            self._refuse(f"{selector} needs a colon and a value, as in {selector}:login")
        else:
            self._refuse(f"{selector!r} is not a selector; use {', '.join(_SELECTORS)}, open or all")

    def _turns(self, selector: str, value: str) -> str:
        """`last_20_turns`, `last_turns:20`, `last:20`, `all`."""
        digits = "".join(filter(str.isdigit, value or selector))
        if selector in ("all", "recent") or (selector.startswith("last") and digits):
            return digits if 0 < len(digits) <= 6 else str(_TURNS)
        self._refuse("of a conversation give the last turns, as in last_20_turns")

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidFormat(f"{self.where}: {self.text!r}: {why}.", path=self.path, line=self.line, field=self.text)

    # -- rights and queries

    def allows(self, kind: str, name: str, agent: str) -> bool:
        """Whether it allows an agent to write this type; `name` is the agent of a state or the key of a preference."""
        if self.kind == WORKING_MEMORY:
            return kind == "agent_state" and name == agent
        if self.kind != kind:
            return False
        if kind == "agent_state":
            return name == (self.name if self.selector == "name" else agent)
        return self.selector != "name" or name == self.name

    @property
    def query_options(self) -> dict[str, Any]:
        """The options of the query for the declared memories."""
        options: dict[str, Any] = {"types": self.kind, "limit": _NEWEST}
        if self.selector in _SELECTORS:
            part = _SELECTORS[self.selector]
            values = [value.strip() for value in self.value.split(",") if value.strip()]
            if part in _FIELDS:
                options["where"] = {part: values if len(values) > 1 else values[0]}
            else:
                options[part] = values if part != "text" and len(values) > 1 else self.value
        if self.selector == "name" and self.kind == "preference":
            options["where"] = {"key": self.name}
        return options

    def __repr__(self) -> str:
        return f"Declaration({self.text})"


LIMIT_BYTES = 1 << 20
_MOST_NODES = 50_000
_FENCES = ("```yaml", "```yml", "~~~yaml", "~~~yml")


class Located(NamedTuple):
    """A text and its line number."""

    text: str
    line: int


class WorkflowText(NamedTuple):
    content: str
    path: str


def read(source: str | os.PathLike[str]) -> WorkflowText:
    """Read a file, or take the text itself: it has more than one line, or a colon and no such file exists."""
    if isinstance(source, str) and ("\n" in source or (not os.path.exists(source) and ": " in source)):
        return WorkflowText(source, "the workflow")
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError):
        raise InvalidFormat(f"{path}: there is no such file.", path=path) from None
    except OSError as error:
        raise from_os_error(error, path, "reading a workflow") from error
    if len(data) > LIMIT_BYTES:
        raise InvalidFormat(f"{path}: larger than {LIMIT_BYTES:,} bytes, the limit of a workflow file.", path=path)
    try:
        return WorkflowText(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise InvalidFormat(f"{path}: not UTF-8 text (byte {error.start}).", path=path) from None


def parse(text: WorkflowText) -> Any:
    """The first YAML part with `memory_requirements`, else the first that is a mapping; {} if there is none."""
    first: Any = None
    for content, line in _parts(text.content):
        value = _compose(content, line, text.path)
        if isinstance(value, dict):
            if "memory_requirements" in content:
                return value
            first = value if first is None else first
    return first or {}


def _parts(content: str) -> Iterator[tuple[str, int]]:
    """The YAML in a file and the number of the line before it: front matter, blocks, or the whole file."""
    lines = content.splitlines()
    has_parts = False
    if lines and lines[0].strip() == "---":
        end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), len(lines))
        yield "\n".join(lines[1:end]), 1
        has_parts = end < len(lines)
    number = 0
    while number < len(lines):
        if lines[number].strip().lower().startswith(_FENCES):
            mark = lines[number].strip()[:3]
            start = number + 1
            end = next((at for at in range(start, len(lines)) if lines[at].strip().startswith(mark)), len(lines))
            yield "\n".join(lines[start:end]), start
            number, has_parts = end, True
        number += 1
    if not has_parts:
        yield content, 0


def _compose(content: str, line: int, path: str) -> Any:
    yaml = yaml_library()
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        node = yaml.compose(content, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = line + (mark.line + 1 if mark is not None else 1)
        problem = getattr(error, "problem", None) or "not YAML"
        raise InvalidFormat(f"{path}:{at}: {problem}.", path=path, line=at) from None
    except RecursionError:
        raise InvalidFormat(f"{path}: nested too deeply.", path=path, line=line + 1) from None
    return _to_plain(node, line, path, [0], ())


def _to_plain(node: Any, line: int, path: str, count: list[int], ancestors: tuple[int, ...]) -> Any:
    """Mappings, lists and texts with their lines; the number of nodes is limited, because aliases can multiply them."""
    count[0] += 1
    if count[0] > _MOST_NODES or len(ancestors) > 60 or id(node) in ancestors:
        raise InvalidFormat(f"{path}: too large or nested too deeply for a workflow.", path=path, line=line + 1)
    if node is None:
        return None
    kind = node.id
    path_to_node = (*ancestors, id(node))
    if kind == "mapping":
        return {
            str(key.value): _to_plain(value, line, path, count, path_to_node)
            for key, value in node.value
            if isinstance(key.value, str)
        }
    if kind == "sequence":
        return [_to_plain(value, line, path, count, path_to_node) for value in node.value]
    return Located(str(node.value), line + node.start_mark.line + 1)


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
                f"{self.path}: memory_requirements.{unknown}: unknown field; use one of {', '.join(_NAMES)}.",
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
        from smp_memory.text.tokenizer import without_signs

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
