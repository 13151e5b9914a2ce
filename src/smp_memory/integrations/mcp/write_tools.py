"""The tools that write: remember, update, forget, sessions.

Guarantees: the caller has the rights of the agent that it acts for (`Caller.agent`). An answer comes when the memory is stored, as
durably as the store is set to; an error means that nothing was stored. Text that was fenced_reply from memory is not stored again as
new. Nothing is removed for good unless the server was started with `--allow-erase`.

`remember` stores a memory only if the session has no equal one from the last hour, because models repeat calls: after a timeout,
after their context was cut, or because two of them run in parallel. A memory is a duplicate if it has the type and exactly the fields
of one that is at most `DUPLICATE_HOURS` old and was neither changed nor deleted. The newest `COMPARED` memories of the type are
compared, so a large session is not read for it. Identical calls of one server store one memory. Turns are never duplicates: people
say "yes" twice. A preference with a key and an agent's state replace the stored one anyway.
Non-guarantee: identical calls of two processes at the same moment may both be stored.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from smp_memory.agents.rights import AgentRights
from smp_memory.context.budget import one_line
from smp_memory.errors import InvalidRecord, NotAllowed, UserError
from smp_memory.integrations.mcp.answers import Reply, fenced_reply, plain_reply
from smp_memory.integrations.mcp.arguments import CRITERIA, TOP_LEVEL
from smp_memory.lifecycle.deletion import echoes_of
from smp_memory.lifecycle.review import open_proposals
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.model.types import KINDS
from smp_memory.privacy import fence
from smp_memory.privacy.anonymisation import UNREDACTED
from smp_memory.privacy.settings import count_kinds, redaction_notice
from smp_memory.privacy.visibility import Viewer
from smp_memory.write.operations import Add
from smp_memory.write.path import Writer
from smp_memory.write.validation import GIVEN_BY_SMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.integrations.mcp import arguments
    from smp_memory.integrations.mcp.request_context import Caller
    from smp_memory.lifecycle.review import Proposal
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind
    from smp_memory.session import SessionMemory
    from smp_memory.write.batch_resolver import BatchResolver
    from smp_memory.write.validation import Draft


DUPLICATE_HOURS = 1
COMPARED = 50
PROPOSALS = 5  # of a session, in `sessions` with the action show
_NOT_COMPARED = ("access",)  # counts of use
ADDED, UPDATED, KNOWN = "added", "updated", "known already"


class AddWithOutcome(Add):
    """A new memory; `outcome` says whether it was added, or an existing one was updated or left as it is."""

    outcome = ADDED

    def _is_known(self, resolver: BatchResolver) -> bool:
        entries = len(resolver.entries)
        known = super()._is_known(resolver)
        self.outcome = ADDED if not known else UPDATED if len(resolver.entries) > entries else KNOWN
        if self.outcome == KNOWN and self.key is not None and self._differs(resolver):
            text = f"idempotency_key: {self.memory_id} was stored with this key and another content; this content was not stored. If it is new, use another key."
            self.warnings = (*self.warnings, text)
        return known

    def _differs(self, resolver: BatchResolver) -> bool:
        """Whether this is another memory than the one first stored with the key; later changes do not count."""
        draft, record = self.draft, resolver.record(str(self.memory_id))
        history = resolver.history(record.id)
        first = history.first.data if history is not None else record.given
        text = draft.kind.text
        return record.type != draft.kind.name or any(
            first.get(name) != draft.data.get(name) for name in (text, "value")
        )

    @property
    def is_compared(self) -> bool:
        """Whether this memory is compared with others to find a duplicate."""
        return not (self.needs_histories or self.draft.created or self.draft.kind.is_turn)


def add_once(session: SessionMemory, agent: str | None, kind: Kind, fields: dict[str, Any]) -> tuple[Record, str]:
    """The stored memory, and whether it was added, updated or known. The rights are those of `AgentMemory`."""
    opened, viewer = session.opened, Viewer(agent)
    rights = AgentRights(opened.storage, agent, viewer)
    drafted: Any = Writer(opened, opened.commit_one, agent).addition(kind, fields)
    operation = AddWithOutcome(drafted.draft)
    operation.removals, operation.warnings = drafted.removals, drafted.warnings
    is_compared = operation.is_compared
    rights.check(operation)
    if not is_compared:
        return opened.commit_one(operation, kind.adding), operation.outcome
    with _one_at_a_time((session.folder, kind.name, repr(operation.draft.data))):
        known = _duplicate(session, viewer, operation.draft)
        if known is not None:
            return known, KNOWN
        return opened.commit_one(operation, kind.adding), ADDED


def _duplicate(session: SessionMemory, viewer: Viewer, draft: Draft) -> Record | None:
    """A recent memory with the same fields that the agent may see."""
    oldest = session.memory.now() - timedelta(hours=DUPLICATE_HOURS)
    for record in reversed(session.records(draft.kind.name, last=COMPARED)):
        is_equal = record.created >= oldest and _compared(record.given) == _compared(draft.data)
        if is_equal and viewer.sees(record):
            return record
    return None


def _compared(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NOT_COMPARED}


_guard = threading.Lock()
_content_locks: dict[tuple[str, ...], tuple[threading.Lock, int]] = {}  # a lock for each content, and its users


@contextmanager
def _one_at_a_time(content: tuple[str, ...]) -> Iterator[None]:
    """Serialise identical calls of this process; different ones do not wait."""
    with _guard:
        lock, users = _content_locks.get(content, (threading.Lock(), 0))
        _content_locks[content] = lock, users + 1
    try:
        with lock:
            yield
    finally:
        with _guard:
            lock, users = _content_locks[content]
            if users == 1:
                del _content_locks[content]
            else:
                _content_locks[content] = lock, users - 1


# -- the tools


_AGENT_ALIASES = [name for name, field in KINDS["agent_state"].aliases.items() if field == "agent"]


def remember(caller: Caller, given: arguments.RememberArguments) -> Reply:
    fields = _fields_of(given)
    author = fields.get("author")
    if KINDS[given.type].is_named_by_agent and not {"agent", *_AGENT_ALIASES}.intersection(fields):
        fields["agent"] = caller.context.author or author or caller.name
    _check_created(caller, given.type, fields)
    session = caller.session(given.session, writes=True, create=True)
    record, done = add_once(session, caller.acting_as(author), KINDS[given.type], fields)
    return _stored_reply(record, done)


def _fields_of(given: arguments.RememberArguments) -> dict[str, Any]:
    """The fields of a new memory: those at top level and those in `fields`. Two values for one field are refused."""
    if given.key and not KINDS[given.type].is_named_by_key:
        raise InvalidRecord("key: belongs to a preference. For a call that may be repeated, use idempotency_key.", field="key")  # fmt: skip
    fields: dict[str, Any] = _without_recalled(dict(given.fields))
    for name in GIVEN_BY_SMP.intersection(fields) - {"type"}:
        raise InvalidRecord(f"fields: {name} is set by SMP and would not be stored. A session is named beside `fields`, as `session`.", field="fields")  # fmt: skip
    _refuse_unredacted(fields, "fields")
    for name in TOP_LEVEL:
        value = _without_recalled(getattr(given, name))
        if value is not None and value != []:
            _set_once(fields, name, name, value)
    text = _without_recalled(given.text)
    if text is not None:
        _set_once(dict(fields), "text", "text", text)
        _set_once(fields, KINDS[given.type].text_field(fields), "text", text)
    return fields


def _refuse_unredacted(given: dict[str, Any], argument: str) -> None:
    for name in UNREDACTED.intersection(given):
        raise InvalidRecord(f"{argument}: {name} is reserved for framework adapters and is not redacted. Use another name.", field=argument)  # fmt: skip


def _set_once(fields: dict[str, Any], name: str, argument: str, value: Any) -> None:
    if fields.get(name) not in (None, value):
        raise InvalidRecord(f"{argument}: given twice with different values, here and as {name} in fields.", field=argument)  # fmt: skip
    fields[name] = value


def _check_created(caller: Caller, type: str, fields: dict[str, Any]) -> None:
    """Refuse a creation time in the future, which would head every list. One day is allowed for clocks and time zones."""
    aliases = KINDS[type].aliases
    latest = caller.memory.now() + timedelta(days=1)
    for name, value in fields.items():
        if aliases.get(name, name) == "created" and value is not None and to_moment(parse(value, "created")) > latest:
            raise InvalidRecord(
                f"created: {to_text(to_moment(parse(value, 'created')))} is in the future; give a time no later than {to_text(latest)}, or leave it out.",
                field="created",
            )


def update(caller: Caller, given: arguments.UpdateArguments) -> Reply:
    record = caller.record(given.id, given.session, writes=True)
    session = caller.agent(caller.session(record.session, writes=True))
    if given.action == "change":
        changes = _without_recalled(dict(given.changes))
        _refuse_unredacted(changes, "changes")
        if not changes:
            raise InvalidRecord("changes: name the fields to change and their new values.", field="changes")
        for name in {"id", "expected_revision"}.intersection(changes):
            raise InvalidRecord(f"changes: {name} cannot be changed.", field="changes")
        if "text" in changes and "text" not in record.given:
            changes[KINDS[record.type].text] = changes.pop("text")
        record = session.update(record.id, given.expected_revision, **changes)
    elif given.action == "resolve":
        record = session.resolve(record.id, given.resolution, status=given.status)
    elif given.action == "relate":
        if not given.target:
            raise InvalidRecord("target: name the memory to relate it to, as ID or session/ID.", field="target")
        target = caller.record(given.target, given.session or record.session)
        record = session.relate(record.id, target.id if target.session == session.id else target.ref, given.kind)
    else:
        record = getattr(session, given.action)(record.id)  # pin, unpin, mute, unmute
    words = {
        "change": "changed",
        "resolve": given.status,
        "pin": "pinned",
        "unpin": "unpinned",
        "relate": "related",
        "mute": "turned off for recall",
        "unmute": "turned on for recall",
    }
    return _stored_reply(record, words[given.action])


def forget(caller: Caller, given: arguments.ForgetOrEraseArguments) -> Reply:
    if given.action == "list":
        return _list_trash(caller, given)
    if given.ids and any(getattr(given, name) for name in CRITERIA):
        raise InvalidRecord(f"ids: give ids, or {', '.join(CRITERIA)}, not both.", field="ids")
    if given.action == "erase":
        return _erase(caller, given)
    is_restore = given.action == "restore"
    if given.ids:
        records = [
            caller.record(ref, given.session, include_deleted=True, writes=not given.preview) for ref in given.ids
        ]
        refs = [record.ref for record in records]
    else:  # criteria select only what the caller may change
        session: Any = caller.session(given.session, writes=not given.preview)
        preview = (session.restore if is_restore else session.delete)(preview=True, **_criteria(given))
        refs = [record.ref for record in preview.records if caller.may_change(record)]
    echoes = _echoes(caller, refs, deleted=is_restore)
    refs += echoes if given.echoes else []
    redacted = _delete_or_restore(caller, refs, given.reason, is_restore) if refs and not given.preview else {}
    word = ("would be " if given.preview else "") + ("restored" if is_restore else "deleted")
    text = f"{word}: {', '.join(refs) or 'nothing'}"
    text = text if is_restore else f"{text} (restore brings it back)"
    return _forget_reply(word, refs, text, redacted, [] if given.echoes else echoes)


def _echoes(caller: Caller, refs: list[str], *, deleted: bool | None = None) -> list[str]:
    """Turns that say the same as these memories, as far as the caller may change them."""
    scope = caller.scope(None, all_by_default=True)
    records = list(scope.index.records(refs, scope.viewer).values()) if refs else []
    return [each.ref for each in echoes_of(scope, records, deleted=deleted) if caller.may_change(each)]


def _forget_reply(word: str, refs: list[str], text: str, redacted: dict[str, int], echoes: list[str]) -> Reply:
    """The reply about deleted, restored or erased memories; `redacted`: counts of what was redacted in the reason; `echoes` stay."""
    data = {"done": word, "count": len(refs), "ids": refs, "echoes": echoes or None, "redacted": redacted or None}
    text += f"\nkept, and says the same: {', '.join(echoes)} (echoes: true includes it)" if echoes else ""
    return plain_reply(data, f"{text}\nreason: {redaction_notice(redacted)}" if redacted else text)


def _delete_or_restore(caller: Caller, refs: list[str], reason: str | None, is_restore: bool) -> dict[str, int]:
    """Delete or restore memories, atomically within each session; returns what was redacted in the reason."""
    redacted: dict[str, int] = {}
    by_session: dict[str, dict[str, None]] = {}
    for ref in refs:
        name, _, memory_id = ref.rpartition("/")
        by_session.setdefault(name, {})[memory_id] = None
    for name, memory_ids in by_session.items():
        with caller.agent(caller.session(name, writes=True)).transaction() as transaction:
            for memory_id in memory_ids:
                operation = (transaction.restore if is_restore else transaction.delete)(memory_id, reason)
                redacted = redacted or count_kinds(operation.removals)
    return redacted


def _criteria(given: arguments.ForgetArguments) -> dict[str, Any]:
    criteria = {
        "text": given.query,
        "types": list(given.types),
        "tags": given.tags,
        "topic": given.topic,
        "agents": given.agent,
        "time": given.time,
    }
    criteria = {name: value for name, value in criteria.items() if value}
    if not criteria:
        raise InvalidRecord("ids: give ids, or select memories by query, types, tags, topic, agent or time.", field="ids")  # fmt: skip
    return criteria


def _erase(caller: Caller, given: arguments.ForgetArguments) -> Reply:
    if not caller.context.may_erase:
        if caller.context.client is not None:
            raise NotAllowed(f"The token {caller.context.client.token.name} may not remove anything for good: it was created without --erase.")  # fmt: skip
        raise UserError("This server may not erase. Start it with `smp mcp --allow-erase`, or use `smp erase`.")
    if not given.ids:
        raise InvalidRecord("ids: erase needs the ids of memories.", field="ids")
    records = [caller.record(ref, given.session, include_deleted=True, writes=not given.preview) for ref in given.ids]
    for record in records:
        if not caller.may_change(record):
            raise NotAllowed(f"ids: {record.ref} is the state of another agent.", field="ids")
    refs = [record.ref for record in records]
    echoes = _echoes(caller, refs)
    refs += echoes if given.echoes else []
    receipt = caller.memory.erase(refs, given.reason, by=caller.name, preview=given.preview)
    word = "would be erased" if given.preview else "erased"
    if not given.preview and not receipt.complete:
        word = "erased, but not everywhere: see `smp erase`"
    return _forget_reply(word, refs, f"{word}: {', '.join(refs)}", receipt.redacted, [] if given.echoes else echoes)


def _list_trash(caller: Caller, given: arguments.ForgetArguments) -> Reply:
    source: Any = caller.session(given.session) if given.session else caller.memory
    deleted = [each for each in source.deleted() if caller.sees(each.record)]
    page = deleted[given.offset : given.offset + given.limit]
    ids = [each.record.ref for each in page]
    after = given.offset + len(page) if given.offset + len(page) < len(deleted) else None
    lines = [f"- {each.record.ref} deleted {to_text(each.at)[:10]}" for each in page] or ["The trash is empty."]
    problems, notices = caller.problem_lines([source.id] if given.session else None)
    data = {"done": "listed", "count": len(deleted), "ids": ids, "next_offset": after, "problems": problems}
    return plain_reply(data, "\n".join([*lines, *notices]))


def sessions(caller: Caller, given: arguments.SessionsArguments) -> Reply:
    if given.action == "create":
        created = caller.memory.create_session(
            given.id, project=given.project, user=given.user, agents=given.agents, tags=given.tags, author=caller.name
        )
        row = {"id": created.id, "state": created.state, **_participants(created)}
        return _sessions_reply([{**row, "redacted": created.redacted} if created.redacted else row])
    if given.action == "show":
        session = caller.session(given.id)
        by_type, _ = caller.counts(session)
        row = {"id": session.id, "state": session.state, "written": to_text(session.written), **_participants(session)}
        row |= {"memories": sum(by_type.values()), "by_type": by_type}
        proposals = [f"{each.turn} {each.type}: {each.text}" for each in _proposals(caller, session)]
        row |= {"proposals": proposals} if proposals else {}
        return _sessions_reply([row], problem_lines=caller.problem_lines([session.id]))
    newest_first = caller.memory.sessions_by_time()[::-1]
    page = newest_first[given.offset : given.offset + given.limit]
    after = given.offset + len(page) if given.offset + len(page) < len(newest_first) else None
    rows = [{"id": each.id, "state": each.state, "written": to_text(at), **_participants(each)} for at, each in page]
    return _sessions_reply(rows, after)


def _proposals(caller: Caller, session: SessionMemory) -> Iterator[Proposal]:
    """What turns that the caller may see propose; the newest."""
    if not session.config["proposals.enabled"]:
        return iter(())
    seen = filter(caller.sees, session.records(include_deleted=True))
    return islice(open_proposals(seen, session.info), PROPOSALS)


def _sessions_reply(
    rows: list[dict[str, Any]],
    after: int | None = None,
    *,
    problem_lines: tuple[list[str] | None, list[str]] = (None, []),
) -> Reply:
    """The reply about sessions; `problem_lines` are those of `Caller.problem_lines`."""
    problems, notices = problem_lines
    lines = ["- " + ", ".join(_field_text(name, value) for name, value in row.items()) for row in rows]
    lines += [f"(more: offset {after})"] if after is not None else []
    data = {"sessions": rows, "next_offset": after, "problems": problems}
    return fenced_reply(data, "\n".join([*(lines or ["No sessions yet."]), *notices]))


def _field_text(name: str, value: Any) -> str:
    """A field of a session, on one line."""
    if isinstance(value, dict):
        value = [f"{count} {type}" for type, count in value.items()]
    text = one_line(" and ".join(value) if isinstance(value, list) else str(value))
    return text if name == "id" else f"{name.replace('_', ' ')} {text}"


def _participants(session: Any) -> dict[str, Any]:
    """Project, user and agents of a session, if it has them."""
    info = session.info
    fields = {"project": info.project, "user": info.user, "agents": list(info.agents)}
    return {name: value for name, value in fields.items() if value}


def _stored_reply(record: Record, done: str) -> Reply:
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
    return plain_reply(data, "\n".join(line for line in lines if line))


def _without_recalled(value: Any) -> Any:
    """The value without text that was recalled from memory; a text that consists of nothing else is refused."""
    if isinstance(value, str):
        if fence.is_only_recalled(value):
            raise InvalidRecord("text: this was recalled from memory; it is stored already.", field="text")
        return fence.strip(value)
    if isinstance(value, dict):
        return {name: _without_recalled(each) for name, each in value.items()}
    return [_without_recalled(each) for each in value] if isinstance(value, list) else value
