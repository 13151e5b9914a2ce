"""Labelled samples for redaction: texts with secrets and harmless texts, generated on demand.

No secret stands in this file: prefixes and the random rest are joined at run time, from a fixed seed, so that every run
sees the same texts and no scanner of a hosting site takes them for real ones.
"""

from __future__ import annotations

import json
import random
from base64 import b64encode
from typing import NamedTuple

LOWER, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
ALNUM = LOWER + LOWER.upper() + DIGITS
WORD = ALNUM + "_-"
HEX = DIGITS + "abcdef"
BASE32 = LOWER.upper() + "234567"
BASE64 = ALNUM + "+/"


class Positive(NamedTuple):
    kind: str  # what should stand in its place
    text: str
    secret: str  # what must not be left


def fake(label: str, length: int, alphabet: str = ALNUM) -> str:
    """Random characters that are the same in every run."""
    rng = random.Random(label)
    return "".join(rng.choice(alphabet) for _ in range(length))


def uuid(label: str) -> str:
    digits = fake(label, 32, HEX)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# kind, first characters, length of the rest, its characters, what follows
_TOKENS: tuple[tuple[str, str, int, str, str], ...] = (
    ("aws_access_key", "AKIA", 16, BASE32, ""),
    ("aws_access_key", "ASIA", 16, BASE32, ""),
    ("github_token", "ghp_", 36, ALNUM, ""),
    ("github_token", "gho_", 36, ALNUM, ""),
    ("github_token", "ghs_", 36, ALNUM, ""),
    ("github_token", "github_pat_", 82, ALNUM + "_", ""),
    ("gitlab_token", "glpat-", 20, WORD, ""),
    ("gitlab_token", "glrt-", 20, WORD, ""),
    ("slack_token", "xoxb-", 12, DIGITS, "-" + fake("xoxb", 24)),
    ("slack_token", "xoxp-", 12, DIGITS, "-" + fake("xoxp", 32, HEX)),
    ("slack_token", "xapp-1-", 40, ALNUM, ""),
    ("slack_webhook", "hooks.slack." + "com/services/T", 10, ALNUM, "/B" + fake("hook", 10) + "/" + fake("hoo", 24)),
        ("discord_token", "M", 25, ALNUM, "." + fake("disc", 6, WORD) + "." + fake("ord", 30, WORD)),
    ("stripe_key", "sk_" + "live_", 24, ALNUM, ""),
    ("stripe_key", "rk_" + "test_", 24, ALNUM, ""),
    ("stripe_key", "wh" + "sec_", 32, ALNUM, ""),
    ("openai_key", "sk-", 48, ALNUM, ""),
    ("openai_key", "sk-" + "proj-", 120, WORD, ""),
    ("anthropic_key", "sk-" + "ant-api03-", 93, WORD, "AA"),
    ("openrouter_key", "sk-" + "or-v1-", 64, HEX, ""),
    ("google_api_key", "AI" + "za", 35, WORD, ""),
    ("google_oauth", "GOC" + "SPX-", 28, WORD, ""),
    ("google_oauth", "ya" + "29.", 100, WORD, ""),
    ("npm_token", "npm_", 36, ALNUM, ""),
    ("pypi_token", "pypi-" + "AgEIcHlwaS5vcmc", 120, WORD, ""),
    ("hugging_face_token", "hf_", 34, ALNUM, ""),
    ("sendgrid_key", "SG.", 22, WORD, "." + fake("sendgrid", 43, WORD)),
    ("twilio_key", "SK", 32, HEX, ""),
    ("docker_token", "dckr_" + "pat_", 27, WORD, ""),
    ("digitalocean_token", "dop_" + "v1_", 64, HEX, ""),
    ("shopify_token", "shp" + "at_", 32, HEX, ""),
    ("square_token", "sq0" + "atp-", 22, WORD, ""),
    ("facebook_token", "EAA", 120, ALNUM, ""),
    ("mailgun_key", "key-", 32, HEX, ""),
    ("mailchimp_key", "", 32, HEX, "-us14"),
    ("linear_key", "lin_" + "api_", 40, ALNUM, ""),
    ("notion_token", "ntn_", 46, ALNUM, ""),
    ("databricks_token", "dapi", 32, HEX, ""),
    ("heroku_key", "HRKU-", 58, WORD, ""),
    ("figma_token", "figd_", 40, WORD, ""),
    ("atlassian_token", "ATA" + "TT3xFfGF0", 170, WORD, ""),
    ("vault_token", "hvs.", 90, WORD, ""),
    ("terraform_token", "", 14, ALNUM, ".atlasv1." + fake("terraform", 67, WORD)),
    ("grafana_token", "glsa_", 32, ALNUM, "_" + fake("grafana", 8, HEX)),
    ("new_relic_key", "NRAK-", 27, BASE32, ""),
    ("sentry_token", "sntrys_", 120, BASE64, ""),
    ("postman_key", "PMAK-", 24, HEX, "-" + fake("postman", 34, HEX)),
    ("rubygems_key", "rubygems_", 48, HEX, ""),
    ("supabase_key", "sbp_", 40, HEX, ""),
    ("age_key", "AGE-" + "SECRET-KEY-1", 58, BASE32, ""),
    ("perplexity_key", "pplx-", 48, ALNUM, ""),
    ("groq_key", "gsk_", 52, ALNUM, ""),
    ("replicate_token", "r8_", 37, ALNUM, ""),
    ("xai_key", "xai-", 80, ALNUM, ""),
    ("fly_token", "fm2_", 120, BASE64, ""),
    ("planetscale_token", "pscale_" + "tkn_", 43, WORD, ""),
    ("doppler_token", "dp.pt.", 43, ALNUM, ""),
    ("pulumi_token", "pul-", 40, HEX, ""),
    ("tailscale_key", "tskey-" + "auth-", 30, ALNUM, ""),
    ("langsmith_key", "lsv2_" + "pt_", 32, HEX, "_" + fake("langsmith", 10, HEX)),
    ("onepassword_token", "ops_" + "eyJ", 250, BASE64, ""),
    ("netlify_token", "nfp_", 36, ALNUM, ""),
    ("airtable_token", "pat", 14, ALNUM, "." + fake("airtable", 64, HEX)),
    ("circleci_token", "CCIPAT_", 22, ALNUM, "_" + fake("circle", 40, HEX)),
    ("artifactory_token", "AKCp", 69, ALNUM, ""),
    ("buildkite_token", "bkua_", 40, HEX, ""),
    ("sourcegraph_token", "sgp_", 40, HEX, ""),
    ("alibaba_key", "LTAI", 20, ALNUM, ""),
    ("amazon_mws_token", "amzn.mws." + uuid("mws"), 0, HEX, ""),
    ("onepassword_key", "A3-", 6, BASE32, "-" + "-".join(fake(f"one{at}", size, BASE32) for at, size in enumerate((6, 5, 5, 5, 5)))),
    ("asana_token", "1/" + fake("asana id", 16, DIGITS) + ":", 32, HEX, ""),
    ("asana_token", "0/", 32, HEX, ""),
    ("aws_bedrock_key", "AB" + "SK", 109, BASE64, "="),
    ("azure_devops_token", "", 76, ALNUM, "AZ" + "DO" + fake("azdo", 4)),
    ("dropbox_token", "sl.", 135, WORD, ""),
    ("mapbox_token", "sk.ey" + "J", 57, ALNUM, "." + fake("mapbox", 22)),
    ("maxmind_key", "", 6, ALNUM, "_" + fake("maxmind", 29) + "_mmk"),
    ("okta_token", "00", 40, ALNUM, ""),
    ("openshift_token", "sha256~", 43, WORD, ""),
    ("pinecone_key", "pcsk_", 6, ALNUM, "_" + fake("pinecone", 63)),
    ("plaid_token", "access-" + "production-" + uuid("plaid"), 0, HEX, ""),
    ("twitter_token", "A" * 22, 80, ALNUM, ""),
    ("twitter_token", fake("twitter id", 19, DIGITS) + "-", 40, ALNUM, ""),
    ("yandex_key", "AQ" + "VN", 35, WORD, ""),
    ("vendor_token", "EZ" + "AK", 54, ALNUM, ""),
    ("braintree_token", "access_token$" + "production$", 16, LOWER + DIGITS, "$" + fake("brain", 32, HEX)),
)  # fmt: skip

