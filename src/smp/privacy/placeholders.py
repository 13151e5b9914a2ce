"""Who is User-1? Which placeholder stands for which name, path or address, the same in every call.

    User-1  Project-A  Agent-1  Session-1   a second spelling of the same name: User-1b
    /path/dir-1/src/file-2.py               as deep as the original, the ending kept, common folders kept
    email-1@example.invalid  host-1.example.invalid

Guarantees: the same original always has the same placeholder, two originals never share one; `key()` is all that is
needed to turn every placeholder back, and without it nothing here can.
Non-guarantees: the key is as private as the names in it; it is not encrypted.
"""

from __future__ import annotations

import json

from smp.errors import InvalidFormat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEY_FORMAT = 1
USER, PROJECT, AGENT, SESSION, PATH, EMAIL, HOST = KINDS = (
    "user",
    "project",
    "agent",
    "session",
    "path",
    "email",
    "host",
)
_FORMS = {
    USER: "User-{}",
    PROJECT: "Project-{}",
    AGENT: "Agent-{}",
    SESSION: "Session-{}",
    EMAIL: "email-{}@example.invalid",
    HOST: "host-{}.example.invalid",
}
SHAPE = (  # what a placeholder looks like, wherever it stands
    r"(?<![^\W_])(?:(?:User|Agent|Session)-[0-9]+[a-z]*|Project-[A-Z]+[a-z]*|email-[0-9]+@example\.invalid"
    r"|host-[0-9]+\.example\.invalid)(?![^\W_])|/path(?:/[\w.-]*[\w-])+"
)
_KEPT_FOLDERS = frozenset(
    ("src", "lib", "bin", "test", "tests", "doc", "docs", "app", "apps", "build", "dist", "config", "scripts", "tools", "packages", "public", "static", "assets",
     "templates", "components", "models", "views", "api", "cmd", "internal", "pkg", "include", "main", "java", "python", "node_modules", "unit", "e2e")
)  # fmt: skip
_FOLDER = "folder"
_DEEPEST = 40  # folders below are taken as one name
_SMALL = "abcdefghijklmnopqrstuvwxyz"
_HOMES = frozenset(["home", "Users", "users", "~"])


class Placeholders:
    """Originals and their placeholders, in both directions."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self._back: dict[str, str] = {}
        self._stems: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}  # one person in several spellings
        self._folders: dict[str, str] = {}
        self._counts = dict.fromkeys((*KINDS, _FOLDER), 0)

    def of(self, kind: str, original: str) -> str:
        """The placeholder of this original, a new one if it has none."""
        known = self._given[kind].get(original)
        if known is None:
            known = self._new_path(original) if kind == PATH else self._new(kind, original)
            self._given[kind][original] = known
            self._back[known] = original
        return known

    def same(self, kind: str, spelling: str, original: str) -> None:
        """Another spelling of a name gets a placeholder that shows it: User-1b beside User-1."""
        self._stems[kind].setdefault(spelling.casefold(), self.of(kind, original))

    def original(self, placeholder: str) -> str | None:
        return self._back.get(placeholder)

    def names(self, kind: str) -> list[str]:
        return list(self._given[kind])

    def key(self) -> str:
        """Everything, as JSON text for a file that stays at home."""
        return json.dumps({"smp_key": KEY_FORMAT, **self._given}, ensure_ascii=False, indent=1)

    @classmethod
    def from_key(cls, text: str) -> Placeholders:
        """From what `key()` gave; `InvalidFormat` if it is anything else."""
        given = _read(text)
        made = cls()
        for kind in KINDS:
            for original, placeholder in given[kind].items():
                made._remember(kind, original, placeholder)
        return made

    def __len__(self) -> int:
        return len(self._back)

    # -- making new ones

    def _remember(self, kind: str, original: str, placeholder: str) -> None:
        if placeholder in self._back:
            raise InvalidFormat(f"The key gives {placeholder} twice; it is damaged.")
        self._given[kind][original] = placeholder
        self._back[placeholder] = original
        self._counts[kind] += kind in (PATH, EMAIL, HOST) or not placeholder[-1:].islower()
        if kind == PATH:
            self._remember_folders(original, placeholder)
        elif kind not in (EMAIL, HOST):
            self._stems[kind].setdefault(original.casefold(), placeholder.rstrip(_SMALL) or placeholder)

    def _new(self, kind: str, original: str) -> str:
        stem = self._stems[kind].get(original.casefold())
        if stem is None or kind in (EMAIL, HOST):
            placeholder = self._next(kind)
            self._stems[kind].setdefault(original.casefold(), placeholder)
            return placeholder
        letter = 1
        while f"{stem}{_letters(letter).lower()}" in self._back:
            letter += 1
        return f"{stem}{_letters(letter).lower()}"

    def _next(self, kind: str) -> str:
        while True:
            number = self._count(kind)
            placeholder = _FORMS[kind].format(_letters(number - 1) if kind == PROJECT else number)
            if placeholder not in self._back:
                return placeholder

    def _count(self, kind: str) -> int:
        self._counts[kind] += 1
        return self._counts[kind]

    def _new_path(self, path: str) -> str:
        *folders, last = _pieces(path)
        walked, made = "", "/path"
        for folder in folders:
            walked += "/" + folder
            made += "/" + self._folder(walked, folder)
        stem, dot, ending = last.rpartition(".")
        ending = dot + ending if stem and ending.isalnum() and len(ending) <= 8 else ""
        while (placeholder := f"{made}/file-{self._count(PATH)}{ending}") in self._back:
            pass
        return placeholder

    def _folder(self, walked: str, name: str) -> str:
        if walked not in self._folders:
            self._folders[walked] = name if name in _KEPT_FOLDERS else f"dir-{self._count(_FOLDER)}"
        return self._folders[walked]

    def _remember_folders(self, path: str, placeholder: str) -> None:
        """So that further paths below the same folders stay together."""
        walked = ""
        for folder, made in zip(_pieces(path)[:-1], placeholder.split("/")[2:], strict=False):
            walked += "/" + folder
            if walked not in self._folders:
                self._folders[walked] = made
                self._counts[_FOLDER] += made.startswith("dir-")


def _pieces(path: str) -> list[str]:
    """The parts of a path; a home's folder is one with its owner, so that /home/ada is as deep as ~."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    if len(parts) > 2 and parts[0] in _HOMES and parts[0] != "~":
        parts[:2] = ["/".join(parts[:2])]
    if len(parts) > _DEEPEST:
        parts[_DEEPEST:] = ["/".join(parts[_DEEPEST:])]
    return parts or ["/"]


def _letters(number: int) -> str:
    """0 → A, 25 → Z, 26 → AA."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(65 + digit) + text
    return text


def _read(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat(f"This is not a key: {type(error).__name__}. Give the file that anonymise wrote.") from None
    if not isinstance(given, dict) or given.get("smp_key") != KEY_FORMAT:
        raise InvalidFormat("This is not a key that this version of smp knows. Give the file that anonymise wrote.")
    for kind in KINDS:
        pairs = given.get(kind)
        if not isinstance(pairs, dict) or not all(isinstance(each, str) for each in pairs.values()):
            raise InvalidFormat(f"The key has no {kind} names that can be read; it is damaged.", field=kind)
    return given
