"""Rules for secrets in configuration files of devices and servers, in commands of tools, and for hashes of passwords.

They start from a literal that only such a file or command has; the value must have a digit or a symbol where the same
words can stand in a sentence ('enable secret scanning').
Guarantees: linear on any text. Every repeat is bounded; what follows one can fail only within that bound.
"""

from __future__ import annotations

from smp.privacy import assignments, plausible
from smp.privacy.patterns import Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    Span = tuple[int, int]

_DEFAULT_COMMUNITIES = frozenset(["public", "private"])


def _last_group(match: Match[str]) -> int:
    return match.lastindex or 0


def _odd(text: str, match: Match[str]) -> Span | None:
    """The last group, if it has a digit or a symbol, and is neither a path nor a stand-in."""
    start, end = match.span(_last_group(match))
    return (start, end) if _is_odd(text[start:end]) else None


def _is_odd(value: str) -> bool:
    if plausible.is_stand_in(value) or plausible.is_code(value) or not any(map(str.isalpha, value)):
        return False
    return plausible.has_digit(value) or plausible.is_strong(value)


def _quoted(text: str, match: Match[str]) -> Span | None:
    value = match.group(_last_group(match))
    return None if plausible.is_stand_in(value) else match.span(_last_group(match))


def _community(text: str, match: Match[str]) -> Span | None:
    """An SNMP community; the defaults are no secret."""
    start, end = match.span(1)
    if text[start:end].lower() in _DEFAULT_COMMUNITIES:
        return None
    return (start, end) if _is_odd(text[start:end]) else None


def _constant(text: str, match: Match[str]) -> Span | None:
    """Keys and salts of WordPress: long and without order."""
    start, end = match.span(1)
    value = text[start:end]
    return (start, end) if plausible.is_varied(value, 12) and plausible.has_digit(value) and not plausible.is_joined_words(value) else None  # fmt: skip


def _default(text: str, match: Match[str]) -> Span | None:
    """The default of a Terraform variable with a telling name."""
    start, end = match.span(2)
    return (start, end) if assignments.is_secret_value(match.group(1), text[start:end]) else None


def _jwk(text: str, match: Match[str]) -> Span | None:
    """A private member of a JSON web key; elsewhere `d` and `k` mean other things."""
    near = text[max(0, match.start() - 1500) : match.end() + 1500]
    return match.span(1) if '"kty' in near and plausible.is_varied(match.group(1), 12) else None


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
