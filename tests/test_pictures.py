"""The pictures of the documents are what `docs/make_pictures.py` draws now, and harmless as SVG."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
IMAGES = sorted((ROOT / "docs").rglob("*.svg"))


def load(name: str) -> ModuleType:
    """A script of `docs/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load("make_pictures")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize("name", ["images/start.svg", "images/store.svg", "images/life.svg"])
def test_picture_is_as_the_code_draws_it_now(maker: ModuleType, name: str) -> None:
    drawn = maker.PICTURES[name]()
    kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert drawn == kept, f"docs/{name} is out of date; run: ./dev renew"


def test_every_picture_has_a_test(maker: ModuleType) -> None:
    assert set(maker.PICTURES) == {"images/start.svg", "images/store.svg", "images/life.svg"}


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_picture_is_well_formed_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert not re.search(r"<script|<image|<foreignObject|@import|url\((?!#)|href=\"(?!#)", text)


def test_recording_has_no_trace_of_this_machine_or_moment(maker: ModuleType) -> None:
    text = (ROOT / "docs" / "images" / "start.svg").read_text(encoding="utf-8")
    assert not re.search(r"smp-picture-|/tmp|/dev/shm|/home|/root", text)
    assert set(re.findall(r"20\d\d-\d\d-\d\d", text)) == {"2026-01-31"}


def test_terminal_shows_colours_and_drops_other_control_sequences() -> None:
    terminal = load("terminal_picture")
    shown = "\x1b[1mbold\x1b[0m plain \x1b[31mred\x1b[39m\x1b]0;title\x07\x1b[2J\r\nnext\r\n"
    assert list(terminal.runs_of(shown)) == [
        [terminal.Run(0, "bold", "bold"), terminal.Run(4, " plain ", ""), terminal.Run(11, "red", "red")],
        [terminal.Run(0, "next", "")],
    ]
    assert terminal.wrapped([terminal.Run(2, "abcdef", "bold")], 4) == [
        [terminal.Run(2, "ab", "bold")],
        [terminal.Run(0, "cdef", "bold")],
    ]


def test_text_of_a_terminal_is_escaped() -> None:
    terminal = load("terminal_picture")
    drawn = terminal.render([terminal.Step("smp show <b>", "<script>alert(1)</script> & more")], "A & B")
    assert ElementTree.fromstring(drawn) is not None
    assert "<script" not in drawn
