"""Proposals: sentences of a turn that look like a decision, a finding, a learning or a preference. Pure.

    proposals_in("Let's go with Redis. Can you add it?", "user")    [("decision", "Let's go with Redis.")]

A proposal is computed from its turn whenever somebody asks; it is stored nowhere, so it disappears with its turn. It says where to look,
and becomes a memory when an agent or a person keeps it (`smp_memory.lifecycle.review`). Preferences are the standing instructions of users
(`smp_memory.model.standing_instructions`). The rules know English, German, French and Spanish.

Guarantees: at most one proposal of each type for a turn, with the sentences as they stand in it. Questions, quotations, code, guesses
("maybe", "we could", "not yet") and, in turns of users, pasted text give none. Linear in the length of the text, of which the first
characters are looked at; a sentence without a cue costs some substring searches.
Non-guarantees: other words for the same are missed, and some reports are taken for findings; `tests/proposal_set` measures both.
"""

from __future__ import annotations

from functools import cache

from smp_memory.model.standing_instructions import OPENING_WORDS, is_instruction, pattern, sentences_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

DECISION, FINDING, LEARNING, PREFERENCE = "decision", "finding", "learning", "preference"
_ORDER_OF_TYPES = (DECISION, LEARNING, FINDING)  # the rules of findings are the widest
_ROLES = ("user", "assistant")
_LONGEST = 400  # characters of a sentence
_LEAST_WORDS = 2

