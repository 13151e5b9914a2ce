"""Which terms match a query: its words, phrases and wildcards (`auth*`, `*service`, `a*b`; only `*` is special); and the weight of a term. Pure.

The terms of English words are stems: a typed prefix may be longer than the stem, and endings are lost. So a pattern that only ends in `*`
is matched by terms alone. One that goes on after a `*` is *loose*: terms tell which memories may match it, and their words as
written (`smp_memory.text.tokenizer.spellings`) which ones do.
Non-guarantees: a loose pattern may miss a word whose stem has lost an ending that is not in the list here.
"""

from __future__ import annotations

from smp_memory.text.tokenizer import stem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from smp_memory.text.tokenizer import ParsedText


RARITY = 0.3  # rare words count for more than BM25 says


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


def term_matcher(pattern: str) -> Callable[[str], object]:
    """A function that tells whether a term matches the pattern; for a loose pattern, whether it may match.

    Terms are stems, so the typed prefix may be longer than they are: `authentica*` matches `authent`, too.
    """
    import re

    stems = _stems_of_loose(pattern) if is_loose(pattern) else _shorter_stems(pattern)
    return re.compile("|".join([_expression(pattern), *stems])).fullmatch


def is_loose(pattern: str) -> bool:
    """Whether stems cannot decide a match: `*service` and `auth*tion` ask for endings, which stems have lost."""
    return "*" in pattern[:-1] and pattern.isascii()


def matches_spelling(pattern: str, words: Iterable[str]) -> bool:
    """Whether a pattern matches one of these words as written."""
    import re

    return any(map(re.compile(_expression(pattern)).fullmatch, words))


def literal_prefix(pattern: str) -> str:
    """The prefix that all terms of a pattern have; may be empty."""
    prefix = pattern.partition("*")[0]
    if is_loose(pattern):
        return prefix[:_SHORTEST_STEM]
    for each in _shorter_stems(pattern):
        while not each.startswith(prefix):
            prefix = prefix[:-1]
    return prefix


def _shorter_stems(pattern: str) -> tuple[str, ...]:
    """Stems of words with the pattern's prefix that are too short to have the prefix themselves."""
    prefix = pattern[:-1]
    if pattern[-1:] != "*" or not (prefix.isascii() and prefix.isalpha()):
        return ()
    stems = {stem(prefix + ending) for ending in _COMPLETIONS}
    return tuple(sorted(each for each in stems if not each.startswith(prefix)))


def _stems_of_loose(pattern: str) -> list[str]:
    """Expressions for the stems of words that may match a loose pattern, cut wherever an English ending may begin."""
    import re

    found = []
    for place in range(len(pattern)):
        if any(map(re.compile(_expression(pattern[place:])).fullmatch, _ENDINGS)):
            stem_part = pattern[: place + 1] if pattern[place] == "*" else pattern[:place]
            found.append(_expression(stem_part) + "[eiyl]?")
    return found


def _expression(pattern: str) -> str:
    """A regular expression without backtracking: a part between two `*` matches where it first occurs."""
    from re import escape

    first, *others = map(escape, pattern.split("*"))
    between = "".join(f"(?>.*?{each})" for each in others[:-1] if each)
    return f"{first}{between}.*{others[-1]}" if others else first


def matches_terms(text: ParsedText, found: Collection[str]) -> bool:
    """Whether a memory with these terms matches a parsed text, as far as terms tell.

    Not checked: the order of a phrase, excluded phrases, excluded loose patterns, and whether a loose pattern matches a word as written.
    """
    if not all(word in found for phrase in text.phrases for word in phrase):
        return False
    if not all(any(map(term_matcher(each), found)) for each in text.patterns):
        return False
    if any(len(words) == 1 and words[0] in found for words in text.excluded):
        return False
    if any(any(map(term_matcher(each), found)) for each in text.excluded_patterns if not is_loose(each)):
        return False
    if text.phrases or text.patterns or not (text.words or text.characters or text.corrected):
        return True
    if any(word in found for word in (*text.words, *text.corrected)):
        return True
    return any(any(map(term_matcher(each), found)) for each in text.characters)
