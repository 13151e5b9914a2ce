"""What can be shown to others? A copy in which people, projects, paths, mail and host names have placeholders.

    placeholders = Placeholders()
    anonymiser = Anonymiser(placeholders, names={"user": ["Ada"]})
    heads, records = anonymiser.anonymise(heads, records)      # plain dictionaries, as `to_dict()` gives them
    back = anonymiser.restore(records[0])                      # with the same placeholders, or `from_key` of their key

Names are learned from where they are known to be names (a session's `user`, `project` and id, the `author` of what a
user said, `approved_by`, …) and from `names`; then they are replaced everywhere, in every text, tag, key and id.
Guarantees: structure stays: fields, types, order, times, ids by number, relations, references across sessions. The same
name has the same placeholder in all calls with one `Placeholders`; `restore` gives back exactly what was there, also
where a text already said "User-1". Nothing that is handed in is changed. Linear in the text.
Non-guarantees: a name that appears nowhere as a name, in another spelling or inside a word (`adasLaptop`) is not
known. Times stay: they can tell who it was. Secrets are the business of `redact`.
"""

from __future__ import annotations

import re

from smp.privacy.placeholders import AGENT, EMAIL, HOST, PATH, PROJECT, SESSION, SHAPE, USER, Placeholders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Fields = dict[str, Any]

SETTINGS = {"users": USER, "projects": PROJECT, "paths": PATH, "emails": EMAIL, "hosts": HOST, "sessions": SESSION}
UNTOUCHED = frozenset(
    ("type", "created", "updated", "revision", "schema", "checksum", "seq", "author_kind", "format", "generation", "numbers")
)  # fmt: skip
_NOBODY = frozenset(
    ("user", "assistant", "system", "tool", "agent", "unknown", "anonymous", "human", "me", "you", "none", "team", "all")
)  # fmt: skip
_NOT_HOSTS = frozenset(["localhost", "127.0.0.1", "0.0.0.0", "::1"])  # noqa: S104  # names, nothing listens
_BY_AGENTS_OR_PEOPLE = ("approved_by", "agreed_by")

_EMAIL = r"(?P<email>(?<![\w.%+-])[\w.%+'-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?![\w-]))"
_URL_HOST = r"(?<=://)(?P<host>(?:[\w-]{1,63}+\.){0,8}[\w-]{1,63}+)(?=[:/?#\s\"'<>)\].,;]|$)"
_NUMERIC_HOST = r"(?P<ip>(?<![\w.])(?:[0-9]{1,3}+\.){3}[0-9]{1,3}+(?![\w]|\.[0-9]))"
_PATH = (
    r"(?P<path>(?<![\w/.:~<@+-])(?:[A-Za-z]:[\\/]++(?:[^\s\\/:*?\"<>|,;]++[\\/]++)*+(?:[^\s\\/:*?\"<>|,;]*[\w-])?"
    r"|~?/(?:[\w.+@-]++/{1,3}+)++(?:[\w.+@-]*[\w-])?(?!/)"
    r"|(?:[\w.+@-]++/)++[\w.+@-]*\.[A-Za-z]\w{0,7}(?![\w/-]|\.+[\w-])))"
)


