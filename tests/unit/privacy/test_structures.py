"""Secrets in structured fields: name/value pairs, numbers, lists, nested values, argument lists."""

from __future__ import annotations

from typing import Any

import pytest

import smp_memory
from smp_memory.privacy.key_value_rules import is_arguments, item_name, replace_spans, value_name
from smp_memory.privacy.redaction import Redactor

REDACTOR = Redactor()
GONE = "[REDACTED:password]"
SECRETS: list[tuple[Any, Any]] = [
    ({"env": [{"name": "DB_PASSWORD", "value": "lamp4Oil"}]}, {"env": [{"name": "DB_PASSWORD", "value": GONE}]}),
    ({"key": "wifi_password", "value": "lampoil"}, {"key": "wifi_password", "value": GONE}),
    ({"name": "db password", "default": "lamp4Oil"}, {"name": "db password", "default": GONE}),
    ({"password": 87654321}, {"password": GONE}),
    ({"password": ["lamp4Oil", "x"]}, {"password": [GONE, "x"]}),
    ({"passwords": ["lamp4Oil"]}, {"passwords": [GONE]}),
    ({"password": {"value": "lamp4Oil", "type": "string"}}, {"password": {"value": GONE, "type": "string"}}),
    ({"password": {"values": [{"value": 87654321}]}}, {"password": {"values": [{"value": GONE}]}}),
    ({"argv": ["--password", "lamp4Oil"]}, {"argv": ["--password", GONE]}),
    (
        {"cmd": ["mysql", "-u", "root", "-plamp4Oil"]},
        {"cmd": ["mysql", "-u", "root", "-p[REDACTED:command_password]"]},
    ),
    ({"cmd": ["curl", "-u", "ada:lamp4Oil"]}, {"cmd": ["curl", "-u", "ada:[REDACTED:command_password]"]}),
]
HARMLESS: list[Any] = [
    {"name": "password", "value": None},
    {"name": "password", "type": "string", "hint": "lamp4Oil"},
    {"name": "colour", "value": "lamp4Oil"},
    {"password": {"type": "string", "min": 12, "max": 128}},
    {"password": True},
    {"password": 12},
    {"passwords": 12345678},
    {"tokens": 12345678, "max_tokens": 128000, "pass": 12345678},
    {"keys": ["3f2a9c1d7e5b4a6f8091", "Zk3Lq9Xw2Vb7Nm5Rt8Py"]},
    {"argv": ["--password", "required"]},
    {"cmd": ["mysql", "-u", "root", "-p", "shop"]},
    {"steps": ["- use the password form", "- ssh -p 2222 host"]},
]


@pytest.mark.parametrize(("given", "expected"), SECRETS, ids=repr)
def test_secret_in_a_structured_field_is_redacted_at_any_depth(given: Any, expected: Any) -> None:
    for data, wanted in ((given, expected), ({"state": [given]}, {"state": [expected]})):
        cleaned, removals = REDACTOR.redact_fields(data)
        assert cleaned == wanted
        assert removals
        assert REDACTOR.redact_fields(cleaned) == (cleaned, [])


@pytest.mark.parametrize("data", HARMLESS, ids=repr)
def test_harmless_structured_field_is_kept(data: Any) -> None:
    for given in (data, {"state": data}):
        assert REDACTOR.redact_fields(given) == (given, [])


def test_value_of_a_preference_is_redacted_by_its_key() -> None:
    session = smp_memory.open(":memory:").create_session("s")
    assert session.add_preference("wifi_password", "lampoil77!").value == GONE
    assert session.add_preference("api_key", {"v": "abc123def456ghi789jkl"}).value == {"v": "[REDACTED:secret]"}
    assert session.add_preference("response_style", "concise").value == "concise"


def test_names_that_are_switched_off_keep_their_values() -> None:
    off = Redactor({"off": ["password"]})
    assert off.redact_fields({"password": [12345678]})[1] == []


def test_values_are_named_by_their_pair_before_their_parent() -> None:
    assert value_name({"name": "DB_PASSWORD", "value": 1}, "token") == "DB_PASSWORD"
    assert value_name({"name": "colour", "value": 1}, "token") == "token"
    assert item_name("API_KEYS") == "API_KEY"
    assert item_name("tokens") == "tokens"


def test_arguments_are_texts_with_an_option() -> None:
    assert is_arguments(["a", "-b"])
    assert not is_arguments(["a", "- b"])
    assert not is_arguments(["-a", 1])


def test_span_over_several_arguments_is_cut_from_each() -> None:
    assert replace_spans(["abc", "def", "ghi"], [(1, 6, "#")]) == ["a#", "#f", "ghi"]
    assert replace_spans(["abc", "def"], [(0, 1, "#"), (2, 3, "#"), (4, 7, "#")]) == ["#b#", "#"]
