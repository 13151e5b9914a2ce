"""Grammar of time phrases, parsed word by word; the parser behind `smp_memory.search.time_ranges`.

    range   = between SPAN and SPAN | from SPAN to SPAN | since SPAN | after SPAN | before SPAN | until SPAN
            | SPAN to SPAN | SPAN
    span    = today | yesterday | now | NUMBER UNIT ago | last NUMBER UNIT | last UNIT | past UNIT | this UNIT
            | [last | this] WEEKDAY | [last | this] MONTH | MONTH YEAR | DAY MONTH [YEAR] | MONTH DAY [YEAR]
            | [last | this] SEASON | SEASON [of] YEAR | Q1 YEAR | YEAR | ISO date | ISO date and time
            | week of SPAN | (day | week | WEEKDAY | NUMBER UNIT) (before | after) SPAN

A time without a year is the most recent one that has begun. In free text a word counts as a time only where it is
hardly ambiguous: not the "may" of "what may I do", nor "last day" or a bare "3 days".
Guarantees: never raises, whatever the words are.
"""

from __future__ import annotations

from smp_memory.search import calendar
from smp_memory.search.calendar import (
    AMBIGUOUS_MONTHS,
    DAY,
    DAYS_AROUND,
    EDGES,
    FIRST_YEAR_IN_FREE_TEXT,
    HOUR,
    LEADING_WORDS,
    MAX_DIGITS,
    MONTHS,
    NUMBERS,
    RANGE_WORDS,
    SEASONS,
    UNITS,
    UNITS_IN_MONTHS,
    WEEK,
    WEEKDAYS,
    WORDS_BEFORE_TIMES,
    ParsedSpan,
    read_date,
    read_moment,
    unit_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class TimePhrase:
    """A sequence of words, and the time relative to which they are read."""

    __slots__ = ("exact", "in_free_text", "latest", "now", "raw", "words")

    def __init__(self, words: list[str], now: int, raw: list[str] | None = None) -> None:
        self.words = words
        self.now = now
        self.latest = now  # a time without a year is the last one that had begun by then
        self.exact = False  # a bound of a range is that very day: "since two weeks ago"
        self.in_free_text = raw is not None
        self.raw = raw if raw is not None else words  # with their capitals

    def word(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""

    # -- ranges

    def range_at(self, at: int) -> ParsedSpan | None:
        """The longest range that begins with this word; None if none does."""
        self.latest, self.exact = self.now, False  # an error may have left them changed
        try:
            return self._range(at)
        except (ValueError, OverflowError):  # there is no 31 February and no year 0
            return None

    def _range(self, at: int) -> ParsedSpan | None:
        word = self.word(at)
        if word == "between":
            return self._joined(at + 1, {"and", *RANGE_WORDS})
        if word == "from":
            joined = self._joined(at + 1, RANGE_WORDS)
            return joined or (self._span(at + 1) if self.in_free_text else self._edge(at + 1, "since"))
        if word == "up" and self.word(at + 1) in ("to", "until"):
            return self._edge(at + 2, "until")
        edge = EDGES.get(word)
        if edge:
            return self._edge(at + 1, edge)
        span = self._span(at)
        if span and self.word(span.next) in RANGE_WORDS:
            return self._joined(at, RANGE_WORDS) or span
        return span

    def _edge(self, at: int, edge: str) -> ParsedSpan | None:
        self.exact = True
        span = self._span(at)
        self.exact = False
        if span is None:
            return None
        if edge in ("since", "after"):
            start, end = (span.start if edge == "since" else span.after), None
            if edge == "since" and self.word(span.next) in RANGE_WORDS:
                return self._joined(at, RANGE_WORDS) or ParsedSpan(start, end, span.next)
            return ParsedSpan(start, end, span.next)
        return ParsedSpan(None, span.end if edge == "until" else span.start, span.next)

    def _joined(self, at: int, range_words: frozenset[str] | set[str]) -> ParsedSpan | None:
        first = self._span(at)
        if first is None or self.word(first.next) not in range_words:
            return None
        second = self._second_of_two(at, first)
        if second is None or second.end is None:
            return None
        self.latest = second.end - 1
        first = self._span(at)
        self.latest = self.now
        return ParsedSpan(first.start, second.end, second.next) if first else None

    def _second_of_two(self, at: int, first: ParsedSpan) -> ParsedSpan | None:
        second = self._span(first.next + 1)
        if second is None or first.start is None:
            return second
        if self._has_year(at, first.next) and not self._has_year(first.next, second.next):
            self.latest = calendar.months_before(first.start, -12) - 1  # "from May 2023 to July"
            second = self._span(first.next + 1)
            self.latest = self.now
        return second

    def _has_year(self, first: int, end: int) -> bool:
        return any(word[:4].isdigit() for word in self.words[first:end])

    # -- one span

    def _span(self, at: int) -> ParsedSpan | None:
        start = at
        while self.word(at) in LEADING_WORDS:
            at += 1
        word = self.word(at)
        if word in _BY_FIRST_WORD:
            return _BY_FIRST_WORD[word](self, at)
        if word[:1].isdigit():
            return self._day_of_month(at) or self._amount_span(at) or self._iso(at)
        if word in NUMBERS:
            return self._amount_span(at)
        if word in MONTHS and self._is_month(at):
            return self._month(at)
        if word in WEEKDAYS and (not self.in_free_text or self._is_single_day(at)):
            return self._weekday_beside(at) or self._weekday(at, calendar.day_number(self.latest))
        if word in SEASONS:
            return self._season(at, dated_only=self.in_free_text and self.word(start) not in ("in", "during", "over"))
        if word[:1] == "q" and word[1:] in ("1", "2", "3", "4"):
            return self._quarter(at)
        return None

    def _today(self, at: int) -> ParsedSpan:
        return ParsedSpan(*calendar.days(calendar.day_number(self.now)), at + 1)

    def _yesterday(self, at: int) -> ParsedSpan:
        return ParsedSpan(*calendar.days(calendar.day_number(self.now) - 1), at + 1)

    def _now(self, at: int) -> ParsedSpan | None:
        return None if self.in_free_text else ParsedSpan(self.now, self.now + 1, at + 1)

    def _beside(self, at: int) -> ParsedSpan | None:
        """`the day before yesterday`, `the week of 23 August`, `the week after 9 June 2023`."""
        side = self.word(at + 1)
        named = self._span(at + 2) if side in ("of", "before", "after") else None
        if named is None or named.start is None or named.end is None:
            return None
        length = UNITS[self.word(at)]
        if side == "of":
            within_a_week = length == WEEK and named.end - named.start <= WEEK  # not the "week of May"
            return (
                ParsedSpan(*calendar.days(calendar.week_begins(named.start), 7), named.next) if within_a_week else None
            )
        start = named.start - length if side == "before" else named.end
        return ParsedSpan(start, start + length, named.next)

    def _amount(self, at: int) -> tuple[int, str, int] | None:
        """A number of units and the word after them: `3 days`, `two weeks`, `24h`, `a couple of months`."""
        word = self.word(at)
        digits = len(word) - len(word.lstrip("0123456789"))
        if digits:
            unit = unit_of(word[digits:] or self.word(at + 1))
            after = at + 1 if digits < len(word) else at + 2
            return (int(word[:digits]), unit, after) if unit and digits <= MAX_DIGITS else None
        if word in ("a", "the") and self.word(at + 1) in ("couple", "few"):
            at, word = at + 1, self.word(at + 1)
        number = NUMBERS.get(word)
        at += 2 if self.word(at + 1) == "of" else 1
        unit = unit_of(self.word(at)) if number else ""
        return (number, unit, at + 1) if number and unit else None

    def _counted_back(self, moment: int, number: int, unit: str) -> int:
        if unit in UNITS:
            return moment - number * UNITS[unit]
        count = min(number * UNITS_IN_MONTHS[unit], calendar.month_number(moment) - 12)  # not before the year 1
        return calendar.months_before(moment, count)

    def _amount_span(self, at: int) -> ParsedSpan | None:
        amount = self._amount(at)
        if amount is None:
            return None
        number, unit, after = amount
        if self.word(after) == "ago":
            return self._around(self._counted_back(self.now, number, unit), unit, after + 1)
        if self.word(after) in ("before", "after"):
            return self._counted_from_named(number, unit, after)
        return None if self.in_free_text else self._up_to_now(number, unit, after)

    def _counted_from_named(self, number: int, unit: str, at: int) -> ParsedSpan | None:
        """`two weeks before 11 August`, from the word before or after on."""
        named = self._span(at + 1)
        if named is None or named.start is None or named.end is None:
            return None
        if self.word(at) == "before":
            return self._around(self._counted_back(named.start, number, unit), unit, named.next)
        return self._around(self._counted_back(named.end - 1, -number, unit), unit, named.next)

    def _around(self, middle: int, unit: str, after: int) -> ParsedSpan:
        """A span as wide as the unit it is counted in: "two months ago" is not meant to the day."""
        if unit in ("second", "minute", "hour"):
            if self.exact:
                return ParsedSpan(middle, middle + 1, after)
            return ParsedSpan(middle - UNITS[unit] // 2, middle + UNITS[unit] // 2, after)
        around = 0 if self.exact else DAYS_AROUND[unit]
        return ParsedSpan(*calendar.days(calendar.day_number(middle) - around, 2 * around + 1), after)

    def _up_to_now(self, number: int, unit: str, after: int) -> ParsedSpan:
        return ParsedSpan(self._counted_back(self.now, number, unit), self.now + 1, after)

    # -- last, past, previous, this

    def _last(self, at: int) -> ParsedSpan | None:
        word, name = self.word(at), self.word(at + 1)
        amount = self._amount(at + 1)
        if amount:
            return self._up_to_now(*amount)
        if name == "night":
            evening = calendar.days(calendar.day_number(self.now))[0] - 6 * HOUR
            return ParsedSpan(evening, evening + 12 * HOUR, at + 2)
        if name == "weekend":
            return ParsedSpan(*calendar.days(calendar.week_begins(self.now) - 2, 2), at + 2)
        unit = unit_of(name)
        if unit and at and self.word(at - 1) == "the" and unit not in ("second", "minute", "day"):
            return self._up_to_now(1, unit, at + 2)  # "in the last month", unlike "last month"
        if unit:
            return self._last_unit(word, unit, at + 2)
        return self._last_named(at + 1)

    def _last_unit(self, word: str, unit: str, after: int) -> ParsedSpan | None:
        if word == "past":
            return self._up_to_now(1, unit, after)
        if word == "last" and unit in ("second", "minute", "hour", "day"):
            return None if self.in_free_text else self._up_to_now(1, unit, after)
        if word == "last" and unit == "week":  # up to now in design 004; people mean either
            start = calendar.days(calendar.week_begins(self.now) - 7)[0] if self.in_free_text else self.now - WEEK
            return ParsedSpan(start, self.now + 1, after)
        return self._unit_before(unit, after)

    def _unit_before(self, unit: str, after: int) -> ParsedSpan:
        start, end = self._this_unit(unit)
        length = end - start
        if unit in UNITS:
            return ParsedSpan(start - length, start, after)
        return ParsedSpan(*calendar.months(calendar.month_number(start - 1) + 1 - UNITS_IN_MONTHS[unit], UNITS_IN_MONTHS[unit]), after)  # fmt: skip

    def _last_named(self, at: int) -> ParsedSpan | None:
        """The last weekday, month or season of this name that is over."""
        word = self.word(at)
        if word in WEEKDAYS:
            return self._weekday(at, calendar.day_number(self.now) - 1)
        if word in MONTHS:
            if self._year(at + 1):  # "last May 2023", "last May 3"
                return self._month(at)
            self.latest = calendar.months(calendar.month_number(self.now))[0] - 1
            found = self._month(at)
            self.latest = self.now
            return found
        if word in SEASONS:
            number = self._recent(SEASONS[word], self.now)
            return ParsedSpan(
                *calendar.months(number - (12 if calendar.months(number, 3)[1] > self.now else 0), 3), at + 1
            )
        return None

    def _this(self, at: int) -> ParsedSpan | None:
        name = self.word(at + 1)
        unit = unit_of(name)
        if unit:
            return ParsedSpan(*self._this_unit(unit), at + 2)
        monday = calendar.week_begins(self.now)
        if name == "weekend":
            return ParsedSpan(*calendar.days(monday + 5, 2), at + 2)
        if name in WEEKDAYS and (not self.in_free_text or name.endswith("day")):
            return ParsedSpan(*calendar.days(monday + WEEKDAYS[name]), at + 2)
        if name in MONTHS or name in SEASONS:
            year = calendar.month_number(self.now) // 12
            first = year * 12 + (MONTHS.get(name) or SEASONS[name]) - 1
            return ParsedSpan(*calendar.months(first, 1 if name in MONTHS else 3), at + 2)
        return None

    def _this_unit(self, unit: str) -> tuple[int, int]:
        if unit in ("week", "fortnight"):
            return calendar.days(calendar.week_begins(self.now), UNITS[unit] // DAY)
        if unit in UNITS:
            begin = self.now - self.now % UNITS[unit]
            return begin, begin + UNITS[unit]
        count = UNITS_IN_MONTHS[unit]
        number = calendar.month_number(self.now)
        return calendar.months(number - number % count, count)

    # -- names and numbers of the calendar

    def _is_month(self, at: int) -> bool:
        word = self.word(at)
        sure = not self.in_free_text or (len(word) > 3 and word not in AMBIGUOUS_MONTHS)
        if sure or self._day(at + 1) or self._year(at + 1) or self._year(at + 2, "of"):
            return True
        before = self.word(at - 1) if at else ""
        if before in ("and", "or"):
            return at > 1 and self.word(at - 2) in MONTHS and self._is_month(at - 2)
        return before in WORDS_BEFORE_TIMES or (before == "the" and self.raw[at][:1].isupper())

    def _month(self, at: int) -> ParsedSpan:
        """`May`, `May 2023`, `May 3`, `May 3, 2023`."""
        month = MONTHS[self.word(at)]
        number = self._day(at + 1)
        if number:
            return self._day_in(month, number, at + 2)
        after = at + 2 if self.word(at + 1) == "of" else at + 1
        year = self._year(after)
        if year:
            return ParsedSpan(*calendar.months(year * 12 + month - 1), after + 1)
        return ParsedSpan(*calendar.months(self._recent(month, self.latest)), at + 1)

    def _day_of_month(self, at: int) -> ParsedSpan | None:
        """`3 May`, `the 3rd of May 2023`."""
        number = self._day(at)
        after = at + 2 if self.word(at + 1) == "of" else at + 1
        if number and self.word(after) in MONTHS:
            return self._day_in(MONTHS[self.word(after)], number, after + 1)
        return None

    def _day_in(self, month: int, number: int, after: int) -> ParsedSpan:
        after += self.word(after) == "of"
        year = self._year(after)
        if year:
            return ParsedSpan(*calendar.day(year, month, number), after + 1)
        recent = self._recent(month, self.latest) // 12
        for back in range(9):  # 29 February may be eight years ago
            try:
                span = calendar.day(recent - back, month, number)
            except ValueError:
                continue
            if span[0] <= self.latest:
                return ParsedSpan(*span, after)
        raise ValueError(number)

    def _recent(self, month: int, latest: int) -> int:
        """The number of the latest month of this name that had begun by then."""
        now = calendar.month_number(latest)
        return now - (now - (month - 1)) % 12

    def _is_single_day(self, at: int) -> bool:
        """Whether a weekday is one day, and not a habit such as "Saturday mornings" or "my Sunday rides"."""
        before, after = self.word(at - 1) if at else "", self.word(at + 1)
        sure = before in WORDS_BEFORE_TIMES or before in ("on", "from") or after in ("before", "after")
        return sure and self.word(at).endswith("day") and after not in ("mornings", "afternoons", "evenings", "nights")

    def _weekday_beside(self, at: int) -> ParsedSpan | None:
        """`the Sunday before 25 October`."""
        named = self._span(at + 2) if self.word(at + 1) in ("before", "after") else None
        if named is None or named.start is None or named.end is None:
            return None
        latest = named.start - 1 if self.word(at + 1) == "before" else named.end - 1 + WEEK
        found = self._weekday(at, calendar.day_number(latest))
        return ParsedSpan(found.start, found.end, named.next)

    def _weekday(self, at: int, latest: int) -> ParsedSpan:
        return ParsedSpan(*calendar.days(latest - (latest - 1 - WEEKDAYS[self.word(at)]) % 7), at + 1)

    def _season(self, at: int, dated_only: bool) -> ParsedSpan | None:
        month = SEASONS[self.word(at)]
        after = at + 2 if self.word(at + 1) == "of" else at + 1
        year = self._year(after)
        if year:
            return ParsedSpan(*calendar.months(year * 12 + month - 1, 3), after + 1)
        return None if dated_only else ParsedSpan(*calendar.months(self._recent(month, self.latest), 3), at + 1)

    def _quarter(self, at: int) -> ParsedSpan:
        month = 3 * int(self.word(at)[1:]) - 2
        year = self._year(at + 1)
        if year:
            return ParsedSpan(*calendar.months(year * 12 + month - 1, 3), at + 2)
        return ParsedSpan(*calendar.months(self._recent(month, self.latest), 3), at + 1)

    def _day(self, at: int) -> int:
        word = self.word(at)
        digits = word[:-2] if word[-2:] in ("st", "nd", "rd", "th") else word
        return int(digits) if len(digits) <= 2 and digits.isdecimal() and digits.isascii() and int(digits) <= 31 else 0

    def _year(self, at: int, needed_before: str = "") -> int:
        word = self.word(at)
        if needed_before and self.word(at - 1) != needed_before:
            return 0
        return int(word) if len(word) == 4 and word.isdecimal() and word.isascii() else 0

    # -- ISO 8601

    def _iso(self, at: int) -> ParsedSpan | None:
        word = self.word(at).replace("/", "-")
        year = self._year(at)
        if year:
            return self._whole_year(year, at + 1)
        if ":" in word or "t" in word:
            return read_moment(word, at + 1)
        clock = self.word(at + 1)
        if len(word) == 10 and ":" in clock and clock[:1].isdigit():
            return read_moment(f"{word}t{clock}", at + 2)
        return read_date(word, at + 1)

    def _whole_year(self, year: int, after: int) -> ParsedSpan | None:
        if self.in_free_text and not FIRST_YEAR_IN_FREE_TEXT <= year <= calendar.month_number(self.now) // 12 + 1:
            return None
        return ParsedSpan(*calendar.months(year * 12, 12), after)


_BY_FIRST_WORD: dict[str, Callable[[TimePhrase, int], ParsedSpan | None]] = {
    "today": TimePhrase._today,
    "yesterday": TimePhrase._yesterday,
    "now": TimePhrase._now,
    "day": TimePhrase._beside,
    "week": TimePhrase._beside,
    "last": TimePhrase._last,
    "past": TimePhrase._last,
    "previous": TimePhrase._last,
    "this": TimePhrase._this,
    "current": TimePhrase._this,
}
