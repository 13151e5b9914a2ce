"""SMP, Session Memory Persistence: memories of AI agents in files that people can read.

import smp
memory = smp.open(".bmad/memory")
session = memory.create_session(user="ada", agents=["architect"], project="shop")
session.add_decision("Use OAuth 2.0", rationale="Standard, supports SSO", author="architect", tags=["auth"])
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp import errors
    from smp.agents.agent_memory import AgentMemory
    from smp.agents.context import Context
    from smp.agents.macp import ContextManager
    from smp.agents.party import Party
    from smp.agents.workflow import Workflow
    from smp.memory import Memory
    from smp.memory import open_memory as open
    from smp.model.record import Record
    from smp.privacy.placeholders import Placeholders
    from smp.session import SessionMemory, Transaction

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
    "open": ("smp.memory", "open_memory"),
    "Memory": ("smp.memory", "Memory"),
    "SessionMemory": ("smp.memory", "SessionMemory"),
    "Transaction": ("smp.session", "Transaction"),
    "Record": ("smp.model.record", "Record"),
    "Placeholders": ("smp.privacy.placeholders", "Placeholders"),
    "AgentMemory": ("smp.agents.agent_memory", "AgentMemory"),
    "Context": ("smp.agents.context", "Context"),
    "ContextManager": ("smp.agents.macp", "ContextManager"),
    "Party": ("smp.agents.party", "Party"),
    "Workflow": ("smp.agents.workflow", "Workflow"),
}


def __getattr__(name: str) -> object:
    """Load what is used when it is used: a hook must start in tens of milliseconds."""
    from importlib import import_module

    if name == "errors":
        return import_module("smp.errors")
    if name in _HOMES:
        module, attribute = _HOMES[name]
        value = getattr(import_module(module), attribute)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'smp' has no attribute {name!r}")
