"""Write into a session. The ways to write, shared by a session and a transaction.

Every method checks what it is given before anything happens; an error names the field.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS, kind_of
from smp_memory.privacy.fence import strip_reason, without_recalled
from smp_memory.write import fast_validation, typos, validation
from smp_memory.write.operations import Add, Delete, Operation, Relate, Restore, Update, id_of
from smp_memory.write.validation import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import AgentState, Artifact, Decision, Finding, Learning, Preference, Record, Turn
    from smp_memory.model.types import Kind
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.session import SessionMemory


class WriteMethods:
    """The ways to write, shared by a session (each stores at once) and a transaction (all are stored together)."""

    _author: str | None = None
    _user: str | None  # of the session
    _content_limit: int
    _redactor: Redactor | None  # None if redaction is switched off

    def _do(self, wish: Operation, doing: str) -> Any:
        raise NotImplementedError

    def add(self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any) -> Any:
        """Add a memory of any type: `add("decision", {"decision": "Use OAuth", "tags": ["auth"]})`, or all in one object."""
        if data is None and hasattr(type, "keys"):
            data = dict(type)  # type: ignore[arg-type]
            type = data.get("type", "")
        kind = kind_of(type)
        return self._add(kind, {**given_fields(kind, data), **fields})

    def add_turn(self, role: str, content: str, **fields: Any) -> Turn:
        """Add a turn of a conversation; `role` is user, assistant, system, tool or an agent's name."""
        fields["role"], fields["content"] = role, content
        result: Turn = self._add(KINDS["conversation"], fields)
        return result

    def add_decision(self, decision: str, **fields: Any) -> Decision:
        """Add a decision: `add_decision("Use OAuth 2.0", rationale="…", author="architect", tags=["auth"])`."""
        fields["decision"] = decision
        result: Decision = self._add(KINDS["decision"], fields)
        return result

    def add_finding(self, finding: str, **fields: Any) -> Finding:
        """Add a finding: `add_finding("No MFA required", severity="critical", author="veritas")`."""
        fields["finding"] = finding
        result: Finding = self._add(KINDS["finding"], fields)
        return result

    def add_preference(self, key: str | None = None, value: Any = None, **fields: Any) -> Preference:
        """Add a preference; the same `key` again updates it: `add_preference("response_style", "concise")`."""
        fields["key"], fields["value"] = key, value
        result: Preference = self._add(KINDS["preference"], fields)
        return result

    def update_agent_state(self, agent: str, state: Any, **fields: Any) -> AgentState:
        """Replace what an agent knows about its own work; earlier states stay in its history."""
        fields.setdefault("author", agent)
        fields["agent"], fields["state"] = agent, state
        result: AgentState = self._add(KINDS["agent_state"], fields)
        return result

    def add_artifact(self, name: str | None = None, content: str | None = None, **fields: Any) -> Artifact:
        """Add something that was made: `add_artifact("report.md", "# Report …")`; or only its `path`."""
        fields["name"], fields["content"] = name, content
        result: Artifact = self._add(KINDS["artifact"], fields)
        return result

    def add_learning(self, learning: str, **fields: Any) -> Learning:
        """Add a pattern that an agent learned."""
        fields["learning"] = learning
        result: Learning = self._add(KINDS["learning"], fields)
        return result

    def update(self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any) -> Any:
        """Change fields of a memory; None removes one. With `expected_revision`, only if nobody was quicker."""
        author = changes.pop("updated_by", None) or by or self._author
        wish = Update(id_or_wish(id), changes, author, expected_revision, self._content_limit, redactor=self._redactor)
        return self._do(wish, "updating")

    def resolve(
        self, id: Any, resolution: Any = None, *, by: str | None = None, status: str = "resolved", **fields: Any
    ) -> Any:
        """Close a finding or a decision: `resolve("FIND-0001", "MFA added", by="user")`."""
        at = to_text(self._now())
        author = by or self._author

        def resolved(record: Record) -> dict[str, Any]:
            if record.type not in ("finding", "decision"):
                raise InvalidRecord(
                    f"{record.id}: only findings and decisions can be resolved.", field="id", id=record.id
                )
            details = dict(resolution) if isinstance(resolution, dict) else {"action_taken": resolution}
            details = {"status": status, "resolved_at": at, "resolved_by": author, **details, **fields}
            return {
                "status": status,
                "resolution": {name: value for name, value in details.items() if value is not None},
            }

        wish = Update(id_or_wish(id), resolved, author, None, self._content_limit, redactor=self._redactor)
        return self._do(wish, "resolving")

    def relate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Relate two memories: `relate("DEC-0002", "FIND-0001", "resolves")`; the target may be `session/ID`."""
        wish = Relate(id_or_wish(source), id_or_wish(target), kind, by or self._author, self._content_limit)
        return self._do(wish, "relating")

    def pin(self, id: Any, *, by: str | None = None) -> Any:
        """Keep a memory from fading."""
        return self._set_pinned(id, True, by)

    def unpin(self, id: Any, *, by: str | None = None) -> Any:
        return self._set_pinned(id, None, by)

    def _set_pinned(self, id: Any, pinned: bool | None, by: str | None) -> Any:
        change = Update(
            id_or_wish(id), {"pinned": pinned}, by or self._author, None, self._content_limit, may_touch_turns=True
        )
        return self._do(change, "pinning" if pinned else "unpinning")

    def delete(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Hide a memory at once; `restore` brings it back."""
        return self._do(Delete(id_or_wish(id), by or self._author, self._reason(reason)), "deleting")

    def restore(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        return self._do(Restore(id_or_wish(id), by or self._author, self._reason(reason)), "restoring")

    def _now(self) -> datetime:
        raise NotImplementedError

    def _add(self, kind: Kind, given: dict[str, Any]) -> Any:
        return self._do(self._addition(kind, given), kind.adding)

    def _addition(self, kind: Kind, given: dict[str, Any]) -> Operation:
        """A new memory, without what was recalled and without its secrets: from here on nobody sees them."""
        form = fast_validation.form_of(kind, tuple(given))
        if form is not None:
            data = fast_validation.fields(form, given, self._default_author, self._content_limit, self._redactor)
            if data is not None:
                self._say_what_wrote(data)
                wish = Add(Draft(kind, None, None, data))
                if form.may_warn:
                    wish.warnings = typos.warnings(kind, data)
                return wish
        return self._closely_looked_at(kind, given)

    def _closely_looked_at(self, kind: Kind, given: dict[str, Any]) -> Operation:
        draft = validation.draft(kind, given, self._content_limit)
        data = draft.data
        if "author" not in data:
            author = self._default_author(data.get("role"))
            if author is not None:
                data = {"author": author, **data}
        self._say_what_wrote(data)
        warnings = typos.warnings(kind, data)
        draft.data = data = without_recalled(kind, data)
        removals: list[RedactedSpan] = []
        if self._redactor is not None:
            draft.data, removals = self._redactor.redact_fields(data)
        wish = Add(draft)
        wish.removals, wish.warnings = removals, warnings
        return wish

    def _say_what_wrote(self, data: dict[str, Any]) -> None:
        """Whether a person, a program or the system wrote it, where that is known."""
        if "author_kind" not in data:
            role = data.get("role")
            if role in ("system", "tool"):
                data["author_kind"] = role
            elif role is None and self._user is not None and data.get("author") == self._user:
                data["author_kind"] = "user"

    def _reason(self, reason: str | None) -> str | None:
        """Why a memory is deleted or restored, as it may be stored."""
        reason = strip_reason(reason)
        return self._redactor.redact(reason)[0] if self._redactor is not None and type(reason) is str else reason

    def _default_author(self, role: str | None) -> str | None:
        if role is None:
            return self._author
        if role == "user":
            return self._user or "user"
        return self._author or role


class DelegatedWrites(WriteMethods):
    """Writing for a session, under its rules: a transaction, an agent."""

    _session: SessionMemory

    @property
    def _user(self) -> str | None:  # type: ignore[override]
        return self._session._user

    @property
    def _content_limit(self) -> int:  # type: ignore[override]
        return self._session._content_limit

    @property
    def _redactor(self) -> Redactor | None:  # type: ignore[override]
        return self._session._redactor

    def _now(self) -> datetime:
        return self._session._now()


def given_fields(kind: Kind, data: Any) -> dict[str, Any]:
    """The fields that a caller gives: a mapping, or only the text that says it all."""
    if isinstance(data, str):
        return {kind.text: data}
    if data is None or hasattr(data, "keys"):
        return dict(data or {})
    raise InvalidRecord(
        f"data: give the fields of a {kind.name}, or its text, not {type(data).__name__}.", field="data"
    )


def each_of(items: Any) -> Iterable[Any]:
    """What `add_many` is given, one by one."""
    if not hasattr(items, "__iter__"):
        raise InvalidRecord(f"items: must be a list of (type, data), not {validation.quoted(items)}.", field="items")
    return items  # type: ignore[no-any-return]


def id_or_wish(target: Any) -> Operation | str:
    return target if isinstance(target, Operation) else id_of(target)
