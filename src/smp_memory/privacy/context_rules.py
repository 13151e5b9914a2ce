"""Redaction rules for secrets that are recognised by their context.

`CONTEXTS`: headers, addresses, command lines, calls, private keys.

`CONFIGURATIONS`: configuration files of devices and servers, commands of tools, password hashes. They start from a literal
that only such a file or command has; where the same words occur in sentences ('enable secret scanning'), the value must have
a digit or a symbol.

`SENTENCES`: 'the password for staging is x', 'use the token x', 'x is the password'. Most sentences about passwords say that
one is wrong, stored or required. So a word counts as a password only in quotes, or with a digit or a symbol in it; a key or
token only if it is long and looks random.

Guarantees: linear on any text. A repeat is bounded, or possessive with nothing after it that could fail; no repeat is inside
another, except few, short, bounded ones.
Non-guarantees: a password that is a plain word without quotes is not found, nor are plain words after 'the passphrase is'.
"""

from __future__ import annotations

from smp_memory.privacy import key_value_rules, validators
from smp_memory.privacy.rules import PROVIDERS, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    Span = tuple[int, int]

_W = "[A-Za-z0-9_-]"


def _basic(text: str, match: Match[str]) -> Span | None:
    """`Basic` and base64 of `user:password`, not 'basic understanding'."""
    from base64 import b64decode

    start, end = match.span(1)
    value = text[start:end].rstrip("=")
    try:
        decoded = b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return None
    return (start, end) if b":" in decoded else None


def _bearer(text: str, match: Match[str]) -> Span | None:
    start, end = match.span(1)
    value = text[start:end]
    return (start, end) if validators.has_digit(value) and validators.is_varied(value) else None


