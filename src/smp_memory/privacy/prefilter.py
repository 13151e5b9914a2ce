"""Cheap prefilter: texts that cannot contain a secret skip redaction.

`classify` guarantees: `NOTHING` is certain: no built-in rule matches the text. `NAMES`: only values with the name of a secret
can be secrets (`key_value_rules`). `PERHAPS`: all rules have to run.

Plain prose, with short words and neither digits nor signs, needs six passes in C, about 2 µs per 400 characters. In any other
text the signs are extracted first, so that literals with a sign are searched only if the sign occurs.

`LongWordIndex` selects the token rules for a text. A token of a provider is one long word that starts with a fixed prefix
after a character that is no letter or digit. The long words are split into runs of letters and digits, and the runs are looked
up in a table of prefixes, so that the cost does not grow with the number of providers.
Guarantees: every rule that could match is selected; linear in the text.
"""

from __future__ import annotations

from smp_memory.privacy import key_value_rules
from smp_memory.privacy.context_rules import RULES
from smp_memory.privacy.rules import LONG_WORD, MIN_DIGITS, Token
from smp_memory.privacy.validators import DIGITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.privacy.rules import Rule

    Ranked = tuple[int, Rule]


NOTHING, NAMES, PERHAPS = 0, 1, 2
_DIGITS = b"0123456789"
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # in ASCII; other spaces make a word seem longer, which gives PERHAPS
_LONG = b"x" * LONG_WORD
_KELVIN = "\u212a"  # the only non-ASCII character whose lower case is an ASCII letter
_COLON = "\uff1a"  # full-width: a sign, though its bytes look like those of letters

# Characters of prose; bytes of non-ASCII letters count as letters. In a text of nothing else only a long value can be a
# secret, whatever its name: there is no `=`, no `:`, no digit, no symbol, and no opening quote.
_PROSE = bytes([*b".,;()'", *range(0x41, 0x5B), *range(0x61, 0x7B), *range(0x80, 0x100)])
_QUOTED = b" '"
_SIGN = b"!"
_SHAPE = bytes(0x20 if each in _SPACES else 0x78 if each in _PROSE else _SIGN[0] for each in range(256))
_WORDS = bytes(0x20 if each in _SPACES else 0x78 for each in range(256))
_NOT_SIGNS = _PROSE.replace(b"'", b"") + _SPACES

_LITERALS = dict.fromkeys(
    trigger.lower().encode() for rule in RULES if not rule.in_long_word for trigger in rule.triggers
)
_PASSWORDS = (b"passw", b"passphrase", b"passcode")
_FILE_KEYWORDS = (
    b"pw for ",
    b"pwd for ",
    b"secret for ",
    b"masterauth ",
    b"rootpw ",
    b"enable secret ",
    b"sqlplus ",
    b"community ",
)
_NEED_SIGNS = (
    b"bearer",
    b"authorization",
    *_FILE_KEYWORDS,
    *_PASSWORDS,
)  # the value after them has a digit, a sign or a quote
_NOT_IN_VALUES = b"-:/=_."  # a value after `_FILE_KEYWORDS` has a digit, a quote or another symbol than these
_GATES = (b" -", b"('", b'("')  # options of commands, and calls
_SIGNS = {literal: literal.translate(None, _NOT_SIGNS)[:1] for literal in _LITERALS}
_LEFT = tuple(literal for literal in _LITERALS if not any(need in literal for need in _NEED_SIGNS))
_IN_PROSE = tuple(literal for literal in _LEFT if not _SIGNS[literal])
_GATED = {gate: tuple(literal for literal in _LEFT if gate in literal) for gate in _GATES}
_PLAIN = tuple(literal for literal in _LEFT if not any(gate in literal for gate in _GATES))
_BY_SIGN = {  # by the number of the byte
    sign[0]: tuple(literal for literal in (*_PLAIN, *_GATES) if literal.translate(None, _NOT_SIGNS)[:1] == sign)
    for sign in {sign for sign in map(_SIGNS.get, _PLAIN) if sign}
    | {gate.translate(None, _NOT_SIGNS)[:1] for gate in _GATES}
}
_LEADS = frozenset(_BY_SIGN)
_NAMES = tuple(name.encode() for name in key_value_rules.TRIGGERS)
# Most literals that need a sign contain a name, so they are searched only if there is one.
_NAMED = tuple(each for each in (b"bearer", b"authorization", *_PASSWORDS) if any(name in each for name in _NAMES))
_UNNAMED = tuple(each for each in (b"bearer", b"authorization", *_PASSWORDS) if each not in _NAMED)
_NAMED_KEYWORDS = tuple(each for each in _FILE_KEYWORDS if any(name in each for name in _NAMES))
_UNNAMED_KEYWORDS = tuple(each for each in _FILE_KEYWORDS if each not in _NAMED_KEYWORDS)
_FOREIGN_LEADS = tuple(
    {name.encode()[: 2 if name[0] > "\u3000" else 1] for name in key_value_rules.BEYOND_ASCII if not name[0].isascii()}
    | {"\u0142".encode()[:1]}
)  # bytes that such a name also has in upper case: the first of a letter, two of an ideograph
_SEPARATOR_SIGNS = tuple(each.encode() for each in key_value_rules.SEPARATORS if not each.strip().isalpha())
_SEPARATOR_WORDS = tuple(each.encode() for each in key_value_rules.SEPARATORS if each.strip().isalpha())


