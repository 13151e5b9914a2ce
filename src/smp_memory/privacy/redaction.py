"""Redact secrets: replace them by `[REDACTED:kind]` before anything is written.

    redactor = Redactor({"off": ["phone"]})
    text, removals = redactor.redact("mail ada@example.org")     # 'mail [REDACTED:email]'
    data, removals = redactor.redact_fields(fields)              # all strings in it; `data is fields` if nothing was found

Settings: `enabled`, `off` (groups such as `phone`, or kinds such as `github_token`), `patterns` (user-defined, see
`custom_patterns`). `GROUPS` lists all groups and kinds.
Guarantees: linear in any text; redacting again changes nothing; a removal states kind, field and length, never the
secret. Ids, references, times, checksums, idempotency keys and opaque states and embeddings of frameworks (`opaque`, `embedding`) are not touched, and UUIDs, git
hashes and digests are kept unless their name makes them a key. Authors may be mail addresses (`IDENTITIES`).
Non-guarantees: a secret of unknown form without the name of a secret is not found. docs/privacy.md has the figures.
"""

from __future__ import annotations

from smp_memory.errors import InvalidConfig
from smp_memory.privacy import key_value_rules, prefilter
from smp_memory.privacy.context_rules import RULES
from smp_memory.privacy.prefilter import LongWordIndex
from smp_memory.privacy.rules import NUMBERS, Rule, may_have_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, NoReturn

    Ranked = tuple[int, Rule]
    Found = tuple[int, int, int, str]  # start, end, rank of its rule, kind

OPENING, REPLACEMENT = "[REDACTED", "[REDACTED:{kind}]"
UNTOUCHED = frozenset(
    ["id", "session", "type", "created", "updated", "revision", "schema", "checksum",
     "seq", "author_kind", "agent", "turn_ref", "references", "relations", "access", "visibility",
     "trust", "idempotency_key", "valid_from", "valid_until", "covers", "learned_from", "role", "opaque", "embedding"]
)  # fmt: skip
IDENTITIES = frozenset(["author", "by", "updated_by", "resolved_by", "approved_by", "agreed_by", "agents_involved"])
TAG_PREFIX = "redacted."  # a tag cannot contain brackets
_MIN_TEXT = 4  # no rule matches a shorter text
_MAX_PASSES = 6
_GATES = (" -", "pass", "'", '"', "=", "://", ": ", ":", "$", "pw", "auth", "secret", "")
_MAX_FIELD_NAME = 20  # a longer name of a field may be a secret itself


class RedactedSpan:
    """One redaction: kind, field and length of the removed text."""

    __slots__ = ("field", "kind", "length")

    def __init__(self, kind: str, length: int, field: str = "") -> None:
        self.kind = kind
        self.length = length
        self.field = field

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactedSpan) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[str, int, str]:
        return self.kind, self.length, self.field

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "field": self.field, "length": self.length}

    def __repr__(self) -> str:
        return f"RedactedSpan({self.kind}, {self.length} characters{f' in {self.field}' if self.field else ''})"


class _KeyValueRule(Rule):
    """Passwords and secrets by their names; name and value determine the kind."""

    __slots__ = ("_off",)

    def __init__(self, off: frozenset[str]) -> None:
        super().__init__("", key_value_rules.TRIGGERS, "", group="password", lowered=True)
        self._off = off

    def spans(self, text: str, low: str) -> Iterator[tuple[int, int, str]]:
        found = key_value_rules.spans(text, low)
        return (span for span in found if span[2] not in self._off) if self._off else found


_BY_NAME = ("password", "secret", "unknown_secret", "aws_secret_key", "datadog_key")
GROUPS: dict[str, list[str]] = {}
for _rule in (*RULES, *NUMBERS):
    _kinds = GROUPS.setdefault(_rule.group, [])
    if _rule.kind not in _kinds:
        _kinds.append(_rule.kind)
