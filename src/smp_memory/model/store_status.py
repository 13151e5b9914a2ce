"""The state of a store at a glance, a plain value. `smp_memory.store.status` fills it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.record import Record


class StoreStatus:
    """What is known of a store at a glance. The figures are true unless `changed` is above 0 or `is_indexed` is False."""

    def __init__(self, root: str, layout: str, is_trusted: bool) -> None:
        self.root = root
        self.layout = layout
        self.is_trusted = is_trusted
        self.sessions = 0
        self.is_indexed = False  # False: there are no figures
        self.changed = 0  # sessions that changed since the figures were taken
        self.counts: dict[str, int] = {}  # memories by type, without deleted ones
        self.open_findings: dict[str, int] = {}  # by severity; an empty name for those without one
        self.unreadable = 0  # entries that cannot be read
        self.last_session: tuple[str, int] | None = None  # its id, and its last write in microseconds since 1970
        self.notices: list[str] = []  # settings that cannot be used or do not count yet
        self.newest: list[Record] = []  # the newest first