# A guess, a condition or a negation: the sentence states nothing that lasts.
_DOUBTS = (
    r"\b(?:my|our) (?:last|previous|old|former) (?:job|company|team|employer)\b|\b(?:maybe|perhaps|might|could(?!n['’]t| not)|may(?: be| want| need)|would|should(?! (?:keep|remember|note|know))|suppose|wonder\w*|whether|(?<!works )(?<!work )if (?:we|you|i|your|the|it|this|that|there)\b"
    r"|(?:not|n['’]t) (?:yet|sure|decided?|agreed?|known?|found)|yet to|(?:is|are|still|remains) (?:unclear|unknown)|unsure|suggest\w*|recommend\w*|to find|let me"
    r"|vielleicht|könnten?|sollten?|würden?|falls (?:wir|du|das|es|der|die)|wenn wir|noch nicht|nicht entschieden|peut-être|pourr\w+|devr\w+|si (?:on|nous)"
    r"|quizás?|tal vez|podr[ií]a\w*|deber[ií]a\w*|todavía no|aún no)\b"
)
# What makes a general explanation, or a step of the assistant's own work, of a finding.
_NO_FINDING = (
    r"^\W*(?:\d+[.)] )?(?:an? |this kind |these |most |many |some |such )|\b(?:typically|usually|often|generally|commonly|sometimes|in general|most likely|probably|possibly|presumably)\b"
    r"|\bbecause i\b|\bsince i\b|[,;–] (?:so |and )?i(?:['’]ll| will|['’]m)\b|^(?:that|the (?:edit|command|tool|(?:tool )?call|write|read|search|patch|replacement|last step)) failed\b"
    r"|\breason (?:why )?(?:we|you|i) (?:use|need|have|do|want|call|keep)\b|\bis that (?:i|you)\b|\breason for this\b|\b(?:is|are) (?:needed|known as)\b|\b(?:is|are) called an? "
)
# Chat of people about their lives.
_CHAT = r"\b(?:haha|lol|yeah|i was thinking|i['’]ve been|i had (?:to|a)|i got|i think|for me|a lot more|my (?:life|heart|family|friends?|commute|recent|old|schedule|way|health)|a bit|a little|a total|a pain|frustrating|a (?:huge |big )?(?:success|blessing|hit|treat)|important to|turns out (?:he|she|they))\b"
# Code that an assistant explains, and steps of its work.
_NO_DECISION = r"^wir \w+ hier\b|^we(?:['’]ll| will)\b(?!.*\b(?:because|instead|rather|agreed|discussed|decided|only|not|never|lifetime|release|version)\b)|^(?:then|first|next|after that|now|in step \d+|finally|in the \w+ step),? we\b|^we (?:keep|move|drop|remove|replace|switch|skip|stick|store|split)\b(?!.*\b(?:because|instead|rather|agreed|until|release|version|from now|for now|since|so that|as is|as it is)\b)"
_NO_ASSISTANT = {"finding": _NO_FINDING, "decision": _NO_DECISION}
# Verbs with which something is chosen, and what makes a step of the work of it.
_CHOOSE = (
    r"(?:use|go with|stick (?:with|to)|keep(?! \w+in[g'’]|\w* up\b| at\b| each\b| on\b)|drop|switch|move|migrate|adopt|support(?! each)|build|store|split|stay|replace|remove|deprecate|host"
    r"|stream|standardi[sz]e|target|require|allow|write|introduce|limit|rely|ship|release|call|name|leave out|get rid)"
)
_STEP = r"(?!(?:on|it|that|this|these|those|them|the (?:same|other|second|first|existing|debugger|following|old file|plan))\b)"
_ERROR = (
    r"(?:bug|error|leak|crash|conflict|timeout|problem|issue|failure|exception|slowdown|delay|warning|mismatch|deadlock|flak\w+|[45]\d\ds?|fehler|absturz|probl[eè]me?a?"
    r"|erreur|fallo|bloqueo)"
)
_FAILS = (
    r"(?:(?:fail|break|broke|crash|hang|hung|die|died|leak|timed? out|happen|block|stall|freez|froze|vanish|disappear|miss)(?:s|ed|es|ing)?"
    r"|(?:is|are|was|were|has been|have been|stays?|went|gets?|came) (?:red|slow|flaky|killed|missing|blank|empty|wrong|stuck|broken|stale|late|rejected|skipped|ignored|lost|down|to nan|nan|null|doubled|truncated|denied|dropped|out of \w+)"
    r"|(?:timeouts?|errors?|crashes|failures?|duplicates?|leaks?|spikes?|delays?) (?:come|came|occur|appear|happen)\w*|(?:does|do|did|is|are|was|were|could|can) ?n[o'’]?t (?!needed|necessary|required|allowed|supported)\w+|never \w+s|no longer \w+)\b"
)
_OPENING = rf"(?:[^,:;]{{1,24}}[,:] ){{0,2}}{OPENING_WORDS}(?:then )?"
_RULES: dict[str, tuple[str, ...]] = {
    DECISION: (
        r"final\s?[:–-] \S+ \S|(?:(?:the|my|our) )?(?:final )?(?:decision|answer|verdict)(?: is| was)?\s?[:–-] (?!it depends|yes\b|no\b|should)\S|.*\b(?:that['’]?s|this is|it['’]s) (?:final|settled|decided|a done deal)\b",
        r"(?:decided|agreed|approved)\s?(?:[:–-] (?!go ahead|do it|thanks|let['’]?s see)|, (?=we |let['’]?s |no |use |keep |drop |.* (?:not|instead|only|never|must) ))\S+ \S+ \S",
        r"(?:i(?:['’]ve| have) |we(?:['’]ve| have) |(?:the )?team )?(?:decided|decidido)(?: today| yesterday)?\s?[:,–-] \S",
        rf"(?:we|i|the team)(?:['’]ve| have)? (?:just |now |finally |then )*(?:decided|agreed) (?:in \w+ \w+ |today |yesterday )?(?:to (?:not |only )*{_CHOOSE}|to (?:log|freeze|send|put|pin)|that|on|against|not to) ?\S",
        r"(?:we|i|the team)(?:['’]ve| have)? (?:just |now |finally )*(?:settled on|opted (?:for|to)|standardi[sz]ed on|committed to|picked|went with) (?!up |this |some|my|our|friends)\S",
        r".*\bi (?:went (?:with|for)|opted for|chose|picked|settled on|kept|left|used) (?:\S.* (?:rather than|instead of|over|on purpose|deliberately|intentionally)\b|\S.* as (?:it is|is|they are),? (?:because|since))|i (?:deliberately|intentionally) \w+ \S",
        r"(?:we|i)(?:['’]ve| have)? (?:chose|chosen) (?!to )\S.* (?:over|because|instead|rather|since|for (?!that|this|it|clarity|brevity|simplicity|the example))\b",
        r"i (?:used|kept|took|switched to|moved to) \S.* (?:instead of|rather than|over) \S",
        rf"(?:[^,;]{{2,60}}[,;] )?we(?:['’]re| are) (?:not )?(?:(?:going|sticking|staying) with|(?:switching|moving|migrating) (?:\S+ ){{0,4}}?(?:to|from)|(?:dropping|keeping|adopting|deleting|removing|retiring|replacing|postponing|skipping|abandoning)|going to {_CHOOSE}) {_STEP}\S",
        r"we(?:['’]ll| will) (?:remove|drop|keep|deprecate|skip|postpone) (?:it|that|both|them|this)\b|we(?:['’]ll| will) (?:postpone|defer|delay) (?!that|this|it\b)\S|we (?:won['’]t|will not|are not going to) (?:touch|change|do|add|implement|build|optimi[sz]e|maintain) (?!that|this|it\b)\S",
        rf"we (?:now )?(?:stay (?:on|with|at) (?!track|top)\S|(?:switch|drop|migrate|move|skip|adopt|replace|deprecate|postpone|abandon|pin|go for|standardi[sz]e|keep(?! \w+ing| on\b|\w* up\b| at\b)|remove|stick) (?!\w*ing\b|on\b){_STEP}\S)|(?:for|as) (?:the )?\S+(?: \S+)? we(?:['’]ll| will)? (?:use|take|keep|go with) {_STEP}\S",
        r"i(?:['’]m| am) (?:choosing|picking|opting for) \S|i(?:['’]d| would) say (?:we|let['’]s) (?:use|go|keep|drop|skip|stay|take|wait|stick|switch|move)\b|(?!it|this|that|there)\S.* (?:is|are|gets?) (?:dropped|removed|deprecated|retired|discontinued) (?:as of|starting|(?:in|from|with) (?:v|version )?\d)\S*",
        rf"we(?:['’]ll| will| won['’]t| will not)(?: only| just| always| not| never)* {_CHOOSE} {_STEP}\S",
        rf"(?:ok(?:ay)?|yes|no|agreed|approved|right|fine|good|then)[,: ]+(?:then |so )*we (?:do not |don['’]t )?{_CHOOSE} {_STEP}\S",
        r"i['’]ll (?:use|go with|take|keep|stick) \S.* (?:then|instead of|over|rather than)\b",
        rf"(?:i['’]m |i am )?(?:go|going|sticking|staying) with {_STEP}\S",
        r"(?:so )?the plan is (?:fixed|settled)\b.*\S",
        r"instead of \S.* (?:we|let['’]?s) (?:now )?(?:use|take|do)\b",
        # German
        r"wir (?:nehmen|verwenden|nutzen|bleiben bei|bleiben auf|behalten|setzen auf|wechseln|streichen|verzichten auf|steigen auf|legen \S.* fest|machen \S.* statt|ersetzen|migrieren|entfernen)\b (?!gerade|noch|morgen|heute|das\b|den zug)\S",
        r"wir (?:heben|stellen|ziehen|lassen|schaffen) \S.* (?:an|um|weg|ab)\W*$|(?:wir|ich) (?:haben?)\b.* (?:entschieden|beschlossen|geeinigt|festgelegt)\b",
        r"(?:entscheidung|beschlossen|entschieden|abgemacht)\s?[:,–-] \S",
        r"(?:statt \S.* |dann |also |für \S+ )(?!sehen|schauen|gehen|warten|haben|sind|brauchen|können|müssen|machen wir (?:morgen|weiter|erst))\w+en wir (?:es |das )?\S",
        r"\S.* (?:fliegt raus|kommt raus|entfällt|fällt weg|bleibt (?:wie|so|bei|auf|drin)\b)|es bleibt (?:bei|dabei)\b|ich habe \S.* (?:bewusst|absichtlich)\b",
        # French
        r"(?:(?:finalement|donc|alors|du coup|bon),? )*(?:on|nous) (?:supprim\w+|rempla\w+|migr\w+|laisse tomber|gard\w+|part\w* sur|pass\w+ à(?! autre)|rest\w+ sur|utilis\w+|prend|prenons|abandonn\w+|(?:va|allons) (?:utiliser|garder|passer|prendre|supprimer|rester)) \S",
        r"(?:(?:nous avons|on a) (?:décidé|choisi|opté|convenu)|j['’]ai (?:opté|choisi|retenu)) \S",
        r"(?:décision\s?:|c['’]est décidé,) ?\S",
        # Spanish
        r"(?:(?:vale|bien|ok|bueno|al final|finalmente|mejor|entonces),? )+(?:usamos|quitamos|dejamos|mantenemos|cambiamos|migramos|pasamos a|eliminamos) \S",
        r"(?:al final |finalmente )?(?:elegí|opté por|escogí|(?:vamos|nos vamos) con|mejor usamos|vamos a (?:usar|utilizar|mantener|dejar|migrar|cambiar|pasar)|usaremos|utilizaremos|nos quedamos con|(?:hemos )?(?:decidi(?:do|mos)|elegi(?:do|mos)|acorda(?:do|mos)|opta(?:do|mos) por)) \S",
        r"decisión\s?: ?\S",
    ),
    FINDING: (
        r".*\b(?:the|its|root|real|actual|main|likely) causes?(?: of .{2,60}?)? (?:is|was|were|are)\b(?! (?:still|not|hard|being|closed|fixed|an? (?:crucial|important|key|great|good)))",
        r"(?:(?:the|key|main|root|real|actual) )*(?:cause|finding|diagnosis|culprit|ursache|grund|befund|diagnose|causa|hallazgo)s?(?: (?:of|for|behind) [^:]{2,60})?(?: found| identified| gefunden| trouvée| encontrada)?\s?[:–] ?\S+ \S|(?:fehler|problem|bug) gefunden\s?[:–]|root cause\s?[:–-]",
        r"(?:(?:measured|observed|reproduced)(?=\s?[:–])|here(?:['’]s| is) what (?:happens|happened|is going on|went wrong)|what (?:blocks|breaks|fails|crashes|hangs|happens|is slow|takes \w+ long|slows \w+ down) (?:here )?(?:is|are)\b(?! up to))\s?[:–]? ?\S+ \S+ \S",
        rf"(?:the|its) (?:[\w-]+ ){{0,3}}{_ERROR} (?:is|was|sits|lies|lives|hides) (?:in|at|inside|on) (?!the (?:tracker|backlog|wiki))\S.*[:;,–] \S|(?:that|this|it)(?:['’]s| is| was) (?:an?|the) (?:[\w-]+ ){{0,3}}(?:race(?: condition)?|deadlock|leak|circular import|regression|off-by-one(?: error)?|mismatch|typo|conflict|bug)\b(?! report).*[:;,–] \S",
        r".*\b(?:turned out to be (?:an?|the) \S|(?:traced|tracked) (?:it|this|that|the \S+(?: \S+)?) (?:back |down )*to \S|boils down to \S|(?:is|was) (?:to blame|at fault)\b)",
        r"(?:it |as it )?turn(?:s out,?|ed out,? (?=that|the|it|we|our|an?)) (?!i\b|my\b|fine|well|ok|good|great|nice|as |to be|really|so |very |\w+ly\b|\w+ing\b)\S+ \S",
        r".*\bturn(?:s|ed) out that \S",
        r"(?:i |we )?(?:have |['’]ve )?found (?:it|the (?:\w+ )?(?:bug|problem|issue|cause|culprit|reason|leak|error))\s?[:–-] ?\S",
        r".*\b(?:i|we)(?:['’]ve| have)? (?:discovered|realised|realized|noticed(?=.*(?:which|because|since|every|never|only))|found out|confirmed) that (?!i\b|i['’]|my|you)\S",
        rf"(?!i\b|we\b|you\b|ich\b).*\b{_FAILS}.{{0,60}}?,? (?:because\b (?!you|of you|i\b|it['’]s (?:late|fun))|since (?:the|an?|its|our|it|they) (?:\S+ ){{1,3}}?(?:is|are|was|were|has|have|\w+s) )\S",
        r".*\b(?:is|was|are|were|got) (?:caused|killed|triggered|blocked) by \S",
        rf".*\b{_ERROR}\b.{{0,40}}? (?:(?:comes?|came|stems?|stemmed|resulted|results|originates?) from|(?:is|was|were) due to) \S",
        r"(?:the|a) (?:\w+ )?(?:reason|culprit|problem|issue|bug|slow part|bottleneck)\b.{0,50}? (?:(?:is|was)(?: that| an?| the| in the (?!tracker|backlog|wiki))|was|is\s?:) \S",
        r"(?:the )?(?:slow part|culprit|bottleneck) (?:is|was) \S",
        r".*(?:,|;|–|:) ?(?:and )?(?:that['’]?s|that is|that was|which is) why (?!i\b|my|we\b|you)\S",
        r"confirmed\s?: \S+ \S+ \S|(?:that|this) explains (?:it|the \w+|everything)\s?[:–] \S+ \S|(?:that|this) explains why (?!you|i\b)\S|that(?:['’]s| is) why only \S",
        r"(?:so )?the .{2,60} (?:comes?|came) from \S.*, not (?:from )?\S",
        # German
        r".*\bursache (?:ist|war|dafür)\b",
        rf".*\b(?:{_ERROR}|es) (?:lag|liegt|kam|kommt) (?:an|am|von|vom|daran)\b|.*\b(?:liegt|lag) (?:am|daran|an (?:der|dem|den|einem|einer))\b|.*[,;:–] (?:deshalb|daher|darum|weshalb) (?!kannst|können|habe|musst|ich\b|wir\b|bitte)\S",
        r".*\b(?:stellte? sich heraus|sich herausgestellt)\b",
        rf".*\b(?:grund|{_ERROR})(?: dafür)? (?:ist|war)(?:,? dass| eine?| der| die| das)\b",
        r".*\b(?:fehl|scheitert|ab|rot|hängt|nicht|langsam|leer|kaputt|falsch|doppelt|fehlt|fehlen|weiß|nie),? weil \S",
        # French
        r".*\bla cause (?:est|était|vient)\b",
        r".*\bil s['’]avère qu",
        rf".*\b{_ERROR} (?:vient|venait|provient|provenait|est|était) (?:d[eu']|des|un|une|que)",
        r".*\b(?:échou\w+|plant\w+|cass\w+|bloqu\w+|(?:est|sont) (?:blanch?e?|vide|lent|rouge|absent|faux|fausse)\w*|(?:ne |n['’])\w+ (?:pas|plus|jamais)|march\w+ pas)\b.{0,40}? (?:parce qu|car )|.*\b(?:est|était|sont|étaient) due?s? (?:à|au|aux)\b|.*[,;:] (?:c['’]est pourquoi|voilà pourquoi|d['’]où)\b",
        r"j['’]ai trouvé (?:le bug|le problème|la cause|l['’]erreur)\b.*\S",
        # Spanish
        r".*\bla causa (?:es|era|fue)\b",
        r".*\bresulta que \S",
        rf".*\b{_ERROR} (?:es|era|fue|viene|venía|proviene) (?:que|una?|de|del)\b",
        r".*\b(?:fall\w+|se (?:cae|rompe|bloquea)|no \w+(?:n|a|e)|(?:está|queda|sale)n? (?:en blanco|vací\w+|lent\w+|rot\w+|roj\w+|mal))\b.{0,40}? porque \S|.*\bse (?:debe|debía|debió|deben) a\b|.*(?:,|;| y) por eso \S",
        r"(?:encontré|he encontrado) (?:el error|el problema|la causa|el fallo)\b.*\S",
    ),
    LEARNING: (
        r"(?:(?:the|a|one|my|our|key|main|here['’]s|it['’]s|just|note) )*(?:lessons?(?: learn(?:ed|t))?|takeaways?|gotchas?|notes? to self|good to know|worth (?:remembering|knowing|noting)|for the record|for next time|pitfall|caveat"
        r"|merke|gelernt|lehre|erkenntnis|(?:wichtig|gut) zu wissen|leçon|à (?:retenir|noter)|bon à savoir|lección|a tener en cuenta|conviene saber|ojo|aprendizaje|aprendido|piège|moral|things? (?:to|we should) (?:remember|keep in mind)|fallstrick)(?: (?:for|für|para|pour) [\w ]{2,20})?\s?[:–-] ?\S+ \S+ \S",
        r"(?:(?:fyi|note|notes|hint|hinweis|nota|something|one thing) )?(?:(?:for|to) (?:later|the future|future reference|our future selves|myself)|(?:we should |to )?keep in mind|fürs nächste mal|für (?:die zukunft|später)|para (?:la próxima|el futuro)|pour la (?:prochaine|suite))[^:]{0,12}:(?!.*\bi['’]m\b) ?\S+ \S+ \S",
        r"(?:today i learned|til\b)|(?!i\b|we\b|you\b).*\b(?:must|has to|have to|needs? to)\b.*[,;–] (?:otherwise|or else)\b|.*\b(?:muss|müssen)\b.*[,;] sonst\b|.*\bil faut\b.*, sinon\b|.*\bhay que\b.*, si no\b",
        r"next time,? (?!i\b|it\b|we\b|you\b|the\b|this|that|there|can|slot|he\b|she\b|they\b|around)[a-z]+ \S+ \S",
        r".*\bonly works? (?:if|when|as long as|once) \S",
        r".*\b(?:i|we)(?:['’]ve| have)? learn(?:ed|t)\b(?: the hard way)?(?: that|[^.:]{0,20}:) ?\S|learn(?:ed|t) the hard way\b.*\S",
        r".*\bfunktioniert nur,? wenn\b",
        r".*\bne (?:marche|fonctionne) que si\b",
        r".*\bsolo funciona si\b",
    ),
}
_USER_RULES = (  # decisions only in the words of a user; an assistant advises or tells its steps so
    r"(?:ok(?:ay)?,? |so )*then (?:we )?(?:use|take|set|pin|go with) (?!it\b|that|this|the (?:same|other))\S",
    rf"let['’]?s (?:only |just |not )*{_CHOOSE} {_STEP}\S",
    r"let['’]?s do \S+ \S+ (?:in|with|by|via|as) \S",
    r"(?:use|take|do) \S.* instead of \S",
    r"i want to (?:keep(?! \w+ing)|use|drop|go with|stay with|stick)\b (?!the momentum|practi)\S",
    r"(?!yes|no|ok|i |.*\b(?:what|how|where|who|as|here|there|whatever|that|if|is)\b.* it is)(?:\S+ ){1,5}it is(?: then)?\W*$",
    r"(?!if |what |.*\bwhether\b)\S.* (?:is|are|stays?|remains?) out of scope\b",
    r"(?:then )?(?!time|he\b|she\b|it\b|this|that|the (?:app|release|update|new))\S+(?: \S+)? is out(?:,|\W*$)",
    r"(?!it\b|this|that|he\b|she\b|they\b|if\b|the (?:error|problem|bug|value|button|page)|what)(?:\S+ ){1,3}(?<!to )stays? (?:in|on|with|as|at|where) (?!track|top|touch|mind)\S",
    r"forget (?:about )?(?!it\b|that\b|this\b)\S.*[,;] \S.* (?:is|are|will do) (?:enough|fine|overkill)\b",
)
# Words of which one is in every sentence that a rule of the type matches.
_CUES = {
    DECISION: (
        "deci", "agreed", "approved", "settled", "final", "verdict", "purpose", "rather than", " over ", "deliberately", "intentionally", "dropped", "removed", "choosing", "picking", "deprecated", "d say", "retired", "discontinued", "done deal", "opted", "picked", "went ", "standard", "chose", "we'", "we’", "we ", "i'll", "i’ll", "lets ", "let's", "let’s", "go with", "going with", "sticking with", "staying with", "go for", "it is",
        "instead of", "want to", "answer", "scope", "forget", " out", "stay", "then ", "wir", "entsch", "beschlossen", "abgemacht", "raus", "entfällt", "fällt weg", "bleibt", "ich habe", "j'ai", "j’ai", "amos ", "emos ", "opté", "escog", "elegí", "on supprim", "on rempla", "on migr", "on laisse", "on gard", "on part", "on pass", "on rest", "on utilis", "on prend", "on abandon", "on va ", "on a ", "nous ", "déci", "vamos ", "remos ", "quedamos", "elegi", "acord", "opta",
    ),
    FINDING: (
        "cause", "measured", "observed", "reproduced", "what bl", "what br", "what f", "what c", "what h", "what t", "what s", "what is s", "what w", "leak", "diagnosis", "finding", "befund", "diagnose", "hallazgo", "traced", "tracked", "boils", "blame", "at fault", "race", "deadlock", "circular", "regression", "off-by", "mismatch", "typo", "conflict", "deshalb", "daher", "darum", "weshalb", " dû", " due", "pourquoi", " d'où", " d’où", " se deb", "por eso", "crash", "timeout", "liegt", "lag ", "turns out", "turn out", "turned out", "found", "covered", "realis", "realiz", "notic", "confirmed", "since", "caused by", "killed by", "triggered by", "blocked by", "due to", "comes from", "come from", "came from", "stems from", "stem from", "stemmed from", "resulted from", "results from", "originate", "reason", "culprit", "problem", "issue", "bug", "slow part", "bottleneck", " why", "explains", "explains",
        "ursache", "kam ", "kommt ", "heraus", "grund", "fehler", "weil", "avère", "erreur", "problèm", " car ", "parce", "trouvé", "causa", "resulta", "error", "porque", "fallo", "encontr",
    ),
    LEARNING: (
        "lesson", "in mind", "later", "future", "myself", "otherwise", "or else", "sonst", "sinon", "si no", "til ", "ojo", "moral", "remember", "piège", "fallstrick", "aprend", "próxima", "prochaine", "suite", "nächste", "später", "zukunft", "takeaway", "gotcha", "self", "know", "worth", "for the record", "next time", "pitfall", "caveat", "only work", "learn", "merke", "gelernt",
        "lehre", "erkenntnis", "wissen", "nur", "leçon", "retenir", "noter", "savoir", "que si", "lección", "cuenta", "saber", "solo funciona",
    ),
}  # fmt: skip
# A short beginning that announces the next sentence or line: "Found it.", "Agreed.", a heading.
_ANNOUNCES = r"(?im)^([#*\s]*(?:\d+[.)] )?(?:agreed|approved|decided|i found (?:it|the \w+)|found (?:it|the \w+)|(?:the )?root cause|cause|decision|lessons? learned|takeaway|gotcha))[.:!*]*(?:\s*\n+|(?<=[.:!*])\s+)"


