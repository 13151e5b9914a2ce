"""Per-user state of a store, kept outside the store.

    $SMP_STATE_DIR, else $XDG_STATE_HOME/smp, else ~/.local/state/smp          (Windows: %LOCALAPPDATA%/smp)
      stores/web-shop-3f2a91c04b7d/  one folder per store, named after the path of its root
        store.json                   {"root": "…", "id": "…", "trusted": ["…"], "told": true,
                                      "settings": {"": {"privacy.redaction.off": ["email"]}, "review": {…}}}
        index/  hooks/  compaction/  purges/  plans/  access.log  clock.json  digests.json  erasing.json  hooks.log
        maintenance.json  session-uses.log  mcp-token  tokens.jsonl

A store may come with a repository that a stranger wrote. What SMP derives from memories, and what it records for itself, is therefore
never read from the store: a planted index, hook state or list of digests has no effect.

The protective settings that the user trusted are in `settings`: "" has those of `config.json`, the others those of a session's own
settings. A value in the store's files that lowers protection below them does not count (`Config.held`).

Guarantees: files are 0600 and folders 0700. A folder of another user is not used. State belongs to a path and to the store's random id
(`.smp/id`): if another store is put in the same place, its state starts empty and it is not trusted. A store that is not a folder
is identified by its address alone.
Non-guarantees: only what is written `durable` is sure to survive a power loss. A store that is moved or copied starts with empty state;
none of it is needed to read the store. Without a home folder that belongs to this user, the state is in RAM until the process ends.
"""

from __future__ import annotations

import json
import os
import stat
import time

from smp_memory.errors import SMPError, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.model.ids import scheme_of, sha256_hex, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    TrustedSettings = dict[str, dict[str, Any]]


VARIABLE = "SMP_STATE_DIR"
STORE_FILE, ID_FILE = "store.json", "id"
ERASING = "erasing.json"  # ids of memories whose erasure began
_PRIVATE = ".smp"
_ID_BYTES = 8
_RECORD_BYTES = 1 << 20
_TIDIED_FILE, _TIDY_EVERY_SECONDS = "tidied", 86_400.0
_FORGOTTEN_SECONDS = 90 * 86_400  # after which the state of a removed store is deleted


class _WithoutSync(RealSystem):
    """The operating system without syncs: state that a power loss takes can be derived again."""

    def sync(self, fd: int, /) -> None:  # type: ignore[override]  # a staticmethod there
        pass

    def sync_dir(self, path: str, /) -> None:
        pass


