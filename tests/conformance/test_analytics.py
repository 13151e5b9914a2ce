"""Statistics through the API, on every layout: they read and change nothing, and say what they could not read."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.analytics.report import PARTS
from smp_memory.errors import InvalidQuery, SessionNotFound, SMPError, StoreClosed
from smp_memory.files.layouts import NAMES
from smp_memory.lifecycle import compaction
from smp_memory.testing import MachineClock
from tests.conformance.layout_files import by_hand, decisions_file, opened, visible
from tests.conformance.test_incomplete_answers import damaged

everywhere = pytest.mark.parametrize("layout", ["jsonl", ":memory:"])  # statistics do not know the layout


class Shop:
    """A store with two sessions and some weeks of work."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.clock = MachineClock()
        is_ram = layout == ":memory:"
        self.memory = smp_memory.open(":memory:" if is_ram else folder, layout=None if is_ram else layout, clock=self.clock)  # fmt: skip
        self.shop = self.memory.create_session("shop")
        self.billing = self.memory.create_session("billing")
        self.shop.add_decision("Use OAuth 2.0", author="architect", topic="auth")
        self.shop.add_turn("user", "How do customers log in?")
        for number in range(6):
            self.clock.advance(days=1)
            self.shop.add_finding(f"Login page {number} has no rate limit, see DEC-0001", tags=["auth.login"], author="veritas")  # fmt: skip
        self.shop.relate("FIND-0001", "DEC-0001", "derived_from")
        self.shop.add_decision("Use OpenID Connect", supersedes="DEC-0001", author="architect")
        self.billing.add_decision("Invoices need a login", references=["shop/DEC-0001"], valid_until="2026-02-01")
        self.clock.advance(days=1)

    def use(self, ref: str, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(120)
            self.memory.get(ref)


@pytest.fixture
def store(tmp_path: Path, layout: str) -> Shop:
    return Shop(tmp_path / "store", layout)


@everywhere
def test_usage_knows_what_was_used(store: Shop) -> None:
    store.use("shop/DEC-0001", 3)
    store.use("shop/FIND-0002")
    usage = store.memory.analytics().usage
    assert (usage.memories, usage.used, usage.uses) == (10, 2, 4)
    assert [(each.ref, each.uses, each.text) for each in usage.most_used] == [
        ("shop/DEC-0001", 3, "Use OAuth 2.0"),
        ("shop/FIND-0002", 1, "Login page 1 has no rate limit, see DEC-0001"),
    ]
    assert usage.last_used[0].ref == "shop/FIND-0002"
    assert usage.logged.uses == 4
    assert {each.name: each.uses for each in usage.by_tag} == {"auth": 3, "auth.login": 1}
    store.memory.maintain()
    after = store.memory.analytics().usage
    assert (after.used, after.uses, after.logged.uses) == (2, 4, 0)  # the files know counts, not single uses


@everywhere
def test_impact_lists_what_followed_with_references(store: Shop) -> None:
    made = store.memory.analytics().impact
    first = made.decisions[0]
    assert first.ref == "shop/DEC-0001"
    assert {(each.ref, each.kind) for each in first.followed} == {
        ("shop/FIND-0001", "derived_from"),
        *((f"shop/FIND-{number:04d}", "mentions") for number in range(1, 7)),
        ("billing/DEC-0001", "references"),
    }
    assert first.followed_count == 7
    assert [each.ref for each in first.superseded_by] == ["shop/DEC-0002"]
    assert first.days_until_superseded == pytest.approx(6)
    assert made.total == 3
    assert made.superseded == 1


@everywhere
def test_mention_in_another_session_needs_its_name(store: Shop) -> None:
    store.billing.add_finding("As DEC-0001 says, and as shop/DEC-0002 says")
    found = {each.ref: {link.ref for link in each.followed} for each in store.memory.analytics().impact}
    assert "billing/FIND-0001" in found["billing/DEC-0001"]
    assert "billing/FIND-0001" in found["shop/DEC-0002"]
    assert "billing/FIND-0001" not in found["shop/DEC-0001"]


@everywhere
def test_deleted_memories_are_in_the_trash_and_in_nothing_else(store: Shop) -> None:
    store.shop.delete("FIND-0001", "wrong")
    made = store.memory.analytics()
    assert made.usage.memories == 9
    assert "shop/FIND-0001" not in {link.ref for each in made.impact for link in each.links()}
    assert [each.ref for each in made.forecast.trash] == ["shop/FIND-0001"]
    (trashed,) = store.memory.deleted()
    assert made.forecast.trash[0].purged_from == trashed.purged_from


@everywhere
def test_forecast_agrees_with_priority_states_and_stats(store: Shop) -> None:
    made = store.memory.analytics(limit=100).forecast
    for each in made.fading:
        when = store.clock() + timedelta(days=each.days)
        assert store.memory.priority(each.ref, at=when + timedelta(minutes=1)) < 0.3
        assert store.memory.priority(each.ref, at=when - timedelta(minutes=2)) >= 0.3
    assert [each.ref for each in made.fading] == ["shop/TURN-0001"]
    states = {each.session: each for each in store.memory.session_states()}
    assert {each.session: (each.state, each.when) for each in made.sessions} == {
        name: (state.state, state.next.when) for name, state in states.items()
    }
    assert [(each.ref, round(each.days)) for each in made.ending] == [("billing/DEC-0001", 24)]
    assert {each.name for each in made.maintenance} >= {"archive", "purge", "quota"}


@everywhere
def test_session_that_fills_up_has_the_forecast_of_its_size_report(tmp_path: Path, layout: str) -> None:
    clock = MachineClock()
    where: Any = ":memory:" if layout == ":memory:" else tmp_path / "s"
    memory = smp_memory.open(where, layout=None if layout == ":memory:" else layout, clock=clock, config={"storage.max_session_size_mb": 0.1})  # fmt: skip
    session = memory.create_session("full")
    for _ in range(10):
        clock.advance(days=1)
        session.add_finding("word " * 400)
    (made,) = memory.analytics().forecast.sessions
    files, policy = memory.store.session("full"), memory.scope.policy()
    expected = compaction.report(memory.store, files, files.config, policy, clock()).predicted_days_to_quota
    assert made.full_in_days == expected
    assert expected is not None
    assert 0 < expected < 200


@everywhere
def test_topics_are_counted_by_period(store: Shop) -> None:
    made = store.memory.analytics(by="day", periods=9).topics
    found = {each.name: each for each in made}
    assert (found["auth"].mentions, found["auth.login"].mentions) == (7, 6)
    assert sum(found["auth"].counts) == 7


@everywhere
def test_one_session_can_be_chosen(store: Shop) -> None:
    made = store.memory.analytics(sessions="billing")
    assert (made.usage.memories, made.impact.total, made.forecast.session_count) == (1, 1, 1)
    assert made.forecast.maintenance == []  # it is about the store
    assert made.to_dict()["sessions"] == ["billing"]
    both = store.memory.analytics(sessions=["billing", "shop", "billing"])
    assert both.usage.memories == 10


@everywhere
def test_time_range_chooses_memories_by_their_creation(store: Shop) -> None:
    made = store.memory.analytics(time="last 36 hours")
    assert {each.ref for each in made.usage.never_used} == {"shop/FIND-0006", "shop/DEC-0002", "billing/DEC-0001"}
    assert {each.ref for each in made.impact} == {"shop/DEC-0002", "billing/DEC-0001"}
    assert store.memory.analytics(since="2027-01-01").usage.memories == 0


@everywhere
def test_statistics_change_nothing_and_are_no_use(store: Shop, tmp_path: Path) -> None:
    store.use("shop/DEC-0001")
    before = visible(tmp_path) if (tmp_path / "store").exists() else {}
    first = store.memory.analytics().to_dict()
    again = store.memory.analytics().to_dict()
    assert first == again
    assert (visible(tmp_path) if before else {}) == before
    json.dumps(first)


@everywhere
def test_empty_store_has_empty_statistics(tmp_path: Path, layout: str) -> None:
    where: Any = ":memory:" if layout == ":memory:" else tmp_path / "e"
    memory = smp_memory.open(where, layout=None if layout == ":memory:" else layout, clock=MachineClock())
    made = memory.analytics().to_dict()
    assert made["usage"]["memories"] == made["impact"]["total"] == made["forecast"]["session_count"] == 0
    memory.create_session("s")
    assert memory.analytics(sessions="s").to_dict()["topics"]["total"] == 0


# -- damage, hostile files and wrong calls


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("part", PARTS)
def test_unreadable_entries_are_reported_with_each_part(tmp_path: Path, layout: str, part: str) -> None:
    path, line = damaged(tmp_path, layout)
    made = opened(tmp_path).memory.analytics()
    assert [(each.path, each.line) for each in getattr(made, part).problems] == [(str(path), line)]
    assert [(each.path, each.line) for each in made.problems] == [(str(path), line)]
    assert made.to_dict([part])["problems"][0]["line"] == line


@pytest.mark.parametrize("layout", ["jsonl", "single", "log"])
@pytest.mark.parametrize(
    "fields",
    [
        {"tags": "7"},
        {"tags": '[1, null, {"a": 2}, "", "x", ["y"]]'},
        {"topic": '["a", 5]'},
        {"relations": '[{"kind": 5, "target": ["x"]}, 9, null]', "references": '{"a": 1}'},
        {"access": '{"count": 1e99, "last": "never"}', "importance": '"high"'},
        {"access": '{"count": 4, "last": "9999-12-31T23:59:59Z"}', "valid_until": '"9999-12-31"'},
        {"supersedes": "[7]", "superseded_by": '{"x": 1}', "resolution": "[3]"},
        {"author": "[1]", "pinned": '"yes"', "status": "{}"},
    ],
)
def test_values_of_any_type_typed_by_hand_do_no_harm(tmp_path: Path, layout: str, fields: dict[str, str]) -> None:
    memory = smp_memory.open(tmp_path, layout=layout, clock=MachineClock())
    memory.create_session("s1").add_decision("Use OAuth", tags=["x"])
    memory.close()
    with decisions_file(tmp_path, layout).open("a") as file:
        file.write(by_hand(layout, "DEC-0002", "Typed by hand, see DEC-0001", **fields))
    memory = smp_memory.open(tmp_path, clock=MachineClock())
    made = memory.analytics().to_dict()
    json.dumps(made)
    assert made["usage"]["memories"] == 2 or made["problems"]
    memory.decay_curve("s1/DEC-0001")


@pytest.mark.parametrize("layout", ["jsonl", "single", "log"])
def test_memory_without_a_time_is_counted(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path, layout=layout, clock=MachineClock())
    memory.create_session("s1").add_decision("Use OAuth")
    memory.close()
    text = by_hand(layout, "DEC-0002", "Typed by hand", tags='["hand"]').replace("2026-02-01T10:00:00Z", "some day")
    with decisions_file(tmp_path, layout).open("a") as file:
        file.write(text)
    made = smp_memory.open(tmp_path, clock=MachineClock()).analytics()
    dict_ = made.to_dict()
    json.dumps(dict_)
    assert dict_["usage"]["memories"] == 2 or dict_["problems"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"by": "year"}, "by"),
        ({"periods": 2}, "periods"),
        ({"periods": "x"}, "periods"),
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"threshold": 2}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": "low"}, "threshold"),
        ({"time": "when pigs fly"}, "time"),
    ],
)
def test_wrong_options_are_errors_that_name_them(options: dict[str, Any], field: str) -> None:
    memory = smp_memory.open(":memory:")
    with pytest.raises(InvalidQuery, match=field):
        memory.analytics(**options)