# Words of a line that announces a list of guesses, choices or things to do.
_SUPPOSED = (
    r"\b(?:hypothes[ie]s|theor(?:y|ies)|options?|possib\w+|alternatives?|approach(?:es)?|ways|candidates?|ideas?|suggest\w*|recommend\w*|questions?|examples?|scenarios?"
    r"|plan|steps|todos?|requirements?|could|might|would|(?:likely|common|potential|usual|typical) (?:\w+ )?(?:causes?|reasons?|explanations?|problems?))\b"
)
_MOST_ANNOUNCING = 200  # characters of such a line
# Beginnings of what a host puts into a conversation in the name of a user or an assistant.
_HOST_TEXTS = (
    "Caveat: The messages below",
    "This session is being continued from",
    "[Request interrupted",
    "API Error",
    "<command-",
    "<local-command",
)
# A turn that gives the assistant a role or a task: what it orders holds for this task, unless it says that it lasts.
_TASK = (
    r"(?i)[#*\s]*(?:(?:please|now|ok|also|can you|could you),? )*(?:task\b|instructions?\b|role\b|system\b|ignore (?:all|any|the|your) |from now on,? you are |you are (?:an?|the) |act as |your (?:task|job|role) is |prompt\b|imagine (?:that )?you|pretend "
    r"|write |create |build |implement |generate |give me |rewrite |plan |translate |explain |convert |refactor |review |design |draft |summari[sz]e |compare |describe |improve |classify |plot |i (?:want|need) (?:to build |an? )|i['’]d like you to )"
)
_LASTING = r"(?i)\b(?:(?:from now|here|going) (?:on|forward)|in (?:the )?future|every time|each time|when(?:ever)? (?:you|we)|in (?:this|our) (?:repo|repository|project|code ?base|team)|unless i|as a rule|by default|remember|ever|again|after each|before (?:each|every|you))\b"
# An order about one thing, which does not last by itself.
_SINGLE_ORDER = r"(?i)(?:please |and |also |but |just )*(?:do not|don['’]?t) \w+ (?:it|the|an?|that|this|my|any of)\b"


