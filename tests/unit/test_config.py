"""Settings: sources of values, and rejected values."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from types import MappingProxyType

import pytest

import smp_memory
import smp_memory.config.settings as config_module
from smp_memory.config.settings import DEFAULT_ROOTS, FORMAT, SETTINGS, Config
from smp_memory.errors import FormatTooNew, InvalidConfig, LayoutMismatch, SMPError

FILE = "store/config.json"
LOCK = "concurrency.lock_timeout_ms"
QUOTA = "storage.max_session_size_mb"
CONTENT = "storage.max_content_kb"
RATE = "decay.rates.conversation"
FLOOR = "decay.floors.finding"
HALF_LIFE = "decay.half_life_hours.decision"


def nested(path, value):
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def from_file(path, value):
    return Config.build(nested(path, value), FILE)


def from_session(path, value):
    return Config.build(None, FILE, session=nested(path, value), session_id="s-1")


def from_override(path, value):
    return Config.build(None, FILE).override_session(nested(path, value), "s-1")


def from_argument(path, value):
    return Config.build(None, FILE, arguments=nested(path, value))


def from_environment(path, value):
    return Config.build(None, FILE, environ={variable(path): str(value)})


def variable(path):
    return "SMP_" + path.upper().replace(".", "_")


def refused(build, *arguments, **keywords):
    """The error for a value that cannot be used: raised for an argument, kept with the settings from elsewhere."""
    try:
        found = build(*arguments, **keywords)
    except InvalidConfig as error:
        return error
    return found.invalid[0]


SOURCES = {
    from_file: f"file {FILE}",
    from_session: "session s-1",
    from_override: "session s-1",
    from_argument: "argument",
}
MAPPINGS = pytest.mark.parametrize("build", SOURCES, ids=lambda build: build.__name__)

# -- defaults


def test_defaults():
    config = Config.build(None, FILE)
    assert config.to_dict() == {
        "layout": "jsonl",
        "format": 1,
        "recall": {"min_relevance": 0.55, "min_pointer": 0.33},
        "durability": "always",
        "sync_interval_seconds": 1.0,
        "copy_of": None,
        "concurrency": {"lock_timeout_ms": 5000},
        "storage": {
            "max_session_size_mb": 10,
            "max_content_kb": 1024,
            "warning_percent": 80,
            "critical_percent": 95,
            "gentle_percent": 10,
            "forced_percent": 20,
        },
        "compaction": {
            "enabled": True,
            "faded_below": 0.3,
            "old_turns_days": 7,
            "keep_turns_hours": 24,
            "keep_used_hours": 48,
            "keep_priority": 0.7,
            "keep_importance": 0.9,
            "keep_referenced": True,
        },
        "proposals": {"enabled": True},
        "lifecycle": {
            "idle_hours": 24,
            "decaying_days": 7,
            "archive_days": 30,
            "purge_days": 30,
            "auto_archive": True,
            "auto_purge": True,
        },
        "maintenance": {"auto": True},
        "offline": False,
        "search": {"semantic": "auto", "catch_up_ms": 10_000, "model_ms": 1000, "embedder": None},
        "hooks": {
            "recall": True,
            "recall_agents": True,
            "record": True,
            "ask_to_record": True,
            "log_told": True,
            "start_tokens": 1200,
            "prompt_tokens": 500,
        },
        "health": {"stale_days": 90},
        "observability": {"slow_ms": 1000},
        "retention": {
            "enabled": False,
            "days": {"conversation": 90, "decision": 365, "finding": 180, "preference": 730},
        },
        "privacy": {"redaction": {"enabled": True, "off": [], "patterns": [], "replacement": "[REDACTED:{kind}]"}},
        "context": {"share_users": False},
        "track_access": True,
        "decay": {
            "enabled": True,
            "policy": "smp",
            "related": False,
            "rates": {
                "conversation": 0.05,
                "decision": 0.03,
                "finding": 0.04,
                "preference": 0.02,
                "agent_state": 0.06,
                "artifact": 0.04,
            },
            "floors": {
                "conversation": 0.1,
                "decision": 0.4,
                "finding": 0.3,
                "preference": 0.6,
                "agent_state": 0.0,
            },
            "half_life_hours": {
                "conversation": 168,
                "decision": 720,
                "finding": 336,
                "preference": 1440,
                "other": 168,
            },
            "minimum_factor": 0.1,
        },
    }
    assert {config.source(setting.path) for setting in SETTINGS} == {"default"}


def test_properties_in_the_units_of_the_code():
    config = Config.build(None, FILE)
    assert config.layout == "jsonl"
    assert config.format == FORMAT == 1
    assert config.durability == "always"
    assert config.sync_interval_seconds == 1.0
    assert config.lock_timeout_seconds == 5.0
    assert config.quota_bytes == 10 * 1024 * 1024
    assert config.content_limit_bytes == 1024 * 1024


def test_properties_follow_the_values():
    config = Config.build(
        {
            "layout": "log",
            "durability": "interval",
            "sync_interval_seconds": 2,
            "concurrency": {"lock_timeout_ms": 250},
            "storage": {"max_session_size_mb": 0.01, "max_content_kb": 8},
        },
        FILE,
    )
    assert config.layout == "log"
    assert config.durability == "interval"
    assert config.sync_interval_seconds == 2.0
    assert isinstance(config.sync_interval_seconds, float)
    assert config.lock_timeout_seconds == 0.25
    assert config.quota_bytes == int(0.01 * 1024 * 1024)
    assert config.content_limit_bytes == 8192


def test_every_default_is_allowed():
    for setting in SETTINGS:
        assert setting.check.accepts(setting.default), setting.path
        assert setting.doc.endswith(".")


def test_names_and_variables_are_unique():
    assert len({setting.path for setting in SETTINGS}) == len(SETTINGS)
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)
    assert not {"SMP_ROOT", "SMP_SESSION", "SMP_AUTHOR"} & {setting.variable for setting in SETTINGS}


def test_every_layout_has_a_root():
    for layout in DEFAULT_ROOTS:
        assert Config.build({"layout": layout}, FILE).layout == layout
    assert DEFAULT_ROOTS == {
        "jsonl": ".bmad/memory",
        "single": ".bmad/sessions",
        "markdown": ".bmad/sessions",
        "log": "memory",
    }


# -- where a value comes from


@MAPPINGS
def test_a_value_knows_its_source(build):
    config = build("durability", "os")
    assert config["durability"] == config.durability == "os"
    assert config.source("durability") == SOURCES[build]
    assert config.source(LOCK) == "default"


def test_a_value_from_the_environment_names_its_variable():
    config = Config.build(None, FILE, environ={"SMP_DURABILITY": "os", "SMP_CONCURRENCY_LOCK_TIMEOUT_MS": "7"})
    assert config.durability == "os"
    assert config[LOCK] == 7
    assert config.source("durability") == "environment SMP_DURABILITY"
    assert config.source(LOCK) == "environment SMP_CONCURRENCY_LOCK_TIMEOUT_MS"


@pytest.mark.parametrize("word", ["true", "1", "on", "yes", "false", "0", "off", "no"])
@pytest.mark.parametrize("written", [str.lower, str.upper, str.title, " {} ".format])
def test_switch_in_the_environment_accepts_usual_words(word, written):
    assert from_environment("hooks.record", written(word))["hooks.record"] is (word in ("true", "1", "on", "yes"))


@pytest.mark.parametrize("word", ["nein", "2", "disabled", "-1", "tru"])
def test_bad_switch_in_the_environment_is_an_error_that_names_the_variable(word):
    assert "SMP_HOOKS_RECORD" in str(refused(from_environment, "hooks.record", word))


def test_arguments_above_environment_above_session_above_file():
    layers = {
        "file": nested(LOCK, 1),
        "session": nested(LOCK, 2),
        "environ": {variable(LOCK): "3"},
        "arguments": nested(LOCK, 4),
    }
    seen = []
    while layers:
        given = {"file": None, **layers}
        config = Config.build(file_path=FILE, session_id="s-1", **given)
        seen.append((config[LOCK], config.source(LOCK)))
        layers.popitem()
    assert seen == [
        (4, "argument"),
        (3, f"environment {variable(LOCK)}"),
        (2, "session s-1"),
        (1, f"file {FILE}"),
    ]


def test_settings_of_one_section_may_come_from_different_places():
    config = Config.build(nested(QUOTA, 5), FILE, arguments=nested(CONTENT, 6))
    assert (config[QUOTA], config.source(QUOTA)) == (5, f"file {FILE}")
    assert (config[CONTENT], config.source(CONTENT)) == (6, "argument")


def test_a_session_overrides_the_file_only():
    store = Config.build(
        {"durability": "interval", **nested(LOCK, 1), **nested(QUOTA, 1)},
        FILE,
        environ={variable(LOCK): "2"},
        arguments=nested(QUOTA, 3),
    )
    config = store.override_session({"durability": "os", **nested(LOCK, 9), **nested(QUOTA, 9)}, "s-1")
    assert (config.durability, config.source("durability")) == ("os", "session s-1")
    assert (config[LOCK], config.source(LOCK)) == (2, f"environment {variable(LOCK)}")
    assert (config[QUOTA], config.source(QUOTA)) == (3, "argument")


def test_overriding_leaves_the_stores_settings_alone():
    store = Config.build(None, FILE)
    store.override_session({"durability": "os"}, "s-1")
    assert store.durability == "always"
    assert store.source("durability") == "default"


def test_overrides_of_another_session_do_not_stay():
    first = Config.build(None, FILE).override_session({"durability": "os"}, "s-1")
    second = first.override_session(nested(LOCK, 1), "s-2")
    assert (second.durability, second.source("durability")) == ("always", "default")
    assert second.source(LOCK) == "session s-2"
    assert first.override_session(None, "s-3").rows() == Config.build(None, FILE).rows()


def test_rows_list_every_setting():
    config = Config.build({"durability": "os"}, FILE)
    rows = config.rows()
    assert [name for name, *_ in rows] == [setting.path for setting in SETTINGS]
    assert ("durability", "os", f"file {FILE}", "When a write is synced to disk.") in rows


def test_to_dict_can_be_stored_and_read_back():
    config = Config.build({"layout": "single", "durability": "os", **nested(QUOTA, 0.5)}, FILE)
    again = Config.build(json.loads(json.dumps(config.to_dict())), FILE)
    assert again.to_dict() == config.to_dict()


def test_to_dict_is_a_copy():
    config = Config.build(None, FILE)
    config.to_dict()["concurrency"]["lock_timeout_ms"] = 1
    assert config[LOCK] == 5000


# -- layout and format belong to the store


def test_layout_in_the_file_overrides_the_environment():
    config = Config.build({"layout": "log"}, FILE, environ={"SMP_LAYOUT": "markdown"})
    assert (config.layout, config.source("layout")) == ("log", f"file {FILE}")


def test_the_environment_may_choose_the_layout_of_a_new_store():
    config = Config.build(None, FILE, environ={"SMP_LAYOUT": "markdown"})
    assert (config.layout, config.source("layout")) == ("markdown", "environment SMP_LAYOUT")


def test_a_bad_layout_in_the_environment_is_refused_also_where_the_file_decides():
    assert "SMP_LAYOUT" in str(refused(Config.build, {"layout": "log"}, FILE, environ={"SMP_LAYOUT": "xml"}))


def test_an_argument_may_choose_the_layout_of_a_new_store():
    config = Config.build({"durability": "os"}, FILE, arguments={"layout": "single", "format": 1})
    assert (config.layout, config.source("layout")) == ("single", "argument")


def test_an_argument_may_repeat_the_layout():
    assert Config.build({"layout": "log"}, FILE, arguments={"layout": "log"}).layout == "log"


def test_an_argument_with_another_layout_than_the_file_is_a_mismatch():
    with pytest.raises(LayoutMismatch) as caught:
        Config.build({"layout": "log"}, FILE, arguments={"layout": "jsonl"})
    assert (caught.value.found, caught.value.asked, caught.value.path) == ("log", "jsonl", FILE)


@pytest.mark.parametrize("arguments", [{"layout": "xml"}, {"layout": None}, {"format": 2}, {"format": True}])
def test_layout_and_format_in_arguments_are_checked(arguments):
    assert refused(Config.build, None, FILE, arguments=arguments).source == "argument"


@pytest.mark.parametrize("build", [from_session, from_override], ids=lambda build: build.__name__)
@pytest.mark.parametrize(("path", "value"), [("layout", "jsonl"), ("format", 1)])
def test_session_cannot_override_the_layout(build, path, value):
    error = refused(build, path, value)
    assert (error.key, error.source) == (path, "session s-1")
    assert "whole store" in str(error)


def test_a_newer_format_is_named_before_its_unknown_keys():
    with pytest.raises(FormatTooNew) as caught:
        Config.build({"shiny": {"new": 1}, "format": 2}, FILE)
    assert (caught.value.found, caught.value.known, caught.value.path) == (2, 1, FILE)


@pytest.mark.parametrize("value", [0, -1, "1", "2", 1.0, 2.5, True, None, [2]])
def test_a_format_that_is_no_version_is_a_bad_value(value):
    assert refused(from_file, "format", value).key == "format"


# -- values

GOOD = [
    ("durability", "always"),
    ("durability", "interval"),
    ("durability", "os"),
    ("sync_interval_seconds", 0.001),
    ("sync_interval_seconds", 1),
    ("sync_interval_seconds", 60),
    ("sync_interval_seconds", 60.0),
    (LOCK, 0),
    (LOCK, 600_000),
    (QUOTA, 0.01),
    (QUOTA, 1),
    (QUOTA, 250),
    (CONTENT, 1),
    (CONTENT, 1024),
    ("decay.enabled", True),
    ("decay.enabled", False),
    ("decay.policy", "half-life"),
    (RATE, 0.0),
    (RATE, 0.5),
    (FLOOR, 1.0),
    (HALF_LIFE, 0.5),
    (HALF_LIFE, 168),
]
BAD = [
    ("durability", "sometimes"),
    ("durability", "Always"),
    ("durability", ""),
    ("durability", None),
    ("durability", 1),
    ("durability", True),
    ("durability", ["always"]),
    ("durability", {"mode": "always"}),
    ("sync_interval_seconds", 0),
    ("sync_interval_seconds", -1),
    ("sync_interval_seconds", 60.1),
    ("sync_interval_seconds", True),
    ("sync_interval_seconds", "1"),
    ("sync_interval_seconds", None),
    ("sync_interval_seconds", float("nan")),
    ("sync_interval_seconds", float("inf")),
    (LOCK, -1),
    (LOCK, 600_001),
    (LOCK, 1.5),
    (LOCK, 5.0),
    (LOCK, True),
    (LOCK, False),
    (LOCK, "5000"),
    (LOCK, None),
    (LOCK, {}),
    (LOCK, 10**400),
    (QUOTA, 0),
    (QUOTA, -0.5),
    (QUOTA, 250.5),
    (QUOTA, True),
    (QUOTA, "10"),
    (QUOTA, 10**400),
    (CONTENT, 0),
    (CONTENT, 1025),
    (CONTENT, 0.5),
    (CONTENT, True),
    ("decay.enabled", "true"),
    ("decay.enabled", 1),
    ("decay.enabled", None),
    ("decay.policy", "exponential"),
    ("decay.policy", None),
    (RATE, -0.01),
    (RATE, float("nan")),
    (RATE, float("inf")),
    (RATE, True),
    (RATE, "0.1"),
    (FLOOR, 1.01),
    (FLOOR, 10**400),
    (HALF_LIFE, 0),
    (HALF_LIFE, None),
]


@MAPPINGS
@pytest.mark.parametrize(("path", "value"), GOOD)
def test_valid_value_is_kept(build, path, value):
    config = build(path, value)
    assert config[path] == value
    assert type(config[path]) is type(value)


@MAPPINGS
def test_error_for_a_bad_value_names_key_source_and_allowed_values(build):
    for path, value in BAD:
        error = refused(build, path, value)
        allowed = next(setting.check.allowed for setting in SETTINGS if setting.path == path)
        assert (error.key, error.source, error.allowed) == (path, SOURCES[build], allowed)
        assert f"'{path}'" in str(error)
        assert SOURCES[build] in str(error)
        assert allowed in str(error)
        assert len(str(error)) < 400


@pytest.mark.parametrize(("path", "value"), GOOD)
def test_a_good_value_in_the_environment(path, value):
    assert from_environment(path, value)[path] == value


def test_a_whole_number_stays_whole_in_the_environment():
    assert repr(from_environment(QUOTA, "20")[QUOTA]) == "20"
    assert repr(from_environment(QUOTA, "0.25")[QUOTA]) == "0.25"
    assert repr(from_environment(LOCK, " 20 ")[LOCK]) == "20"


BAD_TEXTS = [
    ("durability", "sometimes"),
    ("durability", "ALWAYS"),
    ("format", "2"),
    ("sync_interval_seconds", "0"),
    ("sync_interval_seconds", "nan"),
    ("sync_interval_seconds", "inf"),
    ("sync_interval_seconds", "1e999"),
    ("sync_interval_seconds", "1,5"),
    (LOCK, "soon"),
    (LOCK, "5s"),
    (LOCK, "-1"),
    (LOCK, "1.5"),
    (LOCK, "5_000"),
    (LOCK, "٥"),
    (LOCK, "true"),
    (LOCK, " "),
    (LOCK, "9" * 10_000),
    (QUOTA, "1_0"),
    (QUOTA, "ten"),
    (CONTENT, "1025"),
    ("decay.enabled", "perhaps"),
    ("decay.enabled", "2"),
    (RATE, "0,1"),
    (RATE, "nan"),
    (FLOOR, "1.5"),
    (HALF_LIFE, "0"),
]


@pytest.mark.parametrize(("path", "text"), BAD_TEXTS, ids=lambda value: value[:12])
def test_a_bad_value_in_the_environment_names_the_variable(path, text):
    error = refused(from_environment, path, text)
    assert (error.key, error.source) == (path, f"environment {variable(path)}")
    assert variable(path) in str(error)
    assert repr(text)[:70] in str(error)
    assert len(str(error)) < 400


def test_other_variables_are_ignored():
    others = {"SMP_ROOT": "/x", "SMP_SESSION": "s", "SMP_AUTHOR": "a", "SMP_WHATEVER": "?", "DURABILITY": "os"}
    assert (
        Config.build(None, FILE, environ={**others, "smp_durability": "os"}).rows() == Config.build(None, FILE).rows()
    )


def test_an_empty_variable_is_not_set():
    assert Config.build(None, FILE, environ={"SMP_DURABILITY": ""}).source("durability") == "default"


def test_process_environment_is_not_read(monkeypatch):
    monkeypatch.setenv("SMP_DURABILITY", "os")
    assert Config.build(None, FILE).durability == "always"


# -- keys


@MAPPINGS
@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("durabilty", "durability"),
        ("Durability", "durability"),
        ("concurrency.lock_timeout", LOCK),
        ("concurency.lock_timeout_ms", LOCK),
        ("lock_timeout_ms", LOCK),
        ("locking.lock_timeout_ms", LOCK),
        ("max_content_kb", CONTENT),
        ("storage.max_session_size", QUOTA),
        ("storage.max_session_size_bytes", QUOTA),
        ("storage.zzz", None),
        ("zzz", None),
        ("zzz.a.b", None),
        ("", None),
    ],
)
def test_unknown_key_is_reported_or_in_an_argument_an_error_with_the_nearest_known_one(build, path, suggestion):
    if build is not from_argument:
        config = build(path, 1)
        [(source, key)] = config.unused
        assert (source, [key]) == (SOURCES[build], config.unknown)
        assert path.startswith(key)
        assert not config.invalid
        assert config.rows() == Config.build(None, FILE).rows()
        return
    error = refused(build, path, 1)
    assert path.startswith(error.key)
    assert error.source == SOURCES[build]
    assert error.suggestion == suggestion or "." in path
    assert error.key in str(error)
    assert SOURCES[build] in str(error)
    assert (f"Did you mean '{error.suggestion}'?" if error.suggestion else "Known settings: layout, ") in str(error)


@pytest.mark.parametrize("key", ["root_path", "root_directory", "encoding", "format"])
def test_design_keys_without_effect_are_reported(key):
    assert from_file(f"storage.{key}", "x").unused == [(f"file {FILE}", f"storage.{key}")]


def test_empty_unknown_section_is_reported():
    assert Config.build({"zzz": {}}, FILE).unknown == ["zzz"]


def test_an_empty_known_section_is_fine():
    assert Config.build({"storage": {}}, FILE).rows() == Config.build(None, FILE).rows()


@MAPPINGS
@pytest.mark.parametrize("value", [5, "x", None, [], True])
def test_a_section_must_be_an_object(build, value):
    error = refused(build, "concurrency", value)
    assert (error.key, error.source) == ("concurrency", SOURCES[build])
    assert "lock_timeout_ms" in str(error)


@pytest.mark.parametrize("whole", [[], ["durability"], "durability", 5, True])
def test_the_whole_must_be_an_object(whole):
    assert FILE in str(refused(Config.build, whole, FILE))
    assert "argument" in str(refused(Config.build, None, FILE, arguments=whole))


def test_key_that_is_not_text_is_unknown():
    assert Config.build({1: 2, None: 3}, FILE).unknown == ["1", "None"]


def test_dotted_names_are_understood():
    assert Config.build(None, FILE, arguments={LOCK: 7})[LOCK] == 7


def test_one_setting_in_two_spellings_is_an_error():
    error = refused(Config.build, {LOCK: 7, **nested(LOCK, 8)}, FILE)
    assert error.key == LOCK
    assert "twice" in str(error)


def test_any_mapping_is_accepted():
    frozen = MappingProxyType({"storage": MappingProxyType({"max_content_kb": 5})})
    assert Config.build(frozen, FILE)[CONTENT] == 5


def test_given_mapping_is_copied():
    given = {"durability": "os", "storage": {"max_content_kb": 5}}
    before = copy.deepcopy(given)
    config = Config.build(given, FILE)
    assert given == before
    given["durability"] = "interval"
    given["storage"]["max_content_kb"] = 6
    assert config.durability == "os"
    assert config[CONTENT] == 5


def test_a_deeply_nested_object_is_an_unknown_key_and_no_stack_overflow():
    for name in ("zzz", "storage", "memory_config"):
        bomb = {}
        for _ in range(100_000):
            bomb = {name: bomb}
        config = Config.build(bomb, FILE)
        assert len(config.unknown) == 1
        assert config.rows() == Config.build(None, FILE).rows()
        while bomb:  # freed level by level: the destructor would otherwise recurse
            bomb = bomb.popitem()[1]


def test_a_long_value_is_cut_in_the_message():
    assert len(str(refused(from_file, "durability", "x" * 1_000_000))) < 400
    assert len(from_file("z" * 1_000_000, 1).unused_notice()) < 1000
    assert len(str(refused(from_argument, "z" * 1_000_000, 1))) < 1000


# -- the designs' form of the file


def test_wrapper_of_the_design_is_accepted():
    config = Config.build(
        {
            "memory_config": {
                "version": "1.0",
                "storage": {"max_session_size_mb": 20},
                "concurrency": {"lock_timeout_ms": 100},
            }
        },
        FILE,
    )
    assert config[QUOTA] == 20
    assert config[LOCK] == 100
    assert config.source(LOCK) == f"file {FILE}"


def test_wrapper_may_be_beside_layout_and_format():
    config = Config.build({"layout": "log", "format": 1, "memory_config": nested(LOCK, 1)}, FILE)
    assert (config.layout, config[LOCK]) == ("log", 1)


def test_one_setting_inside_and_outside_the_wrapper_is_an_error():
    assert refused(Config.build, {"durability": "os", "memory_config": {"durability": "os"}}, FILE).key == "durability"


@pytest.mark.parametrize("value", [None, [], 5])
def test_the_wrapper_must_hold_an_object(value):
    refused(Config.build, {"memory_config": value}, FILE)


def test_unknown_keys_in_the_wrapper_are_reported():
    assert Config.build({"memory_config": {"zzz": 1}}, FILE).unknown == ["zzz"]


def test_known_version_of_the_design_is_not_reported():
    assert Config.build({"version": "1.0"}, FILE).rows() == Config.build(None, FILE).rows()


@pytest.mark.parametrize("value", ["2.0", 1, 1.0, None, "", True])
def test_another_version_is_kept_without_effect(value):
    config = Config.build({"version": value}, FILE)
    assert [key for _, key in config.unused] == ["version"]
    assert config.rows() == Config.build(None, FILE).rows()


# -- the object


def test_asking_for_an_unknown_setting_suggests_one():
    config = Config.build(None, FILE)
    for ask in (config.__getitem__, config.source):
        error = refused(ask, "durabilty")
        assert error.suggestion == "durability"


def test_config_is_immutable():
    config = Config.build(None, FILE)
    for name in ("durability", "quota_bytes", "_values", "anything"):
        with pytest.raises(AttributeError):
            setattr(config, name, 1)
        with pytest.raises(AttributeError):
            delattr(config, name)
    with pytest.raises(TypeError):
        config["durability"] = "os"
    assert config.rows() == Config.build(None, FILE).rows()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))])
def test_copies_and_pickles_are_equal(again):
    config = Config.build(
        {"layout": "log"}, FILE, {"durability": "os"}, "s-1", {variable(LOCK): "3"}, arguments=nested(QUOTA, 4)
    )
    assert again(config).rows() == config.rows()
    assert again(config).override_session(None, "s-2").rows() == config.override_session(None, "s-2").rows()


def test_repr_shows_values_that_differ_from_the_default():
    assert repr(Config.build(None, FILE)) == "Config()"
    assert repr(Config.build({"durability": "os"}, FILE)) == "Config(durability='os')"


def test_errors_can_be_pickled():
    error = refused(from_argument, "durabilty", 1)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, SMPError)
    assert (str(again), again.key, again.suggestion) == (str(error), error.key, error.suggestion)


def test_building_loads_nothing_heavy():
    code = (
        "import sys; package = type(sys)('smp_memory'); package.__path__ = [sys.argv[1]]; sys.modules['smp_memory'] = package;"
        "before = set(sys.modules); from smp_memory.config.settings import Config;"
        "Config.build({'layout': 'log'}, 'x', environ={'SMP_DURABILITY': 'os'});"
        "print(*sorted(set(sys.modules) - before))"
    )
    package = os.path.dirname(os.path.dirname(config_module.__file__))
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code, package], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) - {"__future__", "errno"} == {
        "smp_memory.config",
        "smp_memory.config.settings",
        "smp_memory.errors",
        "smp_memory.config.schema",
        "smp_memory.config.sources",
        "smp_memory.model",
        "smp_memory.model.types",
    }


# -- lists


def test_names_from_a_file_and_from_the_environment():
    assert from_file("privacy.redaction.off", ["phone", "email"])["privacy.redaction.off"] == ["phone", "email"]
    config = Config.build(None, FILE, environ={"SMP_PRIVACY_REDACTION_OFF": "phone, email"})
    assert config["privacy.redaction.off"] == ["phone", "email"]
    config = Config.build(None, FILE, environ={"SMP_PRIVACY_REDACTION_OFF": '["phone"]'})
    assert config["privacy.redaction.off"] == ["phone"]


@pytest.mark.parametrize("value", ["phone", [1], [""], {"phone": True}, [["phone"]]])
def test_value_that_is_not_a_list_of_names_is_rejected(value):
    assert refused(from_file, "privacy.redaction.off", value).key == "privacy.redaction.off"


def test_patterns_from_a_file_and_from_the_environment():
    pattern = {"type": "employee", "regex": "EMP-[0-9]{6}"}
    assert from_file("privacy.redaction.patterns", [pattern])["privacy.redaction.patterns"] == [pattern]
    text = '[{"type": "employee", "regex": "EMP-[0-9]{6}"}]'
    config = Config.build(None, FILE, environ={"SMP_PRIVACY_REDACTION_PATTERNS": text})
    assert config["privacy.redaction.patterns"] == [pattern]


@pytest.mark.parametrize(
    "value", ["x", ["x"], [{"type": "x"}], [{"type": "x", "regex": 1}], [{"type": "x", "regex": "y", "z": "a"}]]
)
def test_value_that_is_not_a_pattern_is_rejected(value):
    assert refused(from_file, "privacy.redaction.patterns", value).key == "privacy.redaction.patterns"


@pytest.mark.parametrize("text", ["x", "[" * 100_000, "[1,"])
def test_environment_value_that_is_not_json_is_rejected(text):
    error = refused(Config.build, None, FILE, environ={"SMP_PRIVACY_REDACTION_PATTERNS": text})
    assert error.key == "privacy.redaction.patterns"


def test_setting_name_of_a_design_is_accepted():
    assert Config.build({"privacy": {"auto_redaction": False}}, FILE)["privacy.redaction.enabled"] is False
    twice = {"privacy": {"auto_redaction": False, "redaction": {"enabled": True}}}
    assert "twice" in str(refused(Config.build, twice, FILE))


def test_wrapper_may_contain_layout_and_format(tmp_path):
    """The layout inside the wrapper was ignored, and then written a second time."""
    stored = tmp_path / "config.json"
    stored.write_text(json.dumps({"memory_config": {"layout": "markdown", "format": FORMAT, "durability": "os"}}))
    with smp_memory.open(tmp_path) as memory:
        assert (memory.layout, memory.config.durability) == ("markdown", "os")
        memory.create_session("s").add_decision("x")
        assert not [finding for finding in memory.doctor().findings if "setting" in finding.message]
        memory.set_config("durability", "interval")
        memory.convert("log").close()
    with smp_memory.open(tmp_path) as memory:
        assert (memory.layout, memory.config.durability) == ("log", "interval")
        assert memory.get("s/DEC-0001").decision == "x"
    stored.write_text(json.dumps({"memory_config": {"layout": "log", "format": FORMAT + 1}}))
    with pytest.raises(FormatTooNew):
        smp_memory.open(tmp_path)
    stored.write_text(json.dumps({"layout": "log", "memory_config": {"layout": "log"}}))
    with smp_memory.open(tmp_path) as memory:
        assert "twice" in str(memory.config.invalid[0])
