"""Read labelled stores from text files and write each into a real store through the public API.

A file of `recall_stores/<part>/` describes the memory of one project after some weeks, and prompts that a person types afterwards, with
labels. One item per line; empty lines and lines that begin with `#` are ignored:

    store NAME                                  the first item
    conversation 2026-03-02 NAME                begins a conversation of that day; days do not go back
    u [=KEY …] TEXT, a [=KEY …] TEXT            a turn of the user or the final answer of the agent, as hooks record them; `=KEY`: it states KEY
    decision|finding|learning|preference KEY [{tags: a, b}] [{topic: x}] [{files: p, q}] [{severity: high}] [{supersedes: KEY}]
        [{resolves: KEY}] TEXT                  (in one line) a memory that the agent writes down at that moment
    resolve KEY, delete KEY                     a finding is closed, a memory is deleted
    prompt KIND [KEY, KEY] [[PATH]]: TEXT       asked in a new conversation two weeks after the last one; `[PATH]`: the file that is open

A fact is a KEY: its written memory, if there is one, and the turns that state it. It is stale once it is superseded, resolved or deleted.
Prompts of the kinds NEEDS need a current fact, `stale` prompts name stale facts, the others need none and name none.

Guarantees: a file that breaks a rule is a `LabelError` with file and line. A store is the same on every machine except for random uids.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARTS = DEVELOPMENT, HELD_OUT = "development", "held-out"
NEEDS = ("direct", "reworded", "task", "file", "asking")
STALE = "stale"
NONE = ("near", "general", "smalltalk")
KINDS = (*NEEDS, STALE, *NONE)
WRITTEN_TYPES = ("decision", "finding", "learning", "preference")
CLIENT = "claude-code"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recall_stores")
_OPTIONS = ("tags", "topic", "files", "severity", "supersedes", "resolves")
_LISTS = ("tags", "files")
_BEGIN, _TURN_PAUSE, _CONVERSATION_PAUSE = timedelta(hours=9), timedelta(minutes=3), timedelta(minutes=40)
_ASKED_AFTER = timedelta(days=14)
_ROLES = {"u": "user", "a": "assistant"}
_MARK = re.compile(r"=([a-z0-9-]+)\s+")
_OPTION = re.compile(r"\{(\w+):\s*([^{}]*)\}\s*")
_PROMPT = re.compile(r"(\w+)(?:\s+([a-z0-9-]+(?:,\s*[a-z0-9-]+)*))?(?:\s+\[([^\]]+)\])?:\s+(.+)")
_NAME = re.compile(r"[A-Za-z0-9-]+")


class LabelError(ValueError):
    """A file of labelled stores that cannot be read; the message begins with file and line."""


@dataclass
class Turn:
    role: str
    text: str
    keys: tuple[str, ...]


@dataclass
class Written:
    """A memory that the agent writes down; `options` are the braces, lists for `tags` and `files`."""

    type: str
    key: str
    text: str
    options: dict[str, Any]


@dataclass
class Change:
    """`action`: resolve or delete."""

    action: str
    key: str


@dataclass
class Conversation:
    day: datetime
    name: str
    items: list[Turn | Written | Change] = field(default_factory=list)


@dataclass
class Prompt:
    kind: str
    text: str
    keys: tuple[str, ...]
    file: str  # that is open in the editor; empty: none is told
    line: int


@dataclass
class LabelledStore:
    name: str
    conversations: list[Conversation] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)


# --- Reading -------------------------------------------------------------------------------------------------------


def read_part(part: str, name: str | None = None) -> list[LabelledStore]:
    """The stores of a part, by name of their files; with `name` that one alone."""
    folder = os.path.join(_FOLDER, part)
    names = sorted(each for each in os.listdir(folder) if each.endswith(".txt")) if os.path.isdir(folder) else []
    if name is not None:
        names = [each for each in names if each == f"{name}.txt"]
    return [read(os.path.join(folder, each)) for each in names]


def read(path: str) -> LabelledStore:
    with open(path, encoding="utf-8") as file:
        lines = [(number, line.strip()) for number, line in enumerate(file, 1)]
    return _Parser(path).read([(number, line) for number, line in lines if line and not line.startswith("#")])


class _Parser:
    """Reads the lines of one file in order and checks that keys are known when they are used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._line = 0
        self._store = LabelledStore("")
        self._written: dict[str, str] = {}  # type by key
        self._said: set[str] = set()
        self._stale: set[str] = set()

    def read(self, lines: list[tuple[int, str]]) -> LabelledStore:
        for self._line, line in lines:
            word, _, rest = line.partition(" ")
            self._read_item(word, rest.strip())
        for prompt in self._store.prompts:
            self._line = prompt.line
            self._check_prompt(prompt)
        if not self._store.conversations or not self._store.prompts:
            raise self._error("the file has no conversation or no prompt")
        return self._store

    def _error(self, message: str) -> LabelError:
        return LabelError(f"{self._path}:{self._line}: {message}")

    def _read_item(self, word: str, rest: str) -> None:
        if not self._store.name and word != "store":
            raise self._error("the first item is `store NAME`")
        if word == "store":
            self._read_store(rest)
        elif word == "conversation":
            self._read_conversation(rest)
        elif word == "prompt":
            self._store.prompts.append(self._prompt(rest))
        elif not self._store.conversations:
            raise self._error(f"{word!r} stands before the first conversation")
        else:
            self._store.conversations[-1].items.append(self._item(word, rest))

    def _read_store(self, rest: str) -> None:
        if self._store.name or not _NAME.fullmatch(rest):
            raise self._error("`store NAME` stands once, and the name has letters, digits and `-`")
        self._store.name = rest

    def _read_conversation(self, rest: str) -> None:
        day, _, name = rest.partition(" ")
        try:
            begin = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            raise self._error(f"{day!r} is not a day such as 2026-03-02") from None
        earlier = self._store.conversations
        if not _NAME.fullmatch(name) or any(each.name == name for each in earlier):
            raise self._error(f"{name!r} is not a new name of letters, digits and `-`")
        if earlier and begin < earlier[-1].day:
            raise self._error(f"{day} is before the conversation above")
        if self._store.prompts:
            raise self._error("a conversation stands after the prompts")
        earlier.append(Conversation(begin, name))

    def _item(self, word: str, rest: str) -> Turn | Written | Change:
        if word in _ROLES:
            return self._turn(_ROLES[word], rest)
        if word in WRITTEN_TYPES:
            return self._memory(word, rest)
        if word in ("resolve", "delete"):
            return self._change(word, rest)
        raise self._error(f"{word!r} is not an item")

    def _turn(self, role: str, rest: str) -> Turn:
        keys = []
        while mark := _MARK.match(rest):
            keys.append(mark[1])
            rest = rest[mark.end() :]
        if not rest:
            raise self._error("a turn without text")
        self._said.update(keys)
        return Turn(role, rest, tuple(keys))

    def _memory(self, type: str, rest: str) -> Written:
        key, _, rest = rest.partition(" ")
        if not re.fullmatch(r"[a-z0-9-]+", key) or key in self._written:
            raise self._error(f"{key!r} is not a new key of small letters, digits and `-`")
        options: dict[str, Any] = {}
        rest = rest.strip()
        while option := _OPTION.match(rest):
            name, value = option[1], option[2].strip()
            if name not in _OPTIONS or not value:
                raise self._error(f"{{{name}: …}} is unknown or empty; known: {', '.join(_OPTIONS)}")
            options[name] = [each.strip() for each in value.split(",")] if name in _LISTS else value
            rest = rest[option.end() :]
        if not rest or rest.startswith("{"):
            raise self._error(f"{key}: a memory without text, or with a brace that cannot be read")
        self._written[key] = type
        for name in ("supersedes", "resolves"):
            if name in options:
                self._make_stale(options[name])
        return Written(type, key, rest, options)

    def _change(self, action: str, key: str) -> Change:
        self._make_stale(key)
        if action == "resolve" and self._written[key] not in ("finding", "decision"):
            raise self._error(f"{key} is a {self._written[key]}, which cannot be resolved")
        return Change(action, key)

    def _make_stale(self, key: str) -> None:
        if key not in self._written or key in self._stale:
            raise self._error(f"{key!r} is not a written memory that still holds")
        self._stale.add(key)

    def _prompt(self, rest: str) -> Prompt:
        parts = _PROMPT.fullmatch(rest)
        if parts is None or parts[1] not in KINDS:
            raise self._error(f"not `prompt KIND [KEY, KEY] [[PATH]]: TEXT`; kinds: {', '.join(KINDS)}")
        keys = tuple(key.strip() for key in (parts[2] or "").split(",") if key.strip())
        return Prompt(parts[1], parts[4], keys, parts[3] or "", self._line)

    def _check_prompt(self, prompt: Prompt) -> None:
        if bool(prompt.keys) != (prompt.kind not in NONE):
            raise self._error(f"a {prompt.kind} prompt names {'no key' if prompt.kind in NONE else 'a key'}")
        for key in prompt.keys:
            if key not in self._written and key not in self._said:
                raise self._error(f"{key!r} is neither written nor said")
            if (key in self._stale) != (prompt.kind == STALE):
                raise self._error(f"{key} is {'stale' if key in self._stale else 'current'}: wrong for {prompt.kind}")


