"""Standing instructions in what a user says: "always …", "never …", "I prefer …", "please don't …", "from now on …". Pure.

    instructions_in("Thanks! From now on put type hints on functions.")    'From now on put type hints on functions.'

An instruction is a sentence that tells how things shall be done from now on, in English, German, French, Spanish, Russian or Japanese: an order
("never delete …", "before each commit run …"), a custom ("we always …", "house rule: …"), a demand ("every endpoint must …", "no emojis, please"),
a like or dislike of what an assistant makes, or a polite request ("could you stop adding …?"). It is recognised by how it begins: an order
begins with its cue, a report ("it never worked", "always crashes") does not, or goes on with a form of the verb that is no order. In Japanese
the end of the sentence tells an order. Each language has its rules, which are compiled and tried only for a sentence with a cue of the language.

Text that may be pasted is not looked at: what follows an empty line, a tag, `~~~`, or a line that ends with a colon. An order for the
agent in a pasted mail must not become a standing instruction.

Guarantees: linear in the length of the text, of which the first characters are looked at; a text without a cue costs some substring
searches. Quotations (`> …`), code between ``` and questions, unless they ask politely for a habit, are never instructions.
Non-guarantees: an order for the moment counts as one unless a word says so ("yet", "for now", "by noon"); those in other words are missed;
`tests/proposal_set` measures both.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_LOOKED_AT = 8000  # characters of a text
_LONGEST = 300  # characters; a longer sentence is a report
_CODE = "```"
_CUES = {  # by language: one of them is in every instruction
    "en": (
        "always", "never", "usually", "normally", "assume", "hands off", "leave ", "how we", "let me", ", so ", "for ", "prefer", "favo", "stick to", "first", "try ", "prefix", " than ", "now on", "here on", "point on", "day on", "forward", "henceforth", "as of", "starting", "future", "general", "default", "principle", "a rule", "rule", "convention", "polic", "style", "guideline", "standard",
        "don't", "don’t", "do not", "dont ", "not ", "can't", "can’t", "no ", "only", "each ", "every", "all ", "any", "new ", "whenever", "when ", "if ", "unless", "before", "after", "time", "remember", "mind", "habit", "forget", "sure", "avoid", "quit ", "refrain", "stop ", "skip", "spare", "be ", "keep ", "use ", "answer", "reply", "respond", "speak", "talk", "please", "must", "should", " to ", "belong", "here", "project", "repo", "our ", "team", "let's", "let’s", "throughout",
        "forbidden", "limits", "allowed", "mandatory", "ban", "without", " me ", "call me", "i like", "i want", "i hate", "i love", "dislike", "i expect", "i insist", "i care", "i value", "i need", "d like", "d rather", "d love", "appreciate", "fan of", "allergic", "important", "crucial", "essential", "write ", "wrap ", "indent ", "name ", "log ",
    ),
    "de": (
        "immer", "stets", "nie ", "niemals", "ab jetzt", "ab sofort", "ab heute", "nun an", "jetzt an", "fortan", "künftig", "zukunft", "bevorzug", "bitte", "lieber", " mich ", " mir ", "mir ", "ich ", "nicht", "kein", "unsere ", "bei uns", "hier ", "diese", "unserem", "mal ", "grundsätzlich", "generell", "prinzipiell", "in der regel", "standardmäßig", "ausschließlich", "ausnahm", "umständen", "jede", "alle ", "regel", "konvention", "richtlinie", "vorgabe", "vermeide", "verzicht", "aufhören", " auf, ", "denk", "merk", "vergiss", "gewöhn", "bevor", "wenn du",
        "du ", "finger", "wir ", "nur ", "neue", "gehör", "müssen", "sollen", "dürfen", "verboten", "tabu", "pflicht", "antworte", "halt",
    ),
    "fr": (
        "toujours", "jamais", "ne ", "n'", "n’", " pas", "toute ", "merci de", "-moi", "les ", "désormais", "dorénavant", "partir d", "dès ", "avenir", "préfère", "privilégie", "il te pla", "il vous pla", "stp", "svp", "je ", "j'", "j’", "appelle-moi", "appelez-moi", "arrêt", "cesse", "évite", "notre ", "nos ", "chez nous", "ici", "règle", "convention",
        "général", "principe", "systématiquement", "défaut", "sauf ", "aucun", "prochaine fois", "plus de ", "plus d'", "plus d’", "pas d", "ce projet", "ce dépôt", "cette équipe", "chaque", "tous ", "toutes ", "tout ", "doivent", "dois", "faut", "avant ", "quand tu", "m'", "m’", "important", "habitude", "oublie", "pense", "tête", "interdit", "réponds", "sois",
    ),
    "es": (
        "siempre", "nunca", "tutéa", "los ", "las ", "mantén", "procura", "intenta", "trata", "trátame", "jamás", "a partir de", "adelante", "desde ", "futuro", "sucesivo", "prefier", "prefer", "por favor", "quiero", "llámame", "sin ", "deja", "me ", "evita", "nuestr", "regla", "norma", "convención", "general", "por defecto", "principio", "ningun", "ningún", "próxima vez", "nada de ", "no ", "este ", "aquí",
        "cada ", "todos ", "todas ", "todo ", "deben", "debe ", "antes de", "cuando ", "odio", "detesto", "importante", "acuérdate", "recuerda", "olvid", "en cuenta", "acost", "prohibid", "responde", "sé ",
    ),
    "ru": (
        "всегда", "никогда", "пиши", "делай", "использу", "добавляй", "запускай", "обновляй", "показывай", "проверяй", "называй", "оставляй", "храни", "обращайся", "объясняй", "соблюдай", "придерживайся", "старайся", "если ", "впредь", "отныне", "момента", "сегодня", "дальнейшем", "будущ", "предпочита", "предпоч", "пожалуйста", "больше не", "больше ник", "чтобы", "меня", "мне ", "без ", "никаких", "перестань", "прекрати", "хватит", "следующий раз", "принято", "избегай", "не ", "нрав", "только",
        "как правило", "обычно", "умолчанию", "принцип", "в целом", "ни в коем", "ни при каких", "каждый", "каждо", "каждой", "каждым", "каждую", "все ", "любо", "правил", "соглашение", "у нас", "здесь", "мы ", "этом проекте", "должн", "ненавижу", "терпеть", "люблю", "забывай", "помни", "в виду", "учти", "учитывай", "запомни", "спрашивай", "спроси", "когда", "нельзя", "запрещ", "отвечай",
    ),
    "ja": (
        "今後", "これから", "今日から", "以後", "以降", "いつも", "常に", "必ず", "毎回", "決して", "絶対", "二度と", "原則", "基本", "デフォルト", "一切", "場合", "とき", "際", "たび", "ごと", "前に", "方が", "ほうが", "呼んで", "やめて", "次回", "では", "ように", "ほしい", "欲しい", "こと", "ないで", "不要", "必要", "いりません", "必須", "嫌い", "好き", "好み", "苦手", "禁止", "厳禁", "ルール", "規約", "方針", "決まり", "で答え", "で書", "短", "簡潔", "お願い", "困り", "覚えて", "重視", "徹底", "心がけ", "なしで", "いけません", "ください",
    ),
}  # fmt: skip

# A wish for the moment, in any language: no standing instruction.
_MOMENT = (
    r"\b(?:yet|for now|(?:right|just) now|at the moment|for the moment|this time(?! on)|(?<!f )(?<!m )(?<!g )today|tomorrow|tonight|this (?:morning|afternoon|week|sprint|page|screenshot|request|call|option|one)|by (?:noon|tonight|\w+day|eod|\d)|(?:until|till) (?:\d|then|noon|next|\w+day|i\b|we\b)|for (?:this|that|the current) (?:test|file|page|function|fix|run|branch|commit|pr|ticket|task|bug|change|case|release|screen\w*|meeting)|(?:on|in|for) this (?:dialog|screen|view|form|table|slide|text|draft|e?mail|paragraph)"
    r"|(?:in|on|from|of) this (?:handler|function|method|class|module|component|endpoint|query|script|loop|test|file|branch|pr|commit|case|step|example|service|patch|diff|migration|chart|plot|figure|graph|image|picture|letter|essay|story|recipe|answer|list|message|report|section|chapter|slide|post)|(?:implement|add|fix|do|change|write|make|put|move) (?:that|this|it)(?= in\b| into\b| to\b|$)"
    r"|noch nicht|erst ?mal|vorerst|im moment|gerade|(?<!guten )morgen|(?<!ab )heute|pas encore|encore pas|pour l['’]instant|demain|(?<!d['’])aujourd['’]hui|todavía|aún|por ahora|de momento|mañana|bis (?:ich|wir)|avant que|jusqu|hasta que|пока|ещё не|завтра)\b|^(?:please )?(?:do not|don['’]?t|use|i(?:['’]d| would) prefer)\b.*\bhere$|(?:do not|don['’]t) [a-z]+ (?:that|this|these|those) \w|^(?:please )?(?:translate|rewrite|rephrase|proofread|paraphrase|summari[sz]e|correct)\b|まだ|今は|とりあえず|明日|今回|まで"
)
# Parts of a product: what holds for all of them is a requirement of the task.
_PRODUCT = r"\b(?:all|every|each) (?:the |of the )?(?:\w+ )?(?:buttons?|screens?|pages?|fields|users?|menus?|icons?|tabs|cards?|windows?|dialogs?|forms?|notifications?|players?|customers?|visitors?|rows?|cells?)\b"
# Beginnings of sentences that tell a decision, a lesson or what others want.
_OF_OTHERS = r"(?:according to|lessons?\b|gotcha|good to know|note to self|takeaway|pitfall|worth (?:knowing|noting)|for the record: (?!i\b|we\b|please|never|always)|(?:final )?decision\b|decided\b|agreed\b|approved\b|décision\b|decisión\b|entscheidung\b|beschlossen\b|for the record, i|he\b|she\b|they\b|laut\b|selon\b|según\b|по словам|merke:|(?:the|my|our|a|der|die|das|mein|le|la|mon|el|mi|мой) \S+ (?:say|said|want|told|tell|like|prefer|mean|ask|need|expect|sagt|will|meint|dit|veut|dice|quiere|хочет|говорит)\w*\b)"
# Words after "always" and "never" that make a report or a saying of it, and verbs after "don't" that are no order.
_REPORTS = (
    "a|an|the|again|right|mind|been|had|has|have|heard|knew|known|thought|seen|saw|said|got|did|was|were|is|are|am|will|would|could|should|can|may|might|must|too|that|this|these|those|my|your|our|their|his|her|its|in|on|at|to|of|so|more|less|better|worse|good|great|happy|glad|nice|sure|really|quite|very|fun|there|here|i|you|he|she|it|we|they|when|if|because|since|before|after|ever|once|felt|made|came|went|took|gave|found|left|told|kept|lost|met|won|meant|brought|bought|ran|wrote|spoke|fell|grew|held|led|paid|sold|stood|taught"
    "|understood|love|enough|up|down|calm|say|count|give|easy|hard|interesting|worth|late|busy|ready|underestimate|mine|any|and|or|but|not|for|from|with|as|blame"
)
_NO_ORDERS = "ever|hold|worry|know|think|mind|understand|see|believe|remember|recall|have|need|care|get|give|forget|feel|be|you|we|they|i|agree|hesitate|let|say|look|even|really|want|like|sweat|sell|bother|lose|miss|quit|seem|exist|work|panic|hurry|ask me why|beat|rush|wait"
_BASE_FORM = r"(?!\w+(?<!ne)(?<!fe)(?<!emb)(?<!proce)(?<!exce)(?<!se)(?<!spe)ed\b)(?!\w{2,}(?<!br)(?<!p)(?<!str)ing\b)(?!\w+(?<!s)(?<!focu)s\b)"
# What an assistant makes: "I like short answers" is an instruction, "I like hiking" is not. And what one does not want to see in it.
_MADE = r"(?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|code|comments?|commits?|messages?|subjects?|e?-?mails?|dates?|numbers?|names?|lists?|tables?|tests?|reports?|docs?|documents?|documentation|files?|logs?|headings?|titles?|sentences?|texts?|explanations?|examples?|words?|bullet points?|functions?|variables?|branches|diffs?|patches|minutes|notes|emojis?|dependenc(?:y|ies)|prs?|pull requests?|type hints?|identifiers?)"
_UNLOVED = (
    r"(?:abbreviations?|acronyms?|emojis?|exclamation marks?|(?:force|direct)[- ]\w+|comments|docstrings?|todos?|mocks?|mocking|globals?|global \w+|singletons?|(?:nested )?ternar(?:y|ies)|magic \w+|hard-?coded \w+|inline \w+|default exports?|(?:wildcard|star|relative) imports?|prints?|print statements?|console\.\w+|secrets?|semicolons?|jargon|buzzwords?|apolog\w+|explanations?|preambles?|intros?|small talk|\w+-letter \w+|(?:new |extra |third-party )?dependenc(?:y|ies)"
    r"|merge commits?|(?:commit|push|merge|deploy|release)e?s? (?:on|to|without)|passive voice|logic|eval|goto|raw sql|nested \w+|commented-out \w+|lambdas?|one-liners?|inheritance|boilerplate|fluff|walls? of text|filler\w*|guess\w*)"
)
# English: from when, how generally, verbs of orders, beginnings of rules, subjects of which one speaks in particular.
_FROM_NOW = r"(?:from (?:now|here|today|this (?:point|day))(?: on(?:wards?)?(?: out)?| forward)|from today|(?:going|moving) forward|henceforth|as of (?:today|now)|start(?:ing)? (?:today|now)|effective immediately|for (?:all |any |every )?future (?:tasks?|work|changes?|code|commits?|prs?|files?|answers?|requests?|sessions?|projects?|edits?|releases?|features?|questions?))"
_GENERALLY = r"(?:in (?:the )?future|(?:in general|generally|usually|normally|typically)(?: speaking)?|as a (?:general |matter of )?(?:rule|principle|course)|(?:on|out of) principle|by default|where(?:ver)? possible|when(?:ever)? possible|at all times|under (?:no|any) circumstances?|in no case|every (?:single )?time|each time|no matter what|as (?:far|much) as possible|(?:when|if) (?:in doubt|unsure|(?:you(?:['’]re| are) )?(?:unsure|not sure|in doubt)))"
_ORDER = (
    r"(?:use|write|put|run|add|keep|make|ask|tell|show|give|name|call|commit|push|format|test|document|log|check|review|update|explain|answer|reply|respond|treat|follow|prefer|favou?r|store|place|create|include|wrap|sort|leave|validate|squash|rebase|tag|prefix|pin|link|cite|summari[sz]e|assume|stick|limit|indent|separate|split|start|begin|end|finish|sign|import|return|catch|raise|throw|handle|escape|annotate|cover|mention|warn|confirm|verify|bump|regenerate|work|deploy|merge"
    r"|back up|translate|speak|talk|avoid|stop|skip|mock|state|list|quote|order|group|define|declare|mark|round|provide|attach|describe|double-check|target|support|ship|accept|allow|indent|do|be|go)"
)
_RULE = rf"(?:please|{_ORDER}|only|just|never|always|don['’]?t|do not|no|not|nothing|one|all|every|each|any|new|short|small|i (?:always |only |never |do not |don['’]?t )*(?:want|need|expect|prefer|like)|we (?!see|have|need|had|are|get|find|can|could|may|might|will)[a-z]+|i(?:['’]d| would) (?:like|prefer|rather)|you (?:must|should|shall|may|can|are))"
_PARTICULAR = r"(?:the|this|that|these|those|it|its|he|she|they|we|you|i|there|here|my|your|his|her|their|what|which|who|both|some|two|three|things?|users?|customers?|does|is|was|yes|us|let['’]s|why|access|\w+ing|if|when\w*|because|as|in|on|at|for|since|so|maybe|looks|seems|\w+ed)\b"
# Other languages: from when on and how generally; beginnings of orders: what one tells an assistant to do.
_GERMAN = r"(?:schreib|nutz|verwend|benutz|antwort|lösch|frag|mach|füg|setz|gib|teste|halt|lass|beginn|ende|beend|formatier|kommentier|erklär|zeig|führ|aktualisier|dokumentier|nenn|leg|arbeit|stell|informier|warn|bevorzug|orientier|starte|commit|deploy|push|mock|vermeid|achte|nimm|sprich|fass|füge|änder|prüf|sag|bleib|red|sprech|duz|siez|verzicht|merg|log|pass|lauf|lies|bestätig|ergänz)(?:e|en sie|t|)"
_GERMAN_ALWAYS = r"(?:ab jetzt|ab sofort|ab heute|von (?:nun|jetzt) an|fortan|künftig|zukünftig|in zukunft|für die zukunft|grundsätzlich|generell|prinzipiell|im allgemeinen|in der regel|nach möglichkeit|standardmäßig|ausnahmslos|ohne ausnahme|unter keinen umständen|auf keinen fall|keinesfalls|immer|stets|nie|niemals|jedes ?mal|überall|durchgehend|ausschließlich|nicht mehr|nur noch|(?:vor|nach|bei|mit|in|für|zu) jede[mrs]?|(?:bei|in|für) allen?)"
_FRENCH = r"(?:utilise|ajoute|demande|termine|commence|garde|donne|évite|teste|vérifie|documente|explique|formate|nomme|emploie|laisse|[ée]cris|lance|préfère|privilégie|montre|pense|préviens|respecte|travaille|limite|crée|indique|dis|passe|sépare|réponds|mets|fais|exécute|tiens|pose|propose|parle|suis|\w{2,}ez)(?:-\w+)?"
_FRENCH_ALWAYS = r"(?:désormais|dorénavant|à partir (?:de maintenant|d['’]aujourd['’]hui)|dès (?:maintenant|à présent|aujourd['’]hui)|à l['’]avenir|en général|en règle générale|(?:de manière|de façon) générale|par principe|systématiquement|par défaut|sauf (?:mention|avis|indication) contraire|sauf si je|en aucun cas|sous aucun prétexte|toujours|à chaque fois|sans exception|(?:avant|après|à|pour|dans|avec) (?:chaque|tous les|toutes les|tout|toute))"
_SPANISH = r"(?:usa|utiliza|empieza|comienza|acaba|escribe|responde|pon|haz|añade|agrega|pregunta|termina|contesta|prueba|comenta|mantén|incluye|evita|revisa|formatea|ejecuta|actualiza|prefiere|lanza|corre|muestra|dime|dame|avisa|respeta|trabaja|limita|crea|indica|separa|habla|documenta|explica|nombra|deja|guarda|verifica|comprueba|sigue|enséña|acuérda|recuerda|\w{2,}(?:ar|er|ir))(?:me|te|lo|los|las|la)?"
_SPANISH_ALWAYS = r"(?:a partir de (?:ahora|hoy)|desde (?:ahora|hoy|ya)|(?:de (?:ahora|aquí|hoy) )?en adelante|en (?:el )?futuro|en lo sucesivo|por (?:regla|norma)(?: general)?|como (?:regla|norma)(?: general)?|en general|por defecto|por principio|salvo que (?:yo )?(?:te )?(?:diga|indique)|a menos que|bajo ning[úu]na? (?:circunstancia|concepto)|en ningún caso|siempre|cada vez|en todo momento|sin excepci(?:ón|ones)|(?:antes de|después de|tras|en|con|para) (?:cada|todos los|todas las))"
_RUSSIAN = r"(?:\w+(?:й|йте|и|ите|ь|ьте|йся|ть))"
_RUSSIAN_ALWAYS = r"(?:впредь|отныне|с (?:этого момента|этих пор|сегодняшнего дня)|начиная с сегодня\w*(?: дня)?|с сегодняшнего дня|в дальнейшем|на будущее|в будущем|в целом|как правило|обычно|по умолчанию|из принципа|ни в коем случае|ни при каких \w+|всегда|каждый раз|везде|без исключений|(?:перед|после|при|для|в|во|к|на|с) (?:кажд|люб|все)\w+)"
_JAPANESE_ORDER = r"(?:ください|下さい|ないで|[てで]ね|[てで]|ほしい|欲しい|こと|お願い(?:します|いたします)?|ように|べき|しない|使わない|禁止)(?:です|ね|よ)?$"
_QUESTION = "question"
_RULES: dict[str, tuple[str, ...]] = {
    "en": (
        # when and how often: an order with a word for it
        rf"{_FROM_NOW},? (?!(?:it|this|that|there|he|she|they|my|is|i(?! want| need| expect| prefer|['’]d| would)|the (?!(?:[\w-]+ ){{1,3}}(?:must|should|goes|go|belongs?|lives?|needs?|has to|have to|gets?)\b))\b)\S+ \S",
        rf"{_GENERALLY},? (?!not\b)(?:speaking,? )?{_RULE}\b(?! of thumb)",
        rf"(?!.*\b(?:why|how|whether|what)\b){_ORDER}\b.*(?:\b(?:{_FROM_NOW}|in (?:the )?future|every (?:single )?time|each time|by default|at all times|where(?:ver)? (?:you can|possible)|when(?:ever)? possible|(?:before|after|with|upon) (?:each|every|any) \w+|in all (?:our|my)|(?:everything|anything|(?:every|each|all|any) \w+|files|code) (?:that )?you (?:change|write|touch|add|create|edit)|no exceptions|without exception)\b|, (?:always|never|ever)\b| always$)",
        rf"(?!{_PARTICULAR}).*\w,? (?<!as )(?:always|every (?:single )?time|no exceptions|without exception|at all times|{_FROM_NOW})(?:,? please)?$",
        rf"(?:always|never)(?:, and .{{1,20}},)?(?: ever)? (?!(?:{_REPORTS})\b){_BASE_FORM}[a-z-]+ \S",
        rf"(?:do not|don['’]?t)(?: you)?(?: ever)? (?!(?:{_NO_ORDERS})\b)[a-z]{{2,}} (?!(?:it|that|this|so|them|now|yet|here|there)\b(?:\W*$|,))\S",
        r".*\bunless (?:(?:i|we) (?:say|tell you|told you|ask|specify)|told|stated|noted|specified)(?: otherwise)?\b",
        r"next time,? (?:please )?(?!it\b|i\b|we\b|you\b|the\b|this|that|slot|there|he\b|she\b|they\b|some|around|then)[a-z]+ \S|for future reference\b[:,]? \S",
        rf"(?:before|after) (?:(?:each|every|any) [\w-]+(?: [\w-]+)?|(?:you )?(?:(?:commit|push|merg|delet|releas|deploy|install|add|remov|chang|writ|creat|refactor|edit|touch|renam)\w*ing\b|[a-z]+ (?:an?|any|anything|code|new)\b)[^,]*(?=,)),? (?:please |always |you (?:must|should|have to) |i want )*{_ORDER}\b",
        r"(?:when(?:ever)?|every time|each time|any ?time) (?:you (?!are|have|can|get|see|find|run|were|need|feel|want|\w+ed\b)[a-z]+|you['’]re \w+ing|i (?:say|ask|write|type)|an? [\w-]+ (?:is|has|needs)|something|(?!us|do|go)\w+ing (?!the|this|that|it)\w+)\b[^,:]*[,:] (?!does|do you|is\b|what|why|the\b|it\b|there|i\b|we\b)\S",
        r"if (?:you (?!can|see|find|have|need|want|get)[a-z]+ (?:an?|any|new|something|code)|something is (?:unclear|not clear|ambiguous))\b[^,:]*[,:] (?!it\b|the\b|you\b|i\b|we\b|there|that|this|do you|what|is\b|can\b)\S",
        r"(?:no more (?!time|questions?|errors?|warnings?|failures?|bugs?|crashes|leaks?|memory|rows?|data|disk|space|results?|problems?|issues?|luck|open|of |that\b|than\b)(?!.*(?: now| today| left)\W*$)\S+ \S)",
        # customs and rules
        rf"we (?:only|strictly|exclusively|do not|don['’]?t) (?:ever )?(?!\w+ (?:that|this|it|so|a lot|too|up)\b)(?:{_ORDER}|vendor|break|hard-?code|ignore|edit|delete|duplicate|touch)(?: \S|$)",
        rf"we (?:always|never) (?!(?:{_REPORTS}|see|know|want|hear|find|understand|use to|manage|expect|notice|look|love|enjoy|feel)\b){_BASE_FORM}[a-z-]+(?: \S|$)",
        r"(?:(?:around |over )?here,? |(?:in|on|at|for) (?:this|our|all our|my|all my) (?:project|repo|repository|code ?base|team|company|shop|workspace|monorepo|house)s?,? )(?:please |always |never |we (?:always |never |only |do not |don['’]?t )*(?!use (?:a lot|too|up)\b)(?!see|have|need|had|are|get|find|can)[a-z]+\b)",
        r"we (?:use|write|do|follow|practi[sc]e|name|format|test|log|commit|merge|work|put|keep|sort|ship|deploy|target|store) (?!a lot)\S.*(?:, (?:and )?(?:not|never|no) \S+|\b(?:around here|here|in (?:this|our) (?:project|repo|repository|code ?base|team|company)|everywhere|exclusively)\W*)$|we (?:stick to (?!the plan)|prefer (?!the |this|that)|like (?:\w+ ){0,2}(?:prs?|pull requests|commits|functions|tests|code|answers) )\S|.*\bthat['’]s how (?:we|i) (?:do|roll|work|like|want)\b",
        r"let['’]?s (?:(?:always|never) (?!blame|see)[a-z]+ \S|stick to (?!the plan)\S|stop \w{2,}ing \S|avoid \S)",
        r"(?:our (?:\w+ )?(?:conventions?|rules?|polic(?:y|ies)|standards?|guidelines?|practices?|style)|the (?:convention|rule|policy|standard) (?:here|in (?:this|our) \w+|for us)|the way we (?:do|write|work|name)\b.{1,20}|my (?:\w+ )?(?:preference|rule|policy)) ?(?:(?:is|are):?|:) (?!in |on |wrong|not |broken|down|was|lost)\S",
        r"(?:[\w'’-]+ ){0,3}?(?:conventions?|rules?|polic(?:y|ies)|guidelines?|(?:house|code|coding|writing|our|commit) (?:style|standards?)|style|preferences?|principles?|ground rules?|reminder)(?: here| of mine| number \w+| #?\d+)? ?(?::| [–—-]) (?!in |on )\S+ \S",
        r"(?!(?:all|each|every) (?:of|rows?|time)\b)(?:all(?! it\b)|every|each|any|new|everything|anything)(?! (?:users?|customers?|visitors?)\b)(?: [\w/.-]+){1,4}? (?:must|needs?|shall|should|has to|have to|gets?|has exactly|goes|go|belongs?|requires?|comes? with|may (?:not|only))\b (?!to be fixed|be in memory|be (?:able|there)|pass\b|work\b|be (?:fixed|ok|fine|green|gone|done))(?!.* (?:problem|bug|why|now)\b)\S",
        rf"(?!{_PARTICULAR})(?:[\w'’./-]+ ){{0,3}}?(?:[\w./-]+s are \w+(?: \w+)?, never|(?:[\w./-]+s|documentation|code|output|indentation) (?:must|have to|need to|shall|should|are to|belong|go|live|stay)(?: only| never| always| not)? (?:be (?!able|fixed|gone|fine|ok)|have|use|start|end|follow|go|live|stay|contain|include|explain|run|come|match|carry|get|fit|in|into|under|next|on|at|to))(?!.*\b(?:now|but)\b)",
        r"the \w+ (?:must|should|has to|needs to) .*\b(?:with|before|after|on|for) (?:each|every)\b",
        r"(?!access|the |this |that |it |request)[^,]{3,60}? (?:is|are) (?:strictly |absolutely |simply )*(?:forbidden|off[- ]limits|not allowed|never allowed|banned|a no-go|taboo|mandatory|prohibited|non-negotiable|not acceptable|unacceptable|not welcome|frowned upon)\b",
        r"(?:in (?:this|our) \w+ )?(?:nothing|nobody|no one) (?:gets|is|goes|pushes|merges|commits|deploys|may|can|should)\b.* (?:without|directly|except|unless|before|their own)\b|(?:hands off|stay (?:away from|out of)) \S|leave \S.* alone$|let me (?:approve|review|see|check|confirm) (?:every|all|each|any)\b",
        rf"(?:absolutely|strictly) no \S+ \S|(?:and )?no (?:[\w./'’-]+ )?{_UNLOVED}(?:$|,|\)| (?:please|ever|in|at|on|to|for|from|without|unless|anywhere|whatsoever|and|or|with|outside)\b)",
        r"no (?!problem|idea|errors?|worries|need|rush|hurry|thanks|more|one|longer|questions?|stress|luck|reason|way|wonder)[\w./-]+(?: [\w./-]+){0,4}?,? (?:please|ever|period|whatsoever|without (?:asking|my|an?|tests?|review)|unless|no exceptions)\b",
        r"only (?!the|a|an|one|two|three|this|that|it|in|when|works?|if|for|on|my|then|\d+)\b[\w-]+(?: [\w-]+){0,4},? (?:please|ever|in (?:this|our) \w+)\b|only use \S",
        rf"(?:one [\w-]+ per [\w-]+|(?:short(?:er)?|brief|concise|small(?:er)?|plain|simple) (?:\w+ )?{_MADE})(?:,? please| only|$)|(?!{_PARTICULAR}|can|could|would|will)(?!.*\b(?:the|this|that|an?|it)\b)[\w-]+(?: [\w-]+){{1,3}}(?: (?:in|for|as|per|with) [\w ]+,? please|, please, everywhere)$|for (?:all )?(?:\w+ )?{_MADE}: (?!the|this)\S",
        # orders that hold by what they say
        r"avoid (?:using )?(?!the |this|that|it\b)[a-z-]+(?: \S|$)|stick to (?!the plan|it\b|this|that)\S|try (?:not to|to (?:always|never|avoid)) (?!panic|worry|think|laugh)\w+ \S|ask (?:me )?first,? (?:then|before)\b|(?:prefix|suffix|name|start|end|tag|label) (?:\w+ )?\w+s (?:with|after|by|like) \S|(?:prefer|favou?r) (?!the |this|that)\S+ \S|(?:quit|refrain from|stop|stop (?:constantly|always)) (?!process|look|work|wait|pretend)\w{2,}ing \S",
        r"(?:try to )?keep (?:your |the |all |my )*(?:\w+ ){0,2}?(?:\w+s|code|documentation|it|history) (?:short|brief|concise|small|simple|pure|clean|linear|green|consistent|readable|under|below|within|at most)\b",
        r"(?:use|prefer|write) (?!the |this|that|it\b)\S.* in (?:this|our) (?:repo|repository|project|code ?base|monorepo)(?:, not \S.*)?$",
        r"(?:use|treat|follow|apply) \S.* (?:throughout|everywhere|in all|for all|for every|in every|by default|as errors)\b",
        r"(?:use|write|indent|wrap|log|format|sort|prefix|pin|order|spell|name \w+ files)(?!.*\b(?:the|this|that|these|those|it|its|them|my|an?|here|now|option|instead|port|second|first|if|[\w.]+\.(?:py|js|ts|go|rs|md))\b) (?:[\w_-]+s|with \w+ \w+|\w+ (?:units|quotes|spelling|case|english)|[\w_-]+(?: \w+)? (?:for|in|with|as|after) .*\w*)(?: \S.*)?$",
        r"(?:answer|reply|respond|talk|speak|write)(?: (?:to|with) me)?(?: only| always)?(?: in)?(?: plain| simple| british| american)? (?:english|german|french|spanish|russian|japanese|chinese|italian|portuguese|polish|dutch)\b",
        r"(?:skip|spare me|leave out|cut|omit|drop) (?:the |all |your )*(?:\w+ )?(?:intro\w*|pleasantries|explanations?|apolog\w+|emojis?|preambles?|boilerplate|small talk|disclaimers?|praise|flattery|fluff|obvious)\b",
        r"(?:you (?:do not|don['’]?t) (?:need|have) to|no need to|don['’]?t bother) (?:explain|apologi[sz]|summari[sz]|repeat|mention|justify|thank|praise|ask|tell me)\w* (?!this|that|it\b)\S",
        r"(?:(?:i (?:want|need|expect)|i(?:['’]d| would) like) you to )?(?:ask|check with|consult|confirm with|talk to|warn|notify)(?: me| us)?(?: first)?,? before (?:you (?!do (?:that|it|this))|\w+ing |any |each |every |an? )",
        rf"(?:make sure|ensure|be sure|see to it)(?: that| to)? (?:{_FROM_NOW}|in (?:the )?future|(?:you )?(?:always|never)|(?:every|each|no|new) (?!.*\b(?:pass|passes|works?|green)\b)|.*\b(?:before|after|with) (?:each|every)\b)",
        r"(?:(?:be|don['’]?t be|do not be) (?:more |less |as |so |too )?(?:concise|brief|terse|direct|blunt|verbose|formal|critical|succinct)|assume (?:that )?(?:i|we|python|node|linux|all|every|no))\b",
        # reminders and what one must
        r"(?:(?:keep|bear) in mind|remember|be aware|do not forget|don['’]?t forget),?(?: that)? (?:we (?!had|were|did|talked|have to|need to)|our |all |every |i (?!had|said|did|told)|i['’]m (?:an?|not|new|colou?r)|you (?:should|must)|no )",
        r"remember(?: ?:| to .*\b(?:each|every|always|before|after|when)\b)|(?:do not|don['’]?t|never) forget(?: to)? .*\b(?:each|every|always|before (?:you|\w+ing)|when you (?:add|change|write|commit|push|edit|create|rename))\b|make (?:it )?a (?:habit|rule|point)\b|get (?:in|into) the habit\b",
        r"you(?:['’]re| (?:must|should|shall|may|have to|need to|are|will))(?: to)? (?:always|never|only ever) (?!get|see|have|be |\w+ing\b)\S",
        r"you (?:must|should|shall|may)(?: not|n['’]t) (?!see|get|need|have|be|worry|notice)\w+ \S|you(?:['’]re| are) (?:not|never) (?:allowed|supposed|permitted|to)\b|you (?:can['’]?t|cannot|mustn['’]?t|shouldn['’]?t) .*\bwithout\b|you (?:have|need|must|should)(?: to)? .*\b(?:before|after|with) (?:each|every)\b",
        # likes and dislikes
        r"i (?:generally |usually |strongly |really |always |much |would |do )*prefer (?!not to say|to (?:wait|do|have|talk|go)\b|(?:the (?:first|second|third|last|other|latter|former)|this|that|it|option)\b(?! if))\S",
        r"i(?:['’]d| would) (?:much |always |really |strongly )*(?:prefer (?!to (?:wait|do|have|talk|go)\b|the (?:first|second|third|last|other|latter|former)\b|this|that)|rather (?:you|have|see|not have) )\S",
        r"i (?:never|always|usually|generally|normally|only) (?:want|like|expect|accept|need) (?!to (?:know|go))\S",
        r"i(?:['’]m| am)? (?:\w+ly |just |so )*(?:hate|dislike|detest|despise|loathe|can['’]?t stand|cannot stand|(?:do not|don['’]?t) (?:ever )?(?:like|want|need)|not (?:a (?:big |huge )?fan of|fond of)|allergic to|tired of|sick of)"
        rf" (?:it when you|when you|you (?:to )?\w+|to see|seeing|any\b|(?!this|that)[^,]{{0,30}}?\b(?:{_MADE}|{_UNLOVED}|imports?|classes|styles?)\b|[^,]{{3,50}}[,;:] ?(?:so |and |please )*(?:don['’]?t|do not|never|avoid|use|no|stop|keep|leave|write)\b)",
        rf"i (?:really )?(?:like|want|love|expect|value|need) (?:it (?:when|if) you|(?:my |your |all |only |short |long |brief |concise |small |full )*{_MADE}) \S",
        rf"(?:i like \S.* (?:better|more) than \S)|(?:i(?:['’]m| am| work| live| use| have)|we(?:['’]re| are))\b[^,]{{2,40}}, so (?:please )?(?:{_ORDER}|don['’]?t|no)\b|i (?:want|need) (?:all|every|each) \S+ \S|i (?:insist on|insist that|care (?:a lot |deeply |very much )?(?:about|that)) \S",
        rf"i (?:want|like|prefer) (?:short|brief|concise|small|terse) {_MADE}$",
        r"i (?:really )?(?:want|need|expect) you to (?:always|never|stop|only|answer|reply|respond) \S|i expect you to \S",
        rf"i(?:['’]d| would) like you to (?:always|never|ask|stop|avoid|answer|reply|respond|only|\S.* (?:before|after|each|every|whenever|{_FROM_NOW}|in future))\b",
        r"(?:i(?:['’]d| would) (?:appreciate it|love it|like it|be (?:happy|glad|grateful)) if you|it(?:['’]d| would) be (?:great|nice|good|better|best|helpful) if you) (?!could|can)(?:would )?(?!have a look|look)\S+ \S",
        r"(?:it|that) (?:really )?(?:bugs|annoys|bothers|irritates|drives) (?:me|us)(?: \w+)? (?:when|if|that) you\b",
        r"it(?:['’]s| is) (?:a|our) (?:\w+ )?(?:rule|policy|convention)(?: of ours| here)? (?:that|to)\b|.*\bimportant to (?:me|us): \S|(?:it|what)(?:['’]s| is) (?:\w+ )?(?:important|crucial|essential|vital|critical|imperative)(?: (?:to|for) (?:me|us),? that (?!people|kids?|every (?:kid|one|child|person))|,? that (?:you|we|all|every|no))\b",
        r"call me (?!back|later|when|tomorrow|today|at|on|if|crazy|old|(?:a|an|in|as)\b)\S|(?:call|address|refer to) (?:me|us|users|\w+) as \S",
    ),
    "de": (
        r"(?:ab jetzt|ab sofort|ab heute|von (?:nun|jetzt) an|fortan|künftig|zukünftig|in zukunft|für die zukunft)\b[,:]? (?!(?!gilt|nicht|bitte|jetzt|erst)\w+t\b|war|wird|werde|könnte|will ich wissen|möchte ich (?!keine?|immer|nur|kurze|dass))\S+ \S",
        rf"(?:bitte )?{_GERMAN_ALWAYS}\b(?: gilt(?: bei uns)?)?[:,]? (?:\S+ )*?(?:bitte|keine?n?|nur|nicht|kein|{_GERMAN}|gilt|will ich|möchte ich|hätte ich gern\w*)\b(?!.* ge\w+(?:t|en)\W*$)(?! (?:fehler|problem|mehr$))(?<!immer nicht) ?",
        r"(?:bitte )?(?:ab jetzt |künftig |in zukunft )?(?:immer|stets|nie|niemals|auf keinen fall|unter keinen umständen|grundsätzlich|generell|prinzipiell|standardmäßig|(?:vor|nach|bei) jede[mrs]?) (?!wieder|noch|mehr|weniger|wenn|dann|ge\w+t?\b|im leben)(?!.* ge\w+(?:t|en)\W*$)\S.* \w+e?n\b(?:$|,)",
        rf"(?:bitte )?{_GERMAN}\b(?: \S+)*? (?:{_GERMAN_ALWAYS}|keine?n?|nicht ohne) \S",
        r"(?:frag|sag|zeig|warn|informier|gib)\w*(?: mich| mir| uns)?(?: bescheid)?(?: bitte| immer| erst| vorher| zuerst| in zukunft| künftig)*, bevor du\b|bevor du \S.*, (?:bitte |immer |erst )*(?:frag|zeig|sag|lass|führ|prüf|mach|teste|warte|schreib|gib)\w*\b",
        r"(?:immer |jedes mal,? )?wenn du (?!fertig|willst|magst|kannst|zeit)\S+ [^,]*, (?:dann |bitte )*(?!ist|kommt|geht|war|wird|sag|melde|kriege|bekomm|sieh)\w+\b",
        r"bitte (?:immer|stets|nie|niemals|keine?n?|nicht(?! (?:wundern|jetzt))|duze|sieze) ?\S",
        r"(?!die|der|das|alle|es|ich|keine)\S+(?: \S+)?,? bitte (?:immer |nur |stets )*(?:auf|in|mit|ohne|klein|groß|kurz)\b|(?!die|der|das|es|ich|er|sie|wir)\S+(?: \S+)? (?:nur|immer|ausschließlich|stets) (?:auf|in|mit|als|per) \S+$|(?:bei|für|in|vor|nach|beim) \S+(?: \S+)? (?:(?:immer|nie|bitte|stets|niemals) .*\w+e?n$|(?:nutzen|verwenden|schreiben|nehmen|benutzen) wir \S)",
        r"ich (?:bevorzuge|mag lieber|hätte (?:es )?lieber|möchte (?:nie|immer|keine?n?|grundsätzlich|generell)|(?:möchte|will)(?: nicht)?, dass (?!das |es |der |die |dies)\S+|mag es(?: nicht)?, wenn du|(?:mag|hasse|brauche|will) keine?n? (?!zeit|fehler|problem)|lege (?:\w+ )?wert auf|bestehe (?:auf|darauf)|erwarte,? |wünsche mir |kann \S.* nicht (?:leiden|ausstehen)|arbeite lieber|mag (?:keine?n?|nur)|bin kein fan von) ?\S",
        r"ich (?:hasse|verabscheue) (?!montag|das\b|dieses?n?\b|es(?! wenn|, wenn))\S+(?: \S+)*? ?(?:in|im|,|namen|code|tests|kommentare|\w+ungen|\w+ies)\b",
        r"ich (?:will|hätte gerne?|möchte) (?:keine?n?|kurze|kürzere|längere|immer|grundsätzlich|generell|stets|künftig|in zukunft|nur)\b",
        r"mir (?:ist|sind|wäre|wären)(?: es)? \S.* lieber\b|mir wäre(?: es)? lieber,? wenn\b|(?:mir ist|es ist mir|für mich ist)(?: \w+)? wichtig, dass\b|(?:es|mich) (?:nervt|stört|ärgert)(?: mich| es)?,? wenn du\b",
        r"nenn(?:e|en sie)? mich \S|hör(?: bitte)? auf, \S|lass die finger von|finger weg von|(?:vermeide|verzichte)(?:n sie)?(?: bitte)? \S|(?:lass|sprich|lassen sie)(?: mich)?(?: bitte)? (?:künftig|in zukunft|ab jetzt|mit du)\b",
        r"wir (?!haben|hatten|sind|waren|wussten|kennen|sehen|bekommen|kriegen|finden)\w+en\b.* (?:immer|nie|niemals|stets|grundsätzlich|generell|prinzipiell|ausschließlich|nur noch) \S",
        r"wir (?:verwenden|nutzen|benutzen|schreiben|testen|benennen|formatieren|committen|mergen|pushen|machen|dokumentieren|kommentieren|mocken) (?:hier|bei uns|in diesem \w+|keine?n?|nur) (?!gerade|eine?n?\b|noch)\S|(?!der|die|das|es)\S+(?: \S+)? (?:werden|wird) (?:bei uns|hier|grundsätzlich|immer|nie|niemals|stets) \S|wir (?:verwenden|nutzen|benutzen|schreiben) .*(?: hier|, nicht \S+|, keine? \S+)$",
        r"(?:bei uns|hier|in (?:diesem|unserem) (?:projekt|repo|repository|code|team)),? (?:verwenden|schreiben|nutzen|heißen|gilt|benennen|benutzen|testen|formatieren|werden|machen|committen|mergen|pushen|arbeiten|kommt|kommen|nehmen)\b(?! wir (?:gerade|noch))",
        r"(?:\S+ ){0,2}?(?:unsere? )?\S*(?:konvention|regel|richtlinie|vorgabe)e?n?(?: hier| bei uns)? ?(?:(?:ist|sind|lautet):?|:) (?!in |kaputt|falsch)\S",
        r"(?:jede[rsnm]?|alle|sämtliche|neue[rs]?) (?:\S+ ){1,4}?(?:muss|müssen|soll|sollen|sollten|braucht|brauchen|bekommt|bekommen|kriegt|kriegen|gehört|gehören|darf|dürfen)\b",
        r"(?!die\b|das\b|der\b|wir\b|sie\b|es\b|ich\b|du\b|was\b|warum|wie\b|diese)\S+(?: \S+)? (?:müssen|sollen|gehören|dürfen) \S+ \S|(?:\S+ ){1,5}(?:ist|sind)(?: bei uns| hier)? (?:tabu|verboten|pflicht|nicht erlaubt|unerwünscht|ein no-go)$",
        r"(?:bitte )?keine?n? (?!ahnung|fehler|problem|zeit|lust|sorge|angst|idee|eile|ursache|antwort)\S+(?: \S+)?,? (?:bitte|in|im|ohne|auf|mehr)\b",
        r"(?:beim nächsten|das nächste|nächstes) mal,? (?:bitte|erst|zuerst|vorher|frag|zeig|mach|schreib|nimm|prüf|lass|sag|teste)\w*\b",
        r"(?:denke?|erinner dich)(?: bitte)?(?: immer)? (?:daran|dran|an)\b|merke? dir|vergiss (?:nie|niemals|bitte nie|nicht,.*(?:jede|immer|vor |nach ))|gewöhne? dir|mach (?:es )?dir zur",
        r"du (?:darfst|sollst|musst|kannst)(?: \S+)? (?:nie|niemals|immer|nicht ohne|keine?n?|stets|grundsätzlich)\b",
        r"(?:antworte|schreib|sprich|rede)(?: mir| mit mir)?(?: bitte)?(?: nur| immer)? (?:auf )?(?:deutsch|englisch|französisch|spanisch)\b|halte? (?:deine |die |bitte |dich )+(?:\S+ ){0,2}(?:kurz|knapp|klein|einfach|an)\b|fass dich kurz",
    ),
    "fr": (
        rf"{_FRENCH_ALWAYS},? (?!ça\b|cela|il\b|elle|je (?!veux|préf)|c['’]est|le\b|la\b|j['’]|on (?:a|voit)\b|redémarr\w+ )(?!(?:\S+ )?(?:le|la) \S+ (?:est|écoute)\b)(?!\w+ (?:le|la|les) \S+ est)\S",
        rf"{_FRENCH}\b(?: \S+)*? (?:{_FRENCH_ALWAYS}|jamais)(?: \S|$)",
        r"n(?:e |['’])(?!t['’]inqui|oublie pas|y |est|a |ai )\w\S* (?:jamais|plus|rien|pas(?! encore)) \S",
        r"(?:je|j['’]) ?(?:préfère|préférerais|veux que tu|veux que vous|aimerais (?:bien )?que (?:tu|vous)|voudrais que (?:tu|vous)|souhaite que|tiens à ce que|insiste) (?!ne rien|ça )\S",
        r"je (?:veux|voudrais|souhaite) (?:toujours|juste|uniquement|seulement|des) \S|j['’]aime (?:quand tu|que tu|les (?:réponses|commits|messages|noms|fonctions))\b|(?:toujours|ne (?:jamais|plus)) \w+(?:er|ir|re) \S",
        r"(?:je n['’]aime pas|je n['’]aime vraiment pas|je déteste|j['’]ai horreur|je ne supporte pas|je ne veux (?:pas|plus|jamais)) (?:quand |que |voir|de |d['’]|des |(?:les?|l['’]|la) ?(?!lundi|lundis|voir|attendre|temps|pluie))\S",
        r"(?:(?:c['’]est|il est)(?: très)? important (?:pour moi )?qu|pour moi,? (?:c['’]est|il est) important|(?:ça|cela) m['’](?:énerve|agace|embête|dérange) (?:quand|que|si) (?:tu|vous))",
        r"(?:on|nous) (?!a\b|ont|est|avait|avons|sommes|était|voit)\w+\b.*? (?:toujours|jamais) \S",
        r"chez nous,? (?:les|une?|le|la|tou\w+|chaque) \S|(?:chez nous|ici|dans (?:ce|cette|notre|nos) (?:projet|dépôt|code|équipe|boîte|base de code)),? (?:pas de |on|nous) ?(?:ne |n['’])?(?:utilis|écri|nomm|met|pouss|fai|test|commit|travaill|prend|pass|gard|document|préf|développ)\w*\b \S",
        r"on (?:ne |n['’])(?:utilis|écri|fai|met|pouss|commit|merg|touch|mock|déploi)\w+ (?:pas|jamais|que|plus) \S|(?:on|nous) utilis\w+ .*(?:, pas \S.*| ici| partout| uniquement.*)$",
        r"(?:arrête|arrêtez|cesse|cessez) (?:de |d['’])\w",
        r"(?:évitez?|privilégiez?|bannis|proscris) (?:les|des|d['’]|de |la |le |l['’]|au |toujours)\S?",
        r"(?:(?:la|une|notre|nos|ma|petite) )?(?:convention|règle|politique|norme|consigne)s?(?: (?:d['’]équipe|de l['’]équipe|du projet|maison|ici|chez nous|générale))? ?(?:(?:est|sont) (?!dans)|c['’]est|:)",
        r"la prochaine fois,? (?!ça|c['’]|il |on |tu |je |que )\S",
        r"(?:plus|pas|jamais|surtout pas) (?:de |d['’])(?!temps|place|problème|erreur|souci|chance|panique|quoi|réponse|bol)\S+(?:$|.*\b(?:dans|en|sur|sans|s['’]il|stp|svp|inutiles?)\b|, )",
        r"(?:aucune?) (?!idée|problème|erreur|souci)\S+ (?:dans|sans|en|sur|s['’]il)\b",
        r"(?:chaque|tous les|toutes les|tout|toute) (?!fois)(?:\S+ ){1,5}?(?:doit|doivent|a besoin|ont besoin|nécessite|nécessitent|devra|devront)\b",
        r"les (?:\S+ ){1,4}?(?:doivent|ne doivent) (?:toujours |jamais |pas )*(?:être|avoir|rester|commencer|suivre|contenir|aller|se)\b",
        r"(?:assure(?:z)?-(?:toi|vous) de toujours|veille (?:à|toujours)|pense (?:toujours |bien )*à \S+ .*(?:chaque|toujours|avant)|pense toujours|prends l['’]habitude|n['’]oublie(?:z)? (?:jamais|pas (?:de|d['’]).*(?:chaque|toujours|avant|après))|(?:garde|gardez) (?:en tête|à l['’]esprit)|(?:souviens|rappelle)-toi (?:qu|de toujours))",
        r"(?:demande|préviens|consulte|avertis)(?:-moi|-nous)?(?: toujours| d['’]abord)? avant (?:de |d['’]|chaque|toute?)",
        r"avant (?:de |d['’])(?:commit|supprim|ajout|pouss|modifi|install|fusionn|merg|push|déploy|cré)\w+\b[^,]*, \S",
        rf"(?:quand|lorsque|si|chaque fois que|dès que) (?:tu|vous) (?!as|avez|es\b|peux|veux)(?:\S+ )[^,]*, (?:{_FRENCH}|pense|merci de|n['’]oublie)\b",
        r"(?:tu (?:ne dois|ne peux|n['’]as pas le droit)(?: jamais| pas)?|tu dois (?:toujours|systématiquement)|il (?:ne )?faut (?:toujours|jamais|systématiquement)|(?:il est )?interdi(?:t|ction) d|(?:\S+ ){1,5}(?:est|sont) (?:interdite?s?|obligatoires?|proscrite?s?)$)",
        r"(?:appelle|appelez)-moi \S|(?:réponds|parle|écris)(?:-moi)?(?: toujours| uniquement)? en (?:français|anglais|allemand|espagnol)|(?:tutoie|vouvoie)-moi|merci de (?:toujours|ne (?:pas|jamais|plus)|systématiquement) \S|les \S+(?: \S+){0,3} en (?:français|anglais|allemand|espagnol)(?:,? (?:s['’]il|stp|svp)|$)|sois (?:plus )?(?:concis|bref|direct|brève|concise)",
    ),
    "es": (
        rf"{_SPANISH_ALWAYS},? (?!falla|se \w+\b|me (?!pregunt)|el\b|la\b|lo\b|es\b|está|que (?:abro|abre)|hay|va\b|funciona|tuvimos|vimos|hicimos|fuimos|pudimos|estuvimos|supimos|hemos|reinicio)(?!\S+ (?:el|la) \S+ (?:está|es)\b)(?!\S+[aeo] (?:al|después|cuando)\b)\S+(?: \S|$)",
        rf"(?:por favor,? )?{_SPANISH}\b(?: \S+)*? (?:{_SPANISH_ALWAYS})(?: \S|$)",
        rf"(?:siempre {_SPANISH}|(?:nunca|jamás) (?!has\b|había|hemos|tuvimos|vimos|hicimos|fuimos|pudimos|supimos)\w{{2,}}(?:es|as|en|an|ar|er|ir|[aei]mos)) \S",
        r"no (?!olvides|entien|funcion|pas[ea]n|hay)\w{2,}(?:es|as) (?:(?:.* )?(?:nunca|jamás|sin|más)\b|(?:los|las|nada|ningún|ninguna|código|archivos|\w+s (?:en|de|con))\b)",
        r"(?:prefiero|preferiría|quiero (?:\w+ )?siempre|quiero que (?:siempre|nunca|no|me (?:preguntes|avises|consultes|expliques|muestres|digas|respondas|hables))|necesito que (?:siempre|nunca|me preguntes)|agradecería que) \S",
        r"(?:no me gustan?|odio|detesto|no soporto|no aguanto) (?:que (?!se)|cuando (?!se)|(?:los|las|el|la) (?!lunes|martes|lluvia)|ver )\S",
        r"(?:no quiero|no necesito) (?:ver |que (?:toques|uses|hagas|añadas|borres|cambies|me )|comentarios|explicaciones|emojis|clases|más \w+ (?:en|de))",
        r"me (?:molesta|irrita|fastidia) (?:que|cuando) \w+(?:as|es)\b|me gusta (?:que|cuando) \w+(?:as|es)\b|(?:es|para mí es)(?: muy)? importante (?:para mí )?que\b|me (?:gustan|gusta) (?:las|los) (?:respuestas|commits|mensajes|nombres|funciones)",
        r"me gustaría que \w+(?:aras|eras|ases|ieses)\b",
        r"(?:evita|prioriza|prefiere) (?:los|las|usar|el uso|siempre|la|el|funciones|\w+s\b) ?\S?",
        r"(?:(?:la|una|nuestr[ao]|mi) )?(?:convención|regla|política|norma|criterio)(?: (?:del equipo|de la casa|del proyecto|aquí|general|de equipo))? ?(?:es (?!en)|:)",
        r"la próxima vez,? (?!irá|será|que|va\b|no sé|me\b|lo\b)\w+ \S",
        r"(?:no más|nada de|ningún|ninguna|prohibido) (?!tiempo|errores?|filas|problemas?|idea|respuesta|momento)\S+(?: \S|$)|llámame \S|deja(?:d)? de \w+(?:ar|er|ir)\b|sin (?!problemas?|duda|embargo|prisa)\S+(?: \S+){0,3},? por favor",
        r"aquí (?:los|las|el|la) \S+ (?:llevan?|van|se|tienen?)\b|(?:aquí|en (?:este|nuestro|esta|nuestra) (?:proyecto|repositorio|código|equipo|empresa)),? (?:siempre |nunca |no |se |solo )*(?!vemos|tenemos|estamos|podemos)(?:\w+(?:amos|emos|imos)|usa|usan|escribe|hace)\b",
        r"(?:no |solo |siempre )?(?:usamos|escribimos|utilizamos|hacemos|trabajamos) .*(?:, no \S.*| aquí| en (?:este|nuestro) \w+)$",
        r"quiero que \w+(?:as|es)\b.* siempre\b",
        r"(?:cada|todos los|todas las|todo|toda) (?!vez)(?:\S+ ){1,4}?(?:debe|deben|tiene que|tienen que|necesita|necesitan|lleva|llevan|ha de|han de|deberá|deberán)\b",
        r"(?:los|las) (?:\S+ ){1,4}?(?:no )?(?:deben|tienen que|han de) (?:siempre |nunca )?(?:ser|estar|tener|ir|llevar|empezar|seguir|contener)\b",
        r"asegúrate de .*(?:siempre|cada)\b|(?:acuérdate|recuerda|no (?:te )?olvides)(?: siempre| nunca)?(?: de)? .*\b(?:siempre|cada|nunca|antes)\b|(?:acuérdate|recuerda) siempre|no (?:te )?olvides nunca|recuerda que (?!ayer|hoy|la|el|tenemos)|ten (?:siempre )?(?:en cuenta|presente) que|acostúmbrate",
        r"(?:pregúnta|consúlta|avísa)(?:me|nos)(?: siempre| primero)? antes\b|(?:pregunta|consulta|avisa)(?: siempre| primero)? antes de\b",
        r"antes de (?:hacer (?:commit|push)|borrar|subir|instalar|añadir|modificar|fusionar|desplegar)\b[^,]*, \S",
        r"(?:cuando|siempre que|cada vez que) (?!termines|acabes|puedas|tengas|quieras|estés)\w+(?:as|es)\b[^,]*, \S",
        r"(?:no (?:debes|puedes) .*(?:nunca|jamás|sin)\b|(?:nunca|siempre) debes|debes (?:siempre|nunca)|está (?:terminantemente )?prohibido|(?:\S+ ){1,5}(?:está|están) prohibid\w+$)",
        r"(?:responde|contesta|habla|escribe)(?:me)?(?: siempre| solo)? en (?:español|inglés|francés|alemán)|tutéame|trátame de|(?:los|las) \S+(?: \S+){0,3} en (?:español|inglés|francés|alemán)(?:,? por favor|$)|mantén (?:los|las|tus) \S+.* (?:cort|breve|pequeñ|simple|por debajo)|(?:procura|intenta|trata de) (?:siempre|no) \w+(?:ar|er|ir)\b|(?:para|en) \S+(?: \S+)? (?:nunca|siempre|solo) \w+mos\b|si no (?:estás seguro|lo tienes claro|sabes)[^,]*, \w+|sé (?:más )?(?:breve|conciso|directo|concisa)",
    ),
    "ru": (
        r"(?:если [^,]{2,40}, |(?!это|всё)\S+ (?:\S+ )?)?(?:пиши|делай|используй|добавляй|спрашивай|запускай|обновляй|показывай|проверяй|называй|отвечай|оставляй|храни|обращайся|объясняй|давай только|соблюдай|придерживайся)(?:те)?(?! (?:перв|втор|трет|эт|так|дальше|вариант|порт))(?: \S|$)",
        rf"(?:я (?:хочу|хотел\w* бы) )?{_RUSSIAN_ALWAYS},? (?!падает|(?:это|он|она|оно|я|сервер|когда|рад\w*|был\w*|ошибка|кэш|спасибо)\b)(?!\S+ \S+ пуст)(?:\S+ )*?(?:{_RUSSIAN}|никаких|только|нужн\w+|мы|без)\b",
        rf"(?:никогда (?:больше )?не {_RUSSIAN}|больше (?:никогда )?не {_RUSSIAN}) \S|(?:больше )?никаких (?!ошибок|проблем|новостей)\S|без (?!проблем|ошибок|паники)\S+(?: \S+){{0,2}},? пожалуйста",
        rf"{_RUSSIAN} (?:\S+ )*?(?:{_RUSSIAN_ALWAYS}|только|кратко|по-русски|по-английски)\b",
        r"не \w+(?:й|йте|и|ите|ь) (?:.* )?(?:без|никогда|больше)\b|(?:зови|называй) меня \S|(?:перестань|прекрати|хватит) \w+ть\b|избегай(?:те)? \S|(?:\S+, )?(?:сначала|потом) \S.*, всегда$|старайся (?:не |всегда )?\w+ть",
        r"(?:я )?(?:предпочитаю|бы предпоч[её]л(?:а)?|хочу, чтобы ты|не хочу, чтобы ты|(?:бы )?хотел(?:а)?(?: бы)?, чтобы ты|ненавижу (?!понедельник|когда он|это)|терпеть не могу|не люблю (?!понедельник|это)|люблю, когда ты) ?\S",
        r"мне (?:очень |больше |совсем )*(?:не )?нрав\w+,? (?!это|новый|как)\S|(?:мне|для меня)(?: очень)? важно, чтобы|меня (?:раздражает|бесит|напрягает), (?:когда|что) ты",
        r"у нас \S+(?: \S+)? (?:называются|называем|пишутся|именуются|хранятся|лежат|оформляются)\b|(?:я )?не хочу (?:видеть|больше видеть) \S|(?:(?:для|в|при|по|на) \S+(?: \S+)? )?мы (?:здесь |тут )?(?:всегда|никогда не|не|только) (?!зна|вид|мож|хот|понима|успева|рады)\w+(?:ем|им|ём)\b \S",
        r"(?:у нас(?: (?:в|на) \w+| здесь| тут)?|здесь|в (?:этом|нашем|нашей) (?:проекте|репозитории|коде|команде)),? (?:мы )?(?:не )?(?!видим|имеем|можем|есть)(?:использ\w+|принято|пиш\w+|\w+(?:ем|им|ём)|действует правило) \S",
        r"в следующий раз,? (?:сначала|пожалуйста|не |покажи|спроси|спрашивай|запусти|проверь|используй)",
        r"не (?:используй|добавляй|трогай|пиши|меняй|удаляй|коммить|пушь)(?:те)? (?!это|его|её|их\b)\S",
        r"(?:у )?(?:кажд\w+|все|всех|всё|люб\w+) (?:\S+ ){1,4}?(?:долж\w+|обязан\w*|нужно|нужен|нужна|необходим\w*)\b|(?!это|он|она|они|мы|я|тест должен)\S+(?: \S+)? (?:должны|не должны) (?:быть|иметь|лежать|начинаться|содержать)\b",
        r"(?:не забывай\S* .*(?:кажд|всегда|перед|после|при )|всегда помни|помни\S*,? что|име\w+ в виду|учти\S*, что|учитывай\S*, что|запомни|возьми за правило|возьми в привычку|привыкни)",
        r"(?:всегда )?(?:спрашивай|предупреждай|согласовывай|советуйся)\S*(?: \S+)?,? (?:прежде чем|перед|до того)|(?:сначала )?спроси(?: меня)?,? (?:прежде чем|перед тем|перед)|(?:прежде чем|перед тем,? как) \S+[^,]*, (?:спрашивай|спроси|покажи|запускай|проверяй)",
        r"(?:наше |главное |общее |мо[её] )?(?:правило|соглашение|договор[её]нность|принцип)(?: команды| здесь| у нас| проекта)? ?(?::|[—–-]|такое)",
        rf"(?:когда|если|каждый раз,? когда)(?: ты)? (?!закончишь|сможешь|откры)\w+(?:шь|шься) [^,]*, (?:то )?{_RUSSIAN}\b",
        r"(?:тебе )?(?:нельзя|запрещено|запрещается) \w+ть|ты не долж\w+ \S|ты долж\w+ (?:всегда|каждый)",
        r"отвечай(?:те)?(?: мне)? (?:по-|кратко|коротко|на русском|на английском)",
    ),
    "ja": (
        rf"(?:今後|これから|今日から|以後|以降|いつも|常に|必ず|毎回|決して|絶対|二度と|原則|基本的に|基本は|デフォルト(?:で|は)|一切|いかなる|たびに|ごとに|次回から|なるべく|できるだけ|場合は|ときは|時は|際は|(?:する|す|る)前に|の前に).*{_JAPANESE_ORDER}",
        r"ないで(?:ください|下さい|ほしい|欲しい)?(?:です|ね)?(?:、.{1,6})?$|ないこと$|てはいけません|てはだめ|(?:禁止|厳禁|NG|ng)(?:です|で|とします|に?して.*)?$|なしで.*ない",
        r"のを?は?やめて|(?:プロジェクト|リポジトリ|チーム|ここ|うち|社内|コードベース|会社)では.*(?:使います|使う|書きます|書く|(?:入れ|付け|分け|行い|呼び)ます|(?<!動作)します|使いません|書きません|(?<!動き)(?<!でき)(?<!あり)(?<!なり)ません|ことになっています|ルールです|方針です)$",
        r"(?:ように|短く|短め|簡潔|丁寧)に?(?:して|お願い|答えて|書いて).{0,6}$|(?:簡潔|短め|手短)に$|(?:日本語|英語|敬語)で(?:.{0,8})(?:ください|下さい|お願いします|て)$",
        r"(?:ほう|方)が(?:いい|良い|好き|好み)(?:です|だ)?$|(?:が|は)(?:好き|好み|嫌い|苦手)(?:です|だ|なので.*)?$|呼んで(?:ください|下さい|ね)?$|(?:と|ら)困ります|覚えておいて|(?:重視|徹底|心がけ|厳守).{0,3}(?:ください|下さい|て|お願いします)",
        r"(?:ルール|規約|方針|決まり)(?:は|として|では|：|:)|(?:ルール|規約|方針|決まり)です$|は(?:不要|必要ありません|いりません|必須)(?:です)?$|承認が必要|てほしい(?:です)?$|て欲しい(?:です)?$",
    ),
    _QUESTION: (  # questions that ask for a habit
        r"(?:can|could|would|will) (?:you|we) (?:please |kindly )?(?:(?:always|never) (?!reproduce|see|get)[a-z]+ (?!(?:it|this|that|them)\b)\S|(?:stop|quit|avoid|mind not) \w{2,}ing \S|not \w+ (?!it\b|that\b|this\b)\S|address me|call me \S|agree (?:that|to) \S)",
        rf"(?:(?:can|could|would|will) (?:you|we)|would it be possible) (?!suggest|provide).*\b(?:{_FROM_NOW}|in future|by default|every time|a habit|to (?:always|never)|(?:before|after|with) (?:each|every) \w+)\b",
        rf"(?:kannst|könntest|würdest|können|könnten) (?:du|wir) (?:bitte )?(?:.*\b{_GERMAN_ALWAYS} (?!noch|wieder)\S|.*aufhören, \S)",
        rf"(?:tu peux|peux-tu|pourrais-tu|tu pourrais|on peut) (?:s['’]il te plaît )?(?:arrêter (?:de |d['’])\w|.*\b{_FRENCH_ALWAYS})",
        rf"¿?(?:puedes|podrías|podemos) (?:por favor )?(?:dejar de \w+(?:ar|er|ir)\b|.*\b{_SPANISH_ALWAYS})",
        rf"(?:можешь|мог бы ты|могла бы ты|не мог бы ты|можно) .*\b{_RUSSIAN_ALWAYS}",
    ),
}  # fmt: skip
_POLITE_RULES = (  # orders only after "please"
    r"(?:do not|don['’]?t) (?!(?:worry|hesitate|forget|mind)\b)[a-z]{2,} \S",
    r"n(?:e |['’])\w\S* pas \S",
    r"no \w{2,}(?:es|as|en|an) \S",
    r"не \w+(?:й|йте|и|ите) \S",
)
# A question behind a wish: "I prefer tabs, can you convert the file?"
_ASKED_BEHIND = (
    r"[,;:–] ?(?:so )?¿?(?:can|could|would|will|kannst|könntest|tu|peux|pourrais|puedes|podrías|можешь|мог)\b[^,]*\?$"
)
_PLEASE = r"(?:please|s['’]il (?:te|vous) pla[iî]t|por favor|пожалуйста),? "
_JAPANESE_OTHERS = r"(?:心配|同僚|彼|彼女|上司|お客|顧客|友人|月曜)|.*(?:さんは|さんに|そうです|これを|この(?!プロジェクト|リポジトリ|チーム))"
# Words that may stand before an order, and a short beginning such as "As I said," or "For the record:".
OPENING_WORDS = (
    r"(?:(?:ok(?:ay)?|yes|no|so|and|also|but|well|oh|hey|hi|right|great|thanks|thank you|btw|by the way|please|kindly|note|rule"
    r"|just|remember|ja|nein|und|auch|also|danke|übrigens|oui|non|et|aussi|merci|s['’]il (?:te|vous) pla[iî]t|sí|y|también|gracias"
    r"|por favor|да|нет|и|а|ещё|кстати|спасибо|пожалуйста)\b[\s,:;!.…–-]*)*"
)
_OPENING = rf"(?!{_OF_OTHERS})(?:[^,:;–—]{{1,40}}(?:[,:;]| [–—-]) ){{0,2}}{OPENING_WORDS}"


def instructions_in(text: str) -> str:
    """The sentences of a text that are standing instructions; empty if there is none."""
    return " ".join(filter(is_instruction, sentences_of(text))) if _languages_in(text[:_LOOKED_AT].lower()) else ""


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
    languages = _languages_in(folded)
    if languages and folded[-1] in "?？":
        wish = pattern(_ASKED_BEHIND).sub("", folded)
        languages = languages if wish != folded else [_QUESTION]
        folded = wish
    folded = folded.rstrip(" .!。！…\"')")
    if not any(_rules(language).match(folded) for language in languages):
        return False
    return not pattern(_MOMENT).search(folded) and not pattern(_PRODUCT).search(folded)


def _languages_in(folded: str) -> list[str]:
    """The languages of which a cue is in a text."""
    found = []
    for language, cues in _CUES.items():
        for cue in cues:  # a loop: `any` with a generator takes twice as long, and every turn of a user is looked at
            if cue in folded:
                found.append(language)
                break
    return found


@cache
def _rules(language: str) -> re.Pattern[str]:
    rules = "|".join(_RULES[language])
    if language == "ja":  # the end of the sentence tells
        return pattern(f"(?!{_JAPANESE_OTHERS}).*(?:{rules})")
    return pattern(f"{_OPENING}(?:{_PLEASE}(?:{'|'.join(_POLITE_RULES)})|(?:{rules}))")


@cache
def pattern(expression: str) -> re.Pattern[str]:
    """A compiled expression; `re` is loaded at the first use."""
    import re

    return re.compile(expression)
