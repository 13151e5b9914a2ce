"""What the wording of a prompt tells about it, besides its subject. Pure.

    asks for memory   "what did we decide about …", "remind me", "wie besprochen": what is asked for was said or decided before
    speaks of us      "we", "our", "unser": it is about this project or team
    refers            "the", "this", "die": it refers to something that both sides know
    is general        "how do I", "explain", "difference between": it asks for general knowledge

and the terms that frame a question or a request, and say nothing about its subject (`is_frame`).

Cues are English, German, French, Spanish, Russian and Japanese. Guarantees: linear in the length of the text, no regular expressions
(`re` takes a new process milliseconds to load); any text is accepted.
Non-guarantees: these are hints. Relevance weighs them; none of them decides alone.
"""

from __future__ import annotations

from collections import namedtuple

from smp_memory.text.tokenizer import STOP_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class PromptCues(NamedTuple):
        """Whether the wording of a prompt has each cue."""

        asks_for_memory: bool
        speaks_of_us: bool
        refers: bool
        is_general: bool

else:  # `typing` takes a new process 5 ms to load
    PromptCues = namedtuple("PromptCues", "asks_for_memory speaks_of_us refers is_general")

_SIGNS = '.,;:!?"()[]{}`*<>“”„«»…'
_LOOKED_AT = 4000  # characters
_SHORT_NUMBER = 2  # digits
_MEMORY = (
    " did we ", " have we ", " had we ", " we decided ", " we agreed ", " we settled ", " we discussed ", " we said ", " as agreed ", " as decided ",
    " as discussed ", " why do we ", " why are we ", " why don't we ", " why dont we ", " what do we ", " how do we ", " where do we ", " when do we ", " do we ", " are we ",
    " last time we ", " last time i ", " we do last time ", " last week we ", " remember ", " remind me ", " recall ", " did i tell ", " did i say ",
    " did i ask ", " i told you ", " i asked you ", " did you say ", " did you find ", " you told me ", " you said ", " what was our ", " what is our ", " what's our ",
    " whats our ", " what were our ", " what are our ", " our convention ", " our rule ", " our decision ", " earlier we ", " we already ", " previously ",
    " haben wir ", " hatten wir ", " wir entschieden ", " wir vereinbart ", " wir besprochen ", " wir gesagt ", " wie vereinbart ", " wie besprochen ",
    " warum nutzen wir ", " warum machen wir ", " warum verwenden wir ", " wie machen wir ", " letztes mal ", " beim letzten mal ", " weißt du noch ",
    " erinnerst du dich ", " erinnere mich ", " was ist unser", " wie ist unser", " hatte ich gesagt ", " habe ich dir gesagt ", " nutzen wir ", " verwenden wir ", " machen wir ",
    " avons-nous ", " avions-nous ", " on a décidé ", " on avait ", " nous avons décidé ", " nous avions ", " comme convenu ", " comme prévu ", " pourquoi on ",
    " pourquoi utilisons-nous ", " la dernière fois ", " rappelle-moi ", " rappelez-moi ", " tu te souviens ", " te rappelles ", " qu'est-ce qu'on ", " est-ce qu'on ",
    " comment on ", " quelle est notre ", " quel est notre ", " on utilise ", " on fait ",
    " decidimos ", " acordamos ", " quedamos ", " hemos decidido ", " habíamos ", " por qué usamos ", " cómo hacemos ", " la última vez ", " recuerdas ",
    " recuérdame ", " te dije ", " cuál es nuestr", " usamos ",
    " мы решили ", " мы договорились ", " договаривались ", " почему мы ", " как мы ", " в прошлый раз ", " помнишь ", " напомни ", " я говорил", " у нас ",
    "決めた", "決まった", "前回", "覚えて", "なぜ我々", "どうして私たち", "うちの", "私たちの",
)  # fmt: skip
_GENERAL = (
    " how do i ", " how can i ", " how would i ", " how to ", " how does one ", " explain ", " difference between ", " what is a ", " what is an ", " what's a ",
    " whats a ", " what are the usual ", " what does ", " one liner ", " one-liner ", " an example of ", " give me an example ", " regex ", " in general ",
    " best way to ", " recommend a ", " tutorial ", " translate ", " what is the default ", " whats the default ", " what's the default ",
    " wie kann ich ", " wie mache ich ", " wie geht ", " erklär ", " erkläre ", " erklären ", " unterschied zwischen ", " was ist ein ", " was ist eine ",
    " was bedeutet ", " übersetze ", " ein beispiel ",
    " comment faire ", " comment je ", " comment puis-je ", " explique ", " explique-moi ", " différence entre ", " c'est quoi ", " qu'est-ce qu'un ", " traduis ", " un exemple ",
    " cómo puedo ", " cómo se ", " explica ", " diferencia entre ", " qué es un ", " traduce ", " как сделать ", " объясни ", " разница между ", " что такое ",
    " переведи ", "説明して", "違いは", "とは何",
)  # fmt: skip
_HOW, _ONE = (["wie"], ["comment"], ["cómo"]), frozenset(["ich", "je", "man", "puedo"])  # "wie lese ich …"
_US = frozenset(
    """we we're we've we'll we'd our ours us wir uns unser unsere unserem unseren unserer nous notre nos nosotros nuestra nuestro nuestras nuestros
    мы нас нам наш наша наше наши""".split()  # noqa: SIM905
)
_DEFINITE = frozenset(  # not the articles of other languages, which are in almost every sentence
    "the this that these those diese dieser dieses diesen diesem ce cet cette ces este esta estos estas".split()  # noqa: SIM905
)
_FRAME = frozenset(  # as terms
    """mani much often long kind type sort wrong odd happen mean differ way reason may must might should would use take rememb
    exact actual current alreadi usual general today now someon somebodi anyon anybodi everyth anyth noth problem known know question answer
    recent ani thank hello hi hey good morn afternoon even night bye lot great nice cool welcom sorri glad hope sure ok okay yes yeah yep nope fine
    perfect pls ahead keep going
    help work look find tri undo continu next step want like make chang add new
    decid decis agre remind recal last time ago
    bitt dank danke klar alles weiter gut genau mach nochmal ja nein doch mal schon kannst konnt merci oui non bien parfait super continu
    gracia vale bueno perfecto sigu спасибо хорошо дальше""".split()  # noqa: SIM905
)


def cues_in(text: str) -> PromptCues:
    """The cues in the wording of a prompt."""
    words = [word.strip(_SIGNS) for word in text[:_LOOKED_AT].lower().replace("’", "'").split()]
    padded = f" {' '.join(filter(None, words))} "
    return PromptCues(
        any(cue in padded for cue in _MEMORY),
        not _US.isdisjoint(words),
        not _DEFINITE.isdisjoint(words),
        any(cue in padded for cue in _GENERAL) or (words[:1] in _HOW and not _ONE.isdisjoint(words[1:4])),
    )


def is_frame(term: str) -> bool:
    """Whether a term frames a question or a request (`how many`, `thanks`), or is a number of one or two digits."""
    return term in _FRAME or term in STOP_WORDS or (term.isdigit() and len(term) <= _SHORT_NUMBER)