# --- Writing -------------------------------------------------------------------------------------------------------


@dataclass
class Fact:
    """The refs (`session/ID`) of a KEY: of the written memory, if any, and of the turns that state it."""

    written: str = ""
    turns: list[str] = field(default_factory=list)
    is_stale: bool = False  # superseded, resolved or deleted

    @property
    def refs(self) -> set[str]:
        return {*self.turns, *([self.written] if self.written else [])}


class SettableClock:
    """A clock for `smp_memory.open` that stands still until it is set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@dataclass
class WrittenStore:
    """A store in a folder with the labels of its facts. The clock stands at the time of asking. Close `memory`."""

    memory: Any
    facts: dict[str, Fact]
    clock: SettableClock

    def refs(self, keys: tuple[str, ...]) -> set[str]:
        return {ref for key in keys for ref in self.facts[key].refs}

    def stale_refs(self) -> set[str]:
        """Refs that state a stale fact and no current one."""
        current = {ref for fact in self.facts.values() if not fact.is_stale for ref in fact.refs}
        return {ref for fact in self.facts.values() if fact.is_stale for ref in fact.refs} - current


def write(store: LabelledStore, folder: str, config: dict[str, Any]) -> WrittenStore:
    """Write a labelled store into an empty folder, one session per conversation, as hooks and an agent would."""
    clock = SettableClock()
    written = WrittenStore(smp_memory.open(folder, config=config, clock=clock), {}, clock)
    for conversation in store.conversations:
        _write_conversation(written, store, conversation)
    clock.time += _ASKED_AFTER
    written.memory.reindex()  # makes all vectors
    return written


def _write_conversation(written: WrittenStore, store: LabelledStore, conversation: Conversation) -> None:
    clock = written.clock
    clock.time = max(conversation.day + _BEGIN, clock.time + _CONVERSATION_PAUSE)
    host_session = f"{store.name} {conversation.name}"
    name = f"{CLIENT}-{conversation.day:%Y-%m-%d}-{hashlib.sha256(host_session.encode()).hexdigest()[:8]}"
    written.memory.create_session(name, author=CLIENT, agents=[CLIENT], host=CLIENT, host_session=host_session)
    session = written.memory.session(name, author=CLIENT)
    for item in conversation.items:
        clock.time += _TURN_PAUSE
        for key in item.keys if isinstance(item, Turn) else (item.key,):
            written.facts.setdefault(key, Fact())
        if isinstance(item, Turn):
            _write_turn(written, session, item)
        elif isinstance(item, Written):
            _write_memory(written, session, item)
        else:
            _settle(written, item.key, item.action)


def _write_turn(written: WrittenStore, session: Any, turn: Turn) -> None:
    author = {"author": CLIENT} if turn.role == "assistant" else {}
    ref = session.add_turn(turn.role, turn.text, created=written.clock.time.isoformat(), **author).ref
    for key in turn.keys:
        written.facts[key].turns.append(ref)


def _write_memory(written: WrittenStore, session: Any, item: Written) -> None:
    fields = {name: item.options[name] for name in ("tags", "topic", "severity") if name in item.options}
    if "files" in item.options:
        fields["references"] = item.options["files"]
    record = session.add(item.type, {item.type: item.text, "created": written.clock.time.isoformat(), **fields})
    written.facts[item.key].written = record.ref
    for kind in ("supersedes", "resolves"):
        if kind in item.options:
            session.relate(record.id, written.facts[item.options[kind]].written, kind)
            _settle(written, item.options[kind], kind)


def _settle(written: WrittenStore, key: str, action: str) -> None:
    """Store the end of a fact: a finding that is resolved, or a memory that is deleted. The relation `supersedes` says it by itself."""
    fact = written.facts[key]
    fact.is_stale = True
    session, _, id = fact.written.partition("/")
    if action in ("resolve", "resolves"):
        written.memory.session(session).resolve(id, by=CLIENT)
    elif action == "delete":
        written.memory.session(session).delete(id, "the user asked for it", by=CLIENT)
