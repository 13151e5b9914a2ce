"""Every operation of the public API that writes to a store, for tests of what must hold whatever a caller does.

`filled_store` makes a store in which each of them has something to do: memories of all types in session `s1`, an archived
session `old`, a deleted one `gone`, memories in the trash and in the cold segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import smp_memory
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.contract.fixture import MINIMAL

SESSION = "s1"
Operation = Callable[[Memory, SessionMemory], Any]


def _transaction(memory: Memory, session: SessionMemory) -> None:
    with session.transaction() as changes:
        changes.add_decision("in a transaction")
        changes.add_finding("in a transaction")


def _add(type: str) -> Operation:
    return lambda memory, session: session.add(type, MINIMAL[type][0])


# Those that write to the session, in an order in which each can follow the others.
OF_A_SESSION: dict[str, Operation] = {
    **{f"add {type}": _add(type) for type in MINIMAL},
    "add many": lambda memory, session: session.add_many([("decision", "many"), ("finding", "many")]),
    "agent state": lambda memory, session: session.update_agent_state("architect", {"step": 2}),
    "transaction": _transaction,
    "update": lambda memory, session: session.update("DEC-0001", decision="changed"),
    "delete": lambda memory, session: session.delete("FIND-0001"),
    "restore": lambda memory, session: session.restore("DEC-0002"),
    "change metadata": lambda memory, session: session.change_info(project="other"),
    "session setting": lambda memory, session: session.set_config("durability", "os"),
    "compact": lambda memory, session: session.compact("forced"),
    "tidy": lambda memory, session: session.tidy(),
    "repair": lambda memory, session: session.repair(),
    "redact": lambda memory, session: session.redact(),
    "erase": lambda memory, session: session.erase("PREF-0001"),
    "archive session": lambda memory, session: memory.archive_session(SESSION),
    "delete session": lambda memory, session: memory.delete_session(SESSION),
}
# Those that write to the store.
OF_A_STORE: dict[str, Operation] = {
    "create session": lambda memory, session: memory.create_session("new"),
    "import": lambda memory, session: memory.import_(EXPORTED, session="imported"),
    "restore session": lambda memory, session: memory.restore_session("old"),
    "undelete session": lambda memory, session: memory.undelete_session("gone"),
    "store setting": lambda memory, session: memory.set_config("durability", "os"),
    "maintain": lambda memory, session: memory.maintain(),
    "reindex": lambda memory, session: memory.reindex(),
    "query": lambda memory, session: memory.query("OAuth", include_archived=True),
    "trust": lambda memory, session: (memory.distrust(), memory.trust()),
    "sync": lambda memory, session: memory.sync(),
    "doctor": lambda memory, session: memory.doctor(fix=True),
    "convert": lambda memory, session: memory.convert("log" if memory.layout != "log" else "jsonl"),
    "close": lambda memory, session: memory.close(),
}
_LAST = ("archive session", "delete session", "convert", "close")
OPERATIONS = {name: each for name, each in {**OF_A_STORE, **OF_A_SESSION}.items() if name not in _LAST}
OPERATIONS |= {name: {**OF_A_STORE, **OF_A_SESSION}[name] for name in _LAST}


def _exported() -> str:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session(SESSION)
        session.add_decision("Use OAuth")
        return session.export()


EXPORTED = _exported()


def filled_store(root: Path, layout: str, **options: Any) -> Memory:
    memory = smp_memory.open(root, layout=layout, **options)
    for name in ("old", "gone"):
        memory.create_session(name).add_decision("Use OAuth")
    memory.archive_session("old")
    memory.delete_session("gone")
    session = memory.create_session(SESSION)
    for type in MINIMAL:
        for _ in range(2):
            session.add(type, MINIMAL[type][0])
    session.update_agent_state("architect", {"step": 1})
    session.delete("DEC-0002")
    session.compact("forced")
    memory.query("OAuth")
    memory.maintain()
    return memory


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
