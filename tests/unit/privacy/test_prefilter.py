"""The prefilter never excludes a text in which a rule finds something."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.privacy import key_value_rules
from smp_memory.privacy.prefilter import NAMES, NOTHING, classify
from smp_memory.privacy.redaction import Redactor, _lower
from tests.privacy_hostile import GENERATORS
from tests.privacy_samples import hard_negatives, hard_positives, negatives, positives

REDACTOR = Redactor()


def finds(text: str) -> bool:
    return bool(REDACTOR.redact(text)[1])


def test_labelled_secrets_pass_the_prefilter() -> None:
    missed = [sample.text for sample in [*positives(), *hard_positives()] if finds(sample.text)]
    assert missed
    assert [text for text in missed if classify(text) == NOTHING] == []


def test_plain_prose_is_excluded() -> None:
    assert classify("Use PostgreSQL for the primary database because the team knows it well.") == NOTHING
    assert classify("Wir nehmen Größe 5, 日本語 und zwei Zeilen.\nMehr nicht.") == NOTHING
    assert classify("Every request without a token is the customer's, and was (nearly) rejected.") == NOTHING
    assert classify("Version 2 of the well-known import: 20 rows, no token.") == NAMES
    assert classify("Every request without a token: 20 of them.") == NAMES


def test_sentence_with_a_password_is_not_excluded() -> None:
    for text in ("the password is 'swordfish'", "its password was swordf1sh", "Das Passwort lautet pa$$word"):
        assert classify(text) != NOTHING, text
        assert finds(text), text


def test_kelvin_sign_is_not_excluded() -> None:
    beyond = (chr(code) for code in range(0x80, sys.maxunicode + 1))
    assert [letter for letter in beyond if _lower(letter).isascii()] == ["\u212a"]


@pytest.mark.parametrize("name", GENERATORS)
def test_prefilter_agrees_with_rules_on_hostile_text(name: str) -> None:
    text = GENERATORS[name](2000)
    assert classify(text) or not finds(text)


SNIPPETS = st.sampled_from(
    [
        *(sample.text for sample in [*positives(), *hard_positives()]),
        *hard_negatives(),
        *negatives(),
        "Kelvin: \u212aey",
        "the customer's key",
        "its password is",
        "'hunter!'",
        "basic QWxhOmFi",
        "Bearer",
        "swordf1sh",
        "İstanbul",
        "ΑΣ",
        "\u00a0",
        "\u3000",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(SNIPPETS, st.text(max_size=30)), max_size=4), st.sampled_from(["", " ", "\n", "\u2003"]))
def test_no_rule_matches_an_excluded_text(parts: list[str], joint: str) -> None:
    text = joint.join(parts)
    assert classify(text) or not finds(text)
    if classify(text) == NAMES:
        assert finds(text) == bool(list(key_value_rules.spans(text, _lower(text))))


@settings(max_examples=60, deadline=None)
@given(st.lists(SNIPPETS, min_size=1, max_size=3))
def test_fields_are_redacted_like_single_texts(parts: list[str]) -> None:
    data = {"decision": parts[0], "tags": ["a"], "notes": list(parts), "author": "ada@example.org"}
    cleaned, removals = REDACTOR.redact_fields(data)
    assert cleaned["decision"] == REDACTOR.redact(parts[0])[0]
    assert cleaned["notes"] == [REDACTOR.redact(part)[0] for part in parts]
    assert cleaned["author"] == "ada@example.org"
    assert bool(removals) == (cleaned != data)
