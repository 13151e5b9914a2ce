"""What an action on a memory is about: the request, the memory as it stands, its session, and an error to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import Conflict, InvalidRecord, SMPError
from smp_memory.integrations.web.parts import memory_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory


class Target(NamedTuple):
    request: PageRequest
    found: LocatedMemory
    record: Record
    session: SessionMemory
    error: SMPError | None = None  # of the run before, shown in the form

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def author(self) -> str | None:
        return self.request.inspector.author

    @property
    def page(self) -> str:
        return memory_url(self.record.ref)

    def action(self, name: str) -> str:
        return f"{self.page}/{name}"

    def typed(self, name: str, default: str = "") -> str:
        """What was typed into a field before, else the default."""
        return self.request.form.get(name, default)

    def given(self, name: str) -> str | None:
        """A value of the form without spaces around it; None if it is empty."""
        return self.request.form.get(name, "").strip() or None

    def check_confirmed(self, name: str) -> None:
        """Raise unless the person typed the name of what goes for good."""
        if self.given("confirm") != name:
            raise InvalidRecord(f"confirm: type {name} exactly as it stands here. Nothing was done.", field="confirm")

    def expected_revision(self) -> int:
        """The revision that the form was made from."""
        try:
            return int(self.request.form.get("revision", ""))
        except ValueError:
            raise InvalidRecord("revision: must be a whole number. Open the form again.", field="revision") from None

    def session_again(self) -> SessionMemory:
        """The session at a later time. Raises if it was archived or deleted since: an undo does not bring it back."""
        return self.request.memory.opened_session(self.session.id, author=self.author)

    def undo_update(self, after: Record, before: dict[str, object], said: str) -> Callable[[], str]:
        """A function that sets fields to what they were, if nobody changed the memory since."""

        def undo() -> str:
            try:
                self.session_again().update(after.id, after.revision, by=self.author, **before)
            except Conflict as error:
                raise Conflict(
                    f"{after.id} was changed again since, to revision {error.details.get('revision')}. Undoing would overwrite "
                    "that change, so nothing was done. Its history shows both; edit it to put back what you want.",
                    **error.details,
                ) from error
            return said

        return undo
