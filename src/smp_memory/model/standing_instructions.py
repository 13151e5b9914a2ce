"""Standing instructions in what a user says: "always …", "never …", "I prefer …", "please don't …", "from now on …". Pure.

    instructions_in("Thanks! From now on put type hints on functions.")    'From now on put type hints on functions.'

An instruction is a sentence that tells how things shall be done from now on, in English, German, French, Spanish, Russian or Japanese. It is
recognised by how it begins: an order ("never delete …") begins with its cue, a report ("it never worked", "always crashes") does not, or
goes on with a form of the verb that is no order. In Japanese the end of the sentence tells an order.

Text that may be pasted is not looked at: what follows an empty line, a tag, `~~~`, or a line that ends with a colon. An order for the
agent in a pasted mail must not become a standing instruction.

Guarantees: linear in the length of the text, of which the first characters are looked at; a text without a cue costs some substring
searches. Questions, quotations (`> …`) and code between ``` are never instructions.
Non-guarantees: an order for the moment in the same words ("please don't run the tests") counts as one; those in other words are
missed.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_LOOKED_AT = 8000  # characters of a text
_LONGEST = 300  # characters; a longer sentence is a report
_CODE = "```"
_CUES = (  # one of them is in every instruction
    "always", "never", "prefer", "from now on", "don't", "don’t", "do not", "dont ", "going forward", "henceforth", "in future",
    "in the future", "whenever you", "time you", "want you", "need you", "expect you", "it when you", "it if you", "call me", "i like", "i want", "i hate", "i love", "i dislike", "i expect", "d rather", "stop ",
    "immer", "stets", "nie ", "niemals", "ab jetzt", "ab sofort", "von nun an", "künftig", "in zukunft", "bevorzug", "bitte", "lieber", " mich ",
    "ich möchte", "ich will", "ich mag", "nicht mehr", " kein",
    "toujours", "jamais", "désormais", "dorénavant", "à partir de maintenant", "à l'avenir", "à l’avenir", "préfère", "il te pla",
    "il vous pla", "je veux", "appelle-moi", "appelez-moi",
    "siempre", "nunca", "jamás", "a partir de ahora", "en adelante", "prefiero", "por favor", "quiero que", "llámame", " sin ",
    "всегда", "никогда", "впредь", "отныне", "с этого момента", "предпочита", "пожалуйста", "больше не", "хочу, чтобы", "меня", " без ",
    "今後", "これから", "いつも", "常に", "必ず", "毎回", "決して", "絶対", "二度と", "方が", "ほうが", "呼んで",
)  # fmt: skip

# Words after "always" and "never" that make a report or a saying of it, and verbs after "don't" that are no order.
_REPORTS = (
    "a|an|the|again|mind|been|had|has|have|heard|knew|known|thought|seen|saw|said|got|did|was|were|is|are|am|will|would|could|should|can|may"
    "|might|must|too|that|this|these|those|my|your|our|their|his|her|its|in|on|at|to|of|so|more|less|better|worse|good|great|happy|glad"
    "|nice|sure|really|quite|very|fun|there|here|i|you|he|she|it|we|they|when|if|because|since|before|after|ever|once|felt|made|came|went"
    "|took|gave|found|left|told|kept|lost|met|won|meant|brought|bought|ran|wrote|spoke|fell|grew|held|led|paid|sold|stood|taught"
    "|understood|love|enough|up|down|calm|say|count|give|easy|hard|interesting|worth|late|busy|ready|underestimate|mine|any|and|or|but|not|for|from|with|as"
)
_NO_ORDERS = (
    "worry|know|think|mind|understand|see|believe|remember|recall|have|need|care|get|give|forget|feel|be|you|we|they|i|agree|hesitate|let"
    "|say|look|even|really|want|like|sweat|sell|bother|lose|miss|seem|exist|work|panic|hurry|ask me why|beat|rush"
)
_BASE_FORM = r"(?!\w+(?<!ne)(?<!fe)(?<!emb)(?<!proce)(?<!exce)(?<!se)(?<!spe)ed\b)(?!\w{2,}(?<!br)(?<!p)(?<!str)ing\b)(?!\w+(?<!s)(?<!focu)s\b)"
# What an assistant makes: "I like short answers" is an instruction, "I like hiking" is not.
_MADE = (
    r"(?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|code|comments?|commits?|messages?|subjects?|e?-?mails?|dates?|numbers?|names?|lists?"
    r"|tables?|tests?|reports?|docs?|documents?|documentation|files?|logs?|headings?|titles?|sentences?|texts?|explanations?|examples?"
    r"|bullet points?|functions?|variables?|branches|diffs?|patches|minutes|notes|emojis?|dependenc(?:y|ies))"
)
# Beginnings of orders: what one tells an assistant to do.
_GERMAN = (
    r"(?:schreib|nutz|verwend|benutz|antwort|lösch|frag|mach|füg|setz|gib|teste|halt|lass|beginn|ende|beend|formatier|kommentier|erklär|zeig"
    r"|commit|deploy|push|mock|vermeid|achte|nimm|sprich|fass|füge|änder|prüf|sag|bleib|red|sprech|duz|siez)(?:e|en sie|t|)"
)
_FRENCH = (
    r"(?:utilise|ajoute|demande|termine|commence|garde|donne|évite|teste|vérifie|documente|explique|formate|nomme|emploie|laisse|[ée]cris"
    r"|réponds|mets|fais|\w{2,}ez)"
)
_SPANISH = (
    r"(?:usa|utiliza|escribe|responde|pon|haz|añade|agrega|pregunta|termina|contesta|prueba|comenta|mantén|incluye|evita|revisa|formatea"
    r"|documenta|explica|nombra|deja|\w{2,}(?:ar|er|ir))"
)
_RUSSIAN = r"(?:\w+(?:й|йте|и|ите|ь|ьте|йся|ть))"
_RULES = (
    # English
    rf"(?:always|never)(?: ever)? (?!(?:{_REPORTS})\b){_BASE_FORM}[a-z]+ \S",
    rf"(?:do not|don['’]?t)(?: ever| you ever)? (?!(?:{_NO_ORDERS})\b)[a-z]{{2,}} (?!(?:it|that|this|so|them|now|yet|here|there)\W*$)\S",
    r"(?:from now on|going forward|henceforth),? \S",
    r"in (?:the )?future,? (?:please|always|never|do not|don['’]?t|use|write|ask|answer|put|keep|add|give|make|show|tell|run|avoid) \S",
    r"(?:whenever|every time|each time) you (?!\w+ed\b)[a-z]+[^,]*, \S",
    r"you (?:should|must|shall) (?:always|never) \S",
    r"make sure (?:to|that you|you) (?:always|never) \S",
    r"i (?:generally |usually |strongly |really |always |much |would |do )*prefer (?!not to say)\S",
    r"i(?:['’]d| would) (?:much |always |really )?(?:prefer|rather (?:you|have|see|not have)) \S",
    r"i (?:never|always) want \S",
    rf"i (?:do not|don['’]?t) (?:ever )?(?:want|like) (?:you to|it when|to see|any|{_MADE})\b",
    rf"i (?:like|want|hate|dislike|love|expect) (?:it (?:when|if) you|(?:my |your |the |all |only |short |long |brief |concise )*{_MADE}) \S",
    r"i (?:want|need|expect) you to (?:always|never|stop|only) \S",
    r"stop \w{2,}ing \S",
    r"call me (?!back|later|when|tomorrow|today|at|on|if|crazy|old|(?:a|an|in|as)\b)\S",
    # German
    r"(?:ab jetzt|ab sofort|von nun an|künftig|in zukunft)\b,? (?!ist|war|wird|werde|will ich|möchte ich)\S+ \S",
    r"(?:immer|stets|nie|niemals) (?!wieder|noch|mehr|weniger|wenn|dann|ge\w+t?\b|im leben)(?!.* ge\w+(?:t|en)\W*$)\S.* \w+en\W*$",
    rf"{_GERMAN}\b(?: \S+)*? (?:immer|stets|nie|niemals|nur noch|nicht mehr|keine?n?|nicht ohne) \S",
    r"bitte (?:immer|stets|nie|niemals|keine?n?|nicht(?! wundern)) \S",
    r"ich (?:bevorzuge|mag lieber|hätte (?:es )?lieber|möchte (?:nie|immer|keine?n?)|(?:möchte|will)(?: nicht)?, dass du|mag es(?: nicht)?, wenn du) ?\S",
    r"mir (?:ist|sind|wäre|wären) \S.* lieber\b",
    r"nenn(?:e|en sie)? mich \S",
    # French
    rf"{_FRENCH}\b(?: \S+)*? (?:toujours|jamais) \S",
    r"(?:toujours|ne (?:jamais|plus)) \w+(?:er|ir|re) \S",
    r"n(?:e |['’])(?!t['’]inqui)\w\S* (?:jamais|plus|pas) \S",
    r"(?:désormais|dorénavant|à partir de maintenant|à l['’]avenir),? \S",
    r"je (?:préfère|préférerais|veux que tu|veux que vous) \S",
    r"(?:appelle|appelez)-moi \S",
    # Spanish
    rf"{_SPANISH}\b(?: \S+)*? siempre \S",
    rf"(?:siempre {_SPANISH}|(?:nunca|jamás) \w{{2,}}(?:es|as|en|an|ar|er|ir)) \S",
    r"no \w{2,}(?:es|as|en|an) (?:.* )?(?:nunca|jamás|sin|más)\b",
    r"(?:a partir de ahora|(?:de ahora )?en adelante),? \S",
    r"(?:prefiero|preferiría|quiero que (?:siempre|nunca|no)) \S",
    r"llámame \S",
    # Russian
    rf"(?:всегда {_RUSSIAN}|никогда (?:больше )?не {_RUSSIAN}|больше (?:никогда )?не {_RUSSIAN}) \S",
    rf"{_RUSSIAN} (?:\S+ )*?(?:всегда|только) \S",
    r"не \w+(?:й|йте|и|ите) (?:.* )?(?:без|никогда|больше)\b",
    r"(?:впредь|отныне|с этого момента),? \S",
    r"я (?:предпочитаю|бы предпоч[её]л(?:а)?|хочу, чтобы ты|не хочу, чтобы ты) \S",
    r"(?:зови|называй) меня \S",
)
_POLITE_RULES = (  # orders only after "please"
    r"(?:do not|don['’]?t) (?!(?:worry|hesitate|forget|mind)\b)[a-z]{2,} \S",
    r"n(?:e |['’])\w\S* pas \S",
    r"no \w{2,}(?:es|as|en|an) \S",
    r"не \w+(?:й|йте|и|ите) \S",
)
_PLEASE = r"(?:please|s['’]il (?:te|vous) pla[iî]t|por favor|пожалуйста),? "
_JAPANESE = (
    r"(?:今後|これから|いつも|常に|必ず|毎回|決して|絶対に|二度と).*(?:ください|下さい|ないで|してね|てほしい|て欲しい|こと|お願いします|して)$"
    r"|(?:ほう|方)が(?:いい|良い|好き|好み)(?:です|だ)?$|呼んで(?:ください|下さい|ね)?$"
)
# Words that may stand before an order, and a short beginning such as "As I said," or "For the record:".
_OPENING = (
    r"(?:[^,:;]{1,40}[,:] ){0,2}(?:(?:ok(?:ay)?|yes|no|so|and|also|but|well|oh|hey|hi|right|great|thanks|thank you|btw|by the way|please|note|rule"
    r"|just|remember|ja|nein|und|auch|also|danke|übrigens|oui|non|et|aussi|merci|s['’]il (?:te|vous) pla[iî]t|sí|y|también|gracias"
    r"|por favor|да|нет|и|а|ещё|кстати|спасибо|пожалуйста)\b[\s,:;!.…–-]*)*"
)


def instructions_in(text: str) -> str:
    """The sentences of a text that are standing instructions; empty if there is none."""
    looked_at = text[:_LOOKED_AT]
    lowered = looked_at.lower()
    for cue in _CUES:  # a loop: `any` with a generator takes twice as long, and every turn of a user is looked at
        if cue in lowered:
            return " ".join(sentence for sentence in _sentences(looked_at) if _is_instruction(sentence))
    return ""


def _sentences(text: str) -> list[str]:
    """The sentences of a text, without quotations and code, up to the first line that announces or begins pasted text.

    What follows a colon at the end of a line, a tag, `~~~` or an empty line may be somebody else's words: a mail, a log, a page.
    """
    prose = "\n".join(text.split(_CODE)[::2]) if _CODE in text else text
    lines = []
    for line in map(str.strip, prose.strip().splitlines()):
        if not line or line[0] == "<" or line.startswith("~~~"):
            break
        lines.append(line)
        if line[-1] in ":：":
            break
    found = [each for line in lines if line[:1] != ">" for each in _pattern(r"(?<=[.!?])\s+|(?<=[。！？])").split(line)]
    return [each.strip(" \t*-•") for each in found]


def _is_instruction(sentence: str) -> bool:
    if not len(sentence) * (1 if sentence.isascii() else 2) >= 8 or len(sentence) > _LONGEST or sentence[-1] in "?？":
        return False
    folded = sentence.lower().rstrip(" .!。！…\"')")
    return bool(_rules().match(folded) or (not folded.isascii() and _pattern(_JAPANESE).search(folded)))


@cache
def _rules() -> re.Pattern[str]:
    rules, polite_rules = ("|".join(each) for each in (_RULES, _POLITE_RULES))
    return _pattern(f"{_OPENING}(?:{_PLEASE}(?:{polite_rules})|(?:{rules}))")


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    import re

    return re.compile(expression)
