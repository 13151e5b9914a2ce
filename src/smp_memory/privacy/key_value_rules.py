"""Redaction rules for named values: `password = x`, `"api_key": "x"`, `DB_PASSWORD=x`, `--token x`, 'password is x'.

The name determines the check of the value: after the name of a password almost any literal is a secret, after that of an
API key a value with a digit, after a mere `key` or `token` only a value that looks random.
Guarantees: linear on any text: names and values are bounded, and a value is read only after a name that matters.
Non-guarantees: a password that is a plain word in a sentence, or that precedes its name, is not found. Variables, templates,
types and calls in the place of a value are not secrets.

Names of values in structured data: name/value pairs, values nested under a name, lists of command-line arguments.

    value_name({"name": "DB_PASSWORD", "value": "x"}, "")     # 'DB_PASSWORD': the name that applies to `value`
    item_name("passwords")                                    # 'password': the name of each item of that list
    is_arguments(["mysql", "-u", "root"])                     # True: read as one command line
"""

from __future__ import annotations

from functools import cache, lru_cache

from smp_memory.privacy import validators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match, Pattern
    from typing import Any

PASSWORD, SECRET, UNKNOWN = "password", "secret", "unknown_secret"  # kinds, not passwords
TRIGGERS = (
    "pass", "pw", "secret", "token", "credential", "key", "auth", "contrase", "psk", "kennwort", "wachtwoord",
    "senha",
)  # fmt: skip
BEYOND_ASCII = ("hasło", "пароль", "密码", "密碼", "パスワード", "비밀번호")
_FOREIGN = ("kennwort", "wachtwoord", "senha", *BEYOND_ASCII)
_MAX_NESTING = 4  # names inside the value of another name, such as `auth:password=x`

_NAME = (
    r"((?:passw(?:or[dt]|d)|passphrase|passcode|passe|pass|pwd?|psk|contrase[nñ]a|"
    + "|".join(_FOREIGN)
    + r"|secret|token|credentials?|key|auth)[a-z0-9_.-]{0,24}+)"
    r"[\\\"'`\]?)*]{0,4}+"
    r"(?:[ \t\u00a0\u202f\u3000]{0,8}+(?:=>|:=|={1,3}|[:：])[ \t\u00a0\u202f\u3000*]{0,8}+(?:!!str |[>|][-+]?[ \t]{0,4}\n[ \t]{1,16}+)?"
    r"|[ ]{1,2}(?:is|was|ist|lautet|est?|é)[ :]{1,3}+"
    r"|[\s,]{0,16}+[\"']?value[\"']?[ \t]{0,4}[:=][ \t]{0,4}|>\s{0,16}+<value>|>|[ ]<<<[ ]|,[ ]{0,2}(?=[\"'])|\((?=[\"'])"
)
_ALONE, _OR_A_SPACE = ")", "|[ ]{1,2}+)"  # `--token x` has no sign between name and value
_OPTION, _DIRECTIVE = "--", "pass "
SEPARATORS = (
    "=",
    ":",
    ">",
    "<<<",
    _OPTION,
    " is",
    " was",
    " lautet",
    " es",
    " é",
    _DIRECTIVE,
)  # without one of these no name has a value
_VALUE = (
    r"\\\"(?P<escaped>[^\"\\\n]{1,256}+)\\\""
    r'|[@urbURB]{0,2}"(?P<double>(?:[^"\\\n]|\\.){1,256}+)"'
    r"|[urbURB]{0,2}'(?P<single>(?:[^'\\\n]|\\.){1,256}+)'"
    r"|`(?P<back>[^`\n]{1,256}+)`"
    r"|\\?[\"'`]?(?P<bare>(?:[^\s\"'`,;<>&]{1,128}+|&(?!\w{1,40}=)){1,4}+)"
)
_PASSWORD_PARTS = frozenset([
    "password", "passwd", "passwort", "passphrase", "passcode", "pwd", "pw", "pass", "passe", "contraseña",
    "contrasena", "psk",
])  # fmt: skip
_SHORT_NAMES = frozenset(["pass", "pw", "pwd"])  # words that mean other things as well
_OTHER_PASSES = (
    "bypass", "compass", "trespass", "underpass", "overpass", "surpass", "multipass", "lowpass", "highpass",
    "bandpass", "oldpwd",
)  # fmt: skip
_NUMBERED_PASSES = frozenset(
    ["first", "second", "third", "last", "final", "test", "tests", "render", "forward", "backward"]
)
_DIRECTIVES = frozenset(
    ["requirepass", "masterauth", "auth_pass"]
)  # of configuration files, with a space before the value
_DASHED = frozenset(
    ["storepass", "keypass", "srcstorepass", "deststorepass", "srckeypass", "destkeypass"]
)  # of keytool
_SETTERS = frozenset(["password", "passwd", "setpassword", "set_password", "withpassword", "with_password"])
_PASSWORD_ENDS = ("password", "passwd", "passphrase", "pass", "pwd")
_SECRET_PARTS = frozenset(
    ["secret", "apikey", "apitoken", "accesstoken", "authtoken", "secretkey", "accesskey", "clientsecret"]
)
_UNKNOWN_PARTS = frozenset(["token", "key", "auth", "credential", "credentials", "authorization"])
_SECRET_PAIRS = frozenset([
    "api-key", "access-key", "secret-key", "private-key", "signing-key", "encryption-key", "master-key", "auth-key",
    "account-key", "shared-key", "app-key", "application-key", "deploy-key", "license-key", "client-key",
    "webhook-key", "service-key", "admin-key", "hmac-key", "storage-key", "access-token", "auth-token",
    "refresh-token", "bearer-token", "session-token", "bot-token", "api-token", "deploy-token", "personal-token",
    "id-token", "oauth-token", "security-token", "webhook-token", "registry-token", "npm-token", "github-token",
    "gitlab-token", "slack-token", "client-secret", "subscription-key", "function-key", "functions-key",
    "vault-token", "private-token", "job-token", "app-token", "key-base",
])  # fmt: skip
_HARMLESS_FIRST = frozenset([
    "public", "primary", "foreign", "cache", "partition", "sort", "object", "row", "dict", "map", "json", "redis",
    "lookup", "config", "translation", "hot", "answer", "idempotency", "group", "unique", "composite", "index",
    "host", "ssh-host", "sort", "shard", "routing", "page", "next", "previous", "cursor", "continuation",
    "csrf-field", "stop", "start", "end", "pad", "eos", "bos", "sep", "mask", "special", "max", "min", "total",
    "cancellation", "cancel",
])  # fmt: skip
_MIN_LENGTH = {PASSWORD: 4, SECRET: 8, UNKNOWN: 20}
_CHECKED_CHARACTERS = 100  # of a value
_TOKEN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~:%|@$!")
_SYMBOLS = frozenset("!@#$%^&*+=~?|/\\-_.")