def proposals_in(text: str, role: str) -> list[tuple[str, str]]:
    """The type and text of each proposal in a turn of this role."""
    if role not in _ROLES or text.startswith(_HOST_TEXTS):
        return []
    is_user = role == "user"
    is_task = is_user and pattern(_TASK).match(text) is not None
    stated = _without_suppositions(text) if "\n" in text else text
    sentences = sentences_of(pattern(_ANNOUNCES).sub(r"\1: ", stated), cuts_pasted=is_user)
    cues = _cues_in("\n".join(sentences))
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        type = PREFERENCE if is_user and _is_wish(sentence, is_task) else _type_of(sentence, role, cues)
        if type:
            found.setdefault(type, []).append(sentence)
    return [(type, " ".join(sentences)) for type, sentences in found.items()]


def _without_suppositions(text: str) -> str:
    """The text without the items of lists that hold guesses, choices or things to do."""
    kept, is_supposed = [], False
    for line in text.split("\n"):
        words = line.strip().lower()
        if words and (words[0] in "-*•" or words[0].isdigit()) and not words.startswith("**"):
            if is_supposed:
                continue
        elif words:
            is_supposed = words[-1] != "." and pattern(_SUPPOSED).search(words[:_MOST_ANNOUNCING]) is not None
        kept.append(line)
    return "\n".join(kept)


