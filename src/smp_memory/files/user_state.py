"""Per-user state of a store, kept outside the store.

    $SMP_STATE_DIR, else $XDG_STATE_HOME/smp, else ~/.local/state/smp          (Windows: %LOCALAPPDATA%/smp)
      key                            32 random bytes that sign this user's journals (`smp_memory.files.signature`)
      stores/web-shop-3f2a91c04b7d/  one folder per store, named after the path of its root
        store.json                   {"root": "…", "id": "…", "trusted": ["…"], "told": true}
        index/  hooks/  compaction/  access.log  clock.json  digests.json  erasing.json  hooks.log  maintenance.json
        session-uses.log

A store may come with a repository that a stranger wrote. What SMP derives from memories, and what it notes for itself, is
therefore never read from the store: a planted index, hook note or list of digests does not exist for SMP.

Guarantees: files are 0600 and folders 0700. A folder of another user is not used. State belongs to a path and to the
store's random id (`.smp/id`): if another store is put in the same place, its state starts empty and it is not trusted.
Non-guarantees: only what is written `durable` survives a power loss for sure. A store that is moved or copied starts with empty state; nothing of it is needed to read the store. Where there is
no home folder that belongs to this user, the state lives in RAM for as long as the process does.

Tell state that this user's SMP wrote from state that came with a repository.

A journal is acted upon: files are moved, removed and appended to. So it carries a message authentication code, made with
a key that lies outside every store (`smp_memory.files.user_state`). The key is not bound to a path: a store that was moved or
copied still recovers its own journal.

Several users may share a store. A journal that only appends, and belongs to another user of the machine, counts as authentic
(`is_of_another_user`): whoever can put it there can append to the files as well, and without it a transaction of that user would
be seen half. All others without this user's code are foreign.
"""

from __future__ import annotations

import json
import os
import stat
import time

from smp_memory.errors import SMPError
from smp_memory.files.disk import Disk
from smp_memory.files.sha256 import sha256_hex
from smp_memory.files.system import RealSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.files.disk import Disk


VARIABLE = "SMP_STATE_DIR"
STORE_FILE, ID_FILE = "store.json", "id"
_PRIVATE = ".smp"
_KEY_BYTES = 32
_ID_BYTES = 8
_SMALL_BYTES = 1 << 16
_TIDIED, _TIDY_SECONDS = "tidied", 86_400.0
_FORGOTTEN_SECONDS = 90 * 86_400  # after which nothing is kept of a store that is gone


