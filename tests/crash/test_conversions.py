"""Two want to convert, one converts while another creates, a conversion dies while others have the store open: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import smp
from smp.errors import LayoutMismatch, LockTimeout
from smp.files.journal import Journal
from smp.files.layouts import NAMES

pytestmark = pytest.mark.crash
TEXTS = ["one", "two"]


class Died(BaseException):
    """The process is gone."""


def stores(path: Path, layout: str) -> tuple[smp.Memory, smp.Memory]:
    """Two stores in one folder, as in two processes."""
    first = smp.open(path / "store", layout=layout)
    for name in ("r", "s"):
        for text in TEXTS:
            first.create_session(name).add_decision(text) if text == "one" else first.session(name).add_decision(text)
    return first, smp.open(path / "store")


def texts(path: Path) -> dict[str, list[str]]:
    with smp.open(path / "store") as memory:
        return {session.id: [record.text for record in session.records()] for session in memory.sessions()}


def others(layout: str) -> list[str]:
    return [name for name in NAMES if name != layout]


def dying(monkeypatch: pytest.MonkeyPatch, method: str) -> Callable[[smp.Memory, str], None]:
    """A conversion whose process dies as it comes to this step of its plan."""

    def convert(memory: smp.Memory, to: str) -> None:
        with monkeypatch.context() as patch:

            def die(*_: object) -> None:
                patch.setattr("smp.store.convert._discard", die)  # the dead do not tidy up
                raise Died

            patch.setattr(Journal, method, die)
            with pytest.raises(Died):
                memory.convert(to)
        assert '"converting": true' in Path(memory.root, "config.json").read_text()

    return convert


@pytest.mark.parametrize("layout", NAMES)
def test_a_store_that_somebody_else_converted_is_not_converted_over(tmp_path: Path, layout: str) -> None:
    """It wrote a config.json of its own layout in which no session was to be seen any more."""
    for to in others(layout):
        first, second = stores(tmp_path / to, layout)
        first.convert(to).close()
        for wanted in NAMES:
            with pytest.raises(LayoutMismatch, match=f"converted to the layout {to}"):
                second.convert(wanted)
        assert texts(tmp_path / to) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_a_conversion_that_died_is_completed_before_the_next_one(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one took away the files that the committed plan was about to put in the place of the old ones."""
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "carry_out")(first, others(layout)[0])
    with monkeypatch.context() as patch:
        patch.setattr("smp.store.convert._stage_session", lambda *_: (_ for _ in ()).throw(Died))
        patch.setattr("smp.store.convert._set_flag", lambda *_: None)
        with pytest.raises((Died, LayoutMismatch)):
            second.convert(others(layout)[1])
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_a_conversion_that_died_does_not_keep_an_open_store_from_writing(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write was told to try again in a moment, until somebody opened the store anew."""
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "commit")(first, others(layout)[0])
    second.session("s").add_decision("three")
    second.archive_session("r")
    assert texts(tmp_path) == {"s": [*TEXTS, "three"]}


@pytest.mark.parametrize("layout", NAMES)
def test_a_conversion_that_died_behind_its_plan_is_carried_out_by_the_next_write(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stores(tmp_path, layout)
    dying(monkeypatch, "carry_out")(first, others(layout)[0])
    with pytest.raises(LayoutMismatch):
        second.session("s").add_decision("three")
    with pytest.raises(LayoutMismatch):
        second.archive_session("r")
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_a_session_that_a_conversion_has_not_seen_is_not_acknowledged(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began between the look at config.json and the moment in which the session got its name."""
    first, second = stores(tmp_path, layout)
    monkeypatch.setattr(second.store, "_check_name", lambda _: first.convert(others(layout)[0]))
    with pytest.raises((LayoutMismatch, LockTimeout)):
        second.create_session("t")
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}


@pytest.mark.parametrize("layout", NAMES)
def test_a_store_without_the_private_folder_of_a_dead_conversion_opens(tmp_path: Path, layout: str) -> None:
    """A copy that was made meanwhile, or a person, left `.smp` out: then `converting` was an unknown setting for ever."""
    first, second = stores(tmp_path, layout)
    first.close()
    config = tmp_path / "store/config.json"
    config.write_text(config.read_text().replace("{", '{"converting": true,', 1))
    second.session("s").change_info(project="shop")  # one that is open
    assert "converting" not in config.read_text()
    config.write_text(config.read_text().replace("{", '{"converting": true,', 1))
    assert texts(tmp_path) == {"r": TEXTS, "s": TEXTS}
    assert "converting" not in config.read_text()