class Anonymiser:
    """Replaces what it has learned. `off` names what stays: users, projects, paths, emails, hosts, sessions."""

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
        self._kinds: dict[str, str] = {}  # a name, its case folded → what it names
        self._known_agents: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for kind in (USER, PROJECT, AGENT, SESSION, HOST):
            self._learn_all(kind, placeholders.names(kind))
        for kind, given in (names or {}).items():
            self._learn_all(kind, given)

    def anonymise(self, heads: Iterable[Fields], records: Iterable[Fields]) -> tuple[list[Fields], list[Fields]]:
        """Copies of the heads of sessions and of records, after all names in them were learned."""
        heads, records = list(heads), list(records)
        for head in heads:
            self.learn_head(head)
        for record in records:
            self.learn(record)
        return [self.fields(head) for head in heads], [self.fields(record) for record in records]

    def learn_head(self, head: Fields) -> None:
        """Names that the head of a session tells."""
        self._learn_all(SESSION, [head.get("id")])
        self._learn_all(USER, [head.get("user")])
        self._learn_all(PROJECT, [head.get("project")])
        self._known_agents.update(name for name in head.get("agents") or () if isinstance(name, str))
        self._learn_all(AGENT, head.get("agents") or ())

    def learn(self, record: Fields) -> None:
        """Names that a record tells."""
        author = record.get("author")
        by_user = record.get("author_kind") == USER or record.get("role") == USER
        if isinstance(author, str) and not by_user:
            self._known_agents.add(author)
        self._learn_all(USER if by_user else AGENT, [author])
        self._learn_all(AGENT, [record.get("agent")])
        self._learn_all(SESSION, [record.get("session")])
        self._learn_all(USER, [record.get("user")])
        self._learn_all(PROJECT, [record.get("project")])
        for field in _BY_AGENTS_OR_PEOPLE:
            given = record.get(field) or ()
            people = [given] if isinstance(given, str) else given
            self._learn_all(USER, [name for name in people if name not in self._known_agents])

    def fields(self, data: Fields) -> Fields:
        """A copy with placeholders, from what was learned so far."""
        return _mapped_fields(data, self.text)

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
            if isinstance(name, str) and len(name.strip()) > 1 and name.strip().casefold() not in _NOBODY:
                self._learn(kind, name.strip())

    def _learn(self, kind: str, name: str) -> None:
        """A person's full name also stands for its parts: Ada of Ada Lovelace."""
        self._add(kind, name)
        for part in name.split() if kind == USER and " " in name else ():
            if len(part) > 1 and part.casefold() not in _NOBODY and self._add(kind, part):
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
            parts = [f"(?P<literal>{SHAPE})", _EMAIL, _URL_HOST, _NUMERIC_HOST, _PATH]
            self._pattern = re.compile("|".join([*parts, *known]))
        return self._pattern

    def _replace(self, match: re.Match[str]) -> str:
        found, text = str(match.lastgroup), match.group()
        kind = {"ip": HOST, "literal": _kind_of(text), "name": self._kinds.get(text.casefold(), "")}.get(found, found)
        if kind in self._off or not kind:
            return self._inside(text, found)
        if kind == HOST and (text in _NOT_HOSTS or ("." not in text and found == "host")):
            return self._inside(text, found)
        return self.placeholders.of(kind, text)

    def _inside(self, text: str, found: str) -> str:
        """What stays as a whole may have a name in it."""
        if found in ("name", "literal") or not self._kinds:
            return text
        names = "|".join(re.escape(name) for name in sorted(self._kinds, key=len, reverse=True))
        return re.sub(
            rf"(?i)(?<![^\W_])(?:{names})(?![^\W_])",
            lambda match: self.placeholders.of(self._kinds[match.group().casefold()], match.group()),
            text,
        )


def _kind_of(placeholder: str) -> str:
    """Of what kind a text is that already looks like a placeholder: it gets one of its own, or it could not come back."""
    if placeholder.startswith("/path"):
        return PATH
    first = placeholder.partition("-")[0].lower()
    return first if first in (USER, PROJECT, AGENT, SESSION, EMAIL, HOST) else ""


def _mapped_fields(data: Fields, change: Callable[[str], str]) -> Fields:
    """The names of a memory's fields stay, and what SMP itself wrote into some of them."""
    return {name: value if name in UNTOUCHED else _mapped(value, change) for name, value in data.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A copy with every string changed, keys too."""
    if type(value) is str:
        return change(value)
    if type(value) is dict:
        return {change(key): _mapped(item, change) for key, item in value.items()}
    if type(value) is list:
        return [_mapped(item, change) for item in value]
    return value