class _WithoutSync(RealSystem):
    """The machine, without waiting for the disk: what is lost by a power loss can be made again."""

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
        self._id_path = os.path.join(opened_as, _PRIVATE, ID_FILE)
        self._root = root
        self.disk = disk
        self.folder = folder
        self.on_disk = on_disk  # False: it lives as long as this process does
        self._is_inside = is_inside  # it lies in the store, which is in RAM as a whole: nobody else can have made it

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def has(self, name: str) -> bool:
        return self.disk.exists(self.path(name))

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""
        return self.disk.read(self.path(name))

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Replace one file, atomically; `durable`: it is there after a power loss, too."""
        self.make()
        path = self.path(name)
        self.disk.make_folder(os.path.dirname(path))
        disk = Disk(RealSystem(os.path.dirname(self.folder))) if durable and self.on_disk else self.disk
        disk.replace(path, data)
        if durable:
            disk.sync_folder(os.path.dirname(self.folder))

    def remove(self, name: str) -> None:
        self.disk.remove(self.path(name))

    def make(self) -> None:
        """Create the folder, and start anew if it belongs to another store that was in the same place."""
        if self._is_inside:
            self.disk.make_folder(self.folder)
            return
        known = self._record()
        if known is not None and known["id"] == self._store_id():
            return
        if known is not None:
            self.disk.remove_tree(self.folder)
        self.disk.make_folder(self.folder)
        self._write_record({"root": self._root, "id": self._store_id(), "trusted": [], "told": False})
        if self.on_disk:
            self._tidy_now_and_then()

    def _tidy_now_and_then(self) -> None:
        stores = os.path.dirname(self.folder)
        found = self.disk.stat(os.path.join(stores, _TIDIED))
        if found is None or time.time() - found.st_mtime > _TIDY_SECONDS:
            self.disk.replace(os.path.join(stores, _TIDIED), b"")
            forget_removed_stores(self.disk, stores)

    def forget_removed_stores(self) -> None:
        """Remove what was derived from stores that are gone, now."""
        if self.on_disk:
            forget_removed_stores(self.disk, os.path.dirname(self.folder))

    # -- trust

    def is_trusted(self, path: str | None = None) -> bool:
        """Whether the user trusts this store under the path by which it was found."""
        return self._is_inside or (path or self._root) in self._trusted()

    def _trusted(self) -> list[str]:
        """The paths under which the store is trusted."""
        known = self._record()
        return known["trusted"] if known is not None and known["id"] == self._store_id() else []

    def trust(self, *paths: str) -> None:
        """Trust the store at these paths, and at its root."""
        wanted = {self._root, *paths}
        if self._is_inside or wanted.issubset(self._trusted()):
            return
        self._give_id()
        self.make()
        known = self._record() or {}
        known["trusted"] = sorted({*known.get("trusted", ()), *wanted})
        self._write_record({"root": self._root, "id": self._store_id(), **known})

    def distrust(self) -> None:
        """Take trust back. What was derived from the store goes with it."""
        if not self._is_inside:
            self.disk.remove_tree(self.folder)

    def was_told(self) -> bool:
        """Whether the user was told that the store is not trusted; from now on it was."""
        known = self._record()
        if self._is_inside or (known is not None and known.get("told")):
            return True
        self.make()
        self._write_record({**(self._record() or {}), "told": True})
        return False

    # -- which store is this?

    def _record(self) -> dict[str, Any] | None:
        try:
            known = json.loads(self.disk.read(self.path(STORE_FILE), 0, _SMALL_BYTES))
        except (FileNotFoundError, ValueError, RecursionError, SMPError):
            return None
        if not isinstance(known, dict) or known.get("root") != self._root or not isinstance(known.get("id"), str):
            return None
        trusted = known.get("trusted")
        return {**known, "trusted": trusted if isinstance(trusted, list) else []}

    def _write_record(self, record: dict[str, Any]) -> None:
        self.disk.replace(self.path(STORE_FILE), (json.dumps(record, indent=2) + "\n").encode())

    def _store_id(self) -> str:
        """What `.smp/id` says; empty if there is none."""
        try:
            data = self._store_disk.read(self._id_path, 0, 2 * _ID_BYTES + 1)
        except (OSError, SMPError):
            return ""
        text = data.decode("ascii", "replace").strip()
        return text if len(text) == 2 * _ID_BYTES and text.isalnum() else ""

    def _give_id(self) -> None:
        """Give the store an id of its own, if it has none and can be written to."""
        if self._store_id():
            return
        path = self._id_path
        temporary = f"{path}-{os.urandom(4).hex()}.smp-new"
        try:
            self._store_disk.make_folder(os.path.dirname(path))
            self._store_disk.write_new(temporary, os.urandom(_ID_BYTES).hex().encode() + b"\n", sync=False)
            self._store_disk.move(temporary, path)
        except OSError:
            pass  # a store that can only be read: it is known by its path alone


def state_of(root: str, disk: Disk) -> UserState:
    """The state of a store. Of one in RAM it lies beside the sessions, so that it goes with them."""
    if not isinstance(disk.system, RealSystem):
        return UserState(disk, root, disk, os.path.join(root, _PRIVATE), on_disk=False, is_inside=True)
    home = state_home(os.environ)
    if home is None:
        from smp_memory.files.memory_system import MemorySystem

        return UserState(disk, os.path.realpath(root), Disk(MemorySystem()), "/state", on_disk=False)
    real = os.path.realpath(root)
    project = next((part for part in reversed(real.split(os.sep)) if part not in ("memory", "sessions", ".bmad")), "")
    readable = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project)[:32]
    folder = os.path.join(home, "stores", f"{readable}-{sha256_hex(os.fsencode(real))[:12]}")
    return UserState(disk, real, Disk(_WithoutSync(home)), folder, on_disk=True)


def state_home(environ: Mapping[str, str]) -> str | None:
    """The folder of this user's state; None if there is no place that belongs to this user."""
    home = environ.get(VARIABLE)
    if home:
        home = os.path.abspath(home)
    elif os.name == "nt":
        home = os.path.join(environ.get("LOCALAPPDATA") or "", "smp")
    else:
        state = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or "~", ".local", "state")
        home = os.path.join(os.path.expanduser(state), "smp")
    return home if os.path.isabs(home) and _is_ours(home) else None


