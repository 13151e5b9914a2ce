"""Codec of `agent-states/{agent}.yaml`: SMP's list of states, and the one mapping that design 003 writes.

    agent_state:
      agent_id: veritas
      last_updated: 2026-01-31T14:32:00Z
      working_memory: {…}

The mapping is read as one unsigned entry: `agent_id` is the agent, `last_updated` the time, `decay` counts as in any memory, and
all other fields are the state. Later states are appended behind it as list items; `repair` turns the mapping into an item as well.
"""

from __future__ import annotations

import re

from smp.files.codec import DAMAGED, UNSIGNED, Piece, Stored
from smp.files.yaml_list import YamlList, load_mapping
from smp.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.files.codec import Fields

_KEY = "agent_state"
_MAPPING = re.compile(
    rb"^\"?agent_state\"?:[ ]*(?:#[^\n]*)?\r?\n(?P<body>(?:[ ]*(?:#[^\n]*)?\r?\n)*[ ]+[^\s#-])", re.MULTILINE
)
_ITEM = re.compile(rb"^[ ]{0,2}- id: ", re.MULTILINE)
_NOT_STATE = ("id", "agent_id", "agent", "session_id", "last_updated", "timestamp", "decay")


class AgentStateYaml(YamlList):
    """Reads both forms, writes items of a list."""

    def __init__(self) -> None:
        super().__init__(_KEY)

    def _pieces(self, data: bytes, stored: Stored) -> list[Piece]:
        found = _MAPPING.search(data)
        if found is None:
            return super()._pieces(data, stored)
        start = found.start("body")
        item = _ITEM.search(data, start)
        end = item.start() if item is not None else len(data)
        own = data[start:end].rstrip()
        pieces = [
            _state(own + b"\n", start, start + len(own) + 1 if start + len(own) < len(data) else start + len(own))
        ]
        rest = (stored[0], stored[1] - end)
        for piece in super()._pieces(data[end:], rest) if item is not None else ():
            piece.start, piece.end = piece.start + end, piece.end + end
            pieces.append(piece)
        return pieces


def _state(body: bytes, start: int, end: int) -> Piece:
    try:
        fields = load_mapping(b"agent_state:\n" + body).get(_KEY)
    except ValueError as error:
        return Piece(start, end, 0, DAMAGED, None, str(error))
    if not isinstance(fields, dict) or not isinstance(fields.get("agent_id", fields.get("agent")), str):
        return Piece(start, end, 0, DAMAGED, None, "agent_id: an agent's state needs it")
    return Piece(start, end, 0, UNSIGNED, _as_entry(fields))


def _as_entry(fields: Fields) -> Fields:
    agent = fields.get("agent_id", fields.get("agent"))
    entry: Fields = {
        "id": f"{ids.STATE_PREFIX}{agent}",
        "timestamp": fields.get("last_updated", fields.get("timestamp")),
        "author": agent,
        "agent": agent,
        "state": {name: value for name, value in fields.items() if name not in _NOT_STATE},
    }
    if "decay" in fields:
        entry["decay"] = fields["decay"]
    return entry
