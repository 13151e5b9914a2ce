"""Anonymise records: replace names of people, projects, paths, mail addresses and hosts by placeholders.

    placeholders = Placeholders()
    anonymiser = Anonymiser(placeholders, names={"user": ["Ada"]})
    sessions, records = anonymiser.anonymise(sessions, records)  # plain dictionaries, as `to_dict()` gives them
    back = anonymiser.restore(records[0])                      # with the same placeholders, or `from_key` of their key

Names are learned from where they are known to be names (a session's `user`, `project` and id, the `author` of a
user's turns, `approved_by`, …) and from `names`; then they are replaced everywhere, in every text, tag, key and id.
Guarantees: the structure is kept: fields, types, order, times, ids by number, relations, references across sessions. The same
name has the same placeholder in all calls with one `Placeholders`; `restore` returns exactly the original, also
where a text already contained "User-1". The input is not changed. Linear in the text.
Hosts are those in addresses, and names that end in a top-level or internal domain (`db7.corp.com`, `srv-1.internal`); where modules and
attributes end the same (`java.io`, `threading.local`), only if a part has a digit or a dash, or the name begins as those of hosts do (`api.`).
Non-guarantees: a name that appears nowhere as a name, in another spelling or inside a word (`adasLaptop`) is not
recognised. Times are kept, and may identify a person. Secrets are handled by `redaction`.

Forms of placeholders:

    User-1  Project-A  Agent-1  Session-1   another spelling of the same name: User-1b
    /path/dir-1/src/file-2.py               depth, file extension and common folder names are kept
    email-1@example.invalid  host-1.example.invalid

Two originals never share a placeholder. `key()` is sufficient and necessary to reverse all placeholders; it is not encrypted
and as private as the names in it.
"""

from __future__ import annotations

import json
import re

from smp_memory.errors import InvalidFormat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Fields = dict[str, Any]


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
SHAPE = (  # the form of a placeholder, anywhere in a text
    r"(?<![^\W_])(?:(?:User|Agent|Session)-[0-9]+[a-z]*|Project-[A-Z]+[a-z]*|email-[0-9]+@example\.invalid"
    r"|host-[0-9]+\.example\.invalid)(?![^\W_])|/path(?:/[\w.-]*[\w-])+"
)
_KEPT_FOLDERS = frozenset(
    ("src", "lib", "bin", "test", "tests", "doc", "docs", "app", "apps", "build", "dist", "config", "scripts", "tools", "packages", "public", "static", "assets",
     "templates", "components", "models", "views", "api", "cmd", "internal", "pkg", "include", "main", "java", "python", "node_modules", "unit", "e2e")
)  # fmt: skip
_FOLDER = "folder"
_MAX_DEPTH = 40  # deeper folders are treated as one name
_SMALL = "abcdefghijklmnopqrstuvwxyz"
_HOMES = frozenset(["home", "Users", "users", "~"])


_OPAQUE = ("opaque", "embedding")


