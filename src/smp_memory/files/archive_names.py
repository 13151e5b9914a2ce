"""Which names may stand in an archive? Those that mean one plain file below the session's folder, on every system.

Guarantees: pure; a path that passes has no `..`, is not absolute, has no drive, no stream, no control character and no
name that Windows reads in another way, is valid and normalised Unicode, and is short enough for a tar header. A set of
paths that passes has no two that a disk which ignores case or forms of Unicode would take for one, and no file where
another one needs a folder.
"""

from __future__ import annotations

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_PATH_BYTES = 240
LONGEST_NAME_BYTES = 100
LONGEST_PREFIX_BYTES = 155
DEEPEST = 8
PRIVATE = ".smp"
LEFT_OUT = frozenset(("lock", "queue"))  # of SMP's own folder: they belong to processes, not to the session
PLAN = "journal.json"  # what is to be done to a session; never taken from an archive
_DEVICES = frozenset(["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(10)])
_FORBIDDEN = frozenset('\\:*?"<>|')


def unsafe_because(path: str) -> str:
    """Why this path may not stand in an archive; empty if it may."""
    if not path or path.startswith("/"):
        return "absolute" if path else "empty"
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "not_unicode"
    parts = path.split("/")
    if length > LONGEST_PATH_BYTES or len(parts) > DEEPEST:
        return "too_long" if length > LONGEST_PATH_BYTES else "too_deep"
    if is_private(path, LEFT_OUT | {PLAN}):
        return "reserved"
    return next((why for part in parts if (why := _unsafe_part(part))), "") or ("" if split(path) else "too_long")


def split(path: str) -> tuple[bytes, bytes] | None:
    """A path as a tar header takes it, in a prefix and a rest; None if it fits no header."""
    name = path.encode()
    if len(name) <= LONGEST_NAME_BYTES:
        return b"", name
    slash = name.find(b"/", len(name) - LONGEST_NAME_BYTES - 1)
    return (name[:slash], name[slash + 1 :]) if 0 < slash <= LONGEST_PREFIX_BYTES else None


def is_private(path: str, names: Iterable[str]) -> bool:
    """Whether this is one of SMP's own files of these names."""
    *folders, name = path.lower().split("/")
    return PRIVATE in folders and name in names


def _unsafe_part(part: str) -> str:
    if part in ("", ".", ".."):
        return "traversal" if part == ".." else "empty_part"
    if len(part.encode()) > LONGEST_NAME_BYTES:
        return "too_long"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in part):
        return "control_character"
    if not _FORBIDDEN.isdisjoint(part) or part[-1] in ". " or part[0] == " ":
        return "not_portable"
    if part.partition(".")[0].rstrip().lower() in _DEVICES:
        return "device_name"
    return "" if unicodedata.normalize("NFC", part) == part else "not_normalised"


def colliding(paths: Iterable[str]) -> str:
    """A path that a disk might take for another one of these; empty if there is none."""
    names: dict[str, str] = {}  # as a disk that ignores case sees it, and as it is written; folders end in a slash
    for path in paths:
        parts = path.split("/")
        folders = ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
        if any(names.setdefault(_seen(folder), folder) != folder for folder in folders):
            return path
        if any(_seen(folder[:-1]) in names for folder in folders) or _seen(path) + "/" in names or _seen(path) in names:
            return path
        names[_seen(path)] = path
    return ""


def _seen(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())
