"""Plausibility checks for values that have the form of a secret: check digits, variety, placeholders, hashes.

Guarantees: pure, and linear in the value. Check digits (Luhn, mod 97) are exact.
Non-guarantees: a string alone does not show whether it is a secret; these are cheap heuristics.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    Span = tuple[int, int]

DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_DIGEST_LENGTHS = frozenset([32, 40, 56, 64, 96, 128])
_UUID_PARTS = [8, 4, 4, 4, 12]
_PASSWORD_SYMBOLS = frozenset("!@#$%^&*+~?")
_VARIETY = 6  # excludes examples in documents such as ghp_xxxxxxxx and sk-aaaa1111

# Placeholders in the place of a secret: variables, templates, masks, types and words of documents.
_PLACEHOLDER_STARTS = (
    "$", "<", "{", "%", "*", "!", "&", "#", "...", "…", "[redacted", "(", "@", "--",
    "your", "my-", "my_", "example", "dummy", "placeholder", "changeme", "change-me", "change_me", "replace", "insert",
    "os.", "env.", "env[", "process.env", "getenv", "config", "settings.", "self.", "this.", "vault:", "op://", "arn:",
    "secretref", "valuefrom", "file:", "ref+", "required|", "nullable|",
)  # fmt: skip
_PLACEHOLDERS = frozenset([
    "none", "null", "nil", "true", "false", "undefined", "required", "optional", "string", "str", "text", "bytes",
    "secretstr", "secret", "password", "passwd", "pwd", "token", "key", "value", "hidden", "redacted", "removed",
    "masked", "missing", "empty", "unset", "unknown", "todo", "tbd", "n/a", "any", "object", "varchar", "number",
    "int", "integer", "bool", "boolean", "bcrypt", "argon2", "argon2i", "argon2id", "scrypt", "pbkdf2", "sha1",
    "sha256", "sha512", "md5", "hs256", "rs256", "es256", "oauth", "oauth2", "oauth2.0", "jwt", "saml", "ldap", "sso",
    "totp", "2fa", "mfa", "basic", "bearer", "digest", "changed", "expired", "invalid", "incorrect", "wrong", "reset",
    "stored", "hashed", "encrypted", "plaintext", "plain-text", "read-only", "base64", "utf-8", "utf8", "ed25519",
    "x25519", "rsa", "ecdsa", "aes-256", "aes256", "rsa-2048", "rsa2048", "rsa4096", "random", "enabled", "disabled",
    "default", "yes", "no", "on", "off", "ok",
])  # fmt: skip
_SENTENCE_WORDS = frozenset([
    "a", "an", "the", "is", "are", "was", "be", "been", "must", "should", "may", "can", "cannot", "not", "at",
    "least", "for", "your", "our", "their", "to", "of", "in", "with", "enter", "please", "field", "must-be",
    "invalid", "incorrect", "wrong", "required", "forgotten", "forgot", "reset", "change", "new", "old", "and", "or",
    "from", "by", "as", "it", "this", "that", "when", "if", "has", "have", "do", "does", "will", "characters", "long",
    "short", "too",
])  # fmt: skip

# Words of what is said about a passphrase in the place of one: 'passphrase: ask the owner of the key'.
PROSE_WORDS = _SENTENCE_WORDS | frozenset([
    "ask", "see", "stored", "kept", "use", "used", "using", "only", "never", "always", "vault", "keychain", "keyring", "none",
    "where", "which", "who", "how", "per", "each", "every", "own", "same", "later", "after", "before", "without", "set",
    "prompt", "prompted", "missing", "unknown", "expired", "generated", "rotated", "protects", "words", "different",
    "minimum", "maximum", "strong", "weak", "need", "needs", "needed", "get", "read", "written", "shared", "team",
])  # fmt: skip


def is_varied(value: str, least: int = _VARIETY) -> bool:
    """Whether a value has enough different characters to be random."""
    return len(set(value)) >= least


def has_digit(value: str) -> bool:
    return not DIGITS.isdisjoint(value)


def is_random(value: str) -> bool:
    """Whether a value is a random mix of letters and digits, not words joined by dashes."""
    return has_digit(value) and is_varied(value, 8) and not is_joined_words(value)


def is_hash_or_uuid(value: str) -> bool:
    """Whether a value has the form of a digest, a git hash or a UUID: identifiers, not secrets."""
    bare = value.rpartition(":")[2].strip("{}")
    if len(bare) in _DIGEST_LENGTHS and _HEX.issuperset(bare):
        return True
    return is_uuid(bare)


def is_scrambled(value: str) -> bool:
    """Whether lower case, upper case and digits alternate more often than in words; false for hashes."""
    if _HEX.issuperset(value) or not has_digit(value):
        return False
    from itertools import pairwise

    classes = [character.isdigit() + 2 * character.isupper() for character in value]
    changes = sum(one != other for one, other in pairwise(classes))
    return changes >= len(value) * (0.25 if value.islower() or value.isupper() else 0.4)


def is_uuid(value: str) -> bool:
    parts = value.split("-")
    return list(map(len, parts)) == _UUID_PARTS and _HEX.issuperset("".join(parts))


def is_strong(value: str) -> bool:
    """Whether a value mixes letters with digits or symbols as passwords do: not a word, a number, `OAuth2`, `ISO27001`."""
    if len(value) < 6 or not any(map(str.isalpha, value)):
        return False
    if not _PASSWORD_SYMBOLS.isdisjoint(value.rstrip("@")):
        return True
    digits = sum(map(str.isdigit, value))
    letters = value.replace("-", "").replace("_", "").replace(".", "").strip("0123456789")
    return digits > 1 and not letters.isupper() and not is_joined_words(value)


def is_digit_in_word(value: str) -> bool:
    """Whether a digit precedes a letter inside a word, as in `m0onRaker`, `0live-Oil`; not `test1`, `3rd-party`, `e2e-tests`."""
    core = value.rstrip("0123456789")
    if len(value) < 6 or value.isupper():
        return False
    digits = [at for at, character in enumerate(core[:-1]) if character.isdigit() and core[at + 1].isalpha()]
    if not digits or (core.islower() and not core.isalnum()):
        return False
    after = core.lstrip("0123456789")
    unit = after[:4].rstrip("-._0123456789") if len(after) < len(core) else "word"
    return len(unit) > 3 and unit.isalpha()


def is_titled_phrase(value: str) -> bool:
    """Whether a value is capitalised words and a number joined by dashes: `Blue-Whale-42`."""
    parts = value.split("-")
    words = [part for part in parts if part.istitle() and len(part) > 2 and part.isalpha()]
    return len(parts) > 2 and len(words) >= len(parts) - 1 and has_digit(value)


def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder for a secret: `${PASSWORD}`, `<token>`, `****`, `changeme`, `string`."""
    low = value.lower()
    if low in _PLACEHOLDERS or low.startswith(_PLACEHOLDER_STARTS) or not is_varied(low, 2):
        return True
    return "example" in low[-8:] or low.strip("x*•.-_") == ""