def test_unknown_session_and_closed_store_are_errors() -> None:
    memory = smp_memory.open(":memory:")
    with pytest.raises(SessionNotFound):
        memory.analytics(sessions="nope")
    for wrong in (5, [5], [None]):
        with pytest.raises(SMPError):
            memory.analytics(sessions=wrong)  # type: ignore[arg-type]
    made = memory.analytics()
    memory.close()
    with pytest.raises(StoreClosed):
        made.usage  # noqa: B018


def test_archived_sessions_are_said_to_be_left_out() -> None:
    memory = smp_memory.open(":memory:", clock=MachineClock())
    memory.create_session("old").add_decision("Use OAuth")
    memory.archive_session("old")
    made = memory.analytics().usage
    assert made.memories == 0
    assert "1 archived session is not counted." in made.notes


def test_statistics_of_an_agent_show_what_it_may_see() -> None:
    from smp_memory.analytics.report import analytics
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.scope import Scope

    memory = smp_memory.open(":memory:", clock=MachineClock())
    session = memory.create_session("s")
    session.add_decision("Use OAuth", author="ada")
    hidden = session.add_finding("Secret of ada, see DEC-0001", author="ada", visibility="private", tags=["hidden"], valid_until="2026-03-01")  # fmt: skip
    session.relate("DEC-0001", hidden, "led_to")
    scope = memory.scope
    seen = analytics(Scope(scope.store, None, scope.config, scope.clock, viewer=Viewer("bob")))
    text = json.dumps(seen.to_dict())
    assert "FIND-0001" not in text
    assert "Secret" not in text
    assert "hidden" not in text
    assert seen.usage.memories == 1
    assert "FIND-0001" in json.dumps(memory.analytics().to_dict())


