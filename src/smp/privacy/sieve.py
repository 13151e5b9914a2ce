"""Can it be ruled out at a glance that a text holds a secret? Most memories hold none, and every write asks.

Guarantees: `NOTHING` is certain: no rule that SMP brings along finds anything in such a text. `NAMES` means that only what
stands under a telling name can be one (`assignments`). `PERHAPS` costs a proper look.
A glance takes about 4 µs per 400 characters: a few literals, the longest word, the number of digits.
"""

from __future__ import annotations

from smp.privacy import assignments
from smp.privacy.numbers import LEAST_DIGITS
from smp.privacy.patterns import GENERAL, LONG_WORD, PROVIDERS

NOTHING, NAMES, PERHAPS = 0, 1, 2
_DIGITS = b"0123456789"
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # in ASCII; other spaces make a word seem longer, which is a "perhaps"
_WORDS_ONLY = bytes(0x20 if byte in _SPACES else 0x78 for byte in range(256))
_LONG = b"x" * LONG_WORD

_LITERALS = dict.fromkeys(
    trigger.lower() for rule in (*PROVIDERS, *GENERAL) if not rule.in_long_word for trigger in rule.triggers
)
# One that contains another need not be looked for, and one with a rare character only where that one occurs.
_NAMES = assignments.TRIGGERS
_WITH_NAME = tuple(each for each in _LITERALS if any(name in each for name in _NAMES))
_WITHOUT = [each for each in _LITERALS if each not in _WITH_NAME]
_RARE = "@:-"
_COMMON = tuple(each for each in _WITHOUT if not any(mark in each for mark in _RARE))
_MARKED = tuple(
    (mark, tuple(each for each in _WITHOUT if next((m for m in _RARE if m in each), "") == mark)) for mark in _RARE
)


def glance(text: str) -> int:
    low = text.lower()
    for mark, literals in _MARKED:
        if mark in low:
            for literal in literals:
                if literal in low:
                    return PERHAPS
    for literal in _COMMON:
        if literal in low:
            return PERHAPS
    raw = low.encode(errors="replace")
    if _LONG in raw.translate(_WORDS_ONLY) or len(raw) - len(raw.translate(None, _DIGITS)) >= LEAST_DIGITS:
        return PERHAPS
    for name in _NAMES:
        if name in low:
            return PERHAPS if any(literal in low for literal in _WITH_NAME) else NAMES
    return NOTHING