class Placeholders:
    """Originals and their placeholders, in both directions."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self._back: dict[str, str] = {}
        self._stems: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}  # one person in several spellings
        self._folders: dict[str, str] = {}
        self._counts = dict.fromkeys((*KINDS, _FOLDER), 0)

    def of(self, kind: str, original: str) -> str:
        """The placeholder of this original, assigned on first use."""
        known = self._given[kind].get(original)
        if known is None:
            known = self._new_path(original) if kind == PATH else self._new(kind, original)
            self._given[kind][original] = known
            self._back[known] = original
        return known

    def same(self, kind: str, spelling: str, original: str) -> None:
        """Register another spelling of a name: its placeholder shows the relation, User-1b and User-1."""
        self._stems[kind].setdefault(spelling.casefold(), self.of(kind, original))

    def original(self, placeholder: str) -> str | None:
        """The name behind a placeholder."""
        return self._back.get(placeholder)

    def names(self, kind: str) -> list[str]:
        """The names of a kind that have placeholders."""
        return list(self._given[kind])

    def key(self) -> str:
        """All pairs as JSON text, to be kept private."""
        return json.dumps({"smp_key": KEY_FORMAT, **self._given}, ensure_ascii=False, indent=1)

    @classmethod
    def from_key(cls, text: str) -> Placeholders:
        """Read the output of `key()`; raises InvalidFormat for anything else."""
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
            raise InvalidFormat(f"The file of names contains {placeholder} twice; it is damaged.")
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
        """Remember the folders, so that other paths below them get the same placeholders."""
        walked = ""
        for folder, made in zip(_pieces(path)[:-1], placeholder.split("/")[2:], strict=False):
            walked += "/" + folder
            if walked not in self._folders:
                self._folders[walked] = made
                self._counts[_FOLDER] += made.startswith("dir-")


def _pieces(path: str) -> list[str]:
    """The parts of a path; a home folder and its owner are one part, so that /home/ada is as deep as ~."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    if len(parts) > 2 and parts[0] in _HOMES and parts[0] != "~":
        parts[:2] = ["/".join(parts[:2])]
    if len(parts) > _MAX_DEPTH:
        parts[_MAX_DEPTH:] = ["/".join(parts[_MAX_DEPTH:])]
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
        raise InvalidFormat(
            f"not a file of names: {type(error).__name__}. Use the one written by the anonymised export."
        ) from None
    if not isinstance(given, dict) or given.get("smp_key") != KEY_FORMAT:
        raise InvalidFormat(
            "not a file of names that this version of smp can read. Use the one written by the anonymised export."
        )
    for kind in KINDS:
        pairs = given.get(kind)
        if not isinstance(pairs, dict) or not all(isinstance(each, str) for each in pairs.values()):
            raise InvalidFormat(f"The file of names has no readable {kind} names; it is damaged.", field=kind)
    return given


SETTINGS = {"users": USER, "projects": PROJECT, "paths": PATH, "emails": EMAIL, "hosts": HOST, "sessions": SESSION}
UNTOUCHED = frozenset(
    ("type", "created", "updated", "revision", "schema", "checksum", "seq", "author_kind", "format", "generation", "numbers")
)  # fmt: skip
_GENERIC_NAMES = frozenset(
    ("user", "assistant", "system", "tool", "agent", "unknown", "anonymous", "human", "me", "you", "none", "team", "all")
)  # fmt: skip
_NOT_HOSTS = frozenset(["localhost", "127.0.0.1", "0.0.0.0", "::1"])  # noqa: S104  # names, nothing listens
_AGENTS_OR_PEOPLE = ("approved_by", "agreed_by")

_EMAIL = r"(?P<email>(?<![\w.%+-])[\w.%+'-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?![\w-]))"
_URL_HOST = r"(?<=://)(?P<host>(?:[\w-]{1,63}+\.){0,8}[\w-]{1,63}+)(?=[:/?#\s\"'<>)\].,;]|$)"
_NUMERIC_HOST = r"(?P<ip>(?<![\w.])(?:[0-9]{1,3}+\.){3}[0-9]{1,3}+(?![\w]|\.[0-9]))"
_DOMAINS = (  # no module, attribute or file name ends in these
    "com|org|edu|gov|mil|eu|de|ch|fr|uk|ca|au|nl|se|dk|fi|es|ie|cz|ru|ua|cn|jp|kr|br|mx|za|nz|biz"
    "|internal|lan|corp|intra|intranet|localdomain|home\\.arpa|in-addr\\.arpa"
)
_AMBIGUOUS_DOMAINS = "net|at|be|no|us|io|dev|app|ai|co|me|tv|it|info|cloud|online|site|tech|local|home|private|test"
_FIRST_OF_HOSTS = "www|api|db|mail|smtp|imap|ftp|git|ci|cdn|auth|sso|vpn|ns|mx|web|proxy|gateway|registry|staging|prod"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_BARE_HOST = (
    r"(?P<bare>(?i:(?<![\w.@/\\-])(?!(?:com|org|net|io|java|javax)\.)"
    rf"(?:(?:{_LABEL}\.){{1,8}}(?:{_DOMAINS})"
    rf"|(?=[A-Za-z.]{{0,60}}[0-9-]|(?:{_FIRST_OF_HOSTS})\.[A-Za-z0-9-]{{1,63}}\.)(?:{_LABEL}\.){{1,8}}(?:{_AMBIGUOUS_DOMAINS}))"
    r"(?![\w(-]|\.\w)))"
)
_PATH = (
    r"(?P<path>(?<![\w/.:~<@+-])(?:[A-Za-z]:[\\/]++(?:[^\s\\/:*?\"<>|,;]++[\\/]++)*+(?:[^\s\\/:*?\"<>|,;]*[\w-])?"
    r"|~?/(?:[\w.+@-]++/{1,3}+)++(?:[\w.+@-]*[\w-])?(?!/)"
    r"|(?:[\w.+@-]++/)++[\w.+@-]*\.[A-Za-z]\w{0,7}(?![\w/-]|\.+[\w-])))"
)


