"""A store: open it, list and create sessions, close it."""

from __future__ import annotations

import json
import os

from smp_memory.config import Config
from smp_memory.config_file import layout_asked_for, with_facts_outside, with_setting
from smp_memory.context_methods import StoreContextMethods
from smp_memory.discovery import find_root, is_store, layout_in_config, opens_with, recognise
from smp_memory.error_mapping import maps_errors
from smp_memory.errors import (
    FormatTooNew,
    InvalidConfig,
    InvalidFormat,
    InvalidRecord,
    LayoutMismatch,
    SessionArchived,
    SMPError,
    StorageReadOnly,
    StoreNotFound,
    from_os_error,
)
from smp_memory.exchange.api import ImportMethods
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.lock import SessionLock
from smp_memory.files.system import RealSystem
from smp_memory.lifecycle.deletion import DeletionMethods
from smp_memory.lifecycle.sessions import SessionLifecycleMethods
from smp_memory.model import ids
from smp_memory.model.record import Records
from smp_memory.model.session_info import FORMAT, GLOBAL_SESSION, SessionInfo
from smp_memory.model.times import parse, system_clock, system_text, to_text
from smp_memory.privacy.settings import check_settings, note_head, without_secrets
from smp_memory.search.api import SearchMethods
from smp_memory.session import SessionMemory
from smp_memory.store.file_store import FLAG, FileStore, conversion_has_left_something
from smp_memory.store.incomplete import each_there
from smp_memory.write import typos, validation
from smp_memory.write.quota import admit
from smp_memory.write.session_fields import understood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from types import TracebackType
    from typing import Any

    from smp_memory.files.system import System
    from smp_memory.health.report import HealthReport
    from smp_memory.model.reports import Report
    from smp_memory.store.file_session import FileSession

CONFIG_FILE = "config.json"


def open_memory(
    where: str | os.PathLike[str] | None = None,
    *,
    layout: str | None = None,
    config: Mapping[str, Any] | None = None,
    clock: Callable[[], datetime] | None = None,
    system: System | None = None,
    create: bool = True,
    trust: bool = True,
) -> Memory:
    """Open a store, creating it if need be.

    where   a folder; nothing: the store in the nearest `.bmad/` upwards; `:memory:`: one that lives in this process.
    layout  jsonl (default), markdown, single or log; an existing store knows its own.
    config  settings above those in the store's config.json, e.g. `{"durability": "os"}`.
    clock   returns the time as an aware datetime, for tests and imports.
    create  False: a folder without a store is StoreNotFound, and nothing is created.
    trust   False: naming a folder does not count as trusting its store; hooks use trusted stores only (`smp trust`).
    """
    if not (where is None or hasattr(where, "__fspath__") or type(where) is str) or "\0" in str(where):
        raise InvalidFormat(f"where: must be a folder, not {validation.shown(where)}.", field="where")
    if config is not None and not hasattr(config, "items"):
        raise InvalidConfig(
            f"config: must be a dictionary of settings, not {validation.shown(config)}.", field="config"
        )
    if clock is not None and not callable(clock):
        raise InvalidConfig("clock: must be callable and return an aware datetime.", field="clock")
    if where is not None and str(where) == ":memory:":
        from smp_memory.files.memory_system import MemorySystem

        return Memory("/memory", layout, config, clock, system or MemorySystem(), create)
    if where is not None and str(where).startswith(("postgresql://", "postgres://")):
        raise InvalidFormat("where: PostgreSQL stores are not available in this version.", field="where")
    if where == "":
        raise InvalidFormat("where: must not be empty; give a folder, such as '.', or nothing at all.", field="where")
    found_as = root = find_root(layout) if where is None else os.path.abspath(os.fspath(where))
    if os.path.islink(root) and (where is not None or is_store(root)):
        root = os.path.realpath(root)  # whoever names a link means the folder; below it no link is followed
    trust = trust and where is not None  # one that was only found may have come with a repository
    return Memory(root, layout, config, clock, system or RealSystem(root), create, found_as, trust=trust)


