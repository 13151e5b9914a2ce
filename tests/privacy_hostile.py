"""Hostile texts for redaction: generators of the slowest known input of each rule, for any size."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

from smp_memory.privacy.context_rules import RULES
from smp_memory.privacy.key_value_rules import TRIGGERS
from smp_memory.privacy.redaction import Redactor
from smp_memory.privacy.rules import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.privacy.rules import Rule


def again(piece: str) -> Callable[[int], str]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


_LITERALS = sorted({trigger for rule in (*RULES, *NUMBERS) for trigger in rule.triggers} | set(TRIGGERS))
_KEY = "-----BEGIN RSA PRIVATE KEY-----"


def all_literals(joint: str) -> Callable[[int], str]:
    return lambda size: joint.join(islice(cycle(_LITERALS), size // 4))[:size]


GENERATORS: dict[str, Callable[[int], str]] = {
    "one letter": again("a"),
    "almost an address": lambda size: "a." * (size // 2 - 1) + "@",
    "many at signs": again("a@b-"),
    "names without values": again("password"),
    "names with values": again("pwd=key:"),
    "a quote that never ends": lambda size: again('secret="')(size // 2) + "\\" * (size // 2),
    "keys that never end": again(_KEY + "\nMIIEpAIBAAKCAQEA"),
    "one key that never ends": lambda size: (_KEY + again("Ab1/ -")(size))[:size],
    "tokens that break off": again("eyJhbGciOiJI.eyJzdWIiOiIx."),
    "every literal, joined": all_literals(""),
    "every literal, apart": all_literals(" "),
    "addresses with colons": again("://a:b"),
    "one address of colons": lambda size: "://" + again(":a@")(size - 3),
    "digits": again("4111-1111 "),
    "digits without end": again("4"),
    "telephones": again("tel +1 (555) 2-"),
    "accounts": again("DE89 3704 "),
    "placeholders": again("[REDACTED:email]password="),
    "blank": again("key \t = \t "),
    "names of passwords": again("password "),
    "sentences about passwords": again("password for the old db is "),
    "keys in sentences": again("key for a b c d "),
    "keys with long values": again("token " + "a1B2" * 20 + "/ "),
    "options": again("mysql -p1 -u a:b1! -a "),
    "one command of options": lambda size: "mysql" + again(" -px1y2!")(size - 5),
    "cookies": again("cookie: sid=a1b2c3d4e5f6a7b8c9; "),
    "prefixes": again("ab_cd-"),
    "one long word of prefixes": again("sk-ghp_pat.pcsk_1/AAAAAAAAAAA"),
    "elements": again("<password>a1!b2</password>"),
    "names with a value": again("name: password\n value: "),
    "headers": again("Authorization: a b=token="),
    "capital A": again("A"),
    "letters that grow": again("İpassword:"),
}


def every_rule() -> list[Rule]:
    """All rules, also those that a text's triggers would not wake."""
    redactor = Redactor()
    named = [rule for _, gated in redactor._triggers for _, rules in gated for _, rule in rules if rule.kind == ""][:1]
    return [*RULES, *NUMBERS, *named]
