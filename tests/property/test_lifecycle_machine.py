"""Nothing acknowledged disappears: whatever is done to a session, each memory is in the files, in the trash, in the cold
segment, in an archive or in the trash of sessions, and comes back as it was."""

from __future__ import annotations

import tempfile
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory, open_memory
from smp_memory.store.opening import register_backend
from smp_memory.testing import FrozenClock
from tests.backends.naive_store import NAME as NAIVE
from tests.backends.naive_store import open_naive
from tests.postgres_server import Server

POSTGRES = "postgresql"

LIVE, ARCHIVED, DELETED = "live", "archived", "deleted"
TEXTS = st.text("abcdefg ", min_size=1, max_size=60).filter(str.strip)


class LifecycleMachine(RuleBasedStateMachine):
    """The model: the texts that were acknowledged, which of them are in the trash, and where the session is."""

    layouts: ClassVar[list[str]] = [*NAMES, NAIVE]
    server: Server | None = None

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        layout = data.draw(st.sampled_from(self.layouts))
        self.system = MemorySystem() if layout in NAMES else None
        self.folder = tempfile.TemporaryDirectory()
        self.where = "/store" if self.system else f"{NAIVE}://{self.folder.name}/store"
        if self.server is not None:
            self.where = self.server.new_schema_address()
        self.clock = FrozenClock()
        self.memory = self.opened(layout)
        self.memory.create_session("s")
        self.texts: dict[str, str] = {}
        self.trash: set[str] = set()
        self.place = LIVE

    def opened(self, layout: str | None = None) -> Memory:
        return open_memory(self.where, layout=layout, system=self.system, clock=self.clock)

    def session(self) -> Any:
        """Opening an archived session brings it back."""
        self.place = LIVE
        return self.memory.session("s")

    # -- what agents do

    @precondition(lambda self: self.place != DELETED)
    @rule(kind=st.sampled_from(["turn", "decision", "finding"]), texts=st.lists(TEXTS, min_size=1, max_size=8))
    def write(self, kind: str, texts: list[str]) -> None:
        field = {"turn": "content", "decision": "decision", "finding": "finding"}[kind]
        more = {"role": "user"} if kind == "turn" else {}
        for record in self.session().add_many([(kind, {field: text, **more}) for text in texts]):
            self.texts[record.id] = record.text

    @precondition(lambda self: self.place == LIVE and self.here())
    @rule(data=st.data())
    def change(self, data: Any) -> None:
        findings = sorted(id for id in self.here() if id.startswith("FIND") and id not in self.trash)
        if findings:
            self.session().resolve(data.draw(st.sampled_from(findings)), "done")

    @precondition(lambda self: self.place == LIVE and self.here() - self.trash)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.here() - self.trash)))
        self.session().delete(id, "wrong")
        self.trash.add(id)

    @precondition(lambda self: self.place != DELETED and self.trash)
    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.trash)))
        self.session().restore(id)
        self.trash.discard(id)

    # -- what time and maintenance do

    @rule(days=st.sampled_from([1, 10, 60]))
    def pass_time(self, days: int) -> None:
        self.clock.advance(days=days)

    @precondition(lambda self: self.place != DELETED)
    @rule(how=st.sampled_from(["gentle", "forced", 1 << 40]))
    def compact(self, how: Any) -> None:
        self.session().compact(how)

    @precondition(lambda self: self.place == LIVE and self.cold())
    @rule(data=st.data())
    def bring_back(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.cold())))
        assert self.session().restore(id).text == self.texts[id]

    @precondition(lambda self: self.place == LIVE)
    @rule()
    def archive(self) -> None:
        self.memory.archive_session("s")
        self.place = ARCHIVED

    @precondition(lambda self: self.place != DELETED)
    @rule()
    def delete_session(self) -> None:
        self.before = self.place
        self.memory.delete_session("s", "not needed")
        self.place = DELETED

    @precondition(lambda self: self.place == DELETED)
    @rule()
    def undelete_session(self) -> None:
        state = self.memory.undelete_session("s")
        assert state == ("archived" if self.before == ARCHIVED else "active")
        self.place = self.before

    @precondition(lambda self: self.system is not None)
    @rule(to=st.sampled_from(NAMES))
    def convert(self, to: str) -> None:
        self.memory = self.memory.convert(to)

    @rule()
    def open_again(self) -> None:
        if self.system is None:
            self.memory.close()
        self.memory = self.opened()

    # -- the law

    def here(self) -> set[str]:
        return {record.id for record in self.session().records(include_deleted=True) if record.type != "summary"}

    def cold(self) -> set[str]:
        return {each.id for each in self.session().archived()}

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "texts"):
            return
        places = {
            LIVE: [session.id for session in self.memory.sessions()],
            ARCHIVED: [away.session for away in self.memory.archived_sessions()],
            DELETED: [away.session for away in self.memory.deleted_sessions()],
        }
        assert [place for place, names in places.items() if names == ["s"]] == [self.place]
        if self.place != LIVE:
            return
        session = self.memory.session("s")
        here = {record.id: record for record in session.records(include_deleted=True) if record.type != "summary"}
        cold = {each.id for each in session.archived()}
        assert not here.keys() & cold
        assert here.keys() | cold == self.texts.keys()
        assert {id for id, record in here.items() if record.deleted} == self.trash
        assert all(record.text == self.texts[id] for id, record in here.items())
        assert session.validate().ok

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.memory.close()
            self.folder.cleanup()


def run(machine: type[LifecycleMachine], examples: int) -> None:
    few = settings(
        max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine, settings=few)


@pytest.mark.timeout(300)
def test_nothing_acknowledged_disappears() -> None:
    register_backend(NAIVE, open_naive)
    run(LifecycleMachine, 60)


@pytest.mark.timeout(300)
def test_nothing_acknowledged_disappears_in_postgresql(postgres: Server) -> None:
    class PostgresMachine(LifecycleMachine):
        layouts, server = [POSTGRES], postgres

    run(PostgresMachine, 12)
