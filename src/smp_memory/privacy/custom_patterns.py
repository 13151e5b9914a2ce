"""Check user-defined redaction patterns: form, length and worst-case cost, before they are used.

A pattern of ten characters can keep a backtracking engine busy for hours. So a pattern is accepted only if the maximum
number of steps from one position in the text, computed from its parsed form, is small: consecutive repeats multiply, unless
they are possessive (`{1,64}+`); nested repeats multiply as well.
Guarantees: `InvalidConfig` names the pattern and says how to write it; an accepted pattern takes at most `MAX_STEPS` steps
per character of the text.
Non-guarantees: that a pattern finds what its author intended.
"""

from __future__ import annotations

from smp_memory.errors import InvalidConfig
from smp_memory.privacy.rules import Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

KEY = "privacy.redaction.patterns"
MAX_PATTERNS, MAX_CHARACTERS, MAX_STEPS = 50, 500, 2000
_DESIGN_PATTERNS = {  # the patterns of design 001, and the same with bounds; they may use the names of built-in kinds
    r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b": r"[A-Za-z0-9._%+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}+[A-Za-z]{2,63}+",
    r"\b[A-Za-z0-9]{32,}\b": r"\b[A-Za-z0-9]{32}[A-Za-z0-9]*",
    r"password[\s:=]+[^\s]+": r"password[\s:=]{1,16}[^\s]+",
}
_KIND_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


def custom_rules(patterns: Iterable[Any], taken: Iterable[str]) -> list[Rule]:
    """Rules from `{"type": …, "regex": …}`; the type is the kind that replaces a match."""
    items = list(patterns)
    if len(items) > MAX_PATTERNS:
        _reject(f"{len(items)} patterns; at most {MAX_PATTERNS} are allowed.")
    return [_rule(item, frozenset(taken)) for item in items]


def _rule(item: Any, taken: frozenset[str]) -> Rule:
    if not isinstance(item, dict) or set(item) != {"type", "regex"}:
        _reject(f'{_quoted(item)} is not a pattern. Give {{"type": "employee_number", "regex": "EMP-[0-9]{{6}}"}}.')
    kind, regex = item["type"], item["regex"]
    if not isinstance(kind, str) or not 0 < len(kind) <= 32 or not _KIND_CHARACTERS.issuperset(kind):
        _reject(f"{_quoted(kind)} is not a type. Use 1 to 32 small letters, digits or _.")
    of_design = _DESIGN_PATTERNS.get(regex) if isinstance(regex, str) else None
    if kind in taken and of_design is None:
        _reject(f"the type {kind!r} is a built-in rule. Choose another name.")
    if not isinstance(regex, str) or not 0 < len(regex) <= MAX_CHARACTERS:
        _reject(f"{kind}: a regex has 1 to {MAX_CHARACTERS} characters.")
    regex = of_design or regex
    literal = _checked_literal(kind, regex)
    return Rule(kind, (literal,) if literal else (), regex, lambda text, match: match.span(), "own")


def _checked_literal(kind: str, regex: str) -> str:
    """Check a pattern; return the literal that every match starts with, often empty."""
    from re import _parser, error  # type: ignore[attr-defined]

    try:
        parsed = _parser.parse(regex)
    except (error, RecursionError, OverflowError) as problem:
        _reject(f"{kind}: {_quoted(regex)} is not a regular expression: {problem}.")
    if parsed.getwidth()[0] == 0:
        _reject(f"{kind}: {_quoted(regex)} also matches the empty text. Require at least one character.")
    steps = _steps(parsed)
    if steps > MAX_STEPS:
        _reject(
            f"{kind}: {_quoted(regex)} can take too long on some texts (up to {steps:,} steps per character, {MAX_STEPS:,} "
            "are allowed). Give every repeat a small bound and make it possessive: [a-z]{1,64}+ in place of [a-z]+."
        )
    return _literal(parsed)


_UNBOUNDED = 10_000_000


def _steps(parsed: Any) -> int:
    """The maximum number of steps from one position: each way to match a part is followed by all attempts of the rest."""
    steps, items = 1, list(parsed)
    if items and _is_final_repeat(str(items[-1][0]), items[-1][1]):
        steps += int(items.pop()[1][0])  # consumed characters belong to the match and are not examined again
    for name, value in reversed(items):
        ways, length = _cost_of(str(name), value)
        steps = min(length + ways * steps, _UNBOUNDED)
    return int(steps)


def _is_final_repeat(name: str, value: Any) -> bool:
    """Whether a part is an unbounded repeat of single characters, such as `[0-9]+`: at the end of a pattern it cannot fail."""
    if name not in ("MAX_REPEAT", "POSSESSIVE_REPEAT") or int(value[1]) < _UNBOUNDED or len(value[2]) != 1:
        return False
    return str(value[2][0][0]) in ("IN", "LITERAL", "NOT_LITERAL", "CATEGORY", "ANY")


def _cost(parsed: Any) -> tuple[int, int]:
    """The number of ways to match, and the number of characters that one way examines."""
    ways, length = 1, 0
    for name, value in parsed:
        more_ways, more_length = _cost_of(str(name), value)
        ways, length = min(ways * more_ways, _UNBOUNDED), min(length + more_length, _UNBOUNDED)
    return ways, length


def _cost_of(name: str, value: Any) -> tuple[int, int]:
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _cost_of_repeat(name, *value)
    if name == "BRANCH":
        costs = [_cost(branch) for branch in value[1]]
        return sum(ways for ways, _ in costs), sum(length for _, length in costs)
    if name == "SUBPATTERN":
        return _cost(value[-1])
    if name == "ATOMIC_GROUP":
        ways, length = _cost(value)
        return 1, min(ways * length, _UNBOUNDED)
    if name in ("ASSERT", "ASSERT_NOT"):
        ways, length = _cost(value[1])
        return 1, min(ways * length, _UNBOUNDED)
    if name in ("GROUPREF", "GROUPREF_EXISTS"):
        return 1, _UNBOUNDED  # the repeated text may be long
    return 1, 1


def _cost_of_repeat(name: str, low: int, high: int, inner: Any) -> tuple[int, int]:
    ways, length = _cost(inner)
    high = min(int(high), _UNBOUNDED)
    if name == "POSSESSIVE_REPEAT":
        return 1, min(ways * length * high, _UNBOUNDED)
    if ways > 1:
        return min(ways ** min(high, 64), _UNBOUNDED), min(length * high, _UNBOUNDED)
    return high - low + 1, min(length * high, _UNBOUNDED)


def _literal(parsed: Any) -> str:
    if parsed.state.flags & 2:  # IGNORECASE
        return ""
    literal = ""
    for name, value in parsed:
        if str(name) != "LITERAL":
            break
        literal += chr(value)
    return literal


def _quoted(value: object) -> str:
    return repr(value)[:80]


def _reject(what: str) -> NoReturn:
    raise InvalidConfig(f"Bad value for the setting '{KEY}': {what}", key=KEY)