_AROUND = (
    "I pasted {} into the chat by mistake.",
    "export SERVICE_TOKEN={}",
    '{{"credentials": {{"value": "{}"}}}}',
    "2026-01-11T10:30:00Z WARN client sent header x-key '{}' (status 401)",
    "curl -H 'X-Key: {}' https://api.example.org/v1/items",
    "first line\\n{}\\nlast line",
    "- {}",
)


def _tokens() -> list[Positive]:
    found = []
    for number, (kind, first, length, alphabet, last) in enumerate(_TOKENS):
        for turn in range(2):
            token = first + fake(f"{kind}{number}{turn}", length, alphabet).strip("-_") + last
            token += "7" * (len(first) + length + len(last) - len(token))
            found.append(Positive(kind, _AROUND[(number + 3 * turn) % len(_AROUND)].format(token), token))
    return found


def _jwt(label: str) -> str:
    parts = (
        b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "HS256"}, {"sub": label * 3})
    )
    return ".".join((*parts, fake(label, 43, WORD)))


def _pem(title: str, lines: int = 12) -> tuple[str, str]:
    body = "\n".join(fake(f"{title}{line}", 64, BASE64) for line in range(lines))
    dashes = "-" * 5
    return f"{dashes}BEGIN {title}{dashes}\n{body}\n{dashes}END {title}{dashes}", body