class UserState:
    """The state of one store for this user. Threads may share it."""

    def __init__(
        self, store_disk: Disk, root: str, disk: Disk, folder: str, *, on_disk: bool, is_inside: bool = False
    ) -> None:
        self._store_disk = store_disk
        opened_as = getattr(store_disk.system, "root", "") or root
        self._id_path = "" if scheme_of(root) else os.path.join(opened_as, _PRIVATE, ID_FILE)
        self._root = root
        self.disk = disk
        self.folder = folder
        self.on_disk = on_disk  # False: it ends with this process
        # As of the last call of `trusted_settings`: opening a store reads them once.
        self._trusted_paths: list[str] = []
        self._is_inside = is_inside  # inside a store that is in RAM as a whole: no other process can have written it

    def path(self, *names: str) -> str:
        """The path of a file in it, for files that are locked or appended to."""
        return os.path.join(self.folder, *names)

    def boot_id(self) -> str:
        """Identifies the boot of this machine; with the time since boot it is evidence about the wall clock."""
        return self.disk.system.boot_id()

    def has(self, name: str) -> bool:
        return self.disk.exists(self.path(name))

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""
        return self.disk.read(self.path(name))

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Replace one file, atomically; `durable`: it survives a power loss. Raises StorageError."""
        path = self.path(name)
        disk = self._durable_disk() if durable else self.disk
        try:
            self.make()
            self.disk.make_folder(os.path.dirname(path))
            disk.replace(path, data)
            if durable:
                disk.sync_folder(os.path.dirname(self.folder))
        except OSError as error:
            raise self._not_writable(error) from error

    def _make(self) -> None:
        """Create the folder, or raise that it cannot be written."""
        try:
            self.make()
        except OSError as error:
            raise self._not_writable(error) from error

    def _not_writable(self, error: OSError) -> SMPError:
        """The error that names the state folder, because nobody asked to write there."""
        if self._is_inside:
            return from_os_error(error, self.folder, "writing the state")
        message = (
            f"Your state folder {self.folder} cannot be written ({error.strerror}). Nothing was changed. "
            f"Set {VARIABLE} to a folder that you can write."
        )
        return type(from_os_error(error, self.folder, ""))(message, path=self.folder, errno=error.errno)

    def modified_at(self, name: str) -> float | None:
        """When a file was last written; None if there is none."""
        status = self.disk.stat(self.path(name))
        return status.st_mtime if status is not None else None

    def append(self, name: str, data: bytes, *, durable: bool = False) -> None:
        self.make()
        disk = self._durable_disk() if durable else self.disk
        file = disk.open_append(self.path(name))
        try:
            file.append(data)
            if durable:
                file.sync()
        finally:
            file.close()
        if durable:
            disk.sync_folder(self.folder)

    def _durable_disk(self) -> Disk:
        """A disk that syncs, if the state is on one."""
        return Disk(RealSystem(os.path.dirname(self.folder))) if self.on_disk else self.disk

    def remove(self, name: str) -> None:
        self.disk.remove(self.path(name))

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; empty if it does not exist."""
        return self.disk.names(self.path(folder))

    def lock(self, folder: str, about: str, timeout_seconds: float) -> FolderLock:
        """A lock for the files of a folder, for the block of a `with` statement; `about` is for the error of the others."""
        self.make()
        self.disk.make_folder(self.path(folder))
        return FolderLock(self.disk, self.path(folder), about, timeout_seconds)

    def make(self) -> None:
        """Create the folder; remove its content first if it belongs to another store that was in the same place."""
        if self._is_inside:
            self.disk.make_folder(self.folder)
            return
        known = self._record()
        if known is not None and known["id"] == self._store_id():
            return
        record = {"root": self._root, "id": self._store_id(), "trusted": [], "told": False}
        if known is not None:  # `.smp/id` may have come with a pull: the settings that were trusted here still hold
            self.disk.remove_tree(self.folder)
            record.update(settings=known["settings"], replaced=bool(known["trusted"]) or known.get("replaced") is True)
        self.disk.make_folder(self.folder)
        self._write_record(record)
        if self.on_disk:
            self._forget_removed_daily()

    def _forget_removed_daily(self) -> None:
        stores = os.path.dirname(self.folder)
        status = self.disk.stat(os.path.join(stores, _TIDIED_FILE))
        if status is None or time.time() - status.st_mtime > _TIDY_EVERY_SECONDS:
            self.disk.replace(os.path.join(stores, _TIDIED_FILE), b"")
            forget_removed_stores(self.disk, stores)

    def forget_removed_stores(self) -> None:
        """Remove the state derived from stores that do not exist any more."""
        if self.on_disk:
            forget_removed_stores(self.disk, os.path.dirname(self.folder))

    # -- trust

    def is_trusted(self, path: str | None = None) -> bool:
        """Whether the user trusts this store under the path by which it was found."""
        return self._is_inside or without_password(path or self._root) in self._trusted()

    def _trusted(self) -> list[str]:
        """The paths under which the store is trusted."""
        known = self._record()
        return known["trusted"] if known is not None and known["id"] == self._store_id() else []

    def trust(self, *paths: str, settings: TrustedSettings | None = None, renew: bool = False) -> bool:
        """Trust the store at these paths, and at its root.

        `settings` are recorded if nothing of the store was trusted before, or with `renew`. Returns whether they were.
        """
        paths_to_trust = {self._root, *map(without_password, paths)}
        if self._is_inside or (paths_to_trust.issubset(self._trusted_paths) and not renew):
            return False
        known_paths = self._trusted()
        if paths_to_trust.issubset(known_paths) and not renew:
            return False
        self._create_id()
        self._make()
        known = self._record() or {}
        known["trusted"] = sorted({*known_paths, *paths_to_trust})
        if renew:
            known["settings"] = settings or {}
        elif not known_paths and not known.get("replaced"):
            known["settings"] = {**known.get("settings", {}), **(settings or {})}
        self._write_record({"root": self._root, "id": self._store_id(), **known})
        return renew or not (known_paths or known.get("replaced"))

    def trusted_settings(self) -> TrustedSettings | None:
        """The protective settings that the user trusted, by session, "" for the store; None: all count, nobody else can set them."""
        if self._is_inside:
            return None
        known = self._record()
        if known is None or known["id"] != self._store_id():
            return {}
        self._trusted_paths = known["trusted"]
        settings: TrustedSettings = known["settings"]
        return settings

    def trust_settings(self, session: str, settings: dict[str, Any]) -> None:
        """Record the protective settings of a session, "" for the store, because this user has set them."""
        if self._is_inside or (self.trusted_settings() or {}).get(session, {}) == settings:
            return
        self._create_id()
        self._make()
        known = self._record() or {}
        self._write_record({**known, "settings": {**known.get("settings", {}), session: settings}})

    def distrust(self) -> None:
        """Revoke trust, and remove everything derived from the store."""
        self._trusted_paths = []
        if not self._is_inside:
            self.disk.remove_tree(self.folder)

    def mark_notified(self) -> bool:
        """Record that the user was notified that the store is not trusted. Returns whether that was recorded before."""
        known = self._record()
        if self._is_inside or (known is not None and known.get("told")):
            return True
        self.make()
        self._write_record({**(self._record() or {}), "told": True})
        return False

    # -- identity of the store

    def _record(self) -> dict[str, Any] | None:
        try:
            known = json.loads(self.disk.read(self.path(STORE_FILE), 0, _RECORD_BYTES))
        except (FileNotFoundError, ValueError, RecursionError, SMPError):
            return None
        if not isinstance(known, dict) or known.get("root") != self._root or not isinstance(known.get("id"), str):
            return None
        trusted = known.get("trusted")
        settings = known.get("settings")
        settings = (
            settings if isinstance(settings, dict) and all(isinstance(each, dict) for each in settings.values()) else {}
        )
        return {**known, "trusted": trusted if isinstance(trusted, list) else [], "settings": settings}

    def _write_record(self, record: dict[str, Any]) -> None:
        self.disk.replace(self.path(STORE_FILE), (json.dumps(record, indent=2) + "\n").encode())

    def _store_id(self) -> str:
        """The id in `.smp/id`; empty if there is none, as in a store that is not a folder."""
        if not self._id_path:
            return ""
        try:
            data = self._store_disk.read(self._id_path, 0, 2 * _ID_BYTES + 1)
        except (OSError, SMPError):
            return ""
        text = data.decode("ascii", "replace").strip()
        return text if len(text) == 2 * _ID_BYTES and text.isalnum() else ""

    def _create_id(self) -> None:
        """Create the store's id, if it has none and can be written to."""
        if self._store_id() or not self._id_path:
            return
        path = self._id_path
        temporary = f"{path}-{os.urandom(4).hex()}.smp-new"
        try:
            self._store_disk.make_folder(os.path.dirname(path))
            self._store_disk.write_new(temporary, os.urandom(_ID_BYTES).hex().encode() + b"\n", sync=False)
            self._store_disk.move(temporary, path)
        except OSError:
            pass  # a read-only store is identified by its path alone