class Anonymiser:
    """Replaces learned names. `off` lists what is kept: users, projects, paths, emails, hosts, sessions."""

    def __init__(
        self,
        placeholders: Placeholders,
        *,
        names: Mapping[str, Iterable[str]] | None = None,
        agents: bool = False,
        off: Iterable[str] = (),
    ) -> None:
        self.placeholders = placeholders
        self._agents = agents
        self._off = {SETTINGS[name] for name in off}
        self._kinds: dict[str, str] = {}  # a name, case-folded → its kind
        self._known_agents: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for kind in (USER, PROJECT, AGENT, SESSION, HOST):
            self._learn_all(kind, placeholders.names(kind))
        for kind, given in (names or {}).items():
            self._learn_all(kind, given)

    def anonymise(self, sessions: Iterable[Fields], records: Iterable[Fields]) -> tuple[list[Fields], list[Fields]]:
        """Anonymised copies of session metadata and records, after all names in them were learned."""
        sessions, records = list(sessions), list(records)
        for session in sessions:
            self.learn_session(session)
        for record in records:
            self.learn(record)
        return [self.fields(session) for session in sessions], [self.fields(record) for record in records]

    def learn_session(self, session: Fields) -> None:
        """Learn the names in the metadata of a session."""
        self._learn_all(SESSION, [session.get("id")])
        self._learn_all(USER, [session.get("user")])
        self._learn_all(PROJECT, [session.get("project")])
        self._known_agents.update(name for name in session.get("agents") or () if isinstance(name, str))
        self._learn_all(AGENT, session.get("agents") or ())

    def learn(self, record: Fields) -> None:
        """Learn the names in a record."""
        author = record.get("author")
        by_user = record.get("author_kind") == USER or record.get("role") == USER
        if isinstance(author, str) and not by_user:
            self._known_agents.add(author)
        self._learn_all(USER if by_user else AGENT, [author])
        self._learn_all(AGENT, [record.get("agent")])
        self._learn_all(SESSION, [record.get("session")])
        self._learn_all(USER, [record.get("user")])
        self._learn_all(PROJECT, [record.get("project")])
        for field in _AGENTS_OR_PEOPLE:
            given = record.get(field) or ()
            people = [given] if isinstance(given, str) else given
            self._learn_all(USER, [name for name in people if name not in self._known_agents])

    def fields(self, data: Fields) -> Fields:
        """A copy with placeholders for all names learned so far, and without states of frameworks, in which nobody can see names."""
        return _mapped_fields(_without_opaque(data), self.text)

    def text(self, text: str) -> str:
        return self._matcher().sub(self._replace, text)

    def restore(self, data: Fields) -> Fields:
        """A copy with the originals in place of the placeholders."""
        return _mapped_fields(data, self.restore_text)

    def restore_text(self, text: str) -> str:
        return re.sub(SHAPE, lambda match: self.placeholders.original(match.group()) or match.group(), text)

    # -- learning

    def _learn_all(self, kind: str, names: Iterable[Any]) -> None:
        if kind in self._off or (kind == AGENT and not self._agents):
            return
        for name in names:
            if isinstance(name, str) and len(name.strip()) > 1 and name.strip().casefold() not in _GENERIC_NAMES:
                self._learn(kind, name.strip())

    def _learn(self, kind: str, name: str) -> None:
        """Learn a name; of a person's full name also the parts: Ada of Ada Lovelace."""
        self._add(kind, name)
        for part in name.split() if kind == USER and " " in name else ():
            if len(part) > 1 and part.casefold() not in _GENERIC_NAMES and self._add(kind, part):
                self.placeholders.same(kind, part, name)

    def _add(self, kind: str, name: str) -> bool:
        if name.casefold() in self._kinds:
            return False
        self._kinds[name.casefold()] = kind
        self._pattern = None
        return True

    # -- replacing

    def _matcher(self) -> re.Pattern[str]:
        if self._pattern is None:
            names = "|".join(re.escape(name) for name in sorted(self._kinds, key=len, reverse=True))
            known = [rf"(?P<name>(?i:(?<![^\W_])(?:{names})(?![^\W_])))"] if names else []
            parts = [f"(?P<literal>{SHAPE})", _EMAIL, _URL_HOST, _NUMERIC_HOST, _PATH, _BARE_HOST]
            self._pattern = re.compile("|".join([*parts, *known]))
        return self._pattern

    def _replace(self, match: re.Match[str]) -> str:
        found, text = str(match.lastgroup), match.group()
        kind = {"ip": HOST, "bare": HOST, "literal": _kind_of(text), "name": self._kinds.get(text.casefold(), "")}.get(
            found, found
        )
        if kind in self._off or not kind:
            return self._replace_names_in(text, found)
        if kind == HOST and (text in _NOT_HOSTS or ("." not in text and found == "host")):
            return self._replace_names_in(text, found)
        return self.placeholders.of(kind, text)

    def _replace_names_in(self, text: str, found: str) -> str:
        """Replace names inside a match that is kept as a whole."""
        if found in ("name", "literal") or not self._kinds:
            return text
        names = "|".join(re.escape(name) for name in sorted(self._kinds, key=len, reverse=True))
        return re.sub(
            rf"(?i)(?<![^\W_])(?:{names})(?![^\W_])",
            lambda match: self.placeholders.of(self._kinds[match.group().casefold()], match.group()),
            text,
        )