def _keys() -> list[Positive]:
    found = []
    for title in ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):  # fmt: skip
        whole, body = _pem(title)
        found.append(Positive("private_key", f"The key was\n{whole}\nand it must be replaced.", body[:64]))
    whole, body = _pem("PRIVATE KEY")
    found.append(Positive("private_key", json.dumps({"type": "service_account", "private_key": whole}), body[65:129]))
    found.append(Positive("private_key", "cut off:\n" + whole[:400], body[70:120]))
    found.append(
        Positive("private_key", f"Private-Lines: 2\n{body[:64]}\n{body[65:129]}\nPrivate-MAC: 1f", body[65:129])
    )
    return found


def _by_name() -> list[Positive]:
    word, key = "Tr0ub4dor&" + "3x", fake("api key", 40)
    hex_key, base64_key = fake("hex", 32, HEX), fake("b64", 40, BASE64)
    login = b64encode(f"ada:{word}".encode()).decode()
    rows = [
        ("password", "password = {}", word),
        ("password", "PASSWORD: {}", word),
        ("password", "password: {}", "sword" + "fish"),
        ("password", "DB_PASSWORD={}", "correct" + "horse"),
        ("password", "export PGPASSWORD={}\nmake test", "pg" + "pa55word"),
        ("password", '{{"user": "ada", "password": "{}"}}', word),
        ("password", '{{\\"user\\": \\"ada\\", \\"password\\": \\"{}\\"}}', word),
        ("password", "my password is {}.", word),
        ("password", "the new password was {} until Tuesday", "winter" + "2026"),
        ("password", "db.connect(user='ada', password='{}')", "hunter" + "two"),
        ("password", "config['password'] = '{}'", word),
        ("password", "settings.smtpPassword = \"{}\"", "mail" + "-me-42"),
        ("password", "mysql --user root --password {}", word),
        ("password", "login --password={} --verbose", word),
        ("password", "Server=db;Database=shop;User Id=sa;Password={};Encrypt=true", "Sa!" + "2026pass"),
        ("password", "**Password:** {}", "Blue" + "Sky99"),
        ("password", "passwd: '{}'", "correct horse battery " + "staple"),
        ("password", "passphrase = \"{}\"", "nine purple cows " + "singing"),
        ("password", "spring.datasource.password={}", "s3cr" + "3t-db"),
        ("password", "https://example.org/login?user=ada&password={}&next=home", "p4ss" + "w0rd!"),
        ("password", "Passwort: {}", "Sommer" + "2025!"),
        ("password", "ADMIN_PWD: {}", "adm1n" + "Pwd"),
        ("secret", "api_key = {}", key),
        ("secret", "apiKey: '{}'", key),
        ("secret", "X-Api-Key: {}", hex_key),
        ("secret", "client_secret={}&grant_type=code", key),
        ("secret", '"accessToken": "{}"', key),
        ("secret", "SECRET_KEY = '{}'", "django-" + fake("django", 44)),
        ("secret", "HEROKU_API_KEY={}", uuid("heroku")),
        ("secret", "refresh_token: {}", key),
        ("secret", "our API key is {}", key),
        ("secret", "--api-key {} --region eu", key),
        ("secret", "webhook_secret => '{}'", hex_key),
        ("secret", "TWILIO_AUTH_TOKEN={}", hex_key),
        ("datadog_key", "DD_API_KEY={}", hex_key),
        ("datadog_key", "datadog_app_key: {}", fake("dd", 40, HEX)),
        ("aws_secret_key", "aws_secret_access_key = {}", base64_key),
        ("aws_secret_key", "AWS_SECRET_ACCESS_KEY={}", fake("aws2", 40, BASE64)),
        ("aws_secret_key", '"awsSecretKey": "{}"', fake("aws3", 40, BASE64)),
        ("unknown_secret", "token = '{}'", fake("unknown", 32)),
        ("unknown_secret", "MASTERKEY_KEY={}", fake("unknown2", 44, BASE64)),
        ("unknown_secret", "auth: {}", fake("unknown3", 28)),
        ("unknown_secret", "credential={}", fake("unknown4", 36, WORD)),
        ("unknown_secret", "?token={}&page=2", fake("unknown5", 40)),
        ("unknown_secret", '"key": "{}"', fake("unknown6", 30)),
        ("auth_header", "Authorization: Bearer {}", fake("bearer", 40)),
        ("auth_header", "-H 'authorization: bearer {}'", fake("bearer2", 32, HEX)),
        ("auth_header", "Authorization: Basic {}", login),
        ("auth_header", "it sends Basic {} every time", b64encode(b"svc:" + b"pa55word").decode()),
        ("auth_header", "Authorization: Token {}", fake("rest", 40, HEX)),
        ("auth_header", '{{"Authorization": "Bearer {}"}}', fake("bearer3", 64, WORD + ".")),
        ("password_hash", "ada:{}:19801:0:99999:7:::", "$6$" + fake("salt", 8) + "$" + fake("crypt", 86)),
        ("command_password", "curl -u ada:{} https://example.org", word),
        ("command_password", "sshpass -p '{}' ssh host", "ssh" + "-pass-1"),
        ("url_password", "postgres://shop:{}@db.internal:5432/shop", "pg" + "Pass1"),
        ("url_password", "postgresql+psycopg://ada:{}@localhost/db", "s3cr" + "et"),
        ("url_password", "mongodb+srv://root:{}@cluster0.example.net/?retryWrites=true", "m0ng" + "o"),
        ("url_password", "redis://:{}@cache:6379/0", "r3d" + "is"),
        ("url_password", "amqp://guest:{}@rabbit:5672", "gu3" + "st"),
        ("url_password", "git clone https://ada:{}@git.example.org/shop.git", "g1t" + "pass"),
        ("url_password", "https://{}@git.example.org/shop.git", fake("url", 40)),
        ("url_password", "mysql://root:{}@127.0.0.1/shop", "p@ss" + "word"),
        ("azure_key", "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={}", fake("azure", 86, BASE64) + "=="),
        ("azure_key", "Endpoint=sb://x.example.net/;SharedAccessKeyName=root;SharedAccessKey={}", fake("bus", 43, BASE64) + "="),
        ("azure_sas", "https://x.example.net/c?sv=2024-01-01&sig={}&se=2026", fake("sas", 43) + "%3D"),
        ("azure_secret", "the app uses {} to log in", "abC8" + "Q~" + fake("aad", 34)),
        ("discord_webhook", "post to https://discord.com/api/web" + "hooks/{}", fake("hookid", 18, DIGITS) + "/" + fake("webhook", 68, WORD)),
        ("telegram_token", "the bot's token 123456789:{} leaked", "AA" + fake("telegram", 33, WORD[:-2])),
        ("aws_signature", "https://x.example.net/c?X-Amz-Expires=60&X-Amz-Signature={}", fake("amz", 64, HEX)),
        ("teams_webhook", "https://x.example.net/webhookb2/x/Incoming" + "Webhook/{}", fake("teams", 32, HEX) + "/" + uuid("teams")),
        ("call_password", 'requests.get(url, auth=("ada", "{}"))', word),
        ("session_cookie", "Cookie: theme=dark; sessionid={}", fake("cookie", 32)),
        ("password", "the password for staging is {}", word),
        ("password", "<password>{}</password>", word),
        ("password", "DB_PASS={}", word),
        ("command_password", "mysql -u root -p{} shop", word),
        ("unknown_secret", "use the token {} for CI", fake("said", 40)),
        ("gcp_key_id", '{{"type": "service_account", "private_key_id": "{}"}}', fake("gcp", 40, HEX)),
    ]  # fmt: skip
    return [Positive(kind, form.format(secret), secret) for kind, form, secret in rows]


