"""BMAD's own memlog script and ours, side by side: the same calls give the same bytes and the same answers."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.cli.main import main
from tests.e2e.npm_package import installed

pytestmark = pytest.mark.slow
VERSION = "6.12.0"


def scripts() -> Path:
    return installed("bmad-method", VERSION) / "src" / "scripts"


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bmad_memlog", scripts() / "memlog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def called(run: Callable[[list[str]], int], words: list[str]) -> tuple[bool, str]:
    """Whether it went well, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = run(words)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except Exception:  # the script has no messages of its own for these
            code = 1
    return code == 0, out.getvalue()


texts = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("\n\r\x0b\x0c\x1c\x85\u2028 -:()")), max_size=24
)
keys = st.one_of(st.sampled_from(["topic", "goal", "mode", "updated", "status"]), texts)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("init"), st.lists(st.tuples(keys, texts), max_size=3)),
        st.tuples(st.just("append"), texts, st.none() | texts, st.none() | texts),
        st.tuples(st.just("set"), keys, texts),
        st.tuples(st.just("write"), texts),  # a person edits the file
    ),
    max_size=7,
)


def words_of(call: tuple[object, ...], target: list[str]) -> list[str]:
    name = str(call[0])
    if name == "init":
        return [name, *target, *(f"--field={key}={value}" for key, value in call[1])]  # type: ignore[attr-defined]
    if name == "append":
        given = [
            f"--{option}={value}"
            for option, value in zip(("text", "type", "by"), call[1:], strict=True)
            if value is not None
        ]
        return [name, *target, *given]
    return [name, *target, f"--key={call[1]}", f"--value={call[2]}"]


@settings(max_examples=200, deadline=None)
@given(calls, st.booleans(), st.booleans())
def test_the_same_calls_give_the_same_bytes(
    theirs: ModuleType, done: list[tuple[object, ...]], by_path: bool, begun: bool
) -> None:
    with tempfile.TemporaryDirectory() as home:
        folders = [Path(home) / "a", Path(home) / "b"]
        for call in ([("init", [("topic", "T")])] if begun else []) + done:
            answers = []
            for folder, run in zip(folders, (theirs.main, lambda words: main(["memlog", *words])), strict=True):
                path = folder / "run" / ".memlog.md"
                if call[0] == "write":
                    if path.exists():
                        path.write_bytes(path.read_bytes() + str(call[1]).encode())
                    continue
                target = ["--path", str(path)] if by_path else ["--workspace", str(folder / "run")]
                went_well, printed = called(run, words_of(call, target))
                answers.append((went_well, printed.replace(str(folder), "")))
            assert answers[:1] == answers[1:]
            found = [(folder / "run" / ".memlog.md") for folder in folders]
            assert found[0].exists() == found[1].exists()
            if found[0].exists():
                same = [
                    re.sub(rb"\nupdated: \d{4}-\d\d-\d\dT\d\d:\d\d\n", b"\nupdated: now\n", path.read_bytes())
                    for path in found
                ]
                assert same[0] == same[1]


def test_bmads_own_tests_pass_with_ours(tmp_path: Path) -> None:
    """Their tests, with a module `memlog` that calls our command in the place of theirs."""
    (tmp_path / "tests").mkdir()
    shutil.copy(scripts() / "tests" / "test_memlog.py", tmp_path / "tests" / "test_memlog.py")
    (tmp_path / "memlog.py").write_text(
        "from smp_memory.integrations.bmad.memlog import joined as render, split\n"
        "from smp_memory.cli.main import main as smp\n"
        "def main(words):\n"
        "    code = smp(['memlog', *words])\n"
        "    if code and '--workspace' not in words and '--path' not in words:\n"
        "        raise SystemExit(code)  # as argparse does\n"
        "    return code\n"
    )
    source = str(Path(main.__code__.co_filename).parents[2])
    environ = {"PYTHONPATH": source, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "tests/test_memlog.py",
    ]
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 25