def _is_wish(sentence: str, is_task: bool) -> bool:
    """Whether a sentence of a user is a wish that outlasts its turn, which may be a task with requirements."""
    if not is_instruction(sentence) or pattern(r"(?i)(?:ok,? |so )*then \w|system:").match(sentence):
        return False
    may_end_with_it = is_task or pattern(_SINGLE_ORDER).match(sentence)
    return not may_end_with_it or pattern(_LASTING).search(sentence) is not None


def _cues_in(text: str) -> list[tuple[str, list[str]]]:
    """The cues of each type that are in a text, so that its sentences need not be searched for all others."""
    folded = _without_marks(text.lower())
    return [(type, [cue for cue in _CUES[type] if cue in folded]) for type in _ORDER_OF_TYPES]


def _type_of(sentence: str, role: str, cues: list[tuple[str, list[str]]]) -> str:
    """The type of memory that a sentence looks like; empty for none."""
    if len(sentence) > _LONGEST or sentence.endswith(("?", "？", ":")) or sentence.count(" ") < _LEAST_WORDS - 1:
        return ""
    folded = _unquoted(sentence.lower())
    for type, possible in cues:
        for cue in possible:
            if cue in folded:
                stated = folded
                if type == DECISION:  # its reason may be a guess
                    stated = folded.partition(" because ")[0].partition(" on purpose")[0]
                if _rules(type, role).match(folded) and not pattern(_doubts(type, role)).search(stated):
                    return type
                break
    return ""


@cache
def _doubts(type: str, role: str) -> str:
    """What must not be in a sentence of this type and role."""
    if role == "assistant":
        return f"{_DOUBTS}|{_NO_ASSISTANT[type]}" if type in _NO_ASSISTANT else _DOUBTS
    return f"{_DOUBTS}|{_CHAT}" if type == FINDING else _DOUBTS


def _unquoted(text: str) -> str:
    text = _without_marks(text).lstrip(" *_")
    return pattern(r"\"[^\"]*\"|“[^”]*”|«[^»]*»").sub('""', text) if '"' in text or "“" in text or "«" in text else text


def _without_marks(text: str) -> str:
    return text.replace("**", "").replace("__", "").replace("#", "")


@cache
def _rules(type: str, role: str) -> re.Pattern[str]:
    rules = (*_RULES[type], *(_USER_RULES if type == DECISION and role == "user" else ()))
    return pattern(f"{_OPENING}(?:{'|'.join(rules)})")