def _card(first: str, length: int) -> str:
    """A number with the right check digit."""
    body = first + fake("card" + first, length - len(first) - 1, DIGITS)
    total = 0
    for place, digit in enumerate(reversed(body)):
        number = int(digit) * (2 - place % 2)
        total += number - 9 if number > 9 else number
    return body + str(-total % 10)


def _iban(country: str, account: str) -> str:
    turned = "".join(str(int(character, 36)) for character in account + country + "00")
    return f"{country}{98 - int(turned) % 97:02d}{account}"


def _in_fours(text: str, joint: str = " ") -> str:
    return joint.join(text[at : at + 4] for at in range(0, len(text), 4))


def _personal() -> list[Positive]:
    emails = [
        "ada@example.org", "ada.lovelace@mail.example.com", "a+tag@example.co.uk", "ops_team@sub.example.io",
        "o'brien@example.ie", "müller@example.de", "x@example.museum", "first-last@my-host.example.net", "ADA@EXAMPLE.ORG",
    ]  # fmt: skip
    forms = ["Write to {} today.", "Author: Ada <{}>", '{{"to": ["{}"]}}', "mailto:{}?subject=hi", "({})", "{}"]
    found = [Positive("email", forms[at % len(forms)].format(each), each) for at, each in enumerate(emails)]
    cards = [_card("4", 16), _in_fours(_card("51", 16)), _in_fours(_card("4000", 16), "-"), _card("34", 15), _card("6011", 16), _card("36", 14), _card("3530", 16), _card("2221", 16)]  # fmt: skip
    amex = _card("37", 15)
    cards.append(f"{amex[:4]} {amex[4:10]} {amex[10:]}")
    found += [Positive("credit_card", f"She paid with {each}, it was declined.", each) for each in cards]
    ibans = [
        _iban("DE", fake("de", 18, DIGITS)), _in_fours(_iban("DE", fake("de2", 18, DIGITS))),
        _in_fours(_iban("GB", "NWBK" + fake("gb", 14, DIGITS))), _iban("FR", fake("fr", 23, DIGITS)),
        _iban("NL", "ABNA" + fake("nl", 10, DIGITS)), _iban("NO", fake("no", 11, DIGITS)), _iban("CH", fake("ch", 17, DIGITS)),
    ]  # fmt: skip
    found += [Positive("iban", f"Send it to {each} by Friday", each) for each in ibans]
    phones = [
        ("Ring {} after nine.", "+49 170 5550123"), ("tel: {}", "+1-202-555-0143"), ("{} is her number", "+44 20 7946 0958"),
        ("number {}", "+33 1 99 00 12 34"), ("reach me under {}", "(202) 555-0143"), ("office or {}", "202-555-0143"),
        ("phone: {}", "0170 5550123"), ("Tel. {}", "030/5550 1234"), ("call me at {}", "555 0143 22"), ("WhatsApp {}", "+919900012345"),
        ('"phone": "{}"', "2025550143"),
    ]  # fmt: skip
    found += [Positive("phone", form.format(each), each) for form, each in phones]
    found += [
        Positive("ssn", f"his SSN {each} was in the log", each) for each in ("219-09-" + "9999", "123-45-" + "6780")
    ]
    found += [Positive("jwt", form.format(each), each) for form, each in [("session {}", _jwt("one")), ("cookie: sid={}; path=/", _jwt("two")), ("{}", _jwt("three"))]]  # fmt: skip
    return found