def spans(text: str, low: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of values that are secrets by their names. `low` is the text in lower case."""
    name_pattern, value_pattern = _patterns(_OPTION in text or _DIRECTIVE in low)
    at = value_end = nested = 0
    for place in _places(low):
        name_match = name_pattern.match(low, place) if place >= at else None
        if name_match is None:
            continue
        at = name_match.end()
        name, first = _whole_name(text, name_match)
        strength = strength_of(name)
        value = value_pattern.match(text, at) if strength else None
        if strength is None or value is None:
            continue
        nested = nested + 1 if at < value_end else 0
        value_end = value.end()
        span = _secret_span(name, strength, name_match, text[max(0, first - 2) : first], value, text)
        if span:
            yield span[0], span[1], kind_of(name, strength, text[span[0] : span[1]])
        at = span[1] if span else value_end if nested >= _MAX_NESTING else at


def _places(low: str) -> list[int]:
    """The positions of triggers, in order."""
    places: list[int] = []
    for trigger in TRIGGERS if low.isascii() else (*TRIGGERS, *BEYOND_ASCII):
        at = low.find(trigger)
        while at >= 0:
            places.append(at)
            at = low.find(trigger, at + 1)
    return sorted(places)


def is_secret_value(name: str, value: str) -> str | None:
    """The kind of secret that a field's name makes of its value, or None."""
    strength = strength_of(name)
    if strength is None or not _is_secret(name, strength, value[:_CHECKED_CHARACTERS], quoted=True, sure=True):
        return None
    return kind_of(name, strength, value)


@lru_cache(maxsize=1000)  # callers use few distinct names
def strength_of(name: str) -> str | None:
    """The class of a value with this name: a password, a secret, possibly an unknown secret, or None."""
    parts = _parts(name)
    last, pair = parts[-1], "-".join(parts[-2:])
    if last == "pass" and len(parts) > 1 and parts[-2] in _NUMBERED_PASSES:
        return None
    if (
        last in _PASSWORD_PARTS
        or _is_foreign(last)
        or (last.endswith(_PASSWORD_ENDS) and not last.endswith(_OTHER_PASSES))
    ):
        return PASSWORD
    if len(parts) > 1 and parts[-2] in _HARMLESS_FIRST:
        return None
    if last in _SECRET_PARTS or pair in _SECRET_PAIRS:
        return SECRET
    return UNKNOWN if last in _UNKNOWN_PARTS else None


def kind_of(name: str, strength: str, value: str) -> str:
    """The kind that is shown in place of the value."""
    low = name.lower()
    if strength == SECRET and "aws" in low and len(value) == 40:
        return "aws_secret_key"
    if strength == SECRET and ("datadog" in low or low.startswith("dd")):
        return "datadog_key"
    return strength


# -- names


@cache
def _patterns(has_options: bool) -> tuple[Pattern[str], Pattern[str]]:
    """Compiled by the first text that needs them."""
    import re

    return re.compile(_NAME + (_OR_A_SPACE if has_options else _ALONE)), re.compile(_VALUE)


def _whole_name(text: str, match: Match[str]) -> tuple[str, int]:
    """The whole name around the matched word, and its start."""
    found, end = match.span(1)
    start, first = found, max(0, found - 40)
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        start -= 1
    while start < found and text[start] in "-.":
        start += 1
    if text.endswith(("api ", "API ", "Api ", "access ", "secret "), 0, start):
        return "api-" + text[start:end], start
    return text[start:end], start


def _parts(name: str) -> list[str]:
    """`dbPassword`, `DB_PASSWORD`, `db-password` → db, password."""
    spread = ""
    for character in name:
        if character.isupper() and spread[-1:].islower():
            spread += "-"
        spread += "-" if character in "_. " else character
    return [part.rstrip("0123456789") for part in spread.lower().split("-") if part] or [""]


def _separator(match: Match[str]) -> str:
    """The separator between name and value: `=`, `:`, `is`, `>`, `,`, `(`, or a space."""
    joined = match.group()[len(match.group(1)) :].rstrip(" \t\u00a0\u202f\u3000*\n")
    if joined.endswith((":", "：")):
        return "=" if joined.endswith((" is:", " was:")) or "value" in joined else ":"
    if joined.endswith(("!!str", "|", ">-", ">+", "|-", "|+", ": >")):
        return ":"
    if joined.endswith(("=", "=>", "<value>", "<<<")):
        return "="
    if joined.endswith((" is", " was", " ist", " lautet", " es", " est", " é")):
        return "is"
    return joined[-1:] if joined[-1:] in (">", ",", "(") else " "


# -- values


def _secret_span(
    name: str, strength: str, joined: Match[str], before: str, match: Match[str], text: str
) -> tuple[int, int] | None:
    group = match.lastgroup or "bare"
    start, end = match.span(group)
    if end - start < _MIN_LENGTH[strength] or text.startswith("[REDACTED", start) or before.endswith("D:"):
        return None
    value, quoted = match.group(group), group != "bare"
    if group == "back" and " " in value:
        return None  # a command substitution
    if not quoted:
        value = _without_end(value)
        end = start + len(value)
    separator = _separator(joined)
    if not _is_separated(name, strength, separator, before):
        return None
    checked = value[:_CHECKED_CHARACTERS]
    if separator == ",":
        quoted = False  # it may be the next of several names
    return (start, end) if _is_secret(name, strength, checked, quoted, _is_sure(name, separator, text, end)) else None


def _is_separated(name: str, strength: str, separator: str, before: str) -> bool:
    """Whether a value follows this separator after this name: `--token x`, `<password>x<`, `("password", "x")`."""
    if separator == " ":
        return before.endswith("--") or name.lower() in (_DASHED if before == " -" else _DIRECTIVES)
    if separator == ">":
        return before.endswith(("<", ":", '="', "='")) and before not in ("P<", "?<")  # groups of a regular expression
    if separator == ",":
        return "passw" in name.lower() and before.endswith(('("', "('"))
    return separator != "(" or name.rpartition(".")[2].lower() in _SETTERS


def _without_end(value: str) -> str:
    """Strip brackets and full stops that belong to the surrounding text."""
    while value and value[-1] in ".)]}:*\\|":
        if value[-1] == ")" and "(" in value:
            break
        value = value[:-1]
    return value


def _is_sure(name: str, separator: str, text: str, end: int) -> bool:
    """Whether the form alone shows that this is a value: `DB_PASSWORD=swordfish`, or `password: swordfish` at the end of a line."""
    if name.lower() in _SHORT_NAMES:
        return False
    if separator == "=":
        return name.isupper()
    if separator == ">":
        return text.startswith("</", end)
    return separator == ":" and (end >= len(text) or text[end] in "\r\n")


def _is_secret(name: str, strength: str, value: str, quoted: bool, sure: bool) -> bool:
    if len(value) < _MIN_LENGTH[strength] or validators.is_placeholder(value):
        return False
    if strength == PASSWORD:
        if name.lower() in _SHORT_NAMES:
            return _is_short_named(name, value)
        if _is_foreign(_parts(name)[-1]):
            return " " not in value and (value.isascii() or name.isascii()) and _is_password(value, False, False)
        return _is_password(value, quoted, sure)
    if " " in value or validators.is_code(value):
        return False
    if strength == SECRET:
        return _is_key(value)
    return _TOKEN_CHARACTERS.issuperset(value) and validators.is_unknown_secret(
        value, hexadecimal=name.isupper() or _parts(name)[-1] == "token"
    )


def _is_foreign(part: str) -> bool:
    """Whether a part is the name of a password in another language; plain words after it count as prose, quoted or not."""
    return part in _FOREIGN or (part.endswith(_FOREIGN) and not part.endswith("senha"))


def _is_short_named(name: str, value: str) -> bool:
    """A password after `pass` or `pw`, which also precede results, steps and sizes."""
    if validators.is_code(value) or not set(value).isdisjoint(" _="):
        return False
    return validators.is_strong(value) or (name != "PASS" and validators.is_digit_in_word(value))


def _is_password(value: str, quoted: bool, sure: bool) -> bool:
    if quoted:
        return not validators.is_sentence(value)
    if validators.is_code(value):
        return False
    if value.isalpha():
        return sure and len(value) >= 6
    return (validators.has_digit(value) and len(value) >= 5 and not value.replace(".", "").isdigit()) or _has_symbols(
        value
    )


def _has_symbols(value: str) -> bool:
    """More than words with a dash: `Tr0ub4dor&3`, `p@ss!`."""
    return len(value) >= 6 and not set(value.replace("-", "").replace("_", "").replace(".", "")).isdisjoint(_SYMBOLS)


def _is_key(value: str) -> bool:
    return validators.has_digit(value) and validators.is_varied(value) and not validators.is_joined_words(value)


# -- names of values in structured data

VALUE_KEYS = frozenset(["value", "values", "val", "v", "default", "current", "plain", "plaintext", "raw"])
_NAME_KEYS = ("name", "key", "variable", "setting", "option", "parameter", "field")
_NUMBER_DIGITS = 256  # a longer number is not a password, and slow to convert


def value_name(data: dict[str, Any], outer: str) -> str:
    """The name that applies to the `VALUE_KEYS` of a dictionary: the name of the pair, else that of the dictionary itself."""
    for key in _NAME_KEYS:
        name = data.get(key)
        if type(name) is str and strength_of(name) is not None:
            return name
    return outer


def item_name(name: str) -> str:
    """The name of each item of a list: the list's own, or its singular if that names a password or a secret."""
    if name[-1:] in "sS" and strength_of(name) is None:
        singular = name[:-1]
        if strength_of(singular) in (PASSWORD, SECRET):
            return singular
    return name


def is_secret_name(name: str) -> bool:
    """Whether a value with this name, or the items of a list with it, can be a secret."""
    return strength_of(item_name(name)) is not None


def as_text(value: Any) -> str | None:
    """A text or an integer as text, for checks by name; None for other values."""
    if type(value) is str:
        return value
    return str(abs(value)) if type(value) is int and value.bit_length() < 3 * _NUMBER_DIGITS else None


def is_option(item: Any) -> bool:
    return type(item) is str and item[:1] == "-" and item[1:2] not in ("", " ")


def is_arguments(items: list[Any]) -> bool:
    """Whether a list looks like command-line arguments: strings, one of which is an option."""
    return any(map(is_option, items)) and all(type(item) is str for item in items)


def replace_spans(items: list[str], spans: list[tuple[int, int, str]]) -> list[str]:
    """Replace spans of `" ".join(items)` in the items; each span has its replacement."""
    cleaned, at, first = [], 0, 0
    for item in items:
        end = at + len(item)
        while first < len(spans) and spans[first][1] <= at:
            first += 1
        pieces, done, place = [], at, first
        while place < len(spans) and spans[place][0] < end:
            start = max(spans[place][0], done)
            pieces += [item[done - at : start - at], spans[place][2]]
            done = min(spans[place][1], end)
            place += 1
        cleaned.append("".join([*pieces, item[done - at :]]))
        at = end + 1
    return cleaned


def free_key(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number if the dictionary already has it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