_NOT_TOP_DOMAINS = frozenset(
    ["png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "tgz", "gz", "zip", "whl", "jar", "css", "js", "json", "yaml", "yml", "toml", "lock"]
)  # fmt: skip
_NOT_PEOPLE = ("git", "hg", "svn")


def _email(text: str, match: Match[str]) -> Span | None:
    """Not `lodash@4.17.21.tgz`, `icon@2x.png`, `git@host.example:repo`, `a@b.mean()`."""
    start, end = match.span()
    local, _, domain = match.group().partition("@")
    following = text[end : end + 1]
    if domain.rpartition(".")[2].lower() in _NOT_TOP_DOMAINS or following == "(":
        return None
    if local in _NOT_PEOPLE or _is_in_address(text, start) or all(part.isdigit() for part in domain.split(".")[:-1]):
        return None
    return start, end


def _is_in_address(text: str, at: int) -> bool:
    """Whether this is where `scheme://user:password@host` has its host; `url_password` handles those."""
    scheme, sign, rest = text[max(0, at - 200) : at].rpartition("://")
    return bool(sign) and scheme[-1:].isalnum() and not any(map(rest.__contains__, "/?# \n\t\"'"))


def _url_password(text: str, match: Match[str]) -> Span | None:
    start, end = match.span(1)
    value = text[start:end]
    return None if validators.is_placeholder(value) else (start, end)


def _url_token(text: str, match: Match[str]) -> Span | None:
    return match.span(1) if validators.is_random(match.group(1)) else None


def _scheme(text: str, match: Match[str]) -> Span | None:
    """A value after a scheme that is not in the table, or after none: only if it looks random."""
    start, end = match.span(1)
    value = text[start:end]
    return (start, end) if validators.is_random(value) and not validators.is_code(value) else None


def _user_password(text: str, match: Match[str]) -> Span | None:
    """`curl -u user:password`, not `docker run -u 1000:1000`, `-u node:node`."""
    user, value = match.group(1), match.group(2)
    harmless = validators.is_placeholder(value) or value.isdigit() or user == value
    return None if harmless else match.span(2)


_OPTIONS = {  # the option that takes a password, and the commands where it does
    "-p": ("docker login", "podman login", "az login", "oc login", "cf login", "registry login", "mongo", "sshpass"),
    "-a": ("redis-cli",),
    "-P": ("sqlcmd", "bcp ", "zip ", "ipmitool"),
    "-k": ("openssl enc",),
    "-w": ("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"),
}
_JOINED_OPTIONS = {"-p": ("mysql", "mariadb", "sshpass"), "-P": ("sqlcmd", "bcp ")}
_ARCHIVERS = ("7z ", "7za ", "rar ")


def _option(text: str, match: Match[str]) -> Span | None:
    """The value of a short option, if the command on the same line is one where that option takes a password."""
    option, space, value = match.groups()
    commands = (_OPTIONS if space else _JOINED_OPTIONS).get(option, ())
    if option in ("-P", "-k") and (validators.is_code(value) or not validators.has_digit(value)):
        return None
    if option == "-p" and not space and len(value) >= 6 and validators.has_digit(value):
        commands += _ARCHIVERS
    line = text[max(0, match.start() - 200) : match.start()].rpartition("\n")[2].lower() + " "
    for command in commands:
        if command in line:
            return None if validators.is_placeholder(value) or value.isdigit() else match.span(3)
    return None


def _literal(text: str, match: Match[str]) -> Span | None:
    """The last group, unless it is a placeholder."""
    group = match.lastindex or 0
    return None if validators.is_placeholder(match.group(group)) else match.span(group)


def _echoed(text: str, match: Match[str]) -> Span | None:
    """`echo 'password' | sudo -S`: what stands in quotes before it."""
    end = match.start() - 2
    quote = text[end : end + 1]
    start = text.rfind(quote, max(0, end - 130), end) + 1
    value = text[start:end]
    return (start, end) if start and len(value) >= 3 and not validators.is_placeholder(value) else None


def _second_argument(text: str, match: Match[str]) -> Span | None:
    value = match.group(1)
    return None if validators.is_placeholder(value) or validators.is_sentence(value) else match.span(1)


def _sql(text: str, match: Match[str]) -> Span | None:
    """The password of a user in SQL, not 'a library identified by 'name''."""
    statement = text[max(0, match.start() - 200) : match.start()].lower()
    sure = "user" in statement or "grant" in statement or "role" in statement
    return _literal(text, match) if sure or validators.has_digit(match.group(1)) else None


def _session_cookie(text: str, match: Match[str]) -> Span | None:
    """The id of a session in a header that carries cookies; elsewhere it is only an id."""
    before = text[max(0, match.start() - 300) : match.start()].lower()
    value = match.group(1)
    return match.span(1) if "cookie" in before and validators.is_varied(value) and validators.has_digit(value) else None


def _private_key(text: str, match: Match[str]) -> Span | None:
    """With a body, however short; not the bare BEGIN and END lines that code searches for."""
    import re

    body = match.group().partition("KEY")[2].strip("-").removeprefix(" BLOCK").strip("-")
    found = re.search(
        r"[A-Za-z0-9+/]{16}|(?:\n|\\n)[ \t>]{0,16}[A-Za-z0-9+/]{4,}={0,2}[ \t]{0,4}(?:\r?\n|\\[rn])", body
    )
    return match.span() if found else None


_PEM = (
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,65536}+-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,100}+){0,1000}+)"
)
_SSH2 = (
    r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
    r"(?:[^-]|-(?!---)){0,65536}+---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
)
_AUTHORIZATION = r"authorization[\\\"']{0,2}[ \t]{0,3}[:=][ \t]{0,3}[\\\"']{0,2}"
_USER = r"(?: -u ?| --(?:proxy-)?user[ =]| -a )['\"]?([^\s:'\"/]{1,64}):([^\s'\"`]{3,128}+)"
_CALL = r"(?:auth=?|login)\([\"'][^\"'\n]{1,64}[\"'],[ ]{0,2}[\"']([^\"'\n]{4,128}+)[\"']\)"