def positives() -> list[Positive]:
    return [*_tokens(), *_keys(), *_by_name(), *_personal()]


def hard_positives() -> list[Positive]:
    """Secrets that a person sees and that need not be found; they count in the figures all the same."""
    rows = [
        ("password", "the password, as always, is {}", "sword" + "fish"),
        ("password", "log in as ada / {}", "hunter" + "2"),
        ("password", "user ada pass {}", "hunter" + "22"),
        ("password", "{} is the password for staging", "Blue" + "Sky99"),
        ("password", "pw: {}", "Blue" + "Sky98"),
        ("password", "mysql -uroot -p{} shop", "Ro0t" + "pw!"),
        ("password", "my password is {}", "correct" + "horse"),
        ("password", "| password | {} |", "Tab1e" + "pw"),
        ("password", "clave: {}", "Verano" + "2025"),
        ("secret", "<apiKey>{}</apiKey>", fake("xml", 32)),
        ("secret", "Twilio: {}", fake("bare", 32, HEX)),
        ("unknown_secret", "use {} to sign requests", fake("bare2", 44, BASE64)),
        ("unknown_secret", "session cookie sid={}", fake("cookie", 40)),
        ("email", "write to {}", "ada at example dot org"),
        ("phone", "ring {} tonight", "0170 5550123"),
        ("phone", "{} (office)", "020 7946 0958"),
        ("credit_card", "card ending differently: {}", _in_fours(_card("4", 16), ".")),
        ("iban", "konto {}", _iban("DE", fake("low", 18, DIGITS)).lower()),
        ("jwt", "broken over lines: {}", _jwt("four")[:30] + "\n" + _jwt("four")[30:]),
        ("private_key", "hex of it: {}", fake("raw", 64, HEX)),
    ]
    return [Positive(kind, form.format(secret), secret) for kind, form, secret in rows]


