"""The write path: from the fields that a caller gives to an operation that the session commits.

    Writer.add_decision → addition: validate → author → warnings → drop recalled text → redact → operation → commit

`commit` (`smp_memory.lifecycle.open_session`) puts the operation into a batch, which the store resolves and writes under the session's
lock; a `Transaction` collects operations first. Every method checks what it is given before anything happens; an error
names the field.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord, NotAllowed, maps_errors
from smp_memory.model.record import text_in
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS, kind_of, names_where
from smp_memory.privacy.fence import strip_reason, without_recalled
from smp_memory.write import content_blocks, validation
from smp_memory.write.operations import Add, Delete, Operation, Relate, Restore, Unrelate, Update, id_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Protocol, Unpack

    from smp_memory.model.options import (
        ArtifactFields,
        ClientObject,
        CommonFields,
        DecisionFields,
        FindingFields,
        LearningFields,
        PreferenceFields,
        TurnFields,
    )
    from smp_memory.model.record import AgentState, Artifact, Decision, Finding, Learning, Preference, Record, Turn
    from smp_memory.model.types import Kind
    from smp_memory.privacy.redaction import RedactedSpan, Redactor

    class WriteRules(Protocol):
        """What a writer needs to know of the session."""

        @property
        def user(self) -> str | None: ...

        @property
        def content_limit(self) -> int: ...

        @property
        def redactor(self) -> Redactor | None:
            """None if redaction is switched off."""

        def now(self) -> datetime: ...


class Writer:
    """Makes operations of what a caller writes, and hands each to `commit`, which stores it now or with others later."""

    def __init__(self, rules: WriteRules, commit: Callable[[Operation, str], Any], author: str | None) -> None:
        self._rules = rules
        self._commit = commit
        self._author = author

    # -- the path of a new memory

    def _add(self, kind: Kind, given: dict[str, Any]) -> Any:
        return self._commit(self.addition(kind, given), kind.adding)

    def addition(self, kind: Kind, given: dict[str, Any]) -> Operation:
        """A new memory, without what was recalled and without its secrets: from here on nobody sees them."""
        rules = self._rules
        if kind.is_turn and (type(given.get("content")) is not str or "tool_calls" in given or "type" in given):
            given = _turn_of_message(given)
        draft = validation.draft(kind, given, rules.content_limit)
        data = self._with_author(kind, draft.data)
        warnings = validation.typo_warnings(kind, data)
        if kind.is_turn and "parts" in data:
            warnings = (*warnings, *_omissions(data["parts"]))
        draft.data = without_recalled(kind, data)
        removals: list[RedactedSpan] = []
        if rules.redactor is not None:
            draft.data, removals = rules.redactor.redact_fields(draft.data)
        operation = Add(draft)
        if removals or warnings:
            operation.removals, operation.warnings = removals, warnings
        return operation

    def _with_author(self, kind: Kind, data: dict[str, Any]) -> dict[str, Any]:
        """The fields with the default author if none is given, and without a text that is computed (`Record.to_dict()` has one)."""
        if "text" in data and data["text"] == text_in(kind, data):
            del data["text"]
        if "author" not in data:
            author = self._default_author(data.get("role"))
            if author is not None:
                data = {"author": author, **data}
        self._set_author_kind(data)
        return data

    def _default_author(self, role: Any) -> str | None:
        if not isinstance(role, str):  # a field of another type that is called so may hold any value
            return self._author
        if role == "user":
            return self._rules.user or "user"
        return self._author or role

    def _set_author_kind(self, data: dict[str, Any]) -> None:
        """Whether a person, a program or the system wrote it, where that is known."""
        if "author_kind" not in data:
            role = data.get("role")
            if role in ("system", "tool"):
                data["author_kind"] = role
            elif role is None and self._rules.user is not None and data.get("author") == self._rules.user:
                data["author_kind"] = "user"

    # -- new memories, type by type

    def add(self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any) -> Any:
        """Add a memory of any type: `add("decision", {"decision": "Use OAuth", "tags": ["auth"]})`, or all in one object."""
        if data is None and hasattr(type, "keys"):
            data = dict(type)  # type: ignore[arg-type]
            type = data.get("type", "")
        kind = kind_of(type)
        if isinstance(data, str):
            data = {kind.text_field(fields): data}
        return self._add(kind, {**given_fields(kind, data), **fields})

    def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn:
        """Add a turn of a conversation; `role` is user, assistant, system, tool or an agent's name."""
        if hasattr(role, "model_dump"):
            role = role.model_dump(mode="json", exclude_none=True)
        if isinstance(role, str) and (hasattr(content, "keys") or hasattr(content, "model_dump")):
            message = content_blocks.as_mapping(content)
            if "role" in message and message["role"] != role:
                raise InvalidRecord(f"role: {role}, but the message has the role {message['role']}.", field="role")
            return self.add_turn({**message, "role": role}, **fields)
        result: Turn = self._add_named(KINDS["conversation"], {"role": role, "content": content}, fields)
        return result

    def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision:
        """Add a decision: `add_decision("Use OAuth 2.0", rationale="…", author="architect", tags=["auth"])`."""
        result: Decision = self._add_named(KINDS["decision"], {"decision": decision}, fields)
        return result

    def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding:
        """Add a finding: `add_finding("No MFA required", severity="critical", author="veritas")`."""
        result: Finding = self._add_named(KINDS["finding"], {"finding": finding}, fields)
        return result

    def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference:
        """Add a preference; the same `key` again updates it: `add_preference("response_style", "concise")`."""
        result: Preference = self._add_named(KINDS["preference"], {"key": key, "value": value}, fields)
        return result

    def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what an agent knows about its own work; earlier states stay in its history."""
        result: AgentState = self._add(
            KINDS["agent_state"], {"author": agent, **fields, "agent": agent, "state": state}
        )
        return result

    def update_state(self, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace the author's own state."""
        if self._author is None:
            raise NotAllowed("agent: a caller without a name has no state of its own.", field="agent")
        return self.update_agent_state(self._author, state, **fields)

    def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact:
        """Add something that was made: `add_artifact("report.md", "# Report …")`; or only its `path`."""
        result: Artifact = self._add_named(KINDS["artifact"], {"name": name, "content": content}, fields)
        return result

    def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning:
        """Add a pattern that an agent learned."""
        result: Learning = self._add_named(KINDS["learning"], {"learning": learning}, fields)
        return result

    def _add_named(self, kind: Kind, positional: dict[str, Any], fields: Mapping[str, object]) -> Any:
        """Add a memory from positional arguments and keywords. The first argument may be an object with all fields."""
        first = next(iter(positional))
        given = positional[first]
        if isinstance(given, str) or not hasattr(given, "keys"):
            return self._commit(self.addition(kind, {**fields, **positional}), kind.adding)
        rest = {name: value for name, value in positional.items() if name != first and value is not None}
        return self._add(kind, {**given_fields(kind, given), **fields, **rest})

    # -- changes of memories

    def update(self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any) -> Any:
        """Change fields of a memory; None removes one. With `expected_revision`, raises Conflict if the revision differs."""
        author = changes.pop("updated_by", None) or by or self._author
        operation = Update(
            id_or_operation(id),
            changes,
            author,
            expected_revision,
            self._rules.content_limit,
            redactor=self._rules.redactor,
        )
        return self._commit(operation, "updating")

    def resolve(
        self,
        id: Any,
        resolution: Any = None,
        *,
        by: str | None = None,
        status: str = "resolved",
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Any:
        """Close a finding or a decision: `resolve("FIND-0001", "MFA added", by="user")`.

        With `expected_revision`, only if nobody changed it since.
        """
        at = to_text(self._rules.now())
        author = by or self._author

        def resolved(record: Record) -> dict[str, Any]:
            if not KINDS[record.type].statuses:
                *others, last = [KINDS[name].plural for name in reversed(names_where("statuses"))]
                which = f"{', '.join(others)} and {last}"
                raise InvalidRecord(f"{record.id}: only {which} can be resolved.", field="id", id=record.id)
            details = dict(resolution) if isinstance(resolution, dict) else {"action_taken": resolution}
            details = {"status": status, "resolved_at": at, "resolved_by": author, **details, **fields}
            return {
                "status": status,
                "resolution": {name: value for name, value in details.items() if value is not None},
            }

        operation = Update(
            id_or_operation(id),
            resolved,
            author,
            expected_revision,
            self._rules.content_limit,
            redactor=self._rules.redactor,
        )
        return self._commit(operation, "resolving")

    def relate(self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Relate two memories: `relate("DEC-0002", "FIND-0001", "resolves")`; the target may be `session/ID`.

        Also `relate({"source": "DEC-0002", "target": "FIND-0001", "relationship": "resolves"})`.
        """
        if isinstance(source, dict):
            source, target, kind = source.get("source"), source.get("target"), source.get("relationship", kind)
        operation = Relate(
            id_or_operation(source), id_or_operation(target), kind, by or self._author, self._rules.content_limit
        )
        return self._commit(operation, "relating")

    def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Remove a relation: the opposite of `relate`. Nothing is written if there is none."""
        operation = Unrelate(
            id_or_operation(source), id_or_operation(target), kind, by or self._author, self._rules.content_limit
        )
        return self._commit(operation, "removing a relation")

    def pin(self, id: Any, *, by: str | None = None) -> Any:
        """Keep a memory from fading."""
        return self._set_flag(id, "pinned", True, by)

    def unpin(self, id: Any, *, by: str | None = None) -> Any:
        """Let a memory fade again."""
        return self._set_flag(id, "pinned", None, by)

    def mute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory off for recall."""
        return self._set_flag(id, "muted", True, by)

    def unmute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory on for recall again."""
        return self._set_flag(id, "muted", None, by)

    def _set_flag(self, id: Any, field: str, value: bool | None, by: str | None) -> Any:
        """Set a flag that every memory may have, also a turn, which cannot be changed otherwise."""
        change = Update(
            id_or_operation(id),
            {field: value},
            by or self._author,
            None,
            self._rules.content_limit,
            may_touch_turns=True,
        )
        return self._commit(change, f"setting {field}" if value else f"removing {field}")

    def delete(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Hide a memory at once; `restore` brings it back."""
        return self._commit(Delete(id_or_operation(id), by or self._author, *self._reason(reason)), "deleting")

    def restore(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Bring a deleted memory back."""
        return self._commit(Restore(id_or_operation(id), by or self._author, *self._reason(reason)), "restoring")

    def _reason(self, reason: str | None) -> tuple[str | None, list[RedactedSpan]]:
        """Why a memory is deleted or restored, as it may be stored, and what was taken out of it."""
        reason, redactor = strip_reason(reason), self._rules.redactor
        return redactor.redact(reason) if redactor is not None and type(reason) is str else (reason, [])


def _turn_of_message(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a turn whose content is given as blocks, or as a whole message of a client library."""
    return content_blocks.turn_fields(given) if content_blocks.is_message(given) else given


def _omissions(parts: Any) -> tuple[str, ...]:
    count = content_blocks.omitted_parts(parts)
    files = "The bytes of 1 file were" if count == 1 else f"The bytes of {count:,} files were"
    return (f"parts: {files} not stored, only their number and SHA-256.",) if count else ()


def given_fields(kind: Kind, data: Any) -> dict[str, Any]:
    """The fields that a caller gives: a mapping, or only the text that says it all."""
    if isinstance(data, str):
        return {kind.text: data}
    if data is None or hasattr(data, "keys"):
        return dict(data or {})
    raise InvalidRecord(
        f"data: give the fields of a {kind.name}, or its text, not {type(data).__name__}.", field="data"
    )


def additions(writer: Writer, items: Any) -> list[Operation]:
    """Operations for `add_many`, one for each (type, data). All are checked before the first is written."""
    operations: list[Operation] = []
    for item in _each_of(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise InvalidRecord("items: each must be a type and its data, (type, data).", field="items")
        kind = kind_of(item[0])
        operations.append(writer.addition(kind, given_fields(kind, item[1])))
    return operations


@maps_errors
class Transaction(Writer):
    """Writes that are stored together when the `with` block ends.

    Each write returns a stand-in at once; it can be used as source or target inside the block, and has its id and
    fields when the block has ended.
    """

    def __init__(
        self,
        rules: WriteRules,
        commit: Callable[[list[Operation], str], None],
        author: str | None,
        check: Callable[[Operation], None] | None = None,
    ) -> None:
        super().__init__(rules, self._collect, author)
        self._commit_all = commit
        self._check = check
        self._operations: list[Operation] = []
        self._is_open = True

    def _collect(self, operation: Operation, name: str) -> Operation:
        if not self._is_open:
            raise InvalidRecord("This transaction has ended; begin a new one.", field="transaction")
        if self._check is not None:
            self._check(operation)
        self._operations.append(operation)
        return operation

    def commit(self) -> None:
        """Store all writes; called by the end of the `with` block."""
        if self._is_open:
            self._is_open = False
            self._commit_all(self._operations, f"a transaction of {len(self._operations)} writes")

    def rollback(self) -> None:
        """Discard all writes."""
        self._is_open = False
        self._operations = []  # a commit that runs in another thread keeps its own

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()


def _each_of(items: Any) -> Iterable[Any]:
    if not hasattr(items, "__iter__"):
        raise InvalidRecord(f"items: must be a list of (type, data), not {validation.quoted(items)}.", field="items")
    return items  # type: ignore[no-any-return]


def id_or_operation(target: Any) -> Operation | str:
    return target if isinstance(target, Operation) else id_of(target)
