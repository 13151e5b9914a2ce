"""Which words name times? The vocabulary of the grammar in `smp.query.time_phrase`."""

from __future__ import annotations

from smp.query.calendar import DAY, HOUR, MINUTE, MONTHS, SEASONS, SECOND, WEEK, WEEKDAYS

UNITS = {"second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": WEEK, "fortnight": 2 * WEEK}
UNITS_IN_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
SHORT_UNITS = {
    short: unit
    for unit, shorts in (("second", "s sec"), ("minute", "m min"), ("hour", "h hr"), ("day", "d"), ("week", "w wk"),
                         ("month", "mo"), ("quarter", "q"), ("year", "y yr"))
    for short in shorts.split()
}  # fmt: skip
NUMBERS = {
    word: number
    for number, words in enumerate(
        ("one a an", "two couple", "three few", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        1,
    )
    for word in words.split()
}  # fmt: skip
LEADS = frozenset(("in", "on", "at", "during", "within", "over", "the", "of", "early", "late", "mid"))
JOINTS = frozenset(("to", "until", "till", "through", "-", "–", "—"))
BEFORE_A_MONTH = frozenset(("in", "of", "last", "this", "since", "before", "after", "until", "during", "by", "early", "late", "mid", "between", "past"))  # fmt: skip
ALSO_OTHER_WORDS = frozenset(("may", "march", "april", "june", "august"))  # verbs, and names of people
FIRST_YEAR_IN_A_QUESTION = 1970
LONGEST_NUMBER = 6

HINTS = frozenset(
    (
        "today",
        "yesterday",
        "ago",
        "weekend",
        "night",
        *UNITS,
        *UNITS_IN_MONTHS,
        *(unit + "s" for unit in (*UNITS, *UNITS_IN_MONTHS)),
        *MONTHS,
        *(name for name in WEEKDAYS if name.endswith("day")),
        *SEASONS,
    )
)  # a question without any of these and without a digit names no time


_VOCABULARY = HINTS.union(
    (*NUMBERS, *LEADS, *JOINTS, *SHORT_UNITS, *WEEKDAYS),
    ("between", "and", "from", "since", "after", "before", "by", "up", "now", "last", "past", "previous", "this", "current"),
)  # fmt: skip
DAYS_AROUND = {"day": 0, "week": 3, "fortnight": 7, "month": 15, "quarter": 45, "year": 182, "decade": 1826}
EDGES = {"since": "since", "after": "after", "before": "before", "until": "until", "till": "until", "through": "until", "by": "until", "to": "until"}  # fmt: skip


def first_unknown(words: list[str]) -> str:
    """The first word that no phrase has; nothing if all are known and only do not fit together."""
    return next((word for word in words if word not in _VOCABULARY and not word[:1].isdigit()), "")


def unit_of(word: str) -> str:
    for name in (word, word[:-1] if word.endswith("s") else word):
        if name in UNITS or name in UNITS_IN_MONTHS:
            return name
        if name in SHORT_UNITS:
            return SHORT_UNITS[name]
    return ""