CONTEXTS: tuple[Rule, ...] = (
    Rule("private_key", ("-----BEGIN",), _PEM, _private_key, "private_key"),
    Rule("private_key", ("---- BEGIN SSH2",), _SSH2, _private_key, "private_key"),
    Rule("private_key", ("Private-Lines:",), r"Private-Lines: \d{1,3}\s{1,2}((?:[A-Za-z0-9+/=]{4,80}+(?!\S)\s{0,2}+){1,400}+)", group="private_key"),
    Rule("jwt", ("eyJ",), rf"eyJ(?:(?<!{_W}eyJ)|(?<=\\[nrt]eyJ)){_W}{{8,}}+\.eyJ{_W}{{8,}}+\.{_W}{{8,}}+", group="jwt", in_long_word=True),
    Rule("url_password", ("://",), r"://(?:[^\s/?#:@\[\]]{0,128}+):([^\s/\"'<>]{1,256})@", _url_password, "url_password"),
    Rule("url_password", ("://",), r"://([A-Za-z0-9_.~%-]{20,256}+)@", _url_token, "url_password"),
    Rule("auth_header", ("bearer",), r"bearer(?<![a-z0-9_]bearer)[ \t]{1,3}([a-z0-9._~+/=-]{16,}+)", _bearer, "auth_header", True),
    Rule("auth_header", ("authorization",), _AUTHORIZATION + r"(?:bearer|token|apikey|api-key|key|digest|negotiate|aws4-hmac-sha256)[ \t]{1,3}([a-z0-9._~+/=-]{8,}+)", _bearer, "auth_header", True),
    Rule("auth_header", ("authorization",), _AUTHORIZATION + r"(?:[a-z][a-z0-9_-]{1,30}+(?:[ \t]{1,3}|=))?(?:token=)?[\\\"']{0,2}([a-z0-9._~+/=-]{16,}+)", _scheme, "auth_header", True),
    Rule("auth_header", ("basic ",), r"basic (?<![a-z0-9_]basic )([a-z0-9+/]{8,}+={0,2})", _basic, "auth_header", True),
    Rule("command_password", (" -u", " --user", " --proxy-user", " -a "), _USER, _user_password, "password"),
    Rule("command_password", (" -p", " -a ", " -w ", " -k "), r" (-[pawPk])( ?)['\"]?([^\s'\"`]{3,128}+)", _option, "password"),
    Rule("command_password", ("htpasswd -",), r"htpasswd -[a-zA-Z]{0,6}b[a-zA-Z]{0,6} \S{1,200} \S{1,64} ['\"]?([^\s'\"`]{3,128}+)", _literal, "password"),
    Rule("command_password", ("| sudo -",), r"\| sudo -S(?<=['\"] \| sudo -S)", _echoed, "password"),
    Rule("command_password", ("user:",), r" /user:[^\s]{1,64} ([^\s/'\"`]{4,128}+)", _literal, "password"),
    Rule("command_password", (" -u",), r" -U [\w.\\-]{1,64}%([^\s'\"`]{3,128}+)", _literal, "password"),
    Rule("call_password", ('auth("', "auth('", 'auth=("', "auth=('", 'login("', "login('"), _CALL, _second_argument, "password", True),
    Rule("password", ("identified by '", 'identified by "'), r"identified by ['\"]([^'\"\n]{3,128}+)['\"]", _sql, "password", True),
    Rule("session_cookie", ("sessionid=", "sessid=", "session=", "sid="), r"(?:sess(?:ion)?id|session|sid)=([^;,\s\"']{16,256}+)", _session_cookie, "auth_header", True),
    Rule("url_password", ("jdbc:oracle:",), r"jdbc:oracle:[a-z]{2,5}:[^\s/@:]{1,64}/([^\s/@]{1,64})@", _url_password, "url_password"),
    Rule("email", ("@",), r"(?<![\w.%+-])[\w.%+'-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?![\w-])", _email, "email"),
)  # fmt: skip


_DEFAULT_COMMUNITIES = frozenset(["public", "private"])


def _last_group(match: Match[str]) -> int:
    return match.lastindex or 0


def _odd(text: str, match: Match[str]) -> Span | None:
    """The last group, if it has a digit or a symbol, and is neither a path nor a placeholder."""
    start, end = match.span(_last_group(match))
    return (start, end) if _is_odd(text[start:end]) else None


def _is_odd(value: str) -> bool:
    if validators.is_placeholder(value) or validators.is_code(value) or not any(map(str.isalpha, value)):
        return False
    return validators.has_digit(value) or validators.is_strong(value)