GROUPS["api_key"] += ["aws_secret_key", "datadog_key"]
for _kind in ("password", "secret", "unknown_secret"):
    _kinds = GROUPS.setdefault(_kind, [])
    if _kind not in _kinds:
        _kinds.append(_kind)
NAMES = frozenset([*GROUPS, *(kind for kinds in GROUPS.values() for kind in kinds)])


class Redactor:
    """Redacts with a set of rules. Expensive to make, thread-safe: make one and keep it."""

    __slots__ = ("_always", "_beyond_ascii", "_has_custom_rules", "_long_words", "_names_matter", "_numbers", "_off", "_replacement", "_triggers", "enabled")  # fmt: skip

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        given = settings or {}
        self.enabled = bool(given.get("enabled", True))
        self._off = _switched_off(given.get("off", ()))
        self._replacement = str(given.get("replacement", REPLACEMENT))
        rules = [rule for rule in RULES if rule.kind not in self._off]
        custom = _custom_rules(given.get("patterns", ()))
        self._has_custom_rules = bool(custom)  # the prefilter knows only the built-in rules
        self._names_matter = any(kind not in self._off for kind in _BY_NAME)
        names = [_KeyValueRule(self._off)] if self._names_matter else []
        rules = [*custom, *(rule for rule in rules if rule.kind != "unknown_secret"), *names, *rules]
        ranked = list(enumerate(dict.fromkeys(rules)))  # the most exact ones first
        self._always = [(rank, rule) for rank, rule in ranked if not rule.triggers]
        self._beyond_ascii = [each for each in ranked if isinstance(each[1], _KeyValueRule)]
        by_trigger = [each for each in ranked if not each[1].in_long_word or each[1].by_context]
        self._triggers = _gated((trigger.lower(), each) for each in by_trigger for trigger in each[1].triggers)
        self._long_words = LongWordIndex(each for each in ranked if each[1].in_long_word and not each[1].by_context)
        self._numbers = [(1000 + rank, rule) for rank, rule in enumerate(NUMBERS) if rule.kind not in self._off]

    def redact(self, text: str, field: str = "") -> tuple[str, list[RedactedSpan]]:
        """The text without secrets, and the redactions."""
        if not self.enabled or len(text) < _MIN_TEXT:
            return text, []
        return self._redact(text, field)

    def redact_fields(self, data: dict[str, Any]) -> tuple[dict[str, Any], list[RedactedSpan]]:
        """The fields of a memory without secrets in any string; the same dictionary object if there are none."""
        if not self.enabled:
            return data, []
        texts: list[str] = []
        if not self._collect_top(data, texts) and not self.may_contain_secret("\n".join(texts)):
            return data, []  # the common case: one check of all texts together is enough
        removals: list[RedactedSpan] = []
        cleaned = self._clean_dict(data, "", removals, top=True)
        return (cleaned, removals) if removals else (data, [])

    def may_contain_secret(self, text: str) -> bool:
        """Whether a rule matches in a text, or in several texts joined by line breaks."""
        if not self.enabled:
            return False
        verdict = prefilter.classify(text) if not self._has_custom_rules else None
        if verdict == prefilter.NOTHING:
            return False
        if verdict == prefilter.NAMES:
            return self._names_matter and next(key_value_rules.spans(text, _lower(text)), None) is not None
        return bool(self._found(text, _lower(text)))

    # -- text

    def _mark(self, kind: str) -> str:
        return self._replacement.replace("{kind}", kind)

    def _redact(self, text: str, field: str) -> tuple[str, list[RedactedSpan]]:
        removals: list[RedactedSpan] = []
        for _ in range(_MAX_PASSES):  # a redaction may reveal that its neighbour is a secret, too
            found = self._found(text, _lower(text))
            if not found:
                break
            pieces: list[str] = []
            at = 0
            for start, end, _, kind in _merged(found):
                pieces += (text[at:start], self._mark(kind))
                removals.append(RedactedSpan(kind, end - start, field))
                at = end
            text = "".join([*pieces, text[at:]])
        return text, removals

    def _found(self, text: str, low: str) -> list[Found]:
        found: list[Found] = []
        for rank, rule in self._rules_for(text, low):
            found += [(start, end, rank, kind) for start, end, kind in rule.spans(text, low) if start < end]
        if found and OPENING in text:
            found = _outside_placeholders(text, found)
        return found

    def _rules_for(self, text: str, low: str) -> list[tuple[int, Rule]]:
        """The rules that have a trigger in the text."""
        rules = list(self._always) if text.isascii() else [*self._always, *self._beyond_ascii]
        for gate, triggers in self._triggers:
            if gate in low:
                for trigger, found in triggers:
                    if trigger in low:
                        rules += found
        rules += self._long_words.rules_in(text)
        if self._numbers and may_have_number(text):
            rules += [each for each in self._numbers if _is_triggered(each[1], low)]
        return rules if len(rules) < 2 else list(dict.fromkeys(rules))

    # -- fields

    def _collect_top(self, data: dict[str, Any], texts: list[str]) -> bool:
        """`_collect` for the top-level fields of a memory, most of which are plain text with an ordinary name."""
        known = _FIELD_CLASSES
        for key, item in data.items():
            field_class = known.get(key) or _field_class(key)
            if type(item) is str and (field_class == _PLAIN or (field_class == _IDENTITY and "@" not in item)):
                texts.append(item)
            elif field_class == _PLAIN and type(item) is list and _is_text_list(item):
                texts += item
                if "-" in "".join(item) and key_value_rules.is_arguments(item):
                    texts.append(" ".join(item))
            elif field_class != _UNTOUCHED and self._collect_field(
                key, item, texts, _name_of(key, field_class, data, "")
            ):
                return True
            elif field_class == _LONG:
                texts.append(key)
        return False

    def _collect_field(self, key: str, item: Any, texts: list[str], name: str) -> bool:
        if name and self._kind_by_name(name, item):
            return True
        if type(item) is str:
            if not (_is_address(item) and key in IDENTITIES):
                texts.append(item)
            return False
        return type(item) in _CONTAINERS and self._collect(_without_names(key, item), texts, name)

    def _collect(self, value: Any, texts: list[str], name: str) -> bool:
        """Collect all strings; returns True as soon as the name of a field makes its value a secret."""
        if type(value) is dict:
            for key, item in value.items():
                field_class = _FIELD_CLASSES.get(key) or _field_class(key)
                if field_class == _PLAIN:
                    if type(item) is str:
                        texts.append(item)
                    elif type(item) in _CONTAINERS and self._collect(item, texts, ""):
                        return True
                elif self._collect_field(key, item, texts, _name_of(key, field_class, value, name)):
                    return True
                texts.append(key)
        elif type(value) is list:
            name = key_value_rules.item_name(name) if name else ""
            if key_value_rules.is_arguments(value):
                texts.append(" ".join(value))
            for item in value:
                if type(item) is str and not name:
                    texts.append(item)
                elif self._collect_field("", item, texts, name):
                    return True
        return False

    def _kind_by_name(self, name: str, value: Any) -> str | None:
        """The kind of secret that a text or a number is by its name, or None."""
        if not self._names_matter or key_value_rules.strength_of(name) is None:
            return None
        text = key_value_rules.as_text(value)
        if text is None or text.startswith(OPENING):
            return None
        kind = key_value_rules.is_secret_value(name, text)
        return None if kind in self._off else kind

    def _clean(self, value: Any, field: str, removals: list[RedactedSpan], name: str = "") -> Any:
        """The value without secrets; `name` is the name that applies to it."""
        kind = self._kind_by_name(name, value) if name else None
        if kind is not None:
            removals.append(RedactedSpan(kind, len(str(value)), field))
            return self._mark(kind)
        if type(value) is str:
            text, found = self.redact(value, field)
            removals += found
            if found and name and (kind := self._kind_by_name(name, text)):  # shorter now, so no sentence any more
                return self._mark(kind)
            return text
        if type(value) is dict:
            return self._clean_dict(value, field, removals, outer=name)
        if type(value) is list:
            name = key_value_rules.item_name(name) if name else ""
            cleaned = [self._clean(item, f"{field}[{place}]", removals, name) for place, item in enumerate(value)]
            return self._clean_arguments(cleaned, field, removals) if key_value_rules.is_arguments(cleaned) else cleaned
        return value

    def _clean_arguments(self, items: list[str], field: str, removals: list[RedactedSpan]) -> list[str]:
        """Redact a list of command-line arguments as one command line: `["--password", "x"]`, `["mysql", "-px"]`."""
        for _ in range(_MAX_PASSES):
            text = " ".join(items)
            found = self._found(text, _lower(text))
            if not found:
                break
            merged = _merged(found)
            removals += [RedactedSpan(kind, end - start, field) for start, end, _, kind in merged]
            items = key_value_rules.replace_spans(
                items, [(start, end, self._mark(kind)) for start, end, _, kind in merged]
            )
        return items

    def _clean_dict(
        self, value: dict[str, Any], field: str, removals: list[RedactedSpan], top: bool = False, outer: str = ""
    ) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            if top and key in UNTOUCHED:
                cleaned[key] = item
                continue
            shown, found = (key, []) if top and _is_field_name(key) else self.redact(key, field)
            removals += found
            place = f"{field}.{shown}" if field else shown
            name = _name_of(key, _FIELD_CLASSES.get(key) or _field_class(key), value, outer)
            cleaned[key_value_rules.free_key(shown, cleaned) if found else shown] = self._clean_item(
                key, item, place, removals, top, name
            )
        return cleaned

    def _clean_item(self, key: str, item: Any, place: str, removals: list[RedactedSpan], top: bool, name: str) -> Any:
        if top and key == "tags" and type(item) is list:
            return self._clean_tags(item, removals)
        if key in IDENTITIES and (_is_address(item) or type(item) is list):
            return item if type(item) is str else self._clean_names(item, place, removals)
        return self._clean(item, place, removals, name)

    def _clean_names(self, names: list[Any], field: str, removals: list[RedactedSpan]) -> list[Any]:
        """Redact a list of identities, in which mail addresses are names."""
        return [name if _is_address(name) else self._clean(name, field, removals) for name in names]

    def _clean_tags(self, tags: list[Any], removals: list[RedactedSpan]) -> list[Any]:
        """Replace each tag that contains a secret by a valid tag."""
        cleaned: list[Any] = []
        for tag in tags:
            found = self.redact(tag, "tags")[1] if type(tag) is str else []
            removals += found
            cleaned.append(TAG_PREFIX + found[0].kind if found else tag)
        return list(dict.fromkeys(cleaned)) if len(cleaned) == len(tags) and all(map(_is_text, cleaned)) else cleaned


