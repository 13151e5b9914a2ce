"""Recall and false positives of redaction on the labelled set in tests/redaction_set."""

from __future__ import annotations

import pytest

from smp_memory.privacy import key_value_rules
from smp_memory.privacy.prefilter import NAMES, classify
from smp_memory.privacy.redaction import Redactor, _lower
from tests.redaction_set import Sample, harmless, secrets

PARTS = ["first", "held_back", "last", "second"]
LEAST_RECALL, MOST_FALSE = 0.95, 0.01
REDACTOR = Redactor()


def listed(samples: list[Sample]) -> str:
    return "\n".join(f"{sample.place}: {sample.text}" for sample in samples)


def test_set_is_large_and_has_many_surroundings() -> None:
    found = [sample for part in PARTS for sample in secrets(part)]
    forms = {(sample.kind, sample.text.replace(sample.secret, "")) for sample in found}
    assert len(found) >= 250
    assert len([sample for part in PARTS for sample in harmless(part)]) >= 250
    assert len(forms) >= 250
    assert all(sample.secret for sample in found)


def test_recall_is_at_least_95_percent() -> None:
    samples = [sample for part in PARTS for sample in secrets(part)]
    missed = [sample for sample in samples if sample.is_left_in(REDACTOR.redact(sample.text)[0])]
    assert len(missed) <= (1 - LEAST_RECALL) * len(samples), listed(missed)


def test_false_positives_are_at_most_1_percent() -> None:
    samples = [sample for part in PARTS for sample in harmless(part)]
    wrong = [sample for sample in samples if REDACTOR.redact(sample.text)[1]]
    assert len(wrong) <= MOST_FALSE * len(samples), listed(wrong)


@pytest.mark.parametrize("part", PARTS)
def test_redacting_a_sample_again_changes_nothing(part: str) -> None:
    for sample in (*secrets(part), *harmless(part)):
        once, _ = REDACTOR.redact(sample.text)
        assert REDACTOR.redact(once) == (once, []), sample.place


@pytest.mark.parametrize("part", PARTS)
def test_prefilter_passes_every_sample_that_a_rule_finds(part: str) -> None:
    for sample in (*secrets(part), *harmless(part)):
        found, seen = bool(REDACTOR.redact(sample.text)[1]), classify(sample.text)
        assert seen or not found, sample.place
        if seen == NAMES:
            assert found == bool(list(key_value_rules.spans(sample.text, _lower(sample.text)))), sample.place


def test_redaction_leaves_the_words_around_a_secret() -> None:
    pairs = {
        "The password for staging is Stag08ing!, ask ada": "The password for staging is [REDACTED:password], ask ada",
        "<password>x0636ml</password>": "<password>[REDACTED:password]</password>",
        "mysql -u root -pRo925ot! shop": "mysql -u root -p[REDACTED:command_password] shop",
        "DB_PASS=Wint035er! make": "DB_PASS=[REDACTED:password] make",
        '{"name": "password", "value": "Fo294rm!"}': '{"name": "password", "value": "[REDACTED:password]"}',
        "Wa3538lrus is the password": "[REDACTED:password] is the password",
        "log in with (password: Pw2774x).": "log in with (password: [REDACTED:password]).",
    }
    assert {text: REDACTOR.redact(text)[0] for text in pairs} == pairs