def is_sentence(value: str) -> bool:
    """Whether a value is prose in the place of a secret: 'must be at least 8 characters'."""
    words = value.lower().split()
    return len(words) > 1 and (len(words) > 8 or not _SENTENCE_WORDS.isdisjoint(words))


def is_code(value: str) -> bool:
    """Whether a value is a call, a subscript, a dotted name, a path, an address or the name of a constant, not a literal."""
    if "://" in value or value.startswith(("/", "./", "../", "~/")):
        return True
    ending = value.rpartition(".")[2]
    if "/" in value and "." in value and ending.isalpha() and ending.islower() and len(ending) <= 4:
        return True  # a path
    head = value.partition("(")[0].partition("[")[0]
    name = head.replace(".", "").replace("_", "").replace("::", "").replace("->", "")
    if head != value and (not head or head[0].isalpha() or head[0] == "_") and name.isalnum():
        return True
    if "." in head and all(part.isidentifier() for part in head.split(".")) and not _looks_like_jwt(head):
        return True
    return "_" in value and value.isidentifier() and (not has_digit(value) or "password" in value)


def entropy_bits(value: str) -> float:
    """Shannon entropy in bits per character."""
    from math import log2

    size = len(value)
    counts = [value.count(character) for character in set(value)]
    return -sum(count / size * log2(count / size) for count in counts)


def is_unknown_secret(value: str, hexadecimal: bool = False) -> bool:
    """Whether a value is long, mixed and random; not a UUID or words, and a hash only with `hexadecimal`."""
    if not 20 <= len(value) <= 512 or (is_uuid(value) if hexadecimal else is_hash_or_uuid(value)):
        return False
    letters = any(map(str.isalpha, value))
    return letters and is_random(value) and entropy_bits(value) >= (3.0 if _HEX.issuperset(value) else 3.6)


def passes_luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def passes_mod_97(iban: str) -> bool:
    """The check of ISO 13616: the first four characters move to the end, letters count from ten."""
    rotated = iban[4:] + iban[:4]
    return int("".join(str(int(character, 36)) for character in rotated)) % 97 == 1


# -- parts


def is_joined_words(value: str) -> bool:
    """Whether every part is a short word or number: `retry-with-backoff-v2`, `2026-01-11-checkout-review`."""
    parts = value.replace("_", "-").replace(".", "-").replace("/", "-").split("-")
    return len(parts) > 2 and all(_is_word(part) for part in parts)


def _is_word(part: str) -> bool:
    letters = part.rstrip("0123456789")
    if len(part) > 14 or not (letters == "" or letters.isalpha()):
        return False
    return letters.islower() or letters.istitle() or letters.isupper() or letters == ""


def _looks_like_jwt(value: str) -> bool:
    return value.startswith("eyJ")


def varied(text: str, match: Match[str]) -> Span | None:
    """The whole match, unless it is only an example of a token."""
    return match.span() if is_varied(match.group()[-20:]) else None


def random_tail(text: str, match: Match[str]) -> Span | None:
    """The whole match, if what follows its prefix is random."""
    return match.span() if is_random(match.group()) else None


def scrambled_tail(text: str, match: Match[str]) -> Span | None:
    """The whole match, if its letters and digits are scrambled."""
    return match.span() if is_scrambled(match.group()) else None
