"""Standing instructions in what a user says: "always …", "never …", "I prefer …", "please don't …", "from now on …". Pure.

    instructions_in("Thanks! From now on put type hints on functions.")    'From now on put type hints on functions.'

An instruction is a sentence that tells how things shall be done from now on, in English, German, French, Spanish, Russian or Japanese: an order
("never delete …"), a custom ("we always …", "our convention is …") or a polite request ("could you stop adding …?"). It is recognised by how it
begins: an order begins with its cue, a report ("it never worked", "always crashes") does not, or goes on with a form of the verb that is no
order. In Japanese the end of the sentence tells an order.

Text that may be pasted is not looked at: what follows an empty line, a tag, `~~~`, or a line that ends with a colon. An order for the
agent in a pasted mail must not become a standing instruction.

Guarantees: linear in the length of the text, of which the first characters are looked at; a text without a cue costs some substring
searches. Quotations (`> …`), code between ``` and questions, unless they ask politely for a habit, are never instructions.
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
    "in the future", "whenever you", "when you", "time you", "next time", "remember", "unless", "by default", "avoid", "quit ", "refrain", "as a rule", "convention", "policy",
    "our ", "preference", "this project", "this repo", "this code", "let's", "let’s", "no more", "future reference", "every ", "all ", "we only", "keep ", "throughout", "everywhere",
    "appreciate it", "if you ", " me as ", "mind not", "you not ", "please not ", "want you", "like you", "i want all", "need you", "expect you", "it when you", "it if you", "call me", "i like", "i want", "i hate", "i love", "i dislike", "i expect", "d rather", "stop ",
    "immer", "stets", "nie ", "niemals", "ab jetzt", "ab sofort", "von nun an", "künftig", "in zukunft", "bevorzug", "bitte", "lieber", " mich ",
    "ich möchte", "ich will", "ich mag", "ich hätte", "nicht mehr", " kein", "unsere ", "bei uns", "diesem ", "nächsten mal", "grundsätzlich", "vermeide", "aufhören", " auf, ", "denk",
    "toujours", "jamais", "désormais", "dorénavant", "à partir de maintenant", "à l'avenir", "à l’avenir", "préfère", "il te pla",
    "il vous pla", "je veux", "appelle-moi", "appelez-moi", "arrêt", "cesse", "aimerais", "évite", "notre ", "règle générale", "prochaine fois", "plus de ", "plus d'", "plus d’", "ce projet", "ce dépôt",
    "siempre", "nunca", "jamás", "a partir de ahora", "en adelante", "prefiero", "por favor", "quiero que", "llámame", " sin ", "deja", "gustaría", "evita", "nuestr", "regla general", "próxima vez", "nada de ", "no más ", "este proyecto", "este repositorio",
    "всегда", "никогда", "впредь", "отныне", "с этого момента", "предпочита", "пожалуйста", "больше не", "хочу, чтобы", "меня", " без ", "перестань", "прекрати", "следующий раз", "принято", "избегай", "не использ", "больше нрав",
    "今後", "これから", "いつも", "常に", "必ず", "毎回", "決して", "絶対", "二度と", "方が", "ほうが", "呼んで", "やめて", "次回", "プロジェクトでは", "リポジトリでは", "ように", "ほしい",
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
    "|say|look|even|really|want|like|sweat|sell|bother|lose|miss|quit|seem|exist|work|panic|hurry|ask me why|beat|rush"
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
    r"(?:from now on|going forward|henceforth),? (?!is\b|the \w+ (?:is|fails))\S",
    rf"we (?:always|never) (?!(?:{_REPORTS}|see|know|want|hear|find|understand|use to|manage|expect|notice|look|love|enjoy|feel)\b){_BASE_FORM}[a-z-]+(?: \S|$)",
    r"we (?:only|do not|don['’]t) (?:use|support|write|allow|accept|commit|deploy|merge|mock|catch|add|ship|target|name) (?!that|this|it\b)\S",
    r"let['’]?s (?:(?:always|never) [a-z]+ \S|stick to (?!the plan)\S|stop \w{2,}ing \S|avoid \S)",
    r"(?:make sure|ensure)(?: that)? (?:in (?:the )?future|from now on|going forward|you (?:always|never))\b",
    r"i(?:['’]d| would) like you to (?:always|never|ask|stop|avoid|answer|reply|respond|only|\S.* (?:before|after|each|every|whenever|from (?:now|here) on|in future))\b",
    r"i(?:['’]d| would) appreciate it if you (?!could)\S",
    r"it(?:['’]d| would) be (?:great|nice|good|better|best|helpful) if you (?!could|can|would)\S+ \S",
    r"no more (?!time|questions?|errors?|warnings?|failures?|bugs?|crashes|leaks?|memory|rows?|data|disk|space|results?|problems?|issues?|luck|open|of |that\b|than\b)(?!.*(?: now| today| left)\W*$)\S+ \S",
    r"as a rule,? (?!of thumb|it\b|that\b|this\b)\S",
    r"(?:our (?:\w+ )?(?:conventions?|rules?|polic(?:y|ies)|standards?|guidelines?|practices?)|the (?:convention|rule|policy|standard) (?:here|in \w+ \w+|for us)) ?(?:(?:is|are):?|:) (?!in |on |wrong|not |broken|down|was)\S",
    r"my preference is (?!lost|not)\S",
    r"in (?:this|our) (?:project|repo|repository|code ?base|team|company),? (?:please |always |never |we (?:always |never |only )*(?:use(?! a lot| too| up)|write|name|put|prefer|call|format|avoid|do not|don['’]t|keep|commit|test|indent)\b)",
    r"next time,? (?:please )?(?!it\b|i\b|we\b|you\b|the\b|this|that|slot|there|he\b|she\b|they\b|some|around|then)[a-z]+ \S",
    r"remember(?: that (?:we|i|you|all)\b| ?:| (?:we|i) | to .*\b(?:each|every|always|before|after|when)\b)",
    r".*\bunless (?:(?:i|we) (?:say|tell you|told you|ask|specify)|told|stated|noted|specified)(?: otherwise)?\b",
    r"by default,? (?:please )?(?:use|write|answer|reply|put|keep|add|give|make|show|run|assume|work|commit) \S",
    r"avoid (?:using )?(?!the |this|that|it\b)[a-z-]+(?: \S|$)",
    r"(?:quit|refrain from) \w{2,}ing \S",
    rf"keep (?:your |the |all |my )*(?:\w+ )?{_MADE} (?:short|brief|concise|small|simple|under|below|in|as|to|within|at most)\b",
    r"(?:all|every|each)(?: \w+(?:-\w+)?){1,3}? (?:must|needs?|shall|has to|have to) (?!to be fixed)(?!.* (?:problem|bug|why)\b)\S",
    r"i want (?:all|every|each) \S+ \S",
    r"(?:call|address|refer to) (?:me|us|users|\w+) as \S",
    r"use \S.* (?:throughout|everywhere|in all|for all|for every|in every|by default)\b",
    r"when you (?:write|add|change|rename|create|touch|edit|commit|fix|name|answer|update|remove|delete|refactor|review)\b[^,]*, (?!does|do|is|what|why)\S",
    r"for future reference\b[:,]? \S",
    r"in (?:the )?future,? (?:please|always|never|do not|don['’]?t|use|write|ask|answer|put|keep|add|give|make|show|tell|run|avoid) \S",
    r"(?:whenever|every time|each time) you (?!\w+ed\b)[a-z]+[^,]*, \S",
    r"you (?:should|must|shall) (?:always|never) \S",
    r"make sure (?:to|that you|you) (?:always|never) \S",
    r"i (?:generally |usually |strongly |really |always |much |would |do )*prefer (?!not to say|(?:the (?:first|second|third|last|other|latter|former)|this|that|it|option)\b)\S",
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
    r"wir (?!haben|hatten|sind|waren|wussten|kennen|sehen|bekommen|kriegen|finden)\w+en\b.* (?:immer|nie|niemals|stets|grundsätzlich|nur noch) \S",
    r"unsere? (?:konvention|regel|richtlinie|vorgabe)e?n? ?(?:ist|sind|lautet|:)\W",
    r"hör(?: bitte)? auf, \S",
    r"grundsätzlich(?: gilt)?:? (?:keine?n?|nie|immer|gilt|nur|bitte)\b",
    r"ich (?:will|hätte gerne?) (?:keine?n?|kürzere|längere|immer)\b",
    rf"beim nächsten mal,? (?:bitte|erst|zuerst|vorher|{_GERMAN})\b",
    r"(?:bei uns|in diesem (?:projekt|repo|repository|code)),? (?:verwenden|schreiben|nutzen|heißen|gilt|benennen|benutzen|testen|formatieren)\b",
    r"vermeide(?:n sie)? \S",
    r"denke?(?: bitte)?(?: immer)? (?:daran|dran|an)\b",
    r"(?:lass|sprich|lassen sie)(?: mich)?(?: bitte)? (?:künftig|in zukunft|ab jetzt|mit du)\b",
    r"mir wäre(?: es)? lieber,? wenn\b",
    # French
    rf"{_FRENCH}\b(?: \S+)*? (?:toujours|jamais) \S",
    r"(?:toujours|ne (?:jamais|plus)) \w+(?:er|ir|re) \S",
    r"n(?:e |['’])(?!t['’]inqui)\w\S* (?:jamais|plus|pas) \S",
    r"(?:désormais|dorénavant|à partir de maintenant|à l['’]avenir),? \S",
    r"je (?:préfère|préférerais|veux que tu|veux que vous) (?!ne rien)\S",
    r"(?:on|nous) (?!a\b|ont|est|avait|avons|sommes|était)\w+\b.*? (?:toujours|jamais) \S",
    r"(?:arrête|arrêtez|cesse|cessez) (?:de |d['’])\w",
    r"j['’]aimerais (?:bien )?que (?:tu|vous) \S",
    r"évitez? (?:les|des|d['’]|de )\S?",
    r"(?:notre|nos) (?:convention|règle|politique)s? ?(?:est|sont|:)",
    r"en règle générale,? (?!ça|c['’]|il )\S",
    r"la prochaine fois,? (?!ça|c['’]|il |on |tu |je |que )\S",
    r"plus (?:de |d['’])(?!temps|place|problème|erreur)\w+.* (?:dans|en|sur|s['’]il|inutiles?)\b",
    r"dans ce (?:projet|dépôt|code),? (?:on|nous) (?:n['’]?\w* )?(?:utilis|écri|nomm|met)\w*",
    r"assure(?:z)?-(?:toi|vous) de toujours \S",
    r"(?:appelle|appelez)-moi \S",
    # Spanish
    rf"{_SPANISH}\b(?: \S+)*? siempre \S",
    rf"(?:siempre {_SPANISH}|(?:nunca|jamás) \w{{2,}}(?:es|as|en|an|ar|er|ir)) \S",
    r"no \w{2,}(?:es|as|en|an) (?:.* )?(?:nunca|jamás|sin|más)\b",
    r"(?:a partir de ahora|(?:de ahora )?en adelante),? \S",
    r"(?:prefiero|preferiría|quiero que (?:siempre|nunca|no)) \S",
    r"llámame \S",
    r"(?:siempre|nunca) (?!tuvimos|vimos|hicimos|fuimos|pudimos|estuvimos|supimos|hemos)\w+(?:amos|emos|imos) \S",
    r"deja(?:d)? de \w+(?:ar|er|ir)\b",
    r"me gustaría que \w+(?:aras|eras|ases|ieses)\b",
    r"evita (?:los|las|usar|el uso|siempre) ?\S",
    r"nuestr[ao] (?:convención|regla|política|norma) ?(?:es|:)",
    r"por (?:regla general|norma),? \S",
    r"la próxima vez,? (?!irá|será|que|va\b|no sé|me\b|lo\b)\w+ \S",
    r"(?:no más|nada de) (?!tiempo|errores|filas|problemas)\w+ (?:en|con|por|para)\b",
    r"en este (?:proyecto|repositorio|código),? (?:siempre |nunca |no )?\w+(?:amos|emos|imos)\b",
    r"quiero que \w+(?:as|es)\b.* siempre\b",
    r"asegúrate de .*siempre\b",
    # Russian
    rf"(?:всегда {_RUSSIAN}|никогда (?:больше )?не {_RUSSIAN}|больше (?:никогда )?не {_RUSSIAN}) \S",
    rf"{_RUSSIAN} (?:\S+ )*?(?:всегда|только) \S",
    r"не \w+(?:й|йте|и|ите) (?:.* )?(?:без|никогда|больше)\b",
    r"(?:впредь|отныне|с этого момента),? \S",
    r"я (?:предпочитаю|бы предпоч[её]л(?:а)?|хочу, чтобы ты|не хочу, чтобы ты) \S",
    r"(?:зови|называй) меня \S",
    r"мы (?:всегда|никогда не) \w+(?:ем|им|ём)\b \S",
    r"(?:перестань|прекрати|хватит) \w+ть\b",
    r"в следующий раз,? (?:сначала|пожалуйста|не |покажи|спроси|спрашивай|запусти|проверь|используй)",
    r"у нас принято \S",
    r"избегай(?:те)? \S",
    r"не (?:используй|добавляй|трогай)(?:те)? \S",
    r"мне больше нрав\w+ \S",
)
_POLITE_RULES = (  # orders only after "please"
    r"(?:do not|don['’]?t) (?!(?:worry|hesitate|forget|mind)\b)[a-z]{2,} \S",
    r"n(?:e |['’])\w\S* pas \S",
    r"no \w{2,}(?:es|as|en|an) \S",
    r"не \w+(?:й|йте|и|ите) \S",
)
_QUESTIONS = (  # questions that ask for a habit
    r"(?:can|could|would|will) you (?:please )?(?:(?:always|never) (?!reproduce|see|get)[a-z]+ \S|(?:stop|quit|avoid|mind not) \w{2,}ing \S|not \w+ (?!it\b|that\b|this\b)\S|address me|call me \S)",
    r"(?:kannst|könntest|würdest) du (?:bitte )?(?:(?:immer|künftig|in zukunft|ab jetzt) \S|.*aufhören, \S)",
    r"(?:tu peux|peux-tu|pourrais-tu|tu pourrais) (?:s['’]il te plaît )?(?:arrêter (?:de |d['’])\w|toujours \S)",
    r"¿?(?:puedes|podrías) (?:por favor )?dejar de \w+(?:ar|er|ir)\b",
)
# A question behind a wish: "I prefer tabs, can you convert the file?"
_ASKED_BEHIND = (
    r"[,;:–] ?(?:so )?¿?(?:can|could|would|will|kannst|könntest|tu|peux|pourrais|puedes|podrías|можешь|мог)\b[^,]*\?$"
)
_PLEASE = r"(?:please|s['’]il (?:te|vous) pla[iî]t|por favor|пожалуйста),? "
_JAPANESE = (
    r"(?:今後|これから|いつも|常に|必ず|毎回|決して|絶対に|二度と).*(?:ください|下さい|ないで|してね|てほしい|て欲しい|こと|お願いします|して)(?:です)?$"
    r"|次回から.*(?:ください|下さい|ほしい|欲しい)(?:です)?$|のを?は?やめて(?:ください|下さい|ほしい)|(?:プロジェクト|リポジトリ|チーム)では.*(?:使います|書きます|します|使いません|書きません)$"
    r"|(?:ように|短く|短め|簡潔)に?(?:して|お願い).{0,4}(?:ください|下さい|ほしい|欲しい|します)(?:です)?$"
    r"|(?:ほう|方)が(?:いい|良い|好き|好み)(?:です|だ)?$|呼んで(?:ください|下さい|ね)?$"
)
# Words that may stand before an order, and a short beginning such as "As I said," or "For the record:".
OPENING_WORDS = (
    r"(?:(?:ok(?:ay)?|yes|no|so|and|also|but|well|oh|hey|hi|right|great|thanks|thank you|btw|by the way|please|note|rule"
    r"|just|remember|ja|nein|und|auch|also|danke|übrigens|oui|non|et|aussi|merci|s['’]il (?:te|vous) pla[iî]t|sí|y|también|gracias"
    r"|por favor|да|нет|и|а|ещё|кстати|спасибо|пожалуйста)\b[\s,:;!.…–-]*)*"
)
_OPENING = rf"(?:[^,:;]{{1,40}}[,:] ){{0,2}}{OPENING_WORDS}"


def instructions_in(text: str) -> str:
    """The sentences of a text that are standing instructions; empty if there is none."""
    lowered = text[:_LOOKED_AT].lower()
    for cue in _CUES:  # a loop: `any` with a generator takes twice as long, and every turn of a user is looked at
        if cue in lowered:
            return " ".join(filter(is_instruction, sentences_of(text)))
    return ""


def sentences_of(text: str, *, cuts_pasted: bool = True) -> list[str]:
    """The sentences of a text, without quotations and code; by default up to the first line that announces or begins pasted text.

    What follows a colon at the end of a line, a tag, `~~~` or an empty line may be somebody else's words: a mail, a log, a page.
    """
    text = text[:_LOOKED_AT]
    prose = "\n".join(text.split(_CODE)[::2]) if _CODE in text else text
    lines = []
    for line in map(str.strip, prose.strip().splitlines()):
        if cuts_pasted and (not line or line[0] == "<" or line.startswith("~~~")):
            break
        lines.append(line)
        if cuts_pasted and line[-1] in ":：":
            break
    found = [each for line in lines if line[:1] != ">" for each in pattern(r"(?<=[.!?])\s+|(?<=[。！？])").split(line)]
    return [each.strip(" \t*-•") for each in found]


def is_instruction(sentence: str) -> bool:
    """Whether a sentence of a user is a standing instruction."""
    if not len(sentence) * (1 if sentence.isascii() else 2) >= 8 or len(sentence) > _LONGEST:
        return False
    folded = sentence.lower()
    if folded[-1] in "?？":
        wish = pattern(_ASKED_BEHIND).sub("", folded)
        return bool(_rules(wish != folded).match(wish))
    folded = folded.rstrip(" .!。！…\"')")
    return bool(_rules(True).match(folded) or (not folded.isascii() and pattern(_JAPANESE).search(folded)))


@cache
def _rules(is_statement: bool) -> re.Pattern[str]:
    if not is_statement:
        return pattern(f"{_OPENING}(?:{'|'.join(_QUESTIONS)})")
    rules, polite_rules = ("|".join(each) for each in (_RULES, _POLITE_RULES))
    return pattern(f"{_OPENING}(?:{_PLEASE}(?:{polite_rules})|(?:{rules}))")


@cache
def pattern(expression: str) -> re.Pattern[str]:
    """A compiled expression; `re` is loaded at the first use."""
    import re

    return re.compile(expression)