@pytest.mark.parametrize("layout", NAMES)
def test_invalid_settings_of_one_session_do_not_hide_the_others(tmp_path: Path, layout: str) -> None:
    store = Shop(tmp_path / "store", layout)
    store.shop.delete("FIND-0001")
    wrong = {"decay.policy": "nonsense", "lifecycle.purge_days": "soon"}
    store.memory.store.session("shop").update_info(lambda info: info.config.update(wrong))
    memory = smp_memory.open(tmp_path / "store", clock=store.clock)
    made = memory.analytics()
    assert made.forecast.session_count == 2
    assert [each.ref for each in made.forecast.trash] == ["shop/FIND-0001"]
    assert memory.analytics(sessions="shop").decay.policy == "smp"


def test_second_backend_has_the_same_statistics(tmp_path: Path) -> None:
    from smp_memory.store.opening import register_backend
    from tests.backends.naive_store import NAME, open_naive

    register_backend(NAME, open_naive)
    made = []
    for where in (f"{NAME}://{tmp_path / 'store.db'}", ":memory:"):
        memory = smp_memory.open(where, clock=MachineClock())
        session = memory.create_session("s")
        session.add_decision("Use OAuth", tags=["auth"])
        session.add_finding("Slow, see DEC-0001", references=["DEC-0001"], valid_until="2026-02-01")
        session.add_turn("user", "Hello")
        session.get("DEC-0001")
        memory.store.access.flush()
        found = memory.analytics().to_dict()
        for each in found["forecast"]["sessions"]:
            del each["size_bytes"]  # each backend stores entries in its own way
        made.append(found)
        memory.close()
    assert made[0] == made[1]


def test_threads_share_the_statistics_of_a_store(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    store = Shop(tmp_path / "store", "jsonl")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: store.memory.analytics().to_dict(), range(8)))
        store.shop.add_finding("Written meanwhile")
    assert all(each == found[0] for each in found)
