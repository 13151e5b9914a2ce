"""Trust in the settings of a store: record which protective settings the user accepted, and list those that wait.

Guarantees: what this user sets through SMP counts at once; what comes with the files and lowers protection counts only after
`smp trust` (`Config.held`). A user's state that cannot be written is no error: then such settings do not count for other processes.
"""

from __future__ import annotations

from smp_memory.config.config_file import set_session_config
from smp_memory.config.schema import LOWERS
from smp_memory.errors import SMPError
from smp_memory.model.session_info import names_of
from smp_memory.observe.incomplete import each_existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.config.settings import HeldSetting
    from smp_memory.store.port import SessionStore, Store


def trust_named(store: Store, path: str, *, is_new: bool = False) -> None:
    """Trust a store that the user made or named. If it was not trusted before, its settings count as they are."""
    config, state = store.config, store.state
    try:
        is_first = state.trust(path, settings={"": config.stated_protection()}, renew=is_new)
    except (
        OSError,
        SMPError,
    ):  # no place for the user's state: `smp doctor` says so; the store can be used all the same
        is_first = not state.trusted_settings()
    if is_first and config.held:
        store.config = config.trusting_stated()


def trust_as_it_is(store: Store, path: str) -> None:
    """Trust a store with all protective settings that its files have now. Raises OSError."""
    config, state = store.config, store.state
    before = (state.trusted_settings() or {}).get("", {})
    found = {"": config.stated_protection() if config.is_file_readable else before}
    for name, files in each_existing(names_of(store.sessions()), store.session):
        found[name] = files.config.stated_protection(session=True)
    state.trust(path, settings={name: settings for name, settings in found.items() if settings}, renew=True)


def held_settings(store: Store) -> list[HeldSetting]:
    """The settings of a store and of its sessions that lower protection and do not count yet."""
    own = (files.config for _, files in each_existing(names_of(store.sessions()), store.session))
    return [*store.config.held, *(each for config in own for each in config.held if each.session)]


def set_session_setting(store: Store, storage: SessionStore, name: str, value: Any) -> None:
    """Set or, for None, remove an own setting of a session. Raises InvalidConfig, and then changes nothing."""
    set_session_config(storage, name, value)
    note_setting(store, storage.session, name, value)


def note_setting(store: Store, session: str, name: str, value: Any) -> None:
    """Record that this user has set or, for None, removed a setting of a session, "" for the store."""
    if name in LOWERS:
        before = (store.state.trusted_settings() or {}).get(session, {})
        kept = {key: each for key, each in before.items() if key != name}
        note_settings(store, session, kept if value is None else {**kept, name: value})


def note_settings(store: Store, session: str, settings: dict[str, Any]) -> None:
    """Record the protective settings of a session, "" for the store, which this user has set."""
    store.config.note_trusted(session, settings)
    try:
        store.state.trust_settings(session, settings)
    except (OSError, SMPError):
        pass  # they do not count for other processes, which say so
