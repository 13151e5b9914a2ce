"""Can it be ruled out at a glance that a text holds a secret? Most memories hold none, and every write asks.

Guarantees: "no" is certain: no rule that SMP brings along finds anything in such a text. "Perhaps" costs a proper look.
A glance takes about 4 µs per 400 characters: a few literals, the longest word, the number of digits.
"""

from __future__ import annotations

from smp.privacy import assignments
from smp.privacy.numbers import LEAST_DIGITS
from smp.privacy.patterns import GENERAL, LONG_WORD, PROVIDERS

_DIGITS = b"0123456789"
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # in ASCII; other spaces make a word seem longer, which is a "perhaps"
_WORDS_ONLY = bytes(0x20 if byte in _SPACES else 0x78 for byte in range(256))
_LONG = b"x" * LONG_WORD

_LITERALS = dict.fromkeys(
    [
        *assignments.TRIGGERS,
        *(trigger.lower() for rule in (*PROVIDERS, *GENERAL) if not rule.in_long_word for trigger in rule.triggers),
    ]
)
# One that contains another need not be looked for, and one with a rare character only where that one occurs.
_NEEDED = [each for each in _LITERALS if not any(other in each and other != each for other in _LITERALS)]
_RARE = "@:-"
_COMMON = tuple(each for each in _NEEDED if not any(mark in each for mark in _RARE))
_MARKED = tuple(
    (mark, tuple(each for each in _NEEDED if next((m for m in _RARE if m in each), "") == mark)) for mark in _RARE
)


def may_hold_secret(text: str) -> bool:
    low = text.lower()
    for literal in _COMMON:
        if literal in low:
            return True
    for mark, literals in _MARKED:
        if mark in low:
            for literal in literals:
                if literal in low:
                    return True
    raw = low.encode(errors="replace")
    return _LONG in raw.translate(_WORDS_ONLY) or len(raw) - len(raw.translate(None, _DIGITS)) >= LEAST_DIGITS