class PlanApproval:
    """The digest of the plan that this user approved for a session although it destroys memories (`smp_memory.files.journal`)."""

    def __init__(self, state: UserState, session: str) -> None:
        self._state = state
        self._name = os.path.join("plans", session)

    def read(self) -> str:
        try:
            return self._state.read(self._name).decode("ascii", "replace")
        except (OSError, SMPError):
            return ""

    def write(self, digest: str) -> None:
        """Where it cannot be written, a crash before the plan is carried out makes the caller repeat the operation."""
        try:
            self._state.write(self._name, digest.encode(), durable=True)
        except (OSError, SMPError):
            pass

    def remove(self) -> None:
        try:
            self._state.remove(self._name)
        except (OSError, SMPError):
            pass


class FolderLock:
    """The lock of a folder of the state, as a context manager."""

    def __init__(self, disk: Disk, folder: str, about: str, timeout_seconds: float) -> None:
        from smp_memory.files.lock import SessionLock

        self._lock = SessionLock(disk, folder, about)
        self._timeout_seconds = timeout_seconds

    def __enter__(self) -> None:
        self._lock.acquire(self._timeout_seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        self._lock.close()


def open_user_state(root: str, disk: Disk) -> UserState:
    """The state of a store. For a store in RAM it is kept beside the sessions and ends with them."""
    if not isinstance(disk.system, RealSystem):
        return UserState(disk, root, disk, os.path.join(root, _PRIVATE), on_disk=False, is_inside=True)
    home = state_home(os.environ)
    real = without_password(root) if scheme_of(root) else os.path.realpath(root)
    if home is None:
        from smp_memory.files.memory_system import MemorySystem

        return UserState(disk, real, Disk(MemorySystem()), "/state", on_disk=False)
    project = next((part for part in reversed(real.split(os.sep)) if part not in ("memory", "sessions", ".bmad")), "")
    readable = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project)[:32]
    folder = os.path.join(home, "stores", f"{readable}-{sha256_hex(os.fsencode(real))[:12]}")
    return UserState(disk, real, Disk(_WithoutSync(home)), folder, on_disk=True)


