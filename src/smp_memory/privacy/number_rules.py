"""Redaction rules for personal numbers: payment cards, bank accounts (IBAN), telephones, US social security numbers.

They have no literal to search for, so they are searched only in texts with enough digits.
Guarantees: linear on any text; a card passes Luhn and has a length and first digits that an issuer uses, an IBAN has
its country's length and passes mod 97.
Non-guarantees: a telephone number is recognised only with a plus, in the American form with dashes or brackets, or
after a word such as `phone`. One in ten random numbers that start like a card passes Luhn.
"""

from __future__ import annotations

from smp_memory.privacy.token_rules import Rule
from smp_memory.privacy.validators import DIGITS, passes_luhn, passes_mod_97

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    Span = tuple[int, int]

MIN_DIGITS = 9  # no personal number is shorter
_BETWEEN = b" ./()-"  # allowed between the digits of one number
_DIGITS_ONLY = bytes(0x30 if byte in b"0123456789" else 0x78 for byte in range(256))
_ROW = b"0" * MIN_DIGITS

_CARD = (
    r"[2-6](?<![\w.+].)(?<![0-9][-/:].)(?:[0-9]{12,18}+"
    r"|[0-9]{3}(?:-[0-9]{4}){3}|[0-9]{3}(?: [0-9]{4}){3}"
    r"|[0-9]{3}-[0-9]{6}-[0-9]{4,5}|[0-9]{3} [0-9]{6} [0-9]{4,5})(?![\w%])(?![-.,/:][0-9])"
)
_IBAN = r"[A-Z](?<![A-Za-z0-9].)[A-Z][0-9]{2}[A-Z0-9 ]{11,40}+"
_NAMED_IBAN = r"iban[\"': =#]{1,6}([a-z]{2}[0-9]{2}[a-z0-9 ]{11,40}+)"
_IBAN_LENGTHS = {
    country: int(length)
    for country, length in (
        pair.split(":")
        for pair in [
            "AD:24",
            "AE:23",
            "AL:28",
            "AT:20",
            "AZ:28",
            "BA:20",
            "BE:16",
            "BG:22",
            "BH:22",
            "BR:29",
            "BY:28",
            "CH:21",
            "CR:22",
            "CY:28",
            "CZ:24",
            "DE:22",
            "DK:18",
            "DO:28",
            "EE:20",
            "EG:29",
            "ES:24",
            "FI:18",
            "FO:18",
            "FR:27",
            "GB:22",
            "GE:22",
            "GI:23",
            "GL:18",
            "GR:27",
            "GT:28",
            "HR:21",
            "HU:28",
            "IE:22",
            "IL:23",
            "IQ:23",
            "IS:26",
            "IT:27",
            "JO:30",
            "KW:30",
            "KZ:20",
            "LB:28",
            "LC:32",
            "LI:21",
            "LT:20",
            "LU:20",
            "LV:21",
            "LY:25",
            "MC:27",
            "MD:24",
            "ME:22",
            "MK:19",
            "MR:27",
            "MT:31",
            "MU:30",
            "NL:18",
            "NO:15",
            "PK:24",
            "PL:28",
            "PS:29",
            "PT:25",
            "QA:29",
            "RO:24",
            "RS:22",
            "SA:24",
            "SC:31",
            "SE:24",
            "SI:19",
            "SK:24",
            "SM:27",
            "ST:25",
            "SV:28",
            "TL:23",
            "TN:24",
            "TR:26",
            "UA:29",
            "VA:22",
            "VG:24",
            "XK:20",
        ]
    )
}
_SSN = r"[0-8](?<![\w./-].)[0-9]{2}-[0-9]{2}-[0-9]{4}(?![\w-])(?!\.[0-9])"
_PLUS = r"\+(?<![\w+=.)\]].)[1-9][0-9]{0,3}+(?:[ .-]?\(0?[0-9]{0,4}\))?(?:[ .-]?[0-9]{1,12}+){1,7}(?![\w:=*^])"
_AMERICAN = (
    r"(?:\((?<![\w(].)[2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}"
    r"|[2-9](?<![\w.+/(-].)[0-9]{2}-[2-9][0-9]{2}-[0-9]{4})(?![\w-])(?!\.[0-9])"
)
_NAMED = (
    r"(?:phone|mobile|cell|whatsapp|telefon|tel|fax|handy|sms|call)(?:ephone)?(?: (?:me|us|number|no|nr))?(?: (?:at|on|is))?"
    r"[\"'.:=# ]{1,5}(\+?\(?[0-9](?:[ ./()-]{0,2}[0-9]){8,14})(?![\w:=-])"
)


def may_have_number(text: str) -> bool:
    """Whether a text has enough consecutive digits; a cheap check that avoids six slow ones."""
    return _ROW in text.encode(errors="replace").translate(_DIGITS_ONLY, _BETWEEN)


def _digits(text: str) -> int:
    return sum(map(text.count, DIGITS))


def _card(text: str, match: Match[str]) -> Span | None:
    digits = match.group().replace(" ", "").replace("-", "")
    return match.span() if _is_issued(digits) and passes_luhn(digits) and len(set(digits)) > 1 else None


def _is_issued(digits: str) -> bool:
    """Whether a card issuer uses these first digits with this length."""
    size, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    if size == 16:
        return (
            digits[0] == "4"
            or 51 <= two <= 55
            or 2221 <= four <= 2720
            or four == 6011
            or 644 <= three <= 659
            or 3528 <= four <= 3589
            or two == 62
        )
    return (
        (size == 15 and two in (34, 37))
        or (size == 14 and (two in (36, 38) or 300 <= three <= 305))
        or (size == 13 and digits[0] == "4")
    )


def _iban(text: str, match: Match[str]) -> Span | None:
    """The span of an IBAN with the length for its country, not counting spaces."""
    group = match.lastindex or 0
    found, at = match.group(group).upper(), match.start(group)
    length, iban = _IBAN_LENGTHS.get(found[:2], 0), ""
    for character in found:
        if len(iban) == length:
            break
        iban += character.strip()
        at += 1
    whole = length and len(iban) == length and not text[at : at + 1].isalnum()
    return (match.start(group), at) if whole and passes_mod_97(iban) else None


def _ssn(text: str, match: Match[str]) -> Span | None:
    area, group, serial = match.group().split("-")
    return None if area in ("000", "666") or group == "00" or serial == "0000" else match.span()


def _phone(text: str, match: Match[str]) -> Span | None:
    group = match.lastindex or 0
    if match.group(group)[1:].replace(".", "", 1).isdigit() and "." in match.group(group):
        return None  # a decimal number
    return match.span(group) if MIN_DIGITS <= _digits(match.group(group)) <= 15 else None


NUMBERS: tuple[Rule, ...] = (
    Rule("credit_card", (), _CARD, _card, "credit_card"),
    Rule("iban", (), _IBAN, _iban, "iban"),
    Rule("iban", ("iban",), _NAMED_IBAN, _iban, "iban", True),
    Rule("ssn", ("-",), _SSN, _ssn, "ssn"),
    Rule("phone", ("+",), _PLUS, _phone, "phone"),
    Rule("phone", ("-",), _AMERICAN, _phone, "phone"),
    Rule("phone", ("phone", "mobile", "cell", "whatsapp", "telefon", "tel", "fax", "handy", "sms", "call"), _NAMED, _phone, "phone", True),
)  # fmt: skip
