"""Where does a sentence end? Texts of any script as single lines that can be quoted.

Sentences end in `.`, `!`, `?`, `…` before white space, in the full stops of other scripts (`。`, `।`, `؟`, `።` …) and at line
ends. A full stop inside a name, number or path (`v2.1`, `a.py`) ends nothing, since no white space follows it.

Guarantees: pure, linear in the length of the text; never raises, whatever it is given. A sentence holds no line break,
no control character and no half of a character, and is at most `LONGEST` characters long: what is longer is cut there.
Of a text of more than 40,000 characters the first and the last 20,000 are looked at.
Code fences, rules, markup and data (a line in brackets) and lines without a letter or digit are no sentences.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LONGEST = 300
SHORTEST = 2  # characters that are letters or digits
_READ = 20_000  # characters of one text that are looked at: its beginning, and as much of its end
_STOPS, _OTHER_STOPS, _BREAKS = ".!?…", "。！？｡।॥؟۔።၊။։", r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# It begins with one set of characters, which is looked for far faster than three that may begin it.
_END = re.compile(
    rf"[{_STOPS}{_OTHER_STOPS}{_BREAKS}](?:(?<=[{_STOPS}])[\"'”’»)\]]?\s+|(?<=[{_OTHER_STOPS}])|(?<=[{_BREAKS}]))"
)
_LEADER = re.compile(r"^(?:[-*+•>#]{1,6}|\d{1,3}[.)])\s+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b\u2028\u2029\ufeff]+")


def sentences(text: Any) -> Iterator[str]:
    """The sentences of a text, in order."""
    for piece in _pieces(_bounded(text if isinstance(text, str) else "")):
        line = (piece if piece.isprintable() else _UNPRINTABLE.sub(" ", piece)).strip()
        if len(line) > 1:
            line = " ".join(line[: 4 * LONGEST].split())
            line = shortened(line if line[0].isalpha() else _LEADER.sub("", line))
            if _says_something(line):
                yield line


def _pieces(text: str) -> Iterator[str]:
    """A text cut behind each end of a sentence; white space and a closing quote go."""
    start = 0
    for end in _END.finditer(text):
        yield text[start : end.start() + 1]
        start = end.end()
    yield text[start:]


def shortened(line: str, most: int = LONGEST) -> str:
    """A line of at most so many characters, cut between words where there are any."""
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    blank = cut.rfind(" ", most // 2)
    return (cut[:blank] if blank > 0 else cut).rstrip() + "…"


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * _READ else f"{text[:_READ]}\n{text[-_READ:]}"


def _says_something(line: str) -> bool:
    if line.startswith(("```", "~~~", "---", "===")) or (line[0] in "[{<" and line[-1] in "]}>"):
        return False
    begins_with_a_word = len(line) >= SHORTEST and line[:SHORTEST].isalnum()
    return begins_with_a_word or sum(map(str.isalnum, line[:40])) >= SHORTEST
