"""Select the token rules whose first characters occur in the long words of a text.

A token of a provider is one long word that starts with a fixed prefix after a character that is no letter or digit. The
long words are cut into runs of letters and digits, and the runs are looked up in a table of prefixes, so that the cost
does not grow with the number of providers.
Guarantees: every rule that could match is selected; linear in the text.
"""

from __future__ import annotations

from smp.privacy.patterns import LONG_WORD, Token
from smp.privacy.plausible import DIGITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp.privacy.patterns import Rule

    Ranked = tuple[int, Rule]

_OF_HASHES = "0123456789abcdef-+:.,;()TZ"  # also of dates; every trigger of a token has another character
_ALNUM = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RUNS = bytes(byte if byte in _ALNUM else 0x20 for byte in range(256))
_ESCAPES = ("\\n", "\\r", "\\t")  # the letter of a written line break does not belong to the word after it
_MIXED, _ALPHABETIC = (
    5,
    16,
)  # every token has a run so long, with digits or of letters alone; paths and addresses seldom do
_HEAD = 2  # characters by which prefixes without a separator are looked up


class LongWords:
    """Lookup of rules by the long words of a text."""

    __slots__ = ("_rules", "_tables")

    def __init__(self, rules: Iterable[Ranked]) -> None:
        self._rules = tuple(rules)
        self._tables: _Tables | None = None  # most processes meet no long word

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
    """A path or a name in small letters, a hash, a date: a token has digits or capitals, and letters beyond those of hashes."""
    return not word.strip(_OF_HASHES) or (word.islower() and DIGITS.isdisjoint(word))