@maps_errors
class Memory(DeletionMethods, SessionLifecycleMethods, SearchMethods, ImportMethods, StoreContextMethods):
    """A store of sessions. Threads may share it; so may any number of processes, each with its own."""

    def __init__(
        self,
        root: str,
        layout_name: str | None,
        config: Mapping[str, Any] | None,
        clock: Callable[[], datetime] | None,
        system: System,
        create: bool = True,
        found_as: str = "",
        *,
        trust: bool = False,
    ) -> None:
        self.root = root
        self._found_as = found_as or root
        self._clock = clock or system_clock
        self._arguments = {name: value for name, value in (config or {}).items() if name != "layout"}
        disk = Disk(system)
        try:
            stored = self._read_config(disk)
            if conversion_has_left_something(disk, root) or (stored and FLAG in stored):
                from smp_memory.store.convert import finish_if_possible

                finish_if_possible(disk, root)
                stored = self._read_config(disk)
                if stored:
                    stored.pop(FLAG, None)
            is_new = stored is None and recognise(disk, root) is None
            if is_new and not create:
                raise StoreNotFound(f"There is no store in {root}. `smp init` makes one.", path=root)
            name = self._layout_name(disk, stored, layout_name, layout_asked_for(config))
            self.config = Config.build(
                {**(stored or {}), "layout": name},
                os.path.join(root, CONFIG_FILE),
                environ=os.environ,
                arguments=config,
            )
            check_settings(self.config)
            if stored is None:
                self._create_unless_read_only(disk, name)
        except OSError as error:
            raise from_os_error(error, root, "opening the store") from error
        self._store = FileStore(root, layout_named(name), system, self.config, admit)
        self._store.clock = clock
        if trust or is_new:
            self._trust_quietly()
        if self.config.unused:
            self._store.report_unused_settings()
        self._finish_erasing()
        if clock is None and type(system) is RealSystem:
            self._look_after()

    def _finish_erasing(self) -> None:
        try:
            if not self._store.state.has("erasing.json"):
                return
        except SMPError:
            return  # the user's state cannot be reached; memories can be read and written all the same
        from smp_memory.store.erasure import finish_erasing

        if finish_erasing(self._store):
            from smp_memory.context.digest import renew_digests

            renew_digests(self)

    def _read_config(self, disk: Disk) -> dict[str, Any] | None:
        path = os.path.join(self.root, CONFIG_FILE)
        try:
            stored = json.loads(disk.read(path).decode("utf-8-sig"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, RecursionError) as error:
            raise InvalidConfig(
                f"{path}: not valid JSON: {error}. Correct it; your memories are not affected.", path=path
            ) from None
        if not isinstance(stored, dict):
            raise InvalidConfig(f"{path}: must be a JSON object.", path=path)
        stored = with_facts_outside(stored)
        if isinstance(stored.get("format"), int) and stored["format"] > FORMAT:
            raise FormatTooNew(
                f"{path}: this store has format {stored['format']}; this SMP knows {FORMAT}. Install a newer one; nothing was touched.",
                path=path,
                format=stored["format"],
                limit=FORMAT,
            )
        return stored

    def _layout_name(
        self, disk: Disk, stored: dict[str, Any] | None, wanted: str | None, otherwise: str = "jsonl"
    ) -> str:
        stored = stored or {}
        found = stored.get("layout") or recognise(disk, self.root) or layout_in_config(stored)
        if wanted is not None:
            layout_named(wanted)
        if found is not None and wanted is not None and found != wanted:
            raise LayoutMismatch(
                f"{self.root} is a {found} store, not {wanted}. Open it without a layout, or convert it: smp convert --to {wanted}",
                path=self.root,
                layout=found,
            )
        return found or wanted or otherwise

    def _create_unless_read_only(self, disk: Disk, name: str) -> None:
        """A store that a person made has no config.json; on read-only media it is read without one."""
        try:
            self._create(disk, name)
        except OSError as error:
            if recognise(disk, self.root) is None or not isinstance(from_os_error(error, "", ""), StorageReadOnly):
                raise

    def _create(self, disk: Disk, name: str) -> None:
        disk.make_folder(self.root)
        path = os.path.join(self.root, CONFIG_FILE)
        data = json.dumps({"layout": name, "format": FORMAT}, indent=2) + "\n"
        temporary = f"{path}.{os.urandom(4).hex()}.smp-new"
        disk.write_new(temporary, data.encode())
        try:
            disk.link_new(temporary, path)
        except FileExistsError:  # another process was quicker
            disk.remove(temporary)
            stored = self._read_config(disk) or {}
            self._layout_name(disk, stored, name)
        disk.sync_folder(self.root)

    @property
    def layout(self) -> str:
        return self._store.layout.name

    # -- trust

    @property
    def is_trusted(self) -> bool:
        """Whether this user made this store, opened it by its path, or said `smp trust`. Hooks use no other."""
        return self._store.state.is_trusted(self._found_as)

    def trust(self) -> None:
        """Let hooks recall from this store and record to it, for this user on this machine."""
        try:
            self._store.state.trust(self._found_as)
        except OSError as error:
            raise from_os_error(error, self._store.state.folder, "trusting the store") from error

    def distrust(self) -> None:
        """Take that back; the user's index of the store and notes of hooks go with it."""
        self._store.indexer.close()
        self._store.state.distrust()

    def was_told_of_trust(self) -> bool:
        """Whether the user was told before that this store is not trusted."""
        try:
            return self._store.state.mark_notified()
        except (OSError, SMPError):
            return False

    def _trust_quietly(self) -> None:
        try:
            self._store.state.trust(self._found_as)
        except (OSError, SMPError):
            pass  # no place for the user's state: `smp doctor` says so, and memories can be read and written all the same

    @property
    def store(self) -> FileStore:
        """The store below, for tools that need more than this class offers."""
        return self._store

    def now(self) -> datetime:
        moment = self._clock()
        if moment.tzinfo is None:
            raise InvalidConfig("clock: must return a time with a time zone (an aware datetime).", field="clock")
        return moment

    def _now_text(self) -> str:
        """The same as files say it."""
        return system_text() if self._clock is system_clock else to_text(self.now())

    def _asked_store(self) -> FileStore:
        return self._store

    def _asked_sessions(self) -> list[str] | None:
        return None

    def _asked_config(self) -> Config:
        return self.config

    def _asked_at(self) -> datetime:
        return self.now()

    def _exported(self) -> tuple[Memory, list[FileSession], str | None]:
        return self, [found for _, found in each_there(self._store.session_ids(), self._store.session)], None

    def _session_meant(self, name: str) -> SessionMemory:
        return self.session(name)

    def _renew_digests(self) -> tuple[list[str], list[str]]:
        """After an erasure: the digests outside of the store that are there, and what could not be renewed."""
        from smp_memory.context.digest import renew_after_erasing

        return renew_after_erasing(self)

    def _looked_over(self) -> Records:
        return Records.joined(records for _, records in each_there(self.sessions(), lambda each: each.records()))

    def _users(self) -> dict[str, str]:
        found = each_there(self.sessions(), lambda session: session._users())
        return {name: user for _, users in found for name, user in users.items()}

    # -- sessions

    def create_session(
        self,
        id: str | Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        agents: list[str] | tuple[str, ...] = (),
        project: str | None = None,
        tags: list[str] | tuple[str, ...] = (),
        author: str | None = None,
        config: Mapping[str, Any] | None = None,
        created: datetime | str | None = None,
        **context: Any,
    ) -> SessionMemory:
        """Create a session; what else you say about it (`phase="review"`) is kept as its context."""
        now = self.now()
        given: Any = (id, user, agents, project, tags, config)
        if context or not (id is None or isinstance(id, str)):
            given, context = understood(given, context)
        id, user, agents, project, tags, config = given
        fields = validation.session_fields(user, agents, project, tags, context)
        session_id = ids.check(id, "id") if id is not None else f"session-{now:%Y-%m-%d}-{os.urandom(3).hex()}"
        settings = self.config.override_session(config, session_id) if config else self.config
        fields, removals = without_secrets(settings, fields)
        if config:
            check_settings(settings)
            fields["config"] = validation.plain("config", dict(config))
        created_text = to_text(now) if created is None else parse(created, "created")
        session = SessionMemory(self, self._store.create(SessionInfo(session_id, created_text, **fields)), author)
        session.warnings = typos.of_session(context)
        session.redacted = note_head(self._store, to_text(now), session_id, author, removals)
        return session

    def session(self, id: str, *, author: str | None = None) -> SessionMemory:
        """Open a session; `author` is who writes, unless a write says otherwise. Raises SessionNotFound.

        One that is archived is brought back first.
        """
        try:
            return self._opened(id, author)
        except SessionArchived:
            self.restore_session(id, by=author)
            return self._opened(id, author)

    def _opened(self, id: str, author: str | None = None) -> SessionMemory:
        files = self._store.session(id)
        if not self._store.layout.exists(self._store.disk, self.root, id):  # it was put away meanwhile
            raise self._store.no_session(id)
        return SessionMemory(self, files, author)

    def sessions(self) -> list[SessionMemory]:
        """All sessions, by id."""
        there = each_there(self._store.session_ids(), self._store.session)
        return [SessionMemory(self, files) for _, files in there]

    def latest_session(self) -> SessionMemory | None:
        """The session that was written last, by the times of its files; None if there is none."""
        own = (session for session in self.sessions() if session.id != GLOBAL_SESSION)  # that one is for all of them
        return max(own, key=lambda session: (session.written, session.id), default=None)

    def get(self, ref: Any) -> Any:
        """A memory by its name across sessions, `session-id/ID`; or a record, as it stands now."""
        name = ref if isinstance(ref, str) else getattr(ref, "ref", None)
        session, _, memory_id = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not memory_id:
            raise InvalidRecord(
                f"ref: {validation.shown(ref)} is not the name of a memory; give session/ID, such as review/DEC-0001.",
                field="ref",
            )
        return self.session(session).get(memory_id)

    # -- the whole store

    def validate(self) -> dict[str, Report]:
        """Check every session, also those whose files have another layout; see SessionMemory.validate."""
        from smp_memory.store.foreign_layouts import reports

        found = {session.id: report for session, report in each_there(self.sessions(), SessionMemory.validate)}
        return found | reports(self._store, but=found)

    def repair(self) -> dict[str, Report]:
        return {session.id: report for session, report in each_there(self.sessions(), SessionMemory.repair)}

    def convert(self, to: str, progress: Callable[[str], None] | None = None) -> Memory:
        """Carry the store over to another layout, in place; returns it opened. This one is closed.

        `progress` is told the id of each session before it is carried over.
        """
        from smp_memory.store.convert import convert

        self._store.check_open()
        convert(self._store, to, progress)
        self.close()
        return Memory(self.root, None, self._arguments, self._clock, self._store.disk.system)

    def set_config(self, name: str, value: Any) -> None:
        """Change a setting in config.json, checked first; None takes it out. It holds for whoever opens the store next."""
        self.config[name]  # an unknown one is an error that suggests the right one
        if name in ("layout", "format"):
            raise InvalidConfig(f"The setting '{name}' cannot be set; `smp convert` changes the layout.", key=name)
        self._store.check_open()
        self._store.check_in_place()
        disk, path = self._store.disk, os.path.join(self.root, CONFIG_FILE)
        disk.make_folder(os.path.join(self.root, PRIVATE))
        lock = SessionLock(disk, os.path.join(self.root, PRIVATE), f"the store {self.root}")
        lock.acquire(self.config.lock_timeout_seconds)
        try:
            stored = with_setting(self._read_config(disk) or {}, name, value)
            check_settings(Config.build(stored, path))
            disk.replace(path, (json.dumps(stored, ensure_ascii=False, indent=2) + "\n").encode())
        except OSError as error:
            raise from_os_error(error, path, "changing the configuration") from error
        finally:
            lock.release()
            lock.close()

    def doctor(
        self,
        *,
        fix: bool | Iterable[str] = False,
        sessions: list[str] | None = None,
        quick: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> HealthReport:
        """Look the whole store over, or some sessions; `fix` puts right what is safe to. See docs/health.md.

        `fix` is True, or names of fixes: permissions, recovery, index, access, maintenance. `quick` leaves out what takes long.
        """
        from smp_memory.health.doctor import doctor

        self._store.check_open()
        return doctor(
            self._store.disk.system,
            self.root,
            self.now,
            lambda: self,
            fix=fix,
            sessions=sessions,
            quick=quick,
            environ=os.environ,
            arguments=self._arguments,
            progress=progress,
        )

    def reindex(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Make the index anew from the files; how many memories it holds. Never needed, never harmful."""
        self._store.check_open()
        return self._store.indexer.rebuild(progress)

    def sync(self) -> None:
        """With durability `interval`: do not wait for the interval."""
        self._store.sync()

    def close(self) -> None:
        """Sync what is not yet synced and let go of all files. Safe to call twice."""
        self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({self.root!r}, layout={self.layout!r})"


opens_with(open_memory)
