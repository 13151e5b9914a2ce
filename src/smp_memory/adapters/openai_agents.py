"""Sessions of the OpenAI Agents SDK in a store: each is a session of SMP, each of its items a turn.

    await Runner.run(agent, "Hello", session=SMPSession("path/to/store", "conversation-1"))

Guarantees: items come back equal, in the order of writing, except for secrets, which are redacted. What was said is found by queries. Items
of one `add_items` stand together, whoever else writes; if the process is killed before it returns, some may be there. Removed items go to the trash.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, Messages

try:
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise ImportError("SMPSession needs openai-agents: pip install 'smp-memory[openai-agents]'") from error

if TYPE_CHECKING:
    import os
    from typing import Any

    from agents import RunContextWrapper, TResponseInputItem

    from smp_memory.memory import Memory


class SMPSession(BridgeOwner):
    """A `Session` over a store of SMP.

    All methods take the `wrapper` of a run, so that a subclass can choose by its context. This class does not use it.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        session_id: str = "default",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        author: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self.bridge = Bridge(memory, "openai_agents", author)
        self._messages = Messages(self.bridge.session(session_id))

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """All items, or the last ones, the oldest first. Without a limit that of `session_settings` holds."""
        count = resolve_session_limit(limit, self.session_settings)
        read = self._messages.all if count is None else partial(self._messages.last, count)
        items: list[TResponseInputItem] = await aio.call(read)
        return items

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        await aio.call(self._messages.add_many, items)

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none."""
        item: TResponseInputItem | None = await aio.call(self._messages.pop)
        return item

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        await aio.call(self._messages.clear)
