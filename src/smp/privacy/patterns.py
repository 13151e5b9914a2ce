"""What does a secret of a known kind look like? One table of rules; those without a literal are in other modules.

A rule is looked at only when one of its triggers occurs in the text, and compiled only then. Its pattern starts with
that literal, so that a search jumps from one to the next, and looks back for a boundary afterwards.
Guarantees: linear on any text. A repeat is bounded, or possessive with nothing after it that could fail; no repeat is
inside another, save for few, short, bounded ones.
Non-guarantees: providers change their formats; a token of a form that is not here is found only by its name
(`assignments`).
"""

from __future__ import annotations

from smp.privacy import plausible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from re import Match, Pattern

    Span = tuple[int, int]
    Check = Callable[[str, Match[str]], Span | None]

LONG_WORD = 20
_A, _W, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"


class Rule:
    """Finds secrets of one kind. `group` is the name by which rules are switched off together."""

    __slots__ = ("_check", "_pattern", "_source", "group", "in_long_word", "kind", "least", "lowered", "triggers")

    def __init__(
        self,
        kind: str,
        triggers: tuple[str, ...],
        source: str,
        check: Check | None = None,
        group: str = "api_key",
        lowered: bool = False,
        in_long_word: bool = False,
        least: int = LONG_WORD,
    ) -> None:
        self.kind = kind
        self.group = group
        self.triggers = triggers
        self.lowered = lowered  # triggers and pattern are for the text in small letters
        self.in_long_word = in_long_word  # what it finds has no space in it
        self.least = least  # and at least so many characters
        self._source = source
        self._check = check
        self._pattern: Pattern[str] | None = None

    @property
    def pattern(self) -> Pattern[str]:
        if self._pattern is None:
            import re  # no start pays for it that meets no trigger

            self._pattern = re.compile(self._source)
        return self._pattern

    def spans(self, text: str, low: str) -> Iterator[tuple[int, int, str]]:
        """Where the secrets are. `low` is the text in small letters, character by character."""
        check, kind = self._check, self.kind
        for match in self.pattern.finditer(low if self.lowered else text):
            span = match.span(match.lastindex or 0) if check is None else check(text, match)
            if span is not None:
                yield span[0], span[1], kind


def starts(prefix: str, before: str = "A-Za-z0-9") -> str:
    """The prefix where no token's character stands before it; the n of a written `\\n` counts as none."""
    import re

    literal = re.escape(prefix)
    return rf"{literal}(?:(?<![{before}]{literal})|(?<=\\[nrt]{literal}))"


class Token(Rule):
    """A token that is known by its first characters."""

    __slots__ = ("_rest",)

    def __init__(self, kind: str, prefixes: tuple[str, ...], rest: str, check: Check = plausible.varied) -> None:
        super().__init__(kind, prefixes, "", check, in_long_word=True)
        self._rest = rest

    @property
    def pattern(self) -> Pattern[str]:
        if self._pattern is None:
            import re

            heads = "|".join(map(starts, self.triggers))
            head = heads if len(self.triggers) == 1 else f"(?:{heads})"
            self._pattern = re.compile(head + self._rest)
        return self._pattern


# -- checks that need the match


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
    [
        "png",
        "jpg",
        "jpeg",
        "gif",
        "svg",
        "webp",
        "ico",
        "tgz",
        "gz",
        "zip",
        "whl",
        "jar",
        "css",
        "js",
        "json",
        "yaml",
        "yml",
        "toml",
        "lock",
    ]
)
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
    masked = value.startswith(("$", "<", "{", "%", "[REDACTED:")) or not value.strip("*x•.")
    return None if masked else (start, end)


def _url_token(text: str, match: Match[str]) -> Span | None:
    return match.span(1) if plausible.is_random(match.group(1)) else None


def _with_32_before(text: str, match: Match[str]) -> Span | None:
    return match.start() - 32, match.end()


def _with_14_before(text: str, match: Match[str]) -> Span | None:
    return match.start() - 14, match.end()


def _command(text: str, match: Match[str]) -> Span | None:
    """`curl -u user:password`, not `docker run -u 1000:1000`."""
    group = match.lastindex or 0
    value = match.group(group)
    return None if plausible.is_stand_in(value) or value.isdigit() else match.span(group)


def _private_key(text: str, match: Match[str]) -> Span | None:
    """With a body, not the two lines that code looks for."""
    import re

    return match.span() if re.search(r"[A-Za-z0-9+/]{16}", match.group()) else None


def _with_4_before(text: str, match: Match[str]) -> Span | None:
    return match.start() - 4, match.end()


_PEM = (
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,65536}+-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[nr]){0,8}+[A-Za-z0-9+/=]{16,100}+){0,1000}+)"
)

