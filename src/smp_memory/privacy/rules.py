"""Redaction rules for tokens with a known form and for personal numbers, and the classes `Rule` and `Token`.

A rule is used, and its pattern compiled, only if one of its triggers occurs in the text. The pattern starts with the trigger,
so that a search jumps from one occurrence to the next, and looks back for a boundary afterwards. Personal numbers (payment cards, bank
accounts, telephones, US social security numbers) have no literal to search for, so they are searched only in texts with enough digits.

Guarantees: linear on any text. A repeat is bounded, or possessive with nothing after it that could fail; no repeat is
inside another, except few, short, bounded ones. A card passes Luhn and has a length and first digits that an issuer uses, an IBAN has
its country's length and passes mod 97.
Non-guarantees: providers change their formats; a token of an unlisted form is found only by its name
(`key_value_rules`). A telephone number is recognised only with a plus, in the American form with dashes or brackets, or
after a word such as `phone`. One in ten random numbers that start like a card passes Luhn.
"""

from __future__ import annotations

from smp_memory.privacy import validators
from smp_memory.privacy.validators import DIGITS, passes_luhn, passes_mod_97

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match, Pattern

    Span = tuple[int, int]
    Check = Callable[[str, Match[str]], Span | None]

LONG_WORD = 20
_A, _W, _HEX = "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]"


