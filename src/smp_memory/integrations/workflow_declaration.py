"""Parse workflow files and their memory declarations, such as `findings.by_severity:critical`. Pure, but for reading the file.

    conversation                     the last 20 turns            conversation.last_50_turns
    decisions                        the newest                   decisions.by_topic:login    by_tag, by_agent, by_status
    findings.by_severity:critical    several: critical,high       findings.open
    preferences                      all                          preferences.workflow_depth: the one with this key
    agent_states                     the agent's own              agent_states.veritas: that of one agent
    working_memory                   the agent's own              also learnings, artifacts, summaries

A workflow file is YAML, or a Markdown file with YAML in its front matter or in a block.

Guarantees: an invalid declaration is an `InvalidFormat` that names the declaration, its file and line. Nothing of the file is run; only
texts, lists and mappings are read, each scalar with its line. A file that is too large, or not YAML, is an `InvalidFormat` with file
and line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from smp_memory.errors import InvalidFormat, InvalidRecord, from_os_error
from smp_memory.files.yaml_text import yaml_library
from smp_memory.model.types import KINDS, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator


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