def hard_negatives() -> list[str]:
    """Texts without a secret that look so much like one that they may be redacted."""
    return [
        f"order number {_card('4', 16)} was shipped",
        "part 219-09-" + "1234 is out of stock",
        '{"password": "Kennwort", "user": "Benutzer"}',
        "password: Argon2-Parameter",
        "the password is base-64-encoded",
        "row 202-555-0143 of the matrix",
        "a diff of +1234567890 lines",
        f"api_key = {uuid('fingerprint')} (only its fingerprint)",
        "config: password=min8chars",
        "postgres://postgres:postgres@localhost/test",
        "matrix A@B.shape",
        f"key: {fake('cache', 32)} (cache)",
    ]


def negatives() -> list[str]:
    """Texts in which nothing is to be replaced."""
    sha1, sha256, md5 = fake("sha1", 40, HEX), fake("sha256", 64, HEX), fake("md5", 32, HEX)
    image = fake("image", 400, BASE64)
    made = [
        f"commit {sha1}", f"Merge {sha1[:7]} into main", f"Fixed in {sha1[:12]} and {sha1[:8]}.", f"sha256:{sha256}",
        f"image: registry.example.org/shop@sha256:{sha256}", f"checksum sha256:{sha256[:16]}", f"md5 {md5}  file.tar.gz",
        f'"checksum":"sha256:{sha256[:16]}"', f"integrity sha512-{fake('integrity', 86, BASE64)}==", f"etag: \"{md5}\"",
        f"request id {uuid('one')} failed", f"trace_id={uuid('two')}", f"UUID('{uuid('three')}')", f"key: {uuid('four')}",
        f"cache_key = '{sha256}'", f"token: {uuid('five')}", f"key={sha1}", f"partition_key: {fake('part', 24)}",
        f"idempotency_key = {fake('idem', 30)}", f"primary_key={fake('pk', 24)}", f"public_key: {fake('public', 44, BASE64)}",
        f"data:image/png;base64,{image}", f"![logo](data:image/png;base64,iVBORw0KGgo{image})", f"<img src='data:image/gif;base64,R0lGOD{image}'>",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{fake('ssh', 40)} host", "-----BEGIN CERTIFICATE-----\n" + image[:64] + "\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\n" + image[:64] + "\n-----END PUBLIC KEY-----",
        f"/build/{sha1}/out.js", f"https://cdn.example.org/assets/app.{sha1[:20]}.js", f"git show {sha1}:src/key.py",
        f"session-2026-01-11-{fake('session', 6, HEX)}", f"blob {sha1} 100644 src/token.py", f"docker run shop:{sha1[:12]}",
        f"nix-store /nix/store/{fake('nix', 32, LOWER + DIGITS)}-hello-2.12", f"go.sum h1:{fake('gosum', 43, BASE64)}=",
        f"Content-MD5: {fake('cmd5', 22, BASE64)}==", f"the hash {md5} is the same", f"author: ada, reviewed {sha1[:10]}",
    ]  # fmt: skip
    return [*made, *_WRITTEN.strip().splitlines()]