class Rule:
    """Finds secrets of one kind. Rules of one `group` can be switched off together."""

    __slots__ = (
        "_check", "_pattern", "_source", "by_context", "group", "in_long_word", "kind", "least", "least_run",
        "lowered", "triggers",
    )  # fmt: skip

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
        least_run: int = 0,
        by_context: bool = False,
    ) -> None:
        self.kind = kind
        self.group = group
        self.triggers = triggers
        self.lowered = lowered  # triggers and pattern apply to the text in lower case
        self.in_long_word = in_long_word  # a match contains no space
        self.least = least  # the minimum length of a match
        self.least_run = least_run  # the minimum run of letters and digits in a match
        self.by_context = by_context  # its triggers are next to the long word, not in it
        self._source = source
        self._check = check
        self._pattern: Pattern[str] | None = None

    @property
    def pattern(self) -> Pattern[str]:
        if self._pattern is None:
            import re  # late: most processes see no trigger

            self._pattern = re.compile(self._source)
        return self._pattern

    def spans(self, text: str, low: str) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and kind of secrets. `low` is the text in lower case, of the same length."""
        check, kind = self._check, self.kind
        for match in self.pattern.finditer(low if self.lowered else text):
            span = match.span(match.lastindex or 0) if check is None else check(text, match)
            if span is not None:
                yield span[0], span[1], kind


def starts(prefix: str, before: str = "A-Za-z0-9") -> str:
    """A pattern for the prefix without a token character before it; the n of an escaped `\\n` is not one."""
    import re

    literal = re.escape(prefix)
    return rf"{literal}(?:(?<![{before}]{literal})|(?<=\\[nrt]{literal}))"


class Token(Rule):
    """A token with a fixed prefix."""

    __slots__ = ("_rest",)

    def __init__(self, kind: str, prefixes: tuple[str, ...], rest: str, check: Check = validators.varied) -> None:
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


def _with_before(count: int) -> Check:
    """The match and `count` characters before it."""
    return lambda text, match: (match.start() - count, match.end())


def _devops(text: str, match: Match[str]) -> Span | None:
    """52 characters of base32 are a token only near a telling word; a hash may have the same form."""
    words = text[max(0, match.start() - 200) : match.end() + 100].lower()
    known = any(word in words for word in ("devops", "visualstudio", "vsts", "azure", " pat ", "token"))
    return match.span() if known and validators.is_random(match.group()) else None


def _prefixed(text: str, match: Match[str]) -> Span | None:
    """A short word, a separator and 32 or more random characters: the form that most providers use."""
    if match.group().lower().startswith((*_HASH_PREFIXES, *_KNOWN)):
        return None
    parts = match.group(1).replace("_", "-").split("-")
    if any(len(part) >= 32 and validators.is_hash_or_uuid(part) for part in parts):
        return None
    value = "".join(parts)
    mixed = not value.islower() and not value.isupper()
    return match.span() if len(value) >= (32 if mixed else 40) and validators.is_scrambled(value) else None


_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_HASH_PREFIXES = ("sha", "md5", "h1", "base64", "blake", "crc", "etag")
_EDGE = r"(?:(?<![A-Za-z0-9_/+-])|(?<=\\[nrt]))"  # no token character before it
_PREFIXED = _EDGE + r"[A-Za-z][A-Za-z0-9]{1,9}+[_-]([A-Za-z0-9_-]{32,256}+)(?![A-Za-z0-9+/=_.@:-])"

PROVIDERS: tuple[Rule, ...] = (
    Token("aws_access_key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Token("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), f"{_A}{{36,}}+"),
    Token("github_token", ("github_pat_",), "[A-Za-z0-9_]{22,}+"),
    Token("gitlab_token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-", "glffct-", "glimt-", "glagent-", "gloas-", "glwt-", "GR1348941"), rf"{_W}{{20,}}+(?:\.[0-9a-z]{{2}})?(?:\.[0-9a-z]{{7,12}})?(?!\w)"),
    Token("slack_token", ("xox",), r"[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+"),
    Token("slack_token", ("xapp-",), r"\d-[A-Za-z0-9-]{10,}+"),
    Token("slack_webhook", ("hooks.slack.com/",), r"(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}+"),
    Rule("discord_webhook", ("/api/webhooks/",), rf"/api/webhooks/(\d{{17,20}}/{_W}{{50,}}+)", in_long_word=True),
    Rule("discord_token", (".",), rf"[MNO](?:(?<![A-Za-z0-9_.-].)|(?<=\\[nrt].)){_W}{{23,27}}+\.{_W}{{6}}\.{_W}{{27,}}+", in_long_word=True, least=59),
    Token("stripe_key", ("sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "whsec_"), r"[A-Za-z0-9+/=]{16,}+"),
    Token("anthropic_key", ("sk-ant-",), f"{_W}{{20,}}+"),
    Token("openrouter_key", ("sk-or-",), f"{_W}{{20,}}+"),
    Token("openai_key", ("sk-",), f"{_W}{{20,}}+", validators.random_tail),
    Token("google_api_key", ("AIza",), rf"{_W}{{35}}(?!{_W})"),
    Token("google_oauth", ("GOCSPX-", "ya29."), f"{_W}{{20,}}+"),
    Token("google_oauth", ("1//0",), f"{_W}{{30,}}+", validators.random_tail),
    Rule("gcp_key_id", ("private_key_id",), rf'private_key_id\\?"\s{{0,4}}:\s{{0,4}}\\?"({_HEX}{{40}})'),
    Rule("azure_key", ("AccountKey=", "AccessKey="), r"(?:Account|Access)Key=([A-Za-z0-9+/]{30,}+={0,2})", in_long_word=True),
    Rule("azure_sas", ("sig=",), r"sig=(?<=[?&]sig=)([A-Za-z0-9%+/]{40,}+={0,2})", in_long_word=True),
    Rule("azure_secret", ("Q~",), r"Q~(?<=[0-9]Q~)[A-Za-z0-9_.~-]{31,34}(?![A-Za-z0-9_~-])", _with_before(4), in_long_word=True),
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
    Token("square_token", ("EAAA",), f"{_W}{{60}}(?!{_W})"),
    Token("facebook_token", ("EAA",), f"{_A}{{60,}}+"),
    Token("mailgun_key", ("key-",), rf"{_HEX}{{32}}(?![A-Za-z0-9])"),
    Rule("mailchimp_key", ("-us",), rf"-us(?<={_HEX}{{32}}-us)[0-9]{{1,2}}(?![A-Za-z0-9])", _with_before(32), in_long_word=True),
    Token("linear_key", ("lin_api_", "lin_oauth_"), f"{_A}{{32,}}+"),
    Token("notion_token", ("ntn_", "secret_"), f"{_A}{{40,}}+"),
    Token("databricks_token", ("dapi",), rf"{_HEX}{{32}}(?:-\d)?(?![A-Za-z0-9])"),
    Token("heroku_key", ("HRKU-",), f"{_W}{{30,}}+"),
    Token("figma_token", ("figd_",), f"{_W}{{38,}}+"),
    Token("atlassian_token", ("ATATT3", "ATBB", "ATCTT3"), r"[A-Za-z0-9_=-]{20,}+"),
    Token("vault_token", ("hvs.", "hvb.", "hvr."), f"{_W}{{24,}}+"),
    Token("vault_token", ("s.",), f"{_A}{{24}}(?![A-Za-z0-9_.(-])", validators.random_tail),
    Rule("terraform_token", (".atlasv1.",), rf"\.atlasv1\.(?<={_A}{{14}}\.atlasv1\.){_W}{{60,}}+", _with_before(14), in_long_word=True),
    Token("grafana_token", ("glc_", "glsa_"), r"[A-Za-z0-9_+/=]{32,}+"),
    Token("grafana_token", ("eyJrIjoi",), r"[A-Za-z0-9]{60,}+={0,2}"),
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
    Token("artifactory_token", ("AKCp", "cmVmd"), f"{_A}{{59,}}+"),
    Token("buildkite_token", ("bkua_",), rf"{_HEX}{{40}}"),
    Token("sourcegraph_token", ("sgp_",), r"[A-Za-z0-9_]{40,}+"),
    Token("alibaba_key", ("LTAI",), f"{_A}{{16,24}}(?!{_A})"),
    Token("amazon_mws_token", ("amzn.mws.",), _UUID),
    Token("braintree_token", ("access_token$production$", "access_token$sandbox$"), r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    Token("onepassword_key", ("A3-",), "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?![A-Za-z0-9])"),
    Token("asana_token", ("1/", "2/"), rf"[0-9]{{10,20}}(?:/[0-9]{{10,20}})?:{_HEX}{{32}}(?![A-Za-z0-9])"),
    Token("asana_token", ("0/",), rf"{_HEX}{{32}}(?![A-Za-z0-9])"),
    Token("aws_bedrock_key", ("ABSK",), r"[A-Za-z0-9+/]{100,}+={0,2}"),
    Rule("aws_signature", ("X-Amz-Signature=",), rf"X-Amz-Signature=({_HEX}{{64}})", in_long_word=True),
    Rule("azure_devops_token", ("AZDO",), rf"AZDO(?<={_A}{{80}}){_A}{{4}}(?!{_A})", _with_before(76), in_long_word=True, least=84),
    Rule("azure_devops_token", ("",), _EDGE + r"[a-z2-7]{52}(?![A-Za-z0-9+/=_-])", _devops, in_long_word=True, least=52, least_run=52),
    Rule("azure_key", ("+ASt", "ACDb", "+ABa", "APIM"), r"(?:\+ASt|ACDb|\+ABa|APIM)(?<=[A-Za-z0-9+/]{80})[A-Za-z0-9+/]{6}==", _with_before(76), in_long_word=True, least=88),
    Rule("azure_key", ("AIoT", "+ASb", "+AEh", "+ARm"), r"(?:AIoT|\+ASb|\+AEh|\+ARm)(?<=[A-Za-z0-9+/]{37})[A-Za-z0-9+/]{6}=", _with_before(33), in_long_word=True, least=44),
    Token("dropbox_token", ("sl.",), rf"(?:u\.)?{_W}{{120,}}+"),
    Rule("dropbox_token", ("AAAAAAAAAA",), rf"AAAAAAAAAA(?:(?<=[\s:='\"(][A-Za-z0-9]{{11}}A{{10}})|(?<=^[A-Za-z0-9]{{11}}A{{10}})){_W}{{43}}(?![\w+/=-])", _with_before(11), in_long_word=True, least=64),
    Token("mapbox_token", ("pk.eyJ", "sk.eyJ", "tk.eyJ"), rf"{_W}{{20,}}+\.{_W}{{20,}}+"),
    Rule("maxmind_key", ("_mmk",), rf"_mmk(?<={_A}{{6}}_{_A}{{29}}_mmk)(?![A-Za-z0-9])", _with_before(36), in_long_word=True, least=40),
    Rule("okta_token", ("00",), _EDGE + r"00[A-Za-z0-9_-]{40}(?![A-Za-z0-9_-])", validators.random_tail, in_long_word=True, least=42, least_run=8),
    Token("openshift_token", ("sha256~",), f"{_W}{{43}}"),
    Token("pinecone_key", ("pcsk_",), "[A-Za-z0-9_]{40,}+"),
    Token("plaid_token", ("access-production-", "access-development-", "access-sandbox-"), _UUID),
    Rule("teams_webhook", ("/IncomingWebhook/",), rf"/IncomingWebhook/({_HEX}{{32}}/[0-9a-f-]{{36}})", in_long_word=True),
    Token("twitter_token", ("AAAAAAAAAAAAAAAAAAAAA",), r"[A-Za-z0-9%]{70,110}(?![\w+/=-])"),
    Rule("twitter_token", ("-",), rf"{_EDGE}[0-9]{{15,19}}-{_A}{{40}}(?![\w-])", validators.random_tail, in_long_word=True, least=56, least_run=40),
    Token("yandex_key", ("AQVN",), f"{_W}{{35,38}}(?!{_W})"),
    Token("vendor_token", ("p8e-", "pnu_", "pnb_", "ico-", "EZAK", "EZTK", "4b1d", "CLOJARS_", "rdme_"), f"{_A}{{32,}}+"),
    Token("vendor_token", ("dnkey-", "duffel_test_", "duffel_live_", "fio-u-", "tk-us-", "tfp_"), f"{_W}{{40,}}+"),
    Token("vendor_token", ("tvly-", "jina_", "phx_", "phs_", "napi_", "wandb_v1_", "csk-"), f"{_A}{{32,}}+"),
    Token("vendor_token", ("nvapi-", "dbtc_", "dbtu_", "tgp_v1_", "CFPAT-", "figo_", "figu_", "esecret_"), f"{_W}{{32,}}+"),
    Token("vendor_token", ("waka_", "pat-na1-", "pat-eu1-", "pat-na2-", "sdk-"), _UUID),
    Token("vendor_token", ("sqp_", "squ_", "sqa_"), f"{_HEX}{{40}}(?!{_A})"),
    Token("vendor_token", ("cio", "AKID"), f"{_A}{{32}}(?!{_A})", validators.scrambled_tail),
    Token("vendor_token", ("oy2",), f"[a-z0-9]{{43}}(?!{_A})", validators.scrambled_tail),
    Token("vendor_token", ("ATTA",), "[0-9a-fA-F]{72}(?![A-Za-z0-9])"),
    Token("vendor_token", ("re_",), f"{_A}{{8}}_{_A}{{24}}(?!{_A})", validators.scrambled_tail),
    Token("vendor_token", ("fw_",), f"{_A}{{24}}(?!{_A})", validators.scrambled_tail),
    Token("vendor_token", ("rzp_live_", "rzp_test_"), f"{_A}{{14}}:{_A}{{24}}"),
    Token("vendor_token", ("xkeysib-", "xsmtpsib-"), f"{_HEX}{{64}}-{_A}{{16}}"),
    Token("vendor_token", ("live_", "test_"), f"{_HEX}{{35}}(?!{_A})"),
    Token("vendor_token", ("shippo_live_", "shippo_test_"), "[0-9a-fA-F]{40}"),
    Token("vendor_token", ("s-s4t2ud-", "s-s4t2af-"), f"{_HEX}{{64}}"),
    Token("vendor_token", ("v1.0-",), f"{_HEX}{{24}}-{_HEX}{{140,}}+"),
    Token("vendor_token", ("dt0c01.", "dt0s01."), r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Token("vendor_token", ("pat.", "sat."), rf"{_W}{{22}}\.{_A}{{24}}\.{_A}{{20}}"),
    Token("vendor_token", ("FLWSECK_TEST-", "FLWSECK-"), "[0-9a-h]{12,32}(?:-X)?(?![A-Za-z0-9])"),
    Token("vendor_token", ("API-",), "[A-Z0-9]{25,32}(?![A-Za-z0-9])", validators.random_tail),
    Token("vendor_token", ("AVNS_",), "[A-Za-z0-9_-]{12,}+", validators.random_tail),
    Token("vendor_token", ("sm_pat_", "sm_aat_", "sm_sat_"), f"{_A}{{16}}(?!{_A})", validators.random_tail),
    Rule("unknown_secret", ("_", "-"), _PREFIXED, _prefixed, "unknown_secret", in_long_word=True, least=34, least_run=12),
)  # fmt: skip
_KNOWN = tuple(
    trigger
    for rule in PROVIDERS
    if isinstance(rule, Token)
    for trigger in map(str.lower, rule.triggers)
    if trigger[-1] in "_-"
)


# -- personal numbers

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
_IBAN_LENGTHS = { country: int(length) for country, length in (pair.split(":") for pair in[
    "AD:24", "AE:23", "AL:28", "AT:20", "AZ:28", "BA:20", "BE:16", "BG:22", "BH:22", "BR:29", "BY:28", "CH:21",
    "CR:22", "CY:28", "CZ:24", "DE:22", "DK:18", "DO:28", "EE:20", "EG:29", "ES:24", "FI:18", "FO:18", "FR:27",
    "GB:22", "GE:22", "GI:23", "GL:18", "GR:27", "GT:28", "HR:21", "HU:28", "IE:22", "IL:23", "IQ:23", "IS:26",
    "IT:27", "JO:30", "KW:30", "KZ:20", "LB:28", "LC:32", "LI:21", "LT:20", "LU:20", "LV:21", "LY:25", "MC:27",
    "MD:24", "ME:22", "MK:19", "MR:27", "MT:31", "MU:30", "NL:18", "NO:15", "PK:24", "PL:28", "PS:29", "PT:25",
    "QA:29", "RO:24", "RS:22", "SA:24", "SC:31", "SE:24", "SI:19", "SK:24", "SM:27", "ST:25", "SV:28", "TL:23",
    "TN:24", "TR:26", "UA:29", "VA:22", "VG:24", "XK:20",
])}  # fmt: skip
_SSN = r"[0-8](?<![\w./-].)[0-9]{2}-[0-9]{2}-[0-9]{4}(?![\w-])(?!\.[0-9])"
_PLUS = r"\+(?<![\w+=.)\]].)[1-9][0-9]{0,3}+(?:[ .-]?\(0?[0-9]{0,4}\))?(?:[ .-]?[0-9]{1,12}+){1,7}(?![\w:=*^])"
_AMERICAN = (
    r"(?:\((?<![\w(].)[2-9][0-9]{2}\) ?[0-9]{3}[ .-][0-9]{4}"
    r"|[2-9](?<![\w.+/(-].)[0-9]{2}-[2-9][0-9]{2}-[0-9]{4})(?![\w-])(?!\.[0-9])"
)
_NAMED_PHONE = (
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
    Rule("phone", ("phone", "mobile", "cell", "whatsapp", "telefon", "tel", "fax", "handy", "sms", "call"), _NAMED_PHONE, _phone, "phone", True),
)  # fmt: skip