PROVIDERS: tuple[Rule, ...] = (
    Token("aws_access_key", ("AKIA", "ASIA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Token("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), f"{_A}{{36,}}+"),
    Token("github_token", ("github_pat_",), "[A-Za-z0-9_]{22,}+"),
    Token("gitlab_token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-"), f"{_W}{{20,}}+"),
    Token("slack_token", ("xox",), r"[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+"),
    Token("slack_token", ("xapp-",), r"\d-[A-Za-z0-9-]{10,}+"),
    Token("slack_webhook", ("hooks.slack.com/",), r"(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}+"),
    Rule("discord_webhook", ("/api/webhooks/",), rf"/api/webhooks/(\d{{17,20}}/{_W}{{50,}}+)", in_long_word=True),
    Rule("discord_token", (".",), rf"[MNO](?:(?<![A-Za-z0-9_.-].)|(?<=\\[nrt].)){_W}{{23,27}}+\.{_W}{{6}}\.{_W}{{27,}}+", in_long_word=True, least=59),
    Token("stripe_key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), r"[A-Za-z0-9+/=]{16,}+"),
    Token("anthropic_key", ("sk-ant-",), f"{_W}{{20,}}+"),
    Token("openrouter_key", ("sk-or-",), f"{_W}{{20,}}+"),
    Token("openai_key", ("sk-",), f"{_W}{{20,}}+", plausible.random_tail),
    Token("google_api_key", ("AIza",), rf"{_W}{{35}}(?!{_W})"),
    Token("google_oauth", ("GOCSPX-", "ya29."), f"{_W}{{20,}}+"),
    Rule("gcp_key_id", ("private_key_id",), rf'private_key_id\\?"\s{{0,4}}:\s{{0,4}}\\?"({_HEX}{{40}})'),
    Rule("azure_key", ("AccountKey=", "AccessKey="), r"(?:Account|Access)Key=([A-Za-z0-9+/]{30,}+={0,2})", in_long_word=True),
    Rule("azure_sas", ("sig=",), r"sig=(?<=[?&]sig=)([A-Za-z0-9%+/]{40,}+={0,2})", in_long_word=True),
    Rule("azure_secret", ("Q~",), r"Q~(?<=[0-9]Q~)[A-Za-z0-9_.~-]{31,34}(?![A-Za-z0-9_~-])", _with_4_before, in_long_word=True),
    Token("npm_token", ("npm_",), f"{_A}{{36,}}+"),
    Token("pypi_token", ("pypi-AgE",), f"{_W}{{40,}}+"),
    Token("hugging_face_token", ("hf_", "api_org_"), f"{_A}{{30,}}+"),
    Token("sendgrid_key", ("SG.",), rf"{_W}{{20,24}}+\.{_W}{{39,50}}+"),
    Token("twilio_key", ("SK",), rf"{_HEX}{{32}}(?![A-Za-z0-9])"),
    Rule("telegram_token", (":AA",), rf":(AA(?<=[0-9]{{8}}:AA){_W}{{32,35}}+)", in_long_word=True),
    Token("docker_token", ("dckr_pat_", "dckr_oat_"), f"{_W}{{20,}}+"),
    Token("digitalocean_token", ("dop_v1_", "doo_v1_", "dor_v1_"), rf"{_HEX}{{64}}"),
    Token("shopify_token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9a-fA-F]{32}"),
    Token("square_token", ("sq0atp-", "sq0csp-", "sq0idp-"), f"{_W}{{22,}}+"),
    Token("facebook_token", ("EAA",), f"{_A}{{60,}}+"),
    Token("mailgun_key", ("key-",), rf"{_HEX}{{32}}(?![A-Za-z0-9])"),
    Rule("mailchimp_key", ("-us",), rf"-us(?<={_HEX}{{32}}-us)[0-9]{{1,2}}(?![A-Za-z0-9])", _with_32_before, in_long_word=True),
    Token("linear_key", ("lin_api_", "lin_oauth_"), f"{_A}{{32,}}+"),
    Token("notion_token", ("ntn_", "secret_"), f"{_A}{{40,}}+"),
    Token("databricks_token", ("dapi",), rf"{_HEX}{{32}}(?:-\d)?(?![A-Za-z0-9])"),
    Token("heroku_key", ("HRKU-",), f"{_W}{{30,}}+"),
    Token("figma_token", ("figd_",), f"{_W}{{38,}}+"),
    Token("atlassian_token", ("ATATT3", "ATBB", "ATCTT3"), r"[A-Za-z0-9_=-]{20,}+"),
    Token("vault_token", ("hvs.", "hvb.", "hvr."), f"{_W}{{24,}}+"),
    Rule("terraform_token", (".atlasv1.",), rf"\.atlasv1\.(?<={_A}{{14}}\.atlasv1\.){_W}{{60,}}+", _with_14_before, in_long_word=True),
    Token("grafana_token", ("glc_", "glsa_"), r"[A-Za-z0-9_+/=]{32,}+"),
    Token("new_relic_key", ("NRAK-", "NRII-", "NRJS-"), f"{_A}{{19,}}+"),
    Token("sentry_token", ("sntrys_", "sntryu_"), r"[A-Za-z0-9_+/=]{40,}+"),
    Token("postman_key", ("PMAK-",), rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    Token("rubygems_key", ("rubygems_",), rf"{_HEX}{{48}}"),
    Token("supabase_key", ("sbp_", "sb_secret_"), f"{_W}{{20,}}+"),
    Token("age_key", ("AGE-SECRET-KEY-1",), "[A-Z0-9]{50,}+"),
    Token("perplexity_key", ("pplx-",), f"{_A}{{40,}}+"),
    Token("groq_key", ("gsk_",), f"{_A}{{40,}}+"),
    Token("replicate_token", ("r8_",), f"{_A}{{37,}}+"),
    Token("xai_key", ("xai-",), f"{_A}{{60,}}+"),
    Token("fly_token", ("fm1_", "fm2_", "fo1_"), r"[A-Za-z0-9_+/=-]{40,}+"),
    Token("planetscale_token", ("pscale_",), r"(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}+"),
    Token("doppler_token", ("dp.pt.", "dp.st.", "dp.ct."), r"[A-Za-z0-9._-]{40,}+"),
    Token("pulumi_token", ("pul-",), rf"{_HEX}{{40}}"),
    Token("tailscale_key", ("tskey-",), r"[a-z]{2,10}-[A-Za-z0-9-]{20,}+"),
    Token("langsmith_key", ("lsv2_",), rf"(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    Token("onepassword_token", ("ops_eyJ",), r"[A-Za-z0-9+/=]{100,}+"),
    Token("netlify_token", ("nfp_",), f"{_A}{{36,}}+"),
    Token("airtable_token", ("pat",), rf"{_A}{{14}}\.{_HEX}{{64}}"),
    Token("circleci_token", ("CCIPAT_", "CCIPRJ_"), f"{_A}{{20,}}+_{_HEX}{{40}}"),
    Token("artifactory_token", ("AKCp",), f"{_A}{{60,}}+"),
    Token("buildkite_token", ("bkua_",), rf"{_HEX}{{40}}"),
    Token("sourcegraph_token", ("sgp_",), r"[A-Za-z0-9_]{40,}+"),
    Token("alibaba_key", ("LTAI",), f"{_A}{{16,24}}(?!{_A})"),
    Token("amazon_mws_token", ("amzn.mws.",), rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"),
    Token("braintree_token", ("access_token$production$", "access_token$sandbox$"), r"[0-9a-z]{16}\$[0-9a-f]{32}"),
)  # fmt: skip

GENERAL: tuple[Rule, ...] = (
    Rule("private_key", ("-----BEGIN",), _PEM, _private_key, "private_key"),
    Rule("private_key", ("Private-Lines:",), r"Private-Lines: \d{1,3}\s{1,2}((?:[A-Za-z0-9+/=]{4,80}+(?!\S)\s{0,2}+){1,400}+)", group="private_key"),
    Rule("jwt", ("eyJ",), rf"eyJ(?:(?<!{_W}eyJ)|(?<=\\[nrt]eyJ)){_W}{{8,}}+\.eyJ{_W}{{8,}}+\.{_W}{{8,}}+", group="jwt", in_long_word=True),
    Rule("url_password", ("://",), r"://(?:[^\s/?#:@\[\]]{0,128}+):([^\s/\"'<>]{1,256})@", _url_password, "url_password"),
    Rule("url_password", ("://",), r"://([A-Za-z0-9_.~%-]{20,256}+)@", _url_token, "url_password"),
    Rule("auth_header", ("bearer",), r"bearer(?<![a-z0-9_]bearer)[ \t]{1,3}([a-z0-9._~+/=-]{16,}+)", _bearer, "auth_header", True),
    Rule("auth_header", ("authorization",), r"authorization[\\\"']{0,2}[ \t]{0,3}[:=][ \t]{0,3}[\\\"']{0,2}(?:bearer|token|apikey|api-key|key|digest|negotiate|aws4-hmac-sha256)[ \t]{1,3}([a-z0-9._~+/=-]{8,}+)", _bearer, "auth_header", True),
    Rule("auth_header", ("basic ",), r"basic (?<![a-z0-9_]basic )([a-z0-9+/]{8,}+={0,2})", _basic, "auth_header", True),
    Rule("command_password", (" -u ", "sshpass -p", " --user "), r"(?: -u | --user )['\"]?[^\s:'\"]{1,64}:([^\s'\"`]{3,128}+)|sshpass -p ?['\"]?([^\s'\"`]{3,128}+)", _command, "password"),
    Rule("email", ("@",), r"(?<![\w.%+-])[\w.%+'-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?![\w-])", _email, "email"),
)  # fmt: skip


def kinds(rules: Iterable[Rule]) -> list[str]:
    """The kinds that some rules find, each once."""
    return list(dict.fromkeys(rule.kind for rule in rules))
