"""Which words does a pattern mean? `auth*`, `*service`, `a*b`; only `*` is special.

The index knows terms, and those of English words are stems: what was typed may be longer than they are, and of an ending
nothing is left. So a pattern that only ends in `*` is known by its terms; one that goes on behind it is *loose*: its terms
tell which memories may have it, and the words as they are written (`smp_memory.index.tokens.spelled`) which ones do.

Pure. Non-guarantees: a loose pattern may miss a word whose stem has lost an ending that is not in the list here.
"""

from __future__ import annotations

from smp_memory.index.tokens import stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_COMPLETIONS = ("", "e", "s", "es", "ed", "d", "ing", "ng", "g", "ion", "on", "tion", "ation", "ational", "ment", "ent",
                "ness", "ess", "able", "le", "ly", "y", "ies", "er", "ity", "ty", "ive", "ize", "ous", "ful", "al", "ism",
                "ist", "ance", "ence", "ications")  # fmt: skip
_ENDINGS = frozenset(
    """s e d r y es ed ing ings er ers or ors ion ions ation ations ational ationally ative atively ate ates ated ating ator
    ators ication ications icate icates icated icating ment ments mental ness nesses able ably ability abilities ible ibly
    ibility ful fully fulness less lessness ly ies ied ier iest ying ity ities ive ives ively iveness ivity ivities ize izes
    ized izing izer izers ization izations ise ises ised ising isation ous ously ousness al als ally ality alities alize
    alized ism isms ist ists ance ances ence ences ent ents ently ant ants ic ics ical ically icity st ogy ogies l ls ys ement ements emented ely eness eful
    efully ency encies acy acies ables abled eable lable alization alizations alizer alizers alizing alizes ional ionals
    ionally ioned ioning ately atives ativity icator icators ingly edly ered ering eous eously lation lations ented enting
    antly ibilities ility ilities lic lize""".split()  # noqa: SIM905
).union(letter + ending for letter in "bdfgklmnprstvz" for ending in ("ing", "ings", "ed", "er", "ers"))
_SHORTEST_STEM = 2


def matcher(pattern: str) -> Callable[[str], object]:
    """Tells of a term whether the pattern means it, or may mean it: see `is_loose`. Only `*` is special.

    Terms are stems, so what was typed may be longer than they are: `authentica*` means `authent`, too.
    """
    import re

    stems = _stems_cut(pattern) if is_loose(pattern) else _stems_meant(pattern)
    return re.compile("|".join([_expression(pattern), *stems])).fullmatch


def is_loose(pattern: str) -> bool:
    """Whether stems cannot tell what it means: `*service` and `auth*tion` ask for endings, which stems have lost."""
    return "*" in pattern[:-1] and pattern.isascii()


def fits_spelling(pattern: str, words: Iterable[str]) -> bool:
    """Whether a pattern means one of these words as they are written."""
    import re

    return any(map(re.compile(_expression(pattern)).fullmatch, words))


def beginning(pattern: str) -> str:
    """What all terms that the pattern means begin with; may be empty."""
    begun = pattern.partition("*")[0]
    if is_loose(pattern):
        return begun[:_SHORTEST_STEM]
    for each in _stems_meant(pattern):
        while not each.startswith(begun):
            begun = begun[:-1]
    return begun


def _stems_meant(pattern: str) -> tuple[str, ...]:
    """Stems of words that begin as a prefix does, but that do not begin so themselves."""
    begun = pattern[:-1]
    if pattern[-1:] != "*" or not (begun.isascii() and begun.isalpha()):
        return ()
    stems = {stem(begun + ending) for ending in _COMPLETIONS}
    return tuple(sorted(each for each in stems if not each.startswith(begun)))


def _stems_cut(pattern: str) -> list[str]:
    """Expressions for the stems of words that a loose pattern may mean: wherever in it an English ending may begin."""
    import re

    found = []
    for place in range(len(pattern)):
        if any(map(re.compile(_expression(pattern[place:])).fullmatch, _ENDINGS)):
            stem_part = pattern[: place + 1] if pattern[place] == "*" else pattern[:place]
            found.append(_expression(stem_part) + "[eiyl]?")
    return found


def _expression(pattern: str) -> str:
    """A regular expression that never looks back: what stands between two `*` is taken where it comes first."""
    from re import escape

    first, *others = map(escape, pattern.split("*"))
    between = "".join(f"(?>.*?{each})" for each in others[:-1] if each)
    return f"{first}{between}.*{others[-1]}" if others else first
