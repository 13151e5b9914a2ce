"""The tools that write: remember, update, forget, sessions.

Guarantees: the caller has the rights of the agent that it acts for (`Caller.agent`). An answer comes when the memory is stored, as durably as the store is set to; an error means that nothing was.
What was recalled from memory is not stored again as if it were new. Nothing is removed for good unless the server was
started with `--allow-erase`.

Store a memory unless the session has the same one from the last hour.

Models repeat calls: after a timeout, after their context was cut, or because two of them run in parallel. A memory is a duplicate
if it has the type and exactly the fields of one that is at most `FRESH_HOURS` old and was neither changed nor deleted. The newest
`COMPARED` memories of the type are compared, so a large session is not read for it. Identical calls of one server store one memory.
Turns are never duplicates: people say "yes" twice. A preference with a key and an agent's state replace what was there anyway.
Non-guarantee: identical calls of two processes at the same moment may both be stored.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.agent_rights import AgentRights
from smp_memory.context.budget import one_line
from smp_memory.errors import InvalidRecord, NotAllowed, UserError
from smp_memory.integrations.mcp.answers import Reply, plain, recalled
from smp_memory.integrations.mcp.arguments import CRITERIA, TOP_LEVEL
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.model.types import KINDS
from smp_memory.privacy import fence
from smp_memory.privacy.settings import count_kinds, redaction_notice
from smp_memory.privacy.visibility import Viewer
from smp_memory.write.operations import Add
from smp_memory.write.path import Writer
from smp_memory.write.validation import GIVEN_BY_SMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.integrations.mcp import arguments
    from smp_memory.integrations.mcp.request_context import Caller
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind
    from smp_memory.session import SessionMemory
    from smp_memory.write.batch_resolver import BatchResolver
    from smp_memory.write.validation import Draft


FRESH_HOURS = 1
COMPARED = 50
_NOT_COMPARED = ("access",)  # counts of use
ADDED, UPDATED, KNOWN = "added", "updated", "known already"


class AddWithOutcome(Add):
    """A new memory; `outcome` says whether it was added, or a known one was updated or left as it is."""

    outcome = ADDED

    def _is_known(self, work: BatchResolver) -> bool:
        entries = len(work.entries)
        known = super()._is_known(work)
        self.outcome = ADDED if not known else UPDATED if len(work.entries) > entries else KNOWN
        if self.outcome == KNOWN and self.key is not None and self._differs(work):
            text = f"idempotency_key: {self.memory_id} was stored with this key and another content; this content was not stored. If it is new, use another key."
            self.warnings = (*self.warnings, text)
        return known

    def _differs(self, work: BatchResolver) -> bool:
        """Whether this is another memory than the one that was stored with the key; what changed since does not count."""
        draft, record = self.draft, work.record(str(self.memory_id))
        history = work.history(record.id)
        first = history.first.data if history is not None else record.given
        text = draft.kind.text
        return record.type != draft.kind.name or any(
            first.get(name) != draft.data.get(name) for name in (text, "value")
        )

    @property
    def is_compared(self) -> bool:
        """Whether an equal memory makes this one a duplicate."""
        return not (self.needs_histories or self.draft.created or self.draft.kind.is_turn)


def add_once(session: SessionMemory, agent: str | None, kind: Kind, fields: dict[str, Any]) -> tuple[Record, str]:
    """The stored memory, and whether it was added, updated or known. The rights are those of `AgentMemory`."""
    opened, viewer = session.opened, Viewer(agent)
    rights = AgentRights(opened.files, agent, viewer)
    drafted: Any = Writer(opened, opened.do, agent).addition(kind, fields)
    operation = AddWithOutcome(drafted.draft)
    operation.removals, operation.warnings = drafted.removals, drafted.warnings
    is_compared = operation.is_compared
    rights.check(operation)
    if not is_compared:
        return opened.do(operation, kind.adding), operation.outcome
    with _alone((session.folder, kind.name, repr(operation.draft.data))):
        known = _duplicate(session, viewer, operation.draft)
        if known is not None:
            return known, KNOWN
        return opened.do(operation, kind.adding), ADDED


def _duplicate(session: SessionMemory, viewer: Viewer, draft: Draft) -> Record | None:
    """A fresh memory with the same fields that the agent may see."""
    oldest = session.memory.now() - timedelta(hours=FRESH_HOURS)
    for record in reversed(session.records(draft.kind.name, last=COMPARED)):
        is_equal = record.created >= oldest and _compared(record.given) == _compared(draft.data)
        if is_equal and viewer.sees(record):
            return record
    return None


def _compared(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NOT_COMPARED}


_guard = threading.Lock()
_under_way: dict[tuple[str, ...], tuple[threading.Lock, int]] = {}  # a lock for each content, and how many want it


@contextmanager
def _alone(content: tuple[str, ...]) -> Iterator[None]:
    """Let identical calls of this process follow each other; different ones do not wait."""
    with _guard:
        lock, wanted = _under_way.get(content, (threading.Lock(), 0))
        _under_way[content] = lock, wanted + 1
    try:
        with lock:
            yield
    finally:
        with _guard:
            lock, wanted = _under_way[content]
            if wanted == 1:
                del _under_way[content]
            else:
                _under_way[content] = lock, wanted - 1


_AGENT_ALIASES = [name for name, field in KINDS["agent_state"].aliases.items() if field == "agent"]


def remember(caller: Caller, given: arguments.RememberArguments) -> Reply:
    fields = _fields_of(given)
    author = fields.get("author")
    if KINDS[given.type].is_named_by_agent and not {"agent", *_AGENT_ALIASES}.intersection(fields):
        fields["agent"] = caller.context.author or author or caller.name
    _check_created(caller, given.type, fields)
    session = caller.session(given.session, writes=True, create=True)
    record, done = add_once(session, caller.acting_as(author), KINDS[given.type], fields)
    return _stored(record, done)


def _fields_of(given: arguments.RememberArguments) -> dict[str, Any]:
    """The fields of a new memory: those at top level and those in `fields`. Two values for one are refused."""
    if given.key and not KINDS[given.type].is_named_by_key:
        raise InvalidRecord("key: belongs to a preference. For a call that may be repeated, use idempotency_key.", field="key")  # fmt: skip
    fields: dict[str, Any] = _new_only(dict(given.fields))
    for name in GIVEN_BY_SMP.intersection(fields) - {"type"}:
        raise InvalidRecord(f"fields: {name} is set by SMP and would not be stored. A session is named beside `fields`, as `session`.", field="fields")  # fmt: skip
    for name in TOP_LEVEL:
        value = _new_only(getattr(given, name))
        if value is not None and value != []:
            _set_once(fields, name, name, value)
    text = _new_only(given.text)
    if text is not None:
        _set_once(dict(fields), "text", "text", text)
        _set_once(fields, KINDS[given.type].text_field(fields), "text", text)
    return fields


def _set_once(fields: dict[str, Any], name: str, argument: str, value: Any) -> None:
    if fields.get(name) not in (None, value):
        raise InvalidRecord(f"{argument}: given twice with different values, here and as {name} in fields.", field=argument)  # fmt: skip
    fields[name] = value


def _check_created(caller: Caller, type: str, fields: dict[str, Any]) -> None:
    """Refuse a time of creation in the future, which would head every list. A day is left for clocks and time zones."""
    aliases = KINDS[type].aliases
    latest = caller.memory.now() + timedelta(days=1)
    for name, value in fields.items():
        if aliases.get(name, name) == "created" and value is not None and to_moment(parse(value, "created")) > latest:
            raise InvalidRecord(
                f"created: {to_text(to_moment(parse(value, 'created')))} is in the future; give a time until {to_text(latest)}, or leave it out.",
                field="created",
            )


def update(caller: Caller, given: arguments.UpdateArguments) -> Reply:
    record = caller.record(given.id, given.session, writes=True)
    session = caller.agent(caller.session(record.session, writes=True))
    if given.action == "change":
        changes = _new_only(dict(given.changes))
        if not changes:
            raise InvalidRecord("changes: say what is to be changed.", field="changes")
        for name in {"id", "expected_revision"}.intersection(changes):
            raise InvalidRecord(f"changes: {name} cannot be changed.", field="changes")
        if "text" in changes and "text" not in record.given:
            changes[KINDS[record.type].text] = changes.pop("text")
        record = session.update(record.id, given.expected_revision, **changes)
    elif given.action == "resolve":
        record = session.resolve(record.id, given.resolution, status=given.status)
    elif given.action == "relate":
        if not given.target:
            raise InvalidRecord("target: say with which memory it is related.", field="target")
        target = caller.record(given.target, given.session or record.session)
        record = session.relate(record.id, target.id if target.session == session.id else target.ref, given.kind)
    else:
        record = session.pin(record.id) if given.action == "pin" else session.unpin(record.id)
    words = {"change": "changed", "resolve": given.status, "pin": "pinned", "unpin": "unpinned", "relate": "related"}
    return _stored(record, words[given.action])


def forget(caller: Caller, given: arguments.ForgetOrEraseArguments) -> Reply:
    if given.action == "list":
        return _trash(caller, given)
    if given.ids and any(getattr(given, name) for name in CRITERIA):
        raise InvalidRecord(f"ids: give ids, or {', '.join(CRITERIA)}, not both.", field="ids")
    if given.action == "erase":
        return _erased(caller, given)
    is_back = given.action == "restore"
    if given.ids:
        found_by_id = [
            caller.record(ref, given.session, include_deleted=True, writes=not given.preview) for ref in given.ids
        ]
        refs = [record.ref for record in found_by_id]
    else:  # whoever goes by criteria means what can be seen
        session: Any = caller.session(given.session, writes=not given.preview)
        found = (session.restore if is_back else session.delete)(preview=True, **_criteria(given))
        refs = [record.ref for record in found.records if caller.may_change(record)]
    redacted = _carry_out(caller, refs, given.reason, is_back) if refs and not given.preview else {}
    word = ("would be " if given.preview else "") + ("restored" if is_back else "deleted")
    text = f"{word}: {', '.join(refs) or 'nothing'}"
    return _forgotten(word, refs, text if is_back else f"{text} (restore brings it back)", redacted)


def _forgotten(word: str, refs: list[str], text: str, redacted: dict[str, int]) -> Reply:
    """The answer about memories that were taken away or brought back; `redacted`: what was taken out of the reason."""
    data = {"done": word, "count": len(refs), "ids": refs, "redacted": redacted or None}
    return plain(data, f"{text}\nreason: {redaction_notice(redacted)}" if redacted else text)


def _carry_out(caller: Caller, refs: list[str], reason: str | None, is_back: bool) -> dict[str, int]:
    """Delete or restore memories, those of one session together or not at all; what was taken out of the reason."""
    redacted: dict[str, int] = {}
    by_session: dict[str, dict[str, None]] = {}
    for ref in refs:
        name, _, memory_id = ref.rpartition("/")
        by_session.setdefault(name, {})[memory_id] = None
    for name, memory_ids in by_session.items():
        with caller.agent(caller.session(name, writes=True)).transaction() as transaction:
            for memory_id in memory_ids:
                wish = (transaction.restore if is_back else transaction.delete)(memory_id, reason)
                redacted = redacted or count_kinds(wish.removals)
    return redacted


def _criteria(given: arguments.ForgetArguments) -> dict[str, Any]:
    asked = {
        "text": given.query,
        "types": list(given.types),
        "tags": given.tags,
        "topic": given.topic,
        "agents": given.agent,
        "time": given.time,
    }
    asked = {name: value for name, value in asked.items() if value}
    if not asked:
        raise InvalidRecord("ids: name memories, or say which are meant by query, types, tags, topic, agent or time.", field="ids")  # fmt: skip
    return asked


def _erased(caller: Caller, given: arguments.ForgetArguments) -> Reply:
    if not caller.context.may_erase:
        raise UserError("This server may not erase. Start it with `smp mcp --allow-erase`, or use `smp erase`.")
    if not given.ids:
        raise InvalidRecord("ids: erasing wants the ids of memories.", field="ids")
    records = [caller.record(ref, given.session, include_deleted=True, writes=not given.preview) for ref in given.ids]
    for record in records:
        if not caller.may_change(record):
            raise NotAllowed(f"ids: {record.ref} is the state of another agent.", field="ids")
    refs = [record.ref for record in records]
    receipt = caller.memory.erase(refs, given.reason, by=caller.name, preview=given.preview)
    word = "would be erased" if given.preview else "erased"
    if not given.preview and not receipt.complete:
        word = "erased, but not everywhere: see `smp erase`"
    return _forgotten(word, refs, f"{word}: {', '.join(refs)}", receipt.redacted)


def _trash(caller: Caller, given: arguments.ForgetArguments) -> Reply:
    source: Any = caller.session(given.session) if given.session else caller.memory
    found = [each for each in source.deleted() if caller.sees(each.record)]
    page = found[given.offset : given.offset + given.limit]
    ids = [each.record.ref for each in page]
    after = given.offset + len(page) if given.offset + len(page) < len(found) else None
    lines = [f"- {each.record.ref} deleted {to_text(each.at)[:10]}" for each in page] or ["The trash is empty."]
    problems, remarks = caller.problem_lines([source.id] if given.session else None)
    data = {"done": "listed", "count": len(found), "ids": ids, "next_offset": after, "problems": problems}
    return plain(data, "\n".join([*lines, *remarks]))


def sessions(caller: Caller, given: arguments.SessionsArguments) -> Reply:
    if given.action == "create":
        made = caller.memory.create_session(
            given.id, project=given.project, user=given.user, agents=given.agents, tags=given.tags, author=caller.name
        )
        row = {"id": made.id, "state": made.state, **_head(made)}
        return _sessions([{**row, "redacted": made.redacted} if made.redacted else row])
    if given.action == "show":
        session = caller.session(given.id)
        by_type, _ = caller.counts(session)
        row = {"id": session.id, "state": session.state, "written": to_text(session.written), **_head(session)}
        row |= {"memories": sum(by_type.values()), "by_type": by_type}
        return _sessions([row], found=caller.problem_lines([session.id]))
    found = caller.memory.sessions_by_time()[::-1]
    page = found[given.offset : given.offset + given.limit]
    after = given.offset + len(page) if given.offset + len(page) < len(found) else None
    rows = [{"id": each.id, "state": each.state, "written": to_text(at), **_head(each)} for at, each in page]
    return _sessions(rows, after)


def _sessions(
    rows: list[dict[str, Any]],
    after: int | None = None,
    *,
    found: tuple[list[str] | None, list[str]] = (None, []),
) -> Reply:
    """The answer about sessions; `found`: what `Caller.problem_lines` gave."""
    problems, remarks = found
    lines = ["- " + ", ".join(_said(name, value) for name, value in row.items()) for row in rows]
    lines += [f"(more: offset {after})"] if after is not None else []
    data = {"sessions": rows, "next_offset": after, "problems": problems}
    return recalled(data, "\n".join([*(lines or ["No sessions yet."]), *remarks]))


def _said(name: str, value: Any) -> str:
    """A field of a session, on one line."""
    if isinstance(value, dict):
        value = [f"{count} {type}" for type, count in value.items()]
    text = one_line(" and ".join(value) if isinstance(value, list) else str(value))
    return text if name == "id" else f"{name.replace('_', ' ')} {text}"


def _head(session: Any) -> dict[str, Any]:
    """Who takes part."""
    info = session.info
    known = {"project": info.project, "user": info.user, "agents": list(info.agents)}
    return {name: value for name, value in known.items() if value}


def _stored(record: Record, done: str) -> Reply:
    data: dict[str, Any] = {
        "id": record.ref,
        "type": record.type,
        "session": record.session,
        "revision": record.revision,
        "done": done,
        "redacted": record.redacted or None,
        "warnings": list(record.warnings) or None,
    }
    lines = [f"{record.ref} {done}, revision {record.revision}", redaction_notice(record.redacted), *record.warnings]
    return plain(data, "\n".join(line for line in lines if line))


def _new_only(value: Any) -> Any:
    """What was given, without what was recalled from memory; nothing but that is refused."""
    if isinstance(value, str):
        if fence.is_only_recalled(value):
            raise InvalidRecord("text: this was recalled from memory; it is stored already.", field="text")
        return fence.strip(value)
    if isinstance(value, dict):
        return {name: _new_only(each) for name, each in value.items()}
    return [_new_only(each) for each in value] if isinstance(value, list) else value