def state_home(environ: Mapping[str, str]) -> str | None:
    """The folder of this user's state; None if there is none that belongs to this user."""
    home = environ.get(VARIABLE)
    if home:
        home = os.path.abspath(home)
    elif os.name == "nt":
        home = os.path.join(environ.get("LOCALAPPDATA") or "", "smp")
    else:
        state = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or "~", ".local", "state")
        home = os.path.join(os.path.expanduser(state), "smp")
    return home if os.path.isabs(home) and _belongs_to_user(home) else None


def _belongs_to_user(path: str) -> bool:
    """Whether the nearest existing folder belongs to this user: after `sudo`, HOME may be another user's."""
    while True:
        try:
            status = os.stat(path)
            return stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError:
            return False


def trusted_first(roots: list[str]) -> list[str]:
    """Stores of one project, the trusted ones first: a store that came with a repository must not hide the user's own."""
    if len(roots) < 2:
        return roots
    trusted = {root for root in roots if open_user_state(root, Disk(RealSystem(root))).is_trusted(root)}
    return sorted(roots, key=lambda root: root not in trusted)


def trusted_stores() -> list[str]:
    """The paths at which this user trusts a store."""
    home = state_home(os.environ)
    if home is None:
        return []
    disk, stores, paths = Disk(RealSystem(home)), os.path.join(home, "stores"), []
    for name in disk.names(stores):
        try:
            known = json.loads(disk.read(os.path.join(stores, name, STORE_FILE), 0, _RECORD_BYTES))
            paths += [str(path) for path in known["trusted"]]
        except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return sorted(paths)


def forget_removed_stores(disk: Disk, stores: str) -> None:
    """Remove the state derived from stores that do not exist. Trust is kept for a while: a drive may be plugged in again."""
    for name in disk.names(stores):
        folder = os.path.join(stores, name)
        try:
            root = json.loads(disk.read(os.path.join(folder, STORE_FILE), 0, _RECORD_BYTES))["root"]
            status = disk.stat(os.path.join(folder, STORE_FILE))
            if not isinstance(root, str) or scheme_of(root) or os.path.lexists(root) or status is None:
                continue
            if time.time() - status.st_mtime > _FORGOTTEN_SECONDS:
                disk.remove_tree(folder)
            for inner in disk.names(folder):
                if inner != STORE_FILE:
                    disk.remove_tree(os.path.join(folder, inner))
        except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
            continue
