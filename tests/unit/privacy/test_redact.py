"""Redaction on the labelled set, by form, and on hostile text."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.errors import InvalidConfig
from smp_memory.model import ids
from smp_memory.privacy import validators
from smp_memory.privacy.key_value_rules import strength_of
from smp_memory.privacy.redaction import GROUPS, RedactedSpan, Redactor, _lower
from tests.privacy_hostile import GENERATORS, every_rule
from tests.privacy_samples import Positive, fake, negatives, positives, uuid

redactor = Redactor()
POSITIVES, NEGATIVES = positives(), negatives()


def redacted(text: str, **settings: Any) -> str:
    return (Redactor(settings) if settings else redactor).redact(text)[0]


# -- the labelled set


def test_the_set_is_large_and_covers_every_kind() -> None:
    kinds = {kind for group in GROUPS.values() for kind in group}
    assert len(POSITIVES) >= 150
    assert len(NEGATIVES) >= 150
    assert sorted(kinds - {sample.kind for sample in POSITIVES}) == []


def is_redacted(sample: Positive) -> bool:
    """The secret is replaced by its kind, reported, and what remains holds no other."""
    text, removals = redactor.redact(sample.text)
    return (
        sample.secret not in text
        and f"[REDACTED:{sample.kind}]" in text
        and sample.kind in [removal.kind for removal in removals]
        and redactor.redact(text) == (text, [])
    )


def test_labelled_secrets_are_redacted() -> None:
    assert [sample for sample in POSITIVES if not is_redacted(sample)] == []


def test_labelled_harmless_texts_are_kept() -> None:
    assert [text for text in NEGATIVES if redactor.redact(text) != (text, [])] == []


def test_text_around_a_secret_is_kept() -> None:
    assert redacted("mail ada@example.org, please") == "mail [REDACTED:email], please"
    assert redacted('{"password": "hunter2", "n": 1}') == '{"password": "[REDACTED:password]", "n": 1}'
    assert redacted("postgres://u:pa55@db.example.org/x") == "postgres://u:[REDACTED:url_password]@db.example.org/x"


def test_several_secrets_in_one_text_are_redacted() -> None:
    text, removals = redactor.redact(f"ada@example.org uses ghp_{fake('x', 36)} and PASSWORD=swordfish")
    assert text == "[REDACTED:email] uses [REDACTED:github_token] and PASSWORD=[REDACTED:password]"
    assert [removal.kind for removal in removals] == ["email", "github_token", "password"]


def test_more_exact_rule_determines_the_kind() -> None:
    assert redacted(f"api_key = 'ghp_{fake('y', 36)}'") == "api_key = '[REDACTED:github_token]'"


def test_text_that_grows_in_lower_case_keeps_its_positions() -> None:
    assert redacted("İİİ password = hunter2 İ") == "İİİ password = [REDACTED:password] İ"


def test_redacted_span_never_contains_the_secret() -> None:
    _, (removal,) = redactor.redact("password = hunter2")
    assert removal == RedactedSpan("password", 7)
    assert "hunter2" not in repr(removal) + str(removal.to_dict()) + repr(pickle.dumps(removal.to_dict()))


# -- redacting again changes nothing

_WORDS = some.sampled_from(
    ["password", "token", "api_key", "key", "secret", "=", ":", " ", "\n", '"', "'", "`", "\\", "[REDACTED:", "[REDACTED:email]",
     "]", "ada@example.org", "@", "://", "a:b", "ghp_" + fake("z", 36), fake("w", 30), uuid("u"), "hunter2", "-----BEGIN RSA PRIVATE KEY-----",
     "MIIEpAIBAAKCAQEA", "-----END RSA PRIVATE KEY-----", "4111111111111111", "-", "+49 170 5550123", "1", ".", "&", "is", "--", "İ", "eyJ", "Bearer ", "tel "]
)  # fmt: skip


@given(some.lists(_WORDS, max_size=25).map("".join))
def test_redaction_is_idempotent(text: str) -> None:
    once, _ = redactor.redact(text)
    assert redactor.redact(once) == (once, [])


@given(some.text(max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    once, removals = redactor.redact(text)
    assert (once == text) == (not removals)
    assert len(_lower(text)) == len(text)


# -- fields

FIELDS = {"id": "DEC-0001", "decision": "Use PostgreSQL", "tags": ["db"], "state": {"n": [1, 2.5, None, True, "x"]}}


def test_fields_without_a_secret_are_returned_unchanged() -> None:
    data, removals = redactor.redact_fields(FIELDS)
    assert data is FIELDS
    assert removals == []


def test_secrets_at_any_depth_are_redacted_without_changing_the_input() -> None:
    given_data = {"state": {"list": ["ok", {"deep": "mail ada@example.org"}]}, "n": 3}
    data, (removal,) = redactor.redact_fields(given_data)
    assert data == {"state": {"list": ["ok", {"deep": "mail [REDACTED:email]"}]}, "n": 3}
    assert removal == RedactedSpan("email", 15, "state.list[1].deep")
    assert "ada@example.org" in str(given_data)
    assert redactor.redact_fields(data) == (data, [])


def test_name_of_a_field_makes_its_value_a_secret() -> None:
    data, removals = redactor.redact_fields({"state": {"password": "swordfish", "db": {"apiKey": fake("k", 20)}}})
    assert data == {"state": {"password": "[REDACTED:password]", "db": {"apiKey": "[REDACTED:secret]"}}}
    assert [removal.field for removal in removals] == ["state.password", "state.db.apiKey"]
    assert redactor.redact_fields(data) == (data, [])


def test_redacted_keys_stay_distinct() -> None:
    data, _ = redactor.redact_fields({"state": {"ada@example.org": 1, "bob@example.org": 2}})
    assert data == {"state": {"[REDACTED:email]": 1, "[REDACTED:email] 2": 2}}


def test_ids_references_and_idempotency_keys_are_kept() -> None:
    given_data = {
        "id": "ada",
        "idempotency_key": "ada@example.org",
        "references": ["a/b"],
        "created": "2026-01-11T10:30:00Z",
    }
    assert redactor.redact_fields(given_data) == (given_data, [])


def test_redacted_tag_is_a_valid_tag() -> None:
    data, _ = redactor.redact_fields({"tags": ["db", "ghp_" + fake("t", 36), "ghp_" + fake("u", 36)]})
    assert data["tags"] == ["db", "redacted.github_token"]
    assert all(ids.check_tag(tag) for tag in data["tags"])


def test_value_that_is_a_sentence_only_by_a_phone_number_is_redacted_by_its_name() -> None:
    data = {"password": "password-----BEGIN RSA PRIVATE KEY----------BEGIN RSA PRIVATE KEY-----+49 170 5550123"}
    assert redactor.redact_fields(data)[0] == {"password": "[REDACTED:password]"}


@given(
    some.dictionaries(some.sampled_from(["content", "note", "password"]), some.lists(_WORDS, max_size=8).map("".join))
)
def test_redaction_of_fields_is_idempotent(data: dict[str, str]) -> None:
    once, _ = redactor.redact_fields(data)
    again, removals = redactor.redact_fields(once)
    assert again is once
    assert removals == []


# -- settings


def test_redaction_can_be_switched_off() -> None:
    off = Redactor({"enabled": False})
    assert off.redact("ada@example.org") == ("ada@example.org", [])
    data = {"password": "hunter2"}
    assert off.redact_fields(data)[0] is data


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_can_be_switched_off(group: str) -> None:
    without = Redactor({"off": [group]})
    for sample in POSITIVES:
        found = {removal.kind for removal in without.redact(sample.text)[1]}
        assert found.isdisjoint(GROUPS[group])


def test_each_kind_can_be_switched_off_alone() -> None:
    text = f"ghp_{fake('a', 36)} npm_{fake('b', 36)}"
    assert "ghp_" in redacted(text, off=["github_token"])
    assert redacted(text, off=["github_token"]).endswith("[REDACTED:npm_token]")


def test_unknown_rule_is_an_error_that_lists_the_groups() -> None:
    with pytest.raises(InvalidConfig, match=r"'telephone' is not a rule.*phone") as caught:
        Redactor({"off": ["telephone"]})
    assert caught.value.details["key"] == "privacy.redaction.off"


OWN = {"type": "employee", "regex": "EMP-[0-9]{6}"}


def test_custom_patterns_are_applied() -> None:
    assert redacted("EMP-123456 wrote", patterns=[OWN]) == "[REDACTED:employee] wrote"
    assert redacted("nothing here", patterns=[OWN]) == "nothing here"
    assert (
        redacted("Project X", patterns=[{"type": "project", "regex": r"(?i)project\s[a-z]\b"}]) == "[REDACTED:project]"
    )


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("EMP", "is not a pattern"),
        ({"type": "x"}, "is not a pattern"),
        ({"type": "X y", "regex": "a"}, "is not a type"),
        ({"type": "email", "regex": "a"}, "built-in rule"),
        ({"type": "x", "regex": ""}, "1 to 500 characters"),
        ({"type": "x", "regex": "a" * 501}, "1 to 500 characters"),
        ({"type": "x", "regex": "(a"}, "not a regular expression"),
        ({"type": "x", "regex": "a{0,3}"}, "matches the empty text"),
        ({"type": "x", "regex": "(a+)+b"}, "too long"),
        ({"type": "x", "regex": "(a|a)*b"}, "too long"),
        ({"type": "x", "regex": "x[a-z]+y"}, "too long"),
        ({"type": "x", "regex": "(a?){30}a{30}"}, "too long"),
        ({"type": "x", "regex": "[a-z]{1,64}@[a-z]{1,64}x"}, "too long"),
        ({"type": "x", "regex": r"(a{1,9})\1b"}, "too long"),
    ],
)
def test_invalid_custom_patterns_are_rejected(pattern: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        Redactor({"patterns": [pattern]})


def test_possessive_repeat_is_accepted() -> None:
    assert (
        redacted("abc@defx", patterns=[{"type": "x", "regex": "[a-w]{1,64}+@[a-w]{1,64}+x"}], off=["email"])
        == "[REDACTED:x]"
    )


# -- parts


def test_check_digits() -> None:
    assert validators.passes_luhn("4111111111111111")
    assert not validators.passes_luhn("4111111111111112")
    assert validators.passes_mod_97("GB82WEST12345698765432")
    assert not validators.passes_mod_97("GB83WEST12345698765432")


@pytest.mark.parametrize(
    ("name", "strength"),
    [("password", "password"), ("DB_PASSWORD", "password"), ("dbPassword", "password"), ("PGPASSWORD", "password"),
     ("api_key", "secret"), ("x-api-key", "secret"), ("clientSecret", "secret"), ("token", "unknown_secret"), ("key", "unknown_secret"),
     ("primary_key", None), ("password_hash", None), ("max_tokens", None), ("author", None), ("keyboard", None), ("", None)],
)  # fmt: skip
def test_strength_of_names(name: str, strength: str | None) -> None:
    assert strength_of(name) == strength


# -- hostile text


def seconds(rule: Any, text: str) -> float:
    low, best = _lower(text), float("inf")
    for _ in range(2):
        start = time.process_time()
        for _ in rule.spans(text, low):
            pass
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("name", GENERATORS)
def test_redaction_takes_linear_time(name: str) -> None:
    """Four times the text: four times the work; a quadratic rule would take sixteen times. Below 3 ms nobody cares."""
    small, large = GENERATORS[name](20_000), GENERATORS[name](80_000)
    for rule in every_rule():
        few, many = seconds(rule, small), seconds(rule, large)
        if many > 9 * max(few, 0.003):  # the machine may have been busy: once more
            few, many = seconds(rule, small), seconds(rule, large)
        assert many <= 9 * max(few, 0.003), rule.kind


@pytest.mark.parametrize("name", GENERATORS)
def test_redaction_of_hostile_text_is_idempotent(name: str) -> None:
    once, _ = redactor.redact(GENERATORS[name](20_000))
    assert redactor.redact(once) == (once, [])