def classify(text: str) -> int:
    """Whether a text may contain a secret: NOTHING, NAMES or PERHAPS."""
    raw = text.encode(errors="replace")
    shape = raw.translate(_SHAPE)
    if _LONG in shape or not (text.isascii() or (_KELVIN not in text and _COLON not in text)):
        return PERHAPS
    low = raw.lower()
    for literal in _IN_PROSE:
        if literal in low:
            return PERHAPS
    return _classify_with_signs(text, raw, low) if _SIGN in shape or _QUOTED in raw else NOTHING


def _classify_with_signs(text: str, raw: bytes, low: bytes) -> int:
    if _LONG in raw.translate(_WORDS):
        return PERHAPS
    signs = low.translate(None, _NOT_SIGNS)
    for sign in _LEADS.intersection(signs):
        for literal in _BY_SIGN[sign]:
            if literal in low and (literal not in _GATED or _is_one_in(_GATED[literal], low)):
                return PERHAPS
    if len(signs) >= MIN_DIGITS and len(signs) - len(signs.translate(None, _DIGITS)) >= MIN_DIGITS:
        return PERHAPS
    has_name, has_value = _is_one_in(_NAMES, low), bool(signs.translate(None, _NOT_IN_VALUES))
    if _is_one_in(_UNNAMED, low) or (has_value and _is_one_in(_UNNAMED_KEYWORDS, low)):
        return PERHAPS
    if has_name and (_is_one_in(_NAMED, low) or (has_value and _is_one_in(_NAMED_KEYWORDS, low))):
        return PERHAPS
    return NAMES if (has_name or _is_foreign(text, raw)) and _has_separator(signs, low) else NOTHING


def _has_separator(signs: bytes, low: bytes) -> bool:
    """Whether the text has a separator between a name and its value."""
    return _is_one_in(_SEPARATOR_SIGNS, signs) or _is_one_in(_SEPARATOR_WORDS, low)


def _is_foreign(text: str, raw: bytes) -> bool:
    """Whether the name of a password in another language occurs; lower case of bytes covers ASCII only."""
    if text.isascii() or not _is_one_in(_FOREIGN_LEADS, raw):
        return False
    low = text.lower()
    return any(name in low for name in key_value_rules.BEYOND_ASCII)


def _is_one_in(parts: tuple[bytes, ...], text: bytes) -> bool:
    for part in parts:  # noqa: SIM110 - a generator would take twice as long, and every write calls this
        if part in text:
            return True
    return False


_HASH_CHARACTERS = "0123456789abcdef-+:.,;()TZ"  # of hashes and dates; every trigger of a token has another character
_ALNUM = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RUNS = bytes(byte if byte in _ALNUM else 0x20 for byte in range(256))
_ESCAPES = ("\\n", "\\r", "\\t")  # the letter of an escaped line break does not belong to the next word
# Every token has a run of at least this length, with digits or of letters only; paths and addresses seldom do.
_MIXED, _ALPHABETIC = 5, 16
_HEAD = 2  # characters by which prefixes without a separator are looked up


class LongWordIndex:
    """Lookup of rules by the long words of a text."""

    __slots__ = ("_rules", "_tables")

    def __init__(self, rules: Iterable[Ranked]) -> None:
        self._rules = tuple(rules)
        self._tables: _Tables | None = None  # made lazily: most processes see no long word

    def rules_in(self, text: str) -> list[Ranked]:
        words = [word for word in text.split() if len(word) >= LONG_WORD and not _is_plain(word)]
        if not words:
            return []
        joined = " ".join(words)
        runs = _runs(joined)
        lengths = [len(run) for run in runs if len(run) >= (_ALPHABETIC if run.isalpha() else _MIXED)]
        if not lengths:
            return []
        tables = self._tables = self._tables or _Tables(self._rules)
        near = [each for run in tables.by_run.keys() & runs for each in tables.by_run[run]]
        near += [
            each for head in tables.by_head.keys() & {run[:_HEAD] for run in runs} for each in tables.by_head[head]
        ]
        found = [each for trigger, each in near if trigger in joined]
        longest, longest_run = max(map(len, words)), max(lengths)
        found += [
            each
            for least, least_run, trigger, each in tables.anywhere
            if least <= longest and least_run <= longest_run and trigger in joined
        ]
        return found


class _Tables:
    """Rules by the run that their prefix begins with, by its first characters, or without a prefix."""

    __slots__ = ("anywhere", "by_head", "by_run")

    def __init__(self, rules: Iterable[Ranked]) -> None:
        self.by_run: dict[bytes, list[tuple[str, Ranked]]] = {}  # the prefix begins with this whole run
        self.by_head: dict[bytes, list[tuple[str, Ranked]]] = {}  # the prefix goes on within its run
        self.anywhere: list[tuple[int, int, str, Ranked]] = []
        for each in rules:
            for trigger in each[1].triggers:
                if not isinstance(each[1], Token):
                    self.anywhere.append((each[1].least, each[1].least_run, trigger, each))
                    continue
                run = trigger.encode().translate(_RUNS).split()[0]
                table, key = (self.by_run, run) if len(run) < len(trigger) else (self.by_head, run[:_HEAD])
                table.setdefault(key, []).append((trigger, each))


def _runs(words: str) -> set[bytes]:
    """The runs of ASCII letters and digits."""
    if "\\" in words:
        for escape in _ESCAPES:
            words = words.replace(escape, "  ")
    return set(words.encode(errors="replace").translate(_RUNS).split())


def _is_plain(word: str) -> bool:
    """Whether a word is a lower-case path or name, a hash or a date; a token has digits or capitals, and other letters than hashes."""
    return not word.strip(_HASH_CHARACTERS) or (word.islower() and DIGITS.isdisjoint(word))