REMOVED = "[removed]"


def without_placeholders(data: Fields) -> Fields:
    """A copy with `REMOVED` in place of placeholders; those of sessions and agents stay, because they are identities."""

    def removed(match: re.Match[str]) -> str:
        return match.group() if _kind_of(match.group()) in (SESSION, AGENT) else REMOVED

    return _mapped_fields(data, lambda text: re.sub(SHAPE, removed, text))


def _kind_of(placeholder: str) -> str:
    """The kind of a text that already looks like a placeholder: it gets a placeholder itself, so that it can be restored."""
    if placeholder.startswith("/path"):
        return PATH
    first = placeholder.partition("-")[0].lower()
    return first if first in (USER, PROJECT, AGENT, SESSION, EMAIL, HOST) else ""


def _without_opaque(data: Fields) -> Fields:
    kept = {name: value for name, value in data.items() if name not in _OPAQUE}
    return {**kept, "context": _without_opaque(kept["context"])} if isinstance(kept.get("context"), dict) else kept


def _mapped_fields(data: Fields, change: Callable[[str], str]) -> Fields:
    """A copy with every string changed, except field names and the fields in `UNTOUCHED`."""
    return {name: value if name in UNTOUCHED else _mapped(value, change) for name, value in data.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A copy with every string changed, including keys."""
    if type(value) is str:
        return change(value)
    if type(value) is dict:
        return {change(key): _mapped(item, change) for key, item in value.items()}
    if type(value) is list:
        return [_mapped(item, change) for item in value]
    return value
