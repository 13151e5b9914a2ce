"""Rules for passwords and keys in sentences: 'the password for staging is x', 'use the token x', 'x is the password'.

A sentence says more often that a password is wrong, stored or required than what it is. So a word counts as a password
only in quotes, or with a digit or a symbol in it; a key or token only if it is long and looks random.
Guarantees: linear on any text: the words between a name and its value are few and short.
Non-guarantees: a password that is a plain word without quotes is not found.
"""

from __future__ import annotations

from smp.privacy import plausible
from smp.privacy.patterns import Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    Span = tuple[int, int]

_NAME = r"(?:passw(?:or[dt]|d)s?|passphrase|passcode)"
_FEW_WORDS = r"(?: [^\s.:;=!?,|'\"`]{1,20}+){0,6}?"
_IS = r" (?:is|was|are|to|ist|lautet)[ :]{1,2}|:? (?:->|=>|→|\|) |[:=] "
_OTHER_SUBJECTS = frozenset(  # then it is said of these, not of the password
    ["hash", "hashes", "hashing", "cost", "policy", "policies", "length", "strength", "field", "fields", "column", "rotation",
     "reset", "resets", "rounds", "algorithm", "manager", "salt", "file", "prompt", "authentication", "auth", "encoder"]
)  # fmt: skip
_QUOTED = r"([\"'`])([^\"'`\n]{4,64}+)\1"
_BARE = r"([^\s\"'`<>,;]{5,64}+)"
_VERBS = ("chang", "set", "reset", "rotat", "updat")
_BEFORE = 64  # characters of a value that stands before its name
_LONG_VALUE = r"s?(?:,? [a-z]{1,12}+){0,5}?[ :=(\[{\"'`]{1,3}([a-z0-9_+/=~-]{32,256}+)(?![a-z0-9_+/.@:-])"
_HASH_WORDS = frozenset(
    ["cache", "object", "blob", "content", "primary", "foreign", "partition", "sort", "public", "idempotency", "correlation",
     "dedup", "etag", "commit", "shard", "row", "hash", "lookup", "s3", "storage", "translation", "routing", "continuation",
     "page", "next", "host", "trace", "request"]
)  # fmt: skip
_HEX_WORDS = frozenset(["api", "signing", "secret", "access", "private", "encryption", "master"])


def _in_words(text: str, match: Match[str]) -> Span | None:
    """A value after a few words: 'password for the admin account is x'."""
    group = 2 if match.group(2) is not None else 3
    if not _OTHER_SUBJECTS.isdisjoint(
        match.group()[: match.start(group) - match.start()].replace(":", " ").split()[1:]
    ):
        return None
    start, end = match.span(group)
    value = text[start:end] if group == 2 else text[start:end].rstrip(".)]}:?*|")
    return (start, start + len(value)) if _is_said_password(value, quoted=group == 2) else None


def _is_said_password(value: str, quoted: bool) -> bool:
    if plausible.is_stand_in(value) or plausible.is_code(value) or plausible.is_sentence(value):
        return False
    if quoted:
        return " " not in value or plausible.has_digit(value)
    return plausible.is_strong(value)


def _is_password_after(text: str, match: Match[str]) -> Span | None:
    """'x is the password', 'x as the password'."""
    end = match.start()
    start = max(text.rfind(space, max(0, end - _BEFORE), end) for space in " \n\t") + 1
    start = max(start, end - _BEFORE, 0)
    value = text[start:end].lstrip("\"'`(*")
    start = end - len(value)
    value = value.rstrip("\"'`)*,")
    said = plausible.is_titled_phrase(value) or _is_said_password(value, quoted=False)
    return (start, start + len(value)) if said else None


def _changed_to(text: str, match: Match[str]) -> Span | None:
    """'I changed the password to x', not 'the password to Build-Server-2'."""
    before = text[max(0, match.start() - 40) : match.start(3 if match.group(3) else 2)].lower().split()
    if not any(word.startswith(_VERBS) for word in before[-8:]):
        return None
    start, end = match.span(3) if match.group(3) else match.span(2)
    value = text[start:end].rstrip(".)]}:?*|")
    said = plausible.is_titled_phrase(value) or _is_said_password(value, quoted=match.group(2) is not None)
    return (start, start + len(value)) if said else None


def _login(text: str, match: Match[str]) -> Span | None:
    """'credentials: user / password'."""
    start, end = match.span(1)
    value = text[start:end].rstrip(".,;:)")
    return (start, start + len(value)) if _is_said_password(value, quoted=False) else None


def _key(text: str, match: Match[str]) -> Span | None:
    """A long value after 'key', 'token' or 'secret'. Of hexadecimal digits only where no hash would stand."""
    start, end = match.span(1)
    value = text[start:end]
    before = text[max(0, match.start() - 24) : match.start()].lower().replace("-", " ").replace("_", " ")
    words = before.split()[-2:]
    if not _HASH_WORDS.isdisjoint(words):
        return None
    of_hex = match.group().startswith("token") or (words != [] and words[-1] in _HEX_WORDS)
    return (start, end) if plausible.is_unknown_secret(value, hexadecimal=of_hex) else None


SENTENCES: tuple[Rule, ...] = (
    Rule("password", ("passw", "passphrase", "passcode"), rf"{_NAME}{_FEW_WORDS}(?:{_IS})(?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", ("passw",), rf"{_NAME} (?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", ("password to ", "password was ", "password is ", "password has "), rf"password(?: (?:was|is|has been|has))?(?: (?:now|changed|set|reset|rotated|updated))? to (?:{_QUOTED}|{_BARE})", _changed_to, "password", True),
    Rule("password", ("pw for ", "pwd for "), rf"(?<![a-z0-9_-])pwd? for{_FEW_WORDS}(?:{_IS})(?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", (" is the passw", " as the passw", " as passw"), r" (?:is the|as the|as) passw", _is_password_after, "password", True),
    Rule("password", ("passwords:", "password:", "credentials:", "creds:", "login:"), r"(?:passwords?|credentials|creds|login): {0,2}[\w.@-]{1,40}+ ?[/:] ?([^\s\"'`<>,;]{5,64}+)", _login, "password", True),
    *(Rule("unknown_secret", (word,), word + _LONG_VALUE, _key, "unknown_secret", True, in_long_word=True, by_context=True) for word in ("key", "token", "secret")),
)  # fmt: skip
