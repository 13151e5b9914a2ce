"""Rules for secrets that their surroundings give away: headers, addresses, command lines, calls, private keys.

Guarantees: linear on any text. A repeat is bounded, or possessive with nothing after it that could fail; no repeat is
inside another, save for few, short, bounded ones.
"""

from __future__ import annotations

from smp.privacy import plausible
from smp.privacy.patterns import Rule

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
    return (start, end) if plausible.has_digit(value) and plausible.is_varied(value) else None


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
    """Whether this is where `scheme://user:password@host` has its host; `url_password` cares for those."""
    scheme, sign, rest = text[max(0, at - 200) : at].rpartition("://")
    return bool(sign) and scheme[-1:].isalnum() and not any(map(rest.__contains__, "/?# \n\t\"'"))


def _url_password(text: str, match: Match[str]) -> Span | None:
    start, end = match.span(1)
    value = text[start:end]
    masked = value.startswith(("$", "<", "{", "%", "[REDACTED")) or not value.strip("*x•.")
    return None if masked else (start, end)


def _url_token(text: str, match: Match[str]) -> Span | None:
    return match.span(1) if plausible.is_random(match.group(1)) else None


def _scheme(text: str, match: Match[str]) -> Span | None:
    """A value after a scheme that is not in the table, or after none: only if it looks random."""
    start, end = match.span(1)
    value = text[start:end]
    return (start, end) if plausible.is_random(value) and not plausible.is_code(value) else None


def _user_password(text: str, match: Match[str]) -> Span | None:
    """`curl -u user:password`, not `docker run -u 1000:1000`, `-u node:node`."""
    user, value = match.group(1), match.group(2)
    harmless = plausible.is_stand_in(value) or value.isdigit() or user == value
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
    if option in ("-P", "-k") and (plausible.is_code(value) or not plausible.has_digit(value)):
        return None
    if option == "-p" and not space and len(value) >= 6 and plausible.has_digit(value):
        commands += _ARCHIVERS
    line = text[max(0, match.start() - 200) : match.start()].rpartition("\n")[2].lower() + " "
    for command in commands:
        if command in line:
            return None if plausible.is_stand_in(value) or value.isdigit() else match.span(3)
    return None


def _literal(text: str, match: Match[str]) -> Span | None:
    """The last group, unless it only stands where a password would be."""
    group = match.lastindex or 0
    return None if plausible.is_stand_in(match.group(group)) else match.span(group)


def _echoed(text: str, match: Match[str]) -> Span | None:
    """`echo 'password' | sudo -S`: what stands in quotes before it."""
    end = match.start() - 2
    quote = text[end : end + 1]
    start = text.rfind(quote, max(0, end - 130), end) + 1
    value = text[start:end]
    return (start, end) if start and len(value) >= 3 and not plausible.is_stand_in(value) else None


def _second_argument(text: str, match: Match[str]) -> Span | None:
    value = match.group(1)
    return None if plausible.is_stand_in(value) or plausible.is_sentence(value) else match.span(1)


def _sql(text: str, match: Match[str]) -> Span | None:
    """The password of a user in SQL, not 'a library identified by 'name''."""
    statement = text[max(0, match.start() - 200) : match.start()].lower()
    sure = "user" in statement or "grant" in statement or "role" in statement
    return _literal(text, match) if sure or plausible.has_digit(match.group(1)) else None


def _session_cookie(text: str, match: Match[str]) -> Span | None:
    """The id of a session in a header that carries cookies; elsewhere it is only an id."""
    before = text[max(0, match.start() - 300) : match.start()].lower()
    value = match.group(1)
    return match.span(1) if "cookie" in before and plausible.is_varied(value) and plausible.has_digit(value) else None


def _private_key(text: str, match: Match[str]) -> Span | None:
    """With a body, however short, not the two lines that code looks for."""
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