_CONTAINERS = (dict, list)
# Classes of field names: ordinary, an identity, the name of a secret, the value of a pair, a long name, untouched.
_PLAIN, _IDENTITY, _NAMED, _PAIRED, _LONG, _UNTOUCHED = "plain", "identity", "named", "paired", "long", "untouched"
_FIELD_CLASSES: dict[str, str] = {}  # cache by field name
_MAX_FIELD_CLASSES = 1000


def _is_field_name(key: str) -> bool:
    """Whether a key looks like a field name: a custom pattern must not rename `decision`."""
    return key.isascii() and key.islower() and key.replace("_", "").isalpha()


def _field_class(key: str) -> str:
    if key in UNTOUCHED:
        field_class = _UNTOUCHED
    elif key in key_value_rules.VALUE_KEYS:
        field_class = _PAIRED
    elif "@" in key or len(key) > _MAX_FIELD_NAME:
        return _LONG
    else:
        field_class = _NAMED if key_value_rules.is_secret_name(key) else _IDENTITY if key in IDENTITIES else _PLAIN
    if len(_FIELD_CLASSES) < _MAX_FIELD_CLASSES:
        _FIELD_CLASSES[key] = field_class
    return field_class


def _name_of(key: str, field_class: str, data: dict[str, Any], outer: str) -> str:
    """The name that applies to the value of a field, or "" if it is an ordinary one; `outer` is the name of the dictionary."""
    if field_class == _PAIRED:
        return key_value_rules.value_name(data, outer)
    return key if field_class in (_NAMED, _LONG) else ""