def _quoted(text: str, match: Match[str]) -> Span | None:
    value = match.group(_last_group(match))
    return None if validators.is_placeholder(value) else match.span(_last_group(match))


def _community(text: str, match: Match[str]) -> Span | None:
    """An SNMP community; the defaults are not secret."""
    start, end = match.span(1)
    if text[start:end].lower() in _DEFAULT_COMMUNITIES:
        return None
    return (start, end) if _is_odd(text[start:end]) else None


def _constant(text: str, match: Match[str]) -> Span | None:
    """Keys and salts of WordPress: long and random."""
    start, end = match.span(1)
    value = text[start:end]
    return (start, end) if validators.is_varied(value, 12) and validators.has_digit(value) and not validators.is_joined_words(value) else None  # fmt: skip


def _default(text: str, match: Match[str]) -> Span | None:
    """The default of a Terraform variable with the name of a secret."""
    start, end = match.span(2)
    return (start, end) if key_value_rules.is_secret_value(match.group(1), text[start:end]) else None


def _jwk(text: str, match: Match[str]) -> Span | None:
    """A private member of a JSON web key; elsewhere `d` and `k` mean other things."""
    near = text[max(0, match.start() - 1500) : match.end() + 1500]
    return match.span(1) if '"kty' in near and validators.is_varied(match.group(1), 12) else None


_CRYPT = r"[./A-Za-z0-9]"
_HASHES = (
    rf"\$(?:1\${_CRYPT}{{1,16}}\${_CRYPT}{{22}}|apr1\${_CRYPT}{{1,16}}\${_CRYPT}{{22}}|2[abxy]\$[0-9]{{2}}\${_CRYPT}{{53}}"
    rf"|[56]\$(?:rounds=[0-9]{{1,9}}\$)?{_CRYPT}{{1,16}}\${_CRYPT}{{43,86}}|[89]\${_CRYPT}{{14}}\${_CRYPT}{{43}}"
    rf"|(?:y|gy|7)\${_CRYPT}{{1,16}}\${_CRYPT}{{1,86}}\${_CRYPT}{{43}}"
    r"|argon2(?:id|i|d)\$(?:v=[0-9]{1,3}\$)?[a-z0-9=,]{5,40}\$[A-Za-z0-9+/]{8,64}\$[A-Za-z0-9+/]{16,128})"
)
_CRYPTS = ("$1$", "$5$", "$6$", "$7$", "$8$", "$9$", "$y$", "$gy$", "$2a$", "$2b$", "$2x$", "$2y$", "$apr1$", "$argon2")
_Q = r"[\"'][^\"'\n]{0,64}[\"'],[ ]{0,2}"