_WRITTEN = """
DEC-0001 supersedes DEC-0007, see TURN-0042 and FIND-0003
STATE-architect was changed in revision 3
session checkout-review/DEC-0001 led_to FIND-0012
Upgrade from 1.2.3 to 1.10.0-rc.1+build.20260111
Python 3.11.7, pip 24.0, setuptools 68.2.2
version 10.15.7.1204 of the driver
The port is 5432, not 54321; the proxy listens on 127.0.0.1:8080
Listening on 0.0.0.0:65535 and [::1]:8443
10.0.0.1 - - [11/Jan/2026:10:30:00 +0000] "GET /api/v1/users HTTP/1.1" 200 1234
2026-01-11T10:30:00.123456Z INFO started in 1234567 us
2026-01-11 10:30:00,123 DEBUG pid=12345 tid=140735123456789 mem=1073741824
created 1768127400 updated 1768127400123 seq 1768127400123456
timestamps 1768127400000000000 and 1768127401000000000 in nanoseconds
order number 1234567890123456 was shipped
tracking 1Z999AA10123456784 arrived
ISBN 978-3-16-148410-0 is a book
EAN 4006381333931 on the box
pi is 3.14159265358979323846264338327950288
2^64 = 18446744073709551616 and 10! = 3628800
x = 1234567890 + 9876543210 - 5555555555
the sum 200 300 4000 is wrong
memory: 4294967296 bytes, 1,234,567,890 rows
row 555-1234 of sheet 12
size 1920x1080, crop 100-200-3000
phone-like build 2026.01.11-1030
dates 2026-01-11, 11.01.2026, 01/11/2026 and 20260111
between 2025-12-31 and 2026-01-31 at 10:30-11:45
range 100-200, 300-400, 1000-2000
latitude 52.520008, longitude 13.404954
coordinates +52.520008 +13.404954
diff: +20260111 -20260110
@@ -1,6 +12,34 @@ def main():
+1 for this idea, +100 from me
C++11, C++17 and C++20 are supported
UTC+02:00 and GMT-0500
a + 1234567890 * b
the key decision was made on Tuesday
The key: keep it simple
Key findings: the login has no rate limit
key = value pairs are separated by commas
foreign_key = orders.customer_id
keyboard: qwerty, keywords: auth, login
sort_key: created_at
key: "checkout.button.label"
for key in dictionary: print(key)
ssh-keygen -t ed25519 -C shop
press any key to continue: yes
Passwords are logged in plain text
The password must be at least 12 characters long
password: must be at least 8 characters
password is required
Password: required, Username: optional
The password is stored as a bcrypt hash
password: str = Field(min_length=8)
password: Optional[str] = None
def login(user: str, password: str) -> Token:
interface Login { user: string; password: string; token?: string }
password = os.environ["DB_PASSWORD"]
password = getpass.getpass("Password: ")
password = config.database.password
password=password, user=user
connect(host, user, password=pw)
const password = req.body.password;
PASSWORD=${DB_PASSWORD}
PASSWORD=$1
password: "{{ vault_db_password }}"
password: <your password>
password: ********
password = "changeme"
password = ""
password: null
"password": "string"
passwords: bcrypt, cost 12
if password == confirm_password:
reset your password: click the link
password reset, password change and password policy
password hashing uses argon2id
<input type="password" name="password">
the secret of a good API is patience
secret_name: shop-database-credentials
secrets: inherit
secret: shop-tls
secretRef: name-of-the-secret
kubectl get secret shop-db -o yaml
client_secret = settings.client_secret
api_key = load_key("service")
api_key: ${API_KEY}
api_key=YOUR_API_KEY_HERE
API_KEY=your-api-key
"apiKey": "<insert key>"
api key: see the vault
token budget: 4096 tokens
max_tokens: 128000, token_count=512
tokens = tokenizer.encode(text)
token = next(stream)
token: str
next_page_token: checkout-review-part-two-of-three
the token is expired
token_type: bearer, expires_in: 3600
Bearer authentication is used by all services
Bearer token required
basic understanding of networks
Basic authentication-middleware
Authorization: Bearer <token>
Authorization: Bearer ${TOKEN}
author: ada, authority: board
authentication: OAuth2 with PKCE
auth: enabled
auth.login.token refresh is broken
credentials: include
credential_helper = cache
task-management-configuration-for-teams-v2
risk-assessment-2026-q1-final-version-3
disk-usage-monitoring-service-v2-prod
sk-learn and task-runner
asset sk-button-primary-large-rounded-corner
pk_live_ keys are public
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
AKIAXXXXXXXXXXXXXXXX
tokens start with ghp_ or github_pat_
npm_config_registry=https://registry.npmjs.org
npm_lifecycle_event=postinstall and npm_package_version=1.0.0
hf_hub_download(repo_id="org/model")
@property and @app.route("/login")
@pytest.mark.parametrize("name", NAMES)
git@github.com:acme/shop.git
git clone ssh://git@example.org/shop.git
lodash@4.17.21 and react@18.2.0
https://registry.npmjs.org/lodash/-/lodash@4.17.21.tgz
icon@2x.png and icon@3x.png
a @ b and W@x.mean(axis=0)
user@localhost
mention @ada and @team/backend
rsync -a build/ deploy@host:/srv/shop
https://example.org:8443/path?x=1#top
http://localhost:3000/@vite/client
https://medium.example.org/@ada/how-we-did-it
postgres://localhost:5432/shop
postgres://user:${PASSWORD}@host/db
postgres://user:<password>@host/db
redis://cache:6379/0
jdbc:postgresql://db:5432/shop
see https://example.org/a:b and mail@
docker run -u 1000:1000 shop
eyJ is how a JWT starts
base64 of {"a":1} is eyJhIjoxfQ==
SGVsbG8sIHdvcmxkISBUaGlzIGlzIGp1c3QgYSBncmVldGluZy4=
Lorem ipsum dolor sit amet, consectetur adipiscing elit
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
com.example.shop.checkout.PaymentServiceImplementationFactoryBean
src/components/checkout/PaymentMethodSelector.test.tsx:142:17
/usr/lib/python3.11/site-packages/pip/_internal/cli/base_command.py
Traceback (most recent call last): File "src/app.py", line 42, in <module>
ValueError: invalid literal for int() with base 10: '12a'
0x7ffee4b2c9d8 <main+42> 0xdeadbeefcafebabe
MAC 00:1B:44:11:3A:B7, IPv6 2001:0db8:85a3:0000:0000:8a2e:0370:7334
#ff8800 and rgba(255, 136, 0, 0.5)
\\d{3}-\\d{2}-\\d{4} is the pattern of an SSN
000-12-3456 and 666-12-3456 cannot be SSNs
part 12-345-6789 and 1234-56-7890
4111 1111 1111 1112 fails the check
1234 5678 9012 3456 is not a card
4242-4242 is half of one
DE00 3704 0044 0532 0130 00 has wrong check digits
GB29 is the start of an account
AB12 CDEF GHIJ KLMN OPQR is a product key's form
CASE ID ES91 in room B12
[REDACTED:email] wrote to [REDACTED:phone]
password = [REDACTED:password]
the rule [REDACTED:password] = was replaced
tel aviv 2026-01-11 10:30
call 12 times, fax 3 pages
call stack depth 1000000
cellular automaton 110 and rule 30
telemetry: 1234567 events
"""