def _is_text_list(items: list[Any]) -> bool:
    for item in items:  # noqa: SIM110 - a generator would take twice as long, and every write calls this
        if type(item) is not str:
            return False
    return True


def _is_address(value: object) -> bool:
    return type(value) is str and "@" in value and "://" not in value


def _without_names(key: str, item: Any) -> Any:
    return [name for name in item if not _is_address(name)] if key in IDENTITIES and type(item) is list else item


def _is_text(value: object) -> bool:
    return type(value) is str


def _gated(triggers: Iterable[tuple[str, Ranked]]) -> list[tuple[str, list[tuple[str, list[Ranked]]]]]:
    """The rules by trigger, grouped by a common substring of the triggers, so that most texts rule out many at once."""
    by_trigger: dict[str, list[Ranked]] = {}
    for trigger, each in triggers:
        by_trigger.setdefault(trigger, []).append(each)
    gates: dict[str, list[tuple[str, list[Ranked]]]] = {gate: [] for gate in _GATES}
    for trigger, rules in by_trigger.items():
        gates[next(gate for gate in gates if gate in trigger)].append((trigger, rules))
    return list(gates.items())


def _is_triggered(rule: Rule, low: str) -> bool:
    return not rule.triggers or any(trigger in low for trigger in rule.triggers)


