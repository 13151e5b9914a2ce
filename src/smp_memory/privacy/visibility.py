"""May this agent see this memory? One pure rule, used by every read path.

- An agent's state is its own, unless it says `visibility: shared`.
- A memory with `visibility: private` is its author's: the agent's working memory.
- Everything else is for all: turns, decisions, findings, preferences, artifacts, learnings, summaries.

Guarantees: pure; a visibility that nobody knows counts as private, a private memory without an author is nobody's. Who asks
without saying who they are (`None`) sees what is shared. People, and programs that open a session as a whole, see all.
Non-guarantees: files are files. Whoever may read the store's folder can read every memory in it.

Which revisions of a memory a viewer may see. Pure.

A memory may have been private when a revision was written and shared later, or the other way round. The current content of a
visible memory is visible as a whole. Of its past a viewer sees the revisions after which the memory was visible to it; the
others are named by their number ("revision 1 was private"), without content, time, author or reason.

Guarantees: no value that only hidden revisions had is handed out, neither as a value nor as what a later change replaced.
The rule for one state of a memory is `smp_memory.privacy.visibility`.
"""

from __future__ import annotations

from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, is_revision, is_use
from smp_memory.model.record import same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.search.field_values import Computed
    from smp_memory.search.filters import FieldFilter


SHARED = "shared"
_OF_AN_ARCHIVE = "ARCHIVE"  # the page that sums up an archived session, private memories among it
FOR_ALL = (None, SHARED, "public", "all", "team")


class Viewer:
    """Who looks: an agent, or somebody who did not say who they are."""

    __slots__ = ("agent",)

    def __init__(self, agent: str | None) -> None:
        self.agent = agent

    def sees(self, record: Record) -> bool:
        return self.may_see(record.type, record.given)

    def may_change(self, record: Record) -> bool:
        """Whether the viewer may change or delete it: what it sees, except the state of another agent."""
        owns = record.type != "agent_state" or (self.agent is not None and record.given.get("agent") == self.agent)
        return owns and self.sees(record)

    def may_see(self, type: Any, data: Mapping[str, Any]) -> bool:
        said = data.get("visibility")
        if type == "agent_state":
            owner, shared = data.get("agent"), said is not None and said in FOR_ALL
        else:
            owner, shared = data.get("author"), said in FOR_ALL
        return bool(shared) or (self.agent is not None and owner == self.agent)


class VisibilityFilter:
    """A condition of a question: what it asked for anyway, and that the one who asks may see it."""

    __slots__ = ("_asked", "_viewer")

    def __init__(self, viewer: Viewer, asked: FieldFilter) -> None:
        self._viewer = viewer
        self._asked = asked

    def admits(self, record: Record, computed: Computed) -> bool:
        if record.type == "summary" and record.id == _OF_AN_ARCHIVE:
            return False
        return self._viewer.sees(record) and (not self._asked or self._asked.admits(record, computed))

    @property
    def is_selective(self) -> bool:
        """Most memories are for all."""
        return bool(self._asked)

    def __bool__(self) -> bool:
        return True


LEFT_OUT = "left_out"  # in a step of a history and in an exported memory: what is missing, in words


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


def _steps(trail: RecordHistory, viewer: Viewer) -> Iterator[_Step]:
    now: dict[str, Any] = {}
    revision = 0
    for entry in trail.entries:
        before = now
        if entry.op in (PUT, CHANGE):
            revision += is_revision(entry)
            merged = {**now, **entry.data}
            now = {key: value for key, value in merged.items() if value is not None}
        yield _Step(entry, revision, before, now, viewer.may_see(trail.first.type, now))


def history_for(trail: RecordHistory, viewer: Viewer) -> list[dict[str, Any]]:
    """`Trail.history` as the viewer may see it. A change whose old value is hidden has no `from`."""
    steps: list[dict[str, Any]] = []
    known: dict[str, Any] = {}  # the fields after the last visible entry
    changes_only = (step for step in _steps(trail, viewer) if not is_use(step.entry))
    for whole, step in zip(trail.history(), changes_only, strict=True):
        if not step.is_visible:
            said = {PUT: "was", CHANGE: "was", DELETE: "was deleted while", RESTORE: "was restored while"}[
                step.entry.op
            ]
            left_out = f"revision {step.revision} {said} private"
            steps.append({"revision": step.revision, "op": step.entry.op, LEFT_OUT: left_out})
            continue
        changes = whole.get("changes", {})
        for name, change in changes.items():
            if not same(known.get(name), step.before.get(name)):
                del change["from"]
        steps.append(whole)
        known = step.after
    return steps


def entries_for(trail: RecordHistory, viewer: Viewer) -> list[Entry]:
    """The entries of a visible memory that may be handed out. What is left out is named in the field `left_out`.

    The first visible revision becomes the first entry and later ones are numbered anew: a file whose revisions have gaps
    would be refused by an import.
    """
    steps = list(_steps(trail, viewer))
    if all(step.is_visible for step in steps):
        return list(trail.entries)
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
            twin.revision = revision if is_use(twin) else 0
            known = step.after
            continue
        revision += 1
        twin.revision = revision if revision > 1 else 0
        if revision == 1:
            twin.op, twin.at, twin.by, twin.seq = PUT, trail.first.at, None, trail.first.seq
            twin.data = {**step.after, LEFT_OUT: [f"revision {number} was private" for number in hidden]}
        else:
            twin.data = _difference(known, step.after)
        known = step.after
    return kept


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The change that leads from one state to another."""
    changed = {name: value for name, value in after.items() if not same(before.get(name), value)}
    return {**changed, **{name: None for name in before if name not in after}}
