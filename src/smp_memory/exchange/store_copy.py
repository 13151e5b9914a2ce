"""Copy a whole store into another one, of any backend: sessions in every state, cold segments, settings, the audit log.

Sessions are copied one after the other, the deleted ones first, then the archived, then the live ones: the id of a deleted session may
be in use again.

Guarantees: the source is only read. A session is in the target completely, compared entry by entry, or not at all; one that is to be archived or deleted there
may be live for a moment. A repeated call goes on where the last one stopped: equal sessions are left, entries written since are added.
Nothing in the target is overwritten: what differs is named as a conflict and stays as it is on both sides.
Non-guarantees: files of other programs, quarantine and sessions of which only a summary is left are not copied; the report names them. The user's own
state (index, trust, uses that were not counted yet) belongs to the address of a store and is made anew.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from smp_memory.config.schema import LOWERS
from smp_memory.errors import SMPError, StorageCorrupt, UserError
from smp_memory.exchange.transfer import UNLIMITED_BYTES, append_entries, compare, create_copy, read_session
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE
from smp_memory.observe.incomplete import SESSION_GONE
from smp_memory.observe.telemetry import observed
from smp_memory.trust import note_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.exchange.file_format import Exported
    from smp_memory.model.session_info import SessionHead
    from smp_memory.scope import Scope
    from smp_memory.store.port import Store

    Progress = Callable[[int, int, str, int], None]  # number and count of sessions, the session, memories so far


_LISTED = 5  # ids in a message


class StoreCopyReport:
    """What was copied, what was there already, what differs and what was left out."""

    def __init__(self, origin: str, target: str) -> None:
        self.origin, self.target = origin, target
        self.copied: list[str] = []
        self.extended: list[str] = []  # were there, and got the entries written since
        self.known: list[str] = []  # were there and equal
        self.conflicts: list[dict[str, Any]] = []  # session or setting, and why
        self.failed: list[dict[str, Any]] = []  # sessions that could not be read or written, and why
        self.left_out: list[str] = []
        self.memories = self.settings = self.audit_lines = 0

    @property
    def is_complete(self) -> bool:
        return not self.conflicts and not self.failed

    def to_dict(self) -> dict[str, Any]:
        return {
            "from": self.origin,
            "complete": self.is_complete,
            **{k: v for k, v in vars(self).items() if k != "origin"},
        }

    def __repr__(self) -> str:
        return f"StoreCopyReport({self.target}: {len(self.copied)} copied, {len(self.known)} known, {len(self.conflicts)} conflicts)"


class Differs(Exception):
    """A session that is in the target and not equal."""


@observed("convert")
def copy_store(scope: Scope, target: Scope, progress: Progress | None = None) -> StoreCopyReport:
    """Copy everything in the store of one scope into that of another."""
    source, store = scope.store, target.store
    if source.root == store.root:
        raise UserError(f"{store.root} is the store itself; name another one.", path=store.root)
    report = StoreCopyReport(source.root, store.root)
    heads = [head for state in (DELETED, ARCHIVED, LIVE) for head in source.sessions(state)]
    for number, head in enumerate(heads, 1):
        if progress is not None:
            progress(number, len(heads), head.session, report.memories)
        if head.has_memories:
            _copy_session(source, store, head, target.clock.text(), report)
        else:
            report.left_out.append(f"session {head.session}: another program left only a summary of it")
    _copy_settings(source, store, report)
    _copy_audit(source, store, report)
    _note_left_out(source, report)
    changed = [*report.copied, *report.extended]
    if changed:
        store.audit.note("convert", at=target.clock.text(), by=scope.author, count=len(changed), origin=source.root)
    return report


def _copy_session(source: Store, store: Store, head: SessionHead, now: str, report: StoreCopyReport) -> None:
    try:
        carried = read_session(_opened(source, head))
        getattr(report, _bring(store, head, carried, now)).append(head.session)
        _trust_settings(source, store, head)
        if carried.orphans:
            missing = ", ".join(carried.orphans)
            report.left_out.append(f"session {head.session}: changes of memories that do not exist: {missing}")
        report.memories += len({entry.id for entry in carried.entries})
    except Differs as conflict:
        report.conflicts.append({"session": head.session, "state": head.state, "why": str(conflict)})
    except SESSION_GONE:
        report.failed.append(_failure(head, "another process archived, restored or deleted it meanwhile; run it again"))
    except SMPError as error:
        if not isinstance(error, StorageCorrupt) and error.details.get("session") is None:
            raise  # of the whole store: no later session can be copied either
        report.failed.append(_failure(head, error.message))


def _failure(head: SessionHead, why: str) -> dict[str, Any]:
    return {"session": head.session, "state": head.state, "why": why}


def _opened(store: Store, head: SessionHead) -> Any:
    return store.session(head.session, head.state, path=head.path if head.state == DELETED else None)


def _bring(store: Store, head: SessionHead, carried: Exported, now: str) -> str:
    """Bring one session into the target and into its state there; returns the list of the report in which it belongs."""
    found = _twin(store, carried)
    if found is None:
        if store.sessions(LIVE, ARCHIVED, id=head.session):
            raise Differs("the target has another session of this id")
        create_copy(store, carried, UNLIMITED_BYTES, head.written if head.state == LIVE else None)
        _move(store, head, LIVE)
        return "copied"
    twin, known = found
    difference = compare(carried.entries, known.entries, {})
    if difference.conflicts:
        ids, more = [each.id for each in difference.conflicts], len(difference.conflicts) - _LISTED
        listed = ", ".join(ids[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")
        raise Differs(f"the target has other entries of {listed}")
    if difference.missing and twin.state != LIVE:
        raise Differs(f"it has entries that the {twin.state} one in the target lacks")
    if difference.missing:
        append_entries(store.session(head.session), difference.missing, now)
    if carried.info.to_dict() != known.info.to_dict():
        raise Differs("its metadata in the target is another")
    if twin.state != head.state:
        _move(store, head, twin.state)
    return "extended" if difference.missing else "known"


def _twin(store: Store, carried: Exported) -> tuple[SessionHead, Exported] | None:
    """The same session in the target, in any state."""
    for head in store.sessions(LIVE, ARCHIVED, DELETED, id=carried.info.id):
        if head.has_memories:
            known = read_session(_opened(store, head))
            if known.info.uid == carried.info.uid:
                return head, known
    return None


def _move(store: Store, head: SessionHead, state: str) -> None:
    """Move a session of the target from this state to that of its original, with the same metadata."""
    if state == head.state:
        return
    if state != LIVE and head.state != DELETED:
        raise Differs(f"it is {state} in the target")
    if head.state == ARCHIVED:
        store.move(head.session, LIVE, ARCHIVED, lambda *_: head.metadata)
        return
    archived = head.archived
    if archived is not None and state == LIVE:
        store.move(head.session, LIVE, ARCHIVED, lambda *_: archived)
    store.move(head.session, LIVE, DELETED, lambda *_: head.metadata)


# -- what belongs to the whole store


def _trust_settings(source: Store, store: Store, head: SessionHead) -> None:
    """Let protective settings of a session count in the target if they count in the source."""
    if head.state == LIVE:
        config = source.session(head.session).config
        own = config.stated_protection(session=True)
        if own and not any(each.session for each in config.held):
            note_settings(store, head.session, own)


def _copy_settings(source: Store, store: Store, report: StoreCopyReport) -> None:
    stated, known = source.config.stated(), store.config.stated()
    held = {each.key for each in source.config.held}
    for name, value in stated.items():
        if name not in known:
            store.write_setting(name, value)
            report.settings += 1
        elif known[name] != value:
            report.conflicts.append({"setting": name, "why": "the target has another value"})
    trusted = {name: value for name, value in stated.items() if name in LOWERS and name not in held}
    if trusted and all(known.get(name, value) == value for name, value in trusted.items()):
        note_settings(store, "", trusted)
    if source.config.unknown:
        report.left_out.append(f"settings that SMP does not know: {', '.join(source.config.unknown)}")


def _copy_audit(source: Store, store: Store, report: StoreCopyReport) -> None:
    known = Counter(store.audit.log.read()[0])
    new = []
    for line in source.audit.log.read()[0]:
        if known[line]:
            known[line] -= 1
        else:
            new.append(line)
    store.audit.log.append(new, sync=True)
    report.audit_lines = len(new)


def _note_left_out(source: Store, report: StoreCopyReport) -> None:
    """Name what only a store in files has."""
    if source.files is None:
        return
    if found := source.files.quarantined():
        report.left_out.append(f"quarantine: {len(found):,} files")
    report.left_out += [each.text(source.layout_name) for each in source.files.unread_sessions()]
    others = sum(len(each) for each in source.files.unindexed_memories().values())
    if others:
        report.left_out.append(f"files of other programs: {others:,} memories")