def _lower(text: str) -> str:
    """Lower case with unchanged length: every character keeps its position."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(map(_lower_character, text))


def _lower_character(character: str) -> str:
    low = character.lower()
    return low if len(low) == 1 else character


def _merged(found: list[Found]) -> list[Found]:
    """Merge overlapping matches; the kind is that of the most exact rule."""
    found.sort()
    merged = [found[0]]
    for start, end, rank, kind in found[1:]:
        last = merged[-1]
        if start >= last[1]:
            merged.append((start, end, rank, kind))
        elif rank < last[2]:
            merged[-1] = (last[0], max(end, last[1]), rank, kind)
        else:
            merged[-1] = (last[0], max(end, last[1]), last[2], last[3])
    return merged


def _outside_placeholders(text: str, found: list[Found]) -> list[Found]:
    """Drop matches inside existing placeholders."""
    import re

    placeholders = [match.span() for match in re.finditer(r"\[REDACTED(?::[a-z0-9_]{1,32})?\]", text)]
    found.sort()
    kept, index = [], 0
    for each in found:
        while index < len(placeholders) and placeholders[index][1] <= each[0]:
            index += 1
        if index == len(placeholders) or each[1] <= placeholders[index][0] or each[0] < placeholders[index][0]:
            kept.append(each)
    return kept


def _switched_off(off: Any) -> frozenset[str]:
    names = [off] if isinstance(off, str) else list(off)
    for name in names:
        if name not in NAMES:
            _unknown(name)
    return frozenset(kind for name in names for kind in GROUPS.get(name, [name]))


def _unknown(name: object) -> NoReturn:
    raise InvalidConfig(
        f"Bad value for the setting 'privacy.redaction.off': {repr(name)[:80]} is not a rule. "
        f"Use one of {', '.join(GROUPS)}, or a kind such as github_token.",
        key="privacy.redaction.off",
    )


def _custom_rules(patterns: Any) -> list[Rule]:
    if not patterns:
        return []
    from smp_memory.privacy.custom_patterns import custom_rules

    return custom_rules(patterns, NAMES)