CONFIGURATIONS: tuple[Rule, ...] = (
    Rule("password_hash", _CRYPTS, _HASHES, group="password"),
    Rule("password", ("enable secret ", "enable password "), r"enable (?:secret|password) (?:level [0-9]{1,2} )?(?:[0-9] )?([^\s\"'`]{5,128}+)", _odd, "password", True),
    Rule("password", (" 7 ",), r"(?:password|key|secret) 7 ([0-9a-f]{6,128}+)(?![^\s\"'])", group="password", lowered=True),
    Rule("password", ("community ",), r"(?:snmp-server |r[ow])community (?:[07] )?([^\s\"'`]{4,64}+)", _community, "password", True),
    Rule("password", ("s-server ",), r"(?:radius|tacacs)-server (?:host [^\s]{1,64} )?key (?:[0-9] )?([^\s\"'`]{4,128}+)", _odd, "password", True),
    Rule("password", ("masterauth ", "rootpw "), r"(?:masterauth|rootpw)[ \t]{1,8}['\"]?([^\s\"'`]{5,128}+)", _odd, "password", True),
    Rule("secret", ("define('", 'define("', "define( '", 'define( "'), r"define\( ?[\"'][A-Z0-9_]{0,40}_(?:KEY|SALT)[\"'],\s{0,16}'([^'\n]{32,128}+)'", _constant, "secret"),
    Rule("password", ('variable "',), r"variable \"([a-z0-9_-]{1,64})\"\s{0,4}\{\s{0,16}(?:(?!default)[a-z_]{1,24}+\s{0,8}=[^\n]{0,200}+\n\s{0,16}+){0,6}+default\s{0,8}=\s{0,8}\"([^\"\n]{4,256}+)\"", _default, "password", True),
    Rule("password", ("432:",), r":[56]432:[\w*-]{1,64}:[\w.*-]{1,64}:([^\s:\"']{4,128}+)", _quoted, "password"),
    Rule("password", ("wifi:",), r"wifi:(?:[a-z]{1,2}:[^;\n]{0,64};){0,4}?p:((?:[^;\\\n]|\\.){4,64}+);", _quoted, "password", True),
    Rule("command_password", (" /p:",), r" /p:([^\s\"'`]{4,128}+)(?=[^\n]{0,200} /[uv]:)|(?<= )/u:[^\s]{1,64} /p:([^\s\"'`]{4,128}+)", _quoted, "password", True),
    Rule("command_password", ("user:",), r" ([^\s/\\\"'`]{4,128}+) /user:", _odd, "password", True),
    Rule("command_password", ("sqlplus ",), r"sqlplus (?:-[a-z]{1,8} ){0,3}[\w.$-]{1,32}/([^\s@/\"'`]{4,64}+)", _odd, "password", True),
    Rule("command_password", ("| chpasswd", "| sudo chpasswd"), r"echo (?:-[en] )?[\"']?[\w.-]{1,32}:([^\s\"'|]{4,128}+)[\"']? \| (?:sudo )?chpasswd", _quoted, "password", True),
    Rule("call_password", ('securestring "', "securestring '", 'securestring -string "'), r"securestring (?:-string )?[\"']([^\"'\n]{4,128}+)[\"']", _quoted, "password", True),
    Rule("call_password", ('networkcredential("', "networkcredential('"), rf"networkcredential\({_Q}[\"']([^\"'\n]{{4,128}}+)[\"']", _quoted, "password", True),
    Rule("call_password", ('mysqli("', "mysqli('", 'mysqli_connect("', "mysqli_connect('"), rf"mysqli(?:_connect)?\({_Q}{_Q}[\"']([^\"'\n]{{4,128}}+)[\"']", _quoted, "password", True),
    Rule("private_key", ('"kty',), r"\"(?:d|p|q|dp|dq|qi|k)\\?\"\s{0,2}:\s{0,2}\\?\"([A-Za-z0-9_-]{20,2048}+)", _jwk, "private_key"),
)  # fmt: skip


_NAME = r"(?:passw(?:or[dt]|d)s?|passphrase|passcode)"
_FEW_WORDS = r"(?: [^\s.:;=!?,|'\"`]{1,20}+){0,6}?"
_IS = r" (?:is|was|are|to|ist|lautet)[ :]{1,2}|:? (?:->|=>|→|\|) |[:=] "
_OTHER_SUBJECTS = frozenset(  # then the sentence is about these, not about the password
    ["hash", "hashes", "hashing", "cost", "policy", "policies", "length", "strength", "field", "fields", "column", "rotation",
     "reset", "resets", "rounds", "algorithm", "manager", "salt", "file", "prompt", "authentication", "auth", "encoder"]
)  # fmt: skip
_QUOTED = r"([\"'`])([^\"'`\n]{4,64}+)\1"
_BARE = r"([^\s\"'`<>,;]{5,64}+)"
_VERBS = ("chang", "set", "reset", "rotat", "updat")
_BEFORE = 64  # maximum length of a value that precedes its name
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
    return (start, start + len(value)) if _is_password_in_sentence(value, quoted=group == 2) else None


def _is_password_in_sentence(value: str, quoted: bool) -> bool:
    if validators.is_placeholder(value) or validators.is_code(value) or validators.is_sentence(value):
        return False
    if quoted:
        return " " not in value or validators.has_digit(value)
    return validators.is_strong(value)


