"""Visibility of memories and of their revisions for an agent: one pure rule, used by every read path.

- The state of an agent is visible to that agent only, unless it has `visibility: shared`.
- A memory with `visibility: private` is visible to its author only: the agent's working memory.
- Everything else is visible to all: turns, decisions, findings, preferences, artifacts, learnings, summaries.

Guarantees: pure; an unknown visibility counts as private, a private memory without an author is visible to nobody. A viewer
without a name (`None`) sees shared memories only. People, and programs that open a session as a whole, see everything.
A viewer may be limited to some sessions (`within`): memories of all others are hidden from it, whatever their visibility.
Non-guarantees: this is no access control for files. Who can read the store's folder can read every memory in it.

Revisions: a memory may have been private when a revision was written and shared later, or the other way round. The current content of a
visible memory is visible as a whole. Of its past a viewer sees the revisions after which the memory was visible to it; the
others are listed by number ("revision 1 was private"), without content, time, author or reason.

No value that only hidden revisions had is returned, neither as a value nor as the old value of a later change.
"""

from __future__ import annotations

from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, is_maintenance, is_revision
from smp_memory.model.record import same
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record

SHARED = "shared"
VISIBLE_TO_ALL = (None, SHARED, "public", "all", "team")


class Viewer:
    """The reader: an agent, or None for an unnamed reader; limited to `sessions` unless they are None."""

    __slots__ = ("agent", "sees_private", "sessions")

    def __init__(
        self, agent: str | None, sessions: frozenset[str] | None = None, *, sees_private: bool = False
    ) -> None:
        self.agent = agent
        self.sessions = sessions
        self.sees_private = sees_private  # True: a person, who sees what is private to agents, too

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for viewers that see the same."""
        return self.agent, self.sees_private, self.sessions

    def sees(self, record: Record) -> bool:
        return (self.sessions is None or record.session in self.sessions) and self.may_see(record.type, record.given)

    def may_change(self, record: Record) -> bool:
        """Whether the viewer may change or delete a memory: all it sees, except the state of another agent."""
        is_other = KINDS[record.type].is_named_by_agent and (
            self.agent is None or record.given.get("agent") != self.agent
        )
        return not is_other and self.sees(record)

    def may_see(self, type: Any, data: Mapping[str, Any]) -> bool:
        visibility = data.get("visibility")
        if KINDS[type].is_named_by_agent:
            owner, shared = data.get("agent"), visibility is not None and visibility in VISIBLE_TO_ALL
        else:
            owner, shared = data.get("author"), visibility in VISIBLE_TO_ALL
        return bool(shared) or self.sees_private or (self.agent is not None and owner == self.agent)


def within(viewer: Viewer | None, sessions: frozenset[str]) -> Viewer:
    """The viewer (None: one who sees everything) limited to these sessions."""
    return Viewer(viewer.agent if viewer else None, sessions, sees_private=viewer is None or viewer.sees_private)


LEFT_OUT = "left_out"  # field of a history step and of an exported memory: describes what is missing


class _Step:
    """One entry of a memory: its revision, the fields before and after it, and whether the viewer may see it."""

    __slots__ = ("after", "before", "entry", "is_visible", "revision")

    def __init__(
        self, entry: Entry, revision: int, before: dict[str, Any], after: dict[str, Any], visible: bool
    ) -> None:
        self.entry = entry
        self.revision = revision
        self.before = before
        self.after = after
        self.is_visible = visible


def _steps(history: RecordHistory, viewer: Viewer) -> Iterator[_Step]:
    now: dict[str, Any] = {}
    revision = 0
    for entry in history.entries:
        before = now
        if entry.op in (PUT, CHANGE):
            revision += is_revision(entry)
            merged = {**now, **entry.data}
            now = {key: value for key, value in merged.items() if value is not None}
        yield _Step(entry, revision, before, now, viewer.may_see(history.first.type, now))


def history_for(history: RecordHistory, viewer: Viewer) -> list[dict[str, Any]]:
    """`RecordHistory.steps` as visible to the viewer. A change whose old value is hidden has no `from`."""
    steps: list[dict[str, Any]] = []
    known: dict[str, Any] = {}  # the fields after the last visible entry
    changes_only = (step for step in _steps(history, viewer) if not is_maintenance(step.entry))
    for whole, step in zip(history.steps(), changes_only, strict=True):
        if not step.is_visible:
            verb = {PUT: "was", CHANGE: "was", DELETE: "was deleted while", RESTORE: "was restored while"}[
                step.entry.op
            ]
            left_out = f"revision {step.revision} {verb} private"
            steps.append({"revision": step.revision, "op": step.entry.op, LEFT_OUT: left_out})
            continue
        changes = whole.get("changes", {})
        for name, change in changes.items():
            if not same(known.get(name), step.before.get(name)):
                del change["from"]
        steps.append(whole)
        known = step.after
    return steps


def entries_for(history: RecordHistory, viewer: Viewer) -> list[Entry]:
    """The visible entries of a visible memory, for exports. Hidden revisions are listed in the field `left_out`.

    The first visible revision becomes the first entry and later ones are renumbered, because an import rejects a file whose
    revisions have gaps.
    """
    steps = list(_steps(history, viewer))
    if all(step.is_visible for step in steps):
        return list(history.entries)
    hidden = sorted({step.revision for step in steps if not step.is_visible})
    kept: list[Entry] = []
    known: dict[str, Any] = {}
    revision = 0
    for step in steps:
        if not step.is_visible:
            continue
        twin = step.entry.copy()
        kept.append(twin)
        if not is_revision(twin):
            twin.revision = revision if is_maintenance(twin) else 0
            known = step.after
            continue
        revision += 1
        twin.revision = revision if revision > 1 else 0
        if revision == 1:
            twin.op, twin.at, twin.by, twin.seq = PUT, history.first.at, None, history.first.seq
            twin.data = {**step.after, LEFT_OUT: [f"revision {number} was private" for number in hidden]}
        else:
            twin.data = _difference(known, step.after)
        known = step.after
    return kept


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The change from one state to another."""
    changed = {name: value for name, value in after.items() if not same(before.get(name), value)}
    return {**changed, **{name: None for name in before if name not in after}}