def _is_ours(path: str) -> bool:
    """Whether the nearest folder that exists belongs to this user: after `sudo`, HOME may be somebody else's."""
    while True:
        try:
            found = os.stat(path)
            return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
        except FileNotFoundError:
            path = os.path.dirname(path)
        except OSError:
            return False


def user_key() -> bytes:
    """The key of this user, made at its first use; b"" if there is no place for it."""
    home = state_home(os.environ)
    if home is None:
        return b""
    disk, path = Disk(RealSystem(home)), os.path.join(home, "key")
    try:
        return disk.read(path, 0, _KEY_BYTES)
    except FileNotFoundError:
        pass
    temporary = f"{path}-{os.urandom(4).hex()}.smp-new"
    disk.make_folder(home)
    disk.write_new(temporary, os.urandom(_KEY_BYTES))
    try:
        disk.link_new(temporary, path)
    except FileExistsError:  # another process was quicker
        disk.remove(temporary)
    return disk.read(path, 0, _KEY_BYTES)


def trusted_first(roots: list[str]) -> list[str]:
    """Stores beside each other, the trusted ones first: one that a repository brings must not hide the user's own."""
    if len(roots) < 2:
        return roots
    trusted = {root for root in roots if state_of(root, Disk(RealSystem(root))).is_trusted(root)}
    return sorted(roots, key=lambda root: root not in trusted)


def trusted_stores() -> list[str]:
    """The paths at which this user trusts a store."""
    home = state_home(os.environ)
    if home is None:
        return []
    disk, stores, found = Disk(RealSystem(home)), os.path.join(home, "stores"), []
    for name in disk.names(stores):
        try:
            known = json.loads(disk.read(os.path.join(stores, name, STORE_FILE), 0, _SMALL_BYTES))
            found += [str(path) for path in known["trusted"]]
        except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return sorted(found)


def forget_removed_stores(disk: Disk, stores: str) -> None:
    """Remove what was derived from stores that are gone. Trust is kept for a while: a drive may be plugged in again."""
    for name in disk.names(stores):
        folder = os.path.join(stores, name)
        try:
            root = json.loads(disk.read(os.path.join(folder, STORE_FILE), 0, _SMALL_BYTES))["root"]
            found = disk.stat(os.path.join(folder, STORE_FILE))
            if not isinstance(root, str) or os.path.lexists(root) or found is None:
                continue
            if time.time() - found.st_mtime > _FORGOTTEN_SECONDS:
                disk.remove_tree(folder)
            for inner in disk.names(folder):
                if inner != STORE_FILE:
                    disk.remove_tree(os.path.join(folder, inner))
        except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
            continue


_BLOCK_BYTES = 64


def code(key: bytes, purpose: str, body: bytes) -> str:
    """HMAC-SHA256 over what the file is for and what it says. (`hmac` would load OpenSSL, 4 ms at each start.)"""
    block = key.ljust(_BLOCK_BYTES, b"\0")
    inner = bytes(byte ^ 0x36 for byte in block)
    outer = bytes(byte ^ 0x5C for byte in block)
    message = purpose.encode() + b"\0" + body
    return sha256_hex(outer + bytes.fromhex(sha256_hex(inner + message)))


def is_authentic(disk: Disk, purpose: str, body: bytes, given: object) -> bool:
    """Whether this user's SMP wrote the file."""
    return given == code(disk.system.secret(), purpose, body)


def is_of_another_user(disk: Disk, path: str) -> bool:
    """Whether a file belongs to another user of this machine."""
    found = disk.stat(path)
    return found is not None and hasattr(os, "getuid") and bool(found.st_uid != os.getuid())
