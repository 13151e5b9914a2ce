"""SMP, Session Memory Persistence: memories of AI agents in files that people can read.

import smp_memory
memory = smp_memory.open(".bmad/memory")
session = memory.create_session(user="ada", agents=["architect"], project="shop")
session.add_decision("Use OAuth 2.0", rationale="Standard, supports SSO", author="architect", tags=["auth"])
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory import errors
    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.agents.party import Party
    from smp_memory.context.builder import Context
    from smp_memory.integrations.bmad.macp import ContextManager
    from smp_memory.integrations.bmad.workflow import Workflow
    from smp_memory.memory import Memory
    from smp_memory.memory import open_memory as open
    from smp_memory.model.record import Record
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction

__version__ = "0.1.0"
__all__ = [
    "AgentMemory",
    "Context",
    "ContextManager",
    "Memory",
    "Party",
    "Placeholders",
    "Record",
    "SessionMemory",
    "Transaction",
    "Workflow",
    "__version__",
    "errors",
    "open",
]

_HOMES = {
    "open": ("smp_memory.memory", "open_memory"),
    "Memory": ("smp_memory.memory", "Memory"),
    "SessionMemory": ("smp_memory.session", "SessionMemory"),
    "Transaction": ("smp_memory.write.path", "Transaction"),
    "Record": ("smp_memory.model.record", "Record"),
    "Placeholders": ("smp_memory.privacy.anonymisation", "Placeholders"),
    "AgentMemory": ("smp_memory.agents.agent_memory", "AgentMemory"),
    "Context": ("smp_memory.context.builder", "Context"),
    "ContextManager": ("smp_memory.integrations.bmad.macp", "ContextManager"),
    "Party": ("smp_memory.agents.party", "Party"),
    "Workflow": ("smp_memory.integrations.bmad.workflow", "Workflow"),
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Load what is used when it is used: a hook must start in tens of milliseconds."""
    from smp_memory.import_lock import loaded

    if name == "errors":
        return loaded("smp_memory.errors")
    if name in _HOMES:
        module, attribute = _HOMES[name]
        value = globals()[name] = getattr(loaded(module), attribute)
        return value
    raise AttributeError(f"module 'smp_memory' has no attribute {name!r}")