def _passphrase(text: str, match: Match[str]) -> Span | None:
    """Plain words, 'passphrase for the signing key: correct horse battery staple', not 'passphrase: ask the owner'."""
    start, end = match.span(1)
    words = text[start:end].lower().replace("-", " ").split()
    is_prose = not validators.PROSE_WORDS.isdisjoint(words) or any(len(word) < 3 for word in words)
    follows = text[end : end + 1]
    return None if is_prose or follows in ("(", ":", "/", "=") else (start, end)


def _is_password_after(text: str, match: Match[str]) -> Span | None:
    """'x is the password', 'x as the password'."""
    end = match.start()
    start = max(text.rfind(space, max(0, end - _BEFORE), end) for space in " \n\t") + 1
    start = max(start, end - _BEFORE, 0)
    value = text[start:end].lstrip("\"'`(*")
    start = end - len(value)
    value = value.rstrip("\"'`)*,")
    is_password = validators.is_titled_phrase(value) or _is_password_in_sentence(value, quoted=False)
    return (start, start + len(value)) if is_password else None


def _changed_to(text: str, match: Match[str]) -> Span | None:
    """'I changed the password to x', not 'the password to Build-Server-2'."""
    before = text[max(0, match.start() - 40) : match.start(3 if match.group(3) else 2)].lower().split()
    if not any(word.startswith(_VERBS) for word in before[-8:]):
        return None
    start, end = match.span(3) if match.group(3) else match.span(2)
    value = text[start:end].rstrip(".)]}:?*|")
    is_password = validators.is_titled_phrase(value) or _is_password_in_sentence(
        value, quoted=match.group(2) is not None
    )
    return (start, start + len(value)) if is_password else None


def _login(text: str, match: Match[str]) -> Span | None:
    """'credentials: user / password'."""
    start, end = match.span(1)
    value = text[start:end].rstrip(".,;:)")
    return (start, start + len(value)) if _is_password_in_sentence(value, quoted=False) else None


def _key(text: str, match: Match[str]) -> Span | None:
    """A long value after 'key', 'token' or 'secret'. Hexadecimal digits only where a hash is unlikely."""
    start, end = match.span(1)
    value = text[start:end]
    before = text[max(0, match.start() - 24) : match.start()].lower().replace("-", " ").replace("_", " ")
    words = before.split()[-2:]
    if not _HASH_WORDS.isdisjoint(words):
        return None
    of_hex = match.group().startswith("token") or (words != [] and words[-1] in _HEX_WORDS)
    return (start, end) if validators.is_unknown_secret(value, hexadecimal=of_hex) else None


SENTENCES: tuple[Rule, ...] = (
    Rule("password", ("passw", "passphrase", "passcode"), rf"{_NAME}{_FEW_WORDS}(?:{_IS})(?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", ("passw",), rf"{_NAME} (?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", ("password to ", "password was ", "password is ", "password has "), rf"password(?: (?:was|is|has been|has))?(?: (?:now|changed|set|reset|rotated|updated))? to (?:{_QUOTED}|{_BARE})", _changed_to, "password", True),
    Rule("password", ("passphrase",), rf"passphrase{_FEW_WORDS} ?[:=] {{0,2}}['\"`]?([a-z]{{3,16}}(?:[ -][a-z]{{3,16}}){{2,7}})(?![a-z0-9-])", _passphrase, "password", True),
    Rule("password", ("pw for ", "pwd for ", "secret for "), rf"(?<![a-z0-9_-])(?:pwd?|secret) for{_FEW_WORDS}(?:{_IS})(?:{_QUOTED}|{_BARE})", _in_words, "password", True),
    Rule("password", (" is the passw", " as the passw", " as passw"), r" (?:is the|as the|as) passw", _is_password_after, "password", True),
    Rule("password", ("passwords:", "password:", "credentials:", "creds:", "login:"), r"(?:passwords?|credentials|creds|login): {0,2}[\w.@-]{1,40}+ ?[/:] ?([^\s\"'`<>,;]{5,64}+)", _login, "password", True),
    *(Rule("unknown_secret", (word,), word + _LONG_VALUE, _key, "unknown_secret", True, in_long_word=True, by_context=True) for word in ("key", "token", "secret")),
)  # fmt: skip


RULES = (*PROVIDERS, *CONTEXTS, *CONFIGURATIONS, *SENTENCES)
